//! The third limit of accuracy in the talk, measured with real packets: other load of the operating
//! system.

use super::super::curves::{Axes, CurvePoint, FigureCurve, PaperFigure, Published};
use super::super::disk;
use super::MeasuringEffort;
use anyhow::{Context, Result};
use falaj_experiment::measure::{MeasuredFlow, measure_beside};
use falaj_live::event_loop::Options;
use falaj_sched::units::time::Span;
use falaj_terminal::file;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The load of the machine beside the link.
#[derive(Clone, Copy, PartialEq)]
enum Beside {
    Nothing,
    Processors,
    ProcessorsAndDisk,
}

/// The running load that a [`Beside`] describes: a busy thread for each processor, and a process
/// that writes to the disk.
struct SystemLoad {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    disk: Option<disk::DiskLoad>,
}

impl SystemLoad {
    fn start(beside: Beside, length: Duration) -> Result<SystemLoad> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        if beside != Beside::Nothing {
            for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
                let stop = Arc::clone(&stop);
                let work = move || {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                };
                threads.push(std::thread::Builder::new().name("busy".into()).spawn(work)?);
            }
        }
        let writes = beside == Beside::ProcessorsAndDisk;
        let disk = writes.then(|| disk::DiskLoad::between(Duration::ZERO, length)).transpose()?;
        Ok(SystemLoad { stop, threads, disk })
    }

    fn end(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().ok().context("the load of the processors failed")?;
        }
        self.disk.map(disk::DiskLoad::end).transpose()?;
        Ok(())
    }
}

const DELAY: Span = Span::from_millis(10);

/// Sends a thousand packets a second over an otherwise idle link; returns the measured flow, and
/// the path of the packets.
fn measured(beside: Beside, length: Span) -> Result<(MeasuredFlow, &'static str)> {
    let text = format!(
        "[link.l]\nrate = \"1gbit\"\ndelay = \"{DELAY}\"\n[link.l.flow.all]\nmatch = \"any\"\nqueue = \"100p\"\n\
         [traffic.all]\nflow = \"all\"\nmodel = \"cbr\"\nrate = \"1.6mbit\"\nsize = \
         \"200B\"\n[run]\nduration = \"{length}\"\n"
    );
    let scenario = file::parse_quietly(&text, "rizzo")?;
    let load = RefCell::new(None);
    let begins = || -> Result<()> {
        *load.borrow_mut() = Some(SystemLoad::start(beside, Duration::from_nanos((length * 3).0))?);
        Ok(())
    };
    let measured = measure_beside(&scenario, Options::default(), "measuring", &begins);
    load.into_inner().map(SystemLoad::end).transpose()?;
    let mut measured = measured?;
    Ok((measured.flows[0].swap_remove(0), measured.over))
}

/// Figure 8: the lateness of deliveries.
pub(super) fn load(effort: MeasuringEffort) -> Result<PaperFigure> {
    let [mut half, mut most, mut latest, mut through] = [const { Vec::new() }; 4];
    let mut over = "";
    for (x, beside) in
        [(0.0, Beside::Nothing), (1.0, Beside::Processors), (2.0, Beside::ProcessorsAndDisk)]
    {
        let (flow, way) = measured(beside, effort.live)?;
        over = way;
        let errors = &flow.link.release_error;
        let micros = |span: Option<Span>| span.map_or(f64::NAN, |span| span.0 as f64 / 1e3);
        let point = |y: f64| CurvePoint { x, y, off: None };
        half.push(point(micros(errors.quantile(0.5))));
        most.push(point(micros(errors.quantile(0.99))));
        latest.push(point(micros(errors.max())));
        through.push(point(micros(flow.received.p50.map(Span)) - DELAY.0 as f64 / 1e3));
    }
    let within = |y: f64, bound: f64| f64::from(u8::from(y <= bound));
    let busy = most[1..].iter().map(|p: &CurvePoint| p.y).fold(0.0, f64::max);
    let found = vec![
        ("at rest half of the packets are handed over within 100 us", within(half[0].y, 100.0)),
        ("at rest 99 of 100 packets are handed over within 100 us", within(most[0].y, 100.0)),
        (
            "on a busy machine these 99 of 100 packets are later",
            f64::from(u8::from(busy > most[0].y)),
        ),
    ];
    Ok(PaperFigure {
        title: "the operating system: how late packets are handed over while the machine is busy"
            .into(),
        x: "0 at rest, 1 processors busy, 2 disk too",
        y: "us late",
        axes: Axes::DecadesOfKinds,
        curves: vec![
            FigureCurve { name: "half of them", points: half },
            FigureCurve { name: "99 of 100", points: most },
            FigureCurve { name: "the latest", points: latest },
            FigureCurve { name: "between sockets, half of them", points: through },
        ],
        published: Published::beside("99 of 100", "on a quiet machine, published", [(0.0, 100.0)]),
        notes: vec![format!(
            "Measured over {over}: 1,000 packets in a second for {} at each load, due after 10 ms. \
             The talk has a ping of 50 to 70 us that rises to hundreds of us, and 100 us of \
             accuracy on a machine that is kept quiet.",
            effort.live
        )],
        found,
        ..PaperFigure::default()
    })
}
