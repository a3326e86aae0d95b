//! `falaj aggregate`: packets in containers from one process to another.

mod adaptive;
mod bench;
mod consumer;
mod producer;
#[cfg(feature = "queueing")]
pub(crate) mod streams;
mod tune;

use adaptive::Watched;
use anyhow::{Context, Result};
use clap::Subcommand;
use falaj_engine::container::{Nonsense, Packer, Policy};
use falaj_live::backend::batch::{BEFORE, Guest, serve};
use falaj_live::priority::{self, Rank};
use falaj_live::sandbox::{End, Sandbox};
use falaj_queueing::{Measure, Wanted};
use falaj_scenario::parse_span;
use falaj_sched::units::time::Span;
use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitCode};
use std::str::FromStr;

/// What `aggregate` takes.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Packets a second, processor time and delay: one by one, in containers, with containers that
    /// leave when the reader is idle.
    Bench(bench::Args),
    /// Containers for a delay, beside the best of those that do not change: delay, processor time,
    /// and how soon they follow a step of the load.
    Tune(tune::Args),
    /// The other process: takes its side of the rings from standard input.
    #[command(hide = true)]
    Consumer(consumer::Args),
    /// The far end of `run --aggregate`: takes its side of the rings and its interface from
    /// standard input.
    #[command(hide = true)]
    Guest { asked: Asked },
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::Bench(args) => bench::main(args),
        What::Consumer(args) => consumer::main(args),
        What::Tune(args) => tune::main(args),
        What::Guest { asked } => {
            priority::be_punctual(Rank::Receiver);
            serve(
                io::stdin().as_fd().try_clone_to_owned()?,
                asked.packer("back from the far end")?,
            )?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// How packets cross, as it is asked for: `62,200us`, `62,idle`, `adaptive,delay=200us`.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    text: String,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    /// By this policy.
    Fixed(Policy),
    /// By the one that keeps this delay.
    Adaptive(Wanted),
}

/// A container's largest length where nobody says one.
const LONGEST: u32 = 1 << 16;

impl FromStr for Asked {
    type Err = String;
    fn from_str(text: &str) -> Result<Asked, String> {
        Ok(Asked { text: text.to_owned(), how: how(text)? })
    }
}

impl Asked {
    /// Starts the far end's process and gives it the interface there.
    pub(crate) fn start(&self, sandbox: &mut Sandbox) -> Result<(Guest, Child)> {
        let no_tap =
            "--aggregate needs TAP interfaces, and there are none here; see `falaj doctor`";
        let tap = sandbox.take_tap(End::Far).context(no_tap)?;
        let mut command =
            Command::new(std::env::current_exe().context("cannot find this program's own file")?);
        command.args(["aggregate", "guest", &self.text]);
        Guest::start(command, &tap, self.packer("to the far end")?)
            .context("cannot start the far end's process")
    }

    /// Packs so; `whither` is said where a delay is not kept.
    fn packer(&self, whither: &'static str) -> Result<Packer, Nonsense> {
        match self.how {
            How::Fixed(policy) => Packer::new(policy, BEFORE),
            How::Adaptive(wanted) => Watched::new(wanted).told(whither).packer(LONGEST, BEFORE),
        }
    }
}

fn how(text: &str) -> Result<How, String> {
    match text.split_once(',').map_or((text, ""), |(first, rest)| (first.trim(), rest)) {
        ("adaptive", rest) => wanted(rest).map(How::Adaptive),
        _ => policy(text).map(How::Fixed),
    }
}

/// `delay=200us`, `delay=200us,p99`.
fn wanted(text: &str) -> Result<Wanted, String> {
    const HOW: &str = "a mean delay, or one that so many percent of the packets keep: \
                       adaptive,delay=200us or adaptive,delay=1ms,p99";
    let (mut delay, mut measure) = (None, Measure::Mean);
    for word in text.split(',').map(str::trim) {
        if let Some(span) = word.strip_prefix("delay=").filter(|_| delay.is_none()) {
            delay = Some(parse_span(span).map_err(|error| format!("{error}; {HOW}"))?);
        } else if let Some(percent) = word.strip_prefix('p').filter(|_| measure == Measure::Mean) {
            measure = percentile(percent)
                .map(Measure::Percentile)
                .map_err(|error| format!("{error}; {HOW}"))?;
        } else {
            return Err(HOW.into());
        }
    }
    match delay {
        Some(delay) if delay != Span::ZERO => Ok(Wanted { delay: delay.as_secs_f64(), measure }),
        _ => Err(format!("a delay is above zero; {HOW}")),
    }
}

