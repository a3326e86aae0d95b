//! Parses quantities as users write them: a decimal number and a unit.
//!
//! All arithmetic is exact. A value that is not whole in the smallest unit (nanoseconds, bits per
//! second, bytes, packets), a number without a unit, and an ambiguous unit are refused with a cure.

use crate::suggest::{self, quoted};
use falaj_sched::contract::params::{Kind, Value};
use falaj_sched::queues::queue::Limit;
use falaj_sched::units::probability::Probability;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use falaj_traffic::source::size::Sizes;
use std::fmt;
use std::ops::{Range, RangeInclusive};

/// A text that could not be read: the problem and the cure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The problem.
    pub what: String,
    /// The cure.
    pub help: String,
    /// The word that was probably meant.
    pub near: Option<String>,
    /// The part of the text that is wrong, in bytes; `None` for the whole text.
    pub at: Option<Range<usize>>,
}

impl Unreadable {
    /// An error of the whole text, without a guess.
    pub(crate) fn new(what: impl Into<String>, help: impl Into<String>) -> Unreadable {
        Unreadable { what: what.into(), help: help.into(), near: None, at: None }
    }

    /// The values that the help proposes.
    pub fn proposals(&self) -> impl Iterator<Item = &str> {
        self.help.split('`').skip(1).step_by(2)
    }

    /// Returns the error unchanged if `parse` accepts all values that its help proposes in place of
    /// `text`. Otherwise returns it with the help `otherwise`.
    #[must_use]
    pub fn checked<T>(
        mut self,
        text: &str,
        parse: impl Fn(&str) -> Result<T, Unreadable>,
        otherwise: &str,
    ) -> Unreadable {
        let number = text.trim().trim_end_matches(|c: char| !c.is_ascii_digit());
        let refused = |near: &String| parse(&format!("{number}{near}")).is_err();
        let near_fails = self.near.as_ref().is_some_and(refused);
        if near_fails || self.proposals().any(|value| parse(value).is_err()) {
            self.near = None;
            otherwise.clone_into(&mut self.help);
        }
        self
    }
}

/// Parses `text` with `parse`. An error proposes only values that `parse` accepts.
fn with_cures<T>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, Unreadable>,
    otherwise: &str,
) -> Result<T, Unreadable> {
    parse(text).map_err(|error| error.checked(text, parse, otherwise))
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.near {
            Some(near) => write!(f, "{}; did you mean `{near}`? {}", self.what, self.help),
            None => write!(f, "{}; {}", self.what, self.help),
        }
    }
}
impl std::error::Error for Unreadable {}

/// The largest `burst` of a link or an envelope, and the largest `bytes` of a slot, in bytes.
pub const BURST_MAX: u64 = 1 << 40;
/// The smallest `mtu` in bytes: the size that every IPv4 link must carry.
pub const MTU_MIN: u32 = 68;
/// The largest `mtu` in bytes: the longest IPv4 packet.
pub const MTU_MAX: u32 = 65_535;

/// The highest rate that may be written, 1000 Tbit/s: far above the rate of any link, and far below
/// the rates at which the computation of transmission times would overflow.
pub const RATE_MAX: Rate = Rate(1_000_000_000_000_000);

