//! A link as the command line tells it: in a file, or by its rate, delay and queue.

use crate::file;
use anyhow::Result;
use falaj_scenario::{Scenario, parse_limit, parse_mtu, parse_rate, parse_span};
use falaj_sched::queue::Limit;
use falaj_sched::rate::Rate;
use falaj_sched::time::Span;
use std::path::PathBuf;

/// What says what the link is.
#[derive(clap::Args)]
pub(crate) struct LinkArgs {
    /// A scenario with one link; without it the flags say what the link is.
    file: Option<PathBuf>,
    /// The link's rate, each way: 10mbit, 1.5Gbit/s, unlimited.
    #[arg(long, value_parser = parse_rate, conflicts_with = "file", default_value = "unlimited")]
    rate: Rate,
    /// Its propagation delay, each way: 40ms.
    #[arg(long, value_parser = parse_span, conflicts_with = "file", default_value = "0s")]
    delay: Span,
    /// Its queue, each way: 50p, 64kB [default: what the link carries in 50 ms or one round trip].
    #[arg(long, value_parser = parse_limit, conflicts_with = "file")]
    queue: Option<Limit>,
    /// Its largest IP packet: 1500B.
    #[arg(long, value_parser = parse_mtu, conflicts_with = "file", default_value = "1500B")]
    mtu: u32,
}

impl LinkArgs {
    /// The scenario that was asked for.
    pub(crate) fn scenario(&self) -> Result<Scenario> {
        if let Some(path) = &self.file {
            return file::read(path);
        }
        let queue = self.queue.unwrap_or_else(|| default_queue(self.rate, self.delay));
        Ok(Scenario::simple(self.rate, self.delay, queue, self.mtu))
    }
}

/// What the link carries in a round trip, or in 50 ms if that is longer; 20 packets at least.
fn default_queue(rate: Rate, delay: Span) -> Limit {
    if rate.is_unlimited() {
        return Limit::Packets(1000);
    }
    let time = Span(delay.0.saturating_mul(2)).max(Span::from_millis(50));
    let bytes = u128::from(rate.0) * u128::from(time.0) / 8_000_000_000;
    Limit::Bytes(u64::try_from(bytes).unwrap_or(u64::MAX).clamp(20 * 1514, u32::MAX.into()))
}
