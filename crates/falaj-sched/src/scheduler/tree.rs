//! A discipline below each flow of another.
//!
//! The discipline above sees one flow for each child, whose head is the packet that the child would
//! send. It never looks into a child; changes propagate upwards. A child chooses a packet when it
//! becomes backlogged, when its packet has left, and once more when the discipline above has chosen
//! the child. If the child then chooses a packet of another length, or none, the discipline above
//! is informed and decides again. So the packet that is sent is the packet that was checked to fit.
//!
//! The guarantee of a leaf is the guarantee that the inner discipline gives on a link of a certain
//! rate: the rate that the discipline above guarantees to the child. The delay is longer by the
//! latency of the guarantee above ([`service_behind`]). The guarantee holds if the rate above holds
//! over any interval of backlog ([`serves_strictly`]); otherwise there is no guarantee.
//!
//! [`service_behind`]: crate::contract::guarantee::Guarantees::service_behind
//! [`serves_strictly`]: crate::contract::guarantee::Guarantees::serves_strictly

use crate::contract::breach::Breach;
use crate::contract::complete::CompleteDiscipline;
use crate::contract::discipline::{Decision, assert_tags_are_set};
use crate::contract::guarantee::Guarantee;
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{
    ConfigError, ConfigErrors, FlowSetup, Inner, POLICY, Setup, Value, Values,
};
use crate::contract::transmission::Sent;
use crate::disciplines::fifo::Fifo;
use crate::queues::queue::{FlowId, Packet, Queues};
use crate::registry::{self, Visitor};
use crate::scheduler::instance::limits;
use crate::scheduler::with_aqm;
use crate::scheduler::{Full, Inspection, Scheduler, Succession};
use crate::units::draws::mix;
use crate::units::label::{Known, Label};
use crate::units::rate::Wire;
use crate::units::time::{Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// The packet that a child would send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    /// No packet until one arrives.
    Empty,
    /// No packet before this instant.
    Held(Time),
    /// The head of the chosen queue.
    Ready,
    /// The head of the chosen queue is on the wire.
    Sending,
    /// The head of the chosen queue is to be dropped.
    Rejects,
}

struct Child {
    server: Box<dyn Scheduler>,
    /// Its first leaf. The leaves of the next child follow its last leaf.
    first: u32,
    offer: Offer,
    /// The queue, among the child's own queues, that it chose last.
    chosen: FlowId,
    /// Numbers of its packets and bytes, including the packet on the wire.
    packets: u32,
    bytes: u32,
    /// True if the child has flows of its own.
    divided: bool,
}

impl Child {
    fn comes(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += packet.bytes;
    }

    fn goes(&mut self, packet: &Packet) {
        self.packets -= 1;
        self.bytes -= packet.bytes;
    }

    /// The queue whose head is on the wire.
    fn sending(&self) -> Option<FlowId> {
        (self.offer == Offer::Sending).then_some(self.chosen)
    }
}

/// A discipline, and a scheduler below each of its flows.
pub struct Tree<D: CompleteDiscipline> {
    discipline: D,
    /// Holds only the heads that are shown to the discipline, no other packets.
    heads: Queues<D::State, D::Tag>,
    children: Vec<Child>,
    /// The child of each leaf.
    child_of: Vec<u32>,
    wire: Wire,
    /// True if another tree put the packet on the wire.
    inherited: bool,
    /// `None` if no scheduler below uses labels.
    policies: Option<Policies>,
}

/// Data passed to and from schedulers that use labels.
#[derive(Clone, Debug, Default)]
struct Policies {
    label: Label,
    evicted: VecDeque<Packet>,
    marked: bool,
    early: Option<Span>,
    by_policy: bool,
}

