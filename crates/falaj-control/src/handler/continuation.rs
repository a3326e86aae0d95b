//! A running link goes on in another process.

use super::state::Handler;
use crate::messages::{Query, Reply};
use crate::protocol::Refusal;
use crate::running::WholeState;
use std::os::fd::OwnedFd;

/// The text, ports and clock by which another process prepares itself.
pub struct Offer {
    /// The text of what is running.
    pub text: String,
    /// CLOCK_MONOTONIC, in nanoseconds, when the forwarder's clock was zero.
    pub zero: u64,
    /// By adapter, and by the empty name the uplink: copies of what its port needs.
    pub ports: Vec<(String, Vec<OwnedFd>)>,
}

impl Handler {
    /// What another process needs to prepare itself to go on with what is running. It is of use for
    /// as long as nothing is changed.
    ///
    /// # Errors
    /// Why the link cannot go on elsewhere.
    pub fn offer(&mut self) -> Result<Offer, Refusal> {
        let text = self.text().to_owned();
        let scenario = self.current().scenario;
        let links = scenario.links.iter().flat_map(|link| [&link.up, &link.down]);
        if links.into_iter().any(|direction| !direction.pipe.masks.is_none()) {
            return Err(Refusal::new(
                "a flow has `each`, whose queues this version does not hand over: end the service, \
                 and start it anew",
            ));
        }
        match self.forwarder.ask(Query::Ports(scenario))? {
            Reply::Ports(ports, zero) => {
                Ok(Offer { text, zero, ports: ports.map_err(Refusal::new)? })
            }
            _ => Err(Refusal::new("another answer than one about ports")),
        }
    }

    /// Starts the program that asks for that.
    ///
    /// # Errors
    /// It cannot be started, and why.
    pub fn start_successor(&mut self) -> Result<(), Refusal> {
        let none = || Refusal::new("this link has no adapters");
        self.preparer.as_mut().ok_or_else(none)?.start_successor().map_err(Refusal::new)
    }

    /// Stops the link, for which another process is ready. `go_on` takes its state there, on the
    /// link's thread, which comes before others: if it says that the other process goes on the link
    /// ends, and if not, it goes on here.
    ///
    /// # Errors
    /// The link is gone.
    pub fn hand_over(
        &mut self,
        go_on: impl FnOnce(Result<WholeState, String>) -> bool + Send + 'static,
    ) -> Result<(), Refusal> {
        match self.forwarder.ask(Query::HandOver(Box::new(go_on)))? {
            Reply::HandedOver => Ok(()),
            _ => Err(Refusal::new("another answer than about a hand-over")),
        }
    }
}
