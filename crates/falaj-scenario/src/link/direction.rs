//! Reads one direction of a link.
//!
//! Each key of [`keys::DIRECTION`] has a reader in [`READERS`], which stores the key's value in a
//! [`Draft`]. When all readers have run, the discipline checks its setup, and the direction is
//! complete.

use crate::adapters;
use crate::diagnostics::Problem;
use crate::impairments;
use crate::keys::{self, Key};
use crate::link::capacity::Traces;
use crate::link::flows::{FlowRead, FlowTable, Place, all, read_flows, unmatched};
use crate::link::queue::default_queue;
use crate::link::refusal::{refusal, taken_all_the_same};
use crate::link::scheduler::{Chosen, Guaranteed};
use crate::link::{capacity, hierarchy, masks, pace, plugin, profile};
use crate::lints::queues;
use crate::model::{ALL, Direction, Flow, Run, Towards};
use crate::read::{Datum, Field, Fields, Got, get, values};
use falaj_engine::counted_layer::CountedLayer;
use falaj_engine::framing::{Cells, Framing};
use falaj_engine::masks::Masks;
use falaj_engine::pipe::PipeSpec;
use falaj_sched::contract::params::{ConfigError, Setup, Value, Values};
use falaj_sched::disciplines::fifo;
use falaj_sched::mechanisms::oversubscription;
use falaj_sched::queues::queue::Limit;
use falaj_sched::registry;
use falaj_sched::scheduler::tree;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use std::ops::Range;
use std::path::Path;

/// The tables and other data from which a direction is read.
pub(super) struct Source<'s, 'a> {
    /// The tables that may have the direction's keys, the innermost first.
    pub(super) tables: &'s [&'s Fields<'a>],
    pub(super) towards: Towards,
    pub(super) flows: &'s FlowTable<'a>,
    /// The chosen discipline; `None` if it could not be read, which was reported.
    pub(super) chosen: Option<&'s Chosen<'a>>,
    /// Keys of flows that are not an error, although this direction's discipline does not use them.
    pub(super) elsewhere: &'s [Key],
    /// True if another header probably misspells the link's name, so that some of the link's tables
    /// are under that header.
    pub(super) parted: bool,
    /// The scenario's directory; names of files are relative to it.
    pub(super) beside: &'s Path,
    /// The traces that were read before.
    pub(super) traces: &'s Traces,
}

/// The rates that a discipline guarantees to its flows. They are kept, because the other direction
/// usually has equal flows, and then the same rates.
pub(super) struct GuaranteedBefore {
    kind: &'static str,
    setup: Setup,
    masks: Masks,
    rates: Vec<Option<Rate>>,
}

/// The result of reading a direction: those parts that could be read.
#[derive(Default)]
pub(super) struct Side {
    /// The direction; `None` if it has an error, which was reported.
    pub(super) direction: Option<Direction>,
    /// The names of its leaves, which are the flows with a queue; `None` if unknown.
    pub(super) names: Option<Vec<String>>,
    /// The guaranteed rates of the leaves, if they are known.
    pub(super) guaranteed: Vec<Option<Rate>>,
}

/// The values of a direction that are read so far.
struct Draft<'a> {
    /// The pipe, with defaults for everything that is not read yet. Its setup has no flows until
    /// all keys are read.
    pipe: PipeSpec,
    layer: CountedLayer,
    mtu: u32,
    overhead: i32,
    cells: Cells,
    /// The rate of a profile, which counts where no other key sets one.
    bandwidth: Option<Rate>,
    flows: Vec<FlowRead<'a>>,
    names: Option<Vec<String>>,
    /// The keys that could not be read; their errors were reported.
    wrong: Vec<&'static str>,
}

