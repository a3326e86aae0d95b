//! Finds the messages in the sources of a crate, and checks that tests contain them. This crate and
//! crates that depend on it use it.

use falaj_scenario::{Diagnostics, Severity};
use std::fs;
use std::path::{Path, PathBuf};

/// Checks that this message is reported, at a place inside the text.
pub(crate) fn said(all: &Diagnostics, severity: Severity, text: &str, title: &str) {
    let found = all
        .problems()
        .iter()
        .find(|problem| problem.title == title && problem.severity == severity);
    let found = found.unwrap_or_else(|| panic!("{text}: no `{title}`, but {all}"));
    let (line, column) = (text.lines().nth(found.line - 1), found.column);
    assert!(
        line.is_some_and(|line| column <= line.chars().count() + 1),
        "{text}: {}:{column}",
        found.line
    );
}

/// Finds all Rust files below a directory.
fn files(place: &Path, found: &mut Vec<PathBuf>) {
    for entry in
        fs::read_dir(place).expect("a directory").map(|entry| entry.expect("an entry").path())
    {
        if entry.is_dir() {
            files(&entry, found);
        } else if entry.extension().is_some_and(|kind| kind == "rs") {
            found.push(entry);
        }
    }
}

/// Splits a Rust file into the code before its tests, and the tests.
fn parts(file: &Path) -> (String, String) {
    let text = fs::read_to_string(file).expect("text");
    match text.split_once("#[cfg(test)]") {
        Some((code, tests)) => (code.to_owned(), tests.to_owned()),
        None => (text, String::new()),
    }
}

/// The quoted texts up to the `)` that closes the `(` just before `code`, and the position of that
/// `)`.
fn texts(code: &str) -> (Vec<String>, usize) {
    let (mut found, mut depth, mut text) = (Vec::new(), 1, None::<String>);
    let mut letters = code.char_indices();
    while let Some((at, letter)) = letters.next() {
        match (&mut text, letter) {
            (Some(inner), '\\') => match letters.next() {
                // After `\` at the end of a line, the text continues after the blanks of the next
                // line.
                Some((_, '\n')) => inner.push('\n'),
                Some((_, escaped)) => inner.push(escaped),
                None => break,
            },
            (Some(_), '"') => found.extend(text.take()),
            (Some(inner), _) => inner.push(letter),
            (None, '"') => text = Some(String::new()),
            (None, '(') => depth += 1,
            (None, ')') => {
                depth -= 1;
                if depth == 0 {
                    return (found, at);
                }
            }
            (None, _) => {}
        }
    }
    panic!("brackets that do not end: {}", &code[..code.len().min(200)]);
}

/// The constant parts of a format string.
fn fixed(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '{' | '}' if letters.peek() == Some(&letter) => {
                found.last_mut().expect("one").extend(letters.next());
            }
            '{' => {
                letters.by_ref().find(|letter| *letter == '}');
                found.push(String::new());
            }
            _ => found.last_mut().expect("one").push(letter),
        }
    }
    found
}

fn without_breaks(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The number of messages in the sources of the crate at `root`, and the messages that no test
/// contains, each with its file. Tests are in the directories `places`, relative to `root`, and in
/// the sources.
pub(crate) fn untested(root: &str, places: &[&str]) -> (usize, Vec<String>) {
    let root = Path::new(root);
    let (mut sources, mut others) = (Vec::new(), Vec::new());
    files(&root.join("src"), &mut sources);
    for place in places.iter().map(|place| root.join(place)) {
        if place.is_dir() {
            files(&place, &mut others);
        }
    }
    let tests: Vec<String> =
        others.iter().map(|file| fs::read_to_string(file).expect("text")).collect();
    let own: Vec<String> = sources.iter().map(|file| parts(file).1).collect();
    let tests =
        without_breaks(&[tests, own].concat().concat().replace("\\\n", "").replace("\\\"", "\""));
    let (mut messages, mut missing) = (0, Vec::new());
    for file in &sources {
        let code = parts(file).0;
        for (at, name) in ["Problem::error(", "Problem::warning("]
            .iter()
            .flat_map(|name| code.match_indices(name))
        {
            let behind = at + name.len();
            let (texts, _) = texts(&code[behind..]);
            // A single word is a key that is looked up, and no message. Composed messages have
            // their words elsewhere.
            for text in texts.into_iter().filter(|text| text.contains(' ')) {
                messages += 1;
                let is_there =
                    |part: &String| part.trim().len() < 3 || tests.contains(&without_breaks(part));
                if !fixed(&text).iter().all(is_there) {
                    missing.push(format!(
                        "{}: {}",
                        file.strip_prefix(root).expect("within").display(),
                        without_breaks(&text)
                    ));
                }
            }
        }
    }
    (messages, missing)
}
