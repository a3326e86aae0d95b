//! Makes links from devices' trees, and the rules that send the packets of some classes through a
//! link of their own before the device's link, or past it.

use super::Host;
use super::device::Node;
use super::device::{Device, Devices};
use super::direction::{Below, Direction, Way, is_link};
use super::filter::{Filter, Marked, Target};
use super::firewall::FirewallPath;
use super::police;
use super::qdisc::Qdisc;
use super::tree::both;
use crate::amounts::rate;
use crate::args::no_equal_phrase;
use crate::draft::{Draft, Table, key, quote};
use falaj_scenario::Problem;
use std::ops::Range;

/// Makes a link for each device, except for devices to which others redirect packets.
pub(super) fn links(devices: &Devices, host: &Host, problems: &mut Vec<Problem>) -> Draft {
    let mut draft = Draft::default();
    let (mut used, mut parts, mut is_cut) = (Vec::new(), Vec::new(), false);
    let mut devices = devices.clone();
    for device in &mut devices.all {
        let marked = police::mark(&mut device.incoming).and(police::mark(&mut device.filters));
        problems.extend(marked.err());
    }
    let targets: Vec<String> =
        devices.all.iter().filter_map(|d| d.redirected().map(str::to_owned)).collect();
    for device in &mut devices.all {
        device.is_redirected_to = targets.contains(&device.name);
    }
    let down = host.down.as_deref();
    let comes_down = |name: &str| down == Some(name) || targets.iter().any(|to| to == name);
    let back = |device: &Device| {
        let other = device.redirected().or(down);
        other
            .and_then(|name| devices.all.iter().find(|d| d.name == name))
            .filter(|d| !d.qdiscs.is_empty())
    };
    let has_any = |device: &&Device| {
        !device.qdiscs.is_empty() || back(device).is_some() || !device.incoming.is_empty()
    };
    let all: Vec<&Device> =
        devices.all.iter().filter(|d| !comes_down(&d.name)).filter(has_any).collect();
    for device in &all {
        let mut link = Table::new(format!("[link.{}]", key(&device.name)), at(device));
        link.comments.push(format!("packets that {} sends go up", device.name));
        link.text("rate", host.rate.map_or_else(|| "unlimited".to_owned(), |r| rate(r.0)));
        draft.tables.push(link);
        let mut ways = [PacketPaths::of_all(), PacketPaths::incoming(device)];
        if down.is_some() {
            ways[1] = PacketPaths::of_all();
        }
        let both = [Some(*device).filter(|d| !d.qdiscs.is_empty()), back(device)];
        for ((direction, of), ways) in ["up", "down"].into_iter().zip(both).zip(&mut ways) {
            let Some(of) = of else { continue };
            if let Some((at, what)) = reads_marks(&of.filters)
                && direction == "down"
                && marked(&device.incoming).is_some()
            {
                let why = "packets that policers leave to the next filter get a mark here, which \
                           the second device's filters would see: use `continue` and marks on one \
                           of the two devices only";
                problems.push(no_equal_phrase(at, what, why));
            }
            // Packets that are redirected on arrival have not passed the firewall yet.
            let passed = direction == "up" || down == Some(of.name.as_str());
            let path =
                if passed { of.firewall(&devices.firewall) } else { FirewallPath::default() };
            problems.extend(unmarked(&of.filters, &path));
            if of.filters.iter().any(|filter| filter.marks.is_some()) {
                is_cut |= path.too_long().is_some();
                problems.extend(path.too_long());
                used.extend(path.rules.iter().map(|rule| rule.at.clone()));
                parts.extend(path.parts.iter().cloned());
                ways.firewall = path;
            }
            let header = format!("link.{}.{direction}", key(&device.name));
            let mut made = Direction::new(of, header, at(of), host.rate);
            match made.make(Below::Nothing) {
                Ok(_) => {
                    problems.append(&mut made.notes);
                    problems.extend(not_visited(of, &made.visited));
                    draft.tables.extend(made.tables());
                    ways.drops = made.drops;
                    ways.direct = made.direct;
                    ways.classes = made.ways;
                    ways.policed.push((sorted(&of.filters), "l2"));
                }
                Err(problem) => problems.push(problem),
            }
        }
        if let Some((at, what)) = ways.iter().find_map(PacketPaths::needs_rules)
            && all.len() > 1
        {
            let why = "this needs rules, and there are several devices: import the commands of \
                       each device separately";
            problems.push(no_equal_phrase(at, what, why));
        }
        problems.extend(unmarked(&device.incoming, &FirewallPath::default()));
        draft.tables.extend(rules(&device.name, ways));
    }
    for rule in devices.firewall.iter().filter(|rule| !is_cut && !used.contains(&rule.at)) {
        let what = if rule.marks() {
            "this rule of iptables was left out: no filter of kind `fw` reads its mark, or no rule \
             leads to its chain"
        } else {
            "this rule of iptables was left out: it leads to no rule whose mark a filter of kind \
             `fw` reads"
        };
        problems.push(Problem::warning(rule.at.clone(), what));
    }
    let first = parts.first().map(|(_, packets)| *packets);
    for (at, packets) in parts {
        if Some(packets) == first {
            let what = format!("in the kernel only {packets} pass this chain; here all do");
            problems.push(Problem::warning(at, what));
        } else {
            let why = "a packet is forwarded, or is one of the host's own, and passes only the \
                       chains of its kind: mark packets in POSTROUTING, which all pass";
            let what = "setting marks both in this chain and in a chain that other packets pass";
            problems.push(no_equal_phrase(at, what, why));
        }
    }
    draft
}

