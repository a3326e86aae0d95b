//! Runs targets on random texts, and on the seed texts of fuzzers. This crate and crates that
//! depend on it use it.

use falaj_engine::chance::Chance;
use falaj_scenario::Diagnostics;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A target: its name, the function that reads a text, and words of such texts, separated by `|`.
pub(crate) type Target = (&'static str, fn(&str), &'static str);

/// Checks that each problem has a title, and a place within the text.
pub(crate) fn placed(text: &str, problems: &Diagnostics) {
    let lines = text.split('\n').count();
    for problem in problems.problems() {
        assert!(
            (1..=lines).contains(&problem.line) && problem.column >= 1,
            "{}:{}",
            problem.line,
            problem.column
        );
        assert!(!problem.title.is_empty() && text.get(problem.span.clone()).is_some());
    }
    let _ = problems.render(false);
}

/// A sequence of random numbers.
struct Dice(Chance, u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.1 += 1;
        self.0.draw(self.1) % n
    }
}

fn text(dice: &mut Dice, words: &[&str], glue: &str) -> String {
    let mut text = String::new();
    for _ in 0..dice.below(60) {
        match dice.below(20) {
            0 => text.extend(char::from_u32(dice.below(0x500) as u32)),
            1 => text.push('\n'),
            _ => text.push_str(words[dice.below(words.len() as u64) as usize]),
        }
        text.push_str(glue);
    }
    text
}

/// Runs each target on 300 random texts, or on as many as it reads in `FALAJ_FUZZ_SECONDS` seconds.
/// If `FALAJ_FUZZ_TARGET` is set, only that target runs.
pub(crate) fn run(targets: &[Target]) {
    let seconds =
        std::env::var("FALAJ_FUZZ_SECONDS").ok().map(|s| s.parse().expect("a number of seconds"));
    let only = std::env::var("FALAJ_FUZZ_TARGET").ok();
    for (n, &(name, target, words)) in targets.iter().enumerate() {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let words: Vec<&str> = words.split('|').collect();
        let glue = if name == "packet" { "" } else { " " };
        let (begin, mut runs) = (Instant::now(), 0u64);
        let goes_on = |runs: u64| match seconds {
            Some(seconds) => begin.elapsed() < Duration::from_secs(seconds),
            None => runs < 300,
        };
        while goes_on(runs) {
            let mut dice = Dice(Chance::new(runs, n as u64, 0), 0);
            let text = text(&mut dice, &words, glue);
            let outcome = std::panic::catch_unwind(|| target(&text));
            assert!(outcome.is_ok(), "{name}, run {runs}: {text:?}");
            runs += 1;
        }
        println!("{name}: {runs} runs in {:?}", begin.elapsed());
    }
}

/// Runs all targets on the texts of `fuzz/corpus`.
pub(crate) fn run_corpus(targets: &[Target]) {
    let all = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for &(name, target, _) in targets {
        let Ok(files) = std::fs::read_dir(all.join(name)) else {
            assert!(name == "scenario", "{name} has none; of scenarios there are the examples");
            continue;
        };
        for file in files {
            let bytes = std::fs::read(file.expect("a file").path()).expect("a file");
            target(&String::from_utf8_lossy(&bytes));
        }
    }
}
