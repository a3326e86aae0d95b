//! Albisser's experiments on DualPI2: a connection with ECN beside one without ECN, for
//! combinations of two round-trip times.

use super::cell::{ConnectionGroup, PublishedValue, SharedCell, SharedQuantity};
use super::{CountedTime, SharingPaper};
use anyhow::{Context, Result, bail};
use falaj_sched::units::time::Span;

pub(in crate::reproduce) const DUALQ: SharingPaper = SharingPaper {
    name: "dualq",
    title: "DualPI2, PIE and FQ-CoDel with mixed round trips",
    source: "O. Albisser, evaluation of DualPI2 (2021-2022, github.com/olgaalb/dualpi2eval), \
             exp_source_main, *_res_mr: avgrate_* and stat_qs_* of each mix",
    setting: "Linux 5.10 on five machines: a router with a link of 40 Mbit/s, PIE (target 15 ms, \
              update 16 ms, ECN) or FQ-CoDel with its defaults. A CUBIC connection with ECN, of 5 \
              or 100 ms, is alone or beside one without ECN, CUBIC or Reno. Each mix is measured \
              for 250 s: rates of IP packets, which are printed there in bytes a second, and the \
              mean time that packets wait. In PIE's single queue both wait alike here. Our runs \
              count 250 s after 20 s.",
    cells,
    quick: &["pie-cubic5-cubic20", "fq_codel-cubic5-reno20"],
    counted: CountedTime {
        from: Span::from_secs(20),
        to: Span::from_secs(270),
        divisor: Span::from_secs(250),
    },
    payload: 1500.0,
    known: include_str!("../../../data/dualq-known.json"),
};

/// A connection: its congestion control, round-trip time in ms, rate in bytes/s, and mean wait in
/// ms.
type PrintedConnection = (String, u32, f64, f64);
/// A mix: its queue, both connections, and the congestion control of the second one even if that
/// connection is absent.
type PrintedMix = (String, PrintedConnection, Option<PrintedConnection>, String);

const PIE: &str =
    "{ limit = \"1000p\", policy = \"pie\", target = \"15ms\", update = \"16ms\", ecn = \"yes\" }";

fn cells() -> Result<Vec<SharedCell>> {
    let mixes: Vec<PrintedMix> =
        serde_json::from_str(include_str!("../../../data/dualq.json")).context("the mixes")?;
    mixes.into_iter().map(cell).collect()
}

fn cell((queue, first, second, beside): PrintedMix) -> Result<SharedCell> {
    let is_pie = queue == "pie";
    let scheduler = match queue.as_str() {
        "pie" => "fifo",
        "fq_codel" | "dualpi2" => queue.as_str(),
        _ => bail!("the table has no queue {queue}"),
    };
    let connections: Vec<PrintedConnection> = [Some(first), second].into_iter().flatten().collect();
    let why = connections.iter().any(|(control, ..)| control == "prague").then(|| {
        "falaj has no TCP Prague: DCTCP, which it has, neither paces nor evens out round trips"
            .to_owned()
    });
    let alone = if connections.len() == 1 { format!("-alone-of-{beside}") } else { String::new() };
    let names: Vec<String> =
        connections.iter().map(|(control, trip, ..)| format!("{control}{trip}")).collect();
    let group = |(index, (control, round_trip, ..)): (usize, &PrintedConnection)| ConnectionGroup {
        congestion: if control == "reno" { "reno" } else { "cubic" },
        number: 1,
        round_trip: f64::from(*round_trip),
        ecn: if index == 0 { "ect0" } else { "no" },
        acknowledge: "second",
        window: "1GiB",
    };
    let values = |(index, (control, trip, rate, wait)): (usize, &PrintedConnection)| {
        let of = format!("{control} with{} ECN at {trip} ms", if index == 0 { "" } else { "out" });
        [
            PublishedValue {
                statement: format!("rate of {of}"),
                quantity: SharedQuantity::Goodput(index),
                value: rate * 8.0 / 1e6,
                rounded: 4e-6,
            },
            PublishedValue {
                statement: format!("mean wait of {of}"),
                quantity: SharedQuantity::Wait(index),
                value: *wait,
                rounded: 5e-5,
            },
        ]
    };
    Ok(SharedCell {
        name: format!("{queue}-{}{alone}", names.join("-")),
        why,
        rate: 40,
        frame: 1514,
        scheduler: format!("kind = \"{scheduler}\""),
        queue: is_pie.then(|| PIE.to_owned()),
        is_one_flow: is_pie,
        groups: connections.iter().enumerate().map(group).collect(),
        published: connections.iter().enumerate().flat_map(values).collect(),
    })
}
