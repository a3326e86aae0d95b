//! The disciplines: each is a file or a directory here, and a line in the list `disciplines!`.
//!
//! The list also declares the modules. `cargo fmt` does not find modules in a macro, so run
//! `rustfmt crates/falaj-sched/src/disciplines/NAME.rs` to format a module; `make lint` checks all
//! of them.

use crate::contract::manifest::Manifest;
use crate::contract::params::{ConfigErrors, Setup};
use crate::contract::visitor::Visitor;

/// `module::Type,` for each discipline, in the order of the reference. Similar disciplines are
/// together: a new discipline comes after those that it is similar to, or last. The module has the
/// `MANIFEST`, and the type has a function `new(&Setup)`. A module without a type has a function
/// `construct`, which chooses between several types. Names in brackets are manifests of the module
/// that precede its `MANIFEST`.
macro_rules! disciplines {
    ($($module:ident $(:: $type:ident)? $(($($further:ident),+))?,)+) => {
        $(pub mod $module;)+

        /// The manifests of all disciplines.
        pub const MANIFESTS: &[Manifest] = &[$($($($module::$further,)+)? $module::MANIFEST,)+];

        /// Builds the discipline `kind` and passes it to `visitor`; `None` if there is no such
        /// discipline.
        pub(crate) fn build<V: Visitor>(
            kind: &str,
            setup: &Setup,
            visitor: V,
        ) -> Option<Result<V::Output, ConfigErrors>> {
            $(
                if kind == $module::MANIFEST.kind $($(|| kind == $module::$further.kind)+)? {
                    return Some(construct!($module $($type)?, setup, visitor));
                }
            )+
            None
        }
    };
}

macro_rules! construct {
    ($module:ident $type:ident, $setup:ident, $visitor:ident) => {
        $module::$type::new($setup).map(|discipline| $visitor.visit(discipline))
    };
    ($module:ident, $setup:ident, $visitor:ident) => {
        $module::construct($setup, $visitor)
    };
}

disciplines! {
    fifo::Fifo,
    priority::Priority,
    wrr::Wrr (RR),
    hrr::Hrr,
    corr::Corr,
    drr::Drr,
    drr_plus::DrrPlus,
    drr_plus_plus,
    ets::Ets,
    virtual_clock::VirtualClock,
    scfq::Scfq,
    sfq::Sfq,
    wfq::Wfq,
    wf2q::Wf2q,
    spfq::Spfq,
    edf::Edf,
    sced::Sced,
    mtr_ls::MtrLs,
    arc::Arc,
    qfq::Qfq,
    qfq_plus::QfqPlus,
    wf2q_plus::Wf2qPlus,
    ffs::Ffs,
    timer_wheels::TimerWheels,
    virtual_links,
    shaper::Shaper,
    cbs::Cbs,
    tas::Tas,
    ats::Ats,
    mclock,
    hfsc::Hfsc,
    htb::Htb,
    rcsp::Rcsp,
    mgfq::Mgfq,
    netback::Netback,
    xen_wrr::XenWrr,
    fq_codel::FqCodel,
    fq_pie::FqPie,
    fq::Fq,
    cake::Cake,
    dualpi2::DualPi2,
    dcf::Dcf,
}
