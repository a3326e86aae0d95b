//! Hierarchical round robin: slots of fixed length, assigned by frames.
//!
//! Kalmanek, Kanakia and Keshav, "Rate controlled servers for very high-speed networks" (1990).
//! Time is divided into slots, each as long as the transmission of the largest packet; a smaller
//! packet takes a whole slot, too. `N` slots form a frame. Each flow of level 1 owns a number of
//! slots in each frame. The `B` slots after them are passed to level 2, whose frame advances by one
//! slot for each slot that it gets; level 3 gets slots of level 2 in the same way, and so on. A
//! slot whose owner has no packet stays empty, or is used by a flow that has no slots (best
//! effort).
//!
//! No flow gets more than its slots, whatever the other flows send, so delay and jitter do not
//! depend on the load. The owner of a slot is a function of its number, so idle time costs no work
//! and needs no state.
//!
//! A level spreads the slots of its flows evenly: the `j`-th of the `a` slots of a flow lies at
//! `(j + 1/2)/a` of the level's part of the frame. Slots at equal positions are in the order of the
//! flows.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::Draw;
use crate::contract::guarantee::{
    Bound, Guarantee, Guarantees, Settling, finite_rate, room_for_one,
};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::{Example, Idling, Manifest};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup, Value};
use crate::contract::transmission::Sent;
use crate::mechanisms::active_list::Place;
use crate::mechanisms::levels::Levels;
use crate::queues::queue::{FlowId, Flows, Limit};
use crate::units::rate::{BIT_NANOS, Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::format;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "hrr",
    doc: "hierarchical round robin: each flow owns fixed time slots in a frame; a packet waits for \
          a slot of its flow, even on an idle link",
    source: "Kalmanek, Kanakia and Keshav 1990",
    cost: "O(1)",
    guarantee: "rate and delay, to flows with slots",
    guarantee_source: "own derivation",
    aliases: &["hierarchical round robin"],
    example: Example { scheduler: "frame = 10", calls: "slots = 2", rest: "slots = 8" },
    scheduler: &[Param {
        name: "frame",
        kind: Kind::Count { min: 1, max: 4096 },
        default: None,
        doc: "the number of slots in a frame of any level; a slot is as long as the transmission \
              of one largest packet",
    }],
    flow: &[
        Param {
            name: "level",
            kind: Kind::Count { min: 1, max: 4 },
            default: Some("1"),
            doc: "the level of the flow: 1 owns slots of the link; the frame of each further level \
                  consists of the slots that the level before leaves over, so its flows are served \
                  less often",
        },
        Param {
            name: "slots",
            kind: Kind::Count { min: 0, max: 4096 },
            default: Some("1"),
            doc: "the number of slots that the flow owns in each frame of its level; 0 for best \
                  effort, which uses slots that their owners leave empty",
        },
    ],
    idles: Idling::because("packets wait for slots of their own flow"),
    draw: Draw::by(&[
        // A frame with room for the slots of all flows together, on any level.
        ("frame", |setup, dice| Value::Count(3 * setup.flows.len() as u64 + dice(1, 20))),
        ("slots", |_, dice| Value::Count(dice(0, 3))),
    ]),
    ..Manifest::PLAIN
};

/// Hierarchical round robin.
#[derive(Debug, Clone)]
pub struct Hrr {
    /// Duration of a slot.
    slot: Span,
    /// Number of slots in a frame, `N`.
    frame: u64,
    levels: Vec<Level>,
    /// Level and number of slots of each flow. A flow with zero slots is best effort.
    asked: Vec<(usize, u64)>,
    best_effort: Levels,
    /// Earliest start of the next packet: the end of the slot in use.
    free: Time,
    /// End of the last packet, which may be before the end of its slot.
    end: Time,
    largest: u64,
    limits: Vec<Limit>,
}

/// The slots of a level's frame: their owners, and the slots for the next level.
#[derive(Debug, Clone, Default)]
struct Level {
    owners: Vec<u32>,
    /// Number of slots after the owned ones that are passed to the next level, `B`.
    handed: u64,
}

/// State of a flow.
#[derive(Debug, Clone, Default)]
pub struct HrrFlow {
    best_effort: bool,
    place: Place,
}

impl AsMut<Place> for HrrFlow {
    fn as_mut(&mut self) -> &mut Place {
        &mut self.place
    }
}

