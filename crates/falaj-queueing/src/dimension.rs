//! The batch sizes that keep a delay, and the resulting load and waits. A size keeps a delay if the
//! delay with batches of this size is not above it.
//!
//! Small batches cost too much per packet, and overload the server; large batches take long to
//! fill. The delay has a minimum in between, and a target delay is kept in a range of sizes with a
//! lower and an upper end.

use crate::batches::{Measure, Policy};
use crate::line::{self, Ask, Line, Service, Shape, Stream};
use crate::refused::{Refused, not_negative, positive};
use crate::superposed::{Effort, Superposed};
use std::collections::BTreeMap;

/// The method by which a delay was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By the matrices, with an estimate of the error.
    Exact,
    /// By simulation, with its 95 % interval.
    Simulated,
}

/// A system whose batch size is still open. All its delays are one-way delays.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    /// The streams. The size of streams with their own size is not searched.
    pub streams: Vec<Stream>,
    /// Number of groups of streams, from the first group on, whose delays count. The largest of
    /// these delays is the delay of the system.
    pub measured: usize,
    /// Service of batches.
    pub service: Service,
    /// Time from the first packet to the latest departure of the batch; `None`: no timeout.
    pub timeout: Option<f64>,
    /// The measure of delay.
    pub measure: Measure,
}

/// Results for one size of batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Packets in a full batch.
    pub size: usize,
    /// Offered load: arriving work over the server's capacity.
    pub load: f64,
    /// Mean time until a packet's batch departs.
    pub fill: f64,
    /// Mean wait of batches for their service.
    pub wait: f64,
    /// Mean service time.
    pub service: f64,
    /// The measure: mean or percentile of a packet's delay.
    pub delay: f64,
    /// Error bound of the delay.
    pub error: f64,
    /// The method by which the delay was computed.
    pub how: How,
    /// Batches of all streams per unit of time.
    pub batches: f64,
}

/// A range of adjacent sizes that keep the delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feasible {
    /// The smallest size of the range.
    pub from: Point,
    /// The largest size of the range, with the fewest batches.
    pub to: Point,
    /// True if sizes above `to`, beyond the largest size evaluated, may keep the delay as well.
    pub open: bool,
}

/// Results for all sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Dimensions {
    /// The smallest stable size, and the largest size evaluated.
    pub stable: (usize, usize),
    /// Delay by size, for plotting.
    pub curve: Vec<Point>,
    /// The size with the least delay.
    pub least: Point,
    /// The ranges of sizes that keep the target delay; empty if no size does.
    pub feasible: Vec<Feasible>,
}

/// A size and a timeout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Time from the first packet to the latest departure of the batch.
    pub timeout: f64,
    /// The size, and its results with this timeout.
    pub point: Point,
}

/// Sizes and timeouts for a delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pairs {
    /// The pair that keeps the delay with the fewest batches. Of several pairs within 1 % of the
    /// fewest batches, this is the pair with the shortest timeout.
    pub best: Option<Pair>,
    /// The pair with the least delay of all pairs evaluated.
    pub least: Pair,
}

/// Timeouts that are evaluated, as multiples of the delay. With the last one hardly any batch
/// departs by its timeout.
const TIMEOUTS: [f64; 9] = [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0];
/// Two batch rates count as equal up to this ratio.
const AS_FEW: f64 = 1.01;

/// Length and seed of a simulation: equal for all sizes, so that differences between sizes are not
/// random.
const ASK: Ask = Ask { batches: 200_000, seed: 1, percentile: 0.5, longer_than: 0.0 };
/// Number of steps, from the smallest to the largest size, between the sizes evaluated first.
const GRID: usize = 24;

