//! The talk's configurations: a DSL line, weights, reordering, a profile, a link for each customer.
//! Each consists of commands of dummynet, imported as by `falaj import ipfw`, in simulated time.

use super::super::curves::{CurvePoint, FigureCurve, PaperFigure};
use super::pipes::{IN, OUT, datagram, dummynet, ms, send};
use anyhow::{Context, Result};
use falaj_engine::key::Key;
use falaj_sched::units::time::{Span, Time};
use falaj_sim::replay::Arrival;

const PACKET: u32 = 1_500;

fn point(x: f64, y: f64) -> CurvePoint {
    CurvePoint { x, y, off: None }
}

/// Rate, in bits per second, of the packets whose transmission ended between two instants.
fn rate<'a>(ends: impl Iterator<Item = (&'a Arrival, Time)>, from: Time, to: Time) -> f64 {
    let bytes: u64 =
        ends.filter(|(_, end)| (from..to).contains(end)).map(|(a, _)| u64::from(a.length)).sum();
    bytes as f64 * 8e9 / to.since(from).0 as f64
}

/// The instants of `number` packets at a rate of `a_second` per second, from an instant on.
fn train(number: u32, a_second: u32, from: Time) -> impl Iterator<Item = Time> {
    (0..number).map(move |n| from + Span(u64::from(n) * 1_000_000_000 / u64::from(a_second)))
}

const DSL: &str = include_str!("../../../../../examples/dummynet/dsl.sh");

/// Figure 1: two pipes make a DSL line.
pub(super) fn dsl() -> Result<PaperFigure> {
    let network = dummynet(DSL)?;
    const SIZES: [u32; 7] = [40, 100, 250, 500, 750, 1_000, PACKET];
    let alone = |way: u32| -> Result<Vec<CurvePoint>> {
        let arrivals: Vec<Arrival> = SIZES
            .iter()
            .zip(1..)
            .map(|(&size, second)| datagram(way, 1, 80, size, Time(second * 1_000_000_000)))
            .collect();
        let sent = send(&network, &arrivals)?;
        let of = |(a, sent): (&Arrival, &Option<_>)| {
            let sent: &super::pipes::PacketOutcome =
                sent.as_ref().context("a packet alone was lost")?;
            Ok(point(a.length.into(), ms(a.at, sent.due)))
        };
        arrivals.iter().zip(&sent).map(of).collect()
    };
    // Ten times the capacity of the line.
    let full = |way: u32, a_second: u32| -> Result<f64> {
        let arrivals: Vec<Arrival> = train(20 * a_second, a_second, Time(1))
            .map(|at| datagram(way, 1, 80, PACKET, at))
            .collect();
        let sent = send(&network, &arrivals)?;
        let ends = arrivals.iter().zip(&sent).filter_map(|(a, sent)| Some((a, sent.as_ref()?.end)));
        Ok(rate(ends, Time(4_000_000_000), Time(19_000_000_000)) / 1e3)
    };
    let (up, down) = (alone(OUT)?, alone(IN)?);
    let last = |points: &[CurvePoint]| points.last().map_or(0.0, |p| p.y);
    let by_hand = |kbit: f64| {
        SIZES.iter().map(|&size| point(size.into(), f64::from(size) * 8.0 / kbit + 20.0)).collect()
    };
    let found = vec![
        ("a packet of 1500 B alone, up", last(&up)),
        ("a packet of 1500 B alone, down", last(&down)),
        ("a full line carries, up", full(OUT, 213)?),
        ("a full line carries, down", full(IN, 3_333)?),
    ];
    Ok(PaperFigure {
        title: "a DSL line of two pipes: 256 kbit/s up, 4 Mbit/s down, 20 ms".into(),
        x: "bytes",
        y: "ms to the other end",
        curves: vec![
            FigureCurve { name: "up", points: up },
            FigureCurve { name: "up, by hand", points: by_hand(256.0) },
            FigureCurve { name: "down", points: down },
            FigureCurve { name: "down, by hand", points: by_hand(4_000.0) },
        ],
        notes: vec![
            "The talk has the rates and `a little bit of delay`; 20 ms are ours.".into(),
            quoted(DSL),
        ],
        found,
        ..PaperFigure::default()
    })
}

