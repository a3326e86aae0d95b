//! `falaj bench path`: the cost of a packet's whole path through the engine, without ports and
//! clock: parsing headers, finding its rule, and queueing, scheduling and departure at its link.

use super::{cpu_nanos, exit, median};
use anyhow::Result;
use falaj_engine::classifier::{Classifier, Match};
use falaj_engine::counted_layer::CountedLayer;
use falaj_engine::header::{Net, Protocol};
use falaj_engine::key::Key;
use falaj_engine::network::{IngressPacket, Network, NetworkSpec, PlacedPipe};
use falaj_engine::pipe::PipeSpec;
use falaj_engine::rules::{RouteRule, RuleAction};
use falaj_sched::contract::params::{FlowSetup, Setup, Values};
use falaj_sched::queues::queue::Limit;
use falaj_sched::units::label::Label;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use falaj_terminal::interrupt::interruptible;
use falaj_terminal::{progress, text};
use serde_json::json;
use std::hint::black_box;
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Arguments of `bench path`.
#[derive(clap::Args)]
pub struct Args {
    /// Packets for each figure, in thousands.
    #[arg(long, default_value_t = 2000,
        value_parser = falaj_terminal::arguments::number::<u64>(1..=u64::MAX))]
    thousands: u64,
    /// Runs for each figure; the median is reported.
    #[arg(long, default_value_t = 5,
        value_parser = falaj_terminal::arguments::number::<u64>(1..=1000))]
    repeat: u64,
    /// Numbers of rules, separated by commas; 0: one link without rules.
    #[arg(long, value_delimiter = ',', default_value = "0,10,10000")]
    rules: Vec<u32>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Length of the IP packets in bytes.
const LENGTH: u32 = 500;
/// The first customer's address; each customer has a rule.
const FIRST: u32 = u32::from_be_bytes([10, 0, 0, 0]);
/// Flows of each link, selected by a packet's destination port.
const FLOWS: u16 = 8;
/// Number of different packets, sent one after the other.
const FRAMES: usize = 4096;

/// Two links of 1 Gbit/s with DRR among eight flows. Rules with prefixes and protocols lead to
/// these links in turn; the last rule matches all other packets.
fn spec(rules: u32) -> NetworkSpec {
    let flows =
        (0..FLOWS).map(|_| FlowSetup::new(Values::default(), Limit::Packets(1000))).collect();
    let setup =
        Setup { rate: Rate::from_mbit(1000), largest: 1514, scheduler: Values::default(), flows };
    let pipe = PipeSpec::new("drr", setup, Span::from_millis(1));
    let ports = u16::MAX / FLOWS + 1;
    let flow = |n: u16| [Match { dport: Some((n * ports, n * ports + (ports - 1))), ..Match::ANY }];
    let flows: Vec<_> = (0..FLOWS).map(flow).collect();
    let classifier = Classifier::new(flows.iter().map(|flow| &flow[..]));
    let place = || PlacedPipe {
        pipe: pipe.clone(),
        classifier: classifier.clone(),
        layer: CountedLayer::L2,
    };
    let rule = |n: u32| {
        let one = Match {
            src: Some(Net::new(IpAddr::V4((FIRST | n << 8).into()), 24 + (n % 9) as u8)),
            protocol: n.is_multiple_of(2).then_some(Protocol::UDP),
            ..Match::ANY
        };
        let to = RuleAction::Links(vec![n % 2]);
        let matches = vec![if n + 1 == rules { Match::ANY } else { one }];
        RouteRule { matches, to, ..RouteRule::all_to(0) }
    };
    NetworkSpec {
        places: (0..4).map(|_| place()).collect(),
        rules: (0..rules).map(rule).collect(),
        seed: 1,
    }
}

