//! By how much the delay of each packet differs from the link's.

use super::distribution::Distribution;
use super::event::{Draw, RngStream};
use super::jitter_process::JitterPath;
use super::transit::{Impairment, ImpairmentState, Irregularity, LinkDelays, Transit};
use falaj_sched::units::probability::Probability;
use falaj_sched::units::time::{Span, Time};

/// Delays that differ: the link's delay is their mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Jitter {
    /// Uniform: as much as this less or more. Otherwise the standard deviation.
    pub amount: Span,
    /// How delays are distributed.
    pub distribution: Distribution,
    /// How often a packet's delay is that of the one before it; otherwise it
    /// is drawn. Mean and deviation are the same with and without.
    pub correlation: Probability,
    /// None overtakes: while packets follow each other closely, delays go on from one to the next,
    /// and each has this distribution for all that.
    pub keeps_order: bool,
}

/// The most that jitter may be: far beyond any link, and far below where
/// products of it would overflow.
pub const JITTER_MAX: Span = Span::from_secs(3600);

impl Jitter {
    /// The least and the greatest delay that may be drawn.
    pub fn range(&self, delay: Span) -> (Span, Span) {
        let offsets = JitterState::new(self, delay);
        let of = |offset: i64| Span(delay.0.saturating_add_signed(offset));
        match offsets.by {
            OffsetDistribution::Range(amount) => {
                (Span(delay.0.saturating_sub(amount)), Span(delay.0.saturating_add(amount)))
            }
            OffsetDistribution::Table(table) => {
                (of(table[0]), of(*table.last().expect("a table has points")))
            }
        }
    }

    /// Mean and deviation of what is drawn, in nanoseconds, where a part of it
    /// would be less than nothing and is nothing; `None` where no part is.
    pub fn cut(&self, delay: Span) -> Option<(f64, f64)> {
        let delay_ns = delay.0 as f64;
        let points: Vec<f64> = match JitterState::new(self, delay).by {
            OffsetDistribution::Range(amount) => {
                let amount = amount as f64;
                (0..=4096).map(|i| delay_ns + amount * (f64::from(i) / 2048.0 - 1.0)).collect()
            }
            OffsetDistribution::Table(table) => {
                table.iter().map(|&offset| delay_ns + offset as f64).collect()
            }
        };
        if points[0] >= 0.0 {
            return None;
        }
        let cut: Vec<f64> = points.into_iter().map(|p| p.max(0.0)).collect();
        Some(super::distribution::moments(&cut))
    }
}

impl Impairment for Jitter {
    fn state(&self, link: &LinkDelays) -> Box<dyn ImpairmentState> {
        Box::new(JitterState::new(self, link.delay))
    }

    fn words(&self) -> String {
        format!("jitter {}", self.amount)
    }

    fn widen(&self, delays: &mut LinkDelays) {
        (delays.least, delays.most) = self.range(delays.delay);
    }

    fn irregularity(&self) -> Option<Irregularity> {
        Some(Irregularity::Delay)
    }
}

#[derive(Debug)]
enum OffsetDistribution {
    Range(u64),
    /// What is added to the delay, at equal steps of probability.
    Table(Box<[i64]>),
}

/// Jitter at work: no floating point from here on.
#[derive(Debug)]
struct JitterState {
    delay: Span,
    by: OffsetDistribution,
    correlation: Probability,
    keeps_order: bool,
    /// Where order is kept.
    path: Option<JitterPath>,
    last: Option<Span>,
}

impl JitterState {
    fn new(jitter: &Jitter, delay: Span) -> JitterState {
        let amount = jitter.amount.min(JITTER_MAX);
        let by = match jitter.distribution.standard() {
            None => OffsetDistribution::Range(amount.0),
            Some(standard) => OffsetDistribution::Table(
                standard.iter().map(|z| (z * amount.0 as f64).round() as i64).collect(),
            ),
        };
        let path =
            jitter.keeps_order.then(|| JitterPath::new(jitter.distribution.course(), amount));
        let (correlation, keeps_order) = (jitter.correlation, jitter.keeps_order);
        JitterState { delay, by, correlation, keeps_order, path, last: None }
    }

    /// Of a packet that begins its way at `now`.
    #[inline]
    fn delay(&mut self, now: Time, draw: Draw, course: Draw) -> Span {
        let independent = self.correlation == Probability::NEVER;
        if let Some(last) =
            self.last.filter(|_| !independent && self.correlation.hits(draw.in_turn(0)))
        {
            self.path.iter_mut().for_each(|path| path.stays(now));
            return last;
        }
        let own = if independent { draw.independent() } else { draw.in_turn(1) };
        let by = &self.by;
        let offset = match &mut self.path {
            Some(path) => path.at(now, (own, |draw| by.of(draw)), course),
            None => by.of(own),
        };
        let delay = Span(self.delay.0.saturating_add_signed(offset));
        self.last = Some(delay);
        delay
    }
}

impl ImpairmentState for JitterState {
    fn on_the_way(&mut self, packet: &mut Transit) {
        let (draw, path) = (packet.draw(RngStream::Jitter), packet.draw(RngStream::JitterPath));
        packet.delay = self.delay(packet.end, draw, path);
        packet.keeps_order = self.keeps_order;
    }
}

impl OffsetDistribution {
    /// The inverse of the distribution function, at `draw` of 2^64.
    #[inline]
    fn of(&self, draw: u64) -> i64 {
        let scaled = |n: u64| u128::from(draw) * u128::from(n);
        match self {
            OffsetDistribution::Range(amount) => {
                (scaled(2 * amount + 1) >> 64) as i64 - *amount as i64
            }
            OffsetDistribution::Table(table) => {
                let at = scaled(table.len() as u64 - 1);
                let (i, part) = ((at >> 64) as usize, i128::from(at as u64 >> 32));
                let (a, b) = (i128::from(table[i]), i128::from(table[i + 1]));
                (a + (((b - a) * part) >> 32)) as i64
            }
        }
    }
}
