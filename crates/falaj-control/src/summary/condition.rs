//! Conditions under which a run has failed: `--fail-if 'release.p99 > 200us'`.

use super::{FlowSummary, Named, Summary};
use anyhow::Result;
use falaj_scenario::{Link, parse_rate, parse_span};
use falaj_sched::units::time::Span;
use falaj_terminal::text;
use falaj_traffic::meter::Meter;
use std::process::ExitCode;

/// Exit status if a condition of `--fail-if` holds.
const FAILED: u8 = 4;

/// The option `--fail-if` of commands that carry packets.
#[derive(clap::Args)]
#[command(next_help_heading = "Results and control")]
pub struct FailIf {
    /// Fail with status 4 if this holds at the end: `release.p99 > 200us`, `loss of up > 1%`; may
    /// be given again.
    #[arg(long, value_name = "CONDITION", value_parser = Condition::parse)]
    fail_if: Vec<Condition>,
}

impl FailIf {
    /// Prints the conditions that hold; returns the exit status if any does.
    pub fn judge(&self, summary: &Summary) -> Result<Option<ExitCode>> {
        let mut failed = false;
        for condition in &self.fail_if {
            if let Some(value) = condition.holds(summary)? {
                eprintln!("falaj: failed: {}: it is {value}", condition.text);
                failed = true;
            }
        }
        Ok(failed.then(|| ExitCode::from(FAILED)))
    }

    /// Reports, before the run, an error that would otherwise show at the end of the run: a
    /// condition on a flow that does not exist.
    pub fn check(&self, links: &[Link]) -> Result<()> {
        let nothing = Summary::new(links, Span::ZERO, Vec::<Vec<FlowSummary>>::new(), Vec::new());
        self.fail_if.iter().try_for_each(|condition| condition.flows(&nothing).map(drop))
    }
}

