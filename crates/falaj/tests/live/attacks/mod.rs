//! Standing attacks on a service that runs: what others may try, and what it costs them.
//!
//! | module | who attacks |
//! |---|---|
//! | [`api`] | clients that reach the API and have no token |
//! | [`confinement`] | code within the service's process |

mod api;
mod confinement;

use libtest_mimic::{Completion, Trial};

type Attack = (&'static str, fn());

const ATTACKS: &[&[Attack]] = &[api::ATTACKS, confinement::ATTACKS];

/// All of them.
pub(crate) fn trials(possible: bool) -> Vec<Trial> {
    let trial = |&(name, attack): &Attack| {
        crate::trial(possible, name.to_owned(), move || {
            attack();
            Ok(Completion::Completed)
        })
    };
    ATTACKS.iter().copied().flatten().map(trial).collect()
}
