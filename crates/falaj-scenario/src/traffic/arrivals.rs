//! Reads the arrival process of a source, and the sizes of its packets.

use crate::diagnostics::Problem;
use crate::keys::STATE;
use crate::model::Direction;
use crate::read::{Datum, Fields, Got, fields, get};
use crate::suggest::quoted;
use crate::traffic::captured;
use crate::traffic::envelopes;
use crate::traffic::tcp;
use falaj_sched::contract::params::{Value, Values};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use falaj_traffic::source::bucket::Limit;
use falaj_traffic::source::chain::Chain;
use falaj_traffic::source::frames::{Frame, Frames, Law};
use falaj_traffic::source::size::Sizes;
use falaj_traffic::source::{Model, PeriodLaw};
use falaj_traffic::tcp::Tcp;
use std::ops::Range;
use std::path::Path;

/// The models: for each its name, those of [`KEYS`] that it may have, and those that it requires.
const MODELS: [(&str, &[&str], &[&str]); 10] = [
    ("poisson", &["rate"], &["rate"]),
    ("cbr", &["rate"], &["rate"]),
    ("on-off", &["rate", "on", "off"], &["rate", "on", "off"]),
    ("pareto-on-off", &["rate", "on", "off", "shape"], &["rate", "on", "off", "shape"]),
    ("mmpp", &["states"], &["states"]),
    ("map", &["d0", "d1"], &["d0", "d1"]),
    ("mpeg", &["rate", "pattern", "frames"], &["rate"]),
    ("greedy", &["allowed", "offset"], &["allowed"]),
    ("replay", &["capture", "select", "speed", "scale", "repeat", "offset"], &["capture"]),
    (
        "tcp",
        &["congestion", "return", "bytes", "pause", "initial-window", "window", "acknowledge"],
        &[],
    ),
];

/// All keys that only some models may have.
const KEYS: [&str; 23] = [
    "rate",
    "on",
    "off",
    "shape",
    "states",
    "d0",
    "d1",
    "pattern",
    "frames",
    "allowed",
    "offset",
    "capture",
    "select",
    "speed",
    "scale",
    "repeat",
    "congestion",
    "return",
    "bytes",
    "pause",
    "initial-window",
    "window",
    "acknowledge",
];

/// An example of a key's value.
fn example(key: &str) -> &'static str {
    match key {
        "rate" => "`rate = \"10mbit\"`",
        "on" => "its mean, as in `on = \"100ms\"`",
        "off" => "its mean, as in `off = \"100ms\"`",
        "shape" => "`shape = 1.5`",
        "states" => {
            "`states = [{ rate = \"50mbit\", stay = \"10ms\" }, { rate = \"5mbit\", stay = \"90ms\" }]`"
        }
        "d0" => "transitions per second, as in `d0 = [[-300, 100], [50, -60]]`",
        "allowed" => "the envelope, as in `allowed = { rate = \"2mbit\", burst = \"15kB\" }`",
        "capture" => "the file that has its packets, as in `capture = \"calls.pcapng\"`",
        "d1" => "transitions per second with a packet, as in `d1 = [[200, 0], [0, 10]]`",
        _ => "another one",
    }
}

/// The traffic of a source: its model, its rate and packet sizes as the link accounts them, and the
/// place of the rate in the file.
pub(crate) struct Sends {
    pub(crate) model: Model,
    pub(crate) rate: Rate,
    pub(crate) sizes: Sizes,
    pub(crate) limit: Option<Limit>,
    /// Time from the source's start to its first burst or packet, for `greedy` and `replay`.
    pub(crate) offset: Span,
    pub(crate) at: Range<usize>,
}

impl Sends {
    /// The traffic in this direction: recorded lengths as the direction accounts them, and
    /// connections with the propagation delays of both directions. Acknowledgements return in the
    /// other direction.
    pub(crate) fn on(
        self,
        (direction, other): (&Direction, &Direction),
        fields: &Fields<'_>,
        problems: &mut Vec<Problem>,
    ) -> Sends {
        match &self.model {
            Model::Recorded(recording) => {
                let recording =
                    captured::fit(recording, direction, self.sizes.most(), fields, problems);
                Sends { rate: recording.rate(), model: Model::Recorded(recording.into()), ..self }
            }
            Model::Tcp(tcp) => {
                let back = if fields.means("return") { tcp.back } else { other.pipe.delay };
                let tcp = Tcp { back, base: direction.pipe.delay + back, ..tcp.clone() };
                tcp::judge(&self.sizes, direction, fields, problems);
                Sends { model: Model::Tcp(tcp), ..self }
            }
            _ => self,
        }
    }
}

