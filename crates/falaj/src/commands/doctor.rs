//! `falaj doctor`: reports which backends work on this host, how fast the host is, and which rates
//! and delays it can emulate accurately.
//!
//! Everything is measured in the way in which it is used: datagrams and a TCP stream between two
//! namespaces through a link, with falaj's own sources. A ping is not enough, because it passes
//! where TCP does not.

use anyhow::{Context, Result};
use falaj_control::confinement;
use falaj_control::host_limits;
use falaj_control::host_limits::{FULL, HostLimits};
use falaj_experiment::measure::{Measured, measure};
use falaj_experiment::tcp;
use falaj_guest::{boot, kernel};
use falaj_live::backend::xdp;
use falaj_live::error::Error;
use falaj_live::event_loop::Options;
use falaj_live::priority::{Rank, RtReserve, be_punctual, kept_for_others};
use falaj_live::{host, nat, sandbox};
use falaj_sched::units::time::Span;
use falaj_terminal::{file, text};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;

/// Arguments of `doctor`.
#[derive(clap::Args)]
#[command(after_help = "\
It takes a few seconds and needs an otherwise idle machine, since other load changes its
measurements.

Exit status: 0 if packets can be forwarded between namespaces here; 1 if they cannot. Then
`falaj run` needs --virtual-time, and `traffic`, `compare` and `demo` use loopback sockets.

Example:
  falaj doctor --json | jq .limits")]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Check features only, without measurements.
    #[arg(long)]
    no_measuring: bool,
}

/// A facility of the host that falaj can use.
#[derive(Serialize)]
struct Finding {
    what: &'static str,
    works: bool,
    /// Its use; if it does not work, the reason and the cure.
    why: String,
}

impl Finding {
    fn new<E: std::fmt::Display>(
        what: &'static str,
        found: Result<(), E>,
        good_for: &str,
    ) -> Finding {
        let works = found.is_ok();
        Finding {
            what,
            works,
            why: found.map_or_else(|error| error.to_string(), |()| good_for.to_owned()),
        }
    }

    /// Reports whether a program is installed.
    fn program(name: &'static str, package: &str, good_for: &str) -> Finding {
        let found =
            nat::find(name).map(drop).ok_or(format!("not installed: apt install {package}"));
        Finding::new(name, found, good_for)
    }
}

/// Measured limits of this host: latency, release error and throughput.
#[derive(Serialize)]
struct Floor {
    /// `namespaces` or `loopback`.
    over: &'static str,
    /// Delay in ns from socket to socket, through a link that adds no delay.
    empty_link_p50_ns: Option<u64>,
    empty_link_p99_ns: Option<u64>,
    /// Release error in ns: how late packets are delivered after they are due.
    release_error_p50_ns: Option<u64>,
    release_error_p99_ns: Option<u64>,
    /// Packets of 74 bytes delivered per second, sent one by one through the link from socket to
    /// socket; each wakes the next process on its path.
    delivered_per_s: f64,
    /// CPU time in ns that the link spends on one such packet, and the number of such packets that
    /// one processor can carry per second.
    packet_cost_ns: f64,
    packets_per_s: f64,
    /// Rate in bit/s of one TCP stream through an unlimited link; `None` if namespaces do not work.
    tcp_bits_per_s: Option<f64>,
}

/// Path of the device for TAP interfaces.
const TUN: &str = "/dev/net/tun";
/// Device number as in `st_rdev`: major 10, minor 200.
const TUN_NUMBER: u64 = 10 << 8 | 200;
/// Size in bytes of a small packet: the smallest of `imix`.
const SMALL: f64 = 74.0;
/// Locked memory in bytes that suffices for every use in falaj.
const MEMORY: u64 = 64 << 20;

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let namespaces = sandbox::available();
    let are_there = namespaces.is_ok();
    let mut findings = asked(namespaces);
    let floor = if args.no_measuring { None } else { Some(floor(are_there)?) };
    // This check comes last, because the thread keeps the priority that this check sets.
    findings.push(fifo());
    let limits = floor.as_ref().map(limits);
    let kept = limits
        .as_ref()
        .filter(|_| are_there)
        .map(host_limits::keep)
        .transpose()
        .map(Option::flatten);
    if args.json {
        let json = serde_json::json!({ "backends": findings, "floor": floor, "limits": limits });
        say!("{}", serde_json::to_string_pretty(&json)?);
    } else {
        print(&findings, floor.as_ref(), limits.as_ref());
    }
    match kept {
        Ok(Some(place)) => {
            note!(
                "the limits are saved in {}: scenarios that exceed them run with a warning",
                place.display()
            );
        }
        Ok(None) => {}
        Err(error) => note!("warning: the limits could not be saved for later runs: {error:#}"),
    }
    Ok(ExitCode::from(u8::from(!are_there)))
}

