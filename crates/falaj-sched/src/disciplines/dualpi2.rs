//! Dual-queue coupled AQM with a proportional-integral controller: De Schepper and others, RFC
//! 9332.
//!
//! Packets of scalable connections, recognized by their ECN bits (ECT(1) or CE), have a queue of
//! their own, L; the packets of classic connections have the queue C. One controller observes the
//! delay of C. The square of its output is the probability of a drop or a mark in C; its output
//! times `k` is the probability of a mark in L. If the delay of L itself is above a threshold, its
//! packets are also marked with a probability that rises linearly with this delay. So both kinds of
//! connections get similar rates, and L stays short. Names and steps are those of the RFC's
//! appendix A. Marks come at even distances (the RFC's function `recur`), so nothing is random.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{Guarantee, Guarantees, finite_rate};
use crate::contract::hooks::{DropCause, MediumHooks, QueueHooks};
use crate::contract::manifest::{Manifest, Purpose};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup};
use crate::contract::transmission::Sent;
use crate::mechanisms::arrival_stamp::ArrivalStamp;
use crate::queues::aqm::none_besides;
use crate::queues::aqm::settings::in_range;
use crate::queues::aqm::verdict::Verdict;
use crate::queues::queue::{FlowId, Flows, Limit};
use crate::units::label::{Ecn, Label};
use crate::units::rate::Wire;
use crate::units::time::{Span, Time};
use alloc::format;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "dualpi2",
    doc: "two queues, for connections with scalable (L4S) and with classic congestion control, \
          coupled so that both kinds get similar rates",
    source: "RFC 9332",
    cost: "O(1)",
    guarantee: "nothing",
    guarantee_source: "—",
    purposes: &[Purpose::Connections],
    aliases: &["l4s", "dual queue coupled aqm"],
    scheduler: &[
        Param {
            name: "limit",
            kind: Kind::Count { min: 1, max: 1 << 20 },
            default: Some("10000"),
            doc: "the maximum number of packets in both queues together",
        },
        Param {
            name: "target",
            kind: Kind::Span,
            default: Some("15ms"),
            doc: "target queueing delay of classic packets",
        },
        Param {
            name: "interval",
            kind: Kind::Span,
            default: Some("100ms"),
            doc: "longest expected round-trip time of the connections, which sets the gains of the \
                  controller (RTT_max); at least 1us",
        },
        Param {
            name: "coupling",
            kind: Kind::Count { min: 1, max: 10 },
            default: Some("2"),
            doc: "the coupling factor k: the marking probability of scalable packets is k times \
                  the square root of the drop or marking probability of classic ones",
        },
        Param {
            name: "threshold",
            kind: Kind::Span,
            default: Some("800us"),
            doc: "queueing delay above which scalable packets are marked, with a probability that \
                  grows over `range` (minTh)",
        },
        Param {
            name: "range",
            kind: Kind::Span,
            default: Some("400us"),
            doc: "delay beyond `threshold` at which all scalable packets are marked",
        },
        Param {
            name: "shift",
            kind: Kind::Span,
            default: Some("30ms"),
            doc: "head start of scalable packets: a classic packet goes first only if it has \
                  waited longer by more than this time",
        },
    ],
    ..Manifest::PLAIN
};

/// The probability 1, in units of 2^-64.
const ONE: i128 = 1 << 64;
/// The queues of scalable (L) and classic (C) connections.
const L: FlowId = FlowId(0);
const C: FlowId = FlowId(1);

/// The parameters, with the RFC's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parameters {
    target: Span,
    t_update: Span,
    /// Gain of the integral term per nanosecond of delay, in units of 2^-64; `beta` is that of the
    /// proportional term.
    alpha: i128,
    beta: i128,
    k: i128,
    min_th: Span,
    range: Span,
    t_shift: Span,
}

/// The controller: proportional and integral terms, and the base probability p'.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Controller {
    p: i128,
    prevq: Span,
    update: Time,
}

