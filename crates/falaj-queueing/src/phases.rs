//! Queues that one server serves in a ring, each for a phase: virtual links served phase by phase
//! (Fortuna and Chydzinski), with Poisson arrivals of packets of one length for each link.
//!
//! For each link a Markov chain from phase to phase is computed, on a grid of time. The pause
//! between two phases of a link is the sum of the other links' phases, as if each were drawn
//! independently (the usual decoupling of polling systems). The phase of a link of type A goes on
//! while its queue is empty. If all links are of type A and no phase ends early for a packet that
//! does not fit, the pauses are constant and only the grid is approximate.

/// A link of a server that serves links in a ring.
#[derive(Clone, Copy, Debug)]
pub struct PhasedLink {
    /// Packets per unit of time.
    pub rate: f64,
    /// Transmission time of a packet.
    pub service: f64,
    /// Length of its phase, at least `service`.
    pub phase: f64,
    /// True if the link's phase goes on while its queue is empty (type A).
    pub stays_empty: bool,
    /// Number of packets that find room, including the one in service.
    pub most: usize,
}

/// The expected delay and loss of a link in the ring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhasedDelay {
    /// Mean time from the arrival of a packet to the end of its service.
    pub mean: f64,
    /// The fraction of packets that find the queue full.
    pub loss: f64,
}

/// Steps of the grid in a packet's time.
const STEPS: usize = 16;
/// Maximum number of packets at a link for which the chain has probabilities.
const LONGEST: usize = 64;
/// Maximum number of cycles until the chains must be steady.
const CYCLES: usize = 4000;
/// Number of links, and steps of a phase, up to which the chains are computed.
const LARGEST: (usize, f64) = (16, 10_000.0);
/// Change of the probabilities of a cycle below which they are steady.
const STEADY: f64 = 1e-9;

/// The mean delays and losses of all links. If `skip` is set, a phase ends when the next packet
/// does not fit. `None` if no link is of type A, if there are too many links, or if a phase has too
/// many steps. Also `None` if more packets may be at a link than its chain has states for, or if
/// the chains do not become steady.
pub fn phased_delays(links: &[PhasedLink], skip: bool) -> Option<Vec<PhasedDelay>> {
    let steps = |link: &PhasedLink| link.phase / link.service * STEPS as f64;
    let small = links.len() <= LARGEST.0 && links.iter().all(|link| steps(link) <= LARGEST.1);
    if !small || !links.iter().any(|link| link.stays_empty) {
        return None;
    }
    let mut chains: Vec<Chain> = links.iter().map(|link| Chain::new(*link, skip)).collect();
    for _ in 0..CYCLES {
        let mut change: f64 = 0.0;
        for n in 0..chains.len() {
            let pause = pause(&chains, n);
            change = change.max(chains[n].cycle(&pause));
        }
        if change < STEADY {
            return chains.iter().map(Chain::delay).collect();
        }
    }
    None
}

/// Lengths of time, with their probabilities.
type Lengths = Vec<(f64, f64)>;

/// The sum of the phases of all links but the `n`th, on the grid of the shortest step.
fn pause(chains: &[Chain], n: usize) -> Lengths {
    let step = chains.iter().map(|chain| chain.step).fold(f64::INFINITY, f64::min);
    let mut constant = 0.0;
    let mut sum = vec![1.0];
    for (_, other) in chains.iter().enumerate().filter(|&(other, _)| other != n) {
        if let [(length, _)] = other.lengths[..] {
            constant += length;
            continue;
        }
        let last = other.lengths.iter().map(|&(length, _)| length).fold(0.0, f64::max);
        let mut next = vec![0.0; sum.len() + (last / step) as usize + 2];
        for &(length, probability) in &other.lengths {
            let place = length / step;
            let (whole, part) = (place as usize, place.fract());
            for (at, of) in sum.iter().enumerate() {
                next[at + whole] += of * probability * (1.0 - part);
                next[at + whole + 1] += of * probability * part;
            }
        }
        sum = next;
    }
    let lengths = sum.into_iter().enumerate().filter(|&(_, probability)| probability > 1e-14);
    lengths.map(|(at, probability)| (constant + at as f64 * step, probability)).collect()
}

