//! Batches: closed forms, matrices and simulation agree.

use falaj_queueing::{Ask, Effort, Line, Policy, Service, Shape, Stream, Superposed};
use serde_json::Value;

fn close(ours: f64, theirs: f64, relative: f64, what: &str) {
    assert!((ours / theirs - 1.0).abs() <= relative, "{what}: {ours} for {theirs}");
}

/// `sources` equal streams at a load, with services of 1 on average.
fn equal(sources: usize, size: usize, load: f64) -> Superposed {
    let rate = load * size as f64 / sources as f64;
    Superposed::new(&[Stream { count: sources, rate }], size, 1.0).unwrap()
}

#[test]
fn exact_and_printed_are_the_reference() {
    let reference: Value = serde_json::from_str(include_str!("../reference.json")).unwrap();
    let rows = reference["superposed"].as_array().unwrap();
    assert_eq!(rows.len(), 21);
    for row in rows {
        let number = |key: &str| row[key].as_f64().unwrap();
        let (sources, size) = (number("sources") as usize, number("k") as usize);
        let what = format!("{sources} sources, {size} packets, load {}", number("load"));
        let system = equal(sources, size, number("load"));
        let printed = system.as_printed().unwrap();
        close(printed.wait, number("renewal_wait"), 1e-4, &what);
        close(printed.waits_longer(5.0), number("renewal_tail"), 1e-2, &what);
        assert!((printed.decay - number("renewal_decay")).abs() < 6e-5, "{what}");
        assert!((system.decay() - number("exact_decay")).abs() < 6e-5, "{what}");
        // The largest has 2002 phases: it is extrapolated, and the error must hold.
        let exact = system.exact(Effort::Quick).unwrap();
        let off = (exact.wait - number("exact_wait")).abs();
        assert!(off <= exact.error + 1e-5 * exact.wait, "{what}: {exact:?}");
        if exact.from.len() == 1 {
            let queue = system.queue(size).unwrap();
            close(queue.waits_longer(&[5.0])[0], number("exact_tail"), 1e-3, &what);
            // R decays by the root of the scalar equation.
            close(1.0 - queue.solved.decay(), system.decay(), 1e-9, &what);
        }
    }
}

/// Means of 2e8 simulated batches of 160 packets, with their intervals (their table, and the
/// report's text).
#[test]
fn the_continued_mean_keeps_its_error() {
    for (sources, load, simulated, interval) in [
        (5, 0.8, 2.0315, 0.0023),
        (5, 0.5, 0.57467, 0.00082),
        (2, 0.5, 0.38022, 0.00028),
        (2, 0.8, 1.81341, 0.0058),
        (3, 0.5, 0.46286, 0.00072),
        (3, 0.8, 1.89792, 0.0058),
    ] {
        let exact = equal(sources, 160, load).exact(Effort::Quick).unwrap();
        let what = format!("{sources} sources, load {load}: {exact:?}");
        assert!((exact.wait - simulated).abs() <= exact.error + interval, "{what}");
        assert!(exact.error < 0.005 * exact.wait, "{what}");
        close(exact.wait, simulated, 0.005, &what);
    }
}

#[test]
fn fill_has_its_closed_form() {
    // Packets per second, and the mean wait in us: 62 packets, 200 us.
    let policy = Policy::new(62, Some(200e-6)).unwrap();
    for (rate, wait) in [
        (10e3, 133.33),
        (100e3, 104.76),
        (300e3, 96.28),
        (400e3, 76.20),
        (800e3, 38.12),
        (1e6, 30.50),
    ] {
        close(policy.fill(rate).unwrap().wait * 1e6, wait, 1e-3, "fill");
    }
    let alone = Policy::new(1, Some(1.0)).unwrap().fill(5.0).unwrap();
    assert_eq!((alone.size, alone.wait, alone.full), (1.0, 0.0, 1.0));
    // Without a timeout, and with one that never expires.
    let (never, late) = (Policy::new(160, None).unwrap(), Policy::new(160, Some(2e-3)).unwrap());
    close(late.fill(8e5).unwrap().wait, never.fill(8e5).unwrap().wait, 1e-12, "late");
}

const ASK: Ask = Ask { batches: 200_000, seed: 7, percentile: 0.99, longer_than: 2.0 };