impl<D: CompleteDiscipline> Tree<D> {
    /// Builds the children of `setup` below `discipline`, which was built from the same setup. For
    /// a discipline that takes trees as a whole, `setup` is the [joined](registry::joined) one.
    pub fn new(setup: &Setup, mut discipline: D) -> Result<Tree<D>, ConfigErrors> {
        const { assert_tags_are_set::<D>() };
        let refused = |what: &str| ConfigError {
            flow: setup.flows.iter().position(|f| f.inner.is_some()),
            param: "scheduler",
            what: what.into(),
            help: "choose `virtual-links` or `drr` above, or leave the flows undivided".into(),
        };
        if discipline.shared_queue().is_some() {
            return Err(
                refused("a discipline with one queue for all flows has none to divide").into()
            );
        }
        if discipline.only_over_queues() {
            return Err(refused(
                "this discipline decides on packets at their arrival, or sends a packet more than \
                 once",
            )
            .into());
        }
        let mut heads = Queues::new(&limits(setup, &discipline));
        discipline.start(heads.flows());
        let (mut children, mut child_of) = (Vec::new(), Vec::new());
        for (f, flow) in setup.flows.iter().enumerate() {
            let first = child_of.len() as u32;
            let leaves = flow.inner.as_ref().map_or(1, |inner| inner.setup.number_of_leaves());
            child_of.resize(child_of.len() + leaves, f as u32);
            let server = match &flow.inner {
                Some(inner) => divided(setup, inner, &discipline, f)?,
                None => undivided(setup, flow, f)?,
            };
            children.push(Child {
                server,
                first,
                offer: Offer::Empty,
                chosen: FlowId(0),
                packets: 0,
                bytes: 0,
                divided: flow.inner.is_some(),
            });
        }
        let wire = Wire::new(setup.rate);
        let heeds = children.iter().any(|child: &Child| child.server.wants_labels());
        let policies = heeds.then(Policies::default);
        Ok(Tree { discipline, heads, children, child_of, wire, inherited: false, policies })
    }

    /// Asks child `c` for its packet, and shows it to the discipline above.
    fn look(&mut self, c: usize, now: Time) {
        let (child, f) = (&mut self.children[c], FlowId(c as u32));
        let (was, shown) = (child.offer, self.heads.flows().head(f));
        let (offer, head) = match child.server.next(now, &self.wire) {
            Decision::Serve(queue) => {
                child.chosen = queue;
                (Offer::Ready, child.server.head(queue))
            }
            Decision::Drop(queue) => {
                child.chosen = queue;
                (Offer::Rejects, None)
            }
            Decision::NotBefore(then) => (Offer::Held(then), None),
            Decision::Idle => (Offer::Empty, None),
        };
        child.offer = offer;
        self.heads.flows().show(f, head, (child.packets, child.bytes));
        match (shown, head) {
            // The child's packet has just left: the discipline will examine its head by itself.
            _ if was == Offer::Sending => {}
            (None, Some(_)) => self.discipline.ready(self.heads.flows(), f, now),
            (shown, head) if shown != head => {
                self.discipline.head_changed(self.heads.flows(), f, now);
            }
            _ => {}
        }
    }

    /// Time at which the first child that holds back its packets has to decide again. A child may
    /// begin to hold back its packets while others are served. This is noticed only when the child
    /// is chosen, and this function is called after that.
    fn held_until(&self) -> Time {
        let until =
            |child: &Child| if let Offer::Held(then) = child.offer { then } else { Time::NEVER };
        self.children.iter().map(until).min().unwrap_or(Time::NEVER)
    }

    /// The guarantee of a leaf whose child has the guarantee `above`.
    fn below(
        &self,
        leaf: FlowId,
        above: Result<Guarantee, NoGuarantee>,
    ) -> Result<Guarantee, NoGuarantee> {
        let child = &self.children[self.child_of[leaf.index()] as usize];
        if !child.divided {
            return above;
        }
        if !self.discipline.serves_strictly() {
            return Err(NoGuarantee(
                "the discipline above keeps no rate over every interval".into(),
            ));
        }
        child.server.guarantee_behind(FlowId(leaf.0 - child.first), &above?)
    }

