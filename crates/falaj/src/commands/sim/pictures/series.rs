//! Results of a simulation as lines, bars and lanes. This module does not draw.

use falaj_engine::PipeId;
use falaj_pictures::bars::{BarRow, Bars, HATCHINGS};
use falaj_pictures::chart::{Axis, Chart, ChartLine, STROKE, Scale, Sheet};
use falaj_pictures::lanes::{LanePacket, Lanes};
use falaj_pictures::units::{DATA, RATE, TIME, unit};
use falaj_plan::Way;
use falaj_scenario::{Scenario, Towards};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::Span;
use falaj_sim::Study;
use falaj_sim::measure::Measure;
use falaj_sim::packet_window::PacketWindow;
use falaj_sim::scenario::{all_flows, pipe_of};
use falaj_sim::time_bins::{self, TimeBins};
use falaj_terminal::text;
use falaj_theory::{Curve, float};

/// Number of time bins in the run.
pub(super) const PARTS: usize = 600;
/// Number of time bins combined into one where rates are drawn.
const GROUP: usize = 6;

/// Maximum number of flows that are shown for a direction.
const MOST: usize = 7;

/// Ratio of the longest delay to the lowest median of a flow above which the axis of delays is
/// logarithmic.
const DECADES: f64 = 20.0;

/// Quantiles of the delay that have confidence intervals.
pub(super) const SHARES: [f64; 15] =
    [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999];

/// A direction of a link, and its flows that are shown: those with the most offered bytes.
pub(super) struct ShownDirection {
    pub(super) name: String,
    pub(super) link: usize,
    pub(super) towards: Towards,
    pub(super) pipe: PipeId,
    pub(super) flows: Vec<ShownFlow>,
    /// Number of further flows that had packets.
    others: usize,
}

/// A flow that is shown.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ShownFlow {
    pub(super) flow: usize,
    pub(super) name: String,
    /// Index of its colour and stroke; flows of the same name have the same index on every link.
    number: usize,
}

impl ShownDirection {
    fn title(&self) -> String {
        match self.others {
            0 => self.name.clone(),
            n => format!(
                "{} (the {} flows with the most offered bytes; {n} more)",
                self.name,
                self.flows.len()
            ),
        }
    }
}

/// Input of the pictures.
pub(super) struct PictureInput<'a> {
    pub(super) study: &'a Study,
    pub(super) bins: &'a TimeBins,
    pub(super) windows: &'a [PacketWindow],
    pub(super) plan: &'a [Way<'a>],
    pub(super) shown: &'a [ShownDirection],
    pub(super) duration: Span,
    /// Part of the run that the results exclude.
    pub(super) warm_up: Span,
}

/// Returns the directions that received packets.
pub(super) fn shown(scenario: &Scenario, study: &Study) -> Vec<ShownDirection> {
    let mut all: Vec<ShownDirection> = Vec::new();
    let offered = |pipe, flow: usize| study.flow(pipe, FlowId(flow as u32)).counters.offered_bytes;
    for (l, towards, flow) in all_flows(scenario) {
        let (link, pipe) = (&scenario.links[l], pipe_of(l, towards));
        if offered(pipe, flow) == 0 {
            continue;
        }
        if all.last().is_none_or(|last| last.pipe != pipe) {
            let way = if towards == Towards::Up { "up" } else { "down" };
            let name = format!("{} {way}", link.name);
            all.push(ShownDirection { name, link: l, towards, pipe, flows: Vec::new(), others: 0 });
        }
        if let Some(last) = all.last_mut() {
            let name = link.direction(towards).flows[flow].name.clone();
            last.flows.push(ShownFlow { flow, name, number: 0 });
        }
    }
    for shown in all.iter_mut().filter(|shown| shown.flows.len() > MOST) {
        let mut by_bytes = shown.flows.clone();
        by_bytes.sort_by_key(|flow| std::cmp::Reverse(offered(shown.pipe, flow.flow)));
        shown.others = by_bytes.len() - MOST;
        by_bytes.truncate(MOST);
        shown.flows.retain(|flow| by_bytes.contains(flow));
    }
    let mut names: Vec<String> = Vec::new();
    for flow in all.iter_mut().flat_map(|shown| &mut shown.flows) {
        flow.number = names.iter().position(|name| *name == flow.name).unwrap_or(names.len());
        if flow.number == names.len() {
            names.push(flow.name.clone());
        }
    }
    all
}

