//! Batches: packets to one destination that cross from one process to another together. A batch
//! costs one wake-up of the other side instead of one for each packet, and it delays packets until
//! it leaves.
//!
//! A batch begins with the destination's address, which its packets omit. Then follow, for each
//! packet, two bytes of length (network order) and the packet. There is one open batch for each
//! destination. It leaves when it is full, in packets or in bytes; when its timeout is over,
//! counted from its first packet; or, if the policy says so, when the other side, which reads the
//! batches, is idle.
//!
//! [`Packer`] fills batches. [`unpack`] takes them apart and checks every length in them. Neither
//! reads a clock: both run in simulated time as well. A packer may be [tuned](Packer::tuned): then
//! its policy follows the load.

pub mod tuning;

use crate::batch::tuning::{PolicyChooser, Tuning};
use falaj_sched::collections::calendar::Calendar;
use falaj_sched::units::time::{Span, Time};
use std::collections::BTreeMap;
use std::fmt;

/// Bytes of an address.
pub const ADDRESS: usize = 6;
/// Bytes before each packet.
pub const LENGTH: usize = 2;
/// The largest number of open batches; a further batch closes the oldest batch. This bounds the
/// memory for a sender to random destinations.
pub const MOST_OPEN: usize = 256;

/// A destination, an Ethernet address.
pub type Address = [u8; ADDRESS];

/// The conditions on which a batch leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPolicy {
    /// Number of packets of a full batch; 1: each packet by itself.
    pub packets: u32,
    /// Maximum length in bytes, the address and all lengths included: a batch leaves if the next
    /// packet would exceed this length.
    pub bytes: u32,
    /// Time from a batch's first packet until the batch leaves; `Span::MAX`: no timeout.
    pub timeout: Span,
    /// True if batches leave when the other side is idle.
    pub when_idle: bool,
}

/// The reason why a policy is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// Batches of no packets.
    Empty,
    /// Batches without room for an address, a packet's length and one byte of the packet.
    TooShort,
    /// A batch that is not filled would never leave: there is no timeout, and `when_idle` is false.
    Stays,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PolicyError::Empty => "a batch holds one packet at least",
            PolicyError::TooShort => {
                "a batch is longer than an address and a packet's length: 9 B at least"
            }
            PolicyError::Stays => {
                "a batch of several packets that is not filled would stay for ever: \
                 give it a timeout, or let it leave when the reader is idle"
            }
        })
    }
}

impl std::error::Error for PolicyError {}

impl BatchPolicy {
    /// Each packet by itself, of up to `bytes` bytes.
    pub fn one_by_one(bytes: u32) -> BatchPolicy {
        BatchPolicy { packets: 1, bytes, timeout: Span::MAX, when_idle: false }
    }

    /// Checks that the policy is valid.
    pub fn check(self) -> Result<BatchPolicy, PolicyError> {
        if self.packets == 0 {
            return Err(PolicyError::Empty);
        }
        if self.bytes as usize <= ADDRESS + LENGTH {
            return Err(PolicyError::TooShort);
        }
        if self.packets > 1 && self.timeout == Span::MAX && !self.when_idle {
            return Err(PolicyError::Stays);
        }
        Ok(self)
    }
}

/// The reason why a packet goes into no batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchError {
    /// It has no destination.
    Short,
    /// It is longer than a batch, or than two bytes of length can express.
    Long,
}

/// The reason why a batch left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushReason {
    /// It had the maximum number of packets, or no room for the next packet.
    Full,
    /// Its timeout was over.
    Timeout,
    /// The other side was idle.
    Idle,
    /// It was flushed, or it was the oldest batch when a further one exceeded [`MOST_OPEN`].
    Flushed,
}

/// A batch that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// Contents of the batch.
    pub bytes: &'a [u8],
    /// Number of packets in it.
    pub packets: u32,
    /// Arrival of its first packet.
    pub opened: Time,
    /// Instant at which it was due to leave. For a timeout this is the end of the timeout, even if
    /// that was noticed later. If a change of policy put the end into the past, it is the instant
    /// of the change.
    pub left: Time,
    /// Total waiting time of its packets until that instant.
    pub waited: Span,
    /// The reason why it left.
    pub why: FlushReason,
}

#[derive(Debug)]
struct OpenBatch {
    bytes: Vec<u8>,
    packets: u32,
    opened: Time,
    /// Sum, over the packets of the batch, of the time from the opening of the batch to the
    /// packet's arrival, in nanoseconds.
    came: u64,
    /// Number of batches opened before it.
    number: u64,
}

