//! Reads the envelope of a source, and the token bucket that its packets pass.

use crate::diagnostics::Problem;
use crate::keys::{self, BUCKET, GREEDY};
use crate::read::{Datum, Fields, fields, values};
use falaj_sched::contract::params::{Value, Values};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use falaj_traffic::source::bucket::{Bucket, Limit};
use falaj_traffic::source::greedy::Envelope;
use std::ops::Range;
use toml::de::DeTable;

/// Reads the token bucket that a source's packets pass, if there is one. Errors are added to
/// `problems`.
pub(crate) fn limit(
    fields_of: &Fields<'_>,
    largest: u32,
    problems: &mut Vec<Problem>,
) -> Result<Option<Limit>, ()> {
    let bucket = |name: &str, problems: &mut Vec<Problem>| -> Result<Option<Bucket>, ()> {
        let Some(field) = fields_of.field(name) else { return Ok(None) };
        let Some(Datum::Table(table)) = field.datum else { return Err(()) };
        let what = format!("`{name}` of {}", fields_of.what);
        let fields = fields(table, field.at.clone(), what, BUCKET, &[], problems);
        let values = values(&[&fields], BUCKET.iter().copied(), problems).ok_or(())?;
        let (Some(rate), Some(burst)) = (rate(&values), values.bytes("burst")) else {
            return Err(());
        };
        holds(burst, largest, &fields, problems)
            .map(|burst| Some(Bucket { rate: rate.0, burst }))
            .ok_or(())
    };
    let (shaped, policed) = (bucket("shaped", problems)?, bucket("policed", problems)?);
    match (shaped, policed) {
        (Some(_), Some(_)) => {
            let at = fields_of
                .field("policed")
                .map_or(fields_of.at.clone(), |field| field.name_at.clone());
            let why = format!("{} is both `shaped` and `policed`", fields_of.what);
            problems.push(
                Problem::error(at, why)
                    .help("shaped packets conform already: leave one of them out"),
            );
            Err(())
        }
        (shaped, policed) => Ok(shaped.map(Limit::Shaped).or(policed.map(Limit::Policed))),
    }
}

fn rate(values: &Values) -> Option<Rate> {
    match values.get("rate") {
        Some(Value::Rate(rate)) => Some(rate),
        _ => None,
    }
}

/// Checks that `burst`, a token bucket's size, is not smaller than the largest packet.
fn holds(
    burst: u64,
    largest: u32,
    fields: &Fields<'_>,
    problems: &mut Vec<Problem>,
) -> Option<u32> {
    if burst < largest.into() {
        let at = fields.field("burst").map_or(fields.at.clone(), |field| field.at.clone());
        let why = format!("`burst`: a bucket of {burst}B never holds a packet of {largest}B");
        problems.push(
            Problem::error(at, why)
                .help(format!("write at least `{largest}B`, or a smaller `size`")),
        );
        return None;
    }
    u32::try_from(burst).ok()
}

/// Reads the envelope of a greedy source.
pub(crate) fn envelope<'a>(
    tables: &[(&'a DeTable<'a>, Range<usize>)],
    source: &Fields<'_>,
    largest: u32,
    problems: &mut Vec<Problem>,
) -> Option<Envelope> {
    let field = source.field("allowed")?;
    if tables.is_empty() || tables.len() > keys::BUCKETS_MAX {
        let why = format!("the envelope of {} has {} token buckets", source.what, tables.len());
        let help = format!("write 1 to {}", keys::BUCKETS_MAX);
        problems.push(Problem::error(field.at.clone(), why).help(help));
        return None;
    }
    let mut all = Vec::new();
    for (table, at) in tables {
        all.push((one(table, at.clone(), source, largest, problems)?, at.clone()));
    }
    if let [(only, _)] = &all[..] {
        return Some(only.clone());
    }
    let mut buckets = Vec::new();
    for (envelope, at) in all {
        match envelope {
            Envelope::Buckets(more) => buckets.extend(more),
            _ => {
                let why = "several envelopes must all be token buckets";
                let help = "write a `rate` and a `burst` in each, or leave the others out";
                problems.push(Problem::error(at, why).help(help));
                return None;
            }
        }
    }
    Some(Envelope::Buckets(buckets))
}

/// The three ways to write an envelope, as a help text.
const WAYS: &str = "write `{ rate = \"2mbit\", burst = \"15kB\" }`, a token bucket (sigma, rho); \
                    `{ rate = \"2mbit\", frame = \"10ms\" }`, (r, T); or `{ x-min = \"1ms\", x-ave \
                    = \"4ms\", over = \"100ms\" }`, (Xmin, Xave, I)";

fn one<'a>(
    table: &'a DeTable<'a>,
    at: Range<usize>,
    source: &Fields<'_>,
    largest: u32,
    problems: &mut Vec<Problem>,
) -> Option<Envelope> {
    let fields =
        fields(table, at, format!("the envelope of {}", source.what), GREEDY, &[], problems);
    let values = values(&[&fields], GREEDY.iter().copied(), problems)?;
    let spans = ["frame", "x-min", "x-ave", "over"].map(|name| values.span(name));
    let at = |name: &str| fields.field(name).map_or(fields.at.clone(), |field| field.at.clone());
    match (rate(&values), values.bytes("burst"), spans) {
        (Some(rate), Some(burst), [None, None, None, None]) => {
            let burst = holds(burst, largest, &fields, problems)?;
            Some(Envelope::Buckets(vec![Bucket { rate: rate.0, burst }]))
        }
        (Some(Rate(rate)), None, [Some(Span(frame)), None, None, None]) => {
            let bytes = u128::from(rate) * u128::from(frame)
                / u128::from(falaj_sched::units::rate::BIT_NANOS);
            if bytes < largest.into() {
                let why = format!(
                    "`frame`: at this rate {bytes}B fit a frame, and packets have up to {largest}B"
                );
                problems.push(
                    Problem::error(at("frame"), why)
                        .help("write a longer frame, or a smaller `size`"),
                );
                return None;
            }
            Some(Envelope::Frames { rate, frame })
        }
        (None, None, [None, Some(Span(least)), Some(Span(mean)), Some(Span(over))]) => {
            for (name, less, more, than) in
                [("x-ave", mean, least, "x-min"), ("over", over, mean, "x-ave")]
            {
                if less < more {
                    let why =
                        format!("`{name}` is less than `{than}`; packets cannot conform to both");
                    problems.push(
                        Problem::error(at(name), why)
                            .help("`x-min` is the least, and `over` the greatest"),
                    );
                    return None;
                }
            }
            Some(Envelope::Spaced { least, mean, over })
        }
        _ => {
            let why = format!("the envelope of {} mixes or lacks keys", source.what);
            problems.push(Problem::error(fields.at.clone(), why).help(WAYS));
            None
        }
    }
}
