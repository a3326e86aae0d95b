//! The classes of a discipline, and the packets that go to each.

use super::aqm::Keys;
use super::attachment::Handle;
use super::classes::{Hfsc, Htb};
use super::device::{Device, Node};
use super::filter::{Filter, Target};
use super::qdisc::{Class, PriorityMap, Qdisc};
use crate::amounts::{rate, size};
use crate::args::no_equal_phrase;
use crate::draft::quote;
use crate::first_match::{Sends, Takes, apart};
use falaj_scenario::Problem;
use falaj_scenario::units::Unreadable;
use std::ops::Range;

/// A class or band, which becomes a flow.
#[derive(Debug)]
pub(super) struct Band {
    pub(super) minor: u16,
    /// The class above this one; 0: the discipline.
    parent: u16,
    /// The keys of the flow for the discipline.
    pub(super) own: Keys,
    pub(super) at: Range<usize>,
}

/// The classes of a discipline.
#[derive(Debug)]
pub(super) struct Tree {
    /// The discipline's name in a scenario.
    pub(super) kind: &'static str,
    pub(super) major: u16,
    /// Rate and burst of the link: those of a single class above all others, which gets no flow, or
    /// the port rate of the bands' `cbs`.
    pub(super) rate: Option<(u64, Option<u64>)>,
    pub(super) notes: Vec<Problem>,
    bands: Vec<Band>,
    /// The leaves that packets go to, in the order in which filters are tried, and their matches;
    /// the default class comes last.
    order: Vec<(u16, Vec<String>)>,
    rest: Option<u16>,
    /// Bands of packets that no filter takes, by their type of service, and the matches.
    by_service: Vec<(u16, String)>,
    /// Matches of packets that filters drop.
    pub(super) drops: Vec<String>,
    /// True if packets that match no filter bypass all classes.
    pub(super) direct: bool,
    /// The place where classes set an overhead, the overhead, and whether packets take cells.
    pub(super) costs: Option<(Range<usize>, Option<String>, bool)>,
}

impl Tree {
    /// The tree of the discipline at this node. `above` has the matches of the class that the
    /// discipline is below. Without `above`, the discipline is the link's own, and a single class
    /// above all others sets the link's rate.
    pub(super) fn of(
        node: &Node<Qdisc>,
        device: &Device,
        above: Option<&[String]>,
    ) -> Result<Tree, Problem> {
        let major = node.handle.map_or(0, |h| h.major);
        let mut tree = Tree {
            kind: "",
            major,
            rate: None,
            notes: Vec::new(),
            bands: Vec::new(),
            order: Vec::new(),
            rest: None,
            by_service: Vec::new(),
            drops: Vec::new(),
            direct: false,
            costs: None,
        };
        tree.fixed(node, device)?;
        tree.classes(device)?;
        if tree.bands.is_empty() {
            let what = format!("`{}` without classes sends no packet", tool_name(tree.kind));
            return Err(
                Problem::error(node.at.clone(), what).help("add its `tc class add …` lines")
            );
        }
        let minors: Vec<u16> = tree.bands.iter().map(|b| b.minor).collect();
        if tree.kind == "htb" {
            for orphan in tree.bands.iter_mut().filter(|b| b.parent != 0) {
                if !minors.contains(&orphan.parent) {
                    let what = format!(
                        "there is no class {major:x}:{:x} above this one: it has no parent, as in tc",
                        orphan.parent
                    );
                    tree.notes.push(Problem::warning(orphan.at.clone(), what));
                    orphan.parent = 0;
                }
            }
        }
        if let Some(odd) = tree.bands.iter().find(|b| b.parent != 0 && !minors.contains(&b.parent))
        {
            return Err(Problem::error(
                odd.at.clone(),
                format!("there is no class {major:x}:{:x}", odd.parent),
            )
            .help("add it before this line, or name another `parent`"));
        }
        tree.tops_borrow_nothing(device);
        tree.quanta(node, device);
        tree.held_by_ceil(device);
        if above.is_none() {
            tree.lift(device)?;
        }
        tree.filters(node, device, above)?;
        Ok(tree)
    }

