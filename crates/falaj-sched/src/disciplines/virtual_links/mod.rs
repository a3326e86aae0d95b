//! Virtual links with partial isolation: the common part of the phase-wise and the packet-wise
//! server, and their guarantees.
//!
//! Fortuna and Chydzinski, "Virtualization of links with partial isolation and a packet-wise
//! policy" (2013). Link `j` may be served for at most its phase `W_j` in each cycle. A link of type
//! A keeps its phase even if its queue is empty; a link of type B gives it up when it becomes
//! empty. A packet that does not fit in the rest of the phase waits for the next cycle. That rest
//! is called the tail; the server waits until it is over, skips it, or (our extension) adds it to
//! the link's phase in the next cycle.
//!
//! Notation: `N` links, `C` the rate of the link, `L = MTU/C`, `S = sum W_i`, `k = floor(W_j/L)`,
//! `b` the limit of the queue in packets (the packet in service counts), `m = ceil(b/k)`,
//! `r = b - (m - 1) k`. The formulas are those of the paper, with its misprints corrected. For
//! example, formula (1) is printed with `ceil(b C/MTU)`, which is not a number of phases.

pub mod packet_wise;
pub mod phase_wise;

use self::packet_wise::PacketWise;
use self::phase_wise::PhaseWise;
use crate::contract::draw::Draw;
use crate::contract::guarantee::{
    Bound, Guarantee, StairTurn, StaircaseCurve, finite_rate, full_queue, without_room,
};
use crate::contract::manifest::{Example, Idling, Manifest, Purpose};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup, Value};
use crate::contract::visitor::Visitor;
use crate::queues::queue::{FlowId, Limit};
use crate::units::rate::{BIT_NANOS, Rate};
use crate::units::time::Span;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "virtual-links",
    doc: "each flow may use the link for a phase of each cycle: partial isolation from the other \
          flows, bounded delay",
    source: "Fortuna and Chydzinski 2013",
    cost: "O(1)",
    guarantee: "rate and delay",
    guarantee_source: "Fortuna and Chydzinski 2013, corrected",
    purposes: &[Purpose::Isolation],
    aliases: &["virtual link", "partial isolation"],
    example: Example {
        scheduler: "",
        calls: "kind = \"A\"\nphase = \"200us\"",
        rest: "kind = \"B\"\nphase = \"800us\"",
    },
    scheduler: &[
        Param {
            name: "serve",
            kind: Kind::Choice(&["packet-wise", "phase-wise"]),
            default: Some("packet-wise"),
            doc: "`packet-wise`: flows with time left in their phase send one packet each in turn; \
                  `phase-wise`: each flow sends for its whole phase, then the next flow",
        },
        Param {
            name: "tail",
            kind: Kind::Choice(&["wait", "skip", "carry"]),
            default: Some("wait"),
            doc: "use of the end of a phase that is too short for the next packet: `wait` leaves \
                  the link idle, `skip` goes on to the next flow, `carry` also adds it to the \
                  flow's next phase (packet-wise only)",
        },
        Param {
            name: "start",
            kind: Kind::Choice(&["continue", "second", "rotate"]),
            default: Some("`continue` with the preset `clean`, `second` with `paper`"),
            doc: "packet-wise only: flow at which the first round of a cycle starts: `continue` \
                  after the flow served last, `second` at the second flow, `rotate` one flow \
                  further in each cycle",
        },
        Param {
            name: "preset",
            kind: Kind::Choice(&["clean", "paper"]),
            default: Some("clean"),
            doc: "packet-wise only: the rules that the paper leaves open: `clean` for the simplest \
                  ones, `paper` for those that reproduce its figures",
        },
    ],
    flow: &[
        Param {
            name: "kind",
            kind: Kind::Choice(&["A", "B"]),
            default: None,
            doc: "end of the flow's phase: `A` after its whole length even if the queue is empty, \
                  `B` as soon as the queue is empty",
        },
        Param {
            name: "lend",
            kind: Kind::Choice(&["no", "yes"]),
            default: Some("no"),
            doc: "packet-wise only: `yes` lets flows that have used up their phases send while \
                  this flow has time left but no packet",
        },
        Param {
            name: "phase",
            kind: Kind::Span,
            default: None,
            doc: "maximum time that the flow may use the link in each cycle, at least that of one \
                  largest packet, at most an hour; its share is its phase over the sum of all \
                  phases",
        },
    ],
    idles: Idling::because("a phase belongs to one flow, and its end may pass unused"),
    editable: &[("phase", "Phase"), ("kind", "Kind")],
    draw: Draw::by(&[("phase", |setup, dice| Value::Span(setup.largest_airtime() * dice(2, 8)))]),
    ..Manifest::PLAIN
};

