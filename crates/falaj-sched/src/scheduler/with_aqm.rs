//! Queues with active queue management: policies in front of a scheduler instance of any
//! discipline.
//!
//! The discipline chooses a queue, the policy decides on its head, and the head is sent. If the
//! policy drops the chosen head, the decision is to drop it; the discipline is informed and chooses
//! again. An arriving packet passes the policy before it joins its queue. If no queue has a policy,
//! the instance is used alone, without extra cost.

use crate::contract::breach::Breach;
use crate::contract::complete::CompleteDiscipline;
use crate::contract::discipline::Decision;
use crate::contract::guarantee::{DropImpact, Guarantee};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{FlowSetup, Setup};
use crate::contract::transmission::{Air, Sent};
use crate::queues::aqm::policy::Policy;
use crate::queues::aqm::verdict::{Head, Link, Verdict};
use crate::queues::aqm::{self, AqmState};
use crate::queues::queue::{FlowId, Packet};
use crate::scheduler::instance::{ManagedQueues, SchedulerInstance, limits};
use crate::scheduler::{Full, HeldScheduler, Inspection, Scheduler, Succession};
use crate::units::draws::{Draws, mix};
use crate::units::label::{Ecn, Known, Label};
use crate::units::rate::Wire;
use crate::units::time::{Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;

/// A queue and its policy.
struct QueueWithPolicy {
    /// The state of its policy; `None` for tail drop.
    aqm: Option<AqmState>,
    /// The reason why the queue's flow has no guarantee with the policies; `None` if the policies
    /// leave the guarantee as it is.
    no_guarantee: Option<NoGuarantee>,
    draws: Draws,
    /// ECN bits of its packets, the head first.
    ecn: VecDeque<Ecn>,
}

/// A scheduler instance whose queues have policies.
pub struct WithAqm {
    scheduler: Box<dyn ManagedQueues>,
    queues: Vec<QueueWithPolicy>,
    /// The queue whose head is on the wire.
    sending: Option<FlowId>,
    label: Label,
    /// True if the discipline uses labels too.
    wants_labels: bool,
    evicted: VecDeque<Packet>,
    marked: bool,
    by_policy: bool,
}

impl WithAqm {
    /// Wraps the instance of `discipline`, which was built from `setup`.
    pub fn new<D: CompleteDiscipline>(setup: &Setup, discipline: D) -> WithAqm {
        let link = Link { rate: setup.rate, largest: setup.largest };
        let policy = |q: usize| setup.flows.get(q).and_then(|flow| flow.values.policy());
        let kept = |q: usize| QueueWithPolicy {
            aqm: policy(q).map(|policy| AqmState::new(policy, link)),
            no_guarantee: voids(setup, &discipline, FlowId(q as u32)),
            draws: Draws::default(),
            ecn: VecDeque::new(),
        };
        let queues = (0..limits(setup, &discipline).len()).map(kept).collect();
        let scheduler = SchedulerInstance::new(setup, discipline);
        WithAqm {
            wants_labels: scheduler.wants_labels(),
            scheduler: Box::new(scheduler),
            queues,
            sending: None,
            label: Label::default(),
            evicted: VecDeque::new(),
            marked: false,
            by_policy: false,
        }
    }

    /// Returns the head of a queue in the form that the policy needs, if the queue has a policy.
    #[inline]
    fn head_of(&mut self, queue: FlowId, now: Time) -> Option<(&mut AqmState, Head)> {
        let first = self.scheduler.first(queue)?;
        let kept = &mut self.queues[queue.index()];
        let aqm = kept.aqm.as_mut()?;
        let head = Head {
            waited: now.since(first.arrival),
            behind: self.scheduler.level(queue).bytes - first.bytes,
            capable: kept.ecn.front().is_some_and(|ecn| ecn.is_capable()),
        };
        Some((aqm, head))
    }

    /// Records that a packet has left this queue.
    #[inline]
    fn left(&mut self, queue: FlowId, now: Time) {
        let kept = &mut self.queues[queue.index()];
        kept.ecn.pop_front();
        if kept.ecn.is_empty()
            && let Some(aqm) = &mut kept.aqm
        {
            aqm.emptied(now);
        }
    }

    /// Makes room for a packet: drops the packets that have waited longest. Returns true if any
    /// packet was dropped.
    fn make_room(&mut self, packet: &Packet, queue: FlowId, now: Time) -> bool {
        let on_the_wire = self.sending == Some(queue);
        let before = self.evicted.len();
        while !self.scheduler.has_room(packet.flow, packet.bytes) {
            let Some(gone) = self.scheduler.evict(queue, on_the_wire, now) else { break };
            self.queues[queue.index()].ecn.remove(usize::from(on_the_wire));
            self.evicted.push_back(gone);
        }
        self.evicted.len() > before
    }

    fn join(&mut self, queue: FlowId, ecn: Ecn) {
        self.queues[queue.index()].ecn.push_back(ecn);
    }
}

impl Scheduler for WithAqm {
    fn arrive(&mut self, packet: Packet, now: Time) -> Result<bool, Full> {
        let label = core::mem::take(&mut self.label);
        let ecn = label.ecn;
        let queue = self.scheduler.queue_of(packet.flow);
        let level = self.scheduler.level(queue);
        let QueueWithPolicy { aqm, draws, .. } = &mut self.queues[queue.index()];
        let verdict = aqm
            .as_mut()
            .map_or(Verdict::Pass, |aqm| aqm.comes(level, ecn.is_capable(), now, draws));
        let head_goes = matches!(aqm, Some(AqmState::Head));
        (self.marked, self.by_policy) = (false, verdict == Verdict::Drop);
        if verdict == Verdict::Drop {
            return Err(Full);
        }
        let made = head_goes && self.make_room(&packet, queue, now);
        if self.wants_labels {
            self.scheduler.announce(label);
        }
        let news = self.scheduler.arrive(packet, now)?;
        self.marked = verdict == Verdict::Mark;
        self.join(queue, if self.marked { Ecn::Ce } else { ecn });
        Ok(news || made)
    }

    fn has_room(&self, leaf: FlowId, bytes: u32) -> bool {
        self.scheduler.has_room(leaf, bytes)
    }

    fn next(&mut self, now: Time, wire: &Wire) -> Decision {
        match self.scheduler.next(now, wire) {
            Decision::Serve(queue) => match self.head_of(queue, now) {
                Some((aqm, head)) if aqm.judge(head, now) == Verdict::Drop => Decision::Drop(queue),
                _ => Decision::Serve(queue),
            },
            answer => answer,
        }
    }

    fn head(&mut self, queue: FlowId) -> Option<u32> {
        self.scheduler.head(queue)
    }

    fn take(&mut self, queue: FlowId, start: Time, wire: &mut Wire) -> (Packet, Sent) {
        self.marked = match self.head_of(queue, start) {
            Some((aqm, head)) => aqm.settle(head, start) == Verdict::Mark,
            None => false,
        };
        self.sending = Some(queue);
        self.scheduler.take(queue, start, wire)
    }

    fn finish(&mut self, queue: FlowId, now: Time) -> Packet {
        self.sending = None;
        let packet = self.scheduler.finish(queue, now);
        self.left(queue, now);
        packet
    }

    fn drop_head(&mut self, queue: FlowId, now: Time) -> Packet {
        self.by_policy = match self.head_of(queue, now) {
            Some((aqm, head)) if aqm.judge(head, now) == Verdict::Drop => {
                aqm.settle(head, now);
                true
            }
            _ => self.scheduler.by_policy(),
        };
        let packet = self.scheduler.drop_head(queue, now);
        self.left(queue, now);
        packet
    }

    fn announce(&mut self, label: Label) {
        self.label = label;
    }

    fn evicted(&mut self) -> Option<Packet> {
        self.evicted.pop_front()
    }

    fn marked(&mut self) -> bool {
        core::mem::take(&mut self.marked)
    }

    fn earliness(&mut self) -> Option<Span> {
        self.scheduler.earliness()
    }

    fn by_policy(&self) -> bool {
        self.by_policy
    }
}

impl Inspection for WithAqm {
    fn peeks(&self) -> bool {
        self.scheduler.peeks()
    }

    fn largest_waiting(&self, on_the_wire: Option<FlowId>) -> u32 {
        self.scheduler.largest_waiting(on_the_wire)
    }

    fn is_reusable(&mut self, leaf: FlowId, now: Time) -> bool {
        self.scheduler.is_reusable(leaf, now)
    }

    fn wants_labels(&self) -> bool {
        true
    }

    fn drops_early(&self) -> bool {
        true
    }

    fn air(&self, leaf: FlowId) -> Option<Air> {
        self.scheduler.air(leaf)
    }

    fn breaches(&self, out: &mut Vec<Breach>) {
        self.scheduler.breaches(out);
    }

    fn guarantee(&self, leaf: FlowId) -> Result<Guarantee, NoGuarantee> {
        match &self.queues[self.scheduler.queue_of(leaf).index()].no_guarantee {
            Some(why) => Err(why.clone()),
            None => self.scheduler.guarantee(leaf),
        }
    }

    fn guarantee_behind(&self, leaf: FlowId, server: &Guarantee) -> Result<Guarantee, NoGuarantee> {
        match &self.queues[self.scheduler.queue_of(leaf).index()].no_guarantee {
            Some(why) => Err(why.clone()),
            None => self.scheduler.guarantee_behind(leaf, server),
        }
    }
}

impl Succession for WithAqm {
    fn on_the_wire(&self, queue: FlowId) -> Option<Packet> {
        self.scheduler.on_the_wire(queue)
    }

    fn retimed(&mut self, queue: FlowId, end: Time, now: Time) {
        self.scheduler.retimed(queue, end, now);
    }

    fn inherit(
        &mut self,
        packets: Vec<Packet>,
        on_the_wire: bool,
        known: Known<'_>,
        now: Time,
    ) -> Option<FlowId> {
        for packet in &packets {
            self.join(self.scheduler.queue_of(packet.flow), known(packet.handle).ecn);
        }
        self.sending = self.scheduler.inherit(packets, on_the_wire, known, now);
        self.sending
    }

    fn packets(&self, on_the_wire: Option<FlowId>) -> Vec<Packet> {
        self.scheduler.packets(on_the_wire)
    }

    fn seed(&mut self, seed: u64) {
        for (q, kept) in self.queues.iter_mut().enumerate() {
            kept.draws = Draws::new(mix(seed), q as u64);
        }
        // Disciplines key their draws by the number of a flow too: the seed is mixed once more, so
        // that the streams differ.
        self.scheduler.seed(mix(mix(seed)));
    }
}

impl HeldScheduler for WithAqm {
    type Scheduler = WithAqm;

    #[inline(always)]
    fn get(&self) -> &WithAqm {
        self
    }

    #[inline(always)]
    fn get_mut(&mut self) -> &mut WithAqm {
        self
    }

    fn migrate_from(
        &mut self,
        old: WithAqm,
        setup: &Setup,
        on_the_wire: Option<FlowId>,
        known: Known<'_>,
        now: Time,
    ) -> Option<FlowId> {
        for (own, old) in self.queues.iter_mut().zip(&old.queues) {
            own.draws = old.draws;
            if let (Some(own), Some(old)) = (&mut own.aqm, old.aqm) {
                own.migrate_from(old);
            }
        }
        match self.scheduler.try_migrate_from(old.scheduler, setup, on_the_wire, known, now) {
            Ok(sending) => {
                self.queues.iter_mut().zip(old.queues).for_each(|(own, old)| own.ecn = old.ecn);
                self.sending = sending;
                sending
            }
            Err(other) => {
                self.inherit(other.packets(on_the_wire), on_the_wire.is_some(), known, now)
            }
        }
    }
}

/// The reason why a discipline cannot keep its guarantee to flow `f` of `setup`, with the present
/// policies. A discipline that sees arrivals counts packets that are dropped later: the packets
/// behind them leave as late as if the dropped packets had been sent.
fn voids<D: CompleteDiscipline>(setup: &Setup, discipline: &D, f: FlowId) -> Option<NoGuarantee> {
    const HELP: &str =
        "choose `wf2q+` or `drr`, or a policy that drops at arrival: `red`, `gred`, `pie`";
    let later = |f: &FlowSetup| f.values.policy().filter(Policy::drops_later);
    match discipline.harm_of_drops() {
        DropImpact::NoFlow => None,
        DropImpact::Own => setup.flows.get(f.index()).and_then(later).map(|policy| {
            let name = policy.name();
            NoGuarantee(format!(
                "the discipline assigns service to packets before their turn, and `{name}` drops \
                 some later, whose service is lost; {HELP}"
            ))
        }),
        DropImpact::All => setup.flows.iter().find_map(later).map(|policy| {
            let name = policy.name();
            NoGuarantee(format!(
                "`{name}` drops packets of a queue of this link that the fluid server has counted, \
                 and then its time is wrong for all flows; {HELP}"
            ))
        }),
    }
}

/// Returns the guarantee of flow `f` of `setup` by its discipline, with the policies of the queues.
pub(crate) fn service<D: CompleteDiscipline>(
    setup: &Setup,
    discipline: &D,
    f: FlowId,
) -> Result<Guarantee, NoGuarantee> {
    match voids(setup, discipline, f) {
        Some(why) => Err(why),
        None => discipline.service(f),
    }
}

/// Builds an instance of `discipline`, with the policies of the flows of `setup`, if there are any.
pub(crate) fn instance<D: CompleteDiscipline>(setup: &Setup, discipline: D) -> Box<dyn Scheduler> {
    match aqm::any(setup) {
        true => Box::new(WithAqm::new(setup, discipline)),
        false => Box::new(SchedulerInstance::new(setup, discipline)),
    }
}
