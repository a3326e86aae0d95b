//! The link that a device's tree amounts to.

use super::super::amounts::{rate, size};
use super::super::args::no_equal;
use super::super::draft::{Draft, Table, inline, key, quote};
use super::Host;
use super::device::{Device, Devices, Handle, Node};
use super::filter::Filter;
use super::qdisc::{Class, Qdisc};
use crate::diagnostics::Problem;
use std::ops::Range;

/// A link for each device but those that others redirect to.
pub(super) fn links(devices: &Devices, host: &Host, draft: &mut Draft, problems: &mut Vec<Problem>) {
    let down = host.down.as_deref();
    let comes_down =
        |name: &str| down == Some(name) || devices.all.iter().any(|d| d.redirected.as_deref() == Some(name));
    for device in devices.all.iter().filter(|d| !comes_down(&d.name)) {
        let other = device.redirected.as_deref().or(down);
        let back = other.and_then(|name| devices.all.iter().find(|d| d.name == name));
        if device.qdiscs.is_empty() && back.is_none_or(|d| d.qdiscs.is_empty()) {
            continue;
        }
        let name = key(&device.name);
        let mut link = Table::new(format!("[link.{name}]"), at(device));
        link.comments.push(format!("what {} sends goes up", device.name));
        link.text("rate", host.rate.map_or_else(|| "unlimited".to_owned(), |r| rate(r.0)));
        draft.tables.push(link);
        for (direction, of) in [("up", Some(device)), ("down", back)] {
            let Some(of) = of.filter(|d| !d.qdiscs.is_empty()) else { continue };
            let header = format!("link.{name}.{direction}");
            let mut made = Direction {
                of,
                header: &header,
                table: Table::new(format!("[{header}]"), at(of)),
                flows: Vec::new(),
                rated: false,
                host,
            };
            match made.make() {
                Ok(notes) => {
                    problems.extend(notes);
                    draft.tables.push(made.table);
                    draft.tables.extend(made.flows);
                }
                Err(problem) => problems.push(problem),
            }
        }
    }
    if draft.tables.is_empty() && problems.is_empty() {
        problems.push(Problem::error(0..0, "there is no `tc qdisc add` in it, and so no link"));
    }
}

/// One direction as it is being made.
struct Direction<'a> {
    of: &'a Device,
    header: &'a str,
    table: Table,
    flows: Vec<Table>,
    rated: bool,
    host: &'a Host,
}

