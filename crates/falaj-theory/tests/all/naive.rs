//! Compares the operations on curves with their definitions, instant by instant, on a grid much
//! finer than the distances between bends.

use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use falaj_theory::{Curve, Exact, Piece, exact};
use proptest::prelude::*;

/// Number of grid steps in a unit of time; bends lie at multiples of this unit. Slopes are 0, 1, 2
/// or 4 per step, and heights at bends are whole numbers. So a curve reaches each whole number at a
/// multiple of a quarter of a step.
const UNIT: usize = 16;
/// Number of steps that contain all bends of the curves.
const BENDS: usize = 4 * UNIT;
/// Number of steps of the grid: sums of two times are below it, and service curves have time to
/// exceed the arrival curves.
const STEPS: usize = 40 * UNIT;

/// A curve as numbers: its values just before, at and just after each step of the grid.
#[derive(Clone, Debug)]
struct Naive {
    before: Vec<i64>,
    at: Vec<i64>,
    after: Vec<i64>,
}

/// The data of a curve. For each bend: its time in units, the jumps at it and just after it, and
/// the slope from there on.
type Recipe = Vec<(usize, i64, i64, i64)>;

fn recipe() -> impl Strategy<Value = Recipe> {
    let jump = || prop::sample::select(vec![0i64, 0, 0, 1, 2]);
    let slope = prop::sample::select(vec![0i64, 1, 2, 4]);
    prop::collection::vec((1..=BENDS / UNIT, jump(), jump(), slope), 1..5).prop_map(|mut bends| {
        bends.sort_by_key(|b| b.0);
        bends.dedup_by_key(|b| b.0);
        bends[0].0 = 0;
        bends
    })
}

impl Naive {
    fn new(recipe: &Recipe) -> Naive {
        let (mut height, mut slope) = (0, 0);
        let mut all = Naive { before: vec![], at: vec![], after: vec![] };
        for step in 0..STEPS {
            all.before.push(height);
            let bend = recipe.iter().find(|b| b.0 * UNIT == step);
            height += bend.map_or(0, |b| b.1 * UNIT as i64);
            all.at.push(height);
            height += bend.map_or(0, |b| b.2 * UNIT as i64);
            all.after.push(height);
            slope = bend.map_or(slope, |b| b.3);
            height += slope;
        }
        all
    }

    fn grows_behind(&self, step: usize) -> bool {
        self.before[step + 1] > self.after[step]
    }
}

fn curve(recipe: &Recipe) -> Curve {
    let mut pieces: Vec<Piece> = Vec::new();
    for &(unit, at, behind, slope) in recipe {
        let t = exact((unit * UNIT) as i64);
        let reached = pieces.last().map_or(exact(0), |p| &p.after + &p.slope * (&t - &p.at));
        let value = reached + exact(at * UNIT as i64);
        let after = &value + exact(behind * UNIT as i64);
        pieces.push(Piece { at: t, value, after, slope: exact(slope) });
    }
    Curve::new(pieces).expect("a curve")
}

/// The value just before a step; zero before step zero.
fn before(curve: &Curve, step: usize) -> Exact {
    // No result bends within the last thousandth of a step.
    curve.at(&(exact(step as i64) - Exact::new(1.into(), 1_000.into())))
}

fn agrees(found: &Curve, step: usize, expected: i64) -> Result<(), TestCaseError> {
    prop_assert_eq!(found.at(&exact(step as i64)), exact(expected), "at {} of {:?}", step, found);
    Ok(())
}

