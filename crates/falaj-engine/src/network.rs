//! Several pipes as one machine: rules say which of them a packet passes, and
//! in which order. What leaves a pipe enters the next at the instant at which it
//! is due there. A single link without rules is the plain [`Engine`], and costs
//! nothing more.
//!
//! A packet enters in two steps. [`Network::route`] says where, by its key: a pipe
//! and a flow in it. [`Network::enter`] puts it there. What comes out is what
//! leaves the last pipe; of those before it, [`Network::passed`] tells.

use crate::Engine;
use crate::account::Account;
use crate::change::{Fate, Prepared};
use crate::classifier::{Classifier, Match};
use crate::each::{Ids, Masks, Report};
use crate::engine::{Corrupt, Dropped, Early, Emit, Mark, Output, PipeId, Unfit, Unit, Why};
use crate::key::Key;
use crate::pipe::{Counters, PipeSpec};
use crate::rules::{Active, At, Next, Rule, RuleSet, Taken};
use falaj_sched::label::{Ecn, Known, Label};
use falaj_sched::params::{FlowSetup, Refusals, Setup, Values};
use falaj_sched::plugin::Breach;
use falaj_sched::queue::{FlowId, Limit};
use falaj_sched::rate::Rate;
use falaj_sched::time::{Span, Time};
use std::any::Any;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a network is made from.
#[derive(Debug, Clone)]
pub struct NetworkSpec {
    /// Up and down of each link, one after the other.
    pub places: Vec<Place>,
    /// Which links packets pass. None: all pass the first one.
    pub rules: Vec<Rule>,
    /// Where the random numbers of rules begin.
    pub seed: u64,
}

/// A pipe in its place.
#[derive(Debug, Clone)]
pub struct Place {
    /// The pipe.
    pub pipe: PipeSpec,
    /// Which flow of it a packet belongs to.
    pub classifier: Classifier,
    /// Which bytes of a packet count there.
    pub account: Account,
}

impl NetworkSpec {
    /// The same with random numbers that begin elsewhere.
    pub fn seeded(&self, seed: u64) -> NetworkSpec {
        let mut spec = self.clone();
        spec.seed = seed;
        spec.places.iter_mut().for_each(|place| place.pipe.seed = seed);
        spec
    }
}

/// Where a packet enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The pipe.
    pub pipe: PipeId,
    /// Its flow.
    pub flow: FlowId,
    /// By which rule; without rules none.
    at: Option<At>,
}

/// Why a packet does not enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A rule drops it.
    Dropped,
    /// No rule takes it, or no flow of its link.
    Unmatched,
}

/// What enters: a handle to bytes that live elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Whatever the driver knows the bytes by; it comes out again just once.
    pub handle: u32,
    /// Length of the IP packet.
    pub length: u32,
    /// What policies of queues look at, where [`Network::heeds_labels`].
    pub label: Label,
}

/// Which packets are whose, what of them counts, and which are many, at the entrance of a pipe.
#[derive(Debug, Clone)]
pub struct Sorting {
    /// The pipe.
    pub pipe: PipeId,
    /// Whose.
    pub classifier: Classifier,
    /// What counts.
    pub account: Account,
    /// What makes queues and links of its own.
    pub masks: Masks,
}

/// What changes around pipes, with them.
#[derive(Default)]
pub struct Around<'a> {
    /// What becomes of flows, where these are others.
    pub flows: &'a [(PipeId, &'a [Fate])],
    /// How packets are sorted from then on, where that is another.
    pub sorted: Vec<Sorting>,
    /// Other rules.
    pub rules: Option<Leading>,
}

/// Rules that take over from those that there are.
pub struct Leading {
    rules: RuleSet,
    become_others: Vec<Option<u32>>,
    bypass: u32,
}

impl Leading {
    /// These rules, whose links are the engine's places. Of those that there were each becomes one of these, or goes.
    /// `bypass` is the place for what passes no link, where a rule lets it: two pipes of [`unlimited`].
    pub fn new(rules: Vec<Rule>, seed: u64, become_others: Vec<Option<u32>>, bypass: u32) -> Leading {
        Leading { rules: RuleSet::new(rules, seed), become_others, bypass: 2 * bypass }
    }
}