/// The error of a script without a link.
pub(super) fn no_link(devices: &Devices) -> Problem {
    match devices.all.iter().find_map(|device| device.removed.clone()) {
        Some(at) => Problem::error(at, "this removes what the lines before added")
            .help("import only the lines before it"),
        None => Problem::error(0..0, "no `tc qdisc add` makes a link")
            .help("add one, as in `tc qdisc add dev eth0 root netem delay 10ms`"),
    }
}

/// The problems of disciplines that no packet reaches: the scenario leaves them out.
fn not_visited(device: &Device, visited: &[Range<usize>]) -> Vec<Problem> {
    let of = |node: &Node<Qdisc>| {
        let above = device
            .qdiscs
            .iter()
            .find(|q| node.parent.is_some_and(|p| q.handle.is_some_and(|h| h.major == p.major)));
        let divides = |q: &Node<Qdisc>| {
            let classless = is_link(&q.what) || matches!(q.what, Qdisc::Managed(_) | Qdisc::Cbs(_));
            !classless || !visited.contains(&q.at)
        };
        match above.is_some_and(divides) {
            true => {
                let what = "no packet reaches the class of this discipline: it was left out";
                Problem::warning(node.at.clone(), what)
            }
            false => {
                let why = "put it above the other discipline, or give it a class of its own";
                no_equal_phrase(node.at.clone(), "a discipline in this place", why)
            }
        }
    };
    device.qdiscs.iter().filter(|q| !visited.contains(&q.at)).map(of).collect()
}

/// The paths of the packets of one direction.
struct PacketPaths<'a> {
    /// The path through the rules of the firewall that mark packets.
    firewall: FirewallPath<'a>,
    /// Filters, some with policers, in the order in which they are tried; and the layer whose bytes
    /// count.
    policed: Vec<(Vec<&'a Filter>, &'static str)>,
    /// Matches in the order in which they are tried, each with the path of its packets.
    segments: Vec<(Vec<String>, Comes)>,
    /// Matches of packets that filters of the link's classes drop.
    drops: Vec<String>,
    classes: Vec<Way>,
    /// True if packets that belong to no class bypass the link.
    direct: bool,
}

/// The relation of packets to the link: through it, past it, or dropped before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comes {
    ToLink,
    Beside,
    Never,
}

