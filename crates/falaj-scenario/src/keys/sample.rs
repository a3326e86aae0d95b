//! Keys with example values, as messages and the reference show them.

use super::key::{Fallback, Holds, Key};
use falaj_sched::contract::params::Kind;

/// An inline table with example values, as written in a file.
pub(crate) fn inline(keys: &[Key]) -> String {
    let inner: Vec<String> =
        keys.iter().map(|k| format!("{} = {}", k.name, sample(k, false))).collect();
    format!("{{ {} }}", inner.join(", "))
}

/// An example value of a key, as written in a file; `discipline` is true for a key of a discipline.
pub(crate) fn sample(key: &Key, discipline: bool) -> String {
    let text = match key.holds {
        Holds::Value(Kind::Span) | Holds::PositiveSpan if discipline => "500us",
        Holds::PositiveSpan if key.name == "duration" => "30s",
        Holds::Value(Kind::Span) | Holds::PositiveSpan => "40ms",
        Holds::Value(Kind::Rate) | Holds::FiniteRate => "100mbit",
        Holds::Value(Kind::Bytes) | Holds::BytesIn { .. } => "1500B",
        Holds::Value(Kind::Limit) => "50p",
        Holds::Value(Kind::Probability) => "1%",
        Holds::Overhead => "-14B",
        Holds::Numbers => "3, 10-12",
        Holds::Sizes => "1500B",
        Holds::Decimal => return "1.5".into(),
        Holds::Rows => return "[[-3, 1], [2, -4]]".into(),
        Holds::Settings => return "{ \"uplink.rate\" = \"5mbit\" }".into(),
        Holds::Given => return "{ quantum = \"3000B\", rounds = 4 }".into(),
        Holds::File(example) => example,
        Holds::Brief([first, ..]) => return sample(first, discipline),
        Holds::Value(Kind::Count { min, .. }) => return (min + 7).to_string(),
        Holds::Value(Kind::Choice(words)) => {
            let other = words.iter().find(|w| key.fallback != Fallback::Value(w));
            return format!("\"{}\"", other.or(words.first()).unwrap_or(&""));
        }
        Holds::Rules => "udp dport 5004",
        Holds::Mask => "src/24 dport",
        Holds::LinkName | Holds::LinkNames | Holds::Target | Holds::Entries => "uplink",
        Holds::Name => "web",
        Holds::Headers => "tcp src 10.1.0.7 dport 443",
        Holds::FlowName => "voice",
        Holds::Scheduler => return "{ kind = \"drr\" }".into(),
        Holds::Table(keys) | Holds::Tables(keys) | Holds::Brief(keys) => return inline(keys),
        Holds::Named(_) | Holds::Parts => return String::new(),
    };
    format!("\"{text}\"")
}
