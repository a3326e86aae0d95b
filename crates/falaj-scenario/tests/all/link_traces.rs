//! Traces of a link's rate, delay and loss, from their files to the scenarios that they make.

use falaj_scenario::{LinkTrace, parse};
use falaj_sched::units::capacity::Capacity;
use falaj_sched::units::probability::Probability;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use proptest::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A file with these contents, which is removed at the end.
struct Contents(PathBuf);

impl Contents {
    fn new(bytes: &[u8]) -> Contents {
        static FILES: AtomicUsize = AtomicUsize::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let name = format!("falaj-link-trace-{}-{number}.csv", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).expect("a file");
        Contents(path)
    }

    fn read(&self) -> Result<LinkTrace, String> {
        LinkTrace::read(&self.0, None)
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Checks that a trace with these contents is refused at a place in it, or that the scenario made
/// of it can be read.
pub(crate) fn read_or_refused(bytes: &[u8], repeat: Option<Span>) {
    let file = Contents::new(bytes);
    match LinkTrace::read(&file.0, repeat) {
        Err(what) => {
            let prefix = format!("{}:", file.0.display());
            let place = what.strip_prefix(&prefix).expect("the file is named");
            let line: usize = place.split(':').next().and_then(|n| n.parse().ok()).expect("a line");
            let lines = bytes.split(|byte| *byte == b'\n').count();
            assert!((1..=lines).contains(&line), "{what}");
        }
        Ok(trace) => {
            let rate = if trace.sets().any(|key| key == "rate") { "" } else { "rate = \"1mbit\"" };
            let (keys, changes) = (trace.keys(), trace.changes("link.a"));
            let text = format!("[link.a]\n{rate}\n{keys}{changes}");
            if let Err(problems) = parse(&text, "a.toml") {
                panic!("{text}: {problems}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_file_is_read_or_refused(
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            "(time|rate|delay|loss|,|_|s|mbit|ms|%|\\(|\\)| ){0,9}\n([0-9.,smbitk# \n\r\u{b}\u{c}_%-]{0,20})"
                .prop_map(String::into_bytes),
            "time,loss( |\n)([0-9]{1,2}[\r\u{b}\u{c} ]{0,2},[0-9]{1,2}[\r\u{b}\u{c} ]{0,2}%\n){0,3}"
                .prop_map(String::into_bytes),
            "time,rate_mbit,delay_ms,loss_%\n([0-9]{1,2}(,[0-9]{1,2}){3}\n){0,4}"
                .prop_map(String::into_bytes),
        ],
        repeat in proptest::option::of(1..20_000_000_000_u64),
    ) {
        read_or_refused(&bytes, repeat.map(Span));
    }
}

#[test]
fn files_that_are_no_traces() {
    let file = Contents::new(b"time,rate\n\xff\x00");
    let (path, name) = (&file.0, file.0.display());
    let says = |what: &str| assert_eq!(file.read().unwrap_err(), format!("{name}{what}"));
    says(":2:1: the byte 0xff is not a character: a text is in UTF-8");
    let of_zeros = |bytes| std::fs::File::create(path).unwrap().set_len(bytes).unwrap();
    of_zeros(100_000_000);
    says(" cannot be read: it has more than 64 MiB, the most for a text");
    of_zeros(60_000_000);
    assert!(file.read().unwrap_err().contains(":1:1: `\\0\\0"));
    std::fs::write(path, ",".repeat(60_000_000)).unwrap();
    says(
        ":1:1: the line has 60000001 values instead of `time,rate`; a first line may name other \
         columns, as in `time,rate,delay,loss`",
    );
    std::fs::remove_file(path).unwrap();
    says(" cannot be read: No such file or directory (os error 2)");
    let error = LinkTrace::read(&std::env::temp_dir(), None).unwrap_err();
    assert!(
        error.ends_with(" is not a regular file: a trace is read again at each change of the link")
    );
}

/// Delay and loss change at their lines, and the rates of the trace stay the same throughout.
#[test]
fn the_scenario_of_each_line() {
    let file = Contents::new(
        b"time,rate_mbit,delay_ms,loss_%\n0,10,30,0\n5,8,30,0\n10,0,80,0\n12.5,20,80,1.5\n",
    );
    let trace = file.read().unwrap();
    let text = format!("[link.a]\n{}{}", trace.keys(), trace.changes("link.a"));
    let (scenario, warnings) = parse(&text, "a.toml").unwrap();
    assert!(warnings.is_empty(), "{warnings}");
    let up = &scenario.links[0].up.pipe;
    let Capacity::Steps(steps) = &up.capacity else { panic!("a trace") };
    let rates = [(0, 10), (5000, 8), (10_000, 0), (12_500, 20)];
    let expected = rates.map(|(ms, mbit)| (Time(ms * 1_000_000), Rate(mbit * 1_000_000)));
    let expected = falaj_sched::units::capacity::Steps::new(expected.to_vec(), None).unwrap();
    assert_eq!(**steps, expected);
    assert_eq!(up.delay, Span::from_millis(30));
    let phases: Vec<_> = scenario
        .changes
        .iter()
        .map(|change| {
            let up = &change.scenario.links[0].up.pipe;
            let Capacity::Steps(same) = &up.capacity else { panic!("a trace") };
            assert!(std::sync::Arc::ptr_eq(steps, same), "the trace is read once");
            (change.at, up.delay, format!("{:?}", up.impairments.loss))
        })
        .collect();
    let ms = Span::from_millis;
    let (none, some) = (&phases[0].2, &phases[1].2);
    assert_eq!(
        phases.iter().map(|phase| (phase.0, phase.1)).collect::<Vec<_>>(),
        [(ms(10_000), ms(80)), (ms(12_500), ms(80))]
    );
    assert!(none != some && some.contains(&format!("{:?}", Probability::of(15, 1000))), "{some}");
}

/// Each of the changes has a scenario of its own, and all share one trace of the rate.
#[test]
fn a_trace_with_many_lines() {
    let mut text = "time,rate_mbit,delay_us\n".to_owned();
    for n in 0..1_000 {
        text += &format!("{n},{},{n}\n", 1 + n % 7);
    }
    let file = Contents::new(text.as_bytes());
    let trace = file.read().unwrap();
    let text = format!("[link.a]\n{}{}", trace.keys(), trace.changes("link.a"));
    let (scenario, _) = parse(&text, "a.toml").unwrap();
    assert_eq!(scenario.changes.iter().count(), 999);
}

/// Two traces that repeat after different times make a schedule that is too long. The last problem
/// has the title by which the command line recognizes this error.
#[test]
fn repetitions_without_a_short_common_multiple() {
    let file = Contents::new(b"time,rate_mbit,delay_ms\n0,8,5\n2,4,50\n");
    let text = |up: u64, down: u64| {
        let read = |repeat| LinkTrace::read(&file.0, Some(Span::from_micros(repeat))).unwrap();
        let (up, down) = (read(up), read(down));
        format!(
            "[link.a]\n[link.a.up]\n{}[link.a.down]\n{}{}{}",
            up.keys(),
            down.keys(),
            up.changes("link.a.up"),
            down.changes("link.a.down")
        )
    };
    let errors = parse(&text(10_000_700, 10_000_900), "a.toml").unwrap_err();
    let title = &errors.problems().last().expect("an error").title;
    assert_eq!(*title, format!("more than {} changes", falaj_scenario::keys::CHANGES_MAX));
    let (scenario, _) = parse(&text(20_000_000, 10_000_000), "a.toml").unwrap();
    assert!(scenario.changes.iter().next().is_some());
}

/// The preset of a direction takes precedence over the link's delay, so the default queue depends
/// on the preset's delay.
#[test]
fn the_preset_of_a_direction_precedes_the_links_trace() {
    let file = Contents::new(b"time,delay_ms\n0,5\n1,6\n");
    let trace = file.read().unwrap();
    let (keys, changes) = (trace.keys(), trace.changes("link.a"));
    let text =
        format!("[link.a]\nrate = \"unlimited\"\n{keys}[link.a.up]\npreset = \"geo\"\n{changes}");
    let (scenario, _) = parse(&text, "a.toml").unwrap();
    let later = scenario.changes.iter().next().expect("a change").scenario;
    for scenario in [&scenario, &*later] {
        let up = &scenario.links[0].up.pipe;
        assert_eq!((up.delay, up.setup.rate), (Span::from_millis(260), Rate(3_000_000)));
    }
}
