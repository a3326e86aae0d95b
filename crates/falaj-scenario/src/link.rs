//! Reads links, their directions and their flows.

use crate::diagnostics::Problem;
use crate::keys::{self, Key};
use crate::model::{ALL, Bucket, Direction, Flow, Link, Need, default_scheduler};
use crate::nearest;
use crate::read::{Datum, Field, Fields, Got, fields, get};
use crate::units::quoted;
use crate::unlikely;
use falaj_engine::account::Account;
use falaj_engine::classifier::Match;
use falaj_sched::discipline::Discipline;
use falaj_sched::params::{FlowSetup, Inner, Refused, Setup, Value, Values};
use falaj_sched::queue::FlowId;
use falaj_sched::rate::Rate;
use falaj_sched::registry::{self, ENTRIES, Entry};
use falaj_sched::tree;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// What is known of a link, even if it is not whole.
pub(crate) struct Known {
    pub(crate) name: String,
    /// `None`: something is wrong with it, which was said.
    pub(crate) link: Option<Link>,
    /// The flows' names up and down; `None`: not known.
    pub(crate) flows: [Option<Vec<String>>; 2],
    /// What the flows up and down are promised, as far as it is known.
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
        table.keys().any(|k| k.get_ref() == "rate" || nearest::among(k.get_ref(), ["rate"]).is_some())
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
    named(false).filter_map(|name| Some(Slip { name, meant: nearest::among(name, named(true))? })).collect()
}

/// The discipline that was chosen for a direction.
struct Chosen<'a> {
    entry: &'static Entry,
    /// Its table, unless the scheduler is the default.
    fields: Option<Fields<'a>>,
}

/// Reads `[link.NAME]`. Where part of it stands under a slip of its name, what
/// is missing here is not said, nor which flows it has.
pub(crate) fn link<'a>(
    name: &str,
    table: &'a DeTable<'a>,
    at: Range<usize>,
    slips: &[Slip<'_>],
    problems: &mut Vec<Problem>,
) -> Known {
    let parted = slips.iter().any(|slip| slip.meant == name);
    let what = format!("link {}", quoted(name));
    let link = fields(table, at, &what, keys::LINK, &[], problems);
    let sides = ["up", "down"].map(|side| {
        let (table, field) = link.table(side)?;
        Some(fields(table, field.at.clone(), format!("{what} {side}"), keys::DIRECTION, &[], problems))
    });
    // A direction's own table comes before the link's.
    let [up, down] = sides.each_ref().map(|side| match side {
        Some(side) => vec![side, &link],
        None => vec![&link],
    });
    let both = [&up, &down];
    let chosen = both.map(|tables| chosen(tables, problems));

    if both.iter().all(|t| t.first().is_some_and(|own| own.field("flow").is_some()))
        && up.len() > 1
        && down.len() > 1
        && let Some(field) = link.field("flow")
    {
        problems.push(
            Problem::warning(field.at.clone(), format!("these flows of {what} are not used"))
                .help("`up` and `down` both have flows of their own"),
        );
    }

    let mut out = [None, None];
    let mut names = [None, None];
    let mut promised = [Vec::new(), Vec::new()];
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
            (Some(_), Some(other)) => other.entry.flow.iter().map(Key::from).collect(),
            _ => ENTRIES.iter().flat_map(|e| e.flow).map(Key::from).collect(),
        };
        (out[n], names[n], promised[n]) = direction(tables, &flows, chosen[n].as_ref(), &elsewhere, parted, problems);
        if parted {
            names[n] = None;
        }
    }
    let [up, down] = out;
    let link = up.zip(down).map(|(up, down)| Link { name: name.to_owned(), up, down });
    let account = both.map(|tables| tables.iter().any(|t| t.means("account")));
    Known { name: name.to_owned(), link, flows: names, promised, account }
}

fn chosen<'a>(tables: &[&Fields<'a>], problems: &mut Vec<Problem>) -> Option<Chosen<'a>> {
    let Some(field) = tables.iter().find_map(|t| t.field("scheduler")) else {
        let unclear = tables.iter().any(|t| t.means("scheduler"));
        return (!unclear).then(|| Chosen { entry: default_scheduler(), fields: None });
    };
    let Some(Datum::Table(table)) = field.datum else { return None };
    // `kind` first: it decides what else there may be.
    let all: Vec<Key> = ENTRIES.iter().flat_map(|e| e.scheduler).map(Key::from).collect();
    let first = fields(table, field.at.clone(), "the scheduler", &[keys::KIND], &all, &mut Vec::new());
    let Got::Given(Datum::Value(Value::Choice(kind))) = get(&[&first], &keys::KIND, &mut Vec::new()) else {
        let first = fields(table, field.at.clone(), "the scheduler", &[keys::KIND], &all, problems);
        get(&[&first], &keys::KIND, problems);
        return None;
    };
    let entry = registry::entry(kind)?;
    let known: Vec<Key> = keys::SCHEDULER.iter().copied().chain(entry.scheduler.iter().map(Key::from)).collect();
    let what = format!("the scheduler `{kind}`");
    Some(Chosen { entry, fields: Some(fields(table, field.at.clone(), what, &known, &[], problems)) })
}

