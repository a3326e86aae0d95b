//! Words that people use for what the file calls otherwise: those of other tools and of daily use.

/// Words for one thing, what it is here, and the keys and disciplines that say more.
pub(super) struct OrdinaryWord {
    /// In lower case, with spaces.
    words: &'static [&'static str],
    pub(super) means: &'static str,
    /// As [`explain`](super::explain) takes them.
    pub(super) topics: &'static [&'static str],
}

/// The entry with this word, however it is spelled.
pub(super) fn find(word: &str) -> Option<&'static OrdinaryWord> {
    let word = word.to_lowercase().replace(['-', '_'], " ");
    WORDS.iter().find(|entry| entry.words.contains(&word.trim()))
}

/// All words, for suggestions.
pub(super) fn all<'a>() -> impl Iterator<Item = &'a str> {
    WORDS.iter().flat_map(|entry| entry.words).copied()
}

const WORDS: &[OrdinaryWord] = &[
    OrdinaryWord {
        words: &["bandwidth", "bw", "capacity", "speed", "bitrate", "bit rate"],
        means: "the bits per second that a link carries, each way: `rate` of the link, or `--rate` \
                on the command line",
        topics: &["link.rate"],
    },
    OrdinaryWord {
        words: &["throughput", "goodput"],
        means: "the bits per second that a flow got. It is a result, not a setting: `falaj run \
                --stats`, `falaj compare` and `falaj top` show it. The link's rate limits it, and \
                a scheduler divides it",
        topics: &["link.rate", "link.scheduler"],
    },
    OrdinaryWord {
        words: &["latency", "propagation delay", "lag", "ping"],
        means: "the time that a packet takes: the link's `delay`, each way, then the time in the \
                queue and on the wire",
        topics: &["link.delay"],
    },
    OrdinaryWord {
        words: &["rtt", "round trip", "round trip time"],
        means: "the time there and back: the delays of both directions, the queues' time, and the \
                answer's. `falaj run --rtt 40ms` gives each direction half of it",
        topics: &["link.delay"],
    },
    OrdinaryWord {
        words: &["packet loss", "drop", "drops", "drop rate"],
        means: "packets that do not arrive: at random by `loss` of the link, or because a queue is \
                full",
        topics: &["link.loss", "flow.queue"],
    },
    OrdinaryWord {
        words: &["bufferbloat", "buffer bloat", "queueing delay", "queuing delay"],
        means: "packets wait longer in a queue than their link takes. A shorter queue helps, and so \
                does a queue that drops or marks early",
        topics: &["flow.queue", "queue.policy", "fq_codel"],
    },
    OrdinaryWord {
        words: &["netem", "tc", "qdisc", "network emulation"],
        means: "Linux' emulator. Its `delay`, `loss`, `duplicate`, `corrupt`, `reorder`, `slot` and \
                `rate` are keys of a link; `falaj import tc SCRIPT` reads its commands",
        topics: &["link.delay", "link.jitter", "link.loss"],
    },
    OrdinaryWord {
        words: &["tbf", "token bucket", "leaky bucket"],
        means: "a rate with a burst. For a whole link it is `rate` with `burst`; for each flow the \
                discipline `shaper`",
        topics: &["link.burst", "shaper"],
    },
    OrdinaryWord {
        words: &["throttle", "limit", "rate limit", "traffic shaping", "shaping"],
        means: "to hold traffic to a rate: `rate` of the link for all of it, `shaper` for each flow",
        topics: &["link.rate", "shaper"],
    },
    OrdinaryWord {
        words: &["qos", "quality of service", "fairness", "fair queueing", "fair queuing"],
        means: "to divide a link among flows: by priority, by weight, or with a guaranteed rate and \
                delay. `falaj plan` computes what each flow is guaranteed",
        topics: &["priority", "wf2q+", "virtual-links"],
    },
    OrdinaryWord {
        words: &["aqm", "active queue management", "codel", "red", "pie"],
        means: "a queue that drops or marks packets before it is full: `policy` of a queue",
        topics: &["queue.policy", "fq_codel"],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{entry, topics};

    #[test]
    fn each_word_leads_to_what_there_is_and_hides_nothing() {
        for word_entry in WORDS {
            for topic in word_entry.topics {
                let known = entry(topic).is_some() || topics().iter().any(|t| t.answers(topic));
                assert!(known, "{topic}");
            }
            for word in word_entry.words {
                assert_eq!(find(word).map(|found| found.means), Some(word_entry.means), "{word}");
                assert_eq!(
                    find(&word.to_uppercase().replace(' ', "-")).map(|f| f.means),
                    Some(word_entry.means)
                );
            }
        }
        assert!(find("falaj").is_none());
    }
}
