//! `tc qdisc`, `tc class` and `tc filter`: what a device sends passes its tree of queueing
//! disciplines.
//!
//! | module | what it holds |
//! |---|---|
//! | `attachment` | what a command of tc is about: a device, and where in its tree |
//! | `device` | the tree of a device, as the commands make it |
//! | `netem` | netem, which a link has keys for |
//! | `qdisc` | the other disciplines and their classes |
//! | `aqm` | those that keep queues short, and those with a queue for each connection |
//! | `classes` | classes of htb and hfsc; cbs |
//! | `stab` | what a packet costs beside its own bytes |
//! | `filter` | which packets go to which class |
//! | `tree` | the classes of a discipline, and which packets go to them |
//! | `direction` | what a device's tree amounts to in one direction of a link |
//! | `flows` | the flows that its classes become, and the links before them |
//! | `link` | the links, and the rules that lead through those before a class |

mod aqm;
mod attachment;
mod classes;
mod device;
mod direction;
mod filter;
mod flows;
mod link;
mod netem;
mod qdisc;
mod stab;
mod tree;

use crate::args::{Args, unknown};
use crate::draft::Draft;
use crate::lines::{self, Word};
use crate::{Imported, finish};
use device::Devices;
use falaj_scenario::suggest::quoted;
use falaj_scenario::{Diagnostics, Problem};
use falaj_sched::units::rate::Rate;

/// What the commands do not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    /// How fast its devices are, where no discipline limits what they send; `None`: unlimited.
    pub rate: Option<Rate>,
    /// The device that sends what comes down, if none is redirected to.
    pub down: Option<String>,
}

/// The scenario that a script of `tc` commands amounts to: a link for each device. What a device
/// sends goes up; what it receives and redirects to another, as to `ifb0`, comes down as that one
/// sends it.
///
/// # Errors
/// Every line that cannot be read or has no equal, and why.
pub fn tc(text: &str, file: &str, host: &Host) -> Result<Imported, Diagnostics> {
    let mut problems = Vec::new();
    let mut devices = Devices::default();
    for words in lines::commands(text, &mut problems) {
        if let Err(problem) = command(&words, text, &mut devices, &mut problems) {
            problems.push(problem);
        }
    }
    let mut draft = Draft::default();
    if problems.iter().all(|p| p.severity != falaj_scenario::Severity::Error) {
        link::links(&devices, host, &mut draft, &mut problems);
    }
    finish(&draft, file, text, problems)
}

const OBJECTS: &[&str] = &["qdisc", "class", "filter"];
const VERBS: &[&str] = &["add", "replace", "change", "delete"];
/// They change nothing.
const SHOW: &[&str] = &["show", "list", "ls", "get"];

fn command(
    words: &[Word],
    text: &str,
    devices: &mut Devices,
    notes: &mut Vec<Problem>,
) -> Result<(), Problem> {
    let mut args = Args::new(words);
    args.take("sudo");
    let is_tc = args.peek().is_some_and(|w| w.text == "tc" || w.text.ends_with("/tc"));
    if is_tc {
        args.next();
        while args.peek().is_some_and(|w| w.text.starts_with('-')) {
            args.next();
        }
    }
    let object = args.value("one of qdisc, class and filter")?;
    // tc takes the beginning of a word for it.
    let begun = |word: &Word, all: &[&'static str]| {
        let is = |name: &&&str| !word.text.is_empty() && name.starts_with(&word.text);
        all.iter().find(is).copied().filter(|name| is_tc || word.text == *name)
    };
    let Some(kind) = begun(object, OBJECTS) else {
        if is_tc {
            return Err(unknown(object, "an object of tc", OBJECTS));
        }
        notes.push(Problem::warning(
            args.all(),
            format!("{} is not a command of tc, and was left out", quoted(&words[0].text)),
        ));
        return Ok(());
    };
    let word = args.value("a verb")?;
    let Some(verb) = begun(word, VERBS).or_else(|| begun(word, SHOW)) else {
        return Err(unknown(word, "a verb of tc", VERBS));
    };
    if SHOW.contains(&verb) {
        return Ok(());
    }
    let removes = verb == "delete";
    let line = &text[args.all()];
    match kind {
        "qdisc" => devices.qdisc(args, removes, line),
        "class" => devices.class(args, removes, line),
        _ => devices.filter(args, removes, notes),
    }
}
