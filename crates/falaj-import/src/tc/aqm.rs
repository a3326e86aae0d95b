//! The AQMs `red`, `codel` and `pie`; and `fq_codel`, `fq_pie` and `sfq`, which have a queue for
//! each connection.

use super::attachment::stray;
use crate::amounts::{part_of_one, size, tc_rate, tc_size, tc_time, time, whole};
use crate::args::{Args, no_equal, no_equal_phrase};
use crate::draft::quote;
use crate::lines::Word;
use falaj_scenario::Problem;
use falaj_scenario::suggest::quoted;

/// Keys, and their values in TOML's syntax.
pub(super) type Keys = Vec<(&'static str, String)>;

/// A queue with an AQM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Managed {
    /// The limit, in the syntax of a scenario.
    pub(super) limit: String,
    pub(super) policy: Keys,
    /// True if another discipline may replace the queue.
    pub(super) below: bool,
    /// Warnings: parts whose meaning differs slightly, and why.
    pub(super) notes: Vec<Problem>,
}

/// A discipline with a queue for each connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fair {
    /// The discipline, and its keys.
    pub(super) scheduler: Keys,
    pub(super) notes: Vec<Problem>,
}

impl Fair {
    /// The discipline.
    pub(super) fn kind(&self) -> &str {
        let kind = self.scheduler.iter().find(|(key, _)| *key == "kind");
        kind.map_or("", |(_, kind)| kind.trim_matches('"'))
    }

    /// Returns true if the discipline has no effect on an unlimited link: no connection has a
    /// maximum rate.
    pub(super) fn needs_rate(&self) -> bool {
        !self.scheduler.iter().any(|(key, _)| *key == "flow-max-rate")
    }
}

pub(super) fn set(keys: &mut Keys, key: &'static str, value: String) {
    keys.retain(|(k, _)| *k != key);
    keys.push((key, value));
}

/// Reads `red limit B avpkt B …`; options that are left out have tc's defaults.
pub(super) fn red(args: &mut Args<'_>) -> Result<Managed, Problem> {
    const WORDS: &[&str] =
        &["limit", "min", "max", "avpkt", "burst", "probability", "bandwidth", "ecn", "harddrop"];
    let (mut limit, mut min, mut max, mut packet, mut burst) = (None, None, None, None, None);
    let (mut chance, mut ecn, mut hard) = ("2%".to_owned(), None, false);
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "limit" => limit = Some(tc_size(args.value("a size")?)?),
            "min" => min = Some(tc_size(args.value("a size")?)?),
            "max" => max = Some(tc_size(args.value("a size")?)?),
            "avpkt" => packet = Some(tc_size(args.value("a size")?)?),
            "burst" => burst = Some(whole(args.value("a number of packets")?)?),
            "probability" => {
                let value = args.value("a number from 0 to 1")?;
                let never = || {
                    let what = "with probability 0, RED acts on no packet below `max`";
                    Problem::error(value.at.clone(), what)
                        .help("write a number above 0 and up to 1, such as `probability 0.02`")
                };
                chance = part_of_one(value)?.ok_or_else(never)?;
            }
            "bandwidth" => {
                tc_rate(args.value("a rate")?)?;
                args.left_out(word, "the average of an idle queue falls at the link's own rate");
            }
            "ecn" => ecn = Some(word),
            "harddrop" => hard = true,
            "nodrop" => {
                let why = "packets that cannot be marked are dropped as often as others are \
                           marked: leave this out";
                return Err(no_equal(word.at.clone(), "nodrop", why));
            }
            "adaptive" => {
                let why = "the probability is the configured one; `pie` adapts its probability, \
                           and `codel` needs none";
                return Err(no_equal(word.at.clone(), "adaptive", why));
            }
            "qevent" => {
                return Err(no_equal(
                    word.at.clone(),
                    "qevent",
                    "a mark or a drop triggers no further action",
                ));
            }
            _ => return Err(stray(word, "red", WORDS)),
        }
    }
    let missing = |what: &str| {
        Problem::error(args.all(), format!("red needs {what}"))
            .help("as in `red limit 400000 min 30000 max 90000 avpkt 1000 burst 55`")
    };
    let limit = limit.ok_or_else(|| missing("a `limit`"))?;
    let packet = packet.filter(|p| *p > 0).ok_or_else(|| missing("an `avpkt` above zero"))?;
    let max = max.unwrap_or(match min {
        Some(min) => min.saturating_mul(3),
        None => limit / 4,
    });
    let min = min.unwrap_or(max / 3);
    let burst = burst.unwrap_or_else(|| {
        ((2 * u128::from(min) + u128::from(max)) / (3 * u128::from(packet))) as u64
    });
    let log = weight(min, burst, packet).ok_or_else(|| {
        let least = min / packet + 1;
        if burst < least {
            let what =
                format!("a burst of {burst} packets is too small for this `min` and `avpkt`");
            return Problem::error(args.all(), what).help(format!("write `burst {least}` or more"));
        }
        let what = format!("no average lets a burst of {burst} packets pass below this `min`");
        Problem::error(args.all(), what).help(
            "write a `min` of several times `avpkt`, and a `burst` somewhat above `min`/`avpkt`",
        )
    })?;
    let mut policy = vec![
        ("policy", quote("red")),
        ("min", quote(&size(min))),
        ("max", quote(&size(max))),
        ("probability", quote(&chance)),
        ("weight", quote(&half_powers(log))),
    ];
    let mut notes = Vec::new();
    if let Some(word) = ecn {
        policy.push(("ecn", quote("yes")));
        if !hard {
            let what = "above `max`, packets are dropped here, as with `harddrop`; tc keeps \
                        marking them";
            notes.push(Problem::warning(word.at.clone(), what));
        }
    }
    Ok(Managed { limit: size(limit), policy, below: true, notes })
}

