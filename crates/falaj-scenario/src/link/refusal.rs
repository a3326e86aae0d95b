//! Reports a discipline's error at the value that causes it.

use crate::diagnostics::{Problem, Severity};
use crate::link::flows::FlowRead;
use crate::link::scheduler::Chosen;
use crate::read::Fields;
use falaj_sched::contract::params::ConfigError;

/// The discipline's error, at the value that causes it.
pub(crate) fn refusal(
    refused: ConfigError,
    tables: &[&Fields<'_>],
    chosen: &Chosen<'_>,
    flows: &[&FlowRead<'_>],
) -> Problem {
    let flow = refused.flow.and_then(|n| flows.get(n).copied());
    let field = match flow {
        Some(flow) => flow.fields.field(refused.param),
        None => {
            let scheduler = chosen.fields.as_ref().and_then(|f| f.field(refused.param));
            scheduler.or_else(|| tables.iter().find_map(|t| t.field(refused.param)))
        }
    };
    let header = match (flow, &chosen.fields, tables.first()) {
        (Some(flow), _, _) => flow.fields.at.clone(),
        (None, Some(scheduler), _) => scheduler.at.clone(),
        (None, None, Some(first)) => first.at.clone(),
        (None, None, None) => 0..0,
    };
    let title = match flow {
        Some(flow) => format!("{}: {}", flow.fields.what, refused.what),
        None => format!("scheduler `{}`: {}", chosen.entry.kind, refused.what),
    };
    match field {
        Some(field) => Problem::error(field.at.clone(), title),
        None => Problem::error(header, title).label(format!("`{}` is not set here", refused.param)),
    }
    .help(refused.help)
}

/// A warning about a value that the discipline accepts, but that is probably not intended.
pub(crate) fn taken_all_the_same(
    taken: ConfigError,
    tables: &[&Fields<'_>],
    chosen: &Chosen<'_>,
    flows: &[&FlowRead<'_>],
) -> Problem {
    Problem { severity: Severity::Warning, ..refusal(taken, tables, chosen, flows) }
}