/// Arrivals within a random length of time.
#[derive(Clone, Debug)]
struct Interval {
    mean: f64,
    /// Probability of each number of arrivals.
    exactly: Vec<f64>,
    /// Probability of more arrivals than each number.
    more: Vec<f64>,
}

impl Interval {
    fn new(rate: f64, most: usize, lengths: &[(f64, f64)]) -> Interval {
        let (mut exactly, mut more) = (vec![0.0; most + 1], vec![0.0; most + 1]);
        let mut mean = 0.0;
        for &(length, probability) in lengths {
            mean += length * probability;
            let (mut term, mut rest) = ((-rate * length).exp(), 1.0);
            for n in 0..=most {
                rest = f64::max(rest - term, 0.0);
                exactly[n] += probability * term;
                more[n] += probability * rest;
                term *= rate * length / (n + 1) as f64;
            }
        }
        Interval { mean, exactly, more }
    }

    /// Adds the distribution of the number in the system after the interval, if it is `from` at the
    /// start with probability `weight`. No more than `most` packets find room.
    fn add(&self, from: usize, weight: f64, to: &mut [f64]) {
        let most = to.len() - 1;
        let mut rest = weight;
        for (of, exactly) in to[from..most].iter_mut().zip(&self.exactly) {
            let part = weight * exactly;
            *of += part;
            rest -= part;
            if rest < 1e-16 {
                return;
            }
        }
        to[most] += rest;
    }

    /// The integral of the mean number in the system over the interval. The integral of the
    /// probability of `a` arrivals is the probability of more than `a` arrivals at the end, over
    /// the rate.
    fn number(&self, from: usize, most: usize, rate: f64) -> f64 {
        let room = most - from;
        let missing: f64 = (0..room).map(|a| (room - a) as f64 * self.more[a]).sum();
        most as f64 * self.mean - missing / rate.max(f64::MIN_POSITIVE)
    }
}

/// The Markov chain of a link.
struct Chain {
    link: PhasedLink,
    skip: bool,
    step: f64,
    /// Probability of each number in the system at the start of a phase.
    start: Vec<f64>,
    /// Lengths of its phase, with their probabilities.
    lengths: Lengths,
    service: Interval,
    /// Arrivals in the rest of the phase, from each of its last steps on; the last step comes
    /// first.
    tails: Vec<Interval>,
    /// Sums over the last cycle: integral of the number in the system, packets served, length.
    sums: (f64, f64, f64),
}

impl Chain {
    fn new(link: PhasedLink, skip: bool) -> Chain {
        let (most, step) = (link.most.min(LONGEST), link.service / STEPS as f64);
        let interval = |length: f64| Interval::new(link.rate, most, &[(length, 1.0)]);
        let steps = (link.phase / step * (1.0 + 1e-12)) as usize;
        let rest = link.phase - steps as f64 * step;
        let mut start = vec![0.0; most + 1];
        start[0] = 1.0;
        Chain {
            link,
            skip,
            step,
            start,
            lengths: vec![(link.phase, 1.0)],
            service: interval(link.service),
            tails: (0..=STEPS).map(|n| interval(f64::max(rest + n as f64 * step, 0.0))).collect(),
            sums: (0.0, 0.0, 0.0),
        }
    }

