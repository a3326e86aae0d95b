//! The kernel as referee: its queueing disciplines and ours over the same datagrams, in one guest.

use crate::{directory, falaj, script, this, trial};
use falaj_engine::counted_layer::CountedLayer;
use falaj_engine::policer::{Policer, TokenBucket, conforms};
use falaj_sched::units::draws::Draws;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Time;
use libtest_mimic::Trial;
use serde_json::Value;
use std::fs;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("referee::each_packet_takes_as_long_as_through_the_kernel", same_packets),
        trial("referee::a_policer_takes_the_packets_that_the_kernels_takes", policers),
        trial("referee::what_the_kernel_lacks_ends_no_other_case", refused),
    ]
}

/// Range by which a packet's delay through falaj may differ from that through the kernel, in
/// nanoseconds. falaj's path has two more passages between kernel and program, and each reading of
/// the clock takes 256 ns. A packet that has to wait may also take longer through the kernel.
/// Differences of -3.4 to 7.5 us were seen.
const LATER: std::ops::RangeInclusive<i64> = -5_000..=10_000;
/// One packet in this number may be dropped only by the kernel, or only by falaj: such a packet
/// arrives almost at the instant at which a full queue has room again.
const ALONE: u64 = 100;

pub(crate) fn source(name: &str, model: &str, rate: u64, size: u64) -> String {
    format!("[traffic.{name}]\nmodel = \"{model}\"\nrate = \"{rate}kbit\"\nsize = \"{size}B\"\n")
}

/// Writes a case: the script of one discipline, and its traffic.
fn case(name: &str, script: &str, traffic: &str) -> String {
    let commands = format!("tc qdisc add dev falaj0 root {script}\n");
    written(name, &commands, traffic, "300ms")
}

/// Writes a case: commands of tc, and traffic for this time.
pub(crate) fn written(name: &str, commands: &str, traffic: &str, duration: &str) -> String {
    let case = directory().join(format!("referee-{name}"));
    fs::create_dir_all(&case).expect("a directory can be made");
    fs::write(case.join("tc.sh"), commands)
        .and_then(|()| {
            let run = format!("[run]\nduration = \"{duration}\"\n");
            fs::write(case.join("traffic.toml"), format!("{traffic}{run}"))
        })
        .expect("a file can be written");
    case.to_str().expect("UTF-8").to_owned()
}

/// Returns the measurements of these cases.
pub(crate) fn measured(cases: &[String], status: i32) -> Vec<Value> {
    let mut words = vec!["bench", "kernel", "--virtual-time", "--json", "-q"];
    words.extend(cases.iter().map(String::as_str));
    let ran = falaj(&words);
    assert_eq!(ran.status, Some(status), "{ran:#?}");
    serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:#?}"))
}

