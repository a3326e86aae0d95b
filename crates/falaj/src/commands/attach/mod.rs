//! `falaj attach`: inserts an emulated link at interfaces that are in use; and `falaj detach`,
//! which removes it.

mod all_of;
mod target;

use crate::commands::forwarding::{ForwardingArgs, LinkEnds, forward};
use anyhow::{Context, Result, bail, ensure};
use falaj_control::client::{Client, running};
use falaj_live::backend::nfqueue::attached::{Attached, Target};
use falaj_live::signals::{Signal, end};
use falaj_live::{host, loops};
use falaj_scenario::Scenario;
use falaj_scenario::keys::{MTU_MAX, MTU_MIN};
use falaj_terminal::file;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `attach`.
#[derive(clap::Args)]
#[command(after_help = "\
TARGET is the interface, process or container whose packets pass the link, at the firewall's hooks:
  eth0              an interface of this host
  eth0@NETNS        one of another network namespace: a name under /run/netns, or a process there
  4711              all interfaces of a process's namespace, such as a container's
  docker:NAME       those of a container, by name or ID; also podman:NAME, cri:NAME (Kubernetes)
  NAME              an interface, or else a container of docker, podman or crictl
Up is the direction of packets that the target sends, down that of packets that it receives.
Addresses, routes and connections stay, and packets other than IP (ARP) pass unchanged. It needs
CAP_NET_ADMIN in the namespace: root, or a namespace of your own.

Ctrl-C, SIGTERM or `falaj detach` ends it, and queued packets are sent at once. The kernel removes
the rules with the process, even after SIGKILL. `falaj set` changes the link while it runs.

Examples:
  falaj attach web --delay 40ms --loss 1%
  falaj attach eth0 --down-rate 20mbit --up-rate 2mbit --only 'tcp dport 443 or sport 443'
  falaj attach docker:db examples/tenants.toml --stats
  falaj attach --all-of shop --delay 5ms")]
pub(crate) struct Args {
    /// Interface, process or container; with --all-of, the scenario, if any.
    #[arg(required_unless_present = "all_of")]
    target: Option<String>,
    /// Attach to each container of a Compose project, with a link for each.
    #[arg(long, value_name = "PROJECT")]
    all_of: Option<String>,
    /// Only packets that match pass the link; all others pass unchanged.
    #[arg(long, value_name = "MATCH")]
    only: Option<String>,
    /// Allow the interface that carries this SSH session.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    forwarding: ForwardingArgs,
}

/// Arguments of `detach`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  falaj detach
  falaj detach web")]
pub(crate) struct DetachArgs {
    /// The target, as given to `attach`; optional if there is only one.
    target: Option<String>,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    args.forwarding.recording.take_standard_output()?;
    if let Some(project) = &args.all_of {
        return all_of::main(project);
    }
    let about = args.target.as_deref().context("there is a target")?;
    let target = target::parse(about)?;
    if !args.yes {
        ssh_stays(&target)?;
    }
    if target.interface.is_none()
        && let Some(why) = loops::within(target.namespace.as_deref())
    {
        bail!("{why}");
    }
    let attached = Attached::open(&target).with_context(|| format!("cannot attach to {about}"))?;
    let scenario = args.forwarding.link.scenario(attached.mtu.clamp(MTU_MIN, MTU_MAX))?;
    let scenario = match &args.only {
        Some(only) => only_those(scenario, only)?,
        None => scenario,
    };
    let interfaces = attached.interfaces.join(", ");
    let [up, down] = &attached.queues;
    let ends = LinkEnds {
        command: "attach",
        about: about.to_owned(),
        names: [about.to_owned(), about.to_owned()],
        backends: [up, down],
        mtus: [Some(attached.mtu); 2],
        watched: attached.ended().into_iter().collect(),
        began: format!(
            "attached to {about} ({interfaces}); Ctrl-C or `falaj detach {about}` ends it"
        ),
    };
    forward(&args.forwarding, scenario, &ends, |_| {
        note!("{about} no longer exists");
        ControlFlow::Break(())
    })
}

/// Returns an error if the target is the interface that carries this SSH session: a slow link there
/// would slow down the session, by which alone the user can remove the link.
fn ssh_stays(target: &Target) -> Result<()> {
    let Ok(connection) = std::env::var("SSH_CONNECTION") else { return Ok(()) };
    let address = connection.split(' ').nth(2).and_then(|address| address.parse::<IpAddr>().ok());
    let carries = address.and_then(host::interface_of);
    if target.namespace.is_none() && carries.is_some() && carries == target.interface {
        bail!(
            "{} carries this SSH session: pass --yes if the session is to pass the link too, or \
             exclude it by --only 'not tcp sport 22'",
            carries.unwrap_or_default()
        );
    }
    Ok(())
}

/// Returns the scenario in which packets that match `only` pass the link, and all others pass
/// untouched.
fn only_those((scenario, text): (Scenario, String), only: &str) -> Result<(Scenario, String)> {
    let [link] = &scenario.links[..] else {
        bail!(
            "--only needs a scenario with one link; with several links, the scenario's rules \
             select the links of each packet"
        )
    };
    ensure!(scenario.rules.is_empty(), "--only cannot be used with a scenario that has rules");
    let quoted = |text: &str| toml_edit::value(text).to_string();
    let text = format!(
        "{text}\n[[rule]]\nname = \"only\"\nmatch = {}\nto = {}\n\n[[rule]]\nname = \"others\"\nto = \"pass\"\n",
        quoted(only),
        quoted(&link.name)
    );
    Ok((file::parse(&text, "--only")?, text))
}

/// Ends an `attach`, and waits until its process has ended.
pub(crate) fn detach(args: &DetachArgs) -> Result<ExitCode> {
    /// Longest wait for the process to end. It ends at once unless the machine is very busy.
    const PATIENCE: Duration = Duration::from_secs(10);
    let mut attached: Vec<Client> = running("attach");
    let names = attached.iter().map(|client| client.hello.about.clone()).collect::<Vec<_>>();
    if let Some(target) = &args.target {
        attached.retain(|client| client.hello.about == *target);
    }
    let [client] = &attached[..] else {
        match (&args.target, names.is_empty()) {
            (_, true) => bail!("this user has no `falaj attach` running"),
            (Some(target), _) => bail!(
                "no link is attached to {target}; links are attached to \
                                        {}",
                names.join(", ")
            ),
            (None, _) => bail!("name one of several targets: {}", names.join(", ")),
        }
    };
    let process = client.hello.pid;
    let ended = end(process, Signal::SIGTERM, PATIENCE);
    let ended = ended
        .with_context(|| format!("cannot end process {process}, which runs `falaj attach`"))?;
    ensure!(ended, "process {process} does not end");
    Ok(ExitCode::SUCCESS)
}
