//! The commands of a shell script: words with their places.

use falaj_scenario::{Diagnostics, Problem};
use std::collections::BTreeMap;
use std::ops::Range;

/// A word of a command, without its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) at: Range<usize>,
}

impl Word {
    /// Returns true if only a shell can expand this word, as `$(date)`.
    pub(crate) fn is_expanded(&self) -> bool {
        self.text.contains(['$', '`'])
    }
}

/// The errors of scripts that only a shell can read.
const ONLY_SHELL: [&str; 2] =
    ["only a shell can expand this", "only a shell can decide which of the following lines run"];

const CURE: &str = "`falaj import` runs such a script in a sandbox, unless `--no-run` forbids it";

/// Returns true if an import failed because only a shell can read the script.
pub fn needs_shell(errors: &Diagnostics) -> bool {
    errors.problems().iter().any(|problem| ONLY_SHELL.contains(&problem.title.as_str()))
}

/// The error at the first word of a command that only a shell can expand.
pub(crate) fn expanded(words: &[Word]) -> Option<Problem> {
    let word = words.iter().find(|word| word.is_expanded())?;
    Some(Problem::error(word.at.clone(), ONLY_SHELL[0]).help(CURE))
}

/// The error at a keyword that begins a conditional part of a script, or a loop.
pub(crate) fn branches(words: &[Word]) -> Option<Problem> {
    const KEYWORDS: &[&str] = &["if", "for", "while", "until", "case", "function", "select"];
    let first = words.first()?;
    let function = first.text.ends_with("()") || words.get(1).is_some_and(|w| w.text == "()");
    (KEYWORDS.contains(&first.text.as_str()) || function)
        .then(|| Problem::error(first.at.clone(), ONLY_SHELL[1]).help(CURE))
}

/// The commands of a script that run. A backslash at the end of a line continues the command in the
/// next line; `#` begins a comment; `;`, `&&` and `||` end a command. Redirections of output are
/// left out. A variable has the value that the script has assigned to it before, unless that
/// depends on a condition.
///
/// Commands that configure something count as successful. After one of them `&&` has no effect, and
/// the command behind `||` does not run. If it is unknown whether the command before `&&` or `||`
/// succeeds, a command behind it that configures something is an error.
pub(crate) fn commands(text: &str, problems: &mut Vec<Problem>) -> Vec<Vec<Word>> {
    let mut commands = Vec::new();
    let mut command: Vec<Word> = Vec::new();
    let mut chars = text.char_indices().peekable();
    // True if the next word is the file of a redirection.
    let mut redirected = false;
    let mut variables = Variables { values: BTreeMap::new(), budget: 1 << 20 };
    let mut list = AndOrList::default();
    while let Some(&(start, c)) = chars.peek() {
        match c {
            '\n' | ';' => {
                redirected = false;
                chars.next();
                let continues = c == '\n' && command.is_empty() && list.operator != Operator::None;
                if !continues {
                    end(&mut command, &mut commands, &mut variables, &mut list, problems);
                    list = AndOrList::default();
                }
            }
            '&' | '|' => {
                chars.next();
                let doubled = chars.next_if(|(_, next)| *next == c).is_some();
                end(&mut command, &mut commands, &mut variables, &mut list, problems);
                list.operator = match (c, doubled) {
                    ('&', true) => Operator::And,
                    (_, true) => Operator::Or,
                    ('&', false) => Operator::None,
                    (_, false) => Operator::Pipe,
                };
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
                let words = words(text, &mut chars, start, &mut variables, problems);
                let end = words.last().map_or(start, |word| word.at.end);
                match redirection(&text[start..end]) {
                    None if std::mem::take(&mut redirected) => {}
                    None => command.extend(words),
                    Some(names_file) => redirected = !names_file,
                }
            }
        }
    }
    end(&mut command, &mut commands, &mut variables, &mut list, problems);
    commands
}

/// The operator before a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Operator {
    #[default]
    None,
    /// The command has a process of its own, so its variables are lost.
    Pipe,
    And,
    Or,
}

/// A list of commands that `&&` and `||` connect, as far as it has been read.
#[derive(Debug, Default)]
struct AndOrList {
    operator: Operator,
    /// True if the last command succeeds, false if it fails; `None` if that is unknown.
    succeeds: Option<bool>,
}

impl AndOrList {
    /// Returns true if the command after the operator runs; `None` if that is unknown.
    fn runs(&self) -> Option<bool> {
        match self.operator {
            Operator::None | Operator::Pipe => Some(true),
            Operator::And => self.succeeds,
            Operator::Or => self.succeeds.map(|succeeds| !succeeds),
        }
    }
}

