//! The disciplines by name. A new one is a new file, and an entry and an arm here.

use crate::contract::discipline::Discipline;
use crate::contract::params::{Manifest, Refusals, Setup};
use crate::disciplines::arc::Arc;
use crate::disciplines::ats::Ats;
use crate::disciplines::cbs::Cbs;
use crate::disciplines::corr::Corr;
use crate::disciplines::dcf::Dcf;
use crate::disciplines::drr::Drr;
use crate::disciplines::drr_plus::DrrPlus;
use crate::disciplines::drr_plus_plus::DrrPlusPlus;
use crate::disciplines::drr_plus_plus::mw00::Mw00;
use crate::disciplines::dualpi2::DualPi2;
use crate::disciplines::edf::Edf;
use crate::disciplines::ets::Ets;
use crate::disciplines::ffs::Ffs;
use crate::disciplines::fifo::Fifo;
use crate::disciplines::fq_codel::FqCodel;
use crate::disciplines::hfsc::Hfsc;
use crate::disciplines::hrr::Hrr;
use crate::disciplines::htb::Htb;
use crate::disciplines::mclock::MClock;
use crate::disciplines::mclock::hclock::HClock;
use crate::disciplines::mgfq::Mgfq;
use crate::disciplines::mtr_ls::MtrLs;
use crate::disciplines::netback::Netback;
use crate::disciplines::priority::Priority;
use crate::disciplines::qfq::Qfq;
use crate::disciplines::qfq_plus::QfqPlus;
use crate::disciplines::rcsp::Rcsp;
use crate::disciplines::sced::Sced;
use crate::disciplines::scfq::Scfq;
use crate::disciplines::sfq::Sfq;
use crate::disciplines::shaper::Shaper;
use crate::disciplines::spfq::Spfq;
use crate::disciplines::tas::Tas;
use crate::disciplines::timer_wheels::TimerWheels;
use crate::disciplines::virtual_clock::VirtualClock;
use crate::disciplines::virtual_links::packet_wise::PacketWise;
use crate::disciplines::virtual_links::phase_wise::PhaseWise;
use crate::disciplines::wf2q::Wf2q;
use crate::disciplines::wf2q_plus::Wf2qPlus;
use crate::disciplines::wfq::Wfq;
use crate::disciplines::wrr::Wrr;
use crate::disciplines::xen_wrr::XenWrr;
use crate::scheduler::guard::Guard;
use alloc::borrow::Cow;

/// Receives the discipline that was asked for, as its own type, so that all
/// that is built around it is compiled for it alone.
pub trait Visitor {
    /// What the visitor makes of it.
    type Output;
    /// Called once, with the discipline.
    fn visit<D: Discipline + 'static>(self, discipline: D) -> Self::Output;
}

/// All kinds that are built in.
pub const ENTRIES: &[Manifest] = &[
    crate::disciplines::fifo::MANIFEST,
    crate::disciplines::priority::MANIFEST,
    crate::disciplines::wrr::RR,
    crate::disciplines::wrr::MANIFEST,
    crate::disciplines::hrr::MANIFEST,
    crate::disciplines::corr::MANIFEST,
    crate::disciplines::drr::MANIFEST,
    crate::disciplines::drr_plus::MANIFEST,
    crate::disciplines::drr_plus_plus::MANIFEST,
    crate::disciplines::ets::MANIFEST,
    crate::disciplines::virtual_clock::MANIFEST,
    crate::disciplines::scfq::MANIFEST,
    crate::disciplines::sfq::MANIFEST,
    crate::disciplines::wfq::MANIFEST,
    crate::disciplines::wf2q::MANIFEST,
    crate::disciplines::spfq::MANIFEST,
    crate::disciplines::edf::MANIFEST,
    crate::disciplines::sced::MANIFEST,
    crate::disciplines::mtr_ls::MANIFEST,
    crate::disciplines::arc::MANIFEST,
    crate::disciplines::qfq::MANIFEST,
    crate::disciplines::qfq_plus::MANIFEST,
    crate::disciplines::wf2q_plus::MANIFEST,
    crate::disciplines::ffs::MANIFEST,
    crate::disciplines::timer_wheels::MANIFEST,
    crate::disciplines::virtual_links::MANIFEST,
    crate::disciplines::shaper::MANIFEST,
    crate::disciplines::cbs::MANIFEST,
    crate::disciplines::tas::MANIFEST,
    crate::disciplines::ats::MANIFEST,
    crate::disciplines::mclock::MANIFEST,
    crate::disciplines::hfsc::MANIFEST,
    crate::disciplines::htb::MANIFEST,
    crate::disciplines::rcsp::MANIFEST,
    crate::disciplines::mgfq::MANIFEST,
    crate::disciplines::netback::MANIFEST,
    crate::disciplines::xen_wrr::MANIFEST,
    crate::disciplines::fq_codel::MANIFEST,
    crate::disciplines::dualpi2::MANIFEST,
    crate::disciplines::dcf::MANIFEST,
];

