//! What the page of the disciplines says of each beside its keys: what a packet costs, and what is promised.

use falaj_sched::registry::Entry;

/// Instructions of a packet enqueued and dequeued, by compiler, discipline and load; `falaj bench sched --instructions` counts them.
const INSTRUCTIONS: &str = include_str!("../../../docs/instructions.toml");
/// The load of the page: 256 flows, filled to 20 packets each and drained.
const LOAD: &str = "1::256 0..20n";

/// Discipline, steps for a packet among `N` flows, promise to a flow.
const COSTS: &[(&str, &str, &str)] = &[
    ("fifo", "O(1)", "delay of a full queue"),
    ("priority", "O(1)", "to the highest priority: rate and delay"),
    ("rr", "O(1)", "rate and delay"),
    ("wrr", "O(1)", "rate and delay"),
    ("hrr", "O(1)", "rate and delay, to flows with slots"),
    ("corr", "O(1), O(N log N) once a cycle", "rate and delay"),
    ("drr", "O(1)", "rate and delay"),
    ("drr+", "O(1)", "rate and delay; more while a contract is kept"),
    ("drr++", "O(1)", "rate and delay; more to flows of low latency"),
    ("ets", "O(1)", "rate and delay; but for priorities below the highest"),
    ("virtual-clock", "O(log N)", "rate and delay, to a flow that keeps to an envelope"),
    ("scfq", "O(log N)", "rate and delay"),
    ("sfq", "O(log N)", "rate and delay"),
    ("wfq", "O(log N)", "rate and delay"),
    ("wf2q", "O(log N)", "rate and delay"),
    ("spfq", "O(log N)", "rate and delay"),
    ("edf", "O(log N)", "delay"),
    ("sced", "O(log N)", "its curve, to a flow that keeps to an envelope"),
    ("mtr-ls", "O(log N)", "rate and delay"),
    ("arc", "O(log N)", "rate and delay, to a flow that keeps to an envelope"),
    ("qfq", "O(1)", "rate and delay"),
    ("qfq+", "O(1)", "rate and delay"),
    ("wf2q+", "O(log N)", "rate and delay"),
    ("ffs", "O(1)", "rate and delay"),
    ("timer-wheels", "O(1)", "nothing"),
    ("virtual-links", "O(1)", "rate and delay"),
    ("shaper", "O(log N)", "rate and delay, if all rates fit"),
    ("cbs", "O(N)", "idle slope and delay, if the slopes fit"),
    ("tas", "O(N)", "rate and delay, to gates that open alone"),
    ("ats", "O(log N)", "rate and delay, if the rates fit"),
    ("mclock", "O(log N), at each level of a tree", "reservation and delay"),
    ("hfsc", "O(log N), at each level of a tree", "real-time curve and delay"),
    ("htb", "O(log N), at each level of a tree", "rate and delay, if bursts last long enough"),
    ("rcsp", "O(log N)", "rate and delay, to regulated flows"),
    ("mgfq", "O(log N)", "delay, and packets held to within a period of their due dates"),
    ("netback", "O(log N)", "nothing: it caps"),
    ("xen-wrr", "O(1), O(log N) with minimum rates", "its minimum rate and delay; by turns, where no other has one"),
    ("fq_codel", "O(1), O(log N) while there is too much", "nothing"),
    ("dualpi2", "O(1)", "nothing"),
    ("dcf", "O(log N)", "nothing; saturation is expected"),
    ("plugin", "as written", "what the library declares"),
];

/// What a packet costs in steps, and what is promised.
pub(crate) fn of(entry: &Entry) -> (&'static str, &'static str) {
    let row = COSTS.iter().find(|row| row.0 == entry.kind);
    row.map_or(("", ""), |row| (row.1, row.2))
}

/// Instructions that a discipline adds to a list of packets in its place, where they were counted.
pub(crate) fn instructions(kind: &str) -> Option<i64> {
    let of = |kind: &str| -> Option<i64> {
        let row = INSTRUCTIONS.lines().find_map(|line| line.strip_prefix(&format!("\"{kind}\" = ")))?;
        let (_, count) = row.split_once(&format!("\"{LOAD}\" = "))?;
        count.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    Some(of(kind)? - of("none")?)
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
    }
}
