//! Reads sources of traffic.

use crate::diagnostics::Problem;
use crate::keys;
use crate::link::Known;
use crate::model::{Source, Towards};
use crate::nearest;
use crate::read::{Datum, Fields, Got, fields, get};
use crate::units::quoted;
use crate::unlikely;
use falaj_sched::label::Ecn;
use falaj_sched::params::{Value, Values};
use falaj_sched::time::{Span, Time};
use falaj_traffic::source::Model;
use std::ops::Range;
use toml::de::DeTable;

/// Bytes of payload that the traffic generator writes into each datagram to
/// know it again: no source's packets may be smaller than a UDP datagram with
/// these.
pub const STAMP: u32 = 32;

/// Reads `[traffic.NAME]`, with the place of its rate. `duration` is the run's, if known.
pub(crate) fn source<'a>(
    name: &str,
    table: &'a DeTable<'a>,
    at: Range<usize>,
    links: &[Known],
    duration: Option<Span>,
    problems: &mut Vec<Problem>,
) -> Option<(Source, Range<usize>)> {
    let fields = fields(table, at, format!("traffic {}", quoted(name)), keys::TRAFFIC, &[], problems);
    let mut given = Values::default();
    let mut named = [("link", None), ("flow", None)];
    let mut whole = true;
    for key in keys::TRAFFIC {
        match get(&[&fields], key, problems) {
            Got::Given(Datum::Value(value)) | Got::Default(Datum::Value(value)) => given.set(key.name, value),
            Got::Given(Datum::Name(text)) => {
                if let Some(slot) = named.iter_mut().find(|(n, _)| *n == key.name) {
                    slot.1 = Some(text);
                }
            }
            Got::Absent => {}
            _ => whole = false,
        }
    }
    let [(_, link_name), (_, flow_name)] = named;
    let model = model(&fields, &given, problems);
    let times = times(&fields, &given, duration, problems);
    let towards = if given.choice("direction") == Some("down") { Towards::Down } else { Towards::Up };

    // Without a link that is known for sure, nothing can be said of its flows.
    let sure = |name: &str| fields.field(name).map_or(!fields.means(name), |f| f.datum.is_some());
    if !sure("link") {
        return None;
    }
    let link = pick("link", link_name, links.iter().map(|k| k.name.as_str()), "", &fields, problems)?;
    let known = &links[link];
    let size = match (given.bytes("size"), &known.link) {
        (Some(size), Some(link)) => fitting(size, link.direction(towards), &known.name, &fields, problems),
        _ => None,
    };
    if !sure("flow") || !sure("direction") {
        return None;
    }
    let names = known.flows[usize::from(towards == Towards::Down)].as_ref()?;
    let of = format!(" of link {}", quoted(&known.name));
    let flow = pick("flow", flow_name, names.iter().map(String::as_str), &of, &fields, problems)?;

    let Some(Value::Rate(rate)) = given.get("rate") else { return None };
    let sources = given.count("sources").and_then(|n| u32::try_from(n).ok())?;
    let ((start, stop), model, size) = (times?, model?, size?);
    let ecn = match given.choice("ecn") {
        Some("ect0") => Ecn::Ect0,
        Some("ect1") => Ecn::Ect1,
        _ => Ecn::Not,
    };
    let at = fields.field("rate").map_or(fields.at.clone(), |f| f.at.clone());
    whole.then(|| {
        (Source { name: name.to_owned(), link, flow, towards, model, rate, size, sources, start, stop, ecn }, at)
    })
}

/// Warns where it is headers that decide whether the traffic of a link fits,
/// and nothing says that they were thought of.
pub(crate) fn counted(n: usize, known: &Known, sources: &[&(Source, Range<usize>)], problems: &mut Vec<Problem>) {
    let Some(link) = &known.link else { return };
    for (way, towards) in [Towards::Up, Towards::Down].into_iter().enumerate() {
        if known.account[way] {
            continue;
        }
        let direction = link.direction(towards);
        let mut warn = |flow: Option<usize>, limit| {
            let of = |s: &&&(Source, Range<usize>)| {
                (s.0.link, s.0.towards) == (n, towards) && flow.is_none_or(|flow| s.0.flow == flow)
            };
            let mine: Vec<_> = sources.iter().filter(of).collect();
            let specs: Vec<&Source> = mine.iter().map(|s| &s.0).collect();
            let headers = unlikely::headers(&specs, direction.account, limit)?;
            let flow = flow.map(|flow| direction.flows[flow].name.as_str());
            problems.push(headers.problem(mine.first()?.1.clone(), &known.name, flow));
            Some(())
        };
        let promised = known.promised[way].iter().enumerate().filter_map(|(flow, rate)| Some((flow, (*rate)?)));
        let told = promised.filter_map(|(flow, rate)| warn(Some(flow), rate)).count();
        if told == 0 {
            warn(None, direction.setup.rate);
        }
    }
}

