//! Packets through a scenario in simulated time: the packets to send and the expected results, in
//! words.
//!
//! `3 x 1000B every 1ms from 5ms udp dport 5004 ecn down` begins with the number of packets and
//! their size in bytes, as counted by the tool whose configuration is imported: `tc` with the
//! Ethernet header, dummynet without. Each such stream has a letter, in order: a, b, …
//!
//! | expectation | meaning |
//! |---|---|
//! | `due 1ms 2ms` | the times of all arrivals, to the nanosecond |
//! | `order a b a` | the streams of all packets, in the order in which they arrive |
//! | `first 30 a 19..21` | of the first 30 arrivals, 19 to 21 are of stream a |
//! | `arrived`, `lost`, `dropped`, `refused`, `marked`, `copies`, `corrupted`, `overtaken` `5..15` | number of such packets; with `of a` at the end: of that stream (`overtaken`: of all streams) |
//! | `delay 8ms..12ms`, `mean 9.9ms..10.1ms`, `deviation 2ms..3ms` | ranges of all delays (from a packet's start to its arrival), of their mean, and of their standard deviation |
//! | `gaps 1ms..2ms` | range of the times from one arrival to the next |

use falaj_engine::header::Protocol;
use falaj_engine::key::{Fragment, Key, Macs};
use falaj_engine::network::{IngressPacket, Network};
use falaj_engine::{DropReason, Output};
use falaj_scenario::{Scenario, parse_span};
use falaj_sched::units::label::{Ecn, Label};
use falaj_sched::units::time::{Span, Time};
use std::net::{IpAddr, SocketAddr};

struct Stream {
    count: u64,
    bytes: u32,
    every: Span,
    from: Span,
    key: Key,
    ecn: Ecn,
    way: usize,
}

impl Stream {
    /// `header`: bytes of each packet that belong to the Ethernet header.
    fn new(text: &str, header: u32) -> Stream {
        let mut words = text.split_whitespace();
        let mut word = || words.next();
        let span = |text: Option<&str>| {
            parse_span(text.expect("a time")).unwrap_or_else(|e| panic!("{}", e.what))
        };
        let count = word().expect("a number").parse().expect("a number of packets");
        assert_eq!(word(), Some("x"));
        let bytes: u32 =
            word().expect("a size").strip_suffix('B').expect("bytes").parse().expect("bytes");
        let of = |protocol| {
            let near: (IpAddr, u16) = ([10, 77, 0, 1].into(), 4000);
            let far: (IpAddr, u16) = ([10, 77, 0, 2].into(), 5000);
            Key::of_ordinary(
                protocol,
                SocketAddr::from(near),
                SocketAddr::from(far),
                bytes - header,
            )
        };
        let (every, from, key) = (Span::ZERO, Span::ZERO, of(Protocol::UDP));
        let mut made = Stream { count, bytes, every, from, key, ecn: Ecn::Not, way: 0 };
        while let Some(name) = word() {
            let key = &mut made.key;
            let mut value = || word().unwrap_or_else(|| panic!("{name} of what: {text}"));
            let number = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("{text}"));
            match name {
                "every" => made.every = span(Some(value())),
                "from" => made.from = span(Some(value())),
                "down" => made.way = 1,
                "ecn" => (made.ecn, key.tos) = (Ecn::Ect0, Some(2)),
                "udp" => *key = of(Protocol::UDP),
                "tcp" => {
                    (*key, key.tcp) = (Key { tcp: Some(0x10), ..of(Protocol::TCP) }, Some(0x10));
                }
                "syn" => key.tcp = Some(2),
                "icmp" => (*key, key.ports) = (Key { ports: None, ..of(Protocol::ICMP) }, None),
                "proto" => {
                    (key.protocol, key.ports) = (Some(Protocol(number(value()) as u8)), None);
                }
                "src" => key.src = value().parse().ok(),
                "dst" => key.dst = value().parse().ok(),
                "sport" => key.ports = key.ports.map(|(_, to)| (number(value()) as u16, to)),
                "dport" => key.ports = key.ports.map(|(from, _)| (from, number(value()) as u16)),
                "dscp" => key.tos = Some((number(value()) << 2) as u8),
                "tos" => key.tos = Some(number(value()) as u8),
                "mark" => key.mark = number(value()) as u32,
                "ttl" => key.ttl = Some(number(value()) as u8),
                "vlan" => key.vlan = Some(number(value()) as u16),
                "ether" => *key = Key { ether: Some(number(value()) as u16), ..Key::default() },
                "mac" => {
                    key.macs = Some(Macs {
                        src: [2, 0, 0, 0, 0, number(value()) as u8],
                        dst: [2, 0, 0, 0, 0, 9],
                    });
                }
                "fragment" => (key.fragment, key.ports) = (Fragment::Later, None),
                "first-fragment" => key.fragment = Fragment::First,
                _ => panic!("{name}: {text}"),
            }
        }
        made
    }
}

