//! The curves of a flow and the distances between them, as SVG.
use super::Way;
use anyhow::Result;
pub(super) fn write(_: &std::path::Path, _: &[Way<'_>]) -> Result<Vec<String>> {
    Ok(vec![])
}
