//! Rate-controlled static priority: regulators that restore a flow's gaps, then static priorities.
//!
//! Zhang and Ferrari, "Rate-controlled static-priority queueing" (1993). A regulator gives each
//! packet an eligibility time at its arrival. A rate-jitter regulator shapes a flow to
//! `(Xmin, Xave, I)`: never two packets within `min-gap` (`Xmin`), and at most
//! `w = interval/mean-gap` packets within `interval` (`I`). So the eligibility time is
//! `ET(k) = max(now, ET(k-1) + Xmin, ET(k-w) + I)`. Until then the packet is held, even on a free
//! link; then it waits in the queue of its priority.
//!
//! A delay-jitter regulator on link `j` delays each packet to its worst case on the previous link:
//! `ET(j) = ET(j-1) + d(j-1) + pi(j-1)`. Here `d` is the maximum time on that link from eligibility
//! to the last bit, and `pi` the propagation time. The next link can learn how early a packet is
//! only from the packet itself. So a packet that leaves a link earlier than the latest time by
//! `x = ET + d - end` carries `x` along, and the next link holds it for the additional time `x`. On
//! the first link no packet is early, so only the gaps are enforced. The gaps are enforced on later
//! links, too. So a flow that violates its gaps is held at its first link, and arrives at all other
//! links as the first link released it.
//!
//! With `idle = "release"` nothing is held on a free link: the packet that would become eligible
//! first is sent at once, and later eligibility times are as if it had waited. That is dynamic
//! regulation and scheduling (Iatrou and Stavrakakis 2000), as far as it is known from Zhang's
//! thesis and from the paper's abstract: the regulator knows the scheduler's state, and releases
//! packets before their time. The time by which a packet is released early adds to the `x` that it
//! carries, and the next link's regulator holds it.

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::{Dice, Draw};
use crate::contract::guarantee::{
    Bound, DropImpact, Guarantee, Guarantees, finite_rate, room_for_one,
};
use crate::contract::hooks::{DropCause, MediumHooks, QueueHooks};
use crate::contract::manifest::{Idling, Manifest};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{
    ConfigError, ConfigErrors, FlowSetup, Kind, Param, Setup, Value, Values,
};
use crate::contract::transmission::Sent;
use crate::mechanisms::bucket::ids;
use crate::mechanisms::substitute_arrivals::SubstituteTimes;
use crate::mechanisms::weights::ROUNDING;
use crate::queues::queue::{FlowId, Flows, Limit};
use crate::units::label::Label;
use crate::units::rate::{BIT_NANOS, Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "rcsp",
    doc: "rate-controlled static priority: a regulator holds a flow's packets until their gaps are \
          restored; eligible packets go by priority",
    source: "Zhang and Ferrari 1993, 1994; release on a free link: Iatrou and Stavrakakis 2000",
    cost: "O(log N)",
    guarantee: "rate and delay, to regulated flows",
    guarantee_source: "Zhang and Ferrari 1993, 1994",
    aliases: &["rate-controlled static priority"],
    scheduler: &[Param {
        name: "idle",
        kind: Kind::Choice(&["hold", "release"]),
        default: Some("hold"),
        doc: "use of the link while all packets are held: `hold` leaves it idle, `release` sends \
              the packet that would be eligible first (dynamic R&S)",
    }],
    flow: &[
        Param {
            name: "priority",
            kind: Kind::Count { min: 0, max: 65_535 },
            default: None,
            doc: "the strict priority of the flow: 0 is served first; packets of one priority go \
                  in order of eligibility",
        },
        Param {
            name: "min-gap",
            kind: Kind::Span,
            default: Some("none: the flow is not regulated"),
            doc: "minimum time between two packets of the flow; packets that come closer are held \
                  (Xmin)",
        },
        Param {
            name: "mean-gap",
            kind: Kind::Span,
            default: Some("the value of `min-gap`"),
            doc: "mean time between two packets of the flow over `interval`; at least `min-gap` \
                  (Xave)",
        },
        Param {
            name: "interval",
            kind: Kind::Span,
            default: Some("the value of `mean-gap`"),
            doc: "time over which `mean-gap` is kept: at most `interval` / `mean-gap` packets \
                  become eligible in it (I)",
        },
        Param {
            name: "regulator",
            kind: Kind::Choice(&["rate-jitter", "delay-jitter"]),
            default: Some("rate-jitter"),
            doc: "`rate-jitter` holds packets until their gaps are restored; `delay-jitter` also \
                  holds each packet for the time by which it left the previous link early",
        },
        Param {
            name: "delay-bound",
            kind: Kind::Span,
            default: Some("computed from the gaps of all flows"),
            doc: "only with `regulator = \"delay-jitter\"`: maximum time from a packet's \
                  eligibility until its last bit has left; a packet that leaves earlier is held \
                  for the difference on the next link",
        },
    ],
    idles: Idling::because("a packet waits for its regulator"),
    editable: &[("priority", "Priority")],
    draw: Draw { fit, ..Draw::INDEPENDENT },
    ..Manifest::PLAIN
};

