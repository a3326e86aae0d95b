//! What this host can honestly emulate, as `falaj doctor` found it last: kept for the commands that
//! carry packets, which warn of a scenario that asks for more.

use anyhow::{Context, Result};
use falaj_scenario::{Direction, Link};
use falaj_sched::units::time::Span;
use falaj_terminal::text;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// Full packets, as a link counts them.
pub const FULL: f64 = 1514.0;

/// What can honestly be emulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostLimits {
    /// A link's rate, in packets of 1514 bytes that are queued one by one.
    pub rate_bits_per_s: f64,
    /// The same in packets of 74 bytes.
    pub rate_of_small_bits_per_s: f64,
    /// From this delay on 99 of 100 packets are at most a tenth of it late.
    pub delay_ns: Option<u64>,
}

/// The same as it is kept.
#[derive(Serialize, Deserialize)]
struct LimitsFile {
    /// Of another machine, or another kernel, nothing is known: several may have one home.
    host: String,
    honest: HostLimits,
}

/// Which machine this is, and its kernel.
fn host() -> String {
    let of = |name: &str| {
        fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default().trim().to_owned()
    };
    format!("{} {}", of("hostname"), of("osrelease"))
}

/// Where it is kept, by the XDG base directories.
fn place() -> Option<PathBuf> {
    let directory =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state =
        directory("XDG_STATE_HOME").or_else(|| Some(directory("HOME")?.join(".local/state")))?;
    Some(state.join("falaj/honest.json"))
}

/// Keeps it for those who come; says where.
///
/// # Errors
/// It cannot be written.
pub fn keep(honest: &HostLimits) -> Result<Option<PathBuf>> {
    let Some(place) = place() else { return Ok(None) };
    let why = || place.display().to_string();
    let directory = place.parent().expect("it has one");
    fs::create_dir_all(directory).with_context(why)?;
    let kept = LimitsFile { host: host(), honest: honest.clone() };
    fs::write(&place, serde_json::to_string_pretty(&kept)?).with_context(why)?;
    Ok(Some(place))
}

/// What was kept, of this machine.
fn known() -> Option<HostLimits> {
    let kept: LimitsFile = serde_json::from_str(&fs::read_to_string(place()?).ok()?).ok()?;
    (kept.host == host()).then_some(kept.honest)
}

/// Warns of links that ask for more; of what was never measured nobody knows.
pub fn warn(links: &[Link]) {
    let Some(honest) = known() else { return };
    for link in links {
        let mut told = Vec::new();
        for (way, direction) in [("up", &link.up), ("down", &link.down)] {
            for what in beyond(direction, &honest) {
                // What both directions have alike is said once.
                if !told.contains(&what) {
                    note!("warning: link {} {way}: {what} (`falaj doctor`)", link.name);
                    told.push(what);
                }
            }
        }
    }
}

/// What of it is beyond that.
fn beyond(direction: &Direction, honest: &HostLimits) -> Vec<String> {
    let mut all = Vec::new();
    let rate = direction.pipe.setup.rate;
    // A link carries so many packets a second, and shorter ones are less.
    let carried = honest.rate_bits_per_s * (f64::from(direction.mtu) + 14.0).min(FULL) / FULL;
    if !rate.is_unlimited() && rate.0 as f64 > carried {
        let (asked, carried) = (text::rate(rate.0 as f64), text::rate(carried));
        all.push(format!("{asked} is beyond the {carried} that this host was measured to carry in packets one by one"));
    }
    if let Some(least) =
        honest.delay_ns.filter(|&least| (1..least).contains(&direction.pipe.delay.0))
    {
        let (delay, late) = (direction.pipe.delay, Span(least / 10));
        all.push(format!(
            "of a delay of {delay} packets are more than a tenth late: 1 of 100 by {late} and more on this host"
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_is_said_with_its_number() {
        let honest = HostLimits {
            rate_bits_per_s: 2e9,
            rate_of_small_bits_per_s: 1e8,
            delay_ns: Some(300_000),
        };
        let of = |keys: &str| {
            let scenario = falaj_scenario::parse(&format!("[link.x]\n{keys}\n"), "x").unwrap().0;
            beyond(&scenario.links[0].up, &honest)
        };
        assert_eq!(of("rate = \"2gbit\"\ndelay = \"300us\""), [""; 0]);
        assert_eq!(of("rate = \"unlimited\""), [""; 0]);
        let said = of("rate = \"3gbit\"\ndelay = \"100us\"");
        assert!(said[0].contains("3.00 Gbit/s") && said[0].contains("2.00 Gbit/s"), "{said:?}");
        assert!(said[1].contains("100us") && said[1].contains("30us"), "{said:?}");
        // As many packets, and shorter ones.
        assert_eq!(of("rate = \"1.1gbit\"\nmtu = \"700B\"").len(), 1);
    }
}
