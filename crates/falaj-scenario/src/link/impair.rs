//! Reads what a link does to packets.

use crate::diagnostics::Problem;
use crate::files::{dist, place};
use crate::keys::{self, Holds, Key};
use crate::read::{Datum, Fields, Got, fields, get};
use crate::suggest;
use falaj_engine::impair::Impairments;
use falaj_engine::impair::distribution::Distribution;
use falaj_engine::impair::event::RandomEvent;
use falaj_engine::impair::jitter::{JITTER_MAX, Jitter};
use falaj_engine::impair::loss::{FourStates, GilbertElliott, Loss};
use falaj_engine::impair::profile::Profile;
use falaj_engine::impair::reorder::Reorder;
use falaj_engine::impair::slots::Slots;
use falaj_sched::contract::params::{Value, Values};
use falaj_sched::units::probability::Probability;
use falaj_sched::units::time::Span;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

/// What each kind of loss takes besides its `kind`, and cannot do without.
const LOSSES: [(&str, &[&str], &[&str]); 5] = [
    ("random", &["probability", "correlation"], &["probability"]),
    ("gilbert-elliott", &["to-bad", "to-good", "loss-bad", "loss-good"], &["to-bad", "to-good"]),
    ("four-states", &["p13", "p31", "p32", "p23", "p14"], &["p13"]),
    ("every", &["count"], &["count"]),
    ("list", &["packets"], &["packets"]),
];

/// How a key of `loss` is written.
pub(crate) fn loss_example(key: &str) -> &'static str {
    let kind = LOSSES
        .iter()
        .find(|(_, takes, _)| takes.contains(&key))
        .map_or("random", |(kind, _, _)| kind);
    match kind {
        "gilbert-elliott" => {
            "loss = { kind = \"gilbert-elliott\", to-bad = \"1%\", to-good = \"30%\", loss-bad = \"80%\" }"
        }
        "four-states" => {
            "loss = { kind = \"four-states\", p13 = \"1%\", p31 = \"30%\", p32 = \"20%\", p14 = \"0.1%\" }"
        }
        "every" => "loss = { kind = \"every\", count = 100 }",
        "list" => "loss = { kind = \"list\", packets = \"3, 10-12\" }",
        _ => "loss = { probability = \"1%\", correlation = \"25%\" }",
    }
}

/// A key that stands for a table, brief or not.
pub(crate) struct Given<'a> {
    pub(crate) values: Values,
    pub(crate) fields: Fields<'a>,
}

impl<'a> Given<'a> {
    /// Of the key `name`, its value or its table; `Err`: something is wrong with it, which was
    /// said.
    pub(crate) fn read(
        name: &str,
        tables: &[&Fields<'a>],
        problems: &mut Vec<Problem>,
    ) -> Result<Option<Given<'a>>, ()> {
        let key = keys::DIRECTION.iter().find(|k| k.name == name).ok_or(())?;
        let Holds::Brief(inner) = key.holds else { return Err(()) };
        let got = get(tables, key, problems);
        let field = tables.iter().find_map(|t| t.field(name));
        let owner = tables.iter().find(|t| t.field(name).is_some());
        let what = owner.map_or(String::new(), |t| format!("`{name}` of {}", t.what));
        let at = field.map_or(0..0, |f| f.at.clone());
        match got {
            Got::Given(Datum::Value(value)) => {
                let mut given = Given { values: Values::default(), fields: Fields::none(at, what) };
                given.values.set(inner.first().map_or("", |k| k.name), value);
                given.take(&inner[1..], problems)?;
                Ok(Some(given))
            }
            // A file, which its field has.
            Got::Given(Datum::Name(_)) => {
                let mut fields = Fields::none(at, what);
                fields.adopt(field.ok_or(())?, inner.first().ok_or(())?);
                Ok(Some(Given { values: Values::default(), fields }))
            }
            Got::Given(Datum::Table(table)) => {
                let allowed: Vec<Key> = match name {
                    "loss" => {
                        let first = |problems: &mut Vec<Problem>| {
                            let first = fields(
                                table,
                                at.clone(),
                                &what,
                                &[keys::LOSS_KIND],
                                keys::LOSS,
                                problems,
                            );
                            get(&[&first], &keys::LOSS_KIND, &mut Vec::new())
                        };
                        let kind = match first(&mut Vec::new()) {
                            Got::Given(Datum::Value(Value::Choice(kind)))
                            | Got::Default(Datum::Value(Value::Choice(kind))) => kind,
                            _ => {
                                first(problems);
                                return Err(());
                            }
                        };
                        let takes = LOSSES.iter().find(|l| l.0 == kind).map_or(&[][..], |l| l.1);
                        keys::LOSS
                            .iter()
                            .filter(|k| k.name == "kind" || takes.contains(&k.name))
                            .copied()
                            .collect()
                    }
                    _ => inner.to_vec(),
                };
                let mut given = Given {
                    values: Values::default(),
                    fields: fields(table, at, what, &allowed, &[], problems),
                };
                given.take(&allowed, problems)?;
                Ok(Some(given))
            }
            Got::Absent => Ok(None),
            _ => Err(()),
        }
    }

