//! A link as the command line tells it: in a file, or by flags.

use crate::cli::flags::Flags;
use anyhow::Result;
use falaj_scenario::Scenario;
use falaj_terminal::file;
use std::path::PathBuf;

/// What says what the link is.
#[derive(clap::Args)]
pub(crate) struct LinkArgs {
    /// A scenario; without it the flags say what the link is.
    file: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
}

impl LinkArgs {
    /// The scenario that was asked for, and its text; what nobody said about the mtu is `mtu`.
    pub(crate) fn scenario(&self, mtu: u32) -> Result<(Scenario, String)> {
        let Some(path) = &self.file else { return self.flags.scenario(mtu) };
        let (name, text) = file::text(path)?;
        Ok((file::parse(&text, &name)?, text))
    }

    /// The scenario's file, beside which those stand that it names.
    pub(crate) fn name(&self) -> PathBuf {
        let path = self.file.as_deref().map(std::path::absolute);
        path.and_then(Result::ok).unwrap_or_else(|| PathBuf::from("scenario"))
    }
}
