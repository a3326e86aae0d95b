//! Loss: packets that the link loses.

use super::event::{Draw, EventState, RandomEvent, RngStream};
use super::transit::{Impairment, ImpairmentState, LinkDelays, Transit};
use falaj_sched::units::probability::Probability;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A model of loss.
#[derive(Clone, Debug, PartialEq)]
pub enum Loss {
    /// Each packet is lost with a probability.
    Random(RandomEvent),
    /// The model of Gilbert and Elliott.
    GilbertElliott(GilbertElliott),
    /// A Markov chain of four states.
    FourStates(FourStates),
    /// The last of every `n` packets of each flow is lost.
    Every(u64),
    /// The packets of each flow with these numbers are lost. The first packet has number 1; the
    /// ranges are in order and do not overlap.
    Numbers(Arc<[RangeInclusive<u64>]>),
}

impl Loss {
    /// The fraction of packets lost in the long run; zero for a list of numbers.
    pub fn mean(&self) -> f64 {
        match self {
            Loss::Random(event) => event.probability.as_f64(),
            Loss::GilbertElliott(model) => {
                let bad = model.bad();
                (1.0 - bad) * model.loss_good.as_f64() + bad * model.loss_bad.as_f64()
            }
            Loss::FourStates(chain) => chain.mean(),
            Loss::Every(n) => 1.0 / *n as f64,
            Loss::Numbers(_) => 0.0,
        }
    }
}

impl Impairment for Loss {
    fn state(&self, _: &LinkDelays) -> Box<dyn ImpairmentState> {
        Box::new(LossState::new(self.clone()))
    }

    fn words(&self) -> String {
        match self {
            Loss::Random(event) => format!("loses {event}"),
            Loss::GilbertElliott(_) | Loss::FourStates(_) => {
                let mean = Probability::from_f64((self.mean() * 1e6).round() / 1e6);
                format!("loses {mean} in bursts")
            }
            Loss::Every(n) => format!("loses 1 packet of {n}"),
            Loss::Numbers(_) => "loses packets by number".to_owned(),
        }
    }

    fn loses(&self) -> bool {
        true
    }

    fn breaks_streams(&self) -> bool {
        true
    }
}

/// A good and a bad state, each with its own loss. The state may change after each packet, and has
/// its stationary distribution from the first packet on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GilbertElliott {
    /// Probability of a transition from good to bad; above zero.
    pub to_bad: Probability,
    /// Probability of a transition from bad to good; above zero.
    pub to_good: Probability,
    /// Probability of loss in the bad state.
    pub loss_bad: Probability,
    /// Probability of loss in the good state.
    pub loss_good: Probability,
}

impl GilbertElliott {
    /// Stationary probability of the bad state.
    fn bad(&self) -> f64 {
        let (to_bad, to_good) = (self.to_bad.as_f64(), self.to_good.as_f64());
        to_bad / (to_bad + to_good)
    }
}

/// A Markov chain of gaps, in which packets arrive except for single losses, and bursts, in which
/// packets are lost except for some. States are numbered as in netem. In a gap, packets arrive in
/// state 1 and are lost in state 4, which state 1 follows; in a burst, they arrive in state 2 and
/// are lost in state 3. A chain begins in state 1. The probabilities of leaving a state add up to 1
/// at most, and if `p32` is above zero, so is `p23`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FourStates {
    /// Probability of a transition from a gap into a burst.
    pub p13: Probability,
    /// Probability of a transition from a burst into a gap.
    pub p31: Probability,
    /// Probability of a transition, within a burst, from a lost packet to a packet that arrives.
    pub p32: Probability,
    /// Probability of a transition, within a burst, from a packet that arrives to a lost packet.
    pub p23: Probability,
    /// Probability of a single loss in a gap.
    pub p14: Probability,
}

impl FourStates {
    /// The fraction lost in the long run, from the balance of transitions into and out of each
    /// state.
    fn mean(&self) -> f64 {
        let [p13, p31, p32, p23, p14] =
            [self.p13, self.p31, self.p32, self.p23, self.p14].map(Probability::as_f64);
        if p31 == 0.0 {
            // A burst without an end.
            return if p13 == 0.0 { p14 / (1.0 + p14) } else { p23 / (p23 + p32) };
        }
        let (one, three) = (1.0, p13 / p31);
        let two = if p32 == 0.0 { 0.0 } else { three * p32 / p23 };
        let four = one * p14;
        (three + four) / (one + two + three + four)
    }
}

/// State of a loss model.
#[derive(Debug)]
enum LossState {
    Random(EventState),
    GilbertElliott { model: GilbertElliott, stationary: Probability, bad: Option<bool> },
    FourStates { chain: FourStates, state: u8 },
    Every(u64),
    Numbers(Arc<[RangeInclusive<u64>]>),
}

impl LossState {
    fn new(loss: Loss) -> LossState {
        match loss {
            Loss::Random(event) => LossState::Random(EventState::new(event)),
            Loss::GilbertElliott(model) => LossState::GilbertElliott {
                model,
                stationary: Probability::from_f64(model.bad()),
                bad: None,
            },
            Loss::FourStates(chain) => LossState::FourStates { chain, state: 1 },
            Loss::Every(n) => LossState::Every(n),
            Loss::Numbers(numbers) => LossState::Numbers(numbers),
        }
    }

    fn loses(&mut self, draw: Draw) -> bool {
        match self {
            LossState::Random(event) => event.happens(draw),
            LossState::GilbertElliott { model, stationary, bad } => {
                let now = bad.unwrap_or_else(|| stationary.hits(draw.in_turn(2)));
                let change = if now { model.to_good } else { model.to_bad };
                *bad = Some(now != change.hits(draw.in_turn(0)));
                let loss = if now { model.loss_bad } else { model.loss_good };
                loss.hits(draw.in_turn(1))
            }
            LossState::FourStates { chain, state } => {
                let draw = draw.in_turn(0);
                *state = match *state {
                    1 if chain.p14.hits(draw) => 4,
                    1 if chain.p14.or(chain.p13).hits(draw) => 3,
                    2 if chain.p23.hits(draw) => 3,
                    3 if chain.p32.hits(draw) => 2,
                    3 if chain.p32.or(chain.p31).hits(draw) => 1,
                    4 => 1,
                    same => same,
                };
                *state >= 3
            }
            LossState::Every(n) => (draw.number + 1).is_multiple_of(*n),
            LossState::Numbers(numbers) => {
                let number = draw.number + 1;
                let after = numbers.partition_point(|range| *range.end() < number);
                numbers.get(after).is_some_and(|range| range.contains(&number))
            }
        }
    }
}

impl ImpairmentState for LossState {
    fn on_wire(&mut self, packet: &mut Transit) {
        packet.lost |= self.loses(packet.draw(RngStream::Loss));
    }
}
