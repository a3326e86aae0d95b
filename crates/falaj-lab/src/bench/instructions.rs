//! What `--instructions` counts: instructions, not time. The program runs itself under
//! valgrind's callgrind, which writes a part of its account whenever `falaj_bench_mark`
//! returns. Two runs of different length, subtracted, leave what is repeated alone.
//! A count is the same on every machine; it changes with the compiler, so that
//! the checked-in table has a section for each.

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// As `build.rs` knows it.
const COMPILER: &str = env!("FALAJ_COMPILER");
/// Parts in a hundred that a count may grow by.
const TOLERANCE: u64 = 5;

/// Instructions by what is measured and load, in hundredths.
pub(super) type InstructionCounts = BTreeMap<String, BTreeMap<String, u64>>;

/// Callgrind knows it by name.
#[inline(never)]
fn falaj_bench_mark(cell: usize) {
    black_box(cell);
}

/// Under valgrind: what `part` repeats, a short time and a longer one; it says how often it was.
/// Before the first the account has everything that only happens once.
pub(super) fn parts(
    what: &str,
    load: &str,
    mut part: impl FnMut(Length) -> Result<u64>,
) -> Result<()> {
    let mut marked = |length| {
        falaj_bench_mark(0);
        part(length)
    };
    let (short, long) = (marked(Length::Short)?, marked(Length::Long)?);
    falaj_bench_mark(1);
    say!("{what}\t{load}\t{short}\t{long}");
    Ok(())
}

/// How much of what is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    Short,
    Long,
}

/// Runs the program with these words under valgrind, and reads what it wrote of each of its
/// [`parts`].
pub(super) fn counts(words: &[OsString]) -> Result<InstructionCounts> {
    ensure!(
        !cfg!(debug_assertions),
        "the instructions of a debug build say nothing: build with --release"
    );
    let dir = std::env::temp_dir().join(format!("falaj-instructions-{}", std::process::id()));
    std::fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let counts = count(words, &dir);
    std::fs::remove_dir_all(&dir)?;
    counts
}

fn count(words: &[OsString], dir: &Path) -> Result<InstructionCounts> {
    let parts = dir.join("parts");
    let mut out = OsString::from("--callgrind-out-file=");
    out.push(&parts);
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--quiet", "--dump-after=*falaj_bench_mark*"]).arg(out);
    command.arg(std::env::current_exe()?).arg("bench").args(words);
    let output = match command.stderr(Stdio::inherit()).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!(
                "instructions are counted by valgrind, which is not installed (Debian: apt-get install valgrind)"
            )
        }
        output => output.context("cannot run valgrind")?,
    };
    ensure!(output.status.success(), "valgrind ended with {}", output.status);
    let mut counts = InstructionCounts::new();
    for (cell, line) in String::from_utf8(output.stdout)?.lines().enumerate() {
        let fields: Vec<&str> = line.split('\t').collect();
        let &[kind, load, short, long] = &fields[..] else { bail!("cannot read `{line}`") };
        // Of three parts the first is what was built and warmed up.
        let part = |i: usize| total(&parts.with_extension((3 * cell + i).to_string()));
        let (fewer, more) = (part(2)?, part(3)?);
        let pairs = long.parse::<u64>()? - short.parse::<u64>()?;
        let hundredths = (more.saturating_sub(fewer) * 100 + pairs / 2) / pairs;
        counts.entry(kind.to_owned()).or_default().insert(load.to_owned(), hundredths);
    }
    Ok(counts)
}

/// The sum at the end of one of callgrind's parts.
fn total(part: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(part)
        .with_context(|| format!("valgrind left no {}", part.display()))?;
    let sum = text
        .lines()
        .find_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")));
    sum.and_then(|sum| sum.trim().parse().ok())
        .with_context(|| format!("no sum in {}", part.display()))
}

/// What is counted as JSON, one row of `key`, load and instructions each; or compared with the
/// table in `known`. `None` where neither was asked for.
pub(super) fn reported(
    counts: &InstructionCounts,
    key: &str,
    json: bool,
    known: Option<&PathBuf>,
) -> Result<Option<ExitCode>> {
    if let Some(file) = known {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        return check(&text, counts).with_context(|| format!("in {}", file.display())).map(Some);
    }
    if json {
        let all = counts.iter().flat_map(|(what, loads)| {
            let row = move |(load, n): (&String, &u64)| {
                json!({
                    key: what, "load": load, "instructions": *n as f64 / 100.0,
                })
            };
            loads.iter().map(row)
        });
        say!(
            "{}",
            serde_json::to_string_pretty(
                &json!({ "compiler": COMPILER, "counts": all.collect::<Vec<_>>() })
            )?
        );
        return Ok(Some(ExitCode::SUCCESS));
    }
    say!("{COMPILER}");
    Ok(None)
}

/// As it stands in the checked-in table.
pub(super) fn section(counts: &InstructionCounts) -> String {
    let mut text = format!("[\"{COMPILER}\"]");
    for (kind, loads) in counts {
        let loads = loads.iter().map(|(load, n)| format!("\"{load}\" = {}", n.div_ceil(100)));
        text += &format!("\n\"{kind}\" = {{ {} }}", loads.collect::<Vec<_>>().join(", "));
    }
    text
}

/// What is known of a compiler and a discipline may not grow beyond the
/// tolerance; what is not known is said, to be put in the table.
fn check(known: &str, counts: &InstructionCounts) -> Result<ExitCode> {
    let known: toml::Table = known.parse()?;
    let Some(known) = known.get(COMPILER) else {
        say!("nothing is known of {COMPILER} yet; its section:\n\n{}", section(counts));
        return Ok(ExitCode::SUCCESS);
    };
    let mut new = InstructionCounts::new();
    let mut grown = false;
    for (kind, loads) in counts {
        for (load, &n) in loads {
            let before = known.get(kind).and_then(|loads| loads.get(load)?.as_integer());
            match before.and_then(|n| u64::try_from(n).ok()) {
                None => {
                    new.entry(kind.clone()).or_default().insert(load.clone(), n);
                }
                Some(before) => {
                    let verdict = match () {
                        () if n > before * (100 + TOLERANCE) => "MORE",
                        () if n < before * (100 - TOLERANCE) => "fewer: let the table know",
                        () => continue,
                    };
                    grown |= verdict == "MORE";
                    say!(
                        "{kind}, {load}: {} instructions, {before} in the table: {verdict}",
                        n.div_ceil(100)
                    );
                }
            }
        }
    }
    if !new.is_empty() {
        say!("not in the table yet:\n\n{}", section(&new));
    }
    let counted: usize = counts.values().map(BTreeMap::len).sum();
    say!(
        "{counted} counts compared, {TOLERANCE} % allowed: {}",
        if grown { "some have grown" } else { "none has grown" }
    );
    Ok(if grown { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_may_shrink_or_be_new_but_not_grow() {
        let counts = |n| {
            InstructionCounts::from([("drr".into(), BTreeMap::from([("1::1 0..1".into(), n)]))])
        };
        let table = section(&counts(20_000));
        let fails =
            |known: &str, n| check(known, &counts(n)).expect("a table") == ExitCode::FAILURE;
        assert!(!fails(&table, 21_000) && fails(&table, 21_001) && !fails(&table, 10_000));
        assert!(!fails("", 99_999), "another compiler");
        assert!(check("[", &counts(1)).is_err());
    }
}
