//! Reads links and their directions.

pub(crate) mod capacity;
pub(crate) mod flows;
pub(crate) mod hierarchy;
pub(crate) mod impair;
pub(crate) mod pace;
pub(crate) mod plugin;
pub(crate) mod queue;

use crate::diagnostics::{Problem, Severity};
use crate::files::profile;
use crate::keys::{self, Holds, Key};
use crate::model::{ALL, Direction, Flow, Link, Run, Towards, default_scheduler};
use crate::read::{Datum, Field, Fields, Got, fields, get};
use crate::suggest::{self, quoted};
use crate::{adapters, lints, masks, presets};
use capacity::CARRIES;
use falaj_engine::account::Account;
use falaj_engine::framing::{Cells, Framing};
use falaj_engine::masks::Masks;
use falaj_sched::contract::discipline::Discipline;
use falaj_sched::contract::params::{Manifest, Refused, Setup, Value, Values};
use falaj_sched::mechanisms::oversubscription;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::registry;
use falaj_sched::scheduler::tree;
use falaj_sched::units::rate::Rate;
use flows::{FlowRead, FlowTable, all, flow_table, read_flows, unmatched};
use std::ops::Range;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// Whoever writes one of these knows what counts.
const COUNTS: [&str; 3] = ["account", "overhead", "cells"];

/// What is known of a link, even if it is not whole.
pub(crate) struct Known {
    pub(crate) name: String,
    /// `None`: something is wrong with it, which was said.
    pub(crate) link: Option<Link>,
    /// The flows' names up and down; `None`: not known.
    pub(crate) flows: [Option<Vec<String>>; 2],
    /// What the leaves up and down are promised, as far as it is known.
    pub(crate) promised: [Vec<Option<Rate>>; 2],
    /// `account` is written up and down: whoever wrote it knows what counts.
    pub(crate) account: [bool; 2],
}

/// A name in a header that was probably to be that of another link.
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

/// The links without a rate whose names are near to one that has a rate.
pub(crate) fn slips<'a>(links: &'a DeTable<'a>) -> Vec<Slip<'a>> {
    // A misspelt `rate` is said where it stands.
    let rate = |table: &DeTable<'_>| {
        let carries =
            |name: &str| CARRIES.contains(&name) || suggest::nearest(name, CARRIES).is_some();
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

/// The discipline that was chosen for a direction.
pub(crate) struct Chosen<'a> {
    pub(crate) entry: &'static Manifest,
    /// Its table, unless the scheduler is the default.
    pub(crate) fields: Option<Fields<'a>>,
}

/// Reads `[link.NAME]`. Where part of it stands under a slip of its name, what
/// is missing here is not said, nor which flows it has. Files are looked for
/// `beside` the scenario's.
pub(crate) fn link<'a>(
    name: &str,
    table: &'a DeTable<'a>,
    at: Range<usize>,
    slips: &[Slip<'_>],
    beside: &Path,
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
    // A direction's own table comes before the link's, and a preset behind the table that names it.
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
    let mut out = [None, None];
    let mut names = [None, None];
    let mut promised = [Vec::new(), Vec::new()];
    let mut asked = None;
    for n in [0, 1] {
        let (tables, others) = (both[n], both[1 - n]);
        let flows = flow_table(tables);
        // What the other direction's discipline takes from a flow that both
        // use is no mistake; nor is anything while a discipline is unknown.
        let shared = match (&flows, &flow_table(others)) {
            (FlowTable::Given(a), FlowTable::Given(b)) => std::ptr::eq(*a, *b),
            _ => false,
        };
        let elsewhere: Vec<Key> = match (&chosen[n], &chosen[1 - n]) {
            (Some(_), Some(_)) if !shared => Vec::new(),
            (Some(_), Some(other)) => keys::of_flow(other.entry),
            _ => registry::all().flat_map(keys::of_flow).collect(),
        };
        (out[n], names[n], promised[n]) = direction(
            tables,
            towards[n],
            &flows,
            chosen[n].as_ref(),
            &elsewhere,
            parted,
            beside,
            &mut asked,
            problems,
        );
        if parted {
            names[n] = None;
        }
    }
    let [up, down] = out;
    let uplink = match link.field("uplink") {
        Some(Field { datum: Some(Datum::Name(port)), .. }) => Some((*port).to_owned()),
        _ => None,
    };
    let link = up.zip(down).map(|(up, down)| Link { name: name.to_owned(), up, down, uplink });
    let account = both.map(|tables| tables.iter().any(|t| COUNTS.iter().any(|key| t.means(key))));
    Known { name: name.to_owned(), link, flows: names, promised, account }
}