/// Where the flows of a direction are.
enum FlowTable<'a> {
    Given(&'a DeTable<'a>),
    Absent,
    Wrong,
}

fn flow_table<'a>(tables: &[&Fields<'a>]) -> FlowTable<'a> {
    match tables.iter().find_map(|t| t.field("flow")) {
        None if tables.iter().any(|t| t.means("flow")) => FlowTable::Wrong,
        None => FlowTable::Absent,
        Some(field) => match field.datum {
            // `[link.x.flow]` with nothing in it.
            Some(Datum::Table(table)) if table.is_empty() => FlowTable::Absent,
            Some(Datum::Table(table)) => FlowTable::Given(table),
            _ => FlowTable::Wrong,
        },
    }
}

/// One flow as read.
struct FlowRead<'a> {
    fields: Fields<'a>,
    flow: Flow,
    setup: FlowSetup,
    parts: Parts<'a>,
}

/// What divides a flow, and its parts.
type Parts<'a> = Option<(Chosen<'a>, Values, Vec<FlowRead<'a>>)>;

impl FlowRead<'_> {
    /// The flow, or its parts if it has some: what packets belong to.
    fn leaves(self) -> Vec<Flow> {
        let Some((_, _, parts)) = self.parts else { return vec![self.flow] };
        let within = |part: FlowRead<'_>| {
            let both = |rule: &Match| self.flow.matches.iter().filter_map(|own| own.and(rule)).collect::<Vec<_>>();
            Flow {
                name: part_name(&self.flow.name, &part.flow.name),
                matches: part.flow.matches.iter().flat_map(both).collect(),
                need: part.flow.need,
                envelope: part.flow.envelope,
            }
        };
        parts.into_iter().map(within).collect()
    }
}

/// What the part of a flow is known by.
fn part_name(flow: &str, part: &str) -> String {
    format!("{flow}/{part}")
}

/// The names of what packets belong to, even where not all of it can be read.
fn leaf_names(table: &DeTable<'_>) -> Vec<String> {
    let names = |(name, value): (&toml::Spanned<std::borrow::Cow<'_, str>>, &toml::Spanned<DeValue<'_>>)| {
        let name: &str = name.get_ref();
        let parts = value.get_ref().get("flow").and_then(|v| v.get_ref().as_table());
        match parts {
            Some(parts) if !parts.is_empty() => parts.keys().map(|part| part_name(name, part.get_ref())).collect(),
            _ => vec![name.to_owned()],
        }
    };
    table.iter().flat_map(names).collect()
}

/// A direction, the names of its flows, and what they are promised.
type Side = (Option<Direction>, Option<Vec<String>>, Vec<Option<Rate>>);

