//! Changes: the text is edited and parsed again, its guarantees are checked against the
//! requirements of flows, and the difference is passed to the forwarder.

use super::state::{Handler, lock, rested};
use crate::live_links::live_links;
use crate::messages::{AdaptersThen, Changing, HeldTo, Query, Reply};
use crate::protocol::{Refusal, Remark, SetAnswer, SetRequest};
use crate::terms::{terms, ways, weight, weights};
use falaj_engine::network::PipePlaces;
use falaj_live::event_loop::AppliedChange;
use falaj_plan::standing::{Standing, standings};
use falaj_scenario::difference::{Difference, difference, needs_places, of_values};
use falaj_scenario::edit::{Edit, parse_set_or_unset};
use falaj_scenario::{FlowChange, Problem, Scenario, Severity, Undo, set_values};
use falaj_sched::queues::queue::FlowId;
use falaj_traffic::capture::Wanted;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use toml_edit::DocumentMut;

/// A requested scenario.
struct WantedScenario {
    scenario: Arc<Scenario>,
    /// If there is only one link, and only the values of one flow differ: this flow.
    only: Option<usize>,
    /// The guarantees of the scenario, if they were computed already.
    standings: Option<Vec<Vec<Standing>>>,
    remarks: Vec<Remark>,
}

/// The text of a requested scenario.
enum Text {
    Whole(String),
    /// The edited document. Writing it out takes a while with thousands of adapters, and the text
    /// is rarely requested.
    Edited(Box<(DocumentMut, Undo)>),
}

/// Makes a change, all of it or nothing; or, with `check`, reports whether it could be made,
/// without locking the handler for long.
pub fn set(handler: &Mutex<Handler>, wanted: &SetRequest) -> Result<SetAnswer, Refusal> {
    if !wanted.check {
        return lock(handler).set(wanted);
    }
    // On a copy, outside of the lock: the computation may take seconds with many flows.
    let mut copy = lock(handler).copy();
    let file = copy.file_of(wanted);
    let (read, _) = copy.draft(wanted, &file)?;
    let (read, _) = copy.admit(read)?;
    let places = match copy.takes_places(&read.scenario) {
        true => rested(handler).forwarder.places()?,
        false => NO_PLACES,
    };
    let difference = copy.difference(wanted, &read, places)?;
    Ok(SetAnswer { changed: difference.ways, at_ns: None, dropped: 0, remarks: read.remarks })
}

/// The places in the engine for a change that needs none.
const NO_PLACES: PipePlaces = PipePlaces { number: 0, vacant: Vec::new(), bypass: None };

/// Guarantees by pipe and flow; `None` for a link without guarantees.
type Guaranteed = Option<Arc<Vec<Vec<Standing>>>>;

impl Handler {
    /// Makes a change, all of it or nothing. Requests with `check` go through [`set`].
    pub(super) fn set(&mut self, wanted: &SetRequest) -> Result<SetAnswer, Refusal> {
        let file = self.file_of(wanted);
        let (read, text) = self.draft(wanted, &file)?;
        let made = self.make(wanted, &file, read, &text);
        let stays = made.is_err();
        match text {
            Text::Edited(edited) => {
                let (mut edited, undo) = *edited;
                if stays {
                    undo.take_back(&mut edited);
                }
                self.is_written &= stays;
                self.edited = Some(edited);
            }
            Text::Whole(text) if !stays => {
                (self.running.text, self.edited, self.is_written) = (text, None, true);
            }
            Text::Whole(_) => {}
        }
        if !stays {
            self.running.file = file;
            self.keep();
        }
        made
    }

    /// The scenario's file; files that the scenario names are relative to it.
    fn file_of(&self, wanted: &SetRequest) -> PathBuf {
        wanted.file.clone().unwrap_or_else(|| self.running.file.clone())
    }

    /// The requested scenario and its text.
    fn draft(
        &mut self,
        wanted: &SetRequest,
        file: &Path,
    ) -> Result<(WantedScenario, Text), Refusal> {
        match self.values_of_a_flow(wanted) {
            Some((read, edited, undo)) => Ok((read, Text::Edited(Box::new((edited, undo))))),
            None => {
                let (read, text) = self.whole(wanted, file)?;
                Ok((read, Text::Whole(text)))
            }
        }
    }