/// The index of the name that was given, or of the only one there is.
fn pick<'n>(
    key: &str,
    given: Option<&str>,
    names: impl Iterator<Item = &'n str> + Clone,
    of: &str,
    fields: &Fields<'_>,
    problems: &mut Vec<Problem>,
) -> Option<usize> {
    let count = names.clone().count();
    let list = || format!("{key}s{of}: {}", nearest::list(names.clone()));
    match given {
        None if count == 1 => Some(0),
        // A file without links is wrong as a whole, which was said.
        None if count == 0 => None,
        None => {
            let why = format!("{} lacks `{key}`", fields.what);
            problems.push(Problem::error(fields.at.clone(), why).help(list()));
            None
        }
        Some(name) => {
            let found = names.clone().position(|n| n == name);
            if found.is_none() && count > 0 {
                let at = fields.field(key).map_or(fields.at.clone(), |f| f.at.clone());
                let mut problem = Problem::error(at, format!("there is no {key} {}{of}", quoted(name)));
                if let Some(near) = nearest::among(name, names.clone()) {
                    problem = problem.label(format!("did you mean {}?", quoted(near)));
                }
                problems.push(problem.help(list()));
            }
            found
        }
    }
}

fn model(fields: &Fields<'_>, given: &Values, problems: &mut Vec<Problem>) -> Option<Model> {
    let model = given.choice("model")?;
    if model == "on-off" {
        let mut mean = |name: &str| {
            let span = given.span(name);
            if span.is_none() && !fields.means(name) {
                let why = format!("{} lacks `{name}`, which `on-off` needs", fields.what);
                problems.push(
                    Problem::error(fields.at.clone(), why).help(format!("write its mean, as in `{name} = \"100ms\"`")),
                );
            }
            span
        };
        let (on, off) = (mean("on"), mean("off"));
        return Some(Model::OnOff { on: on?, off: off? });
    }
    for name in ["on", "off"] {
        if let Some(field) = fields.field(name) {
            let why = format!("`{name}` is for `model = \"on-off\"`, and this is `{model}`");
            problems.push(
                Problem::error(field.name_at.clone(), why).help(format!("leave `{name}` away, or change the model")),
            );
        }
    }
    Some(if model == "cbr" { Model::Cbr } else { Model::Poisson })
}

fn times(
    fields: &Fields<'_>,
    given: &Values,
    duration: Option<Span>,
    problems: &mut Vec<Problem>,
) -> Option<(Time, Option<Time>)> {
    let start = given.span("start")?;
    if let (Some(stop), Some(field)) = (given.span("stop"), fields.field("stop"))
        && stop <= start
    {
        problems.push(
            Problem::error(field.at.clone(), format!("{} stops before it starts", fields.what))
                .help(format!("write a time after its start, `{start}`")),
        );
        return None;
    }
    if let (Some(duration), Some(field)) = (duration, fields.field("start"))
        && start >= duration
    {
        problems.push(
            Problem::warning(field.at.clone(), format!("{} never starts", fields.what))
                .help(format!("the run lasts `{duration}`: see `duration` in `[run]`")),
        );
    }
    Some((Time(start.0), given.span("stop").map(|s| Time(s.0))))
}

/// `size`, if a datagram of that size can carry the stamp and fits the link.
fn fitting(
    size: u64,
    direction: &crate::Direction,
    link: &str,
    fields: &Fields<'_>,
    problems: &mut Vec<Problem>,
) -> Option<u32> {
    let (account, mtu) = (direction.account, direction.mtu);
    let (least, most) = (account.from_udp(STAMP), account.largest(mtu));
    if (u64::from(least)..=u64::from(most)).contains(&size) {
        return u32::try_from(size).ok();
    }
    let at = fields.field("size").map_or(fields.at.clone(), |f| f.at.clone());
    let layer = account.name();
    problems.push(if size < least.into() {
        Problem::error(
            at,
            format!("`size`: {size}B has no room for the {STAMP} bytes by which packets are known again"),
        )
        .help(format!("at least `{least}B`, since link {} accounts `{layer}`", quoted(link)))
    } else {
        Problem::error(at, format!("`size`: {size}B is more than link {} carries", quoted(link)))
            .help(format!("at most `{most}B`: its mtu of {mtu}B, accounted at `{layer}`"))
    });
    None
}
