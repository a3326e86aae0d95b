//! Ordinary words of the field, and the keys, commands and purposes that stand for them.

use super::line;
use falaj_sched::contract::manifest::Purpose;
use falaj_sched::registry;

/// An ordinary word, with its meaning here.
struct FieldWord {
    /// How people write it, in small letters.
    names: &'static [&'static str],
    meaning: &'static str,
    /// Keys and commands that concern it.
    see: &'static [&'static str],
    /// The purpose whose disciplines concern it.
    purpose: Option<Purpose>,
}

const fn word(
    names: &'static [&'static str],
    meaning: &'static str,
    see: &'static [&'static str],
) -> FieldWord {
    FieldWord { names, meaning, see, purpose: None }
}

const fn purpose(
    names: &'static [&'static str],
    meaning: &'static str,
    see: &'static [&'static str],
    purpose: Purpose,
) -> FieldWord {
    FieldWord { names, meaning, see, purpose: Some(purpose) }
}

const CHOOSE: &str = "falaj choose";

const WORDS: &[FieldWord] = &[
    word(
        &["bandwidth", "bw", "capacity", "speed", "bit rate", "bitrate", "line rate"],
        "the bits a second that a link carries",
        &["link.rate", "link.layer", "link.trace", "falaj run --rate 10mbit"],
    ),
    word(
        &["throughput", "goodput"],
        "the bits a second that arrive: at most the link's rate, less by losses, headers and rivals",
        &["link.rate", "requires.rate", "falaj compare", "falaj traffic"],
    ),
    word(
        &["latency", "delay", "propagation", "propagation delay", "lag", "ping"],
        "the time from a packet's first bit at one end to its last bit at the other: the link's \
         delay, its transmission, and its wait in the queue",
        &["link.delay", "link.jitter", "flow.queue", "requires.delay", "falaj run --delay 20ms"],
    ),
    word(
        &["rtt", "round trip", "round trip time"],
        "the time there and back: both directions' delays, transmissions and waits",
        &["link.delay", "falaj run --rtt 40ms"],
    ),
    word(
        &["jitter", "delay variation", "pdv"],
        "the differences between the delays of packets",
        &["link.jitter", "link.slot", "link.profile", "falaj run --jitter 5ms"],
    ),
    word(
        &["packet loss", "loss", "lossy", "drop", "drops", "packet drop"],
        "packets that do not arrive: lost on the link, or dropped at a full queue",
        &["link.loss", "flow.queue", "queue.policy", "falaj run --loss 1%"],
    ),
    word(
        &["reordering", "reorder", "out of order"],
        "packets that overtake others of their flow",
        &["link.reorder", "jitter.order"],
    ),
    word(&["duplication", "duplicates"], "packets that arrive twice", &["link.duplicate"]),
    word(
        &["corruption", "bit errors", "ber"],
        "packets that arrive with a bit turned",
        &["link.corrupt"],
    ),
    purpose(
        &["bufferbloat", "bloat", "latency under load"],
        "long waits in a queue that is far longer than the link needs: give it a shorter limit, a \
         policy that keeps it short, or a queue for each connection",
        &["flow.queue", "queue.policy", "falaj run --queue-policy codel"],
        Purpose::Connections,
    ),
    word(
        &["aqm", "active queue management"],
        "a queue's policy, which drops or marks packets before the queue is full",
        &["queue.policy", "queue.ecn"],
    ),
    word(
        &["ecn", "congestion marking"],
        "packets are marked instead of dropped, where their ends look at marks",
        &["queue.ecn"],
    ),
    word(
        &["buffer", "buffer size", "queue length", "limit"],
        "the packets that wait for the link, and how many may",
        &["flow.queue", "queue.limit", "falaj run --queue 64kB"],
    ),
    word(
        &["netem", "tc", "tc-netem", "traffic control", "qdisc"],
        "the tools of Linux for links: a netem is a link's delay, jitter, loss and order; other \
         queueing disciplines are the link's scheduler",
        &["falaj import tc SCRIPT", "link.delay", "link.loss", "link.scheduler"],
    ),
    word(
        &["dummynet", "ipfw", "dnctl", "pipe"],
        "FreeBSD's emulator: a pipe is a link, and a queue of it a flow",
        &["falaj import ipfw SCRIPT", "link.profile", "link.scheduler"],
    ),
    word(
        &["mahimahi", "mm-link", "mm-delay", "cellular trace"],
        "an emulator that replays traces of a link's rate, which a link takes as they are",
        &["link.trace", "falaj run --trace FILE"],
    ),
    word(
        &["toxiproxy", "proxy"],
        "a relay for connections, where no interface can be made",
        &["falaj relay"],
    ),
    word(
        &["container", "docker", "podman", "kubernetes", "compose", "pod", "namespace"],
        "a network namespace with an interface of its own, which is shaped in place, or gets a \
         link of its own",
        &["falaj attach", "falaj serve"],
    ),
    word(
        &["localhost", "loopback", "port forwarding"],
        "a server of this host, for a command behind a link",
        &["falaj run --host-port 8000"],
    ),
    purpose(
        &[
            "scheduler",
            "scheduling",
            "discipline",
            "queueing discipline",
            "qos",
            "quality of service",
        ],
        "the rule by which a link chooses the next packet among its flows; four questions lead to \
         one",
        &["link.scheduler", CHOOSE],
        Purpose::Share,
    ),
    purpose(
        &["fair queueing", "fairness", "fair share", "weight", "weights"],
        "flows share a link in proportion to their weights",
        &[CHOOSE],
        Purpose::Share,
    ),
    purpose(
        &["guarantee", "guaranteed rate", "minimum rate", "bandwidth guarantee", "cir"],
        "a rate that a flow gets whatever the others send",
        &["requires.rate", "falaj plan", CHOOSE],
        Purpose::Rate,
    ),
    purpose(
        &["low latency", "real time", "real-time", "voip"],
        "packets of some flows wait for a bounded, short time",
        &["requires.delay", "falaj plan", CHOOSE],
        Purpose::Delay,
    ),
    purpose(
        &["priority queue", "precedence", "prio", "llq", "strict priority queueing"],
        "some flows go before all others",
        &[CHOOSE],
        Purpose::Precedence,
    ),
    purpose(
        &["rate limiting", "throttle", "throttling", "cap", "policing", "police", "pir"],
        "no flow sends more than a rate",
        &["link.rate", "link.burst", CHOOSE],
        Purpose::Cap,
    ),
    purpose(
        &["isolation", "slicing", "tenant", "tenants", "noisy neighbour", "noisy neighbor"],
        "a flow's service hardly depends on what the others send",
        &["falaj plan", "falaj serve", CHOOSE],
        Purpose::Isolation,
    ),
    word(
        &["token bucket", "leaky bucket", "burst", "burstiness"],
        "a rate with a bucket of bytes that may go at once: of a link, of a flow that is shaped, \
         or of what a source sends at most",
        &["link.burst", "flow.envelope"],
    ),
    word(
        &["arrival curve", "network calculus", "worst case", "worst-case", "bound", "sla"],
        "the bounds on delay, backlog and rate that follow from the scenario",
        &["falaj plan", "flow.envelope", "flow.requires"],
    ),
    word(
        &["mtu", "packet size", "frame size", "overhead", "encapsulation"],
        "the largest packet that passes, and the bytes that count for each",
        &["link.mtu", "link.layer", "link.overhead"],
    ),
    word(
        &["classifier", "filter", "rule", "firewall", "five-tuple", "5-tuple", "dscp"],
        "the rule that says which packets belong to a flow",
        &["flow.match", "rule.match", "flow.mask"],
    ),
    word(
        &["capture", "pcap", "tcpdump", "wireshark", "replay"],
        "packets as files: recorded by a running link, or sent again",
        &["falaj run --capture FILE", "falaj run --replay FILE"],
    ),
    word(
        &["wifi link", "dsl", "adsl", "3g", "4g", "lte", "5g", "satellite", "cable", "modem"],
        "links that many know by name",
        &["link.preset", "falaj presets"],
    ),
];

