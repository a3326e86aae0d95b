//! Chooses disciplines by the answers to four questions; the first is the purpose.

use crate::keys::{self, Fallback, Key, sample};
use falaj_sched::contract::manifest::{Example, Manifest, Purpose};
use falaj_sched::registry;
use std::fmt::Write;

/// The answers to four questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// The purpose of the discipline.
    pub purpose: Purpose,
    /// True if a flow may use the rate that other flows leave unused.
    pub lends: bool,
    /// True if the discipline itself divides flows into parts.
    pub tree: bool,
    /// True if flows are to be served evenly from packet to packet, even if each decision then
    /// takes more time.
    pub even: bool,
}

/// Returns the disciplines for the purpose of `wish`, sorted by how well they match the other
/// answers. An earlier answer counts more than all later ones together. Among equal matches,
/// disciplines whose first purpose is that of `wish` come first.
pub fn choose(wish: Wish) -> Vec<&'static Manifest> {
    let mut found: Vec<&Manifest> =
        registry::ENTRIES.iter().filter(|entry| entry.purposes.contains(&wish.purpose)).collect();
    found.sort_by_key(|entry| {
        let lends = entry.idles.is_none_or(|idling| idling.only_with.is_some());
        let first_purpose = entry.purposes.first() == Some(&wish.purpose);
        let even = entry.wfi.is_some();
        (lends != wish.lends, entry.whole_trees != wish.tree, even != wish.even, !first_purpose)
    });
    found
}

/// An example of a scenario: a link of 100 Mbit/s that the discipline `entry` divides.
pub fn example(entry: &Manifest) -> String {
    let Example { scheduler, calls, rest } = entry.example;
    let required = |key: &&Key| key.fallback == Fallback::Required;
    let mut text =
        format!("[link.uplink]\nrate = \"100mbit\"\nscheduler = {{ kind = \"{}\"", entry.kind);
    if scheduler.is_empty() {
        for key in keys::of_scheduler(entry).iter().filter(required) {
            // Writing to a string never fails.
            let _ = write!(text, ", {} = {}", key.name, sample(key, true));
        }
    } else {
        let _ = write!(text, ", {scheduler}");
    }
    text.push_str(" }\n");
    let plain = calls.is_empty() && rest.is_empty();
    let needed: Vec<Key> = keys::of_flow(entry).iter().filter(required).copied().collect();
    if plain && !needed.is_empty() {
        text.push_str("\n[link.uplink.flow.rest]\nmatch = \"any\"\n");
        for key in needed {
            let _ = writeln!(text, "{} = {}", key.name, sample(&key, true));
        }
        return text;
    }
    for (name, rule, own) in [("calls", "udp dport 5004", calls), ("rest", "any", rest)] {
        let _ = write!(text, "\n[link.uplink.flow.{name}]\nmatch = \"{rule}\"\n");
        if !own.is_empty() {
            let _ = writeln!(text, "{own}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of each discipline is a scenario without an error.
    #[test]
    fn every_example_is_a_scenario() {
        for entry in registry::ENTRIES {
            let text = example(entry);
            if let Err(problems) = crate::parse(&text, "example.toml") {
                panic!("{}:\n{text}\n{problems:?}", entry.kind);
            }
        }
    }

    /// Each purpose has a discipline, and the other answers change the choice.
    #[test]
    fn every_purpose_has_a_discipline() {
        for (purpose, name, _) in Purpose::ALL {
            assert_eq!(Purpose::named(name), Some(purpose));
            let first = |lends, tree, even| choose(Wish { purpose, lends, tree, even });
            assert!(!first(true, false, false).is_empty(), "{name}");
        }
        let share =
            |even| choose(Wish { purpose: Purpose::Share, lends: true, tree: false, even })[0].cost;
        assert_eq!(share(false), "O(1)");
        let tree = choose(Wish { purpose: Purpose::Rate, lends: true, tree: true, even: false });
        assert!(tree[0].whole_trees);
        let isolated =
            choose(Wish { purpose: Purpose::Isolation, lends: false, tree: false, even: false });
        assert!(isolated[0].idles.is_some());
    }
}