impl<'a> PacketPaths<'a> {
    /// The paths if all packets come to the link.
    fn of_all() -> PacketPaths<'a> {
        let segments = vec![(vec!["any".to_owned()], Comes::ToLink)];
        PacketPaths {
            firewall: FirewallPath::default(),
            policed: Vec::new(),
            segments,
            drops: Vec::new(),
            classes: Vec::new(),
            direct: false,
        }
    }

    /// The paths if the packets that filters redirect come to the link, and others do not.
    fn incoming(device: &'a Device) -> PacketPaths<'a> {
        let filters = sorted(&device.incoming);
        if filters.is_empty() {
            return PacketPaths::of_all();
        }
        let mut made = PacketPaths::of_all();
        made.policed.push((filters.clone(), "ip"));
        made.segments.clear();
        for filter in filters.into_iter().filter(|filter| !filter.takes_none()) {
            let comes = match filter.to {
                Target::Device(_) => Comes::ToLink,
                Target::Drop => Comes::Never,
                _ => Comes::Beside,
            };
            match made.segments.last_mut().filter(|(_, last)| *last == comes) {
                Some((rules, _)) => rules.push(filter.taken()),
                None => made.segments.push((vec![filter.taken()], comes)),
            }
            if filter.taken() == "any" {
                return made;
            }
        }
        made.segments.push((vec!["any".to_owned()], Comes::Beside));
        made
    }

    /// Returns true if all packets come to the link and pass nothing before it.
    fn is_plain(&self) -> bool {
        self.needs_rules().is_none()
    }

    /// Place of a command that needs rules in addition to the link; `None` if no command does.
    fn needs_rules(&self) -> Option<(Range<usize>, &'static str)> {
        let through = self.classes.iter().find(|way| way.through.is_some());
        let partly = self.segments.iter().any(|(_, comes)| *comes != Comes::ToLink);
        let first = self.classes.first().map_or(0..0, |way| way.at.clone());
        let mut policers = self.policed.iter().flat_map(|(filters, _)| filters);
        let policer = policers.find_map(|filter| filter.police.as_ref().map(|p| p.at.clone()));
        through
            .map(|way| way.at.clone())
            .or((partly || self.direct || !self.drops.is_empty()).then_some(first))
            .or(policer)
            .map(|at| (at, "a link for a part of the packets"))
            .or(self.firewall.rules.first().map(|rule| (rule.at.clone(), "a mark of the firewall")))
    }

    /// The classes that rules must distinguish, each with its matches, the link before it, and its
    /// place in the script.
    fn told_apart(&self) -> Vec<(Vec<String>, Option<String>, Range<usize>)> {
        let mut ways: Vec<(Vec<String>, Option<String>, Range<usize>)> = self
            .classes
            .iter()
            .filter(|way| !way.rules.is_empty())
            .map(|way| (way.rules.clone(), way.through.clone(), way.at.clone()))
            .collect();
        if !self.direct {
            let last = ways.iter().rposition(|(_, through, _)| through.is_some());
            ways.truncate(last.map_or(0, |last| last + 1));
        }
        ways.dedup_by(|way, before| {
            let join = way.1.is_none() && before.1.is_none();
            if join {
                before.0.append(&mut way.0);
            }
            join
        });
        ways
    }
}

