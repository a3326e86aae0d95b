//! Commands as shell scripts have them: words with their places.

use falaj_scenario::Problem;
use std::ops::Range;

/// A word of a command, without its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) at: Range<usize>,
}

/// The commands of a script. A backslash at the end of a line goes on in the next; `#` begins a
/// comment; `;`, `&&` and `||` end a command. What only a shell knows, such as a variable, is
/// refused.
pub(crate) fn commands(text: &str, problems: &mut Vec<Problem>) -> Vec<Vec<Word>> {
    let mut commands = Vec::new();
    let mut command: Vec<Word> = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some(&(start, c)) = chars.peek() {
        match c {
            '\n' | ';' => {
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
                command.push(word);
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

/// Is this a backslash at the end of its line?
fn continues(rest: &str) -> bool {
    rest[1..].split('\n').next().is_some_and(|line| line.trim().is_empty())
}

type Chars<'a> = std::iter::Peekable<std::str::CharIndices<'a>>;

fn word(text: &str, chars: &mut Chars<'_>, start: usize, problems: &mut Vec<Problem>) -> Word {
    let mut word = String::new();
    let mut quote: Option<char> = None;
    let mut end = text.len();
    let mut shell = false;
    while let Some(&(at, c)) = chars.peek() {
        match (quote, c) {
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
            (q, '$' | '`') if q != Some('\'') => {
                shell = true;
                word.push(c);
            }
            _ => word.push(c),
        }
        chars.next();
    }
    if quote.is_some() {
        problems.push(Problem::error(start..end, "a quote that does not end"));
    } else if shell {
        let problem = Problem::error(start..end, "only a shell knows what this is");
        problems.push(
            problem.help("let the shell print the commands as it runs them, as in `bash -x SCRIPT`, and import those"),
        );
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
        for text in ["tc $DEV", "tc `x`", "tc \"$DEV\"", "tc 'x", "\\", "'"] {
            let mut problems = Vec::new();
            commands(text, &mut problems);
            assert_eq!(problems.len(), usize::from(text != "\\"), "{text}");
        }
    }
}
