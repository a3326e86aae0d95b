//! The disciplines, classes and filters of devices, as they are after the commands of a script.

use super::aqm::Managed;
use super::attachment::{Attachment, Handle};
use super::direction::is_link;
use super::filter::{self, Filter, Target};
use super::firewall::{self, FirewallPath, FirewallRule};
use super::qdisc::{self, Class, Qdisc};
use super::stab::Stab;
use crate::args::{Args, no_equal, no_equal_phrase};
use crate::lines::Word;
use falaj_scenario::Problem;
use std::mem::discriminant;
use std::ops::Range;

/// A discipline or class that a command added, with its place in the tree and in the script.
#[derive(Debug, Clone)]
pub(super) struct Node<T> {
    pub(super) handle: Option<Handle>,
    /// Handle of the parent; `None` at the root.
    pub(super) parent: Option<Handle>,
    pub(super) what: T,
    /// The discipline's size table, which changes the number of bytes that a packet counts as.
    pub(super) stab: Option<Stab>,
    pub(super) at: Range<usize>,
    pub(super) line: String,
}

/// A device with its tree.
#[derive(Debug, Clone, Default)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) qdiscs: Vec<Node<Qdisc>>,
    pub(super) classes: Vec<Node<Class>>,
    pub(super) filters: Vec<Filter>,
    /// Filters of incoming packets.
    pub(super) incoming: Vec<Filter>,
    /// The network namespace of the device, if the commands name one.
    netns: Option<String>,
    /// The device's name in the commands.
    called: String,
    /// True if filters of another device redirect incoming packets to this one.
    pub(super) is_redirected_to: bool,
    /// If the root is `mq`: its number, and the words that make the discipline of a hardware queue.
    card: Option<(u16, Option<Vec<String>>)>,
    /// The last command that removed the device's root discipline.
    pub(super) removed: Option<Range<usize>>,
}