/// Where pipes are, and where others may begin: up and down of a link are one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// So many there are.
    pub number: u32,
    /// Those whose links have ended and hold nothing any more.
    pub vacant: Vec<u32>,
    /// That of what passes no link, if there is one.
    pub bypass: Option<u32>,
}

/// How packets are sorted where they enter a pipe.
#[derive(Debug, Clone)]
struct Entrance {
    classifier: Classifier,
    account: Account,
    masks: Masks,
    masked: bool,
    /// Any of that depends on a packet's key.
    wants_key: bool,
}

impl Entrance {
    fn new(classifier: Classifier, account: Account, masks: Masks) -> Entrance {
        let masked = !masks.is_none();
        Entrance { wants_key: classifier.wants_key() || masked, classifier, account, masks, masked }
    }

    /// For what passes no link.
    fn open() -> Entrance {
        Entrance::new(Classifier::new([&[Match::ANY][..]]), Account::Ip, Masks::default())
    }
}

/// A packet within.
#[derive(Debug, Clone, Default)]
struct Passing {
    /// The driver's own.
    handle: u32,
    length: u32,
    label: Label,
    /// ECN bits as its bytes have them. Where others share these, one that is marked alone is so by its label only, until it leaves.
    bits: Ecn,
    at: Option<At>,
    /// Others share its bytes: where it is counted how many, and zero stands for one that is alone.
    shared: u32,
    /// Bits that were turned; the bytes are as they were until it leaves.
    turned: Vec<u64>,
}

/// A packet on its way to the next pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Hop {
    due: Time,
    order: u64,
    pipe: u32,
    flow: u32,
    slot: u32,
}

/// Pipes and rules.
pub struct Network {
    engine: Engine,
    places: Vec<Entrance>,
    /// Which pipes look at labels.
    heeds: Vec<bool>,
    rules: Option<RuleSet>,
    /// A packet may pass several pipes.
    chain: bool,
    /// The first of two pipes without limits, for what passes no link.
    bypass: Option<u32>,
    /// Without rules, no handle of a packet that entered is larger.
    highest: u32,
    /// By the engine's handle; without rules nothing.
    passing: Vec<Passing>,
    keys: Vec<Key>,
    free: Vec<u32>,
    /// How many packets share bytes; the first is nobody's.
    shares: Vec<u32>,
    hops: BinaryHeap<Reverse<Hop>>,
    made: u64,
    inner: Vec<Output>,
    passed: Vec<Emit>,
    /// Packets behind a link that no flow of the next one takes.
    unmatched: u64,
}

/// A plain engine, whose units say their flow and their length as it is accounted.
impl From<Engine> for Network {
    fn from(engine: Engine) -> Network {
        Network::with(engine, Vec::new(), None, None)
    }
}

impl Network {
    /// Builds its pipes; [`PipeId`]s follow their order. An error names the pipe.
    pub fn new(spec: &NetworkSpec) -> Result<Network, (PipeId, Refusals)> {
        let rules = (!spec.rules.is_empty()).then(|| RuleSet::new(spec.rules.clone(), spec.seed));
        let mut pipes: Vec<PipeSpec> = spec.places.iter().map(|place| place.pipe.clone()).collect();
        let bypass = rules.as_ref().is_some_and(RuleSet::pass).then_some(pipes.len() as u32);
        if bypass.is_some() {
            pipes.extend([unlimited(), unlimited()]);
        }
        let entrance = |place: &Place| Entrance::new(place.classifier.clone(), place.account, place.pipe.masks.clone());
        let mut places: Vec<Entrance> = spec.places.iter().map(entrance).collect();
        places.resize(pipes.len(), Entrance::open());
        Ok(Network::with(Engine::new(&pipes)?, places, rules, bypass))
    }

    fn with(engine: Engine, places: Vec<Entrance>, rules: Option<RuleSet>, bypass: Option<u32>) -> Network {
        Network {
            heeds: heeds(&engine),
            engine,
            places,
            chain: rules.as_ref().is_some_and(RuleSet::chain),
            rules,
            bypass,
            highest: 0,
            passing: Vec::new(),
            keys: Vec::new(),
            free: Vec::new(),
            shares: vec![0],
            hops: BinaryHeap::new(),
            made: 0,
            inner: Vec::new(),
            passed: Vec::new(),
            unmatched: 0,
        }
    }

