//! Instruction counts for `--instructions`. The program runs itself under valgrind's callgrind,
//! which writes a part of its profile whenever `falaj_bench_mark` returns. The difference of two
//! runs of different length contains only the repeated instructions. A count is the same on every
//! machine of one architecture, but depends on the compiler: so the checked-in table has a section
//! for each compiler and architecture.

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// The compiler's version and the architecture, from `build.rs`.
const COMPILER: &str = env!("FALAJ_COMPILER");
/// Permitted growth of a count, in percent.
const TOLERANCE: u64 = 5;

/// Number of instructions by subject and load, in hundredths of an instruction.
pub(super) type InstructionCounts = BTreeMap<String, BTreeMap<String, u64>>;

/// Callgrind recognizes this function by its name.
#[inline(never)]
fn falaj_bench_mark(cell: usize) {
    black_box(cell);
}

/// Runs `part` under valgrind, once short and once long; `part` returns the number of its
/// repetitions. The profile before the first mark contains all work that happens only once.
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

/// Length of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    Short,
    Long,
}

/// Runs the program with these arguments under valgrind, and reads the profile of each of its
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
        // The first of three parts is construction and warm-up.
        let part = |i: usize| total(&parts.with_extension((3 * cell + i).to_string()));
        let (fewer, more) = (part(2)?, part(3)?);
        let pairs = long.parse::<u64>()? - short.parse::<u64>()?;
        let hundredths = (more.saturating_sub(fewer) * 100 + pairs / 2) / pairs;
        counts.entry(kind.to_owned()).or_default().insert(load.to_owned(), hundredths);
    }
    Ok(counts)
}

/// The total at the end of one of callgrind's parts.
fn total(part: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(part)
        .with_context(|| format!("valgrind left no {}", part.display()))?;
    let sum = text
        .lines()
        .find_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")));
    sum.and_then(|sum| sum.trim().parse().ok())
        .with_context(|| format!("no sum in {}", part.display()))
}

/// Prints the counts as JSON, one row of `key`, load and instructions each, or compares them with
/// the table in `known`. If neither was requested, prints the compiler and returns `None`.
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

/// A section of the checked-in table.
pub(super) fn section(counts: &InstructionCounts) -> String {
    let mut text = format!("[\"{COMPILER}\"]");
    for (kind, loads) in counts {
        let loads = loads.iter().map(|(load, n)| format!("\"{load}\" = {}", n.div_ceil(100)));
        text += &format!("\n\"{kind}\" = {{ {} }}", loads.collect::<Vec<_>>().join(", "));
    }
    text
}

/// Compares counts with those known for the compiler: growth beyond the tolerance is an error, and
/// unknown counts are printed, to be added to the table.
fn check(known: &str, counts: &InstructionCounts) -> Result<ExitCode> {
    let known: toml::Table = known.parse()?;
    let Some(known) = known.get(COMPILER) else {
        say!("there are no counts for {COMPILER} yet; its section:\n\n{}", section(counts));
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
                        () if n < before * (100 - TOLERANCE) => "fewer: update the table",
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