/// Draws a least gap, a longer mean gap, and an interval of a few mean gaps; some flows are not
/// regulated.
fn fit(setup: &mut Setup, dice: Dice<'_>) {
    let airtime = setup.largest_airtime().0.max(1);
    let most = 3 * setup.flows.len() as u64;
    for flow in &mut setup.flows {
        flow.values = Values::default().with("priority", Value::Count(dice(0, 2)));
        if dice(0, 6) > 0 {
            let least = dice(1, most) * airtime;
            let mean = least + dice(0, 2 * least);
            let interval = mean * dice(1, 5) + dice(0, mean - 1);
            for (name, gap) in [("min-gap", least), ("mean-gap", mean), ("interval", interval)] {
                flow.values.set(name, Value::Span(Span(gap)));
            }
        }
    }
}

/// Maximum number of packets in an interval. An eligibility time is stored for each of them.
const MOST: u64 = 4_096;

/// Longest wait for which a guarantee is given: an hour.
const LONGEST: Span = Span::from_secs(3_600);

/// Rate-controlled static priority.
#[derive(Debug, Clone)]
pub struct Rcsp {
    flows: Vec<Regulated>,
    /// For each flow, the eligibility times of the last packets that were sent, the oldest first.
    last: Vec<VecDeque<Time>>,
    /// For each flow, the time at which a head was last dropped, or the dropped head's eligibility
    /// time if that was earlier.
    last_drop: Vec<Time>,
    substitutes: SubstituteTimes<Time>,
    held: Tournament<Time>,
    eligible: Tournament<(u64, Time)>,
    releases: bool,
    serving: Option<FlowId>,
    label: Label,
    /// For the packet that was sent last, the time by which it left before its latest departure.
    early: Option<Span>,
    link: Rate,
    largest: u32,
    /// For each flow, the number of packets in its queue when it is full.
    full_queues: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Regulated {
    priority: u64,
    gaps: Option<Gaps>,
    /// For a delay-jitter regulator: the maximum time from eligibility to departure.
    delay_bound: Option<Span>,
}

#[derive(Debug, Clone, Copy)]
struct Gaps {
    least: Span,
    interval: Span,
    /// Maximum number of packets in an interval.
    packets: u64,
}

impl Rcsp {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Rcsp, ConfigErrors> {
        finite_rate(setup, "rate-controlled static priority")?;
        room_for_one(setup)?;
        let flows: Vec<Regulated> =
            setup.flows.iter().enumerate().map(regulated).collect::<Result<_, _>>()?;
        let packets = |f: &FlowSetup| match f.limit {
            Limit::Packets(n) => n.into(),
            Limit::Bytes(n) => n,
        };
        let mut rcsp = Rcsp {
            last: flows
                .iter()
                .map(|f| VecDeque::with_capacity(f.gaps.map_or(0, |g| g.packets as usize)))
                .collect(),
            last_drop: alloc::vec![Time::ZERO; flows.len()],
            substitutes: SubstituteTimes::new(setup),
            held: Tournament::new(flows.len()),
            eligible: Tournament::new(flows.len()),
            flows,
            releases: setup.scheduler.choice("idle") == Some("release"),
            serving: None,
            label: Label::default(),
            early: None,
            link: setup.rate,
            largest: setup.largest,
            full_queues: setup.flows.iter().map(packets).collect(),
        };
        for (flow, f) in setup.flows.iter().enumerate() {
            rcsp.flows[flow].delay_bound = rcsp.latest(flow, f)?;
        }
        Ok(rcsp)
    }