/// Constructs the variant that the key `serve` selects, and passes it to the visitor.
pub(super) fn construct<V: Visitor>(setup: &Setup, visitor: V) -> Result<V::Output, ConfigErrors> {
    Ok(match setup.scheduler.choice("serve") {
        Some("phase-wise") => visitor.visit(PhaseWise::new(setup)?),
        _ => visitor.visit(PacketWise::new(setup)?),
    })
}

/// Use of the end of a phase that is too short for the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// The server waits until the tail is over.
    Wait,
    /// The server goes on with the next link at once.
    Skip,
    /// The server goes on with the next link at once, and the tail is added to the link's own next
    /// phase.
    Carry,
}

/// Rule for the end of a link's phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// The phase ends after its whole length, even if the queue is empty.
    A,
    /// The phase ends as soon as the queue is empty.
    B,
}

/// One virtual link.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Rule for the end of its phase.
    pub kind: Type,
    /// `W`, the longest time of service in a cycle.
    pub phase: Span,
    /// The limit of its queue.
    pub limit: Limit,
    /// True if other links may send in its idle time.
    pub lends: bool,
}

/// A validated set of virtual links.
#[derive(Clone, Debug)]
pub struct VirtualLinks {
    /// The virtual links, in the order of service.
    pub links: Vec<Link>,
    /// Use of the tails.
    pub tail: Tail,
    pub(crate) rate: Rate,
    /// `L`: transmission time of the largest packet.
    largest: Span,
    /// Size of the largest packet in bytes.
    largest_bytes: u64,
    full_queues: Vec<u64>,
}

/// The variant of the server that a guarantee applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serve {
    PhaseWise,
    PacketWise,
}

impl VirtualLinks {
    /// Validates the setup. A phase shorter than the largest packet is an error, because that
    /// packet could never be sent.
    pub fn new(setup: &Setup) -> Result<VirtualLinks, ConfigErrors> {
        finite_rate(setup, "a phase")?;
        let mut refused = without_room(setup);
        let largest = setup.largest_airtime();
        let mut links = Vec::new();
        for (flow, f) in setup.flows.iter().enumerate() {
            let missing = |param| ConfigError {
                flow: Some(flow),
                param,
                what: "is missing".into(),
                help: "every virtual link needs it".into(),
            };
            let kind = match f.values.choice("kind").ok_or_else(|| missing("kind"))? {
                "A" => Type::A,
                _ => Type::B,
            };
            let phase = f.values.span("phase").ok_or_else(|| missing("phase"))?;
            if phase < largest {
                refused.push(ConfigError {
                    flow: Some(flow),
                    param: "phase",
                    what: format!(
                        "a phase of {phase} is shorter than one packet of {} B, which takes \
                         {largest} at {}",
                        setup.largest, setup.rate
                    ),
                    help: format!("at least `{largest}`; or a smaller `mtu`"),
                });
            }
            if phase > Span::from_secs(3600) {
                refused.push(ConfigError {
                    flow: Some(flow),
                    param: "phase",
                    what: format!("a phase of {phase} is longer than an hour"),
                    help: "links are divided in cycles of microseconds to seconds".into(),
                });
            }
            links.push(Link {
                kind,
                phase,
                limit: f.limit,
                lends: f.values.choice("lend") == Some("yes"),
            });
        }
        ConfigErrors::of(refused)?;
        let tail = match setup.scheduler.choice("tail") {
            Some("skip") => Tail::Skip,
            Some("carry") => Tail::Carry,
            _ => Tail::Wait,
        };
        let full_queues = setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect();
        let (rate, largest_bytes) = (setup.rate, u64::from(setup.largest).max(1));
        Ok(VirtualLinks { links, tail, rate, largest, largest_bytes, full_queues })
    }