/// Time axis of the run, in seconds or another unit.
struct Clock {
    one: f64,
    name: &'static str,
    whole: f64,
}

impl PictureInput<'_> {
    fn clock(&self) -> Clock {
        let (one, name) = unit(self.duration.0 as f64, &TIME);
        Clock { one, name, whole: self.duration.0 as f64 / one }
    }

    fn of(&self, shown: &ShownDirection, flow: &ShownFlow) -> Option<&time_bins::FlowBins> {
        self.bins.flow(shown.pipe, FlowId(flow.flow as u32))
    }

    /// Returns a sheet with a panel for each direction, over the time of the run.
    fn over_time(&self, y: impl Fn(&ShownDirection) -> (Axis, Vec<ChartLine>)) -> Sheet {
        let clock = self.clock();
        let warm_up = self.warm_up.0 as f64 / clock.one;
        let chart = |shown: &ShownDirection| {
            let (y, lines) = y(shown);
            let places = if warm_up > 0.0 {
                vec![(warm_up, "end of warm-up".to_owned())]
            } else {
                Vec::new()
            };
            let x = Axis::linear(format!("Time ({})", clock.name), 0.0, clock.whole);
            Chart {
                title: shown.title(),
                x,
                y,
                lines,
                places,
                marks: false,
                direct: false,
                stroke: STROKE,
            }
        };
        Sheet { panel: (860, 330), columns: 1, charts: self.shown.iter().map(chart).collect() }
    }

    /// Returns the throughput of each flow, in bit/s.
    pub(super) fn throughput(&self) -> Sheet {
        let clock = self.clock();
        let seconds = (self.bins.part().0 * GROUP as u64) as f64 / 1e9;
        let rates = |flow: &time_bins::FlowBins| -> Vec<f64> {
            flow.left
                .chunks(GROUP)
                .map(|group| group.iter().sum::<u64>() as f64 * 8.0 / seconds)
                .collect()
        };
        self.over_time(|shown| {
            let all: Vec<_> =
                shown.flows.iter().filter_map(|f| Some((f, rates(self.of(shown, f)?)))).collect();
            let most = all.iter().flat_map(|(_, rates)| rates).copied().fold(0.0, f64::max);
            let (one, unit) = unit(most, &RATE);
            let line = |(flow, rates): &(&ShownFlow, Vec<f64>)| {
                // The last group may be cut short by the end of the run.
                let at = |n: usize| clock.whole.min(n as f64 * seconds * 1e9 / clock.one);
                let mut points: Vec<_> =
                    rates.iter().enumerate().map(|(n, rate)| (at(n), rate / one)).collect();
                points.extend(points.last().map(|&(_, y)| (at(rates.len()), y)));
                ChartLine::steps(flow.name.as_str(), flow.number, &points)
            };
            let y = Axis::linear(format!("Throughput ({unit})"), 0.0, most * 1.1 / one);
            (y, all.iter().map(line).collect())
        })
    }

    /// Returns the backlog of each flow, in bytes.
    pub(super) fn backlog(&self) -> Sheet {
        let clock = self.clock();
        self.over_time(|shown| {
            let of = |f| Some((f, self.of(shown, f)?.backlog().collect::<Vec<_>>()));
            let all: Vec<_> = shown.flows.iter().filter_map(of).collect();
            let most =
                all.iter().flat_map(|(_, backlog)| backlog).copied().max().unwrap_or(0) as f64;
            let (one, unit) = unit(most, &DATA);
            let line = |(flow, backlog): &(&ShownFlow, Vec<u64>)| {
                let at = |n: usize| {
                    clock.whole.min((n + 1) as f64 * self.bins.part().0 as f64 / clock.one)
                };
                let points =
                    backlog.iter().enumerate().map(|(n, bytes)| (at(n), *bytes as f64 / one));
                ChartLine::new(
                    flow.name.as_str(),
                    flow.number,
                    std::iter::once((0.0, 0.0)).chain(points).collect(),
                )
            };
            let y = Axis::linear(format!("Backlog ({unit})"), 0.0, most * 1.1 / one);
            (y, all.iter().map(line).collect())
        })
    }

    /// Returns Jain's index over time: of the throughputs of the shown flows that have packets; and
    /// of the throughputs of the backlogged ones, each divided by its guaranteed rate.
    pub(super) fn fairness(&self) -> Sheet {
        let clock = self.clock();
        let groups = PARTS.div_ceil(GROUP);
        let at = |group: usize| {
            clock.whole.min((group * GROUP) as f64 * self.bins.part().0 as f64 / clock.one)
        };
        let steps = |name: &str, number: usize, values: Vec<f64>| {
            let mut points: Vec<_> =
                values.into_iter().enumerate().map(|(n, value)| (at(n), value)).collect();
            points.extend(points.last().map(|&(_, y)| (clock.whole, y)));
            ChartLine::steps(name, number, &points)
        };
        self.over_time(|shown| {
            let guaranteed = self.guaranteed(shown);
            let flows: Vec<_> = shown
                .flows
                .iter()
                .filter_map(|f| {
                    let flow = self.of(shown, f)?;
                    Some((
                        flow,
                        flow.backlog().collect::<Vec<_>>(),
                        guaranteed.get(f.flow).copied().flatten(),
                    ))
                })
                .collect();
            let (mut raw, mut fair) = (Vec::new(), Vec::new());
            for group in 0..groups {
                let parts = group * GROUP..((group + 1) * GROUP).min(PARTS);
                let left = |flow: &time_bins::FlowBins| {
                    flow.left[parts.clone()].iter().sum::<u64>() as f64
                };
                let came =
                    |flow: &time_bins::FlowBins| flow.came[parts.clone()].iter().sum::<u64>() > 0;
                let asks = |(flow, backlog, _): &&(&time_bins::FlowBins, Vec<u64>, Option<f64>)| {
                    came(flow) || backlog[parts.clone()].iter().any(|b| *b > 0)
                };
                raw.push(jain(flows.iter().filter(asks).map(|(flow, ..)| left(flow))));
                // A flow backlogged for the whole group could have used a higher rate.
                let waits = |(_, backlog, _): &&(&time_bins::FlowBins, Vec<u64>, Option<f64>)| {
                    backlog[parts.clone()].iter().all(|b| *b > 0)
                };
                let share = |(flow, _, rate): &(&time_bins::FlowBins, Vec<u64>, Option<f64>)| {
                    Some(left(flow) / (*rate)?)
                };
                let shares: Option<Vec<f64>> = flows.iter().filter(waits).map(share).collect();
                fair.push(shares.map_or(f64::NAN, |shares| jain(shares.into_iter())));
            }
            let lines = vec![
                steps("rates of flows with packets", 0, raw),
                steps("rates of backlogged flows, divided by their guaranteed rates", 1, fair),
            ];
            (Axis::linear("Jain's index", 0.0, 1.1), lines)
        })
    }

    /// Returns the guaranteed rate of each flow, in bit/s.
    fn guaranteed(&self, shown: &ShownDirection) -> Vec<Option<f64>> {
        let way = self.plan.get(2 * shown.link + usize::from(shown.towards == Towards::Down));
        let rate = |flow: &falaj_plan::bounds::Outlook| {
            flow.guarantee
                .as_ref()
                .ok()
                .map(|guarantee| guarantee.rate.0 as f64)
                .filter(|rate| *rate > 0.0)
        };
        way.map_or_else(Vec::new, |way| way.flows.iter().map(rate).collect())
    }

    /// Returns the distribution of delays: the share of packets delayed by at most each delay; or,
    /// if `longer`, the share delayed longer, on a logarithmic axis.
    pub(super) fn delays(&self, longer: bool) -> Sheet {
        let chart = |shown: &ShownDirection| {
            let of = |f: &ShownFlow| self.study.flow(shown.pipe, FlowId(f.flow as u32));
            let longest =
                shown.flows.iter().filter_map(|f| of(f).delay.max()).max().unwrap_or_default();
            let (one, unit) = unit(longest.0 as f64, &TIME);
            let name = format!("Delay ({unit})");
            let longest = longest.0 as f64 / one;
            // The lowest median of the delays of a flow.
            let medians = shown.flows.iter().filter_map(|f| of(f).delay.quantile(0.5));
            let shortest = medians.map(|median| median.0 as f64 / one).fold(longest, f64::min);
            let x = if shortest > 0.0 && longest > DECADES * shortest {
                Axis::whole(name, Scale::Decades, shortest / 2.0, longest)
            } else {
                Axis::linear(name, 0.0, longest * 1.04)
            };
            let rest = |share: f64| if longer { 1.0 - share } else { share };
            let mut least: f64 = 0.1;
            let lines = shown.flows.iter().map(|f| {
                let flow = of(f);
                let count = flow.delay.count() as f64;
                let (mut sum, mut before) = (0u64, rest(0.0));
                let mut points = vec![(x.from, before)];
                for (delay, packets) in flow.delay.counts() {
                    sum += packets;
                    let share = rest(sum as f64 / count);
                    let delay = (delay.0 as f64 / one).max(x.from);
                    points.push((delay, before));
                    // No packet is delayed longer than the maximum, and a logarithmic axis has no
                    // zero.
                    if longer && sum as f64 >= count {
                        break;
                    }
                    points.push((delay, share));
                    before = share;
                    least = if longer { least.min(share) } else { 0.0 };
                }
                // The band has two edges: one at the shorter delays, one at the longer delays.
                // Between two quantiles, the edge at the longer delays keeps the share of the first
                // quantile, and the edge at the shorter delays has the share of the second
                // quantile. So the band claims no more than is known.
                let (mut low, mut high) = (Vec::<(f64, f64)>::new(), Vec::<(f64, f64)>::new());
                for share in SHARES {
                    let estimate = flow.estimate(Measure::DelayQuantile(share));
                    let Some((estimate, half)) =
                        estimate.and_then(|e| Some((e.mean, e.half_width?)))
                    else {
                        continue;
                    };
                    let edges = [estimate - half, estimate + half];
                    let [from, to] = edges.map(|edge| (edge / one).max(x.from));
                    low.extend(low.last().map(|&(before, _)| (before, rest(share))));
                    high.extend(high.last().map(|&(_, before)| (to, before)));
                    low.push((from, rest(share)));
                    high.push((to, rest(share)));
                }
                high.reverse();
                ChartLine {
                    band: [low, high].concat(),
                    ..ChartLine::new(f.name.as_str(), f.number, points)
                }
            });
            let lines: Vec<ChartLine> = lines.collect();
            let y = if longer {
                Axis::whole(
                    "Share of packets with a longer delay",
                    Scale::Decades,
                    least.max(1e-9),
                    1.0,
                )
            } else {
                Axis::linear("Share of packets with at most this delay", 0.0, 1.02)
            };
            Chart {
                title: shown.title(),
                x,
                y,
                lines,
                places: Vec::new(),
                marks: false,
                direct: false,
                stroke: STROKE,
            }
        };
        let columns = if self.shown.len() > 1 { 2 } else { 1 };
        Sheet { panel: (760, 430), columns, charts: self.shown.iter().map(chart).collect() }
    }

    /// Returns, for each flow, cumulative arrivals and departures during the backlog in which its
    /// longest delay occurred, beside the curves from theory.
    pub(super) fn cumulative(&self) -> Sheet {
        let charts: Vec<Chart> =
            self.shown.iter().flat_map(|shown| self.cumulative_of(shown)).collect();
        Sheet { panel: (700, 430), columns: if charts.len() > 1 { 2 } else { 1 }, charts }
    }

    fn cumulative_of(&self, shown: &ShownDirection) -> Vec<Chart> {
        let way = self.plan.get(2 * shown.link + usize::from(shown.towards == Towards::Down));
        let chart = |f: &ShownFlow| {
            let ours = |e: &&PacketWindow| (e.pipe, e.flow.index()) == (shown.pipe, f.flow);
            let window = self.windows.iter().find(ours).filter(|e| e.to > e.from)?;
            let outlook =
                way.and_then(|way| way.flows.get(f.flow)).filter(|outlook| !outlook.together);
            let whole = (window.to - window.from).0 as f64;
            let since =
                |instant: falaj_sched::units::time::Time| instant.since(window.from).0 as f64;
            let counted = |steps: &[(falaj_sched::units::time::Time, u32)], before: u64| {
                let mut steps = steps.to_vec();
                steps.sort();
                let mut sum = before;
                let mut points = vec![(0.0, sum as f64)];
                points.extend(steps.iter().map(|&(at, bytes)| {
                    sum += u64::from(bytes);
                    (since(at), sum as f64)
                }));
                points.push((whole, sum as f64));
                points
            };
            let came = counted(&window.came, window.before.0);
            let left = counted(&window.left, window.before.1);
            let low = left.first().map_or(0.0, |p| p.1);
            let high = came.last().map_or(1.0, |p| p.1).max(low + 1.0);
            let ((one, time), (bytes, data)) = (unit(whole, &TIME), unit(high, &DATA));
            let in_units = |points: Vec<(f64, f64)>| -> Vec<(f64, f64)> {
                points.into_iter().map(|(t, y)| (t / one, y / bytes)).collect()
            };
            let early = (window.from - window.longest.since).0 as f64;
            let (bottom, top) = ((low - 0.04 * (high - low)).max(0.0), high + 0.12 * (high - low));
            let theory = |curve: &Curve| in_units(sampled(curve, early, whole, (bottom, top)));
            let mut lines = vec![
                ChartLine::steps("arrivals", 0, &in_units(came)),
                ChartLine::steps("departures", 1, &in_units(left)),
            ];
            if let Some(outlook) = outlook {
                if let Ok(envelope) = &outlook.envelope {
                    lines.push(ChartLine::new("sent at most", 4, theory(&envelope.curve)));
                }
                let guaranteed = || {
                    let guarantee = outlook.guarantee.as_ref().ok()?;
                    Some(Curve::rate_latency(guarantee.rate, guarantee.latency))
                };
                let service = outlook
                    .service
                    .as_ref()
                    .map(|(_, _, service)| service.clone())
                    .or_else(guaranteed);
                lines.extend(
                    service.map(|service| ChartLine::new("served at least", 2, theory(&service))),
                );
            }
            let delay = window.longest.delay();
            let title = format!(
                "{}, {}: its longest delay, {}",
                f.name,
                shown.name,
                text::span(Some(delay))
            );
            let x = format!("Time since {:.6} s ({time})", window.from.0 as f64 / 1e9);
            let places = vec![
                (since(window.longest.arrival) / one, "arrival".to_owned()),
                (since(window.longest.end) / one, "departure".to_owned()),
            ];
            Some(Chart {
                title,
                x: Axis::linear(x, 0.0, whole / one),
                y: Axis::linear(
                    format!("Data since its backlog began ({data})"),
                    bottom / bytes,
                    top / bytes,
                ),
                lines,
                places,
                marks: false,
                direct: false,
                stroke: STROKE,
            })
        };
        shown.flows.iter().filter_map(chart).collect()
    }

    /// Returns the occupancy of each link around the longest delay of its flows.
    pub(super) fn timeline(&self) -> Vec<Lanes> {
        let of = |shown: &ShownDirection| {
            let ours = self.windows.iter().filter(|e| e.pipe == shown.pipe && !e.sent.is_empty());
            let window = ours.max_by_key(|e| e.longest.delay())?;
            let mut flows: Vec<usize> = window.sent.iter().map(|emit| emit.flow.index()).collect();
            flows.sort_unstable();
            flows.dedup();
            // The flow with the longest delay, and the flows that sent most packets.
            let sent = |flow: usize| window.sent.iter().filter(|e| e.flow.index() == flow).count();
            flows.sort_by_key(|&f| (f != window.flow.index(), std::cmp::Reverse(sent(f)), f));
            flows.truncate(MOST);
            flows.sort_unstable();
            let name = |f: &usize| {
                let all = &self
                    .plan
                    .get(2 * shown.link + usize::from(shown.towards == Towards::Down))?
                    .flows;
                Some(all.get(*f)?.name.clone())
            };
            let names = flows.iter().map(|f| name(f).unwrap_or_else(|| f.to_string())).collect();
            let packet = |emit: &falaj_engine::Emit| {
                let lane = flows.iter().position(|f| *f == emit.flow.index())?;
                let [came, start, end] = [emit.arrival, emit.start, emit.end].map(|t| t.0 as f64);
                let longest = (emit.flow, emit.arrival, emit.end)
                    == (window.flow, window.longest.arrival, window.longest.end);
                Some(LanePacket { lane, came, start, end, longest })
            };
            let flow = window.flow.index();
            let whose = name(&flow).unwrap_or_default();
            let longest = text::span(Some(window.longest.delay()));
            Some(Lanes {
                title: format!(
                    "Occupancy of {} around the longest delay of {whose}, {longest}",
                    shown.name
                ),
                names,
                packets: window.sent.iter().filter_map(packet).collect(),
                from: window.sent.iter().map(|e| e.start.0).min()? as f64,
                to: window.sent.iter().map(|e| e.end.0).max()? as f64,
            })
        };
        self.shown.iter().filter_map(of).collect()
    }

    /// Returns the reasons for losses, in all replications.
    pub(super) fn drops(&self) -> Bars<'static> {
        let row = |shown: &ShownDirection, f: &ShownFlow| {
            let (name, c) = (&f.name, &self.study.flow(shown.pipe, FlowId(f.flow as u32)).counters);
            let reasons = [
                c.dropped_full,
                c.dropped_by_policy,
                c.lost,
                c.dropped_large,
                c.dropped_by_discipline + c.dropped_by_change,
            ];
            let offered = c.offered.max(1) as f64;
            let several =
                if self.shown.len() > 1 { format!("{name}, {}", shown.name) } else { name.clone() };
            let told = REASONS.iter().zip(reasons).filter(|(_, n)| *n > 0);
            let told: Vec<String> =
                told.map(|(why, n)| format!("{why} {}", text::percent(n, c.offered))).collect();
            BarRow {
                name: several,
                parts: reasons.iter().map(|n| *n as f64 / offered).collect(),
                words: if told.is_empty() {
                    format!("none of {}", c.offered)
                } else {
                    told.join(", ")
                },
            }
        };
        let rows =
            self.shown.iter().flat_map(|shown| shown.flows.iter().map(move |f| row(shown, f)));
        let n = self.study.replications();
        let title =
            format!("Causes of packet loss, as shares of offered packets, {n} replications");
        Bars { title, parts: &REASONS, rows: rows.collect() }
    }
}

