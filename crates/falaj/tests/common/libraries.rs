//! Builds disciplines in shared libraries.

use crate::common::directory;
use std::path::Path;
use std::process::Command;

/// Compiles this source into a library, in the directory of the scenarios.
pub(crate) fn library(name: &str, source: &Path, flags: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command
        .args(["-shared", "-fPIC", "-O1"])
        .args(flags)
        .arg("-I")
        .arg(root.join("crates/falaj-plugin/include"));
    let status = command.arg("-o").arg(directory().join(name)).arg(root.join(source)).status();
    assert!(status.expect("there is a compiler of C").success());
}

/// Builds a discipline that fulfils its contract for four packets, then commits `fault`.
pub(crate) fn naughty(name: &str, fault: &str) {
    let source = Path::new("crates/falaj-plugin/tests/c/naughty.c");
    library(name, source, &[&format!("-DFAULT={fault}")]);
}

/// Builds the example discipline in C, deficit round robin.
pub(crate) fn drr(name: &str) {
    library(name, Path::new("examples/plugins/c/drr.c"), &[]);
}