    /// Sets the kind, and the bands of disciplines that have fixed bands.
    fn fixed(&mut self, node: &Node<Qdisc>, device: &Device) -> Result<(), Problem> {
        let mut band = |number: u64, own: Option<(&'static str, String)>| {
            let own = own.into_iter().collect();
            self.bands.push(Band { minor: number as u16 + 1, parent: 0, own, at: node.at.clone() });
        };
        match &node.what {
            Qdisc::Prio { bands, map } => {
                (0..*bands).for_each(|b| band(b, Some(("priority", b.to_string()))));
                self.by_priority(map, node, device);
                self.kind = "priority";
                self.shaped(device)?;
            }
            Qdisc::PfifoFast => {
                (0..3).for_each(|b| band(b, Some(("priority", b.to_string()))));
                self.by_priority(&PriorityMap::OF_PRIO, node, device);
                self.kind = "priority";
            }
            Qdisc::Ets { bands, strict, quanta, map } => {
                for b in 0..*bands {
                    band(
                        b,
                        match b.checked_sub(*strict) {
                            None => Some(("priority", b.to_string())),
                            Some(n) => {
                                quanta.get(n as usize).map(|q| ("quantum", quote(&size(*q))))
                            }
                        },
                    );
                }
                self.by_priority(map, node, device);
                self.kind = "ets";
            }
            Qdisc::Drr => self.kind = "drr",
            // The kernel's qfq is QFQ+ since Linux 3.8.
            Qdisc::Qfq => self.kind = "qfq+",
            Qdisc::Htb { rest, .. } => (self.kind, self.rest) = ("htb", *rest),
            Qdisc::Hfsc(rest) => (self.kind, self.rest) = ("hfsc", *rest),
            _ => {
                return Err(no_equal_phrase(
                    node.at.clone(),
                    "this discipline below a class",
                    "a class has a queue: put this discipline above the classes",
                ));
            }
        }
        Ok(())
    }

    /// Packets that no filter takes go to bands by their priority. Linux derives the priority from
    /// the type of service of IPv4 packets; packets that are redirected on arrival have none yet.
    fn by_priority(&mut self, map: &PriorityMap, node: &Node<Qdisc>, device: &Device) {
        self.rest = Some(map.of_best_effort() as u16 + 1);
        if device.is_redirected_to {
            return;
        }
        let by_service = map.by_service();
        self.by_service = by_service.map(|(rule, band)| (band as u16 + 1, rule)).collect();
        if !self.by_service.is_empty() {
            let what = match node.what {
                Qdisc::PfifoFast => "only the type of service of IPv4 chooses bands here",
                _ => "only filters and the type of service of IPv4 choose bands here",
            };
            let what =
                format!("{what}; in tc also the priority that a program sets (`SO_PRIORITY`)");
            self.notes.push(Problem::warning(node.at.clone(), what));
        }
    }

    /// Bands with credit-based shapers below them become the discipline `cbs`.
    fn shaped(&mut self, device: &Device) -> Result<(), Problem> {
        let below = |minor: u16| {
            let is = |q: &&Node<Qdisc>| {
                q.parent.is_some_and(|p| p.major == self.major && p.minor == minor)
            };
            device.qdiscs.iter().find(is)
        };
        let shaped: Vec<_> = self.bands.iter().map(|b| below(b.minor)).collect();
        let mut port = None;
        for (node, band) in shaped.into_iter().zip(&mut self.bands) {
            let Some(Node { what: Qdisc::Cbs(cbs), at, .. }) = node else { continue };
            if port.is_some_and(|port| port != cbs.port) {
                return Err(Problem::error(
                    at.clone(),
                    "these slopes give another port rate than those before",
                )
                .help(
                    "`idleslope` minus `sendslope` is the rate of the port, the same for all bands",
                ));
            }
            port = Some(cbs.port);
            band.own = vec![("idle-slope", quote(&rate(cbs.idle)))];
        }
        if let Some(port) = port {
            self.kind = "cbs";
            self.rate = Some((port, None));
            for band in &mut self.bands {
                band.own.retain(|(key, _)| *key != "priority");
            }
        }
        Ok(())
    }

