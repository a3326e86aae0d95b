//! The control handler: answers the requests of a control socket, and keeps the running scenario.
//!
//! | module | task |
//! |---|---|
//! | `state` | the running scenario, its text, warnings given before |
//! | `channel` | the channel to the forwarder, and a limit on its time for requests |
//! | `change` | changes: edited, parsed, admitted, made |
//! | `continuation` | handing over a running link to another process |
//! | [`look`] | the present state of links |
//! | `report` | the report for `falaj show` |
//! | `persistence` | data that outlasts the service |
//!
//! Several clients share the handler, so it is behind a lock. A change holds the lock until it is
//! made. A look at the state holds the lock for one part at a time. A request with `check`, which
//! only asks whether a change would be admitted, is computed on a copy, outside of the lock: the
//! computation grows with the square of the number of flows, and clients may repeat it.

mod change;
mod channel;
mod continuation;
pub mod look;
mod persistence;
mod report;
mod state;

pub use change::set;
pub use continuation::Offer;
pub use persistence::{paused_beside, replace, with_more};
pub use state::{Current, Handler, lock};

use crate::protocol::{Refusal, Request, ScenarioAnswer, answer, request};
use std::sync::Mutex;

/// Answers any line with a line.
pub fn answer_line(handler: &Mutex<Handler>, line: &[u8]) -> String {
    let (id, request) = request(line);
    match request {
        Err(what) => answer::<()>(&id, &Err(Refusal::new(what))),
        Ok(Request::Show(show)) => answer(&id, &look::show(handler, &show)),
        Ok(Request::Set(set)) => answer(&id, &change::set(handler, &set)),
        Ok(Request::Scenario) => {
            answer(&id, &Ok(ScenarioAnswer { toml: lock(handler).text().to_owned() }))
        }
    }
}
