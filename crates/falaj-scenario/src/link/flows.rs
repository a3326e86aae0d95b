//! Reads the flows of a direction.

use crate::adapters;
use crate::diagnostics::Problem;
use crate::keys::{self, Fallback, Key};
use crate::link::masks;
use crate::link::queue;
use crate::link::scheduler::{Chosen, chosen};
use crate::model::{Adapter, Bucket, Flow, Requirement, Towards};
use crate::read::{Datum, Fields, Got, fields, get, name_is_fit, not_a_table, values};
use crate::suggest::{self, quoted};
use falaj_engine::classifier::Match;
use falaj_engine::masks::MaskConfig;
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::contract::params::{FlowSetup, Value, Values};
use falaj_sched::mechanisms::classes::DEEPEST;
use falaj_sched::queues::queue::Limit;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// The table of a direction's flows.
pub(crate) enum FlowTable<'a> {
    Given(&'a DeTable<'a>),
    Absent,
    Wrong,
}

pub(crate) fn flow_table<'a>(tables: &[&Fields<'a>]) -> FlowTable<'a> {
    match tables.iter().find_map(|t| t.field("flow")) {
        None if tables.iter().any(|t| t.means("flow")) => FlowTable::Wrong,
        None => FlowTable::Absent,
        Some(field) => match field.datum {
            // An empty table `[link.x.flow]` counts as no flows.
            Some(Datum::Table(table)) if table.is_empty() => FlowTable::Absent,
            Some(Datum::Table(table)) => FlowTable::Given(table),
            _ => FlowTable::Wrong,
        },
    }
}

/// The discipline that divides a flow, with its values and the flow's parts; `None` for a flow
/// without parts.
pub(crate) type Parts<'a> = Option<(Chosen<'a>, Values, Vec<FlowRead<'a>>)>;

/// The place of a table of flows in a scenario.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) towards: Towards,
    /// Number of levels of the hierarchy above the table, including the link.
    pub(crate) level: usize,
    /// The limit of queues that do not set their own.
    pub(crate) queue: Limit,
}

/// One flow as read.
pub(crate) struct FlowRead<'a> {
    pub(crate) fields: Fields<'a>,
    pub(crate) flow: Flow,
    pub(crate) setup: FlowSetup,
    pub(crate) each: Option<MaskConfig>,
    pub(crate) parts: Parts<'a>,
    /// True if the flow or one of its parts belongs to an adapter: it takes only packets of
    /// adapters.
    pub(crate) adapters: bool,
}

