//! Networks of servers: end-to-end bounds.
//!
//! | method | how it finds a bound |
//! |---|---|
//! | total | all flows of a server count as one flow, whose delay has a bound; the bounds along the path are added (Schmitt and Zdarsky 2006) |
//! | linear | a linear program looks for the worst packet (Bouillard 2022); for small networks |
//! | separated | each server serves a flow with the service that the other flows leave over; all these servers together count as one server, so the burst is paid for once (Le Boudec and Thiran, 1.4.3) |
//!
//! Two bounds hold for the output of a server: one follows from its input and the delay at the
//! server, the other from its input and the left-over service (ibid., 1.4.3). If linear programs
//! are solved, they give a third bound. The next server uses the minimum of these bounds as its
//! input. Flows that leave a server for the same next one have a bound together too, which may be
//! lower than the sum of their bounds (`joint`). A line is the outgoing link of a server. All flows
//! that come from one line are together limited by the line's rate (line shaping; Mifdaoui and
//! Leydier 2017).
//!
//! If paths form a circle, the delays depend on each other. Their bounds are then the least fixed
//! point of total flow analysis, found from below (Thomas, Le Boudec and Mifdaoui 2019). No packet
//! can be the first one with a longer delay, because each packet takes time at each server, and
//! later arrivals do not delay it.

use crate::curve::{Curve, Exact, Piece, exact};
use crate::in_order::{self, SharedServer};
use crate::joint::{AnalysedServers, JointOutputs};
use crate::linear::Analysed;
use num_traits::Zero;
use std::collections::BTreeMap;

/// A server of all flows that pass it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The name of the server.
    pub name: String,
    /// The service curve for all these flows together. With [`Order::Any`] it must be strict, that
    /// is, hold in any interval of backlog.
    pub service: Curve,
    /// Index of the line on which the server sends, if it is known. Other servers may send on the
    /// same line.
    pub line: Option<usize>,
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The name of the flow.
    pub name: String,
    /// Its arrival curve; `None` if nothing bounds its traffic.
    pub sent: Option<Curve>,
    /// Indices of the servers that the flow passes, in order, each at most once.
    pub path: Vec<usize>,
}

/// The order in which a server serves packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In the order of arrival.
    Fifo,
    /// In an unknown order: packets of other flows may always go first.
    Any,
}

/// Servers, and the flows that pass them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// All servers.
    pub servers: Vec<Server>,
    /// All flows.
    pub flows: Vec<Flow>,
    /// For each line, an arrival curve of all traffic that it carries.
    pub lines: Vec<Curve>,
    /// The order of service at every server.
    pub order: Order,
}

/// Bounds on the delay of a flow, in nanoseconds; `None` if the method finds none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndToEnd {
    /// Sum of the delays at the flow's servers.
    pub total: Option<Exact>,
    /// Delay at all of the flow's servers together, treated as one server.
    pub separated: Option<Exact>,
    /// The largest delay that a linear program finds.
    pub linear: Option<Exact>,
}

/// A method for end-to-end bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundMethod {
    /// Total flow analysis.
    Total,
    /// Separated flow analysis.
    Separated,
    /// Linear programs.
    Linear,
}

impl EndToEnd {
    /// Returns the bound of one method.
    pub fn by(&self, method: BoundMethod) -> &Option<Exact> {
        match method {
            BoundMethod::Total => &self.total,
            BoundMethod::Separated => &self.separated,
            BoundMethod::Linear => &self.linear,
        }
    }

    /// Returns these bounds without the bounds of other methods.
    #[must_use]
    pub fn only(self, method: BoundMethod) -> EndToEnd {
        match method {
            BoundMethod::Total => EndToEnd { total: self.total, ..EndToEnd::default() },
            BoundMethod::Separated => EndToEnd { separated: self.separated, ..EndToEnd::default() },
            BoundMethod::Linear => EndToEnd { linear: self.linear, ..EndToEnd::default() },
        }
    }