/// What a preset says of a direction, as if it stood where it is named.
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

pub(crate) fn chosen<'a>(
    tables: &[&Fields<'a>],
    problems: &mut Vec<Problem>,
) -> Option<Chosen<'a>> {
    let Some(field) = tables.iter().find_map(|t| t.field("scheduler")) else {
        let unclear = tables.iter().any(|t| t.means("scheduler"));
        return (!unclear).then(|| Chosen { entry: default_scheduler(), fields: None });
    };
    let Some(Datum::Table(table)) = field.datum else { return None };
    // `kind` first: it decides what else there may be.
    let all: Vec<Key> = registry::all().flat_map(keys::of_scheduler).collect();
    let first =
        fields(table, field.at.clone(), "the scheduler", &[keys::KIND], &all, &mut Vec::new());
    let Got::Given(Datum::Value(Value::Choice(kind))) =
        get(&[&first], &keys::KIND, &mut Vec::new())
    else {
        let first = fields(table, field.at.clone(), "the scheduler", &[keys::KIND], &all, problems);
        get(&[&first], &keys::KIND, problems);
        return None;
    };
    let entry = registry::entry(kind)?;
    let known: Vec<Key> =
        keys::SCHEDULER.iter().copied().chain(keys::of_scheduler(entry)).collect();
    let what = format!("the scheduler `{kind}`");
    Some(Chosen {
        entry,
        fields: Some(fields(table, field.at.clone(), what, &known, &[], problems)),
    })
}

/// What a discipline has said of its flows: of the other direction, which is mostly alike, it need
/// not be asked again.
struct Asked {
    kind: &'static str,
    setup: Setup,
    masks: Masks,
    rates: Vec<Option<Rate>>,
}

/// A direction, the names of its leaves, and what they are promised.
type Side = (Option<Direction>, Option<Vec<String>>, Vec<Option<Rate>>);