impl System {
    /// Computes the results for one size.
    pub fn point(&self, size: usize) -> Result<Point, Refused> {
        let policy = Policy::new(size, self.timeout)?;
        let line = Line::new(&self.streams, policy, self.service)?;
        let mut point = Point {
            size,
            load: line.load()?,
            fill: 0.0,
            wait: 0.0,
            service: 0.0,
            delay: f64::NEG_INFINITY,
            error: 0.0,
            how: How::Exact,
            batches: line.batch_rate()?,
        };
        let groups = 0..self.measured.min(self.streams.len());
        if let (Some((Shape::Exponential, service)), None, Measure::Mean) =
            (line.common_service()?, self.timeout, self.measure)
        {
            match Superposed::new(&self.streams, size, service)?.exact(Effort::Quick) {
                Ok(mean) => {
                    (point.wait, point.service, point.error) = (mean.wait, service, mean.error);
                    for group in groups {
                        point.fill = point.fill.max(line.fill(group)?.wait);
                    }
                    point.delay = point.fill + mean.wait + service;
                    return Ok(point);
                }
                // The streams need larger matrices than are supported.
                Err(Refused::Shape { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        let percentile = if let Measure::Percentile(p) = self.measure { p } else { 0.5 };
        let simulated = line.simulate(Ask { percentile, ..ASK })?;
        point.how = How::Simulated;
        point.wait = simulated.wait.mean;
        for group in groups {
            let of = simulated.streams[group].ok_or(Refused::Value {
                what: "the rate of a stream",
                value: self.streams[group].rate,
                allowed: "higher: none of its batches is among those simulated",
            })?;
            let delay = if self.measure == Measure::Mean { of.delay } else { of.at_percentile };
            if delay.mean > point.delay {
                (point.fill, point.service) = (line.fill(group)?.wait, line.service(group)?);
                point.delay = delay.mean;
                point.error = delay.half_width.unwrap_or(f64::INFINITY);
            }
        }
        Ok(point)
    }

    /// The offered load with batches of this size.
    pub fn load(&self, size: usize) -> Result<f64, Refused> {
        line::load(&self.streams, Policy::new(size, self.timeout)?, self.service)
    }

    /// The smallest stable size up to `largest`. The load falls as the size grows.
    fn smallest(&self, largest: usize) -> Result<usize, Refused> {
        crate::refused::stable(self.load(largest)?)?;
        let (mut low, mut high) = (0, largest);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.load(middle)? < 1.0 { high = middle } else { low = middle }
        }
        Ok(high)
    }

    /// The smallest stable size up to `largest`, after the measure and the sizes were checked.
    fn checked(&self, largest: usize) -> Result<usize, Refused> {
        if let Measure::Percentile(p) = self.measure
            && !(p > 0.0 && p < 1.0)
        {
            return Err(Refused::Value {
                what: "the percentile",
                value: p,
                allowed: "above 0 and below 1",
            });
        }
        // Errors in the streams and costs are reported first.
        Policy::new(largest, self.timeout)?;
        self.smallest(largest)
    }

    /// Evaluates sizes up to `largest`: the stable sizes, the best size, and the sizes that keep
    /// the delay `asked`, if it is given.
    pub fn dimensions(&self, asked: Option<f64>, largest: usize) -> Result<Dimensions, Refused> {
        if let Some(asked) = asked {
            not_negative("the required delay", asked)?;
        }
        let smallest = self.checked(largest)?;
        let mut known = KnownQueue { system: self, points: BTreeMap::new() };
        for i in 0..=GRID {
            known.at(grid(smallest, largest, i))?;
        }
        let least = known.least()?;
        let feasible =
            asked.map_or(Ok(Vec::new()), |asked| known.feasible(asked, smallest, largest))?;
        Ok(Dimensions {
            stable: (smallest, largest),
            curve: known.points.into_values().collect(),
            least,
            feasible,
        })
    }
}

impl System {
    /// Finds the largest size up to `largest` that keeps the delay `asked`. No sizes are evaluated
    /// just to plot a curve.
    fn largest_that_keeps(&self, asked: f64, largest: usize) -> Result<Option<Point>, Refused> {
        not_negative("the required delay", asked)?;
        let smallest = self.checked(largest)?;
        let mut known = KnownQueue { system: self, points: BTreeMap::new() };
        for i in (0..=GRID).rev() {
            if known.at(grid(smallest, largest, i))?.delay <= asked {
                break;
            }
        }
        // The least delay may lie between the sizes evaluated.
        if known.best()?.delay > asked && known.least()?.delay > asked {
            return Ok(None);
        }
        let keeps = |point: &&Point| point.delay <= asked;
        let Some(&kept) = known.points.values().rev().find(keeps) else { return Ok(None) };
        let above = known.points.range(kept.size + 1..).next();
        let (mut low, mut high) = (kept.size, above.map_or(kept.size + 1, |(&size, _)| size));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if known.at(middle)?.delay <= asked { low = middle } else { high = middle }
        }
        Ok(Some(known.at(low)?))
    }

    /// Finds the size up to `largest` and the timeout that keep the delay `asked` with the fewest
    /// batches. The system's own timeout is ignored.
    pub fn pairs(&self, asked: f64, largest: usize) -> Result<Pairs, Refused> {
        let asked = positive("the required delay", asked)?;
        let (mut kept, mut least) = (Vec::new(), None::<Pair>);
        let mut refused = Refused::Unstable { load: self.load(largest)? };
        for part in TIMEOUTS {
            let timeout = asked * part;
            let system = System { timeout: Some(timeout), ..self.clone() };
            let smallest = match system.smallest(largest) {
                Ok(smallest) => smallest,
                // With a longer timeout, batches may have more packets.
                Err(unstable @ Refused::Unstable { .. }) => {
                    refused = unstable;
                    continue;
                }
                Err(other) => return Err(other),
            };
            let mut look = |size: usize| -> Result<bool, Refused> {
                let pair = Pair { timeout, point: system.point(size)? };
                if least.is_none_or(|least| pair.point.delay < least.point.delay) {
                    least = Some(pair);
                }
                let keeps = pair.point.delay <= asked;
                if keeps {
                    kept.push(pair);
                }
                Ok(keeps)
            };
            // Hardly any batch of the first stream receives more packets than this in the timeout.
            let fastest = self.streams.first().map_or(0.0, |stream| stream.rate) * timeout;
            let (mut high, mut size) =
                (largest + 1, largest.min((2.0 + fastest + 5.0 * fastest.sqrt()) as usize));
            size = size.max(smallest);
            let mut low = None;
            loop {
                if look(size)? {
                    low = Some(size);
                    break;
                }
                high = size;
                if size == smallest {
                    break;
                }
                size = (size * 4 / 5).max(smallest);
            }
            while let Some(keeps) = low.filter(|low| high - low > 1 && high <= largest) {
                let middle = keeps + (high - keeps) / 2;
                if look(middle)? { low = Some(middle) } else { high = middle }
            }
        }
        let least = least.ok_or(refused)?;
        let few = kept.iter().map(|pair| pair.point.batches).fold(f64::INFINITY, f64::min) * AS_FEW;
        let as_few = kept.into_iter().filter(|pair| pair.point.batches <= few);
        Ok(Pairs { best: as_few.min_by(|a, b| a.timeout.total_cmp(&b.timeout)), least })
    }
}

/// Size number `i` of the sizes that are evaluated first, from 0 to [`GRID`].
fn grid(smallest: usize, largest: usize, i: usize) -> usize {
    let ratio = largest as f64 / smallest as f64;
    let size = (smallest as f64 * ratio.powf(i as f64 / GRID as f64)).round() as usize;
    size.clamp(smallest, largest)
}

/// Sizes that were evaluated.
struct KnownQueue<'a> {
    system: &'a System,
    points: BTreeMap<usize, Point>,
}

impl KnownQueue<'_> {
    fn at(&mut self, size: usize) -> Result<Point, Refused> {
        if let Some(point) = self.points.get(&size) {
            return Ok(*point);
        }
        let point = self.system.point(size)?;
        self.points.insert(size, point);
        Ok(point)
    }

