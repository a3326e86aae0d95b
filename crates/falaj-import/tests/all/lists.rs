//! Checks that each message with a list of the words that can be imported lists exactly the words
//! that the parser accepts. The test reads the sources: for each `match` on a word whose last arm
//! returns such a list, the list has the words of the arms that accept a word, and no word that is
//! refused.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Words that an arm accepts only in part, so that no list has them.
const IN_PART: &[(&str, &str)] = &[("mod.rs", "set")];

/// The functions that make messages with lists.
const WITH_LIST: &[&str] = &["unknown", "stray", "not_imported"];

/// The beginning of the names of functions that make a message.
const MESSAGE: &str = "no_";

/// A token of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

use Token::{Sign, Text, Word};

/// The tokens of a source, without comments and character literals.
fn tokenize(code: &str) -> Vec<Token> {
    let letters: Vec<char> = code.chars().collect();
    let (mut found, mut n) = (Vec::new(), 0);
    let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
    while let Some(&c) = letters.get(n) {
        let rest = &letters[n..];
        match c {
            '/' if rest.get(1) == Some(&'/') => {
                n += rest.iter().position(|c| *c == '\n').unwrap_or(rest.len());
            }
            '"' => {
                let mut text = String::new();
                n += 1;
                while letters[n] != '"' {
                    n += usize::from(letters[n] == '\\');
                    text.push(letters[n]);
                    n += 1;
                }
                n += 1;
                found.push(Text(text));
            }
            '\'' if rest.get(1) == Some(&'\\') => {
                n += 3 + rest[3..].iter().position(|c| *c == '\'').expect("an end") + 1;
            }
            '\'' if rest.get(2) == Some(&'\'') => n += 3,
            c if is_word(&c) => {
                let length = rest.iter().position(|c| !is_word(c)).unwrap_or(rest.len());
                found.push(Word(rest[..length].iter().collect()));
                n += length;
            }
            c => {
                found.extend((!c.is_whitespace()).then_some(Sign(c)));
                n += 1;
            }
        }
    }
    found
}