    fn classes(&mut self, device: &Device) -> Result<(), Problem> {
        for class in &device.classes {
            let Some(handle) = class.handle.filter(|h| h.major == self.major) else { continue };
            let own = match (&class.what, self.kind) {
                (Class::Drr { quantum }, "drr") => {
                    quantum.map(|q| ("quantum", quote(&size(q)))).into_iter().collect()
                }
                (Class::Qfq { weight }, "qfq+") => vec![("weight", weight.to_string())],
                (Class::Htb(htb), "htb") => {
                    let costs = (htb.overhead.clone(), htb.atm);
                    let is_first = self.bands.is_empty();
                    let before =
                        self.costs.as_ref().map(|(_, overhead, atm)| (overhead.clone(), *atm));
                    if before.unwrap_or((None, false)) != costs {
                        if !is_first {
                            let why = "a link has one overhead for all packets: give the same to \
                                       all classes, or give it to the `qdisc` as `stab`";
                            return Err(no_equal_phrase(
                                class.at.clone(),
                                "an overhead of one class",
                                why,
                            ));
                        }
                        self.costs = Some((class.at.clone(), costs.0, costs.1));
                    }
                    htb.keys()
                }
                (Class::Hfsc(hfsc), "hfsc") => {
                    if hfsc.share.is_none() {
                        let what = "a class with `rt` alone also shares the rest of the link here, by its rate";
                        self.notes.push(Problem::warning(class.at.clone(), what));
                    }
                    hfsc.keys()
                }
                _ => {
                    let what = format!(
                        "a class of another kind than its discipline, `{}`",
                        tool_name(self.kind)
                    );
                    return Err(Problem::error(class.at.clone(), what).help(
                        "`htb`, `hfsc`, `drr` and `qfq` have classes of their own kind; `prio` and \
                         `ets` have bands, without `tc class add`",
                    ));
                }
            };
            let parent = class.parent.map_or(0, |p| p.minor);
            self.bands.push(Band { minor: handle.minor, parent, own, at: class.at.clone() });
        }
        Ok(())
    }

    /// Sets the `ceil` of top classes to their `rate`: they have no class to borrow from.
    fn tops_borrow_nothing(&mut self, device: &Device) {
        for band in self.bands.iter_mut().filter(|b| b.parent == 0) {
            let Some(htb) = htb(device, self.major, band.minor) else { continue };
            if htb.ceil > htb.rate {
                let what = "a class without a parent has none to borrow from: its `rate` limits \
                            it, not its `ceil`, as in tc";
                self.notes.push(Problem::warning(band.at.clone(), what));
                band.own = Htb { ceil: htb.rate, ..htb.clone() }.keys();
            }
        }
    }

    /// Adds a warning if a class has a `ceil` below that of its parent: in tc, its sibling classes
    /// then share the rest in other proportions.
    fn held_by_ceil(&mut self, device: &Device) {
        let class = |minor: u16| htb(device, self.major, minor);
        let mut held = self.bands.iter().filter(|band| {
            let alone = self.bands.iter().filter(|other| other.parent == band.parent).count() == 1;
            let of = class(band.minor).zip(class(band.parent));
            !alone && of.is_some_and(|(own, parent)| own.rate < own.ceil && own.ceil < parent.ceil)
        });
        let Some(first) = held.next() else { return };
        let what = "in tc a class that reaches its `ceil` loses its turn and goes to the end of \
                    the round robin, so classes beside it do not share the rest by rate or \
                    quantum; here they do";
        self.notes.push(Problem::warning(first.at.clone(), what));
    }

    /// Sets the quanta of htb's leaves, if they are not in proportion to the rates.
    fn quanta(&mut self, node: &Node<Qdisc>, device: &Device) {
        let Qdisc::Htb { r2q, .. } = &node.what else { return };
        let major = self.major;
        let leaves: Vec<(u16, &Htb)> = self
            .bands
            .iter()
            .filter(|band| self.is_leaf(band.minor))
            .filter_map(|band| Some((band.minor, htb(device, major, band.minor)?)))
            .collect();
        let quantum = |leaf: &Htb| leaf.quantum(r2q.unwrap_or(10));
        let alone = matches!(leaves[..], [(_, Htb { quantum: None, .. })]);
        if alone || leaves.iter().all(|(_, leaf)| quantum(leaf).1) {
            if r2q.is_some() {
                let what = "`r2q` was left out: classes share by their rates, as with tc's default";
                self.notes.push(Problem::warning(node.at.clone(), what));
            }
            return;
        }
        for band in &mut self.bands {
            if let Some((_, leaf)) = leaves.iter().find(|(minor, _)| *minor == band.minor) {
                band.own.push(("quantum", quote(&size(quantum(leaf).0))));
            }
        }
    }

