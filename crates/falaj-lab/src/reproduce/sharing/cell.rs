//! A cell of a table: a link that connections share, with the published values.

use super::SharingPaper;
use anyhow::{Result, anyhow};
use falaj_sched::units::time::Span;
use falaj_sim::scenario::experiment;
use falaj_sim::{Experiment, Run, simulate};
use falaj_terminal::file;
use serde::Serialize;
use std::fmt::Write;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

/// A cell of the table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct SharedCell {
    /// The cell's name, as `--only` accepts it.
    pub(super) name: String,
    /// The reason why the cell is not judged.
    pub(super) why: Option<String>,
    /// The link's rate, in Mbit/s.
    pub(super) rate: u64,
    /// Bytes of a full frame.
    pub(super) frame: u32,
    /// The link's scheduler, as in a scenario.
    pub(super) scheduler: String,
    /// The queue of each flow, as in a scenario; `None`: the scheduler's own queue.
    pub(super) queue: Option<String>,
    /// True if all connections are one flow, whose queue and policy they share.
    pub(super) is_one_flow: bool,
    /// The groups of equal connections, in the order of the table.
    pub(super) groups: Vec<ConnectionGroup>,
    pub(super) published: Vec<PublishedValue>,
}

/// Equal connections.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ConnectionGroup {
    pub(super) congestion: &'static str,
    pub(super) number: u32,
    /// The round trip without queues, in ms.
    pub(super) round_trip: f64,
    /// ECN bits of the group's packets: `no` or `ect0`.
    pub(super) ecn: &'static str,
    /// The segments that are acknowledged: `each` or every `second` one.
    pub(super) acknowledge: &'static str,
    /// Receive window of the group's connections, as in a scenario.
    pub(super) window: &'static str,
}

/// A published value of a cell.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PublishedValue {
    pub(super) statement: String,
    pub(super) quantity: SharedQuantity,
    pub(super) value: f64,
    /// Half a unit of the value's last printed digit.
    pub(super) rounded: f64,
}

/// A measured quantity; the number in it is the index of a group.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SharedQuantity {
    /// Payload that a group delivers, in Mbit/s.
    Goodput(usize),
    /// Payload that all connections deliver, in Mbit/s.
    AllGoodput,
    /// Whole frames that leave the link, in Mbit/s.
    Throughput,
    /// Jain's index of the payload of each connection.
    Fairness,
    /// Mean time that packets of a group wait before their transmission, in ms; that of all packets
    /// if all connections are one flow.
    Wait(usize),
}

impl SharedQuantity {
    pub(super) fn unit(self) -> &'static str {
        match self {
            SharedQuantity::Fairness => "",
            SharedQuantity::Wait(_) => "ms",
            _ => "Mbit/s",
        }
    }
}

impl SharedCell {
    /// The cell as a scenario.
    pub(super) fn scenario(&self, duration: Span, seed: u64) -> String {
        let mut text = format!(
            "# {}\n[link.x]\nrate = \"{}mbit\"\nscheduler = {{ {} }}\n\n",
            self.name, self.rate, self.scheduler
        );
        let connections = self.connections();
        // Unless all connections are one flow, each connection has a flow of its own, so that its
        // packets are counted separately. The last flow takes all other packets, because each link
        // needs such a flow.
        let last = connections.len() - 1;
        let only = self.is_one_flow.then_some("all");
        for (number, (name, _)) in connections.iter().enumerate() {
            if only.is_none() && number < last {
                let port = 5001 + number;
                let _ = writeln!(text, "[link.x.flow.{name}]\nmatch = \"tcp dport {port}\"");
            }
        }
        let rest = only.unwrap_or(&connections[last].0);
        let _ = writeln!(text, "[link.x.flow.{rest}]\nmatch = \"any\"");
        if let Some(queue) = &self.queue {
            let _ = writeln!(text, "queue = {queue}");
        }
        for (name, group) in &connections {
            let ConnectionGroup { congestion, round_trip, ecn, acknowledge, window, .. } = group;
            let _ = write!(
                text,
                "\n[traffic.{name}]\nlink = \"x\"\nflow = \"{}\"\nmodel = \"tcp\"\n\
                 congestion = \"{congestion}\"\nsize = \"{}B\"\nreturn = \"{}us\"\n\
                 window = \"{window}\"\nacknowledge = \"{acknowledge}\"\necn = \"{ecn}\"\n",
                only.unwrap_or(name),
                self.frame,
                (1e3 * round_trip).round(),
            );
        }
        let _ = write!(
            text,
            "\n[run]\nduration = \"{}ms\"\nseed = {seed}\nreplications = 1\n",
            duration.0 / 1_000_000
        );
        text
    }

    /// The connections in order, each with its name and its group.
    fn connections(&self) -> Vec<(String, &ConnectionGroup)> {
        let numbered = ('a'..).zip(&self.groups);
        numbered
            .flat_map(|(letter, group)| {
                (1..=group.number).map(move |k| (format!("{letter}{k}"), group))
            })
            .collect()
    }

    /// The indexes of a group's connections in the list of all connections.
    fn members(&self, group: usize) -> Range<usize> {
        let before: u32 = self.groups[..group].iter().map(|group| group.number).sum();
        before as usize..(before + self.groups[group].number) as usize
    }

    /// Simulates the cell. Returns a value for each published value.
    pub(super) fn simulate(
        &self,
        paper: &SharingPaper,
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<Vec<f64>> {
        let text = self.scenario(paper.counted.to, seed);
        let scenario = file::parse_quietly(&text, "cell")?;
        let whole = experiment(&scenario, paper.counted.to);
        let counted = Experiment { warm_up: paper.counted.from, ..whole };
        let run = simulate(&counted, seed, stop)
            .map_err(|(_, errors)| anyhow!("{}: {errors:?}", self.name))?;
        Ok(self.published.iter().map(|value| self.measured(value.quantity, paper, &run)).collect())
    }

    fn measured(&self, quantity: SharedQuantity, paper: &SharingPaper, run: &Run) -> f64 {
        let seconds = paper.counted.divisor.as_secs_f64();
        let rate = |bytes: u64| bytes as f64 * 8.0 / seconds / 1e6;
        let flows = &run.pipes[0];
        let mut bytes = vec![0; self.connections().len()];
        for (source, transfers) in &run.connections {
            bytes[*source] = transfers.bytes;
        }
        // The model counts each frame, except 54 bytes of headers, as payload.
        let counted = paper.payload / f64::from(self.frame - 54);
        match quantity {
            SharedQuantity::Goodput(group) => {
                rate(bytes[self.members(group)].iter().sum()) * counted
            }
            SharedQuantity::AllGoodput => rate(bytes.iter().sum()) * counted,
            SharedQuantity::Throughput => {
                rate(flows.iter().map(|flow| flow.counters.delivered_bytes()).sum())
            }
            SharedQuantity::Fairness => {
                let bytes = || bytes.iter().map(|&bytes| bytes as f64);
                let squares: f64 = bytes().map(|bytes| bytes * bytes).sum();
                bytes().sum::<f64>().powi(2) / squares / bytes().count() as f64
            }
            SharedQuantity::Wait(group) => {
                let of = if self.is_one_flow { 0..1 } else { self.members(group) };
                let (mut sum, mut count) = (0.0, 0);
                for delay in flows[of].iter().map(|flow| &flow.delay) {
                    sum += delay.mean_nanos().unwrap_or(0.0) * delay.count() as f64;
                    count += delay.count();
                }
                let transmission = f64::from(self.frame) * 8.0 / self.rate as f64 / 1e3;
                sum / count as f64 / 1e6 - transmission
            }
        }
    }
}