/// Reads the traffic of a source. Returns `None` after an error, which was reported. Names of files
/// are relative to `beside`, the directory of the scenario.
pub(crate) fn sends(
    fields: &Fields<'_>,
    given: &Values,
    beside: &Path,
    problems: &mut Vec<Problem>,
) -> Option<Sends> {
    let kind = given.choice("model")?;
    let (_, takes, needs) = MODELS.iter().find(|(name, ..)| *name == kind)?;
    let mut whole = true;
    for key in KEYS.iter().filter(|key| !takes.contains(key)) {
        let Some(field) = fields.field(key) else { continue };
        let of = MODELS.iter().filter(|(_, takes, _)| takes.contains(key));
        let of =
            of.map(|(name, ..)| format!("`model = \"{name}\"`")).collect::<Vec<_>>().join(", ");
        let help = format!("leave out `{key}`, or change the model");
        problems.push(
            Problem::error(
                field.name_at.clone(),
                format!("`{key}` is for {of}, and this is `{kind}`"),
            )
            .help(help),
        );
        whole = false;
    }
    for key in *needs {
        if !fields.means(key) {
            let why = format!("{} lacks `{key}`, which `{kind}` needs", fields.what);
            problems.push(
                Problem::error(fields.at.clone(), why).help(format!("write {}", example(key))),
            );
            whole = false;
        }
    }
    let datum = |name: &str| fields.field(name).and_then(|f| f.datum.clone());
    let Some(Datum::Sizes(sizes)) = datum("size") else { return None };
    if !whole {
        return None;
    }
    let rate = match given.get("rate") {
        Some(Value::Rate(rate)) => Some(rate),
        _ => None,
    };
    let refused = |key: &str, why: String, help: String, problems: &mut Vec<Problem>| {
        let at = fields.field(key).map_or(fields.at.clone(), |f| f.at.clone());
        problems.push(Problem::error(at, format!("`{key}`: {why}")).help(help));
    };
    let at = |key: &str| fields.field(key).map_or(fields.at.clone(), |f| f.at.clone());
    let (model, rate, at) = match kind {
        "poisson" => (Model::Poisson, rate?, at("rate")),
        "cbr" => (Model::Cbr, rate?, at("rate")),
        "on-off" | "pareto-on-off" => {
            let law = match datum("shape") {
                Some(Datum::Decimal(shape)) if shape > 1.0 && shape <= 10.0 => {
                    PeriodLaw::Pareto(shape)
                }
                Some(Datum::Decimal(shape)) => {
                    let why = format!("with the shape {shape}, bursts have no mean length");
                    refused(
                        "shape",
                        why,
                        "write a number above 1 and up to 10, as in `1.5`".into(),
                        problems,
                    );
                    return None;
                }
                _ if kind == "pareto-on-off" => return None,
                _ => PeriodLaw::Exponential,
            };
            (
                Model::OnOff { on: given.span("on")?, off: given.span("off")?, law },
                rate?,
                at("rate"),
            )
        }
        "mmpp" => {
            let Some(Datum::Tables(tables)) = datum("states") else { return None };
            let (bytes, times) = sizes.mean();
            let packet = bytes as f64 * 8.0 / times as f64;
            let mut states = Vec::new();
            for (table, place) in tables {
                let state = fields_of(table, place, problems)?;
                states.push((state.0.map_or(0.0, |rate| rate.0 as f64 / packet), state.1));
            }
            let chain = match Chain::modulated(&states) {
                Ok(chain) => chain,
                Err(why) => {
                    refused("states", why, "write at least one with a rate".into(), problems);
                    return None;
                }
            };
            let rate = chain.rate() * packet;
            (Model::Markovian(chain), Rate(rate.round() as u64), at("states"))
        }
        "map" => {
            let (Some(Datum::Rows(d0)), Some(Datum::Rows(d1))) = (datum("d0"), datum("d1")) else {
                return None;
            };
            let chain = match Chain::new(&d0, &d1) {
                Ok(chain) => chain,
                Err(why) => {
                    let help = "write transitions per second: each row of `d0` and `d1` together \
                                adds up to zero, as in `d0 = [[-300, 100], [50, -60]]` and `d1 = \
                                [[200, 0], [0, 10]]`";
                    refused("d0", why, help.into(), problems);
                    return None;
                }
            };
            let (bytes, times) = sizes.mean();
            let rate = chain.rate() * bytes as f64 * 8.0 / times as f64;
            (Model::Markovian(chain), Rate(rate.round() as u64), at("d1"))
        }
        "greedy" => {
            let Some(Datum::Tables(tables)) = datum("allowed") else { return None };
            let envelope = envelopes::envelope(&tables, fields, sizes.most(), problems)?;
            let rate = envelope.rate(sizes.mean());
            (Model::Greedy(envelope), rate, at("allowed"))
        }
        "replay" => {
            let recording = captured::recording(fields, given, beside, problems)?;
            (Model::Recorded(recording.into()), Rate(1), at("capture"))
        }
        "tcp" => (Model::Tcp(tcp::connection(fields, given, problems)?), Rate(0), at("model")),
        _ => {
            let pattern = match datum("pattern") {
                Some(Datum::Name(text)) => text,
                _ => "IPBBPBBPBB",
            };
            let Some(frames) = pattern.chars().map(Frame::of).collect::<Option<Vec<Frame>>>()
            else {
                let why = format!("{} contains a letter that is no type of frame", quoted(pattern));
                refused(
                    "pattern",
                    why,
                    "write `I`, `P` and `B`, as in `IPBBPBBPBB`".into(),
                    problems,
                );
                return None;
            };
            let law = if given.choice("frames") == Some("lognormal") {
                Law::Lognormal
            } else {
                Law::Exponential
            };
            (
                Model::Video(Frames { pattern: frames, law, largest: sizes.most() }),
                rate?,
                at("rate"),
            )
        }
    };
    if rate.0 == 0 && kind != "tcp" {
        problems.push(
            Problem::error(at, format!("{} sends less than a bit in a second", fields.what))
                .help("write higher rates"),
        );
        return None;
    }
    let limit = envelopes::limit(fields, sizes.most(), problems).ok()?;
    Some(Sends {
        model,
        rate,
        sizes,
        limit,
        offset: given.span("offset").unwrap_or(Span::ZERO),
        at,
    })
}

