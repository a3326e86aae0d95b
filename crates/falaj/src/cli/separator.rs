//! Detects a command after `falaj run` without `--` before it.

use super::try_parse;
use clap::error::ErrorKind;
use std::borrow::Cow;
use std::ffi::OsString;

/// Returns the command line with `--` inserted, if the missing `--` is its only error.
pub(super) fn corrected(words: &[OsString], error: &clap::Error) -> Option<String> {
    let lacking = [ErrorKind::UnknownArgument, ErrorKind::MissingRequiredArgument];
    let runs = words.iter().skip(1).find(|word| !is_option(word)).is_some_and(|word| word == "run");
    if !runs || !lacking.contains(&error.kind()) || words.iter().any(|word| word == "--") {
        return None;
    }
    let with_separator = |place: usize| {
        let (before, command) = words.split_at(place);
        [before, &["--".into()], command].concat()
    };
    let begins = |&place: &usize| {
        let word = &words[place];
        !is_option(word) && !word.to_string_lossy().ends_with(".toml")
    };
    let place =
        (2..words.len()).filter(begins).find(|&place| try_parse(&with_separator(place)).is_ok())?;
    let words = with_separator(place).into_iter().skip(1);
    Some(words.fold("falaj".to_owned(), |line, word| line + " " + &quoted(&word.to_string_lossy())))
}

fn is_option(word: &OsString) -> bool {
    word.to_string_lossy().starts_with('-')
}

/// Returns a word quoted for a shell.
fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:,=@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &[&str]) -> Option<String> {
        let words: Vec<OsString> = line.iter().map(OsString::from).collect();
        corrected(&words, &try_parse(&words).err()?)
    }

    #[test]
    fn a_forgotten_separator_is_put_in() {
        let is = |line: &[&str], expected| assert_eq!(of(line).as_deref(), expected, "{line:?}");
        is(&["falaj", "run", "ping", "1.1.1.1"], Some("falaj run -- ping 1.1.1.1"));
        is(&["falaj", "run", "bash"], Some("falaj run -- bash"));
        is(
            &["falaj", "run", "--rate", "1mbit", "sh", "-c", "echo it's"],
            Some(r"falaj run --rate 1mbit -- sh -c 'echo it'\''s'"),
        );
        is(&["falaj", "run", "star.toml", "bash"], Some("falaj run star.toml -- bash"));
        // The following command lines are wrong for another reason, or are correct.
        is(&["falaj", "run", "--rate", "1mbit"], None);
        is(&["falaj", "run", "--rat", "1mbit", "--", "bash"], None);
        is(&["falaj", "run", "--", "bash"], None);
        is(&["falaj", "sim", "ping", "1.1.1.1"], None);
    }
}
