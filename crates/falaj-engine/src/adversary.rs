//! Searches for arrivals that make a flow lag as much as possible. The result shows how close the
//! lag can come to a bound on the worst-case fair index, and whether it exceeds the bound.
//!
//! The search draws a random sequence and changes it a little, over and over. It keeps a change
//! unless the largest ratio of lag to bound falls. After a number of changes it draws a new
//! sequence. The result depends on seed and effort only.

use crate::chance::Chance;
use crate::engine::Engine;
use crate::fairness::{self, Fairness, Sizes};
use crate::message::{Emit, Output, PipeId, Unit};
use crate::pipe::PipeSpec;
use falaj_sched::contract::params::ConfigErrors;
use falaj_sched::disciplines::wf2q_plus;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};
use rand_core::Rng;
use std::sync::atomic::{AtomicBool, Ordering};

/// A packet of a sequence of arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdversaryStep {
    /// Time since the step before.
    pub gap: Span,
    /// The packet's flow.
    pub flow: u32,
    /// Its length in bytes, as the link accounts it.
    pub bytes: u32,
}

/// The pipe whose worst arrivals are searched. Its flows share the link in proportion to `weights`.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// The discipline and its setup.
    pub spec: &'a PipeSpec,
    /// The flows' weights.
    pub weights: &'a [u64],
    /// Size of the largest packet of each flow, in bytes.
    pub largest: &'a [u32],
}

/// The lag of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lag {
    /// The flow whose ratio of B-WFI to bound is the largest.
    pub flow: usize,
    /// The fairness indices of that flow.
    pub fairness: Fairness,
    /// The bound on the B-WFI, in bytes.
    pub bound: f64,
    /// B-WFI divided by the bound.
    pub ratio: f64,
}

/// The worst case that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct WorstCase {
    /// The arrivals.
    pub steps: Vec<AdversaryStep>,
    /// The lag that they cause.
    pub lag: Lag,
    /// Number of sequences tried.
    pub tried: u64,
}

impl Subject<'_> {
    /// Sends the packets through the pipe, and returns all that left.
    pub fn run(&self, steps: &[AdversaryStep]) -> Result<Vec<Emit>, ConfigErrors> {
        let mut engine =
            Engine::new(std::slice::from_ref(self.spec)).map_err(|(_, refused)| refused)?;
        let (mut now, mut out) = (Time::ZERO, Vec::new());
        for (step, handle) in steps.iter().zip(0..) {
            now += step.gap;
            engine.input(
                PipeId(0),
                Unit { flow: FlowId(step.flow), handle, bytes: step.bytes },
                now,
                &mut out,
            );
        }
        while engine.next_event() != Time::NEVER {
            engine.poll(engine.next_event(), &mut out);
        }
        Ok(out
            .into_iter()
            .filter_map(|o| if let Output::Emit(e) = o { Some(e) } else { None })
            .collect())
    }

    /// The lag that these arrivals cause; see [`lag_of`](Subject::lag_of).
    pub fn lag(&self, steps: &[AdversaryStep]) -> Result<Option<Lag>, ConfigErrors> {
        Ok(self.lag_of(&self.run(steps)?))
    }

    /// The lag of the flow whose ratio of lag to bound is the largest. The bound is the
    /// discipline's own ([`known`](fairness::known)), or that of WF2Q+ for a discipline without
    /// one. `None` if nothing was sent.
    pub fn lag_of(&self, sent: &[Emit]) -> Option<Lag> {
        let mut sizes = vec![Sizes::default(); self.weights.len()];
        sent.iter().for_each(|e| sizes[e.flow.index()].add(e.bytes));
        let known = |kind| fairness::known(kind, self.weights, &sizes, self.spec.setup.largest);
        let known = known(self.spec.kind).or_else(|| known(wf2q_plus::MANIFEST.kind))?;
        let indices = fairness::measure(self.spec.setup.rate, self.weights, sent);
        let lag = |(flow, index): (usize, Option<Fairness>)| {
            let (fairness, bound) = (index?, known.bytes[flow]);
            Some(Lag { flow, fairness, bound, ratio: fairness.b_wfi.amount / bound })
        };
        indices.into_iter().enumerate().filter_map(lag).max_by(|a, b| a.ratio.total_cmp(&b.ratio))
    }

    /// Tries `effort` sequences, or fewer if `stop` is set before, and returns the worst case
    /// found. `tried` is called once for each sequence.
    pub fn search(
        &self,
        seed: u64,
        effort: u64,
        stop: &AtomicBool,
        mut tried: impl FnMut(),
    ) -> Result<Option<WorstCase>, ConfigErrors> {
        let mut dice = Dice { chance: Chance::new(seed, 0, 0), subject: self };
        let climb = (effort / RESTARTS).max(1);
        let mut worst: Option<WorstCase> = None;
        let mut here: Option<(Vec<AdversaryStep>, Lag)> = None;
        for n in 0..effort {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            if n % climb == 0 {
                here = None;
            }
            let steps = match &here {
                Some((steps, _)) => dice.changed(steps),
                None => dice.sequence(),
            };
            tried();
            let Some(lag) = self.lag(&steps)? else { continue };
            if worst.as_ref().is_none_or(|w| lag.ratio > w.lag.ratio) {
                worst = Some(WorstCase { steps: steps.clone(), lag, tried: 0 });
            }
            if here.as_ref().is_none_or(|(_, known)| lag.ratio >= known.ratio) {
                here = Some((steps, lag));
            }
            worst.iter_mut().for_each(|w| w.tried = n + 1);
        }
        Ok(worst)
    }
}