impl Draft<'_> {
    fn new() -> Self {
        let setup = Setup {
            rate: Rate::UNLIMITED,
            largest: 0,
            scheduler: Values::default(),
            flows: Vec::new(),
        };
        Draft {
            pipe: PipeSpec::new("", setup, Span::ZERO),
            layer: CountedLayer::default(),
            mtu: 0,
            overhead: 0,
            cells: Cells::None,
            bandwidth: None,
            flows: Vec::new(),
            names: None,
            wrong: Vec::new(),
        }
    }

    fn is_known(&self, key: &str) -> bool {
        !self.wrong.contains(&key)
    }

    /// The limit of queues that do not set their own.
    fn queue(&self) -> Limit {
        let (rate, delay) = (self.pipe.setup.rate, self.pipe.delay);
        default_queue(rate, delay, self.layer.largest(self.mtu))
    }

    /// The bytes that a packet of the largest size costs on the link.
    fn largest(&self) -> u32 {
        let largest = self.layer.largest(self.mtu);
        Framing { overhead: self.overhead, cells: self.cells, largest }.of(largest)
    }

    fn known_delay(&self) -> Option<Span> {
        self.is_known("delay").then_some(self.pipe.delay)
    }
}

/// A function that reads some keys of a direction into a draft. After `None` the direction is
/// incomplete: a key is wrong or missing, which the function has reported. After a reported error
/// in `cells`, `overhead` or `profile`, it returns `Some`, and the draft keeps the default.
struct Reader {
    keys: &'static [&'static str],
    read: for<'a> fn(&Source<'_, 'a>, &mut Draft<'a>, &mut Vec<Problem>) -> Option<()>,
}

/// The readers of a direction's keys. Each comes after the readers whose results it uses.
const READERS: &[Reader] = &[
    Reader {
        keys: &["delay"],
        read: |source, draft, problems| {
            let Value::Span(delay) = source.value("delay", problems)? else { return None };
            draft.pipe.delay = delay;
            Some(())
        },
    },
    Reader {
        keys: &["mtu"],
        read: |source, draft, problems| {
            let Value::Bytes(mtu) = source.value("mtu", problems)? else { return None };
            draft.mtu = u32::try_from(mtu).ok()?;
            Some(())
        },
    },
    Reader {
        keys: &["layer"],
        read: |source, draft, problems| {
            let Value::Choice(name) = source.value("layer", problems)? else { return None };
            draft.layer = CountedLayer::from_name(name)?;
            Some(())
        },
    },
    Reader {
        keys: &["cells"],
        read: |source, draft, problems| {
            if let Some(Value::Choice(name)) = source.value("cells", problems) {
                draft.cells = Cells::from_name(name).unwrap_or(Cells::None);
            }
            Some(())
        },
    },
    Reader {
        keys: &["overhead"],
        read: |source, draft, problems| {
            if let Got::Given(Datum::Signed(bytes)) = source.got("overhead", problems) {
                draft.overhead = bytes;
            }
            Some(())
        },
    },
    Reader {
        keys: &["profile"],
        read: |source, draft, problems| {
            if let Ok(Some((profile, bw))) =
                profile::profile(source.tables, source.beside, problems)
            {
                draft.pipe.impairments.profile = Some(profile);
                draft.bandwidth = bw;
            }
            Some(())
        },
    },
    Reader {
        keys: &["rate", "trace", "burst", "peak"],
        read: |source, draft, problems| {
            let layer = draft.is_known("layer").then_some(draft.layer);
            let (tables, files) = (source.tables, (source.beside, source.traces));
            let largest = draft.largest();
            (draft.pipe.setup.rate, draft.pipe.capacity) =
                capacity::capacity(tables, layer, largest, draft.bandwidth, files, problems)?;
            Some(())
        },
    },
    Reader {
        keys: &impairments::NAMES,
        read: |source, draft, problems| {
            draft.pipe.impairments = impairments::read(impairments::Reading {
                tables: source.tables,
                delay: draft.known_delay(),
                beside: source.beside,
                impairments: std::mem::take(&mut draft.pipe.impairments),
                problems,
            })?;
            Some(())
        },
    },
    Reader {
        keys: &["mask", "max-flows", "expire"],
        read: |source, draft, problems| {
            let (keys, towards) = (keys::DIRECTION, source.towards);
            draft.pipe.masks.link = masks::each(source.tables, keys, towards, problems).ok()?;
            Some(())
        },
    },
    Reader { keys: &["flow"], read: read_flow_table },
    Reader {
        keys: &["scheduler"],
        read: |source, draft, problems| {
            let chosen = source.chosen?;
            let own: Vec<&Fields<'_>> = chosen.fields.iter().collect();
            let keys = keys::of_scheduler(chosen.entry).into_iter();
            let mut scheduler = values(&own, keys, problems)?;
            let fields = chosen.fields.as_ref();
            plugin::load(chosen.entry, fields, &mut scheduler, source.beside, problems)?;
            (draft.pipe.kind, draft.pipe.setup.scheduler) = (chosen.entry.kind, scheduler);
            Some(())
        },
    },
];