    fn take(&mut self, keys: &[Key], problems: &mut Vec<Problem>) -> Result<(), ()> {
        let mut whole = Ok(());
        for key in keys {
            match get(&[&self.fields], key, problems) {
                Got::Given(Datum::Value(value)) | Got::Default(Datum::Value(value)) => {
                    self.values.set(key.name, value)
                }
                Got::Wrong => whole = Err(()),
                _ => {}
            }
        }
        whole
    }

    pub(crate) fn at(&self, name: &str) -> Range<usize> {
        self.fields.field(name).map_or(self.fields.at.clone(), |f| f.at.clone())
    }

    fn probability(&self, name: &str) -> Probability {
        self.values.probability(name).unwrap_or_default()
    }

    fn event(&self) -> RandomEvent {
        RandomEvent {
            probability: self.probability("probability"),
            correlation: self.probability("correlation"),
        }
    }
}

/// What a direction does to packets; `None`: something is wrong, which was
/// said. Files are beside the scenario's.
pub(crate) fn impairments(
    tables: &[&Fields<'_>],
    delay: Option<Span>,
    profile: Option<Profile>,
    beside: &Path,
    problems: &mut Vec<Problem>,
) -> Option<Impairments> {
    let mut of = |name: &str| Given::read(name, tables, problems);
    let (loss, duplicate, corrupt) = (of("loss"), of("duplicate"), of("corrupt"));
    let (reorder, jitter, slots) = (of("reorder"), of("jitter"), of("slot"));
    let loss = match loss {
        Ok(Some(given)) => read_loss(&given, problems).map(Some),
        other => other.map(|_| None),
    };
    let jitter = match jitter {
        Ok(Some(given)) => read_jitter(&given, delay, beside, problems).map(Some),
        other => other.map(|_| None),
    };
    let slots = match slots {
        Ok(Some(given)) => read_slots(&given, problems).map(Some),
        other => other.map(|_| None),
    };
    if let (Ok(Some(given)), Some(Span::ZERO), Ok(None)) = (&reorder, delay, &jitter) {
        problems.push(
            Problem::warning(
                given.fields.at.clone(),
                format!("{}: no packet can overtake", given.fields.what),
            )
            .label("the link has no delay that it could skip")
            .help("write a `delay`"),
        );
    }
    let gap = |given: &Given<'_>| given.values.count("gap").unwrap_or(1);
    Some(Impairments {
        loss: loss.ok()?,
        duplicate: duplicate.ok()?.map(|given| given.event()),
        corrupt: corrupt.ok()?.map(|given| given.event()),
        reorder: reorder.ok()?.map(|given| Reorder { event: given.event(), gap: gap(&given) }),
        jitter: jitter.ok()?,
        profile,
        slots: slots.ok()?,
    })
}

fn read_loss(given: &Given<'_>, problems: &mut Vec<Problem>) -> Result<Loss, ()> {
    let kind = given.values.choice("kind").unwrap_or("random");
    let p = |name: &str| given.probability(name);
    let needs = LOSSES.iter().find(|l| l.0 == kind).map_or(&[][..], |l| l.2);
    let missing: Vec<&str> = needs
        .iter()
        .filter(|n| given.values.get(n).is_none() && given.fields.field(n).is_none())
        .copied()
        .collect();
    if !missing.is_empty() {
        let what = format!("{} lacks {}", given.fields.what, suggest::list(missing));
        problems.push(Problem::error(given.fields.at.clone(), what).help(format!(
            "the kind `{kind}` needs it, as in `{}`",
            loss_example(needs.first().unwrap_or(&""))
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
                    "with `p13` it is more than certain",
                    "both lead out of a gap: 100% at most",
                );
            }
            if given.values.probability("p31").is_some() && sum(p31, p("p32")) > 1.0 {
                return refuse(
                    "p32",
                    "with `p31` it is more than certain",
                    "both lead out of a loss: 100% at most",
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

fn read_jitter(
    given: &Given<'_>,
    delay: Option<Span>,
    beside: &Path,
    problems: &mut Vec<Problem>,
) -> Result<Jitter, ()> {
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
            Distribution::Table(place::read(
                beside,
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
        delay.and_then(|delay| Some((delay, jitter.cut(delay)?)))
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
                "they take no time instead: the mean is {}, not {delay}, and the deviation {}",
                round(mean),
                round(deviation)
            ))
            .help(format!("from a `delay` of {} on it is as asked for", Span(u64::MAX - below.0))),
        );
    }
    Ok(jitter)
}

fn read_slots(given: &Given<'_>, problems: &mut Vec<Problem>) -> Result<Slots, ()> {
    let least = given.values.span("least").ok_or(())?;
    let most = given.values.span("most").unwrap_or(least);
    if most < least {
        problems.push(
            Problem::error(
                given.at("most"),
                format!("{}: `most` is shorter than `least`", given.fields.what),
            )
            .help(format!("write `{least}` or more")),
        );
        return Err(());
    }
    let packets = given.values.count("packets").unwrap_or(u64::MAX);
    Ok(Slots { least, most, packets, bytes: given.values.bytes("bytes").unwrap_or(u64::MAX) })
}
