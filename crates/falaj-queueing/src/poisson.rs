//! A server with Poisson arrivals: mean wait, its distribution, and the loss at a full queue.
//!
//! Times have one unit, and rates are per that unit.

/// Packets that arrive at a server as a Poisson process (M/G/1).
#[derive(Clone, Debug, Default)]
pub struct PoissonServer {
    /// Service times, each with the rate of the packets that have it.
    parts: Vec<(f64, f64)>,
}

/// Loss and wait at a server whose queue holds a limited number of packets (M/G/1/K).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitedQueue {
    /// The fraction of packets that find the queue full.
    pub loss: f64,
    /// Mean wait of the other packets, before their service.
    pub mean_wait: f64,
}

impl PoissonServer {
    /// Packets by their service time: pairs of a time and of the rate of packets with it.
    pub fn new(parts: impl IntoIterator<Item = (f64, f64)>) -> PoissonServer {
        PoissonServer { parts: parts.into_iter().filter(|&(_, rate)| rate > 0.0).collect() }
    }

    fn sum(&self, of: impl Fn(f64) -> f64) -> f64 {
        self.parts.iter().map(|&(time, rate)| rate * of(time)).sum()
    }

    /// Packets per unit of time.
    pub fn rate(&self) -> f64 {
        self.sum(|_| 1.0)
    }

    /// Utilisation: arriving work divided by the server's capacity.
    pub fn load(&self) -> f64 {
        self.sum(|time| time)
    }

    /// Mean remaining service time at a random instant; an idle server counts as zero. The result
    /// holds for a load of at most 1.
    pub fn residual(&self) -> f64 {
        self.sum(|time| time * time) / 2.0
    }

    /// Mean wait in order of arrival (Pollaczek and Khinchine); `None` if the load is 1 or more. In
    /// any other work-conserving order without interruption, it is the mean wait weighted by
    /// service time (conservation law, Kleinrock 1965).
    pub fn mean_wait(&self) -> Option<f64> {
        (self.load() < 1.0).then(|| self.residual() / (1.0 - self.load()))
    }

    /// Upper bound on the probability that more than `work` is unfinished at a random instant
    /// (Kingman 1964); 1 if the load is 1 or more.
    pub fn unfinished(&self, work: f64) -> f64 {
        if self.load() >= 1.0 || work <= 0.0 {
            return 1.0;
        }
        // The positive root of this convex function, which is negative below the root.
        let excess = |decay: f64| self.sum(|time| (decay * time).exp_m1()) - decay;
        let mut high = self.load() / self.residual();
        while excess(high) < 0.0 {
            high *= 2.0;
        }
        let mut low = 0.0;
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if excess(middle) < 0.0 { low = middle } else { high = middle }
        }
        (-low * work).exp()
    }

    /// Exact loss and wait if no more than `most` packets find room, including the one in service.
    ///
    /// The numbers of packets that departing packets leave behind are a Markov chain. Each
    /// probability follows from the earlier ones, because the number passes each level as often
    /// upwards as downwards. All terms are positive. (Takagi, *Queueing Analysis* 2, 1993, section
    /// 5.1.)
    pub fn limited(&self, most: usize) -> LimitedQueue {
        let more = self.arrivals_beyond();
        let none = 1.0 - more[0];
        let beyond = |arrivals: usize| more.get(arrivals).copied().unwrap_or(0.0);
        let mut left = vec![1.0];
        let (mut sum, mut packets) = (1.0, 0.0);
        for level in 1..most.max(1) {
            // From an empty queue the next service begins with the next arrival.
            let first = level.saturating_sub(more.len()).max(1);
            let upwards: f64 =
                (first..level).map(|from| left[from] * beyond(level - from)).sum::<f64>();
            let next = (left[0] * beyond(level - 1) + upwards) / none;
            left.push(next);
            sum += next;
            packets += level as f64 * next;
            if sum > 1e200 {
                left.iter_mut().for_each(|of| *of /= sum);
                packets /= sum;
                sum = 1.0;
            }
        }
        // A packet arrives with probability p_n while there are n: p_n = left_n / (left_0 + load).
        let whole = left[0] / sum + self.load();
        let loss = (1.0 - 1.0 / whole).max(0.0);
        let taken = self.rate() * (1.0 - loss);
        let number = packets / sum / whole + most as f64 * loss;
        let mean_wait = (number / taken - self.load() / self.rate()).max(0.0);
        LimitedQueue { loss, mean_wait }
    }

    /// For each number `n`, the probability of more than `n` arrivals during a service.
    fn arrivals_beyond(&self) -> Vec<f64> {
        let (all, rate) = (self.rate(), self.rate());
        let mut more: Vec<f64> = Vec::new();
        for &(time, part) in &self.parts {
            let (mean, share) = (rate * time, part / all);
            // Beyond this number the probabilities are below the precision of a float.
            let last = (mean + 12.0 * mean.sqrt() + 30.0).ceil() as usize;
            more.resize(more.len().max(last), 0.0);
            let mut logarithm = -mean;
            let exactly: Vec<f64> = (1..=last)
                .map(|n| {
                    logarithm += (mean / n as f64).ln();
                    logarithm.exp()
                })
                .collect();
            let mut sum = 0.0;
            for n in (0..last).rev() {
                sum += exactly[n];
                more[n] += share * sum;
            }
        }
        more
    }

    /// The distribution of the wait in order of arrival; `None` for a load of 0, of 1 or more, or
    /// so near to 1 that the table would be too long.
    pub fn waits(&self) -> Option<WaitTable> {
        WaitTable::of(self)
    }
}

