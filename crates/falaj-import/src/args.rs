//! The words of a command, read one after the other.

use crate::lines::Word;
use falaj_scenario::Problem;
use falaj_scenario::suggest::{self, quoted};
use std::ops::Range;

/// The words of a command that have not been read yet.
#[derive(Debug, Clone)]
pub(crate) struct Args<'a> {
    words: &'a [Word],
    at: usize,
    /// Warnings: words that were left out, and the effect of leaving them out.
    pub(crate) notes: Vec<Problem>,
}

impl<'a> Args<'a> {
    /// All words of a command, which has at least one.
    pub(crate) fn new(words: &'a [Word]) -> Args<'a> {
        Args { words, at: 0, notes: Vec::new() }
    }

    pub(crate) fn next(&mut self) -> Option<&'a Word> {
        let word = self.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    pub(crate) fn peek(&self) -> Option<&'a Word> {
        self.words.get(self.at)
    }

    /// Takes the next word if it is `text`.
    pub(crate) fn take(&mut self, text: &str) -> Option<&'a Word> {
        self.peek().filter(|w| w.text == text).inspect(|_| self.at += 1)
    }

    /// Takes the next word if it begins with a digit or a point.
    pub(crate) fn number(&mut self) -> Option<&'a Word> {
        let number = |w: &&Word| w.text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        self.peek().filter(number).inspect(|_| self.at += 1)
    }

    /// Takes the words before the first one for which `is` returns true, or all.
    pub(crate) fn until(&mut self, is: impl Fn(&Word) -> bool) -> &'a [Word] {
        let rest = &self.words[self.at..];
        let own = &rest[..rest.iter().position(is).unwrap_or(rest.len())];
        self.at += own.len();
        own
    }

    /// Takes the next word, as the value of the word before it.
    pub(crate) fn value(&mut self, what: &str) -> Result<&'a Word, Problem> {
        let before = self.before();
        self.next().ok_or_else(|| {
            let name = before.map_or("the command", |w| &w.text);
            Problem::error(self.end(), format!("{} needs {what}", quoted(name)))
        })
    }

    /// Adds the warning that a word was left out of the scenario. `why` states why this makes no
    /// difference, or which difference it makes.
    pub(crate) fn left_out(&mut self, word: &Word, why: &str) {
        let what = format!("{} was left out: {why}", quoted(&word.text));
        self.notes.push(Problem::warning(word.at.clone(), what));
    }

    /// The word that was taken last.
    pub(crate) fn before(&self) -> Option<&'a Word> {
        self.at.checked_sub(1).and_then(|n| self.words.get(n))
    }

    /// All words, joined by blanks.
    pub(crate) fn line(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(|w| w.text.as_str()).collect();
        words.join(" ")
    }

    /// The place of the whole command, from its first word to its last.
    pub(crate) fn all(&self) -> Range<usize> {
        self.words.first().map_or(0, |w| w.at.start)..self.end().end
    }

    /// The place of the last word.
    fn end(&self) -> Range<usize> {
        self.words.last().map_or(0..0, |w| w.at.clone())
    }
}

/// The error for a word that is none of the `known` words.
pub(crate) fn unknown(word: &Word, what: &str, known: &[&str]) -> Problem {
    let problem = Problem::error(word.at.clone(), format!("{} is not {what}", quoted(&word.text)));
    let problem = match suggest::nearest(&word.text, known.iter().copied()) {
        Some(near) => problem.label(format!("did you mean {}?", quoted(near))),
        None => problem,
    };
    problem.help(format!("one of {}", suggest::list(known.iter().copied())))
}

/// The error for a word of the other tool that cannot be imported. `known` are the words that can
/// be imported in its place; `what` is their common name.
pub(crate) fn not_imported(word: &Word, what: &str, known: &[&str]) -> Problem {
    let problem = no_equal(
        word.at.clone(),
        &word.text,
        &format!("{what} that can be imported: {}", suggest::every(known.iter().copied())),
    );
    match suggest::nearest(&word.text, known.iter().copied()) {
        Some(near) => problem.label(format!("did you mean {}?", quoted(near))),
        None => problem,
    }
}

/// The error for a feature that the other tool has and falaj does not, named by the script's words.
pub(crate) fn no_equal(at: Range<usize>, words: &str, why: &str) -> Problem {
    no_equal_phrase(at, &quoted(words), why)
}

/// The same error as [`no_equal`], for a feature that a phrase describes. Words of the script in
/// the phrase have backticks.
pub(crate) fn no_equal_phrase(at: Range<usize>, phrase: &str, why: &str) -> Problem {
    Problem::error(at, format!("{phrase} has no equivalent here")).help(why)
}
