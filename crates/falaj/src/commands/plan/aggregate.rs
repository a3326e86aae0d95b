//! `falaj plan aggregate`: finds the batch sizes that keep a delay, and their cost.

use anyhow::{Context, Result, bail, ensure};
use falaj_queueing::{
    Ask, Dimensions, Effort, Feasible, Fill, How, Line, Measure, Pair, Pairs, Point, Policy,
    Refused, Service, Shape, Simulated, SimulatedStream, Stream, Superposed, System, most_that_fit,
};
use falaj_sched::units::time::Span;
use falaj_terminal::arguments::parse_duration;
use falaj_terminal::text;
use falaj_terminal::text::{DASH, nanos};
use falaj_traffic::interval::Estimate;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Arguments of `plan aggregate`.
#[derive(clap::Args)]
#[command(after_help = "\
Packets arrive at random, with --rate for all virtual machines together, and with the same rate in
the other direction. They travel in batches; a batch leaves when it is full or after its timeout,
and the batches of both directions are transferred one after another. The delay is that of a packet
in one direction: the wait until its batch leaves, the batch's wait for its service, and the
service time.

Service times are exponential, as in the paper, unless --service changes that; if most of the
service is the copying of packets, `deterministic` is more realistic. Exponential services without
a timeout are solved exactly, with an error estimate; all others are simulated, with 95 % intervals.
Equal commands give equal results.

Exit status: 0 the delay can be kept; 1 it cannot, or no size is stable; 2 the input is invalid.

Examples:
  falaj plan aggregate --rate 800k --per-batch 77.9us --delay 300us
  falaj plan aggregate --rate 800k --per-batch 77.9us --size 160
  falaj plan aggregate --rate 800k --vms 4 --per-batch 5.72us --per-packet 533ns --service deterministic \\
    --timeout 200us --percentile 99 --delay 400us
  falaj plan aggregate --rate 50k --per-batch 5us --per-packet 500ns --delay 2ms --fit-vms
  falaj plan aggregate --per-batch 5us --per-packet 500ns --guest 400k,size=62 \\
    --guest 100k,back=20k,size=20,per-batch=9us --guest 50k,size=10")]
pub(crate) struct Args {
    /// Packets per second into the driver domain, for all virtual machines together: 800k, 1.5M.
    #[arg(long, value_name = "PACKETS", value_parser = packets, allow_hyphen_values = true,
        required_unless_present = "guest")]
    rate: Option<f64>,
    /// Packets per second back from all virtual machines together [default: as --rate]; 0 for none.
    #[arg(long, value_name = "PACKETS", value_parser = packets_or_none, allow_hyphen_values = true)]
    back: Option<f64>,
    /// Number of virtual machines; they share the rates evenly.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count)]
    vms: usize,
    /// A virtual machine with its own rate, batches and costs; repeat it for each.
    ///
    /// Replaces --rate. RATE is the number of packets per second towards the machine. Settings may
    /// follow, separated by commas: `back=RATE` [default: as towards it], `size=PACKETS` of a full
    /// batch [default: --size, or the size that is searched], `per-batch=TIME` and
    /// `per-packet=TIME` [default: as the options].
    #[arg(long, value_name = "RATE,KEY=VALUE,…", value_parser = parse_guest,
        conflicts_with_all = ["rate", "back", "vms", "fit_vms", "any_timeout"])]
    guest: Vec<UnequalGuest>,
    /// One batch for packets to all virtual machines, as in the paper, instead of one for each.
    #[arg(long)]
    shared: bool,
    /// Time to transfer a batch.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    per_batch: Span,
    /// Additional time for each packet in it.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    per_packet: Option<Span>,
    /// Distribution of service times: exponential, deterministic, or erlang:N, the sum of N
    /// exponential steps.
    #[arg(long, value_name = "DISTRIBUTION", default_value = "exponential", value_parser = shape)]
    service: Shape,
    /// Longest time from a batch's first packet until it leaves. Without a timeout, only full
    /// batches leave.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    timeout: Option<Span>,
    /// Find the timeout as well: the pair of size and timeout that keeps the delay with the fewest
    /// batches.
    #[arg(long, requires = "delay", conflicts_with_all = ["timeout", "size", "fit_vms"])]
    any_timeout: bool,
    /// The required delay, one way.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    delay: Option<Span>,
    /// Require the delay for this percentage of the packets, instead of for the mean.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    percentile: Option<f64>,
    /// Evaluate only this batch size, by three methods: the printed model, exactly, and by
    /// simulation.
    #[arg(long, value_name = "PACKETS", value_parser = count,
        conflicts_with_all = ["fit_vms", "delay", "percentile"])]
    size: Option<usize>,
    /// The largest batch size to try.
    #[arg(long, value_name = "PACKETS", default_value_t = 1000, value_parser = count)]
    max_size: usize,
    /// Find how many virtual machines fit, up to 64, each with its own --rate and --back.
    #[arg(long, requires = "delay", conflicts_with = "vms")]
    fit_vms: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A virtual machine with its own traffic and batches.
