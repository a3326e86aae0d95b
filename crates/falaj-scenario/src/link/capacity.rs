//! Reads the capacity of a link: its rate, its trace, or its token buckets.

use crate::diagnostics::Problem;
use crate::files::trace::{self, Trace};
use crate::keys;
use crate::read::{BriefTable, Datum, Field, Fields, Got, get, read_file};
use falaj_engine::counted_layer::CountedLayer;
use falaj_sched::contract::params::Value;
use falaj_sched::units::capacity::{Capacity, Opportunities, Steps};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The keys that set the capacity. If several tables have them, the innermost of these tables takes
/// precedence.
const OWN: [&str; 2] = ["rate", "trace"];
/// Size in bytes of an IP packet of a mahimahi trace.
const PACKET: u32 = 1500;

/// The traces that were read for a scenario. After each of its scheduled changes the scenario is
/// read again, with these traces.
#[derive(Default)]
pub(crate) struct Traces(RefCell<BTreeMap<TraceKey, (Rate, Capacity)>>);

/// The inputs of a trace: the name of the file, whether only its rates are read, the time of
/// repetition, and the bytes of a packet of mahimahi.
type TraceKey = (String, bool, Option<Span>, u32);

/// Returns the rate (for a trace, its mean) and the capacity; `None` after an error, which was
/// reported. `largest` is the number of bytes of the largest packet.
pub(crate) fn capacity(
    tables: &[&Fields<'_>],
    layer: Option<CountedLayer>,
    largest: u32,
    bw: Option<Rate>,
    (beside, traces): (&Path, &Traces),
    problems: &mut Vec<Problem>,
) -> Option<(Rate, Capacity)> {
    let first = tables.iter().position(|t| OWN.iter().any(|key| t.means(key))).unwrap_or(0);
    let nearest = &tables[first..];
    let own = tables.get(first)?;
    if let (Some(_), Some(trace)) = (own.field("rate"), own.field("trace")) {
        problems.push(
            Problem::error(
                trace.name_at.clone(),
                format!("{} has a rate and a trace of it", own.what),
            )
            .help("leave out `rate`, or `trace`"),
        );
        return None;
    }
    let burst = value("burst", tables, problems);
    if own.means("trace") {
        let given = BriefTable::read(keys::direction("trace")?, nearest, problems).ok()??;
        for name in ["burst", "peak"] {
            let Some(field) = tables.iter().find_map(|t| t.field(name)) else { continue };
            let what = "a link with a trace cannot be a token bucket";
            let help = format!("leave out `{name}`, or write a `rate` in place of the `trace`");
            problems.push(Problem::error(field.name_at.clone(), what).help(help));
            return None;
        }
        let field = given.fields.field("file")?;
        let Some(Datum::Name(name)) = field.datum else { return None };
        let packet = layer?.from_ip(PACKET).max(1);
        let alone = given.values.choice("columns").is_some();
        let key = (name.to_owned(), alone, given.values.span("repeat"), packet);
        let known = traces.0.borrow().get(&key).cloned();
        if known.is_some() {
            return known;
        }
        let read = traced(&given, (field, &key), beside, problems)?;
        traces.0.borrow_mut().insert(key, read.clone());
        return Some(read);
    }
    // The rate of a profile counts only if there is neither `rate` nor `trace`.
    let silent = tables.iter().all(|t| OWN.iter().all(|key| !t.means(key)));
    let rate = match bw.filter(|_| silent) {
        Some(bw) => bw,
        None => match value("rate", nearest, problems).ok()? {
            Some(Value::Rate(rate)) => rate,
            _ => return None,
        },
    };
    match burst.ok()? {
        Some(Value::Bytes(_)) if rate.is_unlimited() => {
            let at =
                tables.iter().find_map(|t| t.field("burst")).map_or(0..0, |f| f.name_at.clone());
            problems.push(
                Problem::error(at, "an unlimited link needs no tokens")
                    .help("write a `rate`, or leave out `burst`"),
            );
            None
        }
        Some(Value::Bytes(burst)) => {
            let capacity = match peak(rate, largest, tables, problems).ok()? {
                Some((peak, peak_burst)) => Capacity::TwoBuckets { burst, peak, peak_burst },
                None => Capacity::TokenBucket(burst),
            };
            Some((rate, capacity))
        }
        _ => match tables.iter().find_map(|t| t.field("peak")) {
            Some(field) => {
                let what = "`peak` limits the speed of a `burst`, and the link has none";
                let help = "write a `burst`, or leave out `peak`";
                problems.push(Problem::error(field.name_at.clone(), what).help(help));
                None
            }
            None => Some((rate, Capacity::Serialise)),
        },
    }
}

/// Returns the rate and the size of the second token bucket of a link of this rate, if it has one;
/// `Err` after an error, which was reported. Without a `burst`, its size is that of the largest
/// packet.
fn peak(
    rate: Rate,
    largest: u32,
    tables: &[&Fields<'_>],
    problems: &mut Vec<Problem>,
) -> Result<Option<(Rate, u64)>, ()> {
    let key = keys::direction("peak").ok_or(())?;
    let Some(given) = BriefTable::read(key, tables, problems)? else { return Ok(None) };
    let peak = given.values.rate("rate").ok_or(())?;
    let burst = given.values.bytes("burst").unwrap_or(largest.max(1).into());
    if peak <= rate {
        let what = format!(
            "{}: a peak rate of {peak} is not above the link's rate of {rate}",
            given.fields.what
        );
        let help = format!("write a rate above {rate}, or leave out `peak`");
        problems.push(Problem::error(given.at("rate"), what).help(help));
        return Err(());
    }
    Ok(Some((peak, burst)))
}

fn value(
    name: &str,
    tables: &[&Fields<'_>],
    problems: &mut Vec<Problem>,
) -> Result<Option<Value>, ()> {
    let key = keys::direction(name).ok_or(())?;
    match get(tables, key, problems) {
        Got::Given(Datum::Value(value)) | Got::Default(Datum::Value(value)) => Ok(Some(value)),
        Got::Absent => Ok(None),
        _ => Err(()),
    }
}

fn traced(
    given: &BriefTable<'_>,
    (field, (name, alone, repeat, packet)): (&Field<'_>, &TraceKey),
    beside: &Path,
    problems: &mut Vec<Problem>,
) -> Option<(Rate, Capacity)> {
    let parse = if *alone { trace::rates_alone } else { trace::parse };
    let trace = read_file(beside, name, field, parse, trace::FORM, problems).ok()?;
    let repeat = *repeat;
    let mut refuse = |key: &str, what: String, help: &str| {
        problems.push(
            Problem::error(given.at(key), format!("{}: {what}", given.fields.what))
                .help(help.to_owned()),
        );
        None
    };
    match trace {
        Trace::Steps(steps) => {
            let last = steps.last()?.0;
            if let Some(repeat) = repeat.filter(|repeat| last.0 >= repeat.0) {
                let what = format!(
                    "it starts again after {repeat}, before its last line at {}",
                    Span(last.0)
                );
                return refuse("repeat", what, "write a longer time");
            }
            match Steps::new(steps, repeat) {
                Some(steps) => Some((steps.mean(), Capacity::Steps(Arc::new(steps)))),
                None if repeat.is_some() => refuse(
                    "file",
                    "its rate is always zero".into(),
                    "add a line with a rate above zero",
                ),
                None => {
                    refuse("file", "its rate is zero in the end".into(), "add a line, or `repeat`")
                }
            }
        }
        Trace::Packets { at, period } => {
            if repeat.is_some() {
                return refuse(
                    "repeat",
                    "a mahimahi trace repeats where it ends".into(),
                    "leave out `repeat`",
                );
            }
            let all = Opportunities::new(at, period, *packet)?;
            Some((all.mean(), Capacity::Opportunities(Arc::new(all))))
        }
    }
}
