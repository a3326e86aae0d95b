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
    use falaj_sched::queues::queue::Limit;

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

    fn trace(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    }

    #[test]
    fn a_trace_sets_rate_delay_and_loss() {
        let folder = tempfile::tempdir().expect("a folder");
        let all = trace(&folder, "a.csv", "time,rate_mbit,delay_ms,loss\n0,8,5,0%\n2,4,50,1%\n");
        let delays = trace(&folder, "b.csv", "time,delay\n0,7ms\n3,9ms\n");
        let packets = trace(&folder, "c.trace", "1\n2\n");
        let read = |line: &str| parse(line).unwrap_or_else(|why| panic!("{line}: {why}"));
        let delays_of = |scenario: &Scenario| {
            let link = &scenario.links[0];
            [&link.up, &link.down].map(|way| way.pipe.delay.0 / 1_000_000)
        };
        let phases = |line: &str| -> Vec<(u64, [u64; 2])> {
            let scenario = read(line).0;
            let first = (0, delays_of(&scenario));
            let change = |c: falaj_scenario::ScheduledChange| {
                (c.at.0 / 1_000_000_000, delays_of(&c.scenario))
            };
            let later = scenario.changes.iter().take(4).map(change);
            std::iter::once(first).chain(later).collect()
        };
        let is = |line: &str, expected: &[(u64, [u64; 2])]| assert_eq!(phases(line), expected);
        is(&format!("falaj --trace {all}"), &[(0, [5, 5]), (2, [50, 50])]);
        is(&format!("falaj --trace {all} --up-delay 3ms"), &[(0, [3, 5]), (2, [3, 50])]);
        is(
            &format!("falaj --trace {all} --down-trace {delays}"),
            &[(0, [5, 7]), (2, [50, 7]), (3, [50, 9])],
        );
        is(&format!("falaj --rate 1mbit --up-trace {delays}"), &[(0, [7, 0]), (3, [9, 0])]);
        is(
            &format!("falaj --trace {delays} --trace-repeat 10s"),
            &[(0, [7, 7]), (3, [9, 9]), (10, [7, 7]), (13, [9, 9]), (20, [7, 7])],
        );
        is(&format!("falaj --trace {packets} --rtt 8ms"), &[(0, [4, 4])]);

        // Before and after each change, the limit of the queue is that for the longest delay: 100
        // ms at 6 Mbit/s.
        let limit = |scenario: &Scenario| scenario.links[0].up.pipe.setup.flows[0].limit;
        let (scenario, text) = read(&format!("falaj --trace {all}"));
        assert!(text.contains("queue = \"75000B\"\n"), "{text}");
        let later = scenario.changes.iter().next().expect("a change").scenario;
        assert_eq!([limit(&scenario), limit(&later)], [Limit::Bytes(75_000); 2]);
        let (_, text) = read(&format!("falaj --trace {all} --queue 9p --up-delay 1ms"));
        assert!(!text.contains("000B\""), "{text}");

        // The preset of one direction takes precedence over the delays of a trace of both: its
        // queue holds the packets of two delays of 260 ms at 3 Mbit/s.
        let up = |options: &str| limit(&read(&format!("falaj --up-preset geo {options}")).0);
        assert_eq!(up("--delay 5ms"), Limit::Bytes(195_000));
        assert_eq!(up(&format!("--trace {delays}")), Limit::Bytes(195_000));
        assert_eq!(up(&format!("--up-trace {delays}")), Limit::Bytes(18_750));
    }

    #[test]
    fn a_trace_that_cannot_be_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let all = trace(&folder, "a.csv", "time,rate_mbit,delay_ms,loss\n0,8,5,0%\n2,4,50,1%\n");
        let back = trace(&folder, "b.csv", "time,delay\n1,5ms\n0,4ms\n");
        let says = |line: &str, words: &str| {
            let error = parse(line).expect_err("bad flags").to_string();
            assert!(error.contains(words), "{line}: {error}");
        };
        let line = |rest: &str| format!("falaj --trace {all} {rest}");
        says(&line("--rate 1mbit"), "a.csv sets the rate: leave out --rate");
        says(&line("--latency 1ms"), "a.csv sets the delay: leave out --delay");
        says(&line("--loss 1%"), "a.csv sets the loss: leave out --loss");
        says(&line("--rtt 1ms"), "the trace sets the delay: leave out --rtt");
        says(&line("--trace-repeat 2s"), "a.csv:3:1: the trace starts again after 2s");
        says(&line("x.toml"), "cannot be used with");
        says("falaj --trace-repeat 2s", "--trace <FILE>");
        says(&format!("falaj --up-trace {all} --up-rate 1mbit"), "leave out --up-rate");
        says(&format!("falaj --up-trace {back}"), "--up-trace: /");
        says(&format!("falaj --up-trace {back}"), "b.csv:3:1: 0s is not after the line before");
        let line = |up: &str, down: &str| {
            format!(
                "falaj --up-trace {all} --up-trace-repeat {up} --down-trace {all} \
                 --down-trace-repeat {down}"
            )
        };
        says(&line("10.0007s", "10.0009s"), "--down-trace-repeat that are equal, or multiples");
        parse(&line("20s", "10s")).expect("repetitions that are multiples");
        says("falaj --trace /no/such.csv", "/no/such.csv cannot be read: No such file");
    }
}
