//! What is running, as the control socket tells of it, and what changes beside the engine.

use falaj_live::adapters::{AdapterCounts, AdaptersState};
use falaj_live::event_loop::ForwarderState;
use falaj_plan::standing::Standing;
use falaj_scenario::Scenario;
use std::any::Any;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// What is running, as the control socket tells of it.
#[derive(Clone)]
pub struct Running {
    /// The command: `run`, `bridge`.
    pub command: &'static str,
    /// What it is about, for people.
    pub about: String,
    /// Its file, beside which those stand that it names.
    pub file: PathBuf,
    /// The scenario, and its text.
    pub scenario: Arc<Scenario>,
    /// The scenario's text.
    pub text: String,
    /// What passes is written down, and changes have to be as well.
    pub recording: bool,
    /// What is promised there, if promises are to be kept: then a change that breaks one is
    /// refused.
    pub standings: Option<Arc<Vec<Vec<Standing>>>>,
}

/// What opens virtual adapters that are to come. It may wait for others, so the link's thread never
/// calls it.
pub trait Preparer: Send {
    /// Opens what is to come.
    ///
    /// # Errors
    /// Why it cannot, in words; nothing has changed then.
    fn prepare(&mut self, then: &Arc<Scenario>) -> Result<Prepared, String>;
    /// What was prepared is there from now on; or, if not, it is not wanted.
    fn settle(&mut self, made: bool);
    /// Starts the program that is to go on with the link.
    ///
    /// # Errors
    /// Why it cannot, in words.
    fn start_successor(&mut self) -> Result<(), String>;
}

/// The state by which another process goes on with a running link: its own, and its adapters'.
pub type WholeState = (ForwarderState, AdaptersState);

/// What a preparer has opened, for the link's thread.
pub type Prepared = Box<dyn Any + Send>;

/// What changes with a link beside the engine: virtual adapters, which come and go. The link's
/// thread calls it, and nothing here waits.
pub trait Beside {
    /// What was prepared comes, and what is no more goes. Returns what another thread should drop.
    fn change(&mut self, prepared: Prepared) -> Vec<Prepared>;
    /// Of those that stay, these have another weight.
    fn weigh(&mut self, weights: &BTreeMap<&str, u32>);
    /// Pauses an adapter, or lets it go on.
    ///
    /// # Errors
    /// Why it cannot, in words.
    fn pause(&self, name: &str, paused: bool) -> Result<(), String>;
    /// What each adapter did.
    fn counts(&self) -> Vec<(String, AdapterCounts)>;
    /// Packets that nobody read in time at the entrances, and those for Ethernet addresses that no
    /// adapter has used.
    fn unread_and_unknown(&self) -> [u64; 2];
    /// By adapter, and by the empty name the uplink: copies of what its port needs to go on in
    /// another process.
    ///
    /// # Errors
    /// Which one cannot, and why, in words.
    fn ports(&self, scenario: &Scenario) -> Result<Vec<(String, Vec<OwnedFd>)>, String>;
    /// The state of adapters beside their ports.
    fn state(&self) -> AdaptersState;
}