    /// `S`: the longest cycle.
    pub fn cycle(&self) -> Span {
        self.links.iter().map(|l| l.phase).sum()
    }

    /// Refuses settings that a server of whole phases does not support.
    pub(crate) fn only_phases(&self, setup: &Setup) -> Result<(), ConfigErrors> {
        let mut refused = Vec::new();
        let packet_wise = || "leave it out, or choose `serve = \"packet-wise\"`".into();
        let given = [
            ("start", setup.scheduler.choice("start")),
            ("preset", setup.scheduler.choice("preset")),
        ];
        for (param, word) in given {
            if let Some(word) = word.filter(|&word| word != "clean") {
                let what = format!("`{word}` is a rule of the packet-wise server");
                refused.push(ConfigError { flow: None, param, what, help: packet_wise() });
            }
        }
        if self.tail == Tail::Carry {
            let what = "a phase-wise server carries no tails over".into();
            refused.push(ConfigError { flow: None, param: "tail", what, help: packet_wise() });
        }
        for (flow, _) in self.links.iter().enumerate().filter(|(_, l)| l.lends) {
            let what = "a phase-wise server lends no idle time".into();
            refused.push(ConfigError {
                flow: Some(flow),
                param: "lend",
                what,
                help: packet_wise(),
            });
        }
        ConfigErrors::of(refused)
    }

    /// The longest cycle, and the rounding error of a phase. Packet-wise charges are whole
    /// nanoseconds: each link may exceed its phase by one nanosecond, which the cycle includes.
    fn rounded_cycle(&self, serve: Serve) -> (Span, Span) {
        let whole = BIT_NANOS.is_multiple_of(self.rate.0);
        let each = Span(self.links.len() as u64);
        let more = if whole || serve == Serve::PhaseWise { Span::ZERO } else { each };
        (self.cycle() + more, if whole { Span::ZERO } else { Span(1) })
    }

    /// Maximum time by which a packet sent in lent time delays the packets of other links.
    fn lent(&self) -> Span {
        if self.links.iter().any(|l| l.lends) { self.largest } else { Span::ZERO }
    }

    /// Lower bound on the bytes that the phases of link `f` carry while packets are queued there,
    /// for packets of any sizes.
    ///
    /// A phase of `W` bytes ends with a tail if the head does not fit. The tail is shorter than
    /// that head, so the phase carries at least `W - L + 1` bytes. The head goes first in the next
    /// phase, so that two successive phases carry at least `W + 1` bytes. If tails are carried
    /// over, no phase loses bytes. If the phases before this one carried `U` bytes in all, this
    /// phase carries every packet that ends within the first `U + W` bytes.
    ///
    /// Before its first whole phase the link waits for the phases of the others and, if tails are
    /// waited out, for at most one tail of its own. With the packet-wise server the link waits for
    /// the phases of the others once more, within its own phase. A cycle takes `S`. If tails are
    /// not waited out, a cycle takes only the phases of the others and the link's own
    /// transmissions. Tails that the others carry over count once: `N - 1` tails.
    fn carried(&self, f: FlowId, serve: Serve) -> CarriedByPhases {
        let (w, l, largest) = (self.links[f.index()].phase, self.largest, self.largest_bytes);
        let (cycle, rounding) = self.rounded_cycle(serve);
        let others = cycle - w;
        let first = self.rate.bytes_within(w);
        let least = (first + 1).saturating_sub(largest);
        let later = match self.tail {
            Tail::Carry => [first.max(1); 2],
            Tail::Wait | Tail::Skip => [least, least.max(first + 1 - least)],
        };
        let sent = |bytes: u64| {
            Span((u128::from(bytes) * u128::from(BIT_NANOS) / u128::from(self.rate.0)) as u64)
        };
        let waits = self.tail == Tail::Wait;
        let pause = |bytes: u64| if waits { cycle - sent(bytes) } else { others + rounding };
        let tails = match self.tail {
            Tail::Wait => l,
            Tail::Skip => Span::ZERO,
            Tail::Carry => l * (self.links.len() as u64 - 1),
        };
        let once = if serve == Serve::PacketWise { others * 2 } else { others };
        CarriedByPhases {
            rate: self.rate,
            latency: self.lent() + tails + once + rounding,
            first,
            later: later.map(|bytes| (pause(bytes), bytes)),
        }
    }

