//! What the page of the disciplines says of each beside its keys: what a packet costs, and what is
//! promised.

use falaj_sched::contract::params::Manifest;

/// Instructions of a packet enqueued and dequeued, by compiler, discipline and load; `falaj bench
/// sched --instructions` counts them.
const INSTRUCTIONS: &str = include_str!("../../../../docs/instructions.toml");
/// Nanoseconds net of `none`, with the machine; `falaj bench sched --record` writes them.
const NANOSECONDS: &str = include_str!("../../../../docs/nanoseconds.toml");
/// The load of the page: 256 flows, filled to 20 packets each and drained.
const LOAD: &str = "1::256 0..20n";

/// Discipline, steps for a packet among `N` flows, promise to a flow, and whose bound that is.
const COSTS: &[(&str, &str, &str, &str)] = &[
    ("fifo", "O(1)", "delay of a full queue", "its queue, full"),
    ("priority", "O(1)", "to the highest priority: rate and delay", "own derivation"),
    ("rr", "O(1)", "rate and delay", "own derivation; in cells Stiliadis and Varma 1998"),
    ("wrr", "O(1)", "rate and delay", "own derivation; in cells Stiliadis and Varma 1998"),
    ("hrr", "O(1)", "rate and delay, to flows with slots", "own derivation"),
    ("corr", "O(1), O(N log N) once a cycle", "rate and delay", "own derivation"),
    ("drr", "O(1)", "rate and delay", "Boyer, Stea and Sofack 2012; Tabatabaee and Le Boudec 2021"),
    ("drr+", "O(1)", "rate and delay; more while a contract is kept", "own derivation"),
    (
        "drr++",
        "O(1)",
        "rate and delay; more to flows of low latency",
        "own derivation; the thesis' own is wrong",
    ),
    (
        "ets",
        "O(1)",
        "rate and delay; but for priorities below the highest",
        "as `priority` and `drr`",
    ),
    (
        "virtual-clock",
        "O(log N)",
        "rate and delay, to a flow that keeps to an envelope",
        "Figueira and Pasquale 1995",
    ),
    ("scfq", "O(log N)", "rate and delay", "Golestani 1994"),
    ("sfq", "O(log N)", "rate and delay", "Goyal, Vin and Cheng 1996"),
    ("wfq", "O(log N)", "rate and delay", "Parekh and Gallager 1993"),
    ("wf2q", "O(log N)", "rate and delay", "Parekh and Gallager 1993; Bennett and Zhang 1996"),
    ("spfq", "O(log N)", "rate and delay", "Stiliadis and Varma 1998"),
    ("edf", "O(log N)", "delay", "own derivation"),
    (
        "sced",
        "O(log N)",
        "its curve, to a flow that keeps to an envelope",
        "Sariowan, Cruz and Polyzos 1999",
    ),
    ("mtr-ls", "O(log N)", "rate and delay", "own derivation"),
    ("arc", "O(log N)", "rate and delay, to a flow that keeps to an envelope", "own derivation"),
    (
        "qfq",
        "O(1)",
        "rate and delay",
        "Checconi, Rizzo and Valente 2013; mixed sizes: own derivation",
    ),
    ("qfq+", "O(1)", "rate and delay", "own derivation"),
    ("wf2q+", "O(log N)", "rate and delay", "Stiliadis and Varma 1998"),
    ("ffs", "O(1)", "rate and delay", "Golestani 1994, and a bucket"),
    ("timer-wheels", "O(1)", "nothing", "—"),
    ("virtual-links", "O(1)", "rate and delay", "Fortuna and Chydzinski 2013, corrected"),
    ("shaper", "O(log N)", "rate and delay, if all rates fit", "own derivation"),
    ("cbs", "O(N)", "idle slope and delay, if the slopes fit", "Zhao, Pop and others 2018"),
    ("tas", "O(N)", "rate and delay, to gates that open alone", "own derivation"),
    ("ats", "O(log N)", "rate and delay, if the rates fit", "Specht and Samii 2016"),
    ("mclock", "O(log N), at each level of a tree", "reservation and delay", "own derivation"),
    (
        "hfsc",
        "O(log N), at each level of a tree",
        "real-time curve and delay",
        "Stoica, Zhang and Ng 1997",
    ),
    (
        "htb",
        "O(log N), at each level of a tree",
        "rate and delay, if bursts last long enough",
        "own derivation",
    ),
    ("rcsp", "O(log N)", "rate and delay, to regulated flows", "Zhang and Ferrari 1993, 1994"),
    (
        "mgfq",
        "O(log N)",
        "delay, and packets held to within a period of their due dates",
        "own derivation",
    ),
    ("netback", "O(log N)", "nothing: it caps", "—"),
    (
        "xen-wrr",
        "O(1), O(log N) with minimum rates",
        "its minimum rate and delay; by turns, where no other has one",
        "own derivation",
    ),
    ("fq_codel", "O(1), O(log N) while there is too much", "nothing", "—"),
    ("dualpi2", "O(1)", "nothing", "—"),
    ("dcf", "O(log N)", "nothing; saturation is expected", "Bianchi 2000"),
    ("plugin", "as written", "what the library declares", "the library"),
];

/// What a packet costs in steps, what is promised, and whose bound that is.
pub(crate) fn of(entry: &Manifest) -> [&'static str; 3] {
    let row = COSTS.iter().find(|row| row.0 == entry.kind);
    row.map_or([""; 3], |row| [row.1, row.2, row.3])
}

/// Instructions that a discipline adds to a list of packets in its place, where they were counted.
pub(crate) fn instructions(kind: &str) -> Option<i64> {
    let of = |kind: &str| -> Option<i64> {
        let row =
            INSTRUCTIONS.lines().find_map(|line| line.strip_prefix(&format!("\"{kind}\" = ")))?;
        let (_, count) = row.split_once(&format!("\"{LOAD}\" = "))?;
        count.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    Some(of(kind)? - of("none")?)
}

/// Nanoseconds that a discipline adds to a list of packets in its place, under the same load, where
/// they were measured.
pub(crate) fn nanoseconds(kind: &str) -> Option<&'static str> {
    NANOSECONDS.lines().find_map(|line| line.strip_prefix(&format!("\"{kind}\" = ")))
}

/// On which machine and day, and what was measured.
pub(crate) fn measured(key: &str) -> &'static str {
    let value = NANOSECONDS.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
    value.unwrap_or_default().trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use falaj_sched::registry;

    #[test]
    fn every_discipline_has_its_row() {
        let named: Vec<&str> = COSTS.iter().map(|row| row.0).collect();
        let all: Vec<&str> = registry::all().map(|entry| entry.kind).collect();
        assert_eq!(named, all, "in the order of the registry");
        assert!(instructions("drr").is_some_and(|n| n > 0));
        for kind in all.into_iter().filter(|kind| *kind != "plugin") {
            assert!(
                nanoseconds(kind).is_some_and(|ns| ns.parse::<f64>().is_ok()),
                "{kind}: `bench sched --record`"
            );
        }
        assert_eq!(measured("load"), LOAD, "as of the instructions");
        assert!(!measured("machine").is_empty() && measured("day").len() == 10);
    }
}
