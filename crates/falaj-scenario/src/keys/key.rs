//! The description of a key of the file: its name, the type of its value, and its default.

use falaj_sched::contract::params::{Kind, Param};

/// A key of a scenario file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The key's name as written in the file.
    pub name: &'static str,
    /// Type of its value.
    pub holds: Holds,
    /// The default, or another behavior if the key is missing.
    pub fallback: Fallback,
    /// The key's meaning, in one line.
    pub doc: &'static str,
}

/// Type of a key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// A value of one of the types that disciplines use. A rate may be `unlimited`.
    Value(Kind),
    /// A rate, but not `unlimited`.
    FiniteRate,
    /// A length of time above zero.
    PositiveSpan,
    /// A number of bytes in this range, both ends included.
    BytesIn {
        /// The smallest number allowed.
        min: u64,
        /// The largest number allowed.
        max: u64,
    },
    /// A rule for packets or a list of them; see [`crate::parse_match`].
    Rules,
    /// Fields of a packet by which a mask separates packets; see [`crate::PARTS`].
    Mask,
    /// The name of a link.
    LinkName,
    /// A name chosen by the user.
    Name,
    /// The target of a rule: a link, a list of links, `drop`, `pass`, or a table with keys of
    /// [`TO`](super::TO).
    Target,
    /// The headers of generated packets, written as a rule with one value for each field.
    Headers,
    /// A table whose keys are addresses, prefixes or numbers, and whose values are texts.
    Entries,
    /// A table whose keys a plug-in defines, and whose values are texts or whole numbers.
    Given,
    /// A table of keys of the scenario, as `falaj set` accepts them, and their values.
    Settings,
    /// The name of a link, or a list of such names.
    LinkNames,
    /// The name of a flow.
    FlowName,
    /// A discipline: `kind` (see [`SCHEDULER`](super::SCHEDULER)), and the discipline's own
    /// parameters.
    Scheduler,
    /// A table with these keys.
    Table(&'static [Key]),
    /// A table with these keys, or just the value of the first key.
    Brief(&'static [Key]),
    /// A number of bytes, which may be negative; see [`crate::parse_overhead`].
    Overhead,
    /// Numbers of packets; see [`crate::parse_numbers`].
    Numbers,
    /// Sizes of packets; see [`crate::parse_sizes`].
    Sizes,
    /// A decimal number.
    Decimal,
    /// A list of lists of numbers.
    Rows,
    /// The name of a file, relative to the scenario's directory.
    File(&'static str),
    /// A table with these keys, or a list of such tables.
    Tables(&'static [Key]),
    /// A table of tables, whose names the user chooses. Each has these keys; flows also have the
    /// keys of the discipline.
    Named(&'static [Key]),
    /// A table of tables as in `Named`, with the keys of [`PART`](super::PART); each of them may
    /// contain such a table again.
    Parts,
}

/// Behavior if a key is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// The key is required.
    Required,
    /// The default value, as written.
    Value(&'static str),
    /// The default behavior in words.
    Otherwise(&'static str),
}

/// The description of a table of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// The table's name in keys, such as `flow` in `flow.queue`; empty for the top of the file.
    pub word: &'static str,
    /// The table's header as written.
    pub header: &'static str,
    /// The table's purpose, in one line.
    pub doc: &'static str,
    /// The table's keys, without the keys of disciplines.
    pub keys: &'static [Key],
}

impl From<&Param> for Key {
    /// Converts a discipline's parameter. A default that is not a value of the parameter's kind
    /// becomes [`Fallback::Otherwise`].
    fn from(param: &Param) -> Key {
        let fallback = match param.default {
            None => Fallback::Required,
            Some(text) if crate::units::parse_value(param.kind, text).is_ok() => {
                Fallback::Value(text)
            }
            Some(words) => Fallback::Otherwise(words),
        };
        Key { name: param.name, holds: Holds::Value(param.kind), fallback, doc: param.doc }
    }
}

/// Builds a key.
pub(crate) const fn key(
    name: &'static str,
    holds: Holds,
    fallback: Fallback,
    doc: &'static str,
) -> Key {
    Key { name, holds, fallback, doc }
}

/// Total length of these lists.
pub(crate) const fn count<T>(lists: &[&[T]]) -> usize {
    let (mut n, mut count) = (0, 0);
    while n < lists.len() {
        count += lists[n].len();
        n += 1;
    }
    count
}

/// Joins these lists; the first must not be empty.
pub(crate) const fn joined<T: Copy, const N: usize>(lists: &[&[T]]) -> [T; N] {
    let mut out = [lists[0][0]; N];
    let (mut list, mut at) = (0, 0);
    while list < lists.len() {
        let mut n = 0;
        while n < lists[list].len() {
            out[at] = lists[list][n];
            at += 1;
            n += 1;
        }
        list += 1;
    }
    out
}
