//! The links that devices' trees amount to, and the rules that lead packets through those before a
//! class.

use super::Host;
use super::device::{Device, Devices};
use super::direction::{Below, Direction, Way};
use crate::amounts::rate;
use crate::args::no_equal;
use crate::draft::{Draft, Table, key, quote};
use falaj_scenario::Problem;
use std::ops::Range;

/// A link for each device but those that others redirect to.
pub(super) fn links(
    devices: &Devices,
    host: &Host,
    draft: &mut Draft,
    problems: &mut Vec<Problem>,
) {
    let down = host.down.as_deref();
    let comes_down = |name: &str| {
        down == Some(name) || devices.all.iter().any(|d| d.redirected.as_deref() == Some(name))
    };
    let back = |device: &Device| {
        let other = device.redirected.as_deref().or(down);
        other
            .and_then(|name| devices.all.iter().find(|d| d.name == name))
            .filter(|d| !d.qdiscs.is_empty())
    };
    let has_any = |device: &&Device| !device.qdiscs.is_empty() || back(device).is_some();
    let all: Vec<&Device> =
        devices.all.iter().filter(|d| !comes_down(&d.name)).filter(has_any).collect();
    for device in &all {
        let mut link = Table::new(format!("[link.{}]", key(&device.name)), at(device));
        link.comments.push(format!("what {} sends goes up", device.name));
        link.text("rate", host.rate.map_or_else(|| "unlimited".to_owned(), |r| rate(r.0)));
        draft.tables.push(link);
        let mut ways = [Vec::new(), Vec::new()];
        let both = [Some(*device).filter(|d| !d.qdiscs.is_empty()), back(device)];
        for ((direction, of), ways) in ["up", "down"].into_iter().zip(both).zip(&mut ways) {
            let Some(of) = of else { continue };
            let header = format!("link.{}.{direction}", key(&device.name));
            let mut made = Direction::new(of, header, at(of), host.rate);
            match made.make(Below::Nothing) {
                Ok(_) => {
                    problems.append(&mut made.notes);
                    draft.tables.extend(made.tables());
                    *ways = made.ways;
                }
                Err(problem) => problems.push(problem),
            }
        }
        if let Some(through) = ways.iter().flatten().find(|way| way.through.is_some())
            && all.len() > 1
        {
            let why = "it is a link that rules lead through, and there are several devices: import what is said of each apart";
            problems.push(no_equal(through.at.clone(), "this discipline below a class", why));
        }
        draft.tables.extend(rules(&device.name, ways));
    }
    if draft.tables.is_empty() && problems.is_empty() {
        problems.push(Problem::error(0..0, "there is no `tc qdisc add` in it, and so no link"));
    }
}

/// Rules that lead the packets of some classes through a link of their own before the device's;
/// none where no class has one.
fn rules(device: &str, ways: [Vec<Way>; 2]) -> Vec<Table> {
    let mut rules = Vec::new();
    // Directions in which all packets have their rule.
    let mut whole = [false; 2];
    for (n, (direction, mut ways)) in ["up", "down"].into_iter().zip(ways).enumerate() {
        ways.retain(|way| !way.rules.is_empty());
        let last = ways.iter().rposition(|way| way.through.is_some());
        ways.truncate(last.map_or(0, |last| last + 1));
        ways.dedup_by(|way, before| {
            let join = way.through.is_none() && before.through.is_none();
            if join {
                before.rules.append(&mut way.rules);
            }
            join
        });
        for way in ways {
            whole[n] = way.rules.iter().any(|rule| rule == "any");
            let mut rule = Table::new("[[rule]]", way.at);
            if !whole[n] {
                rule.set("match", one_or_list(&way.rules));
            }
            rule.text("direction", direction);
            match way.through {
                Some(link) => rule.set("to", format!("[{}, {}]", quote(&link), quote(device))),
                None => rule.text("to", device),
            }
            rules.push(rule);
        }
    }
    if !rules.is_empty() && whole != [true; 2] {
        let mut rest = Table::new("[[rule]]", 0..0);
        match whole {
            [true, false] => rest.text("direction", "down"),
            [false, true] => rest.text("direction", "up"),
            _ => {}
        }
        rest.text("to", device);
        rules.push(rest);
    }
    rules
}

/// One rule, or a list of them.
pub(super) fn one_or_list(rules: &[String]) -> String {
    let rules: Vec<String> = rules.iter().map(|rule| quote(rule)).collect();
    if rules.len() == 1 { rules.concat() } else { format!("[{}]", rules.join(", ")) }
}

/// Where a device is spoken of first.
fn at(device: &Device) -> Range<usize> {
    device.qdiscs.first().map_or(0..0, |q| q.at.clone())
}
