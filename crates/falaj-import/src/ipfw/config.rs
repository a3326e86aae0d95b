//! `pipe N config …`, `queue N config …`, `sched N config …`.

use super::policy::{self, Keys};
use crate::amounts::{self, part_of_one, whole};
use crate::args::{Args, no_equal, no_equal_phrase, unknown};
use crate::draft::{inline, quote};
use crate::lines::Word;
use falaj_engine::masks::mask::first_bits;
use falaj_scenario::Problem;
use falaj_scenario::suggest::{self, quoted};
use falaj_scenario::units::number_and_unit;
use std::ops::Range;

/// The kind of object that a command configures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Pipe,
    Queue,
    Sched,
}

/// The configuration of one pipe, queue or scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Configured {
    pub(super) number: u64,
    /// Keys of a link, and their values in TOML's syntax.
    pub(super) link: Vec<(&'static str, String)>,
    /// The limit of the object's queue.
    pub(super) queue: Option<String>,
    /// The AQM of the object's queue.
    pub(super) policy: Keys,
    pub(super) weight: Option<u64>,
    /// The pipe or scheduler that a queue belongs to.
    pub(super) of: Option<u64>,
    /// The discipline, by its name in a scenario, and its keys.
    pub(super) scheduler: Option<&'static str>,
    pub(super) own: Keys,
    /// Fields for `mask`: those of the queue itself, or, for a pipe or a scheduler, those of the
    /// link.
    pub(super) each: Vec<String>,
    /// Place of the word `pri`.
    pub(super) pri: Option<Range<usize>>,
    pub(super) at: Range<usize>,
    pub(super) line: String,
}

const WORDS: &[&str] = &[
    "bw",
    "bandwidth",
    "delay",
    "queue",
    "burst",
    "plr",
    "mask",
    "flow_mask",
    "sched_mask",
    "buckets",
    "profile",
    "weight",
    "pipe",
    "sched",
    "flowset",
    "type",
    "droptail",
    "noerror",
    "lmax",
    "maxlen",
    "pri",
    "red",
    "gred",
    "codel",
    "pie",
];