    /// Checks that a live link can carry the scenario, and admits its guarantees.
    fn admit(&self, mut read: WantedScenario) -> Result<(WantedScenario, Guaranteed), Refusal> {
        let scenario = &read.scenario;
        live_links(scenario).map_err(|error| Refusal::new(format!("{error:#}")))?;
        if !scenario.changes.is_empty() {
            return Err(Refusal::new(
                "changes are scheduled when a link starts: leave [[change]] out",
            ));
        }
        if !scenario.hosts.is_empty() {
            return Err(Refusal::new(
                "hosts cannot be changed while a link runs: leave `host` out",
            ));
        }
        let ways = || scenario.links.iter().flat_map(|link| [&link.up, &link.down]);
        let adapters = ways().any(|way| way.flows.iter().any(|flow| flow.adapter.is_some()));
        if adapters && self.running.standings.is_none() {
            return Err(Refusal::new(
                "this link has two ends, and a flow with an `adapter` is for `falaj serve`",
            ));
        }
        let standings = match (read.standings.take(), &self.running.standings) {
            (Some(standings), _) => Some(standings),
            (None, Some(_)) => Some(guaranteed(scenario)?),
            (None, None) => None,
        };
        let standings = standings.map(|standings| admitted(standings).map(Arc::new)).transpose()?;
        Ok((read, standings))
    }

    /// Returns true if the change needs places in the engine, or is recorded: a recorded change
    /// must have the same places when it is replayed.
    fn takes_places(&self, then: &Scenario) -> bool {
        self.running.recording || needs_places(&self.running.scenario, then)
    }

    /// The difference between the running scenario and the requested one.
    fn difference(
        &self,
        wanted: &SetRequest,
        read: &WantedScenario,
        places: PipePlaces,
    ) -> Result<Difference, Refusal> {
        let (before, then) = (&self.running.scenario, &read.scenario);
        let difference = match read.only.filter(|_| !wanted.drop) {
            Some(flow) => of_values(before, then, flow, &self.at),
            None => difference(before, then, (&self.at, places), wanted.drop),
        };
        difference.map_err(Refusal::new)
    }

    /// Makes the change, but does not keep the text.
    fn make(
        &mut self,
        wanted: &SetRequest,
        file: &Path,
        read: WantedScenario,
        text: &Text,
    ) -> Result<SetAnswer, Refusal> {
        let (read, standings) = self.admit(read)?;
        let places = match self.takes_places(&read.scenario) {
            true => self.forwarder.places()?,
            false => NO_PLACES,
        };
        let vacant = places.vacant.clone();
        let difference = self.difference(wanted, &read, places)?;
        let WantedScenario { scenario, only, remarks, .. } = read;
        let mut made = SetAnswer { changed: difference.ways, at_ns: None, dropped: 0, remarks };
        if difference.change.is_some() || standings.is_some() {
            let held_to =
                self.held_to(&scenario, standings.as_ref().map(|standings| &standings[..]));
            let (adapters, is_prepared) = match self.adapters_then(&scenario, only) {
                Some(weights) => (AdaptersThen::Stay(weights), false),
                None => self.prepare(&scenario)?,
            };
            let what = if wanted.set.is_empty() {
                file.display().to_string()
            } else {
                wanted.set.join(" ")
            };
            let whole = || match text {
                Text::Whole(text) => text.clone(),
                Text::Edited(edited) => edited.0.to_string(),
            };
            let written = self.running.recording.then(|| Wanted {
                what,
                scenario: whole(),
                drop: wanted.drop,
                vacant,
            });
            let changing = Changing {
                change: difference.change,
                scenario: Arc::clone(&scenario),
                held_to,
                adapters,
                written,
            };
            let asked = self.forwarder.ask(Query::Change(Box::new(changing)));
            let is_made = matches!(asked, Ok(Reply::Changed(Ok(_), _)));
            if let Some(preparer) = self.preparer.as_mut().filter(|_| is_prepared) {
                preparer.settle(is_made);
            }
            let changed = match asked? {
                // The remains of the old state are freed on this thread, because no packet waits
                // for it.
                Reply::Changed(changed, leavings) => {
                    drop(leavings);
                    changed
                }
                _ => return Err(Refusal::new("unexpected answer to a change")),
            };
            let AppliedChange { at, dropped } = changed.map_err(|unfit| {
                let hint = if wanted.drop { "" } else { "; with --drop such packets are dropped" };
                Refusal::new(format!("{unfit}{hint}"))
            })?;
            (made.at_ns, made.dropped) = (Some(at.0), dropped);
        }
        self.others += u64::from(difference.others);
        self.changes += 1;
        self.said.extend(made.remarks.iter().map(|remark| remark.title.clone()));
        self.forget_pauses(&scenario);
        (self.running.scenario, self.at, self.running.standings) =
            (scenario, difference.at, standings);
        Ok(made)
    }

