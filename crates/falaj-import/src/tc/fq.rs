//! `fq`, which paces each connection.

use super::aqm::{Fair, Keys, set};
use super::attachment::stray;
use crate::amounts::{rate, size, tc_rate, tc_size, tc_time, time, whole};
use crate::args::{Args, no_equal, no_equal_phrase};
use crate::draft::quote;
use crate::lines::Word;
use falaj_scenario::Problem;
use falaj_scenario::suggest::quoted;

const WORDS: &[&str] = &[
    "limit",
    "flow_limit",
    "quantum",
    "initial_quantum",
    "maxrate",
    "orphan_mask",
    "buckets",
    "refill_delay",
    "low_rate_threshold",
    "pacing",
    "nopacing",
    "timer_slack",
    "horizon",
    "horizon_cap",
    "horizon_drop",
    "defrate",
];

/// Reads `fq maxrate R quantum B …`.
pub(super) fn read(args: &mut Args<'_>, kind: &Word) -> Result<Fair, Problem> {
    let mut keys: Keys = vec![("kind", quote("fq"))];
    let (mut paced, mut rated) = (true, None);
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "limit" => count(&mut keys, "limit", args)?,
            "flow_limit" => count(&mut keys, "flow-limit", args)?,
            "quantum" => bytes(&mut keys, "quantum", args)?,
            "initial_quantum" => bytes(&mut keys, "initial-quantum", args)?,
            "maxrate" => {
                rated = Some(word);
                bits(&mut keys, "flow-max-rate", args)?;
            }
            "low_rate_threshold" => bits(&mut keys, "low-rate-threshold", args)?,
            "refill_delay" => {
                set(&mut keys, "refill-delay", quote(&time(tc_time(args.value("a time")?)?)));
            }
            // The kernel applies this mask to packets that do not come from a socket of the
            // device's host.
            "orphan_mask" => {
                let mask = whole(args.value("a mask")?)?;
                set(&mut keys, "queues", mask.saturating_add(1).to_string());
            }
            "buckets" => {
                whole(args.value("a number")?)?;
                args.left_out(
                    word,
                    "it sets the size of the kernel's hash table, which changes no packet",
                );
            }
            "pacing" => paced = true,
            "nopacing" => paced = false,
            "timer_slack" => {
                tc_time(args.value("a time")?)?;
                args.left_out(word, "a paced packet leaves at its time, to the nanosecond");
            }
            "horizon" => {
                tc_time(args.value("a time")?)?;
                args.left_out(word, NO_DEPARTURES);
            }
            "horizon_cap" | "horizon_drop" => args.left_out(word, NO_DEPARTURES),
            "defrate" => {
                tc_rate(args.value("a rate")?)?;
                args.left_out(word, "kernels no longer read it");
            }
            "ce_threshold" => {
                let why = "for scalable connections, which need marks at a threshold, add \
                           `scheduler = { kind = \"dualpi2\", … }` to the scenario";
                return Err(no_equal(word.at.clone(), "ce_threshold", why));
            }
            "bands" | "priomap" | "weights" => {
                let why = "bands go by the priorities of sockets, which falaj does not see: write \
                           `prio` or `ets` with filters, and a `fq` below each band";
                return Err(no_equal_phrase(
                    word.at.clone(),
                    &format!("{} of fq", quoted(&word.text)),
                    why,
                ));
            }
            _ => return Err(stray(word, "fq", WORDS)),
        }
    }
    let mut notes = Vec::new();
    if paced {
        let what = "falaj paces connections only by `maxrate`: it does not see the rates that \
                    sockets set, as TCP does";
        notes.push(Problem::warning(kind.at.clone(), what));
    } else {
        rated.iter().for_each(|word| args.left_out(word, "`nopacing` is given"));
        keys.retain(|(key, _)| !matches!(*key, "flow-max-rate" | "low-rate-threshold"));
    }
    Ok(Fair { scheduler: keys, notes })
}

/// The reason why words for departure times have no effect.
const NO_DEPARTURES: &str = "in falaj, packets carry no departure times";

fn count(keys: &mut Keys, key: &'static str, args: &mut Args<'_>) -> Result<(), Problem> {
    set(keys, key, whole(args.value("a number of packets")?)?.to_string());
    Ok(())
}

fn bytes(keys: &mut Keys, key: &'static str, args: &mut Args<'_>) -> Result<(), Problem> {
    set(keys, key, quote(&size(tc_size(args.value("a size")?)?)));
    Ok(())
}

fn bits(keys: &mut Keys, key: &'static str, args: &mut Args<'_>) -> Result<(), Problem> {
    set(keys, key, quote(&rate(tc_rate(args.value("a rate")?)?)));
    Ok(())
}
