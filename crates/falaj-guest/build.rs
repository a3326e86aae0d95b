//! Compiles `shim/shim.rs` as a separate shared library, which the program embeds. On targets other
//! than x86-64 Linux the library is empty, as no guest runs there.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=shim/shim.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("shim.so");
    let set = |name: &str, value: &str| env::var(name).is_ok_and(|is| is == value);
    if !(set("CARGO_CFG_TARGET_ARCH", "x86_64") && set("CARGO_CFG_TARGET_OS", "linux")) {
        std::fs::write(&out, []).expect("the output directory can be written to");
        return;
    }
    let mut rustc = Command::new(env::var_os("RUSTC").expect("cargo sets it"));
    rustc.args(["--crate-name=shim", "--crate-type=cdylib", "--edition=2024"]);
    rustc.args(["-Copt-level=2", "-Cpanic=abort", "-Cstrip=symbols", "-Dwarnings"]);
    rustc.args(["-Clink-arg=-nostdlib", "-Clink-arg=-nostartfiles"]);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    rustc.arg("--target").arg(env::var("TARGET").expect("cargo sets it"));
    rustc.arg("-o").arg(&out).arg("shim/shim.rs");
    let status = rustc.status().expect("rustc starts, as it compiles this");
    assert!(status.success(), "the guest's shim was not compiled: {status}");
}
