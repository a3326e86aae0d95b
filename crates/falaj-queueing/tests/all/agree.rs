//! Independent methods give the same results for random queues.

use falaj_queueing::{Arrivals, Method, PhaseType, Queue, renewal_wait};
use proptest::prelude::*;

/// A random phase-type distribution of mean one.
fn phases() -> impl Strategy<Value = PhaseType> {
    (1usize..5).prop_flat_map(|n| {
        let rates = proptest::collection::vec(proptest::collection::vec(0.05f64..3.0, n + 1), n);
        let start = proptest::collection::vec(0.05f64..1.0, n);
        (rates, start).prop_map(|(rates, start)| {
            let sum: f64 = start.iter().sum();
            let n = start.len();
            let rows = |scale: f64| -> Vec<Vec<f64>> {
                let row = |i: usize| {
                    let out: f64 = (0..=n).filter(|&j| j != i).map(|j| rates[i][j]).sum();
                    (0..n).map(|j| scale * if i == j { -out } else { rates[i][j] }).collect()
                };
                (0..n).map(row).collect()
            };
            let start: Vec<f64> = start.iter().map(|p| p / sum * (1.0 - 1e-12)).collect();
            let mean = PhaseType::new(start.clone(), &rows(1.0)).unwrap().mean();
            PhaseType::new(start, &rows(mean)).unwrap()
        })
    })
}

/// Random Markovian arrivals.
fn arrivals() -> impl Strategy<Value = Arrivals> {
    (1usize..5).prop_flat_map(|n| {
        let square = || proptest::collection::vec(proptest::collection::vec(0.02f64..2.0, n), n);
        (square(), square()).prop_map(|(mut silent, heard)| {
            for i in 0..silent.len() {
                silent[i][i] = 0.0;
                silent[i][i] = -silent[i].iter().chain(&heard[i]).sum::<f64>();
            }
            Arrivals::new(&silent, &heard).unwrap()
        })
    })
}

