//! TCP connections through queues: known results hold, and active queue management has its intended
//! effect.

use falaj_engine::PipeId;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::Span;
use falaj_sim::scenario::experiment;
use falaj_sim::{Experiment, Run, simulate};
use falaj_traffic::tcp::Transfers;
use std::sync::atomic::AtomicBool;

fn scenario(text: &str, seconds: u64) -> Experiment {
    let (scenario, _) =
        falaj_scenario::parse(text, "test").unwrap_or_else(|why| panic!("{}", why.render(false)));
    experiment(&scenario, Span::from_secs(seconds))
}

fn run(text: &str, seconds: u64, seed: u64) -> Run {
    let mut experiment = scenario(text, seconds);
    experiment.warm_up = Span::from_secs(seconds / 6);
    simulate(&experiment, seed, &AtomicBool::new(false)).expect("a valid experiment")
}

/// 10 Mbit/s with a round trip of 40 ms: a bandwidth-delay product of 50 kB, 33 packets.
fn link(rest: &str) -> String {
    format!("[link.x]\nrate = \"10mbit\"\ndelay = \"20ms\"\n{rest}\n")
}

fn fifo(packets: u32) -> String {
    link(&format!("scheduler = {{ kind = \"fifo\", queue = \"{packets}p\" }}"))
}

fn source(name: &str, congestion: &str, rest: &str) -> String {
    format!(
        "[traffic.{name}]\nmodel = \"tcp\"\ncongestion = \"{congestion}\"\nsize = \"1514B\"\n{rest}\n"
    )
}

/// Transfers of the `n`th source.
fn told(run: &Run, n: usize) -> &Transfers {
    &run.connections.iter().find(|(source, _)| *source == n).expect("it is a connection").1
}

/// Payload in Mbit/s.
fn goodput(run: &Run, n: usize) -> f64 {
    told(run, n).bytes as f64 * 8.0 / 1e6 / run.counted().as_secs_f64()
}

/// Mean delay of the packets in the only flow, in milliseconds.
fn delay(run: &Run) -> f64 {
    run.pipes[0][0].delay.mean_nanos().expect("packets were sent") / 1e6
}

/// The largest possible goodput of the link in Mbit/s: 1,460 of 1,514 bytes are payload.
const ALL: f64 = 9.643;

