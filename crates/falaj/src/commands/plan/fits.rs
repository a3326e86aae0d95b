//! `plan fits`: checks whether all flows with a requirement fit on the link, and how many more
//! copies of a flow would fit.

use anyhow::{Context, Result};
use falaj_plan::standing::{Standing, standings};
use falaj_scenario::{Direction, Scenario, Towards};
use falaj_sched::units::rate::Rate;
use falaj_terminal::{file, text};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use toml_edit::{DocumentMut, Item, Table};

/// Arguments of `plan fits`.
#[derive(clap::Args)]
#[command(after_help = "\
The requirements (`requires`) of each flow are compared with its guarantee, for any traffic of the
other flows, or within the envelopes that all flows declare.

Exit status: 0 all fit; 1 one does not; 2 the input is invalid.

Examples:
  falaj plan fits service.toml
  falaj plan fits service.toml --more web")]
pub(crate) struct Args {
    /// Scenario file, or file of a service.
    file: PathBuf,
    /// Find how many more copies of this flow would fit.
    #[arg(long, value_name = "FLOW")]
    more: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Maximum number of copies tried.
const MOST: usize = 1024;

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    let (name, text) = file::text(&args.file)?;
    let scenario = file::parse(&text, &name)?;
    let all = standings(&scenario)?;
    let more =
        args.more.as_deref().map(|flow| room_for(&text, &name, &scenario, flow)).transpose()?;
    let refused = all.iter().flatten().any(|standing| standing.refused.is_some());
    let ways = || {
        scenario
            .links
            .iter()
            .flat_map(|link| [(link, Towards::Up), (link, Towards::Down)])
            .zip(&all)
    };
    if args.json {
        let directions = ways().map(|((link, towards), flows)| {
            let flows: Vec<_> = flows.iter().filter(|flow| asks(flow)).map(to_json).collect();
            json!({
                "link": link.name, "direction": called(towards), "flows": flows, "room_for": more,
            })
        });
        say!(
            "{}",
            serde_json::to_string_pretty(
                &json!({ "fits": !refused, "directions": directions.collect::<Vec<_>>() })
            )?
        );
    } else {
        for ((link, towards), flows) in ways() {
            print(&link.name, towards, link.direction(towards), flows);
        }
        if let (Some(flow), Some(more)) = (&args.more, more) {
            let so_many =
                if more == MOST { format!("{MOST} and more") } else { format!("{more} more") };
            let flows = if more == 1 { "flow" } else { "flows" };
            say!("room for {so_many} {flows} like {flow}");
        }
    }
    Ok(if refused { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn called(towards: Towards) -> &'static str {
    if towards == Towards::Up { "up" } else { "down" }
}

fn asks(standing: &Standing) -> bool {
    standing.requires.rate.is_some() || standing.requires.delay.is_some()
}

fn print(link: &str, towards: Towards, direction: &Direction, flows: &[Standing]) {
    let asking: Vec<&Standing> = flows.iter().filter(|flow| asks(flow)).collect();
    let fitting = asking.iter().filter(|flow| flow.refused.is_none()).count();
    let asked: u64 = asking
        .iter()
        .filter_map(|flow| flow.requires.rate)
        .map(|rate| rate.0)
        .fold(0, u64::saturating_add);
    let rate = direction.pipe.setup.rate;
    let of = if rate.is_unlimited() {
        String::new()
    } else {
        format!(", {} of it required", text::percent(asked, rate.0))
    };
    say!(
        "link {link} {}: {}{of}; {fitting} of {} fit",
        called(towards),
        text::link_rate(rate),
        asking.len()
    );
    let rate = |rate: Option<Rate>| rate.map_or(text::DASH.into(), text::link_rate);
    let rows = asking.iter().map(|flow| {
        vec![
            flow.flow.clone(),
            rate(flow.requires.rate),
            rate(flow.rate.map(|(rate, _)| rate)),
            flow.requires.delay.map_or(text::DASH.into(), |delay| delay.to_string()),
            flow.delay.as_ref().map_or(text::DASH.into(), |(delay, _)| text::nanos(delay.0 as f64)),
            if flow.refused.is_none() { "yes" } else { "no" }.into(),
        ]
    });
    say!(
        "{}",
        text::table(
            &[
                "flow",
                "required rate",
                "guaranteed rate",
                "required delay",
                "guaranteed delay",
                "fits"
            ],
            rows
        )
    );
    for flow in asking {
        if let Some((what, help)) = &flow.refused {
            say!("  {}: {what}; {help}", flow.flow);
        }
        if let Some(why) = &flow.none {
            say!("  {}: nothing is guaranteed: {why}", flow.flow);
        }
    }
}

fn to_json(flow: &Standing) -> serde_json::Value {
    json!({
        "flow": flow.flow, "requires": {
            "rate": flow.requires.rate.map(|rate| rate.0),
            "delay_ns": flow.requires.delay.map(|delay| delay.0),
        },
        "rate": flow.rate.map(|(rate, _)| rate.0),
        "delay_ns": flow.delay.as_ref().map(|(delay, _)| delay.0),
        "none": flow.none, "fits": flow.refused.is_none(),
        "what": flow.refused.as_ref().map(|(what, _)| what),
        "help": flow.refused.as_ref().map(|(_, help)| help),
    })
}

/// Returns how many copies of a flow can be added beside it before the guarantee of some flow falls
/// below its requirement.
fn room_for(text: &str, name: &str, scenario: &Scenario, flow: &str) -> Result<usize> {
    let link =
        scenario.links.iter().find(|link| link.up.flows.iter().any(|known| known.name == flow));
    let link =
        link.with_context(|| format!("--more: no link has a flow {flow} of its own"))?.name.clone();
    let file: DocumentMut = text.parse().context("the scenario is not valid TOML")?;
    let nowhere =
        || format!("--more: there is no [link.{link}.flow.{flow}], so there is nothing to copy");
    let with = |copies: usize| -> Result<bool> {
        let mut file = file.clone();
        let flows = file["link"][&link]["flow"].as_table_like_mut().with_context(nowhere)?;
        let like = flows.get(flow).cloned().with_context(nowhere)?;
        // The copies are inserted directly before the flow. Their position matters: flows further
        // down the list may get only the capacity that earlier flows leave.
        let before: Vec<(String, Item)> =
            flows.iter().map(|(name, item)| (name.to_owned(), item.clone())).collect();
        let mut all = Table::new();
        for (known, item) in before {
            for n in 0..if known == flow { copies } else { 0 } {
                let mut copy = like.clone();
                if let Some(port) =
                    copy.as_table_like_mut().and_then(|copy| copy.get_mut("adapter"))
                {
                    *port = toml_edit::value("namespace");
                }
                all.insert(&format!("{known}_{n}"), copy);
            }
            all.insert(&known, item);
        }
        file["link"][&link]["flow"] = Item::Table(all);
        // If the discipline refuses this number of flows, the copies do not fit.
        let Ok((scenario, _)) = falaj_scenario::parse(&file.to_string(), name) else {
            return Ok(false);
        };
        Ok(standings(&scenario)?.iter().flatten().all(|standing| standing.refused.is_none()))
    };
    let (mut fits, mut too_many) = (0, 1);
    while too_many <= MOST && with(too_many)? {
        (fits, too_many) = (too_many, 2 * too_many);
    }
    while too_many - fits > 1 && fits < MOST {
        let middle = fits + (too_many - fits) / 2;
        *(if with(middle)? { &mut fits } else { &mut too_many }) = middle;
    }
    Ok(fits)
}