impl Device {
    /// The device to which filters redirect incoming packets.
    pub(super) fn redirected(&self) -> Option<&str> {
        self.incoming.iter().find_map(|f| match &f.to {
            Target::Device(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The path through rules of iptables of the packets that leave by this device.
    pub(super) fn firewall<'f>(&self, rules: &'f [FirewallRule]) -> FirewallPath<'f> {
        FirewallPath::of(rules, &self.called, self.netns.as_deref())
    }

    fn root(&self) -> Option<&Node<Qdisc>> {
        self.qdiscs.iter().find(|q| q.parent.is_none())
    }

    /// Returns true if all packets of the device pass the discipline with this handle.
    fn is_passed_by_all(&self, handle: Option<Handle>) -> bool {
        let Some(handle) = handle.filter(|handle| handle.minor == 0) else {
            return handle.is_none();
        };
        let of = |major| self.qdiscs.iter().find(|q| q.handle.is_some_and(|h| h.major == major));
        let Some(parent) = of(handle.major).and_then(|q| q.parent) else { return true };
        let above = of(parent.major).filter(|q| is_link(&q.what)).and_then(|q| q.handle);
        above.is_some_and(|above| self.is_passed_by_all(Some(above)))
    }

    /// Removes the discipline in a place, with its classes, its filters and everything below it.
    fn remove(&mut self, parent: Option<Handle>) {
        let at = self.qdiscs.iter().position(|q| q.parent == parent);
        let Some(major) = at.map(|at| self.qdiscs.remove(at)).and_then(|q| q.handle) else {
            return;
        };
        let is_of = |h: Option<Handle>| h.is_some_and(|h| h.major == major.major);
        self.classes.retain(|c| !is_of(c.handle));
        self.filters.retain(|f| !is_of(f.parent));
        while let Some(below) = self.qdiscs.iter().find(|q| is_of(q.parent)) {
            let parent = below.parent;
            self.remove(parent);
        }
    }

    /// Returns true if the root is `mq` with this number.
    fn is_card(&self, major: u16) -> bool {
        self.card.as_ref().is_some_and(|card| card.0 == major)
    }

    /// Takes the discipline of a hardware queue below `mq`: that of the first queue becomes the
    /// root. Returns true if it is the first one.
    fn of_queue(
        &mut self,
        words: Vec<String>,
        all: &Range<usize>,
        notes: &mut Vec<Problem>,
    ) -> Result<bool, Problem> {
        let Some((_, first)) = &mut self.card else { return Ok(true) };
        match first {
            Some(first) if *first == words => Ok(false),
            Some(_) => {
                let why = "the hardware queues below `mq` become one: give all the same discipline";
                let what = "another discipline for a hardware queue";
                Err(no_equal_phrase(all.clone(), what, why))
            }
            None => {
                let what = "the hardware queues below `mq` become one queue with this discipline";
                notes.push(Problem::warning(all.clone(), what));
                *first = Some(words);
                Ok(true)
            }
        }
    }

    /// Checks that the parent of a new discipline exists already; tc refuses the command otherwise.
    fn has_parent(&self, place: &Attachment<'_>, all: &Range<usize>) -> Result<(), Problem> {
        let Some(parent) = place.parent else { return Ok(()) };
        let major = |node: &&Node<Qdisc>| node.handle.is_some_and(|h| h.major == parent.major);
        let Some(of) = self.qdiscs.iter().find(major) else {
            return Err(self.no_discipline(parent.major, all.clone()));
        };
        let missing = |help: String| {
            let what = format!("there is no class {:x}:{:x}", parent.major, parent.minor);
            Err(Problem::error(all.clone(), what).help(help))
        };
        match &of.what {
            Qdisc::Htb { .. } | Qdisc::Hfsc(_) | Qdisc::Drr | Qdisc::Qfq => {
                let is = |c: &Node<qdisc::Class>| c.handle == Some(parent);
                if self.classes.iter().any(is) {
                    return Ok(());
                }
                missing(format!(
                    "add it first, by `tc class add … classid {:x}:{:x} …`: tc refuses this line too",
                    parent.major, parent.minor
                ))
            }
            Qdisc::Prio { bands, .. } | Qdisc::Ets { bands, .. } => {
                let band = 1..=*bands;
                if band.contains(&u64::from(parent.minor)) {
                    return Ok(());
                }
                missing(format!(
                    "the bands are {0:x}:1 to {0:x}:{bands:x}: name one of them, or write more `bands`",
                    parent.major
                ))
            }
            Qdisc::Netem(_)
            | Qdisc::Tbf { .. }
            | Qdisc::Cbs(_)
            | Qdisc::Managed(Managed { below: true, .. }) => Ok(()),
            _ => Err(Problem::error(
                all.clone(),
                "this discipline is below a discipline without classes",
            )
            .help(
                "tc refuses it too: put a discipline above that can have another one below it: \
                 `netem`, `tbf`, `red`, `cbs`, or one with classes",
            )),
        }
    }

    /// The error for a command that names a discipline which no command before it has added.
    fn no_discipline(&self, major: u16, at: Range<usize>) -> Problem {
        Problem::error(at, format!("{} has no discipline `{major:x}:` yet", self.name)).help(
            format!(
                "add it first, by `tc qdisc add … handle {major:x}: …`: tc refuses this line too"
            ),
        )
    }
}

/// The action that a command asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Add,
    /// `replace` and `change`.
    Replace,
    Delete,
}

/// All devices, in the order in which the commands name them.
#[derive(Debug, Clone, Default)]
pub(super) struct Devices {
    pub(super) all: Vec<Device>,
    /// Rules of iptables that mark packets, or lead to other rules; those of a chain are in their
    /// order.
    pub(super) firewall: Vec<FirewallRule>,
    /// The namespace in which the current command runs.
    netns: Option<String>,
}

impl Devices {
    fn of(&mut self, place: &Attachment<'_>, args: &Args<'_>) -> Result<&mut Device, Problem> {
        let Some(dev) = place.dev else {
            return Err(Problem::error(args.all(), "the device is missing: write `dev NAME`"));
        };
        let is = |d: &Device| d.called == dev.text && d.netns == self.netns;
        let at = self.all.iter().position(is).unwrap_or_else(|| {
            let taken = self.all.iter().any(|d| d.name == dev.text);
            let name = match self.netns.as_ref().filter(|_| taken) {
                Some(netns) => format!("{netns}-{}", dev.text),
                None => dev.text.clone(),
            };
            self.all.push(Device {
                name,
                called: dev.text.clone(),
                netns: self.netns.clone(),
                ..Device::default()
            });
            self.all.len() - 1
        });
        Ok(&mut self.all[at])
    }

    /// Reads `iptables -t mangle -A POSTROUTING … -j MARK …`. Returns true if the command concerns
    /// marks.
    pub(super) fn firewall(
        &mut self,
        program: &Word,
        args: &mut Args<'_>,
    ) -> Result<bool, Problem> {
        firewall::command(program, args, self.netns.clone(), &mut self.firewall)
    }

