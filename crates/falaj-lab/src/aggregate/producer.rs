//! The process that gives packets away: as many as go, or as a Poisson source
//! sends them.

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

/// One stream of packets.
pub(super) const ONE: &[f64] = &[1.0];
/// Bytes of a ring each way.
pub(super) const RING: usize = 1 << 18;

/// How packets go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossing {
    pub(super) policy: BatchPolicy,
    /// Each container wakes the reader, as if it could not be seen to be awake.
    pub(super) always_ring: bool,
    /// The delay for which the policy is chosen anew; the one above is where it begins.
    pub(super) tuned: Option<Wanted>,
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfferedLoad {
    /// Packets a second; `None`: as many as go.
    pub(super) rate: Option<f64>,
    /// Streams of packets to a destination each, and how many times that rate they have.
    pub(super) streams: &'static [f64],
    /// In the middle third of the time it is so many times as much.
    pub(super) step: Option<f64>,
    pub(super) size: usize,
    pub(super) long: Span,
    /// From when on the reader counts.
    pub(super) skip: Span,
    /// The part of the packets whose longest delay it tells.
    pub(super) part: f64,
    pub(super) cost: CrossingCost,
    /// The cost is the mean of an exponential distribution.
    pub(super) exponential: bool,
    /// Bytes of the ring.
    pub(super) ring: usize,
    pub(super) seed: u64,
    /// Where the reader is to run.
    pub(super) apart: Option<usize>,
}

/// A processor for each side, if there are two: a reader that is woken where the sender runs stops
/// it, and is a part of what it measures.
pub(super) fn apart() -> Option<usize> {
    let processors = priority::processors();
    let (&ours, &theirs) = processors.first().zip(processors.last())?;
    if ours == theirs {
        return None;
    }
    priority::stay_on(ours);
    Some(theirs)
}

/// What was seen on both sides.
#[derive(Clone, Debug)]
pub(super) struct CrossingResult {
    pub(super) report: ConsumerReport,
    /// Packets that were given away, and for how long.
    pub(super) packets: u64,
    pub(super) nanos: u64,
    pub(super) cpu: u64,
    pub(super) rung: u64,
    /// What packets waited in their containers, by when these left.
    pub(super) waited: Vec<TimePiece>,
    /// How much later than its timeout a container left.
    pub(super) late: Meter,
    /// Of a way that was tuned: the last policy, and how often it was changed.
    pub(super) last: BatchPolicy,
    pub(super) changes: u64,
    /// Does the model say that the delay is kept?
    pub(super) kept: bool,
}

/// The ring and what is known of what went into it.
struct RingSender {
    endpoint: Endpoint,
    /// Reads the clock for each container.
    timed: bool,
    /// Asks when containers are taken.
    tuned: bool,
    timeout: Span,
    began: Time,
    waited: Vec<TimePiece>,
    late: Meter,
    failed: Option<io::Error>,
}

impl RingSender {
    fn send(&mut self, container: Batch<'_>) {
        if self.timed {
            let now = monotonic();
            let late = Time(now).since(container.left).0;
            let packets = u64::from(container.packets);
            let piece = (Time(now).since(self.began).0 / PIECE.0) as usize;
            add(&mut self.waited, piece, packets, container.waited.0 + late * packets);
            if container.why == FlushReason::Timeout {
                self.late.record(Time(now).since(container.opened + self.timeout));
            }
        }
        if self.tuned {
            self.endpoint.ask_when(container.bytes.len(), container.left.0);
        }
        if let Err(error) = self.hand_over(container.bytes) {
            self.failed.get_or_insert(error);
        }
    }

    /// Waits for room if there is none.
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

/// Starts the reading process, and sends for as long as asked.
pub(super) fn run(way: Crossing, load: &OfferedLoad) -> Result<CrossingResult> {
    let [ours, theirs] = line()?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let cost = format!("{}ns,{}ns", load.cost.container.0, load.cost.packet.0);
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
    if let Some(processor) = load.apart {
        command.args(["--processor", &processor.to_string()]);
    }
    let child = command.spawn().context("cannot start the reading process")?;
    // With it the descriptor of the other side, so that its end is seen.
    drop(command);
    let mut endpoint = Endpoint::create(ours, load.ring, &[])?;
    greet(&mut endpoint)?;
    if way.always_ring {
        endpoint.always_ring();
    }
    let timed = load.rate.is_some();
    let late = Meter::new();
    let (timeout, tuned) = (way.policy.timeout, way.tuned.is_some());
    let (began, waited) = (Time(monotonic()), Vec::new());
    let mut sender =
        RingSender { endpoint, timed, tuned, timeout, began, waited, late, failed: None };
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
    ensure!(report.malformed == 0, "{} containers arrived malformed", report.malformed);
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

/// Waits until the reader is there: what were sent before would wait for that in the ring. It
/// counts from here on.
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
    serde_json::from_slice(&output.stdout).context("the reading process told nothing")
}

/// A packet of so many bytes to the destination of this stream.
fn packet(size: usize, stream: u8) -> Vec<u8> {
    let mut packet = vec![0; size];
    packet[..12].copy_from_slice(&[2, 0, 0, 0, 0, stream, 2, 0, 0, 0, 1, 1]);
    // For experiments in one network (IEEE 802).
    packet[12..STAMP].copy_from_slice(&[0x88, 0xb5]);
    packet
}

fn flood(sender: &mut RingSender, packer: &mut Packer, load: &OfferedLoad) -> Result<u64> {
    /// Packets between two looks at the clock.
    const STEP: u64 = 64;
    let mut packet = packet(load.size, 0);
    let (began, mut sent) = (monotonic(), 0);
    let mut now = began;
    while now - began < load.long.0 && sender.failed.is_none() {
        for number in sent..sent + STEP {
            packet[STAMP..STAMP + 8].copy_from_slice(&number.to_le_bytes());
            // It fits: the smallest container was checked to.
            let _ = packer.offer(&packet, Time(now), &mut |c| sender.send(c));
        }
        sent += STEP;
        now = monotonic();
    }
    packer.flush(Time(now), &mut |c| sender.send(c));
    Ok(sent)
}

/// Packets at random, in one piece or in three.
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

/// Packets to one destination.
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
        // A sender that had to wait catches up, but ends when it was to.
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
        // It came when it was due, whenever that was seen: a sender that is late makes packets
        // wait, and no bursts.
        let due = stream.due();
        stream.packet[STAMP..STAMP + 8].copy_from_slice(&due.0.to_le_bytes());
        let _ = packer.offer(&stream.packet, due, &mut |c| sender.send(c));
        sent += 1;
        stream.next = stream.source.next();
        // Not at each turn: the other side writes these words.
        if sender.tuned
            && let Some(crossed) = sender.endpoint.crossed()
        {
            packer.crossed(crossed.took);
            packer.spent(crossed.spent);
        }
    }
    sent
}
