//! A link configured by flags. A flag applies to both directions; with the prefix `up-` or `down-`
//! it applies to one direction.

use anyhow::{Result, anyhow, bail};
use clap::builder::PossibleValuesParser;
use falaj_scenario::keys::CHANGES_MAX;
use falaj_scenario::units::Unreadable;
use falaj_scenario::{
    Direction, LinkTrace, PRESETS, Problem, SIMPLE, Scenario, default_queue, parse_limit,
    parse_mtu, parse_probability, parse_rate, parse_span,
};
use falaj_sched::queues::queue::Limit;
use falaj_sched::units::time::Span;
use std::fmt::Write;
use std::path::PathBuf;

/// Bytes of a full Ethernet frame.
const FRAME: u64 = 1514;

/// Defines value parsers that validate a value of the scenario file and return its text unchanged.
macro_rules! reads {
    ($($name:ident by $parse:ident;)*) => {
        $(fn $name(text: &str) -> Result<String, Unreadable> {
            $parse(text).map(|_| text.to_owned())
        })*
    };
}
reads! {
    rate by parse_rate;
    span by parse_span;
    probability by parse_probability;
    mtu by parse_mtu;
}

/// Validates a queue's limit and returns its text unchanged. A value that an error message proposes
/// always admits a full frame.
fn limit(text: &str) -> Result<String, Unreadable> {
    let admits = |text: &str| match parse_limit(text)? {
        Limit::Bytes(bytes) if bytes < FRAME => Err(Unreadable {
            what: format!("a queue of {bytes}B never admits a full frame"),
            help: String::new(),
            near: None,
            at: None,
        }),
        limit => Ok(limit),
    };
    let otherwise = "write a limit of a packet or more, as in `20p` or `64kB`";
    match parse_limit(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.checked(text, admits, otherwise)),
    }
}

/// Parses a round-trip time and returns half of it.
fn half(text: &str) -> Result<Span, Unreadable> {
    parse_span(text).map(|Span(nanoseconds)| Span(nanoseconds / 2))
}

/// The help for a trace.
const TRACE: &str = "\
Trace of the link over time

Its formats are: a trace of mahimahi; a CSV of `time,rate`, such as `1.5s,10mbit`; or a CSV \
whose first line names columns out of `time`, `rate`, `delay` and `loss`, with or without a \
unit: `time,rate (mbit),delay_ms,loss (%)`. Without a unit, times are in seconds. The first line \
of values holds from the start, and the last one stays.";