/// A condition: `QUANTITY [of FLOW] COMPARISON VALUE`.
#[derive(Clone, Debug)]
struct Condition {
    text: String,
    quantity: Quantity,
    of: Option<String>,
    comparison: Comparison,
    value: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Quantity {
    Offered,
    Sent,
    Dropped,
    Loss,
    Rate,
    Delay(Which),
    Release(Which),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Which {
    P50,
    P99,
    Max,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The quantities and their names.
const QUANTITIES: [(&str, Quantity); 11] = [
    ("offered", Quantity::Offered),
    ("sent", Quantity::Sent),
    ("dropped", Quantity::Dropped),
    ("loss", Quantity::Loss),
    ("rate", Quantity::Rate),
    ("delay.p50", Quantity::Delay(Which::P50)),
    ("delay.p99", Quantity::Delay(Which::P99)),
    ("delay.max", Quantity::Delay(Which::Max)),
    ("release.p50", Quantity::Release(Which::P50)),
    ("release.p99", Quantity::Release(Which::P99)),
    ("release.max", Quantity::Release(Which::Max)),
];

impl Which {
    fn of(self, meter: &Meter) -> Option<f64> {
        let span = match self {
            Which::P50 => meter.quantile(0.5),
            Which::P99 => meter.quantile(0.99),
            Which::Max => meter.max(),
        };
        span.map(|span| span.0 as f64)
    }
}

impl Quantity {
    fn parse_value(self, text: &str) -> Result<f64, String> {
        match self {
            Quantity::Offered | Quantity::Sent | Quantity::Dropped => text
                .parse::<u64>()
                .map(|n| n as f64)
                .map_err(|_| format!("`{text}` is not a number of packets: 10")),
            Quantity::Loss => {
                let percent = text.strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
                let percent = percent.filter(|n| (0.0..=100.0).contains(n));
                percent.map(|n| n / 100.0).ok_or_else(|| format!("`{text}` is not a share: 0.5%"))
            }
            Quantity::Rate => parse_rate(text).map(|rate| rate.0 as f64).map_err(|e| e.to_string()),
            Quantity::Delay(_) | Quantity::Release(_) => {
                parse_span(text).map(|span| span.0 as f64).map_err(|e| e.to_string())
            }
        }
    }

    /// The value for a flow; `None` if no packet was measured.
    fn of(self, flow: &FlowSummary, elapsed: Span) -> Option<f64> {
        Some(match self {
            Quantity::Offered => flow.counters.offered as f64,
            Quantity::Sent => flow.counters.sent as f64,
            Quantity::Dropped => flow.counters.dropped() as f64,
            Quantity::Loss => flow.loss(),
            Quantity::Rate => flow.rate(elapsed),
            Quantity::Delay(which) => which.of(&flow.delay)?,
            Quantity::Release(which) => which.of(&flow.release)?,
        })
    }

    fn show(self, value: f64) -> String {
        match self {
            Quantity::Offered | Quantity::Sent | Quantity::Dropped => format!("{value:.0}"),
            Quantity::Loss => format!("{:.2} %", value * 100.0),
            Quantity::Rate => text::rate(value),
            Quantity::Delay(_) | Quantity::Release(_) => text::nanos(value),
        }
    }
}

impl Condition {
    fn parse(text: &str) -> Result<Condition, String> {
        let at = text.find(['<', '>']).ok_or("a condition compares: `release.p99 > 200us`")?;
        let (left, right) = text.split_at(at);
        let signs = [
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let found = signs
            .into_iter()
            .find_map(|(sign, comparison)| Some((comparison, right.strip_prefix(sign)?)));
        let (comparison, value) = found.ok_or("a condition compares with <, <=, > or >=")?;
        let (name, of) = match left.trim().split_once(" of ") {
            Some((name, of)) => (name.trim(), Some(of.trim().to_owned())),
            None => (left.trim(), None),
        };
        let Some(&(_, quantity)) = QUANTITIES.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = QUANTITIES.iter().map(|(known, _)| *known).collect();
            return Err(format!("there is no quantity `{name}`; there are {}", known.join(", ")));
        };
        let value = quantity.parse_value(value.trim())?;
        Ok(Condition { text: text.trim().to_owned(), quantity, of, comparison, value })
    }

    /// The flows of the condition.
    fn flows<'a>(&self, summary: &'a Summary) -> Result<Vec<&'a Named>> {
        let Some(of) = &self.of else { return Ok(summary.flows.iter().collect()) };
        let is_it = |named: &&Named| {
            *of == named.name
                || *of == summary.ways[named.way].name
                || *of == named.full_name(&summary.ways)
        };
        let flows: Vec<&Named> = summary.flows.iter().filter(is_it).collect();
        let known = || {
            let ways = summary.ways.iter().map(|way| way.name.clone());
            ways.chain(summary.flows.iter().map(|f| f.full_name(&summary.ways)))
                .collect::<Vec<_>>()
                .join(", ")
        };
        anyhow::ensure!(
            !flows.is_empty(),
            "`{}`: there is no flow `{of}`; there are {}",
            self.text,
            known()
        );
        Ok(flows)
    }

    /// The value of the quantity if the condition holds. Without measurements it does not hold.
    fn holds(&self, summary: &Summary) -> Result<Option<String>> {
        let mut sum = FlowSummary::default();
        self.flows(summary)?.iter().for_each(|named| sum.add(&named.flow));
        let Some(value) = self.quantity.of(&sum, summary.elapsed) else { return Ok(None) };
        let holds = match self.comparison {
            Comparison::Less => value < self.value,
            Comparison::LessOrEqual => value <= self.value,
            Comparison::Greater => value > self.value,
            Comparison::GreaterOrEqual => value >= self.value,
        };
        Ok(holds.then(|| self.quantity.show(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::summary;

    #[test]
    fn a_far_end_that_takes_nothing_is_a_loss() {
        let mut summary = summary();
        summary.flows[0].flow.not_taken.packets = 3;
        let condition = Condition::parse("loss of up > 1%").unwrap();
        assert_eq!(condition.holds(&summary).unwrap().as_deref(), Some("30.00 %"));
    }

    #[test]
    fn conditions_hold_or_not() {
        for (text, value) in [
            ("release.max > 200ns", Some("900 ns")),
            ("release.max of up > 200ns", None),
            ("release.p50 of up all <= 100ns", Some("100 ns")),
            ("loss of down >= 20%", Some("20.00 %")),
            ("loss > 10%", None),
            ("dropped > 0", Some("2")),
            ("rate of up<9kbit", Some("8.00 kbit/s")),
            ("delay.p99 > 1s", None),
            ("sent of all < 19", Some("18")),
        ] {
            let condition = Condition::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(condition.holds(&summary()).unwrap().as_deref(), value, "{text}");
        }
        let nobody = Condition::parse("sent of nobody < 1")
            .unwrap()
            .holds(&summary())
            .unwrap_err()
            .to_string();
        assert_eq!(
            nobody,
            "`sent of nobody < 1`: there is no flow `nobody`; there are up, down, up all, down all"
        );
    }

    #[test]
    fn a_condition_that_is_none_is_refused() {
        for (text, words) in [
            ("release.p99", "a condition compares"),
            ("releases > 1us", "there are offered, sent, dropped, loss, rate, delay.p50,"),
            ("release.p99 > 200", "200"),
            ("loss > 2", "is not a share"),
            ("dropped > few", "is not a number of packets"),
        ] {
            let error = Condition::parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
