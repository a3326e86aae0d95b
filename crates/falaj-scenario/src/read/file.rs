//! Reads a file that a key of the scenario names, relative to the scenario's directory.

use super::Field;
use crate::diagnostics::Problem;
use crate::files::place::{self, At, decoded};
use crate::suggest::quoted;
use std::path::Path;

/// Reads the file that a key of the scenario names; reports its errors, with the description of the
/// file's format as help.
pub(crate) fn read_file<T>(
    beside: &Path,
    name: &str,
    field: &Field<'_>,
    parse: impl FnOnce(&str) -> Result<T, At>,
    form: &str,
    problems: &mut Vec<Problem>,
) -> Result<T, ()> {
    let bytes = place::bytes_of(&beside.join(name));
    let bytes = bytes.map_err(|error| format!("{} cannot be read: {error}", quoted(name)));
    let read = |bytes: Vec<u8>| {
        decoded(bytes).and_then(|text| parse(&text)).map_err(|at| at.in_file(name))
    };
    bytes.and_then(read).map_err(|what| {
        problems.push(
            Problem::error(field.at.clone(), format!("`{}`: {what}", field.key.name))
                .help(form.to_owned()),
        );
    })
}
