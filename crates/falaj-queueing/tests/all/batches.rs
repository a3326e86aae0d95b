//! Batches: closed forms, matrices and simulation agree.

use falaj_queueing::{Ask, Effort, Line, Policy, Service, Shape, Stream, Superposed};
use serde_json::Value;

fn close(ours: f64, theirs: f64, relative: f64, what: &str) {
    assert!((ours / theirs - 1.0).abs() <= relative, "{what}: {ours} for {theirs}");
}

/// `sources` equal streams at this load, with a mean service time of 1.
fn equal(sources: usize, size: usize, load: f64) -> Superposed {
    let rate = load * size as f64 / sources as f64;
    Superposed::new(&[Stream::new(sources, rate)], size, 1.0).unwrap()
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
        // The largest system has 2002 phases: its value is extrapolated, and must be within its
        // stated error.
        let exact = system.exact(Effort::Quick).unwrap();
        let off = (exact.wait - number("exact_wait")).abs();
        assert!(off <= exact.error + 1e-5 * exact.wait, "{what}: {exact:?}");
        if exact.from.len() == 1 {
            let queue = system.queue(size).unwrap();
            close(queue.waits_longer(&[5.0])[0], number("exact_tail"), 1e-3, &what);
            // The matrix R decays with the root of the scalar equation.
            close(1.0 - queue.solved.decay(), system.decay(), 1e-9, &what);
        }
    }
}

/// Compares with the means of 2e8 simulated batches of 160 packets and their confidence intervals,
/// from the paper's table and the report's text.
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
    // Pairs of packets per second and mean wait in us, for 62 packets and a timeout of 200 us.
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
    // One policy has no timeout; the timeout of the other never expires.
    let (never, late) = (Policy::new(160, None).unwrap(), Policy::new(160, Some(2e-3)).unwrap());
    close(late.fill(8e5).unwrap().wait, never.fill(8e5).unwrap().wait, 1e-12, "late");
}

const ASK: Ask = Ask { batches: 200_000, seed: 7, percentile: 0.99, longer_than: 2.0 };

#[test]
fn simulation_and_matrices_agree() {
    let service = Service { per_batch: 1.0, per_packet: 0.0, shape: Shape::Exponential };
    for (streams, size) in [
        (vec![Stream::new(2, 1.6)], 4),
        (vec![Stream::new(5, 0.8)], 5),
        (vec![Stream::new(1, 2.0), Stream::new(4, 0.5)], 5),
    ] {
        let policy = Policy::new(size, None).unwrap();
        let simulated = Line::new(&streams, policy, service).unwrap().simulate(ASK).unwrap();
        let queue = Superposed::new(&streams, size, 1.0).unwrap().queue(size).unwrap();
        // Three cases with two values each are compared, so twice the 95 % interval is allowed.
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
        let of_first = simulated.streams[0].unwrap().fill;
        let half = of_first.half_width.unwrap();
        assert!((fill - of_first.mean).abs() < 2.0 * half, "{simulated:?} {fill}");
    }
}

/// At least eighteen of twenty 95 % intervals contain the mean. With exact intervals, fewer would
/// contain it with a probability of one in thirteen; here the seeds are fixed.
#[test]
fn intervals_hold_what_they_say() {
    let streams = [Stream::new(2, 1.0)];
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
            let line = Line::new(&[Stream::new(1, rate)], policy, service).unwrap();
            let (simulated, closed) =
                (line.simulate(ASK).unwrap().streams[0].unwrap(), line.fill(0).unwrap());
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
    let stream = |rate| [Stream::new(1, rate)];
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

/// Mean delay of each stream's packets, simulated packet by packet and without the crate's own
/// simulation: Poisson arrivals, batches of `sizes` packets, and one server with exponential
/// service times of these means.
fn packet_by_packet(rates: &[f64], sizes: &[usize], services: &[f64], packets: usize) -> Vec<f64> {
    // A xorshift random number generator with 64 bits; logarithms make its numbers exponential.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut exponential = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        -(((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64).ln()
    };
    let all: f64 = rates.iter().sum();
    let mut open = vec![Vec::new(); rates.len()];
    let (mut sums, mut counts) = (vec![0.0; rates.len()], vec![0u32; rates.len()]);
    let (mut now, mut free) = (0.0f64, 0.0f64);
    for _ in 0..packets {
        now += exponential() / all;
        // A uniformly distributed part of the sum of all rates selects the stream of the packet.
        let mut part = all * (-exponential()).exp();
        let mut stream = 0;
        while stream + 1 < rates.len() && part >= rates[stream] {
            part -= rates[stream];
            stream += 1;
        }
        open[stream].push(now);
        if open[stream].len() == sizes[stream] {
            free = free.max(now) + services[stream] * exponential();
            sums[stream] += open[stream].drain(..).map(|at: f64| free - at).sum::<f64>();
            counts[stream] += sizes[stream] as u32;
        }
    }
    sums.iter().zip(&counts).map(|(sum, &count)| sum / f64::from(count)).collect()
}