    /// Gives the rate of a single class above all others to the link.
    fn lift(&mut self, device: &Device) -> Result<(), Problem> {
        let mut tops = self.bands.iter().filter(|b| b.parent == 0);
        let (Some(top), None) = (tops.next(), tops.next()) else { return Ok(()) };
        let (minor, at) = (top.minor, top.at.clone());
        let is =
            |c: &&Node<Class>| c.handle.is_some_and(|h| h.major == self.major && h.minor == minor);
        match device.classes.iter().find(is).map(|c| &c.what) {
            Some(Class::Htb(htb)) => self.rate = Some((htb.rate, htb.least_burst())),
            Some(Class::Hfsc(Hfsc { limit: Some(limit), .. })) if limit.span == 0 => {
                self.rate = Some((limit.then, None));
            }
            Some(Class::Hfsc(Hfsc { limit: Some(_), .. })) => {
                let why = "a link has one rate: write `ul rate R`, or `ul m2 R`";
                return Err(no_equal_phrase(
                    at,
                    "an upper limit of two pieces above all classes",
                    why,
                ));
            }
            _ => {}
        }
        if self.is_leaf(minor) {
            return Ok(());
        }
        self.bands.retain(|b| b.minor != minor);
        self.bands.iter_mut().filter(|b| b.parent == minor).for_each(|b| b.parent = 0);
        Ok(())
    }

