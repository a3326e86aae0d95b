//! Draws random values that a discipline accepts, for tests of all disciplines.

use crate::contract::params::{Setup, Value};
use crate::units::time::Span;
use core::fmt;

/// A source of random whole numbers. Each call draws a number between its two arguments, both
/// included.
pub type Dice<'a> = &'a mut dyn FnMut(u64, u64) -> u64;

/// Draws the value of one parameter for this setup.
pub type DrawValue = fn(&Setup, Dice<'_>) -> Value;

/// Rules for drawing random values that the discipline accepts in combination, at least in most
/// cases.
#[derive(Clone, Copy)]
pub struct Draw {
    /// Parameters for which a random value of their type is hardly ever valid, each with its own
    /// function.
    pub values: &'static [(&'static str, DrawValue)],
    /// Adjusts independently drawn values, so that they fit together.
    pub fit: fn(&mut Setup, Dice<'_>),
    /// Keys that only the leaves of the tree may have, for a discipline that serves whole trees of
    /// flows.
    pub leaves_only: &'static [&'static str],
}

impl Draw {
    /// Each value is drawn by its type, independently of the others.
    pub(crate) const INDEPENDENT: Draw = Draw { values: &[], fit: |_, _| {}, leaves_only: &[] };

    /// Values are drawn by their types, except for these parameters.
    pub(crate) const fn by(values: &'static [(&'static str, DrawValue)]) -> Draw {
        Draw { values, ..Draw::INDEPENDENT }
    }
}

/// Does not print the functions: the compiler may give one function several addresses.
impl fmt::Debug for Draw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Names<'a>(&'a [(&'static str, DrawValue)]);
        impl fmt::Debug for Names<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
            }
        }
        f.debug_struct("Draw")
            .field("values", &Names(self.values))
            .field("leaves_only", &self.leaves_only)
            .finish_non_exhaustive()
    }
}

/// Draws one of these values.
pub(crate) fn one_of<T: Copy>(values: &[T], dice: Dice<'_>) -> T {
    values[dice(0, values.len() as u64 - 1) as usize]
}

/// Draws a period that is long enough for a packet of the slowest flow in most cases.
pub(crate) fn period(setup: &Setup, dice: Dice<'_>) -> Value {
    let packets = setup.flows.len() as u64 * dice(10, 60);
    Value::Span(Span(setup.largest_airtime().0 * packets))
}

/// Draws a quantum of one packet or a little more.
pub(crate) fn quantum(setup: &Setup, dice: Dice<'_>) -> Value {
    Value::Bytes(u64::from(setup.largest) + dice(0, 20))
}

/// Draws a limit in packets; in three of four cases it is too high to be reached.
pub(crate) fn packets(_: &Setup, dice: Dice<'_>) -> Value {
    Value::Count(if dice(0, 3) == 0 { dice(1, 20) } else { 10_000 })
}
