//! Messages for a wrong command line: the wrong word, the allowed words, and the cure.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};
use falaj_scenario::reference;
use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

/// Old names of options, each with the present name.
const RENAMED: [(&str, &str); 2] = [("--need", "--requires"), ("--per-container", "--per-batch")];

fn present(option: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(former, _)| *former == option).map(|(_, present)| *present)
}

/// Returns a one-sentence message for a parse error. Returns `None` if clap's own text is to be
/// printed, as for `--help`.
pub(super) fn sentence(words: &[OsString], error: &Error, mut command: Command) -> Option<String> {
    command.build();
    let command = innermost(&command, words);
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let of = |kind| error.get(kind).map(texts).unwrap_or_default();
    let arguments = of(ContextKind::InvalidArg);
    let argument = arguments.first().map(String::as_str).unwrap_or_default();
    let value = of(ContextKind::InvalidValue).pop().unwrap_or_default();
    let allowed = of(ContextKind::ValidValue);
    let near = |kind| match of(kind).first() {
        Some(word) => format!("; the most similar is `{word}`"),
        None => String::new(),
    };
    Some(match error.kind() {
        ErrorKind::UnknownArgument if present(argument).is_some() => {
            format!("`{argument}` is now called `{}`", present(argument)?)
        }
        ErrorKind::UnknownArgument if argument.starts_with('-') => format!(
            "`{argument}` is not an option of `{name}`{}; `{name} --help-all` lists its options",
            near(ContextKind::SuggestedArg)
        ),
        ErrorKind::UnknownArgument => {
            format!("`{argument}` is one word too many; write `{}`", usage(command))
        }
        ErrorKind::InvalidSubcommand => {
            let unknown = of(ContextKind::InvalidSubcommand).pop()?;
            let near = near(ContextKind::SuggestedSubcommand);
            let cure = if near.is_empty() && reference::explain(&unknown).is_ok() {
                format!("`falaj explain {unknown}` explains the word, and ")
            } else {
                String::new()
            };
            format!(
                "`{name}` has no command `{unknown}`{near}; {cure}`{name} --help` lists its commands"
            )
        }
        ErrorKind::InvalidValue if !value.is_empty() => format!(
            "{} {value}: `{value}` is not allowed{}; allowed: {}",
            option(argument),
            near(ContextKind::SuggestedValue),
            listed(&allowed)
        ),
        // The value is `--` or another option if an option's value is missing: clap took the next
        // word as the value.
        ErrorKind::ValueValidation if value != "--" && find(command, &value).is_none() => {
            format!("{} {value}: {}", option(argument), refusal(&value, error))
        }
        ErrorKind::InvalidValue
        | ErrorKind::ValueValidation
        | ErrorKind::TooManyValues
        | ErrorKind::TooFewValues
        | ErrorKind::WrongNumberOfValues => lacking(command, argument, &allowed),
        ErrorKind::ArgumentConflict => {
            let prior = of(ContextKind::PriorArg);
            if prior.is_empty() || prior == arguments {
                return Some(format!("`{}` is given twice; write it once", option(argument)));
            }
            let given = if argument.is_empty() {
                of(ContextKind::InvalidSubcommand).pop()?
            } else {
                option(argument).to_owned()
            };
            let prior: Vec<String> = prior.iter().map(|other| option(other).to_owned()).collect();
            format!(
                "`{given}` cannot be used together with {}; leave one of them out",
                listed(&prior)
            )
        }
        ErrorKind::MissingRequiredArgument => {
            let usage = of(ContextKind::Usage).pop().unwrap_or_default();
            let usage = usage.trim().trim_start_matches("Usage:").trim();
            format!("`{name}` needs {}; write `{usage}`", listed(&arguments))
        }
        ErrorKind::InvalidUtf8 => format!("a word after `{name}` is not UTF-8"),
        _ => return None,
    })
}

/// Returns the innermost subcommand that the words name, or the command above an unknown word.
fn innermost<'a>(command: &'a Command, words: &[OsString]) -> &'a Command {
    let given = words.iter().skip(1).take_while(|word| *word != "--");
    let named = given.filter(|word| !word.to_string_lossy().starts_with('-'));
    let mut innermost = command;
    for word in named {
        match innermost.find_subcommand(word) {
            Some(below) => innermost = below,
            None => break,
        }
    }
    innermost
}

fn texts(value: &ContextValue) -> Vec<String> {
    match value {
        ContextValue::String(text) => vec![text.clone()],
        ContextValue::Strings(texts) => texts.clone(),
        ContextValue::StyledStr(text) => vec![text.to_string()],
        _ => Vec::new(),
    }
}

/// Returns the name of an option without its value: `--rate` of `--rate <RATE>`.
fn option(argument: &str) -> &str {
    argument.split(' ').next().unwrap_or_default()
}

/// Returns the option with this long name.
fn find<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.strip_prefix("--")?.split('=').next();
    command.get_arguments().find(|argument| argument.get_long() == name)
}

fn listed(words: &[String]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn usage(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    usage.trim_start_matches("Usage:").trim().to_owned()
}

/// Returns the message for a missing value.
fn lacking(command: &Command, argument: &str, allowed: &[String]) -> String {
    let name = option(argument);
    let help = find(command, name).and_then(Arg::get_help).map(ToString::to_string);
    let about = match help {
        _ if !allowed.is_empty() => format!("; allowed: {}", listed(allowed)),
        Some(help) => format!(": {}", help.trim_end_matches('.')),
        None => String::new(),
    };
    format!("`{name}` needs a value; write `{argument}`{about}")
}

/// Returns the reason why a value is refused, and how to write it correctly.
fn refusal(value: &str, error: &Error) -> String {
    let Some(source) = error.source() else { return format!("`{value}` is not allowed") };
    if let Some(number) = source.downcast_ref::<ParseIntError>() {
        return match number.kind() {
            IntErrorKind::PosOverflow => format!("`{value}` is too large; write a lower number"),
            _ => format!("`{value}` is not a whole number; write one, as in `10`"),
        };
    }
    if source.is::<ParseFloatError>() {
        return format!("`{value}` is not a number; write one, as in `1.5`");
    }
    source.to_string()
}
