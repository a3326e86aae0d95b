//! `falaj reproduce`: reproduces the numbers and figures of papers, beside the published ones.

#[cfg(feature = "queueing")]
mod aggregation;
mod all;
mod cell_progress;
mod curves;
mod disk;
mod fortuna;
mod group;
mod page;
mod predicted;
mod rizzo;
mod sharing;
mod tcp;
mod verdict;
mod xen;
mod zhang;

use anyhow::{Result, bail};
use clap::ValueEnum;
use falaj_sched::units::time::Span;
use falaj_terminal::{arguments, place};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `reproduce`.
#[derive(clap::Args)]
#[command(after_help = "\
Each statement, table cell and figure is a row: published, ours, tolerance and its source, verdict.
Exit status 1 if a row differs for no known reason.

Examples:
  falaj reproduce fortuna --out report
  falaj reproduce fortuna --figure 12 --out report
  falaj reproduce fortuna --live
  falaj reproduce zhang --out report
  falaj reproduce zhang --live --figure 10
  falaj reproduce xen --quick
  falaj reproduce xen --guests --figure 5
  falaj reproduce rizzo --out report
  falaj reproduce rizzo --live --figure 11
  falaj reproduce aggregation --figure 4 --out report
  falaj reproduce aggregation --live --quick
  falaj reproduce tcp --quick
  falaj reproduce tcp --out report
  falaj reproduce tcp --only cubic-10mbit,cubic-100mbit
  falaj reproduce l4s --quick
  falaj reproduce l4s --only 10mbit-fq_codel-cubic80
  falaj reproduce l4s --scenario 3
  falaj reproduce all --quick --html site
  falaj reproduce fortuna --live --load light,row4 --phase 300us --duration 5s")]
pub struct Args {
    /// The paper.
    paper: Paper,
    /// Reproduce the paper's tables. Without --tables, --figures, --figure, --beyond and --live:
    /// tables and figures.
    #[arg(long)]
    tables: bool,
    /// Reproduce the paper's figures.
    #[arg(long)]
    figures: bool,
    /// Reproduce this figure alone.
    #[arg(long, value_name = "NUMBER")]
    figure: Option<usize>,
    /// Extend the paper
    ///
    /// `fortuna`: its rows with idle time lent, and with tails carried over. `zhang`: several links
    /// in a row and in a tree. `aggregation`: streams that differ in rate, batch size and
    /// service.
    #[arg(long)]
    beyond: bool,
    /// Measure on this machine
    ///
    /// `fortuna`: Section II.B with real packets: causes of wake-ups, time spent spinning and cost,
    /// phase-wise and packet-wise, with the simulated rates and delays for comparison. `zhang`: its
    /// flows sent through a gateway, with the same packets simulated for comparison. `rizzo`: also
    /// the measured figures: costs, and the influence of the machine's load. `aggregation`: also
    /// Figures 3 and 4, measured between two processes.
    #[arg(long)]
    live: bool,
    /// With --live: the loads, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', requires = "live",
        default_values = ["idle", "light", "row7", "row4", "row14", "flood"])]
    load: Vec<fortuna::Load>,
    /// With --live: how the links are paced, by falaj or by a device; both, separated by a comma
    ///
    /// The device is a veth pair that sends no faster than the links' rate. A loop that sleeps
    /// (`--timer sleep`) hands it packets ahead of time, at most a millisecond's worth.
    #[arg(long, value_enum, value_delimiter = ',', requires = "live",
        default_values = ["falaj", "device"])]
    pace: Vec<fortuna::Paced>,
    /// With --live: phases of each link, separated by commas; at least 40us, the transmission time
    /// of a packet.
    #[arg(long, value_delimiter = ',', requires = "live", value_parser = arguments::parse_duration,
        default_values = ["60us", "300us", "3ms"])]
    phase: Vec<Span>,
    /// With --live: duration of each measurement [default: 2 s for `fortuna`, 20 s for `zhang`,
    /// nine times 600 ms for `aggregation`].
    #[arg(long, requires = "live", value_parser = arguments::parse_duration)]
    duration: Option<Span>,
    /// Run a shorter version: for `xen`, `rizzo`, `tcp`, `l4s`, `dualq`, `cebinae`, and for
    /// `aggregation` with --live
    ///
    /// `xen`: the main figures, once each, with each second shortened to 100 or 50 ms, as in the
    /// tests.
    /// `rizzo` with --live: the same figures, measured for a shorter time. `aggregation`: a third
    /// of the measured points, once each, and simulations a tenth as long. `tcp`: eight cells,
    /// which take a minute. `l4s`, `dualq` and `cebinae`: some cells, four runs each. `all`:
    /// shorter versions of these papers, except `aggregation`.
    #[arg(long, conflicts_with_all = ["tables", "beyond"])]
    quick: bool,
    /// For `tcp`: all rates, round-trip times and queues, each cell for longer; takes hours.
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// For `tcp`, `l4s`, `dualq` and `cebinae`: only the cells whose names begin with this
    /// text, such as `reno-10mbit-40ms-1bdp-0%-tail`; several are separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// For `tcp`: the guest's kernel [default: FALAJ_KERNEL, or where `falaj kernel` finds it].
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// For `xen`, all figures except 8: use virtual machines under QEMU instead of namespaces
    ///
    /// All rates are a quarter of the paper's, and each second is shortened to 300 ms; this takes
    /// half an hour. With --quick, each figure is measured once, some with seconds of 100 ms, in
    /// some minutes. Needs Debian's qemu-system-x86, linux-image-cloud-amd64 and busybox-static;
    /// the last two may be unpacked (`dpkg -x`) in a directory, --guests=DIR.
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true,
        default_missing_value = "/", conflicts_with_all = ["tables", "beyond", "live"])]
    guests: Option<PathBuf>,
    /// Write a page with all results, the figures as SVG (and as PNG, if falaj was built with the
    /// feature `png`) and the numbers as JSON to this directory.
    #[arg(long, visible_alias = "html", value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the scenario file of this row of the tables instead of running anything.
    #[arg(long, value_name = "ROW", conflicts_with_all = ["tables", "figures", "figure", "beyond",
        "live", "out", "json"])]
    scenario: Option<usize>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Paper {
    /// Fortuna and Chydzinski: virtual links with partial isolation, Tables I-IV and Figures 5-13.
    Fortuna,
    /// Zhang's thesis on DRR+ and DRR++: Tables 5.1 and 5.2, Figures 2.1 and 5.1-5.14; --figure 3
    /// is Figure 5.3.
    Zhang,
    /// Adamczyk and Chydzinski on virtual network adapters in Xen: Figures 4-9, on real packets;
    /// the whole takes an hour.
    Xen,
    /// Rizzo's talk on dummynet and QFQ: its examples, accuracy, service and costs, Figures 1-12;
    /// those of this machine with --live.
    Rizzo,
    /// Packet aggregation between a driver domain and its virtual machines: Figures 1-4.
    #[cfg(feature = "queueing")]
    Aggregation,
    /// The kernel's TCP in virtual time beside `model = "tcp"`, over a grid of links and queues.
    Tcp,
    /// Heist and Morton's tests of L4S: CUBIC through dualpi2, fq_codel and a FIFO, by round trip.
    L4s,
    /// Albisser's evaluation of DualPI2: PIE and FQ-CoDel, with and without ECN, by round trip.
    Dualq,
    /// Cebinae's Table 2: fairness of up to 129 connections through a FIFO and FQ-CoDel.
    Cebinae,
    /// Every paper, one after the other, and one page with the count of each (--html DIR).
    All,
}

