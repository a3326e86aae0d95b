//! `falaj bench isolation`: adapters that send more than their share of the link, and one adapter
//! that conforms to its envelope. Measures whether each adapter that sends too much gets its
//! guaranteed rate in each second, whether these adapters share the link in proportion to their
//! weights, and whether every packet of the conforming adapter meets its delay bound.
//!
//! Measured on real packets between namespaces, and in simulated time.

use crate::adapter_traffic;
use crate::adapter_traffic::{MeasuredTraffic, TrafficPlan, Window, simulate};
use anyhow::{Context, Result};
use falaj_control::terms::terms;
use falaj_live::event_loop::ViolationCause;
use falaj_plan::standing::{Standing, standings};
use falaj_sched::units::rate::{BIT_NANOS, Rate};
use falaj_sched::units::time::Span;
use falaj_terminal::{arguments, file, text};
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;

/// Arguments of `bench isolation`.
#[derive(clap::Args)]
#[command(after_help = "\
A window counts for an adapter if it was backlogged throughout; its rate is then compared with the
guaranteed rate. Windows in which this host delivered a packet 2 ms late or more are counted separately.

Example:
  falaj bench isolation --duration 10min")]
pub struct Args {
    /// Number of adapters that send more than their share of the link.
    #[arg(long, default_value_t = 16, value_parser = arguments::number::<u8>(1..=64))]
    adapters: u8,
    /// Rate at which each of these adapters sends, as a percentage of its share of the link.
    #[arg(long, default_value_t = 150, value_parser = arguments::number::<u16>(105..=1_000))]
    flood: u16,
    /// Duration of the measurement.
    #[arg(long, value_parser = arguments::parse_duration, default_value = "60s")]
    duration: Span,
    /// Measure in simulated time only.
    #[arg(long)]
    simulated: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Rate of the link in Mbit/s.
const LINK: u64 = 100;
const WINDOW: Span = Span::from_secs(1);
/// If the host delivers a packet this late or later, the window counts as stalled.
const STALL: Span = Span::from_millis(2);
/// Weights and packet sizes of the adapters that send too much, repeated in this order. With 16
/// such adapters, a packet is at most 1/600 of its adapter's guaranteed traffic in a second; with
/// larger packets, windows would differ just because they contain whole packets.
const KINDS: [(u64, &str); 4] =
    [(1, "300B"), (2, "1500B"), (1, "200B-800B"), (2, "600B x 1, 1200B x 1")];
const CALM: &str = "calm";
/// Weight of the conforming adapter.
const CALM_WEIGHT: u64 = 2;

/// The name of adapter `n`; adapter 0 is the conforming one.
fn name(n: usize) -> String {
    if n == 0 { CALM.into() } else { format!("a{n}") }
}

fn weight(n: usize) -> u64 {
    if n == 0 { CALM_WEIGHT } else { KINDS[(n - 1) % KINDS.len()].0 }
}

fn text(args: &Args) -> String {
    let all = 1 + usize::from(args.adapters);
    let sum: u64 = (0..all).map(weight).sum();
    let mut text = format!(
        "[run]\nduration = \"{}ns\"\nseed = 1\n\n[link.wire]\nrate = \"{LINK}mbit\"\nuplink = \"namespace\"\n\
         scheduler = {{ kind = \"wf2q+\" }}\n",
        args.duration.0
    );
    for n in 0..all {
        let share = LINK * 1_000_000 * weight(n) / sum;
        let (rate, size, model, keys) = if n == 0 {
            let envelope =
                format!("envelope = {{ rate = \"{}bit\", burst = \"30kB\" }}\n", share / 3);
            (share / 4, "300B", "cbr", envelope)
        } else {
            let kind = KINDS[(n - 1) % KINDS.len()].1;
            (share * u64::from(args.flood) / 100, kind, "poisson", String::new())
        };
        let name = name(n);
        // The queue is so long that a pause of the sender does not empty it.
        let _ = write!(
            text,
            "\n[link.wire.flow.{name}]\nadapter = \"namespace\"\nweight = {}\nqueue = \"400p\"\n{keys}\n\
             [traffic.{name}]\nflow = \"{name}\"\nmodel = \"{model}\"\nrate = \"{rate}bit\"\nsize \
             = \"{size}\"\n",
            weight(n)
        );
    }
    text
}

/// The worst values over some windows.
struct Worst {
    /// Minimum ratio of the rate in a window to the guaranteed rate.
    rate: f64,
    /// Maximum relative deviation of an adapter's share from the share by weights, among the
    /// adapters that send too much.
    share: f64,
    /// Maximum deviation of an adapter's share from the share by weights, as a fraction of the
    /// traffic of all adapters that send too much.
    of_all: f64,
}

impl Worst {
    const NONE: Worst = Worst { rate: f64::INFINITY, share: 0.0, of_all: 0.0 };