#[allow(clippy::too_many_arguments)]
fn direction(
    tables: &[&Fields<'_>],
    towards: Towards,
    flow_table: &FlowTable<'_>,
    chosen: Option<&Chosen<'_>>,
    elsewhere: &[Key],
    parted: bool,
    beside: &Path,
    asked: &mut Option<Asked>,
    problems: &mut Vec<Problem>,
) -> Side {
    let mut read = |name: &str| {
        let key = keys::DIRECTION.iter().find(|k| k.name == name)?;
        match get(tables, key, problems) {
            Got::Given(Datum::Value(value)) | Got::Default(Datum::Value(value)) => Some(value),
            _ => None,
        }
    };
    let (delay, mtu, account) = (read("delay"), read("mtu"), read("account"));
    let cells = match read("cells") {
        Some(Value::Choice(name)) => Cells::from_name(name),
        _ => None,
    };
    let overhead = match keys::DIRECTION
        .iter()
        .find(|k| k.name == "overhead")
        .map(|k| get(tables, k, problems))
    {
        Some(Got::Given(Datum::Signed(bytes))) => bytes,
        _ => 0,
    };
    let known_account = match account {
        Some(Value::Choice(name)) => Account::from_name(name),
        _ => None,
    };
    let (profile, bw) = match profile::profile(tables, beside, problems) {
        Ok(Some((profile, bw))) => (Ok(Some(profile)), bw),
        other => (other.map(|_| None), None),
    };
    let carries = capacity::capacity(tables, known_account, bw, beside, problems);

    let known_delay = match delay {
        Some(Value::Span(delay)) => Some(delay),
        _ => None,
    };
    let impairments =
        impair::impairments(tables, known_delay, profile.ok().flatten(), beside, problems);

    let each = masks::each(tables, keys::DIRECTION, towards, problems);
    let (flows, names) = match flow_table {
        FlowTable::Wrong => (None, None),
        FlowTable::Absent => (Some(Vec::new()), Some(vec![ALL.to_owned()])),
        FlowTable::Given(table) => (
            read_flows(
                table,
                keys::FLOW,
                chosen.map(|c| c.entry),
                elsewhere,
                (towards, 1),
                problems,
            ),
            Some(hierarchy::leaf_names(table)),
        ),
    };
    if let (Some(flows), Some(owner)) = (&flows, tables.iter().find(|t| t.field("flow").is_some()))
        && !parted
    {
        unmatched(flows, owner, problems);
    }

    let scheduler = chosen.and_then(|chosen| {
        let own: Vec<&Fields<'_>> = chosen.fields.iter().collect();
        let mut scheduler = values(&own, keys::of_scheduler(chosen.entry).into_iter(), problems)?;
        plugin::load(chosen.entry, chosen.fields.as_ref(), &mut scheduler, beside, problems)?;
        Some(scheduler)
    });
    let (
        Some((rate, capacity)),
        Some(Value::Span(delay)),
        Some(Value::Bytes(mtu)),
        Some(Value::Choice(account)),
        Some(mut flows),
        Some(scheduler),
        Some(chosen),
        Some(impairments),
        Ok(each),
    ) = (carries, delay, mtu, account, flows, scheduler, chosen, impairments, each)
    else {
        return (None, names, Vec::new());
    };
    let (Ok(mtu), Some(account)) = (u32::try_from(mtu), Account::from_name(account)) else {
        return (None, names, Vec::new());
    };
    if flows.is_empty() {
        if parted {
            return (None, names, Vec::new());
        }
        // Without flows the link is one; what its discipline needs to know of
        // a flow then has to have a default.
        match all(tables, chosen.entry, problems) {
            Some(flow) => flows.push(flow),
            None => return (None, names, Vec::new()),
        }
    }
    let cells = cells.filter(|cells| *cells != Cells::None);
    let framing = (overhead != 0 || cells.is_some()).then(|| Framing {
        overhead,
        cells: cells.unwrap_or_default(),
        largest: account.largest(mtu),
    });
    let setup = Setup {
        rate,
        largest: framing.map_or(account.largest(mtu), |framing| framing.of(framing.largest)),
        scheduler,
        flows: Vec::new(),
    };
    let kind = chosen.entry.kind;
    let mut setup = Setup { flows: hierarchy::joined(kind, &setup, &flows), ..setup };
    let mut masks = Masks { link: each, flows: flows.iter().map(|f| f.each).collect() };
    let said: Vec<bool> = flows.iter().map(|f| f.fields.field("max-flows").is_some()).collect();
    masks.fit(tables.iter().any(|t| t.field("max-flows").is_some()), &said);
    let classes = hierarchy::classes(kind, &flows);
    let slots: Vec<&FlowRead<'_>> =
        classes.iter().copied().filter(|f| !hierarchy::is_joined(kind, f)).collect();
    // Where flows have masks none is divided.
    if slots.len() < classes.len()
        && let Some(refused) = masks.impossible(kind, &setup)
    {
        problems.push(refusal(refused, tables, chosen, &flows.iter().collect::<Vec<_>>()));
        return (None, names, Vec::new());
    }
    let known = asked
        .as_ref()
        .filter(|asked| (asked.kind, &asked.setup, &asked.masks) == (kind, &setup, &masks));
    let rates = match known {
        Some(known) => Ok(known.rates.clone()),
        None => {
            let promised = Promised { flows: masks.firsts(slots.len()) };
            registry::build(kind, &masks.expanded(&setup), promised)
        }
    };
    let rates = match rates {
        Ok(rates) => {
            *asked = Some(Asked {
                kind,
                setup: setup.clone(),
                masks: masks.clone(),
                rates: rates.clone(),
            });
            rates
        }
        Err(refused) => {
            let masked = masks.flows.iter().any(Option::is_some);
            let refused = if masked { masks.refused(refused, &setup) } else { refused };
            problems.extend(refused.into_iter().map(|r| refusal(r, tables, chosen, &classes)));
            return (None, names, Vec::new());
        }
    };
    if let Some(taken) = oversubscription::taken(chosen.entry, &masks.expanded(&setup)) {
        let masked = masks.flows.iter().any(Option::is_some);
        let all = if masked { masks.refused(taken.into(), &setup) } else { taken.into() };
        problems.extend(
            all.into_iter().map(|taken| taken_all_the_same(taken, tables, chosen, &classes)),
        );
    }
    if !hierarchy::divide(&mut setup, &mut rates.iter(), &flows, beside, problems) {
        return (None, names, Vec::new());
    }
    if let Some(refused) = masks.impossible(kind, &setup) {
        problems.push(refusal(refused, tables, chosen, &classes));
        return (None, names, Vec::new());
    }
    if flows.iter().any(|f| f.parts.is_some())
        && let Err(refused) = tree::promises(kind, &setup)
    {
        problems.extend(refused.into_iter().map(|r| refusal(r, tables, chosen, &slots)));
        return (None, names, Vec::new());
    }
    let promised = hierarchy::promised(kind, &rates, &flows);
    let rates: Vec<Option<Rate>> = promised.iter().map(|of| of[0]).collect();
    let place = |field: Option<&Field<'_>>, header: &Range<usize>| match field {
        Some(field) => (field.at.clone(), false),
        None => (header.clone(), true),
    };
    for queue in lints::short_queues(&setup, delay, chosen.entry, &rates) {
        // A FIFO's one queue is the scheduler's, unless its only flow says how long it is.
        let own =
            |n: &usize| chosen.entry.kind != "fifo" || flows[*n].fields.field("queue").is_some();
        if queue.flow.is_some_and(|n| flows[n].parts.is_some()) {
            continue;
        }
        let flow = queue.flow.filter(own);
        let fields = flow.map_or_else(|| chosen.fields.as_ref(), |n| Some(&flows[n].fields));
        let (at, unset) = match fields {
            Some(fields) => place(fields.field("queue"), &fields.at),
            None => (tables.first().map_or(0..0, |t| t.at.clone()), true),
        };
        // Whoever asks for a short delay has a short queue on purpose.
        let wanted = |n: usize| flows[n].flow.need.delay.is_some();
        if flow.map_or_else(|| (0..flows.len()).any(wanted), wanted) {
            continue;
        }
        let what = flow.map_or("the scheduler `fifo`", |n| &flows[n].fields.what);
        problems.push(queue.problem(at, what, unset, flow.is_some()));
    }
    for tail in lints::long_tails(&setup) {
        let fields = &flows[tail.flow].fields;
        let (at, _) = place(fields.field("phase"), &fields.at);
        problems.push(tail.problem(at, &fields.what));
    }
    let mut flows: Vec<Flow> = flows.into_iter().flat_map(FlowRead::leaves).collect();
    flows.iter_mut().for_each(adapters::restrict);
    let Ok(pace) = pace::pace(tables, &setup, problems) else { return (None, names, Vec::new()) };
    let direction = Direction {
        capacity,
        framing,
        pace,
        delay,
        impairments,
        seed: Run::default().seed,
        mtu,
        account,
        scheduler: chosen.entry,
        setup,
        flows,
        masks,
    };
    if let Some(refused) = direction.pipe().refused() {
        problems.push(
            pace::refusal(&refused, tables)
                .unwrap_or_else(|| refusal(refused, tables, chosen, &[])),
        );
        return (None, names, Vec::new());
    }
    (Some(direction), names, promised.concat())
}

