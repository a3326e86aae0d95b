//! Reads links and their directions.

pub(crate) mod capacity;
pub(crate) mod direction;
pub(crate) mod flows;
pub(crate) mod hierarchy;
pub(crate) mod masks;
pub(crate) mod pace;
pub(crate) mod plugin;
pub(crate) mod profile;
pub(crate) mod queue;
pub(crate) mod refusal;
pub(crate) mod scheduler;

use crate::diagnostics::Problem;
use crate::keys::{self, Key};
use crate::model::{Link, Towards};
use crate::presets;
use crate::read::{Datum, Field, Fields, fields};
use crate::suggest::{self, quoted};
pub(crate) use capacity::Traces;
use direction::Source;
use falaj_sched::contract::params::Value;
use falaj_sched::registry;
use falaj_sched::units::rate::Rate;
use flows::{FlowTable, flow_table};
use scheduler::chosen;
use std::ops::Range;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// Keys that define which bytes of a packet count. If one of them is set, the author of the
/// scenario has chosen the accounting.
const COUNTS: [&str; 3] = ["layer", "overhead", "cells"];

/// The parts of a link that could be read, even if it has errors.
pub(crate) struct Known {
    pub(crate) name: String,
    /// The link; `None` if it has an error, which was reported.
    pub(crate) link: Option<Link>,
    /// The names of the flows, up and down; `None` if unknown.
    pub(crate) flows: [Option<Vec<String>>; 2],
    /// The guaranteed rates of the leaves, up and down, where they are known.
    pub(crate) guaranteed: [Vec<Option<Rate>>; 2],
    /// For each direction, true if one of the keys in [`COUNTS`] is set.
    pub(crate) layer: [bool; 2],
}

/// A `[link.NAME]` whose NAME probably misspells another link's name.
pub(crate) struct Slip<'a> {
    pub(crate) name: &'a str,
    meant: &'a str,
}

impl Slip<'_> {
    pub(crate) fn problem(&self, at: Range<usize>) -> Problem {
        let (name, meant) = (quoted(self.name), quoted(self.meant));
        Problem::error(at, format!("link {name} has no rate, and link {meant} has one"))
            .label(format!("did you mean {meant}?"))
            .help(format!("if {name} is a link of its own, give it a `rate`"))
    }
}

/// The links without a rate whose names are similar to the name of a link with a rate.
pub(crate) fn slips<'a>(links: &'a DeTable<'a>) -> Vec<Slip<'a>> {
    // A misspelt key `rate` is reported elsewhere, so it counts as a rate here.
    let rate = |table: &DeTable<'_>| {
        let carries = |name: &str| {
            keys::CARRIES.contains(&name) || suggest::nearest(name, keys::CARRIES).is_some()
        };
        table.keys().any(|k| carries(k.get_ref()))
    };
    let has_rate = |link: &DeValue<'_>| {
        let sides = ["up", "down"].iter().filter_map(|side| link.get(*side)?.get_ref().as_table());
        link.as_table().into_iter().chain(sides).any(rate)
    };
    let named = |with: bool| {
        let of = move |(_, link): &(_, &toml::Spanned<DeValue<'_>>)| {
            link.get_ref().is_table() && has_rate(link.get_ref()) == with
        };
        links.iter().filter(of).map(|(name, _)| -> &str { name.get_ref() })
    };
    named(false)
        .filter_map(|name| Some(Slip { name, meant: suggest::nearest(name, named(true))? }))
        .collect()
}

