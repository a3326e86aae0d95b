//! Tests of attacks on a running service: they fail, and the traffic of its adapters is not
//! affected.
//!
//! | module | attacker |
//! |---|---|
//! | [`api`] | clients that reach the API and have no token |
//! | [`confinement`] | code within the service's process |

mod api;
mod confinement;

use libtest_mimic::{Completion, Trial};

type Attack = (&'static str, fn());

const ATTACKS: &[&[Attack]] = &[api::ATTACKS, confinement::ATTACKS];

/// Returns all attacks as trials.
pub(crate) fn trials(possible: bool) -> Vec<Trial> {
    let trial = |&(name, attack): &Attack| {
        crate::trial(possible, name.to_owned(), move || {
            attack();
            Ok(Completion::Completed)
        })
    };
    ATTACKS.iter().copied().flatten().map(trial).collect()
}