    /// Sets the namespace of the following commands.
    pub(super) fn enter(&mut self, netns: Option<String>) {
        self.netns = netns;
    }

    /// Reads `qdisc add dev eth0 root handle 1: netem …`.
    pub(super) fn qdisc(
        &mut self,
        args: &mut Args<'_>,
        verb: Verb,
        line: &str,
    ) -> Result<(), Problem> {
        let (mut place, kind) = Attachment::read(args, false)?;
        let all = args.all();
        let device = self.of(&place, args)?;
        if verb == Verb::Delete {
            if place.ingress() {
                device.incoming.clear();
            } else if place.parent.is_none() {
                device.removed = Some(all).filter(|_| !device.qdiscs.is_empty());
                device.remove(None);
                device.card = None;
            } else {
                device.remove(place.parent);
            }
            return Ok(());
        }
        if place.ingress() {
            return Ok(());
        }
        let is_queue = place.parent.is_some_and(|p| device.is_card(p.major));
        if is_queue {
            place.parent = None;
        } else if verb == Verb::Add && device.qdiscs.iter().any(|q| q.parent == place.parent) {
            let what = "there is a discipline in this place already: tc refuses this line";
            return Err(Problem::error(all, what)
                .help("`replace` puts another one there; or remove this line"));
        }
        device.has_parent(&place, &all)?;
        let Some(kind) = kind else {
            return Err(Problem::error(all, "the kind of the discipline is missing")
                .help(format!("as in `tc qdisc add dev {} root netem delay 10ms`", device.name)));
        };
        let words = std::iter::once(kind).chain(args.clone().until(|_| false));
        let words: Vec<String> = words.map(|word| word.text.clone()).collect();
        let what = qdisc::read(kind, args)?;
        if is_queue {
            if !device.of_queue(words, &all, &mut args.notes)? {
                return Ok(());
            }
        } else if place.parent.is_none() {
            let major = place.handle.map_or(0, |handle| handle.major);
            device.card = (kind.text == "mq").then_some((major, None));
        }
        let taken = |q: &Node<Qdisc>| q.handle == place.handle && q.parent != place.parent;
        if place.handle.is_some() && device.qdiscs.iter().any(taken) {
            return Err(Problem::error(all, "another discipline has this handle already")
                .help("give each discipline a handle of its own"));
        }
        let (mut handle, parent, stab) = (place.handle, place.parent, place.stab);
        let changes = |q: &&Node<Qdisc>| {
            let same_kind = discriminant(&q.what) == discriminant(&what);
            q.parent == parent && same_kind && (handle.is_none() || handle == q.handle)
        };
        match device.qdiscs.iter().find(changes) {
            // The changed discipline keeps its classes and everything below it.
            Some(changed) => {
                handle = changed.handle;
                device.qdiscs.retain(|q| q.parent != parent);
            }
            None => device.remove(parent),
        }
        device.qdiscs.push(Node { handle, parent, what, stab, at: all, line: line.to_owned() });
        Ok(())
    }

    /// Reads `class add dev eth0 parent 1: classid 1:10 htb …`.
    pub(super) fn class(
        &mut self,
        args: &mut Args<'_>,
        verb: Verb,
        line: &str,
    ) -> Result<(), Problem> {
        let (place, kind) = Attachment::read(args, false)?;
        let all = args.all();
        let device = self.of(&place, args)?;
        let Some(id) = place.handle else {
            return Err(Problem::error(all, "the class has no number: `classid` is missing")
                .help("as in `classid 1:10`"));
        };
        if let Some(stab) = place.stab {
            return Err(no_equal_phrase(
                stab.at,
                "`stab` of a class",
                "a link has one overhead for all packets: give it to the `qdisc`",
            ));
        }
        let is_there = device.classes.iter().any(|c| c.handle == Some(id));
        if verb == Verb::Add && is_there {
            return Err(Problem::error(all, "there is such a class already: tc refuses this line")
                .help("`replace` changes it"));
        }
        if verb == Verb::Delete {
            device.classes.retain(|c| c.handle != Some(id));
            return Ok(());
        }
        let Some(kind) = kind else {
            return Err(Problem::error(all, "the kind of the class is missing")
                .help("as in `tc class add … classid 1:10 htb rate 1mbit`"));
        };
        let what = qdisc::class(kind, args)?;
        let is_of = |q: &Node<Qdisc>| q.handle.is_some_and(|h| h.major == id.major);
        if !device.qdiscs.iter().any(is_of) {
            return Err(device.no_discipline(id.major, all));
        }
        let (handle, parent) = (Some(id), place.parent);
        device.classes.retain(|c| c.handle != Some(id));
        device.classes.push(Node {
            handle,
            parent,
            what,
            stab: None,
            at: all,
            line: line.to_owned(),
        });
        Ok(())
    }