/// Reads `[link.NAME]`. If another header probably misspells this link's name (`slips`), some of
/// this link's tables are probably under that header. Then missing keys are not reported, and the
/// names of its flows are unknown. Files are named relative to `beside`, the scenario's directory;
/// `traces` are those that were read before.
pub(crate) fn link<'a>(
    name: &str,
    table: &'a DeTable<'a>,
    at: Range<usize>,
    slips: &[Slip<'_>],
    (beside, traces): (&Path, &Traces),
    problems: &mut Vec<Problem>,
) -> Known {
    let parted = slips.iter().any(|slip| slip.meant == name);
    let what = format!("link {}", quoted(name));
    let link = fields(table, at, &what, keys::LINK, &[], problems);
    let sides = ["up", "down"].map(|side| {
        let (table, field) = link.table(side)?;
        Some(fields(
            table,
            field.at.clone(),
            format!("{what} {side}"),
            keys::DIRECTION,
            &[],
            problems,
        ))
    });
    // A direction's own table comes before the link's table; a preset comes after the table that
    // names it.
    let presets = [("up", 0), ("down", 1)]
        .map(|(way, n)| [sides[n].as_ref(), Some(&link)].map(|t| preset(way, t)));
    let [up, down] = [0, 1].map(|n| {
        let [own, of_link] = &presets[n];
        sides[n].iter().chain(own).chain([&link]).chain(of_link).collect::<Vec<_>>()
    });
    let both = [&up, &down];
    let chosen = both.map(|tables| chosen(tables, problems));

    if both.iter().all(|t| t.first().is_some_and(|own| own.field("flow").is_some()))
        && sides.iter().all(Option::is_some)
        && let Some(field) = link.field("flow")
    {
        problems.push(
            Problem::warning(field.at.clone(), format!("these flows of {what} are not used"))
                .help("`up` and `down` both have flows of their own"),
        );
    }

    let towards = [Towards::Up, Towards::Down];
    let mut before = None;
    let read = [0, 1].map(|n| {
        let (tables, others) = (both[n], both[1 - n]);
        let flows = flow_table(tables);
        // If both directions share the flows, keys of the other direction's discipline are no
        // error. If either direction's discipline is unknown, no discipline's key is an error.
        let shared = match (&flows, &flow_table(others)) {
            (FlowTable::Given(a), FlowTable::Given(b)) => std::ptr::eq(*a, *b),
            _ => false,
        };
        let elsewhere: Vec<Key> = match (&chosen[n], &chosen[1 - n]) {
            (Some(_), Some(_)) if !shared => Vec::new(),
            (Some(_), Some(other)) => keys::of_flow(other.entry),
            _ => registry::all().flat_map(keys::of_flow).collect(),
        };
        let source = Source {
            tables,
            towards: towards[n],
            flows: &flows,
            chosen: chosen[n].as_ref(),
            elsewhere: &elsewhere,
            parted,
            beside,
            traces,
        };
        source.direction(&mut before, problems)
    });
    let [up, down] = read;
    let names = [up.names, down.names].map(|names| names.filter(|_| !parted));
    let guaranteed = [up.guaranteed, down.guaranteed];
    let uplink = match link.field("uplink") {
        Some(Field { datum: Some(Datum::Name(port)), .. }) => Some((*port).to_owned()),
        _ => None,
    };
    let link = up.direction.zip(down.direction).map(|(up, down)| Link {
        name: name.to_owned(),
        up,
        down,
        uplink,
    });
    let layer = both.map(|tables| tables.iter().any(|t| COUNTS.iter().any(|key| t.means(key))));
    Known { name: name.to_owned(), link, flows: names, guaranteed, layer }
}

/// The keys that a preset sets for a direction. Errors in them point at the value of
/// `preset`.
fn preset<'a>(way: &str, table: Option<&Fields<'a>>) -> Vec<Fields<'a>> {
    let Some(field) = table.and_then(|t| t.field("preset")) else { return Vec::new() };
    let Some(Datum::Value(Value::Choice(name))) = field.datum else { return Vec::new() };
    let Some(whole) = presets::table(name) else { return Vec::new() };
    let own = whole.get(way).and_then(|side| side.get_ref().as_table());
    let what = format!("the preset `{name}`");
    let read = |table: &'a DeTable<'a>| {
        fields(table, field.at.clone(), &what, keys::LINK, &[], &mut Vec::new()).placed(&field.at)
    };
    own.into_iter().chain([whole]).map(read).collect()
}
