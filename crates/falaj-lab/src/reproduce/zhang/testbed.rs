//! The thesis' bottleneck link as a scenario file, and the counters of the link's output. One flow
//! is latency-critical (LC), and three flows are best-effort (BE).

use anyhow::{Result, anyhow};
use falaj_engine::key::Key;
use falaj_scenario::Scenario;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};
use falaj_sim::replay::{Arrival, Replayed, replay};
use falaj_terminal::file;
use falaj_traffic::capture::Verdict;
use falaj_traffic::interval::Estimate;
use falaj_traffic::source::Source;
use std::fmt::Write;

/// As in the thesis: five runs of 100 s.
pub(super) const SEEDS: u64 = 5;
const DURATION: Span = Span::from_secs(100);
const FIRST_SEED: u64 = 1;

/// The scheduler of the link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TestbedServer {
    /// DRR++ as intended in the thesis.
    Modified,
    /// DRR++ as listed in the thesis: a visit sends only packets that were queued when it began.
    Gated,
    /// DRR++ by MacGregor and Shi.
    Original,
    /// DRR+ with a contract of 1.35 times the mean rate, in a window of a second; for video, in a
    /// window of a group of pictures.
    Plus,
    /// DRR, which DRR+ becomes when the contract is broken.
    Plain,
}

/// The traffic of the latency-critical flow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lc {
    /// Packets of 40 B of headers and 40 to 700 B of payload, with exponential gaps; the number is
    /// that of packets per second.
    Packets(u32),
    /// Three groups of pictures per second: frames as single packets, or divided into packets of
    /// 1500 B.
    Video { whole: bool },
}

/// One experiment.
#[derive(Clone, Copy)]
pub(super) struct Testbed {
    pub(super) server: TestbedServer,
    /// Capacity in kbit/s.
    pub(super) capacity: u32,
    pub(super) lc: Lc,
    /// Packets per second of each BE flow.
    pub(super) be: u32,
    /// Quanta in bytes.
    pub(super) quantum_lc: u32,
    pub(super) quantum_be: u32,
    /// Limit of each flow's queue in packets.
    pub(super) queue: u32,
}

/// A practically unlimited queue: nothing is lost in the thesis.
pub(super) const ENDLESS: u32 = 10_000_000;

/// Bytes of packets, headers and payload: mean, and range.
const MEAN: u32 = 410;
const SIZES: &str = "80B-740B";

/// Bytes of the largest video packet.
fn largest(whole: bool) -> u32 {
    if whole { 17_000 } else { 1_500 }
}

impl Testbed {
    /// The scenario file.
    pub(super) fn text(&self) -> String {
        self.with_mtu(match self.lc {
            Lc::Packets(_) => 740,
            Lc::Video { whole } => largest(whole),
        })
    }

    /// The scenario file with this maximum packet size of the link, in bytes.
    pub(super) fn with_mtu(&self, mtu: u32) -> String {
        let (form, contract) = match self.server {
            TestbedServer::Modified => ("kind = \"drr++\", quanta = \"any\"", None),
            TestbedServer::Gated => ("kind = \"drr++\", form = \"gated\", quanta = \"any\"", None),
            TestbedServer::Original => {
                ("kind = \"drr++\", form = \"mw00\", quanta = \"any\"", None)
            }
            TestbedServer::Plain => ("kind = \"drr\", quanta = \"any\"", None),
            TestbedServer::Plus => ("kind = \"drr+\", quanta = \"any\"", Some(())),
        };
        let model = match self.lc {
            Lc::Packets(rate) => {
                let bits = u64::from(rate) * u64::from(MEAN) * 8;
                format!("model = \"poisson\"\nrate = \"{bits}bit\"\nsize = \"{SIZES}\"")
            }
            Lc::Video { whole } => {
                format!("model = \"mpeg\"\nrate = \"614400bit\"\nsize = \"{}B\"", largest(whole))
            }
        };
        let contract = contract.map_or(String::new(), |()| match self.lc {
            Lc::Packets(rate) => {
                format!("rate = \"{}bit\"\nwindow = \"1s\"\n", rate * MEAN * 8 * 27 / 20)
            }
            // 34,560 B in a third of a second.
            Lc::Video { .. } => "rate = \"829440bit\"\nwindow = \"333333334ns\"\n".into(),
        });
        let latency = if self.server == TestbedServer::Plain { "" } else { "latency = \"low\"\n" };
        let mut text = format!(
            "# Zhang's thesis, chapter 5\n\n[run]\nduration = \"{DURATION}\"\nseed = {FIRST_SEED}\nreplications = {SEEDS}\n\n\
             [link.bottleneck]\nrate = \"{}kbit\"\nlayer = \"ip\"\nmtu = \"{mtu}B\"\nscheduler = {{ {form} }}\n\n\
             [link.bottleneck.flow.lc]\nmatch = \"udp dport 5000\"\nqueue = \"{}p\"\n{latency}quantum = \"{}B\"\n{contract}",
            self.capacity, self.queue, self.quantum_lc
        );
        for n in 1..=3 {
            let rule = if n == 3 { "any".to_owned() } else { format!("udp dport {}", 5000 + n) };
            let _ = write!(
                text,
                "\n[link.bottleneck.flow.be{n}]\nmatch = \"{rule}\"\nqueue = \"{}p\"\nquantum = \"{}B\"\n",
                self.queue, self.quantum_be
            );
        }
        let _ = write!(text, "\n[traffic.lc]\nflow = \"lc\"\n{model}\n");
        for n in 1..=3 {
            let bits = u64::from(self.be) * u64::from(MEAN) * 8;
            if bits > 0 {
                let _ = write!(
                    text,
                    "\n[traffic.be{n}]\nflow = \"be{n}\"\nmodel = \"poisson\"\nrate = \"{bits}bit\"\nsize = \"{SIZES}\"\n"
                );
            }
        }
        text
    }