    /// Advances the chain by a phase and the pause after it. Returns the change of the
    /// probabilities at the start.
    fn cycle(&mut self, pause: &[(f64, f64)]) -> f64 {
        let PhasedLink { rate, phase, stays_empty, .. } = self.link;
        let most = self.start.len() - 1;
        let steps = (phase / self.step * (1.0 + 1e-12)) as usize;
        let mut decide = vec![vec![0.0; most + 1]; steps + STEPS + 1];
        decide[0].clone_from(&self.start);
        let mut end = vec![0.0; most + 1];
        let mut lengths: Lengths = Vec::new();
        let (mut number, mut served, mut length) = (0.0, 0.0, 0.0);
        let stays = (-rate * self.step).exp();
        for at in 0..=steps {
            let now = at as f64 * self.step;
            let empty = decide[at][0];
            if empty > 0.0 && at < steps && stays_empty {
                // The service of a packet that comes within the step begins with probability 1/2 at
                // the step's start, otherwise at its end.
                let comes = empty * (1.0 - stays) / 2.0;
                decide[at + 1][0] += empty * stays;
                decide[at][1] += comes;
                decide[at + 1][1] += comes;
            } else if empty > 0.0 {
                let over = if stays_empty { phase } else { now };
                if stays_empty {
                    let rest = &self.tails[0];
                    rest.add(0, empty, &mut end);
                    number += empty * rest.number(0, most, rate);
                } else {
                    end[0] += empty;
                }
                lengths.push((over, empty));
                length += over * empty;
            }
            let fits = at + STEPS <= steps;
            for n in 1..=most {
                let weight = decide[at][n];
                if weight < 1e-18 {
                    continue;
                }
                if fits {
                    let (_, later) = decide.split_at_mut(at + 1);
                    let after = &mut later[STEPS - 1];
                    let mut left = vec![0.0; most + 1];
                    self.service.add(n, weight, &mut left);
                    for (to, of) in after.iter_mut().zip(&left[1..]) {
                        *to += of;
                    }
                    number += weight * self.service.number(n, most, rate);
                    served += weight;
                } else if self.skip {
                    end[n] += weight;
                    lengths.push((now, weight));
                    length += now * weight;
                } else {
                    let rest = &self.tails[steps - at];
                    rest.add(n, weight, &mut end);
                    number += weight * rest.number(n, most, rate);
                    lengths.push((phase, weight));
                    length += phase * weight;
                }
            }
        }
        let pause = Interval::new(rate, most, pause);
        let mut start = vec![0.0; most + 1];
        for (n, &weight) in end.iter().enumerate() {
            pause.add(n, weight, &mut start);
            number += weight * pause.number(n, most, rate);
        }
        self.sums = (number, served, length + pause.mean);
        self.lengths = merged(lengths);
        let change = self.start.iter().zip(&start).map(|(a, b)| (a - b).abs()).sum();
        self.start = start;
        change
    }

    /// The mean delay, by Little's law, of the packets that found room, and the loss. `None` if the
    /// chain is shorter than the queue and its last state is reached.
    fn delay(&self) -> Option<PhasedDelay> {
        let (number, served, length) = self.sums;
        let loss = (1.0 - served / (self.link.rate * length)).max(0.0);
        let whole = self.link.most < self.start.len() || loss < 1e-6;
        whole.then_some(PhasedDelay { mean: number / served, loss })
    }
}

/// Makes one length of equal lengths, with the sum of their probabilities.
fn merged(lengths: Lengths) -> Lengths {
    let mut all: Lengths = Vec::new();
    let mut sorted = lengths;
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (length, probability) in sorted {
        match all.last_mut() {
            Some((last, sum)) if *last == length => *sum += probability,
            _ => all.push((length, probability)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The load is so low that no packet meets another packet, and the cycle has 60 us. A packet
    /// that comes in the first 26 us of the phase is sent at once. Any other packet waits for the
    /// next phase, 17 us on average.
    #[test]
    fn a_single_packet_waits_for_the_rest_of_the_cycle() {
        let link =
            PhasedLink { rate: 1e-6, service: 4.0, phase: 30.0, stays_empty: true, most: 20 };
        let delay = phased_delays(&[link; 2], false).expect("steady")[0].mean;
        let by_hand = 4.0 + 34.0 * 34.0 / 2.0 / 60.0;
        assert!((delay - by_hand).abs() < 0.01 * by_hand, "{delay}, {by_hand}");
    }

    /// Alone in its ring, a link of type A whose phases end when the next packet does not fit is
    /// M/D/1.
    #[test]
    fn alone_a_link_is_a_plain_server() {
        let link =
            PhasedLink { rate: 0.15, service: 4.0, phase: 40.0, stays_empty: false, most: 20 };
        assert_eq!(phased_delays(&[link], false), None, "no link of type A");
        let a = PhasedLink { stays_empty: true, ..link };
        let delay = phased_delays(&[a], true).expect("steady")[0].mean;
        // A packet that comes in the last 4 us waits for the end of the phase if tails pass unused.
        assert!((delay - 7.0).abs() < 0.07, "{delay}");
    }
}