impl Direction<'_> {
    /// From the root down, as far as there is one discipline below the other; then its classes.
    fn make(&mut self) -> Result<Vec<Problem>, Problem> {
        let mut notes = Vec::new();
        let mut below = None;
        while let Some(node) = self.of.qdiscs.iter().find(|q| match below {
            None => q.parent.is_none(),
            Some(major) => q.parent.is_some_and(|p| p.major == major),
        }) {
            self.table.comments.push(node.line.split_whitespace().collect::<Vec<_>>().join(" "));
            let only = match &node.what {
                Qdisc::Netem(netem) => {
                    if netem.rate.is_some() {
                        self.takes_rate(node)?;
                        self.fifo(&format!("{}p", netem.limit));
                    }
                    netem.keys.iter().for_each(|(key, value)| self.table.set(key, value.clone()));
                    notes.extend(netem.notes.iter().cloned());
                    true
                }
                Qdisc::Tbf { rate: bits, burst, limit, overhead, atm } => {
                    self.takes_rate(node)?;
                    self.table.text("rate", rate(*bits));
                    self.table.text("burst", size(*burst));
                    if let Some(overhead) = overhead {
                        self.table.text("overhead", overhead);
                    }
                    if *atm {
                        self.table.text("cells", "atm");
                    }
                    self.fifo(&size(*limit));
                    true
                }
                Qdisc::Fifo { packets, bytes } => {
                    let limit = packets.map(|n| format!("{n}p")).or(bytes.map(size));
                    limit.iter().for_each(|limit| self.fifo(limit));
                    false
                }
                _ => {
                    self.classes(node, &mut notes)?;
                    false
                }
            };
            match node.handle.filter(|_| only) {
                Some(handle) => below = Some(handle.major),
                None => break,
            }
        }
        Ok(notes)
    }

    fn fifo(&mut self, limit: &str) {
        self.table.set("scheduler", inline(&[("kind", quote("fifo")), ("queue", quote(limit))]));
    }

    /// One rate in a direction.
    fn takes_rate(&mut self, node: &Node<Qdisc>) -> Result<(), Problem> {
        if std::mem::replace(&mut self.rated, true) {
            return Err(no_equal(
                node.at.clone(),
                "a second rate below the first",
                "write two links, one behind the other, by a `[[rule]]`",
            ));
        }
        Ok(())
    }

    /// The bands or classes of a discipline: a flow each.
    fn classes(&mut self, node: &Node<Qdisc>, notes: &mut Vec<Problem>) -> Result<(), Problem> {
        let band = |number: u64, own| Band { minor: number as u16 + 1, own, at: node.at.clone() };
        let mut bands: Vec<Band> = Vec::new();
        let mut rest: Option<u16> = None;
        let kind = match &node.what {
            Qdisc::Prio { bands: many, of_best_effort } => {
                bands.extend((0..*many).map(|b| band(b, Some(("priority", b.to_string())))));
                rest = Some(*of_best_effort as u16 + 1);
                "priority"
            }
            Qdisc::Ets { bands: many, strict, quanta, of_best_effort } => {
                bands.extend((0..*many).map(|b| match b.checked_sub(*strict) {
                    None => band(b, Some(("priority", b.to_string()))),
                    Some(n) => band(b, quanta.get(n as usize).map(|q| ("quantum", quote(&size(*q))))),
                }));
                rest = Some(*of_best_effort as u16 + 1);
                "ets"
            }
            Qdisc::Drr => "drr",
            Qdisc::Qfq => "qfq",
            Qdisc::Netem(_) | Qdisc::Tbf { .. } | Qdisc::Fifo { .. } => return Ok(()),
        };
        let major = node.handle.map_or(0, |h| h.major);
        for class in &self.of.classes {
            let Some(handle) = class.handle.filter(|h| h.major == major) else { continue };
            let own = match &class.what {
                Class::Drr { quantum } => quantum.map(|q| ("quantum", quote(&size(q)))),
                Class::Qfq { weight } => Some(("weight", weight.to_string())),
            };
            bands.push(Band { minor: handle.minor, own, at: class.at.clone() });
        }
        if bands.is_empty() {
            let what = format!("`{kind}` without classes sends nothing");
            return Err(Problem::error(node.at.clone(), what).help("add its `tc class add …` lines"));
        }
        if !self.rated && self.host.rate.is_none() {
            let what = format!("nothing says how fast {} is, and `{kind}` divides the time of a link", self.of.name);
            return Err(Problem::error(node.at.clone(), what).help("add `--rate RATE`"));
        }
        self.table.set("scheduler", inline(&[("kind", quote(kind))]));
        self.flows(major, &bands, rest, notes)
    }

    /// In the order in which filters are tried; the one that takes the rest comes last.
    fn flows(
        &mut self,
        major: u16,
        bands: &[Band],
        rest: Option<u16>,
        notes: &mut Vec<Problem>,
    ) -> Result<(), Problem> {
        let of = |f: &&Filter| f.parent.is_some_and(|p| p.major == major);
        let mut filters: Vec<(u16, &Filter)> = Vec::new();
        for filter in self.of.filters.iter().filter(of) {
            let Some(to) = filter.to.filter(|to| bands.iter().any(|b| b.minor == to.minor)) else {
                return Err(Problem::error(filter.at.clone(), "it sends to a class that is not there"));
            };
            filters.push((to.minor, filter));
        }
        filters.sort_by_key(|(_, f)| f.prio);
        let mut order: Vec<u16> = Vec::new();
        for (minor, filter) in &filters {
            if order.last() == Some(minor) {
                continue;
            }
            if order.contains(minor) {
                let what = "filters of other classes stand before this one; here the rules of a flow stay together";
                notes.push(Problem::warning(filter.at.clone(), what));
            } else {
                order.push(*minor);
            }
        }
        order.retain(|minor| Some(*minor) != rest);
        order.extend(rest);
        for band in bands.iter().filter(|b| !order.contains(&b.minor)) {
            let what = format!("no filter sends to {major:x}:{:x}: it is left out", band.minor);
            notes.push(Problem::warning(band.at.clone(), what));
        }
        for minor in order {
            let Some(band) = bands.iter().find(|b| b.minor == minor) else { continue };
            let name = key(&format!("{major:x}-{minor:x}"));
            let mut table = Table::new(format!("[{}.flow.{name}]", self.header), band.at.clone());
            let rules: Vec<String> = match rest == Some(minor) {
                true => vec![quote("any")],
                false => filters.iter().filter(|(to, _)| *to == minor).map(|(_, f)| quote(&f.rule)).collect(),
            };
            table.set("match", if rules.len() == 1 { rules.concat() } else { format!("[{}]", rules.join(", ")) });
            if let Some((name, value)) = &band.own {
                table.set(name, value.clone());
            }
            table.text("queue", self.queue(Handle { major, minor })?);
            self.flows.push(table);
        }
        Ok(())
    }

    /// The limit of the queue below a class.
    fn queue(&self, class: Handle) -> Result<String, Problem> {
        let below = self.of.qdiscs.iter().find(|q| q.parent == Some(class));
        match below.map(|q| (q, &q.what)) {
            None | Some((_, Qdisc::Fifo { packets: None, bytes: None })) => Ok("1000p".to_owned()),
            Some((_, Qdisc::Fifo { packets: Some(n), .. })) => Ok(format!("{n}p")),
            Some((_, Qdisc::Fifo { bytes: Some(n), .. })) => Ok(size(*n)),
            Some((node, _)) => {
                let why = "a class has a queue; what a link does stands above its classes";
                Err(no_equal(node.at.clone(), "this discipline below a class", why))
            }
        }
    }
}

/// What will be a flow.
struct Band {
    minor: u16,
    /// The discipline's key for it.
    own: Option<(&'static str, String)>,
    at: Range<usize>,
}

/// Where a device is spoken of first.
fn at(device: &Device) -> Range<usize> {
    device.qdiscs.first().map_or(0..0, |q| q.at.clone())
}