    /// Returns the lower bound on the service of link `f` as a staircase of turns.
    pub(crate) fn turns(&self, f: FlowId, serve: Serve) -> StaircaseCurve {
        self.carried(f, serve).turns()
    }

    /// The paper's guarantees to link `f`, corrected, and the guarantees of our extensions:
    ///
    /// - Tails carried over are never lost, so that `b` packets need `K = ceil(b L/W)` cycles after
    ///   the one that has begun. In each of these cycles the others have their phases; in all of
    ///   these cycles together they have at most `N - 1` additional tails. The rate is `C W/S` for
    ///   packets of any size.
    /// - A packet sent in lent idle time delays packets that arrive meanwhile by at most its own
    ///   transmission time, `L`. When it ends, the server is in the same state as if that time had
    ///   passed idle, so all other bounds hold from then on.
    pub(crate) fn service(&self, f: FlowId, serve: Serve) -> Result<Guarantee, NoGuarantee> {
        let (link, l, n) = (self.links[f.index()], self.largest, self.links.len() as u64);
        let carries = self.tail == Tail::Carry;
        let (w, phases) = (link.phase, self.cycle());
        let before = match self.tail {
            Tail::Wait => l,
            Tail::Skip | Tail::Carry => Span::ZERO,
        };
        let lent = self.lent();
        let (s, rounding) = self.rounded_cycle(serve);
        let carried = self.carried(f, serve);
        let bytes = matches!(link.limit, Limit::Bytes(_));
        // Number of phases that a full queue takes, and the packets that remain for the last one.
        let (m, rest) = match link.limit {
            Limit::Packets(b) => {
                let (b, k) = (u64::from(b), self.rate.packets_within(self.largest_bytes, w));
                let m = b.div_ceil(k);
                (m, b - (m - 1) * k)
            }
            Limit::Bytes(_) => (0, 0),
        };
        let packets = |n: u64| self.rate.airtime_of_many(self.largest_bytes.saturating_mul(n));
        let delay = match (serve, self.tail) {
            _ if bytes => carried.until(self.full_queues[f.index()]),
            (Serve::PhaseWise, _) => before + s * (m - 1) + (s - w) + packets(rest),
            (_, Tail::Carry) => {
                let all = self.full_queues[f.index()];
                let last = packets(rest * (n - 1)).min(s - w);
                let in_turn = (s - w) * m + l * (n - 1) + last + self.rate.airtime_of_many(all);
                carried.until(all).min(lent + in_turn + rounding)
            }
            _ => lent + before + s * (m - 1) + (s - w) + packets(rest * n).min(s),
        };
        let mut others = Vec::new();
        if !carries && !bytes && lent == Span::ZERO {
            others.push(Bound {
                delay: l + s * m + (s - w),
                formula: "(3) L + m S + (S-W)",
                condition: "packets that found room; looser, as printed",
            });
        }
        if serve == Serve::PacketWise {
            others.push(Bound {
                delay: l * n,
                formula: "(4) N L",
                condition: if lent == Span::ZERO {
                    "packets that find their queue empty and enough of the phase left for \
                     themselves"
                } else {
                    "packets that find their queue empty while what is left of the link's phase is \
                     at least the rest of a packet on the wire in lent time and their own time \
                     together"
                },
            });
        }
        let share = |time: Span| {
            Rate((u128::from(self.rate.0) * u128::from(time.0) / u128::from(phases.0)) as u64)
        };
        let latency = match (serve, self.tail) {
            (Serve::PhaseWise, _) => s - w + l * 2,
            // The tails of many links, each carried once, may take longer than two phases of this
            // link.
            (_, Tail::Carry) => {
                let packets = u128::from(l.0) * u128::from(phases.0);
                let turns = carried.latency - lent;
                turns.max(s * 2) + Span(packets.div_ceil(u128::from(w.0)) as u64)
            }
            (_, _) => (s - w + l) * 2,
        };
        let by_one = if carries { share(w) } else { share(w - l) };
        let (by_two, later) = carried.line(s, w - l, self.largest_bytes);
        let (rate, latency, rate_formula) = match carries {
            true => (by_one, latency + lent, "C W/S"),
            false if carried.one_is_best() => (by_one, latency + lent, "(2) C (W-L)/S"),
            false => (by_two, later, "C W/(2 S)"),
        };
        Ok(Guarantee {
            rate,
            latency,
            rate_formula,
            delay: Bound {
                delay,
                formula: formula(serve, self.tail, lent > Span::ZERO, bytes),
                condition: "packets that found room",
            },
            others,
        })
    }
}

