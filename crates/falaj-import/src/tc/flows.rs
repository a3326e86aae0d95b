//! Converts the classes of a device to flows, with the links that packets pass before them.

use super::aqm::Fair;
use super::attachment::Handle;
use super::device::Node;
use super::direction::{Below, Direction, Way, is_link};
use super::link::one_or_list;
use super::qdisc::Qdisc;
use super::tree::{Tree, both};
use crate::amounts::{rate, size};
use crate::args::no_equal_phrase;
use crate::draft::{Table, inline, key, quote};
use falaj_scenario::Problem;

/// The place of a flow in the scenario.
struct ClassPlace<'p> {
    header: &'p str,
    /// Matches of the flow that contains it.
    above: &'p [String],
    /// True if the flow is a part of another flow.
    within: bool,
}

impl Direction<'_> {
    /// Converts the classes of the discipline that becomes the link's scheduler.
    pub(super) fn classful(&mut self, node: &Node<Qdisc>) -> Result<(), Problem> {
        let mut tree = Tree::of(node, self.of, None)?;
        self.no_costs_below(&tree, false)?;
        if let Some((bits, burst)) = tree.rate {
            self.takes_rate(&node.at)?;
            self.table.text("rate", rate(bits));
            burst.iter().for_each(|burst| self.table.text("burst", size(*burst)));
        }
        if let Some((at, overhead, atm)) = &tree.costs {
            self.costs(at, overhead.as_deref(), *atm)?;
        }
        self.notes.append(&mut tree.notes);
        self.drops.append(&mut tree.drops);
        self.direct = tree.direct;
        if self.direct
            && (self.lossy.is_some() || self.before_class.is_some() || self.visited.len() > 1)
        {
            let why = "packets that match no filter would bypass the disciplines above too: \
                       give them a class, `default MINOR`";
            return Err(no_equal_phrase(
                node.at.clone(),
                "`htb` without `default` below another discipline",
                why,
            ));
        }
        let header = self.header.clone();
        let place = ClassPlace { header: &header, above: &["any".to_owned()], within: false };
        self.level(&tree, 0, &place)?;
        // Without a rate no packet waits. In this case the classes only distinguish the packets of
        // the links before them.
        let tells_apart =
            !self.drops.is_empty() || self.ways.iter().any(|way| way.through.is_some());
        if tells_apart
            && !["htb", "hfsc"].contains(&tree.kind)
            && self.needs_rate(node, tree.kind).is_err()
        {
            let what = format!(
                "the rate of {} is unknown, so no class waits for another: `--rate` sets it",
                self.of.name
            );
            self.notes.push(Problem::warning(node.at.clone(), what));
            self.flows.clear();
            return Ok(());
        }
        self.needs_rate(node, tree.kind)?;
        self.table.set("scheduler", inline(&[("kind", quote(tree.kind))]));
        Ok(())
    }

    /// Adds flows for the classes below a class, in the order in which filters are tried; the
    /// default class comes last. If these flows are parts of another flow, the last part takes all
    /// remaining packets, unless these bypass the classes.
    fn level(&mut self, tree: &Tree, parent: u16, place: &ClassPlace<'_>) -> Result<(), Problem> {
        let bands = tree.below(parent);
        for (n, band) in bands.iter().enumerate() {
            let name = key(&format!("{:x}-{:x}", tree.major, band.minor));
            let header = format!("{}.flow.{name}", place.header);
            let mut table = Table::new(format!("[{header}]"), band.at.clone());
            let any = || vec!["any".to_owned()];
            let is_last = place.within && n + 1 == bands.len() && !tree.direct;
            let (rest, last) = (tree.takes_rest(band.minor), is_last);
            let rules = tree.rules(band.minor);
            table.set("match", one_or_list(&if rest || last { any() } else { rules.clone() }));
            for (name, value) in &band.own {
                table.set(name, value.clone());
            }
            let below = ClassPlace { header: &header, within: true, ..*place };
            if tree.is_leaf(band.minor) {
                let rules = if rest || (last && parent == 0) { any() } else { rules };
                let rules: Vec<String> = place
                    .above
                    .iter()
                    .flat_map(|above| rules.iter().flat_map(|rule| both(above, rule)))
                    .collect();
                self.leaf(
                    table,
                    Handle { major: tree.major, minor: band.minor },
                    &ClassPlace { above: &rules, ..below },
                )?;
            } else {
                table.set("scheduler", inline(&[("kind", quote(tree.kind))]));
                self.flows.push(table);
                self.level(tree, band.minor, &below)?;
            }
        }
        Ok(())
    }

    /// Checks that no class has an overhead of its own: a link has one overhead.
    fn no_costs_below(&self, tree: &Tree, is_below: bool) -> Result<(), Problem> {
        if let Some((at, ..)) = tree.costs.as_ref().filter(|_| is_below) {
            let why = "a link has one overhead for all packets: give it to the discipline \
                       above all classes";
            return Err(no_equal_phrase(at.clone(), "an overhead below a class", why));
        }
        let is_below =
            |q: &&Node<Qdisc>| q.parent.is_some_and(|p| p.major == tree.major && p.minor != 0);
        match self.of.qdiscs.iter().filter(is_below).find_map(|q| q.stab.as_ref()) {
            Some(stab) => {
                let why = "a link has one overhead for all packets: give it to the discipline \
                           above all classes";
                Err(no_equal_phrase(stab.at.clone(), "`stab` below a class", why))
            }
            None => Ok(()),
        }
    }

    /// Adds a class whose discipline has a queue for each connection.
    fn by_connection(
        &mut self,
        mut table: Table,
        node: &Node<Qdisc>,
        fair: &Fair,
        place: &ClassPlace<'_>,
    ) {
        self.visited.push(node.at.clone());
        self.notes.extend(fair.notes.iter().cloned());
        table.set("scheduler", inline(&fair.scheduler));
        let mut part = Table::new(format!("[{}.flow.all]", place.header), node.at.clone());
        part.text("match", "any");
        self.flows.extend([table, part]);
    }

    /// Converts the queue of a leaf class, or the discipline that divides this queue. The packets
    /// may pass a link before it.
    fn leaf(
        &mut self,
        mut table: Table,
        class: Handle,
        place: &ClassPlace<'_>,
    ) -> Result<(), Problem> {
        let of = self.of;
        let (mut below, mut through, mut queue) =
            (Some(Below::Class(class)), None, "1000p".to_owned());
        let (mut first, mut red) = (self.below(Below::Class(class)), None);
        if let Some(node) = first
            && let Qdisc::Managed(managed) = &node.what
            && let Some(child) = self.child(node)
        {
            if !is_link(&child.what) {
                let why = "it replaces the queue that `red` measures: leave it out, and give \
                           `red` the `limit`";
                return Err(no_equal_phrase(child.at.clone(), "a queue below `red`", why));
            }
            let what = "`red` measures the packets queued for the class; in tc also those in the discipline below it";
            self.notes.push(Problem::warning(child.at.clone(), what));
            self.visited.push(node.at.clone());
            below = node.handle.map(|h| Below::Discipline(h.major));
            (first, red) = (Some(child), Some(managed));
        }
        if let Some(node) = first.filter(|q| is_link(&q.what)) {
            let name = format!("{}-{:x}-{:x}", of.name, class.major, class.minor);
            let mut made = Direction::before_class(of, &name, node.at.clone());
            made.table.comments.push(format!(
                "packets of class {:x}:{:x} pass this link first",
                class.major, class.minor
            ));
            below = made.make(below.unwrap_or(Below::Class(class)))?;
            if let Some(inner) = made.ways.iter().find(|way| way.through.is_some()) {
                return Err(third(inner));
            }
            queue = made.limit().map_or(queue, |limit| format!("{limit}p"));
            self.visited.append(&mut made.visited);
            self.notes.append(&mut made.notes);
            let has_queue = below.and_then(|below| self.below(below)).is_none_or(|q| {
                matches!(q.what, Qdisc::Fifo { packets: None, bytes: None } | Qdisc::Cbs(_))
            });
            if !has_queue || red.is_some() {
                self.notes.extend(made.idle_limit());
            }
            self.before.extend(made.tables());
            through = Some(name);
        }
        let at = self
            .below(Below::Class(class))
            .filter(|_| through.is_some())
            .map_or(table.at.clone(), |q| q.at.clone());
        let divided = below.and_then(|below| self.below(below));
        if let Some((managed, below)) = red.zip(Some(divided)) {
            if let Some(second) = below {
                let why = "one discipline below `red` can be imported";
                return Err(no_equal_phrase(
                    second.at.clone(),
                    "a second discipline below `red`",
                    why,
                ));
            }
            self.ways.push(Way { rules: place.above.to_vec(), through, at });
            let queue = self.managed(managed);
            table.set("queue", queue);
            self.flows.push(table);
            return Ok(());
        }
        if through.is_some() || divided.is_none_or(|q| !divides(&q.what)) {
            self.ways.push(Way { rules: place.above.to_vec(), through: through.clone(), at });
        }
        match divided.map(|q| (q, &q.what)) {
            None => table.text("queue", queue),
            Some((node, Qdisc::Fifo { packets, bytes })) => {
                self.visited.push(node.at.clone());
                let limit = packets.map(|n| format!("{n}p")).or(bytes.map(size));
                table.text("queue", limit.unwrap_or(queue));
            }
            Some((node, Qdisc::Cbs(_))) => {
                self.visited.push(node.at.clone());
                table.text("queue", queue);
            }
            Some((node, Qdisc::Managed(managed))) => {
                self.visited.push(node.at.clone());
                let queue = self.managed(managed);
                table.set("queue", queue);
            }
            Some((node, Qdisc::Fair(fair))) => {
                self.by_connection(table, node, fair, place);
                return Ok(());
            }
            Some((node, Qdisc::Cake(cake))) => {
                if let Some(framing) = &cake.framing {
                    let why = "a link has one overhead for all packets: give it to the discipline \
                               above all classes, as `stab`";
                    return Err(no_equal_phrase(framing.at.clone(), "an overhead of a class", why));
                }
                self.by_connection(table, node, &cake.fair(true), place);
                return Ok(());
            }
            Some((node, _)) => {
                self.visited.push(node.at.clone());
                let mut tree = Tree::of(node, of, Some(place.above))?;
                self.no_costs_below(&tree, true)?;
                if let Some(drop) = tree.drops.first() {
                    let what = format!("a filter that drops `{drop}` below a class");
                    let why = "give the filter to the discipline above all classes: only such \
                               filters can drop packets here";
                    return Err(no_equal_phrase(node.at.clone(), &what, why));
                }
                if !tree.takes_all(place.above) && !tree.direct {
                    let what = "packets of the class above that match no filter are dropped in tc";
                    return Err(Problem::error(node.at.clone(), what).help(format!(
                        "end with a filter that matches all: `tc filter add … parent {:x}: … \
                         matchall flowid CLASS`",
                        tree.major
                    )));
                }
                self.notes.append(&mut tree.notes);
                table.set("scheduler", inline(&[("kind", quote(tree.kind))]));
                let ceil = table.get("ceil").or(table.get("rate")).map(str::to_owned);
                self.flows.push(table);
                let before = self.ways.len();
                self.level(&tree, 0, place)?;
                if tree.direct {
                    let Some(ceil) = ceil else {
                        let why = "packets that match no filter bypass its classes, and it \
                                   has no rate of its own: give them a class, `default MINOR`";
                        return Err(no_equal_phrase(
                            node.at.clone(),
                            "`htb` without `default`",
                            why,
                        ));
                    };
                    let name = key(&format!("{:x}-direct", tree.major));
                    let header = format!("[{}.flow.{name}]", place.header);
                    let mut direct = Table::new(header, node.at.clone());
                    direct.text("match", "any");
                    direct.set("rate", ceil.clone());
                    direct.set("ceil", ceil);
                    direct.text("queue", "1000p");
                    self.flows.push(direct);
                    self.ways.push(Way {
                        rules: place.above.to_vec(),
                        through: None,
                        at: node.at.clone(),
                    });
                }
                if let Some(inner) = self.ways[before..]
                    .iter()
                    .find(|way| way.through.is_some() && through.is_some())
                {
                    return Err(third(inner));
                }
                if through.is_some() {
                    self.ways.truncate(before);
                }
                return Ok(());
            }
        }
        self.flows.push(table);
        Ok(())
    }
}

/// The error for a second link before a class.
fn third(inner: &Way) -> Problem {
    let why = "the outer class has such a discipline too, and each would become a link: write the \
               links in the scenario, and a rule that leads through all of them, `to = [\"first\", \
               \"second\", \"third\"]`";
    let what = "a `netem` or `tbf` below a class within another class";
    no_equal_phrase(inner.at.clone(), what, why)
}

/// Returns true if the discipline has classes of its own.
fn divides(what: &Qdisc) -> bool {
    !matches!(
        what,
        Qdisc::Fifo { .. } | Qdisc::Managed(_) | Qdisc::Fair(_) | Qdisc::Cake(_) | Qdisc::Cbs(_)
    )
}