#[test]
fn a_seed_decides_everything() {
    let text = fifo(20)
        + &source("a", "cubic", "sources = 3")
        + &source("b", "bbr", "bytes = \"50kB\"\npause = \"300ms\"");
    let of = |seed| {
        let run = run(&text, 6, seed);
        (
            run.pipes[0][0].counters,
            [0, 1].map(|n| (told(&run, n).bytes, told(&run, n).completion.max())),
        )
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

/// Each packet sent was dropped, lost, delivered, or is still in the network. Each byte of payload
/// counts once, whatever the link does to packets.
#[test]
fn what_arrives_counts_once() {
    for harm in [
        "",
        "duplicate = \"5%\"",
        "corrupt = \"2%\"",
        "loss = \"2%\"",
        "reorder = { probability = \"1%\" }",
    ] {
        let text = link(harm) + &source("a", "reno", "bytes = \"2MB\"");
        let mut experiment = scenario(&text, 600);
        experiment.warm_up = Span::ZERO;
        let run = simulate(&experiment, 3, &AtomicBool::new(false)).unwrap();
        let (t, c) = (told(&run, 0), &run.pipes[0][0].counters);
        assert_eq!((t.bytes, t.completion.count(), t.unfinished), (2_000_000, 1, 0), "{harm}");
        assert_eq!(t.segments, c.offered, "{harm}");
        let gone = c.dropped() + c.lost + c.corrupted;
        assert!(t.retransmitted >= gone, "{harm}: {} of {gone}", t.retransmitted);
        if !harm.starts_with("reorder") {
            // After a loss of the last segments, a timeout also sends again segments that were not
            // lost.
            assert!(
                t.retransmitted <= gone + 40 * t.timeouts,
                "{harm}: {} of {gone}",
                t.retransmitted
            );
        }
    }
}

/// Ott, Kemperman and Mathis (1996), for random loss with probability p: the rate is 1.31 MSS /
/// (RTT sqrt(p)), a little more than for losses at equal gaps. The link's 100 Mbit/s are not a
/// limit here.
#[test]
fn random_loss_limits_reno_as_the_formula_says() {
    let text = "[link.x]\nrate = \"100mbit\"\ndelay = \"50ms\"\nloss = \"0.1%\"\n".to_owned()
        + &source("a", "reno", "acknowledge = \"each\"\nsources = 8");
    let run = run(&text, 240, 1);
    let each = goodput(&run, 0) / 8.0;
    let formula = 1_460.0 * 8.0 / 1e6 / 0.1 * 1.31 / 0.001f64.sqrt();
    assert!((0.93..1.03).contains(&(each / formula)), "{each} beside {formula}");
}

/// CUBIC with queues that have different AQM policies: each policy keeps the link busy, and a queue
/// with a policy stays short.
#[test]
fn managed_queues_are_short_and_the_link_is_busy() {
    let cubic = source("a", "cubic", "");
    let policy = |policy: &str| {
        link("")
            + &format!(
                "[link.x.flow.all]\nmatch = \"any\"\nqueue = {{ limit = \"1000p\", policy = \"{policy}\" }}\n"
            )
    };
    let discipline = |kind: &str| link(&format!("scheduler = {{ kind = \"{kind}\" }}"));
    let of = |link: String| {
        let run = run(&(link + &cubic), 60, 1);
        (goodput(&run, 0) / ALL, delay(&run))
    };
    let full = of(fifo(34));
    assert!(full.0 > 0.95 && full.1 > 20.0, "{full:?}");
    for (name, managed, most) in [
        ("codel", of(policy("codel")), 10.0),
        ("pie", of(policy("pie")), 20.0),
        ("fq_codel", of(discipline("fq_codel")), 10.0),
        ("dualpi2", of(discipline("dualpi2")), 20.0),
    ] {
        assert!(managed.0 > 0.85 && managed.1 < most, "{name}: {managed:?} beside {full:?}");
    }
    let without_end = of(fifo(1_000));
    assert!(without_end.0 > 0.95 && without_end.1 > 200.0, "{without_end:?}");
}

/// Marks have the effect of losses, and nothing is lost.
#[test]
fn marks_instead_of_losses() {
    let policy = "[link.x.flow.all]\nmatch = \"any\"\nqueue = { limit = \"1000p\", policy = \"codel\", ecn = \"yes\" }\n";
    let run = run(&(link("") + policy + &source("a", "reno", "ecn = \"ect0\"")), 60, 1);
    let (t, c) = (told(&run, 0), &run.pipes[0][0].counters);
    assert_eq!((t.retransmitted, c.dropped()), (0, 0));
    assert!(
        c.marked > 10 && t.reductions > 10 && t.reductions <= c.marked,
        "{} of {}",
        t.reductions,
        c.marked
    );
    assert!(delay(&run) < 12.0 && goodput(&run, 0) > 0.85 * ALL);
}

/// DCTCP beside CUBIC, two connections each, on 40 Mbit/s with a round trip of 20 ms. Through the
/// coupled queues of `dualpi2` each connection has about a quarter, and DCTCP's packets wait a
/// tenth as long. Through one queue that marks both kinds alike, CUBIC starves, because it reacts
/// to each mark as to a loss.
#[test]
fn coupled_queues_are_fair_to_both_kinds_and_short_for_one() {
    let text = |queue: &str| {
        let link = "[link.x]\nrate = \"40mbit\"\ndelay = \"10ms\"\n";
        let scalable = source("a", "dctcp", "sources = 2\necn = \"ect1\"");
        format!("{link}{queue}\n{scalable}{}", source("b", "cubic", "sources = 2\necn = \"ect0\""))
    };
    let dual = run(&text("scheduler = { kind = \"dualpi2\" }"), 60, 1);
    let ratio = goodput(&dual, 0) / goodput(&dual, 1);
    assert!((0.5..2.0).contains(&ratio), "{ratio}");
    assert!(
        goodput(&dual, 0) + goodput(&dual, 1) > 0.95 * 4.0 * ALL,
        "{} {}",
        goodput(&dual, 0),
        goodput(&dual, 1)
    );
    assert_eq!(told(&dual, 0).retransmitted, 0);
    let trip = |run: &Run, n: usize| told(run, n).round_trip.mean_nanos().unwrap() / 1e6 - 20.0;
    assert!(
        trip(&dual, 0) < 0.2 * trip(&dual, 1),
        "{} beside {} ms",
        trip(&dual, 0),
        trip(&dual, 1)
    );
    let one = "[link.x.flow.all]\nmatch = \"any\"\nqueue = { limit = \"1000p\", policy = \"pie\", ecn = \"yes\" }";
    let one = run(&text(one), 60, 1);
    assert!(
        goodput(&one, 0) > 5.0 * goodput(&one, 1),
        "{} beside {}",
        goodput(&one, 0),
        goodput(&one, 1)
    );
}

/// Two Reno connections share a FIFO evenly if their round trips are equal. If not, the connection
/// with the shorter round trip gets more; the shorter its round trip, the more it gets. If each
/// connection has its own queue, they share evenly, whatever their round trips.
#[test]
fn the_shorter_round_trip_gets_more() {
    let of = |link: &str, back: &str| {
        let text = link.to_owned()
            + &source("a", "reno", "")
            + &source("b", "reno", &format!("return = \"{back}\""));
        let ratios = (1..=4).map(|seed| {
            let run = run(&text, 120, seed);
            assert!(goodput(&run, 0) + goodput(&run, 1) > 0.85 * ALL);
            (goodput(&run, 0) / goodput(&run, 1)).ln()
        });
        (ratios.sum::<f64>() / 4.0).exp()
    };
    let alike = of(&fifo(34), "20ms");
    assert!((0.9..1.1).contains(&alike), "{alike}");
    let longer = of(&fifo(34), "120ms");
    // A round trip of 140 ms beside one of 40 ms, and a queue of about 20 ms for both. If both lose
    // packets at the same time, the ratio of their rates is the square of the ratio of their round
    // trips.
    assert!((4.0..9.0).contains(&longer), "{longer}");
    let apart = of(&link("scheduler = { kind = \"fq_codel\" }"), "120ms");
    assert!((0.9..1.5).contains(&apart), "{apart} beside {longer}");
}

/// BBR does not react to losses: beside CUBIC it gets most of the link if the queue is short, and
/// less than CUBIC if the queue is long.
#[test]
fn in_a_short_queue_bbr_takes_what_cubic_leaves() {
    let of = |packets: u32| {
        let run =
            run(&(fifo(packets) + &source("a", "bbr", "") + &source("b", "cubic", "")), 60, 1);
        assert!(goodput(&run, 0) + goodput(&run, 1) > 0.9 * ALL);
        goodput(&run, 0) / ALL
    };
    let (short, long) = (of(10), of(400));
    assert!(short > 0.6, "{short}");
    assert!(long < 0.5, "{long}");
}

/// Alone, BBR finds the link's rate and builds almost no queue.
#[test]
fn bbr_alone_keeps_the_link_busy_and_the_queue_short() {
    let run = run(&(fifo(1_000) + &source("a", "bbr", "acknowledge = \"each\"")), 60, 1);
    assert!(goodput(&run, 0) > 0.95 * ALL, "{}", goodput(&run, 0));
    assert!(delay(&run) < 15.0, "{}", delay(&run));
    let least = told(&run, 0).round_trip.min().unwrap();
    // A round trip of 40 ms, and a transmission time of 1.2 ms.
    assert!((Span::from_micros(41_200)..Span::from_millis(42)).contains(&least), "{least}");
}

/// Over two links, an acknowledgement comes after the segment has passed both.
#[test]
fn over_two_links_there_is_one_round_trip() {
    let text = "[link.a]\nrate = \"10mbit\"\ndelay = \"10ms\"\n[link.b]\nrate = \"5mbit\"\ndelay = \"30ms\"\n\
                [[rule]]\nto = [\"a\", \"b\"]\n"
        .to_owned()
        + &source("x", "reno", "window = \"15kB\"\nacknowledge = \"each\"");
    let run = run(&text, 12, 1);
    let least = told(&run, 0).round_trip.min().unwrap();
    // 40 ms forward, 10 ms back, and transmission times of 1.2 and 2.4 ms.
    assert!((Span::from_micros(53_600)..Span::from_micros(54_200)).contains(&least), "{least}");
    // The connection's window is ten segments: 14,600 B each round trip.
    let expected = 14_600.0 * 8.0 / 1e6 / 0.0554;
    assert!((goodput(&run, 0) / expected - 1.0).abs() < 0.2, "{} of {expected}", goodput(&run, 0));
}

/// A source without feedback sends the same packets with and without another source beside it:
/// arrivals are identical.
#[test]
fn open_loops_send_the_same_beside_closed_ones() {
    let poisson = "[traffic.z]\nmodel = \"poisson\"\nrate = \"1mbit\"\nsize = \"300B\"\n";
    let alone = run(&(fifo(100) + poisson), 30, 5);
    let flows = "scheduler = { kind = \"drr\" }\n[link.x.flow.z]\nmatch = \"udp\"\n[link.x.flow.t]\nmatch = \"any\"\n";
    let zed = poisson.to_owned() + "flow = \"z\"\n";
    // Sources are identified by their positions in the file.
    let both = run(&(link(flows) + &zed + &source("a", "cubic", "flow = \"t\"")), 30, 5);
    let offered =
        |run: &Run, flow: usize| run.pipes[0][FlowId(flow as u32).index()].counters.offered;
    assert_eq!(offered(&alone, 0), offered(&both, 0));
    assert!(goodput(&both, 1) > 0.8 * 9.0);
    assert_eq!(both.pipes.len(), PipeId(2).0 as usize);
}
