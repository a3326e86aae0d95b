//! The disciplines by name. A new one is a new file, and an entry and an arm here.

use crate::dcf::Dcf;
use crate::discipline::Discipline;
use crate::dualpi2::DualPi2;
use crate::fq_codel::FqCodel;
use crate::params::{Param, Refusals, Setup};
use crate::plugin::Guard;
use crate::{
    arc::Arc, ats::Ats, cbs::Cbs, corr::Corr, drr::Drr, drr_plus::DrrPlus,
    drr_plus_plus::DrrPlusPlus, edf::Edf, ets::Ets, ffs::Ffs, fifo::Fifo, hclock::HClock,
    hfsc::Hfsc, hrr::Hrr, htb::Htb, mclock::MClock, mgfq::Mgfq, mtr_ls::MtrLs, mw00::Mw00,
    netback::Netback, packet_wise::PacketWise, phase_wise::PhaseWise, priority::Priority, qfq::Qfq,
    qfq_plus::QfqPlus, rcsp::Rcsp, sced::Sced, scfq::Scfq, sfq::Sfq, shaper::Shaper, spfq::Spfq,
    tas::Tas, timer_wheels::TimerWheels, virtual_clock::VirtualClock, wf2q::Wf2q,
    wf2q_plus::Wf2qPlus, wfq::Wfq, wrr::Wrr, xen_wrr::XenWrr,
};

/// What is said of a discipline where people choose one.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its name in a scenario.
    pub kind: &'static str,
    /// What it does, in one line.
    pub doc: &'static str,
    /// Where it was described.
    pub source: &'static str,
    /// What may be set for the scheduler.
    pub scheduler: &'static [Param],
    /// What may be set for each flow.
    pub flow: &'static [Param],
}

/// Receives the discipline that was asked for, as its own type, so that all
/// that is built around it is compiled for it alone.
pub trait Visitor {
    /// What the visitor makes of it.
    type Output;
    /// Called once, with the discipline.
    fn visit<D: Discipline + 'static>(self, discipline: D) -> Self::Output;
}

/// All kinds that are built in.
pub const ENTRIES: &[Entry] = &[
    crate::fifo::ENTRY,
    crate::priority::ENTRY,
    crate::wrr::RR,
    crate::wrr::ENTRY,
    crate::hrr::ENTRY,
    crate::corr::ENTRY,
    crate::drr::ENTRY,
    crate::drr_plus::ENTRY,
    crate::drr_plus_plus::ENTRY,
    crate::ets::ENTRY,
    crate::virtual_clock::ENTRY,
    crate::scfq::ENTRY,
    crate::sfq::ENTRY,
    crate::wfq::ENTRY,
    crate::wf2q::ENTRY,
    crate::spfq::ENTRY,
    crate::edf::ENTRY,
    crate::sced::ENTRY,
    crate::mtr_ls::ENTRY,
    crate::arc::ENTRY,
    crate::qfq::ENTRY,
    crate::qfq_plus::ENTRY,
    crate::wf2q_plus::ENTRY,
    crate::ffs::ENTRY,
    crate::timer_wheels::ENTRY,
    crate::virtual_links::ENTRY,
    crate::shaper::ENTRY,
    crate::cbs::ENTRY,
    crate::tas::ENTRY,
    crate::ats::ENTRY,
    crate::mclock::ENTRY,
    crate::hfsc::ENTRY,
    crate::htb::ENTRY,
    crate::rcsp::ENTRY,
    crate::mgfq::ENTRY,
    crate::netback::ENTRY,
    crate::xen_wrr::ENTRY,
    crate::fq_codel::ENTRY,
    crate::dualpi2::ENTRY,
    crate::dcf::ENTRY,
];

/// The kind whose discipline comes from a library; it is none of the others, since it is nothing
/// without one.
pub const PLUGIN: &Entry = &crate::plugin::ENTRY;

/// All kinds, [`PLUGIN`] too.
pub fn all() -> impl Iterator<Item = &'static Entry> + Clone {
    ENTRIES.iter().chain([PLUGIN])
}

/// What is known of `kind`.
pub fn entry(kind: &str) -> Option<&'static Entry> {
    all().find(|e| e.kind == kind)
}

/// Is a tree whose flows are divided by `kind` handed to the discipline `kind` whole, rather than
/// nested?
pub fn takes_trees(kind: &str) -> bool {
    matches!(kind, "hfsc" | "htb" | "mclock")
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
