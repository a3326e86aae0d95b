//! Packets that the link loses: `loss`.

use super::Impairment;
use crate::diagnostics::Problem;
use crate::keys::Fallback::{Otherwise, Value as Default};
use crate::keys::{Holds, Key, Table, key};
use crate::read::{BriefTable, Datum, TableKind};
use crate::suggest;
use falaj_engine::impair::loss::{FourStates, GilbertElliott, Loss};
use falaj_sched::contract::params::Kind;
use falaj_sched::units::probability::Probability;
use std::ops::RangeInclusive;

pub(super) const LOSS: Impairment = Impairment {
    key: key(
        "loss",
        Holds::Brief(KEYS),
        Otherwise("none"),
        "packets that the link loses at random or by number",
    ),
    table: Some(Table {
        word: "loss",
        header: "loss = { … }",
        doc: "the packets that a link loses; `loss = \"1%\"` is the probability alone",
        keys: KEYS,
    }),
    kinds: KINDS,
    read: |given, reading| {
        reading.impairments.loss = Some(process(given, reading.problems).ok()?);
        Some(())
    },
};

const KINDS: &[TableKind] = &[
    TableKind {
        name: "random",
        takes: &["probability", "correlation"],
        needs: &["probability"],
        example: "loss = { probability = \"1%\", correlation = \"25%\" }",
    },
    TableKind {
        name: "gilbert-elliott",
        takes: &["to-bad", "to-good", "loss-bad", "loss-good"],
        needs: &["to-bad", "to-good"],
        example: "loss = { kind = \"gilbert-elliott\", to-bad = \"1%\", to-good = \"30%\", loss-bad = \"80%\" }",
    },
    TableKind {
        name: "four-states",
        takes: &["p13", "p31", "p32", "p23", "p14"],
        needs: &["p13"],
        example: "loss = { kind = \"four-states\", p13 = \"1%\", p31 = \"30%\", p32 = \"20%\", p14 = \"0.1%\" }",
    },
    TableKind {
        name: "every",
        takes: &["count"],
        needs: &["count"],
        example: "loss = { kind = \"every\", count = 100 }",
    },
    TableKind {
        name: "list",
        takes: &["packets"],
        needs: &["packets"],
        example: "loss = { kind = \"list\", packets = \"3, 10-12\" }",
    },
];

/// The keys of `loss = { … }`; its `kind` decides which of them are allowed.
const KEYS: &[Key] = &[
    key(
        "probability",
        Holds::Value(Kind::Probability),
        Otherwise("required by `random`"),
        "probability that a packet is lost; for `random`",
    ),
    key(
        "kind",
        Holds::Value(Kind::Choice(&["random", "gilbert-elliott", "four-states", "every", "list"])),
        Default("random"),
        "with a probability, in bursts by a Markov chain of two or of four states, every N-th packet, or by number",
    ),
    key(
        "correlation",
        Holds::Value(Kind::Probability),
        Default("0%"),
        "probability that a packet has the same outcome as the one before it; the mean stays the \
         same; for `random`",
    ),
    key(
        "to-bad",
        Holds::Value(Kind::Probability),
        Otherwise("required by `gilbert-elliott`"),
        "probability of a transition from the good to the bad state, after each packet; for \
         `gilbert-elliott`",
    ),
    key(
        "to-good",
        Holds::Value(Kind::Probability),
        Otherwise("required by `gilbert-elliott`"),
        "probability of a transition from the bad to the good state, after each packet; for \
         `gilbert-elliott`",
    ),
    key(
        "loss-bad",
        Holds::Value(Kind::Probability),
        Default("100%"),
        "probability that a packet is lost in the bad state; for `gilbert-elliott`",
    ),
    key(
        "loss-good",
        Holds::Value(Kind::Probability),
        Default("0%"),
        "probability that a packet is lost in the good state; for `gilbert-elliott`",
    ),
    key(
        "p13",
        Holds::Value(Kind::Probability),
        Otherwise("required by `four-states`"),
        "probability of a transition from a gap, in which packets arrive, to a burst of losses; \
         for `four-states`",
    ),
    key(
        "p31",
        Holds::Value(Kind::Probability),
        Otherwise("100% minus p13"),
        "probability of a transition from a burst to a gap; for `four-states`",
    ),
    key(
        "p32",
        Holds::Value(Kind::Probability),
        Default("0%"),
        "probability that, in a burst, a packet arrives after a lost one; for `four-states`",
    ),
    key(
        "p23",
        Holds::Value(Kind::Probability),
        Default("100%"),
        "probability that, in a burst, a packet is lost after one that arrived; for `four-states`",
    ),
    key(
        "p14",
        Holds::Value(Kind::Probability),
        Default("0%"),
        "probability of a single loss in a gap; for `four-states`",
    ),
    key(
        "count",
        Holds::Value(Kind::Count { min: 1, max: i64::MAX as u64 }),
        Otherwise("required by `every`"),
        "every N-th packet of a flow is lost, where N is this number; for `every`",
    ),
    key(
        "packets",
        Holds::Numbers,
        Otherwise("required by `list`"),
        "numbers of the packets of each flow that are lost, counted from 1; for `list`",
    ),
];

