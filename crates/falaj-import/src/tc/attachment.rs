//! The object that a command of tc concerns: a device, and a place in its tree.

use super::stab::{self, Stab};
use crate::args::{Args, unknown};
use crate::lines::Word;
use falaj_scenario::Problem;
use falaj_scenario::suggest::quoted;

/// A handle of a discipline (`1:`) or a class (`1:10`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Handle {
    pub(super) major: u16,
    pub(super) minor: u16,
}

/// The words before the kind, in commands for disciplines, classes and filters.
#[derive(Debug, Clone, Default)]
pub(super) struct Attachment<'a> {
    pub(super) dev: Option<&'a Word>,
    pub(super) parent: Option<Handle>,
    pub(super) handle: Option<Handle>,
    /// The `handle` of a filter: its name, or a mark.
    pub(super) number: Option<&'a Word>,
    pub(super) ingress: bool,
    pub(super) prio: Option<u64>,
    /// The `protocol` of a filter.
    pub(super) protocol: Option<&'a Word>,
    pub(super) stab: Option<Stab>,
}

const PLACE: &[&str] = &[
    "dev", "root", "parent", "handle", "classid", "ingress", "clsact", "protocol", "prio", "stab",
];

impl<'a> Attachment<'a> {
    /// Reads the words up to the kind, and returns the kind; `None` if there is none.
    pub(super) fn read(
        args: &mut Args<'a>,
        filter: bool,
    ) -> Result<(Attachment<'a>, Option<&'a Word>), Problem> {
        let mut place = Attachment::default();
        while let Some(word) = args.next() {
            match word.text.as_str() {
                "dev" => place.dev = Some(args.value("a device")?),
                "root" => place.parent = None,
                "parent" if args.take("root").is_some() => place.parent = None,
                "parent" if args.take("ingress").is_some() => place.ingress = true,
                "parent" => place.parent = Some(handle(args.value("a handle")?)?),
                "handle" if filter => place.number = Some(args.value("a handle")?),
                "handle" | "classid" => place.handle = Some(handle(args.value("a handle")?)?),
                "ingress" | "clsact" => place.ingress = true,
                "stab" if !filter => place.stab = Some(stab::read(word, args)?),
                "protocol" => place.protocol = Some(args.value("a protocol")?),
                // For a discipline, `prio` is the kind.
                "prio" | "pref" | "priority" if filter => {
                    place.prio = Some(crate::amounts::whole(args.value("a number")?)?);
                }
                _ => return Ok((place, Some(word))),
            }
        }
        Ok((place, None))
    }

    pub(super) fn ingress(&self) -> bool {
        self.ingress || self.parent.is_some_and(|p| p.major == 0xffff)
    }
}

/// Reads `1:` or `1:10`; both parts are hexadecimal.
pub(super) fn handle(word: &Word) -> Result<Handle, Problem> {
    let wrong = || {
        let what = format!("{} is not a handle", quoted(&word.text));
        Problem::error(word.at.clone(), what).help("write one such as `1:` or `1:10`")
    };
    let (major, minor) = word.text.split_once(':').unwrap_or((&word.text, ""));
    let part = |digits: &str| match digits.strip_prefix("0x").unwrap_or(digits) {
        "" => Ok(0),
        digits if digits.len() > 4 || digits.starts_with('+') => Err(wrong()),
        digits => u16::from_str_radix(digits, 16).map_err(|_| wrong()),
    };
    Ok(Handle { major: part(major)?, minor: part(minor)? })
}

/// The error for a word that is no parameter of `kind`.
pub(super) fn stray(word: &Word, kind: &str, known: &[&str]) -> Problem {
    if PLACE.contains(&word.text.as_str()) {
        return Problem::error(word.at.clone(), format!("`{}` belongs before the kind", word.text));
    }
    if known.is_empty() {
        let what = format!("{} is not a parameter of {kind}", quoted(&word.text));
        return Problem::error(word.at.clone(), what).help(format!("`{kind}` has no parameters"));
    }
    unknown(word, &format!("a parameter of {kind}"), known)
}
