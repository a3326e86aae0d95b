//! Operands of terms: addresses, ports, ranges, names.

use crate::suggest::{self, quoted};
use crate::units::Unreadable;
use falaj_engine::header::{Net, Protocol};
use falaj_engine::table::TableEntry;
use falaj_engine::term::{FLAGS, Term};
use std::net::IpAddr;
use std::ops::Range;

pub(super) fn wrong(
    at: Range<usize>,
    what: impl Into<String>,
    help: impl Into<String>,
) -> Unreadable {
    Unreadable { at: Some(at), ..Unreadable::new(what, help) }
}

pub(super) fn protocol((word, at): (&str, Range<usize>)) -> Result<Protocol, Unreadable> {
    number(word).map(Protocol).ok_or_else(|| {
        let known = matches!(word, "udp" | "tcp" | "icmp" | "icmp6");
        let help = if known {
            format!("write `{word}` alone")
        } else {
            "write a number from 0 to 255".to_owned()
        };
        wrong(at, format!("{} is not the number of a protocol", quoted(word)), help)
    })
}

fn ports((word, at): (&str, Range<usize>)) -> Result<(u16, u16), Unreadable> {
    let (from, to) = word.split_once('-').unwrap_or((word, word));
    match (number::<u16>(from), number::<u16>(to)) {
        (Some(from), Some(to)) if from <= to => Ok((from, to)),
        (Some(from), Some(to)) => Err(wrong(
            at,
            format!("{} is an empty range", quoted(word)),
            format!("write `{to}-{from}`"),
        )),
        _ => Err(wrong(
            at,
            format!("{} is not a port", quoted(word)),
            "write a number from 0 to 65535, or a range such as `5000-5010`",
        )),
    }
}

/// Reads a list of ports and ranges of ports.
pub(super) fn each(
    (word, at): (&str, Range<usize>),
    term: fn((u16, u16)) -> Term,
) -> Result<Vec<Term>, Unreadable> {
    let mut start = at.start;
    let of = |part: &str| {
        let part_at = start..start + part.len();
        start = part_at.end + 1;
        ports((part, part_at)).map(term)
    };
    word.split(',').map(of).collect()
}

/// Reads a number, or a range of numbers if a range is allowed.
pub(super) fn bounds(
    (word, at): (&str, Range<usize>),
    what: &str,
    least: u32,
    most: u32,
    range: bool,
) -> Result<(u32, u32), Unreadable> {
    let one = |text: &str| match text.strip_prefix("0x") {
        Some(hex) if !hex.starts_with('+') => u32::from_str_radix(hex, 16).ok(),
        _ => number(text),
    };
    let (from, to) = word.split_once('-').filter(|_| range).unwrap_or((word, word));
    let fits = |n: Option<u32>| n.filter(|n| (least..=most).contains(n));
    match (fits(one(from)), fits(one(to))) {
        (Some(from), Some(to)) if from <= to => Ok((from, to)),
        (Some(_), Some(_)) => Err(wrong(
            at,
            format!("{} is an empty range", quoted(word)),
            format!("write `{to}-{from}`"),
        )),
        _ => {
            let more = if range { ", or a range of them" } else { "" };
            Err(wrong(
                at,
                format!("{} is not {what}", quoted(word)),
                format!("write a number from {least} to {most}{more}"),
            ))
        }
    }
}

/// Reads a mark, perhaps with a mask.
pub(super) fn mark(operand: (&str, Range<usize>)) -> Result<Term, Unreadable> {
    let (value, mask) = masked(operand, "a mark", u32::MAX)?;
    Ok(Term::Mark { value, mask })
}

/// Reads a type of service, or a part of it with a mask.
pub(super) fn tos(operand: (&str, Range<usize>)) -> Result<Term, Unreadable> {
    let (value, mask) = masked(operand, "a type of service", u8::MAX.into())?;
    Ok(Term::Tos { value: value as u8, mask: mask as u8 })
}

/// Reads `VALUE` or `VALUE/MASK`; returns the value and the mask. Both are at most `most`, the
/// number with all bits of the field set, which is also the default mask.
fn masked(
    (word, at): (&str, Range<usize>),
    what: &str,
    most: u32,
) -> Result<(u32, u32), Unreadable> {
    let one = |text, at| Ok(bounds((text, at), what, 0, most, false)?.0);
    let Some((value, mask)) = word.split_once('/') else {
        return Ok((one(word, at)?, most));
    };
    let after = at.start + value.len();
    let (value, mask) = (one(value, at.start..after)?, one(mask, after + 1..at.end)?);
    if value & !mask != 0 {
        let help = format!("no packet has {what} like this: write `{:#x}/{mask:#x}`", value & mask);
        return Err(wrong(at, format!("{} has bits that its mask leaves out", quoted(word)), help));
    }
    Ok((value, mask))
}

