//! Checks the documents' claims about the code: the reason for each library, the licences of all
//! libraries, the places of unsafe code, modules on front pages, tests that the page on security
//! names. Checks the systemd unit of the examples too.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns all locked packages, including those of features that are not enabled by default.
fn packages() -> Vec<Value> {
    let words = ["metadata", "--locked", "--format-version", "1", "--all-features"];
    let ask = |more: &[&str]| {
        let output =
            Command::new(env!("CARGO")).args(words).args(more).current_dir(root()).output();
        output.expect("cargo starts")
    };
    // Built packages are available offline; those of other features and systems may not be.
    let mut output = ask(&["--offline"]);
    if !output.status.success() {
        output = ask(&[]);
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    metadata["packages"].as_array().expect("packages").clone()
}

/// Licences of the code that a program under Apache-2.0 or MIT may include and redistribute. This
/// is the list that cargo-deny reads.
static LICENCES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let deny: toml::Table = read("deny.toml").parse().expect("TOML");
    let list = deny["licenses"]["allow"].as_array().expect("a list");
    list.iter().map(|name| name.as_str().expect("a name").to_owned()).collect()
});

/// Returns true if a package under this licence may be used. `expression` is an SPDX expression;
/// some packages write a slash for `OR`.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (allowed, rest) = any(&words);
    allowed && rest.is_empty()
}