/// The program of a command: its first word without a path, after `sudo` and its options.
fn program(command: &[Word]) -> Option<&Word> {
    let is_sudo = command.first().is_some_and(|word| word.text == "sudo");
    command[usize::from(is_sudo)..].iter().find(|word| !is_sudo || !word.text.starts_with('-'))
}

/// Returns true if the command configures something that an import may depend on, or lets time
/// pass. A group of commands, and a program that only a shell can name, may do so.
fn configures(command: &[Word]) -> bool {
    const PROGRAMS: &[&str] = &[
        "tc", "ip", "ipfw", "dnctl", "pfctl", "sleep", "usleep", "tcset", "tcdel", "docker",
        "podman", "{",
    ];
    program(command).is_some_and(|word| {
        let name = word.text.rsplit('/').next().unwrap_or_default();
        PROGRAMS.contains(&name)
            || is_iptables(name)
            || word.text.starts_with('(')
            || word.is_expanded()
    })
}

/// Returns true if a program of this name, without a path, is iptables.
pub(crate) fn is_iptables(name: &str) -> bool {
    let name = name.trim_end_matches("-nft").trim_end_matches("-legacy");
    ["iptables", "ip6tables"].contains(&name)
}

/// Returns true if the command succeeds, as far as an import can say; `None` if that is unknown.
fn succeeds(command: &[Word]) -> Option<bool> {
    const ALWAYS: &[&str] = &["true", ":", "echo", "printf", "modprobe", "sysctl", "ethtool"];
    const LOOKS: &[&str] = &[
        "-C",
        "--check",
        "-D",
        "--delete",
        "-N",
        "--new-chain",
        "-X",
        "--delete-chain",
        "-L",
        "--list",
        "-S",
        "--list-rules",
    ];
    let word = program(command)?;
    match word.text.rsplit('/').next().unwrap_or_default() {
        "false" => Some(false),
        "{" => None,
        name if ALWAYS.contains(&name) => Some(true),
        _ if word.is_expanded() || word.text.starts_with('(') => None,
        // Their result depends on the rules and chains that exist: `-N` fails if the chain exists,
        // the others may fail if the rule or the chain is missing.
        name if is_iptables(name) && command.iter().any(|word| LOOKS.contains(&&*word.text)) => {
            None
        }
        _ => configures(command).then_some(true),
    }
}

/// The values of a script's variables, and the number of bytes that may still be substituted. The
/// limit is needed because a short script can double a value with each line.
struct Variables {
    values: BTreeMap<String, String>,
    budget: usize,
}

impl Variables {
    fn value(&mut self, name: &str) -> Option<&str> {
        let value = self.values.get(name)?;
        self.budget = self.budget.checked_sub(value.len())?;
        Some(value)
    }
}

