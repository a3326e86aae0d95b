//! What is asked at a control socket, and answered: it keeps the scenario that is running.

use super::Running;
use super::difference::{WAYS, difference};
use super::protocol::{
    Asked, BreachReport, BucketDelays, Delays, DirectionReport, Drops, Elsewhere, FlowReport, GoneReport, Hello,
    LinkReport, MaskReport, Refusal, Remark, Report, Request, RuleReport, ScenarioAnswer, SetAnswer, SetRequest,
    ShowRequest, VERSION, answer, request,
};
use super::terms;
use crate::impairments;
use crate::measure::live_links;
use crate::plan::{Standing, standings};
use crate::show::note;
use falaj_engine::each::Report as Made;
use falaj_engine::network::Places;
use falaj_engine::rules::{Active, Taken};
use falaj_engine::transaction::Transaction;
use falaj_engine::{PipeId, Unfit};
use falaj_live::adapters::Counts;
#[cfg(feature = "serve")]
use falaj_live::forward::Turn;
use falaj_live::forward::{Changed, Counted, LiveFlow, Snapshot, Terms};
use falaj_scenario::edit::{Edit, parse_set_or_unset};
use falaj_scenario::{Direction, Flow, Link, Problem, Rule, Scenario, Severity, Towards};
use falaj_sched::plugin::Breach;
use falaj_sched::queue::FlowId;
use falaj_sched::time::{Span, Time};
use falaj_traffic::capture::Wanted;
use falaj_traffic::meter::Meter;
#[cfg(feature = "serve")]
use std::collections::BTreeSet;
use std::io::{PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};
use toml_edit::DocumentMut;

/// What the forwarder is asked for.
pub(crate) enum Ask {
    Snapshot,
    /// Where links are, and where others may begin.
    Places,
    /// What was measured of flows, from this one on.
    Measured {
        from: usize,
    },
    /// What a mask of this pipe made: that of the flow, or of the link.
    Made(PipeId, Option<FlowId>),
    /// Who held the links when.
    #[cfg(feature = "serve")]
    Turns,
    /// An adapter is to pause, or to go on.
    #[cfg(feature = "serve")]
    Pause {
        name: String,
        paused: bool,
    },
    /// The change, if the engine's is one; what is running then; what flows are held to; and what is to be written down of it.
    Change(Option<Box<Transaction>>, Arc<Scenario>, Option<Vec<Vec<Terms>>>, Option<Wanted>),
}

/// What it says.
pub(crate) enum Told {
    Places(Places),
    Snapshot(Box<Snapshot>, Vec<(String, Counts)>),
    Measured(Vec<LiveFlow>),
    Made(Option<Box<Made>>),
    #[cfg(feature = "serve")]
    Turns(Vec<Vec<Turn>>),
    #[cfg(feature = "serve")]
    Paused(Result<(), String>),
    Changed(Result<Changed, Unfit>),
    Refused(String),
}

/// All that is known of links and their promises at one instant.
#[cfg(feature = "serve")]
pub(crate) struct Look {
    pub(crate) scenario: Arc<Scenario>,
    pub(crate) standings: Arc<Vec<Vec<Standing>>>,
    pub(crate) snapshot: Snapshot,
    /// By pipe and flow in a row, measured a little later.
    pub(crate) measured: Vec<LiveFlow>,
    pub(crate) adapters: Vec<(String, Counts)>,
}

/// What was counted at one instant, what was measured a little later, and what adapters did.
type Measured = (Snapshot, Vec<LiveFlow>, Vec<(String, Counts)>);

/// What it says, and how long no packet passed for that.
pub(crate) struct Answer {
    pub(crate) told: Told,
    pub(crate) took: Duration,
}

/// Questions take at most one part in so many of the forwarder's time, however fast they come.
const PART: u32 = 10;

