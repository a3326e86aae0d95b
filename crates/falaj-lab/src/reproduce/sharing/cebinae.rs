//! Table 2 of Cebinae: up to 129 connections through a FIFO, through fair queueing, and through
//! the paper's own scheduler.

use super::cell::{ConnectionGroup, PublishedValue, SharedCell, SharedQuantity};
use super::{CountedTime, SharingPaper};
use anyhow::{Context, Result};
use falaj_sched::units::time::Span;

pub(in crate::reproduce) const CEBINAE: SharingPaper = SharingPaper {
    name: "cebinae",
    title: "Cebinae: fairness of many connections",
    source: "L. Yu, J. Sonchack and V. Liu, Cebinae: Scalable In-network Fairness Augmentation \
             (SIGCOMM 2022), Table 2, as github.com/eniac/Cebinae prints it (ns/index/tbl2)",
    setting: "The paper simulates a dumbbell in ns-3.35 for 100 s, with one seed. Groups of \
              connections, named by number, control and round trip in ms, begin after 1 s; frames \
              have 1,494 bytes with 1,440 of payload, each is acknowledged, and windows end at \
              2 MiB. Its rates are the bytes of 98 s divided by 99 s, which is kept here. Its FIFO \
              stands before a device's queue of 100 packets (10 in row 11), which is part of the \
              queue here; before its FQ-CoDel falaj has no such device. FQ-CoDel has 65,536 \
              queues here.",
    cells,
    quick: &["r0-"],
    counted: CountedTime {
        from: Span::ZERO,
        to: Span::from_secs(98),
        divisor: Span::from_secs(99),
    },
    payload: 1440.0,
    known: include_str!("../../../data/cebinae-known.json"),
};

/// Throughput and goodput in Mbit/s, and Jain's index.
type PrintedResult = (f64, f64, f64);
/// A row of the table: rate in Mbit/s; limits in packets of the queue and of the device's queue;
/// congestion control, number and round-trip time in ms of each group; results of FIFO, fair
/// queueing and Cebinae.
type PrintedRow =
    (u64, u32, u32, Vec<(String, u32, f64)>, PrintedResult, PrintedResult, PrintedResult);

fn cells() -> Result<Vec<SharedCell>> {
    let rows: Vec<PrintedRow> =
        serde_json::from_str(include_str!("../../../data/cebinae.json")).context("Table 2")?;
    Ok(rows.iter().enumerate().flat_map(|(number, row)| of_row(number, row)).collect())
}

/// The three cells of a row.
fn of_row(number: usize, row: &PrintedRow) -> [SharedCell; 3] {
    let (rate, limit, device, groups, fifo, fair, cebinae) = row;
    let names: Vec<String> = groups
        .iter()
        .map(|(control, number, trip)| format!("{number}{}{trip}", control.to_lowercase()))
        .collect();
    let missing = groups.iter().find(|(control, ..)| congestion(control).is_none());
    let of_control = missing.map(|(control, ..)| format!("falaj has no model of TCP {control}"));
    let group = |(control, number, round_trip): &(String, u32, f64)| ConnectionGroup {
        congestion: congestion(control).unwrap_or("reno"),
        number: *number,
        round_trip: *round_trip,
        ecn: "no",
        acknowledge: "each",
        window: "2MiB",
    };
    let cell = |queue: &str, scheduler: String, why: Option<String>, result: &PrintedResult| {
        let value = |statement: &str, quantity, value, rounded| PublishedValue {
            statement: statement.into(),
            quantity,
            value,
            rounded,
        };
        let (throughput, goodput, fairness) = *result;
        SharedCell {
            name: format!("r{number}-{queue}-{}", names.join("-")),
            why,
            rate: *rate,
            frame: 1494,
            scheduler,
            queue: None,
            is_one_flow: false,
            groups: groups.iter().map(group).collect(),
            published: vec![
                value("throughput", SharedQuantity::Throughput, throughput, 5e-7),
                value("goodput", SharedQuantity::AllGoodput, goodput, 5e-7),
                value("Jain's index", SharedQuantity::Fairness, fairness, 0.0005),
            ],
        }
    };
    let own = "the scheduler of the paper, for a switch's hardware, is not in falaj".to_owned();
    let plain = format!("kind = \"fifo\", queue = \"{}p\"", limit + device);
    let queues = format!("kind = \"fq_codel\", limit = {limit}, queues = 65536");
    [
        cell("fifo", plain, of_control.clone(), fifo),
        cell("fq", queues, of_control, fair),
        cell("cebinae", String::new(), Some(own), cebinae),
    ]
}

/// The name in a scenario of a congestion control of ns-3; `None` if falaj has no model of it.
fn congestion(control: &str) -> Option<&'static str> {
    match control {
        "NewReno" => Some("reno"),
        "Cubic" => Some("cubic"),
        "Bbr" => Some("bbr"),
        _ => None,
    }
}