    /// Runs all seeds.
    pub(super) fn run(&self) -> Result<TestbedResult> {
        let scenario = file::parse_quietly(&self.text(), "zhang")?;
        let runs = FIRST_SEED..FIRST_SEED + SEEDS;
        let runs = runs
            .map(|seed| observed(&scenario, seed, DURATION, DURATION))
            .collect::<Result<Vec<_>>>()?;
        let mean = |of: &dyn Fn(&Observed) -> Option<f64>| {
            let values: Vec<f64> = runs.iter().filter_map(of).collect();
            Estimate::of(&values)
        };
        Ok(TestbedResult {
            lc: mean(&|o| o.delays[0]),
            be: [1, 2, 3].map(|n| mean(&|o| o.delays[n])),
            rounds: mean(&|o| Some(o.rounds)),
            services: mean(&|o| Some(o.services)),
            backlogs: mean(&|o| Some(o.backlogs)),
            rest: mean(&|o| o.rest),
            lost: [0, 1].map(|n| mean(&|o| o.lost[n])),
            idle: runs.into_iter().map(|o| o.idle).collect(),
        })
    }
}

/// Observes one run: the packets that arrive in the time `comes`, counted if they are sent within
/// `sent`.
fn observed(scenario: &Scenario, seed: u64, comes: Span, sent: Span) -> Result<Observed> {
    let mut arrivals = Vec::new();
    for (n, source) in scenario.traffic.iter().enumerate() {
        // The link accounts IP packets, so a source's size is the length of an IP packet.
        let of = Arrival {
            way: 0,
            flow: Some(FlowId(source.flow as u32)),
            key: Key::default(),
            length: 0,
            at: Time::ZERO,
        };
        let packets =
            Source::new(source.spec(), seed, n as u64).take_while(|p| p.at < Time::ZERO + comes);
        arrivals.extend(packets.map(|p| Arrival { length: p.bytes, at: p.at, ..of }));
    }
    arrivals.sort_by_key(|a| a.at);
    let until = Time::ZERO + sent;
    let replayed = replay(&scenario.network(), &arrivals, Some(until))
        .map_err(|(_, refused)| anyhow!("{refused}"))?;
    Ok(Observed::of(&arrivals, &replayed, until))
}

/// Additional time for sending the packets that are still queued at the end.
const REST: Span = Span::from_secs(5);

/// Mean delay of each flow in milliseconds, over all packets that arrive in the time `comes`.
pub(super) fn simulated(scenario: &Scenario, seed: u64, comes: Span) -> Result<[Option<f64>; 4]> {
    Ok(observed(scenario, seed, comes, comes + REST)?.delays)
}

