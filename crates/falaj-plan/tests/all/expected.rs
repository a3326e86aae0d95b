//! Expected values against simulation, over the grid that docs/explanation/expected.md shows.

use falaj_plan::expected::Expected;
use falaj_plan::plan;
use falaj_scenario::{Scenario, Towards};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::Span;
use falaj_sim::measure::Measure;
use falaj_sim::scenario::{experiment, pipe_of};
use falaj_sim::{Gathered, Progress, ReplicationPlan, Study, WarmUp};
use falaj_traffic::interval::Estimate;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/explanation/expected.md");
const REPLICATIONS: usize = 16;

/// A flow of a link of 1 Gbit/s: its keys, the rate of its Poisson source in Mbit/s, and its size.
type FlowText<'a> = (&'a str, u32, &'a str);

/// A link with flows `a`, `b`, …
fn link(scheduler: &str, flows: &[FlowText<'_>]) -> String {
    let flow = |(n, &(keys, rate, size)): (usize, &FlowText<'_>)| {
        let name = letter(n);
        format!(
            "[link.l.flow.{name}]\nmatch = \"udp dport {}\"\n{keys}\n\
             [traffic.{name}]\nflow = \"{name}\"\nmodel = \"poisson\"\nrate = \"{rate}mbit\"\n\
             size = {size}\n",
            n + 1
        )
    };
    let flows: String = flows.iter().enumerate().map(flow).collect();
    format!("[link.l]\nrate = \"1gbit\"\nscheduler = {{ {scheduler} }}\n{flows}")
}

fn parsed(text: &str) -> Scenario {
    falaj_scenario::parse(text, "a.toml").unwrap_or_else(|why| panic!("{}", why.render(false))).0
}

fn expected(text: &str) -> Vec<Result<Expected, String>> {
    plan(&parsed(text)).expect("accepted").swap_remove(0).expected
}

fn simulated(scenario: &Scenario, duration: Span) -> Study {
    let warm_up = WarmUp::Given(Span(duration.0 / 20));
    let plan = ReplicationPlan { seed: 5, warm_up, quantiles: vec![0.5, 0.99], most: REPLICATIONS };
    let progress = Progress { gone: &|_| {}, stop: &AtomicBool::new(false) };
    let all = plan.studies(&[experiment(scenario, duration)], &progress, |_| REPLICATIONS);
    all.expect("accepted").0.swap_remove(0)
}

/// An expected value beside the simulated one.
struct Pair {
    expected: f64,
    simulated: Estimate,
}

impl Pair {
    /// Checks that the value is within four standard errors, plus the relative error `rounding`.
    fn check(&self, what: &str, rounding: f64) {
        let error = self.simulated.standard_error.expect("several replications");
        let off = (self.expected - self.simulated.mean).abs();
        let allowed = 4.0 * error + rounding * self.expected;
        assert!(off <= allowed, "{what}: {} is not {:?}", self.expected, self.simulated);
    }

    fn cells(&self, unit: f64) -> String {
        let off = self.expected / self.simulated.mean - 1.0;
        let half = self.simulated.half_width.unwrap_or_default() / unit;
        let (expected, simulated) = (self.expected / unit, self.simulated.mean / unit);
        format!("{expected:.2} | {simulated:.2} ± {half:.2} | {:+.1} % |", off * 100.0)
    }
}

/// The mean delay of a flow, or the mean over several flows weighted by their offered bytes. Beside
/// each flow is the size of its packets in bytes, which does not matter for a flow alone.
fn mean(flows: &[(&Gathered, f64)]) -> Estimate {
    let weight = |(flow, bytes): &(&Gathered, f64)| flow.counters.offered as f64 * bytes;
    let all: f64 = flows.iter().map(weight).sum();
    let sum = |of: &dyn Fn(&Estimate) -> f64| -> f64 {
        let part = |flow: &(&Gathered, f64)| {
            let estimate = flow.0.estimate(Measure::DelayMean).expect("packets left");
            weight(flow) / all * of(&estimate)
        };
        flows.iter().map(part).sum()
    };
    // Errors of flows that share a link are not independent, so they are added.
    Estimate {
        mean: sum(&|e| e.mean),
        half_width: Some(sum(&|e| e.half_width.unwrap_or(f64::NAN))),
        standard_error: Some(sum(&|e| e.standard_error.unwrap_or(f64::NAN))),
    }
}

fn letter(flow: usize) -> String {
    char::from(b'a' + flow as u8).to_string()
}

const SMALL: &str = "\"500B\"";
const LARGE: &str = "\"1500B\"";
const LONG: &str = "queue = \"1000p\"";

/// The links of the table: name, scheduler, flows.
fn grid() -> Vec<(&'static str, &'static str, Vec<FlowText<'static>>)> {
    let fifo = "kind = \"fifo\"";
    let mut all = Vec::new();
    for rate in [300, 600, 900] {
        all.push(("`fifo`, 500 B", fifo, vec![(LONG, rate, SMALL)]));
    }
    let (uniform, mix) = ("\"100B-1500B\"", "\"74B x 7, 1500B x 1\"");
    all.push(("`fifo`, 100 to 1500 B", fifo, vec![(LONG, 700, uniform)]));
    all.push(("`fifo`, 7 of 74 B to 1 of 1500 B", fifo, vec![(LONG, 700, mix)]));
    all.push(("`fifo`, 500 B and 1500 B", fifo, vec![(LONG, 300, SMALL), (LONG, 500, LARGE)]));
    for rate in [900, 1000, 1500] {
        all.push(("`fifo`, 500 B, 20 packets", fifo, vec![("queue = \"20p\"", rate, SMALL)]));
    }
    let short = "queue = \"4p\"";
    all.push((
        "`fifo`, both sizes, 8 packets",
        fifo,
        vec![(short, 300, SMALL), (short, 600, LARGE)],
    ));
    let ranks = ["priority = 0", "priority = 1", "priority = 2"];
    for rates in [[100, 200, 300], [300, 300, 300]] {
        let flow = |n: usize| (ranks[n], rates[n], [SMALL, LARGE, SMALL][n]);
        all.push(("`priority`", "kind = \"priority\"", (0..3).map(flow).collect()));
    }
    for scheduler in ["kind = \"drr\"", "kind = \"rr\"", "kind = \"wfq\"", "kind = \"sfq\""] {
        let keys = if scheduler.contains("fq") { "weight = 3" } else { "" };
        let flows = vec![(keys, 200, SMALL), (keys, 500, LARGE), ("", 100, SMALL)];
        all.push((name_of(scheduler), scheduler, flows));
    }
    all.push((
        "`priority`, twice priority 1",
        "kind = \"priority\"",
        vec![(ranks[0], 200, LARGE), (ranks[1], 500, SMALL), (ranks[1], 100, LARGE)],
    ));
    all
}

/// The name of a discipline in the table.
fn name_of(scheduler: &'static str) -> &'static str {
    ["`drr`", "`rr`", "`wfq`", "`sfq`"]
        .into_iter()
        .find(|name| scheduler.contains(&name[1..name.len() - 1]))
        .expect("a name")
}

/// Each value is within four standard errors of the simulated value, and the page has the table.
#[test]
fn expected_values_are_those_of_simulation_and_of_the_page() {
    let mut table = String::from(
        "| link | load | flows | mean, us | simulated | error | p99, us | simulated | error | lost, % | simulated | error |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (name, scheduler, flows) in grid() {
        let text = link(scheduler, &flows);
        let (scenario, all) = (parsed(&text), expected(&text));
        let study = simulated(&scenario, Span::from_millis(800));
        let load = f64::from(flows.iter().map(|flow| flow.1).sum::<u32>()) / 1000.0;
        for (f, expected) in all.into_iter().enumerate() {
            let expected = expected.unwrap_or_else(|why| panic!("{name}: {why}"));
            let flow = study.flow(pipe_of(0, Towards::Up), FlowId(f as u32));
            let what = format!("{name} {load} {f}");
            let own = [letter(f)];
            let members = if expected.together.is_empty() { &own[..] } else { &expected.together };
            if members[0] != letter(f) {
                continue;
            }
            let all: Vec<(&Gathered, f64)> = members
                .iter()
                .map(|name| {
                    let f = usize::from(name.as_bytes()[0] - b'a');
                    let bytes = if flows[f].2 == LARGE { 1500.0 } else { 500.0 };
                    (study.flow(pipe_of(0, Towards::Up), FlowId(f as u32)), bytes)
                })
                .collect();
            let pair = Pair { expected: expected.mean, simulated: mean(&all) };
            pair.check(&what, 1e-4);
            let members = members.join(", ");
            let _ = write!(table, "| {name} | {load} | {members} | {}", pair.cells(1e3));
            let p99 = expected.quantiles.map(|[p50, p99]| {
                let of = |share| flow.estimate(Measure::DelayQuantile(share)).expect("packets");
                // The meter has three digits.
                Pair { expected: p50, simulated: of(0.5) }.check(&what, 2e-3);
                let pair = Pair { expected: p99, simulated: of(0.99) };
                pair.check(&what, 2e-3);
                pair.cells(1e3)
            });
            let loss = expected.loss.map(|expected| {
                let simulated = flow.estimate(Measure::Loss).expect("packets");
                let pair = Pair { expected, simulated };
                pair.check(&what, 0.0);
                pair.cells(1e-2)
            });
            for cells in [p99, loss] {
                let _ = write!(table, " {}", cells.unwrap_or_else(|| "| | |".to_owned()));
            }
            table.push('\n');
        }
    }
    agree(Path::new(PAGE), "| link | load |", &table);
}

/// The largest relative error of the chains of phases: first if all links are of type A and wait
/// out their tails, where only the grid of time is approximate, then for all others.
const OFF: (f64, f64) = (0.01, 0.03);

/// Types and rates in Mbit/s of the virtual links of the paper's tables. Queues hold 20 packets
/// of 500 B, and phases last 30 us.
const RINGS: [(&str, &[u32]); 15] = [
    ("AA", &[500, 500]),
    ("AA", &[800, 200]),
    ("AB", &[500, 500]),
    ("BA", &[800, 200]),
    ("AB", &[800, 200]),
    ("AB", &[200, 200]),
    ("AB", &[100, 100]),
    ("AAA", &[333, 333, 333]),
    ("AAA", &[700, 200, 100]),
    ("AAA", &[100, 100, 100]),
    ("ABB", &[333, 333, 333]),
    ("ABB", &[700, 200, 100]),
    ("BBA", &[700, 200, 100]),
    ("BAB", &[700, 200, 100]),
    ("ABB", &[100, 100, 100]),
];

/// The chains of phases against simulation: each mean, and the fraction of packets that are
/// carried.
#[test]
fn chains_of_phases_are_as_near_to_simulation_as_the_page_says() {
    let mut table = String::from(
        "| types | Mbit/s | tail | link | mean, us | simulated | error | carried, % | simulated | error |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (types, rates) in RINGS {
        for tail in ["wait", "skip"] {
            let keys: Vec<String> = types
                .chars()
                .map(|kind| format!("kind = \"{kind}\"\nphase = \"30us\"\nqueue = \"20p\""))
                .collect();
            let flows: Vec<FlowText<'_>> =
                keys.iter().zip(rates).map(|(keys, &rate)| (&keys[..], rate, SMALL)).collect();
            let scheduler =
                format!("kind = \"virtual-links\", serve = \"phase-wise\", tail = \"{tail}\"");
            // A packet of 500 B is the largest: a phase has room for seven and a half.
            let text = link(&scheduler, &flows);
            let (scenario, all) = (parsed(&text), expected(&text));
            let study = simulated(&scenario, Span::from_millis(800));
            let exact = tail == "wait" && !types.contains('B');
            let off = if exact { OFF.0 } else { OFF.1 };
            let sent = rates.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            for (f, expected) in all.into_iter().enumerate() {
                let expected = expected.unwrap_or_else(|why| panic!("{types} {sent}: {why}"));
                let flow = study.flow(pipe_of(0, Towards::Up), FlowId(f as u32));
                let what = format!("{types} {sent} {tail} {f}");
                let delay = Pair { expected: expected.mean, simulated: mean(&[(flow, 1.0)]) };
                delay.check(&what, off);
                let lost = flow.estimate(Measure::Loss).expect("packets");
                let carried = Pair {
                    expected: 1.0 - expected.loss.unwrap_or(0.0),
                    simulated: Estimate { mean: 1.0 - lost.mean, ..lost },
                };
                carried.check(&what, off);
                let _ = writeln!(
                    table,
                    "| {types} | {sent} | `{tail}` | {} | {} {}",
                    letter(f),
                    delay.cells(1e3),
                    carried.cells(1e-2)
                );
            }
        }
    }
    agree(Path::new(PAGE), "| types | Mbit/s |", &table);
}

/// Checks that the page has this table, which begins with `head`; `UPDATE_EXPECT=1` writes it.
fn agree(page: &Path, head: &str, table: &str) {
    let text = std::fs::read_to_string(page).expect("the page is there");
    let from = text.find(head).expect("the page has the table");
    let to = text[from..].find("\n\n").map_or(text.len(), |length| from + length + 1);
    if &text[from..to] == table {
        return;
    }
    assert!(
        std::env::var_os("UPDATE_EXPECT").is_some(),
        "{} is out of date: run this test with UPDATE_EXPECT=1",
        page.display()
    );
    std::fs::write(page, format!("{}{table}{}", &text[..from], &text[to..])).expect("written");
}

/// Where no formula applies, the reason is given instead of a value.
#[test]
fn a_link_without_a_formula_says_why() {
    let fifo = link("kind = \"fifo\"", &[(LONG, 300, SMALL), (LONG, 300, LARGE)]);
    let why = |text: &str| {
        let all = expected(text);
        all[0].clone().expect_err("no formula applies")
    };
    let of_a = |from: &str, to: &str| why(&fifo.replacen(from, to, 1));
    assert_eq!(of_a("\"poisson\"", "\"cbr\""), "traffic a is not Poisson");
    assert_eq!(of_a("\"poisson\"", "\"poisson\"\nstop = \"1s\""), "traffic a begins or ends");
    assert_eq!(
        of_a("\"poisson\"", "\"poisson\"\nshaped = { rate = \"400mbit\", burst = \"9kB\" }"),
        "traffic a passes a token bucket"
    );
    assert_eq!(
        of_a("rate = \"1gbit\"", "rate = \"1gbit\"\nloss = \"1%\""),
        "the link has impairments"
    );
    assert_eq!(of_a("rate = \"1gbit\"", "rate = \"unlimited\""), "the link is unlimited");
    let codel = "{ limit = \"1000p\", policy = \"codel\" }";
    let policies = fifo.replace("\"1000p\"", codel);
    assert_eq!(why(&policies), "the policy of a queue drops packets");
    let full = "queue = \"9kB\"";
    let full = why(&link("kind = \"fifo\"", &[(full, 450, SMALL), (full, 450, LARGE)]));
    assert!(full.starts_with("packets of several sizes may fill its queue"), "{full}");
    let ranks = |rates: [u32; 2], limit: &str| {
        let keys = [0, 1].map(|n| format!("priority = {n}\nqueue = \"{limit}\""));
        let flow = |n: usize| (&keys[n][..], rates[n], SMALL);
        why(&link("kind = \"priority\"", &[flow(0), flow(1)]))
    };
    assert_eq!(ranks([400, 500], "20p"), "the queue of 20p of a may be full too often");
    let phases = ["phase = \"30us\"\nkind = \"A\"", "phase = \"30us\"\nkind = \"B\""];
    let phases = phases.map(|keys| (keys, 100, SMALL));
    assert_eq!(
        why(&link("kind = \"virtual-links\"", &phases)),
        "no formula is known for virtual-links"
    );
    let ring = |kind, size| {
        let keys = format!("phase = \"30us\"\nkind = \"{kind}\"");
        let scheduler = "kind = \"virtual-links\", serve = \"phase-wise\"";
        why(&link(scheduler, &[(&keys[..], 100, size), (&keys[..], 100, SMALL)]))
    };
    assert_eq!(ring("A", "\"100B-500B\""), "packets of a have several sizes");
    assert!(ring("B", SMALL).starts_with("the chains of its phases have no solution"));
    let quiet = "[link.l.flow.c]\nmatch = \"udp dport 3\"\n";
    let all = expected(&format!("{fifo}{quiet}"));
    assert_eq!(all[2], Err("no traffic is sent to it".to_owned()));
}
