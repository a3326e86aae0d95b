//! `--record`: the costs of disciplines for the reference page of the disciplines, with machine and
//! day.

use super::{DisciplineFigures, LoadCase};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The load of the page's nanoseconds and of its instruction counts: 256 flows, filled to 20
/// packets each and drained.
pub(super) const FLOWS: &str = "1::256";

/// Writes the file: the costs less that of `none`, which is the first row.
pub(super) fn write(
    file: &Path,
    cases: &[LoadCase],
    rows: &[DisciplineFigures],
    repeat: usize,
) -> Result<()> {
    let [case] = cases else { anyhow::bail!("one load is recorded, not {}", cases.len()) };
    let whole = rows
        .iter()
        .all(|row| row.figures[0].as_ref().map_or(true, |figures| figures.len() == repeat));
    ensure!(whole, "interrupted: {} stays as it was", file.display());
    let none = rows[0].median(0).context("`none` was not measured")?;
    let mut text = String::from(
        "# Nanoseconds of CPU that a discipline adds to a packet enqueued and dequeued, net of `none`, a list of packets: as\n\
         # `falaj bench sched --record docs/nanoseconds.toml` writes them on a machine that does nothing else.\n\n",
    );
    text += &format!(
        "machine = \"{}\"\ncompiler = \"{}\"\nday = {}\nload = \"{} {}\"\nruns = {repeat}\nnone = {none:.1}\n\n[nanoseconds]\n",
        machine(),
        env!("FALAJ_COMPILER"),
        today()?,
        case.flowsets.text,
        case.swing()
    );
    for row in &rows[1..] {
        if let Some(all) = row.median(0) {
            text += &format!("\"{}\" = {:.1}\n", row.name, all - none);
        }
    }
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    eprintln!("wrote {}", file.display());
    Ok(())
}

/// The processors of the machine, as Linux names them.
fn machine() -> String {
    let known = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = known.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let name =
        name.map_or("an unknown processor", |(_, name)| name.trim()).replace(['"', '\\'], "");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} x {name}")
}

/// The present day in UTC, as TOML date.
fn today() -> Result<toml::value::Date> {
    let since =
        SystemTime::now().duration_since(UNIX_EPOCH).context("the clock stands before 1970")?;
    Ok(day(since.as_secs() / 86_400))
}

/// The date of a day counted from 1 January 1970, by a calendar whose years begin in March.
fn day(since_1970: u64) -> toml::value::Date {
    let days = since_1970 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    toml::value::Date { year: (era * 400 + year + next) as u16, month: month as u8, day: day as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (days, text) in [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_779, "2026-11-22"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(day(days).to_string(), text);
        }
    }
}
