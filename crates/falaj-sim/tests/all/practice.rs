//! The simulation method: intervals with their stated coverage, warm-up, the same arrivals for all
//! experiments, and the number of replications.

use falaj_engine::PipeId;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::Span;
use falaj_sim::measure::Measure;
use falaj_sim::replication_plan::more;
use falaj_sim::scenario::experiment;
use falaj_sim::{
    Experiment, Gathered, Progress, ReplicationPlan, Study, WarmUp, WarmUpMethod, Warmed,
};
use falaj_traffic::interval::Estimate;
use falaj_traffic::source::size::Sizes;
use std::sync::atomic::AtomicBool;

const PIPE: PipeId = PipeId(0);
const ONE: FlowId = FlowId(0);

fn scenario(text: &str, duration: Span) -> Experiment {
    let (scenario, _) =
        falaj_scenario::parse(text, "test").unwrap_or_else(|why| panic!("{}", why.render(false)));
    experiment(&scenario, duration)
}

fn studies(
    experiments: &[Experiment],
    seed: u64,
    warm_up: WarmUp,
    most: usize,
    wanted: impl FnMut(&[Study]) -> usize,
) -> (Vec<Study>, Warmed) {
    let practice = ReplicationPlan { seed, warm_up, quantiles: vec![0.9], most };
    let progress = Progress { gone: &|_| {}, stop: &AtomicBool::new(false) };
    practice.studies(experiments, &progress, wanted).expect("a valid experiment")
}

fn study(
    experiment: &Experiment,
    seed: u64,
    warm_up: WarmUp,
    replications: usize,
) -> (Study, Warmed) {
    let (mut studies, warmed) =
        studies(std::slice::from_ref(experiment), seed, warm_up, replications, |_| replications);
    (studies.remove(0), warmed)
}

fn one_server(size: &str, load: &str) -> String {
    format!(
        "[link.x]\nrate = \"1gbit\"\nmtu = \"65535B\"\n[link.x.flow.all]\nmatch = \"any\"\nqueue = \"100000p\"\n\
         [traffic.x]\nmodel = \"poisson\"\nrate = \"{load}\"\nsize = \"{size}\"\n"
    )
}

/// The fraction of studies of 8 replications whose 95 % interval contains the known value.
fn coverage(experiment: &Experiment, studies: u64, known: &[(Measure, f64)]) -> Vec<f64> {
    let mut held = vec![0; known.len()];
    for n in 0..studies {
        let (study, _) = study(experiment, 1 + n * 8, WarmUp::Given(Span::from_millis(5)), 8);
        for (held, &(measure, value)) in held.iter_mut().zip(known) {
            let estimate = study.flow(PIPE, ONE).estimate(measure).expect("packets were sent");
            let half = estimate.half_width.expect("eight replications have an interval");
            *held += u32::from((estimate.mean - value).abs() <= half);
        }
    }
    held.into_iter().map(|held| f64::from(held) / studies as f64).collect()
}

/// 285 of 300 intervals should contain the known value. A deviation by four standard errors of this
/// fraction, 1.3 % each, is tolerated.
fn is_95_percent(coverage: f64) -> bool {
    (0.90..=1.0).contains(&coverage)
}

/// M/D/1 with a load of 1/2: 40 us of service, and a mean wait of half of that (Pollaczek and
/// Khinchine).
#[test]
fn intervals_of_md1_hold_what_is_known() {
    let experiment = scenario(&one_server("5000B", "500mbit"), Span::from_millis(105));
    let covered = coverage(&experiment, 300, &[(Measure::DelayMean, 60_000.0)]);
    assert!(is_95_percent(covered[0]), "{covered:?}");
    // The intervals are not too wide either: they rarely contain a value that is wrong by a tenth.
    let off = coverage(&experiment, 60, &[(Measure::DelayMean, 66_000.0)]);
    assert!(off[0] < 0.5, "{off:?}");
}

