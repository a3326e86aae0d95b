//! `falaj choose`: selects a discipline for a purpose by four questions.

use anyhow::{Context, Result, bail};
use falaj_scenario::reference::{Wish, choose, example_of};
use falaj_sched::contract::manifest::{Manifest, Purpose};
use falaj_terminal::output::print;
use serde_json::json;
use std::fmt::Write as _;
use std::io::{BufRead, IsTerminal, Write as _};
use std::process::ExitCode;

/// Arguments of `falaj choose`.
#[derive(clap::Args)]
#[command(after_help = "\
Questions without an answer are asked on a terminal; elsewhere the first answer of the list is
taken. The scenario is printed to standard output, all else to standard error.

Exit status: 0; 2 if an answer does not exist.

Examples:
  falaj choose
  falaj choose --for share --care even
  falaj choose --for rate --flows tree > link.toml; falaj plan link.toml")]
pub(crate) struct Args {
    /// The purpose: share, rate, delay, precedence, connections, cap or isolation; or an ordinary
    /// word for it, such as voice, video, games, web or bandwidth.
    #[arg(long = "for", value_name = "PURPOSE", value_parser = names_of_purposes())]
    purpose: Option<String>,
    /// Use of the rate that a flow leaves unused: lent to the others, or left idle.
    #[arg(long, value_name = "RATE")]
    unused: Option<Unused>,
    /// Shape of the flows: one level, or a tree of flows within flows.
    #[arg(long, value_name = "SHAPE")]
    flows: Option<Shape>,
    /// Priority with very many flows: few instructions per packet, or even service.
    #[arg(long, value_name = "AIM")]
    care: Option<Care>,
    /// Print the disciplines and the scenario as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Unused {
    Lend,
    Idle,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Shape {
    Flat,
    Tree,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Care {
    Cost,
    Even,
}

/// Other words for a purpose, mostly the traffic for which it is suitable.
const fn words(purpose: Purpose) -> &'static [&'static str] {
    match purpose {
        Purpose::Share => &["fairness", "fair", "weights", "tenants", "containers"],
        Purpose::Rate => &["bandwidth", "throughput", "guarantee", "video", "streaming", "backup"],
        Purpose::Delay => &["latency", "voice", "calls", "voip", "games", "gaming", "control"],
        Purpose::Precedence => &["prio", "priorities"],
        Purpose::Connections => &["bufferbloat", "internet", "web", "downloads", "tcp", "home"],
        Purpose::Cap => &["limit", "ceiling", "shaping", "maximum"],
        Purpose::Isolation => &["slices", "vms", "partition"],
    }
}

fn names_of_purposes() -> clap::builder::PossibleValuesParser {
    let one = |(purpose, name, doc): (Purpose, &'static str, &'static str)| {
        clap::builder::PossibleValue::new(name).help(doc).aliases(words(purpose))
    };
    clap::builder::PossibleValuesParser::new(Purpose::ALL.map(one))
}

/// Returns the purpose with this name, or with this word among its other words.
fn named(word: &str) -> Option<Purpose> {
    let other = || Purpose::ALL.iter().find(|(purpose, ..)| words(*purpose).contains(&word));
    Purpose::named(word).or_else(|| other().map(|(purpose, ..)| *purpose))
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let asked = !args.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let given = args.purpose.as_deref().and_then(named);
    let purpose = match given {
        Some(purpose) => purpose,
        None if asked => {
            let answers = Purpose::ALL.map(|(_, name, doc)| (name, doc));
            Purpose::ALL[ask("What should each flow get?", &answers)?].0
        }
        None => bail!(
            "choose: `--for` is missing; it is one of {}. On a terminal `falaj choose` asks",
            falaj_scenario::suggest::list(Purpose::ALL.map(|(_, name, _)| name))
        ),
    };
    let second = |given: Option<bool>, question: &str, answers: [(&str, &str); 2]| match given {
        Some(given) => Ok(given),
        None if asked => Ok(ask(question, &answers)? == 1),
        None => Ok::<bool, anyhow::Error>(false),
    };
    let wish = Wish {
        purpose,
        lends: !second(
            args.unused.map(|unused| unused == Unused::Idle),
            "What happens to the rate that a flow does not use?",
            [("lend", "the other flows may use it"), ("idle", "the link stays idle instead")],
        )?,
        tree: second(
            args.flows.map(|shape| shape == Shape::Tree),
            "Are flows divided into flows of their own?",
            [("flat", "no, there is one level"), ("tree", "yes, a tenant's share among its users")],
        )?,
        even: second(
            args.care.map(|care| care == Care::Even),
            "What matters more with very many flows?",
            [
                ("cost", "few instructions for each packet"),
                ("even", "that service is even from packet to packet"),
            ],
        )?,
    };
    tell(&choose(wish), args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Asks a question on the terminal, and returns the index of the answer; an empty line selects the
/// first answer.
fn ask(question: &str, answers: &[(&str, &str)]) -> Result<usize> {
    let mut text = format!("{question}\n");
    for (n, (name, doc)) in answers.iter().enumerate() {
        let _ = writeln!(text, "  {}  {name:<12} {doc}", n + 1);
    }
    let mut err = std::io::stderr();
    let _ = err.write_all(text.as_bytes());
    loop {
        let _ = write!(err, "[1] ");
        let _ = err.flush();
        let mut line = String::new();
        let read =
            std::io::stdin().lock().read_line(&mut line).context("cannot read the answer")?;
        if read == 0 {
            bail!("the questions were not answered");
        }
        let line = line.trim();
        let number = line.parse().ok().filter(|n| (1..=answers.len()).contains(n));
        let named = || answers.iter().position(|(name, _)| *name == line);
        match number.map(|n| n - 1).or_else(named).or(line.is_empty().then_some(0)) {
            Some(n) => return Ok(n),
            None => {
                let _ = writeln!(err, "write a number from 1 to {}, or a name", answers.len());
            }
        }
    }
}

/// Prints the first discipline with its scenario, and the alternatives.
fn tell(found: &[&Manifest], json: bool) -> Result<()> {
    let [first, others @ ..] = found else { bail!("no discipline is for this purpose") };
    let scenario = example_of(first);
    if json {
        let one = |entry: &Manifest| {
            json!({
                "kind": entry.kind, "doc": entry.doc, "cost": entry.cost,
                "guarantee": entry.guarantee, "source": entry.source,
            })
        };
        say!(
            "{}",
            serde_json::to_string_pretty(&json!({
                "choice": one(first),
                "others": others.iter().map(|entry| one(entry)).collect::<Vec<_>>(),
                "scenario": scenario,
            }))?
        );
        return Ok(());
    }
    let mut text = format!("{}: {}\n", first.kind, first.doc);
    let _ = writeln!(text, "  source     {}", first.source);
    let _ = writeln!(text, "  cost       {}", first.cost);
    let _ = writeln!(text, "  guarantee  {}", first.guarantee);
    for (n, entry) in others.iter().enumerate() {
        let what = if n == 0 { "or" } else { "" };
        let _ = writeln!(text, "  {what:<10} {:<14} {}", entry.kind, entry.doc);
    }
    // Only the scenario goes to standard output, so that it can be redirected to a file.
    let _ = writeln!(std::io::stderr(), "{text}");
    print(&scenario);
    Ok(())
}