const REASONS: [&str; HATCHINGS] =
    ["queue full", "queue's policy", "lost on the link", "too large", "discipline"];

/// Returns Jain's index of some shares: 1 if all are equal, 1/n if one flow has everything, NaN for
/// fewer than two shares, or if all are zero.
fn jain(shares: impl Iterator<Item = f64>) -> f64 {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for share in shares {
        n += 1.0;
        sum += share;
        squares += share * share;
    }
    if n < 2.0 || squares == 0.0 { f64::NAN } else { sum * sum / (n * squares) }
}

/// Returns the part of a curve that lies in the picture, between the heights `bottom` and `top`.
/// The picture begins `early` ns after the start of the curve, and is `whole` ns wide.
fn sampled(curve: &Curve, early: f64, whole: f64, (bottom, top): (f64, f64)) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    let pieces = curve.pieces();
    for (n, piece) in pieces.iter().enumerate() {
        let (at, after, slope) = (float(&piece.at), float(&piece.after), float(&piece.slope));
        let until =
            pieces.get(n + 1).map_or(early + whole, |next| float(&next.at).min(early + whole));
        let from = at.max(early);
        if from > until {
            continue;
        }
        // A curve may jump: its value at the point may be lower than just after it.
        if from == at {
            points.push((at - early, float(&piece.value)));
        }
        points.push((from - early, after + slope * (from - at)));
        points.push((until - early, after + slope * (until - at)));
    }
    clipped(&points, bottom, top)
}

