//! `falaj serve`: the command, from its options to its end.

use crate::addresses::AddressKeeper;
use crate::api::App;
use crate::tls::Identity;
use crate::upgrade::{HandingOver, Predecessor, Sockets, beside};
use crate::{
    api, log, manager, model, page, ports, published, rights, sign_of_life, supervise, upgrade,
    watch,
};
use anyhow::{Context, Result, bail};
use falaj_control::confinement::Confinement;
use falaj_control::endpoint::{Control, ControlArgs};
use falaj_control::handler::{Handler, lock, paused_beside};
use falaj_control::host_limits;
use falaj_control::live_links::{
    live_links, no_changes, warn_of_overflow, warn_of_sharing, warn_of_spinning,
};
use falaj_control::pacing::PacingArgs;
use falaj_control::protocol::SetRequest;
use falaj_control::running::Running;
use falaj_control::sockets;
use falaj_control::summary::of_forwarder;
use falaj_control::terms::terms;
use falaj_live::adapters::Adapters;
use falaj_live::clock::{Clock, monotonic};
use falaj_live::event_loop::Woken;
use falaj_live::heap;
use falaj_live::priority::{self, Rank};
use falaj_live::signals::Signals;
use falaj_live::wiring;
use falaj_plan::standing::{Standing, standings};
use falaj_scenario::Scenario;
use falaj_sched::units::time::Time;
use falaj_terminal::file;
use falaj_terminal::standard_error;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use tracing::{error, info};

/// Arguments of `serve`.
#[derive(clap::Args)]
#[command(after_help = "\
The file is a scenario of one link with an `uplink`, and with an `adapter` for each flow:
  [link.uplink]
  rate = \"1gbit\"
  uplink = \"eth1\"
  scheduler = { kind = \"mclock\" }

  [link.uplink.flow.web]
  adapter = \"tap:web\"
  reservation = \"200mbit\"
  requires = { rate = \"200mbit\", delay = \"5ms\" }
  envelope = { rate = \"200mbit\", burst = \"30kB\" }

An adapter, and the uplink, is one of
  namespace       a network namespace created for it, with an interface falaj0: for experiments
  tap:NETNS       an interface falaj0 in an existing namespace: a name under /run/netns, or a PID
  eth1            an interface, such as one of a veth pair; eth1@NETNS in another namespace
  vhost:PATH      the network card of a virtual machine
  memif:PATH      memory shared with another program, as for `falaj bridge`

A service whose requirements cannot be guaranteed is refused, with the values that would fit.
SIGHUP reads the file again: all changes take effect at one instant, or none. SIGUSR2 upgrades to
the program that is installed in its place by now, as --upgrade does. SIGTERM and Ctrl-C end the
service.

Examples:
  falaj plan fits service.toml
  falaj serve service.toml
  falaj serve service.toml --api /run/falaj.http
  curl --unix-socket /run/falaj.http http://falaj/v1/adapters
  falaj serve service.toml --upgrade
  falaj serve service.toml --tcp 127.0.0.1:7700 --token-file token
  falaj serve service.toml --tcp 0.0.0.0:7700 --token-file token --tls-cert cert.pem --tls-key \
key.pem")]
pub struct Args {
    /// The service: a scenario with adapters.
    pub(crate) file: PathBuf,
    /// Socket of the HTTP API, for this user alone [default: beside the control socket, *.http].
    #[arg(long, value_name = "PATH")]
    api: Option<PathBuf>,
    /// Serve the API over TCP, too; needs --token-file, and --tls-cert unless the address is a
    /// loopback address.
    #[arg(long, value_name = "ADDRESS:PORT",
        value_parser = falaj_terminal::arguments::socket_address, requires = "token_file")]
    tcp: Option<std::net::SocketAddr>,
    /// File with the token that each request over TCP must carry.
    #[arg(long, value_name = "FILE", requires = "tcp")]
    token_file: Option<PathBuf>,
    /// Encrypt the API over TCP (TLS 1.2 or 1.3), with this file's certificate and its chain, in
    /// PEM.
    #[arg(long, value_name = "FILE", requires_all = ["tcp", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Keep the interfaces that the service creates in existing namespaces when it ends or is
    /// killed
    ///
    /// Until the service is started again and uses them, they have no carrier, so that no packet
    /// passes.
    #[arg(long)]
    keep: bool,
    /// File in which the scenario is saved with all changes. If it exists, it is used instead of
    /// FILE, until FILE is read again.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Directory that stays accessible to the service after its start
    ///
    /// The directories of all files named here and in the scenario stay accessible anyway. This
    /// option is for sockets of virtual machines, files and libraries that are added later. The
    /// directory must exist at the start. May be given again; with `/`, the service may read
    /// everything.
    #[arg(long, value_name = "DIRECTORY")]
    access: Vec<PathBuf>,
    /// Connect the interfaces by a kernel bridge of this name if the service is killed or fails
    ///
    /// The bridge forwards packets after at most a second, until this command has restarted the
    /// service. Only for existing interfaces, such as `eth1`.
    #[arg(long, value_name = "BRIDGE")]
    fail_open: Option<String>,
    #[command(flatten)]
    pace: PacingArgs,
    #[command(flatten)]
    control: ControlArgs,
    /// Take over from a running service of this file, or from the service whose control socket
    /// --control names
    ///
    /// The new service takes over the interfaces, sockets, packets and counters of the old one,
    /// which then ends, or continues if anything fails. No packet is lost. Adapters must be
    /// interfaces or `tap:NETNS`.
    #[arg(long, conflicts_with = "fail_open", help_heading = "Results and control")]
    upgrade: bool,
    /// At the end, print the link's statistics to standard error.
    #[arg(long, help_heading = "Results and control")]
    stats: bool,
    /// Level of the log on standard error: each line ends with its values as KEY=VALUE; for a
    /// journal it begins with its level.
    #[arg(long, value_enum, default_value_t = log::LogLevel::Info, value_name = "LEVEL",
        help_heading = "Results and control")]
    log: log::LogLevel,
}

