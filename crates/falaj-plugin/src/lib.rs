//! Disciplines in shared libraries.
//!
//! A library exports one constant, [`falaj_plugin_api::abi::Discipline`];
//! `include/falaj_discipline.h` is the same for C and says what each function is for. [`load`]
//! finds it, looks whether it can be what it should be, and makes a [`Loaded`] of it, which
//! `falaj_sched`'s `plugin` discipline asks for instances. What these say is judged there, not
//! here.
//!
//! This crate and what the library itself does is all that is unsafe about it: a library is code,
//! and may do whatever the program may. It stays loaded until the program ends, since a thread may
//! be within it at any time.
#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]
#![warn(clippy::unwrap_used)]

#[allow(unsafe_code)]
mod instance;
#[allow(unsafe_code)]
mod library;

use falaj_sched::contract::library::Loaded;
use library::Shared;
use std::path::{Path, PathBuf};

/// What a library exports.
pub const SYMBOL: &str = "falaj_discipline";

/// Why a library cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unloadable {
    /// What is wrong, with the library's name.
    pub what: String,
    /// What would do.
    pub help: String,
}

/// Loads the library at `path`, which the scenario calls `name`. Its initialisers run.
///
/// # Errors
/// There is none, or it is no discipline for this version.
pub fn load(path: &Path, name: &str) -> Result<Loaded, Unloadable> {
    // Without a directory the system would search its own.
    let path =
        if path.components().count() < 2 { PathBuf::from(".").join(path) } else { path.to_owned() };
    Ok(Loaded::new(Shared::open(&path, name)?))
}
