//! Fair queueing with controlled delay: Høiland-Jørgensen and others, RFC 8290.
//!
//! A hash distributes connections over queues. Queues take turns as in DRR, new queues before old
//! ones; CoDel keeps each queue short. If all queues together exceed the limit, the longest queue
//! loses the packet that has waited longest.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::{self, Draw};
use crate::contract::guarantee::{Guarantee, Guarantees, finite_rate};
use crate::contract::hooks::{DropCause, MediumHooks, QueueHooks};
use crate::contract::manifest::{Manifest, Purpose};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigErrors, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::active_list::Place;
use crate::mechanisms::arrival_stamp::ArrivalStamp;
use crate::mechanisms::connection_queues::{ConnectionQueues, QUEUES};
use crate::mechanisms::deficit::{SURPLUS_QUANTUM, surplus_quantum};
use crate::mechanisms::longest_queue::LongestQueue;
use crate::mechanisms::new_and_old::{DeficitTurn, NewAndOld};
use crate::queues::aqm::codel::{self, State};
use crate::queues::aqm::none_besides;
use crate::queues::aqm::policy::CoDelParameters;
use crate::queues::aqm::settings::ECN;
use crate::queues::aqm::verdict::{Head, Verdict};
use crate::queues::queue::{FlowId, Flows, Limit};
use crate::units::label::Label;
use crate::units::rate::Wire;
use crate::units::time::Time;
use alloc::format;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "fq_codel",
    doc: "fair queueing with CoDel: a hash assigns connections to queues, which share the link as \
          by DRR and are each kept short by CoDel",
    source: "RFC 8290",
    cost: "O(1), O(log N) from when `limit` is exceeded until half of it is queued",
    guarantee: "nothing",
    guarantee_source: "—",
    purposes: &[Purpose::Connections],
    aliases: &["flow queue codel", "fair queue codel", "smart queue management", "sqm"],
    scheduler: &[
        Param {
            name: "limit",
            kind: Kind::Count { min: 1, max: 1 << 20 },
            default: Some("10240"),
            doc: "the maximum number of packets in all queues together; beyond it the longest \
                  queue drops its oldest packets",
        },
        QUEUES,
        SURPLUS_QUANTUM,
        codel::PARAMS[0],
        codel::PARAMS[1],
        ECN,
    ],
    draw: Draw::by(&[("quantum", draw::quantum)]),
    ..Manifest::PLAIN
};

/// State of a queue.
#[derive(Clone, Debug, Default)]
pub struct FqFlow {
    turn: DeficitTurn,
    /// Queued bytes, without the packet on the wire.
    waiting: u64,
    codel: State,
}

impl AsMut<Place> for FqFlow {
    fn as_mut(&mut self) -> &mut Place {
        &mut self.turn.place
    }
}

impl AsMut<DeficitTurn> for FqFlow {
    fn as_mut(&mut self) -> &mut DeficitTurn {
        &mut self.turn
    }
}

/// Fair queueing with controlled delay.
#[derive(Debug, Clone)]
pub struct FqCodel {
    codel: CoDelParameters,
    largest: u32,
    queues: ConnectionQueues,
    label: Label,
    rounds: NewAndOld,
    /// Queued packets, without the packet on the wire.
    backlog: LongestQueue,
    /// CoDel's verdict on the head that was chosen last, and CoDel's state with it.
    chosen: (State, Verdict),
    marked: bool,
}

impl FqCodel {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<FqCodel, ConfigErrors> {
        finite_rate(setup, "fq_codel")?;
        none_besides(setup, "fq_codel")?;
        let codel = CoDelParameters::new(&setup.scheduler)?;
        let quantum = surplus_quantum(setup, u64::from(setup.largest))?;
        let queues = ConnectionQueues::new(setup)?;
        let limit = setup.scheduler.count("limit").unwrap_or(10_240);
        let backlog = LongestQueue::new(limit, queues.number());
        Ok(FqCodel {
            codel,
            largest: setup.largest,
            queues,
            label: Label::default(),
            rounds: NewAndOld::new(quantum),
            backlog,
            chosen: (State::default(), Verdict::Pass),
            marked: false,
        })
    }

    /// Records that a waiting packet has left.
    #[inline]
    fn left(&mut self, flows: &mut Flows<FqFlow, ArrivalStamp>, f: FlowId, bytes: u32) {
        let state = flows.state_mut(f);
        state.waiting -= u64::from(bytes);
        self.backlog.left(f, state.waiting);
    }
}

impl Discipline for FqCodel {
    type State = FqFlow;
    type Tag = ArrivalStamp;
    const SEES_ARRIVALS: bool = true;