/// Mean waits if packets of an earlier rank are served first, each rank in order of arrival and
/// without interruption (Cobham 1954). `None` for all ranks if their load together is 1 or more.
pub fn mean_waits_by_rank(ranks: &[PoissonServer]) -> Vec<Option<f64>> {
    let total: f64 = ranks.iter().map(PoissonServer::load).sum();
    let residual: f64 = ranks.iter().map(PoissonServer::residual).sum();
    let mut before = 0.0;
    let wait = |rank: &PoissonServer| {
        let with = before + rank.load();
        let wait = residual / ((1.0 - before) * (1.0 - with));
        before = with;
        (total < 1.0).then_some(wait)
    };
    ranks.iter().map(wait).collect()
}

/// The distribution of a wait, on a grid.
#[derive(Clone, Debug)]
pub struct WaitTable {
    step: f64,
    /// First the probability of no wait; then, at index `n`, that of a wait of at most `n - 1/2`
    /// steps.
    at_most: Vec<f64>,
}

impl WaitTable {
    /// Steps of the grid within the longest service.
    const STEPS: f64 = 256.0;
    /// Maximum number of values in the table.
    const LONGEST: usize = 200_000;
    /// The table ends when it has all but this fraction of the packets.
    const REST: f64 = 1e-4;

    /// The wait is a geometric sum of remaining service times (Pollaczek and Khinchine). Panjer's
    /// recursion (1981) computes it. Each remaining time is divided between the two steps beside it
    /// so that the mean is exact.
    fn of(server: &PoissonServer) -> Option<WaitTable> {
        let load = server.load();
        if load >= 1.0 || load <= 0.0 {
            return None;
        }
        let longest = server.parts.iter().map(|&(time, _)| time).fold(0.0, f64::max);
        let step = longest / WaitTable::STEPS;
        // The integral of the tail of the remaining time from x on: the mean excess.
        let excess = |x: f64| server.sum(|time| (time - x).max(0.0).powi(2)) / 2.0 / load;
        let steps: Vec<f64> = (0..=WaitTable::STEPS as usize + 1)
            .map(|n| {
                let [before, here, after] = [-1.0, 0.0, 1.0].map(|by| {
                    let x = (n as f64 + by) * step;
                    if x < 0.0 { excess(0.0) - x } else { excess(x) }
                });
                (before - 2.0 * here + after) / step
            })
            .collect();
        let again = load / (1.0 - load * steps[0]);
        let mut exactly = vec![(1.0 - load) / (1.0 - load * steps[0])];
        let mut at_most = vec![1.0 - load, exactly[0]];
        while at_most[at_most.len() - 1] < 1.0 - WaitTable::REST {
            let n = exactly.len();
            if n == WaitTable::LONGEST {
                return None;
            }
            let last = n.min(steps.len() - 1);
            let sum: f64 = (1..=last).map(|by| steps[by] * exactly[n - by]).sum();
            exactly.push(again * sum);
            at_most.push(at_most[n] + again * sum);
        }
        Some(WaitTable { step, at_most })
    }

    /// Probability of a wait of at most `time`.
    pub fn at_most(&self, time: f64) -> f64 {
        if time < 0.0 {
            return 0.0;
        }
        // Value 0 is at time 0, value `n` at `n - 1/2` steps.
        let place = time / self.step + 0.5;
        let (from, part) = match place {
            place if place < 1.0 => (0, 2.0 * place - 1.0),
            place => (place as usize, place.fract()),
        };
        let value = |n: usize| self.at_most.get(n).copied().unwrap_or(1.0);
        value(from) + part * (value(from + 1) - value(from))
    }

