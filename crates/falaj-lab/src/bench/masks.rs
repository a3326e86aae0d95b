//! `falaj bench masks`: the cost of a packet's whole path where masks create queues or links:
//! parsing headers, finding flow and mask entry, queue, scheduler, link; with counters and
//! histograms on.

use super::{cpu_nanos, exit, median};
use anyhow::{Context, Result};
use falaj_engine::classifier::{Classifier, Match};
use falaj_engine::header::Protocol;
use falaj_engine::key::Key;
use falaj_engine::masks::mask::AddressBits;
use falaj_engine::masks::{Mask, MaskConfig, Masks};
use falaj_engine::message::Unit;
use falaj_engine::pipe::PipeSpec;
use falaj_engine::{Engine, PipeId};
use falaj_sched::contract::params::{FlowSetup, Setup, Values};
use falaj_sched::queues::queue::{FlowId, Limit};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use falaj_terminal::interrupt::interruptible;
use falaj_terminal::{progress, text};
use serde_json::json;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Arguments of `bench masks`.
#[derive(clap::Args)]
pub struct Args {
    /// Packets for each figure, in millions.
    #[arg(long, default_value_t = 2,
        value_parser = falaj_terminal::arguments::number::<u64>(1..=1000))]
    millions: u64,
    /// Runs for each figure; the median is reported.
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Numbers of queues of one link, and of links.
const QUEUES: [u32; 3] = [100_000, 10_000, 100];
const LINKS: [u32; 3] = [10_000, 1_000, 100];

/// Size of a packet in bytes, as the link accounts it.
const SIZE: u32 = 500;
/// Interval between arrivals; the link, or all links together, send at the same rate.
const GAP: Span = Span(400);

struct MaskFigure {
    what: &'static str,
    many: u32,
    /// Nanoseconds per packet.
    packet: f64,
    /// Nanoseconds to find the time of the next event.
    next_due: f64,
    /// Bytes of memory per entry when all exist; `None` if the memory may have been allocated
    /// before.
    bytes: Option<f64>,
}

/// Resident memory of this process, in bytes.
fn memory() -> Result<f64> {
    let text =
        std::fs::read_to_string("/proc/self/statm").context("cannot read /proc/self/statm")?;
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|n| n.parse::<f64>().ok())
        .context("/proc/self/statm has no size")?;
    Ok(pages * 4096.0)
}

/// A link of 10 Gbit/s with `many` queues, or `many` links with 10 Gbit/s in total.
fn spec(what: &str, many: u32) -> PipeSpec {
    let mask = Mask { src: Some(AddressBits::WHOLE), ..Mask::default() };
    let each = MaskConfig { mask, most: many, expire: MaskConfig::EXPIRE };
    let rate = Rate::from_bits(10_000_000_000 / if what == "links" { u64::from(many) } else { 1 });
    let flows = vec![FlowSetup::new(Values::default(), Limit::Packets(20)); 2];
    let setup = Setup { rate, largest: 1514, scheduler: Values::default(), flows };
    let masks = match what {
        "links" => Masks { link: Some(each), flows: Vec::new() },
        _ => Masks { link: None, flows: vec![None, Some(each)] },
    };
    PipeSpec { masks, ..PipeSpec::new("drr", setup, Span::from_millis(10)) }
}

/// A UDP frame without payload; the last three bytes of its source address select the entry.
fn frame() -> [u8; 42] {
    let mut frame = [0; 42];
    (frame[12], frame[14], frame[17], frame[22], frame[23], frame[26], frame[39]) =
        (8, 0x45, 28, 64, 17, 10, 8);
    frame
}