    /// Maximum time from eligibility to departure for this flow, if it has a delay-jitter
    /// regulator.
    fn latest(&self, flow: usize, f: &FlowSetup) -> Result<Option<Span>, ConfigError> {
        let given = f.values.span("delay-bound");
        let refused = |param, what, help: &str| ConfigError {
            flow: Some(flow),
            param,
            what,
            help: help.into(),
        };
        if f.values.choice("regulator") != Some("delay-jitter") {
            let what = "only a delay-jitter regulator uses it".into();
            let help = "write `regulator = \"delay-jitter\"` too, or leave it out";
            return given.map_or(Ok(None), |_| Err(refused("delay-bound", what, help)));
        }
        match given {
            Some(Span::ZERO) => {
                Err(refused("delay-bound", "no packet leaves at once".into(), "at least 1ns"))
            }
            Some(bound) => Ok(Some(bound)),
            None => match self.waits(self.flows[flow].priority) {
                Ok(waits) => Ok(Some(waits)),
                Err(NoGuarantee(why)) => {
                    let what =
                        format!("the latest departure of its packets cannot be computed: {why}");
                    Err(refused("regulator", what, "or give a `delay-bound`"))
                }
            },
        }
    }

    fn follow(&mut self, flows: &Flows<(), Time>, f: FlowId) {
        self.eligible.remove(f);
        match flows.head(f) {
            Some(_) => self.held.set(f, self.eligibility(flows, f)),
            None => self.held.remove(f),
        }
    }

    /// Eligibility time of the head of `f`, which follows from those of the packets that were sent
    /// before it.
    #[inline]
    fn eligibility(&self, flows: &Flows<(), Time>, f: FlowId) -> Time {
        let Regulated { gaps, delay_bound, .. } = self.flows[f.index()];
        // A packet that was early on the previous link is held for that time, even if it becomes
        // head after a drop.
        let own = flows.head_tag(f);
        let came =
            if delay_bound.is_some() { own } else { self.substitutes.effective_arrival(f, own) };
        let eligible = came.max(self.last_drop[f.index()]);
        let Some(gaps) = gaps else { return eligible };
        let last = &self.last[f.index()];
        let gap = last.back().map_or(Time::ZERO, |&before| before + gaps.least);
        let first = last.front().filter(|_| last.len() as u64 >= gaps.packets);
        eligible.max(gap).max(first.map_or(Time::ZERO, |&first| first + gaps.interval))
    }

    /// Maximum time from eligibility to the last bit, for a packet of this priority. It is the
    /// least `d` in which the link can send one packet whose transmission has begun, and all
    /// packets of the same or a higher priority that may become eligible within `d`.
    fn waits(&self, priority: u64) -> Result<Span, NoGuarantee> {
        let packet = u128::from(self.largest) * u128::from(BIT_NANOS);
        let mut first = Vec::new();
        for (n, f) in self.flows.iter().enumerate().filter(|(_, f)| f.priority <= priority) {
            let Some(gaps) = f.gaps else {
                return Err(NoGuarantee(format!(
                    "flow {0} has the same or a higher priority and is not regulated: give flow {0} a `min-gap`, or a lower priority (a larger number)",
                    n + 1
                )));
            };
            first.push(gaps.least.0);
        }
        let mut waits = 0u128;
        for _ in 0..10_000 {
            let come = |gap: &u64| (waits / u128::from(*gap) + 1) * packet;
            let work = first.iter().map(come).sum::<u128>() + packet;
            let needed = work.div_ceil(self.link.0.into());
            if needed == waits {
                return Ok(Span(u64::try_from(waits).unwrap_or(u64::MAX)) + ROUNDING);
            }
            if needed > u128::from(LONGEST.0) {
                break;
            }
            waits = needed;
        }
        Err(NoGuarantee(
            "packets at their least gaps would fill the link, or nearly: make `min-gap` longer"
                .into(),
        ))
    }
}

fn regulated((flow, f): (usize, &FlowSetup)) -> Result<Regulated, ConfigError> {
    let refused =
        |param, what, help: &str| ConfigError { flow: Some(flow), param, what, help: help.into() };
    let Some(priority) = f.values.count("priority") else {
        return Err(refused(
            "priority",
            "is missing".into(),
            "0 for the flow that is served first, up to 65535",
        ));
    };
    let [least, mean, interval] =
        ["min-gap", "mean-gap", "interval"].map(|name| f.values.span(name));
    let Some(least) = least else {
        let given = if mean.is_some() { Some("mean-gap") } else { interval.map(|_| "interval") };
        return match given {
            Some(param) => Err(refused(
                param,
                "it regulates nothing without a least gap".into(),
                "give a `min-gap` too",
            )),
            None => Ok(Regulated { priority, gaps: None, delay_bound: None }),
        };
    };
    let mean = mean.unwrap_or(least);
    let interval = interval.unwrap_or(mean);
    if least == Span::ZERO {
        return Err(refused(
            "min-gap",
            "the gap must be above 0".into(),
            "at least 1ns, or leave it out",
        ));
    }
    if mean < least {
        return Err(refused(
            "mean-gap",
            format!("{mean} is below the least gap of {least}"),
            "the least gap, or longer",
        ));
    }
    let packets = interval / mean;
    if packets == 0 || packets > MOST {
        let what = format!("in {interval} there are {packets} packets at a mean gap of {mean}");
        return Err(refused("interval", what, "from one to 4096 times the mean gap"));
    }
    Ok(Regulated { priority, gaps: Some(Gaps { least, interval, packets }), delay_bound: None })
}

impl Discipline for Rcsp {
    type State = ();
    /// The packet's arrival time plus the time by which it was early on the previous link.
    type Tag = Time;
    const SEES_ARRIVALS: bool = true;

