//! Batch sizes for a given delay, and the delay of the whole path through a machine.

use falaj_queueing::{
    Dimensions, How, Machine, Measure, Policy, Refused, Service, Shape, Stream, System, forward,
    most_that_fit,
};

/// The paper's system: one guest with 800 Kp/s in each direction, and 77.9 us per batch of any
/// size.
fn paper(measure: Measure) -> System {
    let service = Service { per_batch: 77.9e-6, per_packet: 0.0, shape: Shape::Exponential };
    System { streams: vec![Stream::new(2, 800e3)], measured: 1, service, timeout: None, measure }
}

#[test]
fn a_delay_has_two_sizes_and_a_least() {
    let Dimensions { stable, least, feasible, curve } =
        paper(Measure::Mean).dimensions(Some(300e-6), 500).unwrap();
    assert_eq!(stable, (125, 500));
    let near = |ours: f64, theirs: f64, off: f64| {
        assert!((ours - theirs).abs() <= off, "{ours} for {theirs}");
    };
    near(least.delay * 1e6, 255.0, 3.0);
    near(least.size as f64, 200.0, 25.0);
    assert_eq!(feasible.len(), 1);
    near(feasible[0].from.size as f64, 160.0, 1.0);
    near(feasible[0].to.size as f64, 325.0, 10.0);
    assert!(
        !feasible[0].open
            && feasible[0].to.delay <= 300e-6
            && curve.iter().all(|p| p.how == How::Exact)
    );
    near(paper(Measure::Mean).point(160).unwrap().delay * 1e6, 300.0, 3.0);
    // An infeasible delay: the result names the least delay.
    let never = paper(Measure::Mean).dimensions(Some(200e-6), 500).unwrap();
    assert!(never.feasible.is_empty() && never.least.delay > 250e-6);
}

/// Nine sizes and four timeouts are tried: no pair of them that keeps the delay needs more than 5 %
/// fewer batches than the chosen pair.
#[test]
fn a_delay_has_a_size_and_a_timeout() {
    let service = Service { per_batch: 5e-6, per_packet: 0.5e-6, shape: Shape::Deterministic };
    for (rate, measure) in [(100e3, Measure::Mean), (400e3, Measure::Percentile(0.99))] {
        let system = System {
            streams: vec![Stream::new(2, rate)],
            measured: 1,
            service,
            timeout: None,
            measure,
        };
        let best = system.pairs(200e-6, 500).unwrap().best.unwrap();
        assert!(best.point.delay <= 200e-6);
        let mut fewest = f64::INFINITY;
        for timeout in (1..=4).map(|i| 130e-6 * f64::from(i)) {
            let system = System { timeout: Some(timeout), ..system.clone() };
            for size in (8..=72).step_by(8) {
                // The smallest sizes are unstable.
                if let Ok(point) = system.point(size)
                    && point.delay <= 200e-6
                {
                    fewest = fewest.min(point.batches);
                }
            }
        }
        assert!(best.point.batches <= 1.05 * fewest, "{best:?}: {fewest}");
    }
    // The server cannot carry these streams with any batch size.
    let system = System {
        streams: vec![Stream::new(2, 4e6)],
        measured: 1,
        service,
        timeout: None,
        measure: Measure::Mean,
    };
    assert!(matches!(system.pairs(200e-6, 500), Err(Refused::Unstable { load }) if load > 1.0));
    let slow = System { streams: vec![Stream::new(2, 1e4)], ..system };
    let none = slow.pairs(5.6e-6, 500).unwrap();
    assert!(none.best.is_none() && none.least.point.delay > 5.6e-6);
}