    fn best(&self) -> Result<Point, Refused> {
        let best = self.points.values().min_by(|a, b| a.delay.total_cmp(&b.delay));
        best.copied().ok_or(Refused::Value {
            what: "the number of sizes",
            value: 0.0,
            allowed: "1 or more",
        })
    }

    /// Finds the least delay: evaluates the sizes halfway between the best one and its neighbors,
    /// until none is left between.
    fn least(&mut self) -> Result<Point, Refused> {
        loop {
            let best = self.best()?.size;
            let below = self.points.range(..best).next_back().map(|(&k, _)| k);
            let above = self.points.range(best + 1..).next().map(|(&k, _)| k);
            let between = |a: usize, b: usize| (b - a > 1).then(|| a + (b - a) / 2);
            let next: Vec<usize> =
                [below.and_then(|k| between(k, best)), above.and_then(|k| between(best, k))]
                    .into_iter()
                    .flatten()
                    .collect();
            if next.is_empty() {
                return self.best();
            }
            for size in next {
                self.at(size)?;
            }
        }
    }

    /// Finds the ranges in which the delay is kept: bisects between two neighbors if one of them
    /// keeps it and the other does not.
    fn feasible(
        &mut self,
        asked: f64,
        smallest: usize,
        largest: usize,
    ) -> Result<Vec<Feasible>, Refused> {
        let sizes: Vec<usize> = self.points.keys().copied().collect();
        let mut ends = Vec::new();
        let mut open = (self.at(smallest)?.delay <= asked).then_some(smallest);
        for pair in sizes.windows(2) {
            let (mut low, mut high) = (pair[0], pair[1]);
            let (before, after) = (self.at(low)?.delay <= asked, self.at(high)?.delay <= asked);
            if before == after {
                continue;
            }
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if (self.at(middle)?.delay <= asked) == before {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            match open.take() {
                None => open = Some(high),
                Some(from) => ends.push((from, low)),
            }
        }
        ends.extend(open.map(|from| (from, largest)));
        let feasible = |(from, to)| {
            Ok(Feasible { from: self.at(from)?, to: self.at(to)?, open: to == largest })
        };
        ends.into_iter().map(feasible).collect()
    }
}

/// The largest number up to `most` for which the system `system(number)` has a size that keeps the
/// delay; also the largest such size. `None` if there is none even for the number 1. If a number is
/// feasible, all smaller ones must be feasible too.
pub fn most_that_fit(
    system: impl Fn(usize) -> System,
    asked: f64,
    largest: usize,
    most: usize,
) -> Result<Option<(usize, Point)>, Refused> {
    let fits = |count: usize| match system(count).largest_that_keeps(asked, largest) {
        Ok(point) => Ok(point),
        Err(Refused::Unstable { .. }) => Ok(None),
        Err(other) => Err(other),
    };
    let (mut low, mut best) = (0, None);
    let mut high = 1;
    while high <= most {
        match fits(high)? {
            Some(point) => (low, best) = (high, Some(point)),
            None => break,
        }
        high *= 2;
    }
    high = high.min(most + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match fits(middle)? {
            Some(point) => (low, best) = (middle, Some(point)),
            None => high = middle,
        }
    }
    Ok(best.map(|point| (low, point)))
}
