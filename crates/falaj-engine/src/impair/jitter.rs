//! Jitter: random deviations of packets' delays from the link's delay.

use super::distribution::Distribution;
use super::event::{Draw, RngStream};
use super::jitter_process::JitterPath;
use super::transit::{Impairment, ImpairmentState, Irregularity, LinkDelays, Transit};
use falaj_sched::units::probability::Probability;
use falaj_sched::units::time::{Span, Time};

/// Delays that vary; the link's delay is their mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Jitter {
    /// Half-width of the range for the uniform distribution, otherwise the standard deviation.
    pub amount: Span,
    /// Distribution of the delays.
    pub distribution: Distribution,
    /// The probability that a packet's delay is that of the packet before it; otherwise it is
    /// drawn. Mean and deviation do not depend on this probability.
    pub correlation: Probability,
    /// True if no packet overtakes another: while packets follow each other closely, the delay
    /// evolves from one to the next, and each delay still has this distribution.
    pub keeps_order: bool,
}

/// The largest jitter: far beyond that of any link, and far below the amount at which products
/// overflow.
pub const JITTER_MAX: Span = Span::from_secs(3600);

impl Jitter {
    /// The shortest and the longest delay that may be drawn.
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

    /// Mean and deviation in nanoseconds of the delays drawn, if a part of the distribution is
    /// negative and is cut off at zero; `None` if no part is.
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
    /// Offsets from the delay, at equal steps of probability.
    Table(Box<[i64]>),
}

/// State of jitter. Only building it uses floating point.
#[derive(Debug)]
struct JitterState {
    delay: Span,
    by: OffsetDistribution,
    correlation: Probability,
    keeps_order: bool,
    /// Set if order is kept.
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
            jitter.keeps_order.then(|| JitterPath::new(jitter.distribution.process(), amount));
        let (correlation, keeps_order) = (jitter.correlation, jitter.keeps_order);
        JitterState { delay, by, correlation, keeps_order, path, last: None }
    }

    /// The delay of a packet whose last bit leaves at `now`.
    #[inline]
    fn delay(&mut self, now: Time, draw: Draw, path_draw: Draw) -> Span {
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
            Some(path) => path.at(now, (own, |draw| by.of(draw)), path_draw),
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
    /// The inverse of the distribution function at `draw` / 2^64.
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
