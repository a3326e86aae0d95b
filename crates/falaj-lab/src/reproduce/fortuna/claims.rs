//! The statements of the figures, and of Section II.B, as claims that each run checks.
//!
//! The paper has only words, and curves without numbers. We chose the thresholds by the values of
//! an independent model of the same servers.

use super::figures::{A, B, DRR, LoadSweep};
use super::live::{LiveResult, Load, Paced};
use super::runs::{LinkServer, Ours};
use crate::reproduce::verdict::{Allowed, JudgedRow, Statement};
use LinkServer::{PacketWise, PacketWiseSkip, PhaseWise};
use falaj_sched::units::time::Span;

/// The source of the limits for statements in words.
const WORDS: &str = "words of the paper; the limit is ours, from an independent model's value";
const BOUND: &str = "a bound of falaj; nothing is compared with the paper";

/// A judged claim.
fn judged(
    place: String,
    experiment: String,
    (claim, unit): (&str, &'static str),
    (allowed, source): (Allowed, &str),
    ours: f64,
    why: Option<&str>,
) -> JudgedRow {
    let statement = claim.to_owned();
    JudgedRow::judge(
        Statement { place, statement, unit, source: source.into(), experiment },
        allowed,
        ours,
        why,
    )
}

fn least(min: f64) -> Allowed {
    Allowed::least(min)
}

fn most(max: f64) -> Allowed {
    Allowed::most(max)
}

fn within(min: f64, max: f64) -> Allowed {
    Allowed::within(min, max)
}

fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().reduce(f64::max).unwrap_or(f64::NAN)
}

fn smallest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().reduce(f64::min).unwrap_or(f64::NAN)
}

/// One value for each offered rate, computed from two servers' curves.
fn beside(
    sweep: &LoadSweep,
    (one, other): (LinkServer, LinkServer),
    link: usize,
    (from, to): (u64, u64),
    value: impl Fn(&Ours, &Ours) -> f64,
) -> Vec<f64> {
    let (one, other) = (sweep.curve(one, link, from, to), sweep.curve(other, link, from, to));
    one.iter().zip(&other).map(|((_, one), (_, other))| value(one, other)).collect()
}