/// Regular expressions for the inputs of the functions below, for a schema. They do not check
/// ranges, so they accept `0bit`, or too many digits.
pub(crate) mod pattern {
    macro_rules! quantity {
        ($units:expr) => {
            concat!(r"^\s*[0-9]+(\.[0-9]+)?\s*(", $units, r")\s*$")
        };
    }
    macro_rules! size {
        () => {
            "B|bytes?|[kMGT]B|[KMGT]iB"
        };
    }
    macro_rules! rate {
        () => {
            "[kKmMgGtT]?(bps|[bB][iI][tT][sS]?(/s)?)|([kMGT]|[KMGT]i)?B/s"
        };
    }
    pub(crate) const SPAN: &str = quantity!("ns|us|µs|μs|ms|s|min|h");
    pub(crate) const FINITE_RATE: &str = quantity!(rate!());
    pub(crate) const RATE: &str =
        concat!(r"^\s*(unlimited|[0-9]+(\.[0-9]+)?\s*(", rate!(), r"))\s*$");
    pub(crate) const SIZE: &str = quantity!(size!());
    pub(crate) const PROBABILITY: &str = quantity!("%");
    pub(crate) const OVERHEAD: &str = concat!(r"^\s*-?\s*[0-9]+(\.[0-9]+)?\s*(", size!(), r")\s*$");
    pub(crate) const NUMBERS: &str =
        r"^\s*[0-9]+\s*(-\s*[0-9]+\s*)?(,\s*[0-9]+\s*(-\s*[0-9]+\s*)?)*$";
    macro_rules! sizes {
        () => {
            concat!(
                r"\s*[0-9]+(\.[0-9]+)?\s*(",
                size!(),
                r")\s*(-\s*[0-9]+(\.[0-9]+)?\s*(",
                size!(),
                r")\s*|[x*]\s*[0-9]+\s*)?"
            )
        };
    }
    pub(crate) const SIZES: &str =
        concat!(r"^(\s*imix(-ip)?\s*|", sizes!(), "(,", sizes!(), ")*)$");
    pub(crate) const LIMIT: &str = quantity!(concat!("p|packets?|", size!()));
}

pub(crate) const PERCENT: &str = "a probability is in percent, as in `0.1%`";
pub(crate) const SPAN_UNITS: &str = "units of time: ns, us, ms, s, min, h";
pub(crate) const RATE_UNITS: &str =
    "units of rate: bit, kbit, mbit, gbit, tbit; B/s, kB/s, MB/s, GB/s";
pub(crate) const SIZE_UNITS: &str =
    "units of size: B, kB, MB, GB (thousands); KiB, MiB, GiB (1024)";

/// Reads a length of time: `30us`, `1.5 ms`, `2min`.
///
/// # Errors
/// The text has no known unit, is not a whole number of nanoseconds, or is longer than 584 years.
pub fn parse_span(text: &str) -> Result<Span, Unreadable> {
    with_cures(text, span, "write a time, as in `40ms`")
}

fn span(text: &str) -> Result<Span, Unreadable> {
    let (number, unit) = number_and_unit(text, "40ms")?;
    let n = number.text;
    let nanos = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000, // the micro sign and the Greek letter
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "" => {
            return Err(Unreadable::new(
                format!("{} is a number without a unit", quoted(text)),
                format!("write `{n}ms` or `{n}s`; {SPAN_UNITS}"),
            ));
        }
        "m" | "M" => {
            return Err(Unreadable::new(
                format!("{} could be minutes or milliseconds", quoted(text)),
                format!("write `{n}min` or `{n}ms`"),
            ));
        }
        _ => {
            return Err(unknown_unit(
                text,
                unit,
                "time",
                SPAN_UNITS,
                &["ns", "us", "ms", "s", "min", "h"],
            ));
        }
    };
    number.times(nanos, text, "nanoseconds", |n| Span(n).to_string()).map(Span)
}

/// Reads a rate: `100mbit`, `1.5Gbit/s`, `100 Mbps`, `12MB/s`, `unlimited`.
///
/// Case matters only in units of bytes (`MB/s`) and in `bps`: `B` is bytes, and `Bps` is refused.
///
/// # Errors
/// The text has no known unit, is not a whole number of bits per second, is zero, or is above
/// [`RATE_MAX`].
pub fn parse_rate(text: &str) -> Result<Rate, Unreadable> {
    with_cures(text, rate, "write a rate, as in `100mbit`, up to `1000tbit`")
}

fn rate(text: &str) -> Result<Rate, Unreadable> {
    if text.trim() == "unlimited" {
        return Ok(Rate::UNLIMITED);
    }
    let (number, unit) = number_and_unit(text, "100mbit")?;
    // Zero is refused with any unit.
    if number.mantissa == 0 {
        return Err(Unreadable::new(
            "a rate of zero sends nothing",
            "write a rate above zero, or `unlimited`",
        ));
    }
    let bits = rate_unit(unit).ok_or_else(|| rate_unit_error(text, &number, unit))?;
    let show = |n: u64| Rate(n.min(RATE_MAX.0)).to_string();
    let rate = Rate(number.times(bits, text, "bits a second", show)?);
    if rate > RATE_MAX {
        return Err(Unreadable::new(
            format!("{} is above the highest rate, {RATE_MAX}", quoted(text)),
            format!("write at most `{RATE_MAX}`, or `unlimited`"),
        ));
    }
    Ok(rate)
}

