//! Scenario files from the command line.

use crate::output;
use anyhow::{Context, Result};
use falaj_scenario::{Diagnostics, Scenario};
use std::fmt;
use std::path::Path;

/// The scenario is wrong, and the person was told why.
#[derive(Debug)]
pub struct AlreadyReported;

impl fmt::Display for AlreadyReported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the scenario is wrong")
    }
}
impl std::error::Error for AlreadyReported {}

/// Reads a scenario; tells what is wrong with it, or looks unlikely, on standard error.
pub fn read(path: &Path) -> Result<Scenario> {
    let (name, text) = text(path)?;
    parse(&text, &name)
}

/// A scenario's name and text, whatever is wrong with it.
pub fn text(path: &Path) -> Result<(String, String)> {
    let name = path.display().to_string();
    let bytes = falaj_scenario::bytes_of(path);
    let bytes = bytes.with_context(|| format!("cannot read the scenario {name}"))?;
    let text = falaj_scenario::text_of(bytes, &name).map_err(anyhow::Error::msg)?;
    Ok((name, text))
}

/// The same for a text that is at hand.
pub fn parse(text: &str, name: &str) -> Result<Scenario> {
    match falaj_scenario::parse(text, name) {
        Ok((scenario, warnings)) => {
            tell(&warnings);
            Ok(scenario)
        }
        Err(errors) => {
            tell(&errors);
            Err(AlreadyReported.into())
        }
    }
}

/// The same for a text of falaj's own, whose warnings nobody could heed.
pub fn parse_quietly(text: &str, name: &str) -> Result<Scenario> {
    match falaj_scenario::parse(text, name) {
        Ok((scenario, _)) => Ok(scenario),
        Err(errors) => {
            tell(&errors);
            Err(AlreadyReported.into())
        }
    }
}

/// Diagnostics, on standard error; in colour where somebody looks. Warnings alone are notes.
pub fn tell(diagnostics: &Diagnostics) {
    if !diagnostics.is_empty() && (diagnostics.has_errors() || output::warnings_wanted()) {
        eprintln!("{}", diagnostics.render(output::colour_wanted()));
    }
}