    /// Adds a window with these bytes by adapter; `demanded` returns true if an adapter was
    /// backlogged during the whole window.
    fn take(
        &mut self,
        bytes: &[u64],
        demanded: &dyn Fn(usize) -> bool,
        lasted: Span,
        guaranteed: &[Rate],
    ) {
        let flood = 1..bytes.len();
        for n in flood.clone().filter(|&n| demanded(n)) {
            let sent = bytes[n] as f64 * BIT_NANOS as f64 / lasted.0 as f64;
            self.rate = self.rate.min(sent / guaranteed[n].0 as f64);
        }
        if flood.clone().all(demanded) {
            let all: u64 = bytes[1..].iter().sum();
            let weights: u64 = flood.clone().map(weight).sum();
            for n in flood {
                let due = weight(n) as f64 / weights as f64;
                let off = (bytes[n] as f64 / all as f64 - due).abs();
                (self.share, self.of_all) = (self.share.max(off / due), self.of_all.max(off));
            }
        }
    }
}

fn percent(part: f64) -> String {
    if part.is_finite() { format!("{:.3} %", part * 100.0) } else { text::DASH.into() }
}

/// Runs `falaj bench isolation`.
///
/// # Errors
/// The input is invalid, or this machine cannot run the benchmark.
pub fn main(args: &Args) -> Result<ExitCode> {
    let scenario = file::parse(&text(args), "bench isolation")?;
    let up: Vec<Standing> = standings(&scenario)?.into_iter().next().context("a link")?;
    let guaranteed: Vec<Rate> = up
        .iter()
        .map(|flow| flow.rate.map(|(rate, _)| rate).context("WF2Q+ guarantees a rate"))
        .collect::<Result<_>>()?;
    let bound = up[0].delay.as_ref().context("WF2Q+ guarantees a delay")?.0;
    let homes: Vec<usize> = (0..up.len()).collect();
    let simulated = simulate(&scenario, &homes, WINDOW)?;
    let mut in_simulation = Worst::NONE;
    // The first second is left out, because sources start in it.
    for window in simulated.windows.iter().skip(1) {
        in_simulation.take(window, &|_| true, WINDOW, &guaranteed);
    }
    let live = if args.simulated { None } else { Some(measure(&scenario, &homes)?) };
    let nanos = |span: Span| text::nanos(span.0 as f64);
    let mut told = json!({
        "adapters": args.adapters, "duration_ns": args.duration.0, "bound_ns": bound.0,
        "simulated": {
            "windows": simulated.windows.len().saturating_sub(1), "least_rate": in_simulation.rate,
            "share_error": in_simulation.share, "share_error_of_all": in_simulation.of_all,
            "longest_ns": simulated.longest[0].0,
        },
    });
    if !args.json {
        say!(
            "{} adapters send {} % of their share of {LINK} Mbit/s, one a quarter of its own; \
             WF2Q+, windows of 1 s",
            args.adapters,
            args.flood
        );
        say!(
            "simulated: {} windows; least rate {} of the guaranteed one; shares differ from the \
             weights by {} at most, {} of the link; the calm adapter's longest stay {}, guaranteed \
             {}",
            simulated.windows.len().saturating_sub(1),
            percent(in_simulation.rate),
            percent(in_simulation.share),
            percent(in_simulation.of_all),
            nanos(simulated.longest[0]),
            nanos(bound)
        );
    }
    if let Some(live) = live {
        let MeasuredTraffic { windows, flows, kept } = &live;
        let (mut good, mut stalled) = (Worst::NONE, Worst::NONE);
        let (mut number, mut without, mut kept_to, mut held) = ([0_u64; 2], 0_u64, 0_u64, 0_u64);
        for window in windows.iter().skip(1) {
            let Window { bytes, demanded, lasted, late, .. } = window;
            let is_good = *late < STALL;
            number[usize::from(!is_good)] += 1;
            let worst = if is_good { &mut good } else { &mut stalled };
            worst.take(bytes, &|n| demanded[n], *lasted, &guaranteed);
            without += demanded.iter().skip(1).filter(|demanded| !**demanded).count() as u64;
            if is_good {
                let mut one = Worst::NONE;
                one.take(bytes, &|n| demanded[n], *lasted, &guaranteed);
                held += 1;
                kept_to += u64::from(one.rate >= 0.995);
            }
        }
        let calm = &flows[0];
        let late = kept[0].late;
        let quantile = |q: f64| calm.release_error.quantile(q).unwrap_or_default();
        told["live"] = json!({
            "windows": number[0] + number[1], "windows_without_stall": number[0],
            "windows_kept": kept_to,
            "adapter_windows_without_demand": without,
            "least_rate": good.rate, "share_error": good.share, "share_error_of_all": good.of_all,
            "stalled": { "least_rate": stalled.rate, "share_error": stalled.share },
            "calm": {
                "packets": calm.delay.count(),
                "longest_ns": calm.delay.max().map(|span| span.0),
                "late": ViolationCause::ALL.map(ViolationCause::name).iter().zip(late)
                    .map(|(name, times)| json!({ "cause": name, "packets": times }))
                    .collect::<Vec<_>>(),
                "beyond_envelope": kept[0].beyond,
                "release_p50_ns": quantile(0.5).0, "release_p99_ns": quantile(0.99).0,
                "release_max_ns": calm.release_error.max().map(|span| span.0),
            },
        });
        if !args.json {
            say!(
                "live: {} windows, {} of them without a stall of {} or more ({:.1} %); of these \
                 {kept_to} of {held} within 0.5 % of each guaranteed rate; least rate {} of the \
                 guaranteed one; shares differ from the weights by {} at most, {} of the link; in \
                 {without} an adapter had nothing waiting for a while",
                number[0] + number[1],
                number[0],
                nanos(STALL),
                number[0] as f64 * 100.0 / (number[0] + number[1]).max(1) as f64,
                percent(good.rate),
                percent(good.share),
                percent(good.of_all)
            );
            say!(
                "live, windows with a stall: least rate {} of the guaranteed one, shares differ \
                 from the weights by {} at most",
                percent(stalled.rate),
                percent(stalled.share)
            );
            let causes = ViolationCause::ALL
                .iter()
                .zip(late)
                .map(|(cause, times)| format!("{times} {}", cause.name()));
            say!(
                "the calm adapter: {} packets, longest stay {}, guaranteed {}; stayed longer: {}; \
                 {} beyond the envelope; handed over late by {} (p50), {} (p99), {} (most)",
                calm.delay.count(),
                text::span(calm.delay.max()),
                nanos(bound),
                causes.collect::<Vec<_>>().join(", "),
                kept[0].beyond,
                nanos(quantile(0.5)),
                nanos(quantile(0.99)),
                text::span(calm.release_error.max())
            );
        }
    }
    if args.json {
        say!("{}", serde_json::to_string_pretty(&told)?);
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(scenario: &falaj_scenario::Scenario, homes: &[usize]) -> Result<MeasuredTraffic> {
    let names: Vec<String> = homes.iter().map(|&n| name(n)).collect();
    let adapters: Vec<&str> = names.iter().map(String::as_str).collect();
    let terms = Some(terms(scenario, &standings(scenario)?));
    adapter_traffic::measure(&TrafficPlan {
        scenario,
        homes,
        adapters: &adapters,
        window: WINDOW,
        begins: &|| Ok(()),
        terms,
        guests: None,
    })
}