fn quoted(commands: &str) -> String {
    let lines: Vec<&str> = commands.lines().filter(|line| !line.starts_with('#')).collect();
    format!("Commands: {}.", lines.join("; "))
}

const WEIGHTS: &str = include_str!("../../../../../examples/dummynet/weights.sh");

/// A packet that leaves for this host of the network 10.0.0.0/24.
fn datagram_to(host: u32, at: Time) -> Arrival {
    let of_it = datagram(OUT, host, 80, PACKET, at);
    Arrival { key: Key { src: of_it.key.dst, dst: of_it.key.src, ..of_it.key }, ..of_it }
}

/// Figure 2: a queue of weight 10, and one of weight 1 for each other host.
pub(super) fn weights() -> Result<PaperFigure> {
    let network = dummynet(WEIGHTS)?;
    let [mut mine, mut by_hand, mut others] = [const { Vec::new() }; 3];
    let (mut share, mut spread) = (0.0, 0.0);
    for n in [1u32, 5, 10, 20, 40] {
        // The packets of each host alone would fill the link, during the whole run.
        let mut arrivals: Vec<Arrival> = (1..=n + 1)
            .flat_map(|host| {
                train(4 * 900, 900, Time(u64::from(host))).map(move |at| datagram_to(host, at))
            })
            .collect();
        arrivals.sort_by_key(|a| a.at);
        let sent = send(&network, &arrivals)?;
        let of = |host: u32| {
            let key = datagram_to(host, Time::ZERO).key;
            let ends = arrivals.iter().zip(&sent).filter(|(a, _)| a.key.dst == key.dst);
            let ends = ends.filter_map(|(a, sent)| Some((a, sent.as_ref()?.end)));
            rate(ends, Time(1_000_000_000), Time(4_000_000_000)) / 1e7
        };
        let all: Vec<f64> = (2..=n + 1).map(of).collect();
        let (least, most) =
            (all.iter().copied().fold(1.0, f64::min), all.iter().copied().fold(0.0, f64::max));
        let first = of(1);
        if n == 20 {
            (share, spread) = (first, most / least);
        }
        mine.push(point(n.into(), 100.0 * first));
        by_hand.push(point(n.into(), 1_000.0 / f64::from(10 + n)));
        others.push(point(n.into(), 100.0 * least));
    }
    Ok(PaperFigure {
        title: "a queue of weight 10 beside one of weight 1 for each other host, 10 Mbit/s".into(),
        x: "other hosts",
        y: "share of the link (%)",
        curves: vec![
            FigureCurve { name: "weight 10", points: mine },
            FigureCurve { name: "weight 10, by hand", points: by_hand },
            FigureCurve { name: "weight 1, the smallest", points: others },
        ],
        notes: vec![quoted(WEIGHTS)],
        found: vec![
            ("share of the queue of weight 10 beside 20 others", share),
            ("these 20: largest over smallest share", spread),
        ],
        ..PaperFigure::default()
    })
}

const REORDERING: &str = include_str!("../../../../../examples/dummynet/reordering.sh");
const CHANCE: f64 = 0.3;
/// Difference between the delays of the two pipes, in milliseconds.
const LONGER: u64 = 90;