/// Reads all words after `config`.
pub(super) fn read(kind: Kind, number: u64, args: &mut Args<'_>) -> Result<Configured, Problem> {
    let mut made = Configured {
        number,
        link: Vec::new(),
        queue: None,
        policy: Vec::new(),
        weight: None,
        of: None,
        scheduler: None,
        own: Vec::new(),
        each: Vec::new(),
        pri: None,
        at: args.all(),
        line: args.line(),
    };
    let mut early = None;
    while let Some(word) = args.next() {
        match word.text.as_str() {
            "bw" | "bandwidth" | "delay" | "burst" | "profile" if kind == Kind::Queue => {
                return Err(misplaced(word, "a `pipe`", kind));
            }
            "plr" if kind == Kind::Queue => {
                let why =
                    "a link loses packets, whatever their queue: give this queue a pipe of its own";
                return Err(no_equal_phrase(word.at.clone(), "`plr` of a queue", why));
            }
            "bw" | "bandwidth" => {
                let bits = bandwidth(args.value("a bandwidth")?)?;
                made.link.push(("rate", quote(&amounts::rate(bits))));
            }
            "delay" => {
                made.link.push(("delay", quote(&milliseconds(args.value("milliseconds")?)?)));
            }
            "burst" => {
                let size = size(args.value("a size")?)?;
                if size > 0 {
                    made.link.push(("burst", quote(&amounts::size(size))));
                }
            }
            "plr" => {
                made.link.extend(loss(args.value("a probability")?)?.map(|loss| ("loss", loss)));
            }
            "profile" => made.link.push(("profile", quote(&args.value("a file")?.text))),
            "queue" => made.queue = Some(limit(args.value("a limit")?)?),
            "weight" => made.weight = Some(whole(args.value("a number")?)?),
            "pipe" | "sched" | "flowset" if kind == Kind::Queue => {
                made.of = Some(whole(args.value("a number")?)?);
            }
            "pipe" if kind == Kind::Sched => {
                let of = args.value("a number")?;
                if whole(of)? != number {
                    let why = format!(
                        "the scheduler of a pipe has its number: `sched {} config …`",
                        of.text
                    );
                    return Err(no_equal_phrase(
                        of.at.clone(),
                        "a scheduler for a pipe of another number",
                        &why,
                    ));
                }
            }
            "pipe" | "sched" | "flowset" => return Err(misplaced(word, "a `queue`", kind)),
            "type" if kind == Kind::Queue => {
                return Err(misplaced(word, "a `pipe` or a `sched`", kind));
            }
            "type" => {
                let of = scheduler(args.value("a type")?)?;
                made.scheduler = Some(of);
                match of {
                    "fq_codel" => made.own = policy::fq_codel(args)?,
                    "fq_pie" => made.own = policy::fq_pie(args)?,
                    _ => {}
                }
            }
            "mask" | "flow_mask" | "sched_mask" => {
                if kind == Kind::Sched && word.text == "flow_mask" {
                    return Err(no_equal_phrase(
                        word.at.clone(),
                        "a mask of a scheduler's flows",
                        "give the mask to the scheduler's queues, by `queue N config mask …`",
                    ));
                }
                made.each = mask(args)?;
            }
            "buckets" => {
                whole(args.value("a number")?)?;
                args.left_out(word, "a lookup takes equally long for any number of queues");
            }
            "lmax" | "maxlen" => {
                whole(args.value("a number")?)?;
                args.left_out(word, "the largest packet is that of the link");
            }
            "pri" => {
                whole(args.value("a number")?)?;
                made.pri = Some(word.at.clone());
            }
            "droptail" => (made.policy, early) = (Vec::new(), None),
            "noerror" => args.left_out(word, "falaj reports no drop to a sender in any case"),
            "red" | "gred" | "codel" | "pie" if early.is_some() || !made.policy.is_empty() => {
                return Err(Problem::error(
                    word.at.clone(),
                    format!("{}: a queue has one policy", quoted(&word.text)),
                )
                .help("keep one of `red`, `gred`, `codel` and `pie`"));
            }
            // The queue's limit decides whether thresholds are slots or bytes, and the limit may
            // follow later: so thresholds are read at the end.
            "red" | "gred" => {
                let numbers = args.clone();
                args.value("its four numbers")?;
                early = Some((word, numbers, args.take("ecn").is_some()));
            }
            "codel" => made.policy = policy::codel(args)?,
            "pie" => made.policy = policy::pie(args)?,
            "ecn" => {
                return Err(Problem::error(word.at.clone(), "`ecn` needs a policy")
                    .help("as in `red 0.002/5/15/0.1 ecn`"));
            }
            _ => return Err(unknown(word, "an option that can be imported", WORDS)),
        }
    }
    if let Some((name, mut numbers, ecn)) = early {
        let slots = made.queue.as_ref().is_none_or(|limit| limit.ends_with('p'));
        made.policy = policy::red(name, &mut numbers, slots)?;
        made.policy.extend(ecn.then(|| ("ecn", quote("yes"))));
    }
    if kind == Kind::Queue && made.of.is_none() {
        return Err(Problem::error(args.all(), "the queue has no pipe: `pipe NUMBER` is missing")
            .help("as in `queue 1 config pipe 1 weight 5`"));
    }
    Ok(made)
}

/// The error for an option of another kind of object.
fn misplaced(word: &Word, of: &str, kind: Kind) -> Problem {
    let name = match kind {
        Kind::Pipe => "pipe",
        Kind::Queue => "queue",
        Kind::Sched => "sched",
    };
    Problem::error(
        word.at.clone(),
        format!("{} is for {of}, and this is a `{name}`", quoted(&word.text)),
    )
    .help(format!("write it in the `config` of {of}"))
}

/// Reads a bandwidth in bits a second: `1.5Mbit/s` is 1,500,000.
pub(super) fn bandwidth(word: &Word) -> Result<u64, Problem> {
    if word.text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(no_equal_phrase(
            word.at.clone(),
            "a device as the clock of a pipe",
            "write a bandwidth, as in `1.5Mbit/s` or `300KByte/s`",
        ));
    }
    let wrong =
        |what: String, help: &str| Problem::error(word.at.clone(), what).help(help.to_owned());
    let help = "as in `1.5Mbit/s` or `300KByte/s`";
    let (number, unit) = number_and_unit(&word.text, "1Mbit/s").map_err(|e| wrong(e.what, help))?;
    let (prefix, rest) = match unit.chars().next() {
        Some('k' | 'K') => (1_000, &unit[1..]),
        Some('m' | 'M') => (1_000_000, &unit[1..]),
        Some('g' | 'G') => (1_000_000_000, &unit[1..]),
        _ => (1, unit),
    };
    let bits = match rest.strip_suffix("/s").unwrap_or(rest) {
        "" | "b" | "bit" | "bits" | "Bit" | "Bits" | "bps" => 1,
        "B" | "Byte" | "Bytes" | "byte" | "bytes" => 8,
        _ => return Err(wrong(format!("{} is not a bandwidth", quoted(&word.text)), help)),
    };
    number
        .times(bits * prefix, &word.text, "bits a second", |n| n.to_string())
        .map_err(|e| wrong(e.what, help))
}

