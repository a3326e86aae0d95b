//! What is running, as the control socket tells of it, and what changes beside the engine.

use falaj_live::adapters::AdapterCounts;
use falaj_plan::standing::Standing;
use falaj_scenario::Scenario;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// What is running, as the control socket tells of it.
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

/// What changes with a link beside the engine: virtual adapters, which come and go.
pub trait Beside {
    /// Makes what is to come.
    ///
    /// # Errors
    /// Why it cannot, in words; nothing has changed then.
    fn prepare(&mut self, then: &Arc<Scenario>) -> Result<(), String>;
    /// It is to be so from now on; or, if not, what was prepared is not wanted.
    fn settle(&mut self, made: bool);
    /// Of those that stay, these have another weight.
    fn weigh(&mut self, weights: &BTreeMap<&str, u32>);
    /// Pauses an adapter, or lets it go on.
    ///
    /// # Errors
    /// Why it cannot, in words.
    fn pause(&self, name: &str, paused: bool) -> Result<(), String>;
    /// What each adapter did.
    fn counts(&self) -> Vec<(String, AdapterCounts)>;
}
