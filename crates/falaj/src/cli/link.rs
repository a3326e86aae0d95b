//! A link as the command line describes it: in a file, or by flags.

use crate::cli::flags::Flags;
use anyhow::Result;
use falaj_scenario::Scenario;
use falaj_terminal::file;
use std::path::PathBuf;

/// A link described by a scenario file or by flags.
#[derive(clap::Args)]
pub(crate) struct LinkArgs {
    /// Scenario file; without it, the flags describe the link.
    file: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
}

impl LinkArgs {
    /// Returns the requested scenario and its text. `mtu`, in bytes, is the default if no flag sets
    /// the MTU.
    pub(crate) fn scenario(&self, mtu: u32) -> Result<(Scenario, String)> {
        let Some(path) = &self.file else { return self.flags.scenario(mtu) };
        let (name, text) = file::text(path)?;
        Ok((file::parse(&text, &name)?, text))
    }

    /// Returns the path of the scenario's file; relative paths in the scenario start from its
    /// directory.
    pub(crate) fn name(&self) -> PathBuf {
        let path = self.file.as_deref().map(std::path::absolute);
        path.and_then(Result::ok).unwrap_or_else(|| PathBuf::from("scenario"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        link: LinkArgs,
    }

    fn parse(line: &str) -> Result<(Scenario, String)> {
        Line::try_parse_from(line.split(' '))?.link.scenario(1500)
    }

    #[test]
    fn ordinary_words_are_understood() {
        let is = |line: &str, file: &str| {
            let known = |text: &str| parse(text).expect("good flags").1;
            assert_eq!(known(line), known(file), "{line}");
        };
        is("falaj --bandwidth 10mbit --latency 40ms", "falaj --rate 10mbit --delay 40ms");
        is("falaj --bw 10mbit --up-bw 1mbit", "falaj --rate 10mbit --up-rate 1mbit");
        let (scenario, _) = parse("falaj --rtt 81ms --rate 10mbit").expect("good flags");
        let of = |direction: &falaj_scenario::Direction| direction.pipe.delay.0;
        let link = &scenario.links[0];
        assert_eq!([of(&link.up), of(&link.down)], [40_500_000; 2]);
    }

    #[test]
    fn values_that_cannot_be_are_named() {
        let says = |line: &str, words: &str| {
            let error = parse(line).expect_err("bad flags").to_string();
            assert!(error.contains(words), "{line}: {error}");
        };
        says("falaj --delay -5ms", "`-5ms`");
        says("falaj --rate --delay 5ms", "'--delay' for '--rate");
        says("falaj --loss -1%", "`-1%`");
        says("falaj --rtt 80ms --delay 40ms", "cannot be used with");
    }
}
