//! Heist and Morton's tests of L4S: two connections through a bottleneck, with equal and with
//! unequal round trips.

use super::cell::{ConnectionGroup, PublishedValue, SharedCell, SharedQuantity};
use super::{CountedTime, SharingPaper};
use anyhow::{Context, Result, bail};
use falaj_sched::units::time::Span;

pub(in crate::reproduce) const L4S: SharingPaper = SharingPaper {
    name: "l4s",
    title: "Tests of L4S: fairness by round trip",
    source: "P. Heist and J. Morton, L4S Tests (2021, github.com/heistp/l4s-tests), Scenario 1 \
             Fairness Table",
    setting: "Linux of August 2020, in network namespaces: a sender, a bottleneck by HTB with the \
              queue of the cell, and delays after it. Two connections that ask for ECN send for \
              180 s. The table has the mean delivery rate of each in the 60 s that end 2 s before \
              the end, and Jain's index of both. Here the link has the queue's defaults of Linux, \
              frames have 1,514 bytes with 1,448 of payload, and acknowledgements take the round \
              trip. Rates are payload in these 60 s.",
    cells,
    quick: &[
        "10mbit-dualpi2-cubic80-cubic20",
        "10mbit-pfifo-cubic80-cubic20",
        "10mbit-fq_codel-cubic80-cubic",
    ],
    counted: CountedTime {
        from: Span::from_secs(118),
        to: Span::from_secs(178),
        divisor: Span::from_secs(60),
    },
    payload: 1448.0,
    known: include_str!("../../../data/l4s-known.json"),
};

/// A row of the table: rate in Mbit/s, queue; congestion control, round-trip time in ms and
/// delivery rate in Mbit/s of each connection; Jain's index.
type PrintedRow = (u64, String, String, u32, f64, String, u32, f64, f64);

fn cells() -> Result<Vec<SharedCell>> {
    let rows: Vec<PrintedRow> =
        serde_json::from_str(include_str!("../../../data/l4s.json")).context("the table")?;
    rows.into_iter().map(cell).collect()
}

fn cell(row: PrintedRow) -> Result<SharedCell> {
    let (rate, queue, first, first_trip, first_rate, second, second_trip, second_rate, jain) = row;
    let (scheduler, why) = match queue.as_str() {
        "dualpi2" | "fq_codel" => (format!("kind = \"{queue}\""), None),
        // The limits of the tests' batch file.
        "pfifo" => (format!("kind = \"fifo\", queue = \"{}p\"", 20 * rate), None),
        "cnq_codel_af" => (String::new(), Some("cnq_codel_af is a prototype of the authors")),
        _ => bail!("the table has no queue {queue}"),
    };
    let connections = [(&first, first_trip, first_rate), (&second, second_trip, second_rate)];
    let prague = connections.iter().any(|(control, ..)| *control == "prague");
    let why = why.or(prague.then_some(
        "falaj has no TCP Prague: DCTCP, which it has, neither paces nor evens out round trips",
    ));
    let group = |&(_, round_trip, _): &(&String, u32, f64)| ConnectionGroup {
        congestion: "cubic",
        number: 1,
        round_trip: f64::from(round_trip),
        ecn: "ect0",
        acknowledge: "second",
        window: "1GiB",
    };
    let value = |(index, &(control, round_trip, value)): (usize, &(&String, u32, f64))| {
        let nth = ["first", "second"][index];
        PublishedValue {
            statement: format!("{nth}, {control} at {round_trip} ms"),
            quantity: SharedQuantity::Goodput(index),
            value,
            rounded: 0.005,
        }
    };
    let index = PublishedValue {
        statement: "Jain's index".into(),
        quantity: SharedQuantity::Fairness,
        value: jain,
        rounded: 0.0005,
    };
    Ok(SharedCell {
        name: format!("{rate}mbit-{queue}-{first}{first_trip}-{second}{second_trip}"),
        why: why.map(str::to_owned),
        rate,
        frame: 1514,
        scheduler,
        queue: None,
        is_one_flow: false,
        groups: connections.iter().map(group).collect(),
        published: connections.iter().enumerate().map(value).chain([index]).collect(),
    })
}