#[test]
fn an_unstable_system_says_its_load() {
    let mut system = paper(Measure::Mean);
    system.service = Service { per_batch: 1e-6, per_packet: 1e-6, ..system.service };
    match system.dimensions(Some(1e-3), 1000) {
        Err(Refused::Unstable { load }) => assert!((load - 1.6016).abs() < 1e-9, "{load}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_percentile_is_above_its_mean_and_timeouts_hold_it_down() {
    let mean = paper(Measure::Mean).point(160).unwrap();
    let high = paper(Measure::Percentile(0.99)).point(160).unwrap();
    assert!(high.delay > 2.0 * mean.delay && high.how == How::Simulated, "{high:?} {mean:?}");
    let slow = |timeout| {
        let service =
            Service { per_batch: 5.72e-6, per_packet: 0.533e-6, shape: Shape::Deterministic };
        let streams = vec![Stream::new(2, 50e3)];
        System { streams, measured: 1, service, timeout, measure: Measure::Mean }
            .point(160)
            .unwrap()
    };
    let (with, without) = (slow(Some(200e-6)), slow(None));
    // For a timeout T the mean fill is (T (1 + rate T / 2)) / (1 + rate T), here 109 us.
    assert!((with.fill * 1e6 - 109.09).abs() < 0.1 && without.fill > 1e-3, "{with:?} {without:?}");
}

#[test]
fn guests_fit_until_they_do_not() {
    // Each guest receives and sends 100 Kp/s; a packet takes half a microsecond, so nine guests
    // load the server to 90 %.
    let system = |guests: usize| {
        let service = Service { per_batch: 5e-6, per_packet: 0.5e-6, shape: Shape::Exponential };
        let streams = vec![Stream::new(2 * guests, 100e3)];
        System { streams, measured: 1, service, timeout: None, measure: Measure::Mean }
    };
    let (count, point) = most_that_fit(system, 1e-3, 400, 100).unwrap().expect("one fits");
    assert!((4..10).contains(&count) && point.delay <= 1e-3, "{count} {point:?}");
    let whole = system(count).dimensions(Some(1e-3), 400).unwrap();
    assert_eq!(whole.feasible.last().map(|f| f.to), Some(point));
    assert!(system(count + 1).dimensions(Some(1e-3), 400).map_or(true, |d| d.feasible.is_empty()));
    assert!(most_that_fit(system, 1e-6, 400, 100).unwrap().is_none());
}

/// Compares with the paper's simulations of two stages, without fitting any parameter: packets of
/// 64 B, 62 packets per batch, a timeout of 200 us.
#[test]
fn the_whole_way_is_as_simulated_elsewhere() {
    let service = Service { per_batch: 5.72e-6, per_packet: 0.533e-6, shape: Shape::Deterministic };
    let policy = Policy { size: 62, timeout: Some(200e-6) };
    let machine = Machine { guests: 1, policy, service, room: 1000, shared: true };
    for (rate, delay) in [(100e3, 321.0), (200e3, 346.0), (400e3, 264.0), (600e3, 128.0)] {
        let found = forward(&machine, rate, 1_000_000, 3).unwrap();
        // The position, within an incoming batch, of the packet that opens the next outgoing batch
        // drifts slowly: the confidence intervals are wide if most batches are full.
        let off = 0.02 * delay + 1e6 * found.delay.half_width.unwrap();
        assert!((found.delay.mean * 1e6 - delay).abs() < off, "{rate}: {found:?}");
        assert!(
            found.loss == 0.0 && found.jitter < 2.0 * 200e-6 + service.mean(62.0),
            "{rate}: {found:?}"
        );
    }
    // The server saturates at 80 Kp/s if it serves single packets, and at 800 Kp/s if it serves
    // batches.
    for (size, full) in [(1, 80e3), (62, 800e3)] {
        let machine = Machine { policy: Policy { size, timeout: Some(200e-6) }, ..machine };
        let found = forward(&machine, 2.0 * full, 400_000, 3).unwrap();
        assert!(found.loss > 0.4 && found.rate < full * 1.05, "{size}: {found:?}");
        assert!(forward(&machine, 0.9 * full, 200_000, 3).unwrap().loss == 0.0);
    }
}
