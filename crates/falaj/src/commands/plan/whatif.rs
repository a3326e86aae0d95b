//! `--what-if` and `--requires`: sets other values in the scenario's text, and parses it as usual.

use anyhow::{Context, Result};
use falaj_scenario::edit::{Edit, Set};
use falaj_scenario::{Problem, Scenario, Severity};
use falaj_terminal::file;
use toml_edit::DocumentMut;

/// A scenario's text, in which requirements and then what-if values are set.
pub(crate) struct WhatIf<'a> {
    name: &'a str,
    text: String,
    /// Titles of the problems already reported.
    said: Vec<String>,
    words: Vec<String>,
}

impl<'a> WhatIf<'a> {
    /// Parses the file unchanged.
    ///
    /// # Errors
    /// The scenario is wrong; the problems have been reported.
    pub(crate) fn new(text: String, name: &'a str) -> Result<(WhatIf<'a>, Scenario)> {
        let (scenario, warnings) = falaj_scenario::parse(&text, name).map_err(|errors| {
            file::tell(&errors);
            file::AlreadyReported
        })?;
        file::tell(&warnings);
        let said = warnings.problems().iter().map(|p| p.title.clone()).collect();
        Ok((WhatIf { name, text, said, words: Vec::new() }, scenario))
    }

    /// Sets values; `option` is the command-line option that gave them. If `need` is true, each
    /// value is set as a requirement of a flow.
    ///
    /// # Errors
    /// The key does not exist; or the scenario would be wrong, and the problems have been reported.
    pub(crate) fn set(&mut self, option: &str, sets: &[Set], need: bool) -> Result<Scenario> {
        let mut file: DocumentMut = self.text.parse().context("the scenario is not valid TOML")?;
        let mut edit = Edit::new(&mut file);
        for set in sets {
            let mut words = set.path.clone();
            if need {
                words.insert(words.len() - 1, "requires".into());
            }
            edit.set(&words, set.value.as_ref())
                .with_context(|| format!("{option} {}", set.text))?;
            self.words.push(format!("{option} {}", set.text));
        }
        edit.finish();
        self.text = file.to_string();
        let words = self.words.join(" ");
        match falaj_scenario::parse(&self.text, self.name) {
            Ok((scenario, warnings)) => {
                warnings.problems().iter().for_each(|p| self.tell(p, &words));
                Ok(scenario)
            }
            Err(errors) => {
                errors.problems().iter().for_each(|p| self.tell(p, &words));
                Err(file::AlreadyReported.into())
            }
        }
    }

    /// Reports a problem that the original file did not have. Omits its line number, because the
    /// user cannot see the changed text.
    fn tell(&self, problem: &Problem, words: &str) {
        if self.said.contains(&problem.title) {
            return;
        }
        let severity = if problem.severity == Severity::Error { "error" } else { "warning" };
        eprintln!("{severity}: with {words}: {}", problem.title);
        let label = Some(&problem.label).filter(|l| !l.is_empty());
        for line in label.into_iter().chain(&problem.help) {
            eprintln!("  {line}");
        }
    }
}