/// M/M/1 with a load of 1/2. The lengths are geometric, in steps of a fiftieth of their mean. The
/// mean wait is known exactly (Pollaczek and Khinchine). Delays are exponential except for the
/// steps, which lower them by 1 %.
#[test]
fn intervals_of_mm1_hold_what_is_known() {
    let mut experiment = scenario(&one_server("5000B", "500mbit"), Span::from_millis(105));
    let parts: Vec<(u32, u32)> = (0..400)
        .map(|k: u32| ((k + 1) * 100, (1e7 * 0.98f64.powi(k as i32)).round() as u32))
        .collect();
    let moment = |power: i32| {
        let total: f64 = parts.iter().map(|&(_, times)| f64::from(times)).sum();
        // A byte takes 8 ns.
        parts
            .iter()
            .map(|&(bytes, times)| (f64::from(bytes) * 8.0).powi(power) * f64::from(times))
            .sum::<f64>()
            / total
    };
    let (mean, square) = (moment(1), moment(2));
    experiment.feeds[0].source.sizes = Sizes::Mix(parts);
    let wait = 0.5 / mean * square / (2.0 * 0.5);
    let delay = mean + wait;
    let quantile = |share: f64| -(1.0 - share).ln() * delay;
    let known = [
        (Measure::DelayMean, delay),
        (Measure::DelayQuantile(0.5), quantile(0.5)),
        (Measure::DelayQuantile(0.9), quantile(0.9)),
    ];
    let covered = coverage(&experiment, 300, &known);
    assert!(covered.iter().all(|&covered| is_95_percent(covered)), "{covered:?}");
}

/// A queue of 400 packets that fills in the first 60 ms of 400.
#[test]
fn a_queue_that_fills_is_warm_up_and_one_that_never_does_is_no_steady_state() {
    let text = |rate: &str, queue: &str| {
        format!(
            "[link.x]\nrate = \"100mbit\"\n[link.x.flow.all]\nmatch = \"any\"\nqueue = \"{queue}\"\n\
             [traffic.x]\nmodel = \"poisson\"\nrate = \"{rate}\"\nsize = \"1250B\"\n"
        )
    };
    let fills = scenario(&text("165mbit", "400p"), Span::from_millis(400));
    let (cut, warmed) = study(&fills, 1, WarmUp::Found, 8);
    assert!((Span::from_millis(40)..Span::from_millis(150)).contains(&warmed.cut), "{warmed:?}");
    assert_eq!((cut.counted(), cut.duration()), (fills.duration - warmed.cut, fills.duration));
    // A full queue takes 40 ms. The delays during the warm-up were shorter.
    let mean =
        |study: &Study| study.flow(PIPE, ONE).estimate(Measure::DelayMean).unwrap().mean / 1e6;
    let (whole, _) = study(&fills, 1, WarmUp::Nothing, 8);
    assert!(mean(&cut) > 39.0 && mean(&whole) < 37.5, "{} {}", mean(&cut), mean(&whole));
    let counted = cut.flow(PIPE, ONE).counters;
    // The bytes are summed over eight replications.
    let rate = counted.offered_bytes as f64 / cut.counted().as_secs_f64();
    assert!((rate / 165e6 - 1.0).abs() < 0.01, "{rate}");

    let grows = scenario(&text("120mbit", "100000p"), Span::from_millis(400));
    let (_, warmed) = study(&grows, 1, WarmUp::Found, 8);
    assert_eq!(warmed.cut, Span::ZERO);
    let WarmUpMethod::Found { late, .. } = warmed.how else { panic!("{warmed:?}") };
    assert_eq!((late[0].0, late[0].1, late.len()), (PIPE, ONE, 1));
    assert!(late[0].2 > Span::from_millis(200), "{late:?}");

    let begins =
        scenario(&(text("50mbit", "400p") + "start = \"100ms\"\n"), Span::from_millis(400));
    assert_eq!(
        study(&begins, 1, WarmUp::Found, 2).1,
        Warmed { cut: Span::ZERO, how: WarmUpMethod::Scheduled }
    );
}

