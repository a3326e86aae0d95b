//! Why there is no answer.

use std::fmt;

/// Why there is no answer. Nothing is ever answered by a NaN, or by a sum that was cut short in
/// silence.
#[derive(Clone, Debug, PartialEq)]
pub enum Refused {
    /// More work comes than can be done.
    Unstable {
        /// Work that comes for each unit of work that can be done: 1 or more.
        load: f64,
    },
    /// A value outside what it may be.
    Value {
        /// Which one.
        what: &'static str,
        /// As it was given.
        value: f64,
        /// What it may be.
        allowed: &'static str,
    },
    /// Matrices that are not what they are said to be.
    Shape {
        /// What they should be.
        what: &'static str,
        /// What is wrong with them.
        why: String,
    },
    /// An iteration did not end where it should have.
    NotConverged {
        /// Which one.
        what: &'static str,
        /// What was left after its last step.
        residual: f64,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Unstable { load } => {
                write!(
                    f,
                    "unstable: the load is {load:.4}, and must be below 1; the queue would grow without end"
                )
            }
            Refused::Value { what, value, allowed } => {
                write!(f, "{what} is {value}; it must be {allowed}")
            }
            Refused::Shape { what, why } => write!(f, "not a {what}: {why}"),
            Refused::NotConverged { what, residual } => {
                write!(f, "{what} did not converge: {residual:.1e} is left")
            }
        }
    }
}

impl std::error::Error for Refused {}

/// `value`, if it is a finite number above zero.
pub(crate) fn positive(what: &'static str, value: f64) -> Result<f64, Refused> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(Refused::Value { what, value, allowed: "finite and above zero" })
    }
}

/// `value`, if it is a finite number and not below zero.
pub(crate) fn not_negative(what: &'static str, value: f64) -> Result<f64, Refused> {
    if value.is_finite() && value >= 0.0 {
        Ok(value)
    } else {
        Err(Refused::Value { what, value, allowed: "finite and not below zero" })
    }
}

/// A load that leaves the server time.
pub(crate) fn stable(load: f64) -> Result<f64, Refused> {
    // Written so that a NaN is refused too.
    if load < 1.0 { Ok(load) } else { Err(Refused::Unstable { load }) }
}