/// Opens the device for TAP interfaces, in the same way as the code that creates such interfaces.
fn tun() -> Result<(), String> {
    let opened = File::options().read(true).write(true).open(TUN).and_then(|device| {
        // The path may hold another device, as in a container.
        match device.metadata()?.rdev() {
            TUN_NUMBER => Ok(()),
            _ => Err(io::Error::other("it is another device")),
        }
    });
    opened.map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => format!("no permission to open {TUN}: chmod 666 {TUN}"),
        ErrorKind::NotFound => {
            format!("there is no {TUN}: modprobe tun, or give it to the container")
        }
        _ => format!("{TUN}: {error}"),
    })
}

/// Returns the findings that need no measurement. `namespaces` is the result of trying to carry
/// packets between namespaces.
fn asked(namespaces: Result<(), Error>) -> Vec<Finding> {
    let memory = match host::lockable_memory() {
        Ok(Some(bytes)) if bytes < MEMORY => {
            Err(format!("{} may be locked: ulimit -l unlimited", text::bytes(bytes as f64)))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    };
    let tun = tun();
    // Root can open the device whatever its mode.
    let others = match fs::metadata(TUN) {
        Ok(file) if tun.is_ok() && file.mode() & 0o006 != 0o006 => {
            format!(", by TAP once others may open it: chmod 666 {TUN}")
        }
        _ => String::new(),
    };
    let by_tap = match (&namespaces, &tun) {
        (Ok(()), Err(why)) => Err(format!("{why}; packet sockets take its place")),
        (Err(_), _) => Err("it needs namespaces, which do not work here".to_owned()),
        (Ok(()), Ok(())) => Ok(()),
    };
    let way_out = |name: &'static str, package, good_for| {
        let found = nat::find(name).ok_or(format!("not installed: apt install {package}"));
        Finding::new(name, found.and_then(|_| tun.clone()), good_for)
    };
    vec![
        Finding::new(
            "namespaces",
            namespaces,
            "`falaj run`; without them `traffic`, `compare` and `demo` use loopback sockets",
        ),
        Finding::new(
            "TAP between namespaces",
            by_tap,
            "a packet costs less than with packet sockets",
        ),
        Finding::new(
            "user namespaces",
            host::user_namespaces(),
            &format!("the same without root{others}"),
        ),
        Finding::new(
            "AF_PACKET",
            host::packet_sockets().map_err(|error| format!("{error}: it needs root (CAP_NET_RAW)")),
            "`falaj bridge`; without TAP, the other commands too",
        ),
        Finding::new(
            "AF_XDP",
            xdp::available(),
            "`falaj bridge --via xdp`: small packets cost less",
        ),
        Finding::new(
            "vhost-user",
            if cfg!(feature = "vhost-user") {
                Ok(())
            } else {
                Err("built without (cargo feature `vhost-user`)")
            },
            "`falaj bridge vhost:PATH …`: network cards of virtual machines, without privilege",
        ),
        Finding::new(
            "NFQUEUE",
            host::queues().map_err(|error| format!("{error}: it needs root (CAP_NET_ADMIN)")),
            "`falaj bridge nfqueue:N nfqueue:M`: packets whose route cannot be changed",
        ),
        Finding::new(
            "kernel bridge",
            tcp::kernel_bridge(),
            "`falaj bench tcp` compares a link with it",
        ),
        Finding::new(
            "relay",
            Ok::<_, String>(()),
            "`falaj relay`: sockets alone, without privilege",
        ),
        Finding::new(
            "virtual time",
            kernel::find(None).and_then(|_| boot::check_ptrace()),
            "`--virtual-time` of `run`, `traffic`, `compare` and `demo`: exact, without privilege",
        ),
        Finding::new(
            "Landlock",
            confinement::available(),
            "`falaj serve` gives up access to files that it does not need",
        ),
        way_out("pasta", "passt", "internet access without root (`run --internet pasta`)"),
        way_out(
            "slirp4netns",
            "slirp4netns",
            "internet access without root (`run --internet slirp4netns`)",
        ),
        Finding::program(
            "nft",
            "nftables",
            "internet access through the host, for root (`run --internet host`)",
        ),
        Finding::program("iptables", "iptables", "the same without nft"),
        Finding::new("locked memory", memory, "enough for falaj"),
    ]
}

fn fifo() -> Finding {
    let allowed = be_punctual(Rank::Link).then_some(());
    let allowed = allowed.ok_or(
        "not allowed: run as root, or ulimit -r 10; packets are late while other programs compute",
    );
    let good_for = "forwarding has priority over other programs";
    let good_for = match kept_for_others() {
        Some(RtReserve { part, of }) => format!(
            "{good_for}; the kernel keeps {part} of each {of} for those programs \
             (kernel.sched_rt_runtime_us), and a link that spins leaves it to them in pieces"
        ),
        None => format!(
            "{good_for}, and a link that spins leaves those programs no time \
             (kernel.sched_rt_runtime_us)"
        ),
    };
    Finding::new("SCHED_FIFO", allowed, &good_for)
}

