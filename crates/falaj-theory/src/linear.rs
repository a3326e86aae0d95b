//! The delay bound of a flow by a linear program: the method PLP of Bouillard, "Trade-off between
//! accuracy and tractability of network calculus in FIFO networks" (2022).
//!
//! The servers form a tree. Its root is the last server of the flow, and each other server sends to
//! a server that is nearer to the root. The program looks for the packet with the largest delay.
//! This packet leaves the root at the end, which counts as date 0. Each server has several dates
//! before the end, numbered from the latest to the earliest. A packet that leaves server A for
//! server B (or for the end) at date `k` of B arrived at A at date `k` of A, because packets are
//! served in the order of arrival. Each server has one more date, its earliest. With the service
//! curve, this date bounds the bytes that had left by the oldest departure. So a server at depth
//! `d` has `d + 2` dates. The variables are these dates and, for each flow, the bytes that it had
//! sent by each date of its first server. Both are counted back from the packet. The largest delay
//! that keeps all constraints is a bound.
//!
//! A flow has the arrival curve of the server at which it enters the tree. Flows that enter and
//! leave at the same servers, and come from the same line (outgoing link), count as one.
//!
//! The program is solved in floating-point numbers, in units that fit the network's numbers. The
//! result is enlarged by a millionth, which is more than the tolerance of the solver.

use crate::curve::{Curve, Exact, Piece, float};
use crate::network::{CurvesByHop, EndToEnd, Network};
use microlp::{ComparisonOp, OptimizationDirection, Problem, SolutionStatus, Variable};
use num_traits::Zero;
use std::collections::BTreeMap;
use std::iter;

/// The relative enlargement of the result.
const SLACK: f64 = 1e-6;

/// Maximum number of servers in a tree beyond those of the flow itself.
const UPSTREAM: usize = 8;

/// A straight line above an arrival curve, given by slope and burst, or below a service curve,
/// given by slope and latency.
type Straight = (f64, f64);

/// A sum of variables with factors.
type Sum = Vec<(Variable, f64)>;

/// A tree of servers that lead to one server, the root. Each server has a place (number) in the
/// tree; the root has the first place.
struct ServerTree {
    /// For each place, the server's index in the network.
    servers: Vec<usize>,
    /// For each place, the next server towards the root.
    next: Vec<Option<usize>>,
    /// For each place, the number of hops to the root; zero for the root.
    depth: Vec<usize>,
}

impl ServerTree {
    /// Builds the tree of a path. The last server of the path is the root. If a server sends to
    /// several servers of the tree, it is placed before the deepest of them if `deep` is true,
    /// otherwise before the least deep one. `order` has all servers, each after the servers that
    /// send to it.
    fn of(network: &Network, path: &[usize], order: &[usize], deep: bool) -> ServerTree {
        let mut tree = ServerTree { servers: Vec::new(), next: Vec::new(), depth: Vec::new() };
        for &server in path.iter().rev() {
            tree.add(server, tree.servers.len().checked_sub(1));
        }
        for &server in order.iter().rev() {
            let room = tree.servers.len() < path.len() + UPSTREAM;
            if !room || tree.place(server).is_some() {
                continue;
            }
            let after = |(f, hop): (usize, usize)| network.flows[f].path.get(hop + 1);
            let next = network.through(server).filter_map(after).filter_map(|s| tree.place(*s));
            let depth = |place: &usize| tree.depth[*place];
            let next = if deep { next.max_by_key(depth) } else { next.min_by_key(depth) };
            if next.is_some() {
                tree.add(server, next);
            }
        }
        tree
    }

    fn add(&mut self, server: usize, next: Option<usize>) {
        self.servers.push(server);
        self.next.push(next);
        self.depth.push(next.map_or(0, |next| self.depth[next] + 1));
    }

    fn place(&self, server: usize) -> Option<usize> {
        self.servers.iter().position(|known| *known == server)
    }

    /// The places on the way from `place` to the root.
    fn from(&self, place: usize) -> impl Iterator<Item = usize> {
        iter::successors(Some(place), |place| self.next[*place])
    }

    /// The number of dates of a server, or of the end.
    fn dates(&self, place: Option<usize>) -> usize {
        place.map_or(1, |place| self.depth[place] + 2)
    }
}