    /// The guarantee terms after the change. If the links and flows stay the same, these are only
    /// the terms that differ.
    fn held_to(&self, then: &Scenario, standings: Option<&[Vec<Standing>]>) -> HeldTo {
        let Some(after) = standings else { return HeldTo::Same };
        let (was, running) = (&self.running.scenario, self.running.standings.as_ref());
        let links = |scenario: &'_ Scenario| {
            scenario.links.iter().map(|link| link.name.clone()).collect::<Vec<_>>()
        };
        let same = |(a, b): (&Vec<Standing>, &Vec<Standing>)| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.flow == b.flow)
        };
        let stay = |before: &Vec<Vec<Standing>>| {
            links(was) == links(then)
                && before.len() == after.len()
                && before.iter().zip(after).all(same)
        };
        let Some(before) = running.filter(|before| stay(before)) else {
            return HeldTo::All(terms(then, after));
        };
        let mut others = Vec::new();
        for (pipe, (is, was)) in ways(then).zip(ways(was)).enumerate() {
            for (f, (before, after)) in before[pipe].iter().zip(&after[pipe]).enumerate() {
                if is.holds(f, after) != was.holds(f, before) {
                    others.push((pipe, FlowId(f as u32), is.terms(f, after)));
                }
            }
        }
        HeldTo::Some(others)
    }

    /// Opens new adapters before the link's thread gets the change.
    fn prepare(&mut self, then: &Arc<Scenario>) -> Result<(AdaptersThen, bool), Refusal> {
        match &mut self.preparer {
            Some(preparer) => {
                let prepared = preparer.prepare(then).map_err(Refusal::new)?;
                Ok((AdaptersThen::Others(prepared), true))
            }
            None => Ok((AdaptersThen::Stay(Vec::new()), false)),
        }
    }

    /// The changed weights of adapters, if all of them stay.
    fn adapters_then(&self, then: &Scenario, only: Option<usize>) -> Option<Vec<(String, u32)>> {
        let before = &self.running.scenario;
        if let Some(flow) = only {
            // Ports are not among a flow's values.
            let weight = |scenario: &Scenario| weight(&scenario.links[0].up.pipe.setup.flows[flow]);
            let other = (weight(before) != weight(then)).then(|| weight(then));
            let name =
                before.links[0].up.flows[flow].adapter.as_ref().map(|adapter| adapter.name.clone());
            return Some(name.zip(other).into_iter().collect());
        }
        let uplinks = |scenario: &Scenario| {
            scenario.links.iter().map(|link| link.uplink.clone()).collect::<Vec<_>>()
        };
        if uplinks(before) != uplinks(then) || before.adapters() != then.adapters() {
            return None;
        }
        let was = weights(before);
        let others =
            weights(then).into_iter().filter(|(name, weight)| was.get(name) != Some(weight));
        Some(others.map(|(name, weight)| (name.to_owned(), weight)).collect())
    }

    /// The scenario with other values of one flow, if nothing else changes: the other flows are not
    /// parsed again.
    fn values_of_a_flow(
        &mut self,
        wanted: &SetRequest,
    ) -> Option<(WantedScenario, DocumentMut, Undo)> {
        // Computing the guarantees below checks that the discipline accepts all flows together; a
        // link without guarantees is parsed as a whole for that.
        if wanted.toml.is_some() || wanted.file.is_some() || self.running.standings.is_none() {
            return None;
        }
        let sets = wanted
            .set
            .iter()
            .map(|set| parse_set_or_unset(set))
            .collect::<Result<Vec<_>, _>>()
            .ok()?;
        let mut edited = match self.edited.take() {
            Some(edited) => edited,
            None => self.running.text.parse().ok()?,
        };
        let file = self.running.file.to_string_lossy();
        let Some(FlowChange { scenario, flow, undo }) =
            set_values(&self.running.scenario, &mut edited, &file, &sets)
        else {
            self.edited = Some(edited);
            return None;
        };
        // Parsing the whole scenario gives better error messages.
        let Ok(standings) = standings(&scenario) else {
            undo.take_back(&mut edited);
            self.edited = Some(edited);
            return None;
        };
        let scenario = Arc::new(scenario);
        Some((
            WantedScenario {
                scenario,
                only: Some(flow),
                standings: Some(standings),
                remarks: Vec::new(),
            },
            edited,
            undo,
        ))
    }

    fn whole(
        &mut self,
        wanted: &SetRequest,
        file: &Path,
    ) -> Result<(WantedScenario, String), Refusal> {
        let text = match &wanted.toml {
            Some(toml) if wanted.set.is_empty() => toml.clone(),
            Some(toml) => edited(toml, &wanted.set)?,
            None => edited(self.text(), &wanted.set)?,
        };
        let (scenario, remarks) = self.read(&text, file, &wanted.set)?;
        Ok((
            WantedScenario { scenario: Arc::new(scenario), only: None, standings: None, remarks },
            text,
        ))
    }

    /// Parses the edited text: returns the scenario and its new warnings, or the errors.
    fn read(
        &self,
        text: &str,
        file: &Path,
        sets: &[String],
    ) -> Result<(Scenario, Vec<Remark>), Refusal> {
        let new = |problems: &[Problem]| -> Vec<Remark> {
            let mut remarks: Vec<Remark> = Vec::new();
            for problem in problems.iter().filter(|p| !self.said.contains(&p.title)) {
                let mut remark = remark(problem);
                // The line numbers of a text edited here mean nothing to the user.
                if sets.is_empty() {
                    remark.title = format!("line {}: {}", problem.line, remark.title);
                }
                // The same remark for both directions is returned once.
                if !remarks.contains(&remark) {
                    remarks.push(remark);
                }
            }
            remarks
        };
        match falaj_scenario::parse(text, &file.to_string_lossy()) {
            Ok((scenario, warnings)) => Ok((scenario, new(warnings.problems()))),
            Err(errors) => Err(Refusal {
                what: ["nothing was changed", &sets.join(" ")].join(if sets.is_empty() {
                    ""
                } else {
                    ": "
                }),
                remarks: new(errors.problems()),
            }),
        }
    }
}

