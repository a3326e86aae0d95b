//! A key of the file: its name, what it holds, what happens without it.

use falaj_sched::contract::params::{Kind, Param};

/// One key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// As written in the file.
    pub name: &'static str,
    /// What it holds.
    pub holds: Holds,
    /// What happens without it.
    pub fallback: Fallback,
    /// What it means, in one line.
    pub doc: &'static str,
}

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// A quantity, number or word, as disciplines know them. A rate may be `unlimited`.
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
    /// What tells packets of a flow or a link apart; see [`crate::PARTS`].
    Mask,
    /// The name of a link.
    LinkName,
    /// A name that people choose.
    Name,
    /// Where the packets of a rule go: a link, several, `drop`, `pass`, or a table with one of
    /// [`TO`](super::TO).
    Target,
    /// What packets are like: a rule that says one value of each.
    Headers,
    /// A table whose keys are addresses, prefixes or numbers, and whose values are texts.
    Entries,
    /// A table whose keys a plug-in knows, and whose values are texts or whole numbers.
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
    /// A number with a point.
    Decimal,
    /// A list of lists of numbers.
    Rows,
    /// The name of a file, beside the scenario's.
    File(&'static str),
    /// A table with these keys, or a list of such tables.
    Tables(&'static [Key]),
    /// A table of tables, by names that people choose. Their keys are these,
    /// and for flows also what the discipline accepts.
    Named(&'static [Key]),
    /// The same with the keys of [`PART`](super::PART), which has such tables in its turn.
    Parts,
}

/// What happens without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// It has to be given.
    Required,
    /// It is as if this were written.
    Value(&'static str),
    /// In words.
    Otherwise(&'static str),
}

/// One table of the file, and where it stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// What its keys are known by: `flow` of `flow.queue`; empty for the top of the file.
    pub word: &'static str,
    /// As its beginning is written.
    pub header: &'static str,
    /// What it is for, in one line.
    pub doc: &'static str,
    /// Its keys, without those of the disciplines.
    pub keys: &'static [Key],
}

impl From<&Param> for Key {
    /// A default that cannot be read as the parameter's kind is one in words.
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

/// A key, in the order in which tables say it.
pub(crate) const fn key(
    name: &'static str,
    holds: Holds,
    fallback: Fallback,
    doc: &'static str,
) -> Key {
    Key { name, holds, fallback, doc }
}

/// How many there are in these lists.
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
