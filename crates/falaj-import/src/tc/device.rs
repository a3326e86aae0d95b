//! What the commands make of a device.

use super::attachment::{Attachment, Handle};
use super::filter::{self, Filter};
use super::qdisc::{self, Class, Qdisc};
use super::stab::Stab;
use crate::args::{Args, no_equal};
use falaj_scenario::Problem;
use std::ops::Range;

/// Something that was added: where it was said, and what it is below.
#[derive(Debug, Clone)]
pub(super) struct Node<T> {
    pub(super) handle: Option<Handle>,
    /// Of what is at the root, none.
    pub(super) parent: Option<Handle>,
    pub(super) what: T,
    /// What it says of the bytes of packets.
    pub(super) stab: Option<Stab>,
    pub(super) at: Range<usize>,
    pub(super) line: String,
}

/// A device.
#[derive(Debug, Clone, Default)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) qdiscs: Vec<Node<Qdisc>>,
    pub(super) classes: Vec<Node<Class>>,
    pub(super) filters: Vec<Filter>,
    /// What comes in goes there first.
    pub(super) redirected: Option<String>,
}

/// All of them, in the order in which they are named.
#[derive(Debug, Clone, Default)]
pub(super) struct Devices {
    pub(super) all: Vec<Device>,
}

impl Devices {
    fn of(&mut self, place: &Attachment<'_>, args: &Args<'_>) -> Result<&mut Device, Problem> {
        let Some(dev) = place.dev else {
            return Err(Problem::error(args.all(), "which device? `dev NAME` is missing"));
        };
        let at = self.all.iter().position(|d| d.name == dev.text).unwrap_or_else(|| {
            self.all.push(Device { name: dev.text.clone(), ..Device::default() });
            self.all.len() - 1
        });
        Ok(&mut self.all[at])
    }

    /// `qdisc add dev eth0 root handle 1: netem …`.
    pub(super) fn qdisc(
        &mut self,
        mut args: Args<'_>,
        removes: bool,
        line: &str,
    ) -> Result<(), Problem> {
        let (place, kind) = Attachment::read(&mut args, false)?;
        let all = args.all();
        let device = self.of(&place, &args)?;
        if removes {
            if place.parent.is_none() && !place.ingress() {
                *device = Device {
                    name: device.name.clone(),
                    redirected: device.redirected.take(),
                    ..Device::default()
                };
            }
            device.qdiscs.retain(|q| q.parent != place.parent);
            return Ok(());
        }
        if place.ingress() {
            return Ok(());
        }
        let Some(kind) = kind else {
            return Err(Problem::error(all, "which discipline? its kind is missing")
                .help(format!("as in `tc qdisc add dev {} root netem delay 10ms`", device.name)));
        };
        let what = qdisc::read(kind, &mut args)?;
        device.qdiscs.retain(|q| q.parent != place.parent);
        let (handle, parent, stab) = (place.handle, place.parent, place.stab);
        device.qdiscs.push(Node { handle, parent, what, stab, at: all, line: line.to_owned() });
        Ok(())
    }

    /// `class add dev eth0 parent 1: classid 1:10 htb …`.
    pub(super) fn class(
        &mut self,
        mut args: Args<'_>,
        removes: bool,
        line: &str,
    ) -> Result<(), Problem> {
        let (place, kind) = Attachment::read(&mut args, false)?;
        let all = args.all();
        let device = self.of(&place, &args)?;
        let Some(id) = place.handle else {
            return Err(Problem::error(all, "which class? `classid` is missing")
                .help("as in `classid 1:10`"));
        };
        if let Some(stab) = place.stab {
            return Err(no_equal(
                stab.at,
                "stab of a class",
                "what a packet costs is for the whole link: give it to the `qdisc`",
            ));
        }
        device.classes.retain(|c| c.handle != Some(id));
        if removes {
            return Ok(());
        }
        let Some(kind) = kind else {
            return Err(Problem::error(all, "which discipline? its kind is missing"));
        };
        let what = qdisc::class(kind, &mut args)?;
        let (handle, parent) = (Some(id), place.parent);
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

    /// `filter add dev eth0 parent 1: protocol ip u32 match … flowid 1:10`.
    pub(super) fn filter(
        &mut self,
        mut args: Args<'_>,
        removes: bool,
        notes: &mut Vec<Problem>,
    ) -> Result<(), Problem> {
        let (place, kind) = Attachment::read(&mut args, true)?;
        let all = args.all();
        let device = self.of(&place, &args)?;
        if removes {
            let same =
                |f: &Filter| f.parent == place.parent && place.prio.is_none_or(|p| p == f.prio);
            device.filters.retain(|f| !same(f));
            return Ok(());
        }
        let Some(kind) = kind else {
            return Err(Problem::error(all, "which filter? its kind is missing"));
        };
        let mut made = filter::read(kind, &place, &mut args, notes)?;
        if place.ingress() {
            let to = made.redirects.ok_or_else(|| {
                no_equal(
                    all.clone(),
                    "a filter of what comes in",
                    "redirect it, as to `ifb0`, and shape what that one sends",
                )
            })?;
            device.redirected = Some(to);
            return Ok(());
        }
        if made.redirects.is_some() {
            return Err(no_equal(all, "redirect", "what a device sends passes its own link here"));
        }
        if place.prio.is_none_or(|prio| prio == 0) {
            made.prio = before(device.filters.iter().filter(|f| f.parent == made.parent));
        }
        device.filters.push(made);
        Ok(())
    }
}

/// The preference of a filter that says none: before all that have such, behind those below.
fn before<'a>(others: impl Iterator<Item = &'a Filter>) -> u64 {
    const LEAST: u64 = 0x8000;
    const FIRST: u64 = 0xc000;
    others.map(|f| f.prio).filter(|prio| *prio >= LEAST).min().map_or(FIRST, |prio| prio - 1)
}
