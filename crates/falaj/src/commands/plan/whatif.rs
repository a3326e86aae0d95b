//! `--what-if` and `--need`: the scenario with other values, set in its text
//! and read by the ordinary parser.

use anyhow::{Context, Result};
use falaj_scenario::edit::{Edit, Set};
use falaj_scenario::{Problem, Scenario, Severity};
use falaj_terminal::file;
use toml_edit::DocumentMut;

/// What the text of a scenario says once the needs and then the what-ifs are
/// set in it.
pub(crate) struct WhatIf<'a> {
    name: &'a str,
    text: String,
    /// Problems that were said already.
    said: Vec<String>,
    words: Vec<String>,
}

impl<'a> WhatIf<'a> {
    /// The file as it is.
    ///
    /// # Errors
    /// What is wrong with it, which was said.
    pub(crate) fn new(text: String, name: &'a str) -> Result<(WhatIf<'a>, Scenario)> {
        let (scenario, warnings) = falaj_scenario::parse(&text, name).map_err(|errors| {
            file::tell(&errors);
            file::AlreadyReported
        })?;
        file::tell(&warnings);
        let said = warnings.problems().iter().map(|p| p.title.clone()).collect();
        Ok((WhatIf { name, text, said, words: Vec::new() }, scenario))
    }

    /// Sets values; `option` is what they came by. A need is a flow's.
    ///
    /// # Errors
    /// There is no such key, or the scenario would be wrong, which was said.
    pub(crate) fn set(&mut self, option: &str, sets: &[Set], need: bool) -> Result<Scenario> {
        let mut file: DocumentMut = self.text.parse().context("the scenario is no TOML")?;
        let mut edit = Edit::new(&mut file);
        for set in sets {
            let mut words = set.path.clone();
            if need {
                words.insert(words.len() - 1, "need".into());
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

    /// A problem that the file did not have. Its line would be one of a text
    /// that nobody has seen.
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
