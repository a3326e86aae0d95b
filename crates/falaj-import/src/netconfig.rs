//! PlanetLab's `netconfig`: one command for both directions of an application's traffic.
//!
//! `config CLIENT 80 IN delay 100ms OUT bw 1Mbit/s` is for connections that this host opens to port
//! 80 of other hosts. A `SERVER` accepts connections at this port of this host; a `SERVICE` does
//! both. `IN` and `OUT` take the options of `ipfw pipe N config`.

use crate::amounts::whole;
use crate::args::{Args, unknown};
use crate::draft::{Draft, Table, key};
use crate::ipfw;
use crate::lines::{self, Word};
use falaj_scenario::suggest::quoted;
use falaj_scenario::{Diagnostics, Problem};

/// The result of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Netconfig {
    /// The link's name: `client-80`; its rules are `client-80-out` and `client-80-in`.
    pub name: String,
    /// The tables of link and rules, as in a scenario; `None` if the command deletes them.
    pub tables: Option<String>,
    /// Warnings: parts whose meaning differs slightly, and why.
    pub notes: Diagnostics,
}

const SIDES: &[&str] = &["client", "server", "service"];

/// Reads `[config] SIDE [PORTS] [ADDRESS] IN … OUT …`, or `delete SIDE [PORTS] [ADDRESS]`.
///
/// # Errors
/// Returns the words that cannot be read or have no equivalent, and their places.
pub fn netconfig(text: &str, file: &str) -> Result<Netconfig, Diagnostics> {
    let mut problems = Vec::new();
    let words: Vec<Word> = lines::commands(text, &mut problems).into_iter().flatten().collect();
    problems.extend(lines::expanded(&words));
    let made = read(&words);
    match made {
        Ok((name, tables)) if problems.is_empty() => {
            if let Some(Err(errors)) =
                tables.as_ref().map(|tables| falaj_scenario::parse(tables, "the scenario"))
            {
                let titles = errors.problems().iter().map(|p| {
                    p.help.iter().fold(Problem::error(0..text.len(), p.title.clone()), |q, help| {
                        q.help(help.clone())
                    })
                });
                return Err(Diagnostics::new(file, text, titles.collect()));
            }
            Ok(Netconfig { name, tables, notes: Diagnostics::new(file, text, Vec::new()) })
        }
        made => {
            problems.extend(made.err());
            Err(Diagnostics::new(file, text, problems))
        }
    }
}

fn read(words: &[Word]) -> Result<(String, Option<String>), Problem> {
    let mut args = Args::new(words);
    let deletes = args.take("delete").is_some();
    args.take("config");
    let side = args.value("a side: client, server or service")?;
    let lower = side.text.to_ascii_lowercase();
    if !SIDES.contains(&lower.as_str()) {
        return Err(unknown(side, "a side", SIDES));
    }
    let (mut ports, mut address) = (None, None);
    while let Some(word) = args.peek().filter(|w| !is_direction(w)) {
        args.next();
        let list = |text: &str| {
            text.split([',', '-']).all(|n| whole(&Word { text: n.to_owned(), at: 0..0 }).is_ok())
        };
        let (into, term, second) = match list(&word.text) {
            true => (&mut ports, "dport", "a second list of ports"),
            false => (&mut address, "dst", "a second address"),
        };
        falaj_scenario::parse_match(&format!("{term} {}", word.text))
            .map_err(|e| Problem::error(word.at.clone(), e.what).help(e.help))?;
        if into.replace(word.text.clone()).is_some() {
            return Err(Problem::error(
                word.at.clone(),
                format!("{} is {second}", quoted(&word.text)),
            )
            .help("one list of ports, `80,8000-8080`, and one address or prefix"));
        }
    }
    if ports.is_none() && address.is_none() {
        return Err(Problem::error(side.at.clone(), "ports or an address are missing")
            .help(format!("as in `{lower} 80` or `{lower} 192.0.2.1`")));
    }
    let name: String = [Some(&lower), address.as_ref(), ports.as_ref()]
        .into_iter()
        .flatten()
        .cloned()
        .collect::<Vec<_>>()
        .join("-");
    let name = name.replace(['/', ',', '.', ':'], "_");
    if deletes {
        return match args.next() {
            None => Ok((name, None)),
            Some(word) => {
                let what = format!("{} is not part of a `delete` command", quoted(&word.text));
                Err(Problem::error(word.at.clone(), what)
                    .help("`delete` accepts only a side, ports and an address"))
            }
        };
    }
    let mut link = Table::new(format!("[link.{}]", key(&name)), args.all());
    link.text("rate", "unlimited");
    // dummynet, on which `netconfig` is based, counts bytes of IP packets.
    link.text("layer", "ip");
    let mut draft = Draft { tables: vec![link] };
    let mut seen: Vec<&str> = Vec::new();
    while let Some(word) = args.next() {
        let way = if word.text.eq_ignore_ascii_case("in") { "down" } else { "up" };
        if !is_direction(word) {
            return Err(unknown(word, "a direction", &["IN", "OUT"]));
        }
        if seen.contains(&way) {
            return Err(Problem::error(
                word.at.clone(),
                format!("{} is given twice", quoted(&word.text)),
            )
            .help("write all options of one direction after one `IN` or `OUT`"));
        }
        seen.push(way);
        let own = args.until(is_direction);
        draft
            .tables
            .extend(ipfw::direction(&mut Args::new(own), &format!("link.{}.{way}", key(&name)))?);
    }
    if seen.is_empty() {
        return Err(Problem::error(args.all(), "`config` has no parameters")
            .help(format!("as in `{lower} 80 IN delay 100ms OUT bw 1Mbit/s`")));
    }
    for (way, rule) in [("up", "out"), ("down", "in")] {
        let mut table = Table::new("[[rule]]", args.all());
        table.text("name", format!("{name}-{rule}"));
        table.text("match", matches(&lower, way == "up", ports.as_deref(), address.as_deref()));
        table.text("direction", way);
        table.text("to", &name);
        draft.tables.push(table);
    }
    Ok((name, Some(draft.to_string())))
}

fn is_direction(word: &Word) -> bool {
    word.text.eq_ignore_ascii_case("in") || word.text.eq_ignore_ascii_case("out")
}

/// The match of a rule. A client's packets go out to the port and come in from it; a server's
/// packets do the reverse; a service has both.
fn matches(side: &str, out: bool, ports: Option<&str>, address: Option<&str>) -> String {
    let to = |to: bool| {
        let [port, end] = if to { ["dport", "dst"] } else { ["sport", "src"] };
        let address = address.map(|a| format!("{end} {a}"));
        let ports = ports.map(|p| format!("{port} {p}"));
        address.into_iter().chain(ports).collect::<Vec<_>>().join(" ")
    };
    match side {
        "client" => to(out),
        "server" => to(!out),
        _ => format!("( {} or {} )", to(true), to(false)),
    }
}