fn read_flow_table<'a>(
    source: &Source<'_, 'a>,
    draft: &mut Draft<'a>,
    problems: &mut Vec<Problem>,
) -> Option<()> {
    match source.flows {
        FlowTable::Wrong => return None,
        FlowTable::Absent => draft.names = Some(vec![ALL.to_owned()]),
        FlowTable::Given(table) => {
            draft.names = Some(hierarchy::leaf_names(table));
            let entry = source.chosen.map(|c| c.entry);
            let place = Place { towards: source.towards, level: 1, queue: draft.queue() };
            draft.flows = read_flows(table, keys::FLOW, entry, source.elsewhere, place, problems)?;
        }
    }
    if let Some(owner) = source.tables.iter().find(|t| t.field("flow").is_some())
        && !source.parted
    {
        unmatched(&draft.flows, owner, problems);
    }
    Some(())
}

impl<'a> Source<'_, 'a> {
    fn got(&self, name: &str, problems: &mut Vec<Problem>) -> Got<'a> {
        keys::direction(name).map_or(Got::Absent, |key| get(self.tables, key, problems))
    }

    /// The value of a key, or its default.
    fn value(&self, name: &str, problems: &mut Vec<Problem>) -> Option<Value> {
        match self.got(name, problems) {
            Got::Given(Datum::Value(value)) | Got::Default(Datum::Value(value)) => Some(value),
            _ => None,
        }
    }

    /// Reads the direction.
    pub(super) fn direction(
        &self,
        before: &mut Option<GuaranteedBefore>,
        problems: &mut Vec<Problem>,
    ) -> Side {
        let mut draft = Draft::new();
        for reader in READERS {
            if (reader.read)(self, &mut draft, problems).is_none() {
                draft.wrong.extend(reader.keys);
            }
        }
        let names = draft.names.take();
        match self.whole(draft, problems).and_then(|whole| whole.direction(before, problems)) {
            Some((direction, guaranteed)) => Side { direction: Some(direction), names, guaranteed },
            None => Side { names, ..Side::default() },
        }
    }

    /// Completes the draft after the readers have run. The result has at least one flow. Returns
    /// `None` after an error, which was reported, or if the flows may be below a misspelt header.
    fn whole<'s>(
        &'s self,
        mut draft: Draft<'a>,
        problems: &mut Vec<Problem>,
    ) -> Option<Whole<'s, 'a>> {
        let chosen = self.chosen.filter(|_| draft.wrong.is_empty())?;
        let queue = draft.queue();
        if draft.flows.is_empty() {
            if self.parted {
                return None;
            }
            // If the link has no flows, one flow takes all packets: each key that the discipline
            // has for flows must have a default.
            draft.flows.push(all(self.tables, chosen.entry, queue, problems)?);
        }
        let on_the_link = draft.largest();
        let Draft { mut pipe, layer, mtu, overhead, cells, flows, .. } = draft;
        let largest = layer.largest(mtu);
        pipe.framing =
            (overhead != 0 || cells != Cells::None).then_some(Framing { overhead, cells, largest });
        pipe.setup.largest = on_the_link;
        if chosen.entry.wants_layer {
            pipe.setup.scheduler.set("layer", Value::Choice(layer.name()));
        }
        pipe.setup.flows = hierarchy::joined(pipe.kind, &pipe.setup, &flows);
        pipe.masks.flows = flows.iter().map(|f| f.each).collect();
        let said: Vec<bool> = flows.iter().map(|f| f.fields.field("max-flows").is_some()).collect();
        pipe.masks.fit(self.tables.iter().any(|t| t.field("max-flows").is_some()), &said);
        Some(Whole { source: self, chosen, pipe, layer, mtu, flows })
    }
}