/// Reads a number of bytes: `1500B`, `64kB` (1000 each), `64KiB` (1024 each).
///
/// # Errors
/// The text has no known unit, is not a whole number of bytes, or is 2^64 or more.
pub fn parse_size(text: &str) -> Result<u64, Unreadable> {
    with_cures(text, size, "write a size, as in `1500B`")
}

fn size(text: &str) -> Result<u64, Unreadable> {
    let (number, unit) = number_and_unit(text, "1500B")?;
    let bytes = size_unit(unit).ok_or_else(|| size_unit_error(text, &number, unit))?;
    number.times(bytes, text, "bytes", |n| format!("{n}B"))
}

/// Mixes with names: packet lengths in bytes, and their weights.
const MIXES: [(&str, [(u32, u32); 3]); 2] =
    [("imix", [(74, 7), (590, 4), (1514, 1)]), ("imix-ip", [(60, 7), (576, 4), (1500, 1)])];

/// Reads sizes of packets: `500B`, uniform in `80B-740B`, or a mix with weights,
/// `74B x 7, 590B x 4, 1514B x 1`.
///
/// `imix` is the usual mix of the internet, 7 : 4 : 1, in lengths of Ethernet frames; `imix-ip` is
/// the same mix in lengths of IP packets. The smallest packet of each mix has room for the data by
/// which a live sender identifies its datagrams.
///
/// # Errors
/// The errors of [`parse_size`]; a size of zero, or of 2^32 or more; a range that ends before it
/// begins; a mix with a range, or with a weight that is not 1 to 1000000.
pub fn parse_sizes(text: &str) -> Result<Sizes, Unreadable> {
    let bytes = |part: &str| {
        let bytes = parse_size(part)?;
        u32::try_from(bytes).ok().filter(|b| *b > 0).ok_or_else(|| {
            Unreadable::new(
                format!("{} is out of range", quoted(part.trim())),
                "write a size above zero, and below 4GiB",
            )
        })
    };
    if let Some((_, parts)) = MIXES.iter().find(|(name, _)| *name == text.trim()) {
        return Ok(Sizes::Mix(parts.to_vec()));
    }
    let example = "write a mix as in `74B x 7, 590B x 4, 1514B x 1`";
    let parts: Vec<&str> = text.split(',').collect();
    if let [one] = parts[..]
        && !one.contains(['x', '*'])
    {
        let Some((least, most)) = one.split_once('-').filter(|(least, _)| !least.trim().is_empty())
        else {
            return bytes(one).map(Sizes::Fixed);
        };
        let (from, to) = (bytes(least)?, bytes(most)?);
        if to < from {
            let what = format!("{} ends before it begins", quoted(one.trim()));
            return Err(Unreadable::new(what, format!("write `{to}B-{from}B`")));
        }
        return Ok(if from == to { Sizes::Fixed(from) } else { Sizes::Uniform(from, to) });
    }
    let part = |part: &str| {
        let (size, times) = part.split_once(['x', '*']).unwrap_or((part, "1"));
        let often = times.trim().parse::<u32>().ok().filter(|n| (1..=1_000_000).contains(n));
        let often = often.ok_or_else(|| {
            Unreadable::new(
                format!("{} is not the weight of a size", quoted(times.trim())),
                format!("{example}; 1 to 1000000"),
            )
        })?;
        Ok((bytes(size)?, often))
    };
    parts.into_iter().map(part).collect::<Result<Vec<_>, _>>().map(Sizes::Mix)
}

/// Reads the size of a link's largest IP packet: `1500B`, `9kB`.
///
/// # Errors
/// The errors of [`parse_size`], or a size outside of 68 to 65535 bytes.
pub fn parse_mtu(text: &str) -> Result<u32, Unreadable> {
    with_cures(text, mtu, &format!("write a size from `{MTU_MIN}B` to `{MTU_MAX}B`"))
}