/// Measures a constant-rate source through a link for one second.
fn sent(what: &'static str, rate: &str, size: &str, delay: &str) -> Result<Measured> {
    let text = format!(
        "[link.host]\nrate = \"unlimited\"\ndelay = \"{delay}\"\nmtu = \"1500B\"\n\
         [link.host.flow.all]\nmatch = \"any\"\nqueue = \"1000p\"\n\
         [traffic.all]\nflow = \"all\"\nmodel = \"cbr\"\nrate = \"{rate}\"\nsize = \"{size}\"\n\
         [run]\nduration = \"1s\"\n"
    );
    measure(&file::parse(&text, "falaj doctor")?, Options::default(), what)
}

fn floor(tap: bool) -> Result<Floor> {
    // At 1000 packets per second, each packet arrives while the link sleeps.
    let empty = sent("an empty link", "1600kbit", "200B", "0s")?;
    let delayed = sent("release times", "1600kbit", "200B", "5ms")?;
    let many = sent("small packets", "1gbit", "74B", "0s")?;
    let tcp = if tap {
        note!("a TCP stream");
        Some(tcp::through_a_link(1)?)
    } else {
        None
    };
    let only = |measured: &Measured| {
        measured.flows.first().and_then(|up| up.first()).map(|flow| flow.received.clone())
    };
    let received = only(&empty).context("nothing was measured")?;
    let many_forwarded: u64 =
        many.flows.iter().flatten().map(|flow| flow.link.release_error.count()).sum();
    let spent = many.thread.usage.cpu.0.saturating_sub(many.thread.awake.spun.0);
    let packet_cost_ns = spent.max(1) as f64 / many_forwarded.max(1) as f64;
    let release = &delayed.flows[0][0].link.release_error;
    Ok(Floor {
        over: empty.over,
        empty_link_p50_ns: received.p50,
        empty_link_p99_ns: received.p99,
        release_error_p50_ns: release.quantile(0.5).map(|span| span.0),
        release_error_p99_ns: release.quantile(0.99).map(|span| span.0),
        delivered_per_s: only(&many).map_or(0.0, |received| received.datagrams as f64),
        packet_cost_ns,
        packets_per_s: 1e9 / packet_cost_ns,
        tcp_bits_per_s: tcp,
    })
}

fn limits(floor: &Floor) -> HostLimits {
    HostLimits {
        rate_bits_per_s: floor.packets_per_s * FULL * 8.0,
        rate_of_small_bits_per_s: floor.packets_per_s * SMALL * 8.0,
        delay_ns: floor.release_error_p99_ns.map(|error| error.saturating_mul(10)),
    }
}

fn print(findings: &[Finding], floor: Option<&Floor>, limits: Option<&HostLimits>) {
    let width = findings.iter().map(|f| f.what.len()).max().unwrap_or(0);
    for Finding { what, works, why } in findings {
        say!("{what:width$}  {:3}  {why}", if *works { "yes" } else { "no" });
    }
    let (Some(floor), Some(limits)) = (floor, limits) else { return };
    let nanos = |ns: Option<u64>| text::span(ns.map(Span));
    let (p50, p99) = (nanos(floor.empty_link_p50_ns), nanos(floor.empty_link_p99_ns));
    say!("\nmeasured over {}, under the present load of this machine:", floor.over);
    say!("  through an empty link, socket to socket: {p50} (p50), {p99} (p99)");
    let (p50, p99) = (nanos(floor.release_error_p50_ns), nanos(floor.release_error_p99_ns));
    say!("  release error, at 1000 packets a second: {p50} (p50), {p99} (p99)");
    say!(
        "  packets of 74 B, one by one: {:.0} a second, with sender and receiver on this host",
        floor.delivered_per_s
    );
    let cost = text::nanos(floor.packet_cost_ns);
    say!(
        "  one of them costs the link {cost} of processor time, so a processor carries {:.0} a second",
        floor.packets_per_s
    );
    if let Some(tcp) = floor.tcp_bits_per_s {
        say!("  a TCP stream through an unlimited link: {}", text::rate(tcp));
    }
    say!("\nlimits of accurate emulation:");
    let (full, small) =
        (text::rate(limits.rate_bits_per_s), text::rate(limits.rate_of_small_bits_per_s));
    say!(
        "  rates up to {full} in full packets, {small} in packets of 74 B, if the link has a \
         processor to itself"
    );
    say!(
        "  delays of at least {}: 99 of 100 packets are late by at most a tenth of the delay",
        nanos(limits.delay_ns)
    );
}