/// Flows that enter the tree at the same server, from the same line or from no line, and leave it
/// at the same server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Aggregate {
    /// The place at which they enter.
    first: usize,
    /// Number of servers that they pass.
    length: usize,
    /// The line (outgoing link) from which they come.
    line: Option<usize>,
    /// The flow, if the aggregate is a single flow that is treated separately.
    only: Option<usize>,
}

/// The program of a tree.
struct TreeProgram<'a> {
    tree: &'a ServerTree,
    problem: Problem,
    /// For each place and date, the time from the date to the end.
    dates: Vec<Vec<Variable>>,
    /// For each aggregate and date, the bytes that its flows have sent after that date. The first
    /// date has no variable.
    sent: BTreeMap<Aggregate, Vec<Variable>>,
}

/// The units of a program, chosen so that its numbers are near 1.
struct ProgramUnits {
    /// In nanoseconds.
    time: f64,
    /// In bytes per nanosecond.
    rate: f64,
}

impl ProgramUnits {
    /// The line on which a piece of an arrival curve lies: slope and burst.
    fn line(&self, p: &Piece) -> Straight {
        let burst = &p.after - &p.slope * &p.at;
        (float(&p.slope) / self.rate, float(&burst) / (self.time * self.rate))
    }
}

/// A network, and its bounds by total flow analysis.
pub(crate) struct Analysed<'a> {
    pub(crate) network: &'a Network,
    /// All servers, each after those from which flows come to it, unless paths form a circle.
    pub(crate) order: &'a [usize],
    /// The arrival curves of all flows.
    pub(crate) comes: &'a CurvesByHop,
    /// Bounds on the delays at the servers.
    pub(crate) delays: &'a [Option<Exact>],
    /// Bounds on the delays of the flows from end to end, if they are known.
    pub(crate) whole: &'a [EndToEnd],
}

