//! `falaj plan aggregate`: finds the batch sizes that keep a delay, and
//! their cost.

use anyhow::{Context, Result, bail, ensure};
use falaj_queueing::{
    Ask, Dimensions, Effort, Feasible, How, Line, Measure, Pair, Pairs, Point, Policy, Refused,
    Service, Shape, Stream, Superposed, System, most_that_fit,
};
use falaj_sched::units::time::Span;
use falaj_terminal::arguments::parse_duration;
use falaj_terminal::text;
use falaj_terminal::text::{DASH, nanos};
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
  falaj plan aggregate --rate 50k --per-batch 5us --per-packet 500ns --delay 2ms --fit-vms")]
pub(crate) struct Args {
    /// Packets per second into the driver domain, for all virtual machines together: 800k, 1.5M.
    #[arg(long, value_name = "PACKETS", value_parser = packets, allow_hyphen_values = true)]
    rate: f64,
    /// Packets per second back from all virtual machines together [default: as --rate]; 0 for none.
    #[arg(long, value_name = "PACKETS", value_parser = packets_or_none, allow_hyphen_values = true)]
    back: Option<f64>,
    /// Number of virtual machines; they share the rates evenly.
    #[arg(long, value_name = "N", default_value_t = 1)]
    vms: usize,
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
    /// Evaluate this size alone: model as printed, exact and simulated.
    #[arg(long, value_name = "PACKETS", conflicts_with_all = ["fit_vms", "delay", "percentile"])]
    size: Option<usize>,
    /// The largest batch size to try.
    #[arg(long, value_name = "PACKETS", default_value_t = 1000)]
    max_size: usize,
    /// Find how many virtual machines fit, up to 64, each with its own --rate and --back.
    #[arg(long, requires = "delay", conflicts_with = "vms")]
    fit_vms: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Maximum number of virtual machines tried.
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
                "unknown distribution: exponential, deterministic, or erlang:N such as erlang:4"
                    .into(),
            ),
        },
    }
}

/// Maximum number of packets of a batch: larger ones would take minutes to evaluate.
const SIZE_MAX: usize = 1_000_000;
/// Maximum number of virtual machines: each has a batch of its own in the simulation.
const VMS_MAX: usize = 100_000;

fn seconds(span: Span) -> f64 {
    span.0 as f64 / 1e9
}

fn time(seconds: f64) -> String {
    nanos(seconds * 1e9)
}

impl Args {
    /// Returns the streams of batches, those towards the machines first.
    fn streams(&self, vms: usize, rate: f64, back: f64) -> Vec<Stream> {
        let each = |rate: f64| Stream { count: vms, rate: rate / vms as f64 };
        let there = if self.shared { Stream { count: 1, rate } } else { each(rate) };
        let here = each(back);
        if back == 0.0 {
            vec![there]
        } else if there.rate == here.rate {
            // Both directions have equal rates, so one stream type suffices.
            vec![Stream { count: there.count + here.count, rate: there.rate }]
        } else {
            vec![there, here]
        }
    }

    fn cost(&self) -> Service {
        Service {
            per_batch: seconds(self.per_batch),
            per_packet: self.per_packet.map_or(0.0, seconds),
            shape: self.service,
        }
    }

    fn system(&self, vms: usize, rate: f64, back: f64) -> System {
        System {
            streams: self.streams(vms, rate, back),
            service: self.cost(),
            timeout: self.timeout.map(seconds),
            measure: self.percentile.map_or(Measure::Mean, Measure::Percentile),
        }
    }

