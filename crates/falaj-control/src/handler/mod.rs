//! The control handler: answers what is asked at a control socket, and keeps the scenario that is
//! running.
//!
//! | module | what it does |
//! |---|---|
//! | `state` | the scenario that is running, its text, what was said already |
//! | `channel` | the way to the forwarder, and how much of its time questions take |
//! | `change` | changes: edited, read, admitted, made |
//! | `continuation` | what runs goes on in another process |
//! | [`look`] | what is known of links now |
//! | `report` | the same as `falaj show` has it |
//! | `persistence` | what outlasts the service |
//!
//! Where many may ask the handler stands behind a lock: a change has it until it is made, a look
//! for each of its pieces. A question whether a change would fit is answered by a copy, outside of
//! the lock: its arithmetic grows with the square of the number of flows, and clients may ask on.

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

/// Answers a line by a line, whatever it is.
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