impl Controller {
    fn dualpi2_update(&mut self, of: &Parameters, curq: Span) {
        let (now, before, target) =
            (i128::from(curq.0), i128::from(self.prevq.0), i128::from(of.target.0));
        self.p = (self.p + of.alpha * (now - target) + of.beta * (now - before)).clamp(0, ONE);
        self.prevq = curq;
    }

    /// Performs all updates that were due until now. The head of the observed queue arrived at
    /// `head`.
    fn catch_up(&mut self, of: &Parameters, head: Option<Time>, now: Time) {
        while self.update <= now {
            if head.is_none() && self.p == 0 && self.prevq == Span::ZERO {
                let periods = now.since(self.update).0 / of.t_update.0 + 1;
                self.update += of.t_update * periods;
                return;
            }
            self.dualpi2_update(of, head.map_or(Span::ZERO, |head| self.update.since(head)));
            self.update += of.t_update;
        }
    }

    /// The coupled probability of a mark in L.
    fn p_cl(&self, of: &Parameters) -> i128 {
        (of.k * self.p).min(ONE)
    }
    fn p_c(&self) -> i128 {
        (self.p >> 32) * (self.p >> 32)
    }
    /// Returns true if even marking all packets of L would not be enough.
    fn is_overloaded(&self, of: &Parameters) -> bool {
        of.k * self.p >= ONE
    }
}

/// Selects packets to mark or drop at even distances.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Recur(i128);

impl Recur {
    fn hits(&mut self, likelihood: i128) -> bool {
        self.0 += likelihood;
        let hit = self.0 > ONE;
        if hit {
            self.0 -= ONE;
        }
        hit
    }
}

/// State that changes only when the packet of a verdict is transmitted or dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    l: Recur,
    l_drops: Recur,
    c: Recur,
}

/// Dual queue coupled AQM.
#[derive(Debug, Clone)]
pub struct DualPi2 {
    of: Parameters,
    limit: u64,
    controller: Controller,
    counts: Counts,
    label: Label,
    /// The verdict on the head that was chosen last, with the counts after it.
    chosen: (Counts, Verdict),
    marked: bool,
}

impl DualPi2 {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<DualPi2, ConfigErrors> {
        finite_rate(setup, "dualpi2")?;
        none_besides(setup, "dualpi2")?;
        let values = &setup.scheduler;
        let span = |name, default| in_range(name, values.span(name).unwrap_or(default));
        let target = span("target", Span::from_millis(15))?;
        let rtt_max = span("interval", Span::from_millis(100))?;
        if rtt_max < Span(1000) {
            return Err(ConfigError {
                flow: None,
                param: "interval",
                what: format!("{rtt_max} is not a round trip"),
                help: "at least 1us".into(),
            }
            .into());
        }
        // alpha = 0.1 Tupdate / RTT_max^2 and beta = 0.3 / RTT_max.
        let t_update = target.min(Span(rtt_max.0 / 3));
        let rtt = i128::from(rtt_max.0);
        let of = Parameters {
            target,
            t_update: t_update.max(Span(1)),
            alpha: ONE / 10 * i128::from(t_update.0) / (rtt * rtt),
            beta: ONE * 3 / 10 / rtt,
            k: values.count("coupling").unwrap_or(2).into(),
            min_th: span("threshold", Span(800_000))?,
            range: span("range", Span(400_000))?,
            t_shift: span("shift", Span::from_millis(30))?,
        };
        Ok(DualPi2 {
            of,
            limit: values.count("limit").unwrap_or(10_000),
            controller: Controller { update: Time::ZERO + of.t_update, ..Controller::default() },
            counts: Counts::default(),
            label: Label::default(),
            chosen: (Counts::default(), Verdict::Pass),
            marked: false,
        })
    }

    fn catch_up(&mut self, flows: &Flows<(), ArrivalStamp>, now: Time) {
        let head = flows.head(C).map(|_| flows.head_tag(C).arrival());
        self.controller.catch_up(&self.of, head, now);
    }

    /// The probability of a mark in L by the queue's own ramp.
    fn laqm(&self, qdelay: Span) -> i128 {
        let beyond = qdelay.0.saturating_sub(self.of.min_th.0);
        (ONE * i128::from(beyond) / i128::from(self.of.range.0)).min(ONE)
    }