/// The results over all seeds; delays are means over packets, in milliseconds.
pub(super) struct TestbedResult {
    pub(super) lc: Option<Estimate>,
    pub(super) be: [Option<Estimate>; 3],
    pub(super) rounds: Option<Estimate>,
    pub(super) services: Option<Estimate>,
    pub(super) backlogs: Option<Estimate>,
    /// The longest time for which LC was backlogged without service.
    pub(super) rest: Option<Estimate>,
    /// Dropped packets in percent: of LC, and of the BE flows.
    pub(super) lost: [Option<Estimate>; 2],
    /// For each seed, the instants at which the link became idle.
    pub(super) idle: Vec<Vec<Time>>,
}

impl TestbedResult {
    /// Mean delay of the BE flows.
    pub(super) fn be_mean(&self) -> f64 {
        let all: Vec<f64> = self.be.iter().flatten().map(|e| e.mean).collect();
        all.iter().sum::<f64>() / all.len().max(1) as f64
    }
}

/// Index of the latency-critical flow.
const LC: usize = 0;

fn flow(a: &Arrival) -> usize {
    a.flow.map_or(LC, FlowId::index)
}

/// The observed output of the link in one run.
struct Observed {
    delays: [Option<f64>; 4],
    rounds: f64,
    services: f64,
    backlogs: f64,
    rest: Option<f64>,
    lost: [Option<f64>; 2],
    idle: Vec<Time>,
}

impl Observed {
    /// The thesis counts inside its scheduler. Here the output is counted, so that no discipline
    /// needs counters. A service of LC is a sequence of its packets without a pause. LC remains
    /// backlogged if it has packets when this sequence ends and a packet of another flow follows. A
    /// round is over when a BE flow follows that precedes the previous BE flow in their order, or
    /// when the link becomes idle.
    fn of(arrivals: &[Arrival], replayed: &Replayed, until: Time) -> Observed {
        let sent =
            arrivals.iter().zip(&replayed.verdicts).filter_map(|(a, verdict)| match *verdict {
                Verdict::Sent { start, end, .. } if end <= until => Some((start, end, a)),
                _ => None,
            });
        let mut sent: Vec<(Time, Time, &Arrival)> = sent.collect();
        sent.sort_by_key(|&(start, ..)| start);
        let mut sums = [(0.0, 0u32); 4];
        for (_, end, a) in &sent {
            let (sum, n) = &mut sums[flow(a)];
            *sum += (*end - a.at).0 as f64 / 1e6;
            *n += 1;
        }
        let kept = arrivals
            .iter()
            .zip(&replayed.verdicts)
            .filter(|(_, verdict)| !matches!(verdict, Verdict::Dropped(_)));
        let lc: Vec<Time> = kept.filter(|(a, _)| flow(a) == LC).map(|(a, _)| a.at).collect();
        let (mut rounds, mut services, mut backlogs, mut idle) = (0u32, 0u32, 0u32, Vec::new());
        let (mut gone, mut last_be, mut rest) = (0, None, Span::ZERO);
        // End of LC's last packet, from which on LC may wait for service.
        let mut free = Time::ZERO;
        for (n, &(start, end, a)) in sent.iter().enumerate() {
            let before = n.checked_sub(1).map(|n| sent[n]);
            let paused = before.is_none_or(|(_, end, _)| end < start);
            let was_lc = before.is_some_and(|(.., b)| flow(b) == LC) && !paused;
            if let Some((_, end, _)) = before.filter(|_| paused) {
                idle.push(end);
            }
            if paused && last_be.take().is_some() {
                rounds += 1;
            }
            if flow(a) == LC {
                services += u32::from(!was_lc);
                rest = rest.max(start.since(free.max(lc[gone])));
                gone += 1;
                free = end;
                continue;
            }
            backlogs += u32::from(was_lc && lc.get(gone).is_some_and(|&at| at <= start));
            if last_be.is_some_and(|last| flow(a) < last) {
                rounds += 1;
            }
            last_be = Some(flow(a));
        }
        let lost = [true, false].map(|lc| {
            let all =
                || arrivals.iter().zip(&replayed.verdicts).filter(|(a, _)| (flow(a) == LC) == lc);
            let lost = all().filter(|(_, verdict)| matches!(verdict, Verdict::Dropped(_))).count();
            (all().count() > 0).then(|| 100.0 * lost as f64 / all().count() as f64)
        });
        Observed {
            lost,
            delays: sums.map(|(sum, n)| (n > 0).then(|| sum / f64::from(n))),
            rounds: rounds.into(),
            services: services.into(),
            backlogs: backlogs.into(),
            rest: (gone > 0).then(|| rest.0 as f64 / 1e6),
            idle,
        }
    }
}