/// Keeps the scenario that is running.
pub(crate) struct Desk {
    running: Running,
    /// By link, its place in the engine.
    at: Vec<u32>,
    /// Warnings that were said already.
    said: Vec<String>,
    ask: Sender<Ask>,
    answers: Receiver<Answer>,
    wake: PipeWriter,
    /// Till then the forwarder is not asked.
    rests_until: Instant,
    /// Where the text of what is running is kept.
    kept: Option<PathBuf>,
    /// Adapters that pause.
    #[cfg(feature = "serve")]
    paused: BTreeSet<String>,
}

impl Desk {
    pub(crate) fn new(running: Running, ask: Sender<Ask>, answers: Receiver<Answer>, wake: PipeWriter) -> Desk {
        let said = match falaj_scenario::parse(&running.text, &running.file.to_string_lossy()) {
            Ok((_, warnings)) => warnings.problems().iter().map(|p| p.title.clone()).collect(),
            Err(_) => Vec::new(),
        };
        let at = (0..running.scenario.links.len() as u32).collect();
        Desk {
            running,
            at,
            said,
            ask,
            answers,
            wake,
            rests_until: Instant::now(),
            kept: None,
            #[cfg(feature = "serve")]
            paused: BTreeSet::new(),
        }
    }

    /// From now on each change leaves the whole text there, and beside it the names of adapters that pause; these do now.
    #[cfg(feature = "serve")]
    pub(crate) fn keep_in(&mut self, file: PathBuf, paused: BTreeSet<String>) {
        (self.kept, self.paused) = (Some(file), paused);
    }

    /// Keeps the text, all of it or as it was: it is written beside its file, which it then becomes.
    fn keep(&self) {
        let Some(file) = &self.kept else { return };
        replace(file, &self.running.text);
    }

    /// Adapters that go, or come to have another port, pause no more.
    #[cfg(feature = "serve")]
    fn forget_pauses(&mut self, then: &Scenario) {
        if self.paused.is_empty() {
            return;
        }
        let there = then.adapters();
        let before = self.running.scenario.adapters().into_iter();
        let stay: BTreeSet<&str> =
            before.filter(|adapter| there.contains(adapter)).map(|adapter| &adapter.name[..]).collect();
        let number = self.paused.len();
        self.paused.retain(|name| stay.contains(&name[..]));
        if self.paused.len() != number {
            self.keep_paused();
        }
    }

    /// Keeps who pauses, a line each.
    #[cfg(feature = "serve")]
    fn keep_paused(&self) {
        if let Some(file) = &self.kept {
            let lines: String = self.paused.iter().map(|name| format!("{name}\n")).collect();
            replace(&paused_beside(file), &lines);
        }
    }

    /// The first line that a client gets.
    pub(crate) fn hello(&self) -> String {
        let hello = Hello {
            falaj: VERSION,
            release: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            command: self.running.command.into(),
            about: self.running.about.clone(),
        };
        format!("{}\n", serde_json::json!(hello))
    }

    /// Answers a line by a line, whatever it is.
    pub(crate) fn answer(&mut self, line: &[u8]) -> String {
        let (id, request) = request(line);
        match request {
            Err(what) => answer::<()>(&id, &Err(Refusal::new(what))),
            Ok(Request::Show(show)) => answer(&id, &self.show(&show)),
            Ok(Request::Set(set)) => answer(&id, &self.set(&set)),
            Ok(Request::Scenario) => answer(&id, &Ok(ScenarioAnswer { toml: self.running.text.clone() })),
        }
    }

    /// Asks the forwarder, once it could do its work for a while after the question before.
    fn ask(&mut self, ask: Ask) -> Result<Told, Refusal> {
        let gone = || Refusal::new("the link is gone");
        std::thread::sleep(self.rests_until.saturating_duration_since(Instant::now()));
        self.ask.send(ask).map_err(|_| gone())?;
        self.wake.write_all(&[0]).map_err(|_| gone())?;
        let Answer { told, took } = self.answers.recv().map_err(|_| gone())?;
        self.rests_until = Instant::now() + took * (PART - 1);
        Ok(told)
    }