    /// Finds the packets of each class.
    fn filters(
        &mut self,
        node: &Node<Qdisc>,
        device: &Device,
        above: Option<&[String]>,
    ) -> Result<(), Problem> {
        let major = self.major;
        let mut filters: Vec<(u16, Range<usize>, String)> = Vec::new();
        let mut asked = Vec::new();
        self.asked((0, None), device, &mut filters, &mut asked)?;
        let comes = |rule: &str| above.is_none_or(|above| may_meet(above, rule));
        let (reached, idle) = filters.into_iter().partition(|(.., rule)| comes(rule));
        filters = reached;
        for (_, at, _) in idle {
            let what = "no packet of the class above matches this filter: it was left out";
            self.notes.push(Problem::warning(at, what));
        }
        let by_service = self.by_service.iter().filter(|(_, rule)| comes(rule));
        filters.extend(by_service.map(|(minor, rule)| (*minor, node.at.clone(), rule.clone())));
        let idle = device
            .filters
            .iter()
            .filter(|f| f.parent.is_some_and(|p| p.major == major && p.minor != 0));
        let idle = idle.filter(|f| !asked.contains(&f.at));
        let idle: Vec<Problem> = idle
            .map(|f| {
                Problem::warning(
                    f.at.clone(),
                    "this filter was left out: no filter sends packets to the class that it belongs to",
                )
            })
            .collect();
        self.notes.extend(idle);
        let is_leaf =
            |rest: &u16| self.bands.iter().any(|b| b.minor == *rest) && self.is_leaf(*rest);
        if let Some(rest) = self.rest.filter(|rest| !is_leaf(rest)) {
            if self.kind != "htb" {
                let what = format!(
                    "the default class {major:x}:{rest:x} does not exist, or has classes below it"
                );
                return Err(Problem::error(node.at.clone(), what)
                    .help("let `default` name a class that has no classes below it"));
            }
            self.rest = None;
            if rest != 0 {
                let what = format!(
                    "the default class {major:x}:{rest:x} does not exist, or has classes below it"
                );
                self.notes.push(Problem::warning(node.at.clone(), what));
            }
        }
        let mut order: Vec<u16> = Vec::new();
        for (minor, ..) in &filters {
            if !order.contains(minor) {
                order.push(*minor);
            }
        }
        order.retain(|minor| Some(*minor) != self.rest);
        order.extend(self.rest);
        let unused = self.bands.iter().filter(|b| {
            let is_named = node.what != Qdisc::PfifoFast;
            is_named && self.is_leaf(b.minor) && !order.contains(&b.minor)
        });
        let unused = unused.map(|band| {
            let what =
                format!("no filter sends packets to {major:x}:{:x}: it was left out", band.minor);
            let problem = Problem::warning(band.at.clone(), what);
            match self.kind {
                "qfq+" => problem.help("in tc the other classes of this weight share its weight"),
                _ => problem,
            }
        });
        self.notes.extend(unused.collect::<Vec<_>>());
        if order.is_empty() {
            let what = "no filter sends packets to a class of this discipline";
            return Err(Problem::error(node.at.clone(), what).help(
                "add `tc filter add … flowid CLASS`, or, for `htb` and `hfsc`, `default CLASS`",
            ));
        }
        // The flows of one class stay together, even if filters of other classes stand between the
        // filters of this class.
        self.order = order.into_iter().map(|minor| (minor, Vec::new())).collect();
        let mut flat = Vec::new();
        self.flatten(0, &mut flat);
        let many = |at: &Range<usize>, why: Unreadable| {
            let what = format!("it is unclear which packets go to which class: {}", why.what);
            Problem::error(at.clone(), what).help(why.help)
        };
        let mut sends = Vec::new();
        for (minor, at, rule) in &filters {
            let takes = Takes::of(rule).map_err(|why| many(at, why))?;
            sends.push(Sends {
                flow: flat.iter().position(|m| m == minor).unwrap_or(flat.len()),
                takes,
            });
        }
        let left = apart(&sends).map_err(|(n, why)| many(&filters[n].1, why))?;
        self.order = flat.into_iter().map(|minor| (minor, Vec::new())).collect();
        for (send, takes) in sends.iter().zip(left).filter(|(_, takes)| !takes.is_nothing()) {
            if let Some((_, rules)) =
                self.order.get_mut(send.flow).filter(|(_, rules)| !rules.contains(&takes.text))
            {
                rules.push(takes.text);
            }
        }
        let rest = self.rest;
        let taken = |(minor, rules): &(u16, Vec<String>)| Some(*minor) != rest && rules.is_empty();
        for (minor, _) in self.order.iter().filter(|one| taken(one)) {
            let Some((_, at, _)) = filters.iter().find(|(to, ..)| to == minor) else {
                continue;
            };
            let what = format!(
                "earlier filters take all packets for {major:x}:{minor:x}: it was left out"
            );
            self.notes.push(Problem::warning(at.clone(), what));
        }
        self.order.retain(|one| !taken(one));
        let takes_all = self.takes_all(&["any".to_owned()]);
        self.direct = self.kind == "htb" && !takes_all;
        if self.direct {
            let what = "packets that match no filter bypass all classes, unshaped, as in tc";
            self.notes.push(
                Problem::warning(node.at.clone(), what)
                    .help("`default MINOR` gives them a class, ARP included"),
            );
        } else if !takes_all {
            let what = "packets that match no filter are dropped, ARP included, as in tc";
            self.notes.push(
                Problem::warning(node.at.clone(), what)
                    .help("a last filter that matches all, `matchall`, gives them a class"),
            );
        }
        Ok(())
    }

    /// Returns true if the discipline has numbered bands instead of classes of its own.
    fn has_bands(&self) -> bool {
        ["priority", "cbs", "ets"].contains(&self.kind)
    }