    fn start(&mut self, _: &mut Flows<(), Time>) {}

    /// Queued packets keep their gaps from the packets that were already sent.
    fn migrate_from(&mut self, old: Rcsp, flows: &mut Flows<(), Time>, _: Time) {
        self.serving = old.serving;
        for (f, last) in ids(old.flows.len()).zip(&old.last) {
            let kept = self.flows[f.index()].gaps.map_or(0, |gaps| gaps.packets as usize);
            self.last[f.index()].extend(last.iter().skip(last.len().saturating_sub(kept)));
            self.last_drop[f.index()] = old.last_drop[f.index()];
            self.follow(flows, f);
        }
    }

    #[inline(always)]
    fn arrived(&mut self, _: &mut Flows<(), Time>, f: FlowId, _: u32, now: Time) -> Time {
        let Label { earliness, waited, .. } = core::mem::take(&mut self.label);
        match self.flows[f.index()].delay_bound {
            Some(_) => now.before(waited) + earliness,
            None => now,
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<(), Time>, f: FlowId, now: Time) {
        self.substitutes.ready(f, now);
        self.follow(flows, f);
    }

    fn head_changed(&mut self, flows: &mut Flows<(), Time>, f: FlowId, _: Time) {
        self.follow(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<(), Time>, now: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.follow(flows, f);
        }
        while let Some((then, f)) = self.held.first()
            && then <= now
        {
            self.held.remove(f);
            self.eligible.set(f, (self.flows[f.index()].priority, then));
        }
        match (self.eligible.first(), self.held.first()) {
            (Some((_, f)), _) => Decision::Serve(f),
            (None, Some((_, f))) if self.releases => Decision::Serve(f),
            (None, Some((then, _))) => Decision::NotBefore(then),
            (None, None) => Decision::Idle,
        }
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<(), Time>, f: FlowId, sent: Sent) {
        self.serving = Some(f);
        let eligible = self.eligibility(flows, f);
        self.substitutes.taken(f, sent.start);
        if let Some(gaps) = self.flows[f.index()].gaps {
            let last = &mut self.last[f.index()];
            if last.len() as u64 >= gaps.packets {
                last.pop_front();
            }
            last.push_back(eligible);
        }
        let latest = self.flows[f.index()].delay_bound.map(|bound| eligible + bound);
        self.early = latest.map(|latest| latest.since(sent.end));
    }

    fn is_reusable(&self, _: &Flows<(), Time>, f: FlowId, now: Time) -> bool {
        let Some(gaps) = self.flows[f.index()].gaps else { return true };
        let last = &self.last[f.index()];
        last.back().is_none_or(|&last| last + gaps.least.max(gaps.interval) <= now)
    }
}

impl QueueHooks for Rcsp {
    /// Packets behind the dropped packet need no gap from it. They are not eligible before the
    /// dropped packet's eligibility time, or before now if that is earlier.
    fn head_dropped(
        &mut self,
        flows: &mut Flows<(), Time>,
        f: FlowId,
        _: u32,
        _: DropCause,
        now: Time,
    ) {
        let was = self.eligible.tag(f).map(|(_, then)| then).or(self.held.tag(f));
        let since = was.map_or(now, |then| then.min(now));
        self.last_drop[f.index()] = since;
        self.substitutes.set_head_time(f, since);
        self.substitutes.head_dropped(f, now);
        self.follow(flows, f);
    }

    fn dropped_behind_head(&mut self, _: &mut Flows<(), Time>, f: FlowId, _: u32, _: Time) {
        self.substitutes.dropped_behind_head(f);
    }

    #[inline]
    fn announce(&mut self, label: Label) {
        self.label = label;
    }

