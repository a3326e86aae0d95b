//! Virtual links with partial isolation: what the phase-wise and the
//! packet-wise server have in common, and what both promise.
//!
//! Fortuna and Chydzinski, "Virtualization of links with partial isolation and
//! a packet-wise policy". Link `j` may be served for at most its phase `W_j`
//! in each cycle. A link of type A keeps its phase even when it has nothing to
//! send; a link of type B gives it up when it runs empty. A packet that does
//! not fit in what is left of the phase waits for the next cycle; that rest,
//! the tail, is waited out or skipped.
//!
//! Notation: `L = MTU/C`, `S = sum W_i`, `k = floor(W_j/L)`, `b` the queue in
//! packets with the one in service, `m = ceil(b/k)`, `r = b - (m - 1) k`, `N`
//! links. The formulas are the paper's with its misprints put right: (1) as
//! printed has `ceil(b C/MTU)`, which is no number of phases.

use crate::params::{Kind, Param, Refused, Setup};
use crate::promise::{Bound, NoPromise, Promise, finite_rate, full_queue, room_for_one};
use crate::queue::{FlowId, Limit};
use crate::rate::Rate;
use crate::registry::Entry;
use crate::time::Span;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// How they are named and set.
pub const ENTRY: Entry = Entry {
    kind: "virtual-links",
    doc: "a phase for each flow in each cycle: partial isolation, bounded delay",
    source: "Fortuna and Chydzinski 2013",
    scheduler: &[
        Param {
            name: "serve",
            kind: Kind::Choice(&["packet-wise", "phase-wise"]),
            default: Some("packet-wise"),
            doc: "a packet of each link in turn, or a whole phase of each link in turn",
        },
        Param {
            name: "tail",
            kind: Kind::Choice(&["wait", "skip"]),
            default: Some("wait"),
            doc: "what happens with the end of a phase that is too short for the next packet",
        },
        Param {
            name: "preset",
            kind: Kind::Choice(&["clean", "paper"]),
            default: Some("clean"),
            doc: "packet-wise rules: plain, or those that give the paper's numbers",
        },
    ],
    flow: &[
        Param {
            name: "kind",
            kind: Kind::Choice(&["A", "B"]),
            default: None,
            doc: "A keeps its phase when idle, B gives it up",
        },
        Param {
            name: "phase",
            kind: Kind::Span,
            default: None,
            doc: "time on the link in each cycle, at most; at least one largest packet",
        },
    ],
};

/// What happens with the end of a phase that is too short for the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// It passes unused.
    Wait,
    /// The next link's phase begins at once.
    Skip,
}

/// How a link's phase ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// After its whole length, packets or not.
    A,
    /// As soon as its queue is empty.
    B,
}

/// One virtual link.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// How its phase ends.
    pub kind: Type,
    /// `W`, the longest time of service in a cycle.
    pub phase: Span,
    /// The limit of its queue.
    pub limit: Limit,
}

/// A validated set of virtual links.
#[derive(Clone, Debug)]
pub struct VirtualLinks {
    /// In the order of service.
    pub links: Vec<Link>,
    /// What happens with tails.
    pub tail: Tail,
    pub(crate) rate: Rate,
    /// `L`: transmission time of the largest packet.
    largest: Span,
    full_queues: Vec<u64>,
}

/// Which server the promise is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serve {
    PhaseWise,
    PacketWise,
}

impl VirtualLinks {
    /// Validates the setup; a phase shorter than the largest packet would never send it.
    pub fn new(setup: &Setup) -> Result<VirtualLinks, Refused> {
        finite_rate(setup, "a phase")?;
        room_for_one(setup)?;
        let largest = setup.largest_airtime();
        let mut links = Vec::new();
        for (flow, f) in setup.flows.iter().enumerate() {
            let missing = |param| Refused {
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
                return Err(Refused {
                    flow: Some(flow),
                    param: "phase",
                    what: format!(
                        "a phase of {phase} is shorter than one packet of {} B, which takes {largest} at {}",
                        setup.largest, setup.rate
                    ),
                    help: format!("at least `{largest}`; or a smaller `mtu`"),
                });
            }
            if phase > Span::from_secs(3600) {
                return Err(Refused {
                    flow: Some(flow),
                    param: "phase",
                    what: format!("a phase of {phase} is longer than an hour"),
                    help: "a cycle of microseconds to seconds is what links are divided by".into(),
                });
            }
            links.push(Link { kind, phase, limit: f.limit });
        }
        let tail = match setup.scheduler.choice("tail") {
            Some("skip") => Tail::Skip,
            _ => Tail::Wait,
        };
        let full_queues = setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect();
        Ok(VirtualLinks { links, tail, rate: setup.rate, largest, full_queues })
    }

    /// `S`: the longest cycle.
    pub fn cycle(&self) -> Span {
        self.links.iter().map(|l| l.phase).sum()
    }

    /// The paper's guarantees to link `f`, corrected.
    pub(crate) fn service(&self, f: FlowId, serve: Serve) -> Result<Promise, NoPromise> {
        let (link, l, s, n) = (self.links[f.index()], self.largest, self.cycle(), self.links.len() as u64);
        let w = link.phase;
        let before = match self.tail {
            Tail::Wait => l,
            Tail::Skip => Span::ZERO,
        };
        // Full cycles that pass first, and what is left to send in the last one.
        let (full, rest) = match link.limit {
            Limit::Packets(b) => {
                let (b, k) = (u64::from(b), w / l);
                let m = b.div_ceil(k);
                (m - 1, l * (b - (m - 1) * k))
            }
            // A cycle serves more than W - L of a link that stays backlogged;
            // each of the packets, a byte at least, is rounded up to a nanosecond.
            Limit::Bytes(_) if w == l => {
                return Err(NoPromise(format!(
                    "a phase of exactly one packet ({w}) may carry a single byte: give the queue in packets, or a longer phase"
                )));
            }
            Limit::Bytes(b) => {
                let backlog = self.rate.airtime_of_many(self.full_queues[f.index()]) + Span(b);
                (backlog.0.div_ceil((w - l).0) - 1, w)
            }
        };
        let (own, formula) = match (serve, self.tail) {
            (Serve::PhaseWise, Tail::Wait) => (rest, "(1') L + (m-1) S + (S-W) + r L"),
            (Serve::PhaseWise, Tail::Skip) => (rest, "(1') (m-1) S + (S-W) + r L"),
            (Serve::PacketWise, Tail::Wait) => ((rest * n).min(s), "(1'') L + (m-1) S + (S-W) + min(N r L, S)"),
            (Serve::PacketWise, Tail::Skip) => ((rest * n).min(s), "(1'') (m-1) S + (S-W) + min(N r L, S)"),
        };
        let delay = before + s * full + (s - w) + own;
        let mut others = vec![Bound {
            delay: l + s * (full + 1) + (s - w),
            formula: "(3) L + m S + (S-W)",
            condition: "packets that found room; looser, as printed",
        }];
        if serve == Serve::PacketWise {
            others.push(Bound {
                delay: l * n,
                formula: "(4) N L",
                condition: "packets that find their queue empty and enough of the phase left for themselves",
            });
        }
        let latency = match serve {
            Serve::PhaseWise => s - w + l,
            Serve::PacketWise => (s - w + l) * 2,
        };
        Ok(Promise {
            rate: Rate((u128::from(self.rate.0) * u128::from((w - l).0) / u128::from(s.0)) as u64),
            latency,
            rate_formula: "(2) C (W-L)/S",
            delay: Bound { delay, formula, condition: "packets that found room" },
            others,
        })
    }
}
