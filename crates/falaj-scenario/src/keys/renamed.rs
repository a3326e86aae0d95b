//! Keys that had another name before.

/// Each former name of a key and its present one. A former name is an error that gives the present
/// one, and [`upgrade()`](crate::edit::upgrade()) replaces it.
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
