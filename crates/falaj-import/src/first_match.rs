//! Converts "the first matching rule decides" to flows. A scenario also tries its flows in order,
//! but all rules of a flow at once. A rule therefore excludes the packets of earlier rules whose
//! flows are tried after the rule's own flow.

use falaj_engine::classifier::Match;
use falaj_scenario::parse_match_or_empty;
use falaj_scenario::units::Unreadable;

/// The packets that a rule takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Takes {
    /// The match, in the grammar of a scenario's `match`.
    pub(crate) text: String,
    matches: Vec<Match>,
}

impl Takes {
    pub(crate) fn of(text: &str) -> Result<Takes, Unreadable> {
        Ok(Takes { text: text.to_owned(), matches: parse_match_or_empty(text)? })
    }

    /// Returns true if the match selects no packet. Some such matches are not recognized.
    pub(crate) fn is_nothing(&self) -> bool {
        self.matches.is_empty()
    }

    /// Returns true if there may be a packet that both matches select.
    pub(crate) fn meets(&self, other: &Takes) -> bool {
        self.matches.iter().any(|one| other.matches.iter().any(|other| one.and(other).is_some()))
    }

    /// The packets that this match selects and none of `others` selects.
    pub(crate) fn less<'a>(
        &self,
        others: impl IntoIterator<Item = &'a Takes>,
    ) -> Result<Takes, Unreadable> {
        let mut terms: Vec<String> =
            Some(self.text.clone()).filter(|text| text != "any").into_iter().collect();
        for other in others.into_iter().filter(|other| self.meets(other)) {
            let term = not(&other.text);
            if !terms.contains(&term) {
                terms.push(term);
            }
        }
        if terms.is_empty() { Ok(self.clone()) } else { Takes::of(&terms.join(" ")) }
    }
}

/// The negation of a match.
fn not(text: &str) -> String {
    const OF_ONE: &[&str] =
        &["src", "dst", "sport", "dport", "proto", "dscp", "tos", "ttl", "length", "ether", "vlan"];
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [name] if name != "any" => format!("not {text}"),
        [name, _] if OF_ONE.contains(&name) => format!("not {text}"),
        _ => format!("not ( {text} )"),
    }
}

/// A rule that sends packets to a flow; `flow` is the flow's position in the order in which the
/// scenario tries its flows.
#[derive(Debug, Clone)]
pub(crate) struct Sends {
    pub(crate) flow: usize,
    pub(crate) takes: Takes,
}

/// The match to be written for each of these rules in its flow. With these matches, each flow takes
/// the packets that the first matching rule sends to it.
///
/// # Errors
/// Returns the index of a rule whose match gets too many alternatives in this way, and the reason.
pub(crate) fn apart(rules: &[Sends]) -> Result<Vec<Takes>, (usize, Unreadable)> {
    let left = |(n, rule): (usize, &Sends)| {
        let before =
            rules[..n].iter().filter(|other| other.flow > rule.flow).map(|other| &other.takes);
        rule.takes.less(before).map_err(|why| (n, why))
    };
    rules.iter().enumerate().map(left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(rules: &[(usize, &str)]) -> Vec<Option<String>> {
        let sends = |(flow, text): &(usize, &str)| Sends {
            flow: *flow,
            takes: Takes::of(text).expect("a rule"),
        };
        let rules: Vec<Sends> = rules.iter().map(sends).collect();
        let text = |takes: Takes| Some(takes.text.clone()).filter(|_| !takes.is_nothing());
        apart(&rules).expect("few").into_iter().map(text).collect()
    }

    #[test]
    fn what_earlier_rules_of_later_flows_take_is_left_to_them() {
        let of = |text: &str| Some(text.to_owned());
        assert_eq!(
            left(&[(0, "dst 10.0.0.5"), (1, "dst 10.0.0.0/24"), (0, "dst 10.0.0.0/16")]),
            [of("dst 10.0.0.5"), of("dst 10.0.0.0/24"), of("dst 10.0.0.0/16 not dst 10.0.0.0/24")]
        );
        assert_eq!(
            left(&[(1, "udp dport 1,2"), (0, "tcp"), (0, "any")]),
            [of("udp dport 1,2"), of("tcp"), of("not ( udp dport 1,2 )")]
        );
        assert_eq!(left(&[(1, "any"), (0, "udp")]), [of("any"), None], "nothing is left");
        assert_eq!(left(&[(1, "udp"), (0, "udp dport 5")]), [of("udp"), None]);
    }
}