fn process(given: &BriefTable<'_>, problems: &mut Vec<Problem>) -> Result<Loss, ()> {
    let kind = given.values.choice("kind").unwrap_or("random");
    let p = |name: &str| given.probability(name);
    let needs = KINDS.iter().find(|k| k.name == kind).map_or(&[][..], |k| k.needs);
    let missing: Vec<&str> = needs
        .iter()
        .filter(|n| given.values.get(n).is_none() && given.fields.field(n).is_none())
        .copied()
        .collect();
    if !missing.is_empty() {
        let what = format!("{} lacks {}", given.fields.what, suggest::list(missing));
        problems.push(Problem::error(given.fields.at.clone(), what).help(format!(
            "the kind `{kind}` needs it, as in `{}`",
            KINDS.iter().find(|k| k.name == kind).map_or("", |k| k.example)
        )));
        return Err(());
    }
    let mut refuse = |name: &str, what: &str, help: &str| {
        problems.push(
            Problem::error(given.at(name), format!("`{name}`: {what}")).help(help.to_owned()),
        );
        Err(())
    };
    Ok(match kind {
        "gilbert-elliott" => {
            let never =
                ["to-bad", "to-good"].into_iter().find(|name| p(name) == Probability::NEVER);
            if let Some(name) = never {
                return refuse(
                    name,
                    "a state that is never left, or never entered",
                    "write a probability above zero",
                );
            }
            Loss::GilbertElliott(GilbertElliott {
                to_bad: p("to-bad"),
                to_good: p("to-good"),
                loss_bad: p("loss-bad"),
                loss_good: p("loss-good"),
            })
        }
        "four-states" => {
            let rest = Probability::from_f64(1.0 - p("p13").as_f64());
            let p31 = given.values.probability("p31").unwrap_or(rest);
            let sum = |a: Probability, b: Probability| a.as_f64() + b.as_f64();
            if sum(p("p13"), p("p14")) > 1.0 {
                return refuse(
                    "p14",
                    "with `p13` it is above 100%",
                    "both are transitions out of a gap: together 100% at most",
                );
            }
            if given.values.probability("p31").is_some() && sum(p31, p("p32")) > 1.0 {
                return refuse(
                    "p32",
                    "with `p31` it is above 100%",
                    "both are transitions out of a loss: together 100% at most",
                );
            }
            if p("p32") != Probability::NEVER && p("p23") == Probability::NEVER {
                return refuse(
                    "p23",
                    "a state that is never left",
                    "write a probability above zero",
                );
            }
            Loss::FourStates(FourStates {
                p13: p("p13"),
                p31,
                p32: p("p32"),
                p23: p("p23"),
                p14: p("p14"),
            })
        }
        "every" => Loss::Every(given.values.count("count").ok_or(())?),
        "list" => match given.fields.field("packets").and_then(|f| f.datum.as_ref()) {
            Some(Datum::Numbers(numbers)) => {
                Loss::Numbers(numbers.iter().map(RangeInclusive::clone).collect())
            }
            _ => return Err(()),
        },
        _ => Loss::Random(given.event()),
    })
}