#[derive(Clone, Copy, Debug, PartialEq)]
struct UnequalGuest {
    rate: f64,
    back: Option<f64>,
    size: Option<usize>,
    per_batch: Option<Span>,
    per_packet: Option<Span>,
}

fn parse_guest(text: &str) -> Result<UnequalGuest, String> {
    let mut parts = text.split(',');
    let rate = packets(parts.next().unwrap_or_default())?;
    let mut guest =
        UnequalGuest { rate, back: None, size: None, per_batch: None, per_packet: None };
    for part in parts {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| format!("`{part}` has no value; write KEY=VALUE, as in size=62"))?;
        let of_key = |why: String| format!("`{key}`: {why}");
        match key {
            "back" => guest.back = Some(packets_or_none(value).map_err(of_key)?),
            "size" => guest.size = Some(count(value).map_err(of_key)?),
            "per-batch" => guest.per_batch = Some(parse_duration(value).map_err(of_key)?),
            "per-packet" => guest.per_packet = Some(parse_duration(value).map_err(of_key)?),
            _ => {
                let keys = "back, size, per-batch and per-packet";
                return Err(format!("there is no `{key}`: the keys are {keys}"));
            }
        }
    }
    Ok(guest)
}

/// Parses a whole number, in digits or as `1e6`.
fn count(text: &str) -> Result<usize, String> {
    let no = "not a whole number; write one, as in `160`";
    match text.parse() {
        Ok(number) => Ok(number),
        // Beyond 2^53 not every whole number has an f64.
        Err(_) => match text.parse::<f64>() {
            Ok(value) if value.fract() == 0.0 && (0.0..9e15).contains(&value) => Ok(value as usize),
            _ => Err(no.into()),
        },
    }
}

/// Maximum number of virtual machines that `--fit-vms` tries.
const MOST_VMS: usize = 64;

/// Parses a positive number of packets per second: `800k`, `1.5M`, `80000`.
fn packets(text: &str) -> Result<f64, String> {
    match packets_or_none(text)? {
        0.0 => Err("it must be above zero; write `800k`, for instance".into()),
        rate => Ok(rate),
    }
}

fn packets_or_none(text: &str) -> Result<f64, String> {
    let (number, factor) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => text.strip_suffix('M').map_or((text, 1.0), |number| (number, 1e6)),
    };
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value * factor),
        Ok(_) => Err("it must be finite and not negative".into()),
        Err(_) => Err("not a number of packets a second; write `80000`, `800k` or `1.5M`".into()),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(value) if value > 0.0 && value < 100.0 => Ok(value / 100.0),
        _ => Err("it must be above 0 and below 100, as in 99 or 99.9".into()),
    }
}

fn shape(text: &str) -> Result<Shape, String> {
    match text {
        "exponential" => Ok(Shape::Exponential),
        "deterministic" => Ok(Shape::Deterministic),
        _ => match text.strip_prefix("erlang:").map(str::parse::<usize>) {
            Some(Ok(steps)) if (1..=1000).contains(&steps) => Ok(Shape::Erlang(steps)),
            Some(_) => Err("an Erlang service has 1 to 1000 steps: erlang:4".into()),
            None => Err(
                "unknown distribution; it is one of exponential, deterministic, erlang:N such as erlang:4"
                    .into(),
            ),
        },
    }
}