    /// Collects the filters of a class (0: the discipline itself), in the order in which they are
    /// tried. A filter that sends to an inner class is followed by the filters of that class,
    /// which are restricted to the packets of the first filter. `asked` gets the places of these
    /// filters.
    fn asked(
        &mut self,
        (class, above): (u16, Option<&str>),
        device: &Device,
        into: &mut Vec<(u16, Range<usize>, String)>,
        asked: &mut Vec<Range<usize>>,
    ) -> Result<(), Problem> {
        let major = self.major;
        let of = |f: &&Filter| f.parent.is_some_and(|p| p.major == major && p.minor == class);
        let mut own: Vec<&Filter> = device.filters.iter().filter(of).collect();
        own.sort_by_key(|f| f.prio);
        for (n, filter) in own.iter().enumerate() {
            asked.push(filter.at.clone());
            if filter.takes_none() {
                continue;
            }
            let class_of = match filter.to {
                Target::Class(to) => Some(to),
                Target::Drop if class == 0 => {
                    self.drop(filter, into)?;
                    continue;
                }
                Target::Drop => {
                    let why = "give the filter to the discipline itself, as in `parent 1:`: only \
                               such filters can drop packets here";
                    return Err(no_equal_phrase(
                        filter.at.clone(),
                        "`action drop` of a class",
                        why,
                    ));
                }
                _ => {
                    let why = "send the packets to a class, by `flowid CLASS`";
                    return Err(no_equal_phrase(filter.at.clone(), "`pass` without a class", why));
                }
            };
            // Bands are found by the minor number alone, classes by both numbers.
            let of_here = |to: &Handle| self.has_bands() || to.major == major;
            if let Some(to) = class_of.filter(|to| !of_here(to)) {
                let what = format!(
                    "a filter of {major:x}: sends to {:x}:{:x}, a class of another discipline",
                    to.major, to.minor
                );
                return Err(Problem::error(filter.at.clone(), what).help(format!(
                    "name a class of {major:x}: in `flowid`; the discipline below that class has \
                     filters of its own, by `parent`"
                )));
            }
            let Some(to) = class_of.filter(|to| self.bands.iter().any(|b| b.minor == to.minor))
            else {
                let to = class_of.map_or((0, 0), |to| (to.major, to.minor));
                let what = format!(
                    "the filter sends to {:x}:{:x}, a class that does not exist",
                    to.0, to.1
                );
                return Err(Problem::error(filter.at.clone(), what)
                    .help("add the class by `tc class add …`, or name another `flowid`"));
            };
            if class != 0 && (to.minor == class || !self.is_below(to.minor, class)) {
                let what = format!(
                    "a filter of {major:x}:{class:x} sends to a class that is not below it"
                );
                return Err(Problem::error(filter.at.clone(), what)
                    .help("name a class below it, or give the filter to the discipline"));
            }
            let rules = both(above.unwrap_or("any"), &filter.taken());
            if rules.is_empty() {
                let what = "no packet that comes to this filter from the filters above it matches \
                            it: it was left out";
                self.notes.push(Problem::warning(filter.at.clone(), what));
            }
            if self.is_leaf(to.minor) {
                into.extend(rules.into_iter().map(|rule| (to.minor, filter.at.clone(), rule)));
                continue;
            }
            let mut takes_all = false;
            for rule in rules {
                let before = into.len();
                self.asked((to.minor, Some(&rule)), device, into, asked)?;
                if device
                    .filters
                    .iter()
                    .all(|f| f.parent.is_none_or(|p| (p.major, p.minor) != (major, to.minor)))
                {
                    let what = format!(
                        "the filter sends to {major:x}:{:x}, which has classes below it and no filter",
                        to.minor
                    );
                    let help = format!(
                        "send to a class without classes, or add `tc filter add … parent {major:x}:{:x} …`",
                        to.minor
                    );
                    return Err(Problem::error(filter.at.clone(), what).help(help));
                }
                takes_all = into[before..].last().is_some_and(|(.., last)| *last == rule);
            }
            if !takes_all && n + 1 < own.len() {
                let what = format!(
                    "packets for {major:x}:{:x} that match no filter of that class continue with \
                     the next filter here; in tc they go to the default class",
                    to.minor
                );
                self.notes.push(Problem::warning(filter.at.clone(), what));
            }
        }
        Ok(())
    }

    /// Notes the packets that a filter drops: the packets that it matches and no earlier filter
    /// matches.
    fn drop(
        &mut self,
        filter: &Filter,
        before: &[(u16, Range<usize>, String)],
    ) -> Result<(), Problem> {
        let wrong = |why: Unreadable| Problem::error(filter.at.clone(), why.what).help(why.help);
        let before: Result<Vec<Takes>, Unreadable> =
            before.iter().map(|(.., rule)| Takes::of(rule)).collect();
        let before = before.map_err(wrong)?;
        let takes =
            Takes::of(&filter.taken()).and_then(|takes| takes.less(&before)).map_err(wrong)?;
        if !takes.is_nothing() {
            self.drops.push(takes.text);
        }
        Ok(())
    }

