//! Reads whether falaj or a device paces a link.

use crate::diagnostics::Problem;
use crate::keys;
use crate::read::{Datum, Fields, Got, get};
use falaj_engine::pipe::Pace;
use falaj_sched::contract::params::{ConfigError, Setup, Value};
use falaj_sched::queues::queue::Limit;

/// The default backlog of a device is the bytes that its link sends in one second, divided by this
/// number.
const PART: u64 = 1_000;
/// Minimum of the default backlog, in packets of the largest size: the device sends one packet
/// while it receives another.
const LEAST: u64 = 2;

/// The pacing of a direction with this setup. Errors are added to `problems`.
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
    let (pace, backlog) = (value("paced-by")?, value("backlog")?);
    if pace != Some(Value::Choice("device")) {
        let Some(field) = tables.iter().find_map(|table| table.field("backlog")) else {
            return Ok(Pace::Falaj);
        };
        problems.push(
            Problem::error(
                field.name_at.clone(),
                "`backlog` is for a link that a device paces, and falaj paces this one",
            )
            .help("write `paced-by = \"device\"`, or leave out `backlog`"),
        );
        return Err(());
    }
    let largest = u64::from(setup.largest);
    let bytes = match backlog {
        Some(Value::Limit(Limit::Packets(packets))) => largest * u64::from(packets),
        Some(Value::Limit(Limit::Bytes(bytes))) => bytes,
        _ => (setup.rate.0 / 8 / PART).max(LEAST * largest),
    };
    // The maximum of the type is more than any device holds.
    Ok(Pace::Device { backlog: u32::try_from(bytes).unwrap_or(u32::MAX) })
}

/// The error for a device-paced link, if `paced-by`, `backlog` or `rate` causes it, at the place of
/// that key; `None` for other errors.
pub(crate) fn refusal(refused: &ConfigError, tables: &[&Fields<'_>]) -> Option<Problem> {
    let ours = ["paced-by", "backlog", "rate"].contains(&refused.param);
    let field = tables.iter().find_map(|table| table.field(refused.param)).filter(|_| ours)?;
    let title = format!("`{}`: {}", refused.param, refused.what);
    Some(Problem::error(field.at.clone(), title).help(refused.help.clone()))
}