fn mtu(text: &str) -> Result<u32, Unreadable> {
    let bytes = size(text)?;
    u32::try_from(bytes).ok().filter(|n| (MTU_MIN..=MTU_MAX).contains(n)).ok_or_else(|| {
        Unreadable::new(
            format!("{} is out of range", quoted(text)),
            format!("write a size from `{MTU_MIN}B` to `{MTU_MAX}B`"),
        )
    })
}

/// Reads a limit of a queue: `20p`, `20 packets`, or a size such as `64kB`.
///
/// # Errors
/// The errors of [`parse_size`], zero, a fraction of a packet, or 2^32 packets or more.
pub fn parse_limit(text: &str) -> Result<Limit, Unreadable> {
    with_cures(text, limit, "write a limit, as in `20p` or `64kB`")
}

fn limit(text: &str) -> Result<Limit, Unreadable> {
    let (number, unit) = number_and_unit(text, "20p")?;
    let n = number.text;
    let limit = match unit {
        "p" | "packet" | "packets" => {
            let packets = number.times(1, text, "packets", |n| format!("{n}p"))?;
            Limit::Packets(u32::try_from(packets).map_err(|_| {
                Unreadable::new(
                    format!("{} is too many packets", quoted(text)),
                    format!("write at most `{}p`", u32::MAX),
                )
            })?)
        }
        "" if n.bytes().all(|b| matches!(b, b'0' | b'.')) => Limit::Packets(0),
        "" => {
            return Err(Unreadable::new(
                format!("{} is a number without a unit", quoted(text)),
                format!("write `{n}p` for packets, or `{n}kB` for an amount of data"),
            ));
        }
        _ => match size_unit(unit) {
            Some(bytes) => Limit::Bytes(number.times(bytes, text, "bytes", |n| format!("{n}B"))?),
            None => {
                let mut error = size_unit_error(text, &number, unit);
                error.help.push_str("; or packets: `20p`");
                error.near = error
                    .near
                    .or_else(|| suggest::nearest(unit, ["packets", "packet"]).map(str::to_owned));
                return Err(error);
            }
        },
    };
    match limit {
        Limit::Packets(0) | Limit::Bytes(0) => {
            Err(Unreadable::new("a queue of zero holds nothing", "write `1p` or more"))
        }
        _ => Ok(limit),
    }
}

/// Reads a number of bytes that may be negative: `24B`, `-14B`.
///
/// # Errors
/// The errors of [`parse_size`], or a number outside of -65535 to 65535 bytes.
pub fn parse_overhead(text: &str) -> Result<i32, Unreadable> {
    let trimmed = text.trim();
    let (size, sign) = trimmed.strip_prefix('-').map_or((trimmed, 1), |size| (size, -1));
    let whole = |error| match sign {
        1 => error,
        // The sign is a part of the quoted text.
        _ => Unreadable::new(
            format!("{} is not a number of bytes", quoted(text)),
            format!("write a number and a unit, as in `-14B`; {SIZE_UNITS}"),
        ),
    };
    let bytes = i32::try_from(parse_size(size).map_err(whole)?).ok().filter(|n| *n <= 65_535);
    bytes.map(|n| sign * n).ok_or_else(|| {
        Unreadable::new(
            format!("{} is out of range", quoted(text)),
            "write a size from `-65535B` to `65535B`",
        )
    })
}

/// Reads a probability: `1%`, `0.05%`.
///
/// # Errors
/// The text has no percent sign, is above `100%`, or has more than 17 digits after the point.
pub fn parse_probability(text: &str) -> Result<Probability, Unreadable> {
    with_cures(text, probability, "write a percentage from `0%` to `100%`")
}

fn probability(text: &str) -> Result<Probability, Unreadable> {
    let (number, unit) = number_and_unit(text, "1%")?;
    let n = number.text;
    if unit.is_empty() {
        return Err(Unreadable::new(
            format!("{} could be a fraction or a percentage", quoted(text)),
            format!("write `{n}%` for {n} percent"),
        ));
    }
    if unit != "%" {
        let near = Some("%".to_owned()).filter(|_| matches!(unit, "percent" | "pct" | "pc"));
        return Err(Unreadable {
            near,
            ..Unreadable::new(
                format!("{}: {} is not a unit of probability", quoted(text), quoted(unit)),
                PERCENT,
            )
        });
    }
    let all = 100 * 10u128.pow(number.places);
    if number.mantissa > all {
        return Err(Unreadable::new(
            format!("{} is above 100%", quoted(text)),
            "write at most `100%`",
        ));
    }
    match (u64::try_from(number.mantissa), u64::try_from(all)) {
        (Ok(part), Ok(all)) => Ok(Probability::of(part, all)),
        _ => Err(Unreadable::new(
            format!("{} has too many digits", quoted(text)),
            "write at most 17 digits after the point",
        )),
    }
}