/// A direction after all readers have run, and before its discipline checks the setup.
struct Whole<'w, 'a> {
    source: &'w Source<'w, 'a>,
    chosen: &'w Chosen<'a>,
    pipe: PipeSpec,
    layer: CountedLayer,
    mtu: u32,
    flows: Vec<FlowRead<'a>>,
}

impl<'a> Whole<'_, 'a> {
    /// Returns the direction and the guaranteed rates of its leaves; `None` if the setup is
    /// refused, which was reported.
    fn direction(
        mut self,
        before: &mut Option<GuaranteedBefore>,
        problems: &mut Vec<Problem>,
    ) -> Option<(Direction, Vec<Option<Rate>>)> {
        let kind = self.pipe.kind;
        // Here the discipline itself schedules the parts of a flow: then no flow may have a mask.
        if self.slots().len() < self.classes().len() {
            self.possible(&self.flows.iter().collect::<Vec<_>>(), problems)?;
        }
        let rates = self.rates(before, problems)?;
        self.warn_of_oversubscription(problems);
        let (setup, beside) = (&mut self.pipe.setup, self.source.beside);
        if !hierarchy::divide(setup, &mut rates.iter(), &self.flows, beside, problems) {
            return None;
        }
        self.possible(&self.classes(), problems)?;
        if self.flows.iter().any(|f| f.parts.is_some())
            && let Err(refused) = tree::guarantees(kind, &self.pipe.setup)
        {
            let slots = self.slots();
            problems.extend(refused.into_iter().map(|r| self.refusal(r, &slots)));
            return None;
        }
        let guaranteed = hierarchy::guaranteed(kind, &rates, &self.flows);
        let rates: Vec<Option<Rate>> = guaranteed.iter().map(|of| of[0]).collect();
        self.warn_of_short_queues(&rates, problems);
        self.warn_of_long_tails(problems);
        self.pipe.pace = pace::pace(self.source.tables, &self.pipe.setup, problems).ok()?;
        self.pipe.seed = Run::default().seed;
        if let Some(refused) = self.pipe.refused() {
            let problem = pace::refusal(&refused, self.source.tables);
            problems.push(problem.unwrap_or_else(|| self.refusal(refused, &[])));
            return None;
        }
        let mut flows: Vec<Flow> = self.flows.into_iter().flat_map(FlowRead::leaves).collect();
        flows.iter_mut().for_each(adapters::restrict);
        let Whole { pipe, layer, mtu, .. } = self;
        let direction = Direction { pipe, mtu, layer, flows };
        Some((direction, guaranteed.concat()))
    }

    /// All flows that the discipline sees.
    fn classes(&self) -> Vec<&FlowRead<'a>> {
        hierarchy::classes(self.pipe.kind, &self.flows)
    }

    /// The flows of `classes` in which packets wait, or that other disciplines divide.
    fn slots(&self) -> Vec<&FlowRead<'a>> {
        let mut slots = self.classes();
        slots.retain(|flow| !hierarchy::is_joined(self.pipe.kind, flow));
        slots
    }

    fn refusal(&self, refused: ConfigError, flows: &[&FlowRead<'_>]) -> Problem {
        refusal(refused, self.source.tables, self.chosen, flows)
    }

    /// Checks that the masks are possible, and reports the reason if they are not.
    fn possible(&self, flows: &[&FlowRead<'_>], problems: &mut Vec<Problem>) -> Option<()> {
        let Some(refused) = self.pipe.masks.impossible(self.pipe.kind, &self.pipe.setup) else {
            return Some(());
        };
        problems.push(self.refusal(refused, flows));
        None
    }

    /// The rates that the discipline guarantees to its flows.
    fn rates(
        &self,
        before: &mut Option<GuaranteedBefore>,
        problems: &mut Vec<Problem>,
    ) -> Option<Vec<Option<Rate>>> {
        let PipeSpec { kind, setup, masks, .. } = &self.pipe;
        if let Some(before) =
            before.as_ref().filter(|b| (b.kind, &b.setup, &b.masks) == (*kind, setup, masks))
        {
            return Some(before.rates.clone());
        }
        let guaranteed = Guaranteed { flows: masks.firsts(self.slots().len()) };
        match registry::build(kind, &masks.expanded(setup), guaranteed) {
            Ok(rates) => {
                *before = Some(GuaranteedBefore {
                    kind,
                    setup: setup.clone(),
                    masks: masks.clone(),
                    rates: rates.clone(),
                });
                Some(rates)
            }
            Err(refused) => {
                let refused =
                    if self.has_masks() { masks.refused(refused, setup) } else { refused };
                let classes = self.classes();
                problems.extend(refused.into_iter().map(|r| self.refusal(r, &classes)));
                None
            }
        }
    }

    fn has_masks(&self) -> bool {
        self.pipe.masks.flows.iter().any(Option::is_some)
    }

    fn warn_of_oversubscription(&self, problems: &mut Vec<Problem>) {
        let PipeSpec { setup, masks, .. } = &self.pipe;
        let Some(taken) = oversubscription::taken(self.chosen.entry, &masks.expanded(setup)) else {
            return;
        };
        let all = if self.has_masks() { masks.refused(taken.into(), setup) } else { taken.into() };
        let (tables, chosen, classes) = (self.source.tables, self.chosen, self.classes());
        problems.extend(
            all.into_iter().map(|taken| taken_all_the_same(taken, tables, chosen, &classes)),
        );
    }

    fn warn_of_short_queues(&self, rates: &[Option<Rate>], problems: &mut Vec<Problem>) {
        let (entry, flows) = (self.chosen.entry, &self.flows);
        for queue in queues::short_queues(&self.pipe.setup, self.pipe.delay, entry, rates) {
            // The limit of a FIFO's single queue is the scheduler's, unless the only flow sets its
            // own.
            let own = |n: &usize| {
                entry.kind != fifo::MANIFEST.kind || flows[*n].fields.field("queue").is_some()
            };
            if queue.flow.is_some_and(|n| flows[n].parts.is_some()) {
                continue;
            }
            let flow = queue.flow.filter(own);
            let fields =
                flow.map_or_else(|| self.chosen.fields.as_ref(), |n| Some(&flows[n].fields));
            let (at, unset) = match fields {
                Some(fields) => place(fields.field("queue"), &fields.at),
                None => (self.source.tables.first().map_or(0..0, |t| t.at.clone()), true),
            };
            // A flow that requires a delay may have a short queue on purpose.
            let wanted = |n: usize| flows[n].flow.requires.delay.is_some();
            if flow.map_or_else(|| (0..flows.len()).any(wanted), wanted) {
                continue;
            }
            let what = flow.map_or("the scheduler `fifo`", |n| &flows[n].fields.what);
            problems.push(queue.problem(at, what, unset, flow.is_some()));
        }
    }

    fn warn_of_long_tails(&self, problems: &mut Vec<Problem>) {
        for tail in queues::long_tails(&self.pipe.setup) {
            let fields = &self.flows[tail.flow].fields;
            let (at, _) = place(fields.field("phase"), &fields.at);
            problems.push(tail.problem(at, &fields.what));
        }
    }
}

/// The place of a value, and false. If the value is not set: the place of the table's header, and
/// true.
fn place(field: Option<&Field<'_>>, header: &Range<usize>) -> (Range<usize>, bool) {
    match field {
        Some(field) => (field.at.clone(), false),
        None => (header.clone(), true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three keys have no reader: `preset` is read before all readers, `paced-by` and `backlog` are
    /// read after the discipline's check.
    #[test]
    fn every_key_has_one_reader() {
        let mut read: Vec<&str> = READERS.iter().flat_map(|reader| reader.keys).copied().collect();
        read.extend(["preset", "paced-by", "backlog"]);
        read.sort_unstable();
        let mut keys: Vec<&str> = keys::DIRECTION.iter().map(|key| key.name).collect();
        keys.sort_unstable();
        assert_eq!(read, keys);
    }
}
