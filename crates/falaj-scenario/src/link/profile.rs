//! Reads the profile of a direction: the distribution of extra time that packets take beyond their
//! transmission.

use crate::diagnostics::Problem;
use crate::files::profile;
use crate::keys;
use crate::read::{BriefTable, Datum, Fields, read_file};
use falaj_engine::impair::profile::Profile;
use falaj_sched::units::rate::Rate;
use std::path::Path;

/// The profile of a direction and the rate that its file sets, if the direction has a profile;
/// `Err` after an error, which was reported.
pub(crate) fn profile(
    tables: &[&Fields<'_>],
    beside: &Path,
    problems: &mut Vec<Problem>,
) -> Result<Option<(Profile, Option<Rate>)>, ()> {
    let Some(given) = BriefTable::read(keys::direction("profile").ok_or(())?, tables, problems)?
    else {
        return Ok(None);
    };
    let field = given.fields.field("file").ok_or(())?;
    let Some(Datum::Name(name)) = field.datum else { return Err(()) };
    let read = read_file(beside, name, field, profile::parse, profile::FORM, problems)?;
    let occupies = given.values.choice("holds-link") != Some("no");
    let profile = Profile::new(read.points, read.loss_level, occupies).ok_or(())?;
    Ok(Some((profile, read.bw)))
}
