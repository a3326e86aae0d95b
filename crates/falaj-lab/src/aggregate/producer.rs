//! The process that sends packets: as many as possible, or from a Poisson source.

use super::CrossingCost;
use super::consumer::{ConsumerReport, PIECE, STAMP, TimePiece, add};
use anyhow::{Context, Result, ensure};
use falaj_batch::endpoint::{Endpoint, line};
use falaj_control::batching::AdaptiveBatching;
use falaj_engine::batch::{ADDRESS, Batch, BatchPolicy, FlushReason, Packer};
use falaj_live::clock::{monotonic, thread_cpu};
use falaj_live::priority;
use falaj_queueing::Wanted;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::{Span, Time};
use falaj_traffic::meter::Meter;
use falaj_traffic::source::size::Sizes;
use falaj_traffic::source::{Model, Packet, Source, SourceSpec};
use std::io;
use std::process::{Child, Command, Stdio};

/// A single stream of packets.
pub(super) const ONE: &[f64] = &[1.0];
/// Size of a ring in bytes, for each direction.
pub(super) const RING: usize = 1 << 18;

/// The way in which packets cross.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossing {
    pub(super) policy: BatchPolicy,
    /// If true, each batch wakes the reader, even if it is known to be awake.
    pub(super) always_ring: bool,
    /// The required delay, if a tuner chooses the policy. Of `policy` it uses only `bytes`: it
    /// begins with a timeout of half the delay and `when_idle`.
    pub(super) tuned: Option<Wanted>,
}

/// The load of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfferedLoad {
    /// Packets per second; `None`: as many as possible.
    pub(super) rate: Option<f64>,
    /// Streams, each with its own destination and a rate that is a multiple of `rate`.
    pub(super) streams: &'static [f64],
    /// Factor of the load in the middle third of the time.
    pub(super) step: Option<f64>,
    pub(super) size: usize,
    pub(super) long: Span,
    /// Time at the beginning that the reader does not count.
    pub(super) skip: Span,
    /// The quantile of the delay that the reader reports.
    pub(super) part: f64,
    pub(super) cost: CrossingCost,
    /// If true, the cost is the mean of an exponential distribution.
    pub(super) exponential: bool,
    /// Size of the ring in bytes.
    pub(super) ring: usize,
    pub(super) seed: u64,
    /// Processor of the reader.
    pub(super) reader_processor: Option<usize>,
}

/// Keeps the sender on one processor and returns another one for the reader, if there are two. On
/// the sender's processor, a woken reader would interrupt the sender, and disturb the measurement.
pub(super) fn separate_processors() -> Option<usize> {
    let processors = priority::processors();
    let (&ours, &theirs) = processors.first().zip(processors.last())?;
    if ours == theirs {
        return None;
    }
    priority::stay_on(ours);
    Some(theirs)
}

/// The measurements of both sides.
#[derive(Clone, Debug)]
pub(super) struct CrossingResult {
    pub(super) report: ConsumerReport,
    /// Number of packets sent, and the time for them in nanoseconds.
    pub(super) packets: u64,
    pub(super) nanos: u64,
    pub(super) cpu: u64,
    pub(super) rung: u64,
    /// Waiting times of packets in their batches, by the piece of time in which the batch left.
    pub(super) waited: Vec<TimePiece>,
    /// Time from the end of a batch's timeout until the batch is sent.
    pub(super) late: Meter,
    /// The policy at the end, and the number of changes that a tuner made.
    pub(super) last: BatchPolicy,
    pub(super) changes: u64,
    /// True if the tuner's model predicts that the delay is kept.
    pub(super) kept: bool,
}

/// The ring, and measurements of its input.
struct RingSender {
    endpoint: Endpoint,
    /// True to read the clock for each batch.
    timed: bool,
    /// True to request notifications when batches are taken.
    tuned: bool,
    began: Time,
    waited: Vec<TimePiece>,
    late: Meter,
    failed: Option<io::Error>,
}

impl RingSender {
    fn send(&mut self, batch: Batch<'_>) {
        if self.timed {
            let now = monotonic();
            let late = Time(now).since(batch.left).0;
            let packets = u64::from(batch.packets);
            let piece = (Time(now).since(self.began).0 / PIECE.0) as usize;
            add(&mut self.waited, piece, packets, batch.waited.0 + late * packets);
            if batch.why == FlushReason::Timeout {
                self.late.record(Span(late));
            }
        }
        if self.tuned {
            self.endpoint.ask_when(batch.bytes.len(), batch.left.0);
        }
        if let Err(error) = self.hand_over(batch.bytes) {
            self.failed.get_or_insert(error);
        }
    }