/// UDP datagrams of the customers.
fn frames(rules: u32) -> Vec<[u8; 60]> {
    let one = |n: usize| {
        let mut frame = [0; 60];
        (frame[12], frame[14], frame[22], frame[23]) = (0x08, 0x45, 64, Protocol::UDP.0);
        frame[16..18].copy_from_slice(&(LENGTH as u16).to_be_bytes());
        // Customers follow each other in an order that defeats caches.
        let customer = (n as u32).wrapping_mul(2_654_435_761) % rules.max(1);
        frame[26..30].copy_from_slice(&(FIRST | customer << 8).to_be_bytes());
        frame[30..34].copy_from_slice(&[192, 0, 2, 1]);
        frame[36..38].copy_from_slice(&(n as u16).wrapping_mul(40_503).to_be_bytes());
        frame
    };
    (0..FRAMES).map(one).collect()
}

/// Nanoseconds of CPU time per packet: for the whole path, and for parsing headers and finding the
/// rule alone.
fn turn(rules: u32, packets: u64) -> Result<[f64; 2]> {
    let mut network = Network::new(&spec(rules)).map_err(|(_, refused)| refused)?;
    let frames = frames(rules);
    let packet = |n: u64| &frames[n as usize % FRAMES];
    let mut out = Vec::new();
    // Packets arrive slightly slower than all links together can send, so that most find their link
    // busy.
    let gap = Span::from_nanos(if rules == 0 { 4_200 } else { 2_100 });
    let (mut now, before) = (Time::ZERO, cpu_nanos());
    for n in 0..packets {
        now += gap;
        let key = Key::of_ethernet(black_box(packet(n)));
        if let Ok(entry) = network.route(&key, 0, LENGTH, now) {
            network.enter(
                entry,
                &key,
                IngressPacket { handle: n as u32, length: LENGTH, label: &Label::default() },
                now,
                &mut out,
            );
        }
        black_box(&out);
        out.clear();
    }
    let whole = cpu_nanos() - before;
    let before = cpu_nanos();
    for n in 0..packets {
        let key = Key::of_ethernet(black_box(packet(n)));
        let _ = black_box(network.route(&key, 0, LENGTH, now));
    }
    let classified = cpu_nanos() - before;
    Ok([whole, classified].map(|nanos| nanos as f64 / packets.max(1) as f64))
}

/// Nanoseconds of CPU time per packet, the median of `repeat` runs: for the whole path, and for
/// parsing headers and finding the rule alone.
pub(crate) fn cost(rules: u32, packets: u64, repeat: usize) -> Result<[f64; 2]> {
    let turns: Result<Vec<[f64; 2]>> = (0..repeat).map(|_| turn(rules, packets)).collect();
    let turns = turns?;
    Ok([0, 1].map(|figure| median(turns.iter().map(|turn| turn[figure]).collect())))
}

/// Runs `falaj bench path`.
///
/// # Errors
/// The input is invalid, or this machine cannot run the benchmark.
pub fn main(args: &Args) -> Result<ExitCode> {
    let mut results: Vec<(u32, f64, f64)> = Vec::new();
    let bar = progress::long_bar(args.rules.len() as u64 * args.repeat, "classifying");
    let ((), interrupted) = interruptible(|stop| {
        for &rules in &args.rules {
            let mut turns = Vec::new();
            for _ in 0..args.repeat {
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                turns.push(turn(rules, args.thousands * 1000)?);
                bar.inc(1);
            }
            let of = |figure: usize| median(turns.iter().map(|turn| turn[figure]).collect());
            results.push((rules, of(0), of(1)));
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    let exit = exit(interrupted, results.is_empty())?;
    if args.json {
        let one = |(rules, whole, classified): &(u32, f64, f64)| {
            json!({
                "rules": rules, "whole_ns": whole, "classified_ns": classified,
            })
        };
        say!("{}", serde_json::to_string_pretty(&results.iter().map(one).collect::<Vec<_>>())?);
        return Ok(exit);
    }
    say!(
        "nanoseconds of CPU for a packet, one core; {} k packets, median of {}",
        args.thousands,
        args.repeat
    );
    let rows = results.iter().map(|(rules, whole, classified)| {
        vec![rules.to_string(), format!("{whole:.0}"), format!("{classified:.0}")]
    });
    say!("{}", text::table(&["rules", "whole path", "of which headers and rule"], rows));
    Ok(exit)
}
