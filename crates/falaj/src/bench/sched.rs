//! `falaj bench sched`: what a discipline costs for each packet: one enqueue
//! and one dequeue, with queue limits, through the contract and the registry.

use super::{cpu_nanos, exit, median};
use crate::show::{self, say};
use crate::sim::interruptible;
use anyhow::Result;
use falaj_sched::discipline::{Answer, Discipline};
use falaj_sched::params::{FlowSetup, Setup, Value, Values};
use falaj_sched::queue::{FlowId, Limit, Packet};
use falaj_sched::rate::{Rate, Wire};
use falaj_sched::registry::{self, Visitor};
use falaj_sched::station::{Server, Station};
use falaj_sched::time::{Span, Time};
use serde_json::json;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// What `bench sched` takes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Pairs for each figure, in millions.
    #[arg(long, default_value_t = 5)]
    millions: u64,
    /// Runs for each figure; the median counts.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

const KINDS: [&str; 3] = ["fifo", "drr", "virtual-links"];
const FLOWS: [u32; 5] = [1, 16, 64, 1024, 65_536];
const LARGEST: u32 = 500;
/// Packets that each flow keeps queued.
const DEPTH: u32 = 4;

fn setup(flows: u32) -> Setup {
    let flow = FlowSetup {
        values: Values::default().with("kind", Value::Choice("A")).with("phase", Value::Span(Span::from_micros(30))),
        limit: Limit::Packets(20),
        inner: None,
    };
    Setup {
        rate: Rate::from_mbit(1000),
        largest: LARGEST,
        scheduler: Values::default(),
        flows: vec![flow; flows as usize],
    }
}

/// Serves the flows that the discipline chooses, and gives each packet served
/// a successor, so that the backlog stays as it is.
struct Pairs {
    setup: Setup,
    pairs: u64,
}

impl Visitor for Pairs {
    type Output = f64;
    fn visit<D: Discipline + 'static>(self, discipline: D) -> f64 {
        let queues = if discipline.shared_queue().is_some() { 1 } else { self.setup.flows.len() as u32 };
        let mut station = Station::new(&self.setup, discipline);
        let mut wire = Wire::new(self.setup.rate);
        let mut now = Time::ZERO;
        for handle in 0..DEPTH {
            for f in 0..queues {
                let packet = Packet { handle, bytes: LARGEST, flow: FlowId(f), arrival: now };
                let _ = station.arrive(packet, now);
            }
        }
        let before = cpu_nanos();
        for _ in 0..self.pairs {
            let f = loop {
                match station.next(now, &wire) {
                    Answer::Serve(f) => break f,
                    Answer::NotBefore(then) => now = then,
                    Answer::Drop(_) | Answer::Idle => unreachable!("every flow has packets"),
                }
            };
            now = station.take(f, now, &mut wire).1.end;
            let packet = station.finish(f, now);
            // The queue is never full: one has just left.
            let _ = station.arrive(Packet { arrival: now, ..packet }, now);
        }
        (cpu_nanos() - before) as f64 / self.pairs as f64
    }
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let mut results = Vec::new();
    let bar = show::progress((KINDS.len() * FLOWS.len() * args.repeat.max(1)) as u64, "serving");
    let ((), interrupted) = interruptible(|stop| {
        for kind in KINDS {
            for flows in FLOWS {
                let mut figures = Vec::new();
                for _ in 0..args.repeat.max(1) {
                    let pairs = Pairs { setup: setup(flows), pairs: args.millions * 1_000_000 };
                    figures.push(registry::build(kind, &setup(flows), pairs)?);
                    bar.inc(1);
                    if stop.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                }
                results.push((kind, flows, median(figures)));
            }
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    let exit = exit(interrupted, results.is_empty())?;
    if args.json {
        let all: Vec<_> =
            results.iter().map(|(kind, flows, ns)| json!({ "discipline": kind, "flows": flows, "ns": ns })).collect();
        say!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(exit);
    }
    say!(
        "ns of CPU for each enqueue and dequeue, packets of {LARGEST} B, {DEPTH} queued in each flow; median of {}",
        args.repeat
    );
    let rows = results.iter().map(|(kind, flows, ns)| vec![(*kind).to_owned(), flows.to_string(), format!("{ns:.1}")]);
    say!("{}", show::table(&["discipline", "flows", "ns/pair"], rows));
    Ok(exit)
}
