//! Data that outlasts the service: the text of the running scenario, and the names of paused
//! adapters.

use super::state::Handler;

use falaj_scenario::Scenario;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

impl Handler {
    /// From now on each change writes the whole text to this file, and each pause or resumption
    /// writes the names of paused adapters to a file beside it; `paused` are the adapters that are
    /// paused now.
    pub fn keep_in(&mut self, file: PathBuf, paused: BTreeSet<String>) {
        (self.kept, self.paused) = (Some(file), paused);
    }

    /// Sets the adapters that are paused already.
    pub fn are_paused(&mut self, paused: BTreeSet<String>) {
        self.paused = paused;
    }

    /// Writes the text to its file atomically.
    pub(super) fn keep(&mut self) {
        let Some(file) = self.kept.clone() else { return };
        replace_or_warn(&file, self.text());
    }

    /// Adapters that are removed, or change their port, are no longer paused.
    pub(super) fn forget_pauses(&mut self, then: &Scenario) {
        if self.paused.is_empty() {
            return;
        }
        let there = then.adapters();
        let before = self.running.scenario.adapters().into_iter();
        let stay: BTreeSet<&str> = before
            .filter(|adapter| there.iter().any(|other| other.is_same(adapter)))
            .map(|adapter| &adapter.name[..])
            .collect();
        let number = self.paused.len();
        self.paused.retain(|name| stay.contains(&name[..]));
        if self.paused.len() != number {
            self.keep_paused();
        }
    }

    /// Writes the names of paused adapters, one per line.
    pub(super) fn keep_paused(&self) {
        if let Some(file) = &self.kept {
            let lines: String = self.paused.iter().map(|name| format!("{name}\n")).collect();
            replace_or_warn(&paused_beside(file), &lines);
        }
    }
}

/// The file with the names of paused adapters, beside the state's file.
pub fn paused_beside(kept: &Path) -> PathBuf {
    with_more(kept, ".paused")
}

/// The path of `file` with the suffix `more`.
pub fn with_more(file: &Path, more: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(more);
    path.into()
}

/// Replaces the contents of a file atomically: the text is written to a file beside it, which is
/// then renamed.
///
/// # Errors
/// The new file cannot be written; the old file is unchanged.
pub fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let beside = with_more(file, ".new");
    let write = || {
        let mut new = std::fs::File::create(&beside)?;
        new.write_all(text.as_bytes())?;
        // Without this, the new name may have no contents after a power failure.
        new.sync_all()?;
        std::fs::rename(&beside, file)
    };
    write().inspect_err(|_| {
        // An incomplete file is of no use.
        let _ = std::fs::remove_file(&beside);
    })
}

fn replace_or_warn(file: &Path, text: &str) {
    if let Err(error) = replace(file, text) {
        note!(
            "warning: {}: {error}; the change is made, and is forgotten when the service ends",
            file.display()
        );
    }
}