    /// Does what becomes of a packet that comes this way depend on its key?
    pub fn wants_key(&self, way: usize) -> bool {
        self.rules.is_some() || self.places.get(way).is_some_and(|place| place.wants_key) || self.heeds_labels()
    }

    /// Does any pipe look at labels?
    pub fn heeds_labels(&self) -> bool {
        self.heeds.contains(&true)
    }

    /// Does a pipe drop what got in, or what it has room for? See [`Engine::drops_early`].
    pub fn drops_early(&self, pipe: PipeId) -> bool {
        self.engine.drops_early(pipe)
    }

    /// Does what becomes of a packet depend on more than its key?
    pub fn has_rules(&self) -> bool {
        self.rules.is_some()
    }

    /// Where a packet of so many bytes enters that comes up (0) or down (1) at `now`. It counts as taken by its rule.
    #[inline]
    pub fn route(&mut self, key: &Key, way: usize, length: u32, now: Time) -> Result<Entry, Refused> {
        let Some(rules) = &mut self.rules else {
            let flow = self.places.get(way).and_then(|place| place.classifier.flow_of(key));
            let flow = flow.ok_or(Refused::Unmatched)?;
            return Ok(Entry { pipe: PipeId(way as u32), flow, at: None });
        };
        match rules.from(0, key, way, length, now) {
            Next::Link(link, at) => {
                let pipe = 2 * link as usize + way;
                let flow = self.places[pipe].classifier.flow_of(key).ok_or(Refused::Unmatched)?;
                Ok(Entry { pipe: PipeId(pipe as u32), flow, at: Some(at) })
            }
            Next::Pass => {
                // Wherever rules let packets pass there is one.
                let pipe = PipeId(self.bypass.unwrap_or(0) + way as u32);
                Ok(Entry { pipe, flow: FlowId(0), at: None })
            }
            Next::Drop => Err(Refused::Dropped),
            Next::Nothing => Err(Refused::Unmatched),
        }
    }

    /// A packet that was to enter there does not, as whoever brings it found no room: its rule has it among those dropped.
    pub fn turned_away(&mut self, entry: &Entry) {
        if let Some(stats) = self.rules.as_mut().and_then(|rules| rules.stats_mut(entry.at)) {
            stats.dropped += 1;
        }
    }

    /// Where a packet enters whose pipe and flow are known.
    pub fn straight(&self, pipe: PipeId, flow: FlowId) -> Entry {
        Entry { pipe, flow, at: None }
    }

    /// What of a packet counts where it enters.
    pub fn account(&self, pipe: PipeId) -> Option<Account> {
        self.places.get(pipe.0 as usize).map(|place| place.account)
    }

    /// Length of a packet as it is accounted where it enters.
    #[inline]
    pub fn bytes(&self, pipe: PipeId, length: u32) -> u32 {
        /// What the engine takes as a unit's length.
        const LONGEST: u32 = (1 << 31) - 1;
        let account = self.places.get(pipe.0 as usize).map(|place| place.account);
        account.map_or(length, |account| account.from_ip(length)).clamp(1, LONGEST)
    }

    /// What a packet is to the masks of a pipe.
    #[inline]
    fn ids(&self, pipe: PipeId, flow: FlowId, key: &Key) -> Ids {
        let place = self.places.get(pipe.0 as usize).filter(|place| place.masked);
        place.map_or(Ids::NONE, |place| place.masks.ids(flow, key))
    }

    /// A packet enters where [`Network::route`] says. Runs all that is due until `now` first. `now` never goes back.
    #[inline]
    pub fn enter(&mut self, entry: Entry, key: &Key, packet: Packet, now: Time, out: &mut Vec<Output>) {
        if self.rules.is_some() {
            return self.enter_by_rules(entry, key, packet, now, out);
        }
        let Packet { handle, length, label } = packet;
        let unit = Unit { flow: entry.flow, handle, bytes: self.bytes(entry.pipe, length) };
        let ids = self.ids(entry.pipe, entry.flow, key);
        let label = self.heeds[entry.pipe.0 as usize].then_some(label);
        self.highest = self.highest.max(handle);
        input(&mut self.engine, entry.pipe, unit, &ids, label, now, out);
    }

