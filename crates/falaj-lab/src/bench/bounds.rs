//! `falaj bench bounds`: how close delays come to their guaranteed bounds. A search attacks
//! randomly drawn links: it changes the arrivals repeatedly, to increase the delay.

use anyhow::{Context, Result, ensure};
use falaj_engine::chance::Chance;
use falaj_engine::delay_adversary::{Arrival, Attack, Witness};
use falaj_plan::plan;
use falaj_scenario::Towards;
use falaj_sched::contract::manifest::Manifest;
use falaj_sched::contract::params::{FlowSetup, Kind, Param, Setup, Value, Values};
use falaj_sched::queues::queue::Limit;
use falaj_sched::registry::{ENTRIES, entry};
use falaj_sched::units::probability::Probability;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use falaj_terminal::{progress, say, text};
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `bench bounds`.
#[derive(clap::Args, Clone)]
#[command(after_help = "\
For each discipline, links are drawn at random: two to five flows, their parameters and queues, and
in every other link envelopes to which all flows conform. Each link is attacked: instants, sizes
and numbers of packets are changed again and again; a change is kept if the longest delay does not
become a smaller fraction of its bound. A ratio above 1 is a violated bound.

Exit status: 0 no bound was violated; 1 one was; 2 the input is invalid.

Examples:
  falaj bench bounds
  falaj bench bounds --alg drr,virtual-links --links 100 --effort 5000
  falaj bench bounds --alg drr++ --witness worst && falaj sim worst/drr++.toml")]
pub struct Args {
    /// Disciplines, separated by commas [default: all that guarantee a delay].
    #[arg(long, visible_alias = "discipline", value_delimiter = ',', value_name = "KIND")]
    alg: Vec<String>,
    /// Number of random links for each discipline, half of them with envelopes.
    #[arg(long, default_value_t = 40,
        value_parser = falaj_terminal::arguments::number::<u64>(2..=1 << 20))]
    links: u64,
    /// Number of arrival sequences tried for each link.
    #[arg(long, default_value_t = 2_000,
        value_parser = falaj_terminal::arguments::number::<u64>(1..=1 << 32))]
    effort: u64,
    /// Seed of random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the worst arrivals of each discipline to this directory, as scenarios for `falaj sim`:
    /// KIND.toml without envelopes, KIND-envelopes.toml with envelopes.
    #[arg(long, value_name = "DIR")]
    witness: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The worst results for a discipline.
struct Attacked {
    kind: &'static str,
    /// The worst link without envelopes, and the worst link with envelopes of all flows.
    worst: [Option<WorstLink>; 2],
}

/// The link on which a delay came closest to its bound.
struct WorstLink {
    /// Number of links that were attacked.
    links: u64,
    scenario: String,
    witness: Witness,
    /// The bound to which a delay came closest, and the formula of this bound.
    bound: (Span, String),
}

/// Names of the two cases in JSON, and suffixes of their file names.
const CASES: [(&str, &str); 2] = [("plain", ""), ("envelopes", "-envelopes")];
/// Size of the smallest packet of an attack, in bytes. It is the smallest that a scenario can send,
/// because the worst arrivals are written as a scenario.
const SMALLEST: u32 = 74;
/// Largest number of draws of a link. Links are drawn until the discipline accepts one.
const DRAWS: u64 = 60;