/// The words as people would ask for `asked`: small letters, one space between two.
fn plain(asked: &str) -> String {
    asked.to_lowercase().split([' ', '_']).filter(|w| !w.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The meaning of `asked` here, if it is an ordinary word of the field; ends with a newline.
pub(super) fn explain(asked: &str) -> Option<String> {
    let asked = plain(asked);
    let dashed = asked.replace('-', " ");
    let is = |name: &str| name == asked || name == dashed;
    let word = WORDS.iter().find(|word| word.names.iter().any(|name| is(name)))?;
    let mut out = String::new();
    line(&mut out, format_args!("{asked}: {}\n", word.meaning));
    let also = word.names.iter().filter(|name| !is(name)).copied().collect::<Vec<_>>();
    if !also.is_empty() {
        super::row(&mut out, "also", &also.join(", "));
    }
    super::row(&mut out, "see", &word.see.join("\n"));
    if let Some(purpose) = word.purpose {
        let of = registry::ENTRIES.iter().filter(|entry| entry.purposes.contains(&purpose));
        let of: Vec<String> = of.map(|e| format!("{:<14} {}", e.kind, e.doc)).collect();
        super::row(&mut out, "schedulers", &of.join("\n"));
    }
    Some(out)
}

/// The discipline that people call `asked`.
pub(super) fn alias(asked: &str) -> Option<&'static falaj_sched::contract::manifest::Manifest> {
    let asked = plain(asked);
    registry::all().find(|entry| entry.aliases.contains(&asked.as_str()))
}

/// All words and other names of disciplines.
pub(super) fn all<'a>() -> impl Iterator<Item = &'a str> {
    let words = WORDS.iter().flat_map(|word| word.names);
    words.chain(registry::all().flat_map(|entry| entry.aliases)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each key that a word leads to exists, and no word stands for two things.
    #[test]
    fn words_lead_to_keys_that_exist() {
        let mut seen = std::collections::BTreeSet::new();
        for name in all() {
            assert_eq!(plain(name), name);
            assert!(seen.insert(name), "{name} stands twice");
            assert!(crate::reference::explain(name).is_ok(), "{name}");
        }
        for see in WORDS.iter().flat_map(|word| word.see) {
            if !see.starts_with("falaj ") {
                assert!(crate::reference::explain(see).is_ok(), "{see}");
            }
        }
    }
}