/// The exponent of the average's weight, computed as in tc: the least n for which an average with
/// weight 2^-n lets `burst` packets pass below `min`.
fn weight(min: u64, burst: u64, packet: u64) -> Option<u32> {
    let room = burst as f64 + 1.0 - min as f64 / packet as f64;
    if room < 1.0 {
        return None;
    }
    (1..32)
        .find(|n| {
            let part = 0.5f64.powi(*n);
            room <= (1.0 - (1.0 - part).powf(burst as f64)) / part
        })
        .map(|n| n as u32)
}

/// 2^-n in percent, with at most 16 decimals.
fn half_powers(n: u32) -> String {
    // 16 decimals are enough for the significant digits of 2^-31.
    let places = 16;
    let scaled = 10u128.pow(places + 2) >> n;
    let (whole, rest) = (scaled / 10u128.pow(places), scaled % 10u128.pow(places));
    let text = format!("{whole}.{rest:016}");
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Reads `codel limit P target T interval T`.
pub(super) fn codel(args: &mut Args<'_>) -> Result<Managed, Problem> {
    const WORDS: &[&str] = &["limit", "target", "interval", "ecn", "noecn"];
    let mut made = Managed {
        limit: "1000p".to_owned(),
        policy: vec![("policy", quote("codel"))],
        ..Managed::default()
    };
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "limit" => made.limit = format!("{}p", whole(args.value("a number of packets")?)?),
            _ if of_codel(word, args, &mut made.policy)? => {}
            _ => return Err(stray(word, "codel", WORDS)),
        }
    }
    Ok(made)
}

