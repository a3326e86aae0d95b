//! A key of the file: its name, the type of its value, and its default.

use falaj_sched::contract::params::{Kind, Param};

/// One key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// As written in the file.
    pub name: &'static str,
    /// Type of its value.
    pub holds: Holds,
    /// Behavior without it.
    pub fallback: Fallback,
    /// Its meaning, in one line.
    pub doc: &'static str,
}

/// Type of a key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// A quantity, number or word of the types that disciplines use. A rate may be `unlimited`.
    Value(Kind),
    /// A rate, but not `unlimited`.
    FiniteRate,
    /// A length of time above zero.
    PositiveSpan,
    /// A number of bytes in this range, ends included.
    BytesIn {
        /// Smallest allowed.
        min: u64,
        /// Largest allowed.
        max: u64,
    },
    /// A rule for packets or a list of them; see [`crate::parse_match`].
    Rules,
    /// Parts that distinguish packets of a flow or a link; see [`crate::PARTS`].
    Mask,
    /// The name of a link.
    LinkName,
    /// A name chosen by the user.
    Name,
    /// The target of a rule: a link, several, `drop`, `pass`, or a table with one of
    /// [`TO`](super::TO).
    Target,
    /// The headers of packets: a rule with one value of each.
    Headers,
    /// A table whose keys are addresses, prefixes or numbers, and whose values are texts.
    Entries,
    /// A table whose keys are defined by a plug-in, and whose values are texts or whole numbers.
    Given,
    /// The name of a link, or a list of such names.
    LinkNames,
    /// The name of a flow.
    FlowName,
    /// A discipline: `kind` (see [`SCHEDULER`](super::SCHEDULER)), and what the discipline accepts.
    Scheduler,
    /// A table with these keys.
    Table(&'static [Key]),
    /// A table with these keys; or the value of the first of them alone.
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
    /// The name of a file, beside the scenario's.
    File(&'static str),
    /// A table with these keys, or a list of such tables.
    Tables(&'static [Key]),
    /// A table of tables, by names chosen by the user. Their keys are these, and for flows also
    /// those of the discipline.
    Named(&'static [Key]),
    /// The same with the keys of [`PART`](super::PART), which has such tables in its turn.
    Parts,
}

/// Behavior without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// It is required.
    Required,
    /// The default value, as written.
    Value(&'static str),
    /// The default behavior in words.
    Otherwise(&'static str),
}

/// One table of the file, and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// Its name in keys: `flow` of `flow.queue`; empty for the top of the file.
    pub word: &'static str,
    /// Its header as written.
    pub header: &'static str,
    /// Its purpose, in one line.
    pub doc: &'static str,
    /// Its keys, without those of the disciplines.
    pub keys: &'static [Key],
}

impl From<&Param> for Key {
    /// A default that cannot be read as the parameter's kind is described in words.
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

/// A key, with arguments in the order of the tables.
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

/// These lists one after the other; the first is not empty.
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
