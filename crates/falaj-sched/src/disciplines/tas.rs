//! The time-aware shaper of IEEE 802.1Qbv (802.1Q-2022, 8.6.8.4): each class has a gate that opens
//! and closes at fixed times of the clock.
//!
//! Each flow is a traffic class with its own gate; the first flow of the scenario is the highest
//! class. All gates follow one cycle, which is aligned with the clock. In a cycle a gate opens
//! once, or several times at equal distances. Among the classes whose gates are open, the highest
//! class with a packet sends, but only a packet that ends before the gate closes. So a closing gate
//! acts as a guard band of the packet's length. A gate that is open for the whole cycle never
//! closes.
//!
//! The discipline has no state: its decisions follow from the clock and the heads.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::{Dice, Draw};
use crate::contract::guarantee::{
    Bound, Guarantee, Guarantees, finite_rate, full_queue, room_for_one,
};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::{Example, Idling, Manifest, Purpose};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{
    ConfigError, ConfigErrors, FlowSetup, Kind, Param, Setup, Value, Values,
};
use crate::contract::transmission::Sent;
use crate::mechanisms::weights::ROUNDING;
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::{BIT_NANOS, Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "tas",
    doc: "time-aware shaper of 802.1Qbv: each flow is a traffic class, the first one the highest, \
          with a gate that opens and closes by the clock",
    source: "IEEE 802.1Qbv 2015",
    cost: "O(N)",
    guarantee: "rate and delay, to classes whose gate is never open together with a higher one",
    guarantee_source: "own derivation",
    purposes: &[Purpose::Isolation, Purpose::Delay],
    aliases: &["time-aware shaper", "802.1qbv", "taprio", "tsn", "gate control list"],
    example: Example {
        scheduler: "cycle = \"2ms\"",
        calls: "open = \"400us\"",
        rest: "opens = \"400us\"",
    },
    scheduler: &[Param {
        name: "cycle",
        kind: Kind::Span,
        default: None,
        doc: "length of the gate schedule, which repeats; a cycle starts at each multiple of it on \
              the clock",
    }],
    flow: &[
        Param {
            name: "opens",
            kind: Kind::Span,
            default: Some("0s"),
            doc: "time at which the flow's gate opens, counted from the start of the cycle, or of \
                  each `every` within it",
        },
        Param {
            name: "every",
            kind: Kind::Span,
            default: Some("the value of `cycle`"),
            doc: "time after which the flow's gate opens again; the cycle must be a whole multiple \
                  of it",
        },
        Param {
            name: "open",
            kind: Kind::Span,
            default: Some("until the end of the cycle, or of `every`"),
            doc: "time for which the flow's gate stays open; a packet is sent only if it ends \
                  before the gate closes",
        },
    ],
    idles: Idling::because("packets wait for an open gate"),
    editable: &[
        ("opens", "Gate opens at"),
        ("open", "Gate open for"),
        ("every", "Gate opens every"),
    ],
    draw: Draw { fit, ..Draw::INDEPENDENT },
    ..Manifest::PLAIN
};

/// Draws gates that close within the cycle, and are open long enough for every packet.
fn fit(setup: &mut Setup, dice: Dice<'_>) {
    let packet = setup.largest_airtime().0.max(1);
    let n = setup.flows.len() as u64;
    let mut cycle = 0;
    for flow in &mut setup.flows {
        let (opens, open) = (dice(0, 4 * n * packet), dice(packet, 6 * packet));
        cycle = cycle.max(opens + open);
        flow.values = Values::default()
            .with("opens", Value::Span(Span(opens)))
            .with("open", Value::Span(Span(open)));
        if dice(0, 4) == 0 {
            flow.values = Values::default();
        }
    }
    let (every, times) = ((cycle + dice(0, 2 * packet)).max(packet), dice(1, 3));
    for flow in &mut setup.flows {
        if dice(0, 1) == 0 {
            flow.values.set("every", Value::Span(Span(every)));
        }
    }
    setup.scheduler = Values::default().with("cycle", Value::Span(Span(every * times)));
}

/// The time-aware shaper.
#[derive(Debug, Clone)]
pub struct Tas {
    gates: Vec<Gate>,
    rate: Rate,
    largest: u32,
    full_queues: Vec<u64>,
}

