//! Reads the mask by which a link or a flow is divided into many.

use crate::diagnostics::Problem;
use crate::keys::Key;
use crate::model::Towards;
use crate::read::{Datum, Fields, Got, get};
use falaj_engine::masks::MaskConfig;
use falaj_sched::contract::params::Value;

/// Reads the mask of a table, if it has one; `Err` if errors were added to `problems`.
pub(crate) fn each(
    tables: &[&Fields<'_>],
    keys: &[Key],
    towards: Towards,
    problems: &mut Vec<Problem>,
) -> Result<Option<MaskConfig>, ()> {
    let mut read =
        |name: &str| keys.iter().find(|k| k.name == name).map(|key| get(tables, key, problems));
    let (written, most, expire) = (read("mask"), read("max-flows"), read("expire"));
    let written = match written {
        Some(Got::Given(Datum::Mask(written))) => written,
        Some(Got::Wrong) => return Err(()),
        _ => {
            let mut whole = true;
            for name in ["max-flows", "expire"] {
                let Some((table, field)) = tables.iter().find_map(|t| Some((t, t.field(name)?)))
                else {
                    continue;
                };
                let why = format!("{} has no `mask`, which `{name}` is for", table.what);
                let help = "add `mask`, as in `mask = \"src\"`, or leave it out";
                problems.push(Problem::error(field.name_at.clone(), why).help(help));
                whole = false;
            }
            return if whole { Ok(None) } else { Err(()) };
        }
    };
    match (most, expire) {
        (
            Some(
                Got::Given(Datum::Value(Value::Count(most)))
                | Got::Default(Datum::Value(Value::Count(most))),
            ),
            Some(
                Got::Given(Datum::Value(Value::Span(expire)))
                | Got::Default(Datum::Value(Value::Span(expire))),
            ),
        ) => Ok(Some(MaskConfig {
            mask: written.towards(towards),
            most: u32::try_from(most).map_err(drop)?,
            expire,
        })),
        _ => Err(()),
    }
}