/// Reads a number from 0 to 1, the notation of probabilities in other tools' files.
///
/// # Errors
/// The text is not a number, or is below 0 or above 1.
pub fn parse_fraction(text: &str) -> Result<Probability, Unreadable> {
    let help = "write a number from 0 to 1";
    let (number, unit) = number_and_unit(text, "0.5")?;
    if !unit.is_empty() {
        return Err(Unreadable::new(format!("{} is not a number", quoted(text)), help));
    }
    let all = 10u128.pow(number.places);
    if number.mantissa > all {
        return Err(Unreadable::new(format!("{} is more than 1", quoted(text)), help));
    }
    // There are at most 18 decimal places, so both numbers fit 64 bits.
    Ok(Probability::of(number.mantissa as u64, all as u64))
}

/// Reads numbers of packets, counted from 1: `3`, or `3, 10-12`; in any order.
///
/// # Errors
/// A part is not a number or is zero, a range ends before it begins, or ranges overlap.
pub fn parse_numbers(text: &str) -> Result<Vec<RangeInclusive<u64>>, Unreadable> {
    let help = "write numbers and ranges, as in `3, 10-12`";
    let number = |part: &str| {
        let digits = part.trim();
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let n = digits.parse::<u64>().ok().filter(|_| plain);
        let n = n.ok_or_else(|| {
            Unreadable::new(format!("{} is not a number of a packet", quoted(part.trim())), help)
        })?;
        if n == 0 {
            return Err(Unreadable::new(
                "packets are counted from 1",
                "write `1` for the first one",
            ));
        }
        Ok(n)
    };
    let mut ranges = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if last < first {
            let what = format!("{} ends before it begins", quoted(part.trim()));
            return Err(Unreadable::new(what, format!("write `{last}-{first}`")));
        }
        ranges.push(first..=last);
    }
    ranges.sort_by_key(|r| *r.start());
    match ranges.windows(2).find(|w| w[1].start() <= w[0].end()) {
        Some(twice) => Err(Unreadable::new(
            format!("packet {} is given twice", twice[1].start()),
            "write each number once",
        )),
        None => Ok(ranges),
    }
}

/// Reads a text as a value of this kind: a default, or a value that is a text in the file.
pub(crate) fn parse_value(kind: Kind, text: &str) -> Result<Value, Unreadable> {
    Ok(match kind {
        Kind::Span => Value::Span(parse_span(text)?),
        Kind::Rate => Value::Rate(parse_rate(text)?),
        Kind::Bytes => Value::Bytes(parse_size(text)?),
        Kind::Limit => Value::Limit(parse_limit(text)?),
        Kind::Probability => Value::Probability(parse_probability(text)?),
        Kind::Count { min, max } => {
            let number = text.parse().ok().filter(|n| (min..=max).contains(n));
            Value::Count(number.ok_or_else(|| {
                Unreadable::new(
                    format!("{} is out of range", quoted(text)),
                    format!("write a whole number from {min} to {max}"),
                )
            })?)
        }
        Kind::Choice(words) => match words.iter().find(|w| **w == text) {
            Some(word) => Value::Choice(word),
            None => {
                let near = suggest::nearest(text, words.iter().copied()).map(str::to_owned);
                let what = format!("{} is not one of the words allowed", quoted(text));
                let allowed = format!("allowed: {}", suggest::every(words.iter().copied()));
                return Err(Unreadable { near, ..Unreadable::new(what, allowed) });
            }
        },
    })
}

/// An exact decimal number: `mantissa / 10^places`.
pub struct Decimal<'a> {
    text: &'a str,
    mantissa: u128,
    places: u32,
}

