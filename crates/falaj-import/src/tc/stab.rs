//! `stab`, and equal options of other disciplines: the overhead of packets.

use crate::amounts::{tc_size, whole};
use crate::args::{Args, unknown};
use crate::lines::Word;
use falaj_scenario::Problem;
use std::ops::Range;

/// The size table of a discipline: the overhead of each packet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Stab {
    /// Bytes added to each packet, in the syntax of a scenario.
    pub(super) overhead: Option<String>,
    /// True if packets take whole cells of ATM.
    pub(super) atm: bool,
    pub(super) at: Range<usize>,
}

/// Reads the options after `stab`, up to the kind.
pub(super) fn read(word: &Word, args: &mut Args<'_>) -> Result<Stab, Problem> {
    let mut stab = Stab { at: word.at.clone(), ..Stab::default() };
    while let Some(word) = args.peek() {
        match word.text.as_str() {
            "overhead" | "linklayer" | "mpu" | "mtu" | "tsize" => args.next(),
            _ => break,
        };
        match word.text.as_str() {
            "overhead" => stab.overhead = bytes(args.value("a number of bytes")?)?,
            "linklayer" => stab.atm = cells(args)?,
            "mpu" => mpu(word, args)?,
            _ => {
                whole(args.value("a number")?)?;
                args.left_out(word, "the cost of each packet is computed, not read from a table");
            }
        }
    }
    Ok(stab)
}

/// Reads a number of bytes to add or, if negative, to subtract; `None` for zero.
pub(super) fn bytes(word: &Word) -> Result<Option<String>, Problem> {
    let (sign, digits) =
        word.text.strip_prefix('-').map_or(("", word.text.as_str()), |digits| ("-", digits));
    let bytes = whole(&Word { text: digits.to_owned(), at: word.at.clone() })?;
    Ok((bytes != 0).then(|| format!("{sign}{bytes}B")))
}

/// Reads `linklayer atm`. Returns true if packets take cells.
pub(super) fn cells(args: &mut Args<'_>) -> Result<bool, Problem> {
    let layer = args.value("a link layer")?;
    match layer.text.as_str() {
        "atm" | "adsl" => Ok(true),
        "ethernet" => Ok(false),
        _ => Err(unknown(layer, "a link layer", &["ethernet", "atm", "adsl"])),
    }
}

/// Reads `mpu 64`: the smallest size that a packet counts as.
pub(super) fn mpu(word: &Word, args: &mut Args<'_>) -> Result<(), Problem> {
    let least = tc_size(args.value("a size")?)?;
    let why = match least {
        0 => "it is zero".to_owned(),
        _ => format!("packets count with their own size and overhead here, also below {least} B"),
    };
    args.left_out(word, &why);
    Ok(())
}
