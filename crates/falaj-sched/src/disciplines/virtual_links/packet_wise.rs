//! Virtual links served packet by packet (Fortuna and Chydzinski, section III).
//!
//! At the start of a cycle each link gets its phase as residual time. The links then send one
//! packet each in turn while their residual lasts, so that no link waits for another's whole phase.
//! When no link can send, the tails of the cycle pass, and then idle time until no empty link of
//! type A has a residual. Then the next cycle begins. A cycle never lasts longer than the sum of
//! the phases.
//!
//! The paper leaves open which links pay for idle time (it is subtracted from their residuals),
//! where a round starts, and when an empty link of type B gives up its turn. [`Rules`] names the
//! choices. The preset `paper` is the combination that yields the published numbers; we inferred it
//! and checked it against them. The preset `clean` is the simplest combination.
//!
//! While no packet can be sent, residuals are not updated. The time since the start of the wait is
//! settled (subtracted from the residuals) when a residual is used up or when a packet can be sent.
//! So the number of calls in between does not matter. Settling takes one step for each link that
//! pays, and no step if no time has passed.

use crate::collections::flow_set::FlowSet;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{Guarantee, Guarantees, Settling, StaircaseCurve};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigErrors, Setup};
use crate::contract::transmission::Sent;
use crate::disciplines::virtual_links::{Link, Serve, Tail, Type, VirtualLinks};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::{BIT_NANOS, Wire};
use crate::units::time::{Span, Time};

/// Rules that the paper leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Start of a cycle's first round.
    pub start: Start,
    /// True if an empty link of type B keeps its turn in some cases. It keeps the turn while it is
    /// the link that was served last, or while nothing has been sent in the cycle. It also keeps it
    /// while it comes after an empty link of type A at which the server rests. If false, it loses
    /// its turn whenever the server finds it empty.
    pub lazy_b: bool,
    /// True if all links that may still send in this cycle pay for idle time, false if only the
    /// links of type A among them do.
    pub all_pay_idle: bool,
}

/// Start of a cycle's first round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// After the link that was served last.
    Continue,
    /// At the second link of the list.
    Second,
    /// One link further than in the previous cycle.
    Rotate,
}

impl Rules {
    /// The rules that yield the paper's numbers.
    pub const PAPER: Rules = Rules { start: Start::Second, lazy_b: true, all_pay_idle: true };
    /// The simplest rules.
    pub const CLEAN: Rules = Rules { start: Start::Continue, lazy_b: false, all_pay_idle: false };

    fn of(setup: &Setup) -> Rules {
        let mut rules = match setup.scheduler.choice("preset") {
            Some("paper") => Rules::PAPER,
            _ => Rules::CLEAN,
        };
        rules.start = match setup.scheduler.choice("start") {
            Some("continue") => Start::Continue,
            Some("second") => Start::Second,
            Some("rotate") => Start::Rotate,
            _ => rules.start,
        };
        rules
    }
}

/// Virtual links served packet by packet.
#[derive(Debug, Clone)]
pub struct PacketWise {
    config: VirtualLinks,
    rules: Rules,
    /// Links of type A; links of type B.
    kind_a: FlowSet,
    kind_b: FlowSet,
    /// Links with a packet.
    ready: FlowSet,
    /// The empty set: replaces `ready` while past cycles without packets are skipped.
    empty: FlowSet,
    /// Links that may still send in this cycle.
    alive: FlowSet,
    /// Links that do not lend: while they are idle, no other link may use their time.
    keepers: FlowSet,
    /// True if at least one link lends its idle time.
    any_lends: bool,
    /// The link served last in its own time. The round continues after it.
    last: usize,
    /// The link served last, in its own time or in another link's.
    served: usize,
    /// The link after which a rotating round starts.
    start: usize,
    /// True if nothing has been sent in this cycle.
    first: bool,
    /// True if nothing was carried over into this cycle.
    plain: bool,
    /// Tails of this cycle, which are waited out before its end.
    debt: Span,
    /// Start of this cycle.
    began: Time,
    /// The instant for which residuals and debt are valid.
    settled: Time,
    /// True if no packet could be sent since `settled`.
    waiting: bool,
    /// True if the packet on the wire uses other links' idle time.
    lent: bool,
    /// True if no link had a packet at the last decision.
    idle: bool,
    /// Length of a cycle without packets.
    idle_cycle: Span,
}

/// State of a link.
#[derive(Debug, Clone, Default)]
pub struct Residual {
    /// Time that the link may still use in this cycle.
    left: Span,
    /// The link's time in each cycle.
    phase: Span,
    /// A tail that is added to the link's time in the next cycle.
    carried: Span,
    /// Transmission time that is not charged yet, in `1 / rate` nanoseconds: each link has its own
    /// fraction of a nanosecond, independent of the wire's remainder.
    rest: u64,
}