/// The gate of a flow: the length of a round, which is the cycle or `every`, and the times within a
/// round at which the gate opens and closes.
#[derive(Debug, Clone, Copy)]
struct Gate {
    every: Span,
    opens: Span,
    closes: Span,
}

impl Gate {
    /// Returns true if both gates are ever open together. The distances from an opening of one gate
    /// to an opening of the other take all values that are congruent modulo the greatest common
    /// divisor of both rounds.
    fn meets(self, other: Gate) -> bool {
        let step = common(self.every.0, other.every.0);
        let behind = (other.opens.0 % step + step - self.opens.0 % step) % step;
        behind < self.closes.0 - self.opens.0 || step - behind < other.closes.0 - other.opens.0
    }

    fn is_always_open(self) -> bool {
        self.opens == Span::ZERO && self.closes == self.every
    }
}

/// The greatest common divisor.
fn common(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common(b, a % b) }
}

impl Tas {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Tas, ConfigErrors> {
        finite_rate(setup, "the time-aware shaper")?;
        room_for_one(setup)?;
        let packet = setup.largest_airtime();
        let refused =
            |flow, param, what: String, help: String| ConfigError { flow, param, what, help };
        let cycle = setup.scheduler.span("cycle").unwrap_or(Span::ZERO);
        if cycle < packet || cycle == Span::ZERO {
            let what =
                format!("a packet of {} B does not fit into a cycle of {cycle}", setup.largest);
            return Err(
                refused(None, "cycle", what, format!("at least {}", packet.max(Span(1)))).into()
            );
        }
        let gate = |(flow, f): (usize, &FlowSetup)| {
            let every = f.values.span("every").unwrap_or(cycle);
            if every == Span::ZERO || cycle % every != Span::ZERO {
                let what = format!("`every` of {every} does not divide the cycle of {cycle}");
                let help = format!("the cycle, or a half, a third … of it: {}", Span(cycle.0 / 2));
                return Err(refused(Some(flow), "every", what, help));
            }
            let opens = f.values.span("opens").unwrap_or(Span::ZERO);
            let open = f.values.span("open").unwrap_or(every.saturating_sub(opens));
            let closes = opens + open;
            if closes > every {
                let of = if every == cycle { "the cycle of" } else { "its `every` of" };
                let what = format!("the gate closes at {closes}, after {of} {every}");
                return Err(refused(
                    Some(flow),
                    "open",
                    what,
                    "gates close before that; shift `opens`".into(),
                ));
            }
            if open < packet || open == Span::ZERO {
                let what = format!("a packet of {} B does not fit into {open}", setup.largest);
                return Err(refused(
                    Some(flow),
                    "open",
                    what,
                    format!("at least {}", packet.max(Span(1))),
                ));
            }
            Ok(Gate { every, opens, closes })
        };
        Ok(Tas {
            gates: setup.flows.iter().enumerate().map(gate).collect::<Result<_, _>>()?,
            rate: setup.rate,
            largest: setup.largest,
            full_queues: setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect(),
        })
    }

    /// The first time from `now` on at which a head of `bytes` may pass its gate.
    #[inline]
    fn passes(gate: Gate, bytes: u32, now: Time, wire: &Wire) -> Time {
        if gate.is_always_open() {
            return now;
        }
        let into = Span(now.0 % gate.every.0);
        let begins = Time(now.0 - into.0);
        if into < gate.opens {
            begins + gate.opens
        } else if into + wire.airtime(bytes) <= gate.closes {
            now
        } else {
            begins + gate.every + gate.opens
        }
    }
}

impl Discipline for Tas {
    type State = ();
    type Tag = ();

    fn start(&mut self, _: &mut Flows<()>) {}

    fn migrate_from(&mut self, _: Tas, _: &mut Flows<()>, _: Time) {}

    fn ready(&mut self, _: &mut Flows<()>, _: FlowId, _: Time) {}

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<()>, now: Time, wire: &Wire) -> Decision {
        let mut then = Time::NEVER;
        for (f, &gate) in self.gates.iter().enumerate() {
            let f = FlowId(f as u32);
            let Some(bytes) = flows.head(f) else { continue };
            let passes = Tas::passes(gate, bytes, now, wire);
            if passes <= now {
                return Decision::Serve(f);
            }
            then = then.min(passes);
        }
        if then < Time::NEVER { Decision::NotBefore(then) } else { Decision::Idle }
    }

    fn on_transmit(&mut self, _: &mut Flows<()>, _: FlowId, _: Sent) {}
}