/// Reads a time: a number of milliseconds, or a number with a unit.
pub(super) fn milliseconds(word: &Word) -> Result<String, Problem> {
    let bare = word.text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let text = if bare { format!("{}ms", word.text) } else { word.text.clone() };
    let span = falaj_scenario::parse_span(&text)
        .map_err(|e| Problem::error(word.at.clone(), e.what).help(e.help))?;
    Ok(amounts::time(span.0))
}

fn size(word: &Word) -> Result<u64, Problem> {
    let wrong =
        |what: String| Problem::error(word.at.clone(), what).help("as in `10KB` or `1500B`");
    let (number, unit) = number_and_unit(&word.text, "10KB").map_err(|e| wrong(e.what))?;
    let bytes = match unit.to_ascii_lowercase().trim_end_matches("ytes") {
        "" | "b" => 1,
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        _ => return Err(wrong(format!("{} is not a size", quoted(&word.text)))),
    };
    number.times(bytes, &word.text, "bytes", |n| n.to_string()).map_err(|e| wrong(e.what))
}

/// Loss: a probability, or `K,p,H,r`: the loss in the good state, the transition to the bad state,
/// the loss there, and the transition back. `None` if nothing is lost.
fn loss(word: &Word) -> Result<Option<String>, Problem> {
    let parts: Vec<&str> = word.text.split(',').collect();
    let part = |text: &str| {
        Ok(part_of_one(&Word { text: text.to_owned(), at: word.at.clone() })?
            .unwrap_or("0%".to_owned()))
    };
    match parts[..] {
        [_] => Ok(part_of_one(word)?.map(|p| quote(&p))),
        [good, to_bad, bad, to_good] => Ok(Some(inline(&[
            ("kind", quote("gilbert-elliott")),
            ("to-bad", quote(&part(to_bad)?)),
            ("to-good", quote(&part(to_good)?)),
            ("loss-bad", quote(&part(bad)?)),
            ("loss-good", quote(&part(good)?)),
        ]))),
        _ => Err(Problem::error(word.at.clone(), format!("{} is not a loss", quoted(&word.text)))
            .help("a probability, `0.01`, or K,p,H,r of two states, `0.001,0.01,0.5,0.2`")),
    }
}

/// Reads a queue's limit: a number of slots, or a size.
fn limit(word: &Word) -> Result<String, Problem> {
    let slots = word.text.bytes().all(|b| b.is_ascii_digit());
    Ok(if slots { format!("{}p", whole(word)?.max(1)) } else { amounts::size(size(word)?) })
}

fn scheduler(word: &Word) -> Result<&'static str, Problem> {
    Ok(match word.text.to_ascii_lowercase().as_str() {
        "fifo" => "fifo",
        "wf2q+" => "wf2q+",
        "rr" => "drr",
        "qfq" => "qfq",
        "prio" => "priority",
        "fq_codel" => "fq_codel",
        "fq_pie" => "fq_pie",
        _ => {
            return Err(unknown(
                word,
                "a type of scheduler",
                &["fifo", "wf2q+", "rr", "qfq", "prio", "fq_codel", "fq_pie"],
            ));
        }
    })
}

/// The fields that a mask can name, each with its name in a scenario and its number of bits.
const FIELDS: &[(&str, &str, u32)] = &[
    ("dst-ip", "dst", 32),
    ("src-ip", "src", 32),
    ("dst-port", "dport", 16),
    ("src-port", "sport", 16),
    ("proto", "proto", 8),
    ("dst-ip6", "dst6", 128),
    ("dst-ipv6", "dst6", 128),
    ("src-ip6", "src6", 128),
    ("src-ipv6", "src6", 128),
    ("flow-id", "flow-label", 20),
];

