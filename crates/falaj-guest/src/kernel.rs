//! The guest's kernel: finding it, and checking it.

use crate::error::{Error, KernelFault};
use memchr::memmem;
use nix::unistd::{AccessFlags, access};
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The environment variable that names a kernel.
pub const VARIABLE: &str = "FALAJ_KERNEL";
/// The path of a kernel that a package installs.
const INSTALLED: &str = "/usr/lib/falaj/linux";

/// A kernel that boots in virtual time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The program.
    pub path: PathBuf,
    /// The source of its name.
    pub named_by: NamedBy,
    /// Its release, as in `6.12.117`; empty if unknown.
    pub release: String,
    /// True if the kernel uses the C library of this machine, so that its randomness can be fixed.
    pub shares_libraries: bool,
}

/// The source of a kernel's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// `--kernel`.
    Option,
    /// The environment variable [`VARIABLE`].
    Variable,
    /// It was found in one of the [`places`].
    Place,
}

impl NamedBy {
    /// The source in one word: `--kernel`, `FALAJ_KERNEL`, `found`.
    pub fn word(self) -> &'static str {
        match self {
            NamedBy::Option => "--kernel",
            NamedBy::Variable => VARIABLE,
            NamedBy::Place => "found",
        }
    }
}

/// The places that are searched if no kernel is named, in this order.
pub fn places() -> Vec<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let mut places: Vec<PathBuf> = [
        set("XDG_DATA_HOME").map(PathBuf::from),
        set("HOME").map(|home| Path::new(&home).join(".local/share")),
    ]
    .into_iter()
    .flatten()
    .map(|data| data.join("falaj/linux"))
    .collect();
    places.push(INSTALLED.into());
    places.dedup();
    places
}

/// Returns the kernel of this name; without a name, the kernel that [`VARIABLE`] names, or the
/// first kernel in [`places`].
///
/// # Errors
/// This machine is not x86-64 Linux, there is no kernel, or the one that was named or found first
/// is not suitable.
pub fn find(named: Option<&Path>) -> Result<Kernel, Error> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err(Error::Machine);
    }
    let variable = env::var_os(VARIABLE).filter(|value| !value.is_empty());
    choose(named, variable.as_deref(), &places())
}

fn choose(
    named: Option<&Path>,
    variable: Option<&OsStr>,
    places: &[PathBuf],
) -> Result<Kernel, Error> {
    let (path, named_by) = match (named, variable) {
        (Some(path), _) => (path.to_owned(), NamedBy::Option),
        (None, Some(path)) => (path.into(), NamedBy::Variable),
        (None, None) => match places.iter().find(|place| place.exists()) {
            Some(place) => (place.clone(), NamedBy::Place),
            None => return Err(Error::NoKernel(places.to_owned())),
        },
    };
    let fault = |fault| Error::Kernel(path.clone(), fault);
    let program = std::fs::read(&path).map_err(|_| fault(KernelFault::Unreadable))?;
    let (release, shares_libraries) = check(&program).map_err(fault)?;
    if access(&path, AccessFlags::X_OK).is_err() {
        return Err(fault(KernelFault::NotExecutable));
    }
    let path = std::path::absolute(&path).unwrap_or(path);
    Ok(Kernel { path, named_by, release, shares_libraries })
}

/// Checks the bytes of a kernel's program; returns its release, and whether it uses shared
/// libraries.
fn check(program: &[u8]) -> Result<(String, bool), KernelFault> {
    // A 64-bit ELF file, little-endian, for machine 62.
    if program.get(..6) != Some(b"\x7fELF\x02\x01") || program.get(18..20) != Some(&[62, 0]) {
        return Err(KernelFault::NotX86);
    }
    let has = |text: &str| memmem::find(program, text.as_bytes()).is_some();
    if !has("time-travel=") || !has("inf-cpu") {
        return Err(KernelFault::NoTimeTravel);
    }
    if !has("Universal TUN/TAP") || !has("hostfs") {
        return Err(KernelFault::Incomplete);
    }
    let release = memmem::find_iter(program, b"Linux version ").find_map(|at| {
        let rest = &program[at + "Linux version ".len()..];
        let end = rest.iter().position(|byte| byte.is_ascii_whitespace() || *byte == 0)?;
        let release = std::str::from_utf8(&rest[..end]).ok()?;
        release.starts_with(|first: char| first.is_ascii_digit()).then(|| release.to_owned())
    });
    Ok((release.unwrap_or_default(), has("/lib64/ld-linux-x86-64.so.2")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(machine: u8, texts: &[&str]) -> Vec<u8> {
        let mut program = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec();
        program.extend([machine, 0]);
        texts.iter().for_each(|text| program.extend(text.bytes().chain([0])));
        program
    }

    #[test]
    fn a_kernel_is_known_by_what_it_says_of_itself() {
        let all = [
            "Linux version 6.12.117 (x)",
            "time-travel=",
            "inf-cpu",
            "Universal TUN/TAP",
            "hostfs",
        ];
        assert_eq!(check(&elf(62, &all)), Ok(("6.12.117".into(), false)));
        let shared: Vec<&str> = all.into_iter().chain(["/lib64/ld-linux-x86-64.so.2"]).collect();
        assert_eq!(check(&elf(62, &shared)), Ok(("6.12.117".into(), true)));
        assert_eq!(check(&elf(183, &all)), Err(KernelFault::NotX86));
        assert_eq!(check(b"#!/bin/sh"), Err(KernelFault::NotX86));
        assert_eq!(check(&elf(62, &all[..1])), Err(KernelFault::NoTimeTravel));
        assert_eq!(check(&elf(62, &all[..4])), Err(KernelFault::Incomplete));
        assert_eq!(check(&elf(62, &all[1..])), Ok((String::new(), false)));
    }

    #[test]
    fn the_first_name_counts() {
        let place = [PathBuf::from("/nowhere/linux")];
        let named = |named: Option<&str>, variable: Option<&str>| match choose(
            named.map(Path::new),
            variable.map(OsStr::new),
            &place,
        ) {
            Err(Error::Kernel(path, fault)) => (path, Some(fault)),
            Err(Error::NoKernel(places)) => (places[0].clone(), None),
            other => panic!("{other:?}"),
        };
        let unreadable = Some(KernelFault::Unreadable);
        assert_eq!(named(Some("/a"), Some("/b")), ("/a".into(), unreadable));
        assert_eq!(named(None, Some("/b")), ("/b".into(), unreadable));
        assert_eq!(named(None, None), ("/nowhere/linux".into(), None));
        assert_eq!(named(Some("/bin"), None), ("/bin".into(), unreadable), "a directory");
    }
}
