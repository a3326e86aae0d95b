//! Commands as shell scripts have them: words with their places.

use falaj_scenario::Problem;
use std::ops::Range;

/// A word of a command, without its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) at: Range<usize>,
}

impl Word {
    /// Returns true if the shell puts something in its place, as for `$DEV` or `$(date)`.
    pub(crate) fn is_expanded(&self, script: &str) -> bool {
        let mut quote = None;
        let mut escaped = false;
        for c in script[self.at.clone()].chars() {
            match (quote, c) {
                _ if escaped => escaped = false,
                (None | Some('"'), '\\') => escaped = true,
                (Some(q), c) if q == c => quote = None,
                (None, '\'' | '"') => quote = Some(c),
                (None | Some('"'), '$' | '`') => return true,
                _ => {}
            }
        }
        false
    }
}

/// The first word of a command that only a shell can complete, as an error.
pub(crate) fn expanded(words: &[Word], script: &str) -> Option<Problem> {
    let word = words.iter().find(|word| word.is_expanded(script))?;
    Some(Problem::error(word.at.clone(), "only a shell knows what this is").help(
        "let the shell print the commands as it runs them, as in `bash -x SCRIPT`, and import those",
    ))
}

/// A word with which a part of a script begins that runs only on a condition, or several times.
pub(crate) fn branches(words: &[Word]) -> Option<Problem> {
    const KEYWORDS: &[&str] = &["if", "for", "while", "until", "case", "function", "select"];
    let first = words.first()?;
    let function = first.text.ends_with("()") || words.get(1).is_some_and(|w| w.text == "()");
    (KEYWORDS.contains(&first.text.as_str()) || function).then(|| {
        Problem::error(first.at.clone(), "only a shell knows which of the lines behind this run")
            .help(
                "let the shell print the commands as it runs them, as in `bash -x SCRIPT`, and \
                 import those",
            )
    })
}

/// The commands of a script. A backslash at the end of a line goes on in the next; `#` begins a
/// comment; `;`, `&&` and `||` end a command. Redirections of output are left out.
pub(crate) fn commands(text: &str, problems: &mut Vec<Problem>) -> Vec<Vec<Word>> {
    let mut commands = Vec::new();
    let mut command: Vec<Word> = Vec::new();
    let mut chars = text.char_indices().peekable();
    // The next word is the file that output goes to.
    let mut redirected = false;
    while let Some(&(start, c)) = chars.peek() {
        match c {
            '\n' | ';' => {
                redirected = false;
                chars.next();
                end(&mut command, &mut commands);
            }
            '&' | '|' => {
                chars.next();
                end(&mut command, &mut commands);
            }
            '#' => while chars.next_if(|(_, c)| *c != '\n').is_some() {},
            '\\' if continues(&text[start..]) => {
                while chars.next_if(|(_, c)| *c != '\n').is_some() {}
                chars.next();
            }
            c if c.is_whitespace() => {
                chars.next();
            }
            _ => {
                let word = word(text, &mut chars, start, problems);
                match redirection(&text[word.at.clone()]) {
                    None if std::mem::take(&mut redirected) => {}
                    None => command.push(word),
                    Some(names_file) => redirected = !names_file,
                }
            }
        }
    }
    end(&mut command, &mut commands);
    commands
}

fn end(command: &mut Vec<Word>, commands: &mut Vec<Vec<Word>>) {
    if !command.is_empty() {
        commands.push(std::mem::take(command));
    }
}

/// `>FILE`, `2>FILE`, `2>&1`, `>>`: whether it names the file itself; none: it is no redirection.
fn redirection(word: &str) -> Option<bool> {
    let rest = word.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix('>')?;
    Some(!rest.strip_prefix('>').unwrap_or(rest).is_empty())
}

/// Is this a backslash at the end of its line?
fn continues(rest: &str) -> bool {
    rest[1..].split('\n').next().is_some_and(|line| line.trim().is_empty())
}

type Chars<'a> = std::iter::Peekable<std::str::CharIndices<'a>>;

fn word(text: &str, chars: &mut Chars<'_>, start: usize, problems: &mut Vec<Problem>) -> Word {
    let mut word = String::new();
    let mut quote: Option<char> = None;
    let mut end = text.len();
    while let Some(&(at, c)) = chars.peek() {
        match (quote, c) {
            (None, '&') if redirection(&text[start..at]) == Some(false) => word.push(c),
            (None, c) if c.is_whitespace() || matches!(c, ';' | '&' | '|') => {
                end = at;
                break;
            }
            (Some(q), c) if q == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (_, '\\') if quote != Some('\'') => {
                if continues(&text[at..]) && quote.is_none() {
                    end = at;
                    break;
                }
                chars.next();
                if let Some(&(_, c)) = chars.peek() {
                    word.push(c);
                }
            }
            _ => word.push(c),
        }
        chars.next();
    }
    if quote.is_some() {
        problems.push(Problem::error(start..end, "a quote that does not end"));
    }
    Word { text: word, at: start..end }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        let mut problems = Vec::new();
        let commands = commands(text, &mut problems);
        assert_eq!(problems, []);
        for word in commands.iter().flatten() {
            assert!(word.at.start < word.at.end && word.at.end <= text.len());
        }
        commands.into_iter().map(|c| c.into_iter().map(|w| w.text).collect()).collect()
    }

    #[test]
    fn a_script_is_commands_of_words() {
        assert_eq!(
            words("# first\ntc a \\\n  b # c\n\nx 'y z' \"u\\\"v\"; w && k"),
            [&["tc", "a", "b"][..], &["x", "y z", "u\"v"], &["w"], &["k"]]
        );
        assert!(words("  \n# nothing\n").is_empty());
        assert_eq!(words("a\\\nb"), [["a", "b"]]);
    }

    #[test]
    fn what_a_shell_would_put_there_is_refused() {
        for (text, refused) in [
            ("tc $DEV", true),
            ("tc `x`", true),
            ("tc \"$DEV\"", true),
            ("tc '$DEV'", false),
            ("tc \\$DEV", false),
            ("tc 'x", true),
            ("\\", false),
            ("'", true),
        ] {
            let mut problems = Vec::new();
            let commands = commands(text, &mut problems);
            problems.extend(commands.iter().find_map(|words| expanded(words, text)));
            assert_eq!(problems.len(), usize::from(refused), "{text}");
        }
    }

    #[test]
    fn redirections_are_no_words() {
        assert_eq!(
            words("a b 2>/dev/null\nc >> log d\ne 2>&1\nf 2> /dev/null; g 3"),
            [&["a", "b"][..], &["c", "d"], &["e"], &["f"], &["g", "3"]]
        );
    }
}