fn same_packets() {
    let constant = source("constant", "cbr", 4_000, 500);
    let chance = source("chance", "poisson", 9_000, 1042);
    let overload = source("heavy", "cbr", 12_000, 1242) + &source("light", "poisson", 1_000, 242);
    let mut cases = vec![
        case("delay", "netem delay 10ms", &constant),
        case("rate", "netem rate 10mbit limit 1000", &chance),
        case("tbf", "tbf rate 10mbit burst 3028 limit 200kb", &chance),
        case("tbf-overload", "tbf rate 10mbit burst 3028 limit 20kb", &overload),
    ];
    // Further, random cases. Their queues have room for all packets, because which packet finds a
    // full queue is a matter of chance.
    let mut draws = Draws::new(1, 1);
    let mut dice = |low: u64, high: u64| low + draws.draw() % (high - low + 1);
    for n in 0..2 {
        let (rate, burst) = (dice(2_000, 10_000), dice(1_600, 9_000));
        let [one, other] = [0, 1].map(|_| (rate * dice(2, 7) / 10, dice(400, 1_514)));
        let traffic =
            source("one", "cbr", one.0, one.1) + &source("other", "poisson", other.0, other.1);
        let delay = dice(1, 30_000);
        cases.extend([
            case(&format!("drawn-delay-{n}"), &format!("netem delay {delay}us"), &traffic),
            case(
                &format!("drawn-tbf-{n}"),
                &format!("tbf rate {rate}kbit burst {burst} limit 1mb"),
                &traffic,
            ),
        ]);
    }
    let mut wrong = Vec::new();
    for case in measured(&cases, 0) {
        for flow in case["flows"].as_array().unwrap_or_else(|| panic!("{case:#}")) {
            let same = &flow["same_packets"];
            let later = |key: &str| same["falaj_later"][key].as_i64().unwrap_or(i64::MAX);
            let near = ["least_ns", "most_ns"].iter().all(|key| LATER.contains(&later(key)));
            let number = |key: &str| same[key].as_u64().unwrap_or_default();
            let alone = number("kernel_alone").max(number("falaj_alone"));
            if !near || alone > number("both") / ALONE {
                wrong.push(format!("{}: {flow:#}", case["case"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn refused() {
    let cases = [
        // The kernel refuses this `divisor`: it must be a power of two.
        case(
            "none",
            "handle 1: tbf rate 10mbit burst 3028 limit 20kb\n\
             tc qdisc add dev falaj0 parent 1: sfq divisor 1000",
            &source("a", "cbr", 1_000, 500),
        ),
        case("some", "netem delay 1ms", &source("a", "cbr", 1_000, 500)),
    ];
    let told = measured(&cases, 2);
    let error = told[0]["error"].as_str().unwrap_or_else(|| panic!("{told:#?}"));
    assert!(error.starts_with("the kernel refuses it: "), "{error}");
    assert!(told[1]["flows"][0]["same_packets"]["both"].as_u64() > Some(70), "{told:#?}");
}

/// Of 500 datagrams, the kernel's `police` and a policer of falaj accept the same ones, also with a
/// peak rate. Incoming packets count as IP packets, and outgoing packets as frames.
fn policers() {
    const COUNT: u32 = 500;
    const HEADERS: u32 = 28;
    let this = this();
    // The instants at which the guest sends are not exact. So the numbers are chosen such that the
    // tokens present always differ by more than 6 bytes from the length of the packet.
    for (mbit, burst, peak, gap, counted) in [
        (5, 10_240, None, 900, 1000),
        (2, 4_006, None, 1_700, 700),
        (5, 11_969, Some((7, 1_604)), 900, 1000),
    ] {
        for (layer, tc) in [
            (
                CountedLayer::Ip,
                "ip netns exec b tc qdisc add dev vb ingress
                 ip netns exec b tc filter add dev vb parent ffff: protocol ip",
            ),
            (
                CountedLayer::L2,
                "tc qdisc add dev va root handle 1: prio
                 tc filter add dev va parent 1: protocol ip",
            ),
        ] {
            let length = layer.to_ip(counted);
            let second = peak
                .map_or(String::new(), |(mbit, burst)| format!("peakrate {mbit}mbit mtu {burst}"));
            let ran = script(
                &[],
                &format!(
                    "set -e
                     ip netns add b
                     ip link add va type veth peer name vb netns b
                     ip addr add 10.0.0.1/24 dev va
                     ip link set va up
                     ip netns exec b ip addr add 10.0.0.2/24 dev vb
                     ip netns exec b ip link set vb up
                     {tc} u32 match ip protocol 17 0xff police rate {mbit}mbit burst {burst} \
                         {second} drop flowid 1:1
                     ip netns exec b {this} --probe numbers receive &
                     sleep 1
                     {this} --probe numbers send {COUNT} {gap} {}
                     wait",
                    length - HEADERS,
                ),
            );
            assert_eq!(ran.status, Some(0), "{ran:#?}");
            let taken: Vec<u32> = ran.out.lines().map(|n| n.parse().expect("a number")).collect();
            let of = |(mbit, burst)| Policer { rate: Rate::from_mbit(mbit), burst, layer };
            let policers: Vec<Policer> = [(mbit, burst)].into_iter().chain(peak).map(of).collect();
            let mut buckets = vec![TokenBucket::default(); policers.len()];
            let at = |n: u32| Time(u64::from(n) * gap * 1_000);
            let ours: Vec<u32> =
                (0..COUNT).filter(|n| conforms(&policers, &mut buckets, length, at(*n))).collect();
            assert_eq!(taken, ours, "{policers:?}");
            assert!((100..400).contains(&ours.len()), "{}", ours.len());
        }
    }
}