/// Runs `falaj serve`.
///
/// # Errors
/// The input is invalid, or this machine cannot run the service.
pub fn main(args: &Args) -> Result<ExitCode> {
    log::begin(args.log);
    if let Some(missing) = args.access.iter().find(|directory| !directory.is_dir()) {
        bail!(
            "--access {}: no directory is there: make it before the service starts, or name the \
             one above it",
            missing.display()
        );
    }
    if let Some(bridge) = &args.fail_open {
        return supervise::main(args, bridge);
    }
    heap::one_for_all();
    let asked = args.upgrade.then(|| Predecessor::ask(args.control.given()?, &args.file));
    let mut before = asked.transpose()?;
    let (name, text) = match &before {
        Some(before) => (args.file.display().to_string(), before.text.clone()),
        None => text(args)?,
    };
    let scenario = file::parse(&text, &name)?;
    fit(&scenario)?;
    let guaranteed = standings(&scenario)?;
    admit(&guaranteed)?;
    let token = args.token_file.as_deref().map(api::token).transpose()?;
    let identity = args.tls_cert.as_deref().zip(args.tls_key.as_deref());
    if let Some(address) =
        args.tcp.filter(|address| !address.ip().is_loopback() && identity.is_none())
    {
        bail!(
            "--tcp {address}: beyond this host the token would be there for all to read: give a \
             certificate by --tls-cert and --tls-key, or an address of this host itself, such as \
             127.0.0.1:{}",
            address.port()
        );
    }
    let identity =
        identity.map(|(certificate, key)| Identity::read(certificate, key)).transpose()?;
    let encrypted = identity.is_some();
    let secrets = Secrets { token: args.token_file.clone(), identity: identity.clone() };
    scenario.links.iter().for_each(warn_of_spinning);
    host_limits::warn(&scenario.links);
    let place = match &before {
        Some(before) => before.control.clone(),
        None => args
            .control
            .place()?
            .context("a service needs a control socket: name a place for it by --control")?,
    };
    let sockets = before.as_mut().and_then(|before| before.sockets.take());
    let http = args.api.clone().unwrap_or_else(|| match &sockets {
        Some(sockets) => sockets.api_path.clone(),
        None => place.with_extension("http"),
    });
    // The TCP address is checked now: after it has dropped its capabilities, the service cannot see
    // which process has the address.
    if before.is_none() {
        api::check_free(args.tcp)?;
    }
    let confinement = confinement(args, &scenario, &text, &[&place, &http, &beside(&place)]);
    let give_up = || {
        // The scheduling class and the locked memory of the link's thread need privileges, so they
        // are set up before the privileges are dropped.
        priority::be_punctual(Rank::Link);
        rights::give_up(&confinement)
    };
    let inherited = before.as_mut().map(|before| std::mem::take(&mut before.ports));
    let mut opened = ports::open(&scenario, args.keep, inherited.unwrap_or_default(), give_up)?;
    let killed = if before.is_none() { sign_of_life::last(&place) } else { None };
    let mut made = MadeSockets::default();
    let (listeners, sockets) = listen(args, sockets, (&place, &http), identity, &mut made)?;
    let tcp = listeners.tcp();

    let mut signals = Signals::take()?;
    standard_error::detach()?;
    let clock = Clock::from_zero(before.as_ref().map_or_else(monotonic, |before| before.zero));
    let uplink = opened.take_uplink()?;
    let mut forwarder = wiring::to_adapters(
        &scenario.network(),
        opened.adapters(),
        uplink,
        clock,
        args.pace.options(),
    )?;
    forwarder.set_guarantees(terms(&scenario, &guaranteed));
    let about = args.file.display().to_string();
    let running = Running {
        command: "serve",
        about,
        file: args.file.clone(),
        scenario: Arc::new(scenario.clone()),
        text,
        recording: false,
        standings: Some(Arc::new(guaranteed)),
    };
    let mut control = Control::at(sockets.control.try_clone()?, &place, running)?;
    let (beside, preparer) = opened.changing()?;
    control.change_with(beside, preparer);
    let handler = control.handler().context("the control socket is open")?;
    let mut addresses = None;
    if let Some(state) = &args.state {
        let state = std::path::absolute(state).context("--state")?;
        let paused = pause_again(&state, opened.adapters())?;
        let (to_ask, adapters) = (Arc::clone(&handler), opened.adapters());
        addresses = Some(AddressKeeper::begin(&state, &scenario, adapters, to_ask)?);
        lock(&handler).keep_in(state, paused);
    }
    // The takeover must come before the first request to the link, because the link does not answer
    // requests yet.
    if let Some(before) = before {
        let paused = before.take(&mut forwarder, opened.adapters())?;
        opened.set_left(false);
        lock(&handler).are_paused(paused);
    }
    control.begin()?;
    let told = model::Service::new(&args.file, opened.processes());
    let published = published::Published::new();
    let watching =
        watch::Watching::begin(Arc::clone(&handler), Arc::clone(&published), place.clone())?;
    let app = App::new(Arc::clone(&handler), published, told, token.clone());
    let serving = api::Serving::begin(listeners, Arc::clone(&app))?;
    let reload = reloader(Arc::clone(&handler), args.file.clone(), app, secrets)?;
    let handing_over = HandingOver::begin(handler, sockets, &place)?;
    forwarder.tell_of_overflow();
    forwarder.log_occupancy();
    opened.tell();
    note!("serving {}; API at {}; Ctrl-C ends it", args.file.display(), http.display());
    if let Some(seen) = killed {
        sign_of_life::tell(seen, std::env::var_os(upgrade::SUPERVISED).is_some());
    }
    if let Some(address) = tcp {
        page::tell(address, encrypted, token.as_deref());
    }
    made.keep();
    manager::ready(&format!("API at {}", http.display()));
    loop {
        let others = [signals.as_fd(), opened.changes()];
        let others: Vec<BorrowedFd<'_>> = others.into_iter().chain(control.as_fd()).collect();
        match forwarder.run(Time::NEVER, &others)? {
            Woken::Readable(0) => match signals.next_of_any()? {
                Some(nix::libc::SIGHUP) => {
                    // The receiver is gone only if its thread panicked, which was reported.
                    let _ = reload.send(SignalRequest::Reload);
                }
                Some(nix::libc::SIGUSR2) => {
                    let _ = reload.send(SignalRequest::Upgrade);
                }
                Some(nix::libc::SIGUSR1) | None => {}
                Some(_) => break,
            },
            Woken::Readable(1) => opened.look(),
            Woken::Readable(_) => {
                control.serve(&mut forwarder)?;
                if control.is_handed_over() {
                    break;
                }
            }
            Woken::Overflow(pipe, flow) => warn_of_overflow(control.links(), pipe, flow),
            Woken::Shared { pipe, flow, short } => {
                warn_of_sharing(control.links(), pipe, flow, short);
            }
            Woken::Deadline => {}
        }
    }
    let goes_on = control.is_handed_over();
    opened.set_left(goes_on);
    if !goes_on {
        manager::stopping();
    }
    let summary = of_forwarder(control.scenario(), &forwarder, opened.unread())
        .of_adapters(&opened.adapters().counts());
    // From here on no requests are answered, so that no thread waits for an answer.
    drop(control);
    drop(reload);
    handing_over.end();
    serving.end(goes_on);
    watching.end();
    if let Some(addresses) = addresses {
        addresses.end(opened.adapters());
    }
    if args.stats {
        summary.tell();
    }
    drop(forwarder);
    Ok(ExitCode::SUCCESS)
}