    /// Returns the lowest bound of all methods.
    pub fn best(&self) -> Option<&Exact> {
        [&self.total, &self.separated, &self.linear].into_iter().flatten().min()
    }
}

/// The bounds of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// For each server, a bound on the delay of any flow there. `None` if more traffic may arrive
    /// than is served, or if an arrival curve or the order of service is unknown.
    pub servers: Vec<Option<Exact>>,
    /// The end-to-end bounds of each flow.
    pub flows: Vec<EndToEnd>,
}

/// Error: the paths of flows form a circle for which no bound was found. These servers are on the
/// circle or behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle(pub Vec<usize>);

/// For each flow and hop, an arrival curve of the flow at this hop, if it is known. The last curve
/// is the curve of the flow's output.
pub(crate) type CurvesByHop = Vec<Vec<Option<Curve>>>;

/// The flows that arrive at a server.
struct Arriving {
    /// The sum of the flows that come from each line, and of the flows that come from no line.
    by_line: BTreeMap<Option<usize>, Curve>,
    /// The sum of all flows, shaped by the lines.
    all: Curve,
    /// The flows for which no arrival curve is known.
    unknown: Vec<usize>,
}

/// Maximum number of rounds in which a fixed point is searched.
const ROUNDS: u32 = 2000;

/// Maximum length of all paths together, in servers, for which linear programs are solved: there is
/// one program for each server of each path.
const MOST_PROGRAMS: usize = 64;

impl Network {
    /// The flows that pass a server, each with the index of the server in its path.
    pub(crate) fn through(&self, server: usize) -> impl Iterator<Item = (usize, usize)> {
        self.flows
            .iter()
            .enumerate()
            .filter_map(move |(f, flow)| Some((f, flow.path.iter().position(|s| *s == server)?)))
    }

    /// The servers, each after all servers from which flows come to it.
    fn sorted(&self) -> Result<Vec<usize>, Circle> {
        let mut left: Vec<usize> = (0..self.servers.len()).collect();
        let mut sorted: Vec<usize> = Vec::new();
        while !left.is_empty() {
            let waits = |server: &usize| {
                self.through(*server)
                    .any(|(f, hop)| hop > 0 && left.contains(&self.flows[f].path[hop - 1]))
            };
            let (still, free): (Vec<usize>, Vec<usize>) =
                left.iter().partition(|server| waits(server));
            if free.is_empty() {
                return Err(Circle(still));
            }
            sorted.extend(free);
            left = still;
        }
        Ok(sorted)
    }

    /// The line from which a flow comes to the server at this hop, if it comes from one.
    pub(crate) fn line(&self, flow: usize, hop: usize) -> Option<usize> {
        let before = hop.checked_sub(1).map(|before| self.flows[flow].path[before]);
        before.and_then(|server| self.servers[server].line)
    }

    /// Returns an arrival curve of flows whose curves add up to `sum`. If they come from a line,
    /// they are limited to the line's capacity.
    pub(crate) fn shaped(&self, line: Option<usize>, sum: &Curve) -> Curve {
        line.map_or_else(|| sum.clone(), |line| sum.min(&self.lines[line]))
    }

    /// The flows that arrive at a server; `comes` has the curve of each flow at each hop.
    fn arrivals(&self, server: usize, comes: &CurvesByHop) -> Arriving {
        let mut load =
            Arriving { by_line: BTreeMap::new(), all: Curve::zero(), unknown: Vec::new() };
        for (f, hop) in self.through(server) {
            match &comes[f][hop] {
                Some(came) => {
                    let from = load.by_line.entry(self.line(f, hop));
                    let sum = from.or_insert_with(Curve::zero);
                    *sum = sum.sum(came);
                }
                None => load.unknown.push(f),
            }
        }
        let parts = load.by_line.iter().map(|(line, sum)| self.shaped(*line, sum));
        load.all = parts.fold(Curve::zero(), |all, part| all.sum(&part));
        load
    }