/// Figure 3: packets go at random into one of two pipes, and some are overtaken.
pub(super) fn reordering() -> Result<PaperFigure> {
    const PACKETS: u32 = 50_000;
    let network = dummynet(REORDERING)?;
    let [mut ours, mut by_hand] = [const { Vec::new() }; 2];
    let mut taken = 0.0;
    for gap in [1u64, 5, 10, 30, 45, 60, 89, 91, 120] {
        let arrivals: Vec<Arrival> = (1..=u64::from(PACKETS))
            .map(|n| datagram(OUT, 1, 80, 500, Time(n * gap * 1_000_000)))
            .collect();
        let sent = send(&network, &arrivals)?;
        let dues = sent
            .iter()
            .map(|sent| Ok(sent.as_ref().context("a packet was lost")?.due))
            .collect::<Result<Vec<_>>>()?;
        if gap == 10 {
            let slow = arrivals.iter().zip(&dues).filter(|(a, due)| ms(a.at, **due) > 50.0).count();
            taken = slow as f64 / f64::from(PACKETS);
        }
        // RFC 4737: a packet is reordered if a later one has arrived before it.
        let mut first = Time::NEVER;
        let mut overtaken = 0u32;
        for &due in dues.iter().rev() {
            overtaken += u32::from(first < due);
            first = first.min(due);
        }
        // The number of later packets that could overtake this packet on the short path.
        let rivals = (LONGER - 1) / gap;
        ours.push(point(gap as f64, 100.0 * f64::from(overtaken) / f64::from(PACKETS)));
        by_hand.push(point(gap as f64, 100.0 * CHANCE * (1.0 - CHANCE.powi(rivals as i32))));
    }
    let at = |points: &[CurvePoint], gap: f64| {
        points.iter().find(|p| p.x == gap).map_or(f64::NAN, |p| p.y)
    };
    let off = ours
        .iter()
        .zip(&by_hand)
        .map(|(a, b): (&CurvePoint, &CurvePoint)| (a.y - b.y).abs())
        .fold(0.0, f64::max);
    let found = vec![
        ("packets that took the longer pipe", 100.0 * taken),
        ("overtaken, with a packet each 45 ms", at(&ours, 45.0)),
        ("overtaken, with gaps above the pipes' difference in delay", at(&ours, 91.0)),
        ("largest difference from the value by hand", off),
    ];
    Ok(PaperFigure {
        title: "packets that take a pipe of 100 ms with probability 0.3, else one of 10 ms".into(),
        x: "ms between packets",
        y: "overtaken (%)",
        curves: vec![
            FigureCurve { name: "overtaken", points: ours },
            FigureCurve { name: "by hand", points: by_hand },
        ],
        notes: vec![
            "Overtaken: a later one came before it (RFC 4737). By hand: it took the longer pipe, \
             and not all that follow within 90 ms did."
                .into(),
            quoted(REORDERING),
        ],
        found,
        ..PaperFigure::default()
    })
}

/// Air time of packets of a wireless link beyond their transmission: (cumulative probability,
/// milliseconds).
const AIR: [(f64, f64); 4] = [(0.0, 1.0), (0.5, 2.0), (0.9, 5.0), (1.0, 20.0)];
const LOSSLESS: f64 = 0.98;

/// Figure 4: a profile of extra air time.
pub(super) fn profile() -> Result<PaperFigure> {
    const PACKETS: u32 = 1_000_000;
    let mut text = format!("name wireless\nsamples 1000\nloss-level {LOSSLESS}\nprob delay\n");
    AIR.iter().for_each(|(share, delay)| text.push_str(&format!("{share} {delay}\n")));
    let directory = tempfile::tempdir().context("no directory for the profile")?;
    let file = directory.path().join("wireless.profile");
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    let commands = |file: &str| {
        format!(
            "ipfw pipe 1 config bw 11Mbit/s profile {file}\n\
             ipfw add pipe 1 ip from any to any out\n"
        )
    };
    let network = dummynet(&commands(&file.display().to_string()))?;
    let sent = |gap: u64| -> Result<(Vec<Arrival>, Vec<Option<super::pipes::PacketOutcome>>)> {
        let arrivals: Vec<Arrival> =
            (1..=u64::from(PACKETS)).map(|n| datagram(OUT, 1, 80, PACKET, Time(n * gap))).collect();
        let sent = send(&network, &arrivals)?;
        Ok((arrivals, sent))
    };
    let own = f64::from(PACKET) * 8.0 / 11e3;
    let (arrivals, alone) = sent(30_000_000)?;
    let mut extra: Vec<f64> = arrivals
        .iter()
        .zip(&alone)
        .filter_map(|(a, sent)| Some(ms(a.at, sent.as_ref()?.due) - own))
        .collect();
    extra.sort_by(f64::total_cmp);
    let lost = 1.0 - extra.len() as f64 / f64::from(PACKETS);
    // The lost packets had the longest times, so the packets that arrived have the shortest.
    let at = |share: f64| extra[((share * f64::from(PACKETS)) as usize).min(extra.len() - 1)];
    let drawn = |share: f64| {
        let step =
            AIR.windows(2).find(|w| share <= w[1].0).map_or((AIR[2], AIR[3]), |w| (w[0], w[1]));
        let ((from, low), (to, high)) = step;
        low + (high - low) * (share - from) / (to - from)
    };
    let shares: Vec<f64> = (0..=24).map(|n| f64::from(n) / 25.0).collect();
    let (_, full) = sent(1_000_000)?;
    let ends: Vec<Time> = full.iter().flatten().map(|sent| sent.end).collect();
    let busy = ends.last().context("nothing was sent")?.since(ends[0]).as_secs_f64();
    // The lost packets took air time too.
    let held = ends.len() as f64 / LOSSLESS / busy;
    Ok(PaperFigure {
        title: "a profile: time of packets beyond their own transmission".into(),
        x: "share of the packets",
        y: "ms",
        curves: vec![
            FigureCurve {
                name: "measured",
                points: shares.iter().map(|&s| point(s, at(s))).collect(),
            },
            FigureCurve {
                name: "as the profile says",
                points: shares.iter().map(|&s| point(s, drawn(s))).collect(),
            },
        ],
        notes: vec![
            "The talk has no numbers; this profile is ours. The link is busy for the extra time, \
             and the upper 2 % of it are packets lost after all retransmissions."
                .into(),
            quoted(&commands("wireless.profile")),
        ],
        found: vec![
            ("half of the packets took at most", at(0.5)),
            ("nine of ten took at most", at(0.9)),
            ("lost", 100.0 * lost),
            ("packets in a second of a full link", held),
        ],
        ..PaperFigure::default()
    })
}