/// Reads the flows of a direction or the parts of a flow, at this level below the link. Returns
/// `None` if one of them has errors.
pub(crate) fn read_flows<'a>(
    table: &'a DeTable<'a>,
    keys: &'static [Key],
    entry: Option<&'static Manifest>,
    elsewhere: &[Key],
    place: Place,
    problems: &mut Vec<Problem>,
) -> Option<Vec<FlowRead<'a>>> {
    let own: Vec<Key> = entry.map_or_else(Vec::new, keys::of_flow);
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
        match flow(name.get_ref(), keys, fields, &own, place, problems) {
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
    place: Place,
    problems: &mut Vec<Problem>,
) -> Option<FlowRead<'a>> {
    let mut matches = None;
    let mut adapter = None;
    let mut limit = None;
    let mut requires = Some(Requirement::default());
    let mut envelope = Some(Vec::new());
    let adapters = adapters::below(&fields);
    for key in keys {
        // Without adapters, only `match` decides which packets belong to the flow.
        let key = &if key.name == "match" && !adapters {
            Key { fallback: Fallback::Required, ..*key }
        } else {
            *key
        };
        match (key.name, get(&[&fields], key, problems)) {
            ("match", Got::Given(Datum::Rules(rules))) => matches = Some(rules),
            ("match", Got::Absent) => matches = Some(vec![Match::ANY]),
            ("adapter", Got::Given(Datum::Name(port))) => {
                let (name, port) = (name.to_owned(), port.to_owned());
                adapter = Some(Adapter { name, port, batches: None });
            }
            ("batches", Got::Given(Datum::Name(batches))) => match &mut adapter {
                Some(adapter) => adapter.batches = Some(batches.to_owned()),
                None => {
                    let at = fields.field("batches").map_or(0..0, |field| field.name_at.clone());
                    let what = format!("{} has `batches` and no `adapter`", fields.what);
                    let help = "batches cross to the adapter of the flow: add `adapter`, or remove \
                                `batches`";
                    problems.push(Problem::error(at, what).help(help));
                }
            },
            ("batches", Got::Wrong) => matches = None,
            ("adapter", Got::Wrong) => matches = None,
            ("queue", got) => limit = queue::read(got, &fields, place.queue, problems),
            ("requires", Got::Given(Datum::Table(table))) => {
                let at = fields.field("requires").map_or(0..0, |f| f.at.clone());
                requires = read_requirement(table, at, &fields.what, problems);
            }
            ("requires", Got::Wrong) => requires = None,
            ("envelope", Got::Given(Datum::Tables(tables))) => {
                envelope = read_envelope(&tables, &fields, problems);
            }
            ("envelope", Got::Wrong) => envelope = None,
            _ => {}
        }
    }
    let values = values(&[&fields], own.iter().copied(), problems);
    let flow = Flow {
        name: name.to_owned(),
        matches: matches?,
        requires: requires?,
        envelope: envelope?,
        adapter,
    };
    let each = masks::each(&[&fields], keys, place.towards, problems);
    let parts = match parts(&fields, place, problems) {
        Ok(parts) => parts,
        Err(()) => return None,
    };
    let limit = limit?;
    let setup = FlowSetup::new(queue::among(values?, limit.policy), limit.limit);
    Some(FlowRead { fields, flow, setup, each: each.ok()?, parts, adapters })
}

fn read_requirement<'a>(
    table: &'a DeTable<'a>,
    at: Range<usize>,
    flow: &str,
    problems: &mut Vec<Problem>,
) -> Option<Requirement> {
    let fields =
        fields(table, at, format!("the requirement of {flow}"), keys::REQUIRES, &[], problems);
    let values = values(&[&fields], keys::REQUIRES.iter().copied(), problems)?;
    let rate = match values.get("rate") {
        Some(Value::Rate(rate)) => Some(rate),
        _ => None,
    };
    Some(Requirement { rate, delay: values.span("delay") })
}

/// Reads the token buckets of a flow's envelope; there must be one at least.
fn read_envelope<'a>(
    tables: &[(&'a DeTable<'a>, Range<usize>)],
    flow: &Fields<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Vec<Bucket>> {
    if tables.len() > keys::BUCKETS_MAX {
        let at = flow.field("envelope").map_or(flow.at.clone(), |f| f.at.clone());
        let why = format!("the envelope of {} has {} token buckets", flow.what, tables.len());
        problems.push(
            Problem::error(at, why).help(format!(
                "at most {}; only the most restrictive ones matter",
                keys::BUCKETS_MAX
            )),
        );
        return None;
    }
    let read = tables.iter().map(|(table, at)| {
        let fields = fields(
            table,
            at.clone(),
            format!("the envelope of {}", flow.what),
            keys::ENVELOPE,
            &[],
            problems,
        );
        let values = values(&[&fields], keys::ENVELOPE.iter().copied(), problems)?;
        match (values.get("rate"), values.bytes("burst")) {
            (Some(Value::Rate(rate)), Some(burst)) => Some(Bucket { rate, burst }),
            _ => None,
        }
    });
    // All buckets are read before the result is built, so that all errors are found.
    read.collect::<Vec<_>>().into_iter().collect()
}

