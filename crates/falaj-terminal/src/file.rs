//! Scenario files from the command line.

use crate::output;
use anyhow::{Context, Result};
use falaj_scenario::{Diagnostics, Scenario};
use std::fmt;
use std::path::Path;

/// The error for an invalid scenario after its errors were printed.
#[derive(Debug)]
pub struct AlreadyReported;

impl fmt::Display for AlreadyReported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the scenario has errors")
    }
}
impl std::error::Error for AlreadyReported {}

/// Reads a scenario; prints its errors and warnings on standard error.
pub fn read(path: &Path) -> Result<Scenario> {
    let (name, text) = text(path)?;
    parse(&text, &name)
}

/// Reads the name and the text of a scenario, which may be invalid.
pub fn text(path: &Path) -> Result<(String, String)> {
    let name = path.display().to_string();
    let bytes = falaj_scenario::bytes_of(path);
    let bytes = bytes.with_context(|| format!("cannot read the scenario {name}"))?;
    let text = falaj_scenario::text_of(bytes, &name).map_err(anyhow::Error::msg)?;
    Ok((name, text))
}

/// Parses a text, and prints errors and warnings as [`read`] does.
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

/// Parses a text made by falaj itself and prints its errors; warnings are not printed, because no
/// user could act on them.
pub fn parse_quietly(text: &str, name: &str) -> Result<Scenario> {
    match falaj_scenario::parse(text, name) {
        Ok((scenario, _)) => Ok(scenario),
        Err(errors) => {
            tell(&errors);
            Err(AlreadyReported.into())
        }
    }
}

/// Prints diagnostics on standard error, in colour on a terminal. If there is no error among them,
/// they are printed only if warnings are wanted.
pub fn tell(diagnostics: &Diagnostics) {
    if !diagnostics.is_empty() && (diagnostics.has_errors() || output::warnings_wanted()) {
        eprintln!("{}", diagnostics.render(output::colour_wanted()));
    }
}

/// Makes room in recorded packets for the data by which a live sender identifies its datagrams, and
/// prints a note about packets that become longer for it.
pub fn make_room_for_marks(scenario: &mut Scenario) {
    for raised in scenario.make_room_for_marks() {
        note!(
            "traffic {}: {} packets of the capture are shorter than {} B, and are sent with {} B: \
             a live sender marks its datagrams",
            raised.source,
            raised.packets,
            raised.to,
            raised.to
        );
    }
}
