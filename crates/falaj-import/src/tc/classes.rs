//! Classes of `htb` and `hfsc`; the parameters of `cbs`.

use super::aqm::Keys;
use super::attachment::stray;
use super::stab;
use crate::amounts::{rate, size, tc_rate, tc_size, tc_time, time, whole};
use crate::args::{Args, no_equal};
use crate::draft::quote;
use crate::lines::Word;
use falaj_scenario::Problem;

/// Reads the class of `default MINOR`, in hexadecimal.
fn default_class(word: &Word) -> Result<u16, Problem> {
    let digits = word.text.trim_start_matches("0x");
    let hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| hex).ok_or_else(|| {
        Problem::error(word.at.clone(), format!("`{}` is not the number of a class", word.text))
            .help("write the minor part of the class, for example 20 for `1:20`")
    })
}

/// Reads `htb default 20 r2q 10`: the default class, and the divisor that gives quanta from rates.
pub(super) fn htb_qdisc(args: &mut Args<'_>) -> Result<(Option<u16>, Option<u64>), Problem> {
    let (mut rest, mut r2q) = (None, None);
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "default" => rest = Some(default_class(args.value("a class")?)?),
            "r2q" => {
                let value = args.value("a number")?;
                r2q = Some(whole(value)?);
                if r2q == Some(0) {
                    return Err(Problem::error(
                        value.at.clone(),
                        "`r2q` must be above zero: rates are divided by it",
                    )
                    .help("leave it out for tc's default, 10"));
                }
            }
            "debug" => {
                whole(args.value("a number")?)?;
                args.left_out(word, "it changes no packet");
            }
            "direct_qlen" => {
                whole(args.value("a number")?)?;
                args.left_out(word, "packets without a class pass the link without waiting");
            }
            "offload" => {
                let why = "a link has no hardware: leave this out";
                return Err(no_equal(word.at.clone(), "offload", why));
            }
            _ => return Err(stray(word, "htb", &["default", "r2q", "debug", "direct_qlen"])),
        }
    }
    Ok((rest, r2q))
}

/// The parameters of a class of htb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Htb {
    pub(super) rate: u64,
    pub(super) ceil: u64,
    pub(super) burst: Option<u64>,
    pub(super) ceil_burst: Option<u64>,
    pub(super) prio: Option<u64>,
    pub(super) quantum: Option<u64>,
    /// Bytes added to each packet of the class, and whether its packets take cells of ATM.
    pub(super) overhead: Option<String>,
    pub(super) atm: bool,
}

impl Htb {
    /// The class's quantum in bytes; and true if it is in proportion to the class's rate.
    pub(super) fn quantum(&self, r2q: u64) -> (u64, bool) {
        let of_rate = self.rate / 8 / r2q;
        let kept = of_rate.clamp(1000, 200_000);
        (self.quantum.unwrap_or(kept), self.quantum.is_none() && kept == of_rate)
    }

    /// The burst of a class that borrows from no other.
    pub(super) fn least_burst(&self) -> Option<u64> {
        let both = self.ceil_burst.filter(|_| self.ceil == self.rate);
        self.burst.into_iter().chain(both).min()
    }

    /// The keys of the class's flow.
    pub(super) fn keys(&self) -> Keys {
        let mut keys = vec![("rate", quote(&rate(self.rate))), ("ceil", quote(&rate(self.ceil)))];
        keys.extend(self.burst.map(|b| ("burst", quote(&size(b)))));
        keys.extend(self.ceil_burst.map(|b| ("ceil-burst", quote(&size(b)))));
        keys.extend(self.prio.map(|p| ("prio", p.to_string())));
        keys
    }
}

