//! The results of compared flows, as a table and as JSON.

use super::KernelCase;
use super::compared::{ComparedFlow, DelayQuantiles, Passage, SamePackets};
use falaj_terminal::text;
use serde_json::{Value as Json, json};

/// Columns of the table.
const HEADER: [&str; 10] = [
    "flow",
    "",
    "arrived",
    "share",
    "delay p50, us",
    "p99",
    "max",
    "- kernel: p50, us",
    "p99",
    "max",
];

/// Nanoseconds as microseconds with one decimal, because small differences matter.
fn micros(nanos: i64) -> String {
    format!("{:.1}", nanos as f64 / 1000.0)
}

impl DelayQuantiles {
    fn all(self) -> [i64; 3] {
        [self.p50, self.p99, self.max].map(|nanos| nanos as i64)
    }
}

/// Differences of these delay quantiles from those of the kernel, in nanoseconds.
fn differences(passage: &Passage, kernel: &Passage) -> Option<[i64; 3]> {
    let (ours, theirs) = (passage.delays()?.all(), kernel.delays()?.all());
    Some([0, 1, 2].map(|n| ours[n] - theirs[n]))
}

pub(super) fn print(case: &KernelCase, flows: &[ComparedFlow]) {
    say!("{}", case.name);
    case.script
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .for_each(|line| say!("  {line}"));
    let lines = flows.iter().flat_map(|flow| {
        let line = |name: &str, way: &str, passage: &Passage, differences: Option<[i64; 3]>| {
            let percent = |part: f64| format!("{:.2} %", 100.0 * part);
            let times = |times: Option<[i64; 3]>| {
                times.map_or([(); 3].map(|()| text::DASH.into()), |times| times.map(micros))
            };
            let mut cells = vec![name.to_owned(), way.to_owned()];
            cells.push(percent(passage.arrived_part()));
            cells.push(percent(passage.share));
            cells.extend(times(passage.delays().map(DelayQuantiles::all)));
            cells.extend(times(differences));
            cells
        };
        let kernel = &flow.kernel;
        [
            line(&flow.name, "kernel", kernel, None),
            line("", "falaj", &flow.live, differences(&flow.live, kernel)),
            line("", "simulated", &flow.simulated, differences(&flow.simulated, kernel)),
        ]
    });
    say!("{}", text::table(&HEADER, lines));
    flows.iter().for_each(|flow| say!("{}: {}", flow.name, in_words(&flow.same)));
    say!("");
}

fn in_words(same: &SamePackets) -> String {
    let SamePackets { both, kernel_alone, live_alone, later } = same;
    let alone =
        format!("{kernel_alone} through the kernel alone, {live_alone} through falaj alone");
    match later {
        None => format!("no packet came through both, {alone}"),
        Some(later) => {
            let [least, median, most] = later.map(micros);
            format!(
                "{both} packets came through both, through falaj {least} to {most} us later, \
                 median {median}; {alone}"
            )
        }
    }
}

pub(super) fn to_json(flow: &ComparedFlow) -> Json {
    let passage = |passage: &Passage| {
        let delays = passage.delays().map(DelayQuantiles::all);
        let [p50, p99, max] = delays.map_or([None; 3], |all| all.map(Some));
        json!({
            "sent": passage.sent, "arrived": passage.arrived, "share": passage.share,
            "p50_ns": p50, "p99_ns": p99, "max_ns": max,
        })
    };
    let beside = |of: &Passage| {
        let differences = differences(of, &flow.kernel);
        let [p50, p99, max] = differences.map_or([None; 3], |all| all.map(Some));
        let mut json = passage(of);
        json["minus_kernel"] = json!({ "p50_ns": p50, "p99_ns": p99, "max_ns": max });
        json
    };
    let SamePackets { both, kernel_alone, live_alone, later } = flow.same;
    let [least, median, most] = later.map_or([None; 3], |all| all.map(Some));
    json!({
        "flow": flow.name,
        "kernel": passage(&flow.kernel),
        "falaj": beside(&flow.live),
        "simulated": beside(&flow.simulated),
        "same_packets": {
            "both": both, "kernel_alone": kernel_alone, "falaj_alone": live_alone,
            "falaj_later": { "least_ns": least, "median_ns": median, "most_ns": most },
        },
    })
}