/// Reads a DSCP, given by number or by name.
pub(super) fn dscp((word, at): (&str, Range<usize>)) -> Result<u8, Unreadable> {
    let digits = |n: usize| word.as_bytes().get(n).map_or(0, |b| b.wrapping_sub(b'0'));
    let named = match (word, word.len()) {
        ("ef", _) => Some(46),
        (cs, 3) if cs.starts_with("cs") && digits(2) < 8 => Some(8 * digits(2)),
        (af, 4)
            if af.starts_with("af")
                && (1..=4).contains(&digits(2))
                && (1..=3).contains(&digits(3)) =>
        {
            Some(8 * digits(2) + 2 * digits(3))
        }
        _ => number(word).filter(|n| *n < 64),
    };
    named.ok_or_else(|| {
        let help = "write a number from 0 to 63, or `ef`, `cs0` to `cs7`, `af11` to `af43`";
        wrong(at, format!("{} is not a DSCP", quoted(word)), help)
    })
}

pub(super) fn mac((word, at): (&str, Range<usize>)) -> Result<[u8; 6], Unreadable> {
    let mut out = [0; 6];
    let mut parts = word.split(':');
    for byte in &mut out {
        let part = parts.next().filter(|p| p.len() == 2 && !p.starts_with('+'));
        let read = part.and_then(|p| u8::from_str_radix(p, 16).ok());
        *byte = read.ok_or_else(|| not_a_mac(word, &at))?;
    }
    if parts.next().is_some() { Err(not_a_mac(word, &at)) } else { Ok(out) }
}

fn not_a_mac(word: &str, at: &Range<usize>) -> Unreadable {
    let what = format!("{} is not an address of an interface", quoted(word));
    wrong(at.clone(), what, "write six bytes, as in `02:00:00:00:00:01`")
}

/// Reads TCP flags that must be set, or, after `!`, must not be set.
pub(super) fn flags((word, at): (&str, Range<usize>)) -> Result<Term, Unreadable> {
    let (mut set, mut clear) = (0u8, 0u8);
    let mut start = at.start;
    for part in word.split(',') {
        let part_at = start..start + part.len();
        start = part_at.end + 1;
        let (name, bits) = match part.strip_prefix('!') {
            Some(name) => (name, &mut clear),
            None => (part, &mut set),
        };
        let Some(n) = FLAGS.iter().position(|flag| *flag == name) else {
            let near = suggest::nearest(name, FLAGS).map(str::to_owned);
            let what = format!("{} is not a flag of TCP", quoted(name));
            let help = format!("flags: {}; `!` before one that is not set", FLAGS.join(", "));
            return Err(Unreadable { near, ..wrong(part_at, what, help) });
        };
        *bits |= 1 << n;
    }
    if set & clear != 0 {
        return Err(wrong(at, "a flag cannot be set and not set", "leave out one of them"));
    }
    Ok(Term::Flags { set, clear })
}

/// Reads the key of a lookup table's entry: an address, a prefix, a number or a range of numbers.
pub(crate) fn net_or_numbers(text: &str) -> Result<TableEntry, Unreadable> {
    let whole = (text, 0..text.len());
    if text.contains(['.', ':', '/']) {
        return net(whole).map(TableEntry::Net);
    }
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    match (number(from), number(to)) {
        (Some(from), Some(to)) if from <= to => Ok(TableEntry::Numbers(from, to)),
        _ => Err(Unreadable::new(
            format!("{} is not an entry of a table", quoted(text)),
            "write an address or a prefix such as `10.1.0.0/16`, a number from 0 to 65535, or a range such as `8000-8080`",
        )),
    }
}

pub(super) fn net((word, at): (&str, Range<usize>)) -> Result<Net, Unreadable> {
    let (addr, len) = match word.split_once('/') {
        Some((addr, len)) => (addr, Some(len)),
        None => (word, None),
    };
    let Ok(addr) = addr.parse::<IpAddr>() else {
        return Err(wrong(
            at,
            format!("{} is not an address", quoted(word)),
            "write one such as `10.1.2.3`, `10.0.0.0/8` or `2001:db8::/32`",
        ));
    };
    let most = Net::new(addr, 0).bits();
    let len = match len {
        None => most,
        Some(len) => match number::<u8>(len).filter(|n| *n <= most) {
            Some(len) => len,
            None => {
                return Err(wrong(
                    at,
                    format!("{} has no prefix length that IP knows", quoted(word)),
                    format!("write 0 to {most} after the slash"),
                ));
            }
        },
    };
    let first = Net::new(addr, len).addr;
    if first != addr {
        return Err(wrong(
            at,
            format!("{} has bits set after its first {len}", quoted(word)),
            format!("write `{first}/{len}` for the network, or `{addr}` for the one address"),
        ));
    }
    Ok(Net { addr, len })
}

/// Reads a number that has only digits; `FromStr` would accept a plus sign, too.
fn number<N: std::str::FromStr>(word: &str) -> Option<N> {
    if word.bytes().all(|b| b.is_ascii_digit()) { word.parse().ok() } else { None }
}
