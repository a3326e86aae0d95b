//! What outlasts the service: the text of what is running, and the names of adapters that pause.

use super::state::Handler;

use falaj_scenario::Scenario;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

impl Handler {
    /// From now on each change leaves the whole text there, and beside it the names of adapters
    /// that pause; these do now.
    pub fn keep_in(&mut self, file: PathBuf, paused: BTreeSet<String>) {
        (self.kept, self.paused) = (Some(file), paused);
    }

    /// These adapters pause already.
    pub fn are_paused(&mut self, paused: BTreeSet<String>) {
        self.paused = paused;
    }

    /// Keeps the text, all of it or as it was: it is written beside its file, which it then
    /// becomes.
    pub(super) fn keep(&mut self) {
        let Some(file) = self.kept.clone() else { return };
        replace_or_warn(&file, self.text());
    }

    /// Adapters that go, or come to have another port, pause no more.
    pub(super) fn forget_pauses(&mut self, then: &Scenario) {
        if self.paused.is_empty() {
            return;
        }
        let there = then.adapters();
        let before = self.running.scenario.adapters().into_iter();
        let stay: BTreeSet<&str> = before
            .filter(|adapter| there.contains(adapter))
            .map(|adapter| &adapter.name[..])
            .collect();
        let number = self.paused.len();
        self.paused.retain(|name| stay.contains(&name[..]));
        if self.paused.len() != number {
            self.keep_paused();
        }
    }

    /// Keeps who pauses, a line each.
    pub(super) fn keep_paused(&self) {
        if let Some(file) = &self.kept {
            let lines: String = self.paused.iter().map(|name| format!("{name}\n")).collect();
            replace_or_warn(&paused_beside(file), &lines);
        }
    }
}

/// Where the names of adapters that pause are kept, beside what is running.
pub fn paused_beside(kept: &Path) -> PathBuf {
    with_more(kept, ".paused")
}

/// The same path with more behind its name.
pub fn with_more(file: &Path, more: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(more);
    path.into()
}

/// Makes a file hold this text, all of it or what it held: the text is written to a file beside it,
/// which takes its place.
///
/// # Errors
/// The new file cannot be written; the old one is as it was.
pub fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let beside = with_more(file, ".new");
    let write = || {
        let mut new = std::fs::File::create(&beside)?;
        new.write_all(text.as_bytes())?;
        // Else, where the power fails, the new name may have nothing behind it.
        new.sync_all()?;
        std::fs::rename(&beside, file)
    };
    write().inspect_err(|_| {
        // What is not whole is nobody's use.
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
