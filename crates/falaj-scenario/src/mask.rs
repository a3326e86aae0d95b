//! Masks, which divide one flow or link into many: `mask = "src/24 dport"`.

use crate::model::Towards;
use crate::suggest::{self, quoted};
use crate::units::Unreadable;
use falaj_engine::masks::Mask;
use falaj_engine::masks::mask::{AddressBits, first_bits};
use std::ops::Range;

/// The parts of a mask, for messages and the reference.
pub const PARTS: &[(&str, &str)] = &[
    (
        "src",
        "source address; `src/24` its first 24 bits for IPv4, `src6/64` its first 64 bits for \
         IPv6, `src/0x000000ff` the bits of this mask, here the last 8; without a length or a mask \
         the whole address",
    ),
    ("dst", "destination address, in the same forms"),
    (
        "near",
        "address at the near end, the source of packets going up and the destination of those \
         going down, in the same forms",
    ),
    ("far", "address at the far end, in the same forms"),
    (
        "sport",
        "source port of TCP and UDP; `sport/8` its first 8 bits, `sport/0x000f` the bits of this \
         mask",
    ),
    ("dport", "destination port, in the same forms"),
    ("proto", "protocol number of the IP packet"),
    ("dscp", "differentiated services code point"),
    ("tos", "TOS byte, DSCP and ECN together"),
    ("ttl", "time to live, or hop limit of IPv6"),
    ("length", "length of the IP packet in bytes, from its header"),
    ("flags", "TCP flags"),
    ("ether", "EtherType, after VLAN tags"),
    ("vlan", "ID of the outer VLAN"),
    ("mac-src", "source MAC address"),
    ("mac-dst", "destination MAC address"),
    ("flow-label", "IPv6 flow label"),
    ("mark", "mark that a rule gave the packet: `mark = 7` in a `[[rule]]`"),
];

/// A mask as written. `near` and `far` become `src` and `dst` when the direction is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MaskText {
    mask: Mask,
    near: Option<AddressBits>,
    far: Option<AddressBits>,
}

impl MaskText {
    /// The mask for packets of one direction.
    pub(crate) fn towards(&self, towards: Towards) -> Mask {
        let (src, dst) = match towards {
            Towards::Up => (self.near, self.far),
            Towards::Down => (self.far, self.near),
        };
        Mask { src: src.or(self.mask.src), dst: dst.or(self.mask.dst), ..self.mask }
    }
}

/// Reads a mask: parts with spaces between them.
pub(crate) fn parse_mask(text: &str) -> Result<MaskText, Unreadable> {
    let mut out = MaskText::default();
    // Names of the parts read so far, each with true for the IPv6 form of an address.
    let mut seen: Vec<(&str, bool)> = Vec::new();
    let mut words = text.split_whitespace().map(|word| {
        let start = word.as_ptr() as usize - text.as_ptr() as usize;
        (word, start..start + word.len())
    });
    for (word, at) in &mut words {
        let (name, length) =
            word.split_once('/').map_or((word, None), |(name, length)| (name, Some(length)));
        let six = matches!(name, "src6" | "dst6" | "near6" | "far6");
        let name = if six { &name[..name.len() - 1] } else { name };
        if seen.contains(&(name, six)) || (length.is_none() && seen.iter().any(|s| s.0 == name)) {
            return Err(wrong(
                at,
                format!("{} is given twice", quoted(name)),
                "name each part once",
            ));
        }
        let address = match name {
            "src" => Some(&mut out.mask.src),
            "dst" => Some(&mut out.mask.dst),
            "near" => Some(&mut out.near),
            "far" => Some(&mut out.far),
            _ => None,
        };
        if let Some(address) = address {
            let counted = address.get_or_insert(AddressBits::WHOLE);
            match length {
                Some(length) if six => counted.v6 = bits(length, 128, &at)?,
                Some(length) => counted.v4 = bits(length, 32, &at)? as u32,
                None if six => {
                    let help = format!(
                        "write `{name}6/64` for the first 64 bits, or `{name}` for whole addresses"
                    );
                    return Err(wrong(at, format!("`{name}6` needs a length"), help));
                }
                None => {}
            }
            seen.push((name, six));
            continue;
        }
        let port = match name {
            "sport" => Some(&mut out.mask.sport),
            "dport" => Some(&mut out.mask.dport),
            _ => None,
        };
        if let Some(port) = port {
            *port = Some(length.map_or(Ok(u16::MAX), |length| Ok(bits(length, 16, &at)? as u16))?);
            seen.push((name, six));
            continue;
        }
        let place = match name {
            "proto" => &mut out.mask.proto,
            "dscp" => &mut out.mask.dscp,
            "tos" => &mut out.mask.tos,
            "ttl" => &mut out.mask.ttl,
            "length" => &mut out.mask.length,
            "flags" => &mut out.mask.flags,
            "ether" => &mut out.mask.ether,
            "mark" => &mut out.mask.mark,
            "vlan" => &mut out.mask.vlan,
            "mac-src" => &mut out.mask.mac_src,
            "mac-dst" => &mut out.mask.mac_dst,
            "flow-label" => &mut out.mask.flow_label,
            _ => return Err(unknown(name, at)),
        };
        if length.is_some() {
            let help = format!("only addresses and ports have lengths: write `{name}`");
            return Err(wrong(at, format!("{} has a length", quoted(word)), help));
        }
        *place = true;
        seen.push((name, six));
    }
    if seen.is_empty() {
        return Err(Unreadable::new(
            "an empty mask",
            "name the fields that distinguish packets, as in `src` or `src/24 dport`",
        ));
    }
    if (out.near.is_some() || out.far.is_some())
        && (out.mask.src.is_some() || out.mask.dst.is_some())
    {
        return Err(Unreadable::new(
            "`near` and `far` are `src` and `dst` already, by the direction of a packet",
            "write `near` and `far`, or `src` and `dst`",
        ));
    }
    if out.mask.tos && out.mask.dscp {
        return Err(Unreadable::new(
            "`dscp` is part of `tos`",
            "write `tos` for the whole byte, or `dscp` without ECN",
        ));
    }
    let size = out.towards(Towards::Up).size();
    if size > Mask::MOST {
        let help =
            format!("at most {} bytes: both addresses of IPv6, ports and protocol", Mask::MOST);
        return Err(Unreadable::new(format!("these parts have {size} bytes together"), help));
    }
    Ok(out)
}