const RESTARTS: u64 = 8;
/// A change adds packets only to a sequence of fewer packets than this.
const LONGEST: u64 = 80;

struct Dice<'a> {
    chance: Chance,
    subject: &'a Subject<'a>,
}

impl Dice<'_> {
    /// A random number below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.chance.next_u64() % n
    }

    /// Draws a gap between packets: zero in half of the draws, else up to the transmission time of
    /// 8 largest packets.
    fn gap(&mut self) -> Span {
        let packet = self.subject.spec.setup.largest_airtime().0.max(1);
        match self.below(6) {
            0 => Span(self.below(packet)),
            1 => Span(packet),
            2 => Span(self.below(8 * packet)),
            _ => Span(0),
        }
    }

    /// Draws a packet's length: the largest, a single byte, or any length between these.
    fn bytes(&mut self, flow: u32) -> u32 {
        let largest = self.subject.largest[flow as usize].max(1);
        match self.below(4) {
            0 => 1,
            1 => 1 + self.below(u64::from(largest)) as u32,
            _ => largest,
        }
    }

    fn step(&mut self) -> AdversaryStep {
        let flow = self.below(self.subject.weights.len() as u64) as u32;
        AdversaryStep { gap: self.gap(), flow, bytes: self.bytes(flow) }
    }

    /// Draws a sequence of bursts. A burst has 1 to 6 packets of one flow that arrive together.
    fn sequence(&mut self) -> Vec<AdversaryStep> {
        let mut steps = Vec::new();
        let length = 10 + self.below(LONGEST / 2);
        while (steps.len() as u64) < length {
            let step = self.step();
            steps.push(step);
            for _ in 0..self.below(6) {
                steps.push(AdversaryStep { gap: Span(0), ..step });
            }
        }
        steps
    }

    /// This sequence with a few steps changed.
    fn changed(&mut self, steps: &[AdversaryStep]) -> Vec<AdversaryStep> {
        let mut steps = steps.to_vec();
        for _ in 0..1 + self.below(3) {
            let at = self.below(steps.len() as u64) as usize;
            match self.below(8) {
                0 => steps[at].gap = self.gap(),
                1 => {
                    let (gap, nudge) = (steps[at].gap, Span(1 + self.below(64)));
                    steps[at].gap = if self.below(2) == 0 {
                        gap + nudge
                    } else {
                        Span(gap.0.saturating_sub(nudge.0))
                    };
                }
                2 => steps[at].bytes = self.bytes(steps[at].flow),
                3 => steps[at] = AdversaryStep { gap: steps[at].gap, ..self.step() },
                4 if steps.len() > 2 => drop(steps.remove(at)),
                5 if (steps.len() as u64) < LONGEST => {
                    let step = self.step();
                    steps.insert(at, step);
                }
                6 if (steps.len() as u64) < LONGEST => {
                    steps.insert(at, AdversaryStep { gap: Span(0), ..steps[at] });
                }
                _ => {
                    let other = self.below(steps.len() as u64) as usize;
                    steps.swap(at, other);
                }
            }
        }
        steps
    }
}