    /// Returns the arrival curve of all flows that arrive at a server, except one flow.
    fn others(
        &self,
        load: &Arriving,
        (f, hop): (usize, usize),
        comes: &CurvesByHop,
    ) -> Option<Curve> {
        let Some(came) = &comes[f][hop] else {
            return (load.unknown == [f]).then(|| load.all.clone());
        };
        if !load.unknown.is_empty() {
            return None;
        }
        let line = self.line(f, hop);
        let with = &load.by_line[&line];
        let rest = load.all.without(&self.shaped(line, with)).ok()?;
        Some(rest.sum(&self.shaped(line, &with.without(came).ok()?)))
    }

    /// A bound on the delay at a server that serves in the order of arrival.
    fn delay(&self, server: usize, load: &Arriving) -> Option<Exact> {
        let all = Some(&load.all).filter(|_| load.unknown.is_empty())?;
        Some(all.delay(&self.servers[server].service)?.length)
    }

    /// Returns the arrival curves of all flows at their sources; the curves at later hops are
    /// unknown.
    fn at_sources(&self) -> CurvesByHop {
        let later = |flow: &Flow| vec![None; flow.path.len()];
        self.flows.iter().map(|flow| [vec![flow.sent.clone()], later(flow)].concat()).collect()
    }

    /// The arrival curves of all flows at all hops if paths form a circle; `None` if they have no
    /// fixed point, or none within [`ROUNDS`].
    fn fixed_point(&self) -> Option<CurvesByHop> {
        // Rounded up to whole nanoseconds, the delays reach a fixed point, if there is one, in
        // finitely many rounds.
        let mut delays: Vec<Option<Exact>> = vec![Some(Exact::zero()); self.servers.len()];
        for _ in 0..ROUNDS {
            let mut comes = self.at_sources();
            for (flow, curves) in self.flows.iter().zip(&mut comes) {
                let mut late = Some(Exact::zero());
                for (hop, server) in flow.path.iter().enumerate() {
                    late = late.zip(delays[*server].as_ref()).map(|(all, one)| all + one);
                    let sent = flow.sent.as_ref().zip(late.as_ref());
                    curves[hop + 1] = sent.map(|(sent, late)| sent.earlier(late));
                }
            }
            let next = |s| self.delay(s, &self.arrivals(s, &comes)).map(|delay| delay.ceil());
            let next: Vec<Option<Exact>> = (0..self.servers.len()).map(next).collect();
            if next == delays {
                return Some(comes);
            }
            delays = next;
        }
        None
    }

