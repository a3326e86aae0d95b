//! The kernel as referee of imports: random trees of queueing disciplines with filters. The kernel
//! and falaj serve the same datagrams by each tree, in one guest.

use crate::referee::{measured, source, written};
use crate::trial;
use falaj_sched::units::draws::Draws;
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("trees::drawn_trees_share_as_in_the_kernel", drawn_trees)]
}

/// Returns a random number from `low` to `high`.
fn between(draws: &mut Draws, low: u64, high: u64) -> u64 {
    low + draws.draw() % (high - low + 1)
}

/// Returns the commands after `tc` that make a tree of this kind, and the tree's leaves. Classes of
/// htb may borrow up to the link's rate: with a lower `ceil`, the kernel divides the remaining
/// capacity differently, as a note of the import says.
fn tree(draws: &mut Draws, kind: &str, rate: u64) -> (Vec<String>, Vec<String>) {
    let device = "dev falaj0";
    let count = between(draws, 2, 4);
    let leaf = |major: u64, n: u64| format!("{major}:{n}");
    if kind == "htb" {
        let bucket = "burst 1600 cburst 1600";
        let mut lines = vec![
            format!("qdisc add {device} root handle 1: htb default {count}"),
            format!("class add {device} parent 1: classid 1:50 htb rate {rate}kbit {bucket}"),
        ];
        let quantum = between(draws, 0, 1) * between(draws, 1, 3) * 1514;
        for n in 1..=count {
            let own = rate * between(draws, 1, 5) / (12 * count);
            lines.push(format!(
                "class add {device} parent 1:50 classid 1:{n} htb rate {own}kbit ceil \
                 {rate}kbit {bucket} quantum {quantum}"
            ));
        }
        return (lines, (1..=count).map(|n| leaf(1, n)).collect());
    }
    let mut lines = vec![format!(
        "qdisc add {device} root handle 1: tbf rate {rate}kbit burst 1600 limit 3000000"
    )];
    let rest = format!("priomap{}", format!(" {}", count - 1).repeat(16));
    let quanta: String = (1..count).map(|_| format!(" {}", 1514 * between(draws, 1, 3))).collect();
    match kind {
        "prio" => {
            lines.push(format!("qdisc add {device} parent 1: handle 2: prio bands {count} {rest}"));
        }
        "ets" => lines.push(format!(
            "qdisc add {device} parent 1: handle 2: ets bands {count} strict 1 quanta{quanta} {rest}"
        )),
        _ => {
            lines.push(format!("qdisc add {device} parent 1: handle 2: drr"));
            for n in 1..=count {
                let quantum = 1514 * between(draws, 1, 3);
                lines.push(format!(
                    "class add {device} parent 2: classid 2:{n} drr quantum {quantum}"
                ));
            }
        }
    }
    (lines, (1..=count).map(|n| leaf(2, n)).collect())
}

/// Returns filters that send the packets of one port to each leaf except the last, and all other
/// packets to the last leaf. Before the filter of a port stands a filter that tests the same port,
/// but matches other packets.
fn filters(draws: &mut Draws, leaves: &[String]) -> Vec<String> {
    let parent = &leaves[0][..2];
    let filter = |prio: u64, matches: &str, leaf: &str| {
        format!(
            "filter add dev falaj0 parent {parent} protocol ip prio {prio} u32 {matches} flowid {leaf}"
        )
    };
    let mut lines = Vec::new();
    for n in 0..leaves.len() as u64 - 1 {
        let port = 5_000 + 16 * n;
        let other = &leaves[between(draws, 0, leaves.len() as u64 - 1) as usize];
        let elsewhere = [
            format!("match ip protocol 6 0xff match ip dport {port} 0xffff"),
            format!("match u32 0xc0000200 0xffffff00 at 16 match u16 {port} 0xffff at 22"),
            format!("match ip tos 0x08 0x1e match ip dport {port} 0xfff0"),
            format!("match ip dport {} 0xf0ff", port + 1),
        ];
        let takes = [
            format!("match ip dport {port} 0xffff"),
            format!("match u8 17 0xff at 9 match ip dport {port} 0xfff0"),
            format!("match ip protocol 17 0xff match u16 {port} 0xfffd at 22"),
        ];
        let matches = &elsewhere[between(draws, 0, 3) as usize];
        lines.push(filter(2 * n + 1, matches, other));
        let matches = &takes[between(draws, 0, 2) as usize];
        lines.push(filter(2 * n + 2, matches, &leaves[n as usize]));
    }
    let rest = leaves.last().expect("a leaf");
    lines.push(filter(1_000, "match u32 0 0", rest));
    lines
}

/// Compares overloaded trees with filters. In the kernel and in falaj, the same share of each
/// flow's packets arrives, with nearly the same median delay. The delays of htb are not compared,
/// because its classes take turns of tenths of a second.
fn drawn_trees() {
    const KINDS: [&str; 4] = ["htb", "prio", "drr", "ets"];
    let mut draws = Draws::new(30, 1);
    let mut cases = Vec::new();
    for n in 0..20 {
        let kind = KINDS[n % KINDS.len()];
        let rate = 2_000 * between(&mut draws, 2, 5);
        let (mut lines, leaves) = tree(&mut draws, kind, rate);
        for leaf in &leaves {
            let limit = between(&mut draws, 20, 60);
            lines.push(format!("qdisc add dev falaj0 parent {leaf} pfifo limit {limit}"));
        }
        lines.extend(filters(&mut draws, &leaves));
        let mut traffic = String::new();
        for (n, leaf) in leaves.iter().enumerate() {
            let flow = leaf.replace(':', "-");
            let model = ["cbr", "poisson"][between(&mut draws, 0, 1) as usize];
            let (part, size) = (between(&mut draws, 3, 9), between(&mut draws, 400, 1_242));
            let source = source(&format!("s{n}"), model, rate * part / 10, size);
            let place = format!("[traffic.s{n}]\nflow = \"{flow}\"\n");
            traffic += &source.replace(&format!("[traffic.s{n}]\n"), &place);
        }
        cases.push(tree_case(&format!("{kind}-{n}"), &lines, &traffic));
    }
    let mut wrong = Vec::new();
    for case in measured(&cases, 0) {
        let name = case["case"].as_str().expect("a name").to_owned();
        for flow in case["flows"].as_array().unwrap_or_else(|| panic!("{case:#}")) {
            let number = |of: &str, key: &str| flow[of][key].as_f64().unwrap_or_default();
            let part = |of: &str| number(of, "arrived") / number(of, "sent").max(1.0);
            let apart = (part("kernel") - part("falaj")).abs();
            let later = (number("kernel", "p50_ns") - number("falaj", "p50_ns")).abs();
            let late = !name.contains("htb") && later > LONGEST_TURN;
            if apart > 0.01 || late {
                wrong.push(format!("{name}: {flow:#}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Largest allowed difference of median delays, in nanoseconds: two frames with 1242 bytes of
/// payload at 4 Mbit/s, the slowest link that is drawn. The decisions may differ by one frame, and
/// another frame may be in transmission.
const LONGEST_TURN: f64 = 2.0 * 1284.0 * 8.0 / 4e6 * 1e9;

/// Writes a case with these commands of tc.
fn tree_case(name: &str, lines: &[String], traffic: &str) -> String {
    written(name, &format!("tc {}\n", lines.join("\ntc ")), traffic, "2s")
}