/// Ends a command. It becomes a command of the script if it runs, unless it only sets variables.
fn end(
    command: &mut Vec<Word>,
    commands: &mut Vec<Vec<Word>>,
    variables: &mut Variables,
    list: &mut AndOrList,
    problems: &mut Vec<Problem>,
) {
    let command = std::mem::take(command);
    if command.is_empty() {
        return;
    }
    let runs = list.runs();
    let configures = configures(&command);
    match runs {
        Some(false) => {
            if configures {
                let what = "this command does not run, because of the result of a command before \
                            it, and was left out";
                problems.push(Problem::warning(command[0].at.clone(), what));
            }
            return;
        }
        None if configures => {
            problems.push(Problem::error(command[0].at.clone(), ONLY_SHELL[1]).help(CURE));
        }
        _ => {}
    }
    let is_prefix = |w: &Word| matches!(w.text.as_str(), "export" | "readonly" | "local");
    let set: Option<Vec<(&str, &Word)>> = command[usize::from(is_prefix(&command[0]))..]
        .iter()
        .map(|word| {
            word.text
                .split_once('=')
                .filter(|(name, _)| is_name(name))
                .map(|(name, _)| (name, word))
        })
        .collect();
    let Some(set) = set.filter(|set| !set.is_empty()) else {
        list.succeeds = runs.and_then(|_| succeeds(&command));
        commands.push(command);
        return;
    };
    let is_set = runs == Some(true) && list.operator != Operator::Pipe;
    for (name, word) in set {
        if is_set && !word.is_expanded() {
            let value = word.text[name.len() + 1..].to_owned();
            variables.values.insert(name.to_owned(), value);
        } else {
            variables.values.remove(name);
        }
    }
    list.succeeds = runs;
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Reads the variable at a `$`: its name, and the length of the reference in bytes.
fn variable(rest: &str) -> Option<(&str, usize)> {
    if let Some(braced) = rest.strip_prefix("${") {
        let (name, _) = braced.split_once('}')?;
        return is_name(name).then_some((name, name.len() + 3));
    }
    let all = rest.strip_prefix('$')?;
    let length = all.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(all.len());
    is_name(&all[..length]).then_some((&all[..length], length + 1))
}

/// Reads a redirection `>FILE`, `2>FILE`, `2>&1` or `>>`: true if the word contains the target.
/// `None` if the word is no redirection.
fn redirection(word: &str) -> Option<bool> {
    let rest = word.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix('>')?;
    Some(!rest.strip_prefix('>').unwrap_or(rest).is_empty())
}

/// Returns true if this backslash ends its line.
fn continues(rest: &str) -> bool {
    rest[1..].split('\n').next().is_some_and(|line| line.trim().is_empty())
}

type Chars<'a> = std::iter::Peekable<std::str::CharIndices<'a>>;

/// The words that begin at this position: one, or several if a variable's value has blanks.
fn words(
    text: &str,
    chars: &mut Chars<'_>,
    start: usize,
    variables: &mut Variables,
    problems: &mut Vec<Problem>,
) -> Vec<Word> {
    let mut word = String::new();
    // Words that are complete, because the value of a variable had blanks.
    let mut whole: Vec<String> = Vec::new();
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
            (q, '$') if q != Some('\'') => {
                let known = variable(&text[at..])
                    .and_then(|(name, length)| Some((variables.value(name)?, length)));
                if let Some((value, length)) = known {
                    if q.is_some() {
                        word.push_str(value);
                    } else {
                        let parts = value.split_whitespace();
                        for (n, part) in parts.enumerate() {
                            if n > 0 {
                                whole.push(std::mem::take(&mut word));
                            }
                            word.push_str(part);
                        }
                    }
                    while chars.next_if(|(next, _)| *next < at + length).is_some() {}
                    continue;
                }
                word.push(c);
            }
            _ => word.push(c),
        }
        chars.next();
    }
    if quote.is_some() {
        problems.push(Problem::error(start..end, "this quote is not closed"));
    }
    whole.push(word);
    whole.into_iter().map(|text| Word { text, at: start..end }).collect()
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
            ("tc 'x", true),
            ("\\", false),
            ("'", true),
        ] {
            let mut problems = Vec::new();
            let commands = commands(text, &mut problems);
            problems.extend(commands.iter().find_map(|words| expanded(words)));
            assert_eq!(problems.len(), usize::from(refused), "{text}");
        }
    }

    #[test]
    fn variables_have_their_values() {
        assert_eq!(
            words("A=eth0; B=\"x -q\"\n$B add $A \"${B}\" ${A}.5 $AB"),
            [["x", "-q", "add", "eth0", "x -q", "eth0.5", "$AB"]]
        );
        // `A` depends on the first command and `B` on a shell, so neither is known.
        assert_eq!(
            words("export A=1\ntest && A=2\nB=3; B=$(x); C=4; C=$C$C; tc $A $B $C"),
            [&["test"][..], &["tc", "$A", "$B", "44"]]
        );
        let doubled = "A=0123456789
"
        .to_owned()
            + &"A=$A$A
"
            .repeat(40)
            + "tc $A";
        assert_eq!(words(&doubled), [["tc", "$A"]], "a value beyond the budget is not substituted");
    }

    /// The rules of POSIX for lists of `&&` and `||`, from left to right.
    #[test]
    fn a_command_behind_an_operator_runs_if_that_is_known() {
        for (text, run) in [
            ("tc a && tc b", &["a", "b"][..]),
            ("tc a || tc b", &["a"]),
            ("tc a || tc b && tc c", &["a", "c"]),
            ("false && tc a || tc b", &["b"]),
            ("/sbin/tc a &&\n# then\n sudo -n tc b", &["a", "b"]),
            ("x=1 && tc $x || tc b", &["1"]),
            ("false || x=1; tc $x", &["1"]),
            ("true || x=1; tc b$x", &["b$x"]),
            ("tc a & tc b", &["a", "b"]),
            ("test || exit 1\ntc a", &["a"]),
        ] {
            let mut problems = Vec::new();
            let commands = commands(text, &mut problems);
            let tc = commands.iter().filter(|words| configures(words));
            let last: Vec<&str> = tc.map(|words| words.last().unwrap().text.as_str()).collect();
            assert_eq!(last, run, "{text}");
            assert!(!problems.iter().any(|p| ONLY_SHELL.contains(&p.title.as_str())), "{text}");
        }
        for text in [
            "test -d /sys && tc a",
            "command -v tc || tc a",
            "test && { tc a; }",
            "test && (tc a)",
            "tc a && test && sudo tc b",
            "test || sleep 1",
            "test && $x a",
        ] {
            let mut problems = Vec::new();
            commands(text, &mut problems);
            assert!(problems.iter().any(|p| p.title == ONLY_SHELL[1]), "{text}");
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