impl Analysed<'_> {
    /// A bound on the delay of a flow at all its servers. `None` if an arrival curve or a delay is
    /// unknown, or if the program has no solution.
    pub(crate) fn delay(&self, flow: usize) -> Option<Exact> {
        let path = &self.network.flows[flow].path;
        let entry = *path.first()?;
        self.trees(path)
            .filter_map(|tree| {
                let first = tree.place(entry)?;
                let (program, units) = self.program(&tree, None)?;
                let delay = program.date(Some(first), 0, 1.0);
                Exact::from_float(program.largest(delay)? * units.time)
            })
            .min()
    }

    /// The arrival curve of a flow behind one of its servers, from the long-term rate and the burst
    /// of its source. `None` in the same cases as for the delay.
    pub(crate) fn output(&self, flow: usize, hop: usize) -> Option<Curve> {
        let path = &self.network.flows[flow].path[..=hop];
        let sent = self.comes[flow][0].as_ref()?.pieces().last()?;
        let burst = self.trees(path).filter_map(|tree| {
            let first = tree.place(path[0])?;
            let (mut program, units) = self.program(&tree, Some(flow))?;
            let (slope, burst) = units.line(sent);
            let aggregate = *program.sent.keys().find(|c| c.only.is_some() && c.first == first)?;
            // `after` is the number of bytes that the flow sends from the packet's first date to a
            // time `t` after the end, minus its rate times `t`. So at most `after` bytes and the
            // rate times `t` leave in this time.
            let after = program.problem.add_var(0.0, (0.0, f64::INFINITY));
            for k in 0..tree.dates(Some(first)) {
                let before = k.checked_sub(1).map(|k| (program.sent[&aggregate][k], 1.0));
                let since = program.date(Some(first), k, -slope);
                let sum = before.into_iter().chain(since).chain([(after, 1.0)]).collect();
                program.constrain(sum, burst);
            }
            let burst = program.largest(vec![(after, 1.0)])? * units.time * units.rate;
            Exact::from_float(burst)
        });
        Some(Curve::affine(sent.slope.clone(), burst.min()?))
    }

    /// The trees of a path: one tree, or two different trees.
    fn trees(&self, path: &[usize]) -> impl Iterator<Item = ServerTree> {
        let [deep, flat] =
            [true, false].map(|deep| ServerTree::of(self.network, path, self.order, deep));
        let differ = deep.next != flat.next;
        iter::once(deep).chain(differ.then_some(flat))
    }

    /// Creates the program with the constraints of a tree, and the units of its numbers.
    fn program<'t>(
        &self,
        tree: &'t ServerTree,
        alone: Option<usize>,
    ) -> Option<(TreeProgram<'t>, ProgramUnits)> {
        let aggregates = self.aggregates(tree, alone)?;
        let mut units = ProgramUnits { time: 0.0, rate: 0.0 };
        for &server in &tree.servers {
            units.time += float(self.delays[server].as_ref()?);
            let rate = float(self.network.servers[server].service.last_slope());
            units.rate = units.rate.max(rate);
        }
        if units.time <= 0.0 || units.rate <= 0.0 {
            return None;
        }
        let lines =
            |curve: &Curve| curve.pieces().iter().map(|p| units.line(p)).collect::<Vec<_>>();
        let mut program = TreeProgram::new(tree, aggregates.keys());
        for (place, &server) in tree.servers.iter().enumerate() {
            program.order(place, float(self.delays[server].as_ref()?) / units.time);
            let served = self.network.servers[server].service.pieces().iter();
            for piece in served.filter(|p| !p.slope.is_zero()) {
                let latency = float(&(&piece.at - &piece.value / &piece.slope)) / units.time;
                program.served(place, (float(&piece.slope) / units.rate, latency));
            }
        }
        for (flow, bounds) in self.network.flows.iter().zip(self.whole) {
            let entry = flow.path.first().and_then(|server| tree.place(*server));
            let Some(first) = entry else { continue };
            let length = flow.path.len();
            let passed = tree.from(first).zip(&flow.path);
            let is_whole =
                passed.filter(|(place, s)| tree.servers[*place] == **s).count() == length;
            if let Some(delay) = bounds.best().filter(|_| is_whole && length > 1) {
                let end = tree.from(first).nth(length);
                program.delays(first, end, float(delay) / units.time);
            }
        }
        // For each place and line, the flows that come over the line to the server at that place.
        let mut by_line: BTreeMap<(usize, usize), Vec<Aggregate>> = BTreeMap::new();
        for (aggregate, curves) in &aggregates {
            program.increases(*aggregate);
            for (hop, (place, curve)) in tree.from(aggregate.first).zip(curves).enumerate() {
                for line in lines(curve) {
                    program.arrives(&[*aggregate], place, line);
                }
                let before = tree.from(aggregate.first).nth(hop.wrapping_sub(1));
                let line =
                    before.map_or(aggregate.line, |p| self.network.servers[tree.servers[p]].line);
                if let Some(line) = line {
                    by_line.entry((place, line)).or_default().push(*aggregate);
                }
            }
        }
        for ((place, line), which) in by_line {
            for line in lines(&self.network.lines[line]) {
                program.arrives(&which, place, line);
            }
        }
        Some((program, units))
    }

    /// The flows that cross a tree, as aggregates, each with its arrival curve at each server.
    fn aggregates(
        &self,
        tree: &ServerTree,
        alone: Option<usize>,
    ) -> Option<BTreeMap<Aggregate, Vec<Curve>>> {
        let mut all: BTreeMap<Aggregate, Vec<Curve>> = BTreeMap::new();
        for (f, flow) in self.network.flows.iter().enumerate() {
            let only = alone.filter(|alone| *alone == f);
            let mut hop = 0;
            while let Some(server) = flow.path.get(hop) {
                let Some(first) = tree.place(*server) else {
                    hop += 1;
                    continue;
                };
                let common = tree.from(first).zip(&flow.path[hop..]);
                let length = common.take_while(|(place, s)| tree.servers[*place] == **s).count();
                let aggregate = Aggregate { first, length, line: self.network.line(f, hop), only };
                let sums = all.entry(aggregate).or_insert_with(|| vec![Curve::zero(); length]);
                for (sum, came) in sums.iter_mut().zip(&self.comes[f][hop..]) {
                    *sum = sum.sum(came.as_ref()?);
                }
                hop += length;
            }
        }
        Some(all)
    }
}