const CUSTOMERS: &str = include_str!("../../../../../examples/dummynet/customers.sh");

/// Figure 5: one line creates a scheduler and a link for each customer.
pub(super) fn customers() -> Result<PaperFigure> {
    const CALL: u16 = 5004;
    let network = dummynet(CUSTOMERS)?;
    let [mut slowest, mut fastest, mut calls] = [const { Vec::new() }; 3];
    for n in [1u32, 10, 100, 1_000] {
        // A call of fifty packets a second, and other traffic that exceeds the link's capacity.
        let mut arrivals: Vec<Arrival> = (1..=n)
            .flat_map(|host| {
                let from = Time(1 + 997 * u64::from(host));
                let call =
                    train(50, 50, from + Span(3)).map(move |at| datagram(OUT, host, CALL, 200, at));
                train(500, 500, from).map(move |at| datagram(OUT, host, 80, PACKET, at)).chain(call)
            })
            .collect();
        arrivals.sort_by_key(|a| a.at);
        let sent = send(&network, &arrivals)?;
        let mut bytes = vec![0u64; n as usize];
        let mut longest = 0.0f64;
        let window = Time(200_000_000)..Time(1_000_000_000);
        for (a, sent) in arrivals.iter().zip(&sent) {
            let Some(sent) = sent else { continue };
            if a.key.ports.is_some_and(|(_, to)| to == CALL) {
                longest = longest.max(ms(a.at, sent.due));
            }
            if window.contains(&sent.end) {
                let host = a.key.src.map_or(0, |src| {
                    if let std::net::IpAddr::V4(v4) = src { u32::from(v4) & 0xff_ffff } else { 0 }
                });
                bytes[host as usize - 1] += u64::from(a.length);
            }
        }
        let mbit = |bytes: u64| bytes as f64 * 8e3 / window.end.since(window.start).0 as f64;
        slowest.push(point(n.into(), mbit(bytes.iter().copied().min().unwrap_or(0))));
        fastest.push(point(n.into(), mbit(bytes.iter().copied().max().unwrap_or(0))));
        calls.push(point(n.into(), longest));
    }
    let last = |points: &[CurvePoint]| points.last().map_or(f64::NAN, |p| p.y);
    let found = vec![
        ("the slowest of 1000 customers", last(&slowest)),
        ("the fastest of 1000 customers", last(&fastest)),
        (
            "longest delay of a call among 1000 customers, over that of one alone",
            last(&calls) / calls[0].y,
        ),
    ];
    Ok(PaperFigure {
        title: "a link of 5 Mbit/s for each customer, shared by his calls and all else".into(),
        x: "customers",
        y: "Mbit/s, ms",
        curves: vec![
            FigureCurve { name: "slowest (Mbit/s)", points: slowest },
            FigureCurve { name: "fastest (Mbit/s)", points: fastest },
            FigureCurve { name: "longest delay of a call (ms)", points: calls },
        ],
        notes: vec![
            "Every customer has a call, and offers 6 Mbit/s beside it.".into(),
            quoted(CUSTOMERS),
        ],
        found,
        ..PaperFigure::default()
    })
}