fn close(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() <= relative * a.abs().max(b.abs()).max(1e-300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn reductions_and_formulas_agree(
        arrivals in arrivals(),
        service in phases(),
        load in 0.05f64..0.99,
    ) {
        let scale = load / arrivals.rate();
        let service = scaled(&service, scale);
        let by =
            |method| Queue::with_method(&arrivals, &Arrivals::renewal(&service), method).unwrap();
        let (one, other) = (by(Method::LogarithmicReduction), by(Method::CyclicReduction));
        prop_assert!(close(one.load(), load, 1e-9));
        prop_assert!(
            close(one.mean_wait(), other.mean_wait(), 1e-9),
            "{} {}",
            one.mean_wait(),
            other.mean_wait()
        );
        prop_assert!(one.solved.residual_g <= 1e-12 && one.solved.residual_r <= 1e-12);
        // Little's law and the phase-type wait are independent computations.
        let wait = one.wait();
        prop_assert!(
            close(one.mean_wait(), wait.mean(), 1e-8),
            "{} {}",
            one.mean_wait(),
            wait.mean()
        );
        let y = wait.mean();
        prop_assert!(close(one.waits_longer(&[y])[0], wait.tail(y), 1e-8));
    }

    #[test]
    fn the_papers_formulas_put_right_agree_with_the_blocks(
        interval in phases(), service in phases(), load in 0.05f64..0.99,
    ) {
        let service = scaled(&service, load);
        let by_formulas = renewal_wait(&interval, &service).unwrap();
        let queue = Queue::new(&Arrivals::renewal(&interval), &service).unwrap();
        prop_assert!(
            close(by_formulas.mean(), queue.mean_wait(), 1e-8),
            "{} {}",
            by_formulas.mean(),
            queue.mean_wait()
        );
        let y = queue.mean_wait();
        prop_assert!(close(by_formulas.tail(y), queue.waits_longer(&[y])[0], 1e-8));
    }

    #[test]
    fn what_is_lumped_is_the_kronecker_sum(
        count in 1usize..4,
        phases in 1usize..4,
        load in 0.1f64..0.95,
    ) {
        let rate = phases as f64 / count as f64;
        let lumped = Arrivals::erlangs(count, phases, rate).unwrap();
        let alone = Arrivals::renewal(&PhaseType::erlang(phases, rate).unwrap());
        let product = (1..count).fold(alone.clone(), |all, _| all.with(&alone));
        prop_assert_eq!(lumped.order() as f64, Arrivals::erlangs_order(count, phases));
        let service = PhaseType::exponential(1.0 / load).unwrap();
        let waits =
            [lumped, product].map(|arrivals| Queue::new(&arrivals, &service).unwrap().mean_wait());
        prop_assert!(close(waits[0], waits[1], 1e-9), "{:?}", waits);
    }

    #[test]
    fn residual_lives_are_longer_where_intervals_vary(interval in phases()) {
        // The inspection paradox: E[X^2] / (2 E[X]).
        let residual = interval.residual();
        prop_assert!(close(residual.mean(), interval.moment(2) / (2.0 * interval.mean()), 1e-9));
        let least = interval.least(&residual);
        prop_assert!(close(least.tail(0.7), interval.tail(0.7) * residual.tail(0.7), 1e-9));
    }
}

/// The distribution with its mean multiplied by `factor`.
fn scaled(phases: &PhaseType, factor: f64) -> PhaseType {
    phases.scaled(factor).unwrap()
}

#[test]
fn anchors_that_have_a_formula() {
    // M/E10/1, Pollaczek and Khinchine: 0.9 / 0.1 * (1 + 1/10) / 2.
    let poisson = Arrivals::renewal(&PhaseType::exponential(0.9).unwrap());
    let queue = Queue::new(&poisson, &PhaseType::erlang(10, 10.0).unwrap()).unwrap();
    assert!(close(queue.mean_wait(), 4.95, 1e-12));
    let branches = PhaseType::hyper_exponential(&[(0.3, 0.5), (0.7, 2.0)]).unwrap();
    assert!(close(branches.mean(), 0.95, 1e-12) && branches.squared_variation() > 1.0);
    assert!(close(branches.transform(0.5), 0.3 * 0.5 + 0.7 * 0.8, 1e-12));
    let parts =
        [(0.3, PhaseType::exponential(0.5).unwrap()), (0.7, PhaseType::exponential(2.0).unwrap())];
    assert!(close(PhaseType::mixture(&parts).unwrap().tail(1.3), branches.tail(1.3), 1e-12));
    // Two superposed Poisson processes have exponential intervals and exponential residual lives.
    let both = poisson.with(&Arrivals::renewal(&PhaseType::exponential(0.3).unwrap()));
    assert!(
        close(both.interval().mean(), 1.0 / 1.2, 1e-12)
            && close(both.residual().mean(), 1.0 / 1.2, 1e-12)
    );
}

#[test]
fn matrices_that_are_none_are_refused() {
    let refused =
        |start: Vec<f64>, rows: &[Vec<f64>]| PhaseType::new(start, rows).unwrap_err().to_string();
    assert!(refused(vec![1.0], &[vec![1.0]]).contains("sum up to 1, above zero"));
    assert!(
        refused(vec![1.0, 0.0], &[vec![-1.0]])
            .contains("2 initial probabilities, and a matrix of 1 phases")
    );
    assert!(refused(vec![1.0], &[vec![0.0]]).contains("never left"));
    assert!(refused(vec![2.0], &[vec![-1.0]]).contains("not between 0 and 1"));
    let arrivals = |silent: f64, heard: f64| {
        Arrivals::new(&[vec![silent]], &[vec![heard]]).unwrap_err().to_string()
    };
    assert!(arrivals(-1.0, 2.0).contains("together must sum up to zero"));
    assert!(arrivals(0.0, 0.0).contains("there are no arrivals"));
    assert!(PhaseType::erlang(0, 1.0).is_err() && PhaseType::exponential(f64::NAN).is_err());
}
