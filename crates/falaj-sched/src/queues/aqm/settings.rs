//! Settings of several policies: marks instead of drops, and times within a range.

use crate::contract::params::{ConfigError, Kind, Param, Values};
use crate::units::time::Span;
use alloc::format;

/// Selects marks instead of drops, if the packet may be marked.
pub(crate) const ECN: Param = Param {
    name: "ecn",
    kind: Kind::Choice(&["no", "yes"]),
    default: Some("no"),
    doc: "`yes` marks packets of connections that support ECN, instead of dropping them",
};

pub(crate) fn marks(values: &Values) -> bool {
    values.choice("ecn") == Some("yes")
}

/// Longest time setting of a policy: the squares of times fit in 64 bits.
pub const LONGEST: Span = Span::from_secs(4);

/// A time above zero and no longer than [`LONGEST`].
pub(crate) fn in_range(param: &'static str, span: Span) -> Result<Span, ConfigError> {
    if span > Span::ZERO && span <= LONGEST {
        return Ok(span);
    }
    Err(ConfigError {
        flow: None,
        param,
        what: format!("{span} is out of range"),
        help: format!("above zero, and no longer than {LONGEST}"),
    })
}