/// Lower bound on the bytes that the phases of a backlogged link carry.
struct CarriedByPhases {
    rate: Rate,
    /// Time until the first phase begins to carry.
    latency: Span,
    /// Bytes of the first phase.
    first: u64,
    /// The phases after the first one, which alternate between two values: the pause before the
    /// phase, and the bytes that the phase carries.
    later: [(Span, u64); 2],
}

impl CarriedByPhases {
    /// Time until the last of `bytes` has left.
    fn until(&self, bytes: u64) -> Span {
        let [(pause, one), (longer, other)] = self.later;
        let behind = bytes.saturating_sub(self.first);
        let pairs = behind.saturating_sub(1) / (one + other);
        let rest = behind - pairs * (one + other);
        let pauses = (pause + longer) * pairs
            + if rest > 0 { pause } else { Span::ZERO }
            + if rest > one { longer } else { Span::ZERO };
        self.latency + pauses + self.rate.airtime_of_many(bytes)
    }

    fn turns(&self) -> StaircaseCurve {
        let [(pause, one), (longer, other)] = self.later;
        let turn = |bytes, idle| StairTurn { bytes, others: 0, idle };
        let cycle = vec![turn(one, longer), turn(other, pause)];
        StaircaseCurve {
            rate: self.rate,
            latency: self.latency,
            first: vec![(1, turn(self.first, pause))],
            cycle: if self.one_is_best() { vec![turn(one, pause)] } else { cycle },
        }
    }

    /// Returns true if the least that one phase carries is at least half of the least that two
    /// successive phases carry.
    fn one_is_best(&self) -> bool {
        self.later[0] == self.later[1]
    }

    /// Returns the rate of two successive phases in cycles of length `s`, and the latency of that
    /// rate. `spare` is the time by which a phase exceeds the largest packet.
    ///
    /// Just after a phase with the minimum of bytes, the service is behind the line that begins
    /// with the first phase by at most `spare` and one byte. This distance grows by `largest`
    /// bytes, because a packet counts only when all of it has left.
    fn line(&self, s: Span, spare: Span, largest: u64) -> (Rate, Span) {
        let [(_, one), (_, other)] = self.later;
        let bits = u128::from(one + other) * u128::from(BIT_NANOS);
        let rate = Rate((bits / (2 * u128::from(s.0))) as u64);
        // A rate below one bit a second rounds to zero, for which no latency is defined.
        let behind = Rate(rate.0.max(1)).airtime_of_many(largest + 2);
        (rate, self.latency + spare + behind + Span(2))
    }
}