impl QueueHooks for Tas {}
impl MediumHooks for Tas {}

impl Guarantees for Tas {
    /// The guarantee is for windows (open times of the gate) that no higher class may use. A window
    /// loses the time at its end that is too short for the next packet, and at its start the time
    /// of one packet of a lower class, if such a packet may be on the wire. In the worst case a
    /// backlog begins when the rest of the window is just too short; from then on each round
    /// contributes a window.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let own = self.gates[f.index()];
        let meets = |gates: &[Gate]| gates.iter().position(|gate| gate.meets(own));
        if let Some(higher) = meets(&self.gates[..f.index()]) {
            return Err(NoGuarantee(format!(
                "the gate of class {} is open at the same time, and its class goes first: let them \
                 open one after the other",
                higher + 1
            )));
        }
        let packet = self.rate.airtime(self.largest);
        let always = own.is_always_open();
        let blocked =
            if meets(&self.gates[f.index() + 1..]).is_some() { packet } else { Span::ZERO };
        let unused = if always { Span::ZERO } else { packet };
        let window = Span(own.closes.0 - own.opens.0);
        // A gate that is always open is blocked once by a packet on the wire, and then never again.
        let lost = if always { Span::ZERO } else { blocked + unused };
        let used = window.saturating_sub(lost + ROUNDING);
        let rate =
            Rate((u128::from(self.rate.0) * u128::from(used.0) / u128::from(own.every.0)) as u64);
        let room = u128::from(used.0) * u128::from(self.rate.0) >= u128::from(BIT_NANOS);
        if rate.0 == 0 || !room {
            return Err(NoGuarantee(format!(
                "the whole {window} for which the gate is open may be lost to packets that do not \
                 fit or are under way: open it for longer"
            )));
        }
        let waits = own.every.saturating_sub(window) + blocked + unused + ROUNDING + ROUNDING;
        Ok(Guarantee {
            rate,
            latency: rate.airtime(self.largest) + waits,
            rate_formula: "r = C w/T, w = the time open less a packet that does not fit and a \
                           packet on the wire",
            delay: Bound {
                delay: rate.airtime_of_many(self.full_queues[f.index()]) + waits,
                formula: "B/r + time closed + a packet that does not fit + a packet on the wire",
                condition: "packets that found room",
            },
            others: Vec::new(),
        })
    }

    /// Returns true: every round contributes the same service, from any instant of a backlog on.
    fn serves_strictly(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::Values;
    use crate::scheduler::worked_example::{at_once, guarantee, order, setup, time, values};

    /// In cycles of 20 B, A's gate is open from 0 to 10, B's from 10 to 20, and C's always.
    #[test]
    fn gates_open_and_close_and_packets_are_over_by_then() {
        let gate = |opens, open| values([("opens", time(opens)), ("open", time(open))]);
        let cycle = |us, flows: Vec<Values>| Setup {
            scheduler: values([("cycle", time(us))]),
            ..setup(4, flows)
        };
        let tas = cycle(20, Vec::from([gate(0, 10), gate(10, 10), Values::default()]));
        let all = at_once("AAABBB", 4);
        let sent = order(&tas, Tas::new, &all);
        assert_eq!(sent, "A1@4 A2@8 B1@14 B2@18 A3@24 B3@34");
        // C's packets fill the guard bands, and may delay the other classes by a packet.
        let with_c = [all.clone(), at_once("CCC", 3)].concat();
        let sent = order(&tas, Tas::new, &with_c);
        assert_eq!(sent, "A1@4 A2@8 C1@11 B1@15 B2@19 C2@22 A3@26 C3@29 B3@34");
        // A's gate opens twice in a cycle of 40 B, at 0 and 20, and B's once: no two gates are open
        // together.
        let twice = cycle(40, Vec::from([gate(0, 10).with("every", time(20)), gate(10, 10)]));
        let sent = order(&twice, Tas::new, &all);
        assert_eq!(sent, "A1@4 A2@8 B1@14 B2@18 A3@24 B3@54");
        // The usable part of the 10 B, without the time that is too short for a packet, occurs
        // twice as often for A.
        let [a, b] = [0, 1].map(|flow| guarantee(&twice, Tas::new, flow).rate);
        assert!(a.0.abs_diff(2 * b.0) <= 1, "{a:?} {b:?}");
    }
}
