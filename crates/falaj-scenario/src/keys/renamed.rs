//! Keys that had another name in earlier versions.

/// Each former name of a key, with its present name. A former name in a file is an error whose
/// message gives the present name; [`upgrade()`](crate::edit::upgrade()) replaces former names.
pub const RENAMED: &[(&str, &str)] = &[
    ("each", "mask"),
    ("need", "requires"),
    ("account", "layer"),
    ("pace", "paced-by"),
    ("occupies", "holds-link"),
];

/// The present name of the key that was called `name`.
pub fn present(name: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(former, _)| *former == name).map(|(_, present)| *present)
}