/// The keys of a state of `mmpp`: its rate, if any, and its mean duration in seconds.
fn fields_of<'a>(
    table: &'a toml::de::DeTable<'a>,
    at: Range<usize>,
    problems: &mut Vec<Problem>,
) -> Option<(Option<Rate>, f64)> {
    let fields = fields(table, at, "a state", STATE, &[], problems);
    let (mut rate, mut stay, mut whole) = (None, None, true);
    for key in STATE {
        match get(&[&fields], key, problems) {
            Got::Given(Datum::Value(Value::Rate(r))) => rate = Some(r),
            Got::Given(Datum::Value(Value::Span(s))) => stay = Some(s.as_secs_f64()),
            Got::Absent => {}
            _ => whole = false,
        }
    }
    Some((rate, stay.filter(|_| whole)?))
}

/// Returns true if UDP datagrams can have the source's sizes and fit the link; otherwise reports an
/// error. Sizes that cannot be parsed were reported before.
pub(crate) fn fit(
    direction: &Direction,
    link: &str,
    fields: &Fields<'_>,
    video: bool,
    problems: &mut Vec<Problem>,
) -> bool {
    let Some(field) = fields.field("size") else { return false };
    let Some(Datum::Sizes(sizes)) = &field.datum else { return false };
    let (layer, mtu) = (direction.layer, direction.mtu);
    let (least, most) = (layer.from_udp(0).max(1), layer.largest(mtu));
    let layer = layer.name();
    let largest = sizes.most();
    // A video frame is divided into packets of nearly equal size.
    let smallest = if video { largest / 2 } else { sizes.least() };
    let problem = if smallest < least {
        let why = format!("`size`: {smallest}B has no room for the headers of a datagram");
        Problem::error(field.at.clone(), why)
            .help(format!("at least `{least}B`, since link {} accounts `{layer}`", quoted(link)))
    } else if largest > most {
        Problem::error(
            field.at.clone(),
            format!("`size`: {largest}B is more than link {} carries", quoted(link)),
        )
        .help(format!("at most `{most}B`: its mtu of {mtu}B, accounted at `{layer}`"))
    } else {
        return true;
    };
    problems.push(problem);
    false
}