impl Hrr {
    /// Validates the setup: the flows of a level may not have more slots than the level has.
    pub fn new(setup: &Setup) -> Result<Hrr, ConfigErrors> {
        finite_rate(setup, "hierarchical round robin")?;
        room_for_one(setup)?;
        let frame =
            setup.scheduler.count("frame").filter(|n| (1..=4096).contains(n)).ok_or_else(|| {
                ConfigError {
                    flow: None,
                    param: "frame",
                    what: "a frame needs a length".into(),
                    help: "1 to 4096 slots".into(),
                }
            })?;
        let asked = setup.flows.iter().map(|f| {
            let level = f.values.count("level").unwrap_or(1).clamp(1, 4) as usize - 1;
            (level, f.values.count("slots").unwrap_or(1))
        });
        let asked: Vec<(usize, u64)> = asked.collect();
        let deepest = asked.iter().filter(|&&(_, slots)| slots > 0).map(|&(level, _)| level).max();
        let mut levels = Vec::new();
        for level in 0..deepest.map_or(0, |l| l + 1) {
            let mut handed = frame;
            let of_level = || asked.iter().enumerate().filter(|(_, (l, _))| *l == level);
            for (flow, &(_, slots)) in of_level() {
                handed = handed.checked_sub(slots).ok_or_else(|| ConfigError {
                    flow: Some(flow),
                    param: "slots",
                    what: format!(
                        "{slots} slots are more than the {handed} that are left of the frame of \
                         level {}",
                        level + 1
                    ),
                    help: match handed {
                        0 => format!(
                            "a longer `frame` than {frame}, or fewer `slots` for the flows before \
                             it"
                        ),
                        _ => format!("at most {handed}, or a longer `frame` than {frame}"),
                    },
                })?;
            }
            if let (0, Some(flow)) =
                (handed, asked.iter().position(|&(l, slots)| l > level && slots > 0))
            {
                return Err(ConfigError {
                    flow: Some(flow),
                    param: "level",
                    what: format!("level {} leaves no slot for the levels after it", level + 1),
                    help: format!(
                        "a longer `frame` than {frame}, or fewer `slots` for the flows of level {}",
                        level + 1
                    ),
                }
                .into());
            }
            // Of `a` slots, the `j`-th is at (2j + 1)/2a of the level's part of the frame.
            let mut entries: Vec<(u64, u64, u32)> = of_level()
                .flat_map(|(flow, &(_, a))| (0..a).map(move |j| (2 * j + 1, a, flow as u32)))
                .collect();
            entries.sort_by(|x, y| (x.0 * y.1, x.2).cmp(&(y.0 * x.1, y.2)));
            levels.push(Level { owners: entries.iter().map(|e| e.2).collect(), handed });
        }
        Ok(Hrr {
            slot: setup.largest_airtime().max(Span(1)),
            frame,
            levels,
            asked,
            best_effort: Levels::new([0].into_iter()),
            free: Time::ZERO,
            end: Time::ZERO,
            largest: u64::from(setup.largest).max(1),
            limits: setup.flows.iter().map(|f| f.limit).collect(),
        })
    }

    /// The owner of a slot; `None` if the slot is for best effort.
    #[inline]
    fn owner(&self, mut slot: u64) -> Option<FlowId> {
        for level in &self.levels {
            let (frame, place) = (slot / self.frame, slot % self.frame);
            let own = level.owners.len() as u64;
            if place < own {
                return Some(FlowId(level.owners[place as usize]));
            }
            slot = frame * level.handed + (place - own);
        }
        None
    }

    /// The largest number of slots from the start of any slot to the end of the `k`-th slot after
    /// it that `f` owns.
    fn until(&self, f: FlowId, k: u64) -> u64 {
        let (level, slots) = self.asked[f.index()];
        let places = self.places(f);
        let (frames, rest) = (k / slots, (k % slots) as usize);
        let place = |j: usize| places[j % places.len()] + (j / places.len()) as u64 * self.frame;
        // The worst start is just after a slot that `f` owns.
        let gap = (0..places.len()).map(|j| place(j + rest) - place(j)).max().unwrap_or(0);
        let mut d = frames.saturating_mul(self.frame).saturating_add(gap);
        for above in self.levels[..level].iter().rev() {
            // The worst start is at the first slot that this level does not pass to the next level.
            let whole = d.saturating_sub(1) / above.handed;
            let kept = self.frame - above.handed;
            d = whole.saturating_mul(kept).saturating_add(kept).saturating_add(d);
        }
        d
    }