    fn enter_by_rules(&mut self, entry: Entry, key: &Key, packet: Packet, now: Time, out: &mut Vec<Output>) {
        let on = entry.at.zip(self.rules.as_ref()).is_some_and(|(at, rules)| rules.goes_on(at));
        self.poll(now, out);
        let Packet { length, label, .. } = packet;
        let slot = self.keep(packet, entry.at, if on { *key } else { Key::default() });
        let unit = Unit { flow: entry.flow, handle: slot, bytes: self.bytes(entry.pipe, length) };
        let ids = self.ids(entry.pipe, entry.flow, key);
        let label = self.heeds[entry.pipe.0 as usize].then_some(label);
        input(&mut self.engine, entry.pipe, unit, &ids, label, now, &mut self.inner);
        self.sort(out);
    }

    /// Runs all that is due until `now`, each event at its own instant.
    #[inline]
    pub fn poll(&mut self, now: Time, out: &mut Vec<Output>) {
        if self.rules.is_none() {
            return self.engine.poll(now, out);
        }
        if !self.chain {
            self.engine.poll(now, &mut self.inner);
            return self.sort(out);
        }
        loop {
            let hop = self.hops.peek().map_or(Time::NEVER, |hop| hop.0.due);
            let event = self.engine.next_event();
            if hop.min(event) > now || hop.min(event) == Time::NEVER {
                return;
            }
            // Events before arrivals, as within the engine. One instant at a time: what leaves then may enter
            // the next pipe before another event.
            if event <= hop {
                self.engine.poll(event, &mut self.inner);
            } else if let Some(Reverse(Hop { due, pipe, flow, slot, .. })) = self.hops.pop() {
                let (pipe, flow) = (PipeId(pipe), FlowId(flow));
                let Passing { length, label, .. } = self.passing[slot as usize];
                let unit = Unit { flow, handle: slot, bytes: self.bytes(pipe, length) };
                let ids = self.ids(pipe, flow, &self.keys[slot as usize]);
                let label = self.heeds[pipe.0 as usize].then_some(label);
                input(&mut self.engine, pipe, unit, &ids, label, due, &mut self.inner);
            }
            self.sort(out);
        }
    }

