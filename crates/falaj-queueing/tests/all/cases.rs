//! Published and computed values of queues, from three independent programs.

use falaj_queueing::{Arrivals, Method, Queue};
use serde_json::Value;

fn reference() -> Value {
    serde_json::from_str(include_str!("../reference.json")).unwrap()
}

fn matrix(value: &Value) -> Vec<Vec<f64>> {
    serde_json::from_value(value.clone()).unwrap()
}

fn process(case: &Value, silent: &str, heard: &str) -> Arrivals {
    Arrivals::new(&matrix(&case[silent]), &matrix(&case[heard])).unwrap()
}

fn close(ours: f64, theirs: f64, relative: f64, what: &str) {
    assert!((ours / theirs - 1.0).abs() <= relative, "{what}: {ours} for {theirs}");
}

#[test]
fn means_and_tails_are_the_reference() {
    let reference = reference();
    let cases = reference["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 11);
    for case in cases {
        let (arrivals, service) = (process(case, "D0", "D1"), process(case, "S0", "S1"));
        let name = case["name"].as_str().unwrap();
        let number = |key: &str| case[key].as_f64().unwrap();
        for method in [Method::LogarithmicReduction, Method::CyclicReduction] {
            let queue = Queue::with_method(&arrivals, &service, method).unwrap();
            let what = format!("{name}, {method:?}");
            assert!(
                queue.solved.residual_g <= 1e-12 && queue.solved.residual_r <= 1e-12,
                "{what}: {:?}",
                queue.solved
            );
            assert!(queue.solved.defect() < 1e-12, "{what}");
            // Both programs that solved the case agree within this tolerance.
            for (ours, keys) in [
                (queue.mean_number(), ["mean_number", "butools_mean_number"]),
                (queue.mean_wait(), ["mean_wait", "butools_mean_wait"]),
                (queue.wait().mean(), ["mean_wait", "butools_mean_wait"]),
            ] {
                keys.iter().for_each(|key| close(ours, number(key), 1e-8, &what));
            }
            let tail = queue.waits_longer(&[0.0, number("y")]);
            close(tail[1], number("P_wait_gt_y"), 1e-8, &what);
            close(queue.wait().tail(number("y")), number("P_wait_gt_y"), 1e-8, &what);
            close(tail[0], 1.0 - queue.no_wait(), 1e-12, &what);
            // The third program is an event simulation with its own confidence intervals. There are
            // eleven intervals, so twice their width is allowed.
            let simulated = |key: &str, interval: &str| (number(key), 2.0 * number(interval));
            let (mean, width) = simulated("sim_mean_wait", "sim_ci95");
            assert!((queue.mean_wait() - mean).abs() < width, "{what}");
            let (probability, width) = simulated("sim_P", "sim_P_ci95");
            assert!((tail[1] - probability).abs() < width, "{what}");
        }
    }
}

#[test]
fn a_load_of_one_is_refused_and_one_close_to_it_is_not() {
    let exponential = |rate| falaj_queueing::PhaseType::exponential(rate).unwrap();
    let poisson = |rate| Arrivals::renewal(&exponential(rate));
    for (load, refused) in [(0.999, false), (1.0, true), (1.5, true)] {
        let queue = Queue::new(&poisson(load), &exponential(1.0));
        assert_eq!(queue.is_err(), refused, "{load}");
        match queue {
            Ok(queue) => close(queue.mean_wait(), load / (1.0 - load), 1e-8, "M/M/1"),
            Err(why) => {
                assert!(why.to_string().contains(&format!("the load is {load:.4}")), "{why}");
            }
        }
    }
}