    /// Makes a change, all of it or nothing.
    pub(crate) fn set(&mut self, wanted: &SetRequest) -> Result<SetAnswer, Refusal> {
        let text = edited(wanted.toml.as_ref().unwrap_or(&self.running.text), &wanted.set)?;
        let file = wanted.file.clone().unwrap_or_else(|| self.running.file.clone());
        let (scenario, remarks) = self.read(&text, &file, &wanted.set)?;
        let scenario = Arc::new(scenario);
        live_links(&scenario).map_err(|error| Refusal::new(format!("{error:#}")))?;
        if !scenario.hosts.is_empty() {
            return Err(Refusal::new("this link has two ends, and hosts stay as they are: leave `host` out"));
        }
        let adapters = !scenario.adapters().is_empty();
        if adapters && self.running.standings.is_none() {
            return Err(Refusal::new("this link has two ends, and a flow with an `adapter` is for `falaj serve`"));
        }
        let standings = self.running.standings.as_ref().map(|_| admitted(&scenario).map(Arc::new)).transpose()?;
        let Told::Places(places) = self.ask(Ask::Places)? else {
            return Err(Refusal::new("another answer than one about places"));
        };
        let vacant = places.vacant.clone();
        let difference =
            difference(&self.running.scenario, &scenario, (&self.at, places), wanted.drop).map_err(Refusal::new)?;
        let mut made = SetAnswer { changed: difference.ways, at_ns: None, dropped: 0, remarks };
        if wanted.check {
            return Ok(made);
        }
        if difference.change.is_some() || standings.is_some() {
            let held_to = standings.as_ref().map(|standings| terms(&scenario, standings));
            let what = if wanted.set.is_empty() { file.display().to_string() } else { wanted.set.join(" ") };
            let written =
                self.running.recording.then(|| Wanted { what, scenario: text.clone(), drop: wanted.drop, vacant });
            let ask = Ask::Change(difference.change.map(Box::new), Arc::clone(&scenario), held_to, written);
            let changed = match self.ask(ask)? {
                Told::Changed(changed) => changed,
                Told::Refused(why) => return Err(Refusal::new(why)),
                _ => return Err(Refusal::new("another answer than one to a change")),
            };
            let Changed { at, dropped } = changed.map_err(|unfit| {
                let hint = if wanted.drop { "" } else { "; with --drop such packets are dropped" };
                Refusal::new(format!("{unfit}{hint}"))
            })?;
            (made.at_ns, made.dropped) = (Some(at.0), dropped);
        }
        self.said.extend(made.remarks.iter().map(|remark| remark.title.clone()));
        #[cfg(feature = "serve")]
        self.forget_pauses(&scenario);
        (self.running.text, self.running.scenario, self.at) = (text, scenario, difference.at);
        self.running.file = file;
        self.running.standings = standings;
        self.keep();
        Ok(made)
    }

    /// Reads the text that was edited: the scenario and its new warnings, or what is wrong with it.
    fn read(&self, text: &str, file: &Path, sets: &[String]) -> Result<(Scenario, Vec<Remark>), Refusal> {
        let new = |problems: &[Problem]| -> Vec<Remark> {
            let mut remarks: Vec<Remark> = Vec::new();
            for remark in problems.iter().filter(|p| !self.said.contains(&p.title)).map(remark) {
                // What both directions have alike is said once.
                if !remarks.contains(&remark) {
                    remarks.push(remark);
                }
            }
            remarks
        };
        match falaj_scenario::parse(text, &file.to_string_lossy()) {
            Ok((scenario, warnings)) => Ok((scenario, new(warnings.problems()))),
            Err(errors) => Err(Refusal {
                what: ["nothing was changed", &sets.join(" ")].join(if sets.is_empty() { "" } else { ": " }),
                remarks: new(errors.problems()),
            }),
        }
    }

    fn show(&mut self, wanted: &ShowRequest) -> Result<Report, Refusal> {
        let (snapshot, measured, _) = self.measured()?;
        let made = self.made()?;
        Ok(report(&self.running.scenario, &snapshot, measured, made, wanted.histograms))
    }

