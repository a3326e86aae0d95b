//! Files that a simulation writes for other programs.
//!
//! | module | writes |
//! |---|---|
//! | [`packets`] | each packet of all replications, as a table |
//! | [`flows`] | each flow of each replication, as a table |
//! | [`table`] | tables as CSV and, with the feature `parquet`, as Parquet |
//! | [`pcapng`] | each packet at its arrival, with its queueing delay |
//! | [`trace`] | link occupancy and backlogs, for Perfetto and `chrome://tracing` |
//! | [`flent`] | throughput and delay over time, for Flent |

mod flent;
mod flows;
mod packets;
mod pcapng;
mod table;
mod trace;

use anyhow::{Context, Result, bail};
use falaj_engine::{Dropped, Emit, PipeId};
use falaj_scenario::{Scenario, Towards};
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};
use falaj_sim::observer::{Every, Loss, PacketEnd};
use falaj_sim::scenario::{all_flows, experiment, name_of, pipe_of};
use falaj_sim::simulate_watched;
use falaj_terminal::place;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Arguments of `sim` for exports.
#[derive(clap::Args)]
pub(crate) struct Exports {
    /// Export each packet: of all replications, or of a replay, as a table, `*.csv` or
    /// `*.parquet`; or of the first replication as a capture with queueing delays, `*.pcapng`.
    /// Repeatable.
    #[arg(long, value_name = "FILE")]
    packets: Vec<PathBuf>,
    /// Export a table with a row for each flow and replication: `*.csv` or `*.parquet`. Repeatable.
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    flows: Vec<PathBuf>,
    /// Export link occupancy and backlogs of the first replication, for ui.perfetto.dev and
    /// chrome://tracing.
    #[arg(long, value_name = "FILE.json", conflicts_with = "replay")]
    trace: Option<PathBuf>,
    /// Export throughput and delay over time in the first replication, for Flent.
    #[arg(long, value_name = "FILE.flent.gz", conflicts_with = "replay")]
    flent: Option<PathBuf>,
}

/// Formats of tables.
const TABLES: [FileFormat; 2] = [FileFormat::Csv, FileFormat::Parquet];

/// Reports a file that was written, or an error.
fn wrote(path: &Path, done: Result<()>) -> Result<()> {
    done.with_context(|| format!("cannot write {}", path.display()))?;
    note!("wrote {}", path.display());
    Ok(())
}

/// A file format, chosen by the extension of the file's name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileFormat {
    Csv,
    Parquet,
    Pcapng,
}

fn form(path: &Path, allowed: &[FileFormat], option: &str) -> Result<FileFormat> {
    let known = [
        ("csv", FileFormat::Csv),
        ("parquet", FileFormat::Parquet),
        ("pcapng", FileFormat::Pcapng),
    ];
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or("").to_lowercase();
    let all = known.iter().filter(|(_, form)| allowed.contains(form));
    match all.clone().find(|(name, _)| *name == end) {
        Some((_, FileFormat::Parquet)) if !cfg!(feature = "parquet") => {
            bail!("{option} {}: falaj was built without `parquet`; write `*.csv`", path.display())
        }
        Some((_, form)) => Ok(*form),
        None => {
            let names: Vec<String> = all.map(|(name, _)| format!("`*.{name}`")).collect();
            bail!(
                "{option} {}: the name's ending must be that of a format: {}",
                path.display(),
                names.join(" or ")
            )
        }
    }
}

/// The replications that an export simulates again: those of the report. Except in the table of
/// flows, the packets of the warm-up are included.
struct Runs<'a> {
    scenario: &'a Scenario,
    /// Simulated time of each replication.
    duration: Span,
    replications: usize,
    /// Warm-up at the start of each replication, which the report excludes.
    warm_up: Span,
}

impl Exports {
    /// Checks file names and directories before a long simulation.
    pub(crate) fn check(&self) -> Result<()> {
        for path in &self.packets {
            form(path, &[FileFormat::Csv, FileFormat::Parquet, FileFormat::Pcapng], "--packets")?;
        }
        for path in &self.flows {
            form(path, &TABLES, "--flows")?;
        }
        let named = [&self.packets[..], &self.flows].concat();
        let all = named.iter().chain(&self.trace).chain(&self.flent);
        match &self.flent {
            Some(path) if !path.to_string_lossy().ends_with(".flent.gz") => {
                bail!("--flent {}: Flent opens only `*.flent.gz`", path.display())
            }
            _ => all.map(PathBuf::as_path).try_for_each(place::try_file),
        }
    }

    /// Checks file names and directories before a replay.
    pub(crate) fn check_replay(&self) -> Result<()> {
        for path in &self.packets {
            form(path, &TABLES, "--packets")?;
            place::try_file(path)?;
        }
        Ok(())
    }

    /// Returns true if the packets of a replay are exported.
    pub(crate) fn wants_packets(&self) -> bool {
        !self.packets.is_empty()
    }