/// Reads `all`, or fields, each with a mask of the bits that count.
fn mask(args: &mut Args<'_>) -> Result<Vec<String>, Problem> {
    let mut fields = Vec::new();
    while let Some(word) = args.peek() {
        let (name, bits) = match word.text.as_str() {
            "all" => {
                args.next();
                fields.extend(["src", "dst", "proto", "sport", "dport"].map(str::to_owned));
                continue;
            }
            "queue" if fields.is_empty() => {
                return Err(no_equal(
                    word.at.clone(),
                    "mask queue",
                    "each queue of a pipe is a flow of its own already",
                ));
            }
            name => match FIELDS.iter().find(|(field, ..)| *field == name) {
                Some((_, name, bits)) => (*name, *bits),
                None => break,
            },
        };
        args.next();
        let mask = args.value("a mask")?;
        match counted(mask, bits)? {
            (0, _) => {}
            (_, Some(128)) => fields.push(format!("{name}/128")),
            (_, Some(n)) if n == bits => fields.push(name.to_owned()),
            (_, Some(n)) if matches!(bits, 16 | 32 | 128) => fields.push(format!("{name}/{n}")),
            (mask, None) if matches!(bits, 16 | 32 | 128) => {
                fields.push(format!("{name}/0x{mask:0digits$x}", digits = bits as usize / 4));
            }
            _ => {
                return Err(no_equal_phrase(
                    word.at.clone(),
                    "a part of this field",
                    "a mask keeps whole protocols and labels, or any bits of addresses and ports",
                ));
            }
        }
    }
    // A field without a length stands for whole addresses of both versions.
    let whole = fields.clone();
    fields.retain(|field| {
        let of_six = field.strip_suffix("6/128");
        of_six.is_none_or(|side| !whole.iter().any(|other| other == side))
    });
    if fields.is_empty() {
        return Err(Problem::error(
            args.before().map_or(0..0, |w| w.at.clone()),
            "the mask names no field",
        )
        .help(format!(
            "write `all`, or one or more of {}, each with the bits that count, as in `mask src-ip \
             0xffffff00`",
            suggest::list(FIELDS.iter().map(|(field, ..)| *field))
        )));
    }
    Ok(fields)
}

/// Reads the mask of a field of `bits` bits, such as `0x000000ff` or `/24`: the bits that it keeps,
/// and their number if they are the first bits of the field.
fn counted(word: &Word, bits: u32) -> Result<(u128, Option<u32>), Problem> {
    let refused = || {
        no_equal_phrase(
            word.at.clone(),
            "this mask",
            &format!(
                "this field has {bits} bits: write a number up to `{:#x}`, or a length up to `/{bits}`",
                first_bits(bits, bits)
            ),
        )
    };
    if let Some(length) = word.text.strip_prefix('/') {
        let length = length.parse::<u32>().ok().filter(|n| *n <= bits).ok_or_else(refused)?;
        return Ok((first_bits(length, bits), Some(length)));
    }
    let mask = match word.text.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16).map_err(|_| refused())?,
        None => u128::from(whole(word)?),
    };
    if mask > first_bits(bits, bits) {
        return Err(refused());
    }
    let count = mask.count_ones();
    Ok((mask, (mask == first_bits(count, bits)).then_some(count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Word {
        Word { text: text.to_owned(), at: 0..text.len() }
    }

    #[test]
    fn amounts_are_what_was_meant() {
        assert_eq!(bandwidth(&word("1.5Mbit/s")), Ok(1_500_000), "dummynet makes 1 bit/s of it");
        assert_eq!(bandwidth(&word("2Gbit/s")), Ok(2_000_000_000));
        assert_eq!(bandwidth(&word("300KByte/s")), Ok(2_400_000));
        assert_eq!(bandwidth(&word("64000")), Ok(64_000));
        assert!(bandwidth(&word("tun0")).is_err());
        assert_eq!(milliseconds(&word("50")), Ok("50ms".to_owned()));
        assert_eq!(milliseconds(&word("0.25")), Ok("250us".to_owned()));
        assert_eq!(limit(&word("50")), Ok("50p".to_owned()));
        assert_eq!(limit(&word("30KBytes")), Ok("30KiB".to_owned()));
        assert_eq!(
            [
                counted(&word("0xffffff00"), 32),
                counted(&word("/16"), 32),
                counted(&word("0xffff"), 16),
                counted(&word("0xff00ff00"), 32)
            ],
            [
                Ok((0xffff_ff00, Some(24))),
                Ok((0xffff_0000, Some(16))),
                Ok((0xffff, Some(16))),
                Ok((0xff00_ff00, None))
            ]
        );
        assert!(counted(&word("0x10000"), 16).is_err() && counted(&word("/33"), 32).is_err());
    }
}