impl OpenBatch {
    fn is_to(&self, to: Address) -> bool {
        self.packets > 0 && self.bytes[..ADDRESS] == to
    }
}

/// Packs packets into batches.
#[derive(Debug)]
pub struct Packer {
    policy: BatchPolicy,
    /// Bytes of a packet before its destination.
    before: usize,
    /// Slots of batches; an unused slot has no packets.
    open: Vec<OpenBatch>,
    by_address: BTreeMap<Address, usize>,
    free: Vec<usize>,
    due: Calendar,
    /// The slot of the last packet: the next one often goes there too.
    recent: usize,
    opened: u64,
    tuning: Option<Tuning>,
}

impl Packer {
    /// Packs packets whose destination is after `before` bytes: 0 in an Ethernet frame.
    pub fn new(policy: BatchPolicy, before: usize) -> Result<Packer, PolicyError> {
        Ok(Packer {
            policy: policy.check()?,
            before,
            open: Vec::new(),
            by_address: BTreeMap::new(),
            free: Vec::new(),
            due: Calendar::new(MOST_OPEN),
            recent: 0,
            opened: 0,
            tuning: None,
        })
    }

    /// Makes `choose` choose the policy anew after each epoch of `slots` time slots of length
    /// `slot`. The numbers of packets in the slots show bursts, so a slot should be as long as a
    /// burst that matters.
    pub fn tuned(mut self, choose: Box<dyn PolicyChooser>, slot: Span, slots: u64) -> Packer {
        self.tuning = Some(Tuning::new(choose, slot, slots));
        self
    }

    /// Returns true if the policy is chosen anew after each epoch.
    pub fn is_tuned(&self) -> bool {
        self.tuning.is_some()
    }

    /// Reports to the policy chooser that the other side was done with a batch the time `took`
    /// after the batch had left.
    pub fn crossed(&mut self, took: Span) {
        if let Some(tuning) = &mut self.tuning {
            tuning.crossed(took);
        }
    }

    /// Reports to the policy chooser that the other side spent `more` processor time on batches.
    pub fn spent(&mut self, more: Span) {
        if let Some(tuning) = &mut self.tuning {
            tuning.spent(more);
        }
    }

    /// Bytes of a packet before its destination.
    pub fn before(&self) -> usize {
        self.before
    }

    /// The policy now.
    pub fn policy(&self) -> BatchPolicy {
        self.policy
    }