    fn start(&mut self, _: &mut Flows<FqFlow, ArrivalStamp>) {}

    /// The number of queues is kept: if a connection moved to another queue, its packets would be
    /// reordered.
    fn migrate_from(&mut self, old: FqCodel, flows: &mut Flows<FqFlow, ArrivalStamp>, _: Time) {
        let FqCodel { codel, largest, .. } = *self;
        let rounds = old.rounds.clone().with_quantum(self.rounds.quantum());
        let backlog = old.backlog.clone().with_limit(self.backlog.limit(), flows.len());
        *self = FqCodel { codel, largest, rounds, backlog, ..old };
    }

    #[inline(always)]
    fn arrived(
        &mut self,
        flows: &mut Flows<FqFlow, ArrivalStamp>,
        f: FlowId,
        bytes: u32,
        now: Time,
    ) -> ArrivalStamp {
        let Label { ecn, waited, .. } = core::mem::take(&mut self.label);
        let state = flows.state_mut(f);
        state.waiting += u64::from(bytes);
        self.backlog.joined(f, state.waiting);
        ArrivalStamp::new(now.before(waited), ecn)
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<FqFlow, ArrivalStamp>, f: FlowId, _: Time) {
        self.rounds.join(flows, f);
    }

    /// Called only after a change of discipline, when the packet that the old discipline had on the
    /// wire has left.
    fn head_changed(&mut self, flows: &mut Flows<FqFlow, ArrivalStamp>, f: FlowId, _: Time) {
        flows.state_mut(f).waiting = u64::from(flows.bytes(f));
        let packets = (0..flows.len() as u32).map(|f| u64::from(flows.packets(FlowId(f)))).sum();
        self.backlog.recount(packets);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<FqFlow, ArrivalStamp>, now: Time, _: &Wire) -> Decision {
        let Some((f, bytes)) = self.rounds.next(flows) else { return Decision::Idle };
        let stamp = flows.head_tag(f);
        let of = Head {
            waited: now.since(stamp.arrival()),
            behind: flows.bytes(f) - bytes,
            capable: stamp.ecn().is_capable(),
        };
        self.chosen = flows.state(f).codel.step(&self.codel, self.largest, of, now);
        if self.chosen.1 == Verdict::Drop { Decision::Drop(f) } else { Decision::Serve(f) }
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<FqFlow, ArrivalStamp>, f: FlowId, sent: Sent) {
        let state = flows.state_mut(f);
        state.codel = self.chosen.0;
        state.turn.deficit.pay(i64::from(sent.bytes));
        self.marked = self.chosen.1 == Verdict::Mark;
        self.left(flows, f, sent.bytes);
    }
}

impl QueueHooks for FqCodel {
    #[inline]
    fn announce(&mut self, label: Label) {
        self.label = label;
    }

    #[inline]
    fn place(&self, flow: FlowId) -> FlowId {
        self.queues.place(self.label.connection, flow)
    }

    fn own_queues(&self) -> Option<(usize, Limit)> {
        Some((self.queues.number(), Limit::Packets(u32::MAX)))
    }

    #[inline]
    fn drop_victim(&mut self, flows: &Flows<FqFlow, ArrivalStamp>) -> Option<(FlowId, bool)> {
        let bytes = |f| flows.state(f).waiting;
        let longest = self.backlog.beyond_limit(flows.len(), bytes)?;
        // The packet on the wire stays in its queue, but does not count as waiting. It may have
        // left since the last decision. It is still there if the queue holds more bytes than those
        // that count as waiting.
        Some((longest, u64::from(flows.bytes(longest)) > bytes(longest)))
    }

    fn head_dropped(
        &mut self,
        flows: &mut Flows<FqFlow, ArrivalStamp>,
        f: FlowId,
        bytes: u32,
        because: DropCause,
        _: Time,
    ) {
        if because == DropCause::Decided {
            flows.state_mut(f).codel = self.chosen.0;
        }
        self.left(flows, f, bytes);
    }

    #[inline]
    fn marked(&mut self) -> bool {
        core::mem::take(&mut self.marked)
    }

    #[inline]
    fn manages_queues(&self) -> bool {
        true
    }
}

impl MediumHooks for FqCodel {
    fn seed(&mut self, seed: u64) {
        self.queues.seed(seed);
    }
}

impl Guarantees for FqCodel {
    fn service(&self, _: FlowId) -> Result<Guarantee, NoGuarantee> {
        let why = "connections share queues by a hash, and packets are dropped to keep the others' delays short";
        Err(NoGuarantee(format!("{why}; `drr` with a queue for each flow gives guarantees")))
    }
}