/// Attacks the bounds, and prints the results.
pub fn main(args: &Args) -> Result<ExitCode> {
    let entries = if args.alg.is_empty() {
        ENTRIES.iter().filter(|entry| !entry.guarantee.starts_with("nothing")).collect()
    } else {
        let known = |kind: &String| {
            entry(kind).with_context(|| format!("no discipline is called `{kind}`"))
        };
        args.alg.iter().map(known).collect::<Result<Vec<&Manifest>>>()?
    };
    ensure!(!entries.is_empty(), "there is no discipline to attack");
    let bar = progress::long_bar(entries.len() as u64 * args.links, "attacking");
    let mut rows = Vec::new();
    for entry in entries {
        rows.push(attacked(entry, args, || bar.inc(1)));
    }
    bar.finish_and_clear();
    if let Some(directory) = &args.witness {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        for row in &rows {
            for (worst, (_, ending)) in row.worst.iter().zip(CASES) {
                let Some(worst) = worst else { continue };
                let path = directory.join(format!("{}{ending}.toml", row.kind));
                std::fs::write(&path, worst.replayed())
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
    }
    match args.json {
        true => {
            say!(
                "{}",
                serde_json::to_string_pretty(&rows.iter().map(to_json).collect::<Vec<_>>())?
            );
        }
        false => print(&rows),
    }
    let broken = rows.iter().flat_map(|row| &row.worst).flatten();
    let broken = broken.into_iter().any(|worst| worst.witness.ratio > 1.0);
    Ok(if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Attacks links of one discipline.
fn attacked(entry: &'static Manifest, args: &Args, mut tried: impl FnMut()) -> Attacked {
    let mut worst: [Option<WorstLink>; 2] = [None, None];
    for link in 0..args.links {
        let case = usize::from(link % 2 == 1);
        let mut draws = LinkDraws { chance: Chance::new(args.seed, link, 0), drawn: 0 };
        let found = (0..DRAWS).find_map(|_| {
            let text = draws.scenario(entry, case == 1);
            attack(&text, args.seed ^ link, args.effort)
        });
        tried();
        let Some(found) = found else { continue };
        let links = worst[case].as_ref().map_or(0, |worst| worst.links) + 1;
        let before = worst[case].take().filter(|worst| worst.witness.ratio >= found.witness.ratio);
        worst[case] = Some(WorstLink { links, ..before.unwrap_or(found) });
    }
    Attacked { kind: entry.kind, worst }
}

/// Attacks the first link of a scenario; `None` if it is refused, or guarantees no delay.
fn attack(text: &str, seed: u64, effort: u64) -> Option<WorstLink> {
    let (scenario, _) = falaj_scenario::parse(text, "drawn.toml").ok()?;
    let ways = plan(&scenario).ok()?;
    let way = ways.iter().find(|way| way.towards == Towards::Up)?;
    let guaranteed = way.flows.iter().map(|flow| flow.guaranteed());
    let bounds: Vec<Option<Span>> = guaranteed.map(|bound| Some(bound?.delay)).collect();
    let buckets = |flow: &falaj_scenario::Flow| {
        flow.envelope.iter().map(|bucket| (bucket.rate, bucket.burst)).collect()
    };
    let envelopes: Vec<Vec<(Rate, u64)>> = way.direction.flows.iter().map(buckets).collect();
    bounds.iter().flatten().next()?;
    let spec = &way.direction.pipe;
    let attack = Attack { spec, envelopes: &envelopes, bounds: &bounds, smallest: SMALLEST };
    let witness = attack.search(seed, effort)?;
    let bound = way.flows[witness.flow].guaranteed()?;
    let bound = (bound.delay, bound.formula.clone());
    Some(WorstLink { links: 0, scenario: text.to_owned(), witness, bound })
}

/// Draws scenarios of one link.
struct LinkDraws {
    chance: Chance,
    drawn: u64,
}

impl LinkDraws {
    /// A number from `low` to `high`, both included.
    fn from(&mut self, low: u64, high: u64) -> u64 {
        self.drawn += 1;
        low + self.chance.draw(self.drawn) % (high.max(low) - low + 1)
    }

    /// A scenario of one link with this discipline.
    fn scenario(&mut self, entry: &'static Manifest, envelopes: bool) -> String {
        let (largest, n) = (1_500, self.from(2, 5));
        // At the second rate, the transmission time of a byte is not a whole number of nanoseconds.
        let rate = Rate([1_000_000_000, 987_654_321][self.from(0, 1) as usize]);
        let room = if envelopes { 1_000 } else { self.from(1, 12) };
        let flow = FlowSetup::new(Values::default(), Limit::Packets(room as u32));
        let flows = vec![flow; n as usize];
        let mut setup = Setup { rate, largest, scheduler: Values::default(), flows };
        setup.scheduler = self.values(entry, entry.scheduler, &setup);
        for f in 0..setup.flows.len() {
            setup.flows[f].values = self.values(entry, entry.flow, &setup);
        }
        (entry.draw.fit)(&mut setup, &mut |low, high| self.from(low, high));
        let mut text = format!(
            "[link.l]\nrate = \"{rate}\"\nmtu = \"1486B\"\nscheduler = {{ kind = \"{}\"{} }}\n",
            entry.kind,
            keys(&setup.scheduler, ", ", ""),
        );
        for (f, flow) in setup.flows.iter().enumerate() {
            let own = keys(&flow.values, "", "\n");
            let last = f + 1 == setup.flows.len();
            let matched = if last { "any".into() } else { format!("udp dport {}", f + 1) };
            let _ = write!(text, "[link.l.flow.f{f}]\nmatch = \"{matched}\"\n{own}");
            if entry.flow.iter().all(|param| param.name != "queue") {
                let _ = writeln!(text, "queue = \"{room}p\"");
            }
            if envelopes {
                let share = Rate(rate.0 / n * self.from(5, 95) / 100);
                let burst = u64::from(largest) * self.from(1, 4) + self.from(0, 700);
                let _ = writeln!(text, "envelope = {{ rate = \"{share}\", burst = \"{burst}B\" }}");
            }
        }
        text
    }

    fn values(&mut self, entry: &Manifest, params: &[Param], setup: &Setup) -> Values {
        let mut all = Values::default();
        for param in params {
            if param.default.is_none() || self.from(0, 2) > 0 {
                all.set(param.name, self.value(entry, param, setup));
            }
        }
        all
    }

    fn value(&mut self, entry: &Manifest, param: &Param, setup: &Setup) -> Value {
        if let Some((_, draw)) = entry.draw.values.iter().find(|(name, _)| *name == param.name) {
            return draw(setup, &mut |low, high| self.from(low, high));
        }
        let (n, largest) = (setup.flows.len() as u64, u64::from(setup.largest));
        let (share, packet) = (setup.rate.0 / n, setup.largest_airtime().0);
        match param.kind {
            Kind::Rate => Value::Rate(Rate(self.from(share / 10, share))),
            Kind::Span => Value::Span(Span(self.from(packet, 60 * packet))),
            Kind::Bytes => Value::Bytes(self.from(largest, 8 * largest)),
            Kind::Limit => Value::Limit(Limit::Packets(self.from(1, 12) as u32)),
            Kind::Count { min, max } => Value::Count(self.from(min, max.min(min + 9))),
            Kind::Probability => Value::Probability(Probability::of(self.from(0, 20), 20)),
            Kind::Choice(words) => {
                Value::Choice(words[self.from(0, words.len() as u64 - 1) as usize])
            }
        }
    }
}

/// Keys with their values in the syntax of a scenario, each between the texts `before` and
/// `behind`.
fn keys(values: &Values, before: &str, behind: &str) -> String {
    let key = |(name, value): (&str, Value)| {
        let value = match value {
            Value::Bytes(bytes) => format!("\"{bytes}B\""),
            Value::Count(count) => count.to_string(),
            Value::Policy(policy) => format!("\"{}\"", policy.name()),
            Value::Span(span) => format!("\"{span}\""),
            Value::Rate(rate) => format!("\"{rate}\""),
            Value::Limit(limit) => format!("\"{limit}\""),
            Value::Probability(probability) => format!("\"{probability}\""),
            Value::Choice(word) => format!("\"{word}\""),
        };
        format!("{before}{name} = {value}{behind}")
    };
    values.iter().map(key).collect()
}

impl WorstLink {
    /// The scenario with a source for each packet, in the order of arrival.
    fn replayed(&self) -> String {
        let Witness { arrivals, flow, delay, ratio } = &self.witness;
        let mut text = format!(
            "# A packet of flow f{flow} waits {delay}, {ratio:.4} of the bound {}:\n# {}\n{}",
            self.bound.0, self.bound.1, self.scenario
        );
        for (n, Arrival { at, flow, bytes }) in arrivals.iter().enumerate() {
            let (start, stop) = (*at - Time::ZERO, Span(at.0 + 1));
            let _ = write!(
                text,
                "[traffic.p{n:04}]\nflow = \"f{}\"\nmodel = \"cbr\"\nrate = \"8kbit\"\n\
                 size = \"{bytes}B\"\nstart = \"{start}\"\nstop = \"{stop}\"\n",
                flow.0
            );
        }
        let last = arrivals.last().map_or(0, |last| last.at.0);
        let _ = writeln!(text, "[run]\nduration = \"{}\"", Span(last + 1_000_000_000));
        text
    }
}

fn to_json(row: &Attacked) -> serde_json::Value {
    let mut out = json!({ "discipline": row.kind });
    for (worst, (case, _)) in row.worst.iter().zip(CASES) {
        out[case] = worst.as_ref().map_or(serde_json::Value::Null, |worst| {
            json!({
                "links": worst.links, "ratio": worst.witness.ratio, "flow": worst.witness.flow,
                "delay_ns": worst.witness.delay.0, "bound_ns": worst.bound.0.0,
                "formula": worst.bound.1, "scenario": worst.scenario,
                "arrivals": worst.witness.arrivals.iter().map(|a| json!({
                    "at_ns": a.at.0, "flow": a.flow.0, "bytes": a.bytes,
                })).collect::<Vec<_>>(),
            })
        });
    }
    out
}

fn print(rows: &[Attacked]) {
    let cells = |row: &Attacked| {
        let mut cells = vec![row.kind.to_owned()];
        for worst in &row.worst {
            cells.extend(match worst {
                Some(worst) => [
                    format!("{:.3}", worst.witness.ratio),
                    text::span(Some(worst.witness.delay)),
                    text::span(Some(worst.bound.0)),
                ],
                None => [text::DASH; 3].map(String::from),
            });
        }
        cells
    };
    let header = ["", "worst / bound", "worst", "bound", "with envelopes", "worst", "bound"];
    say!("{}", text::table(&header, rows.iter().map(cells)));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A short attack on each discipline that guarantees a delay.
    #[test]
    fn no_bound_is_broken_and_most_are_near() {
        let args =
            Args { alg: Vec::new(), links: 6, effort: 300, seed: 3, witness: None, json: false };
        let (mut attacked_at_all, mut near) = (0, 0);
        for entry in ENTRIES.iter().filter(|entry| !entry.guarantee.starts_with("nothing")) {
            for worst in attacked(entry, &args, || ()).worst.into_iter().flatten() {
                let ratio = worst.witness.ratio;
                assert!(ratio <= 1.0, "{}: {ratio}\n{}", entry.kind, worst.replayed());
                attacked_at_all += 1;
                near += u32::from(ratio > 0.6);
            }
        }
        assert!(attacked_at_all > 40 && 2 * near > attacked_at_all, "{near} of {attacked_at_all}");
    }
}
