//! Options for batches of packets from one process to another: `62,200us`, `62,idle`,
//! `adaptive,delay=200us`.

mod watched;

pub use watched::AdaptiveBatching;

use anyhow::{Context, Result};
use falaj_engine::batch::{BatchPolicy, Packer, PolicyError};
use falaj_live::backend::batch::{BEFORE, Guest};
use falaj_live::sandbox::{End, Sandbox};
use falaj_queueing::{Measure, Wanted};
use falaj_scenario::parse_span;
use falaj_sched::units::time::Span;
use std::process::{Child, Command};
use std::str::FromStr;

/// The batching option: `62,200us`, `62,idle`, `adaptive,delay=200us`.
#[derive(Clone, Debug)]
pub struct Batching {
    text: String,
    how: BatchingRule,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum BatchingRule {
    /// This policy all the time.
    Fixed(BatchPolicy),
    /// Policies that a tuner chooses so that the packets keep this delay.
    Adaptive(Wanted),
}

/// Default maximum length of a batch in bytes.
pub const LONGEST: u32 = 1 << 16;

impl FromStr for Batching {
    type Err = String;
    fn from_str(text: &str) -> Result<Batching, String> {
        Ok(Batching { text: text.to_owned(), how: how(text)? })
    }
}

impl Batching {
    /// Starts the process of the far end and gives it the interface there.
    pub fn start(&self, sandbox: &mut Sandbox) -> Result<(Guest, Child)> {
        let no_tap = "--aggregate needs TAP interfaces, and this host has none; see `falaj doctor`";
        let tap = sandbox.take_tap(End::Far).context(no_tap)?;
        let mut command =
            Command::new(std::env::current_exe().context("cannot find this program's own file")?);
        command.args(["aggregate", "guest", &self.text]);
        Guest::start(command, &tap, self.packer("to the far end")?)
            .context("cannot start the far end's process")
    }

    /// The option as text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A packer for this option; `destination` (`to the far end`) is named in warnings about a
    /// missed delay.
    pub fn packer(&self, destination: &str) -> Result<Packer, PolicyError> {
        match self.how {
            BatchingRule::Fixed(policy) => Packer::new(policy, BEFORE),
            BatchingRule::Adaptive(wanted) => {
                AdaptiveBatching::new(wanted).with_warnings(destination).packer(LONGEST, BEFORE)
            }
        }
    }
}

fn how(text: &str) -> Result<BatchingRule, String> {
    match text.split_once(',').map_or((text, ""), |(first, rest)| (first.trim(), rest)) {
        ("adaptive", rest) => wanted(rest).map(BatchingRule::Adaptive),
        _ => policy(text).map(BatchingRule::Fixed),
    }
}

/// Parses `delay=200us` or `delay=200us,p99`.
fn wanted(text: &str) -> Result<Wanted, String> {
    const HOW: &str = "write the mean delay to keep, or the delay of a percentile of the packets: \
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
        _ => Err(format!("a delay must be above zero; {HOW}")),
    }
}

/// Parses a percentile as a fraction, within the range of the tuner.
pub fn percentile(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (90.0..100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("a percentile must be at least 90 and below 100".into()),
    }
}

fn policy(text: &str) -> Result<BatchPolicy, String> {
    const HOW: &str = "write the number of packets of a full batch, and the event after which any \
                       other batch leaves: a timeout (62,200us), an idle other side (62,idle), or \
                       either (62,200us,idle); or a delay to keep: adaptive,delay=200us";
    let mut words = text.split(',').map(str::trim);
    let packets = words.next().and_then(|word| word.parse::<u32>().ok()).ok_or(HOW)?;
    let mut policy = BatchPolicy { packets, bytes: LONGEST, timeout: Span::MAX, when_idle: false };
    for word in words {
        match word {
            "idle" if !policy.when_idle => policy.when_idle = true,
            _ if policy.timeout == Span::MAX => {
                policy.timeout = parse_span(word).map_err(|e| format!("{e}; {HOW}"))?;
            }
            _ => return Err(HOW.into()),
        }
    }
    policy.check().map_err(|nonsense| format!("{nonsense}; {HOW}"))
}

/// Parses a policy whose batches leave when full or after a timeout. `idle` is refused, for
/// transports that do not report if the other side is idle.
pub fn by_timeout(text: &str) -> Result<BatchPolicy, String> {
    const HOW: &str =
        "write the packets of a full batch, and the timeout of one that is not full: 62,200us";
    match policy(text) {
        Ok(policy) if !policy.when_idle => Ok(policy),
        Ok(_) => Err(format!("memif does not report when the other side is idle; {HOW}")),
        Err(_) => Err(HOW.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_in_words() {
        let of = |packets, timeout, when_idle| BatchPolicy {
            packets,
            bytes: LONGEST,
            timeout,
            when_idle,
        };
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
        let of = |delay, measure| Ok(BatchingRule::Adaptive(Wanted { delay, measure }));
        assert_eq!(how("adaptive,delay=200us"), of(200e-6, Measure::Mean));
        assert_eq!(how("adaptive, p99, delay=1ms"), of(1e-3, Measure::Percentile(0.99)));
        assert_eq!(how("1"), policy("1").map(BatchingRule::Fixed));
        for (wrong, told) in [
            ("adaptive", "adaptive,delay=200us"),
            ("adaptive,p99", "a delay must be above zero"),
            ("adaptive,delay=0s", "a delay must be above zero"),
            ("adaptive,delay=1", "unit"),
            ("adaptive,delay=1ms,p50", "at least 90"),
            ("adaptive,delay=1ms,p100", "below 100"),
            ("adaptive,delay=1ms,delay=2ms", "adaptive,delay=200us"),
            ("adaptive,62", "adaptive,delay=200us"),
        ] {
            let error = how(wrong).unwrap_err();
            assert!(error.contains(told), "{wrong}: {error}");
        }
    }
}