    /// Positions of the slots of `f` in its level's frame.
    fn places(&self, f: FlowId) -> Vec<u64> {
        let owners = &self.levels[self.asked[f.index()].0].owners;
        owners
            .iter()
            .enumerate()
            .filter(|&(_, &owner)| owner == f.0)
            .map(|(place, _)| place as u64)
            .collect()
    }

    /// The fraction of all slots that `f` owns, as numerator and denominator.
    fn share(&self, f: FlowId) -> (u128, u128) {
        let (level, slots) = self.asked[f.index()];
        let frame = u128::from(self.frame);
        let above = self.levels[..level].iter();
        above.fold((slots.into(), frame), |(own, all), level| {
            (own * u128::from(level.handed), all * frame)
        })
    }
}

/// Latencies are counted in fractions of a slot with this denominator, rounded up.
const PARTS: u128 = 1 << 16;

impl Discipline for Hrr {
    type State = HrrFlow;
    type Tag = ();

    fn start(&mut self, flows: &mut Flows<HrrFlow>) {
        for (f, &(_, slots)) in self.asked.iter().enumerate() {
            *flows.state_mut(FlowId(f as u32)) =
                HrrFlow { best_effort: slots == 0, place: Place::default() };
        }
    }

    /// Slots are counted from time zero in every setup. The next slot begins on the new grid, after
    /// the packet on the wire. The rest of that packet's slot is skipped: if the link was slow
    /// before the change, this rest could last for many new slots.
    fn migrate_from(&mut self, mut old: Hrr, flows: &mut Flows<HrrFlow>, _: Time) {
        let (order, _) = old.best_effort.dissolve(flows);
        self.start(flows);
        (self.free, self.end) = (old.end, old.end);
        for f in order {
            self.join(flows, f);
        }
        for f in (0..self.asked.len() as u32).map(FlowId) {
            if flows.head(f).is_some() {
                self.join(flows, f);
            }
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<HrrFlow>, f: FlowId, _: Time) {
        self.join(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<HrrFlow>, now: Time, _: &Wire) -> Decision {
        let volunteer = self.best_effort.next(flows);
        if flows.backlogged() == 0 {
            return Decision::Idle;
        }
        let slot = now.max(self.free).0.div_ceil(self.slot.0);
        let begins = Time(slot * self.slot.0);
        if begins > now {
            return Decision::NotBefore(begins);
        }
        match self.owner(slot).filter(|&f| flows.head(f).is_some()).or(volunteer) {
            Some(f) => Decision::Serve(f),
            None => Decision::NotBefore(begins + self.slot),
        }
    }

    #[inline(always)]
    fn on_transmit(&mut self, flows: &mut Flows<HrrFlow>, f: FlowId, sent: Sent) {
        (self.free, self.end) = (sent.start + self.slot, sent.end);
        if flows.state(f).best_effort {
            self.best_effort.take(0, f);
        }
    }
}

impl QueueHooks for Hrr {}
impl MediumHooks for Hrr {
    fn retimed(&mut self, _: &mut Flows<HrrFlow>, _: FlowId, end: Time, now: Time) {
        if self.end > now {
            (self.free, self.end) = (end, end);
        }
    }
}

impl Guarantees for Hrr {
    /// Let `k` packets of a flow be queued, the last of them just arrived. It waits for the end of
    /// the slot in which it arrives, and then at most until the end of the flow's `k`-th slot. `s`
    /// is the flow's share of the slots, and `c` the largest excess of that time over `k/s` slots.
    /// So the service curve in packets has a latency of `1 + 1/s + c` slots.
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        let (level, slots) = self.asked[f.index()];
        if slots == 0 {
            return Err(NoGuarantee(
                "it is sent in slots that their owners leave empty, and they may use them all: \
                 give the flow `slots`"
                    .into(),
            ));
        }
        let limit = self.limits[f.index()];
        let until = |k: u64| self.slot * self.until(f, k).saturating_add(1);
        let (packets, formula) = match limit {
            Limit::Packets(b) => {
                (u64::from(b), "(1 + D(b)) L/C, D(k): slots until the k-th of its own")
            }
            Limit::Bytes(b) => {
                (b, "(1 + D(B)) L/C, D(k): slots until the k-th of its own, a packet may have 1 B")
            }
        };
        let mut others = Vec::new();
        if let Limit::Bytes(bytes) = limit {
            others.push(Bound {
                delay: until(bytes / self.largest),
                formula: "(1 + D(B/L)) L/C, D(k): slots until the k-th of its own",
                condition: "if its packets have the largest size",
            });
        }
        let (own, all) = self.share(f);
        // How much later a slot is than at an even pace of the flow's share.
        let deviation = |(j, &place): (usize, &u64)| {
            i128::from(place * slots) - j as i128 * i128::from(self.frame)
        };
        let places = self.places(f);
        let (least, most) =
            places.iter().enumerate().map(deviation).fold((0, 0), |(l, m), d| (l.min(d), m.max(d)));
        let mut late = ((most - least) as u128 * PARTS).div_ceil(slots.into());
        for above in self.levels[..level].iter().rev() {
            let (kept, handed) = (u128::from(self.frame - above.handed), u128::from(above.handed));
            late = (late * u128::from(self.frame) + kept * (handed - 1) * PARTS).div_ceil(handed);
        }
        let latency = PARTS + (all * PARTS).div_ceil(own) + late;
        let latency = (latency * u128::from(self.slot.0)).div_ceil(PARTS);
        Ok(Guarantee {
            rate: Rate((u128::from(BIT_NANOS) * own / (all * u128::from(self.slot.0))) as u64),
            latency: Span(u64::try_from(latency).unwrap_or(u64::MAX)),
            rate_formula: "C s/L if its packets have 1 B, C s if they have the largest size, s its \
                           share of the slots",
            delay: Bound { delay: until(packets), formula, condition: "packets that found room" },
            others,
        })
    }

    fn settling(&self) -> Settling {
        Settling::OwnPackets(0)
    }

    fn only_on_a_link(&self) -> Option<&'static str> {
        Some("its slots are times on the link itself")
    }
}