    /// Returns true if it is certain that filters send all packets of `above` to some class.
    pub(super) fn takes_all(&self, above: &[String]) -> bool {
        if self.rest.is_some() {
            return true;
        }
        let taken: Result<Vec<Takes>, _> =
            self.order.iter().flat_map(|(_, rules)| rules).map(|rule| Takes::of(rule)).collect();
        let Ok(taken) = taken else { return false };
        above.iter().all(|above| {
            Takes::of(above)
                .and_then(|above| above.less(&taken))
                .is_ok_and(|left| left.is_nothing())
        })
    }

    fn flatten(&self, parent: u16, into: &mut Vec<u16>) {
        for band in self.below(parent) {
            match self.is_leaf(band.minor) {
                true => into.push(band.minor),
                false => self.flatten(band.minor, into),
            }
        }
    }

    pub(super) fn is_leaf(&self, minor: u16) -> bool {
        self.bands.iter().all(|b| b.parent != minor)
    }

    /// Returns true if a class is below another class, or is that class. Classes may form a loop,
    /// so the search ends after as many steps as there are classes.
    fn is_below(&self, leaf: u16, above: u16) -> bool {
        let mut at = leaf;
        for _ in 0..=self.bands.len() {
            if at == above {
                return true;
            }
            match self.bands.iter().find(|b| b.minor == at) {
                Some(band) if band.parent != 0 => at = band.parent,
                _ => return false,
            }
        }
        false
    }

    /// The classes directly below this one that packets go to, in the order of their first filters.
    pub(super) fn below(&self, parent: u16) -> Vec<&Band> {
        let first = |band: &&Band| {
            let mut places =
                (0..self.order.len()).filter(|n| self.is_below(self.order[*n].0, band.minor));
            if self.takes_rest(band.minor) { Some(usize::MAX) } else { places.next() }
        };
        let mut below: Vec<&Band> = self
            .bands
            .iter()
            .filter(|b| b.parent == parent && b.minor != parent && first(b).is_some())
            .collect();
        below.sort_by_key(first);
        below
    }

    pub(super) fn takes_rest(&self, minor: u16) -> bool {
        self.rest.is_some_and(|rest| self.is_below(rest, minor))
    }

    /// The matches of the packets that go to this class, or to a class below it.
    pub(super) fn rules(&self, minor: u16) -> Vec<String> {
        self.order
            .iter()
            .filter(|(leaf, _)| self.is_below(*leaf, minor))
            .flat_map(|(_, rules)| rules.clone())
            .collect()
    }
}

/// The name in tc of a discipline that has this name in a scenario.
fn tool_name(kind: &str) -> &str {
    match kind {
        "priority" | "cbs" => "prio",
        "qfq+" => "qfq",
        kind => kind,
    }
}

/// The parameters of a class of htb.
fn htb(device: &Device, major: u16, minor: u16) -> Option<&Htb> {
    let is = |c: &&Node<Class>| c.handle == Some(Handle { major, minor });
    match device.classes.iter().find(is).map(|c| &c.what) {
        Some(Class::Htb(htb)) => Some(htb),
        _ => None,
    }
}

/// Returns true if there may be a packet that one of the rules `above` and this rule match.
fn may_meet(above: &[String], rule: &str) -> bool {
    let meet = |above: &String| {
        let both = Takes::of(above).and_then(|above| Ok(above.meets(&Takes::of(rule)?)));
        both.unwrap_or(true)
    };
    above.is_empty() || above.iter().any(meet)
}

/// Matches of the packets that both rules match; empty if there are none.
pub(super) fn both(one: &str, other: &str) -> Vec<String> {
    match (one, other) {
        ("any", only) | (only, "any") => vec![only.to_owned()],
        (one, other) => {
            let [one, other] =
                [one, other].map(|rule| falaj_scenario::parse_match(rule).unwrap_or_default());
            one.iter()
                .flat_map(|one| other.iter().filter_map(|other| one.and(other)))
                .map(|m| m.to_string())
                .collect()
        }
    }
}