/// The claims of the figure with this number.
pub(super) fn of(figure: usize, sweep: &LoadSweep) -> Vec<JudgedRow> {
    let mut claims = Vec::new();
    let mut claim = |text: &str, ours: f64, unit: &'static str, allowed: Allowed| {
        let source = if allowed.is_bound() { BOUND } else { WORDS };
        let experiment = format!("falaj reproduce fortuna --figure {figure}");
        let place = format!("Figure {figure}");
        claims.push(judged(place, experiment, (text, unit), (allowed, source), ours, None));
    };
    let mean = |server, link, x| sweep.at(server, link, x).avg.mean;
    let rise = |server, link, from, to| mean(server, link, to) - mean(server, link, from);
    let maxima = |server, link, from, to| {
        sweep.curve(server, link, from, to).into_iter().map(|(_, o)| o.max)
    };
    let delivered = |servers: &[LinkServer], link, to| {
        let of = |s: &LinkServer| {
            sweep.curve(*s, link, 30, to).into_iter().map(|(_, o)| o.out.mean / o.offered)
        };
        smallest(servers.iter().flat_map(of).collect::<Vec<_>>()) * 100.0
    };
    let both = (PhaseWise, PacketWise);
    let tail = (PacketWise, PacketWiseSkip);
    match figure {
        5 => {
            let whole = rise(PhaseWise, A, 0, 600);
            claim(
                "phase-wise, A's mean delay rises with the load of B: from 0 to 600 Mbit/s",
                whole,
                "us",
                least(9.0),
            );
            let share = rise(PhaseWise, A, 0, 510) / whole * 100.0;
            claim(
                "phase-wise, the rise is done once B is saturated: its part up to 510 Mbit/s",
                share,
                "%",
                least(95.0),
            );
            let rise = rise(PacketWise, A, 0, 600);
            claim(
                "packet-wise, A's mean delay hardly rises: from 0 to 600 Mbit/s",
                rise,
                "us",
                most(1.1),
            );
        }
        6 => {
            let ratio = mean(PacketWise, B, 150) / mean(PhaseWise, B, 150);
            claim(
                "at low load B waits less packet-wise: ratio of its mean delays at 150 Mbit/s, packet-wise to phase-wise",
                ratio,
                "",
                most(0.5),
            );
            let gap = largest(beside(sweep, both, B, (510, 600), |one, other| {
                (one.avg.mean - other.avg.mean).abs()
            }));
            claim(
                "the difference disappears once B is saturated: its largest from 510 Mbit/s on",
                gap,
                "us",
                most(0.5),
            );
        }
        7 => {
            for (link, name) in [(B, "B"), (A, "A")] {
                let apart = beside(sweep, both, link, (0, 600), |one, other| {
                    (one.out.mean / other.out.mean - 1.0).abs()
                });
                let text =
                    format!("both servers deliver the same rate: largest difference on {name}");
                claim(&text, largest(apart) * 100.0, "%", most(0.1));
            }
            for server in [PhaseWise, PacketWise] {
                let text =
                    format!("{}, B is held to 28/60 of the link at 600 Mbit/s", server.name());
                let out = sweep.at(server, B, 600).out.mean;
                claim(&text, out, "Mbit/s", within(466.2, 467.1));
            }
            claim(
                "A's output rate is the rate offered to it, at every load of B",
                delivered(&[PhaseWise, PacketWise], A, 600),
                "%",
                least(99.95),
            );
        }
        8 => {
            let ratio = smallest(beside(sweep, both, A, (150, 600), |phase, packet| {
                phase.max / packet.max
            }));
            claim(
                "A's maximum is larger phase-wise: smallest ratio to packet-wise from 150 Mbit/s on",
                ratio,
                "",
                least(1.2),
            );
            for server in [PhaseWise, PacketWise] {
                let bound = sweep.at(server, A, 600).bound.unwrap_or(f64::NAN);
                let text = format!("{}, A's maximum stays within its bound", server.name());
                claim(&text, largest(maxima(server, A, 0, 600)), "us", most(bound).bound());
            }
        }
        9 => {
            let flat = largest(maxima(PhaseWise, B, 540, 600).map(|max| (max - 176.0).abs()));
            claim(
                "phase-wise, B's maximum once saturated is 176 us: largest difference from 540 Mbit/s on",
                flat,
                "us",
                most(0.5),
            );
            let packet = maxima(PacketWise, B, 540, 600);
            let bound = sweep.at(PacketWise, B, 600).bound.unwrap_or(f64::NAN);
            claim(
                "packet-wise, B's maximum once saturated is higher: smallest value from 540 Mbit/s on",
                smallest(packet),
                "us",
                within(185.0, bound),
            );
            for server in [PhaseWise, PacketWise] {
                let bound = sweep.at(server, B, 600).bound.unwrap_or(f64::NAN);
                let text = format!("{}, B's maximum stays within its bound", server.name());
                claim(&text, largest(maxima(server, B, 30, 600)), "us", most(bound).bound());
            }
        }
        10 => {
            let lower =
                beside(sweep, tail, A, (0, 600), |plain, skip| plain.avg.mean - skip.avg.mean);
            claim(
                "skipping tails lowers A's mean delay: smallest value over all loads",
                smallest(lower.iter().copied()),
                "us",
                least(0.05),
            );
            claim("the same: largest value over all loads", largest(lower), "us", most(0.3));
            for (x, threshold) in [(510, within(13.0, 21.0)), (600, within(6.0, 9.0))] {
                let lower = mean(PacketWise, B, x) - mean(PacketWiseSkip, B, x);
                claim(
                    &format!("skipping tails lowers B's mean delay: at {x} Mbit/s"),
                    lower,
                    "us",
                    threshold,
                );
            }
            let gain = sweep.at(PacketWiseSkip, B, 600).out.mean
                / sweep.at(PacketWise, B, 600).out.mean
                - 1.0;
            claim(
                "skipping tails raises B's saturated rate, at 600 Mbit/s",
                gain * 100.0,
                "%",
                within(3.4, 3.8),
            );
        }
        11 => {
            for (link, name, from) in [(B, "B", 540), (A, "A", 150)] {
                let average = |server| {
                    let maxima: Vec<f64> = maxima(server, link, from, 600).collect();
                    maxima.iter().sum::<f64>() / maxima.len() as f64
                };
                let text = format!(
                    "skipping tails lowers {name}'s maximum: on average from {from} Mbit/s on"
                );
                claim(&text, average(PacketWise) - average(PacketWiseSkip), "us", least(0.0));
            }
            for (link, name) in [(B, "B"), (A, "A")] {
                let bound = sweep.at(PacketWiseSkip, link, 600).bound.unwrap_or(f64::NAN);
                let text = format!("with tails skipped, {name}'s maximum stays within its bound");
                claim(
                    &text,
                    largest(maxima(PacketWiseSkip, link, 30, 600)),
                    "us",
                    most(bound).bound(),
                );
            }
        }
        12 => {
            let text = "packet-wise with tails skipped, A's mean delay is flat once B exceeds its share: growth from 540 to 720 Mbit/s";
            claim(text, rise(PacketWiseSkip, A, 540, 720), "us", most(0.02));
            for (server, threshold) in DRR.into_iter().zip([0.3, 1.0, 2.5]) {
                let text =
                    format!("{}, it continues to grow: from 540 to 720 Mbit/s", server.name());
                claim(&text, rise(server, A, 540, 720), "us", least(threshold));
            }
            for (server, from) in DRR.into_iter().zip([510, 150, 150]) {
                let above = beside(sweep, (server, PacketWiseSkip), A, (from, 720), |drr, skip| {
                    drr.avg.mean - skip.avg.mean
                });
                let text = format!(
                    "{}, A waits longer than packet-wise: smallest difference from {from} Mbit/s on",
                    server.name()
                );
                claim(&text, smallest(above), "us", least(0.0));
            }
        }
        13 => {
            let out = sweep
                .curve(PacketWiseSkip, B, 600, 720)
                .into_iter()
                .map(|(_, o)| (o.out.mean - 483.6).abs());
            claim(
                "packet-wise with tails skipped, B is throttled to 483.6 Mbit/s: largest difference from 600 Mbit/s on",
                largest(out),
                "Mbit/s",
                most(1.0),
            );
            claim(
                "DRR does not throttle: B's output rate is the rate offered to it, up to 720 Mbit/s, with all quanta",
                delivered(&DRR, B, 720),
                "%",
                least(99.9),
            );
            let all = [PacketWiseSkip, DRR[0], DRR[1], DRR[2]];
            claim(
                "no server drops A's packets: its output rate is the rate offered to it",
                delivered(&all, A, 720),
                "%",
                least(99.95),
            );
        }
        _ => {}
    }
    claims
}

