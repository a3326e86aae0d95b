//! Draws two lines in a chart, as SVG, into the directory for temporary files.
//! `cargo run -p falaj-pictures --example draw_a_chart`

use falaj_pictures::chart::{Axis, Chart, ChartLine, STROKE, Sheet, svg};
use falaj_pictures::save_one;

pub(crate) fn main() -> anyhow::Result<()> {
    // The mean wait in M/M/1 and M/D/1, in service times, by load.
    let line = |name: &str, number, of: f64| {
        let point = |percent: u32| {
            let load = f64::from(percent) / 100.0;
            (load, of * load / (1.0 - load))
        };
        ChartLine::new(name, number, (0..=90).map(point).collect())
    };
    let chart = Chart {
        title: "Mean wait by load".to_owned(),
        x: Axis::linear("load", 0.0, 1.0),
        y: Axis::linear("services", 0.0, 10.0),
        lines: vec![line("M/M/1", 0, 1.0), line("M/D/1", 1, 0.5)],
        places: Vec::new(),
        marks: false,
        direct: false,
        stroke: STROKE,
    };
    let drawn = svg(&Sheet { panel: (480, 320), columns: 1, charts: vec![chart] })?;
    assert!(drawn.starts_with("<svg") && drawn.contains("M/D/1"));
    let path = std::env::temp_dir().join("falaj-mean-wait.svg");
    save_one(&path, &drawn)?;
    println!("{}", path.display());
    Ok(())
}
