//! Reads who paces a link.

use crate::diagnostics::Problem;
use crate::keys;
use crate::read::{Datum, Fields, Got, get};
use falaj_engine::pipe::Pace;
use falaj_sched::contract::params::{ConfigError, Setup, Value};
use falaj_sched::queues::queue::Limit;

/// Unless it is said, a device holds as much as its link carries in this part of a second.
const PART: u64 = 1_000;
/// And so many of its largest packets at least: it sends one while it is handed another.
const LEAST: u64 = 2;

/// Who paces a direction of this setup; an error was said.
pub(crate) fn pace(
    tables: &[&Fields<'_>],
    setup: &Setup,
    problems: &mut Vec<Problem>,
) -> Result<Pace, ()> {
    let mut value = |name: &str| {
        let key = keys::direction(name).ok_or(())?;
        match get(tables, key, problems) {
            Got::Given(Datum::Value(value)) | Got::Default(Datum::Value(value)) => Ok(Some(value)),
            Got::Absent => Ok(None),
            _ => Err(()),
        }
    };
    let (pace, backlog) = (value("pace")?, value("backlog")?);
    if pace != Some(Value::Choice("device")) {
        let Some(field) = tables.iter().find_map(|table| table.field("backlog")) else {
            return Ok(Pace::Falaj);
        };
        problems.push(
            Problem::error(
                field.name_at.clone(),
                "`backlog` is what a device holds, and falaj paces this link",
            )
            .help("write `pace = \"device\"`, or leave out `backlog`"),
        );
        return Err(());
    }
    let largest = u64::from(setup.largest);
    let bytes = match backlog {
        Some(Value::Limit(Limit::Packets(packets))) => largest * u64::from(packets),
        Some(Value::Limit(Limit::Bytes(bytes))) => bytes,
        _ => (setup.rate.0 / 8 / PART).max(LEAST * largest),
    };
    // More than this nobody's device holds, and it is above any default.
    Ok(Pace::Device { backlog: u32::try_from(bytes).unwrap_or(u32::MAX) })
}

/// What a device-paced link cannot be, at the key that it is about; `None`: it is about something
/// else.
pub(crate) fn refusal(refused: &ConfigError, tables: &[&Fields<'_>]) -> Option<Problem> {
    let ours = ["pace", "backlog", "rate"].contains(&refused.param);
    let field = tables.iter().find_map(|table| table.field(refused.param)).filter(|_| ours)?;
    let title = format!("`{}`: {}", refused.param, refused.what);
    Some(Problem::error(field.at.clone(), title).help(refused.help.clone()))
}