    fn local(&self, packet: Packet) -> (usize, Packet) {
        let c = self.child_of[packet.flow.index()] as usize;
        (c, Packet { flow: FlowId(packet.flow.0 - self.children[c].first), ..packet })
    }

    fn global(&self, c: usize, packet: Packet) -> Packet {
        Packet { flow: FlowId(packet.flow.0 + self.children[c].first), ..packet }
    }
}

/// The scheduler of a flow with its own flows.
fn divided<D: CompleteDiscipline>(
    setup: &Setup,
    inner: &Inner,
    above: &D,
    f: usize,
) -> Result<Box<dyn Scheduler>, ConfigErrors> {
    let guaranteed = above.service(FlowId(f as u32)).ok().map(|p| p.rate).filter(|r| r.0 > 0);
    let share = Setup {
        rate: guaranteed.unwrap_or(setup.rate),
        largest: setup.largest,
        ..inner.setup.clone()
    };
    // An error below is reported for the flow above, whose name identifies the place.
    scheduler(inner.kind, &share, true).map_err(|all| {
        let refused = all.into_iter().next().expect("a refusal has a reason");
        let below =
            refused.flow.map_or("its scheduler".into(), |n| format!("flow {} below it", n + 1));
        let what = format!("{below}: `{}`: {}", refused.param, refused.what);
        ConfigError { flow: Some(f), param: "scheduler", what, help: refused.help }.into()
    })
}

/// The scheduler of a flow that is only a queue.
fn undivided(
    setup: &Setup,
    flow: &FlowSetup,
    f: usize,
) -> Result<Box<dyn Scheduler>, ConfigErrors> {
    let policy = flow.values.policy();
    let policy =
        policy.map_or_else(Values::default, |p| Values::default().with(POLICY, Value::Policy(p)));
    let alone = Setup {
        rate: setup.rate,
        largest: setup.largest,
        scheduler: Values::default(),
        flows: vec![FlowSetup::new(policy, flow.limit)],
    };
    let of_the_flow = |refused| ConfigError { flow: Some(f), ..refused };
    let fifo = Fifo::new(&alone)
        .map_err(|all| ConfigErrors::from_iter(all.into_iter().map(of_the_flow)))?;
    Ok(with_aqm::instance(&alone, fifo))
}

/// Returns the guarantees of all leaves of `setup` under `kind` and the disciplines below its
/// flows.
pub fn guarantees(
    kind: &str,
    setup: &Setup,
) -> Result<Vec<Result<Guarantee, NoGuarantee>>, ConfigErrors> {
    struct Ask<'a>(&'a Setup);
    impl Visitor for Ask<'_> {
        type Output = Result<Vec<Result<Guarantee, NoGuarantee>>, ConfigErrors>;
        fn visit<D: CompleteDiscipline>(self, discipline: D) -> Self::Output {
            let leaves = (0..self.0.number_of_leaves() as u32).map(FlowId);
            if self.0.flows.iter().any(|f| f.inner.is_some()) {
                let tree = Tree::new(self.0, discipline)?;
                return Ok(leaves.map(|leaf| tree.guarantee(leaf)).collect());
            }
            Ok(leaves.map(|flow| with_aqm::service(self.0, &discipline, flow)).collect())
        }
    }
    registry::build(kind, setup, Ask(&registry::joined(kind, setup)))?
}