    fn wants_labels(&self) -> bool {
        self.flows.iter().any(|f| f.delay_bound.is_some())
    }
}

impl MediumHooks for Rcsp {
    #[inline]
    fn earliness(&mut self) -> Option<Span> {
        self.early.take()
    }
}

impl Guarantees for Rcsp {
    /// Drops break no guarantee, because packets behind a dropped packet need no gap from it.
    fn harm_of_drops(&self) -> DropImpact {
        DropImpact::NoFlow
    }

    /// An eligible packet waits for the packets that its own and the higher priorities may send at
    /// their least gaps (the paper's theorem 1), if these packets fit on the link. Before it is
    /// eligible, it waits for the packets of a full queue, which are `interval/w` apart, and for
    /// one interval because of packets that were sent earlier.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        if self.releases {
            let why = "a packet that was released before its time makes the packets behind it wait for longer than the queue's length shows";
            return Err(NoGuarantee(format!("{why}; `idle = \"hold\"` gives guarantees")));
        }
        let own = self.flows[f.index()];
        let waits = self.waits(own.priority)?;
        let Some(gaps) = own.gaps else {
            return Err(NoGuarantee(
                "a flow that is not regulated has no limit on its own packets, so a packet may \
                 wait behind any number of them"
                    .into(),
            ));
        };
        let regulated = |packets: u64| {
            let nanos =
                (u128::from(packets) + u128::from(gaps.packets)) * u128::from(gaps.interval.0);
            Span(u64::try_from(nanos.div_ceil(gaps.packets.into())).unwrap_or(u64::MAX))
        };
        let rate = Rate(
            (u128::from(BIT_NANOS) * u128::from(gaps.packets) / u128::from(gaps.interval.0)) as u64,
        );
        // A packet counts as served only when its last bit has left.
        Ok(Guarantee {
            rate,
            latency: regulated(1) + waits,
            rate_formula: "8 w/I, packets of a byte; L times as much with packets of L",
            delay: Bound {
                delay: regulated(self.full_queues[f.index()]) + waits,
                formula: "(n + w) I/w + d, n packets in a full queue, d the least with sum (d/Xmin + 1) L + L = C d",
                condition: match own.delay_bound {
                    None => "packets that found room",
                    Some(_) => {
                        "packets that found room; the bound excludes the time for which the link \
                         holds packets that left the previous link early"
                    }
                },
            },
            others: Vec::new(),
        })
    }

    /// On this link a packet becomes eligible a constant time after it became eligible on the
    /// previous link. So delays differ only by the wait on this link (the theorem for delay-jitter
    /// regulators of Zhang and Ferrari 1994).
    fn jitter(&self, f: FlowId) -> Option<Bound> {
        let waits = self.waits(self.flows[f.index()].priority).ok()?;
        let bound = self.flows[f.index()].delay_bound?;
        self.flows[f.index()].gaps?;
        (waits <= bound && !self.releases).then_some(Bound {
            delay: waits,
            formula: "d, the least with sum (d/Xmin + 1) L + L = C d",
            condition: "from the packet's arrival at the first of several links with `rcsp`, this link being the last, while the flow keeps its gaps",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::{Value, Values};
    use crate::scheduler::worked_example::{at_once, order, setup, time, values};

    /// A's gaps are at least 2, and at most three packets of A become eligible within 9; B's gaps
    /// are 4; C is not regulated. From 8 on all packets are held.
    #[test]
    fn regulators_restore_gaps_and_priorities_follow() {
        let regulated = |priority, min, mean, interval| {
            let gaps =
                [("min-gap", time(min)), ("mean-gap", time(mean)), ("interval", time(interval))];
            values(gaps).with("priority", Value::Count(priority))
        };
        let free = values([("priority", Value::Count(2))]);
        let setup = setup(4, [regulated(0, 2, 3, 9), regulated(1, 4, 4, 8), free]);
        let packets = [at_once("AAAABB", 1), Vec::from([(0, 'C', 3), (30, 'A', 1)])].concat();
        let sent =
            |scheduler: Values| order(&Setup { scheduler, ..setup.clone() }, Rcsp::new, &packets);
        let held = "A1@1 B1@2 A2@3 C1@6 A3@7 B2@8 A4@10 A5@31";
        assert_eq!(sent(Values::default()), held);
        // With `idle = "release"`, the packet that would become eligible first is sent at once on a
        // free link.
        let released = "A1@1 B1@2 A2@3 C1@6 A3@7 B2@8 A4@9 A5@31";
        assert_eq!(sent(values([("idle", Value::Choice("release"))])), released);
    }
}