impl PacketWise {
    /// Validates the setup. The first cycle begins at time zero.
    pub fn new(setup: &Setup) -> Result<PacketWise, ConfigErrors> {
        let (config, rules) = (VirtualLinks::new(setup)?, Rules::of(setup));
        let n = config.links.len();
        let of = |wanted: &dyn Fn(&Link) -> bool| {
            let mut set = FlowSet::new(n);
            config
                .links
                .iter()
                .enumerate()
                .filter(|(_, l)| wanted(l))
                .for_each(|(i, _)| set.insert(i));
            set
        };
        Ok(PacketWise {
            rules,
            kind_a: of(&|l| l.kind == Type::A),
            kind_b: of(&|l| l.kind == Type::B),
            keepers: of(&|l| !l.lends),
            any_lends: config.links.iter().any(|l| l.lends),
            ready: FlowSet::new(n),
            empty: FlowSet::new(n),
            alive: FlowSet::new(n),
            last: n - 1,
            served: n - 1,
            start: n - 1,
            first: true,
            plain: true,
            debt: Span::ZERO,
            began: Time::ZERO,
            settled: Time::ZERO,
            waiting: true,
            lent: false,
            idle: true,
            idle_cycle: Span::ZERO,
            config,
        })
    }

    /// Begins a cycle at the settled instant.
    fn begin_cycle(&mut self, flows: &mut Flows<Residual>) {
        self.plain = true;
        for f in 0..self.config.links.len() {
            self.alive.insert(f);
            let state = flows.state_mut(FlowId(f as u32));
            self.plain &= state.carried == Span::ZERO;
            state.left = state.phase + state.carried;
            state.carried = Span::ZERO;
        }
        self.began = self.settled;
        self.debt = Span::ZERO;
        self.first = true;
        match self.rules.start {
            Start::Continue => {}
            Start::Second => self.last = 0,
            Start::Rotate => self.rotate(1),
        }
    }

    /// Returns the length of the cycle that has just begun, if no packet arrives.
    fn time_idle_cycle(&mut self, flows: &mut Flows<Residual>) -> Span {
        if !self.rules.all_pay_idle || self.kind_b.is_empty() {
            return self.kind_a.iter().map(|f| self.config.links[f].phase).sum();
        }
        // Links of type B pay too: their payments are found by simulating one cycle.
        let wire = Wire::new(self.config.rate);
        self.stop_at_a();
        while self.began == Time::ZERO && !self.kind_a.is_empty() {
            let until = self.until(flows);
            self.settle(flows, until);
            self.decide(flows, &wire);
        }
        self.began - Time::ZERO
    }

    /// Moves the start of rounds by `cycles` links.
    fn rotate(&mut self, cycles: u64) {
        let n = self.config.links.len();
        self.start = (self.start + (cycles % n as u64) as usize) % n;
        self.last = self.start;
    }

    /// Finds the next link in the round whose packet fits in its residual. Links on the way whose
    /// packet does not fit are done for this cycle; empty links of type B lose their turn.
    fn find(&mut self, flows: &mut Flows<Residual>, wire: &Wire) -> Option<FlowId> {
        let (n, start) = (self.config.links.len(), self.last + 1);
        for (from, to) in [(start, n), (0, start)] {
            let mut at = from;
            while let Some(f) = self.alive.first_common(&self.ready, at, to) {
                let bytes = flows.head(f).expect("a ready link has a head");
                let state = flows.state_mut(f);
                if wire.airtime_after(state.rest, bytes) <= state.left {
                    self.pass_empty_b(f.index());
                    return Some(f);
                }
                self.alive.remove(f.index());
                match self.config.tail {
                    Tail::Wait => self.debt += state.left,
                    Tail::Skip => {}
                    Tail::Carry => state.carried = state.left,
                }
                at = f.index() + 1;
            }
        }
        None
    }

    /// Records that the round has reached link `to`: empty links of type B before it lose their
    /// turn.
    fn pass_empty_b(&mut self, to: usize) {
        let (n, start) = (self.config.links.len(), self.last + 1);
        if to >= start {
            self.alive.remove_range(&self.kind_b, &self.ready, start, to);
        } else {
            self.alive.remove_range(&self.kind_b, &self.ready, start, n);
            self.alive.remove_range(&self.kind_b, &self.ready, 0, to);
        }
    }

    /// Removes the turns of empty links of type B, because no packet can be sent.
    fn stop_at_a(&mut self) {
        let n = self.config.links.len();
        if !self.rules.lazy_b {
            self.alive.remove_range(&self.kind_b, &self.ready, 0, n);
            return;
        }
        if self.first {
            return;
        }
        // The server rests at the first link of type A after the link served last. If there is
        // none, it stays at the link served last.
        let rests_at = self.alive.first_common(&self.kind_a, self.last + 1, n);
        let rests_at = rests_at.or_else(|| self.alive.first_common(&self.kind_a, 0, self.last));
        self.pass_empty_b(rests_at.map_or(self.last, FlowId::index));
    }

