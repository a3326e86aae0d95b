//! Passes the compiler's version and the architecture to the program: the instruction counts of
//! disciplines are compared per compiler and architecture.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = env::var_os("RUSTC").expect("cargo says which compiler it runs");
    let output =
        Command::new(rustc).arg("--version").output().expect("the compiler that cargo runs");
    let said = String::from_utf8(output.stdout).expect("a version is text");
    let version = said.split_whitespace().nth(1).expect("`rustc 1.90.0 …`");
    let target = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo says what it builds for");
    println!("cargo::rustc-env=FALAJ_COMPILER=rustc {version} {target}");
}