/// The delay bound's formula, as the documentation prints it.
fn formula(serve: Serve, tail: Tail, lent: bool, bytes: bool) -> &'static str {
    if bytes {
        return match (serve, tail) {
            (Serve::PhaseWise, Tail::Wait) => {
                "(1') L + (S-W) + (m-1) S + B/C - U(m-1), U(m-1) + W >= B/C"
            }
            (Serve::PhaseWise, _) => "(1') m (S-W) + B/C, U(m-1) + W >= B/C",
            (_, Tail::Wait) => "(1'') L + 2 (S-W) + (m-1) S + B/C - U(m-1), U(m-1) + W >= B/C",
            (_, Tail::Skip) => "(1'') (m+1) (S-W) + B/C, U(m-1) + W >= B/C",
            (_, Tail::Carry) => "(1'') (N-1) L + (m+1) (S-W) + B/C, m = ceil(B/C/W)",
        };
    }
    match (serve, tail, lent) {
        (Serve::PhaseWise, Tail::Wait, _) => "(1') L + (m-1) S + (S-W) + r L",
        (Serve::PhaseWise, _, _) => "(1') (m-1) S + (S-W) + r L",
        (_, Tail::Wait, false) => "(1'') L + (m-1) S + (S-W) + min(N r L, S)",
        (_, Tail::Skip, false) => "(1'') (m-1) S + (S-W) + min(N r L, S)",
        (_, Tail::Carry, false) => "(1'') (N-1) L + (K+1) (S-W) + b L, K = ceil(b L/W)",
        (_, Tail::Wait, true) => "(1'') 2 L + (m-1) S + (S-W) + min(N r L, S)",
        (_, Tail::Skip, true) => "(1'') L + (m-1) S + (S-W) + min(N r L, S)",
        (_, Tail::Carry, true) => "(1'') N L + (K+1) (S-W) + b L, K = ceil(b L/W)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::worked_example::{
        at_once, departures, guarantee, longest_delay, order, packet, setup, time, values,
    };
    use crate::units::time::Time;

    /// Each link has a phase of 10 bytes: two packets of 4 B and a tail of 2 B.
    fn links(tail: &'static str, kinds: [&'static str; 2]) -> Setup {
        let link = |kind| values([("kind", Value::Choice(kind)), ("phase", time(10))]);
        Setup { scheduler: values([("tail", Value::Choice(tail))]), ..setup(4, kinds.map(link)) }
    }

    /// A link's rate and latency guarantee no more than its staircase of turns does, for few links
    /// and for many.
    #[test]
    fn the_rate_and_its_latency_are_below_the_turns() {
        const L: u64 = 4;
        for (tail, serve) in [
            ("wait", Serve::PhaseWise),
            ("skip", Serve::PhaseWise),
            ("wait", Serve::PacketWise),
            ("skip", Serve::PacketWise),
            ("carry", Serve::PacketWise),
        ] {
            for links in [2, 4, 12] {
                for phase in [4, 5, 7, 10, 25] {
                    let link = values([("kind", Value::Choice("A")), ("phase", time(phase))]);
                    let flows = core::iter::repeat_n(link, links);
                    let setup = Setup {
                        scheduler: values([("tail", Value::Choice(tail))]),
                        ..setup(L as u32, flows)
                    };
                    let all = VirtualLinks::new(&setup).expect("a valid setup");
                    let guarantee = all.service(FlowId(0), serve).expect("a guarantee");
                    let turns = all.carried(FlowId(0), serve);
                    for bytes in L..60 * L {
                        // Just before the last byte leaves, the last packet does not count yet.
                        let line = guarantee.latency + guarantee.rate.airtime_of_many(bytes - L);
                        let case = (tail, serve, links, phase, bytes);
                        assert!(line + Span(2) >= turns.until(bytes), "{case:?}: {line}");
                    }
                }
            }
        }
    }

    #[test]
    fn phases_follow_each_other_and_tails_are_waited_out_or_skipped() {
        let sent = |setup: Setup| order(&setup, PhaseWise::new, &at_once("AAABBB", 4));
        assert_eq!(sent(links("wait", ["A", "A"])), "A1@4 A2@8 B1@14 B2@18 A3@24 B3@34");
        assert_eq!(sent(links("skip", ["A", "A"])), "A1@4 A2@8 B1@12 B2@16 A3@20 B3@30");
        // Type B: A's second phase ends with its last packet, at 24.
        assert_eq!(sent(links("wait", ["B", "B"])), "A1@4 A2@8 B1@14 B2@18 A3@24 B3@28");
    }

    #[test]
    fn packet_wise_links_take_turns_and_tails_end_the_cycle() {
        let sent = |tail| order(&links(tail, ["A", "A"]), PacketWise::new, &at_once("AAABBB", 4));
        assert_eq!(sent("wait"), "A1@4 B1@8 A2@12 B2@16 A3@24 B3@28");
        assert_eq!(sent("skip"), "A1@4 B1@8 A2@12 B2@16 A3@20 B3@24");
    }

    /// At 900 kbit/s five packets of 200 B take 8,888,888.9 ns. Both servers send five of them in
    /// each phase of 8,888,889 ns, whatever fraction of a nanosecond is left from earlier packets.
    #[test]
    fn packets_that_fit_by_a_fraction_of_a_nanosecond_are_sent() {
        let link = |kind, phase| {
            values([("kind", Value::Choice(kind)), ("phase", Value::Span(Span(phase)))])
        };
        let mut setup = setup(200, [link("B", 2_000_000), link("A", 8_888_889)]);
        setup.rate = Rate::from_bits(900_000);
        setup.flows[1].limit = Limit::Packets(10);
        let five = setup.rate.airtime_of_many(1_000);
        // The bound: a packet's time as the tail, one cycle, the other link's phase, and five
        // packets.
        let bound = guarantee(&setup, PhaseWise::new, 1).delay.delay;
        assert_eq!(bound, Span(1_777_778 + 10_888_889 + 2_000_000) + five);
        // A packet of 190 B takes 1,688,888.9 ns.
        let mut packets = vec![packet(Time::ZERO, 0, 190)];
        packets.extend([packet(Time::ZERO, 1, 200); 10]);
        for longest in [
            longest_delay(&departures(&setup, PhaseWise::new, &packets), 1),
            longest_delay(&departures(&setup, PacketWise::new, &packets), 1),
        ] {
            // A tail is at most a nanosecond long here.
            let together = setup.rate.airtime_of_many(190 + 2_000);
            assert!(longest <= together + Span(1), "{longest} > {together}");
        }
    }

    /// A queue in bytes may hold more packets than a cycle could carry at the largest size. Between
    /// any two of them another link may send a packet of the largest size.
    #[test]
    fn a_queue_of_tiny_packets_waits_for_the_others_phases() {
        let link = |kind, phase| values([("kind", Value::Choice(kind)), ("phase", time(phase))]);
        let mut setup = setup(100, [link("B", 225), link("A", 400)]);
        setup.scheduler = values([("tail", Value::Choice("skip"))]);
        setup.flows[0].limit = Limit::Bytes(100);
        setup.flows[1].limit = Limit::Packets(10);
        // The first link has given up its turn when its packets arrive.
        let mut packets = vec![packet(Time::ZERO, 1, 100); 8];
        packets.extend([packet(Time::ZERO, 0, 1); 100]);
        let longest = longest_delay(&departures(&setup, PacketWise::new, &packets), 0);
        // Four packets of the other link in the current cycle, four in the next one, and 100 us for
        // the first link's own packets.
        assert_eq!(longest, Span::from_micros(9 * 100));
        let bound = guarantee(&setup, PacketWise::new, 0).delay.delay;
        assert!(longest <= bound, "{longest} > {bound}");
    }
}
