//! Throughput and delay over time in the first replication, in the file format of Flent. The series
//! have the names that Flent's test `rrul_be_nflows` uses.

use super::{RecordOutcome, Runs};
use anyhow::Result;
use falaj_sched::units::time::Span;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Number of points in a series, if the time step between two points is then 1 to 200 ms. A shorter
/// step becomes 1 ms, and a longer one 200 ms.
const POINTS: u64 = 200;

/// Bytes, sum of delays in ns, and number of packets that left in one time step.
#[derive(Clone, Default)]
struct FlentPoint {
    bytes: u64,
    delay: u128,
    packets: u64,
}

/// A flow's name, direction and points.
struct FlowSeries {
    flow: String,
    up: bool,
    points: Vec<FlentPoint>,
}

impl FlowSeries {
    fn rates(&self, seconds: f64) -> Vec<f64> {
        self.points.iter().map(|point| point.bytes as f64 * 8.0 / 1e6 / seconds).collect()
    }

    /// The mean delay of each step in milliseconds; `None` for steps in which no packet left.
    fn delays(&self) -> Vec<Option<f64>> {
        let mean = |point: &FlentPoint| {
            (point.packets > 0).then(|| point.delay as f64 / point.packets as f64 / 1e6)
        };
        self.points.iter().map(mean).collect()
    }
}

pub(super) fn write(path: &Path, runs: &Runs<'_>) -> Result<()> {
    let step = (runs.duration.0 / POINTS).max(Span::from_millis(1).0).min(Span::from_millis(200).0);
    let count = runs.duration.0.div_ceil(step) as usize;
    let names = runs.names();
    let mut all: Vec<Vec<Option<FlowSeries>>> =
        names.iter().map(|flows| flows.iter().map(|_| None).collect()).collect();
    runs.each(0, |packet| {
        let RecordOutcome::Sent { end, .. } = packet.fate else { return };
        let (pipe, flow) = (packet.pipe.0 as usize, packet.flow.index());
        let name = &names[pipe][flow];
        let series = all[pipe][flow].get_or_insert_with(|| FlowSeries {
            flow: name.flow.clone(),
            up: name.way == "up",
            points: vec![FlentPoint::default(); count],
        });
        // Packets that leave after the end of the run are not counted.
        if let Some(point) = series.points.get_mut((end.0 / step) as usize) {
            point.bytes += u64::from(packet.bytes);
            point.delay += u128::from(end.0 - packet.arrival.0);
            point.packets += 1;
        }
    })?;
    let series: Vec<FlowSeries> = all.into_iter().flatten().flatten().collect();
    let text = serde_json::to_vec(&file(&series, runs, step, count))?;
    let mut out = GzEncoder::new(BufWriter::new(File::create(path)?), Compression::default());
    out.write_all(&text)?;
    out.finish()?.flush()?;
    Ok(())
}

fn file(series: &[FlowSeries], runs: &Runs<'_>, step: u64, count: usize) -> Value {
    let seconds = step as f64 / 1e9;
    let x: Vec<f64> = (0..count).map(|n| (n as f64 + 0.5) * seconds).collect();
    let (mut results, mut raw, mut meta) = (Map::new(), Map::new(), Map::new());
    // Times count from 1970, where the simulation starts too.
    let points = |values: &[Option<f64>]| -> Value {
        let known =
            x.iter().zip(values).filter_map(|(x, value)| Some(json!({ "t": x, "val": (*value)? })));
        known.collect()
    };
    let mut add = |name: String, values: Vec<Option<f64>>, units: &str| {
        let known: Vec<f64> = values.iter().copied().flatten().collect();
        let mean = if known.is_empty() {
            None
        } else {
            Some(known.iter().sum::<f64>() / known.len() as f64)
        };
        raw.insert(name.clone(), points(&values));
        meta.insert(name.clone(), json!({ "MEAN_VALUE": mean, "UNITS": units }));
        results.insert(name, json!(values));
    };
    let mut streams = Map::new();
    let mut who = Vec::new();
    for (way, key, up) in
        [("upload", "upload_streams", true), ("download", "download_streams", false)]
    {
        let ours: Vec<&FlowSeries> = series.iter().filter(|series| series.up == up).collect();
        streams.insert(key.into(), json!(ours.len().to_string()));
        let mut sum = vec![0.0; count];
        for (n, one) in ours.iter().enumerate() {
            let rates = one.rates(seconds);
            sum.iter_mut().zip(&rates).for_each(|(sum, rate)| *sum += rate);
            who.push(format!("TCP {way} BE::{} is {}", n + 1, one.flow));
            add(
                format!("TCP {way} BE::{}", n + 1),
                rates.into_iter().map(Some).collect(),
                "Mbits/s",
            );
        }
        if !ours.is_empty() {
            let mean = sum.iter().map(|sum| Some(sum / ours.len() as f64)).collect();
            add(format!("TCP {way} avg"), mean, "Mbits/s");
            add(format!("TCP {way} sum"), sum.into_iter().map(Some).collect(), "Mbits/s");
        }
    }
    let mut all = vec![(0.0, 0u32); count];
    for one in series {
        let delays = one.delays();
        for (all, delay) in all.iter_mut().zip(&delays) {
            if let Some(delay) = delay {
                *all = (all.0 + delay, all.1 + 1);
            }
        }
        add(format!("Ping (ms)::{}", one.flow), delays, "ms");
    }
    let mean = |&(sum, n): &(f64, u32)| (n > 0).then(|| sum / f64::from(n));
    add("Ping (ms) avg".into(), all.iter().map(mean).collect(), "ms");
    let duration = runs.duration.as_secs_f64();
    let began = "1970-01-01T00:00:00.000000Z";
    json!({
        "version": 3,
        "metadata": {
            "NAME": "rrul_be_nflows", "TITLE": "simulated by falaj", "TIME": began, "T0": began,
            "HOST": "simulated", "HOSTS": ["simulated"], "LOCAL_HOST": "simulated", "IP_VERSION": 4,
            "LENGTH": duration, "TOTAL_LENGTH": duration, "STEP_SIZE": seconds,
            "DATA_FILENAME": null,
            "FLENT_VERSION": null, "TEST_PARAMETERS": streams, "SERIES_META": meta,
            "NOTE": format!(
                "Delays are one way, in the queue only: from a packet's last bit in to its last bit out. Seed {}. {}",
                runs.scenario.run.seed,
                who.join("; ")
            ),
            "BATCH_NAME": null, "BATCH_TIME": null, "BATCH_TITLE": null, "BATCH_UUID": null,
        },
        "x_values": x,
        "results": results,
        "raw_values": raw,
    })
}
