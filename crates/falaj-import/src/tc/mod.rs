//! `tc qdisc`, `tc class` and `tc filter`: packets that a device sends pass its tree of queueing
//! disciplines.
//!
//! | module | contents |
//! |---|---|
//! | `shown` | the output of `tc qdisc show` |
//! | `attachment` | the object of a command of tc: a device, and a place in its tree |
//! | `device` | the tree of a device, as the commands leave it |
//! | `netem` | netem, which becomes keys of a link |
//! | `qdisc` | the other disciplines and their classes |
//! | `aqm` | AQMs, and disciplines with a queue for each connection |
//! | `fq` | fq |
//! | `cake` | cake |
//! | `classes` | classes of htb and hfsc; cbs |
//! | `stab` | the overhead of packets |
//! | `filter` | which packets go to which class |
//! | `police` | policers of filters |
//! | `firewall` | rules of iptables that mark packets for filters |
//! | `tree` | the classes of a discipline, and which packets go to them |
//! | `direction` | converts a device's tree to one direction of a link |
//! | `flows` | converts its classes to flows, with the links before them |
//! | `link` | the links, and the rules that send packets through the links before classes |

mod aqm;
mod attachment;
mod cake;
mod classes;
mod device;
mod direction;
mod filter;
mod firewall;
mod flows;
mod fq;
mod link;
mod netem;
mod police;
mod qdisc;
mod shown;
mod stab;
mod tree;

use crate::args::{Args, no_equal_phrase, unknown};
use crate::lines::{self, Word};
use crate::{Imported, finish, has_errors, timeline};
use device::{Devices, Verb};
use falaj_scenario::suggest::quoted;
use falaj_scenario::{Diagnostics, Problem};
use falaj_sched::units::rate::Rate;

/// Properties of the host that the commands do not contain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    /// Rate of the host's devices, where no discipline limits them; `None`: unlimited.
    pub rate: Option<Rate>,
    /// The device that sends the packets of direction `down`, if no filter redirects packets to a
    /// device.
    pub down: Option<String>,
}

/// Makes a scenario from a script of `tc` commands: a link for each device. Packets that a device
/// sends go up. Packets that a device receives and redirects to another device, such as `ifb0`,
/// come down as that other device sends them.
///
/// # Errors
/// Returns every line that cannot be read or has no equivalent, and why.
pub fn tc(text: &str, file: &str, host: &Host) -> Result<Imported, Diagnostics> {
    let mut problems = Vec::new();
    let mut devices = Devices::default();
    let commands = lines::commands(text, &mut problems);
    let draft = timeline::run(
        &commands,
        &mut devices,
        &mut problems,
        |devices, words, problems| command(words, text, devices, problems),
        |devices, problems| link::links(devices, host, problems),
    );
    if draft.tables.is_empty() && !has_errors(&problems) {
        problems.push(link::no_link(&devices));
    }
    finish(&draft, file, text, problems)
}

const OBJECTS: &[&str] = &["qdisc", "class", "filter"];
const VERBS: &[&str] = &["add", "replace", "change", "delete"];
/// Verbs that change nothing.
const SHOW: &[&str] = &["show", "list", "ls", "get"];

fn command(
    words: &[Word],
    text: &str,
    devices: &mut Devices,
    notes: &mut Vec<Problem>,
) -> Result<(), Problem> {
    let mut args = Args::new(words);
    let mut netns = prefix(&mut args)?;
    let is_tc = args.peek().is_some_and(|w| w.text == "tc" || w.text.ends_with("/tc"));
    if is_tc {
        args.next();
        while let Some(flag) = args.peek().filter(|w| w.text.starts_with('-')) {
            args.next();
            match flag.text.as_str() {
                "-n" | "-net" | "-netns" => netns = Some(args.value("a namespace")?.text.clone()),
                "-b" | "-batch" => {
                    return Err(no_equal_phrase(
                        flag.at.clone(),
                        "a file of further commands",
                        "import that file: its lines need no `tc` in front",
                    ));
                }
                _ => {}
            }
        }
    }
    devices.enter(netns);
    let object = args.value("one of qdisc, class and filter")?;
    let is_firewall = !is_tc && firewall::is_iptables(object);
    if is_tc || is_firewall || OBJECTS.contains(&object.text.as_str()) || object.is_expanded() {
        lines::expanded(words).map_or(Ok(()), Err)?;
    }
    // tc accepts words that are abbreviated to their beginning.
    let begun = |word: &Word, all: &[&'static str]| {
        let is = |name: &&&str| !word.text.is_empty() && name.starts_with(&word.text);
        all.iter().find(is).copied().filter(|name| is_tc || word.text == *name)
    };
    let Some(kind) = begun(object, OBJECTS) else {
        if is_tc {
            return Err(unknown(object, "an object of tc that can be imported", OBJECTS));
        }
        if is_firewall {
            match devices.firewall(object, &mut args) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(note) => {
                    notes.push(note);
                    return Ok(());
                }
            }
        }
        notes.push(left_out(&args, words));
        return Ok(());
    };
    if let Some(words) = shown::command(words, args.clone(), kind)? {
        let mut shown = Args::new(&words);
        let made = match kind {
            // `noqueue`: a device without a discipline.
            _ if words.is_empty() => Ok(()),
            "qdisc" => devices.qdisc(&mut shown, Verb::Add, &text[args.all()]),
            _ => devices.class(&mut shown, Verb::Add, &text[args.all()]),
        };
        notes.append(&mut shown.notes);
        return made;
    }
    let word = args.value("a verb")?;
    let Some(verb) = begun(word, VERBS).or_else(|| begun(word, SHOW)) else {
        let known = [VERBS, SHOW].concat();
        return Err(unknown(word, "a verb of tc that can be imported", &known));
    };
    if SHOW.contains(&verb) {
        return Ok(());
    }
    let verb = match verb {
        "delete" => Verb::Delete,
        "add" => Verb::Add,
        _ => Verb::Replace,
    };
    let line = &text[args.all()];
    let made = match kind {
        "qdisc" => devices.qdisc(&mut args, verb, line),
        "class" => devices.class(&mut args, verb, line),
        _ => devices.filter(&mut args, verb, notes),
    };
    notes.append(&mut args.notes);
    made
}

/// Takes the programs in front of `tc` that run it elsewhere, such as `ip netns exec`, and returns
/// the namespace.
fn prefix(args: &mut Args<'_>) -> Result<Option<String>, Problem> {
    let mut netns = None;
    loop {
        let mut ahead = args.clone();
        let Some(program) = ahead.next() else { return Ok(netns) };
        let flags = |ahead: &mut Args<'_>| {
            while ahead.peek().is_some_and(|w| w.text.starts_with('-')) {
                ahead.next();
            }
        };
        match program.text.as_str() {
            "sudo" => flags(&mut ahead),
            "ip" if ahead.take("netns").is_some() && ahead.take("exec").is_some() => {
                netns = Some(ahead.value("a namespace")?.text.clone());
            }
            "docker" | "podman" if ahead.take("exec").is_some() => {
                flags(&mut ahead);
                netns = Some(ahead.value("a container")?.text.clone());
            }
            _ => return Ok(netns),
        }
        *args = ahead;
    }
}

/// The warning for a command of another program.
fn left_out(args: &Args<'_>, words: &[Word]) -> Problem {
    let program = quoted(&words[0].text);
    Problem::warning(args.all(), format!("{program} is not a command of tc, and was left out"))
}
