//! `falaj show`: shows the state of a running link.

use anyhow::{Result, bail};
use falaj_control::client::{Client, LinkSelection, add_rates};
use falaj_control::masks;
use falaj_control::protocol::{
    DirectionReport, FlowReport, LinksReport, RequestedLink, RuleReport,
};
use falaj_sched::contract::breach::Breach;
use falaj_sched::units::time::Time;
use falaj_terminal::output::print;
use falaj_terminal::text;
use falaj_terminal::text::DASH;
use serde_json::json;
use std::fmt::Write;
use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `show`.
#[derive(clap::Args)]
#[command(after_help = "\
NAME is a link, one of its directions (up, link.up) or a flow (voice, up.voice). Current rates are
those of the last quarter of a second, or with --watch since the previous output; counts and delays
are since the start. The sojourn time of a packet is from its last bit into the queue to its last
bit out of it.

Examples:
  falaj show
  falaj show up --watch
  falaj show voice --json --histogram
  falaj show --toml > now.toml")]
pub(crate) struct Args {
    /// A link, a direction of it, or a flow [default: all].
    name: Option<String>,
    /// Update every second, until Ctrl-C.
    #[arg(short, long)]
    watch: bool,
    /// Print JSON; with --watch, one line per update.
    #[arg(long)]
    json: bool,
    /// Include complete histograms of the sojourn time in the JSON.
    #[arg(long, requires = "json")]
    histogram: bool,
    /// Print the current scenario as a file.
    #[arg(long, conflicts_with_all = ["json", "watch", "name"])]
    toml: bool,
    #[command(flatten)]
    which: LinkSelection,
}

/// Time between the first two reports, from which the current rates are computed.
const LOOK: Duration = Duration::from_millis(250);
/// Time between two updates with `--watch`.
const WATCH: Duration = Duration::from_secs(1);

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let mut client = args.which.connect()?;
    if args.toml {
        let now: falaj_control::protocol::ScenarioAnswer = client.must("scenario", json!({}))?;
        print(&now.toml);
        return Ok(ExitCode::SUCCESS);
    }
    let look = |client: &mut Client, histograms: bool| -> Result<LinksReport> {
        client.must("show", json!({ "histograms": histograms }))
    };
    let mut before = look(&mut client, false)?;
    std::thread::sleep(LOOK);
    if !args.watch {
        let mut report = look(&mut client, args.histogram)?;
        only(&mut report, args.name.as_deref())?;
        add_rates(&mut report, &before);
        if args.json {
            say!("{}", serde_json::to_string_pretty(&report)?);
        } else {
            client.tell();
            print(&text(&report));
        }
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        let Ok(mut report) = look(&mut client, args.histogram) else {
            note!("the link is gone");
            return Ok(ExitCode::SUCCESS);
        };
        let whole = report.clone();
        only(&mut report, args.name.as_deref())?;
        add_rates(&mut report, &before);
        before = whole;
        if args.json {
            say!("{}", serde_json::to_string(&report)?);
        } else {
            let clear = if stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
            print(&format!("{clear}{}", text(&report)));
        }
        std::thread::sleep(WATCH);
    }
}

/// Keeps only the links, directions and flows that the name selects. Other parts of the report
/// stay.
fn only(report: &mut LinksReport, name: Option<&str>) -> Result<()> {
    let Some(name) = name else { return Ok(()) };
    let mut known = Vec::new();
    for link in &mut report.links {
        known.push(link.link.clone());
        let is_link = name == link.link;
        for direction in &mut link.directions {
            let way = direction.way.clone();
            known.push(format!("{}.{way}", link.link));
            let is_way = is_link || name == way || name == format!("{}.{way}", link.link);
            let is_flow = |flow: &str| {
                let own = flow.split_once(' ').map_or("", |(_, own)| own);
                name == own
                    || name == format!("{way}.{own}")
                    || name == format!("{}.{way}.{own}", link.link)
            };
            direction.flows.retain(|flow| {
                known.push(flow.flow.replacen(' ', ".", 1));
                is_way || is_flow(&flow.flow)
            });
            direction.masks.retain(|made| is_way || made.flow.as_deref().is_some_and(is_flow));
        }
        link.directions.retain(|direction| !direction.flows.is_empty());
    }
    report.links.retain(|link| !link.directions.is_empty());
    if report.links.is_empty() {
        bail!("there is no `{name}`; there are `{}`", known.join("`, `"));
    }
    Ok(())
}