fn direction(
    tables: &[&Fields<'_>],
    flow_table: &FlowTable<'_>,
    chosen: Option<&Chosen<'_>>,
    elsewhere: &[Key],
    parted: bool,
    problems: &mut Vec<Problem>,
) -> Side {
    let mut read = |name: &str| {
        let key = keys::DIRECTION.iter().find(|k| k.name == name)?;
        match get(tables, key, problems) {
            Got::Given(Datum::Value(value)) | Got::Default(Datum::Value(value)) => Some(value),
            _ => None,
        }
    };
    let (rate, delay, mtu, account) = (read("rate"), read("delay"), read("mtu"), read("account"));

    let (flows, names) = match flow_table {
        FlowTable::Wrong => (None, None),
        FlowTable::Absent => (Some(Vec::new()), Some(vec![ALL.to_owned()])),
        FlowTable::Given(table) => {
            (read_flows(table, keys::FLOW, chosen.map(|c| c.entry), elsewhere, problems), Some(leaf_names(table)))
        }
    };
    if let (Some(flows), Some(owner)) = (&flows, tables.iter().find(|t| t.field("flow").is_some()))
        && !parted
    {
        unmatched(flows, owner, problems);
    }

    let scheduler = chosen.and_then(|chosen| match &chosen.fields {
        None => values(&[], chosen.entry.scheduler.iter().map(Key::from), problems),
        Some(fields) => values(&[fields], chosen.entry.scheduler.iter().map(Key::from), problems),
    });
    let (
        Some(Value::Rate(rate)),
        Some(Value::Span(delay)),
        Some(Value::Bytes(mtu)),
        Some(Value::Choice(account)),
        Some(mut flows),
        Some(scheduler),
        Some(chosen),
    ) = (rate, delay, mtu, account, flows, scheduler, chosen)
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
    let setup = Setup {
        rate,
        largest: account.largest(mtu),
        scheduler,
        flows: flows.iter().map(|f| f.setup.clone()).collect(),
    };
    let rates = match registry::build(chosen.entry.kind, &setup, Promised { flows: flows.len() }) {
        Ok(rates) => rates,
        Err(refused) => {
            problems.extend(refused.into_iter().map(|r| refusal(r, tables, chosen, &flows)));
            return (None, names, Vec::new());
        }
    };
    let mut setup = setup;
    if !divided(&mut setup, &rates, &mut flows, problems) {
        return (None, names, Vec::new());
    }
    if let Err(refused) = tree::promises(chosen.entry.kind, &setup) {
        problems.extend(refused.into_iter().map(|r| refusal(r, tables, chosen, &flows)));
        return (None, names, Vec::new());
    }
    let place = |field: Option<&Field<'_>>, header: &Range<usize>| match field {
        Some(field) => (field.at.clone(), false),
        None => (header.clone(), true),
    };
    for queue in unlikely::short_queues(&setup, delay, chosen.entry, &rates) {
        // A FIFO's one queue is the scheduler's, unless its only flow says how long it is.
        let own = |n: &usize| chosen.entry.kind != "fifo" || flows[*n].fields.field("queue").is_some();
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
    for tail in unlikely::long_tails(&setup) {
        let fields = &flows[tail.flow].fields;
        let (at, _) = place(fields.field("phase"), &fields.at);
        problems.push(tail.problem(at, &fields.what));
    }
    let flows = flows.into_iter().flat_map(FlowRead::leaves).collect();
    (Some(Direction { delay, mtu, account, scheduler: chosen.entry, setup, flows }), names, rates)
}

/// Reads the parameters of a discipline.
fn values(tables: &[&Fields<'_>], keys: impl Iterator<Item = Key>, problems: &mut Vec<Problem>) -> Option<Values> {
    let mut out = Values::default();
    let mut whole = true;
    for key in keys {
        match get(tables, &key, problems) {
            Got::Given(Datum::Value(value)) | Got::Default(Datum::Value(value)) => out.set(key.name, value),
            Got::Absent => {}
            _ => whole = false,
        }
    }
    whole.then_some(out)
}

/// Builds what divides flows, at the rates that they are promised; says what is
/// wrong with it where it stands. False: something is.
fn divided(setup: &mut Setup, rates: &[Option<Rate>], flows: &mut [FlowRead<'_>], problems: &mut Vec<Problem>) -> bool {
    let mut good = true;
    for (n, flow) in flows.iter_mut().enumerate() {
        let Some((chosen, scheduler, parts)) = &mut flow.parts else { continue };
        let below = Setup {
            rate: rates.get(n).copied().flatten().filter(|r| r.0 > 0).unwrap_or(setup.rate),
            largest: setup.largest,
            scheduler: scheduler.clone(),
            flows: parts.iter().map(|p| p.setup.clone()).collect(),
        };
        if let Err(refused) = registry::build(chosen.entry.kind, &below, Promised { flows: parts.len() }) {
            problems.extend(refused.into_iter().map(|r| refusal(r, &[&flow.fields], chosen, parts)));
            good = false;
        }
        for part in parts.iter() {
            let contradict = |own: &Match| part.flow.matches.iter().all(|rule| own.and(rule).is_none());
            if flow.flow.matches.iter().all(contradict) {
                let at = part.fields.field("match").map_or(part.fields.at.clone(), |f| f.at.clone());
                problems.push(
                    Problem::error(at, format!("no packet reaches {}", part.fields.what))
                        .help(format!("what it matches is nothing that {} matches", flow.fields.what)),
                );
                good = false;
            }
        }
        if let Some(last) = parts.last().filter(|last| !last.flow.matches.iter().any(Match::is_any)) {
            problems.push(
                Problem::error(
                    last.fields.at.clone(),
                    format!("the parts of {} do not take all of it", flow.fields.what),
                )
                .help("end them with one that has `match = \"any\"`"),
            );
            good = false;
        }
        setup.flows[n].inner = Some(Box::new(Inner { kind: chosen.entry.kind, setup: below }));
    }
    good
}

/// The flows of a direction or the parts of a flow, if all of them are whole.
fn read_flows<'a>(
    table: &'a DeTable<'a>,
    keys: &'static [Key],
    entry: Option<&'static Entry>,
    elsewhere: &[Key],
    problems: &mut Vec<Problem>,
) -> Option<Vec<FlowRead<'a>>> {
    let own: Vec<Key> = entry.map_or(&[][..], |e| e.flow).iter().map(Key::from).collect();
    let mut flows = Vec::new();
    let mut whole = true;
    for (name, value) in table {
        name_is_fit(name.get_ref(), name.span(), "flow", problems);
        let DeValue::Table(table) = value.get_ref() else {
            problems.push(not_a_table("flow", name.get_ref(), value.span(), "match = \"any\""));
            whole = false;
            continue;
        };
        let what = format!("flow {}", quoted(name.get_ref()));
        let known: Vec<Key> = keys.iter().chain(&own).copied().collect();
        let fields = fields(table, value.span(), what, &known, elsewhere, problems);
        match flow(name.get_ref(), keys, fields, &own, problems) {
            Some(flow) => flows.push(flow),
            None => whole = false,
        }
    }
    whole.then_some(flows)
}

fn flow<'a>(
    name: &str,
    keys: &'static [Key],
    fields: Fields<'a>,
    own: &[Key],
    problems: &mut Vec<Problem>,
) -> Option<FlowRead<'a>> {
    let mut matches = None;
    let mut limit = None;
    let mut need = Some(Need::default());
    let mut envelope = Some(Vec::new());
    for key in keys {
        match (key.name, get(&[&fields], key, problems)) {
            ("match", Got::Given(Datum::Rules(rules))) => matches = Some(rules),
            ("queue", Got::Given(Datum::Value(Value::Limit(l))) | Got::Default(Datum::Value(Value::Limit(l)))) => {
                limit = Some(l);
            }
            ("need", Got::Given(Datum::Table(table))) => {
                let at = fields.field("need").map_or(0..0, |f| f.at.clone());
                need = read_need(table, at, &fields.what, problems);
            }
            ("need", Got::Wrong) => need = None,
            ("envelope", Got::Given(Datum::Tables(tables))) => {
                envelope = read_envelope(&tables, &fields, problems);
            }
            ("envelope", Got::Wrong) => envelope = None,
            _ => {}
        }
    }
    let values = values(&[&fields], own.iter().copied(), problems);
    let flow = Flow { name: name.to_owned(), matches: matches?, need: need?, envelope: envelope? };
    let parts = match parts(&fields, problems) {
        Ok(parts) => parts,
        Err(()) => return None,
    };
    Some(FlowRead { fields, flow, setup: FlowSetup::new(values?, limit?), parts })
}

