//! Reads a table whose keys are defined by a plug-in. Its values are texts or whole numbers.

use super::value::{at_value, mistyped};
use crate::diagnostics::Problem;
use crate::keys::Key;
use crate::suggest::quoted;
use crate::units::{self, Unreadable};
use falaj_sched::contract::params::{Given, Unit};
use falaj_sched::queues::queue::Limit;
use toml::de::{DeTable, DeValue};

/// Reads a table of texts and whole numbers.
pub(super) fn given(
    key: &Key,
    table: &DeTable<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Vec<Given>> {
    let mut read = |name: &str, value: &toml::Spanned<DeValue<'_>>| {
        let (text, unit, number) = match value.get_ref() {
            DeValue::String(text) => {
                let (unit, number) = quantity(text);
                (text.to_string(), unit, number)
            }
            DeValue::Integer(n) => match u64::from_str_radix(n.as_str(), n.radix()) {
                Ok(number) => (number.to_string(), Unit::Number, number),
                Err(_) => {
                    let what =
                        format!("{} of {} is out of range", quoted(&n.to_string()), quoted(name));
                    let error = Unreadable::new(
                        what,
                        format!("write a whole number from 0 to {}", u64::MAX),
                    );
                    problems.push(at_value(key, error, &value.span()));
                    return None;
                }
            },
            other => {
                problems.push(at_value(key, mistyped(key, other), &value.span()));
                return None;
            }
        };
        Some(Given { name: name.into(), text: text.into(), unit, number })
    };
    // All values are read before the result is built, so that all errors are reported.
    let all: Vec<_> = table.iter().map(|(name, value)| read(name.get_ref(), value)).collect();
    all.into_iter().collect()
}

/// The unit and the number of a text such as `60us`, read as elsewhere in the file.
fn quantity(text: &str) -> (Unit, u64) {
    if let Ok(span) = units::parse_span(text) {
        return (Unit::Span, span.0);
    }
    if let Ok(rate) = units::parse_rate(text) {
        return (Unit::Rate, rate.0);
    }
    match units::parse_limit(text) {
        Ok(Limit::Packets(packets)) => (Unit::Packets, packets.into()),
        Ok(Limit::Bytes(bytes)) => (Unit::Bytes, bytes),
        Err(_) => units::parse_size(text).map_or((Unit::Text, 0), |bytes| (Unit::Bytes, bytes)),
    }
}
