//! The flows that classes of a device become, and the links before them.

use super::attachment::Handle;
use super::device::Node;
use super::direction::{Below, Direction, Way, is_link};
use super::link::one_or_list;
use super::qdisc::Qdisc;
use super::tree::{Tree, both};
use crate::amounts::{rate, size};
use crate::args::no_equal;
use crate::draft::{Table, inline, key, quote};
use falaj_scenario::Problem;

/// Where a flow is.
struct ClassPlace<'p> {
    header: &'p str,
    /// What its packets are like by the flow that it is in.
    above: &'p [String],
    /// It is in one.
    within: bool,
}

impl Direction<'_> {
    /// The classes of the discipline that stands at the link.
    pub(super) fn classful(&mut self, node: &Node<Qdisc>) -> Result<(), Problem> {
        let mut tree = Tree::of(node, self.of, true)?;
        self.no_costs_below(&tree)?;
        if let Some((bits, burst)) = tree.rate {
            self.takes_rate(&node.at)?;
            self.table.text("rate", rate(bits));
            burst.iter().for_each(|burst| self.table.text("burst", size(*burst)));
        }
        self.notes.append(&mut tree.notes);
        let header = self.header.clone();
        let place = ClassPlace { header: &header, above: &["any".to_owned()], within: false };
        self.level(&tree, 0, &place)?;
        // Without a rate nothing waits where packets are only told apart for the links before their
        // classes.
        let tells_apart = self.ways.iter().any(|way| way.through.is_some());
        if tells_apart
            && self.needs_rate(node, tree.kind).is_err()
            && !["htb", "hfsc"].contains(&tree.kind)
        {
            let what = format!(
                "nothing says how fast {} is, and no class waits for another: `--rate` does",
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

    /// The flows of the classes below one of them, in the order in which filters are tried; the one
    /// that takes the rest comes last. Within a flow the last takes what is left of it.
    fn level(&mut self, tree: &Tree, parent: u16, place: &ClassPlace<'_>) -> Result<(), Problem> {
        let bands = tree.below(parent);
        for (n, band) in bands.iter().enumerate() {
            let name = key(&format!("{:x}-{:x}", tree.major, band.minor));
            let header = format!("{}.flow.{name}", place.header);
            let mut table = Table::new(format!("[{header}]"), band.at.clone());
            let any = || vec!["any".to_owned()];
            let (rest, last) = (tree.takes_rest(band.minor), place.within && n + 1 == bands.len());
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

    /// What a packet costs is for the whole link.
    fn no_costs_below(&self, tree: &Tree) -> Result<(), Problem> {
        let is_below =
            |q: &&Node<Qdisc>| q.parent.is_some_and(|p| p.major == tree.major && p.minor != 0);
        match self.of.qdiscs.iter().filter(is_below).find_map(|q| q.stab.as_ref()) {
            Some(stab) => {
                let why = "what a packet costs is for the whole link: give it to the discipline above all classes";
                Err(no_equal(stab.at.clone(), "stab below a class", why))
            }
            None => Ok(()),
        }
    }

    /// What is below a class that has none of its own: a queue, or a discipline that divides it;
    /// before these perhaps a link.
    fn leaf(
        &mut self,
        mut table: Table,
        class: Handle,
        place: &ClassPlace<'_>,
    ) -> Result<(), Problem> {
        let of = self.of;
        let (mut below, mut through, mut queue) =
            (Some(Below::Class(class)), None, "1000p".to_owned());
        if let Some(node) = self.below(Below::Class(class)).filter(|q| is_link(&q.what)) {
            let name = format!("{}-{:x}-{:x}", of.name, class.major, class.minor);
            let mut made = Direction::before_class(of, &name, node.at.clone(), self.seen);
            made.table.comments.push(format!(
                "what packets of class {:x}:{:x} pass before it",
                class.major, class.minor
            ));
            below = made.make(Below::Class(class))?;
            if let Some(inner) = made.ways.iter().find(|way| way.through.is_some()) {
                return Err(third(inner));
            }
            queue = made.limit().map_or(queue, |limit| format!("{limit}p"));
            self.seen = made.seen;
            self.notes.append(&mut made.notes);
            self.before.extend(made.tables());
            through = Some(name);
        }
        let at = self
            .below(Below::Class(class))
            .filter(|_| through.is_some())
            .map_or(table.at.clone(), |q| q.at.clone());
        let divided = below.and_then(|below| self.below(below));
        if through.is_some() || divided.is_none_or(|q| !divides(&q.what)) {
            self.ways.push(Way { rules: place.above.to_vec(), through: through.clone(), at });
        }
        match divided.map(|q| (q, &q.what)) {
            None | Some((_, Qdisc::Fifo { packets: None, bytes: None } | Qdisc::Cbs(_))) => {
                table.text("queue", queue);
            }
            Some((_, Qdisc::Fifo { packets: Some(n), .. })) => table.text("queue", format!("{n}p")),
            Some((_, Qdisc::Fifo { bytes: Some(n), .. })) => table.text("queue", size(*n)),
            Some((_, Qdisc::Managed(managed))) => {
                let queue = self.managed(managed);
                table.set("queue", queue);
            }
            Some((node, Qdisc::Fair(fair))) => {
                self.notes.extend(fair.notes.iter().cloned());
                table.set("scheduler", inline(&fair.scheduler));
                let mut part = Table::new(format!("[{}.flow.all]", place.header), node.at.clone());
                part.text("match", "any");
                self.flows.extend([table, part]);
                return Ok(());
            }
            Some((node, _)) => {
                self.deeper(node)?;
                let mut tree = Tree::of(node, of, false)?;
                self.no_costs_below(&tree)?;
                self.notes.append(&mut tree.notes);
                table.set("scheduler", inline(&[("kind", quote(tree.kind))]));
                self.flows.push(table);
                let before = self.ways.len();
                self.level(&tree, 0, place)?;
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

/// A link before a class is one.
fn third(inner: &Way) -> Problem {
    let why = "there is a link before a class above it already: write one for each, and a rule \
               that leads through all, `to = [\"first\", \"second\", \"third\"]`";
    no_equal(inner.at.clone(), "this discipline below a class", why)
}

/// Has it classes of its own?
fn divides(what: &Qdisc) -> bool {
    !matches!(what, Qdisc::Fifo { .. } | Qdisc::Managed(_) | Qdisc::Fair(_) | Qdisc::Cbs(_))
}
