//! The limits of faithful emulation on this host, as `falaj doctor` last measured them. They are
//! stored for the commands that carry packets, which warn of a scenario beyond these limits.

use anyhow::{Context, Result};
use falaj_scenario::{Direction, Link};
use falaj_sched::units::time::Span;
use falaj_terminal::text;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// Length of full packets in bytes, as a link accounts them.
pub const FULL: f64 = 1514.0;

/// The limits of faithful emulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostLimits {
    /// Maximum rate of a link with packets of 1514 bytes that are queued one by one.
    pub rate_bits_per_s: f64,
    /// Maximum rate of a link with packets of 74 bytes that are queued one by one.
    pub rate_of_small_bits_per_s: f64,
    /// Minimum delay at which 99 of 100 packets are late by at most a tenth of the delay.
    pub delay_ns: Option<u64>,
}

/// The stored limits.
#[derive(Serialize, Deserialize)]
struct LimitsFile {
    /// The machine and kernel that were measured: several machines may share a home directory.
    host: String,
    limits: HostLimits,
}

/// The name of this machine, and its kernel.
fn host() -> String {
    let of = |name: &str| {
        fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default().trim().to_owned()
    };
    format!("{} {}", of("hostname"), of("osrelease"))
}

/// The path of the file, by the XDG base directories.
fn place() -> Option<PathBuf> {
    let directory =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state =
        directory("XDG_STATE_HOME").or_else(|| Some(directory("HOME")?.join(".local/state")))?;
    Some(state.join("falaj/host-limits.json"))
}

/// Stores the limits; returns the path of the file, or `None` if neither `XDG_STATE_HOME` nor
/// `HOME` names a directory for it.
///
/// # Errors
/// The file cannot be written.
pub fn keep(limits: &HostLimits) -> Result<Option<PathBuf>> {
    let Some(place) = place() else { return Ok(None) };
    let why = || place.display().to_string();
    let directory = place.parent().expect("it has one");
    fs::create_dir_all(directory).with_context(why)?;
    let kept = LimitsFile { host: host(), limits: limits.clone() };
    fs::write(&place, serde_json::to_string_pretty(&kept)?).with_context(why)?;
    Ok(Some(place))
}

/// The stored limits, if they are of this machine.
fn known() -> Option<HostLimits> {
    let kept: LimitsFile = serde_json::from_str(&fs::read_to_string(place()?).ok()?).ok()?;
    (kept.host == host()).then_some(kept.limits)
}

/// Warns of links beyond the limits; without stored limits there is no warning.
pub fn warn(links: &[Link]) {
    let Some(limits) = known() else { return };
    for link in links {
        let mut told = Vec::new();
        for (way, direction) in [("up", &link.up), ("down", &link.down)] {
            for what in beyond(direction, &limits) {
                // The same warning for both directions is printed once.
                if !told.contains(&what) {
                    note!("warning: link {} {way}: {what} (`falaj doctor`)", link.name);
                    told.push(what);
                }
            }
        }
    }
}

/// The limits that a direction exceeds.
fn beyond(direction: &Direction, limits: &HostLimits) -> Vec<String> {
    let mut all = Vec::new();
    let rate = direction.pipe.setup.rate;
    // The limit is a number of packets per second; with shorter packets the rate is lower.
    let carried = limits.rate_bits_per_s * (f64::from(direction.mtu) + 14.0).min(FULL) / FULL;
    if !rate.is_unlimited() && rate.0 as f64 > carried {
        let (asked, carried) = (text::rate(rate.0 as f64), text::rate(carried));
        all.push(format!("{asked} is more than {carried}, the measured limit of this host"));
    }
    if let Some(least) =
        limits.delay_ns.filter(|&least| (1..least).contains(&direction.pipe.delay.0))
    {
        let (delay, late) = (direction.pipe.delay, Span(least / 10));
        all.push(format!(
            "with a delay of {delay}, 1 of 100 packets is late by {late} or more on this host, more than a tenth of the delay"
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_is_said_with_its_number() {
        let limits = HostLimits {
            rate_bits_per_s: 2e9,
            rate_of_small_bits_per_s: 1e8,
            delay_ns: Some(300_000),
        };
        let of = |keys: &str| {
            let scenario = falaj_scenario::parse(&format!("[link.x]\n{keys}\n"), "x").unwrap().0;
            beyond(&scenario.links[0].up, &limits)
        };
        assert_eq!(of("rate = \"2gbit\"\ndelay = \"300us\""), [""; 0]);
        assert_eq!(of("rate = \"unlimited\""), [""; 0]);
        let said = of("rate = \"3gbit\"\ndelay = \"100us\"");
        assert!(said[0].contains("3.00 Gbit/s") && said[0].contains("2.00 Gbit/s"), "{said:?}");
        assert!(said[1].contains("100us") && said[1].contains("30us"), "{said:?}");
        // The limit in packets per second is the same; with shorter packets the rate is lower.
        assert_eq!(of("rate = \"1.1gbit\"\nmtu = \"700B\"").len(), 1);
    }
}