impl Decimal<'_> {
    /// This number times `factor`; the product must be whole and fit 64 bits. The other parameters
    /// are for messages: `text` is the quantity as written, `unit` is the unit of the result, and
    /// `show` formats a result.
    ///
    /// # Errors
    /// The product is not whole, or too large.
    pub fn times(
        &self,
        factor: u128,
        text: &str,
        unit: &str,
        show: impl Fn(u64) -> String,
    ) -> Result<u64, Unreadable> {
        let too_large = || {
            Unreadable::new(
                format!("{} is too large", quoted(text)),
                format!("write at most `{}`", show(u64::MAX)),
            )
        };
        // As there are at most 18 decimal places, a product that overflows here is far above 2^64,
        // even after division.
        let product = self.mantissa.checked_mul(factor).ok_or_else(too_large)?;
        let scale = 10u128.pow(self.places);
        let whole = u64::try_from(product / scale).map_err(|_| too_large())?;
        if product % scale == 0 {
            return Ok(whole);
        }
        let above = whole.checked_add(1).ok_or_else(too_large)?;
        Err(Unreadable::new(
            format!("{} is not a whole number of {unit}", quoted(text)),
            if whole == 0 {
                format!("write `{}`", show(above))
            } else {
                format!("write `{}` or `{}`", show(whole), show(above))
            },
        ))
    }
}

/// Splits a text into number and unit; the unit may be empty and is not checked.
///
/// # Errors
/// The text does not begin with a number. The help is to write a number and a unit, as in
/// `example`.
pub fn number_and_unit<'a>(
    text: &'a str,
    example: &str,
) -> Result<(Decimal<'a>, &'a str), Unreadable> {
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, rest) = trimmed.split_at(end);
    let unit = rest.trim_start();
    let not_a_number = |what: String| {
        Unreadable::new(what, format!("write a number and a unit, as in `{example}`"))
    };
    if trimmed.is_empty() {
        return Err(not_a_number("an empty text is not a quantity".into()));
    }
    if unit.starts_with('-') && number.is_empty() {
        return Err(not_a_number(format!("{} is negative", quoted(text))));
    }
    if unit.starts_with([',', '_', '\'']) && !number.is_empty() {
        return Err(Unreadable::new(
            format!("{} has a number that cannot be read", quoted(text)),
            "write digits, with a point before decimals: 1500, 1.5",
        ));
    }
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    if decimals.contains('.') {
        return Err(not_a_number(format!("{} has more than one point", quoted(text))));
    }
    if whole.is_empty() || decimals.is_empty() {
        return Err(not_a_number(format!("{} does not begin with a number", quoted(text))));
    }
    if unit.contains(|c: char| c.is_ascii_digit()) {
        return Err(not_a_number(format!("{} is more than one number and one unit", quoted(text))));
    }
    let whole = whole.trim_start_matches('0');
    let decimals = decimals.trim_end_matches('0');
    if number.len() > 60 || whole.len() > 20 || decimals.len() > 18 {
        return Err(Unreadable::new(
            format!("{} has too many digits", quoted(text)),
            "write at most 20 digits before the point, and 18 after it",
        ));
    }
    let digits = |s: &str| s.bytes().fold(0u128, |n, d| n * 10 + u128::from(d - b'0'));
    let places = decimals.len() as u32;
    let mantissa = digits(whole) * 10u128.pow(places) + digits(decimals);
    Ok((Decimal { text: number, mantissa, places }, unit))
}

/// The number of bits per second in one `unit` of rate.
fn rate_unit(unit: &str) -> Option<u128> {
    if let Some(amount) = unit.strip_suffix("B/s") {
        return match amount {
            "K" => None, // 1000 or 1024?
            _ => size_unit(&format!("{amount}B")).map(|bytes| 8 * bytes),
        };
    }
    // `Bps` is not accepted, because some people read it as bytes per second; `tc` reads even `bps`
    // as bytes per second.
    let prefix = match unit.strip_suffix("bps") {
        Some(prefix) => prefix.to_ascii_lowercase(),
        None => {
            let lower = unit.strip_suffix("/s").unwrap_or(unit).to_ascii_lowercase();
            lower.strip_suffix("bits").or_else(|| lower.strip_suffix("bit"))?.to_owned()
        }
    };
    Some(match prefix.as_str() {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        "t" => 1_000_000_000_000,
        _ => return None,
    })
}