/// Maximum number of packets of a batch: larger ones would take minutes to evaluate.
const SIZE_MAX: usize = 100_000;
/// Maximum number of unequal virtual machines.
const GUESTS_MAX: usize = 1_000;
/// Maximum of `--vms`: each virtual machine has a batch of its own in the simulation.
const VMS_MAX: usize = 10_000;

fn seconds(span: Span) -> f64 {
    span.0 as f64 / 1e9
}

fn time(seconds: f64) -> String {
    nanos(seconds * 1e9)
}

impl Args {
    /// Returns the streams of batches, first those towards the virtual machines. Also returns the
    /// number of groups of streams, from the first on, whose delays count. With `--guest`, the
    /// values `vms`, `rate` and `back` are not used.
    fn streams(&self, vms: usize, rate: f64, back: f64) -> (Vec<Stream>, usize) {
        if !self.guest.is_empty() {
            return self.streams_of_guests();
        }
        let each = |rate: f64| Stream::new(vms, rate / vms as f64);
        let there = if self.shared { Stream::new(1, rate) } else { each(rate) };
        let here = each(back);
        let streams = if back == 0.0 {
            vec![there]
        } else if there.rate == here.rate {
            // Both directions have equal rates, so one stream type suffices.
            vec![Stream::new(there.count + here.count, there.rate)]
        } else {
            vec![there, here]
        };
        (streams, 1)
    }

    fn streams_of_guests(&self) -> (Vec<Stream>, usize) {
        let stream = |guest: &UnequalGuest, rate: f64| {
            let (batch, packet) = (guest.per_batch, guest.per_packet);
            let service = (batch.is_some() || packet.is_some()).then(|| {
                let cost = self.cost();
                Service {
                    per_batch: batch.map_or(cost.per_batch, seconds),
                    per_packet: packet.map_or(cost.per_packet, seconds),
                    shape: cost.shape,
                }
            });
            Stream { size: guest.size, service, ..Stream::new(1, rate) }
        };
        let mut streams: Vec<Stream> = if self.shared {
            vec![Stream::new(1, self.guest.iter().map(|guest| guest.rate).sum())]
        } else {
            self.guest.iter().map(|guest| stream(guest, guest.rate)).collect()
        };
        let measured = streams.len();
        let back = self.guest.iter().map(|guest| stream(guest, guest.back.unwrap_or(guest.rate)));
        streams.extend(back.filter(|stream| stream.rate > 0.0));
        (streams, measured)
    }

    /// Returns the name of each group of streams.
    fn names(&self, streams: usize) -> Vec<String> {
        let numbered = |guests: &[UnequalGuest], way: &str| {
            let of = |n: usize| format!("{way} guest {}", n + 1);
            let sends = |guest: &UnequalGuest| way == "to" || guest.back != Some(0.0);
            let numbers = (0..guests.len()).filter(|&n| sends(&guests[n]));
            numbers.map(of).collect::<Vec<_>>()
        };
        if self.guest.is_empty() {
            let names: &[&str] = match (streams, self.back) {
                (2.., _) => &["to the guests", "from the guests"],
                (_, Some(0.0)) => &["to the guests"],
                _ => &["each way"],
            };
            return names.iter().map(|&name| name.to_owned()).collect();
        }
        let there =
            if self.shared { vec!["to all guests".into()] } else { numbered(&self.guest, "to") };
        there.into_iter().chain(numbered(&self.guest, "from")).collect()
    }

    fn cost(&self) -> Service {
        Service {
            per_batch: seconds(self.per_batch),
            per_packet: self.per_packet.map_or(0.0, seconds),
            shape: self.service,
        }
    }

    fn system(&self, vms: usize, rate: f64, back: f64) -> System {
        let (streams, measured) = self.streams(vms, rate, back);
        System {
            streams,
            measured,
            service: self.cost(),
            timeout: self.timeout.map(seconds),
            measure: self.percentile.map_or(Measure::Mean, Measure::Percentile),
        }
    }