    /// The delay, including the service, that the fraction `share` of packets with these service
    /// times does not exceed. `share` is at most 0.999.
    pub fn delay_quantile(&self, services: &PoissonServer, share: f64) -> f64 {
        let all = services.rate();
        let within = |delay: f64| services.sum(|time| self.at_most(delay - time)) / all;
        let longest = services.parts.iter().map(|&(time, _)| time).fold(0.0, f64::max);
        let (mut low, mut high) = (0.0, longest + self.step * self.at_most.len() as f64);
        for _ in 0..50 {
            let middle = f64::midpoint(low, high);
            if within(middle) < share { low = middle } else { high = middle }
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, error: f64) {
        assert!((a - b).abs() <= error * b.abs().max(1e-12), "{a} is not {b}");
    }

    /// Mean waits of Erlang's M/D/1, and of a mix by hand: packets of 1 and 3 units, equally often,
    /// at a load of 0.5. Their rate is 0.25, so the residual is 0.25 (0.5 + 4.5) / 2 = 0.625.
    #[test]
    fn mean_waits_are_those_of_pollaczek_and_khinchine() {
        for load in [0.1, 0.5, 0.9] {
            let server = PoissonServer::new([(2.0, load / 2.0)]);
            near(server.mean_wait().unwrap(), load / (1.0 - load), 1e-12);
        }
        let mix = PoissonServer::new([(1.0, 0.125), (3.0, 0.125)]);
        near(mix.load(), 0.5, 1e-12);
        near(mix.mean_wait().unwrap(), 1.25, 1e-12);
        assert_eq!(PoissonServer::new([(1.0, 1.0)]).mean_wait(), None);
    }

    /// The weighted sum of the waits is the same as in order of arrival. By hand, the waits of two
    /// ranks with loads of 0.3 and 0.5 and packets of one length are 0.4 / 0.7 and 0.4 / (0.7 *
    /// 0.2).
    #[test]
    fn ranks_divide_the_wait_as_cobham_says() {
        let ranks = [0.3, 0.5].map(|rate| PoissonServer::new([(1.0, rate)]));
        let waits: Vec<f64> = mean_waits_by_rank(&ranks).into_iter().flatten().collect();
        near(waits[0], 0.4 / 0.7, 1e-12);
        near(waits[1], 0.4 / 0.14, 1e-12);
        let all = PoissonServer::new([(1.0, 0.8)]);
        near(0.3 * waits[0] + 0.5 * waits[1], 0.8 * all.mean_wait().unwrap(), 1e-12);
        assert_eq!(mean_waits_by_rank(&[all.clone(), all]), [None, None]);
    }

    /// With room for one packet the loss is `load / (1 + load)`, whatever the services are. With
    /// room for two packets of one length the loss is, by hand, `1 - 1 / (e^-a + a)` at load `a`:
    /// with `left_0 = 1` the chain has `left_1 = (1 - e^-a) / e^-a`; divided by their sum,
    /// `left_0 = e^-a`.
    #[test]
    fn short_queues_lose_what_the_chain_says() {
        for load in [0.2_f64, 1.0, 3.0] {
            let server = PoissonServer::new([(1.0, load)]);
            let one = server.limited(1);
            near(one.loss, load / (1.0 + load), 1e-12);
            near(one.mean_wait, 0.0, 1e-12);
            near(server.limited(2).loss, 1.0 - 1.0 / ((-load).exp() + load), 1e-12);
        }
    }

    /// A long queue behaves as one without a limit. A queue that is always full loses the excess,
    /// and a packet that enters it waits for all packets before it.
    #[test]
    fn long_queues_lose_nothing_or_the_excess() {
        let server = PoissonServer::new([(1.0, 0.5), (2.0, 0.1)]);
        let long = server.limited(400);
        near(long.mean_wait, server.mean_wait().unwrap(), 1e-9);
        assert!(long.loss < 1e-12, "{}", long.loss);
        let full = PoissonServer::new([(1.0, 4.0)]).limited(1000);
        near(full.loss, 0.75, 1e-12);
        // 999 packets are before it, and the first of these packets has been served in part.
        near(full.mean_wait, 998.5, 1e-3);
    }

    /// Erlang's series for M/D/1: `P[W <= t] = (1 - a) sum over k of (a (k - t))^k e^(a (t - k)) /
    /// k!`.
    #[test]
    fn waits_are_distributed_as_erlang_says() {
        for load in [0.3_f64, 0.8] {
            let server = PoissonServer::new([(1.0, load)]);
            let waits = server.waits().unwrap();
            for time in [0.0_f64, 0.25, 0.5, 1.5, 2.2, 4.7] {
                let series: f64 = (0..=time as i32)
                    .map(|k| {
                        let x = load * (f64::from(k) - time);
                        x.powi(k) * (-x).exp() / (1..=k).map(f64::from).product::<f64>()
                    })
                    .sum();
                near(waits.at_most(time), (1.0 - load) * series, 2e-4);
            }
            let p99 = waits.delay_quantile(&server, 0.99);
            near(waits.at_most(p99 - 1.0), 0.99, 1e-6);
        }
    }

    /// Kingman's bound is above the distribution, and has its decay.
    #[test]
    fn the_bound_on_unfinished_work_is_above_its_probability() {
        let server = PoissonServer::new([(1.0, 0.3), (2.0, 0.25)]);
        let waits = server.waits().unwrap();
        for work in [1.0, 5.0, 20.0] {
            let (bound, exact) = (server.unfinished(work), 1.0 - waits.at_most(work));
            assert!(exact <= bound && bound < 2.0 * exact, "{work}: {exact}, {bound}");
        }
        assert_eq!(PoissonServer::new([(1.0, 1.0)]).unfinished(9.0), 1.0);
    }
}