pub(super) fn htb(args: &mut Args<'_>) -> Result<Htb, Problem> {
    const WORDS: &[&str] = &[
        "rate",
        "ceil",
        "burst",
        "buffer",
        "maxburst",
        "cburst",
        "cbuffer",
        "cmaxburst",
        "prio",
        "quantum",
        "mtu",
        "mpu",
        "overhead",
        "linklayer",
    ];
    let (mut own, mut ceil, mut burst, mut ceil_burst, mut prio) = (None, None, None, None, None);
    let (mut quantum, mut overhead, mut atm) = (None, None, false);
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "rate" => own = Some(tc_rate(args.value("a rate")?)?),
            "ceil" => ceil = Some(tc_rate(args.value("a rate")?)?),
            "burst" | "buffer" | "maxburst" => burst = Some(bucket(args)?),
            "cburst" | "cbuffer" | "cmaxburst" => ceil_burst = Some(bucket(args)?),
            "prio" => prio = Some(whole(args.value("a number")?)?),
            "quantum" => {
                let value = args.value("a size")?;
                quantum = Some(tc_size(value)?).filter(|bytes| *bytes > 0);
                if quantum.is_none() {
                    args.left_out(value, "the class has the usual quantum, as in tc");
                }
            }
            "mtu" => {
                tc_size(args.value("a size")?)?;
                args.left_out(word, "the cost of each packet is computed, not read from a table");
            }
            "overhead" => overhead = stab::bytes(args.value("a number of bytes")?)?,
            "linklayer" => atm = stab::cells(args)?,
            "mpu" => stab::mpu(word, args)?,
            _ => return Err(stray(word, "htb", WORDS)),
        }
    }
    let own = own.ok_or_else(|| {
        Problem::error(args.all(), "a class of htb needs a `rate`")
            .help("as in `htb rate 1mbit ceil 2mbit`")
    })?;
    let ceil = ceil.unwrap_or(own);
    if ceil < own {
        return Err(Problem::error(args.all(), "a `ceil` below the `rate`")
            .help("write a `ceil` of at least the `rate`, or leave it out"));
    }
    Ok(Htb { rate: own, ceil, burst, ceil_burst, prio, quantum, overhead, atm })
}

/// Reads `burst`, or `burst/cell`.
pub(super) fn bucket(args: &mut Args<'_>) -> Result<u64, Problem> {
    let word = args.value("a size")?;
    let (text, cell) = word.text.split_once('/').unwrap_or((&word.text, ""));
    if !cell.is_empty() {
        args.left_out(word, "the cost of each packet is computed, not read from a table of cells");
    }
    tc_size(&Word { text: text.to_owned(), at: word.at.clone() })
}

/// A curve of two pieces: rate `m1` for a time `d`, then rate `m2`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Curve {
    pub(super) first: u64,
    pub(super) span: u64,
    pub(super) then: u64,
}

impl Curve {
    /// The curve's keys, with these names. A slope of zero becomes the lowest rate, 1 bit/s.
    fn keys(self, names: [&'static str; 3]) -> Keys {
        let [slope, first, span] = names;
        let mut keys = Vec::new();
        if self.span > 0 && self.first != self.then {
            keys.extend([
                (first, quote(&rate(self.first.max(1)))),
                (span, quote(&time(self.span))),
            ]);
        }
        keys.insert(0, (slope, quote(&rate(self.then.max(1)))));
        keys
    }
}

/// The parameters of a class of hfsc.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hfsc {
    pub(super) real_time: Option<Curve>,
    pub(super) share: Option<Curve>,
    pub(super) limit: Option<Curve>,
}

impl Hfsc {
    /// The keys of the class's flow.
    pub(super) fn keys(&self) -> Keys {
        let curves = [
            (self.real_time, ["rate", "burst-rate", "burst-time"]),
            (self.share, ["share", "share-burst", "share-time"]),
            (self.limit, ["limit", "limit-burst", "limit-time"]),
        ];
        curves.into_iter().filter_map(|(curve, names)| Some(curve?.keys(names))).flatten().collect()
    }
}

/// Reads `hfsc default 30`: the default class.
pub(super) fn hfsc_qdisc(args: &mut Args<'_>) -> Result<Option<u16>, Problem> {
    let mut rest = None;
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "default" => rest = Some(default_class(args.value("a class")?)?),
            _ => return Err(stray(word, "hfsc", &["default"])),
        }
    }
    Ok(rest)
}

pub(super) fn hfsc(args: &mut Args<'_>) -> Result<Hfsc, Problem> {
    let mut made = Hfsc::default();
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "rt" => made.real_time = Some(curve(args)?),
            "ls" => made.share = Some(curve(args)?),
            "sc" => {
                let both = Some(curve(args)?);
                (made.real_time, made.share) = (both, both);
            }
            "ul" => made.limit = Some(curve(args)?),
            _ => return Err(stray(word, "hfsc", &["rt", "ls", "sc", "ul"])),
        }
    }
    match made {
        Hfsc { real_time: None, share: None, .. } => {
            Err(Problem::error(args.all(), "a class of hfsc needs a curve")
                .help("one of `rt`, `ls` and `sc`"))
        }
        Hfsc { share: None, limit: Some(_), .. } => {
            Err(Problem::error(args.all(), "`ul` without `ls` limits nothing")
                .help("`ul` limits service by `ls`: add `ls`, or write `sc` in place of `rt`"))
        }
        made => Ok(made),
    }
}