/// The results for all packets.
pub(crate) struct Ran {
    /// Stream and start of each packet, by its handle.
    sent: Vec<(usize, Time)>,
    /// Time and handle of each arrival, in order.
    arrived: Vec<(Time, u32)>,
    copies: Vec<u32>,
    corrupted: Vec<u32>,
    marked: Vec<u32>,
    lost: Vec<u32>,
    dropped: Vec<u32>,
    refused: Vec<u32>,
}

impl Ran {
    pub(crate) fn new(scenario: &Scenario, send: &[&str], header: u32) -> Ran {
        let streams: Vec<Stream> = send.iter().map(|text| Stream::new(text, header)).collect();
        let mut network = Network::new(&scenario.network())
            .unwrap_or_else(|(pipe, why)| panic!("{pipe:?}: {why}"));
        let at = |s: &Stream, n: u64| Time::ZERO + s.from + s.every * n;
        let mut all: Vec<(Time, usize)> = (0..streams.len())
            .flat_map(|s| (0..streams[s].count).map(move |n| (s, n)))
            .map(|(s, n)| (at(&streams[s], n), s))
            .collect();
        all.sort_by_key(|(at, _)| *at);
        let mut ran = Ran {
            sent: all.iter().map(|(at, s)| (*s, *at)).collect(),
            arrived: Vec::new(),
            copies: Vec::new(),
            corrupted: Vec::new(),
            marked: Vec::new(),
            lost: Vec::new(),
            dropped: Vec::new(),
            refused: Vec::new(),
        };
        let mut out = Vec::new();
        for (handle, (now, s)) in all.into_iter().enumerate() {
            let Stream { bytes, key, ecn, way, .. } = &streams[s];
            let length = bytes - header;
            match network.route(key, *way, length, now) {
                Ok(entry) => {
                    let connection =
                        key.ports.map_or(0, |(from, to)| u64::from(from) << 16 | u64::from(to));
                    let label = Label { ecn: *ecn, connection, ..Label::default() };
                    let packet = IngressPacket { handle: handle as u32, length, label: &label };
                    network.enter(entry, key, packet, now, &mut out);
                }
                Err(_) => ran.refused.push(handle as u32),
            }
        }
        network.poll(Time(Time::NEVER.0 - 1), &mut out);
        for output in out {
            match output {
                Output::Emit(emit) => ran.arrived.push((emit.due, emit.handle)),
                Output::Copy(copy) => ran.copies.push(copy.handle),
                Output::Corrupt(corrupt) => ran.corrupted.push(corrupt.handle),
                Output::Mark(mark) => ran.marked.push(mark.handle),
                Output::Early(_) | Output::Retimed(_) => {}
                Output::Drop(dropped) if dropped.why == DropReason::Lost => {
                    ran.lost.push(dropped.handle);
                }
                Output::Drop(dropped) if dropped.why == DropReason::Rule => {
                    ran.refused.push(dropped.handle);
                }
                Output::Drop(dropped) => ran.dropped.push(dropped.handle),
            }
        }
        ran.arrived.sort_by_key(|(due, _)| *due);
        ran
    }

