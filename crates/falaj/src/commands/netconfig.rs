//! `falaj netconfig`: PlanetLab's command for both directions of an application's traffic.

use anyhow::{Context, Result, ensure};
use falaj_control::client::LinkSelection;
use falaj_control::protocol::{ScenarioAnswer, SetRequest};
use falaj_import::{Netconfig, netconfig};
use falaj_terminal::file;
use falaj_terminal::output::print;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

/// Arguments of `netconfig`.
#[derive(clap::Args)]
#[command(after_help = "\
client: connections opened here to these ports elsewhere; server: connections to these ports here;
service: both. IN, for incoming packets, and OUT, for outgoing packets, are followed by options of
`ipfw pipe N config`: bw, delay, plr, queue, burst, profile, mask, red, codel, pie. All other
packets pass unchanged.

It creates a link and two rules before all others, named by side and ports, such as `client-80`.
The same command again replaces them, and `delete` removes them. `falaj set client-80.up delay=5ms`
changes one key.

Examples:
  falaj netconfig config client 80 IN delay 100ms OUT bw 1Mbit/s
  falaj netconfig config server 5001,8000-8010 IN bw 6Mbit/s delay 30ms plr 0.01
  falaj netconfig config client 443 192.0.2.0/24 OUT bw 300Kbit/s queue 20
  falaj netconfig delete client 80
  falaj netconfig --print config service 53 IN delay 20 OUT delay 20 > dns.toml")]
pub(crate) struct Args {
    /// `config` (optional) or `delete`; `client`, `server` or `service`; ports; an address or
    /// prefix; `IN` and `OUT`.
    #[arg(required = true, num_args = 1.., trailing_var_arg = true)]
    words: Vec<String>,
    /// Print the scenario instead of changing a running link.
    #[arg(long)]
    print: bool,
    /// Print this scenario with the change.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    which: LinkSelection,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let made = match netconfig(&args.words.join(" "), "netconfig") {
        Ok(made) => made,
        Err(errors) => {
            file::tell(&errors);
            return Ok(ExitCode::from(2));
        }
    };
    if args.print || args.file.is_some() {
        let text = args
            .file
            .as_ref()
            .map(|path| file::text(path))
            .transpose()?
            .map_or(String::new(), |(_, text)| text);
        let text = edited(&text, &made)?;
        print(&falaj_scenario::format(&text, "the scenario").unwrap_or(text));
        return Ok(ExitCode::SUCCESS);
    }
    let mut client = args.which.connect()?;
    let running: ScenarioAnswer = client.must("scenario", json!({}))?;
    let toml = Some(edited(&running.toml, &made)?);
    let answer = client.set(&SetRequest { toml, ..SetRequest::default() })?;
    if answer.changed.is_empty() {
        note!("no value was different: nothing was changed");
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the scenario with the link added, and the link's rules placed before all other rules;
/// for `delete`, the scenario without this link and its rules.
fn edited(text: &str, made: &Netconfig) -> Result<String> {
    let mut file: DocumentMut = text.parse().context("the scenario cannot be read")?;
    let mine = [format!("{}-out", made.name), format!("{}-in", made.name)];
    let links = file
        .entry("link")
        .or_insert(Item::Table(Table::new()))
        .as_table_like_mut()
        .context("`link` is not a table")?;
    let there = links.remove(&made.name).is_some();
    let others: Vec<String> = links.iter().map(|(name, _)| name.to_owned()).collect();
    let rules = file.remove("rule").unwrap_or_else(|| Item::ArrayOfTables(ArrayOfTables::new()));
    let rules = rules
        .into_array_of_tables()
        .map_err(|_| anyhow::anyhow!("`rule` is not a list of tables"))?;
    let is_mine = |rule: &&Table| {
        rule.get("name").and_then(Item::as_str).is_some_and(|name| mine.iter().any(|m| m == name))
    };
    let mut kept: Vec<Table> = rules.iter().filter(|rule| !is_mine(rule)).cloned().collect();
    match &made.tables {
        None => ensure!(there, "there is no link `{}`", made.name),
        // The scenario had no other rules. Packets that match no rule would be dropped, so a last
        // rule sends all other packets along their previous path.
        Some(_) if kept.is_empty() => {
            let mut rest = Table::new();
            rest.insert("name", value("rest"));
            rest.insert("to", value(if let [only] = &others[..] { only } else { "pass" }));
            kept.push(rest);
        }
        Some(_) => {}
    }
    let rest = file.to_string();
    let mut list = DocumentMut::new();
    let mut array = ArrayOfTables::new();
    for mut rule in kept {
        rule.set_position(None);
        array.push(rule);
    }
    list.insert("rule", Item::ArrayOfTables(array));
    let (link, own) = made
        .tables
        .as_deref()
        .map_or(("", ""), |t| t.split_at(t.find("[[rule]]").unwrap_or(t.len())));
    Ok(format!("{}\n\n{link}\n{own}\n{list}", rest.trim()).trim_start().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str, command: &str) -> String {
        let made = netconfig(command, "x").unwrap_or_else(|e| panic!("{e}"));
        let text = edited(text, &made).unwrap();
        falaj_scenario::parse(&text, "y").unwrap_or_else(|e| panic!("{text}\n{e}"));
        text
    }

    fn rules(text: &str) -> Vec<String> {
        let (scenario, _) = falaj_scenario::parse(text, "y").unwrap();
        scenario.rules.iter().map(|r| r.name.clone()).collect()
    }

    #[test]
    fn a_link_comes_before_the_rest_and_goes_again() {
        for text in [
            "[link.x]\nrate = \"1mbit\"\n",
            "link.x = { rate = \"1mbit\" }\n",
            "[link.x]\nrate = \"1mbit\"\n\n[link.x.flow.a]\nmatch = \"any\"\n\n[[rule]]\nname = \"rest\"\nto = \"x\"\n\n[run]\nseed = 7\n",
        ] {
            let with = after(text, "config client 80 IN delay 100ms OUT bw 1Mbit/s");
            assert_eq!(rules(&with), ["client-80-out", "client-80-in", "rest"], "{with}");
            let both = after(&with, "server 5001 OUT delay 5");
            assert_eq!(
                rules(&both)[..4],
                ["server-5001-out", "server-5001-in", "client-80-out", "client-80-in"]
            );
            let again = after(&both, "config client 80 OUT bw 2Mbit/s");
            assert_eq!(rules(&again).len(), 5, "{again}");
            let gone = after(&after(&again, "delete client 80"), "delete server 5001");
            assert_eq!(rules(&gone), ["rest"], "{gone}");
            assert!(edited(&gone, &netconfig("delete client 80", "x").unwrap()).is_err());
        }
        let alone = after("", "config service 53 IN delay 20 OUT delay 20");
        assert_eq!(rules(&alone), ["service-53-out", "service-53-in", "rest"], "{alone}");
    }
}