    /// What masks made, by pipe. They are asked one by one, and packets pass between.
    fn made(&mut self) -> Result<Vec<Vec<MaskReport>>, Refusal> {
        let mut asks = Vec::new();
        for link in &self.running.scenario.links {
            for (towards, way) in WAYS {
                let Direction { masks, flows, .. } = link.direction(towards);
                let of_link = masks.link.map(|_| (None, None));
                let named = |(f, flow): (usize, &Flow)| {
                    masks.of(f).map(|_| (Some(FlowId(f as u32)), Some(format!("{way} {}", flow.name))))
                };
                asks.push(of_link.into_iter().chain(flows.iter().enumerate().filter_map(named)).collect::<Vec<_>>());
            }
        }
        let mut all = Vec::new();
        for (pipe, asks) in asks.into_iter().enumerate() {
            let mut made = Vec::new();
            for (flow, name) in asks {
                let Told::Made(told) = self.ask(Ask::Made(PipeId(pipe as u32), flow))? else {
                    return Err(Refusal::new("another answer than one about masks"));
                };
                made.extend(told.map(|told| MaskReport::new(name, &told)));
            }
            all.push(made);
        }
        Ok(all)
    }

    /// Links and promises as they are now.
    #[cfg(feature = "serve")]
    pub(crate) fn look(&mut self) -> Result<Look, Refusal> {
        let (snapshot, measured, adapters) = self.measured()?;
        let (scenario, standings) = (Arc::clone(&self.running.scenario), self.running.standings.clone());
        Ok(Look { scenario, standings: standings.unwrap_or_default(), snapshot, measured, adapters })
    }

    /// By pipe, which are those of each link up and down: who held it when.
    #[cfg(feature = "serve")]
    pub(crate) fn turns(&mut self) -> Result<Vec<Vec<(String, Turn)>>, Refusal> {
        let Told::Turns(turns) = self.ask(Ask::Turns)? else {
            return Err(Refusal::new("another answer than one about turns"));
        };
        let links = &self.running.scenario.links;
        let ways = links.iter().flat_map(|link| WAYS.iter().map(|(towards, _)| link.direction(*towards)));
        let name =
            |direction: &Direction, turn: &Turn| direction.flows.get(turn.flow.index()).map(|flow| flow.name.clone());
        let of = |(direction, turns): (&Direction, Vec<Turn>)| {
            turns.into_iter().filter_map(|turn| Some((name(direction, &turn)?, turn))).collect()
        };
        Ok(ways.zip(turns).map(of).collect())
    }

    /// Pauses an adapter, or lets it go on.
    #[cfg(feature = "serve")]
    pub(crate) fn pause(&mut self, name: &str, paused: bool) -> Result<(), Refusal> {
        match self.ask(Ask::Pause { name: name.to_owned(), paused })? {
            Told::Paused(done) => {
                done.map_err(Refusal::new)?;
                let other = if paused { self.paused.insert(name.to_owned()) } else { self.paused.remove(name) };
                if other {
                    self.keep_paused();
                }
                Ok(())
            }
            _ => Err(Refusal::new("another answer than one to a pause")),
        }
    }

    /// The names of its links.
    #[cfg(feature = "serve")]
    pub(crate) fn links(&self) -> Vec<String> {
        self.running.scenario.links.iter().map(|link| link.name.clone()).collect()
    }

    /// The text of what is running.
    #[cfg(feature = "serve")]
    pub(crate) fn text(&self) -> &str {
        &self.running.text
    }

    fn measured(&mut self) -> Result<Measured, Refusal> {
        let other = || Refusal::new("another answer than one to statistics");
        let Told::Snapshot(snapshot, counts) = self.ask(Ask::Snapshot)? else { return Err(other()) };
        let flows: usize = snapshot.flows.iter().map(Vec::len).sum();
        let mut measured = Vec::new();
        while measured.len() < flows {
            match self.ask(Ask::Measured { from: measured.len() })? {
                Told::Measured(more) if !more.is_empty() => measured.extend(more),
                _ => return Err(other()),
            }
        }
        Ok((*snapshot, measured, counts))
    }
}