/// The number of tokens before the first one outside of brackets for which `is` returns true.
fn up_to(tokens: &[Token], is: impl Fn(&[Token]) -> bool) -> usize {
    let mut depth = 0;
    for (n, token) in tokens.iter().enumerate() {
        if depth == 0 && is(&tokens[n..]) {
            return n;
        }
        match token {
            Sign('(' | '[' | '{') => depth += 1,
            Sign(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return n;
        }
    }
    tokens.len()
}

fn begins(tokens: &[Token], sign: char) -> bool {
    tokens.first() == Some(&Sign(sign))
}

fn texts(tokens: &[Token]) -> BTreeSet<String> {
    let text = |token: &Token| match token {
        Text(text) => Some(text.clone()),
        _ => None,
    };
    tokens.iter().filter_map(text).collect()
}

/// The texts in square brackets, and those of the constants that these tokens name: if several
/// functions have such a constant, the last one before the position `at` in the file.
fn lists(tokens: &[Token], file: &[Token], at: usize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (n, token) in tokens.iter().enumerate() {
        match token {
            Sign('[') => {
                let inner = &tokens[n + 1..];
                found.extend(texts(&inner[..up_to(inner, |_| false)]));
            }
            Word(name) if name.chars().all(|c| c.is_uppercase() || c == '_') => {
                // const NAME: &[&str] = &[…];
                let is = |at: &[Token]| at == [Word("const".into()), Word(name.clone())];
                let before = file[..at].windows(2).rposition(is);
                let constant = before.or_else(|| file.windows(2).position(is));
                let constant = constant.map(|at| &file[at..]);
                let is_list = |at: &&[Token]| at[3..7] == tokenize("&[&str");
                let constant = constant.filter(is_list);
                found.extend(
                    constant
                        .iter()
                        .flat_map(|at| texts(&at[..up_to(at, |rest| begins(rest, ';'))])),
                );
            }
            _ => {}
        }
    }
    found
}

/// The arms of a `match`: pattern with guard, and body.
fn arms(mut inner: &[Token]) -> Vec<(&[Token], &[Token])> {
    let mut arms = Vec::new();
    while !inner.is_empty() {
        let pattern = up_to(inner, |rest| rest.starts_with(&[Sign('='), Sign('>')]));
        let body = &inner[(pattern + 2).min(inner.len())..];
        let length = match begins(body, '{') {
            true => up_to(&body[1..], |_| false) + 2,
            false => up_to(body, |rest| begins(rest, ',')),
        };
        arms.push((&inner[..pattern], &body[..length]));
        inner = &body[length..];
        inner = if begins(inner, ',') { &inner[1..] } else { inner };
    }
    arms
}

/// Returns true if the body of an arm returns an error, after at most some `let`.
fn refuses(mut body: &[Token]) -> bool {
    body = if begins(body, '{') { &body[1..] } else { body };
    while body.first() == Some(&Word("let".into())) {
        body = &body[(up_to(body, |rest| begins(rest, ';')) + 1).min(body.len())..];
    }
    body.starts_with(&tokenize("return Err")) || body.starts_with(&tokenize("Err"))
}

/// The words of a pattern, without its guard; and those of the constants that the guard names.
fn accepted(pattern: &[Token], file: &[Token], at: usize) -> BTreeSet<String> {
    let guard = pattern.iter().position(|token| *token == Word("if".into()));
    let (words, guard) = pattern.split_at(guard.unwrap_or(pattern.len()));
    texts(words).into_iter().chain(lists(guard, file, at)).collect()
}

/// Returns true if code that ends here is in a function that makes a message.
fn of_message(code: &[Token]) -> bool {
    let last = code.windows(2).rfind(|two| two[0] == Word("fn".into()));
    matches!(last, Some([_, Word(name)]) if name.starts_with(MESSAGE))
}

/// The number of lists in a source, and the words in which lists and parser differ.
fn differences(file: &Path) -> (usize, Vec<String>) {
    let code = fs::read_to_string(file).expect("text");
    let code = tokenize(code.split("#[cfg(test)]").next().unwrap_or(""));
    let mut matches = Vec::new();
    for at in (0..code.len()).filter(|at| code[*at] == Word("match".into())) {
        let rest = &code[at + 1..];
        let open = up_to(rest, |rest| begins(rest, '{'));
        if rest[..open].contains(&Word("as_str".into())) {
            let inner = &rest[open + 1..];
            matches.push((at, arms(&inner[..up_to(inner, |_| false)])));
        }
    }
    // Words that some arm of the file accepts, and those that it compares by `==`.
    let mut anywhere = BTreeSet::new();
    for (at, arms) in &matches {
        let all = arms.iter().filter(|(_, body)| !refuses(body));
        anywhere.extend(all.flat_map(|(pattern, _)| accepted(pattern, &code, *at)));
    }
    let compared = code.windows(3).filter(|three| three[..2] == [Sign('='), Sign('=')]);
    anywhere.extend(compared.flat_map(|three| texts(&three[2..])));
    let (mut count, mut wrong) = (0, Vec::new());
    for (at, arms) in &matches {
        let at = *at;
        let Some(((_, last), others)) = arms.split_last() else { continue };
        // A function that only makes messages accepts no word.
        if of_message(&code[..at]) {
            continue;
        }
        let calls = |name: &&str| last.contains(&Word((*name).to_owned()));
        let mut list = lists(last, &code, at);
        // A function of the file may make the message.
        for call in last.windows(2).filter(|two| two[1] == Sign('(')) {
            let Word(name) = &call[0] else { continue };
            let is = |at: &[Token]| at == [Word("fn".into()), Word(name.clone())];
            let makes = name.starts_with(MESSAGE) && !WITH_LIST.contains(&name.as_str());
            if let Some(at) = code.windows(2).position(is).filter(|_| makes) {
                let open = up_to(&code[at..], |rest| begins(rest, '{')) + at + 1;
                let body = &code[open..open + up_to(&code[open..], |_| false)];
                list.extend(lists(body, &code, at));
            }
        }
        if list.is_empty() || !(WITH_LIST.iter().any(calls) || refuses(last)) {
            continue;
        }
        count += 1;
        let own = others.iter().filter(|(_, body)| !refuses(body));
        let own: BTreeSet<String> =
            own.flat_map(|(pattern, _)| accepted(pattern, &code, at)).collect();
        let name = file.file_name().expect("a name").to_string_lossy();
        let in_part = |word: &&String| IN_PART.iter().any(|(of, part)| *of == name && part == word);
        let unlisted: Vec<&String> = own.difference(&list).filter(|word| !in_part(word)).collect();
        let refused: Vec<&String> = list.difference(&anywhere).collect();
        if !unlisted.is_empty() || !refused.is_empty() {
            wrong.push(format!(
                "{}, after {:?}: accepted and not in the list {unlisted:?}, in the list and not \
                 accepted {refused:?}",
                file.display(),
                own.first()
            ));
        }
    }
    (count, wrong)
}

#[test]
fn lists_have_the_accepted_words() {
    let (mut count, mut wrong) = (0, Vec::new());
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let (lists, differ) = differences(&path);
                count += lists;
                wrong.extend(differ);
            }
        }
    }
    assert!(count > 25, "only {count} lists were found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