    /// Sends a batch; waits for room if necessary.
    fn hand_over(&mut self, bytes: &[u8]) -> io::Result<()> {
        while !self.endpoint.send(bytes)? {
            if self.endpoint.is_gone() {
                return Err(io::Error::new(
                    io::ErrorKind::BrokenPipe,
                    "the reading process is gone",
                ));
            }
            if !self.endpoint.ask_room(bytes.len())? {
                self.endpoint.wait(None)?;
            }
        }
        Ok(())
    }
}

/// Starts the reading process, and sends for the required time.
pub(super) fn run(way: Crossing, load: &OfferedLoad) -> Result<CrossingResult> {
    let [ours, theirs] = line()?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let cost = format!("{}ns,{}ns", load.cost.batch.0, load.cost.packet.0);
    let mut command = Command::new(program);
    command.args(["aggregate", "consumer", "--cost", &cost]).stdin(theirs).stdout(Stdio::piped());
    if load.rate.is_some() {
        command.arg("--stamped").args([
            "--skip",
            &load.skip.to_string(),
            "--part",
            &load.part.to_string(),
        ]);
    }
    if load.exponential {
        command.args(["--exponential", &load.seed.to_string()]);
    }
    if let Some(processor) = load.reader_processor {
        command.args(["--processor", &processor.to_string()]);
    }
    let child = command.spawn().context("cannot start the reading process")?;
    // Closes the other side's descriptor in this process, so that the end of that process is
    // noticed.
    drop(command);
    let mut endpoint = Endpoint::create(ours, load.ring, &[])?;
    greet(&mut endpoint)?;
    if way.always_ring {
        endpoint.always_ring();
    }
    let timed = load.rate.is_some();
    let late = Meter::new();
    let tuned = way.tuned.is_some();
    let (began, waited) = (Time(monotonic()), Vec::new());
    let mut sender = RingSender { endpoint, timed, tuned, began, waited, late, failed: None };
    let watched = way.tuned.map(AdaptiveBatching::new);
    let mut packer = match &watched {
        None => Packer::new(way.policy, 0)?,
        Some(watched) => watched.packer(way.policy.bytes, 0)?,
    };
    let (began, cpu) = (monotonic(), thread_cpu());
    let packets = match load.rate {
        None => flood(&mut sender, &mut packer, load)?,
        Some(rate) => paced(&mut sender, &mut packer, load, rate)?,
    };
    let (nanos, cpu) = (monotonic() - began, thread_cpu() - cpu);
    let RingSender { endpoint, waited, late, failed, .. } = sender;
    let rung = endpoint.rung();
    drop(endpoint);
    let report = report(child)?;
    if let Some(error) = failed {
        return Err(error).context("cannot send to the reading process");
    }
    ensure!(report.malformed == 0, "{} batches arrived malformed", report.malformed);
    let (changes, kept) = watched.map_or((0, true), |watched| (watched.changes(), watched.keeps()));
    Ok(CrossingResult {
        report,
        packets,
        nanos,
        cpu,
        rung,
        waited,
        late,
        last: packer.policy(),
        changes,
        kept,
    })
}

/// Waits until the reader has started, because packets sent before would wait for it in the ring.
/// The reader's measurement begins here.
fn greet(endpoint: &mut Endpoint) -> Result<()> {
    let nobody = [0; ADDRESS];
    endpoint.ask_when(nobody.len(), monotonic());
    endpoint.send(&nobody)?;
    while endpoint.crossed().is_none() {
        ensure!(!endpoint.is_gone(), "the reading process ended before it began");
        endpoint.wait(Some(Span::from_micros(100)))?;
    }
    Ok(())
}

fn report(child: Child) -> Result<ConsumerReport> {
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "the reading process failed");
    serde_json::from_slice(&output.stdout).context("the reading process returned no valid result")
}