    /// The verdict on a chosen head, and the counts after it.
    fn settled(&self, queue: FlowId, qdelay: Span, ecn: Ecn) -> (Counts, Verdict) {
        let mut counts = self.counts;
        let overloaded = self.controller.is_overloaded(&self.of);
        let verdict = if queue == L {
            if overloaded && counts.l_drops.hits(self.controller.p_c()) {
                Verdict::Drop
            } else if counts.l.hits(self.laqm(qdelay).max(self.controller.p_cl(&self.of))) {
                Verdict::Mark
            } else {
                Verdict::Pass
            }
        } else if counts.c.hits(self.controller.p_c()) {
            if ecn.is_capable() && !overloaded { Verdict::Mark } else { Verdict::Drop }
        } else {
            Verdict::Pass
        };
        (counts, verdict)
    }
}

impl Discipline for DualPi2 {
    type State = ();
    type Tag = ArrivalStamp;
    const SEES_ARRIVALS: bool = true;

    fn start(&mut self, _: &mut Flows<(), ArrivalStamp>) {}

    fn migrate_from(&mut self, old: DualPi2, flows: &mut Flows<(), ArrivalStamp>, now: Time) {
        *self = DualPi2 { of: self.of, limit: self.limit, ..old };
        self.catch_up(flows, now);
    }

    fn arrived(
        &mut self,
        flows: &mut Flows<(), ArrivalStamp>,
        _: FlowId,
        _: u32,
        now: Time,
    ) -> ArrivalStamp {
        self.catch_up(flows, now);
        let Label { ecn, waited, .. } = core::mem::take(&mut self.label);
        ArrivalStamp::new(now.before(waited), ecn)
    }

    fn ready(&mut self, _: &mut Flows<(), ArrivalStamp>, _: FlowId, _: Time) {}

    fn next(&mut self, flows: &mut Flows<(), ArrivalStamp>, now: Time, _: &Wire) -> Decision {
        self.catch_up(flows, now);
        let head = |queue| flows.head(queue).map(|_| flows.head_tag(queue));
        // Time-shifted FIFO: the head that arrived earlier is sent first, but the head of L counts
        // as if it had arrived earlier by `t_shift`.
        let (queue, stamp) = match (head(L), head(C)) {
            (None, None) => return Decision::Idle,
            (Some(l), None) => (L, l),
            (None, Some(c)) => (C, c),
            (Some(l), Some(c)) => {
                let l_first = now.since(l.arrival()) + self.of.t_shift >= now.since(c.arrival());
                if l_first { (L, l) } else { (C, c) }
            }
        };
        self.chosen = self.settled(queue, now.since(stamp.arrival()), stamp.ecn());
        if self.chosen.1 == Verdict::Drop { Decision::Drop(queue) } else { Decision::Serve(queue) }
    }

    fn on_transmit(&mut self, _: &mut Flows<(), ArrivalStamp>, _: FlowId, _: Sent) {
        self.counts = self.chosen.0;
        self.marked = self.chosen.1 == Verdict::Mark;
    }
}

impl QueueHooks for DualPi2 {
    #[inline]
    fn announce(&mut self, label: Label) {
        self.label = label;
    }

    #[inline]
    fn place(&self, _: FlowId) -> FlowId {
        if matches!(self.label.ecn, Ecn::Ect1 | Ecn::Ce) { L } else { C }
    }

    fn own_queues(&self) -> Option<(usize, Limit)> {
        Some((2, Limit::Packets(u32::MAX)))
    }

    fn is_full(&self, flows: &Flows<(), ArrivalStamp>) -> bool {
        u64::from(flows.packets(L)) + u64::from(flows.packets(C)) >= self.limit
    }