    /// Changes the policy from now on, for open batches too.
    pub fn change(
        &mut self,
        policy: BatchPolicy,
        now: Time,
        out: &mut impl FnMut(Batch<'_>),
    ) -> Result<(), PolicyError> {
        let policy = policy.check()?;
        self.poll(now, out);
        self.take_over(policy, now, out);
        Ok(())
    }

    /// Changes the policy, after everything due by `now` has left.
    fn take_over(&mut self, policy: BatchPolicy, now: Time, out: &mut impl FnMut(Batch<'_>)) {
        self.policy = policy;
        for slot in self.oldest_first() {
            let open = &self.open[slot];
            let due = open.opened + policy.timeout;
            if open.packets >= policy.packets || open.bytes.len() > policy.bytes as usize {
                self.close(slot, now, FlushReason::Full, out);
            } else if due <= now {
                // The batch leaves now instead of at `due`: its last packets may have come later
                // than `due`.
                self.close(slot, now, FlushReason::Timeout, out);
            } else {
                self.due.set(slot, due);
            }
        }
    }

    /// Puts a packet into its batch. Batches that leave because of it, or were due before, go to
    /// `out`.
    pub fn offer(
        &mut self,
        packet: &[u8],
        now: Time,
        out: &mut impl FnMut(Batch<'_>),
    ) -> Result<(), BatchError> {
        self.poll(now, out);
        let (head, rest) = packet.split_at_checked(self.before).ok_or(BatchError::Short)?;
        let (to, tail) = rest.split_first_chunk::<ADDRESS>().ok_or(BatchError::Short)?;
        let length = packet.len() - ADDRESS;
        let largest = self.policy.bytes as usize;
        let said = u16::try_from(length).map_err(|_| BatchError::Long)?;
        if ADDRESS + LENGTH + length > largest {
            return Err(BatchError::Long);
        }
        if let Some(tuning) = &mut self.tuning {
            tuning.packet(packet.len(), now);
        }
        let mut slot = self.slot(*to, now, out);
        if self.open[slot].packets > 0 && self.open[slot].bytes.len() + LENGTH + length > largest {
            self.close(slot, now, FlushReason::Full, out);
            slot = self.slot(*to, now, out);
        }
        if self.open[slot].packets == 0 {
            let due = now + self.policy.timeout;
            self.due.set(slot, due);
        }
        let open = &mut self.open[slot];
        open.bytes.extend_from_slice(&said.to_be_bytes());
        open.bytes.extend_from_slice(head);
        open.bytes.extend_from_slice(tail);
        open.packets += 1;
        open.came += now.since(open.opened).0;
        if open.packets >= self.policy.packets {
            self.close(slot, now, FlushReason::Full, out);
        }
        Ok(())
    }

    /// The open batch for this destination, or a new one without packets.
    fn slot(&mut self, to: Address, now: Time, out: &mut impl FnMut(Batch<'_>)) -> usize {
        if self.open.get(self.recent).is_some_and(|open| open.is_to(to)) {
            return self.recent;
        }
        let slot = match self.by_address.get(&to) {
            Some(&slot) => slot,
            None => {
                if self.by_address.len() == MOST_OPEN
                    && let Some(&oldest) = self.oldest_first().first()
                {
                    self.close(oldest, now, FlushReason::Flushed, out);
                }
                let slot = self.free.pop().unwrap_or_else(|| {
                    self.open.push(OpenBatch {
                        bytes: Vec::new(),
                        packets: 0,
                        opened: now,
                        came: 0,
                        number: 0,
                    });
                    self.open.len() - 1
                });
                let open = &mut self.open[slot];
                (open.opened, open.came, open.number) = (now, 0, self.opened);
                open.bytes.extend_from_slice(&to);
                self.opened += 1;
                self.by_address.insert(to, slot);
                slot
            }
        };
        self.recent = slot;
        slot
    }

    fn close(
        &mut self,
        slot: usize,
        left: Time,
        why: FlushReason,
        out: &mut impl FnMut(Batch<'_>),
    ) {
        let open = &mut self.open[slot];
        let long = left.since(open.opened);
        let waited = (long * u64::from(open.packets)).saturating_sub(Span(open.came));
        if let Some(tuning) = &mut self.tuning {
            tuning.left(open.packets, waited, long);
        }
        out(Batch {
            bytes: &open.bytes,
            packets: open.packets,
            opened: open.opened,
            left,
            waited,
            why,
        });
        if let Some(to) = open.bytes.first_chunk::<ADDRESS>() {
            self.by_address.remove(to);
        }
        open.bytes.clear();
        open.packets = 0;
        self.due.set(slot, Time::NEVER);
        self.free.push(slot);
    }

    /// The end of the next timeout. While a batch is open, it is the end of the epoch if that is
    /// earlier, since the policy may change then. `Time::NEVER` if neither is to come.
    pub fn next_due(&self) -> Time {
        let due = self.due.first().map_or(Time::NEVER, |(_, due)| due);
        match &self.tuning {
            Some(tuning) if !self.is_empty() => due.min(tuning.ends()),
            _ => due,
        }
    }

    /// Sends the batches due by `now`.
    pub fn poll(&mut self, now: Time, out: &mut impl FnMut(Batch<'_>)) {
        while let Some(ends) = self.tuning.as_ref().map(Tuning::ends).filter(|&ends| ends <= now) {
            self.timeouts(ends, out);
            let empty = self.is_empty();
            if let Some(tuning) = &mut self.tuning {
                let next = tuning.end(self.policy, empty);
                if next != self.policy && next.check().is_ok() {
                    self.take_over(next, ends, out);
                }
            }
        }
        self.timeouts(now, out);
    }

    fn timeouts(&mut self, now: Time, out: &mut impl FnMut(Batch<'_>)) {
        while let Some((first, due)) = self.due.first().filter(|&(_, due)| due <= now) {
            // Of batches that are due together the oldest leaves first. Slots do not show the age,
            // since they are reused in any order.
            let equals =
                |open: &OpenBatch| open.packets > 0 && open.opened + self.policy.timeout == due;
            let slots = (0..self.open.len()).filter(|&slot| equals(&self.open[slot]));
            let oldest = slots.min_by_key(|&slot| self.open[slot].number).unwrap_or(first);
            self.close(oldest, due, FlushReason::Timeout, out);
        }
    }

    /// The other side is idle: all batches leave, if the policy says so.
    pub fn idle(&mut self, now: Time, out: &mut impl FnMut(Batch<'_>)) {
        if self.policy.when_idle {
            self.leave(now, FlushReason::Idle, out);
        }
    }

    /// All batches leave, the oldest first.
    pub fn flush(&mut self, now: Time, out: &mut impl FnMut(Batch<'_>)) {
        self.leave(now, FlushReason::Flushed, out);
    }

    fn leave(&mut self, now: Time, why: FlushReason, out: &mut impl FnMut(Batch<'_>)) {
        self.poll(now, out);
        if self.is_empty() {
            return;
        }
        for slot in self.oldest_first() {
            self.close(slot, now, why, out);
        }
    }

    fn oldest_first(&self) -> Vec<usize> {
        let mut slots: Vec<usize> = self.by_address.values().copied().collect();
        slots.sort_unstable_by_key(|&slot| self.open[slot].number);
        slots
    }

    /// Returns true if no packet is in an open batch.
    pub fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }
}

/// An error in the contents of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MalformedBatch {
    /// It ends within the address.
    NoAddress,
    /// It ends within a packet's length.
    NoLength,
    /// A packet is longer than the rest of the batch, or than the buffer to which it is written.
    TooLong,
    /// A packet lacks the bytes before its destination.
    TooShort,
}

impl fmt::Display for MalformedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MalformedBatch::NoAddress => "a batch ends within its address",
            MalformedBatch::NoLength => "a batch ends within a packet's length",
            MalformedBatch::TooLong => "a packet in a batch is longer than the rest of the batch",
            MalformedBatch::TooShort => {
                "a packet in a batch lacks the bytes before its destination"
            }
        })
    }
}

impl std::error::Error for MalformedBatch {}

/// Iterates over the packets of a batch, up to the first error.
pub fn unpack(batch: &[u8]) -> Result<BatchPackets<'_>, MalformedBatch> {
    let (&to, rest) = batch.split_first_chunk().ok_or(MalformedBatch::NoAddress)?;
    Ok(BatchPackets { to, rest })
}

/// The unread rest of a batch.
#[derive(Clone, Debug)]
pub struct BatchPackets<'a> {
    to: Address,
    rest: &'a [u8],
}

impl<'a> BatchPackets<'a> {
    /// Number of bytes that were not read.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// Continues to read a batch of which `left` bytes are unread.
    pub fn resume(batch: &'a [u8], left: usize) -> Result<BatchPackets<'a>, MalformedBatch> {
        let packets = unpack(batch)?;
        let from = packets.rest.len().saturating_sub(left);
        Ok(BatchPackets { to: packets.to, rest: &packets.rest[from..] })
    }

    fn take(&mut self) -> Result<BatchedPacket<'a>, MalformedBatch> {
        let (length, rest) =
            self.rest.split_first_chunk::<LENGTH>().ok_or(MalformedBatch::NoLength)?;
        let length = u16::from_be_bytes(*length).into();
        let (packet, rest) = rest.split_at_checked(length).ok_or(MalformedBatch::TooLong)?;
        self.rest = rest;
        Ok(BatchedPacket { to: self.to, rest: packet })
    }
}

impl<'a> Iterator for BatchPackets<'a> {
    type Item = Result<BatchedPacket<'a>, MalformedBatch>;

    /// Ends after an error: the start of the next packet is not known.
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let packet = self.take();
        if packet.is_err() {
            self.rest = &[];
        }
        Some(packet)
    }
}

/// A packet in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchedPacket<'a> {
    /// Destination of the packet.
    pub to: Address,
    /// All bytes of the packet except the destination.
    pub rest: &'a [u8],
}

impl BatchedPacket<'_> {
    /// Writes the packet in its original form, with the destination after `before` bytes; returns
    /// its length.
    pub fn write(&self, before: usize, buffer: &mut [u8]) -> Result<usize, MalformedBatch> {
        let (head, tail) = self.rest.split_at_checked(before).ok_or(MalformedBatch::TooShort)?;
        let length = self.rest.len() + ADDRESS;
        let buffer = buffer.get_mut(..length).ok_or(MalformedBatch::TooLong)?;
        buffer[..before].copy_from_slice(head);
        buffer[before..before + ADDRESS].copy_from_slice(&self.to);
        buffer[before + ADDRESS..].copy_from_slice(tail);
        Ok(length)
    }
}