/// The rules that send the packets of some classes through a link of their own before the device's
/// link, and others past the device's link. Empty if all packets of both directions pass only the
/// device's link.
fn rules(device: &str, ways: [PacketPaths<'_>; 2]) -> Vec<Table> {
    if ways.iter().all(PacketPaths::is_plain) {
        return Vec::new();
    }
    let mut rules = Vec::new();
    // Rules that other rules skip to, by index.
    let mut named = Vec::new();
    // Directions in which a rule matches all packets.
    let mut whole = [false; 2];
    for (n, (direction, ways)) in ["up", "down"].into_iter().zip(ways).enumerate() {
        rules.extend(ways.firewall.tables(direction));
        for (filters, layer) in &ways.policed {
            let next = format!("conforming-{}", named.len() + 1);
            let mut policers = police::rules(filters, direction, layer, &next);
            if !policers.is_empty() {
                rules.append(&mut policers);
                named.push((rules.len(), next));
            }
        }
        let mut rule = |takes: &[String], to: String, at: Range<usize>| {
            let all = takes.iter().any(|rule| rule == "any");
            if takes.is_empty() || whole[n] {
                return;
            }
            whole[n] = all;
            let mut rule = Table::new("[[rule]]", at);
            if !all {
                rule.set("match", one_or_list(takes));
            }
            rule.text("direction", direction);
            rule.set("to", to);
            rules.push(rule);
        };
        let apart = ways.told_apart();
        for (place, (segment, comes)) in ways.segments.iter().enumerate() {
            let is_last = place + 1 == ways.segments.len();
            let within = |takes: &[String]| -> Vec<String> {
                segment
                    .iter()
                    .flat_map(|one| takes.iter().flat_map(|other| both(one, other)))
                    .collect()
            };
            match comes {
                Comes::Never => rule(segment, quote("drop"), 0..0),
                Comes::Beside => rule(segment, quote("pass"), 0..0),
                Comes::ToLink => {
                    rule(&within(&ways.drops), quote("drop"), 0..0);
                    for (takes, through, at) in &apart {
                        let to = match through {
                            Some(link) => format!("[{}, {}]", quote(link), quote(device)),
                            None => quote(device),
                        };
                        rule(&within(takes), to, at.clone());
                    }
                    if ways.direct {
                        rule(segment, quote("pass"), 0..0);
                    } else if !is_last {
                        rule(segment, quote(device), 0..0);
                    }
                }
            }
        }
    }
    if whole != [true; 2] {
        let mut rest = Table::new("[[rule]]", 0..0);
        match whole {
            [true, false] => rest.text("direction", "down"),
            [false, true] => rest.text("direction", "up"),
            _ => {}
        }
        rest.text("to", device);
        rules.push(rest);
    }
    for (index, name) in named {
        rules[index].text("name", name);
    }
    rules
}

/// The warnings for filters that match marks which none of these rules sets.
fn unmarked(filters: &[Filter], path: &FirewallPath<'_>) -> Vec<Problem> {
    filters
        .iter()
        .filter_map(|filter| filter.marks.as_ref())
        .filter(|marks| !path.can_set(marks.value, marks.mask))
        .map(Marked::is_set_by_none)
        .collect()
}

/// The place of a filter whose policer leaves packets with a mark to the next filter.
fn marked(filters: &[Filter]) -> Option<Range<usize>> {
    filters.iter().find(|filter| !filter.past.is_empty()).map(|filter| filter.at.clone())
}

/// The first filter that reads marks or leaves packets with a mark to the next one.
fn reads_marks(filters: &[Filter]) -> Option<(Range<usize>, &'static str)> {
    let reads = filters.iter().find(|filter| filter.marks.is_some());
    let what =
        "a filter that reads marks, on packets that already passed a policer with `continue`,";
    let reads = reads.map(|filter| (filter.at.clone(), what));
    let what = "a policer with `continue`, on packets that already passed one,";
    marked(filters).map(|at| (at, what)).or(reads)
}

/// Filters in the order in which they are tried.
fn sorted(filters: &[Filter]) -> Vec<&Filter> {
    let mut filters: Vec<_> = filters.iter().collect();
    filters.sort_by_key(|filter| filter.prio);
    filters
}

/// One match, or a list of them, in TOML's syntax.
pub(super) fn one_or_list(rules: &[String]) -> String {
    let rules: Vec<String> = rules.iter().map(|rule| quote(rule)).collect();
    if rules.len() == 1 { rules.concat() } else { format!("[{}]", rules.join(", ")) }
}

/// The place of a device's first discipline.
fn at(device: &Device) -> Range<usize> {
    device.qdiscs.first().map_or(0..0, |q| q.at.clone())
}
