//! `falaj relay`: an emulated link between sockets.

use crate::cli::link::LinkArgs;
use anyhow::Result;
use falaj_control::live_links::{between_two_ends, no_adapters, no_changes, no_masks};
use falaj_control::summary::{FailIf, FlowSummary, JsonFile, Summary};
use falaj_live::host::memory_for_packets;
use falaj_live::listening::{Transport, name_process};
use falaj_live::priority::{Rank, be_punctual};
use falaj_relay::{Carries, Error, Relay, RelayFlow, RelaySpec, unknown};
use falaj_sched::units::time::Span;
use falaj_terminal::arguments;
use falaj_terminal::effective_config::EffectiveConfig;
use falaj_terminal::interrupt::{interruptible, interrupts};
use falaj_terminal::standard_error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Default limit in bytes on the memory for packets in transit, if the machine has enough.
const MEMORY: u64 = 256_000_000;

/// Arguments of `relay`.
#[derive(clap::Args)]
#[command(after_help = "\
Clients connect to --listen and reach --to through the link. No privilege is needed. Each client
that sends datagrams has its own socket towards --to, so that answers find their way back. A stream
is cut into packets of the MTU and loses nothing: while the queue is full the stream is not read,
so that the sender's own window stops it. Rules match the addresses and ports of client and --to,
the protocol, and the length of a datagram; they apply to each datagram, and to each stream once,
as a whole.

Ctrl-C ends it and prints the link's statistics. Exit status: 0; 4 if a condition of --fail-if
holds; 2 if it cannot listen.

Examples:
  falaj relay --listen 9000 --to localhost:5000 --delay 40ms
  falaj relay --listen 127.0.0.1:5353 --to 9.9.9.9:53 --udp --rate 64kbit --queue 5p
  falaj relay shared.toml --listen [::1]:8080 --to [::1]:80 --tcp --json relay.json")]
pub(crate) struct Args {
    /// Address to listen at: 127.0.0.1:9000, or a port alone, 9000.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = arguments::socket_address)]
    listen: SocketAddr,
    /// Address of the server: 127.0.0.1:5000, localhost:5000, or a port alone, 5000.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = arguments::socket_address)]
    to: SocketAddr,
    /// Relay datagrams only (UDP) [default: both].
    #[arg(long, conflicts_with = "tcp")]
    udp: bool,
    /// Relay streams only (TCP) [default: both].
    #[arg(long)]
    tcp: bool,
    /// Maximum number of clients that send datagrams, and of streams.
    #[arg(long, default_value_t = 1024, value_name = "N")]
    clients: usize,
    /// Idle time after which a client of datagrams may be forgotten; a new client displaces the one
    /// idle for longest if the limit is reached.
    #[arg(long, default_value = "120s", value_parser = arguments::parse_duration,
        value_name = "TIME")]
    idle: Span,
    /// Memory for packets in transit: 64MB, 1GB. Above it, datagrams are dropped, and streams wait
    /// [default: 256MB, or a quarter of the available memory, if that is less].
    #[arg(long, value_parser = arguments::parse_size, value_name = "SIZE")]
    memory: Option<u64>,
    #[command(flatten)]
    link: LinkArgs,
    #[command(flatten)]
    json: JsonFile,
    #[command(flatten)]
    fail_if: FailIf,
    #[command(flatten)]
    asked: EffectiveConfig,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let (scenario, _) = args.link.scenario(1500)?;
    no_adapters(&scenario)?;
    no_changes(&scenario)?;
    for link in between_two_ends(&scenario)? {
        no_masks(link, "clients are flows of their own already")?;
    }
    for (term, asks) in unknown(&scenario) {
        note!(
            "warning: {asks} matches `{term}`, but a relay knows only addresses, protocol, ports and length"
        );
    }
    args.fail_if.check(&scenario.links)?;
    args.asked.tell(&scenario);
    let carries = Carries { udp: !args.tcp, tcp: !args.udp };
    let transports: Vec<Transport> = [(carries.tcp, Transport::Tcp), (carries.udp, Transport::Udp)]
        .into_iter()
        .filter_map(|(is_carried, transport)| is_carried.then_some(transport))
        .collect();
    let relay = Relay::new(
        &RelaySpec {
            carries,
            clients: args.clients,
            idle: Duration::from_nanos(args.idle.0),
            memory: args.memory.unwrap_or_else(|| MEMORY.min(memory_for_packets() as u64)),
            ..RelaySpec::new(args.listen, args.to)
        },
        &scenario,
    )
    .map_err(|error| match error {
        Error::Listen(at, error) => Error::Listen(at, name_process(error, at, &transports)),
        error => error,
    })?;
    let ((report, elapsed), _) = interruptible(|stop| {
        // From here on, a signal ends the relay, which then reports. The message below names
        // Ctrl-C, so it is printed only now.
        signal_hook::flag::register(signal_hook::consts::SIGTERM, interrupts()?)?;
        if let Some(at) = relay.address() {
            note!("relaying {at} to {}; Ctrl-C ends it", args.to);
        }
        standard_error::detach()?;
        // The relay library requests no scheduling priority from the system, so the program does.
        be_punctual(Rank::Link);
        let began = Instant::now();
        let report = relay.run(stop)?;
        let elapsed = Span(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        Ok((report, elapsed))
    })?;
    let losses = report.losses.map(|(n, why)| (n, why.to_owned()));
    let flow = |flow: RelayFlow| {
        FlowSummary::handed_over_singly(flow.counters, flow.delay, flow.release_error)
    };
    let flows = report.flows.into_iter().map(|flows| flows.into_iter().map(flow).collect());
    let summary = Summary::new(
        &scenario.links,
        elapsed,
        flows.collect::<Vec<Vec<FlowSummary>>>(),
        losses.into(),
    )
    .ruled(&scenario, report.rules);
    let summary = summary.with_breaches(&scenario.links, report.breaches);
    note!("{} clients sent datagrams, {} streams", report.clients, report.streams);
    summary.tell();
    args.json.write(&summary)?;
    Ok(args.fail_if.judge(&summary)?.unwrap_or(ExitCode::SUCCESS))
}