    /// Writes the requested tables of a replay.
    pub(crate) fn write_replayed(&self, packets: &[ReplayedPacket]) -> Result<()> {
        self.packets.iter().try_for_each(|path| {
            let form = form(path, &TABLES, "--packets")?;
            wrote(path, packets::write_replayed(path, form, packets))
        })
    }

    /// Writes the requested exports of a scenario, read from `file`, for this number of
    /// replications.
    pub(crate) fn write(
        &self,
        scenario: &Scenario,
        file: &Path,
        (duration, warm_up): (Span, Span),
        replications: usize,
    ) -> Result<()> {
        let runs = Runs { scenario, duration, replications, warm_up };
        for path in &self.packets {
            let done = match form(
                path,
                &[FileFormat::Csv, FileFormat::Parquet, FileFormat::Pcapng],
                "--packets",
            )? {
                FileFormat::Pcapng => falaj_terminal::file::text(file)
                    .and_then(|(_, text)| pcapng::write(path, &runs, &text)),
                form => packets::write(path, form, &runs),
            };
            wrote(path, done)?;
        }
        for path in &self.flows {
            wrote(path, flows::write(path, form(path, &TABLES, "--flows")?, &runs))?;
        }
        if let Some(path) = &self.trace {
            wrote(path, trace::write(path, &runs))?;
        }
        if let Some(path) = &self.flent {
            wrote(path, flent::write(path, &runs))?;
        }
        Ok(())
    }
}

/// A packet that was sent or dropped.
pub(crate) struct PacketRecord {
    pub(crate) pipe: PipeId,
    pub(crate) flow: FlowId,
    /// Bytes as counted at the link's layer.
    pub(crate) bytes: u32,
    /// Arrival of the last bit.
    pub(crate) arrival: Time,
    pub(crate) fate: RecordOutcome,
}

pub(crate) enum RecordOutcome {
    Sent { start: Time, end: Time, due: Time },
    Lost { why: falaj_engine::DropReason },
}

impl PacketRecord {
    fn of(event: PacketEnd<'_>) -> PacketRecord {
        match event {
            PacketEnd::Sent(sent) => PacketRecord::sent(sent),
            PacketEnd::Lost(Loss { dropped, .. }) => PacketRecord::lost(dropped),
        }
    }

    pub(crate) fn sent(
        &Emit { pipe, flow, bytes, arrival, start, end, due, .. }: &Emit,
    ) -> PacketRecord {
        PacketRecord { pipe, flow, bytes, arrival, fate: RecordOutcome::Sent { start, end, due } }
    }

    pub(crate) fn lost(&Dropped { pipe, flow, bytes, arrival, why, .. }: &Dropped) -> PacketRecord {
        PacketRecord { pipe, flow, bytes, arrival, fate: RecordOutcome::Lost { why } }
    }

    /// The word for tables: `sent`, or the reason for the drop.
    fn fate(&self) -> &'static str {
        match self.fate {
            RecordOutcome::Sent { .. } => "sent",
            RecordOutcome::Lost { why } => falaj_traffic::capture::word(why),
        }
    }
}

/// A packet of a replay: at one link that it passed, or without a link if it reached none.
pub(crate) struct ReplayedPacket {
    /// Its number in the capture, from 0.
    pub(crate) number: usize,
    /// Name of the link; empty if the packet reached none.
    pub(crate) link: String,
    pub(crate) way: &'static str,
    /// Name of the flow in its direction; empty if the packet reached no link.
    pub(crate) flow: String,
    pub(crate) record: PacketRecord,
}

impl Runs<'_> {
    /// Simulates a replication again, and calls `each` for every packet.
    fn each(&self, replication: usize, mut each: impl FnMut(PacketRecord)) -> Result<()> {
        let experiment = experiment(self.scenario, self.duration);
        let links = 2 * self.scenario.links.len() as u32;
        let mut all = Every(|event: PacketEnd<'_>| {
            let packet = PacketRecord::of(event);
            // Pipes after those of the links are for packets that pass no link.
            if packet.pipe.0 < links {
                each(packet);
            }
        });
        let seed = self.scenario.run.seed.wrapping_add(replication as u64);
        simulate_watched(&experiment, seed, &AtomicBool::new(false), &mut all)
            .map_err(|(_, refused)| refused)?;
        Ok(())
    }

    /// The names of all flows, indexed by pipe and flow.
    fn names(&self) -> Vec<Vec<Name>> {
        let mut names: Vec<Vec<Name>> =
            (0..2 * self.scenario.links.len()).map(|_| Vec::new()).collect();
        for at in all_flows(self.scenario) {
            let way = if at.1 == Towards::Up { "up" } else { "down" };
            let (link, flow) = (self.scenario.links[at.0].name.clone(), name_of(self.scenario, at));
            let own = self.scenario.links[at.0].direction(at.1).flows[at.2].name.clone();
            names[pipe_of(at.0, at.1).0 as usize].push(Name { link, way, flow, own });
        }
        names
    }
}

/// Names of a flow.
struct Name {
    link: String,
    way: &'static str,
    /// The name in reports, unique in the scenario.
    flow: String,
    /// The name in its direction, unique there.
    own: String,
}