/// The claims of Section II.B and of the paper's argument for the packet-wise server, in counts
/// that a busy machine changes little. CPU times are reported and not judged.
pub(super) fn live(outcomes: &[LiveResult]) -> Vec<JudgedRow> {
    let mut claims = Vec::new();
    let mut claim = |claim: String, ours: f64, allowed: Allowed, why: Option<&str>| {
        let experiment = "falaj reproduce fortuna --live".to_owned();
        let source = if allowed.is_bound() { BOUND } else { WORDS };
        let place = "Section II.B".to_owned();
        claims.push(judged(place, experiment, (&claim, ""), (allowed, source), ours, why));
    };
    let idle: Vec<f64> = outcomes
        .iter()
        .filter(|o| o.is(Load::Idle))
        .map(LiveResult::timer_wakes_a_second)
        .collect();
    if !idle.is_empty() {
        let text = "without packets no server wakes up for a phase: wake-ups by the timer per second, maximum over all servers";
        claim(text.into(), largest(idle), most(5.0), None);
    }
    let by_falaj = || outcomes.iter().filter(|o| o.is_paced_by(Paced::Falaj));
    for phase in by_falaj()
        .filter(|o| !o.is(Load::Idle) && o.server == PhaseWise.name() && o.phase() >= LONG)
    {
        let packet_wise = |o: &&LiveResult| {
            (o.load_name(), o.server.as_str(), o.phase())
                == (phase.load_name(), &PacketWise.name(), phase.phase())
        };
        let Some(packet) = by_falaj().find(packet_wise) else { continue };
        let text = format!(
            "phases of {}, load {}, the phase-wise server needs the timer more often: wake-ups for \
             100 packets, minus those of the packet-wise server",
            phase.phase(),
            phase.load_name()
        );
        let ours = phase.timer_wakes_for_100_packets() - packet.timer_wakes_for_100_packets();
        // Under other loads than a light one, packets keep the thread awake.
        let why = (!phase.is(Load::Light)).then_some(BUSY);
        claim(text, ours, least(10.0), why);
    }
    let by_device = || outcomes.iter().filter(|o| o.is_paced_by(Paced::Device));
    if by_device().next().is_some() {
        let text = "a device is handed packets ahead of time: packets of all loads that the link sent and that did not arrive";
        claim(text.into(), by_device().map(|o| o.missing() as f64).sum(), most(0.0).bound(), None);
    }
    // If tails are skipped, a flooded link never idles at the end of a phase, and a full device
    // needs attention twice in a millisecond.
    let skips = |o: &&LiveResult| o.server == PacketWiseSkip.name() && o.phase() >= LONG;
    for device in by_device().filter(|o| o.is(Load::Flood)).filter(skips) {
        let text = format!(
            "phases of {}, flooded, tails skipped: a device is handed many packets at once: wake-ups for 100 packets",
            device.phase(),
        );
        claim(text, device.wakes_for_100_packets(), most(40.0).bound(), None);
    }
    claims
}

/// Shortest phase for which wake-ups are judged: in shorter phases, most waits are too short for a
/// sleep.
const LONG: Span = Span::from_micros(300);

/// The reason for a smaller saving under load.
const BUSY: &str = "the paper claims a saving at any load. Under load either server wakes for the \
                    packets themselves: each phase has waits for packets, and few waits are only \
                    for the phase's end";