impl<'a> TreeProgram<'a> {
    fn new<'b>(
        tree: &'a ServerTree,
        aggregates: impl Iterator<Item = &'b Aggregate>,
    ) -> TreeProgram<'a> {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let mut many = |count: usize| -> Vec<Variable> {
            (0..count).map(|_| problem.add_var(0.0, (0.0, f64::INFINITY))).collect()
        };
        let places = 0..tree.servers.len();
        let dates = places.map(|place| many(tree.dates(Some(place)))).collect();
        let sent = aggregates.map(|c| (*c, many(tree.dates(Some(c.first)) - 1))).collect();
        TreeProgram { tree, problem, dates, sent }
    }

    /// The largest value of a sum, enlarged by [`SLACK`].
    fn largest(mut self, sum: Sum) -> Option<f64> {
        let goal = self.problem.add_var(1.0, (0.0, f64::INFINITY));
        let sum = sum.into_iter().map(|(variable, factor)| (variable, -factor));
        self.constrain(sum.chain([(goal, 1.0)]).collect(), 0.0);
        let found = self.problem.solve().ok()?.into_solution().ok()?;
        // Only an optimal solution is a bound.
        (found.status() == SolutionStatus::Optimal).then(|| found.objective() * (1.0 + SLACK))
    }

    /// Adds the constraint that a sum is at most a number.
    fn constrain(&mut self, sum: Sum, most: f64) {
        self.problem.add_constraint(sum, ComparisonOp::Le, most);
    }

    /// A date of a server, as the time from it to the end. The end itself is an empty sum.
    fn date(&self, place: Option<usize>, k: usize, factor: f64) -> Sum {
        place.map_or_else(Vec::new, |place| vec![(self.dates[place][k], factor)])
    }

    /// The bytes that flows have sent from date `before` to date `k`, which is later and has a
    /// lower number.
    fn sent(&self, aggregate: Aggregate, k: usize, before: usize, factor: f64) -> Sum {
        let sent = &self.sent[&aggregate];
        let later = k.checked_sub(1).map(|k| (sent[k], -factor));
        later.into_iter().chain([(sent[before - 1], factor)]).collect()
    }

    /// Adds the constraints that the dates of a server are in order, and that packets leave at most
    /// `delay` after they arrive.
    fn order(&mut self, place: usize, delay: f64) {
        let (here, next) = (Some(place), self.tree.next[place]);
        for k in 1..self.tree.dates(here) {
            let sum = [self.date(here, k - 1, 1.0), self.date(here, k, -1.0)].concat();
            self.constrain(sum, 0.0);
        }
        for k in 0..self.tree.dates(next) {
            let sum = [self.date(here, k, -1.0), self.date(next, k, 1.0)].concat();
            self.constrain(sum, 0.0);
        }
        self.delays(place, next, delay);
    }

    /// Adds the constraint that packets take at most `delay` from their arrival at one server to
    /// their arrival at another server, or to the end.
    fn delays(&mut self, first: usize, end: Option<usize>, delay: f64) {
        for k in 0..self.tree.dates(end) {
            let sum = [self.date(Some(first), k, 1.0), self.date(end, k, -1.0)].concat();
            self.constrain(sum, delay);
        }
    }

    /// Adds the constraint on the bytes served: from its earliest date to the oldest departure, the
    /// server served at least the bytes that its service line guarantees.
    fn served(&mut self, place: usize, (rate, latency): Straight) {
        let next = self.tree.next[place];
        let oldest = self.tree.dates(next) - 1;
        let passes = |c: &&Aggregate| self.tree.from(c.first).take(c.length).any(|p| p == place);
        let here: Vec<Aggregate> = self.sent.keys().filter(passes).copied().collect();
        let sent = here.iter().flat_map(|c| self.sent(*c, oldest, oldest + 1, -1.0));
        let since = self.date(Some(place), oldest + 1, rate);
        let sum = sent.chain(since).chain(self.date(next, oldest, -rate)).collect();
        self.constrain(sum, rate * latency);
    }

    /// Adds the constraint that the bytes that flows have sent never decrease.
    fn increases(&mut self, aggregate: Aggregate) {
        for k in 1..self.tree.dates(Some(aggregate.first)) {
            let sum = self.sent(aggregate, k - 1, k, -1.0);
            self.constrain(sum, 0.0);
        }
    }

    /// Adds the constraint that between any two dates of a server, the arrivals of these flows
    /// together are at most this line.
    fn arrives(&mut self, which: &[Aggregate], place: usize, (slope, burst): Straight) {
        let here = Some(place);
        for before in 1..self.tree.dates(here) {
            for k in 0..before {
                let sent = which.iter().flat_map(|c| self.sent(*c, k, before, 1.0));
                let since = self.date(here, before, -slope);
                let sum = sent.chain(since).chain(self.date(here, k, slope)).collect();
                self.constrain(sum, burst);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Flow, Order, Server};
    use falaj_sched::units::rate::Rate;
    use falaj_sched::units::time::Span;

    /// Bounds in microseconds on a row of servers of this rate (Mbit/s) and latency (us). A flow is
    /// given by its servers, its burst in bytes, and its rate in kbit/s.
    fn bounds(
        (mbit, us): (u64, u64),
        count: usize,
        flows: &[(&[usize], u64, u64)],
    ) -> Vec<[f64; 3]> {
        let service = Curve::rate_latency(Rate::from_mbit(mbit), Span::from_micros(us));
        let server = |n| Server { name: format!("{n}"), service: service.clone(), line: None };
        let flow = |&(path, burst, kbit): &(&[usize], u64, u64)| Flow {
            name: format!("{path:?}"),
            sent: Some(Curve::token_bucket(Rate(kbit * 1000), burst)),
            path: path.to_vec(),
        };
        let network = Network {
            servers: (0..count).map(server).collect(),
            flows: flows.iter().map(flow).collect(),
            lines: Vec::new(),
            order: Order::Fifo,
        };
        let us = |bound: &Option<Exact>| float(bound.as_ref().unwrap()) / 1e3;
        let bounds = network.bounds().unwrap().flows;
        bounds.iter().map(|b| [us(&b.total), us(&b.separated), us(&b.linear)]).collect()
    }

    /// On six links of 10 Mbit/s in a row, five flows with bursts of 11,000 B in all wait for these
    /// bytes once: 8.8 ms.
    #[test]
    fn on_equal_links_bursts_are_paid_for_once() {
        let path: &[usize] = &[0, 1, 2, 3, 4, 5];
        let mut flows = vec![(path, 1000, 500); 5];
        flows[0] = (path, 7000, 2000);
        for [total, separated, linear] in bounds((10, 0), 6, &flows) {
            assert!((linear - 8800.0).abs() < 0.1, "{linear}");
            assert!(linear < separated && linear < total, "{separated} {total}");
        }
    }

    /// Compares delays with those of the program Panco (PLP without shaping). In the network with a
    /// sink, the delay of the last flow is the same. In the interleaved tandem, Panco's delay of
    /// the flow through all servers is 1265.6 us. Ours is lower, because the bounds of the other
    /// flows are constraints too.
    #[test]
    fn another_program_finds_the_same() {
        let sink: [(&[usize], u64, u64); 4] = [
            (&[0, 1, 2, 3], 3000, 2000),
            (&[1, 2, 3], 3000, 2000),
            (&[2, 3], 3000, 2000),
            (&[3], 3000, 2000),
        ];
        let sink = bounds((10, 100), 4, &sink);
        assert!((sink[3][2] - 9820.0).abs() < 0.1, "{sink:?}");
        for (ours, panco) in sink.iter().zip([14_950.0, 13_675.0, 11_832.0]) {
            assert!(ours[2] < panco && ours[2] > 0.95 * panco, "{ours:?} {panco}");
        }
        let interleaved: [(&[usize], u64, u64); 4] = [
            (&[0, 1, 2, 3], 3000, 10_000),
            (&[0, 1], 3000, 20_000),
            (&[1, 2], 3000, 20_000),
            (&[2, 3], 3000, 20_000),
        ];
        let interleaved = bounds((100, 10), 4, &interleaved);
        assert!((interleaved[0][2] - 1211.2).abs() < 0.1, "{interleaved:?}");
        for (ours, panco) in interleaved[1..].iter().zip([836.0, 1107.8, 816.0]) {
            assert!(ours[2] < panco + 0.01 && ours[2] > 0.97 * panco, "{ours:?} {panco}");
        }
    }
}