/// Returns the text of the scenario to be served, and the name of its file. If there is a state
/// file, it is used instead of the scenario file.
fn text(args: &Args) -> Result<(String, String)> {
    let kept = args.state.as_deref().filter(|state| state.exists());
    if let Some(state) = kept {
        note!(
            "{} has changes made before, so it is used instead of {}",
            state.display(),
            args.file.display()
        );
    }
    file::text(kept.unwrap_or(&args.file))
}

/// Sockets created by this start; they are removed if the start fails.
#[derive(Default)]
struct MadeSockets(Vec<PathBuf>);

impl MadeSockets {
    /// Keeps the sockets: from now on the service removes them at its end.
    fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for MadeSockets {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Opens the control socket and the API's sockets, or takes over the sockets of another process.
/// Also returns the copies that the next process needs.
fn listen(
    args: &Args,
    before: Option<Sockets>,
    (place, http): (&Path, &Path),
    identity: Option<Arc<Identity>>,
    made: &mut MadeSockets,
) -> Result<(api::Listeners, Sockets)> {
    let (control, upgrade, listeners) = match before {
        Some(Sockets { control, upgrade, api, api_path, tcp }) if api_path == http => {
            let listeners = api::Listeners::of_others(api, api_path, tcp, args.tcp, identity)?;
            (control, upgrade, listeners)
        }
        Some(Sockets { control, upgrade, .. }) => {
            let listeners = api::listen(http, args.tcp, identity)?;
            made.0.push(http.to_owned());
            (control, upgrade, listeners)
        }
        None => {
            let control = sockets::bind(place)
                .with_context(|| format!("the control socket {}", place.display()))?;
            made.0.push(place.to_owned());
            let upgrade = upgrade::listen(place)?;
            made.0.push(beside(place));
            let listeners = api::listen(http, args.tcp, identity)?;
            made.0.push(http.to_owned());
            (control, upgrade, listeners)
        }
    };
    let (api, tcp) = listeners.copies()?;
    let api_path = listeners.path().to_owned();
    Ok((listeners, Sockets { control, upgrade, api, api_path, tcp }))
}

/// Returns the files that the service uses after its start, and the port at which it listens.
fn confinement(args: &Args, scenario: &Scenario, text: &str, sockets: &[&Path]) -> Confinement {
    let mut confinement = Confinement::new();
    confinement.read(&args.file);
    let name = args.file.display().to_string();
    let named = falaj_scenario::files_named(text, &name);
    named.iter().for_each(|file| confinement.read(file));
    let secrets = [&args.token_file, &args.tls_cert, &args.tls_key];
    secrets.into_iter().flatten().for_each(|file| confinement.read(file));
    if let Some(state) = &args.state {
        confinement.replace("--state", state);
    }
    sockets.iter().for_each(|path| confinement.socket(path));
    ports::sockets(scenario).iter().for_each(|path| confinement.socket(path));
    args.access.iter().for_each(|directory| confinement.directory(directory));
    if let Some(address) = args.tcp {
        confinement.listen(address.port());
    }
    confinement
}

/// Pauses the adapters that were paused when the service ended, if they still exist. Returns their
/// names.
fn pause_again(state: &Path, adapters: &Adapters) -> Result<BTreeSet<String>> {
    let file = paused_beside(state);
    let text = match std::fs::read_to_string(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        text => text.with_context(|| file.display().to_string())?,
    };
    let mut paused = BTreeSet::new();
    for name in text.lines() {
        if adapters.pause(name, true).with_context(|| format!("adapter {name}"))? {
            note!("adapter {name} stays paused, as before");
            paused.insert(name.to_owned());
        }
    }
    Ok(paused)
}

/// Checks that the scenario is valid for a service.
fn fit(scenario: &Scenario) -> Result<()> {
    no_changes(scenario)?;
    let links = live_links(scenario)?;
    let [link] = links else { bail!("a service has one link; this file has {}", links.len()) };
    if scenario.adapters().is_empty() {
        bail!("no flow of link {} has an `adapter`; `falaj serve --help` shows a file", link.name);
    }
    if !scenario.hosts.is_empty() || !scenario.rules.is_empty() {
        bail!("a service has adapters instead of [host.NAME] and [[rule]]: leave them out");
    }
    if [&link.up, &link.down].iter().any(|d| d.pipe.masks.link.is_some()) {
        bail!(
            "link {} has `mask`, and a service has one link: give `mask` to the flows of its adapters",
            link.name
        );
    }
    Ok(())
}

/// Prints the guarantees that cannot be given. Returns an error if there are any.
fn admit(guaranteed: &[Vec<Standing>]) -> Result<()> {
    let refused: Vec<_> = guaranteed
        .iter()
        .flatten()
        .filter_map(|flow| Some((&flow.flow, flow.refused.as_ref()?)))
        .collect();
    let mut told = Vec::new();
    for (flow, (what, help)) in &refused {
        let line = format!("{flow} {what}; {help}");
        // The same message for both directions is printed once.
        if !told.contains(&line) {
            eprintln!("error: {line}");
            told.push(line);
        }
    }
    if told.is_empty() {
        Ok(())
    } else {
        bail!("the link cannot give all these guarantees: `falaj plan fits` shows which ones")
    }
}

/// The token and the TLS identity of the service.
struct Secrets {
    token: Option<PathBuf>,
    identity: Option<Arc<Identity>>,
}

impl Secrets {
    /// Reads the token and the certificate again. If one of them cannot be read, the old one stays
    /// in use.
    fn read_again(&self, app: &App) {
        let said = |error: anyhow::Error| error!("{error:#}; the old one stays in use");
        if let Some(file) = &self.token {
            api::token(file).map_or_else(said, |token| app.set_token(token));
        }
        if let Some(identity) = &self.identity {
            identity.read_again().unwrap_or_else(said);
        }
    }
}

/// A request that arrived as a signal.
enum SignalRequest {
    Reload,
    /// Start a new process that takes the service over.
    Upgrade,
}

/// Starts the thread that handles signals. The thread reads the scenario, the token and the
/// certificate again, or starts a new process that takes over.
fn reloader(
    handler: Arc<Mutex<Handler>>,
    file: PathBuf,
    app: Arc<App>,
    secrets: Secrets,
) -> Result<Sender<SignalRequest>> {
    let (send, told) = channel();
    let work = move || {
        told.iter().for_each(|told| match told {
            SignalRequest::Reload => {
                manager::reloading();
                secrets.read_again(&app);
                reload(&handler, &file);
                manager::ready("read again");
            }
            SignalRequest::Upgrade => match lock(&handler).start_successor() {
                Ok(()) => info!("a new process is started to take the service over"),
                Err(refusal) => error!("{}; nothing is changed", refusal.what),
            },
        });
    };
    std::thread::Builder::new().name("reload".into()).spawn(work)?;
    Ok(send)
}

fn reload(handler: &Mutex<Handler>, file: &Path) {
    let name = file.display();
    let read = falaj_scenario::bytes_of(file).map_err(|error| format!("{name}: {error}"));
    let text = match read.and_then(|bytes| falaj_scenario::text_of(bytes, &name.to_string())) {
        Ok(text) => text,
        Err(error) => return error!("{error}; nothing is changed"),
    };
    let wanted = SetRequest { toml: Some(text), ..SetRequest::default() };
    let made = falaj_control::handler::set(handler, &wanted);
    let (remarks, line) = match made {
        Ok(made) if made.changed.is_empty() => {
            (made.remarks, Ok(format!("{name} was read again: nothing has changed")))
        }
        Ok(made) => {
            (made.remarks, Ok(format!("{name} was read again: {}", made.changed.join(", "))))
        }
        Err(refusal) => {
            (refusal.remarks, Err(format!("{name}: {}; nothing is changed", refusal.what)))
        }
    };
    for remark in remarks {
        let words = std::iter::once(&remark.title)
            .chain(&remark.help)
            .map(String::as_str)
            .collect::<Vec<_>>();
        note!("{}: {}", remark.severity, words.join("; "));
    }
    match line {
        Ok(line) => info!("{line}"),
        Err(line) => error!("{line}"),
    }
}
