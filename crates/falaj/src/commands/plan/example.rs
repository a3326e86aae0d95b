//! `plan example`: networks of the literature on bounds over several links, as scenarios.

use anyhow::{Result, ensure};
use falaj_terminal::arguments::number;
use std::fmt::Write;
use std::process::ExitCode;

/// Arguments of `plan example`.
#[derive(clap::Args)]
#[command(after_help = "\
Links have 10 Mbit/s. Each source sends a burst of three packets of 500 B as often as its token
bucket allows, and all have the same rate.

Exit status: 0; 2 if this network cannot have this number of links.

Examples:
  falaj plan example ring --links 6 > ring.toml && falaj plan ring.toml
  falaj plan example mesh --load 80 > mesh.toml && falaj plan mesh.toml --method as-one")]
pub(crate) struct Args {
    /// The network.
    name: Topology,
    /// Number of links [default: 5; for a sink tree and a mesh 7].
    #[arg(long, value_parser = number::<usize>(2..=200))]
    links: Option<usize>,
    /// Load of the busiest link, in percent.
    #[arg(long, default_value_t = 50, value_parser = number::<u64>(1..=99))]
    load: u64,
}

/// A network of the literature.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Topology {
    /// Links in a row: one flow over all of them, and one over each
    Tandem,
    /// Links in a row: one flow over all of them, and one over each pair of neighbours
    Interleaved,
    /// A binary tree: one flow from each link to the root
    SinkTree,
    /// Pairs of links and one last link: a flow over each path that takes one link of each pair
    Mesh,
    /// A circle: one flow from each link over all links except the one before it
    Ring,
}

/// Rate of each link, in bits per second.
const RATE: u64 = 10_000_000;

impl Topology {
    fn name(self) -> &'static str {
        match self {
            Topology::Tandem => "tandem",
            Topology::Interleaved => "interleaved tandem",
            Topology::SinkTree => "sink tree",
            Topology::Mesh => "mesh",
            Topology::Ring => "ring",
        }
    }

    fn default_links(self) -> usize {
        if matches!(self, Topology::SinkTree | Topology::Mesh) { 7 } else { 5 }
    }

    /// The path of each flow over this number of links.
    fn paths(self, links: usize) -> Result<Vec<Vec<usize>>> {
        let all = || vec![(0..links).collect::<Vec<usize>>()];
        Ok(match self {
            Topology::Tandem => all().into_iter().chain((0..links).map(|l| vec![l])).collect(),
            Topology::Interleaved => {
                all().into_iter().chain((1..links).map(|l| vec![l - 1, l])).collect()
            }
            Topology::SinkTree => {
                // Link 0 is the root; links 2n + 1 and 2n + 2 lead to link n.
                let before = |l: &usize| l.checked_sub(1).map(|l| l / 2);
                (0..links).map(|l| std::iter::successors(Some(l), before).collect()).collect()
            }
            Topology::Mesh => {
                ensure!(
                    links % 2 == 1 && links <= 13,
                    "--links {links}: a mesh has pairs of links and one last link: 3, 5, … 13 links"
                );
                let pairs = links / 2;
                let link = |path: usize, pair: usize| 2 * pair + (path >> pair & 1);
                let path = |path| (0..pairs).map(move |pair| link(path, pair)).chain([links - 1]);
                (0..1 << pairs).map(|n| path(n).collect()).collect()
            }
            Topology::Ring => {
                ensure!(links > 2, "--links {links}: a ring has at least 3 links");
                let path = |from| (from..from + links - 1).map(|l| l % links).collect();
                (0..links).map(path).collect()
            }
        })
    }

    fn scenario(self, links: usize, load: u64) -> Result<String> {
        let paths = self.paths(links)?;
        let through = |link: usize| paths.iter().filter(|path| path.contains(&link)).count() as u64;
        let rate = RATE * load / 100 / (0..links).map(through).max().unwrap_or(1).max(1);
        let mut text = format!(
            "# The {} of {links} links, its busiest one at {load} %: bounds over several links.\n",
            self.name()
        );
        for l in 1..=links {
            let _ = write!(text, "\n[link.l{l}]\nrate = \"{RATE}bit\"\nlayer = \"ip\"\n");
        }
        for (n, path) in (1..).zip(&paths) {
            let to: Vec<String> = path.iter().map(|l| format!("\"l{}\"", l + 1)).collect();
            let _ = write!(
                text,
                "\n[[rule]]\nmatch = \"udp dport {}\"\nto = [{}]\n",
                5_000 + n,
                to.join(", ")
            );
        }
        text += "\n[[rule]]\nto = \"drop\"\n";
        for n in 1..=paths.len() {
            let _ = write!(
                text,
                "\n[traffic.f{n}]\nheaders = \"udp dport {}\"\nmodel = \"greedy\"\n\
                 size = \"500B\"\nallowed = {{ rate = \"{rate}bit\", burst = \"1500B\" }}\n",
                5_000 + n
            );
        }
        Ok(text)
    }
}

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    let links = args.links.unwrap_or(args.name.default_links());
    // The text ends with a line break.
    say!("{}", args.name.scenario(links, args.load)?.trim_end());
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    /// Every network is a scenario without warnings, and all its flows have an end-to-end bound. In
    /// the paths, link numbers start at 0.
    #[test]
    fn every_example_has_bounds() {
        for topology in Topology::value_variants() {
            let text = topology.scenario(topology.default_links(), 50).unwrap();
            let (scenario, warnings) = falaj_scenario::parse(&text, "a.toml")
                .unwrap_or_else(|why| panic!("{}\n{text}", why.render(false)));
            assert!(warnings.is_empty(), "{warnings}");
            let ways = falaj_plan::plan(&scenario).unwrap();
            let routes = falaj_plan::network::Routes::of(&scenario, &ways).unwrap();
            assert!(routes.is_network());
            for outlook in routes.outlooks(None) {
                assert!(outlook.delay.is_some(), "{}: {:?}", topology.name(), outlook.none);
            }
        }
        let paths = |topology: Topology, links| topology.paths(links).unwrap();
        assert_eq!(paths(Topology::Tandem, 2), [vec![0, 1], vec![0], vec![1]]);
        assert_eq!(paths(Topology::Interleaved, 3), [vec![0, 1, 2], vec![0, 1], vec![1, 2]]);
        assert_eq!(paths(Topology::SinkTree, 4), [vec![0], vec![1, 0], vec![2, 0], vec![3, 1, 0]]);
        assert_eq!(paths(Topology::Mesh, 3), [[0, 2], [1, 2]]);
        assert_eq!(paths(Topology::Ring, 3), [[0, 1], [1, 2], [2, 0]]);
        assert!(Topology::Mesh.paths(4).is_err() && Topology::Ring.paths(2).is_err());
    }
}