fn any<'a>(words: &'a [&'a str]) -> (bool, &'a [&'a str]) {
    let (mut allowed, mut rest) = all(words);
    while let Some((&"OR", more)) = rest.split_first() {
        let other = all(more);
        (allowed, rest) = (allowed | other.0, other.1);
    }
    (allowed, rest)
}

fn all<'a>(words: &'a [&'a str]) -> (bool, &'a [&'a str]) {
    let (mut allowed, mut rest) = one(words);
    while let Some((&"AND", more)) = rest.split_first() {
        let other = one(more);
        (allowed, rest) = (allowed & other.0, other.1);
    }
    (allowed, rest)
}

fn one<'a>(words: &'a [&'a str]) -> (bool, &'a [&'a str]) {
    match words {
        ["(", inner @ ..] => {
            let (allowed, rest) = any(inner);
            (allowed && rest.first() == Some(&")"), rest.get(1..).unwrap_or_default())
        }
        [name, "WITH", exception, rest @ ..] => {
            (LICENCES.contains(&format!("{name} WITH {exception}")), rest)
        }
        [name, rest @ ..] => (LICENCES.iter().any(|licence| licence == name), rest),
        [] => (false, words),
    }
}

#[test]
fn licences_are_those_that_may_be() {
    for (expression, allowed) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("MIT OR GPL-3.0", true),
        ("MIT/Apache-2.0", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("(MIT OR Apache-2.0) AND GPL-2.0", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("", false),
    ] {
        assert_eq!(is_allowed(expression), allowed, "{expression}");
    }
    let packages = packages();
    assert!(packages.len() > 100, "{}", packages.len());
    for package in packages {
        let licence = package["license"].as_str().unwrap_or_default();
        assert!(
            is_allowed(licence),
            "{} {} is under `{licence}`",
            package["name"],
            package["version"]
        );
    }
}

#[test]
fn each_library_has_its_reason() {
    let reasons = read("docs/decisions/0001-libraries.md");
    let of_ours = packages().into_iter().filter(|package| package["source"].is_null());
    let mut libraries = BTreeSet::new();
    for package in of_ours {
        for dependency in package["dependencies"].as_array().expect("a list") {
            // Path dependencies are part of this project.
            if dependency["path"].is_null() {
                libraries.insert(dependency["name"].as_str().expect("a name").to_owned());
            }
        }
    }
    assert!(libraries.len() > 50, "{libraries:?}");
    let without: Vec<&String> =
        libraries.iter().filter(|name| !reasons.contains(&format!("`{name}`"))).collect();
    assert!(without.is_empty(), "docs/decisions/0001-libraries.md says nothing of {without:?}");
}

/// Collects all Rust files below a directory.
fn sources(place: &Path, found: &mut Vec<PathBuf>) {
    for entry in
        fs::read_dir(place).expect("a directory").map(|entry| entry.expect("an entry").path())
    {
        if entry.is_dir() {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|kind| kind == "rs") {
            found.push(entry);
        }
    }
}

/// Returns the number of places with `unsafe` in a file; comments are not counted.
fn unsafe_places(text: &str) -> usize {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.map(|line| {
        ["unsafe {", "unsafe impl", "unsafe("]
            .iter()
            .map(|words| line.matches(words).count())
            .sum::<usize>()
    })
    .sum()
}

#[test]
fn the_table_of_unsafe_code_is_whole() {
    let mut there = BTreeMap::new();
    let crates = fs::read_dir(root().join("crates"))
        .expect("crates")
        .map(|entry| entry.expect("one").path());
    for place in crates.chain([root().join("bindings/python")]).map(|place| place.join("src")) {
        let mut files = Vec::new();
        sources(&place, &mut files);
        for file in files {
            let places = unsafe_places(&fs::read_to_string(&file).expect("text"));
            if places > 0 {
                let parts: Vec<_> = file
                    .components()
                    .map(|part| part.as_os_str().to_string_lossy().into_owned())
                    .collect();
                let src = parts.iter().rposition(|part| part == "src").expect("it is in there");
                there.insert(format!("{}/{}", parts[src - 1], parts[src + 1..].join("/")), places);
            }
        }
    }
    let said: BTreeMap<String, usize> = read("docs/reference/unsafe.md")
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split('|');
            let file = cells.next()?.trim().trim_end_matches('`').to_owned();
            Some((file, cells.next()?.trim().parse().ok()?))
        })
        .collect();
    assert_eq!(there, said, "in the code, and in docs/reference/unsafe.md");
}

/// A crate's front page that has a table of modules, or describes the crate's layers, names all
/// public modules, in backquotes.
#[test]
fn front_pages_name_each_module() {
    let mut pages = 0;
    for entry in fs::read_dir(root().join("crates")).expect("crates") {
        let at = entry.expect("one").path().join("src/lib.rs");
        let text = fs::read_to_string(&at).unwrap_or_default();
        let page: String = text.lines().filter(|line| line.starts_with("//!")).collect();
        if !page.contains("| module |") && !page.contains("a stack of layers") {
            continue;
        }
        pages += 1;
        for module in
            text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        {
            let named = [format!("`{module}`"), format!("`mod@{module}`")]
                .iter()
                .any(|name| page.contains(name));
            assert!(named, "{}: {module} is not named", at.display());
        }
    }
    assert!(pages > 3, "{pages} name their modules");
}

/// Checks the settings that confine the service in the systemd unit. Each capability of the unit is
/// necessary: measurements showed that an adapter's port is refused if one of them is missing.
#[test]
fn the_unit_for_systemd_confines_the_service() {
    let unit = read("examples/systemd/falaj.service");
    let needed = "CAP_NET_ADMIN CAP_NET_RAW CAP_SYS_ADMIN CAP_SYS_PTRACE";
    for (key, value) in [
        ("User", "falaj"),
        ("DynamicUser", "yes"),
        ("AmbientCapabilities", needed),
        ("CapabilityBoundingSet", needed),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("ProtectKernelTunables", "yes"),
        ("ProtectControlGroups", "yes"),
        ("SystemCallArchitectures", "native"),
    ] {
        let values: Vec<&str> =
            unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect();
        assert_eq!(values, [value], "{key}");
    }
}

#[test]
fn the_unit_for_systemd_starts_what_there_is() {
    let unit = read("examples/systemd/falaj.service");
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=/usr/bin/falaj "))
        .expect("it starts falaj");
    let help = Command::new(env!("CARGO_BIN_EXE_falaj"))
        .args(["serve", "--help"])
        .output()
        .expect("it starts");
    let help = String::from_utf8(help.stdout).expect("text");
    let flags: Vec<&str> = start.split(' ').filter(|word| word.starts_with("--")).collect();
    assert!(start.starts_with("serve ") && flags.len() > 3, "{start}");
    for flag in flags {
        assert!(
            help.split_whitespace().any(|word| word.trim_end_matches(',') == flag),
            "{flag} is none of serve's"
        );
    }
}

#[test]
fn what_shows_that_attacks_fail_is_there() {
    let page = read("docs/security.md");
    let named: BTreeSet<&str> = page
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| word.starts_with("falaj") && word.contains("/") || word.ends_with("/tests"))
        .filter(|word| !word.contains(' '))
        .collect();
    assert!(named.len() > 20, "{named:?}");
    let is_there =
        |word: &&&str| ["crates", ""].iter().any(|below| root().join(below).join(word).exists());
    let lost: Vec<&&str> = named.iter().filter(|word| !is_there(word)).collect();
    assert!(lost.is_empty(), "docs/security.md names what is not there: {lost:?}");
}