    fn stream(&self, handle: u32) -> usize {
        self.sent[handle as usize].0
    }

    fn delays(&self, of: Option<usize>) -> Vec<f64> {
        let own = self.arrived.iter().filter(|(_, h)| of.is_none_or(|s| self.stream(*h) == s));
        own.map(|(due, h)| (*due - self.sent[*h as usize].1).0 as f64).collect()
    }

    /// The difference of the results from an expectation; `None` if there is none.
    pub(crate) fn differs(&self, then: &str) -> Option<String> {
        let words: Vec<&str> = then.split_whitespace().collect();
        let letter = |text: &str| text.bytes().next().map_or(0, |b| usize::from(b - b'a'));
        let of = words.iter().position(|w| *w == "of").map(|n| letter(words[n + 1]));
        let counted = |handles: &[u32]| {
            handles.iter().filter(|h| of.is_none_or(|s| self.stream(**h) == s)).count()
        };
        let number = |text: &str| -> f64 {
            match parse_span(text) {
                Ok(span) => span.0 as f64,
                Err(_) => text.parse().unwrap_or_else(|_| panic!("{text} in `{then}`")),
            }
        };
        let range = |text: &str| match text.split_once("..") {
            Some((from, to)) => (number(from), number(to)),
            None => (number(text), number(text)),
        };
        let within = |values: &[f64], text: &str| {
            let (from, to) = range(text);
            let odd = values.iter().find(|v| !(from..=to).contains(*v));
            match odd {
                None if values.is_empty() => Some("there is none".to_owned()),
                odd => odd.map(|odd| format!("{odd}")),
            }
        };
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        match words[0] {
            "due" => {
                let all: Vec<f64> = self.arrived.iter().map(|(due, _)| due.0 as f64).collect();
                let said: Vec<f64> = words[1..].iter().map(|w| number(w)).collect();
                (all != said).then(|| format!("{all:?}"))
            }
            "order" => {
                let all: Vec<String> = self
                    .arrived
                    .iter()
                    .map(|(_, h)| char::from(b'a' + self.stream(*h) as u8).to_string())
                    .collect();
                (all != words[1..]).then(|| all.join(" "))
            }
            "first" => {
                let many = number(words[1]) as usize;
                if self.arrived.len() < many {
                    return Some(format!("{} arrive", self.arrived.len()));
                }
                let own = self.arrived[..many]
                    .iter()
                    .filter(|(_, h)| self.stream(*h) == letter(words[2]))
                    .count();
                within(&[own as f64], words[3])
            }
            "arrived" => {
                let all: Vec<u32> = self.arrived.iter().map(|(_, h)| *h).collect();
                within(&[counted(&all) as f64], words[1])
            }
            "overtaken" => {
                let mut latest = 0;
                let behind = |h: &&(Time, u32)| {
                    latest = latest.max(h.1);
                    latest > h.1
                };
                within(&[self.arrived.iter().filter(behind).count() as f64], words[1])
            }
            "gaps" => {
                let gaps: Vec<f64> =
                    self.arrived.windows(2).map(|w| (w[1].0 - w[0].0).0 as f64).collect();
                within(&gaps, words[1])
            }
            "delay" => within(&self.delays(of), words[1]),
            "mean" => within(&[mean(&self.delays(of))], words[1]),
            "deviation" => {
                let all = self.delays(of);
                let middle = mean(&all);
                let square =
                    all.iter().map(|d| (d - middle).powi(2)).sum::<f64>() / all.len() as f64;
                within(&[square.sqrt()], words[1])
            }
            "copies" => within(&[counted(&self.copies) as f64], words[1]),
            "corrupted" => within(&[counted(&self.corrupted) as f64], words[1]),
            "marked" => within(&[counted(&self.marked) as f64], words[1]),
            "lost" => within(&[counted(&self.lost) as f64], words[1]),
            "dropped" => within(&[counted(&self.dropped) as f64], words[1]),
            "refused" => within(&[counted(&self.refused) as f64], words[1]),
            _ => panic!("{then}"),
        }
    }
}
