//! `mask src-ip 0x000000ff`: only the last bits of addresses distinguish flows. If all packets that
//! the rules send are of a single network, whole addresses distinguish the same flows.

use super::rule::Rule;
use crate::args::no_equal;
use falaj_engine::header::Net;
use falaj_scenario::Problem;
use falaj_scenario::suggest::quoted;
use std::ops::Range;

/// A field of a mask that keeps the last bits only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Last {
    /// The field is the source address; else the destination.
    pub(super) src: bool,
    /// Number of bits that the mask keeps.
    pub(super) bits: u32,
    /// Number of bits of the whole field: 32 or 128.
    pub(super) of: u32,
    pub(super) at: Range<usize>,
}

impl Last {
    /// Returns a warning if whole addresses distinguish the same flows, because all these rules
    /// send packets of one network. Otherwise returns an error.
    pub(super) fn within<'a>(
        &self,
        rules: impl Iterator<Item = &'a Rule>,
    ) -> Result<Problem, Problem> {
        let side = |rule: &Rule| {
            let matches = falaj_scenario::parse_match(&rule.matches).unwrap_or_default();
            matches.into_iter().map(|m| if self.src { m.src } else { m.dst }).collect::<Vec<_>>()
        };
        let long = (self.of - self.bits) as u8;
        let fixed = |net: Option<Net>| {
            net.filter(|n| u32::from(n.bits()) == self.of && n.len >= long)
                .map(|n| Net::new(n.addr, long))
        };
        let mut nets = rules.flat_map(side).map(fixed);
        let first = nets.next().flatten();
        match first.filter(|first| nets.all(|net| net == Some(*first))) {
            Some(net) => {
                let what = format!(
                    "rules send {} alone here: whole addresses tell the same apart",
                    quoted(&net.to_string())
                );
                Ok(Problem::warning(self.at.clone(), what))
            }
            None => {
                let side = if self.src { "from" } else { "to" };
                let whole = if self.of == 32 { "0xffffffff" } else { "/128" };
                let why = format!(
                    "the last {} bits are whole addresses where all rules send one network, \
                     `{side} A.B.C.0/{long}`; `{whole}` is one for each address",
                    self.bits
                );
                Err(no_equal(self.at.clone(), "a mask of the last bits of addresses", &why))
            }
        }
    }
}