    /// Returns the link to serve at the settled instant, or `None` if no packet can be sent.
    fn decide(&mut self, flows: &mut Flows<Residual>, wire: &Wire) -> Option<FlowId> {
        loop {
            if let Some(f) = self.find(flows, wire) {
                return Some(f);
            }
            self.stop_at_a();
            if self.debt > Span::ZERO || self.alive.intersects(&self.kind_a) {
                return None;
            }
            self.begin_cycle(flows);
            if self.ready.is_empty() && self.kind_a.is_empty() {
                return None;
            }
        }
    }

    fn payers(&self) -> (impl Iterator<Item = usize> + '_, u64) {
        let set = if self.rules.all_pay_idle { &self.alive } else { &self.kind_a };
        (self.alive.iter().filter(|&f| set.contains(f)), self.alive.count_common(set))
    }

    /// Returns the next instant at which the tails are over or a residual is used up: before it no
    /// packet can be sent, unless one arrives. The tails pass first, then the paying links share
    /// the idle time equally. If the time is not divisible by their number, links of lower index
    /// pay a nanosecond more.
    fn until(&self, flows: &Flows<Residual>) -> Time {
        if self.debt > Span::ZERO {
            return self.settled + self.debt;
        }
        if !self.alive.intersects(&self.kind_a) {
            return Time::NEVER;
        }
        let (payers, n) = self.payers();
        let used_up = |(rank, f): (usize, usize)| {
            let left = flows.state(FlowId(f as u32)).left;
            (left.0 - 1) * n + rank as u64 + 1
        };
        let soonest = payers.enumerate().map(used_up).min().expect("a link of type A is alive");
        self.settled + Span(soonest)
    }

    /// Returns the link that may send in idle time of others, when no link can send in its own
    /// time. That link has no turn of its own left in this cycle, and its packet ends before the
    /// cycle does. Returns `None` while an idle link that does not lend has its turn.
    fn borrower(&self, flows: &Flows<Residual>, now: Time, wire: &Wire) -> Option<FlowId> {
        if !self.any_lends || self.alive.intersects(&self.keepers) {
            return None;
        }
        // Each nanosecond of idle time is paid by one link, so the idle time left is the sum of the
        // payers' residuals. Without a link of type A the cycle ends with its tails.
        let (payers, _) = self.payers();
        let resting = self.alive.intersects(&self.kind_a);
        let left: Span =
            payers.filter(|_| resting).map(|f| flows.state(FlowId(f as u32)).left).sum();
        let idle = (self.debt + left).saturating_sub(now - self.settled);
        let (n, start) = (self.config.links.len(), self.served + 1);
        for (from, to) in [(start, n), (0, start)] {
            let mut at = from;
            while let Some(f) = self.ready.first_common(&self.ready, at, to) {
                if wire.airtime(flows.head(f).expect("a ready link has a head")) <= idle {
                    return Some(f);
                }
                at = f.index() + 1;
            }
        }
        None
    }

    /// Settles idle time until `now`, even if any number of residuals are used up meanwhile.
    fn spend(&mut self, flows: &mut Flows<Residual>, now: Time) {
        while self.settled < now {
            let until = self.until(flows).min(now);
            self.settle(flows, until);
        }
    }

    /// Settles the cost of the wait until `now`, which is not later than the result of `until`.
    fn settle(&mut self, flows: &mut Flows<Residual>, now: Time) {
        if now == self.settled {
            return;
        }
        let waited = now - self.settled;
        self.settled = now;
        if self.debt > Span::ZERO {
            self.debt -= waited;
            return;
        }
        if !self.alive.intersects(&self.kind_a) {
            return;
        }
        let (payers, n) = self.payers();
        let (each, rest) = (waited.0 / n, waited.0 % n);
        let mut used_up = None;
        for (rank, f) in payers.enumerate() {
            let state = flows.state_mut(FlowId(f as u32));
            state.left -= Span(each + u64::from((rank as u64) < rest));
            if state.left == Span::ZERO {
                // Only one residual is used up at a time: the next one lasts at least a nanosecond
                // longer.
                used_up = Some(f);
            }
        }
        if let Some(f) = used_up {
            self.alive.remove(f);
        }
    }