/// Builds the scheduler of a link, or of a flow: queues alone, or a tree.
pub(super) fn scheduler(
    kind: &str,
    setup: &Setup,
    below_a_flow: bool,
) -> Result<Box<dyn Scheduler>, ConfigErrors> {
    struct Builder<'a>(&'a Setup, bool);
    impl Visitor for Builder<'_> {
        type Output = Result<Box<dyn Scheduler>, ConfigErrors>;
        fn visit<D: CompleteDiscipline>(self, discipline: D) -> Self::Output {
            let Builder(setup, below_a_flow) = self;
            if let Some(why) = discipline.only_on_a_link().filter(|_| below_a_flow) {
                let help = "choose another discipline here; this discipline may be above \
                            others"
                    .into();
                return Err(ConfigError {
                    flow: None,
                    param: "kind",
                    what: format!("does not divide a flow: {why}"),
                    help,
                }
                .into());
            }
            if setup.flows.iter().any(|f| f.inner.is_some()) {
                return Ok(Box::new(Tree::new(setup, discipline)?));
            }
            Ok(with_aqm::instance(setup, discipline))
        }
    }
    registry::build(kind, setup, Builder(&registry::joined(kind, setup), below_a_flow))?
}

impl<D: CompleteDiscipline> Scheduler for Tree<D> {
    fn arrive(&mut self, packet: Packet, now: Time) -> Result<bool, Full> {
        let (c, packet) = self.local(packet);
        let child = &mut self.children[c];
        if let Some(policies) = &mut self.policies {
            child.server.announce(core::mem::take(&mut policies.label));
        }
        let news = child.server.arrive(packet, now);
        if news.is_ok() {
            child.comes(&packet);
        }
        let (first, mut evicted) = (child.first, false);
        if let Some(policies) = &mut self.policies {
            policies.marked = child.server.marked();
            policies.by_policy = child.server.by_policy();
            while let Some(gone) = child.server.evicted() {
                evicted = true;
                child.goes(&gone);
                policies.evicted.push_back(Packet { flow: FlowId(gone.flow.0 + first), ..gone });
            }
        }
        let news = news? || evicted;
        if !news || child.offer == Offer::Sending {
            let (f, holds) = (FlowId(c as u32), (child.packets, child.bytes));
            let head = self.heads.flows().head(f);
            self.heads.flows().show(f, head, holds);
            return Ok(false);
        }
        self.look(c, now);
        Ok(true)
    }

    fn has_room(&self, leaf: FlowId, bytes: u32) -> bool {
        let child = &self.children[self.child_of[leaf.index()] as usize];
        child.server.has_room(FlowId(leaf.0 - child.first), bytes)
    }

    fn next(&mut self, now: Time, _: &Wire) -> Decision {
        for c in 0..self.children.len() {
            if matches!(self.children[c].offer, Offer::Held(then) if then <= now) {
                self.look(c, now);
            }
            if self.children[c].offer == Offer::Rejects {
                return Decision::Drop(FlowId(c as u32));
            }
        }
        loop {
            match self.discipline.next(self.heads.flows(), now, &self.wire) {
                Decision::Serve(f) => {
                    let head = self.heads.flows().head(f);
                    self.look(f.index(), now);
                    if self.heads.flows().head(f) == head {
                        return Decision::Serve(f);
                    }
                    if self.children[f.index()].offer == Offer::Rejects {
                        return Decision::Drop(f);
                    }
                }
                answer @ (Decision::NotBefore(_) | Decision::Idle) => {
                    let then =
                        if let Decision::NotBefore(then) = answer { then } else { Time::NEVER };
                    return match then.min(self.held_until()) {
                        Time::NEVER => Decision::Idle,
                        then => Decision::NotBefore(then),
                    };
                }
                answer => return answer,
            }
        }
    }

    fn head(&mut self, queue: FlowId) -> Option<u32> {
        self.heads.flows().head(queue)
    }

    fn take(&mut self, queue: FlowId, start: Time, wire: &mut Wire) -> (Packet, Sent) {
        let child = &mut self.children[queue.index()];
        let (packet, sent) = child.server.take(child.chosen, start, wire);
        if let Some(policies) = &mut self.policies {
            policies.marked = child.server.marked();
            policies.early = child.server.earliness();
        }
        child.offer = Offer::Sending;
        self.discipline.on_transmit(self.heads.flows(), queue, sent);
        (self.global(queue.index(), packet), sent)
    }

