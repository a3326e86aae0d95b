//! The thesis' flows as real datagrams: client and server are processes in their own namespaces,
//! and the link between them is the gateway. Delays are measured on one clock; the same packets are
//! simulated for comparison.

use super::super::curves::{Axes, CurvePoint, FigureCurve, PaperFigure};
use super::figures::{DIVIDED, USED, VIDEO_EFFECTIVE, WHOLE, at_load, video};
use super::testbed::{Lc, Testbed, TestbedServer, simulated};
use anyhow::{Result, bail};
use falaj_experiment::measure::measure;
use falaj_live::event_loop::Options;
use falaj_sched::units::time::Span;
use falaj_terminal::file;

/// Maximum packet size of an interface in bytes.
const MTU: u32 = 65_521;
/// The seed of every live run: the first seed of the simulated runs.
const SEED: u64 = 1;
/// Default duration.
pub(super) const DURATION: Span = Span::from_secs(20);

pub(super) const LABELS: [&str; 4] =
    ["Figure 5.1 live", "Figure 5.2 live", "Figure 5.10 live", "Figure 5.10 live divided"];

pub(super) fn figure(label: &str, duration: Span) -> Result<PaperFigure> {
    let (bed, what): (Testbed, _) = match label {
        "Figure 5.1 live" => (
            at_load(TestbedServer::Modified, USED, 18),
            "DRR++, 18 packets/s of each BE flow at 250 kbit/s",
        ),
        "Figure 5.2 live" => (
            at_load(TestbedServer::Plus, USED, 18),
            "DRR+, 18 packets/s of each BE flow at 250 kbit/s",
        ),
        "Figure 5.10 live" => (
            video(TestbedServer::Modified, VIDEO_EFFECTIVE, WHOLE, 12, 9_000),
            "DRR++ with video, frames as single packets, 12 packets/s of each BE flow at 770 kbit/s",
        ),
        "Figure 5.10 live divided" => (
            video(TestbedServer::Modified, VIDEO_EFFECTIVE, DIVIDED, 12, 9_000),
            "DRR++ with video, frames divided in packets of 1500 B, 12 packets/s of each BE flow at 770 kbit/s",
        ),
        _ => bail!("the thesis has no {label} among what is sent"),
    };
    let text =
        if matches!(bed.lc, Lc::Video { whole: true }) { bed.with_mtu(MTU) } else { bed.text() };
    let mut scenario = file::parse_quietly(&text, "zhang, live")?;
    (scenario.run.duration, scenario.run.seed) = (duration, SEED);
    // Live first: namespaces must be created while the process is single-threaded.
    let measured = measure(&scenario, Options::default(), "measuring")?;
    let expected = simulated(&scenario, SEED, duration)?;
    let flows = &measured.flows[0];
    let curve = |name, of: &dyn Fn(usize) -> Option<f64>| {
        let point = |flow: usize| Some(CurvePoint { x: flow as f64, y: of(flow)?, off: None });
        FigureCurve { name, points: (0..flows.len()).filter_map(point).collect() }
    };
    let between = |flow: usize| Some(flows[flow].received.mean? / 1e6);
    let over = |flow: usize| Some(between(flow)? / expected[flow]?);
    let be: Vec<f64> = (1..flows.len()).filter_map(over).collect();
    let [sent, received] = [
        flows.iter().map(|flow| flow.sent).sum::<u64>(),
        flows.iter().map(|flow| flow.received.datagrams).sum::<u64>(),
    ];
    let error = |share| {
        flows
            .iter()
            .filter_map(|flow| flow.link.release_error.quantile(share))
            .max()
            .unwrap_or_default()
    };
    Ok(PaperFigure {
        title: format!("measured and simulated: {what}"),
        x: "0 LC, 1 to 3 BE",
        y: "mean delay (ms)",
        axes: Axes::Each,
        curves: vec![
            curve("from socket to socket", &between),
            curve("in the gateway", &|flow| {
                flows[flow].link.delay.mean_nanos().map(|nanos| nanos / 1e6)
            }),
            curve("simulated", &|flow| expected[flow]),
        ],
        notes: vec![format!(
            "Measured over {}: client, gateway and server are processes, {duration} of the same \
             packets that are simulated; {received} of {sent} datagrams arrived. The gateway was \
             late by {} at most for 99 of 100 packets of any flow. Frames of up to 17,000 B go as \
             they are, over interfaces whose largest packets have {MTU} B, the most that they \
             take; divided, a delay is that of a packet, not of a frame. Packets that the \
             namespaces' kernels send themselves are counted with BE 3 in the gateway.",
            measured.over,
            error(0.99),
        )],
        found: vec![
            ("LC's mean delay, measured over simulated", over(0).unwrap_or(f64::NAN)),
            (
                "the BE flows', farthest from 1",
                be.into_iter().fold(1.0, |far, one| {
                    if (one - 1.0f64).abs() > (far - 1.0f64).abs() { one } else { far }
                }),
            ),
            ("datagrams received, of those sent", received as f64 / sent.max(1) as f64),
        ],
        ..PaperFigure::default()
    })
}
