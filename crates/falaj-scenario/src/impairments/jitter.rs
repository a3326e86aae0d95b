//! Variation of the packets' delay: `jitter`.

use super::{Impairment, Reading};
use crate::diagnostics::Problem;
use crate::files::dist;
use crate::keys::Fallback::{Otherwise, Required, Value as Default};
use crate::keys::{Holds, Key, Table, key};
use crate::read::{BriefTable, Datum, read_file};
use falaj_engine::impair::distribution::Distribution;
use falaj_engine::impair::jitter::{JITTER_MAX, Jitter};
use falaj_sched::contract::params::Kind;
use falaj_sched::units::time::Span;

pub(super) const JITTER: Impairment = Impairment {
    key: key(
        "jitter",
        Holds::Brief(KEYS),
        Otherwise("none"),
        "variation of the packets' delay around its mean, `delay`; packets stay in order",
    ),
    table: Some(Table {
        word: "jitter",
        header: "jitter = { … }",
        doc: "the variation of the packets' delay; `jitter = \"5ms\"` is the amount alone",
        keys: KEYS,
    }),
    kinds: &[],
    read: |given, reading| {
        let jitter = process(given, reading).ok()?;
        let varies = given.values.span("amount")? > Span::ZERO;
        reading.impairments.jitter = varies.then_some(jitter);
        Some(())
    },
};

/// The keys of `jitter = { … }`.
const KEYS: &[Key] = &[
    key(
        "amount",
        Holds::Value(Kind::Span),
        Required,
        "standard deviation of the delay; with `uniform`, its maximum difference from the mean; \
         `0s`: none",
    ),
    key(
        "distribution",
        Holds::Value(Kind::Choice(&["uniform", "normal", "pareto", "paretonormal"])),
        Default("uniform"),
        "distribution of the delays, unless there is a `table`",
    ),
    key(
        "table",
        Holds::File("wifi.dist"),
        Otherwise("none"),
        "file with a measured distribution of delays, in netem's format (`.dist`)",
    ),
    key(
        "correlation",
        Holds::Value(Kind::Probability),
        Default("0%"),
        "probability that a packet has the same delay as the one before it; mean and deviation \
         stay the same",
    ),
    key(
        "order",
        Holds::Value(Kind::Choice(&["kept", "free"])),
        Default("kept"),
        "`kept`: no packet overtakes another, and delays change gradually from packet to packet; \
         `free`: each delay is random and independent, so packets may overtake",
    ),
];

fn process(given: &BriefTable<'_>, reading: &mut Reading<'_, '_>) -> Result<Jitter, ()> {
    let problems = &mut *reading.problems;
    let amount = given.values.span("amount").ok_or(())?;
    if amount > JITTER_MAX {
        problems.push(
            Problem::error(
                given.at("amount"),
                format!("{}: {amount} is too much", given.fields.what),
            )
            .help(format!("write at most `{JITTER_MAX}`")),
        );
        return Err(());
    }
    let distribution = match given.fields.field("table") {
        Some(field) => {
            if let Some(other) = given.fields.field("distribution") {
                problems.push(
                    Problem::error(
                        other.name_at.clone(),
                        format!("{} has two distributions", given.fields.what),
                    )
                    .help("leave out `distribution` or `table`"),
                );
                return Err(());
            }
            let Some(Datum::Name(name)) = field.datum else { return Err(()) };
            Distribution::Table(read_file(
                reading.beside,
                name,
                field,
                dist::parse,
                dist::FORM,
                problems,
            )?)
        }
        None => match given.values.choice("distribution") {
            Some("normal") => Distribution::Normal,
            Some("pareto") => Distribution::Pareto,
            Some("paretonormal") => Distribution::ParetoNormal,
            _ => Distribution::Uniform,
        },
    };
    let jitter = Jitter {
        amount,
        distribution,
        correlation: given.probability("correlation"),
        keeps_order: given.values.choice("order") != Some("free"),
    };
    if let Some((delay, (mean, deviation))) =
        reading.delay.and_then(|delay| Some((delay, jitter.cut(delay)?)))
    {
        let below = jitter.range(Span::MAX).0;
        let round = |ns: f64| Span((ns / 1000.0).round() as u64 * 1000);
        problems.push(
            Problem::warning(
                given.at("amount"),
                format!(
                    "{}: some packets would have to arrive before they leave",
                    given.fields.what
                ),
            )
            .label(format!(
                "they arrive without delay instead: the mean is {}, not {delay}, and the deviation is {}",
                round(mean),
                round(deviation)
            ))
            .help(format!("from a `delay` of {} on it is as configured", Span(u64::MAX - below.0))),
        );
    }
    Ok(jitter)
}
