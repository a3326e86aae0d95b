//! Keys of scheduled changes.

use super::key::Fallback::{Otherwise, Required};
use super::key::{Holds, Key, key};
use falaj_sched::contract::params::Kind;

/// Maximum number of instants for which scheduled changes are worked out. After them, a cycle of
/// changes may repeat without limit.
pub const CHANGES_MAX: usize = 100_000;

/// The keys of `[[change]]`.
pub const CHANGE: &[Key] = &[
    key(
        "at",
        Holds::Value(Kind::Span),
        Required,
        "time of the change, from the start of the run; changes of the same time are made together",
    ),
    key(
        "set",
        Holds::Settings,
        Required,
        "keys of links, flows and rules and their new values, as `falaj set` accepts them; an \
         empty \
         text removes a key",
    ),
    key("every", Holds::PositiveSpan, Otherwise("once"), "period of its repetition"),
    key(
        "until",
        Holds::Value(Kind::Span),
        Otherwise("the end of the run"),
        "time of the last repetition or later, from the start of the run",
    ),
];
