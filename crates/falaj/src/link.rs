//! A link as the command line tells it: in a file, or by flags.

use crate::file;
use crate::flags::Flags;
use anyhow::Result;
use falaj_scenario::Scenario;
use falaj_sched::queues::queue::Limit;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
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

/// What a link carries in a round trip, or in 50 ms if that is longer; 20 packets at least.
pub(crate) fn default_queue(rate: Rate, delay: Span) -> Limit {
    if rate.is_unlimited() {
        return Limit::Packets(1000);
    }
    let time = Span(delay.0.saturating_mul(2)).max(Span::from_millis(50));
    let bytes = u128::from(rate.0) * u128::from(time.0) / 8_000_000_000;
    Limit::Bytes(u64::try_from(bytes).unwrap_or(u64::MAX).clamp(20 * 1514, u32::MAX.into()))
}