/// The kind whose discipline comes from a library; it is none of the others, since it is nothing
/// without one.
pub const PLUGIN: &Manifest = &crate::scheduler::guard::MANIFEST;

/// All kinds, [`PLUGIN`] too.
pub fn all() -> impl Iterator<Item = &'static Manifest> + Clone {
    ENTRIES.iter().chain([PLUGIN])
}

/// What is known of `kind`.
pub fn entry(kind: &str) -> Option<&'static Manifest> {
    all().find(|e| e.kind == kind)
}

/// Returns true if the discipline `kind` takes a tree of its own kind [whole](Manifest::whole_trees).
pub fn takes_trees(kind: &str) -> bool {
    entry(kind).is_some_and(|manifest| manifest.whole_trees)
}

/// `setup` as a discipline of `kind` serves it: with the leaves of the tree as its flows where it
/// [takes trees whole](Manifest::whole_trees), unchanged elsewhere.
pub fn joined<'a>(kind: &str, setup: &'a Setup) -> Cow<'a, Setup> {
    if takes_trees(kind) { setup.flattened(kind) } else { Cow::Borrowed(setup) }
}

/// Builds the discipline `kind` and hands it to `visitor`.
///
/// # Panics
/// If there is no such kind: [`entry`] tells.
pub fn build<V: Visitor>(kind: &str, setup: &Setup, visitor: V) -> Result<V::Output, Refusals> {
    Ok(match kind {
        "fifo" => visitor.visit(Fifo::new(setup)?),
        "priority" => visitor.visit(Priority::new(setup)?),
        "rr" | "wrr" => visitor.visit(Wrr::new(setup)?),
        "hrr" => visitor.visit(Hrr::new(setup)?),
        "corr" => visitor.visit(Corr::new(setup)?),
        "drr" => visitor.visit(Drr::new(setup)?),
        "drr+" => visitor.visit(DrrPlus::new(setup)?),
        "drr++" => match setup.scheduler.choice("form") {
            Some("mw00") => visitor.visit(Mw00::new(setup)?),
            _ => visitor.visit(DrrPlusPlus::new(setup)?),
        },
        "ets" => visitor.visit(Ets::new(setup)?),
        "virtual-clock" => visitor.visit(VirtualClock::new(setup)?),
        "scfq" => visitor.visit(Scfq::new(setup)?),
        "sfq" => visitor.visit(Sfq::new(setup)?),
        "wfq" => visitor.visit(Wfq::new(setup)?),
        "wf2q" => visitor.visit(Wf2q::new(setup)?),
        "spfq" => visitor.visit(Spfq::new(setup)?),
        "edf" => visitor.visit(Edf::new(setup)?),
        "sced" => visitor.visit(Sced::new(setup)?),
        "mtr-ls" => visitor.visit(MtrLs::new(setup)?),
        "arc" => visitor.visit(Arc::new(setup)?),
        "qfq" => visitor.visit(Qfq::new(setup)?),
        "qfq+" => visitor.visit(QfqPlus::new(setup)?),
        "ffs" => visitor.visit(Ffs::new(setup)?),
        "wf2q+" => visitor.visit(Wf2qPlus::new(setup)?),
        "timer-wheels" => visitor.visit(TimerWheels::new(setup)?),
        "virtual-links" => match setup.scheduler.choice("serve") {
            Some("phase-wise") => visitor.visit(PhaseWise::new(setup)?),
            _ => visitor.visit(PacketWise::new(setup)?),
        },
        "shaper" => visitor.visit(Shaper::new(setup)?),
        "cbs" => visitor.visit(Cbs::new(setup)?),
        "tas" => visitor.visit(Tas::new(setup)?),
        "ats" => visitor.visit(Ats::new(setup)?),
        "mclock" => match setup
            .flows
            .iter()
            .any(|f| f.inner.as_ref().is_some_and(|inner| inner.kind == kind))
        {
            true => visitor.visit(HClock::new(setup)?),
            false => visitor.visit(MClock::new(setup)?),
        },
        "hfsc" => visitor.visit(Hfsc::new(setup)?),
        "htb" => visitor.visit(Htb::new(setup)?),
        "mgfq" => visitor.visit(Mgfq::new(setup)?),
        "rcsp" => visitor.visit(Rcsp::new(setup)?),
        "netback" => visitor.visit(Netback::new(setup)?),
        "xen-wrr" => visitor.visit(XenWrr::new(setup)?),
        "fq_codel" => visitor.visit(FqCodel::new(setup)?),
        "dcf" => visitor.visit(Dcf::new(setup)?),
        "dualpi2" => visitor.visit(DualPi2::new(setup)?),
        "plugin" => visitor.visit(Guard::new(setup)?),
        other => panic!("no discipline is called {other}"),
    })
}
