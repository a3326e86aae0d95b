//! `falaj bench queueing`: the CPU time to compute the matrices `G` and `R` of quasi-birth-death
//! processes, by block size, and the mean wait of batches in the case of the paper on aggregation.

use super::{cpu_nanos, median};
use anyhow::Result;
use falaj_queueing::{Arrivals, Effort, Method, PhaseType, Qbd, Stream, Superposed, process};
use falaj_terminal::text;
use falaj_terminal::text::nanos;
use serde_json::json;
use std::process::ExitCode;

/// Arguments of `bench queueing`.
#[derive(clap::Args)]
pub struct Args {
    /// Runs for each figure; the median is reported.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Numbers of phases of two Erlang arrival processes and of the service. The blocks have the sizes
/// 10, 50, 200, 500 and 1000.
const BLOCKS: [(usize, usize, usize); 5] =
    [(5, 2, 1), (5, 5, 2), (10, 10, 2), (10, 10, 5), (10, 10, 10)];

/// Packets in a batch, as in the paper on aggregation. In this paper a machine has four virtual
/// machines; with the driver domain there are five streams of batches. The load is 0.8.
const SIZE: usize = 160;

fn block((one, other, steps): (usize, usize, usize)) -> Result<Qbd> {
    let source = |phases: usize| {
        Ok::<_, falaj_queueing::Refused>(Arrivals::renewal(&PhaseType::erlang(
            phases,
            0.4 * phases as f64,
        )?))
    };
    Ok(process(&source(one)?.with(&source(other)?), &PhaseType::erlang(steps, steps as f64)?))
}

fn timed<T>(repeat: usize, mut run: impl FnMut() -> Result<T>) -> Result<(f64, T)> {
    let mut times = Vec::new();
    loop {
        let before = cpu_nanos();
        let result = run()?;
        times.push((cpu_nanos() - before) as f64);
        if times.len() >= repeat.max(1) {
            return Ok((median(times), result));
        }
    }
}

/// Runs `falaj bench queueing`.
///
/// # Errors
/// The input is invalid, or this machine cannot run the benchmark.
pub fn main(args: &Args) -> Result<ExitCode> {
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    for case in BLOCKS {
        let qbd = block(case)?;
        for (name, method) in [
            ("logarithmic reduction", Method::LogarithmicReduction),
            ("cyclic reduction", Method::CyclicReduction),
        ] {
            let (time, solved) = timed(args.repeat, || Ok(qbd.solve(method)?))?;
            let residual = solved.residual_g.max(solved.residual_r);
            values.push(json!({
                "block": qbd.order(), "method": name, "cpu_ns": time, "steps": solved.steps,
                "residual": residual,
            }));
            rows.push(vec![
                format!("block {}, {name}", qbd.order()),
                nanos(time),
                format!("{} steps, {residual:.0e}", solved.steps),
            ]);
        }
    }
    let load = 0.8 * SIZE as f64;
    for (name, streams) in [
        ("160 packets, 5 streams", vec![Stream::new(5, load / 5.0)]),
        (
            "160 packets, 800 + 4 x 200",
            vec![Stream::new(1, load / 2.0), Stream::new(4, load / 8.0)],
        ),
    ] {
        let system = Superposed::new(&streams, SIZE, 1.0)?;
        let (time, mean) = timed(args.repeat, || Ok(system.exact(Effort::Full)?))?;
        values.push(
            json!({ "system": name, "cpu_ns": time, "wait": mean.wait, "error": mean.error }),
        );
        rows.push(vec![
            format!("{name}, load 0.8"),
            nanos(time),
            format!("{:.4} ± {:.4} services", mean.wait, mean.error),
        ]);
    }
    if args.json {
        say!("{}", serde_json::to_string_pretty(&values)?);
    } else {
        say!(
            "CPU time of one thread, median of {}; G and R, and the mean wait",
            args.repeat.max(1)
        );
        say!("{}", text::table(&["", "CPU time", ""], rows));
    }
    Ok(ExitCode::SUCCESS)
}
