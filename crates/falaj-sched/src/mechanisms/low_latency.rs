//! Low-latency flows, which are served before the round of the other flows.

use crate::contract::params::{Kind, Param, Setup};
use alloc::vec::Vec;

/// The parameter that makes a flow a low-latency flow or a normal one.
pub(crate) const LATENCY: Param = Param {
    name: "latency",
    kind: Kind::Choice(&["normal", "low"]),
    default: Some("normal"),
    doc: "`low` makes it a low-latency flow, which does not wait for a round of the other flows",
};

/// For each flow: true if it is a low-latency flow.
pub(crate) fn of_low_latency(setup: &Setup) -> Vec<bool> {
    setup.flows.iter().map(|f| f.values.choice("latency") == Some("low")).collect()
}
