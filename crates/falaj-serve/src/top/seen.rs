//! The displayed data of a link, independent of its source.

use crate::model::{Flow, Sample};
use falaj_control::protocol::{FlowReport, LinksReport};
use falaj_sched::registry;
use serde_json::Value as Json;

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ScreenDirection {
    /// Packets that adapters send.
    Up,
    /// Packets that adapters receive.
    Down,
}

/// A sample.
#[derive(Clone, Debug, Default)]
pub(super) struct ScreenSample {
    /// The name of the running link: a file, or a command.
    pub(super) about: String,
    /// Time since the link's start, in nanoseconds.
    pub(super) at: u64,
    pub(super) rows: Vec<ScreenRow>,
    /// True if delays are those of the last second, false if they are those since the start.
    pub(super) recent: bool,
}

/// A flow in one direction.
#[derive(Clone, Debug, Default)]
pub(super) struct ScreenRow {
    pub(super) up: bool,
    pub(super) link: String,
    /// The flow's name in the scenario; parts of a flow follow a `/`.
    pub(super) flow: String,
    /// The adapter of the flow, if the link is a service.
    pub(super) adapter: Option<String>,
    pub(super) paused: bool,
    /// True if the adapter's interface no longer exists and will not return.
    pub(super) gone: bool,
    /// Number of times since the start that the adapter used up its processor time in the link's
    /// thread.
    pub(super) held_back: u64,
    /// Packets of the adapter in this direction that were dropped for lack of packet memory, since
    /// the start.
    pub(super) no_memory: u64,
    pub(super) rate: Option<f64>,
    pub(super) guaranteed_rate: Option<u64>,
    pub(super) p99: Option<u64>,
    pub(super) max: Option<u64>,
    pub(super) bound: Option<u64>,
    /// Whether the guaranteed rate and the guaranteed delay are checked for each packet.
    pub(super) judged: [bool; 2],
    pub(super) backlog: u64,
    /// Packets dropped since the start.
    pub(super) dropped: u64,
    pub(super) broken: u64,
    pub(super) host: u64,
    pub(super) own: u64,
    /// The formula of the bound, or the reason why there is none.
    pub(super) why: Option<String>,
    /// The discipline that serves the flow, from the scenario.
    pub(super) kind: String,
    /// The key of the flow's weight, and the value.
    pub(super) weight: Option<(&'static str, u64)>,
    pub(super) cap: Option<String>,
}

impl ScreenSample {
    /// The sample of a service.
    pub(super) fn of_service(about: &str, sample: &Sample, scenario: &Json) -> ScreenSample {
        let mut rows = Vec::new();
        for adapter in &sample.adapters {
            for (up, flows) in [(true, &adapter.up), (false, &adapter.down)] {
                for flow in flows {
                    let mut row = of_flow(flow);
                    (row.up, row.paused, row.held_back) = (up, adapter.paused, adapter.held_back);
                    row.gone = adapter.gone;
                    row.no_memory = if up { adapter.no_memory.up } else { adapter.no_memory.down };
                    (row.link, row.adapter) = (adapter.link.clone(), Some(adapter.name.clone()));
                    row.configure(scenario);
                    rows.push(row);
                }
            }
        }
        ScreenSample { about: about.to_owned(), at: sample.at_ns, rows, recent: true }
    }

    /// The sample of any link.
    pub(super) fn of_link(about: &str, report: &LinksReport, scenario: &Json) -> ScreenSample {
        let mut rows = Vec::new();
        for link in &report.links {
            for direction in &link.directions {
                for flow in &direction.flows {
                    let mut row = of_report(flow);
                    (row.up, row.link) = (direction.way == "up", link.link.clone());
                    row.kind.clone_from(&direction.asked.scheduler);
                    row.configure(scenario);
                    rows.push(row);
                }
            }
        }
        ScreenSample { about: about.to_owned(), at: report.elapsed_ns, rows, recent: false }
    }
}

fn of_flow(flow: &Flow) -> ScreenRow {
    let delay = flow.window.as_ref().map(|window| &window.delay);
    ScreenRow {
        flow: flow.flow.clone(),
        rate: flow.window.as_ref().map(|window| window.sent),
        guaranteed_rate: flow.guarantee.rate,
        p99: delay.and_then(|delay| delay.p99_ns),
        max: delay.and_then(|delay| delay.max_ns),
        bound: flow.guarantee.delay_ns,
        judged: [flow.guarantee.judges_rate, flow.guarantee.judges_delay],
        backlog: flow.backlog,
        dropped: flow.total.dropped.values().sum(),
        broken: flow.breaches.guarantee + flow.breaches.rate,
        host: flow.breaches.host,
        own: flow.breaches.own_burst,
        why: flow.guarantee.formula.clone().or_else(|| flow.guarantee.none.clone()),
        ..ScreenRow::default()
    }
}

fn of_report(flow: &FlowReport) -> ScreenRow {
    let name = flow.flow.split_once(' ').map_or(flow.flow.as_str(), |(_, name)| name);
    ScreenRow {
        flow: name.to_owned(),
        rate: flow.rate,
        p99: flow.sojourn.p99_ns,
        max: flow.sojourn.max_ns,
        backlog: flow.backlog,
        dropped: flow.dropped.all(),
        ..ScreenRow::default()
    }
}

impl ScreenRow {
    /// Adds the flow's configuration from the scenario: its discipline, its weight, its cap.
    fn configure(&mut self, scenario: &Json) {
        let kind = |table: &Json| table["scheduler"]["kind"].as_str().map(str::to_owned);
        let link = &scenario["link"][&self.link];
        let way = &link[if self.up { "up" } else { "down" }];
        // The scheduler and flows of a direction take precedence over those of the link.
        let mut at = if way["flow"].is_null() { link } else { way };
        if let Some(kind) = kind(way).or_else(|| kind(link)) {
            self.kind = kind;
        }
        for (n, part) in self.flow.split('/').enumerate() {
            if n > 0 {
                self.kind = kind(at).unwrap_or_else(|| registry::DEFAULT.kind.into());
            }
            at = &at["flow"][part];
        }
        let manifest = registry::entry(&self.kind);
        let [weight, cap] =
            [manifest.and_then(|of| of.weight_key), manifest.and_then(|of| of.cap_key)];
        self.weight = weight.map(|key| (key, at[key].as_u64().unwrap_or(1)));
        self.cap = cap.and_then(|key| at[key].as_str()).map(str::to_owned);
    }
}