    /// Refuses values from which no queue can be built, values that would take too long, and a
    /// delay if no size is left to be found.
    fn check(&self) -> Result<()> {
        ensure!(self.vms > 0, "--vms is 0; it must be 1 or more");
        let own = self.guest.iter().filter_map(|guest| guest.size);
        let own = own.map(|size| ("the size of a --guest", size));
        let sizes = [("--size", self.size.unwrap_or(1)), ("--max-size", self.max_size)];
        for (option, size) in sizes.into_iter().chain(own) {
            ensure!(size > 0, "{option} is 0; a batch holds 1 packet or more");
            ensure!(
                size <= SIZE_MAX,
                "{option} is {size}; a batch holds at most {SIZE_MAX} packets"
            );
        }
        ensure!(
            self.vms <= VMS_MAX,
            "--vms is {}; at most {VMS_MAX} machines are simulated",
            self.vms
        );
        ensure!(
            self.guest.len() <= GUESTS_MAX,
            "--guest is given {} times; at most {GUESTS_MAX} unequal machines are simulated",
            self.guest.len()
        );
        let all_sized = self.all_sized();
        ensure!(
            !(all_sized && self.delay.is_some()),
            "each --guest has its size, so there is none to find: leave out --delay or a size"
        );
        let least = self.cost().mean(1.0);
        if let Some(timeout) = self.timeout.map(seconds)
            && timeout < least
        {
            bail!(
                "--timeout is {}, shorter than a batch of one packet takes to cross ({}): it must be at least that",
                time(timeout),
                time(least)
            );
        }
        Ok(())
    }

    /// Returns true if every --guest has its batch size, and each virtual machine its own batches.
    fn all_sized(&self) -> bool {
        let of_guests = !self.guest.is_empty() && self.guest.iter().all(|g| g.size.is_some());
        of_guests && !self.shared
    }

    fn measured(&self) -> String {
        self.percentile.map_or("mean".into(), |p| format!("p{}", 100.0 * p))
    }
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    args.check()?;
    let rate = args.rate.unwrap_or(0.0);
    let back = args.back.unwrap_or(rate);
    let told = if args.fit_vms {
        fit(args, rate, back)
    } else if args.any_timeout {
        pairs(args, &args.system(args.vms, rate, back))
    } else if let Some(size) = args.size.or(args.all_sized().then_some(1)) {
        one(args, &args.system(args.vms, rate, back), size)
    } else {
        dimension(args, &args.system(args.vms, rate, back))
    };
    match told {
        // "No stable size" is a result, not an error.
        Err(error) if matches!(error.downcast_ref(), Some(Refused::Unstable { .. })) => {
            if args.json {
                say!(
                    "{}",
                    serde_json::to_string_pretty(
                        &json!({ "feasible": false, "why": format!("{error:#}") })
                    )?
                );
            } else {
                say!("{error:#}");
            }
            Ok(ExitCode::from(1))
        }
        told => told,
    }
}