/// Returns the part of a rising line between two heights.
fn clipped(points: &[(f64, f64)], bottom: f64, top: f64) -> Vec<(f64, f64)> {
    let cross =
        |a: (f64, f64), b: (f64, f64), y: f64| (a.0 + (b.0 - a.0) * (y - a.1) / (b.1 - a.1), y);
    let mut seen: Vec<(f64, f64)> = Vec::new();
    for pair in points.windows(2) {
        let (mut a, mut b) = (pair[0], pair[1]);
        if b.1 < bottom || a.1 > top {
            continue;
        }
        if a.1 < bottom {
            a = cross(a, b, bottom);
        }
        if b.1 > top {
            b = cross(a, b, top);
        }
        seen.push(a);
        seen.push(b);
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use falaj_sched::units::rate::Rate;

    #[test]
    fn jains_index_is_one_where_all_have_the_same() {
        assert_eq!(jain([3.0, 3.0, 3.0].into_iter()), 1.0);
        assert_eq!(jain([1.0, 0.0, 0.0, 0.0].into_iter()), 0.25);
        assert!(jain([1.0].into_iter()).is_nan());
    }

    #[test]
    fn a_curve_is_seen_where_the_picture_is() {
        // One byte per nanosecond, after a latency of 100 ns.
        let curve = Curve::rate_latency(Rate(8_000_000_000), Span(100));
        let whole = sampled(&curve, 0.0, 300.0, (0.0, 1000.0));
        assert_eq!((whole.first(), whole.last()), (Some(&(0.0, 0.0)), Some(&(300.0, 200.0))));
        assert_eq!(sampled(&curve, 150.0, 300.0, (0.0, 100.0)), [(0.0, 50.0), (50.0, 100.0)]);
        assert_eq!(sampled(&curve, 0.0, 300.0, (50.0, 60.0)), [(150.0, 50.0), (160.0, 60.0)]);
    }
}