const TWO: &str = "[link.x]\nrate = \"100mbit\"\nscheduler = { kind = \"KIND\" }\n\
    [link.x.flow.a]\nmatch = \"udp dport 1\"\nqueue = \"50p\"\n[link.x.flow.b]\nmatch = \"any\"\nqueue = \"50p\"\n\
    [traffic.a]\nflow = \"a\"\nmodel = \"on-off\"\nrate = \"120mbit\"\non = \"1ms\"\noff = \"2ms\"\nsize = \"80B-1500B\"\n\
    [traffic.b]\nflow = \"b\"\nmodel = \"poisson\"\nrate = \"40mbit\"\nsize = \"74B x 7, 590B x 4, 1514B x 1\"\n";

/// The arrivals are identical to the packet and the byte in each replication: the link has no
/// influence on the sources.
#[test]
fn two_schedulers_see_the_same_arrivals_and_pairs_are_surer() {
    let experiments =
        ["fifo", "drr"].map(|kind| scenario(&TWO.replace("KIND", kind), Span::from_millis(200)));
    let (both, _) = studies(&experiments, 3, WarmUp::Found, 12, |_| 12);
    for flow in [FlowId(0), FlowId(1)] {
        let [fifo, drr] = [0, 1].map(|n: usize| both[n].flow(PIPE, flow));
        assert_eq!(fifo.offered().count(), 12);
        assert!(fifo.offered().eq(drr.offered()));
        let counts = |of: &Gathered| (of.counters.offered, of.counters.offered_bytes);
        assert_eq!(counts(fifo), counts(drr));
        assert_ne!(fifo.counters.sent_bytes, 0);
    }
    // Flow b waits less under the scheduler that gives it its own turn, and the paired difference
    // is more precise than either delay.
    let [fifo, drr] = [0, 1].map(|n: usize| both[n].flow(PIPE, FlowId(1)));
    let difference = fifo.difference(drr, Measure::DelayMean).unwrap();
    let half = |e: Estimate| e.half_width.unwrap();
    assert!(difference.mean + half(difference) < 0.0, "{difference:?}");
    let [a, b] = [fifo, drr].map(|of| of.estimate(Measure::DelayMean).unwrap());
    let unpaired = (half(a).powi(2) + half(b).powi(2)).sqrt();
    assert!((b.mean - a.mean - difference.mean).abs() < 1e-6);
    assert!(half(difference) < unpaired, "{} {unpaired}", half(difference));
    // The difference from itself is exactly zero.
    let none = fifo.difference(fifo, Measure::DelayQuantile(0.99)).unwrap();
    assert_eq!((none.mean, none.half_width), (0.0, Some(0.0)));
}

#[test]
fn replications_come_until_there_are_enough_and_in_any_parts() {
    let experiment = scenario(&one_server("5000B", "500mbit"), Span::from_millis(20));
    let width =
        |study: &Study| study.flow(PIPE, ONE).estimate(Measure::DelayMean).unwrap().relative();
    let mut rounds = Vec::new();
    let wanted = |studies: &[Study]| {
        let have = studies[0].replications();
        rounds.push(have);
        match have {
            0 => 10,
            _ if width(&studies[0]).unwrap() <= 0.02 => have,
            _ => more(have, width(&studies[0]), 0.02),
        }
    };
    let nothing = WarmUp::Nothing;
    let (mut found, _) = studies(std::slice::from_ref(&experiment), 1, nothing, 1000, wanted);
    let found = found.remove(0);
    assert!(rounds.len() > 2, "{rounds:?}");
    assert!(width(&found).unwrap() <= 0.02);
    // If all replications run at once, the results are the same, to the last bit of each mean.
    let (whole, _) = study(&experiment, 1, nothing, found.replications());
    let all = |study: &Study| {
        let of = study.flow(PIPE, ONE);
        [Measure::DelayMean, Measure::Rate, Measure::Loss, Measure::DelayQuantile(0.9)]
            .map(|m| of.estimate(m))
    };
    assert_eq!(all(&found), all(&whole));
    let at_most = studies(std::slice::from_ref(&experiment), 1, nothing, 12, |_| 100).0;
    assert_eq!(at_most[0].replications(), 12);
}