    /// Skips the cycles without packets that ended until now.
    fn catch_up(&mut self, flows: &mut Flows<Residual>, now: Time, wire: &Wire) {
        if now <= self.settled {
            return;
        }
        core::mem::swap(&mut self.ready, &mut self.empty);
        loop {
            let until = self.until(flows);
            if until > now {
                break;
            }
            self.settle(flows, until);
            self.decide(flows, wire);
            if self.began == self.settled && self.plain && self.idle_cycle > Span::ZERO {
                let cycles = (now - self.settled) / self.idle_cycle;
                self.settled += self.idle_cycle * cycles;
                self.began = self.settled;
                if self.rules.start == Start::Rotate {
                    self.rotate(cycles);
                }
            }
        }
        core::mem::swap(&mut self.ready, &mut self.empty);
    }
}

impl Discipline for PacketWise {
    type State = Residual;
    type Tag = ();

    fn start(&mut self, flows: &mut Flows<Residual>) {
        for (f, link) in self.config.links.iter().enumerate() {
            flows.state_mut(FlowId(f as u32)).phase = link.phase;
        }
        self.begin_cycle(flows);
        self.idle_cycle = self.time_idle_cycle(flows);
        let links = self.config.links.len();
        (self.settled, self.last, self.start) = (Time::ZERO, links - 1, links - 1);
        self.begin_cycle(flows);
        if !self.kind_a.is_empty() {
            self.stop_at_a();
        }
    }

    /// A new cycle begins: at the end of the packet on the wire if its link sends it in its own
    /// time, else now.
    fn migrate_from(&mut self, old: PacketWise, flows: &mut Flows<Residual>, now: Time) {
        for f in (0..flows.len()).map(|f| FlowId(f as u32)) {
            *flows.state_mut(f) = Residual::default();
        }
        self.start(flows);
        self.settled = old.settled.max(now);
        self.began = self.settled;
        (self.served, self.idle) = (old.served, old.idle);
        for f in (0..flows.len()).filter(|&f| flows.head(FlowId(f as u32)).is_some()) {
            self.ready.insert(f);
        }
    }

    #[inline(always)]
    fn ready(&mut self, _: &mut Flows<Residual>, f: FlowId, _: Time) {
        self.ready.insert(f.index());
    }

    fn head_changed(&mut self, flows: &mut Flows<Residual>, f: FlowId, _: Time) {
        if flows.head(f).is_none() {
            self.ready.remove(f.index());
        }
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<Residual>, now: Time, wire: &Wire) -> Decision {
        if self.idle {
            self.catch_up(flows, now, wire);
        } else if flows.head(FlowId(self.served as u32)).is_none() {
            self.ready.remove(self.served);
        }
        if self.lent {
            // A packet sent in lent time has left: its time counts as idle time.
            self.lent = false;
            self.spend(flows, now);
            self.waiting = false;
        }
        loop {
            if self.waiting {
                let until = if self.settled < now { self.until(flows) } else { Time::NEVER };
                if until <= now {
                    self.settle(flows, until);
                } else if self.alive.intersects(&self.ready) {
                    self.settle(flows, now);
                } else {
                    self.idle = flows.backlogged() == 0;
                    if self.idle {
                        return Decision::Idle;
                    }
                    let borrower = self.borrower(flows, now, wire);
                    return borrower
                        .map_or_else(|| Decision::NotBefore(self.until(flows)), Decision::Serve);
                }
            }
            self.idle = false;
            match self.decide(flows, wire) {
                Some(f) => {
                    self.waiting = false;
                    return Decision::Serve(f);
                }
                None => self.waiting = true,
            }
        }
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<Residual>, f: FlowId, sent: Sent) {
        self.served = f.index();
        if !self.alive.contains(f.index()) {
            self.lent = true;
            return;
        }
        let state = flows.state_mut(f);
        let work = u64::from(sent.bytes) * BIT_NANOS + state.rest;
        state.left -= Span(work / self.config.rate.0);
        state.rest = work % self.config.rate.0;
        if state.left == Span::ZERO {
            self.alive.remove(f.index());
        }
        self.last = f.index();
        self.first = false;
        self.settled = sent.end;
    }
}

impl QueueHooks for PacketWise {}
impl MediumHooks for PacketWise {
    fn retimed(&mut self, _: &mut Flows<Residual>, _: FlowId, end: Time, now: Time) {
        // The nominal end of a packet that is sent in lent time is not stored.
        if self.settled > now {
            self.settled = end;
        }
    }
}

impl Guarantees for PacketWise {
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        self.config.service(f, Serve::PacketWise)
    }

    fn turns(&self, f: FlowId) -> Option<StaircaseCurve> {
        Some(self.config.turns(f, Serve::PacketWise))
    }

    fn settling(&self) -> Settling {
        Settling::OwnPackets(0)
    }

    fn serves_strictly(&self) -> bool {
        true
    }

    fn only_on_a_link(&self) -> Option<&'static str> {
        Some("its phases are times on the link itself")
    }
}