/// Defines the flags of one direction, or of both, under one heading of the help. Rare flags appear
/// only in `--help-all`.
macro_rules! flags {
    ($name:ident, $prefix:literal, $heading:literal, rare: $rare:literal) => {
        #[derive(clap::Args)]
        #[command(next_help_heading = $heading)]
        pub(crate) struct $name {
            #[arg(id = concat!($prefix, "rate"), long = concat!($prefix, "rate"),
                  visible_aliases = [concat!($prefix, "bandwidth"), concat!($prefix, "bw")],
                  value_name = "RATE", allow_hyphen_values = true, hide_short_help = $rare,
                  value_parser = rate, conflicts_with = "file",
                  help = "Rate: 10mbit, 1.5Gbit/s, unlimited")]
            rate: Option<String>,
            #[arg(id = concat!($prefix, "delay"), long = concat!($prefix, "delay"),
                  visible_alias = concat!($prefix, "latency"),
                  value_name = "TIME", allow_hyphen_values = true, hide_short_help = $rare,
                  value_parser = span, conflicts_with = "file",
                  help = "Propagation delay: 40ms")]
            delay: Option<String>,
            #[arg(id = concat!($prefix, "jitter"), long = concat!($prefix, "jitter"),
                  value_name = "TIME", allow_hyphen_values = true, hide_short_help = $rare,
                  value_parser = span, conflicts_with = "file",
                  help = "Maximum variation of the delay: 5ms; packets stay in order")]
            jitter: Option<String>,
            #[arg(id = concat!($prefix, "loss"), long = concat!($prefix, "loss"),
                  value_name = "PERCENT", allow_hyphen_values = true, hide_short_help = $rare,
                  value_parser = probability, conflicts_with = "file",
                  help = "Fraction of packets lost: 1%")]
            loss: Option<String>,
            #[arg(id = concat!($prefix, "dup"), long = concat!($prefix, "dup"),
                  value_name = "PERCENT", allow_hyphen_values = true, hide_short_help = $rare,
                  value_parser = probability, conflicts_with = "file",
                  help = "Fraction of packets duplicated: 1%")]
            duplicate: Option<String>,
            #[arg(id = concat!($prefix, "corrupt"), long = concat!($prefix, "corrupt"),
                  value_name = "PERCENT", allow_hyphen_values = true, hide_short_help = $rare,
                  value_parser = probability, conflicts_with = "file",
                  help = "Fraction of packets with a bit error: 0.1%")]
            corrupt: Option<String>,
            #[arg(id = concat!($prefix, "reorder"), long = concat!($prefix, "reorder"),
                  value_name = "PERCENT", allow_hyphen_values = true, hide_short_help = $rare,
                  value_parser = probability, conflicts_with = "file",
                  help = "Fraction of packets that skip the delay, and so overtake others: 25%")]
            reorder: Option<String>,
            #[arg(id = concat!($prefix, "trace"), long = concat!($prefix, "trace"),
                  value_name = "FILE", hide_short_help = $rare, conflicts_with = "file",
                  help = "Trace of the link: of mahimahi, or CSV `time,rate,delay,loss`",
                  long_help = TRACE)]
            trace: Option<PathBuf>,
            #[arg(id = concat!($prefix, "trace-repeat"), long = concat!($prefix, "trace-repeat"),
                  value_name = "TIME", allow_hyphen_values = true, hide_short_help = true,
                  value_parser = parse_span, requires = concat!($prefix, "trace"),
                  help = "Time after which the CSV trace starts again \
                          [default: its last line stays]")]
            trace_repeat: Option<Span>,
            #[arg(id = concat!($prefix, "preset"), long = concat!($prefix, "preset"),
                  value_name = "NAME", hide_short_help = $rare,
                  value_parser = PossibleValuesParser::new(PRESETS.map(|preset| preset.name)),
                  hide_possible_values = true,
                  conflicts_with = "file",
                  help = "Preset with the values of a known link: lte; `falaj presets` lists them")]
            preset: Option<String>,
            #[arg(id = concat!($prefix, "queue"), long = concat!($prefix, "queue"),
                  visible_alias = concat!($prefix, "limit"), value_name = "LIMIT",
                  allow_hyphen_values = true, hide_short_help = $rare,
                  value_parser = limit, conflicts_with = "file",
                  help = "Limit of the queue: 50p, 64kB \
                          [default: the bytes of 50 ms or of a round trip]")]
            queue: Option<String>,
            #[arg(id = concat!($prefix, "queue-policy"), long = concat!($prefix, "queue-policy"),
                  value_name = "POLICY", hide_short_help = $rare,
                  value_parser = PossibleValuesParser::new(falaj_sched::queues::aqm::NAMES),
                  conflicts_with = "file",
                  help = "Rule for dropping packets from the queue")]
            queue_policy: Option<String>,
        }

        impl $name {
            /// Reads the trace. It is an error if a flag of the same direction sets a key that the
            /// trace sets.
            fn read_trace(&self) -> Result<Option<LinkTrace>> {
                let Some(path) = &self.trace else { return Ok(None) };
                let option = concat!("--", $prefix, "trace");
                let trace = LinkTrace::read(path, self.trace_repeat)
                    .map_err(|error| anyhow!("{option}: {error}"))?;
                for key in trace.sets() {
                    let given = match key {
                        "rate" => &self.rate,
                        "delay" => &self.delay,
                        _ => &self.loss,
                    };
                    if given.is_some() {
                        let file = path.display();
                        bail!("{option}: {file} sets the {key}: leave out --{}{key}", $prefix);
                    }
                }
                Ok(Some(trace))
            }

            /// Returns the given flags as keys of a link.
            fn keys(&self, trace: Option<&LinkTrace>) -> String {
                let all = [
                    ("preset", &self.preset),
                    ("rate", &self.rate),
                    ("delay", &self.delay),
                    ("jitter", &self.jitter),
                    ("loss", &self.loss),
                    ("duplicate", &self.duplicate),
                    ("corrupt", &self.corrupt),
                    ("reorder", &self.reorder),
                ];
                let given = all.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
                let given = given.map(|(key, value)| format!("{key} = \"{}\"\n", value.trim()));
                given.chain(trace.map(LinkTrace::keys)).collect()
            }
        }
    };
}
flags!(
    Both,
    "",
    "Link, both directions (--up-… and --down-… for one direction: see --help-all)",
    rare: false
);
flags!(Up, "up-", "Link, up: from the command, or the near end, to the far end", rare: true);
flags!(Down, "down-", "Link, down: from the far end to the command, or the near end", rare: true);