/// The parts of a flow and what divides it among them; an error was said.
fn parts<'a>(fields: &Fields<'a>, problems: &mut Vec<Problem>) -> Result<Parts<'a>, ()> {
    let table = match flow_table(&[fields]) {
        FlowTable::Given(table) => table,
        FlowTable::Wrong => return Err(()),
        FlowTable::Absent => {
            let Some(scheduler) = fields.field("scheduler") else { return Ok(None) };
            problems.push(
                Problem::error(
                    scheduler.name_at.clone(),
                    format!("{} has a scheduler, but nothing to divide", fields.what),
                )
                .help("add its parts, `[link.LINK.flow.FLOW.flow.PART]`, or leave the scheduler out"),
            );
            return Err(());
        }
    };
    // Each says something of packets in a queue, and would be of none.
    let of_a_queue = [("queue", "no queue"), ("need", "no need of its own"), ("envelope", "no envelope of its own")];
    let given = of_a_queue.into_iter().filter_map(|(key, what)| Some((key, what, fields.field(key)?)));
    let mut undivided = true;
    for (key, what, field) in given {
        problems.push(
            Problem::error(field.name_at.clone(), format!("{} is divided, so it has {what}", fields.what))
                .help(format!("its parts have: write `{key}` there")),
        );
        undivided = false;
    }
    if !undivided {
        return Err(());
    }
    let chosen = chosen(&[fields], problems).ok_or(())?;
    let own = chosen.fields.as_ref();
    let scheduler =
        values(&own.into_iter().collect::<Vec<_>>(), chosen.entry.scheduler.iter().map(Key::from), problems);
    let parts = read_flows(table, keys::PART, Some(chosen.entry), &[], problems);
    Ok(Some((chosen, scheduler.ok_or(())?, parts.ok_or(())?)))
}

