//! The common part of `bridge` and `attach`: forwards packets between two ends through an emulated
//! link.

use crate::cli::link::LinkArgs;
use anyhow::Result;
use falaj_control::endpoint::{Control, ControlArgs};
use falaj_control::host_limits;
use falaj_control::live_links::{
    live_links, no_adapters, warn_of_overflow, warn_of_sharing, warn_of_spinning,
};
use falaj_control::pacing::PacingArgs;
use falaj_control::recording::Recording;
use falaj_control::running::Running;
use falaj_control::summary::{FailIf, JsonFile, of_forwarder};
use falaj_live::backend::Backend;
use falaj_live::clock::{Clock, monotonic};
use falaj_live::event_loop::Woken;
use falaj_live::priority::{self, Rank};
use falaj_live::signals::Signals;
use falaj_live::wiring;
use falaj_scenario::{Link, Scenario};
use falaj_sched::units::time::Time;
use falaj_terminal::effective_config::EffectiveConfig;
use falaj_terminal::standard_error;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::sync::Arc;

/// The link, its pacing, and the results to print.
#[derive(clap::Args)]
pub(crate) struct ForwardingArgs {
    #[command(flatten)]
    pub(crate) link: LinkArgs,
    #[command(flatten)]
    pace: PacingArgs,
    #[command(flatten)]
    control: ControlArgs,
    #[command(flatten)]
    pub(crate) recording: Recording,
    /// At the end, print the link's statistics to standard error.
    #[arg(long, help_heading = "Results and control")]
    stats: bool,
    #[command(flatten)]
    json: JsonFile,
    #[command(flatten)]
    pub(crate) fail_if: FailIf,
    #[command(flatten)]
    asked: EffectiveConfig,
}

/// The ends of the link, near and far, and their names in messages.
pub(crate) struct LinkEnds<'a> {
    /// Name of the command, as its control socket shows it.
    pub(crate) command: &'static str,
    /// The ends in words, as the control socket shows them.
    pub(crate) about: String,
    pub(crate) names: [String; 2],
    pub(crate) backends: [&'a dyn Backend; 2],
    /// MTU in bytes of each end, if it is an interface that has one.
    pub(crate) mtus: [Option<u32>; 2],
    /// Descriptors that are readable when an end has changed.
    pub(crate) watched: Vec<BorrowedFd<'a>>,
    /// Message printed when forwarding begins.
    pub(crate) began: String,
}

/// Forwards packets until a signal comes or `changed` returns `Break`. `changed` is called with the
/// index of a watched descriptor that has become readable.
pub(crate) fn forward(
    args: &ForwardingArgs,
    (scenario, text): (Scenario, String),
    ends: &LinkEnds<'_>,
    changed: impl Fn(usize) -> ControlFlow<()>,
) -> Result<ExitCode> {
    let links = live_links(&scenario)?;
    no_adapters(&scenario)?;
    args.fail_if.check(links)?;
    args.asked.tell(&scenario);
    links.iter().for_each(warn_of_spinning);
    host_limits::warn(links);
    warn_of_mtu(links, ends);

    let place = args.control.place()?;
    let signals = Signals::take()?;
    let clock = Clock::from_zero(monotonic());
    let mut forwarder =
        wiring::to_ends(&scenario.network(), ends.backends, clock, args.pace.options())?;
    args.recording.begin(&mut forwarder, &text)?;
    let running = Running {
        command: ends.command,
        about: ends.about.clone(),
        file: args.link.name(),
        scenario: Arc::new(scenario.clone()),
        text,
        recording: args.recording.is_wanted(),
        standings: None,
    };
    let mut control = Control::open(place.as_deref(), running)?;
    standard_error::detach()?;
    priority::be_punctual(Rank::Link);
    forwarder.tell_of_overflow();
    note!("{}", ends.began);
    control.schedule(clock, clock.now())?;
    loop {
        let others = [signals.as_fd()].into_iter().chain(ends.watched.iter().copied());
        let others: Vec<BorrowedFd<'_>> = others.chain(control.as_fd()).collect();
        match forwarder.run(Time::NEVER, &others)? {
            Woken::Readable(0) => break,
            Woken::Readable(i) if i <= ends.watched.len() => {
                if changed(i - 1).is_break() {
                    break;
                }
            }
            Woken::Readable(_) => {
                control.serve(&mut forwarder)?;
            }
            Woken::Overflow(pipe, flow) => warn_of_overflow(control.links(), pipe, flow),
            Woken::Shared { pipe, flow, short } => {
                warn_of_sharing(control.links(), pipe, flow, short);
            }
            Woken::Deadline => {}
        }
    }
    let captured = args.recording.end(&mut forwarder);
    let unread = ends.backends.iter().map(|end| end.unread()).sum();
    let summary = of_forwarder(control.scenario(), &forwarder, Some(unread));
    if args.stats {
        summary.tell();
    }
    args.json.write(&summary)?;
    Ok(args.fail_if.judge(&summary)?.unwrap_or(captured))
}

/// Warns if an interface's MTU is larger than that of the link.
fn warn_of_mtu(links: &[Link], ends: &LinkEnds<'_>) {
    /// MTU assumed if there are no links: nothing is too long.
    const MOST: u32 = u32::MAX;
    let least = |mtu: fn(&Link) -> u32| links.iter().map(mtu).min().unwrap_or(MOST);
    let takes = [least(|link| link.up.mtu), least(|link| link.down.mtu)];
    for ((name, mtu), takes) in ends.names.iter().zip(ends.mtus).zip(takes) {
        if let Some(mtu) = mtu.filter(|&mtu| mtu > takes) {
            note!(
                "warning: {name} has an mtu of {mtu} B and the link one of {takes} B; longer packets are dropped"
            );
        }
    }
}