fn rate_unit_error(text: &str, number: &Decimal<'_>, unit: &str) -> Unreadable {
    let n = number.text;
    let lower = unit.to_ascii_lowercase();
    // Splits the unit into its prefix and the rest.
    let (prefix, rest) = match lower.as_bytes().first() {
        Some(b'k' | b'm' | b'g' | b't') => lower.split_at(1),
        _ => ("", lower.as_str()),
    };
    let bytes_prefix = match prefix {
        "m" => "M",
        "g" => "G",
        "t" => "T",
        other => other,
    };
    if unit.is_empty() {
        Unreadable::new(
            format!("{} is a number without a unit", quoted(text)),
            format!("write `{n}mbit` or `{n}kbit`; {RATE_UNITS}"),
        )
    } else if unit == "KB/s" {
        Unreadable::new(
            format!("{} could count 1000 or 1024 bytes", quoted(text)),
            format!("write `{n}kB/s` (1000) or `{n}KiB/s` (1024)"),
        )
    } else if size_unit(unit).is_some() {
        Unreadable::new(
            format!("{} is an amount, not a rate", quoted(text)),
            format!(
                "write `{n}{unit}/s` for bytes a second, or `{n}{prefix}bit` for bits a second"
            ),
        )
    } else if matches!(rest, "" | "b" | "b/s" | "bps" | "/s" | "ps") {
        Unreadable::new(
            format!("{} could be bits or bytes a second", quoted(text)),
            format!("write `{n}{prefix}bit` for bits, or `{n}{bytes_prefix}B/s` for bytes"),
        )
    } else if matches!(rest, "ibit" | "ibit/s" | "ibps") {
        Unreadable::new(
            format!("{} has a binary prefix, and bit rates count in thousands", quoted(text)),
            format!("write `{n}{prefix}bit` if that is meant"),
        )
    } else {
        let known = ["bit", "kbit", "mbit", "gbit", "tbit", "B/s", "kB/s", "MB/s", "GB/s"];
        unknown_unit(text, unit, "rate", RATE_UNITS, &known)
    }
}

/// The number of bytes in one `unit` of size.
fn size_unit(unit: &str) -> Option<u128> {
    Some(match unit {
        "B" | "byte" | "bytes" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    })
}

fn size_unit_error(text: &str, number: &Decimal<'_>, unit: &str) -> Unreadable {
    let n = number.text;
    match unit {
        "" => Unreadable::new(
            format!("{} is a number without a unit", quoted(text)),
            format!("write `{n}B`; {SIZE_UNITS}"),
        ),
        "k" | "K" | "KB" => Unreadable::new(
            format!("{} could count 1000 or 1024 bytes", quoted(text)),
            format!("write `{n}kB` (1000) or `{n}KiB` (1024)"),
        ),
        "m" | "M" | "g" | "G" | "t" | "T" => {
            let prefix = unit.to_ascii_uppercase();
            Unreadable::new(
                format!("{} has a prefix without a unit", quoted(text)),
                format!("write `{n}{prefix}B` (thousands) or `{n}{prefix}iB` (1024)"),
            )
        }
        "b" | "kb" | "Kb" | "mb" | "Mb" | "mB" | "gb" | "Gb" | "gB" => {
            let prefix = match unit.as_bytes().first() {
                Some(b'k' | b'K') => "k",
                Some(b'm' | b'M') => "M",
                Some(b'g' | b'G') => "G",
                _ => "",
            };
            Unreadable::new(
                format!("{} could be bits or bytes", quoted(text)),
                format!("a size is in bytes: write `{n}{prefix}B`"),
            )
        }
        _ => unknown_unit(
            text,
            unit,
            "size",
            SIZE_UNITS,
            &["B", "kB", "MB", "GB", "KiB", "MiB", "GiB"],
        ),
    }
}

fn unknown_unit(text: &str, unit: &str, of: &str, all: &str, known: &[&str]) -> Unreadable {
    let near = suggest::nearest(unit, known.iter().copied()).map(str::to_owned);
    Unreadable {
        near,
        ..Unreadable::new(format!("{}: {} is not a unit of {of}", quoted(text), quoted(unit)), all)
    }
}