    fn head_dropped(
        &mut self,
        _: &mut Flows<(), ArrivalStamp>,
        _: FlowId,
        _: u32,
        _: DropCause,
        _: Time,
    ) {
        self.counts = self.chosen.0;
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

impl MediumHooks for DualPi2 {}

impl Guarantees for DualPi2 {
    fn service(&self, _: FlowId) -> Result<Guarantee, NoGuarantee> {
        let why = "two queues for all flows, and packets are dropped to keep delays short";
        Err(NoGuarantee(format!("{why}; `drr` with a queue for each flow gives guarantees")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::{FlowSetup, Values};
    use crate::units::rate::Rate;
    use std::vec;

    fn dual() -> DualPi2 {
        let flows = vec![FlowSetup::new(Values::default(), Limit::Packets(1))];
        let setup =
            Setup { rate: Rate::from_mbit(10), largest: 1500, scheduler: Values::default(), flows };
        DualPi2::new(&setup).unwrap()
    }

    fn part(p: i128) -> f64 {
        p as f64 / ONE as f64
    }

    /// The expected values are computed by hand: alpha = 0.1 x 15 ms / (100 ms)^2 = 0.15 Hz, beta =
    /// 3 Hz.
    #[test]
    fn the_controller_goes_as_worked_out_by_hand() {
        let mut dual = dual();
        let mut p = 0.0;
        for (ms, before) in
            [(20.0, 0.0), (40.0, 20.0), (40.0, 40.0), (15.0, 40.0), (0.0, 15.0), (0.0, 0.0)]
        {
            dual.controller.dualpi2_update(&dual.of, Span((ms * 1e6) as u64));
            p = f64::max(p + 0.15 * (ms - 15.0) / 1e3 + 3.0 * (ms - before) / 1e3, 0.0);
            assert!(
                (part(dual.controller.p) - p).abs() < 1e-9,
                "{ms}: {} not {p}",
                part(dual.controller.p)
            );
        }
        dual.controller.p = ONE / 5;
        let of = dual.of;
        assert!((part(dual.controller.p_c()) - 0.04).abs() < 1e-9, "the square");
        assert!((part(dual.controller.p_cl(&of)) - 0.4).abs() < 1e-9, "twice");
        assert!(!dual.controller.is_overloaded(&of));
        let ramp = [700, 800, 900, 1000, 1200, 5000]
            .map(|us| (part(dual.laqm(Span(us * 1000))) * 100.0).round());
        assert_eq!(ramp, [0.0, 0.0, 25.0, 50.0, 100.0, 100.0]);
    }

    /// One of 25 packets of C is dropped or marked, and two of 5 packets of L are marked.
    #[test]
    fn marks_are_as_many_as_the_probability_says_at_even_distances() {
        let mut dual = dual();
        dual.controller.p = ONE / 5;
        let mut of = |queue, ecn| {
            let mut hits = [0, 0];
            for _ in 0..1000 {
                let (counts, verdict) = dual.settled(queue, Span::ZERO, ecn);
                dual.counts = counts;
                match verdict {
                    Verdict::Mark => hits[0] += 1,
                    Verdict::Drop => hits[1] += 1,
                    Verdict::Pass => {}
                }
            }
            hits
        };
        assert_eq!(of(C, Ecn::Not), [0, 39]);
        assert_eq!(of(C, Ecn::Ect0), [40, 0]);
        assert_eq!(of(L, Ecn::Ect1), [399, 0]);
        // Marks are no longer enough, so packets are dropped, in L too.
        dual.controller.p = ONE / 2;
        dual.counts = Counts { c: Recur(ONE - 1), l_drops: Recur(ONE - 1), ..Counts::default() };
        assert_eq!(dual.settled(C, Span::ZERO, Ecn::Ect0).1, Verdict::Drop);
        assert_eq!(dual.settled(L, Span::ZERO, Ecn::Ect1).1, Verdict::Drop);
    }

    #[test]
    fn a_pause_is_made_up_for() {
        let of = dual().of;
        let busy = Controller { p: ONE / 2, prevq: Span::from_millis(40), update: Time(0) };
        let (mut slow, mut quick) = (busy, busy);
        (0..60_000).for_each(|ms| slow.catch_up(&of, None, Time(ms * 1_000_000)));
        quick.catch_up(&of, None, Time(59_999_000_000));
        assert_eq!((slow, slow.p), (quick, 0));
    }
}
