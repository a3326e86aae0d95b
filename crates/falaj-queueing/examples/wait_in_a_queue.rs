//! The wait in a queue, solved by matrices: the more regular the arrivals, the shorter the wait.
//! `cargo run -p falaj-queueing --example wait_in_a_queue`

use falaj_queueing::{Arrivals, PhaseType, Queue};

pub(crate) fn main() {
    let service = PhaseType::exponential(1.0).expect("a rate above zero");
    let waits = [1, 2, 4, 8].map(|steps| {
        // A load of 0.8, and intervals of `steps` exponential steps.
        let interval = PhaseType::erlang(steps, 0.8 * steps as f64).expect("valid");
        let queue = Queue::new(&Arrivals::renewal(&interval), &service).expect("it is stable");
        println!("intervals of {steps} steps: {:.4} services on average", queue.mean_wait());
        queue.mean_wait()
    });
    // M/M/1: load / (1 - load).
    assert!((waits[0] - 4.0).abs() < 1e-9);
    assert!(waits.is_sorted_by(|a, b| a > b));
}
