//! Ordinary words of the field, with the keys, commands and purposes that concern them.

use super::line;
use falaj_sched::contract::manifest::Purpose;
use falaj_sched::registry;

/// A word of the field, with its meaning in falaj.
struct FieldWord {
    /// The word's spellings, in lower case.
    names: &'static [&'static str],
    meaning: &'static str,
    /// Keys and commands that concern the word.
    see: &'static [&'static str],
    /// The purpose whose disciplines concern the word.
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
        "the bits per second that a link carries",
        &["link.rate", "link.layer", "link.trace", "falaj run --rate 10mbit"],
    ),
    word(
        &["throughput", "goodput"],
        "the bits per second that arrive: at most the link's rate, less by losses, headers and \
         competing traffic",
        &["link.rate", "requires.rate", "falaj compare", "falaj traffic"],
    ),
    word(
        &["latency", "delay", "propagation", "propagation delay", "lag", "ping"],
        "the time from a packet's first bit at one end to its last bit at the other: propagation \
         delay, transmission time, and wait in the queue",
        &["link.delay", "link.jitter", "flow.queue", "requires.delay", "falaj run --delay 20ms"],
    ),
    word(
        &["rtt", "round trip", "round trip time"],
        "the time to the other end and back: propagation delays, transmission times and waits in \
         queues of both directions",
        &["link.delay", "falaj run --rtt 40ms"],
    ),
    word(
        &["jitter", "delay variation", "pdv"],
        "the variation of the delay from packet to packet",
        &["link.jitter", "link.slot", "link.profile", "falaj run --jitter 5ms"],
    ),
    word(
        &["packet loss", "loss", "lossy", "drop", "drops", "packet drop"],
        "packets that do not arrive: lost on the link, or dropped at a full queue",
        &["link.loss", "flow.queue", "queue.policy", "falaj run --loss 1%"],
    ),
    word(
        &["reordering", "reorder", "out of order"],
        "packets that arrive before earlier ones of their flow",
        &["link.reorder", "jitter.order"],
    ),
    word(&["duplication", "duplicates"], "packets that arrive twice", &["link.duplicate"]),
    word(
        &["corruption", "bit errors", "ber"],
        "packets that arrive with a flipped bit",
        &["link.corrupt"],
    ),
    purpose(
        &["bufferbloat", "bloat", "latency under load"],
        "long delays in a queue that is far longer than the link needs; set a shorter limit, a \
         policy that keeps the queue short, or a queue for each connection",
        &["flow.queue", "queue.policy", "falaj run --queue-policy codel"],
        Purpose::Connections,
    ),
    word(
        &["aqm", "active queue management"],
        "a policy of the queue that drops or marks packets before the queue is full",
        &["queue.policy", "queue.ecn"],
    ),
    word(
        &["ecn", "congestion marking"],
        "packets are marked instead of dropped, if their connection supports it",
        &["queue.ecn"],
    ),
    word(
        &["buffer", "buffer size", "queue length", "limit"],
        "the packets that wait for the link, and their maximum number",
        &["flow.queue", "queue.limit", "falaj run --queue 64kB"],
    ),
    word(
        &["netem", "tc", "tc-netem", "traffic control", "qdisc"],
        "Linux's traffic control: netem sets a link's delay, jitter, loss and reordering, and \
         other queueing disciplines are a link's scheduler",
        &["falaj import tc SCRIPT", "link.delay", "link.loss", "link.scheduler"],
    ),
    word(
        &["dummynet", "ipfw", "dnctl", "pipe"],
        "FreeBSD's link emulator: a pipe is a link, and a queue of it is a flow",
        &["falaj import ipfw SCRIPT", "link.profile", "link.scheduler"],
    ),
    word(
        &["mahimahi", "mm-link", "mm-delay", "cellular trace"],
        "a link emulator that replays traces of a link's rate; `trace` reads its files unchanged",
        &["link.trace", "falaj run --trace FILE"],
    ),
    word(
        &["toxiproxy", "proxy"],
        "a relay for connections, for hosts where no interface can be created",
        &["falaj relay"],
    ),
    word(
        &["container", "docker", "podman", "kubernetes", "compose", "pod", "namespace"],
        "a network namespace with an interface of its own, which falaj shapes in place or gives a \
         link of its own",
        &["falaj attach", "falaj serve"],
    ),
    word(
        &["localhost", "loopback", "port forwarding"],
        "access to a server on this host from a command behind a link",
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
        "the rule by which a link chooses the next packet among its flows; `falaj choose` selects \
         one by four questions",
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
        "a rate that a flow gets regardless of the other flows' traffic",
        &["requires.rate", "falaj plan", CHOOSE],
        Purpose::Rate,
    ),
    purpose(
        &["low latency", "real time", "real-time", "voip"],
        "a short, bounded delay for the packets of some flows",
        &["requires.delay", "falaj plan", CHOOSE],
        Purpose::Delay,
    ),
    purpose(
        &["priority queue", "precedence", "prio", "llq", "strict priority queueing"],
        "packets of some flows are sent before those of all others",
        &[CHOOSE],
        Purpose::Precedence,
    ),
    purpose(
        &["rate limiting", "throttle", "throttling", "cap", "policing", "police", "pir"],
        "a maximum rate for each flow, even on an idle link",
        &["link.rate", "link.burst", CHOOSE],
        Purpose::Cap,
    ),
    purpose(
        &["isolation", "slicing", "tenant", "tenants", "noisy neighbour", "noisy neighbor"],
        "the service of a flow hardly depends on the traffic of the others",
        &["falaj plan", "falaj serve", CHOOSE],
        Purpose::Isolation,
    ),
    word(
        &["token bucket", "leaky bucket", "burst", "burstiness"],
        "a rate, and a number of bytes that may exceed it at once: of a link, of a shaped flow, or \
         as an upper bound on a source's traffic",
        &["link.burst", "link.peak", "flow.envelope"],
    ),
    word(
        &["arrival curve", "network calculus", "worst case", "worst-case", "bound", "sla"],
        "the bounds on delay, backlog and rate that follow from the scenario",
        &["falaj plan", "flow.envelope", "flow.requires"],
    ),
    word(
        &["mtu", "packet size", "frame size", "overhead", "encapsulation"],
        "the largest packet that a link accepts, and the bytes that count for each packet",
        &["link.mtu", "link.layer", "link.overhead"],
    ),
    word(
        &["classifier", "filter", "rule", "firewall", "five-tuple", "5-tuple", "dscp"],
        "the rule that assigns packets to a flow",
        &["flow.match", "rule.match", "flow.mask"],
    ),
    word(
        &["capture", "pcap", "tcpdump", "wireshark", "replay"],
        "packets in files, recorded by a running link or sent again",
        &["falaj run --capture FILE", "falaj run --replay FILE"],
    ),
    word(
        &["wifi link", "dsl", "adsl", "3g", "4g", "lte", "5g", "satellite", "cable", "modem"],
        "well-known links by name",
        &["link.preset", "falaj presets"],
    ),
];

/// The text `asked` in the form of [`WORDS`]: in lower case, with single spaces between words.
fn plain(asked: &str) -> String {
    asked.to_lowercase().split([' ', '_']).filter(|w| !w.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The meaning of `asked` in falaj, if it is a word in [`WORDS`]. It ends with a newline.
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

/// The discipline that has the other name `asked`.
pub(super) fn alias(asked: &str) -> Option<&'static falaj_sched::contract::manifest::Manifest> {
    let asked = plain(asked);
    registry::all().find(|entry| entry.aliases.contains(&asked.as_str()))
}

/// All words, and all other names of disciplines.
pub(super) fn all<'a>() -> impl Iterator<Item = &'a str> {
    let words = WORDS.iter().flat_map(|word| word.names);
    words.chain(registry::all().flat_map(|entry| entry.aliases)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each key to which a word refers exists, and no spelling is used for two words.
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