    fn analysed<'a>(
        &'a self,
        order: &'a [usize],
        comes: &'a CurvesByHop,
        delays: &'a [Option<Exact>],
        whole: &'a [EndToEnd],
    ) -> Analysed<'a> {
        Analysed { network: self, order, comes, delays, whole }
    }

    /// End-to-end bounds on the delays of all flows.
    ///
    /// # Errors
    /// The flows form a circle, and the delays on it have no fixed point, or the order of service
    /// is unknown.
    pub fn bounds(&self) -> Result<Bounds, Circle> {
        let (sorted, circle) = match self.sorted() {
            Ok(sorted) => (sorted, None),
            Err(circle) => {
                let fixed = Some(self).filter(|of| of.order == Order::Fifo);
                let fixed = fixed.and_then(Network::fixed_point).ok_or(circle)?;
                ((0..self.servers.len()).collect(), Some(fixed))
            }
        };
        let is_known = circle.is_some();
        let hops: usize = self.flows.iter().map(|flow| flow.path.len()).sum();
        let programs = self.order == Order::Fifo && hops <= MOST_PROGRAMS;
        let mut comes = circle.unwrap_or_else(|| self.at_sources());
        let mut servers: Vec<Option<Exact>> = vec![None; self.servers.len()];
        // For each flow and hop, the service that other flows leave over.
        let mut left: Vec<Vec<Option<Curve>>> =
            self.flows.iter().map(|flow| vec![None; flow.path.len()]).collect();
        // The servers as they are shared with these other flows, if the order is that of arrival.
        let mut shared: Vec<Vec<Option<SharedServer>>> =
            self.flows.iter().map(|flow| vec![None; flow.path.len()]).collect();
        let mut outputs = JointOutputs::default();
        for &s in &sorted {
            let service = &self.servers[s].service;
            let load = self.arrivals(s, &comes);
            // The arrivals of all flows that pass this server, except one if it is named.
            let mut joint = |delays: &[Option<Exact>], except: Option<usize>| {
                let through = self.through(s).map(|(f, _)| f).filter(|f| Some(*f) != except);
                let of = AnalysedServers { network: self, comes: &comes, delays };
                let is_small = hops <= MOST_PROGRAMS && !is_known;
                is_small.then(|| outputs.input(of, s, &through.collect::<Vec<_>>()))?
            };
            if self.order == Order::Fifo {
                let together = joint(&servers, None).and_then(|all| all.delay(service));
                let delays = [self.delay(s, &load), together.map(|delay| delay.length)];
                servers[s] = delays.into_iter().flatten().min();
            }
            for (f, hop) in self.through(s) {
                let others = self.others(&load, (f, hop), &comes).into_iter();
                let others = others.chain(joint(&servers, Some(f))).reduce(|a, b| a.min(&b));
                if self.order == Order::Fifo {
                    shared[f][hop] = others.as_ref().and_then(|o| SharedServer::of(service, o));
                }
                left[f][hop] = others.and_then(|others| match self.order {
                    Order::Fifo => service.left_over_in_order(&others),
                    Order::Any => Some(service.left_over(&others)),
                });
            }
            for (f, hop) in self.through(s).filter(|_| !is_known) {
                let came = comes[f][hop].as_ref();
                let served = came.and_then(|came| came.deconvolve(left[f][hop].as_ref()?));
                let delayed = came.and_then(|came| Some(came.earlier(servers[s].as_ref()?)));
                let left = match (served, delayed) {
                    (Some(a), Some(b)) => Some(a.min(&b)),
                    (a, b) => a.or(b),
                };
                comes[f][hop + 1] = left.map(Curve::with_short_numbers);
                if programs && hop + 1 < self.flows[f].path.len() {
                    let linear = self.analysed(&sorted, &comes, &servers, &[]);
                    let linear = linear.output(f, hop).map(Curve::with_short_numbers);
                    let left = &mut comes[f][hop + 1];
                    *left = left.iter().chain(&linear).cloned().reduce(|a, b| a.min(&b));
                }
            }
        }
        let total = |flow: &Flow| {
            flow.path
                .iter()
                .map(|s| servers[*s].as_ref())
                .try_fold(Exact::zero(), |all, delay| Some(all + delay?))
        };
        let separated = |f: usize| {
            let whole = left[f].iter().cloned().reduce(|a, b| Some(a?.convolve(&b?)))??;
            let sent = self.flows[f].sent.as_ref()?;
            let in_order = || {
                let servers = shared[f].iter().cloned().collect::<Option<Vec<_>>>()?;
                in_order::delay(sent, &servers)
            };
            let lower = if programs { in_order() } else { None };
            lower.into_iter().chain([sent.delay(&whole)?.length]).min()
        };
        let without =
            |(f, flow)| EndToEnd { total: total(flow), separated: separated(f), linear: None };
        let mut flows: Vec<EndToEnd> = self.flows.iter().enumerate().map(without).collect();
        // The bounds of the first round make the programs of the second round more precise.
        for _ in 0..if programs { 2 } else { 0 } {
            let linear = self.analysed(&sorted, &comes, &servers, &flows);
            let bounds: Vec<_> = (0..flows.len()).map(|f| linear.delay(f)).collect();
            flows.iter_mut().zip(bounds).for_each(|(flow, bound)| flow.linear = bound);
        }
        Ok(Bounds { servers, flows })
    }
}