fn measure(
    what: &'static str,
    many: u32,
    packets: u64,
    stop: &AtomicBool,
) -> Result<Option<MaskFigure>> {
    let spec = spec(what, many);
    let masks = spec.masks.clone();
    // A rule that matches none of the packets, so that headers are parsed for rules too.
    let none = Match { protocol: Some(Protocol::UDP), dport: Some((5004, 5004)), ..Match::ANY };
    let rules = Classifier::new([&[none][..], &[Match::ANY][..]]);
    let before = memory()?;
    let mut engine = Engine::new(&[spec]).map_err(|(_, refused)| refused)?;
    let (mut out, mut frame, mut now) = (Vec::new(), frame(), Time::ZERO);
    let mut packet = |engine: &mut Engine, out: &mut Vec<_>, n: u32, now: Time| {
        frame[27..30].copy_from_slice(&n.to_be_bytes()[1..]);
        let key = Key::of_ethernet(&frame);
        let flow = rules.flow_of(&key).unwrap_or(FlowId(0));
        let ids = masks.ids(flow, &key);
        let unit = Unit { flow, handle: n, bytes: SIZE };
        engine.input_of(PipeId(0), unit, &ids, now, out);
        let sent = out.len();
        out.clear();
        sent
    };
    // Each queue, or each link, gets two packets; a link transmits one of them.
    (0..2 * many).for_each(|n| {
        packet(&mut engine, &mut out, n % many, now);
    });
    let bytes = (memory()? - before).max(0.0) / f64::from(many);
    let (mut sent, mut draw) = (0, 1u64);
    let began = cpu_nanos();
    for _ in 0..packets {
        now += GAP;
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        sent += packet(&mut engine, &mut out, (((draw >> 32) * u64::from(many)) >> 32) as u32, now);
    }
    let used = cpu_nanos() - began;
    anyhow::ensure!(sent > 0, "nothing was sent");
    let began = cpu_nanos();
    const LOOKS: u64 = 100_000;
    let due = (0..LOOKS).map(|_| std::hint::black_box(&engine).next_due().0).max();
    let looked = cpu_nanos() - began;
    anyhow::ensure!(due.is_some_and(|due| due > now.0), "nothing is due");
    let (packet, next_due) = (used as f64 / packets as f64, looked as f64 / LOOKS as f64);
    let figure = MaskFigure { what, many, packet, next_due, bytes: Some(bytes) };
    Ok((!stop.load(Ordering::Relaxed)).then_some(figure))
}

/// Nanoseconds of CPU time per packet among this number of links, the median of `repeat` runs.
pub(crate) fn cost_of_links(links: u32, packets: u64, repeat: usize) -> Result<f64> {
    let never = AtomicBool::new(false);
    let figures: Result<Vec<f64>> = (0..repeat)
        .map(|_| {
            let figure = measure("links", links, packets, &never)?;
            Ok(figure.context("the measurement was interrupted")?.packet)
        })
        .collect();
    Ok(median(figures?))
}

/// Runs `falaj bench masks`.
///
/// # Errors
/// The input is invalid, or this machine cannot run the benchmark.
pub fn main(args: &Args) -> Result<ExitCode> {
    // The largest case is measured first; smaller cases then use memory that is free already.
    let cases = LINKS.map(|n| ("links", n)).into_iter().chain(QUEUES.map(|n| ("queues", n)));
    let cases: Vec<(&'static str, u32)> = cases.collect();
    let mut figures: Vec<MaskFigure> = Vec::new();
    let bar = progress::long_bar((cases.len() * args.repeat.max(1)) as u64, "measuring");
    let ((), interrupted) = interruptible(|stop| {
        for (what, many) in cases {
            let mut all = Vec::new();
            for _ in 0..args.repeat.max(1) {
                let Some(figure) = measure(what, many, args.millions * 1_000_000, stop)? else {
                    return Ok(());
                };
                all.push(figure);
                bar.inc(1);
            }
            let median = |of: fn(&MaskFigure) -> f64| median(all.iter().map(of).collect());
            // Memory that one run frees is reused by the next one.
            let largest = if what == "links" { LINKS[0] } else { QUEUES[0] };
            let bytes = all[0].bytes.filter(|_| many == largest);
            figures.push(MaskFigure {
                what,
                many,
                packet: median(|f| f.packet),
                next_due: median(|f| f.next_due),
                bytes,
            });
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    let exit = exit(interrupted, figures.is_empty())?;
    if args.json {
        let one = |f: &MaskFigure| {
            json!({
                "what": f.what, "many": f.many, "ns_per_packet": f.packet,
                "ns_next_due": f.next_due, "bytes_each": f.bytes,
            })
        };
        say!("{}", serde_json::to_string_pretty(&figures.iter().map(one).collect::<Vec<_>>())?);
        return Ok(exit);
    }
    say!(
        "each src, {} M packets at 2.5 M a second, median of {}; CPU",
        args.millions,
        args.repeat.max(1)
    );
    let row = |f: &MaskFigure| {
        vec![
            format!("{} {}", f.many, f.what),
            format!("{:.0} ns", f.packet),
            format!("{:.0} ns", f.next_due),
            f.bytes.map_or(text::DASH.into(), text::bytes),
        ]
    };
    say!(
        "{}",
        text::table(&["made", "packet", "next due", "memory each"], figures.iter().map(row))
    );
    Ok(exit)
}