/// Reads an option that `codel` and `fq_codel` have in common. Returns false if it is another word.
fn of_codel(word: &Word, args: &mut Args<'_>, keys: &mut Keys) -> Result<bool, Problem> {
    match word.text.as_str() {
        "target" => set(keys, "target", quote(&time(tc_time(args.value("a time")?)?))),
        "interval" => set(keys, "interval", quote(&time(tc_time(args.value("a time")?)?))),
        "ecn" => set(keys, "ecn", quote("yes")),
        "noecn" => keys.retain(|(key, _)| *key != "ecn"),
        "ce_threshold" | "ce_threshold_selector" => {
            let why = "for scalable connections, which need marks at a threshold, add `scheduler = \
                       { kind = \"dualpi2\", … }` to the scenario";
            return Err(no_equal(word.at.clone(), &word.text, why));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Words that `pie` and `fq_pie` have in common.
const PIE: [&str; 9] = [
    "target",
    "tupdate",
    "alpha",
    "beta",
    "ecn",
    "noecn",
    "nobytemode",
    "dq_rate_estimator",
    "no_dq_rate_estimator",
];

/// Reads `pie limit P target T tupdate T`.
pub(super) fn pie(args: &mut Args<'_>) -> Result<Managed, Problem> {
    let mut made = Managed {
        limit: "1000p".to_owned(),
        policy: vec![("policy", quote("pie"))],
        ..Managed::default()
    };
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "limit" => made.limit = format!("{}p", whole(args.value("a number of packets")?)?),
            _ if of_pie(word, args, &mut made.policy)? => {}
            _ => return Err(stray(word, "pie", &[&["limit"][..], &PIE].concat())),
        }
    }
    Ok(made)
}

/// Reads an option that `pie` and `fq_pie` have in common. Returns false if it is another word.
fn of_pie(word: &Word, args: &mut Args<'_>, keys: &mut Keys) -> Result<bool, Problem> {
    match word.text.as_str() {
        "target" => set(keys, "target", quote(&time(tc_time(args.value("a time")?)?))),
        "tupdate" => set(keys, "update", quote(&time(tc_time(args.value("a time")?)?))),
        "ecn" => set(keys, "ecn", quote("yes")),
        "noecn" => keys.retain(|(key, _)| *key != "ecn"),
        "nobytemode" => args.left_out(word, "PIE treats packets of all sizes alike in any case"),
        "no_dq_rate_estimator" | "dq_rate_estimator" => {
            args.left_out(word, "falaj measures the waiting time of each packet");
        }
        "alpha" => gain("alpha", 2, args, keys)?,
        "beta" => gain("beta", 20, args, keys)?,
        "bytemode" => {
            return Err(no_equal(
                word.at.clone(),
                "bytemode",
                "PIE treats packets of all sizes alike here: leave this out",
            ));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Reads a gain of PIE, in sixteenths per second. The `usual` one has no key in the scenario.
fn gain(
    name: &'static str,
    usual: u64,
    args: &mut Args<'_>,
    keys: &mut Keys,
) -> Result<(), Problem> {
    let value = args.value("a number from 0 to 32")?;
    let sixteenths = whole(value)?;
    if sixteenths > 32 {
        let what = format!("{name} {}", value.text);
        let why = "a gain is at most 32, which means 2 per second";
        return Err(no_equal(value.at.clone(), &what, why));
    }
    keys.retain(|(key, _)| *key != name);
    if sixteenths != usual {
        keys.push((name, sixteenths.to_string()));
    }
    Ok(())
}

/// Reads `fq_codel limit P flows N quantum B …`.
pub(super) fn fq_codel(args: &mut Args<'_>) -> Result<Fair, Problem> {
    const WORDS: &[&str] = &[
        "limit",
        "flows",
        "quantum",
        "target",
        "interval",
        "ecn",
        "noecn",
        "memory_limit",
        "drop_batch",
    ];
    let mut made = Fair {
        scheduler: vec![("kind", quote("fq_codel")), ("ecn", quote("yes"))],
        notes: Vec::new(),
    };
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "limit" => set(
                &mut made.scheduler,
                "limit",
                whole(args.value("a number of packets")?)?.to_string(),
            ),
            "flows" => {
                set(&mut made.scheduler, "queues", whole(args.value("a number")?)?.to_string());
            }
            "quantum" => {
                set(&mut made.scheduler, "quantum", quote(&size(tc_size(args.value("a size")?)?)));
            }
            "memory_limit" => {
                tc_size(args.value("a size")?)?;
                let what =
                    "`memory_limit` was left out: the queues have only a limit in packets, `limit`";
                made.notes.push(Problem::warning(word.at.clone(), what));
            }
            "drop_batch" => {
                whole(args.value("a number of packets")?)?;
                args.left_out(
                    word,
                    "one packet at a time is dropped, and never more than is needed",
                );
            }
            _ if of_codel(word, args, &mut made.scheduler)? => {}
            _ => return Err(stray(word, "fq_codel", WORDS)),
        }
    }
    Ok(made)
}

/// Reads `fq_pie limit P flows N quantum B …`.
pub(super) fn fq_pie(args: &mut Args<'_>) -> Result<Fair, Problem> {
    const WORDS: [&str; 5] = ["limit", "flows", "quantum", "ecn_prob", "memory_limit"];
    let mut made = Fair { scheduler: vec![("kind", quote("fq_pie"))], notes: Vec::new() };
    let keys = &mut made.scheduler;
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "limit" => set(keys, "limit", whole(args.value("a number of packets")?)?.to_string()),
            "flows" => set(keys, "queues", whole(args.value("a number")?)?.to_string()),
            "quantum" => set(keys, "quantum", quote(&size(tc_size(args.value("a size")?)?))),
            "ecn_prob" => {
                let value = args.value("a number from 0 to 100")?;
                let percent = whole(value)?;
                if percent > 100 {
                    let what = format!("{} is more than 100 %", quoted(&value.text));
                    return Err(Problem::error(value.at.clone(), what)
                        .help("a number from 0 to 100, as in `ecn_prob 10`"));
                }
                set(keys, "ecn-probability", quote(&format!("{percent}%")));
            }
            "memory_limit" => {
                tc_size(args.value("a size")?)?;
                args.left_out(word, "the kernel counts packets beyond it, and drops none of them");
            }
            _ if of_pie(word, args, keys)? => {}
            _ => return Err(stray(word, "fq_pie", &[&WORDS[..], &PIE].concat())),
        }
    }
    Ok(made)
}