impl Curve {
    /// Returns a curve whose bursts are short fractions, and which is above this curve by at most a
    /// millionth of a byte. A curve that bends up or jumps at a bend is returned unchanged. Without
    /// this rounding, the numbers get longer at each server, and a network of a thousand flows
    /// takes many seconds.
    pub(crate) fn with_short_numbers(self) -> Curve {
        let pieces = self.pieces();
        let bends_down = pieces.windows(2).all(|two| {
            let [a, b] = two else { return false };
            b.slope < a.slope
                && b.value == b.after
                && b.value == &a.after + &a.slope * (&b.at - &a.at)
        });
        if !bends_down {
            return self;
        }
        let unit = exact(1 << 20);
        let line = |p: &Piece| {
            let burst = (&p.after - &p.slope * &p.at) * &unit;
            Curve::affine(p.slope.clone(), burst.ceil() / &unit)
        };
        pieces.iter().map(line).reduce(|a, b| a.min(&b)).unwrap_or(self)
    }

    /// The arrival curve behind a server that delays by at most `by` nanoseconds: bytes may leave
    /// closer together by this time.
    pub fn earlier(&self, by: &Exact) -> Curve {
        let first = Piece {
            at: Exact::zero(),
            value: self.at(by),
            after: self.after(by),
            slope: self
                .pieces()
                .iter()
                .rev()
                .find(|p| p.at <= *by)
                .map_or_else(Exact::zero, |p| p.slope.clone()),
        };
        let later = self.pieces().iter().filter(|p| p.at > *by);
        let later = later.map(|p| Piece { at: &p.at - by, ..p.clone() });
        Curve::joined(std::iter::once(first).chain(later).collect())
    }

