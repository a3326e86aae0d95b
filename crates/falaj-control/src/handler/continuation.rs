//! Handing over a running link to another process.

use super::state::Handler;
use crate::messages::{Query, Reply};
use crate::protocol::Refusal;
use crate::running::WholeState;
use std::os::fd::OwnedFd;

/// The text, ports and clock with which another process prepares to take over.
pub struct Offer {
    /// The text of the running scenario.
    pub text: String,
    /// Zero of the forwarder's clock, in nanoseconds of CLOCK_MONOTONIC.
    pub zero: u64,
    /// By adapter, with the empty name for the uplink: copies of its port's descriptors.
    pub ports: Vec<(String, Vec<OwnedFd>)>,
}

impl Handler {
    /// The data with which another process prepares to take over the running link. It is valid as
    /// long as nothing is changed.
    ///
    /// # Errors
    /// The reason why the link cannot be handed over.
    pub fn offer(&mut self) -> Result<Offer, Refusal> {
        let text = self.text().to_owned();
        let scenario = self.current().scenario;
        let links = scenario.links.iter().flat_map(|link| [&link.up, &link.down]);
        if links.into_iter().any(|direction| !direction.pipe.masks.is_none()) {
            return Err(Refusal::new(
                "a flow has `mask`, whose queues this version does not hand over: end the service, \
                 and start it again",
            ));
        }
        match self.forwarder.ask(Query::Ports(scenario))? {
            Reply::Ports(ports, zero) => {
                Ok(Offer { text, zero, ports: ports.map_err(Refusal::new)? })
            }
            _ => Err(Refusal::new("unexpected answer about ports")),
        }
    }

    /// Starts the program that requests the handover.
    ///
    /// # Errors
    /// The reason why it cannot be started.
    pub fn start_successor(&mut self) -> Result<(), Refusal> {
        let none = || Refusal::new("this link has no adapters");
        self.preparer.as_mut().ok_or_else(none)?.start_successor().map_err(Refusal::new)
    }

    /// Stops the link for another process that is ready. `go_on` sends the state to that process.
    /// It runs on the link's thread, which has priority over other threads. If it returns true, the
    /// other process has taken over, and the link ends here. Otherwise the link continues here.
    ///
    /// # Errors
    /// The link is gone.
    pub fn hand_over(
        &mut self,
        go_on: impl FnOnce(Result<WholeState, String>) -> bool + Send + 'static,
    ) -> Result<(), Refusal> {
        match self.forwarder.ask(Query::HandOver(Box::new(go_on)))? {
            Reply::HandedOver => Ok(()),
            _ => Err(Refusal::new("unexpected answer about a hand-over")),
        }
    }
}