#[test]
fn simulation_and_matrices_agree() {
    let service = Service { per_batch: 1.0, per_packet: 0.0, shape: Shape::Exponential };
    for (streams, size) in [
        (vec![Stream { count: 2, rate: 1.6 }], 4),
        (vec![Stream { count: 5, rate: 0.8 }], 5),
        (vec![Stream { count: 1, rate: 2.0 }, Stream { count: 4, rate: 0.5 }], 5),
    ] {
        let policy = Policy::new(size, None).unwrap();
        let simulated = Line::new(&streams, policy, service).unwrap().simulate(ASK).unwrap();
        let queue = Superposed::new(&streams, size, 1.0).unwrap().queue(size).unwrap();
        // Three cases of two values: twice the 95 % interval each.
        let half = simulated.wait.half_width.unwrap();
        assert!(
            (queue.mean_wait() - simulated.wait.mean).abs() < 2.0 * half,
            "{simulated:?} {}",
            queue.mean_wait()
        );
        let half = simulated.longer.half_width.unwrap();
        let tail = queue.waits_longer(&[2.0])[0];
        assert!((tail - simulated.longer.mean).abs() < 2.0 * half, "{simulated:?} {tail}");
        let fill = policy.fill(streams[0].rate).unwrap().wait;
        let half = simulated.fill.half_width.unwrap();
        assert!((fill - simulated.fill.mean).abs() < 2.0 * half, "{simulated:?} {fill}");
    }
}

/// At least eighteen of twenty 95 % intervals contain the mean; fewer occur once in thirteen times,
/// for one seed.
#[test]
fn intervals_hold_what_they_say() {
    let streams = [Stream { count: 2, rate: 1.0 }];
    let policy = Policy::new(4, None).unwrap();
    let service = Service { per_batch: 1.0, per_packet: 0.0, shape: Shape::Exponential };
    let truth = Superposed::new(&streams, 4, 1.0).unwrap().queue(4).unwrap().mean_wait();
    let line = Line::new(&streams, policy, service).unwrap();
    let held = (0..20).filter(|&seed| {
        let wait = line.simulate(Ask { batches: 40_000, seed, ..ASK }).unwrap().wait;
        (wait.mean - truth).abs() <= wait.half_width.unwrap()
    });
    assert!(held.count() >= 18);
}

#[test]
fn fill_is_simulated_as_its_closed_form_says() {
    for (size, timeout) in [(8, 50e-6), (62, 200e-6), (160, 200e-6)] {
        for rate in [10e3, 100e3, 300e3, 800e3] {
            let policy = Policy::new(size, Some(timeout)).unwrap();
            let service = Service { per_batch: 1e-9, per_packet: 0.0, shape: Shape::Deterministic };
            let line = Line::new(&[Stream { count: 1, rate }], policy, service).unwrap();
            let (simulated, closed) = (line.simulate(ASK).unwrap(), line.fill().unwrap());
            let what = format!("{size} packets, {timeout} s, {rate}/s: {simulated:?} {closed:?}");
            close(simulated.fill.mean, closed.wait, 0.01, &what);
            close(simulated.size, closed.size, 0.01, &what);
        }
    }
}

#[test]
fn nonsense_is_refused_by_its_bound() {
    let service =
        |per_batch, per_packet| Service { per_batch, per_packet, shape: Shape::Exponential };
    let stream = |rate| [Stream { count: 1, rate }];
    let policy = |size, timeout| Policy { size, timeout };
    for (line, told) in [
        (
            Line::new(&stream(1.0), policy(0, None), service(1.0, 0.0)),
            "packets in a batch is 0; it must be 1",
        ),
        (
            Line::new(&stream(1.0), policy(2, Some(-1.0)), service(1.0, 0.0)),
            "timeout of a batch is -1",
        ),
        (Line::new(&stream(-1.0), policy(2, None), service(1.0, 0.0)), "rate of packets is -1"),
        (
            Line::new(&stream(f64::NAN), policy(2, None), service(1.0, 0.0)),
            "rate of packets is NaN",
        ),
        (Line::new(&stream(1.0), policy(2, None), service(-1.0, 0.0)), "cost of a batch is -1"),
        (
            Line::new(&stream(1.0), policy(2, None), service(2.0, 0.0)),
            "the load is 1.0000, and must be below 1",
        ),
        (Line::new(&[], policy(2, None), service(2.0, 0.0)), "number of streams is 0"),
    ] {
        let why = line.unwrap_err().to_string();
        assert!(why.contains(told), "{why}");
    }
}