impl Hrr {
    #[inline]
    fn join(&mut self, flows: &mut Flows<HrrFlow>, f: FlowId) {
        if flows.state(f).best_effort {
            self.best_effort.join(flows, 0, f);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::worked_example::{at_once, order, setup, values};

    /// A setup of flows given as (level, slots).
    fn slots(frame: u64, largest: u32, flows: &[(u64, u64)]) -> Setup {
        let flow = |&(level, slots): &(u64, u64)| {
            values([("level", Value::Count(level)), ("slots", Value::Count(slots))])
        };
        let scheduler = values([("frame", Value::Count(frame))]);
        Setup { scheduler, ..setup(largest, flows.iter().map(flow)) }
    }

    #[test]
    fn frames_of_frames_give_out_slots_and_leave_the_rest_empty() {
        let cells = at_once("AAAAAABBBBCCCC", 1);
        // The slots are A A | B C, A A | B -, and so on. B and C share half of the slots, and one
        // of four of these slots has no owner.
        let sent = order(&slots(4, 1, &[(1, 2), (2, 2), (2, 1)]), Hrr::new, &cells);
        let expected =
            "A1@1 A2@2 B1@3 C1@4 A3@5 A4@6 B2@7 A5@9 A6@10 B3@11 C2@12 B4@15 C3@20 C4@28";
        assert_eq!(sent, expected);
        // A best-effort flow gets the slots without an owner, and nothing else.
        let sent = order(&slots(4, 1, &[(1, 2), (2, 2), (2, 0)]), Hrr::new, &cells);
        let expected = "A1@1 A2@2 B1@3 B2@4 A3@5 A4@6 C1@7 C2@8 A5@9 A6@10 B3@11 B4@12 C3@13 C4@14";
        assert_eq!(sent, expected);
    }

    /// A packet smaller than a slot takes a whole slot, and starts with the slot.
    #[test]
    fn slots_begin_on_their_grid() {
        let setup = slots(2, 4, &[(1, 1), (1, 1)]);
        let packets = [(0, 'A', 1), (0, 'A', 3), (0, 'B', 4), (1, 'B', 2), (21, 'A', 1)];
        assert_eq!(order(&setup, Hrr::new, &packets), "A1@1 B1@8 A2@11 B2@14 A3@25");
        // A year later the frame is at the same position as if it had run all the time.
        let year = 365 * 86_400_000_000;
        let sent = order(&setup, Hrr::new, &[(year + 1, 'A', 1), (year + 1, 'B', 1)]);
        assert_eq!(sent, format!("B1@{} A1@{}", year + 5, year + 9));
    }
}
