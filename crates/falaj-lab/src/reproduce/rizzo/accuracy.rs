//! The limits of an emulator's accuracy according to the talk: its timer, and packets that compete
//! for the card. The third limit, the operating system, is in [`system`](super::system).

use super::super::curves::{CurvePoint, FigureCurve, PaperFigure, Published};
use super::pipes::{OUT, datagram, network, send};
use anyhow::{Context, Result};
use falaj_sched::units::time::Time;
use falaj_sim::replay::Arrival;
use std::fmt::Write;

const PACKET: u32 = 1_500;

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

/// Arrival times that fall at all phases of the ticks of any of these timers.
fn anywhere(number: u64) -> impl Iterator<Item = Time> {
    (1..=number).map(|n| Time(n * 20_000_000 + n * 7_919 % 1_000_003))
}

/// Arrival times at the far end of a link whose keys end with the text `link`.
fn dues(link: &str, arrivals: &[Arrival]) -> Result<Vec<Time>> {
    let network = network(&format!("[link.l]\nrate = \"10mbit\"\ndelay = \"10ms\"\n{link}"))?;
    let sent = send(&network, arrivals)?;
    sent.iter().map(|sent| Ok(sent.as_ref().context("a packet was lost")?.due)).collect()
}

/// Figure 6: the timer. A timer with ticks is modelled as a link that delivers in slots.
pub(super) fn timer() -> Result<PaperFigure> {
    let arrivals: Vec<Arrival> = anywhere(20_000).map(|at| datagram(OUT, 1, 80, 200, at)).collect();
    let exact = dues("", &arrivals)?;
    let [mut mean, mut most] = [const { Vec::new() }; 2];
    for tick in [0u64, 20, 100, 200, 500, 1_000] {
        let link = if tick == 0 { String::new() } else { format!("slot = \"{tick}us\"\n") };
        let late: Vec<u64> = dues(&link, &arrivals)?
            .iter()
            .zip(&exact)
            .map(|(due, exact)| due.since(*exact).0)
            .collect();
        let sum: u64 = late.iter().sum();
        let x = tick as f64;
        mean.push(CurvePoint { x, y: micros(sum) / late.len() as f64, off: None });
        most.push(CurvePoint { x, y: micros(late.iter().copied().max().unwrap_or(0)), off: None });
    }
    let at = |points: &[CurvePoint], tick: f64| {
        points.iter().find(|p| p.x == tick).map_or(f64::NAN, |p| p.y)
    };
    let found = vec![
        ("largest error, ticks of 1 ms", at(&most, 1_000.0)),
        ("mean error, ticks of 1 ms", at(&mean, 1_000.0)),
        ("largest error, 50,000 ticks a second", at(&most, 20.0)),
        ("largest error without a tick", at(&most, 0.0)),
    ];
    Ok(PaperFigure {
        title: "the timer: packets that wait for its next tick".into(),
        x: "us between ticks",
        y: "us late",
        curves: vec![
            FigureCurve { name: "mean", points: mean },
            FigureCurve { name: "most", points: most },
        ],
        // The talk's tick of 1 ms, and the rate of 50,000 ticks a second to which the timer may be
        // raised.
        published: Published::beside("most", "most, published", [(20.0, 20.0), (1_000.0, 1_000.0)]),
        notes: vec![
            "A timer that ticks is a link with slots of that length; falaj's own has instants in \
             nanoseconds, and how late they are kept is Figure 8."
                .into(),
        ],
        found,
        ..PaperFigure::default()
    })
}

/// The transmission time of a packet on the card, in microseconds.
fn airtime(gbit: f64) -> f64 {
    f64::from(PACKET) * 8.0 / gbit / 1e3
}

/// Figure 7: packets of several pipes that compete for the card at one instant.
pub(super) fn competing() -> Result<PaperFigure> {
    const NUMBERS: [u16; 6] = [1, 2, 4, 8, 16, 32];
    let mut curves = Vec::new();
    let mut found = Vec::new();
    for (name, by_hand, gbit, told) in [
        (
            "1 Gbit/s",
            "1 Gbit/s, by hand",
            1.0,
            ["two pipes, a card of 1 Gbit/s", "eight pipes, a card of 1 Gbit/s"],
        ),
        (
            "100 Mbit/s",
            "100 Mbit/s, by hand",
            0.1,
            ["two pipes, a card of 100 Mbit/s", "eight pipes, a card of 100 Mbit/s"],
        ),
    ] {
        let [mut ours, mut expected] = [const { Vec::new() }; 2];
        for n in NUMBERS {
            let mut text = format!(
                "[link.card]\nrate = \"{}mbit\"\nscheduler = {{ kind = \"fifo\", queue = \"100p\" }}\n",
                gbit * 1e3
            );
            for pipe in 1..=n {
                let _ = write!(
                    text,
                    "\n[link.pipe{pipe}]\nrate = \"10mbit\"\ndelay = \"10ms\"\n\n[[rule]]\nmatch = \"udp dport {pipe}\"\n\
                     to = [\"pipe{pipe}\", \"card\"]\n"
                );
            }
            let network = network(&text)?;
            let arrivals: Vec<Arrival> = (1..=100u64)
                .flat_map(|tenth| {
                    (1..=n)
                        .map(move |pipe| datagram(OUT, 1, pipe, PACKET, Time(tenth * 100_000_000)))
                })
                .collect();
            let sent = send(&network, &arrivals)?;
            let alone = f64::from(PACKET) * 8.0 / 10.0 + 10_000.0 + airtime(gbit);
            let late = arrivals.iter().zip(&sent).map(|(a, sent)| {
                let sent = sent.as_ref().context("a packet was lost")?;
                Ok(micros(sent.due.since(a.at).0) - alone)
            });
            let late = late.collect::<Result<Vec<f64>>>()?.into_iter().fold(f64::MIN, f64::max);
            ours.push(CurvePoint { x: n.into(), y: late, off: None });
            expected.push(CurvePoint {
                x: n.into(),
                y: f64::from(n - 1) * airtime(gbit),
                off: None,
            });
        }
        let at = |n: f64| ours.iter().find(|p| p.x == n).map_or(f64::NAN, |p| p.y);
        found.extend([(told[0], at(2.0)), (told[1], at(8.0))]);
        curves.extend([
            FigureCurve { name, points: ours },
            FigureCurve { name: by_hand, points: expected },
        ]);
    }
    Ok(PaperFigure {
        title: "competing pipes: packets of 1500 B that are due on the card at one instant".into(),
        x: "pipes",
        y: "us late at most",
        curves,
        published: Published::beside("100 Mbit/s", "100 Mbit/s, published", [(2.0, 120.0)]),
        notes: vec![
            "The talk's 120 us are a packet of 1500 B at 100 Mbit/s; at 1 Gbit/s it is a tenth. Each pipe more may add as much.".into(),
        ],
        found,
        ..PaperFigure::default()
    })
}