fn text(report: &LinksReport) -> String {
    let header = [
        "flow",
        "packets",
        "bytes",
        "rate now",
        "dropped",
        "lost",
        "waiting",
        "max",
        "sojourn p50",
        "p99",
        "max",
        "last",
    ];
    let directions =
        || report.links.iter().flat_map(|link| link.directions.iter().map(move |d| (link, d)));
    let nanos = |ns: Option<u64>| ns.map_or(DASH.into(), |ns| text::nanos(ns as f64));
    // Flow names are unique only within a link.
    let several = report.links.len() > 1;
    let named = |link: &str, flow: &FlowReport| {
        if several { format!("{link} {}", flow.flow) } else { flow.flow.clone() }
    };
    let row = |link: &str, flow: &FlowReport| {
        vec![
            named(link, flow),
            flow.sent.to_string(),
            text::bytes(flow.sent_bytes as f64),
            flow.rate.map_or(DASH.into(), text::rate),
            flow.dropped.all().to_string(),
            flow.lost.to_string(),
            flow.backlog.to_string(),
            flow.max_backlog.to_string(),
            nanos(flow.sojourn.p50_ns),
            nanos(flow.sojourn.p99_ns),
            nanos(flow.sojourn.max_ns),
            flow.idle_ns.map_or("never".into(), |ns| format!("{} ago", text::nanos(ns as f64))),
        ]
    };
    let mut out = String::new();
    // Writing to a string never fails.
    for (link, DirectionReport { way, asked, total, .. }) in directions() {
        let RequestedLink { rate, delay_ns, scheduler, impairments } = asked;
        let rate = rate.map_or("unlimited".into(), |rate| text::rate(rate as f64));
        let mut words = vec![rate, text::nanos(*delay_ns as f64), scheduler.clone()];
        words.extend(impairments.iter().cloned());
        let now = total.rate.map_or(DASH.into(), text::rate);
        let _ = writeln!(
            out,
            "{} {way}: {}; now {now}, {} waiting",
            link.link,
            words.join(", "),
            total.backlog
        );
    }
    let _ = writeln!(
        out,
        "{}",
        text::table(
            &header,
            directions().flat_map(|(link, d)| d.flows.iter().map(|flow| row(&link.link, flow)))
        )
    );
    for (link, flow) in
        directions().flat_map(|(link, d)| d.flows.iter().map(move |flow| (link, flow)))
    {
        let d = &flow.dropped;
        let reasons = [
            (d.queue_full, "found the queue full"),
            (d.too_large, "were too large"),
            (d.discipline, "were dropped by the discipline"),
            (d.policy, "were dropped by the queue's policy"),
            (flow.marked, "were marked"),
            (d.changed, "did not fit any more after a change"),
            (flow.duplicated, "arrived twice"),
            (flow.corrupted, "arrived with a flipped bit"),
            (flow.reordered, "overtook others"),
            (flow.not_taken, "were not accepted by the far end"),
        ];
        let told: Vec<String> =
            reasons.iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{n} {why}")).collect();
        if !told.is_empty() {
            let _ = writeln!(out, "{}: {}", named(&link.link, flow), told.join(", "));
        }
    }
    for (link, direction) in directions() {
        for made in &direction.masks {
            let name = made.flow.as_ref().unwrap_or(&direction.way);
            let name = if several { format!("{} {name}", link.link) } else { name.clone() };
            let _ = writeln!(out, "{}", masks::text(&name, made));
        }
    }
    if !report.rules.is_empty() {
        let header = [
            "rule",
            "packets",
            "bytes (IP)",
            "rate now",
            "dropped",
            "lost",
            "sojourn p50 <=",
            "p99 <=",
            "max",
            "last",
        ];
        let row = |rule: &RuleReport| {
            vec![
                rule.rule.clone(),
                rule.packets.to_string(),
                rule.bytes.to_string(),
                rule.rate.map_or(DASH.into(), text::rate),
                rule.dropped.to_string(),
                rule.lost.to_string(),
                nanos(rule.sojourn.p50_ns),
                nanos(rule.sojourn.p99_ns),
                nanos(rule.sojourn.max_ns),
                rule.idle_ns.map_or("never".into(), |ns| format!("{} ago", text::nanos(ns as f64))),
            ]
        };
        let _ = writeln!(out, "{}", text::table(&header, report.rules.iter().map(row)));
    }
    let gone = &report.gone;
    if gone.offered > 0 {
        let (dropped, lost) = (gone.dropped.all(), gone.lost);
        let _ = writeln!(
            out,
            "removed links: {} packets sent, {dropped} dropped, {lost} lost, {} still waiting",
            gone.sent, gone.backlog
        );
    }
    for (link, direction) in directions() {
        for broken in direction.breaches.clone() {
            let (at, instead) = (Time(broken.at_ns), broken.packets_by_turns);
            let breach = Breach {
                library: broken.library,
                what: broken.what,
                at,
                times: broken.times,
                instead,
            };
            let _ = writeln!(out, "{} {}: {breach}", link.link, direction.way);
        }
    }
    for elsewhere in &report.lost_elsewhere {
        let _ = writeln!(out, "{} {}", elsewhere.count, elsewhere.what);
    }
    out
}