#[test]
fn five_unequal_streams_have_their_own_delays() {
    let rates = [2.0, 1.6, 1.2, 0.8, 0.4];
    let sizes = [6, 3, 8, 4, 2];
    let services = [0.4, 0.3, 0.5, 0.2, 0.6];
    let streams: Vec<Stream> = (0..5)
        .map(|n| Stream {
            size: Some(sizes[n]),
            service: Some(Service {
                per_batch: services[n],
                per_packet: 0.0,
                shape: Shape::Exponential,
            }),
            ..Stream::new(1, rates[n])
        })
        .collect();
    let other = Service { per_batch: 9.0, per_packet: 9.0, shape: Shape::Exponential };
    let line = Line::new(&streams, Policy::new(99, None).unwrap(), other).unwrap();
    let load: f64 = (0..5).map(|n| rates[n] / sizes[n] as f64 * services[n]).sum();
    close(line.load().unwrap(), load, 1e-12, "load");
    assert_eq!(line.common_service().unwrap(), None);
    let simulated = line.simulate(ASK).unwrap();
    let packets = packet_by_packet(&rates, &sizes, &services, 4_000_000);
    for (n, of) in simulated.streams.iter().enumerate() {
        let of = of.unwrap();
        // Five values of two simulations are compared, so twice the 95 % interval of the shorter
        // simulation is allowed.
        let half = 2.0 * of.delay.half_width.unwrap();
        assert!((of.delay.mean - packets[n]).abs() < half, "{n}: {of:?} {packets:?}");
        close(of.fill.mean, line.fill(n).unwrap().wait, 0.02, "fill");
        assert_eq!(of.size, sizes[n] as f64);
    }
    // No pair of streams has the same delay, so a mistaken order would show.
    let mut sorted = packets;
    sorted.sort_by(f64::total_cmp);
    assert!(sorted.windows(2).all(|pair| pair[1] > 1.05 * pair[0]), "{sorted:?}");
}

#[test]
fn unequal_streams_with_one_service_are_solved_by_matrices() {
    let sized = |rate, size| Stream { size: Some(size), ..Stream::new(1, rate) };
    let streams = [sized(1.0, 2), sized(0.9, 3), sized(0.6, 2), sized(0.8, 4), sized(0.3, 3)];
    let service = Service { per_batch: 0.5, per_packet: 0.0, shape: Shape::Exponential };
    let model = Superposed::new(&streams, 1, 0.5).unwrap();
    let exact = model.exact(Effort::Quick).unwrap();
    assert_eq!(exact.from.len(), 1, "144 phases are solved directly");
    let line = Line::new(&streams, Policy::new(1, None).unwrap(), service).unwrap();
    close(line.load().unwrap(), model.load(), 1e-12, "load");
    assert_eq!(line.common_service().unwrap(), Some((Shape::Exponential, 0.5)));
    let wait = line.simulate(ASK).unwrap().wait;
    assert!((wait.mean - exact.wait).abs() < 2.0 * wait.half_width.unwrap(), "{wait:?} {exact:?}");
    let queue = model.queue(1).unwrap();
    close((1.0 - queue.solved.decay()) / 0.5, model.decay(), 1e-9, "decay");
    // Streams of one size have the same solution, whether their size is given by stream or for all.
    let same = [sized(1.0, 4), Stream::new(2, 0.5)];
    let plain = [Stream::new(1, 1.0), Stream::new(2, 0.5)];
    let [same, plain] = [&same, &plain].map(|s| Superposed::new(s, 4, 0.5).unwrap());
    close(same.decay(), plain.decay(), 1e-12, "decay");
    close(same.as_printed().unwrap().wait, plain.as_printed().unwrap().wait, 1e-12, "printed");
    // The matrices of large batches would be too large, and nothing shows how to extrapolate them.
    let large = [sized(1.0, 62), sized(0.6, 20), sized(0.3, 10)];
    let why = Superposed::new(&large, 1, 0.5).unwrap().exact(Effort::Full).unwrap_err();
    assert!(why.to_string().contains("matrices up to 800"), "{why}");
}