/// Where the names of adapters that pause are kept, beside what is running.
#[cfg(feature = "serve")]
pub(crate) fn paused_beside(kept: &Path) -> PathBuf {
    with_more(kept, ".paused")
}

/// The same path with more behind its name.
fn with_more(file: &Path, more: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(more);
    path.into()
}

/// Makes a file hold this, all of it or what it held: it is written beside it, and takes its place.
fn replace(file: &Path, text: &str) {
    let beside = with_more(file, ".new");
    let write = || {
        let mut new = std::fs::File::create(&beside)?;
        new.write_all(text.as_bytes())?;
        // Else, where the power fails, the new name may have nothing behind it.
        new.sync_all()?;
        std::fs::rename(&beside, file)
    };
    if let Err(error) = write() {
        // What is not whole is nobody's use.
        let _ = std::fs::remove_file(&beside);
        note!("warning: {}: {error}; the change is made, and is forgotten when the service ends", file.display());
    }
}

/// What is promised there, if all is that anybody needs.
fn admitted(scenario: &Scenario) -> Result<Vec<Vec<Standing>>, Refusal> {
    let standings = standings(scenario).map_err(|error| Refusal::new(format!("{error:#}")))?;
    let refused = standings.iter().flatten().filter_map(|flow| Some((&flow.flow, flow.refused.as_ref()?)));
    let mut remarks: Vec<Remark> = Vec::new();
    for (flow, (what, help)) in refused {
        let remark = Remark { severity: "error".into(), title: format!("{flow} {what}"), help: vec![help.clone()] };
        // What both directions have alike is said once.
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
    if remarks.is_empty() { Ok(standings) } else { Err(Refusal { what: "that does not fit".into(), remarks }) }
}

/// The text with these values.
fn edited(text: &str, sets: &[String]) -> Result<String, Refusal> {
    let mut file: DocumentMut = text.parse().map_err(|_| Refusal::new("the scenario is no TOML"))?;
    let mut edit = Edit::new(&mut file);
    for set in sets {
        let read = parse_set_or_unset(set).map_err(|error| Refusal::new(format!("{set}: {error}")))?;
        edit.set(&read.path, read.value.as_ref()).map_err(|error| Refusal::new(format!("{set}: {error:#}")))?;
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

/// What links do, from what was counted and what was measured a little later.
fn report(
    scenario: &Scenario,
    snapshot: &Snapshot,
    measured: Vec<LiveFlow>,
    made: Vec<Vec<MaskReport>>,
    histograms: bool,
) -> Report {
    let (mut measured, mut made) = (measured.into_iter(), made.into_iter());
    let mut direction = |(n, link, way, towards): (usize, &Link, &str, _)| {
        let pipe = 2 * n + usize::from(towards == Towards::Down);
        let direction: &Direction = link.direction(towards);
        let counted = snapshot.flows.get(pipe).map_or(&[][..], Vec::as_slice);
        let mut all = (Counted::default(), LiveFlow::default());
        all.0.counters = snapshot.gone.get(pipe).copied().unwrap_or_default();
        let flows = counted.iter().enumerate().map(|(f, counted)| {
            let measured = measured.next().unwrap_or_default();
            let name = direction.flows.get(f).map_or("", |flow| &flow.name);
            sum(&mut all, counted, &measured);
            flow(format!("{way} {name}"), counted, &measured, snapshot.at, histograms)
        });
        let flows: Vec<FlowReport> = flows.collect();
        DirectionReport {
            way: way.into(),
            asked: Asked {
                rate: (!direction.setup.rate.is_unlimited()).then_some(direction.setup.rate.0),
                delay_ns: direction.delay.0,
                scheduler: direction.scheduler.kind.into(),
                impairments: impairments::words(direction),
            },
            total: flow(way.into(), &all.0, &all.1, snapshot.at, histograms),
            flows,
            breaches: snapshot.breaches.get(pipe).into_iter().flatten().map(breach_report).collect(),
            each: made.next().unwrap_or_default(),
        }
    };
    let link = |(n, link): (usize, &Link)| LinkReport {
        link: link.name.clone(),
        directions: WAYS.iter().map(|(towards, way)| direction((n, link, way, *towards))).collect(),
    };
    let rule = |((rule, taken), active): ((&Rule, &Taken), &Active)| {
        let Taken { packets, bytes } = *taken;
        let Active { stats, last } = active;
        RuleReport {
            rule: rule.name.clone(),
            packets,
            bytes,
            dropped: stats.dropped,
            lost: stats.lost,
            sojourn: BucketDelays::from(stats),
            idle_ns: last.map(|then| snapshot.at.since(then).0),
            rate: None,
        }
    };
    let ended = &snapshot.ended;
    let lost = snapshot.losses.by_reason().into_iter().filter(|(count, _)| *count > 0);
    Report {
        elapsed_ns: snapshot.at.since(Time::ZERO).0,
        links: scenario.links.iter().enumerate().map(link).collect(),
        rules: scenario.rules.iter().zip(&snapshot.taken).zip(&snapshot.of_rules).map(rule).collect(),
        gone: GoneReport {
            offered: ended.offered,
            sent: ended.sent,
            lost: ended.lost,
            dropped: Drops::from(ended),
            backlog: ended.backlog,
            taken: snapshot.taken_by_the_gone.packets,
        },
        lost_elsewhere: lost.map(|(count, why)| Elsewhere { count, what: format!("packets {why}") }).collect(),
    }
}

fn breach_report(breach: &Breach) -> BreachReport {
    let Breach { library, what, at, times, instead } = breach.clone();
    BreachReport { library, what, at_ns: at.0, times, packets_by_turns: instead }
}

fn sum((all, measured_all): &mut (Counted, LiveFlow), counted: &Counted, measured: &LiveFlow) {
    all.counters.add(&counted.counters);
    all.active = all.active.max(counted.active);
    measured_all.delay.add(&measured.delay);
    measured_all.release_error.add(&measured.release_error);
}

fn flow(name: String, counted: &Counted, measured: &LiveFlow, now: Time, histograms: bool) -> FlowReport {
    let c = &counted.counters;
    FlowReport {
        flow: name,
        offered: c.offered,
        offered_bytes: c.offered_bytes,
        sent: c.sent,
        sent_bytes: c.sent_bytes,
        lost: c.lost,
        lost_bytes: c.lost_bytes,
        duplicated: c.duplicated,
        corrupted: c.corrupted,
        reordered: c.reordered,
        dropped: Drops::from(c),
        marked: c.marked,
        backlog: c.backlog,
        backlog_bytes: c.backlog_bytes,
        max_backlog: c.max_backlog,
        idle_ns: counted.active.map(|then| now.since(then).0),
        sojourn: delays(&measured.delay, histograms),
        release_error: delays(&measured.release_error, false),
        rate: None,
    }
}

fn delays(meter: &Meter, histogram: bool) -> Delays {
    let nanos = |span: Option<Span>| span.map(|span| span.0);
    Delays {
        packets: meter.count(),
        mean_ns: meter.mean_nanos(),
        p50_ns: nanos(meter.quantile(0.5)),
        p99_ns: nanos(meter.quantile(0.99)),
        max_ns: nanos(meter.max()),
        histogram: if histogram { meter.counts().map(|(delay, times)| (delay.0, times)).collect() } else { Vec::new() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "[link.a]\nrate = \"1mbit\"\n[link.a.flow.voice]\nmatch = \"udp\"\n[link.a.flow.rest]\nmatch = \"any\"\n";

    /// Any words for values to be set: a text that is TOML, or a refusal.
    fn any_sets(sets: &[String]) {
        match edited(TEXT, sets) {
            Ok(text) => drop(falaj_scenario::parse(&text, "x")),
            Err(refusal) => assert!(!refusal.what.is_empty()),
        }
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
            "need",
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
            let mut set = || (0..1 + next() % 8).map(|_| words[next() % words.len()]).collect::<Vec<_>>();
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
        assert_eq!((severity.as_str(), title.as_str()), ("error", "`rate`: `3` is a number without a unit"));
        assert!(help[0].contains("`3mbit`"), "{help:?}");
    }
}
