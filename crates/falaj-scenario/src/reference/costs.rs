//! Measured costs per packet, for the reference page of the disciplines.

/// Instructions per packet for enqueueing and dequeueing, by compiler, discipline and load;
/// `falaj bench sched --instructions` counts them.
const INSTRUCTIONS: &str = include_str!("../../../../docs/instructions.toml");
/// Nanoseconds per packet minus those of a plain list of packets, and the machine;
/// `falaj bench sched --record` writes them.
const NANOSECONDS: &str = include_str!("../../../../docs/nanoseconds.toml");
/// The load on the page: 256 flows, filled to 20 packets each and drained.
const LOAD: &str = "1::256 0..20n";

/// Instructions per packet of a discipline minus those of a plain list of packets, if they were
/// counted.
pub(crate) fn instructions(kind: &str) -> Option<i64> {
    let of = |kind: &str| -> Option<i64> {
        let row =
            INSTRUCTIONS.lines().find_map(|line| line.strip_prefix(&format!("\"{kind}\" = ")))?;
        let (_, count) = row.split_once(&format!("\"{LOAD}\" = "))?;
        count.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    Some(of(kind)? - of("none")?)
}

/// Nanoseconds per packet of a discipline minus those of a plain list of packets, under the same
/// load, if they were measured.
pub(crate) fn nanoseconds(kind: &str) -> Option<&'static str> {
    NANOSECONDS.lines().find_map(|line| line.strip_prefix(&format!("\"{kind}\" = ")))
}

/// A property of the measurement: its machine, compiler, day or load.
pub(crate) fn measured(key: &str) -> &'static str {
    let value = NANOSECONDS.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
    value.unwrap_or_default().trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use falaj_sched::registry;

    #[test]
    fn figures_that_were_measured_are_numbers() {
        assert!(instructions("drr").is_some_and(|n| n > 0));
        let measured_of = |kind| nanoseconds(kind).map(|ns| ns.parse::<f64>().is_ok());
        assert_eq!(measured_of("drr"), Some(true), "`bench sched --record`");
        for entry in registry::all() {
            assert_ne!(measured_of(entry.kind), Some(false), "{}", entry.kind);
        }
        assert_eq!(measured("load"), LOAD, "as of the instructions");
        assert!(!measured("machine").is_empty() && measured("day").len() == 10);
    }
}
