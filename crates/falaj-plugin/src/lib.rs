//! Disciplines in shared libraries.
//!
//! A library exports one constant, [`falaj_plugin_api::abi::Discipline`];
//! `include/falaj_discipline.h` is the same for C and documents each function. [`load`] finds the
//! constant, checks that it is valid, and makes a [`Loaded`] of it. The `plugin` discipline of
//! `falaj_sched` creates instances from that, and checks their decisions; this crate does not.
//!
//! falaj's unsafe code for plug-ins is limited to this crate and `falaj_plugin_api`. A library
//! itself is not restricted: it may do whatever the program may. It stays loaded until the program
//! ends, because a thread may be executing it at any time.
#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]
#![warn(clippy::unwrap_used)]

#[allow(unsafe_code)]
mod instance;
#[allow(unsafe_code)]
mod library;

use falaj_sched::contract::library::Loaded;
use library::Shared;
use std::path::{Path, PathBuf};

/// The symbol that a library exports.
pub const SYMBOL: &str = "falaj_discipline";

/// The reason why a library cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unloadable {
    /// The error, including the library's name.
    pub what: String,
    /// The remedy.
    pub help: String,
}

/// Loads the library at `path`, which the scenario calls `name`. This runs its initialisers.
///
/// # Errors
/// The file does not exist, or is not a discipline for this version.
pub fn load(path: &Path, name: &str) -> Result<Loaded, Unloadable> {
    // The dynamic linker would search the system's directories for a name without a slash.
    let path =
        if path.components().count() < 2 { PathBuf::from(".").join(path) } else { path.to_owned() };
    Ok(Loaded::new(Shared::open(&path, name)?))
}