    /// Reads `filter add dev eth0 parent 1: protocol ip u32 match … flowid 1:10`.
    pub(super) fn filter(
        &mut self,
        args: &mut Args<'_>,
        verb: Verb,
        notes: &mut Vec<Problem>,
    ) -> Result<(), Problem> {
        let (mut place, kind) = Attachment::read(args, true)?;
        let all = args.all();
        let device = self.of(&place, args)?;
        if place.parent.is_none() && !place.ingress() {
            place.parent = device.root().and_then(|q| q.handle);
        }
        if verb == Verb::Delete {
            let same =
                |f: &Filter| f.parent == place.parent && place.prio.is_none_or(|p| p == f.prio);
            if place.ingress() {
                device.incoming.retain(|f| place.prio.is_some_and(|p| p != f.prio));
            } else {
                device.filters.retain(|f| !same(f));
            }
            return Ok(());
        }
        let Some(kind) = kind else {
            return Err(filter::no_kind(all));
        };
        let mut made = filter::read(kind, &place, args, notes)?;
        if made.to == Target::Nothing {
            return Ok(());
        }
        let others = if place.ingress() { &device.incoming } else { &device.filters };
        let mut same = others.iter().filter(|f| f.parent == made.parent && f.prio == made.prio);
        if made.prio > 0 && same.any(|f| f.table != made.table) {
            let what = "tc refuses this line, as filters of one `prio` have one protocol and one \
                        kind; falaj accepts it";
            notes.push(Problem::warning(all.clone(), what).help("give it a `prio` of its own"));
        }
        let unnumbered = place.prio.is_none_or(|prio| prio == 0);
        if place.ingress() {
            if let (Target::Device(to), Some(first)) = (&made.to, device.redirected())
                && to != first
            {
                let why = "a link has one other end: redirect all packets to one device, or import \
                           the commands for each device separately";
                return Err(no_equal_phrase(all, "a second device for redirected packets", why));
            }
            if unnumbered {
                made.prio = before(device.incoming.iter());
            }
            device.incoming.push(made);
            return Ok(());
        }
        if device.root().is_none() {
            let what = format!("{} has no discipline for this filter", device.name);
            return Err(Problem::error(all, what).help(format!(
                "add one first, by `tc qdisc add dev {} root …`, or name another device",
                device.name
            )));
        }
        if let Some(parent) = made.parent {
            let is = |q: &&Node<Qdisc>| q.handle.is_some_and(|h| h.major == parent.major);
            let Some(of) = device.qdiscs.iter().find(is) else {
                return Err(device.no_discipline(parent.major, all));
            };
            if of.what == Qdisc::PfifoFast {
                let what = "`pfifo_fast` takes no filters: tc refuses this line";
                return Err(
                    Problem::error(all, what).help("`prio` has the same bands, and filters")
                );
            }
        }
        if matches!(made.to, Target::Device(_)) {
            return Err(no_equal(
                all,
                "redirect",
                "packets that a device sends pass its own link: only filters of incoming packets, \
                 `parent ffff:`, can redirect",
            ));
        }
        if let Some(police) = &made.police
            && !device.is_passed_by_all(made.parent)
        {
            let why =
                "give the policer to a filter of the device's root discipline, as in `parent 1:`";
            return Err(no_equal_phrase(police.at.clone(), "a policer of a class", why));
        }
        if unnumbered {
            made.prio = before(device.filters.iter().filter(|f| f.parent == made.parent));
        }
        device.filters.push(made);
        Ok(())
    }
}

/// The preference of a filter without one, as the kernel chooses it: one less than the lowest
/// preference from 0x8000 on, or 0xc000 if there is none.
fn before<'a>(others: impl Iterator<Item = &'a Filter>) -> u64 {
    const LEAST: u64 = 0x8000;
    const FIRST: u64 = 0xc000;
    others.map(|f| f.prio).filter(|prio| *prio >= LEAST).min().map_or(FIRST, |prio| prio - 1)
}