    /// The left-over service for one flow at a server that serves packets in the order of arrival.
    /// The server also serves `others`. If the server has the long-term rate R and the latency T,
    /// and the others have the rate r and the burst b, it is the rate R - r after T + b / R. (Le
    /// Boudec and Thiran, chapter 6: the curve without a jump in the FIFO family.) `None` if
    /// nothing is left over.
    pub fn left_over_in_order(&self, others: &Curve) -> Option<Curve> {
        let (most, taken) = (self.last_slope(), others.last_slope());
        if taken >= most {
            return None;
        }
        // The line below the service curve, and the line above the arrival curve.
        let latency = self.pieces().iter().map(|p| &p.at - &p.value / most).max()?;
        let burst = others.pieces().iter().map(|p| &p.after - taken * &p.at).max()?;
        Some(Curve::served(most - taken, latency + burst / most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use falaj_sched::units::rate::Rate;
    use falaj_sched::units::time::Span;

    fn network(order: Order, flows: &[(u64, u64, &[usize])]) -> Network {
        // Two servers, each with a rate of 10 Mbit/s, or 1.25 B a microsecond, after 1 ms.
        let service = Curve::rate_latency(Rate::from_mbit(10), Span::from_millis(1));
        let server =
            |name: &str| Server { name: name.into(), service: service.clone(), line: None };
        let flow = |(n, &(mbit, burst, path)): (usize, &(u64, u64, &[usize]))| Flow {
            name: n.to_string(),
            sent: Some(Curve::token_bucket(Rate::from_mbit(mbit), burst)),
            path: path.to_vec(),
        };
        Network {
            servers: vec![server("a"), server("b")],
            flows: flows.iter().enumerate().map(flow).collect(),
            lines: Vec::new(),
            order,
        }
    }

    /// One flow of 1 Mbit/s and 1000 B through both servers. At the first one its delay is 1 ms and
    /// 800 us. It leaves with a burst of at most 1125 B, which takes 1 ms and 900 us at the second
    /// server. Both together are one server with a latency of 2 ms, and the burst is paid for once.
    #[test]
    fn a_burst_is_paid_for_once() {
        let bounds = network(Order::Fifo, &[(1, 1000, &[0, 1])]).bounds().unwrap();
        assert_eq!(bounds.servers, [Some(exact(1_800_000)), Some(exact(1_900_000))]);
        assert_eq!(bounds.flows[0].total, Some(exact(3_700_000)));
        assert_eq!(bounds.flows[0].separated, Some(exact(2_800_000)));
        assert_eq!(bounds.flows[0].best(), Some(&exact(2_800_000)));
    }

    /// Another flow of 2 Mbit/s and 500 B passes the second server. In the order of arrival, 8
    /// Mbit/s are left over after 1 ms + 500 B / 10 Mbit/s, or later with some bytes at once. Both
    /// servers let the burst wait for 800 us if the second one sends 200 B at once, 160 us later.
    /// In any order, service begins when 10 Mbit/s (t - 1 ms) exceeds 500 B + 2 Mbit/s t, after
    /// 1.75 ms.
    #[test]
    fn what_others_leave_over() {
        let flows: [(u64, u64, &[usize]); 2] = [(1, 1000, &[0, 1]), (2, 500, &[1])];
        let in_order = network(Order::Fifo, &flows).bounds().unwrap();
        // 1 ms at the first server, then 1.4 ms and 160 us, then 1000 B at 10 Mbit/s.
        assert_eq!(in_order.flows[0].separated, Some(exact(3_360_000)));
        // The second server: 1 ms, then 1125 B and 500 B at 10 Mbit/s.
        assert_eq!(in_order.servers[1], Some(exact(2_300_000)));
        let any = network(Order::Any, &flows).bounds().unwrap();
        assert_eq!(
            any.flows[0],
            EndToEnd {
                separated: Some(exact(1_000_000 + 1_750_000 + 1_000_000)),
                ..EndToEnd::default()
            }
        );
        assert_eq!(any.servers, [None, None]);
    }

    /// Two flows of 2 and 3 Mbit/s, with bursts of 1250 and 2500 B, pass both servers. At the first
    /// one their delay is 1 ms and 3000 us. They leave it with a burst of 3750 B and the bytes that
    /// come in the latency, 5 Mbit/s for 1 ms: 4375 B. If each flow counted by itself, 5 Mbit/s for
    /// 4 ms would be added.
    #[test]
    fn flows_that_leave_together_count_as_one() {
        let flows: [(u64, u64, &[usize]); 2] = [(2, 1250, &[0, 1]), (3, 2500, &[0, 1])];
        let bounds = network(Order::Fifo, &flows).bounds().unwrap();
        assert_eq!(bounds.servers, [Some(exact(4_000_000)), Some(exact(4_500_000))]);
    }

    #[test]
    fn where_nothing_is_known() {
        // 6 and 5 Mbit/s overload the second server; the first one is not affected.
        let bounds = network(Order::Fifo, &[(6, 1000, &[0, 1]), (5, 500, &[1])]).bounds().unwrap();
        assert!(bounds.servers[0].is_some() && bounds.servers[1].is_none());
        assert!(bounds.flows.iter().all(|flow| flow.total.is_none()));
        // The left-over rate, 10 - 5 Mbit/s, is not enough for 6 Mbit/s.
        assert_eq!(bounds.flows[0].separated, None);
        let mut unknown = network(Order::Fifo, &[(1, 1000, &[0, 1]), (5, 500, &[1])]);
        unknown.flows[1].sent = None;
        let bounds = unknown.bounds().unwrap();
        assert_eq!((&bounds.flows[0], &bounds.servers[1]), (&EndToEnd::default(), &None));
        let circle: [(u64, u64, &[usize]); 2] = [(1, 1000, &[0, 1]), (1, 500, &[1, 0])];
        assert_eq!(network(Order::Any, &circle).bounds(), Err(Circle(vec![0, 1])));
        // On a ring of four servers, a delay makes the bursts at the next three larger. With a load
        // of 80 %, the sum of the delays has no fixed point, because 0.2 * (1 + 2 + 3) is above 1.
        let ring: [(u64, u64, &[usize]); 4] = [
            (2, 1000, &[0, 1, 2, 3]),
            (2, 1000, &[1, 2, 3, 0]),
            (2, 1000, &[2, 3, 0, 1]),
            (2, 1000, &[3, 0, 1, 2]),
        ];
        let mut ring = network(Order::Fifo, &ring);
        ring.servers.extend(ring.servers.clone());
        assert_eq!(ring.bounds(), Err(Circle(vec![0, 1, 2, 3])));
    }

    /// Two flows of 5 and 4 Mbit/s, with bursts of 1000 B each, pass two servers in opposite
    /// directions: the burst at a server grows with the delay at the other server.
    #[test]
    fn a_circle_has_a_fixed_point() {
        let flows: [(u64, u64, &[usize]); 2] = [(5, 1000, &[0, 1]), (4, 1000, &[1, 0])];
        let bounds = network(Order::Fifo, &flows).bounds().unwrap();
        // D0 = 2.6 + 0.4 D1 and D1 = 2.6 + 0.5 D0, in milliseconds.
        let [first, second] = [3.64 / 0.8, 2.6 + 0.5 * 3.64 / 0.8].map(|ms| ms * 1e6);
        for (bound, exact) in bounds.servers.iter().zip([first, second]) {
            let bound = crate::float(bound.as_ref().unwrap());
            assert!((0.0..5.0).contains(&(bound - exact)), "{bound} and {exact}");
        }
        assert_eq!(bounds.flows[0].total, bounds.flows[1].total);
    }

    /// Two flows of 1500 B each leave the first server one after the other, at 10 Mbit/s. So at the
    /// second server, which is as fast, they wait for its latency and for one packet of 500 B.
    #[test]
    fn a_line_shapes_what_it_carries() {
        let flows: [(u64, u64, &[usize]); 2] = [(1, 1500, &[0, 1]), (1, 1500, &[0, 1])];
        let mut shaped = network(Order::Fifo, &flows);
        let apart = shaped.bounds().unwrap();
        shaped.servers[0].line = Some(0);
        shaped.lines = vec![Curve::token_bucket(Rate::from_mbit(10), 500)];
        let bounds = shaped.bounds().unwrap();
        assert_eq!(bounds.servers, [Some(exact(3_400_000)), Some(exact(1_400_000))]);
        assert!(apart.servers[1] > bounds.servers[1]);
        assert_eq!(bounds.flows[0].total, Some(exact(4_800_000)));
    }

    #[test]
    fn earlier_by_a_bend() {
        let curve = Curve::token_bucket(Rate::from_mbit(80), 100)
            .min(&Curve::token_bucket(Rate::from_mbit(8), 1090));
        // 10 B/us up to 110 us, where both lines reach 1200 B, then 1 B/us.
        let sooner = curve.earlier(&exact(100_000));
        assert_eq!(sooner.after(&exact(0)), exact(1100));
        assert_eq!(
            (sooner.at(&exact(10_000)), sooner.at(&exact(11_000))),
            (exact(1200), exact(1201))
        );
        assert_eq!(curve.earlier(&exact(0)).after(&exact(5)), curve.after(&exact(5)));
        assert_eq!(
            curve.earlier(&exact(200_000)),
            Curve::new(vec![Piece {
                at: exact(0),
                value: exact(1290),
                after: exact(1290),
                slope: crate::slope(Rate::from_mbit(8)),
            }])
            .unwrap()
        );
    }
}