/// Reads `sfq`, as `fq_codel` without CoDel: CoDel's target and interval are seconds long, so that
/// CoDel practically never acts.
pub(super) fn sfq(args: &mut Args<'_>, kind: &Word) -> Result<Fair, Problem> {
    const WORDS: &[&str] = &["limit", "quantum", "perturb", "divisor", "flows", "headdrop"];
    let (mut limit, mut queues, mut quantum) = (127, 1024, None);
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "limit" => limit = whole(args.value("a number of packets")?)?,
            "divisor" => queues = whole(args.value("a number")?)?,
            "quantum" => quantum = Some(tc_size(args.value("a size")?)?),
            "perturb" => {
                let value = args.value("seconds")?;
                whole(value).or_else(|_| tc_time(value))?;
                args.left_out(word, "the hash has a secret key, and connections keep their queues");
            }
            "flows" => {
                whole(args.value("a number")?)?;
                args.left_out(word, "all queues of `divisor` may be in use");
            }
            "headdrop" => {
                args.left_out(
                    word,
                    "the packet at the head of the longest queue is dropped in any case",
                );
            }
            "depth" => {
                let why = "no queue has a limit of its own: when all queues together reach \
                           `limit`, the longest one drops packets";
                return Err(no_equal_phrase(word.at.clone(), "`depth` of sfq", why));
            }
            "redflowlimit" | "min" | "max" | "avpkt" | "burst" | "probability" | "ecn"
            | "harddrop" => {
                let why = "write `fq_codel`, which keeps each queue short by CoDel";
                return Err(no_equal_phrase(
                    word.at.clone(),
                    &format!("{} of sfq", quoted(&word.text)),
                    why,
                ));
            }
            _ => return Err(stray(word, "sfq", WORDS)),
        }
    }
    let mut scheduler = vec![
        ("kind", quote("fq_codel")),
        ("limit", limit.to_string()),
        ("queues", queues.to_string()),
    ];
    scheduler.extend(quantum.map(|q| ("quantum", quote(&size(q)))));
    scheduler.extend([("target", quote("3s")), ("interval", quote("4s"))]);
    let what = "`sfq` becomes `fq_codel` with a target of 3s, so that CoDel hardly ever acts; when \
                the queues are full, the packet at the head of the longest one is dropped, as with \
                `headdrop`";
    Ok(Fair { scheduler, notes: vec![Problem::warning(kind.at.clone(), what)] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_those_of_tc() {
        // The example of tc's manual page: limit 400000 min 30000 max 90000 avpkt 1000 burst 55.
        assert_eq!(weight(30_000, 55, 1000), Some(5));
        assert_eq!(weight(10_000, 5, 1000), None);
        assert_eq!(
            [half_powers(1), half_powers(9), half_powers(5)],
            ["50%", "0.1953125%", "3.125%"]
        );
        for n in 1..32 {
            let percent = half_powers(n);
            let probability = falaj_scenario::parse_probability(&percent)
                .unwrap_or_else(|e| panic!("{percent}: {}", e.what));
            assert_ne!(probability, falaj_sched::units::probability::Probability::NEVER);
        }
    }
}