fn read_need<'a>(table: &'a DeTable<'a>, at: Range<usize>, flow: &str, problems: &mut Vec<Problem>) -> Option<Need> {
    let fields = fields(table, at, format!("the need of {flow}"), keys::NEED, &[], problems);
    let values = values(&[&fields], keys::NEED.iter().copied(), problems)?;
    let rate = match values.get("rate") {
        Some(Value::Rate(rate)) => Some(rate),
        _ => None,
    };
    Some(Need { rate, delay: values.span("delay") })
}

/// The token buckets of a flow, of which there is one at least.
fn read_envelope<'a>(
    tables: &[(&'a DeTable<'a>, Range<usize>)],
    flow: &Fields<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Vec<Bucket>> {
    if tables.len() > keys::BUCKETS_MAX {
        let at = flow.field("envelope").map_or(flow.at.clone(), |f| f.at.clone());
        let why = format!("the envelope of {} has {} token buckets", flow.what, tables.len());
        problems.push(Problem::error(at, why).help(format!("at most {}; the lowest ones decide", keys::BUCKETS_MAX)));
        return None;
    }
    let read = tables.iter().map(|(table, at)| {
        let fields = fields(table, at.clone(), format!("the envelope of {}", flow.what), keys::ENVELOPE, &[], problems);
        let values = values(&[&fields], keys::ENVELOPE.iter().copied(), problems)?;
        match (values.get("rate"), values.bytes("burst")) {
            (Some(Value::Rate(rate)), Some(burst)) => Some(Bucket { rate, burst }),
            _ => None,
        }
    });
    // All of them first, to find all that is wrong.
    read.collect::<Vec<_>>().into_iter().collect()
}

/// The one flow of a direction that names none.
fn all<'a>(tables: &[&Fields<'a>], entry: &'static Entry, problems: &mut Vec<Problem>) -> Option<FlowRead<'a>> {
    let first = tables.first()?;
    let none = Fields::none(first.at.clone(), first.what.clone());
    let required: Vec<&str> =
        entry.flow.iter().map(Key::from).filter(|k| k.fallback == keys::Fallback::Required).map(|k| k.name).collect();
    if !required.is_empty() {
        let name = first.what.as_str();
        problems.push(
            Problem::error(first.at.clone(), format!("{name} has no flows, and `{}` cannot do without", entry.kind))
                .help(format!("add flows `[link.NAME.flow.FLOW]` with `match` and {}", nearest::list(required))),
        );
        return None;
    }
    let values = values(&[&none], entry.flow.iter().map(Key::from), problems)?;
    let queue = keys::FLOW.iter().find(|k| k.name == "queue")?;
    let Got::Default(Datum::Value(Value::Limit(limit))) = get(&[&none], queue, problems) else { return None };
    Some(FlowRead { fields: none, flow: Flow::all(), setup: FlowSetup::new(values, limit), parts: None })
}

/// Warns of packets without a flow and of flows without packets.
fn unmatched(flows: &[FlowRead<'_>], owner: &Fields<'_>, problems: &mut Vec<Problem>) {
    if flows.is_empty() {
        return;
    }
    match flows.iter().position(|f| f.flow.matches.iter().any(Match::is_any)) {
        None => problems.push(
            Problem::warning(
                owner.at.clone(),
                format!("no flow of {} takes the packets that match no rule", owner.what),
            )
            .label("they are dropped")
            .help("a last flow with `match = \"any\"` takes them"),
        ),
        Some(n) => {
            let taker = &flows[n].flow.name;
            problems.extend(flows[n + 1..].iter().map(|flow| {
                Problem::warning(flow.fields.at.clone(), format!("no packet reaches {}", flow.fields.what))
                    .help(format!("flow {} before it takes every packet; put that one last", quoted(taker)))
            }));
        }
    }
}

/// The discipline's refusal, at the value that it refuses.
fn refusal(refused: Refused, tables: &[&Fields<'_>], chosen: &Chosen<'_>, flows: &[FlowRead<'_>]) -> Problem {
    let flow = refused.flow.and_then(|n| flows.get(n));
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

/// Asks a discipline that was accepted which rate it promises each flow.
struct Promised {
    flows: usize,
}
impl registry::Visitor for Promised {
    type Output = Vec<Option<Rate>>;
    fn visit<D: Discipline + 'static>(self, discipline: D) -> Self::Output {
        let rate = |f: usize| discipline.service(FlowId(u32::try_from(f).ok()?)).ok().map(|p| p.rate);
        (0..self.flows).map(rate).collect()
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
    Problem::error(at, format!("{of} {} has to be a table", quoted(name))).help(format!("write `{{ {example}, … }}`"))
}