/// The first time, on a grid of quarters, at which the service curve has reached `level`, or, if
/// `beyond` is true, from which on it is above `level`. `None` if it is after the end of the grid.
fn served(g: &Naive, level: i64, beyond: bool) -> Option<Exact> {
    let enough = |height: i64, four: i64| {
        if beyond { height > level * four } else { height >= level * four }
    };
    for step in 0..STEPS - 1 {
        if enough(g.at[step], 1) || enough(g.after[step], 1) {
            return Some(exact(step as i64));
        }
        // The curve is straight between steps, and four times its value at a quarter is a whole
        // number.
        for quarter in 0..4 {
            let next = g.after[step] * (3 - quarter) + g.before[step + 1] * (quarter + 1);
            if enough(next, 4) {
                let add = if beyond { quarter } else { quarter + 1 };
                return Some(exact(step as i64) + Exact::new(add.into(), 4.into()));
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn values_sums_and_minima(a in recipe(), b in recipe()) {
        let (f, g, fine, hard) = (curve(&a), curve(&b), Naive::new(&a), Naive::new(&b));
        let (sum, min) = (f.sum(&g), f.min(&g));
        for t in 0..2 * BENDS {
            agrees(&f, t, fine.at[t])?;
            prop_assert_eq!(f.after(&exact(t as i64)), exact(fine.after[t]));
            agrees(&sum, t, fine.at[t] + hard.at[t])?;
            agrees(&min, t, fine.at[t].min(hard.at[t]))?;
            prop_assert_eq!(min.after(&exact(t as i64)), exact(fine.after[t].min(hard.after[t])));
        }
    }

    #[test]
    fn convolution_is_the_infimum_over_all_splits(a in recipe(), b in recipe()) {
        let (f, g) = (Naive::new(&a), Naive::new(&b));
        let found = curve(&a).convolve(&curve(&b));
        prop_assert_eq!(&found, &curve(&b).convolve(&curve(&a)));
        for t in 0..3 * BENDS {
            let split = |s: usize| {
                let (near, far) = (s, t - s);
                let mut least = f.at[near] + g.at[far];
                if far > 0 {
                    least = least.min(f.after[near] + g.before[far]);
                }
                if near > 0 {
                    least = least.min(f.before[near] + g.after[far]);
                }
                least
            };
            agrees(&found, t, (0..=t).map(split).min().unwrap())?;
        }
    }

    #[test]
    fn deconvolution_is_the_supremum_over_all_shifts(a in recipe(), b in recipe()) {
        let (f, g) = (Naive::new(&a), Naive::new(&b));
        let found = curve(&a).deconvolve(&curve(&b));
        if a.last().unwrap().3 > b.last().unwrap().3 {
            prop_assert!(found.is_none());
            return Ok(());
        }
        let found = found.expect("no more comes than is served");
        for t in 0..2 * BENDS {
            let shift = |u: usize| {
                let mut most = (f.at[t + u] - g.at[u]).max(f.after[t + u] - g.after[u]);
                if u > 0 {
                    most = most.max(f.before[t + u] - g.before[u]);
                }
                most
            };
            agrees(&found, t, (0..3 * BENDS).map(shift).max().unwrap().max(0))?;
        }
        prop_assert_eq!(curve(&a).backlog(&curve(&b)).unwrap().length, found.at(&exact(0)));
    }

    #[test]
    fn what_is_left_over_is_the_most_that_was(a in recipe(), b in recipe()) {
        let (f, g) = (Naive::new(&a), Naive::new(&b));
        let found = curve(&a).left_over(&curve(&b));
        let mut most = 0;
        for t in 0..3 * BENDS {
            most = most.max(f.before[t] - g.before[t]).max(f.at[t] - g.at[t]);
            agrees(&found, t, most)?;
            most = most.max(f.after[t] - g.after[t]);
            prop_assert_eq!(found.after(&exact(t as i64)), exact(most));
        }
    }

    #[test]
    fn backlog_is_the_largest_difference(a in recipe(), b in recipe()) {
        let (f, g) = (Naive::new(&a), Naive::new(&b));
        let (sent, service) = (curve(&a), curve(&b));
        if a.last().unwrap().3 > b.last().unwrap().3 {
            prop_assert!(sent.backlog(&service).is_none());
            return Ok(());
        }
        let most = (0..2 * BENDS).map(|t| {
            (f.before[t] - g.before[t]).max(f.at[t] - g.at[t]).max(f.after[t] - g.after[t])
        });
        prop_assert_eq!(sent.backlog(&service).unwrap().length, exact(most.max().unwrap().max(0)));
    }

    #[test]
    fn delay_is_the_longest_wait_of_any_byte(a in recipe(), b in recipe()) {
        let (f, g) = (Naive::new(&a), Naive::new(&b));
        let (sent, service) = (curve(&a), curve(&b));
        let found = sent.delay(&service);
        let (rate_in, rate_out) = (a.last().unwrap().3, b.last().unwrap().3);
        let never_enough =
            rate_out == 0 && (rate_in > 0 || f.after[STEPS - 1] > g.after[STEPS - 1]);
        if rate_in > rate_out || never_enough {
            prop_assert!(found.is_none(), "{:?}", found);
            return Ok(());
        }
        let mut longest = exact(0);
        for t in 0..3 * BENDS {
            let here = exact(t as i64);
            let mut wait = |until: Option<Exact>| {
                longest = longest.clone().max(until.expect("served in time") - &here);
            };
            wait(served(&g, f.at[t], false));
            wait(served(&g, f.after[t], f.grows_behind(t)));
            if t > 0 && f.before[t] > f.after[t - 1] {
                wait(served(&g, f.before[t], false));
            }
        }
        let found = found.expect("a bound");
        prop_assert_eq!(&found.length, &longest);
        // The reported position lies between the two curves.
        if longest > exact(0) {
            prop_assert!(before(&sent, 0) <= found.level && found.level <= sent.after(&found.at));
            let end = &found.at + &found.length;
            prop_assert!(service.after(&end) >= found.level, "{:?}", found);
        }
    }
}

/// Examples of the textbook, computed by hand.
#[test]
fn a_bucket_at_a_rate_latency_server() {
    let (mbit, ms) = (Rate::from_mbit, Span::from_millis);
    let sent = Curve::token_bucket(mbit(8), 4000);
    let server = Curve::rate_latency(mbit(16), ms(3));
    // The delay is T + b/R and the backlog is b + r T (Le Boudec and Thiran, 1.4.1), in nanoseconds
    // and bytes.
    assert_eq!(sent.delay(&server).unwrap().length, exact(3_000_000 + 2_000_000));
    assert_eq!(sent.backlog(&server).unwrap().length, exact(4000 + 3000));
    // The output has the burst b + r T.
    assert_eq!(sent.deconvolve(&server).unwrap().at(&exact(0)), exact(7000));
    // Two servers in a row are one with the sum of the latencies and the lower rate.
    let second = Curve::rate_latency(mbit(10), ms(1));
    assert_eq!(server.convolve(&second), Curve::rate_latency(mbit(10), ms(4)));
    // The left-over service is R - r after (R T + b)/(R - r).
    assert_eq!(server.left_over(&sent), Curve::rate_latency(mbit(8), ms(10)));
    assert!(Curve::token_bucket(mbit(17), 1).delay(&server).is_none());
    assert!(Curve::token_bucket(mbit(17), 1).backlog(&server).is_none());
}

/// The minimum of two token buckets: 9000 B with 1 Mbit/s, and 1500 B with 100 Mbit/s (an IntServ
/// TSpec).
#[test]
fn of_several_buckets_the_lowest_holds() {
    let peak = Curve::token_bucket(Rate::from_mbit(100), 1500);
    let sent = peak.min(&Curve::token_bucket(Rate::from_mbit(1), 9000));
    assert_eq!(sent.pieces().len(), 2);
    // The two lines cross after 7500 B / 99 Mbit/s.
    let knee = Exact::new((7_500u64 * 8_000).into(), 99.into());
    assert_eq!(sent.pieces()[1].at, knee);
    let service = Curve::rate_latency(Rate::from_mbit(10), Span::ZERO);
    let wait = sent.delay(&service).unwrap();
    assert_eq!(wait.at, knee, "the knee waits longest");
    assert_eq!(wait.length, &wait.level * exact(800) - &knee);
}

#[test]
fn stairs_climb_and_pieces_are_checked() {
    let ms = Span::from_millis;
    let stairs = Curve::staircase(&[(ms(0), 500), (ms(2), 1000)], Rate::from_mbit(2)).unwrap();
    let value = |ns: u64| stairs.at(&exact(ns));
    assert_eq!([value(0), value(1), value(2_000_000)], [exact(0), exact(500), exact(500)]);
    assert_eq!(stairs.after(&exact(2_000_000)), exact(1000));
    assert_eq!(value(6_000_000), exact(2000), "1000 B and 4 ms at 250 B/ms");
    assert_eq!(
        Curve::staircase(&[], Rate::from_mbit(8)).unwrap(),
        Curve::rate_latency(Rate::from_mbit(8), ms(0))
    );
    assert!(Curve::staircase(&[(ms(1), 5), (ms(2), 4)], Rate(1)).is_err());
    assert!(Curve::staircase(&[(ms(2), 5), (ms(1), 6)], Rate(1)).is_err());
    let piece = |at: i64, value: i64, after: i64| Piece {
        at: exact(at),
        value: exact(value),
        after: exact(after),
        slope: exact(0),
    };
    for wrong in [
        vec![],
        vec![piece(1, 0, 0)],
        vec![piece(0, -1, 0)],
        vec![piece(0, 2, 1)],
        vec![piece(0, 3, 3), piece(4, 2, 5)],
    ] {
        assert!(Curve::new(wrong.clone()).is_err(), "{wrong:?}");
    }
    assert_eq!(Curve::zero().sum(&stairs), stairs);
}

/// Nothing overflows at extreme rates, bursts and latencies.
#[test]
fn the_fastest_and_the_slowest() {
    let sent = Curve::token_bucket(Rate(999_999_999_999_989), u64::MAX)
        .min(&Curve::token_bucket(Rate(1), u64::MAX / 3));
    let service = Curve::rate_latency(Rate(1_000_000_000_000_000), Span::MAX);
    let wait = sent.delay(&service).unwrap();
    assert!(wait.length > exact(u64::MAX));
    assert!(sent.convolve(&service).deconvolve(&service).is_some());
}