/// As a part of one, of which the tuner can tell.
fn percentile(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (90.0..100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("a percentile is 90 or above, and below 100".into()),
    }
}

fn policy(text: &str) -> Result<Policy, String> {
    const HOW: &str = "packets of a full container, then when else it leaves: 62,200us or 62,idle, or both: 62,200us,idle; \
         or for a delay: adaptive,delay=200us";
    let mut words = text.split(',').map(str::trim);
    let packets = words.next().and_then(|word| word.parse::<u32>().ok()).ok_or(HOW)?;
    let mut policy = Policy { packets, bytes: LONGEST, timeout: Span::MAX, when_idle: false };
    for word in words {
        match word {
            "idle" if !policy.when_idle => policy.when_idle = true,
            _ if policy.timeout == Span::MAX => {
                policy.timeout = parse_span(word).map_err(|e| format!("{e}; {HOW}"))?
            }
            _ => return Err(HOW.into()),
        }
    }
    policy.check().map_err(|nonsense| format!("{nonsense}; {HOW}"))
}

/// A policy whose containers leave full or after a time, and not because the other side is idle: of
/// which not all ways tell.
pub(crate) fn by_timeout(text: &str) -> Result<Policy, String> {
    const HOW: &str = "packets of a full container, and when else it leaves: 62,200us";
    match policy(text) {
        Ok(policy) if !policy.when_idle => Ok(policy),
        Ok(_) => Err(format!("memif does not tell when the other side is idle; {HOW}")),
        Err(_) => Err(HOW.into()),
    }
}

/// What a crossing is declared to cost on the reader's side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Of each container.
    pub(crate) container: Span,
    /// Of each packet in it.
    pub(crate) packet: Span,
}

impl Cost {
    /// Of a container with so many packets.
    fn of(self, packets: u32) -> Span {
        self.container + self.packet * u64::from(packets)
    }
}

/// `11.4us,1.07us`.
fn cost(text: &str) -> Result<Cost, String> {
    let both = text
        .split_once(',')
        .ok_or("two times with a comma between: of a container, of a packet: 11.4us,1.07us")?;
    let span = |text: &str| parse_span(text).map_err(|error| error.to_string());
    Ok(Cost { container: span(both.0)?, packet: span(both.1)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_in_words() {
        let of =
            |packets, timeout, when_idle| Policy { packets, bytes: LONGEST, timeout, when_idle };
        assert_eq!(policy("62,200us"), Ok(of(62, Span::from_micros(200), false)));
        assert_eq!(policy("62, idle"), Ok(of(62, Span::MAX, true)));
        assert_eq!(policy("8,1ms,idle"), Ok(of(8, Span::from_millis(1), true)));
        assert_eq!(policy("1"), Ok(of(1, Span::MAX, false)));
        for wrong in
            ["", "0,200us", "62", "62,200", "62,idle,idle", "62,1ms,2ms", "-1,1ms", "x,1ms"]
        {
            assert!(policy(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_delay_in_words() {
        let of = |delay, measure| Ok(How::Adaptive(Wanted { delay, measure }));
        assert_eq!(how("adaptive,delay=200us"), of(200e-6, Measure::Mean));
        assert_eq!(how("adaptive, p99, delay=1ms"), of(1e-3, Measure::Percentile(0.99)));
        assert_eq!(how("1"), policy("1").map(How::Fixed));
        for (wrong, told) in [
            ("adaptive", "adaptive,delay=200us"),
            ("adaptive,p99", "a delay is above zero"),
            ("adaptive,delay=0s", "a delay is above zero"),
            ("adaptive,delay=1", "unit"),
            ("adaptive,delay=1ms,p50", "90 or above"),
            ("adaptive,delay=1ms,p100", "below 100"),
            ("adaptive,delay=1ms,delay=2ms", "adaptive,delay=200us"),
            ("adaptive,62", "adaptive,delay=200us"),
        ] {
            let error = how(wrong).unwrap_err();
            assert!(error.contains(told), "{wrong}: {error}");
        }
    }
}