    /// Refuses values from which no queue can be built.
    fn check(&self) -> Result<()> {
        ensure!(self.vms > 0, "--vms is 0; it must be 1 or more");
        ensure!(self.size != Some(0), "--size is 0; a batch holds 1 packet or more");
        ensure!(self.max_size > 0, "--max-size is 0; a batch holds 1 packet or more");
        for (option, size) in [("--size", self.size.unwrap_or(1)), ("--max-size", self.max_size)] {
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

    fn measured(&self) -> String {
        self.percentile.map_or("mean".into(), |p| format!("p{}", 100.0 * p))
    }
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    args.check()?;
    let back = args.back.unwrap_or(args.rate);
    let told = if args.fit_vms {
        fit(args, back)
    } else if args.any_timeout {
        pairs(args, &args.system(args.vms, args.rate, back))
    } else if let Some(size) = args.size {
        one(args, &args.system(args.vms, args.rate, back), size)
    } else {
        dimension(args, &args.system(args.vms, args.rate, back))
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
    let (fill, load) = (line.fill()?, line.load()?);
    let service = system.service.mean(fill.size);
    let simulated =
        line.simulate(Ask { batches: 400_000, seed: 1, percentile: 0.99, longer_than: 0.0 })?;
    // The model has neither timeouts nor service distributions other than the exponential.
    let modelled = system.timeout.is_none() && system.service.shape == Shape::Exponential;
    let model = modelled.then(|| Superposed::new(&system.streams, size, service)).transpose()?;
    let printed = model.as_ref().map(Superposed::as_printed).transpose()?;
    let exact = model.as_ref().map(|model| model.exact(Effort::Full)).transpose();
    let (exact, why) = match exact {
        Ok(exact) => (exact, None),
        Err(refused @ Refused::Shape { .. }) => (None, Some(refused.to_string())),
        Err(other) => return Err(other.into()),
    };
    if args.json {
        let half = |e: falaj_traffic::interval::Estimate| e.half_width.map(|h| h * 1e9);
        let value = json!({
            "size": size, "load": load, "mean_size": fill.size, "full": fill.full,
            "fill_ns": fill.wait * 1e9, "service_ns": service * 1e9,
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
                "delay_ns": simulated.delay.mean * 1e9,
                "delay_half_width_ns": half(simulated.delay),
                "delay_p99_ns": simulated.at_percentile.mean * 1e9,
                "batches": simulated.batches,
            },
        });
        say!("{}", serde_json::to_string_pretty(&value)?);
        return Ok(ExitCode::SUCCESS);
    }
    say!(
        "batches of {size}: load {load:.3}, {:.1} packets each, {:.0} % leave full",
        fill.size,
        100.0 * fill.full
    );
    let row = |name: &str, wait: f64, off: String, total: String| {
        vec![name.to_owned(), time(fill.wait), time(wait), off, time(service), total]
    };
    let total = |wait: f64| time(fill.wait + wait + service);
    let mut rows = Vec::new();
    if let Some(p) = printed {
        rows.push(row("as printed", p.wait, DASH.into(), total(p.wait)));
    }
    if let Some(e) = &exact {
        rows.push(row("exact", e.wait, format!("± {}", time(e.error)), total(e.wait)));
    }
    let half = simulated.wait.half_width.map_or(DASH.into(), |h| format!("± {}", time(h)));
    rows.push(row("simulated", simulated.wait.mean, half, time(simulated.delay.mean)));
    say!("{}", text::table(&["", "fill", "wait", "", "service", "delay"], rows));
    say!("simulated: 99 % of the packets within {}", time(simulated.at_percentile.mean));
    if let Some(why) = why {
        say!("no exact answer: {why}");
    } else if !modelled {
        say!("no model: the paper's model has exponential services and full batches only");
    }
    Ok(ExitCode::SUCCESS)
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
    say!("stable from {} packets on; looked at up to {}", stable.0, stable.1);
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
                "INFEASIBLE: a {measured} delay of {} is required, the least is {}: {} more",
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
            "INFEASIBLE: a {measured} delay of {} is required, the least is {}: {} more",
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

fn fit(args: &Args, back: f64) -> Result<ExitCode> {
    let asked = seconds(args.delay.context("--fit-vms needs --delay")?);
    let system = |vms: usize| args.system(vms, args.rate * vms as f64, back * vms as f64);
    let most = most_that_fit(system, asked, args.max_size, MOST_VMS)?;
    if args.json {
        let value = json!({
            "feasible": most.is_some(), "measure": args.measured(), "asked_ns": asked * 1e9,
            "vms": most.map_or(0, |(count, _)| count), "looked_up_to": MOST_VMS,
            "size": most.map(|(_, point)| point_json(point)),
        });
        say!("{}", serde_json::to_string_pretty(&value)?);
    } else if let Some((count, point)) = most {
        let more = if count == MOST_VMS { ", as many as were looked for" } else { "" };
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