fn wrong(at: Range<usize>, what: impl Into<String>, help: impl Into<String>) -> Unreadable {
    Unreadable { at: Some(at), ..Unreadable::new(what, help) }
}

/// Reads which bits count in a field of `of` bits: either a number of leading bits, or a bit mask.
fn bits(word: &str, of: u32, at: &Range<usize>) -> Result<u128, Unreadable> {
    let digits = |text: &str, base| !text.is_empty() && text.chars().all(|c| c.is_digit(base));
    let read = match word.strip_prefix("0x") {
        Some(hex) => {
            let mask = u128::from_str_radix(hex, 16).ok();
            mask.filter(|mask| digits(hex, 16) && *mask != 0 && *mask <= first_bits(of, of))
        }
        None => {
            let count = word.parse().ok().filter(|n| digits(word, 10) && (1..=of).contains(n));
            count.map(|count| first_bits(count, of))
        }
    };
    read.ok_or_else(|| {
        wrong(
            at.clone(),
            format!("{} is not a length", quoted(word)),
            format!(
                "write 1 to {of} after the slash, or a mask of {of} bits, as in `0x{:0digits$x}`",
                first_bits(of, of) >> (of - of / 4),
                digits = of as usize / 4
            ),
        )
    })
}

fn unknown(name: &str, at: Range<usize>) -> Unreadable {
    let what = format!("{} is not a part of a mask", quoted(name));
    let help = match name {
        "udp" | "tcp" | "icmp" | "any" => "the `match` of a flow selects its packets".to_owned(),
        _ => format!("parts: {}", suggest::list(PARTS.iter().map(|part| part.0))),
    };
    let near = suggest::nearest(name, PARTS.iter().map(|part| part.0)).map(str::to_owned);
    Unreadable { near, ..wrong(at, what, help) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use falaj_engine::masks::MaskConfig;

    #[test]
    fn masks_are_read_as_they_are_written() {
        for text in [
            "src",
            "src/24 dport",
            "src/24 src6/64 dst",
            "proto dscp vlan flow-label mac-src mac-dst",
            "tos ttl length flags ether mark",
            "sport",
            "sport/8 dport",
            "src/0x000000ff dst/8 dst6/0x0000000000000000ffffffffffffffff sport/0x00ff",
        ] {
            let written = parse_mask(text).unwrap();
            assert_eq!(written.towards(Towards::Down).to_string(), text);
        }
        let near = parse_mask("near6/56 dport").unwrap();
        assert_eq!(near.towards(Towards::Up).to_string(), "src src6/56 dport");
        assert_eq!(near.towards(Towards::Down).to_string(), "dst dst6/56 dport");
        let default = |name: &str| {
            let key = crate::keys::FLOW.iter().find(|key| key.name == name).unwrap();
            let crate::keys::Fallback::Value(text) = key.fallback else { panic!("{name}") };
            text
        };
        assert_eq!(crate::parse_span(default("expire")), Ok(MaskConfig::EXPIRE));
        assert_eq!(default("max-flows"), MaskConfig::MOST.to_string());
    }

    #[test]
    fn what_is_no_mask_says_what_is_wrong() {
        for (text, words) in [
            ("", "an empty mask"),
            ("src src", "given twice"),
            ("src/24 src", "given twice"),
            ("src/33", "1 to 32"),
            ("src/+2", "1 to 32"),
            ("src/0x", "1 to 32"),
            ("src/0x0", "a mask of 32 bits, as in `0x000000ff`"),
            ("src/0x1ffffffff", "1 to 32"),
            ("src/0x+f", "1 to 32"),
            ("src6", "`src6` needs a length"),
            ("near src", "`near` and `far` are"),
            ("proto/8", "only addresses and ports have lengths"),
            ("dport/17", "1 to 16"),
            ("sorce", "is not a part of a mask"),
            ("tos dscp", "`dscp` is part of `tos`"),
            ("udp", "the `match` of a flow selects its packets"),
            ("src dst mac-src", "38 bytes"),
        ] {
            let error = parse_mask(text).unwrap_err();
            assert!(format!("{} {}", error.what, error.help).contains(words), "{text}: {error:?}");
        }
        assert_eq!(parse_mask("src dprot").unwrap_err().near.as_deref(), Some("dport"));
    }
}