    fn finish(&mut self, queue: FlowId, now: Time) -> Packet {
        let child = &mut self.children[queue.index()];
        let packet = child.server.finish(child.chosen, now);
        child.goes(&packet);
        self.look(queue.index(), now);
        if core::mem::take(&mut self.inherited) {
            self.discipline.head_changed(self.heads.flows(), queue, now);
        }
        self.global(queue.index(), packet)
    }

    fn drop_head(&mut self, queue: FlowId, now: Time) -> Packet {
        let child = &mut self.children[queue.index()];
        let packet = child.server.drop_head(child.chosen, now);
        if let Some(policies) = &mut self.policies {
            policies.by_policy = child.server.by_policy();
        }
        child.goes(&packet);
        self.look(queue.index(), now);
        self.global(queue.index(), packet)
    }

    fn announce(&mut self, label: Label) {
        if let Some(policies) = &mut self.policies {
            policies.label = label;
        }
    }

    fn evicted(&mut self) -> Option<Packet> {
        self.policies.as_mut().and_then(|policies| policies.evicted.pop_front())
    }

    fn marked(&mut self) -> bool {
        self.policies.as_mut().is_some_and(|policies| core::mem::take(&mut policies.marked))
    }

    fn earliness(&mut self) -> Option<Span> {
        self.policies.as_mut().and_then(|policies| policies.early.take())
    }

    fn by_policy(&self) -> bool {
        self.policies.as_ref().is_some_and(|policies| policies.by_policy)
    }
}

impl<D: CompleteDiscipline> Inspection for Tree<D> {
    /// Returns the answer of the discipline above. If that discipline decides again, the child that
    /// it chooses decides again too, and may choose another packet.
    fn peeks(&self) -> bool {
        self.discipline.peeks()
    }

    fn largest_waiting(&self, _: Option<FlowId>) -> u32 {
        let of = |child: &Child| child.server.largest_waiting(child.sending());
        self.children.iter().map(of).max().unwrap_or(0)
    }

    fn is_reusable(&mut self, leaf: FlowId, now: Time) -> bool {
        let c = self.child_of[leaf.index()] as usize;
        let child = &mut self.children[c];
        child.server.is_reusable(FlowId(leaf.0 - child.first), now)
    }

    fn wants_labels(&self) -> bool {
        self.policies.is_some()
    }

    fn drops_early(&self) -> bool {
        self.children.iter().any(|child| child.server.drops_early())
    }

    fn breaches(&self, out: &mut Vec<Breach>) {
        if let Some(breach) = self.discipline.breach() {
            breach.join(out);
        }
        self.children.iter().for_each(|child| child.server.breaches(out));
    }

    fn guarantee(&self, leaf: FlowId) -> Result<Guarantee, NoGuarantee> {
        self.below(leaf, self.discipline.service(FlowId(self.child_of[leaf.index()])))
    }

    fn guarantee_behind(&self, leaf: FlowId, server: &Guarantee) -> Result<Guarantee, NoGuarantee> {
        self.below(
            leaf,
            self.discipline.service_behind(FlowId(self.child_of[leaf.index()]), server),
        )
    }
}

impl<D: CompleteDiscipline> Succession for Tree<D> {
    fn on_the_wire(&self, queue: FlowId) -> Option<Packet> {
        let child = self.children.get(queue.index())?;
        let packet = child.server.on_the_wire(child.chosen)?;
        Some(self.global(queue.index(), packet))
    }

    fn retimed(&mut self, queue: FlowId, end: Time, now: Time) {
        if let Some(child) = self.children.get_mut(queue.index()) {
            child.server.retimed(child.chosen, end, now);
        }
        self.discipline.retimed(self.heads.flows(), queue, end, now);
    }