/// Reads `[m1 R d T] m2 R`, or `[[umax B] dmax T] rate R`: B bytes within the time T, and then the
/// rate.
fn curve(args: &mut Args<'_>) -> Result<Curve, Problem> {
    let from = args.before().map_or(0..0, |w| w.at.clone());
    let (mut first, mut span, mut work, mut within, mut then) = (None, None, None, None, None);
    while let Some(word) = args.peek() {
        let into = match word.text.as_str() {
            "m1" => &mut first,
            "d" => &mut span,
            "umax" => &mut work,
            "dmax" => &mut within,
            "m2" | "rate" => &mut then,
            _ => break,
        };
        let name = word.text.clone();
        args.next();
        *into = Some(match name.as_str() {
            "d" | "dmax" => tc_time(args.value("a time")?)?,
            "umax" => tc_size(args.value("a size")?)?,
            _ => tc_rate(args.value("a rate")?)?,
        });
        if matches!(name.as_str(), "m2" | "rate") {
            break;
        }
    }
    let wrong = |what: &str| {
        Problem::error(from.clone(), what.to_owned())
            .help("as in `m1 2mbit d 10ms m2 1mbit`, or `umax 1500b dmax 20ms rate 1mbit`")
    };
    let then = then.ok_or_else(|| wrong("a curve needs `m2`, or `rate`"))?;
    match (first, span, work, within) {
        (None, None, None, None) => Ok(Curve { first: then, span: 0, then }),
        (first, Some(span), None, None) => Ok(Curve { first: first.unwrap_or(0), span, then }),
        (None, None, work, Some(within)) => {
            let bits = u128::from(work.unwrap_or(0)) * 8;
            let steep = (bits * 1_000_000_000).div_ceil(u128::from(within.max(1)));
            if within > 0 && steep > u128::from(then) {
                let first = u64::try_from(steep)
                    .map_err(|_| wrong("`umax` within `dmax` exceeds the largest rate"))?;
                return Ok(Curve { first, span: within, then });
            }
            // The rate is zero at first, until the time that is left up to T is just enough to send
            // B bytes at the second rate.
            let needed = (bits * 1_000_000_000).div_ceil(u128::from(then.max(1)));
            Ok(Curve {
                first: 0,
                span: within.saturating_sub(needed.min(u128::from(u64::MAX)) as u64),
                then,
            })
        }
        _ => Err(wrong("a curve has `m1` with `d`, or `umax` with `dmax`")),
    }
}

/// The rates that the slopes of `cbs` give, in bit/s: the idle slope of the class, and the rate of
/// the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cbs {
    pub(super) idle: u64,
    /// The sum of the absolute values of both slopes.
    pub(super) port: u64,
}

pub(super) fn cbs(args: &mut Args<'_>) -> Result<Cbs, Problem> {
    const WORDS: &[&str] = &["idleslope", "sendslope", "hicredit", "locredit", "offload"];
    let (mut idle, mut send) = (None, None);
    while let Some(word) = args.next() {
        match word.text.as_str() {
            name @ ("idleslope" | "sendslope" | "hicredit" | "locredit") => {
                let value = args.value("a number")?;
                let digits = value.text.trim_start_matches('-').to_owned();
                let number = whole(&Word { text: digits, at: value.at.clone() })?;
                match name {
                    "idleslope" => idle = Some(number),
                    "sendslope" => send = Some(number),
                    _ => args.left_out(
                        word,
                        "the credit is not clamped here; its largest values follow from the slopes \
                         and the packets",
                    ),
                }
            }
            "offload" if args.value("0 or 1")?.text == "0" => {}
            "offload" => {
                let why = "a link has no hardware: write `offload 0`";
                return Err(no_equal(word.at.clone(), "offload", why));
            }
            _ => return Err(stray(word, "cbs", WORDS)),
        }
    }
    match (idle, send) {
        (Some(idle), Some(send)) if idle > 0 => {
            match idle.checked_add(send).and_then(|port| port.checked_mul(1000)) {
                Some(port) => Ok(Cbs { idle: idle * 1000, port }),
                None => Err(Problem::error(args.all(), "the slopes exceed the largest rate")
                    .help("slopes are in kbit/s, and their difference is the rate of the port")),
            }
        }
        _ => Err(Problem::error(
            args.all(),
            "cbs needs an `idleslope` above zero and a `sendslope`, in kbit/s",
        )
        .help("as in `cbs idleslope 98688 sendslope -901312`, on a port of 1 Gbit/s")),
    }
}