/// A link described by flags instead of a file.
#[derive(clap::Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    both: Both,
    /// Round-trip time: 80ms; half of it is the propagation delay of each direction
    #[arg(long, value_parser = half, value_name = "TIME", allow_hyphen_values = true,
        conflicts_with_all = ["file", "delay", "up-delay", "down-delay"])]
    rtt: Option<Span>,
    /// MTU, the largest IP packet [default: 1500B; with `bridge`, the MTU of its interfaces]
    #[arg(long, value_parser = mtu, conflicts_with = "file", value_name = "SIZE",
        allow_hyphen_values = true)]
    mtu: Option<String>,
    #[command(flatten)]
    up: Up,
    #[command(flatten)]
    down: Down,
}

impl Flags {
    /// Returns the scenario that the flags describe, and the text of the equivalent scenario file,
    /// from which it is parsed. `mtu`, in bytes, is the default if no flag sets the MTU.
    pub(crate) fn scenario(&self, mtu: u32) -> Result<(Scenario, String)> {
        let traces = Traces {
            both: self.both.read_trace()?,
            ways: [self.up.read_trace()?, self.down.read_trace()?],
        };
        let sets_delay = |trace: &LinkTrace| trace.sets().any(|key| key == "delay");
        if self.rtt.is_some() && traces.all().any(|(_, trace)| sets_delay(trace)) {
            bail!("the trace sets the delay: leave out --rtt");
        }
        let mut text = self.text(mtu, &traces, [None; 2]);
        if traces.all().any(|(_, trace)| sets_delay(trace)) {
            // The default limit of a queue depends on the delay. The limit is that for the trace's
            // longest delay, so that it does not change during the run.
            let link = read(&text)?.0.links.into_iter().next();
            let limits = link.map(|link| {
                let fixed = self.fixed_delays(&traces);
                [(&link.up, 0), (&link.down, 1)].map(|(direction, way)| {
                    let longest = traces.longest_delay(way).filter(|_| !fixed[way])?;
                    Some(limit_for(direction, longest))
                })
            });
            text = self.text(mtu, &traces, limits.unwrap_or_default());
        }
        for (table, trace) in traces.all() {
            text.push_str(&trace.changes(&table));
        }
        let (scenario, mut warnings) = read(&text).map_err(|error| traces.explain(error))?;
        // Both directions may cause the same warning.
        warnings.dedup();
        warnings.iter().for_each(|warning| note!("warning: {warning}"));
        Ok((scenario, text))
    }

    /// For each direction, returns true if its own flags set a constant delay. These flags take
    /// precedence over the trace of both directions.
    fn fixed_delays(&self, traces: &Traces) -> [bool; 2] {
        let flags = [(&self.up.delay, &self.up.preset), (&self.down.delay, &self.down.preset)];
        let mut fixed = [false; 2];
        for ((fixed, (delay, preset)), own) in fixed.iter_mut().zip(flags).zip(&traces.ways) {
            let preset = PRESETS.iter().find(|known| Some(known.name) == preset.as_deref());
            let has_delay = preset.is_some_and(|preset| preset.keys.contains("delay = "));
            let is_traced = own.as_ref().is_some_and(|trace| trace.longest_delay().is_some());
            *fixed = delay.is_some() || has_delay && !is_traced;
        }
        fixed
    }