/// A packet of `size` bytes to the destination of this stream.
fn packet(size: usize, stream: u8) -> Vec<u8> {
    let mut packet = vec![0; size];
    packet[..12].copy_from_slice(&[2, 0, 0, 0, 0, stream, 2, 0, 0, 0, 1, 1]);
    // The EtherType for local experiments (IEEE 802).
    packet[12..STAMP].copy_from_slice(&[0x88, 0xb5]);
    packet
}

fn flood(sender: &mut RingSender, packer: &mut Packer, load: &OfferedLoad) -> Result<u64> {
    /// Number of packets between two readings of the clock.
    const STEP: u64 = 64;
    let mut packet = packet(load.size, 0);
    let (began, mut sent) = (monotonic(), 0);
    let mut now = began;
    while now - began < load.long.0 && sender.failed.is_none() {
        for number in sent..sent + STEP {
            packet[STAMP..STAMP + 8].copy_from_slice(&number.to_le_bytes());
            // The packet fits into a batch: `bench` has checked `--bytes`.
            let _ = packer.offer(&packet, Time(now), &mut |c| sender.send(c));
        }
        sent += STEP;
        now = monotonic();
    }
    packer.flush(Time(now), &mut |c| sender.send(c));
    Ok(sent)
}

/// Sends packets at random instants, at one rate, or at another rate in the middle third of the
/// time.
fn paced(
    sender: &mut RingSender,
    packer: &mut Packer,
    load: &OfferedLoad,
    rate: f64,
) -> Result<u64> {
    let began = Time(monotonic());
    let pieces = match load.step {
        None => vec![rate],
        Some(step) => vec![rate, rate * step, rate],
    };
    let mut sent = 0;
    for (i, rate) in pieces.iter().enumerate() {
        let at = |i: usize| {
            began + Span((u128::from(load.long.0) * i as u128 / pieces.len() as u128) as u64)
        };
        let stream = |(number, part): (usize, &f64)| {
            let bits = load.size as f64 * 8.0 * rate * part;
            let spec = SourceSpec {
                model: Model::Poisson,
                rate: Rate(bits.round() as u64),
                sizes: Sizes::Fixed(load.size as u32),
                limit: None,
                start: at(i),
                stop: at(i + 1),
            };
            let mut source = Source::new(spec, load.seed, (i * load.streams.len() + number) as u64);
            let next = source.next();
            PacketStream { packet: packet(load.size, number as u8), source, next }
        };
        let mut streams: Vec<PacketStream> = load.streams.iter().enumerate().map(stream).collect();
        sent += piece(sender, packer, at(i + 1), &mut streams);
    }
    packer.flush(Time(monotonic()), &mut |c| sender.send(c));
    Ok(sent)
}

/// A stream of packets to one destination.
struct PacketStream {
    packet: Vec<u8>,
    source: Source,
    next: Option<Packet>,
}

impl PacketStream {
    fn due(&self) -> Time {
        self.next.as_ref().map_or(Time::NEVER, |next| next.at)
    }
}

fn piece(
    sender: &mut RingSender,
    packer: &mut Packer,
    stop: Time,
    streams: &mut [PacketStream],
) -> u64 {
    let mut sent = 0;
    while sender.failed.is_none() {
        let now = Time(monotonic());
        // A sender that had to wait catches up, but stops on time.
        if now >= stop {
            break;
        }
        let Some(stream) =
            streams.iter_mut().min_by_key(|stream| stream.due()).filter(|s| s.due() <= now)
        else {
            packer.poll(now, &mut |c| sender.send(c));
            if !packer.is_empty() && packer.policy().when_idle && sender.endpoint.ask_idle() {
                packer.idle(now, &mut |c| sender.send(c));
            }
            std::hint::spin_loop();
            continue;
        };
        // The packet counts as sent at its due time. If the sender is late, the delays grow by its
        // lateness. The packer still sees arrivals at their due times, not as a burst.
        let due = stream.due();
        stream.packet[STAMP..STAMP + 8].copy_from_slice(&due.0.to_le_bytes());
        let _ = packer.offer(&stream.packet, due, &mut |c| sender.send(c));
        sent += 1;
        stream.next = stream.source.next();
        // `crossed` is called only after a packet and not in each iteration, because the other
        // process writes the memory that it reads.
        if sender.tuned
            && let Some(crossed) = sender.endpoint.crossed()
        {
            packer.crossed(crossed.took);
            packer.spent(crossed.spent);
        }
    }
    sent
}