fn guaranteed(scenario: &Scenario) -> Result<Vec<Vec<Standing>>, Refusal> {
    standings(scenario).map_err(|error| Refusal::new(format!("{error:#}")))
}

/// Returns the guarantees if they meet all requirements of flows; otherwise the error names the
/// flows whose requirements are not met.
fn admitted(standings: Vec<Vec<Standing>>) -> Result<Vec<Vec<Standing>>, Refusal> {
    let refused =
        standings.iter().flatten().filter_map(|flow| Some((&flow.flow, flow.refused.as_ref()?)));
    let mut remarks: Vec<Remark> = Vec::new();
    for (flow, (what, help)) in refused {
        let remark = Remark {
            severity: "error".into(),
            title: format!("{flow} {what}"),
            help: vec![help.clone()],
        };
        // The same remark for both directions is returned once.
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
    if remarks.is_empty() {
        Ok(standings)
    } else {
        Err(Refusal { what: "not all requirements can be guaranteed".into(), remarks })
    }
}

/// The text with these values set.
fn edited(text: &str, sets: &[String]) -> Result<String, Refusal> {
    let mut file: DocumentMut =
        text.parse().map_err(|_| Refusal::new("the scenario is not valid TOML"))?;
    let mut edit = Edit::new(&mut file);
    for set in sets {
        let read =
            parse_set_or_unset(set).map_err(|error| Refusal::new(format!("{set}: {error}")))?;
        edit.set(&read.path, read.value.as_ref())
            .map_err(|error| Refusal::new(format!("{set}: {error:#}")))?;
    }
    edit.finish();
    Ok(file.to_string())
}

fn remark(problem: &Problem) -> Remark {
    let label = Some(&problem.label).filter(|label| !label.is_empty());
    Remark {
        severity: if problem.severity == Severity::Error { "error" } else { "warning" }.into(),
        title: problem.title.clone(),
        help: label.into_iter().chain(&problem.help).cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::running::Running;

    const TEXT: &str = "[link.a]\nrate = \"1mbit\"\n[link.a.flow.voice]\nmatch = \"udp\"\n[link.a.flow.rest]\nmatch = \"any\"\n";

    /// Checks that any words as settings give a text or a refusal with its reason, and no panic.
    fn any_sets(sets: &[String]) {
        match edited(TEXT, sets) {
            Ok(text) => drop(falaj_scenario::parse(&text, "x")),
            Err(refusal) => assert!(!refusal.what.is_empty()),
        }
    }

    /// With many flows, admission takes a while. The handler is free meanwhile, for example for the
    /// watch, which notifies a service manager that the link is alive.
    #[test]
    fn a_check_does_not_block_the_handler() {
        use std::sync::mpsc::channel;
        use std::time::{Duration, Instant};
        let mut text = "[link.a]\nrate = \"1gbit\"\nuplink = \"namespace\"\n\
                        scheduler = { kind = \"drr\" }\n"
            .to_owned();
        for n in 0..2_000 {
            text += &format!(
                "[link.a.flow.f{n}]\nadapter = \"namespace\"\nrequires = {{ rate = \"1kbit\" }}\n"
            );
        }
        let (scenario, _) = falaj_scenario::parse(&text, "x").unwrap();
        let running = Running {
            command: "serve",
            about: String::new(),
            file: "x".into(),
            standings: Some(Arc::new(standings(&scenario).unwrap())),
            scenario: Arc::new(scenario),
            text,
            recording: false,
        };
        let ((ask, _asked), (_answer, answers)) = (channel(), channel());
        let (_woken, wake) = std::io::pipe().unwrap();
        let handler = Mutex::new(Handler::new(running, ask, answers, wake));
        let wanted =
            SetRequest { set: vec!["a.f7.queue=60p".into()], check: true, ..SetRequest::default() };
        // A busy host may delay this thread during one request, but not during each of ten.
        let is_free = || {
            let mut longest = Duration::ZERO;
            let asked = std::thread::scope(|scope| {
                let question = scope.spawn(|| {
                    let began = Instant::now();
                    let answer = set(&handler, &wanted).unwrap();
                    assert_eq!((answer.changed.len(), answer.at_ns), (2, None));
                    began.elapsed()
                });
                while !question.is_finished() {
                    let began = Instant::now();
                    drop(lock(&handler));
                    longest = longest.max(began.elapsed());
                    std::thread::sleep(Duration::from_millis(1));
                }
                question.join().unwrap()
            });
            longest < asked / 2
        };
        assert!((0..10).any(|_| is_free()), "the lock is held as long as the question takes");
        assert_eq!(lock(&handler).changes, 0);
    }

    #[test]
    fn any_words_are_set_or_refused() {
        let words = [
            "a",
            "voice",
            "link",
            "flow",
            "rate",
            "up",
            "scheduler",
            "kind",
            ".",
            "..",
            "=",
            "\"",
            "'",
            "{",
            "}",
            "[",
            "]",
            "/",
            "1mbit",
            "\n",
            "#",
            "",
            " ",
            "loss",
            "queue",
            "requires",
            "\u{0}",
            "é",
            "traffic",
            "run",
            "seed",
            "1",
            "{ kind = \"drr\" }",
        ];
        let mut random = 88_172_645_463_325_252_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as usize
        };
        for _ in 0..5_000 {
            let mut set =
                || (0..1 + next() % 8).map(|_| words[next() % words.len()]).collect::<Vec<_>>();
            let sets = [set().concat(), format!("{}={}", set().join("."), set().concat())];
            any_sets(&sets);
        }
    }

    #[test]
    fn what_is_wrong_is_said_as_of_a_file() {
        let of = |set: &str| edited(TEXT, &[set.to_owned()]);
        assert_eq!(
            of("rate").unwrap_err().what,
            "rate: there is no `=`; write a key of the scenario and its value, as in `voice.phase=60us`"
        );
        let text = of("a.rate=3").unwrap();
        let errors = falaj_scenario::parse(&text, "x").unwrap_err();
        let Remark { severity, title, help } = remark(&errors.problems()[0]);
        assert_eq!(
            (severity.as_str(), title.as_str()),
            ("error", "`rate`: `3` is a number without a unit")
        );
        assert!(help[0].contains("`3mbit`"), "{help:?}");
    }
}