/// Evaluates one batch size by all three methods: model as printed, exact, simulated.
fn one(args: &Args, system: &System, size: usize) -> Result<ExitCode> {
    let policy = Policy::new(size, system.timeout)?;
    let line = Line::new(&system.streams, policy, system.service)?;
    let (fill, load) = (line.fill(0)?, line.load()?);
    let simulated =
        line.simulate(Ask { batches: 400_000, seed: 1, percentile: 0.99, longer_than: 0.0 })?;
    // The model has no timeouts, and only exponential service times.
    let modelled = match line.common_service()? {
        Some((Shape::Exponential, mean)) if system.timeout.is_none() => Some(mean),
        _ => None,
    };
    let model = modelled.map(|mean| Superposed::new(&system.streams, size, mean)).transpose()?;
    let printed = model.as_ref().map(Superposed::as_printed).transpose()?;
    let exact = model.as_ref().map(|model| model.exact(Effort::Full)).transpose();
    let (exact, why) = match exact {
        Ok(exact) => (exact, None),
        Err(refused @ Refused::Shape { .. }) => (None, Some(refused.to_string())),
        Err(other) => return Err(other.into()),
    };
    let streams = evaluated(args, &line, &simulated)?;
    let half = |e: Estimate| e.half_width.map(|h| h * 1e9);
    if args.json {
        let first = simulated.streams[0].context("the first stream sent no batch")?;
        let value = json!({
            "size": args.size, "load": load, "mean_size": fill.size, "full": fill.full,
            "fill_ns": fill.wait * 1e9, "service_ns": line.service(0)? * 1e9,
            "printed": printed.map(|p| json!({ "wait_ns": p.wait * 1e9, "decay_per_s": p.decay })),
            "exact": exact.as_ref().map(|e| json!({
                "wait_ns": e.wait * 1e9, "error_ns": e.error * 1e9,
                "solved": e.from.iter().map(|&(size, wait)| json!({
                    "size": size, "wait_ns": wait * 1e9,
                })).collect::<Vec<_>>(),
            })),
            "decay_per_s": model.as_ref().map(Superposed::decay),
            "simulated": {
                "wait_ns": simulated.wait.mean * 1e9, "wait_half_width_ns": half(simulated.wait),
                "delay_ns": first.delay.mean * 1e9,
                "delay_half_width_ns": half(first.delay),
                "delay_p99_ns": first.at_percentile.mean * 1e9,
                "batches": simulated.batches,
            },
            "streams": streams.iter().map(|stream| json!({
                "stream": stream.name, "rate_per_s": stream.rate, "mean_size": stream.fill.size,
                "fill_ns": stream.fill.wait * 1e9, "service_ns": stream.service * 1e9,
                "wait_ns": stream.simulated.map(|s| s.wait.mean * 1e9),
                "delay_ns": stream.simulated.map(|s| s.delay.mean * 1e9),
                "delay_half_width_ns": stream.simulated.and_then(|s| half(s.delay)),
                "delay_p99_ns": stream.simulated.map(|s| s.at_percentile.mean * 1e9),
            })).collect::<Vec<_>>(),
        });
        say!("{}", serde_json::to_string_pretty(&value)?);
        return Ok(ExitCode::SUCCESS);
    }
    let off = |e: Estimate| e.half_width.map_or(DASH.into(), |h| format!("± {}", time(h)));
    let mut waits = Vec::new();
    if let Some(p) = printed {
        waits.push(("as printed", p.wait, DASH.into()));
    }
    if let Some(e) = &exact {
        waits.push(("exact", e.wait, format!("± {}", time(e.error))));
    }
    waits.push(("simulated", simulated.wait.mean, off(simulated.wait)));
    if args.guest.is_empty() {
        say!(
            "batches of {size}: load {load:.3}, {:.1} packets each, {:.0} % leave full",
            fill.size,
            100.0 * fill.full
        );
        let first = simulated.streams[0].context("the first stream sent no batch")?;
        let service = line.service(0)?;
        let rows = waits.into_iter().map(|(name, wait, off)| {
            let computed = fill.wait + wait + service;
            let total = if name == "simulated" { first.delay.mean } else { computed };
            vec![name.into(), time(fill.wait), time(wait), off, time(service), time(total)]
        });
        say!("{}", text::table(&["", "fill", "wait", "", "service", "delay"], rows));
        say!("simulated: 99 % of the packets within {}", time(first.at_percentile.mean));
    } else {
        say!("load {load:.3}, {:.1} k batches/s", line.batch_rate()? / 1e3);
        let rows = waits.into_iter().map(|(name, wait, off)| vec![name.into(), time(wait), off]);
        say!("{}", text::table(&["", "mean wait", ""], rows));
        let header =
            ["simulated", "rate", "packets", "fill", "wait", "service", "delay", "", "99 %"];
        say!("{}", text::table(&header, streams.iter().map(|stream| stream.row(off))));
    }
    if let Some(why) = why {
        say!("no exact answer: {why}");
    } else if modelled.is_none() {
        say!(
            "no model: the paper's model has only full batches, and one exponential service time for all"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Results of a group of streams.
struct EvaluatedStream {
    name: String,
    /// Packets per second of each stream.
    rate: f64,
    fill: Fill,
    /// Mean service time of its batches, in seconds.
    service: f64,
    simulated: Option<SimulatedStream>,
}

impl EvaluatedStream {
    fn row(&self, off: impl Fn(Estimate) -> String) -> Vec<String> {
        let of = |of: fn(&SimulatedStream) -> Estimate| self.simulated.as_ref().map(of);
        let mean = |e: Option<Estimate>| e.map_or(DASH.into(), |e| time(e.mean));
        let delay = of(|s| s.delay);
        vec![
            self.name.clone(),
            format!("{:.1} k/s", self.rate / 1e3),
            format!("{:.1}", self.fill.size),
            time(self.fill.wait),
            mean(of(|s| s.wait)),
            time(self.service),
            mean(delay),
            delay.map_or(DASH.into(), off),
            mean(of(|s| s.at_percentile)),
        ]
    }
}

fn evaluated(args: &Args, line: &Line, simulated: &Simulated) -> Result<Vec<EvaluatedStream>> {
    let names = args.names(line.streams().len());
    let each = names.into_iter().zip(line.streams()).enumerate();
    let stream = |(group, (name, stream)): (usize, (String, &Stream))| {
        Ok(EvaluatedStream {
            name,
            rate: stream.rate,
            fill: line.fill(group)?,
            service: line.service(group)?,
            simulated: simulated.streams[group],
        })
    };
    each.map(stream).collect()
}

fn point_json(p: Point) -> Value {
    json!({
        "size": p.size, "load": p.load, "fill_ns": p.fill * 1e9, "wait_ns": p.wait * 1e9,
        "service_ns": p.service * 1e9, "delay_ns": p.delay * 1e9, "error_ns": p.error * 1e9,
        "how": if p.how == How::Exact { "exact" } else { "simulated" },
        "batches_per_s": p.batches,
    })
}

fn point_row(what: &str, p: Point) -> Vec<String> {
    let how = if p.how == How::Exact { "exact" } else { "simulated" };
    vec![
        what.to_owned(),
        p.size.to_string(),
        format!("{:.3}", p.load),
        time(p.fill),
        time(p.wait),
        time(p.service),
        time(p.delay),
        format!("± {}", time(p.error)),
        format!("{:.1} k/s", p.batches / 1e3),
        how.to_owned(),
    ]
}

const HEADER: [&str; 10] =
    ["", "size", "load", "fill", "wait", "service", "delay", "", "batches", ""];

fn dimension(args: &Args, system: &System) -> Result<ExitCode> {
    let asked = args.delay.map(seconds);
    let Dimensions { stable, curve, least, feasible } = system
        .dimensions(asked, args.max_size)
        .with_context(|| format!("with batches of {} packets, the largest size", args.max_size))?;
    let kept = asked.is_none() || !feasible.is_empty();
    let exit = ExitCode::from(u8::from(!kept));
    if args.json {
        let value = json!({
            "feasible": kept, "measure": args.measured(), "asked_ns": asked.map(|a| a * 1e9),
            "stable": { "from": stable.0, "to": stable.1 },
            "least": point_json(least),
            "sizes": feasible.iter().map(|f| json!({
                "from": point_json(f.from), "to": point_json(f.to), "open": f.open,
            })).collect::<Vec<_>>(),
            "missed_by_ns": asked.filter(|_| !kept).map(|asked| (least.delay - asked) * 1e9),
            "curve": curve.into_iter().map(point_json).collect::<Vec<_>>(),
        });
        say!("{}", serde_json::to_string_pretty(&value)?);
        return Ok(exit);
    }
    say!("stable from {} packets on; searched up to {}", stable.0, stable.1);
    let mut rows = vec![point_row("least delay", least)];
    for f in &feasible {
        rows.push(point_row("smallest", f.from));
        rows.push(point_row("largest", f.to));
    }
    say!("{}", text::table(&HEADER, rows));
    if let Some(asked) = asked {
        let measured = args.measured();
        match feasible.last() {
            None => say!(
                "INFEASIBLE: a {measured} delay of {} is required; the least possible is {}, which \
                 is {} more",
                time(asked),
                time(least.delay),
                time(least.delay - asked)
            ),
            Some(best) => told(&measured, asked, &feasible, best),
        }
    }
    Ok(exit)
}

/// Finds the pair of batch size and timeout.
fn pairs(args: &Args, system: &System) -> Result<ExitCode> {
    let asked = seconds(args.delay.context("--any-timeout needs --delay")?);
    let Pairs { best, least } = system.pairs(asked, args.max_size)?;
    let measured = args.measured();
    let exit = ExitCode::from(u8::from(best.is_none()));
    if args.json {
        let pair = |pair: Pair| {
            let mut value = point_json(pair.point);
            value["timeout_ns"] = json!(pair.timeout * 1e9);
            value
        };
        let value = json!({
            "feasible": best.is_some(), "measure": measured, "asked_ns": asked * 1e9,
            "best": best.map(pair), "least": pair(least),
            "missed_by_ns": best.is_none().then_some((least.point.delay - asked) * 1e9),
        });
        say!("{}", serde_json::to_string_pretty(&value)?);
        return Ok(exit);
    }
    let row =
        |what: &str, pair: Pair| [point_row(what, pair.point), vec![time(pair.timeout)]].concat();
    let rows = std::iter::once(row("least delay", least))
        .chain(best.map(|best| row("fewest batches", best)));
    say!("{}", text::table(&[&HEADER[..], &["timeout"]].concat(), rows));
    match best {
        Some(best) => say!(
            "a {measured} delay of {} is kept with batches of {} packets that leave after {}",
            time(asked),
            best.point.size,
            time(best.timeout)
        ),
        None => say!(
            "INFEASIBLE: a {measured} delay of {} is required; the least possible is {}, which is \
             {} more",
            time(asked),
            time(least.point.delay),
            time(least.point.delay - asked)
        ),
    }
    Ok(exit)
}

/// Prints the sizes that keep the delay, the recommended size, and its timeout.
fn told(measured: &str, asked: f64, feasible: &[Feasible], best: &Feasible) {
    let ranges: Vec<String> = feasible
        .iter()
        .map(|f| {
            format!("{} to {}{}", f.from.size, f.to.size, if f.open { " and more" } else { "" })
        })
        .collect();
    say!(
        "a {measured} delay of {} is kept with batches of {} packets",
        time(asked),
        ranges.join(", and of ")
    );
    say!("the fewest batches: {} packets", best.to.size);
    // A packet that arrives alone waits for the whole timeout, then for its service.
    let timeout = asked - best.to.service;
    if timeout > 0.0 {
        say!("at low load a packet waits for the timeout: {} keeps the delay there", time(timeout));
    }
}

fn fit(args: &Args, rate: f64, back: f64) -> Result<ExitCode> {
    let asked = seconds(args.delay.context("--fit-vms needs --delay")?);
    let system = |vms: usize| args.system(vms, rate * vms as f64, back * vms as f64);
    let most = most_that_fit(system, asked, args.max_size, MOST_VMS)?;
    if args.json {
        let value = json!({
            "feasible": most.is_some(), "measure": args.measured(), "asked_ns": asked * 1e9,
            "vms": most.map_or(0, |(count, _)| count), "looked_up_to": MOST_VMS,
            "size": most.map(|(_, point)| point_json(point)),
        });
        say!("{}", serde_json::to_string_pretty(&value)?);
    } else if let Some((count, point)) = most {
        let more = if count == MOST_VMS { ", the largest number that was tried" } else { "" };
        say!(
            "{count} virtual machines fit{more}: a {} delay of {} is kept",
            args.measured(),
            time(asked)
        );
        say!("{}", text::table(&HEADER, [point_row("largest", point)]));
    } else {
        say!(
            "INFEASIBLE: a {} delay of {} cannot be kept even with one virtual machine",
            args.measured(),
            time(asked)
        );
    }
    Ok(ExitCode::from(u8::from(most.is_none())))
}
