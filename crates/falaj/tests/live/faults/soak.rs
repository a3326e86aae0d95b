//! Random traffic of all kinds and random changes, for `FALAJ_SOAK` seconds (`make soak`: one hour)
//! or, without this variable, for 20 s. After the warm-up memory usage does not grow, all counts
//! add up, and no guarantee is violated. An overloaded link sends at its configured rate, and the
//! service's clock advances like the clock of this process.
//!
//! In a day of virtual time (`make day`), no packets are sent for two minutes after each change
//! (`FALAJ_REST`, in seconds). So the day has about as many packets as an hour of real time.

use super::overload::Resident;
use super::scene::{Footprint, LoggedService, Random, Sender, number, number_of, until};
use crate::service::THREE;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Returns the duration of the test.
pub(crate) fn long() -> Duration {
    Duration::from_secs(number_of("FALAJ_SOAK").unwrap_or(20))
}

/// Returns the time of the last sample in ns, and the adapters' counts at that time.
fn look(told: &LoggedService) -> (u64, Vec<Value>) {
    let sample = told.service.get("/v1/adapters").json();
    (number(&sample["at_ns"]), sample["adapters"].as_array().expect("adapters").clone())
}

pub(crate) fn everything() {
    let rest = number_of("FALAJ_REST").map(Duration::from_secs);
    let told = LoggedService::start_by("soak", THREE, |command| {
        // Ten samples per second would be too many for a day.
        if rest.is_some() {
            command.env_remove("WATCHDOG_USEC");
        }
    });
    let (mut calm, _sink) = (Sender::calm(&told, "calm"), Sender::sink(&told));
    told.passes("calm");
    let held = Footprint::of(told.id());
    let mut random = Random::new(88_172_645_463_325_252);
    let mut senders: Vec<Sender> = Vec::new();
    let (began, all) = (Instant::now(), long());
    // At the end of the warm-up, nearly all memory that is allocated only once has been allocated.
    // The remaining time has two halves, whose maximum memory usages are compared: a leak makes the
    // second one larger, and backlogs at single instants do not.
    let warm = all / 4;
    let halfway = warm + (all - warm) / 2;
    let mut most: [Option<Resident>; 2] = [None; 2];
    let mut changes = 0;
    rate_is_the_links(&told);
    everything_at_once(&told, if rest.is_some() { Duration::from_secs(5) } else { all / 16 });
    let (first, _) = look(&told);
    let zero = Instant::now();
    while began.elapsed() < all {
        match random.below(6) {
            0 | 1 if senders.len() < 3 => {
                let name = ["greedy", "wild"][random.below(2) as usize];
                let gap = 100 + 400 * random.below(8);
                senders.push(match random.below(4) {
                    0 => Sender::stream(&told, name),
                    1 => Sender::flows(&told, name, gap, 18 + random.below(1_400)),
                    _ => Sender::each(&told, name, gap),
                });
            }
            0..=2 if !senders.is_empty() => {
                drop(senders.swap_remove(random.below(senders.len() as u64) as usize))
            }
            3 => {
                let rate = ["20mbit", "19mbit", "25mbit", "40mbit"][random.below(4) as usize];
                told.read_again(&THREE.replace("20mbit", rate));
            }
            4 => {
                let queue = json!({ "queue": format!("{}p", 20 + random.below(60)) });
                let answer = told.service.patch("/v1/adapters/wild", &queue);
                assert_eq!(answer.status, 200, "{}", answer.body);
            }
            _ => {
                // A change that does not fit is refused, each time alike.
                let answer = told.service.patch("/v1/adapters/wild", &json!({ "weight": 50 }));
                assert_eq!(answer.status, 409, "{}", answer.body);
            }
        }
        changes += 1;
        told.adds_up();
        std::thread::sleep(Duration::from_millis(100 + random.below(400)));
        let now = Resident::of(told.id());
        if began.elapsed() >= warm {
            let half = &mut most[usize::from(began.elapsed() >= halfway)];
            *half = half.filter(|most| most.own >= now.own).or(Some(now));
        }
        if let Some(rest) = rest {
            senders.clear();
            drop(calm);
            std::thread::sleep(rest.min(all.saturating_sub(began.elapsed())));
            calm = Sender::calm(&told, "calm");
        }
    }
    let [first_half, second_half] = most.map(|most| most.expect("there was a change in it"));
    let (taken, growth) = (first_half.all, second_half.own.saturating_sub(first_half.own));
    println!(
        "soak: {changes} changes in {} s, {taken} kB, {growth} kB more in the second half",
        all.as_secs()
    );
    // A difference of a few pages in the allocator is not growth. A steady leak of 5 kB/s or more
    // shows in five minutes, and one of 0.5 kB/s or more in an hour.
    assert!(growth <= taken / 100 + 256, "{taken} kB, and {growth} kB more");
    drop(senders);
    let (last, _) = look(&told);
    let (ours, theirs) = (zero.elapsed().as_secs_f64(), (last - first) as f64 / 1e9);
    // The first and the last sample are each up to a second old.
    assert!((ours - theirs).abs() < 2.5, "{ours} s here, {theirs} s there");
    rate_is_the_links(&told);
    drop(calm);
    told.adds_up();
    for name in ["calm", "greedy", "wild"] {
        let flow = told.up(name);
        let broken = [&flow["breaches"]["guarantee"], &flow["breaches"]["rate"]];
        assert_eq!(broken, [&Value::from(0); 2], "{flow:#}");
    }
    held.is_that_of(told.id());
    told.end();
}

/// Causes everything that may occur later, so that the memory for it is allocated before the first
/// sample.
fn everything_at_once(told: &LoggedService, long: Duration) {
    let answer = told.service.patch("/v1/adapters/wild", &json!({ "queue": "79p" }));
    assert_eq!(answer.status, 200, "{}", answer.body);
    let _all: Vec<Sender> = ["greedy", "wild"]
        .into_iter()
        .flat_map(|name| {
            [
                Sender::stream(told, name),
                Sender::flows(told, name, 100, 1_417),
                Sender::each(told, name, 100),
            ]
        })
        .collect();
    std::thread::sleep(long);
}

/// Asserts that an overloaded link sends at its configured rate, up to one packet at either end of
/// a window.
fn rate_is_the_links(told: &LoggedService) {
    const RATE: f64 = 20e6;
    told.read_again(THREE);
    until("the changed scenario file takes effect", || told.rate("calm") == 10_000_000);
    let _flood = ["greedy", "wild"].map(|name| Sender::each(told, name, 100));
    let (mut seen, mut windows) = (look(told).0, 0);
    until("windows in which packets always waited", || {
        let (at, adapters) = look(told);
        let window = |name: &str| {
            adapters.iter().find(|a| a["name"] == name).expect("it is there")["up"][0]["window"]
                .clone()
        };
        if at == seen {
            return false;
        }
        seen = at;
        if window("greedy")["demanded"] == true {
            windows += 1;
            let sent: f64 = ["calm", "greedy", "wild"]
                .iter()
                .map(|name| window(name)["sent"].as_f64().expect("a rate"))
                .sum();
            let seconds = window("greedy")["over_ns"].as_f64().expect("a time") / 1e9;
            assert!(
                (sent - RATE).abs() * seconds <= 2.0 * 8.0 * 1_514.0,
                "{sent} bit/s for {seconds} s"
            );
        }
        windows >= 3
    });
}
