//! AQMs of dummynet: `red`, `gred`, `codel`, `pie`, and the options of `fq_codel` and `fq_pie`.

use super::config::milliseconds;
use crate::amounts::{part_of_one, size, whole};
use crate::args::{Args, no_equal};
use crate::draft::quote;
use crate::lines::Word;
use falaj_scenario::Problem;
use falaj_scenario::suggest::quoted;

/// Keys, and their values in TOML's syntax.
pub(super) type Keys = Vec<(&'static str, String)>;

/// Reads `w_q/min_th/max_th/max_p`; thresholds are slots, or bytes if the queue's limit is in
/// bytes.
pub(super) fn red(name: &Word, args: &mut Args<'_>, slots: bool) -> Result<Keys, Problem> {
    let word = args.value("its four numbers")?;
    let parts: Vec<&str> = word.text.split('/').collect();
    let [weight, min, max, most] = parts[..] else {
        return Err(Problem::error(
            word.at.clone(),
            format!("{} is not four numbers", quoted(&word.text)),
        )
        .help("w_q/min_th/max_th/max_p, as in `red 0.002/5/15/0.1`"));
    };
    let part = |text: &str| Word { text: text.to_owned(), at: word.at.clone() };
    let chance = |text: &str, name: &str, effect: &str| {
        part_of_one(&part(text))?.ok_or_else(|| {
            Problem::error(word.at.clone(), format!("with {name} 0, {effect}"))
                .help("write a number above 0 and up to 1, as in `red 0.002/5/15/0.1`")
        })
    };
    let threshold = |text: &str| {
        let n = whole(&part(text))?;
        Ok(if slots { format!("{n}p") } else { size(n) })
    };
    let policy = if name.text == "gred" { "gred" } else { "red" };
    Ok(vec![
        ("policy", quote(policy)),
        ("min", quote(&threshold(min)?)),
        ("max", quote(&threshold(max)?)),
        ("probability", quote(&chance(most, "max_p", "RED acts on no packet below max_th")?)),
        ("weight", quote(&chance(weight, "w_q", "RED's average stays zero")?)),
    ])
}

const CODEL: &[&str] = &["target", "interval", "ecn", "noecn"];

/// Reads an option of `codel`. Returns false if it is another word.
fn of_codel(word: &Word, args: &mut Args<'_>, keys: &mut Keys) -> Result<bool, Problem> {
    match word.text.as_str() {
        "target" => set(keys, "target", quote(&milliseconds(args.value("a time")?)?)),
        "interval" => set(keys, "interval", quote(&milliseconds(args.value("a time")?)?)),
        "ecn" => set(keys, "ecn", quote("yes")),
        "noecn" => keys.retain(|(key, _)| *key != "ecn"),
        _ => return Ok(false),
    }
    Ok(true)
}

fn set(keys: &mut Keys, key: &'static str, value: String) {
    keys.retain(|(k, _)| *k != key);
    keys.push((key, value));
}

/// Reads the options after `codel`.
pub(super) fn codel(args: &mut Args<'_>) -> Result<Keys, Problem> {
    let mut keys = vec![("policy", quote("codel"))];
    while let Some(word) = args.peek().filter(|w| CODEL.contains(&w.text.as_str())) {
        args.next();
        of_codel(word, args, &mut keys)?;
    }
    Ok(keys)
}

/// Words of schedulers with a queue for each connection.
const FAIR: &[&str] = &["quantum", "limit", "flows"];

/// Reads the options after `fq_codel`.
pub(super) fn fq_codel(args: &mut Args<'_>) -> Result<Keys, Problem> {
    // `fq_codel` marks packets unless `noecn` is given.
    let mut keys = vec![("ecn", quote("yes"))];
    let is = |w: &&Word| CODEL.contains(&w.text.as_str()) || FAIR.contains(&w.text.as_str());
    while let Some(word) = args.peek().filter(is) {
        args.next();
        if !of_fair(word, args, &mut keys)? {
            of_codel(word, args, &mut keys)?;
        }
    }
    Ok(keys)
}

/// Reads an option of a scheduler with a queue for each connection. Returns false if it is another
/// word.
fn of_fair(word: &Word, args: &mut Args<'_>, keys: &mut Keys) -> Result<bool, Problem> {
    match word.text.as_str() {
        "quantum" => set(keys, "quantum", quote(&size(whole(args.value("bytes")?)?))),
        "limit" => set(keys, "limit", whole(args.value("a number of packets")?)?.to_string()),
        "flows" => set(keys, "queues", whole(args.value("a number")?)?.to_string()),
        _ => return Ok(false),
    }
    Ok(true)
}

const PIE: &[&str] = &[
    "target",
    "tupdate",
    "alpha",
    "beta",
    "max_burst",
    "max_ecnth",
    "ecn",
    "noecn",
    "capdrop",
    "nocapdrop",
    "drand",
    "nodrand",
    "derand",
    "noderand",
    "onoff",
    "dre",
    "ts",
];

/// Reads the options after `pie`.
pub(super) fn pie(args: &mut Args<'_>) -> Result<Keys, Problem> {
    let mut keys = vec![("policy", quote("pie"))];
    while let Some(word) = args.peek().filter(|w| PIE.contains(&w.text.as_str())) {
        args.next();
        of_pie(word, args, &mut keys)?;
    }
    Ok(keys)
}

/// Reads the options after `fq_pie`. Unlike `pie`, it marks packets unless `noecn` forbids it.
pub(super) fn fq_pie(args: &mut Args<'_>) -> Result<Keys, Problem> {
    let mut keys = vec![("ecn", quote("yes"))];
    let is = |w: &&Word| PIE.contains(&w.text.as_str()) || FAIR.contains(&w.text.as_str());
    while let Some(word) = args.peek().filter(is) {
        args.next();
        if !of_fair(word, args, &mut keys)? {
            of_pie(word, args, &mut keys)?;
        }
    }
    Ok(keys)
}

/// Reads an option of `pie`.
fn of_pie(word: &Word, args: &mut Args<'_>, keys: &mut Keys) -> Result<(), Problem> {
    match word.text.as_str() {
        "target" => set(keys, "target", quote(&milliseconds(args.value("a time")?)?)),
        "tupdate" => set(keys, "update", quote(&milliseconds(args.value("a time")?)?)),
        "max_burst" => set(keys, "burst", quote(&milliseconds(args.value("a time")?)?)),
        "alpha" => set(keys, "alpha", sixteenths("alpha", args.value("a number")?)?),
        "beta" => set(keys, "beta", sixteenths("beta", args.value("a number")?)?),
        "max_ecnth" => {
            let most = part_of_one(args.value("a number from 0 to 1")?)?;
            set(keys, "ecn-probability", quote(most.as_deref().unwrap_or("0%")));
        }
        "ecn" => set(keys, "ecn", quote("yes")),
        "noecn" => keys.retain(|(key, _)| *key != "ecn"),
        "capdrop" | "drand" | "derand" => args.left_out(word, "it is always on, as in RFC 8033"),
        "dre" | "ts" => args.left_out(word, "falaj measures the waiting time of each packet"),
        _ => {
            let why = "PIE is that of RFC 8033, whose probability is capped and spread, and \
                       which is always on: leave this out";
            return Err(no_equal(word.at.clone(), &word.text, why));
        }
    }
    Ok(())
}

/// Reads a gain per second; returns it in sixteenths.
fn sixteenths(name: &str, value: &Word) -> Result<String, Problem> {
    let gain = value.text.parse::<f64>().ok().map(|gain| gain * 16.0);
    match gain.filter(|n| n.fract() == 0.0 && (0.0..=32.0).contains(n)) {
        Some(n) => Ok((n as u64).to_string()),
        None => {
            let what = format!("{name} {}", value.text);
            let why = "a gain is a multiple of 0.0625 (a sixteenth), from 0 to 2";
            Err(no_equal(value.at.clone(), &what, why))
        }
    }
}