    fn keep(&mut self, packet: Packet, at: Option<At>, key: Key) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.passing.push(Passing::default());
            self.keys.push(Key::default());
            (self.passing.len() - 1) as u32
        });
        let place = &mut self.passing[slot as usize];
        (place.handle, place.length, place.label) = (packet.handle, packet.length, packet.label);
        (place.at, place.shared, place.bits) = (at, 0, packet.label.ecn);
        place.turned.clear();
        self.keys[slot as usize] = key;
        slot
    }

    /// What the engine said, as it concerns whole ways.
    #[inline]
    fn sort(&mut self, out: &mut Vec<Output>) {
        let mut inner = std::mem::take(&mut self.inner);
        for output in inner.drain(..) {
            match output {
                Output::Emit(emit) => self.emitted(emit, out),
                Output::Copy(emit) => {
                    let copy = self.copied(emit.handle);
                    self.emitted(Emit { handle: copy, ..emit }, out);
                }
                Output::Drop(dropped) => self.lost(dropped, out),
                Output::Corrupt(corrupt) => self.passing[corrupt.handle as usize].turned.push(corrupt.draw),
                Output::Mark(mark) => {
                    let place = &mut self.passing[mark.handle as usize];
                    place.label.ecn = mark.ecn;
                    if self.shares[place.shared as usize] <= 1 {
                        place.bits = mark.ecn;
                        out.push(Output::Mark(Mark { handle: place.handle, ..mark }));
                    }
                }
                Output::Early(Early { handle, by, .. }) => self.passing[handle as usize].label.earliness = by,
            }
        }
        self.inner = inner;
    }

    /// Another packet of the same bytes.
    #[cold]
    fn copied(&mut self, slot: u32) -> u32 {
        let Passing { handle, length, label, bits, at, shared, turned } = self.passing[slot as usize].clone();
        let shared = if shared == 0 {
            let unused = self.shares.iter().skip(1).position(|n| *n == 0).map_or(self.shares.len(), |n| n + 1);
            if unused == self.shares.len() {
                self.shares.push(0);
            }
            self.shares[unused] = 1;
            unused as u32
        } else {
            shared
        };
        self.shares[shared as usize] += 1;
        self.passing[slot as usize].shared = shared;
        let copy = self.keep(Packet { handle, length, label }, at, self.keys[slot as usize]);
        let place = &mut self.passing[copy as usize];
        (place.shared, place.turned, place.bits) = (shared, turned, bits);
        copy
    }

    /// A packet leaves a pipe: for the next one, or for good.
    fn emitted(&mut self, emit: Emit, out: &mut Vec<Output>) {
        let slot = emit.handle;
        let Passing { at, length, .. } = self.passing[slot as usize];
        let way = (emit.pipe.0 % 2) as usize;
        if let Some(stats) = self.rules.as_mut().and_then(|rules| rules.stats_mut(at)) {
            stats.sent(emit.bytes, emit.end - emit.arrival);
        }
        let next = match (at, &mut self.rules) {
            (Some(at), Some(rules)) if rules.goes_on(at) => {
                rules.behind(at, &self.keys[slot as usize], way, length, emit.start)
            }
            _ => Next::Nothing,
        };
        let why = match next {
            Next::Nothing | Next::Pass => return self.leaves(emit, out),
            Next::Drop => Why::Rule,
            Next::Link(link, at) => {
                let pipe = 2 * link as usize + way;
                self.passing[slot as usize].at = Some(at);
                if let Some(FlowId(flow)) = self.places[pipe].classifier.flow_of(&self.keys[slot as usize]) {
                    self.made += 1;
                    let (order, pipe) = (self.made, pipe as u32);
                    self.hops.push(Reverse(Hop { due: emit.due, order, pipe, flow, slot }));
                    self.passed.push(emit);
                    return;
                }
                self.unmatched += 1;
                Why::Unmatched
            }
        };
        self.passed.push(emit);
        let Emit { pipe, flow, handle, bytes, .. } = emit;
        self.lost(Dropped { pipe, flow, handle, bytes, why }, out);
    }

    /// A packet leaves for good.
    fn leaves(&mut self, emit: Emit, out: &mut Vec<Output>) {
        let place = &mut self.passing[emit.handle as usize];
        let (handle, shared) = (place.handle, place.shared as usize);
        let turned = std::mem::take(&mut place.turned);
        let (ecn, bits) = (place.label.ecn, place.bits);
        let marked = |ecn| Output::Mark(Mark { pipe: emit.pipe, flow: emit.flow, handle, ecn });
        self.free.push(emit.handle);
        if ecn != bits {
            out.push(marked(ecn));
        }
        let turn = |draw: &u64| Output::Corrupt(Corrupt { handle, draw: *draw });
        out.extend(turned.iter().map(turn));
        let emit = Emit { handle, ..emit };
        if shared > 0 && self.shares[shared] > 1 {
            self.shares[shared] -= 1;
            out.push(Output::Copy(emit));
            // The bytes of the others are as they were.
            out.extend(turned.iter().map(turn));
            if ecn != bits {
                out.push(marked(bits));
            }
        } else {
            self.shares[shared] = 0;
            out.push(Output::Emit(emit));
        }
    }

    /// A packet is lost within.
    fn lost(&mut self, dropped: Dropped, out: &mut Vec<Output>) {
        let place = &self.passing[dropped.handle as usize];
        let (handle, shared) = (place.handle, place.shared as usize);
        if let Some(stats) = self.rules.as_mut().and_then(|rules| rules.stats_mut(place.at)) {
            match dropped.why {
                // It was sent, and a rule behind has it.
                Why::Rule | Why::Unmatched => {}
                Why::Lost => stats.lost += 1,
                _ => stats.dropped += 1,
            }
        }
        self.free.push(dropped.handle);
        if shared > 0 && self.shares[shared] > 1 {
            self.shares[shared] -= 1;
            return;
        }
        self.shares[shared] = 0;
        out.push(Output::Drop(Dropped { handle, ..dropped }));
    }

    /// What left a pipe for another, or was lost between them, since this was asked last.
    pub fn passed(&mut self) -> std::vec::Drain<'_, Emit> {
        self.passed.drain(..)
    }

    /// What each rule has taken so far.
    pub fn taken(&self) -> &[Taken] {
        self.rules.as_ref().map_or(&[], RuleSet::taken)
    }

    /// What became of what each rule has taken, in the links that it leads to.
    pub fn active(&self) -> &[Active] {
        self.rules.as_ref().map_or(&[], RuleSet::active)
    }

    /// Packets behind a link so far that no flow of the next one took.
    pub fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// When something happens without input; [`Time::NEVER`] if nothing does.
    pub fn next_event(&self) -> Time {
        self.engine.next_event().min(self.next_hop())
    }

    fn next_hop(&self) -> Time {
        self.hops.peek().map_or(Time::NEVER, |hop| hop.0.due)
    }

    /// No unit that is still to be decided is due before this; see [`Engine::next_due`].
    pub fn next_due(&self) -> Time {
        self.engine.next_due().min(self.next_hop())
    }

    /// Would a packet of so many bytes find room where it enters?
    pub fn has_room(&self, entry: &Entry, key: &Key, length: u32) -> bool {
        let ids = self.ids(entry.pipe, entry.flow, key);
        self.engine.has_room(entry.pipe, entry.flow, &ids, self.bytes(entry.pipe, length))
    }

    /// Makes a prepared change of pipes, see [`Engine::apply`]: flows of these pipes become what is said of them, and
    /// from then on packets are sorted anew. Packets between two pipes go where their flow goes. Where there are other
    /// rules, packets in a link go on behind it with those. What packets are like that are within is `known` of their handles,
    /// to whoever looks at that from now on.
    ///
    /// # Errors
    /// Those of the engine; nothing changes.
    pub fn apply(
        &mut self,
        change: Prepared,
        around: Around<'_>,
        known: Known<'_>,
        now: Time,
        out: &mut Vec<Output>,
    ) -> Result<(), Unfit> {
        self.poll(now, out);
        if self.rules.is_some() {
            if !self.heeds_labels() {
                self.learn(known);
            }
            let passing = &self.passing;
            let known = |slot: u32| passing.get(slot as usize).map_or(Label::default(), |place| place.label);
            self.engine.apply_knowing(change, &known, now, &mut self.inner)?;
        } else {
            self.engine.apply_knowing(change, known, now, out)?;
        }
        let Around { flows, sorted, rules } = around;
        self.heeds = heeds(&self.engine);
        self.places.resize(self.places.len().max(self.heeds.len()), Entrance::open());
        for Sorting { pipe, classifier, account, masks } in sorted {
            if let Some(place) = self.places.get_mut(pipe.0 as usize) {
                *place = Entrance::new(classifier, account, masks);
            }
        }
        if !self.hops.is_empty() && !flows.is_empty() {
            let mut hops = std::mem::take(&mut self.hops).into_vec();
            for Reverse(hop) in &mut hops {
                let fates = flows.iter().find(|(pipe, _)| pipe.0 == hop.pipe).map_or(&[][..], |(_, fates)| fates);
                hop.flow = fates.get(hop.flow as usize).map_or(hop.flow, |fate| fate.flow().0);
            }
            self.hops = hops.into();
        }
        if let Some(rules) = rules {
            self.lead(rules, known);
        }
        self.sort(out);
        Ok(())
    }

    /// While nobody looks at labels nobody tells them: those of the packets that are within now, but for what pipes said of them.
    fn learn(&mut self, known: Known<'_>) {
        let mut within = vec![true; self.passing.len()];
        self.free.iter().for_each(|&slot| within[slot as usize] = false);
        for (place, _) in self.passing.iter_mut().zip(within).filter(|(_, within)| *within) {
            place.label = Label { earliness: place.label.earliness, ..known(place.handle) };
            place.bits = place.label.ecn;
        }
    }

    /// Other rules from now on.
    fn lead(&mut self, Leading { mut rules, become_others, bypass }: Leading, known: Known<'_>) {
        match self.rules.take() {
            Some(old) => {
                rules.succeed(&old, &become_others);
                for place in &mut self.passing {
                    place.at = place.at.and_then(|at| rules.instead_of(&old, &become_others, at));
                }
            }
            None => {
                // Packets that are within are known by their drivers' own handles; each leaves behind its link.
                let number = if self.places.is_empty() { 0 } else { self.highest + 1 };
                self.passing = (0..number).map(|handle| Passing { handle, ..Passing::default() }).collect();
                self.keys = vec![Key::default(); self.passing.len()];
                self.learn(known);
            }
        }
        if rules.pass() {
            self.bypass = Some(bypass);
        }
        self.chain |= rules.chain();
        self.rules = Some(rules);
    }

    /// Where pipes are, and where others may begin.
    pub fn places(&self) -> Places {
        let number = self.heeds.len() as u32 / 2;
        let pipes = |place: u32| [PipeId(2 * place), PipeId(2 * place + 1)];
        let is_vacant = |pipe: PipeId| {
            let comes = || self.hops.iter().any(|hop| hop.0.pipe == pipe.0);
            self.engine.has_ended(pipe) && self.engine.is_empty(pipe) && !comes()
        };
        let vacant = (0..number).filter(|place| pipes(*place).into_iter().all(is_vacant)).collect();
        Places { number, vacant, bypass: self.bypass.map(|pipe| pipe / 2) }
    }

    /// See [`Engine::of_the_ended`].
    pub fn of_the_ended(&self) -> Counters {
        self.engine.of_the_ended()
    }

    /// What rules took that are gone.
    pub fn taken_by_the_gone(&self) -> Taken {
        self.rules.as_ref().map_or(Taken::default(), RuleSet::of_the_gone)
    }

    /// See [`Engine::take_leavings`].
    pub fn take_leavings(&mut self) -> Vec<Box<dyn Any + Send>> {
        self.engine.take_leavings()
    }

    /// See [`Engine::of_the_gone`].
    pub fn of_the_gone(&self, pipe: PipeId) -> Counters {
        self.engine.of_the_gone(pipe)
    }

    /// See [`Engine::report`].
    pub fn report(&self, pipe: PipeId, flow: Option<FlowId>, busiest: usize) -> Option<Report> {
        self.engine.report(pipe, flow, busiest)
    }

    /// See [`Engine::shares`].
    pub fn shares(&self, pipe: PipeId) -> Option<Option<FlowId>> {
        self.engine.shares(pipe)
    }

    /// Is a flow or a link of it many?
    pub fn has_masks(&self) -> bool {
        self.places.iter().any(|place| !place.masks.is_none())
    }

    /// See [`Engine::breaches`].
    pub fn breaches(&self, pipe: PipeId) -> Vec<Breach> {
        self.engine.breaches(pipe)
    }

    /// See [`Engine::soonest`].
    pub fn soonest(&self, pipe: PipeId, bytes: u32, now: Time) -> Time {
        self.engine.soonest(pipe, bytes, now)
    }

    /// What happened to a flow so far.
    pub fn counters(&self, pipe: PipeId, flow: FlowId) -> Counters {
        self.engine.counters(pipe, flow)
    }

    /// How many flows each pipe has, with those of what passes no link.
    pub fn flows(&self) -> Vec<usize> {
        self.engine.flows()
    }
}

/// A unit enters a pipe, with its label where the pipe looks at it.
#[inline]
fn input(
    engine: &mut Engine,
    pipe: PipeId,
    unit: Unit,
    ids: &Ids,
    label: Option<Label>,
    now: Time,
    out: &mut Vec<Output>,
) {
    match label {
        Some(label) => engine.input_labelled(pipe, unit, ids, label, now, out),
        None => engine.input_of(pipe, unit, ids, now, out),
    }
}

/// By pipe, does it look at labels?
fn heeds(engine: &Engine) -> Vec<bool> {
    (0..engine.flows().len() as u32).map(|pipe| engine.heeds_labels(PipeId(pipe))).collect()
}

/// What carries all, at once: each direction of what passes no link.
pub fn unlimited() -> PipeSpec {
    let flow = FlowSetup::new(Values::default(), Limit::Packets(u32::MAX));
    let setup = Setup { rate: Rate::UNLIMITED, largest: u32::MAX / 2, scheduler: Values::default(), flows: vec![flow] };
    PipeSpec::new("fifo", setup, Span::ZERO)
}