    fn inherit(
        &mut self,
        packets: Vec<Packet>,
        on_the_wire: bool,
        known: Known<'_>,
        now: Time,
    ) -> Option<FlowId> {
        let first = packets.first().filter(|_| on_the_wire).map(|&p| self.local(p).0);
        for c in 0..self.children.len() {
            let mine = packets
                .iter()
                .map(|&p| self.local(p))
                .filter(|(child, _)| *child == c)
                .map(|(_, p)| p);
            let mine: Vec<Packet> = mine.collect();
            (self.children[c].packets, self.children[c].bytes) = (0, 0);
            mine.iter().for_each(|packet| self.children[c].comes(packet));
            let sending = self.children[c].server.inherit(mine, first == Some(c), known, now);
            match sending {
                Some(queue) => {
                    self.children[c].offer = Offer::Sending;
                    self.children[c].chosen = queue;
                    let head = self.children[c].server.head(queue);
                    let holds = (self.children[c].packets, self.children[c].bytes);
                    self.heads.flows().show(FlowId(c as u32), head, holds);
                    self.discipline.ready(self.heads.flows(), FlowId(c as u32), now);
                }
                None => self.look(c, now),
            }
        }
        self.inherited = first.is_some();
        first.map(|c| FlowId(c as u32))
    }

    fn packets(&self, on_the_wire: Option<FlowId>) -> Vec<Packet> {
        let mut packets = Vec::new();
        let order = on_the_wire.map(FlowId::index);
        for c in order.into_iter().chain((0..self.children.len()).filter(|&c| Some(c) != order)) {
            let child = &self.children[c];
            let theirs = child.server.packets(child.sending());
            packets.extend(theirs.into_iter().map(|p| self.global(c, p)));
        }
        let first = usize::from(on_the_wire.is_some()).min(packets.len());
        packets[first..].sort_by_key(|p| p.arrival);
        packets
    }

    fn seed(&mut self, seed: u64) {
        self.discipline.seed(seed);
        for (c, child) in self.children.iter_mut().enumerate() {
            child.server.seed(mix(seed ^ c as u64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disciplines::drr::Drr;
    use crate::queues::queue::Limit;
    use crate::units::rate::Rate;

    /// The discipline above a divided flow sees all packets below it, including the packet on the
    /// wire.
    #[test]
    fn what_waits_below_a_flow_is_seen_above() {
        let flow = || FlowSetup::new(Values::default(), Limit::Packets(3));
        let setup = |flows| Setup {
            rate: Rate::from_mbit(8),
            largest: 100,
            scheduler: Values::default(),
            flows,
        };
        let inner = Inner { kind: "fifo", setup: setup(vec![flow(), flow()]) };
        let whole = setup(vec![FlowSetup { inner: Some(Box::new(inner)), ..flow() }, flow()]);
        let mut tree =
            Tree::new(&whole, Drr::new(&whole).expect("it is right")).expect("it is right");
        let mut wire = Wire::new(whole.rate);
        let seen = |tree: &mut Tree<Drr>| {
            let flows = tree.heads.flows();
            [0, 1].map(|f| (flows.packets(FlowId(f)), flows.bytes(FlowId(f))))
        };
        for (handle, (flow, bytes)) in [(0, 40), (1, 100), (2, 7)].into_iter().enumerate() {
            let packet =
                Packet { handle: handle as u32, bytes, flow: FlowId(flow), arrival: Time::ZERO };
            tree.arrive(packet, Time::ZERO).expect("there is room");
        }
        assert_eq!(seen(&mut tree), [(2, 140), (1, 7)]);
        let Decision::Serve(first) = tree.next(Time::ZERO, &wire) else { panic!("packets wait") };
        let (_, sent) = tree.take(first, Time::ZERO, &mut wire);
        assert_eq!(seen(&mut tree), [(2, 140), (1, 7)]);
        tree.finish(first, sent.end);
        assert_eq!(seen(&mut tree), [(1, 100), (1, 7)]);
    }
}
