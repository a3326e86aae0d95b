//! The running command and its link, and the parts that change together with the engine.

use falaj_live::adapters::{AdapterCounts, AdaptersState};
use falaj_live::event_loop::ForwarderState;
use falaj_plan::standing::Standing;
use falaj_scenario::Scenario;
use std::any::Any;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// The running command and its link.
#[derive(Clone)]
pub struct Running {
    /// The command: `run`, `bridge`.
    pub command: &'static str,
    /// The file or command line of the link, for people.
    pub about: String,
    /// The scenario's file; files that the scenario names are relative to it.
    pub file: PathBuf,
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// The scenario's text.
    pub text: String,
    /// True if a capture is recorded, so that changes have to be recorded too.
    pub recording: bool,
    /// The guarantees; `None` if they are not enforced. A change after which a required guarantee
    /// cannot be given is then not refused.
    pub standings: Option<Arc<Vec<Vec<Standing>>>>,
}

/// Opens virtual adapters that are to be added. It may block, so the link's thread never calls it.
pub trait Preparer: Send {
    /// Opens the new adapters.
    ///
    /// # Errors
    /// The reason in words; nothing has changed then.
    fn prepare(&mut self, then: &Arc<Scenario>) -> Result<Prepared, String>;
    /// Reports the result: with `made`, the prepared adapters are in use from now on; otherwise
    /// they are discarded.
    fn settle(&mut self, made: bool);
    /// Starts the program that is to take the link over.
    ///
    /// # Errors
    /// The reason in words.
    fn start_successor(&mut self) -> Result<(), String>;
}

/// The state with which another process takes a running link over: the link's, and that of its
/// adapters.
pub type WholeState = (ForwarderState, AdaptersState);

/// The adapters that a preparer has opened, for the link's thread.
pub type Prepared = Box<dyn Any + Send>;

/// The part that changes together with the engine: virtual adapters, which come and go. The link's
/// thread calls it, and no method blocks.
pub trait Beside {
    /// Adds the prepared adapters, and removes those that leave. Returns objects that another
    /// thread should drop.
    fn change(&mut self, prepared: Prepared) -> Vec<Prepared>;
    /// Sets new weights of adapters that stay.
    fn weigh(&mut self, weights: &BTreeMap<&str, u32>);
    /// Pauses an adapter, or resumes it.
    ///
    /// # Errors
    /// The reason in words.
    fn pause(&self, name: &str, paused: bool) -> Result<(), String>;
    /// The counters of each adapter.
    fn counts(&self) -> Vec<(String, AdapterCounts)>;
    /// Packets that were not read in time at the ports, and packets for Ethernet addresses that no
    /// adapter has used.
    fn unread_and_unknown(&self) -> [u64; 2];
    /// By adapter, with the empty name for the uplink: copies of the descriptors with which another
    /// process can take its port over.
    ///
    /// # Errors
    /// The port that cannot be handed over, and the reason, in words.
    fn ports(&self, scenario: &Scenario) -> Result<Vec<(String, Vec<OwnedFd>)>, String>;
    /// The state of adapters without their ports.
    fn state(&self) -> AdaptersState;
}
