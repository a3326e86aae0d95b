//! `plan saihu`: computes bounds for a network in the file format of Saihu's tools.

use super::method::Method;
use anyhow::{Result, anyhow};
use falaj_plan::saihu;
use falaj_terminal::{file, text};
use falaj_theory::network::{Circle, Order};
use falaj_theory::{Curve, Exact, float};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `plan saihu`.
#[derive(clap::Args)]
#[command(after_help = "\
Saihu is a common interface to several tools that compute bounds. Its files have servers with
service curves, and flows with arrival curves and paths. `falaj plan FILE --saihu OUT.json` writes
such a file.

Exit status: 0; 2 if the input is invalid, or the paths of flows form a circle without a bound.

Examples:
  falaj plan saihu network.json
  falaj plan saihu network.json --method linear")]
pub(crate) struct Args {
    /// An output-port network, `*.json`.
    file: PathBuf,
    /// Show only this bound.
    #[arg(long, value_name = "NAME")]
    method: Option<Method>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    let (name, text) = file::text(&args.file)?;
    let read = saihu::read(&text).map_err(|what| anyhow!("{name}: {what}"))?;
    let network = &read.network;
    let mut bounds = network.bounds().map_err(|Circle(servers)| {
        let names: Vec<&str> = servers.iter().map(|s| &*network.servers[*s].name).collect();
        anyhow!(
            "{name}: flows lead in a circle through {}, and no \
             bound was found; with less load there may be one",
            names.join(", ")
        )
    })?;
    if let Some(method) = args.method {
        for flow in &mut bounds.flows {
            *flow = std::mem::take(flow).only(method.of_theory());
        }
    }
    read.notes.iter().for_each(|note| eprintln!("{name}: {note}"));
    // Load of each server: the long-term rate of all its flows divided by its service rate.
    let loads: Vec<Option<f64>> = (0..network.servers.len())
        .map(|s| {
            let through = network.flows.iter().filter(|flow| flow.path.contains(&s));
            let sent = through
                .map(|flow| flow.sent.as_ref().map(Curve::last_slope))
                .collect::<Option<Vec<_>>>()?;
            Some(
                sent.into_iter().map(float).sum::<f64>()
                    / float(network.servers[s].service.last_slope()),
            )
        })
        .collect();
    if args.json {
        let ns = |of: Option<&Exact>| of.map(float);
        let flows = network.flows.iter().zip(&bounds.flows).map(|(flow, bound)| {
            let path: Vec<&str> = flow.path.iter().map(|s| &*network.servers[*s].name).collect();
            json!({
                "flow": flow.name, "path": path, "sum_ns": ns(bound.total.as_ref()),
                "as_one_ns": ns(bound.separated.as_ref()), "linear_ns": ns(bound.linear.as_ref()),
                "delay_ns": ns(bound.best()),
            })
        });
        let servers = network.servers.iter().zip(&bounds.servers).zip(&loads);
        let servers = servers.map(|((server, delay), load)| {
            json!({ "server": server.name, "delay_ns": ns(delay.as_ref()), "utilisation": load })
        });
        let all = json!({
            "network": read.name, "flows": flows.collect::<Vec<_>>(),
            "servers": servers.collect::<Vec<_>>(),
            "notes": read.notes,
        });
        say!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(ExitCode::SUCCESS);
    }
    let order = if network.order == Order::Fifo { "in order of arrival" } else { "in any order" };
    say!(
        "network {}: {} servers, {} flows, served {order}",
        read.name,
        network.servers.len(),
        network.flows.len()
    );
    let ns = |of: Option<&Exact>| of.map_or(text::DASH.to_owned(), |ns| text::nanos(float(ns)));
    let methods = Method::shown(args.method);
    let flows = network.flows.iter().zip(&bounds.flows).map(|(flow, bound)| {
        let path: Vec<&str> = flow.path.iter().map(|s| &*network.servers[*s].name).collect();
        let mut row = vec![flow.name.clone(), path.join(", ")];
        row.extend(methods.iter().map(|method| ns(bound.by(method.of_theory()).as_ref())));
        row.push(ns(bound.best()));
        row
    });
    let columns: Vec<String> = methods.iter().map(|method| method.heading("servers")).collect();
    let mut header = vec!["flow", "servers"];
    header.extend(columns.iter().map(String::as_str));
    header.push("delay <=");
    say!("{}", text::table(&header, flows));
    let servers = network.servers.iter().zip(&bounds.servers).zip(&loads);
    let servers = servers.map(|((server, delay), load)| {
        let load = load.map_or(text::DASH.to_owned(), |load| format!("{:.1} %", 100.0 * load));
        vec![server.name.clone(), ns(delay.as_ref()), load]
    });
    say!("{}", text::table(&["server", "delay <=", "utilisation"], servers));
    Ok(ExitCode::SUCCESS)
}