/// Reads the parameters of a discipline.
pub(crate) fn values(
    tables: &[&Fields<'_>],
    keys: impl Iterator<Item = Key>,
    problems: &mut Vec<Problem>,
) -> Option<Values> {
    let mut out = Values::default();
    let mut whole = true;
    for key in keys {
        match get(tables, &key, problems) {
            Got::Given(Datum::Value(value)) | Got::Default(Datum::Value(value)) => {
                out.set(key.name, value)
            }
            Got::Given(Datum::Given(given)) => out.give(given),
            // Whoever loads the library sees to it.
            Got::Given(Datum::Name(_)) if key.holds == Holds::File => {}
            Got::Absent => {}
            _ => whole = false,
        }
    }
    whole.then_some(out)
}

/// The discipline's refusal, at the value that it refuses.
pub(crate) fn refusal(
    refused: Refused,
    tables: &[&Fields<'_>],
    chosen: &Chosen<'_>,
    flows: &[&FlowRead<'_>],
) -> Problem {
    let flow = refused.flow.and_then(|n| flows.get(n).copied());
    let field = match flow {
        Some(flow) => flow.fields.field(refused.param),
        None => {
            let scheduler = chosen.fields.as_ref().and_then(|f| f.field(refused.param));
            scheduler.or_else(|| tables.iter().find_map(|t| t.field(refused.param)))
        }
    };
    let header = match (flow, &chosen.fields, tables.first()) {
        (Some(flow), _, _) => flow.fields.at.clone(),
        (None, Some(scheduler), _) => scheduler.at.clone(),
        (None, None, Some(first)) => first.at.clone(),
        (None, None, None) => 0..0,
    };
    let title = match flow {
        Some(flow) => format!("{}: {}", flow.fields.what, refused.what),
        None => format!("scheduler `{}`: {}", chosen.entry.kind, refused.what),
    };
    match field {
        Some(field) => Problem::error(field.at.clone(), title),
        None => Problem::error(header, title).label(format!("`{}` is not set here", refused.param)),
    }
    .help(refused.help)
}

/// The same where the discipline takes what is hardly meant.
pub(crate) fn taken_all_the_same(
    taken: Refused,
    tables: &[&Fields<'_>],
    chosen: &Chosen<'_>,
    flows: &[&FlowRead<'_>],
) -> Problem {
    Problem { severity: Severity::Warning, ..refusal(taken, tables, chosen, flows) }
}

/// Asks a discipline that was accepted which rate it promises each flow.
pub(crate) struct Promised {
    /// These.
    pub(crate) flows: Vec<FlowId>,
}
impl registry::Visitor for Promised {
    type Output = Vec<Option<Rate>>;
    fn visit<D: Discipline + 'static>(self, discipline: D) -> Self::Output {
        self.flows.into_iter().map(|f| discipline.service(f).ok().map(|p| p.rate)).collect()
    }
}

/// Names stand in tables on screens and in file names.
pub(crate) fn name_is_fit(name: &str, at: Range<usize>, of: &str, problems: &mut Vec<Problem>) {
    let fit = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.chars().count() > 64 || !name.chars().all(fit) {
        problems.push(
            Problem::error(at, format!("{} cannot be the name of a {of}", quoted(name)))
                .help("a name has 1 to 64 letters, digits, `-`, `_` or `.`"),
        );
    }
}

pub(crate) fn not_a_table(of: &str, name: &str, at: Range<usize>, example: &str) -> Problem {
    Problem::error(at, format!("{of} {} has to be a table", quoted(name)))
        .help(format!("write `{{ {example}, … }}`"))
}
