//! Errors of the solvers.

use std::fmt;

/// The reason why there is no result. No function returns a NaN, or a sum that was truncated
/// silently.
#[derive(Clone, Debug, PartialEq)]
pub enum Refused {
    /// More work arrives than the server can do.
    Unstable {
        /// Offered load: arriving work over the server's capacity, 1 or more.
        load: f64,
    },
    /// A value outside its range.
    Value {
        /// Name of the value.
        what: &'static str,
        /// The value given.
        value: f64,
        /// The values allowed.
        allowed: &'static str,
    },
    /// Matrices that violate their definition.
    Shape {
        /// The object that they should define.
        what: &'static str,
        /// The violation.
        why: String,
    },
    /// An iteration did not converge.
    NotConverged {
        /// Name of the iteration.
        what: &'static str,
        /// The residual after its last step.
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
                write!(f, "{what} did not converge: the residual is {residual:.1e}")
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

/// Checks that the load is below one.
pub(crate) fn stable(load: f64) -> Result<f64, Refused> {
    // Written so that a NaN is refused too.
    if load < 1.0 { Ok(load) } else { Err(Refused::Unstable { load }) }
}
