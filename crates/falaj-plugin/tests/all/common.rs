//! Libraries that are built from their sources.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The project's directory.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A path in a new directory of its own.
fn target(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{number}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir.join(name)
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Compiles a source in C with `cc`; returns the path of the program or library.
pub(crate) fn cc(source: &Path, flags: &[&str]) -> PathBuf {
    let out = target(&format!("lib{}.so", source.file_stem().unwrap().to_string_lossy()));
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    run(Command::new(compiler)
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(include)
        .args(flags)
        .arg("-o")
        .arg(&out)
        .arg(source));
    out
}

/// Compiles a library in C.
pub(crate) fn library(source: &Path, flags: &[&str]) -> PathBuf {
    cc(source, &[&["-shared", "-fPIC"], flags].concat())
}

/// Compiles an example in C as a library.
pub(crate) fn c_example(name: &str) -> PathBuf {
    library(&root().join("examples/plugins/c").join(name), &[])
}

/// Compiles the discipline of `tests/c` that breaks the contract in this way.
pub(crate) fn naughty(fault: &str) -> PathBuf {
    library(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/naughty.c"),
        &[&format!("-DFAULT={fault}")],
    )
}

/// Compiles a library in Rust from this source, with the plug-in API.
pub(crate) fn rust(source: &Path) -> PathBuf {
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let api = target("libfalaj_plugin_api.rlib");
    let base = ["--edition=2024", "-O"];
    let api_source = root().join("crates/falaj-plugin-api/src/lib.rs");
    run(Command::new(&compiler)
        .args(base)
        .args(["--crate-type=rlib", "--crate-name=falaj_plugin_api", "-o"])
        .arg(&api)
        .arg(api_source));
    let out = target("libplugin.so");
    let with = format!("falaj_plugin_api={}", api.display());
    run(Command::new(&compiler)
        .args(base)
        .args(["--crate-type=cdylib", "--extern", &with, "-o"])
        .arg(&out)
        .arg(source));
    out
}