/// Reads the parts of a flow and the discipline that divides it; `Err` if errors were added to
/// `problems`.
fn parts<'a>(
    fields: &Fields<'a>,
    place: Place,
    problems: &mut Vec<Problem>,
) -> Result<Parts<'a>, ()> {
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
                .help(
                    "add its parts, `[link.LINK.flow.FLOW.flow.PART]`, or leave the scheduler out",
                ),
            );
            return Err(());
        }
    };
    if place.level == DEEPEST {
        let what = format!("{} is divided {DEEPEST} levels below the link", fields.what);
        problems.push(Problem::error(fields.at.clone(), what).help(format!(
            "at most {DEEPEST} levels of flows; leave some out that divide nothing"
        )));
        return Err(());
    }
    // Each of these keys concerns packets in a queue, and a divided flow has no queue.
    let of_a_queue = [
        ("mask", "no mask"),
        ("queue", "no queue"),
        ("requires", "no requirement of its own"),
        ("envelope", "no envelope of its own"),
    ];
    let given =
        of_a_queue.into_iter().filter_map(|(key, what)| Some((key, what, fields.field(key)?)));
    let mut undivided = true;
    for (key, what, field) in given {
        problems.push(
            Problem::error(
                field.name_at.clone(),
                format!("{} is divided, so it has {what}", fields.what),
            )
            .help(if key == "mask" {
                "put `mask` on the link, so that each value has a link of its own".to_owned()
            } else {
                format!("write `{key}` in its parts")
            }),
        );
        undivided = false;
    }
    if !undivided {
        return Err(());
    }
    let chosen = chosen(&[fields], problems).ok_or(())?;
    let own = chosen.fields.as_ref();
    let own: Vec<&Fields<'_>> = own.into_iter().collect();
    let scheduler = values(&own, keys::of_scheduler(chosen.entry).into_iter(), problems);
    let below = Place { level: place.level + 1, ..place };
    let parts = read_flows(table, keys::PART, Some(chosen.entry), &[], below, problems);
    Ok(Some((chosen, scheduler.ok_or(())?, parts.ok_or(())?)))
}

/// The single flow `all` of a direction for which the scenario defines no flows.
pub(crate) fn all<'a>(
    tables: &[&Fields<'a>],
    entry: &'static Manifest,
    limit: Limit,
    problems: &mut Vec<Problem>,
) -> Option<FlowRead<'a>> {
    let first = tables.first()?;
    let none = Fields::none(first.at.clone(), first.what.clone());
    let required: Vec<&str> = keys::of_flow(entry)
        .iter()
        .filter(|k| k.fallback == keys::Fallback::Required)
        .map(|k| k.name)
        .collect();
    if !required.is_empty() {
        let name = first.what.as_str();
        problems.push(
            Problem::error(
                first.at.clone(),
                format!("{name} has no flows, but the scheduler `{}` needs flows", entry.kind),
            )
            .help(format!(
                "add flows `[link.NAME.flow.FLOW]` with `match` and {}",
                suggest::list(required)
            )),
        );
        return None;
    }
    let values = values(&[&none], keys::of_flow(entry).into_iter(), problems)?;
    Some(FlowRead {
        fields: none,
        flow: Flow::all(),
        setup: FlowSetup::new(values, limit),
        each: None,
        parts: None,
        adapters: false,
    })
}

/// Warns of packets that match no flow, and of flows that no packet reaches.
pub(crate) fn unmatched(flows: &[FlowRead<'_>], owner: &Fields<'_>, problems: &mut Vec<Problem>) {
    if flows.is_empty() {
        return;
    }
    match flows.iter().position(|f| !f.adapters && f.flow.matches.iter().any(Match::is_any)) {
        // With adapters, every packet comes from an adapter, and every adapter has a flow.
        None if flows.iter().any(|f| f.adapters) => {}
        None => problems.push(
            Problem::warning(
                owner.at.clone(),
                format!("some packets match no flow of {}", owner.what),
            )
            .label("they are dropped")
            .help("a last flow with `match = \"any\"` takes them"),
        ),
        Some(n) => {
            let taker = &flows[n].flow.name;
            problems.extend(flows[n + 1..].iter().map(|flow| {
                Problem::warning(
                    flow.fields.at.clone(),
                    format!("no packet reaches {}", flow.fields.what),
                )
                .help(format!(
                    "flow {0} before it matches every packet; put flow {0} last",
                    quoted(taker)
                ))
            }));
        }
    }
}