    /// Returns the text of the scenario without scheduled changes. `limits` are those of queues for
    /// which no flag sets a limit.
    fn text(&self, mtu: u32, traces: &Traces, limits: [Option<Limit>; 2]) -> String {
        let [up, down] = traces.ways.each_ref().map(Option::as_ref);
        let both = traces.both.as_ref();
        let mut text = format!("[link.{SIMPLE}]\n{}", self.both.keys(both));
        if let Some(Span(nanoseconds)) = self.rtt {
            let _ = writeln!(text, "delay = \"{nanoseconds}ns\"");
        }
        let traced = both.is_some_and(|trace| trace.sets().any(|key| key == "rate"));
        if self.both.rate.is_none() && self.both.preset.is_none() && !traced {
            text.push_str("rate = \"unlimited\"\n");
        }
        let mtu = self.mtu.as_ref().map_or_else(|| format!("{mtu}B"), |mtu| mtu.trim().to_owned());
        // Writing to a string never fails.
        let _ = writeln!(text, "mtu = \"{mtu}\"");
        let ways = [
            ("up", self.up.keys(up), &self.up.queue, &self.up.queue_policy),
            ("down", self.down.keys(down), &self.down.queue, &self.down.queue_policy),
        ];
        for (way, keys, _, _) in &ways {
            let _ = write!(text, "[link.{SIMPLE}.{way}]\n{keys}");
        }
        for ((way, _, limit, policy), default) in ways.into_iter().zip(limits) {
            let limit = limit.as_ref().or(self.both.queue.as_ref()).map(|q| q.trim().to_owned());
            let default = || {
                default.map(|limit| match limit {
                    Limit::Bytes(bytes) => format!("{bytes}B"),
                    Limit::Packets(packets) => format!("{packets}p"),
                })
            };
            let policy = policy.as_ref().or(self.both.queue_policy.as_ref());
            let queue = match (limit.or_else(default), policy) {
                (None, None) => String::new(),
                (Some(limit), None) => format!("queue = \"{limit}\"\n"),
                (None, Some(policy)) => format!("queue = {{ policy = \"{policy}\" }}\n"),
                (Some(limit), Some(policy)) => {
                    format!("queue = {{ limit = \"{limit}\", policy = \"{policy}\" }}\n")
                }
            };
            // The default flow; other flows can be inserted before it while the link runs.
            let _ = write!(text, "[link.{SIMPLE}.{way}.flow.all]\nmatch = \"any\"\n{queue}");
        }
        text
    }
}

/// The traces of a link: one for both directions, and one for each direction.
struct Traces {
    both: Option<LinkTrace>,
    ways: [Option<LinkTrace>; 2],
}

impl Traces {
    /// Returns each trace with the name of the scenario's table that it changes.
    fn all(&self) -> impl Iterator<Item = (String, &LinkTrace)> {
        let [up, down] = &self.ways;
        let tables = [("", &self.both), (".up", up), (".down", down)];
        let given = tables.into_iter().filter_map(|(way, trace)| Some((way, trace.as_ref()?)));
        given.map(|(way, trace)| (format!("link.{SIMPLE}{way}"), trace))
    }

    /// Returns the longest delay that a trace sets for the direction with this index.
    fn longest_delay(&self, way: usize) -> Option<Span> {
        let own = self.ways[way].as_ref().and_then(LinkTrace::longest_delay);
        own.or_else(|| self.both.as_ref()?.longest_delay())
    }

    /// Replaces the error for a schedule with too many changes by one that names the options of the
    /// traces. Only traces that repeat after different times make so long a schedule.
    fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let too_many = format!("more than {CHANGES_MAX} changes");
        if self.all().next().is_none() || !error.to_string().starts_with(&too_many) {
            return error;
        }
        anyhow!(
            "the traces make {too_many} before they start again together: write times after \
             --trace-repeat, --up-trace-repeat and --down-trace-repeat that are equal, or \
             multiples of each other"
        )
    }
}

/// Returns the default limit of a queue whose link has this delay.
fn limit_for(direction: &Direction, delay: Span) -> Limit {
    let setup = &direction.pipe.setup;
    default_queue(setup.rate, delay, setup.largest)
}

/// Parses the scenario text generated from the flags. Errors and warnings omit line numbers,
/// because no file exists.
fn read(text: &str) -> Result<(Scenario, Vec<String>)> {
    match falaj_scenario::parse(text, "flags") {
        Ok((scenario, warnings)) => {
            Ok((scenario, warnings.problems().iter().map(in_words).collect()))
        }
        // The last error is the error of the flow, which is the clearest.
        Err(errors) => Err(anyhow!(errors.problems().last().map(in_words).unwrap_or_default())),
    }
}

fn in_words(problem: &Problem) -> String {
    let title = problem.title.strip_prefix("flow `all`: ").unwrap_or(&problem.title);
    if problem.help.is_empty() {
        title.to_owned()
    } else {
        format!("{title}: {}", problem.help.join(", "))
    }
}