pub use disk::main as disk_load;
pub use tcp::{TcpCellArgs, cell as tcp_cell};

/// Runs `falaj reproduce`.
///
/// # Errors
/// The input is invalid, or this machine cannot run the experiment.
pub fn main(args: &Args) -> Result<ExitCode> {
    let quick = match args.paper {
        Paper::Xen | Paper::Rizzo | Paper::Tcp | Paper::All => true,
        Paper::L4s | Paper::Dualq | Paper::Cebinae => true,
        #[cfg(feature = "queueing")]
        Paper::Aggregation => args.live,
        _ => false,
    };
    if args.quick && !quick {
        bail!(
            "--quick is for xen, rizzo, tcp, l4s, dualq and cebinae, and for aggregation with \
             --live: leave it out"
        );
    }
    let has_kernel = matches!(args.paper, Paper::Tcp | Paper::All);
    let is_tcp = matches!(args.paper, Paper::Tcp);
    let is_sharing = matches!(args.paper, Paper::L4s | Paper::Dualq | Paper::Cebinae);
    if args.full && !is_tcp || args.kernel.is_some() && !has_kernel {
        bail!("--full and --kernel are for tcp: leave them out");
    }
    if !args.only.is_empty() && !is_tcp && !is_sharing {
        bail!("--only is for tcp, l4s, dualq and cebinae: leave it out");
    }
    if args.guests.is_some() && !matches!(args.paper, Paper::Xen) {
        bail!("--guests is for xen: leave it out");
    }
    if let Some(out) = &args.out {
        place::try_directory(out)?;
    }
    match args.paper {
        Paper::Fortuna => fortuna::main(args),
        Paper::Zhang => zhang::main(args),
        Paper::Xen => xen::main(args),
        Paper::Rizzo => rizzo::main(args),
        #[cfg(feature = "queueing")]
        Paper::Aggregation => aggregation::main(args),
        Paper::Tcp => tcp::main(args),
        Paper::L4s => sharing::main(&sharing::L4S, args),
        Paper::Dualq => sharing::main(&sharing::DUALQ, args),
        Paper::Cebinae => sharing::main(&sharing::CEBINAE, args),
        Paper::All => all::main(args),
    }
}
