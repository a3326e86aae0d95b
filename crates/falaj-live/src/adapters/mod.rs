//! Virtual adapters: many ports at the near end of a link, and one port at the far end that all of
//! them share.
//!
//! ```text
//!   adapter a --\                                    /-- to a, by Ethernet address
//!   adapter b ----  up: a flow for each  --  uplink  ---- to b
//!   adapter c --/                                    \-- to c
//! ```
//!
//! A packet that enters by an adapter belongs to it, whatever its headers are. A packet from the
//! uplink belongs to the adapter that has used its destination as a source address; a broadcast or
//! multicast packet is copied to each adapter, as a packet of that adapter's own. A packet for an
//! unknown address is flooded as by a bridge, because an adapter that only receives would otherwise
//! get nothing. Beyond a limit such packets are dropped and counted. Adapters are isolated from
//! each other: packets between two of them take the path behind the uplink.
//!
//! An address belongs to the adapter whose interface was created with it, otherwise to its first
//! user, as long as that adapter exists. Packets of another adapter with that source address are
//! dropped: otherwise the other adapter could take over its neighbor's packets. An adapter that
//! owned an address before a restart owns it afterwards: [`Adapters::recall`].
//!
//! A unit's adapter is noted in its virtio-net header, in the field for the number of buffers
//! (`num_buffers`), which has no meaning before a unit is in a guest's ring. So the note stays with
//! the unit, even if flows change meanwhile. The loop knows two ports; it is not involved when an
//! adapter is added or removed.

mod continuation;
mod opener;
mod read_rounds;
mod spaces;

pub use continuation::AdaptersState;
pub use opener::{OpenedInterface, Opener, TapWanted, adopt_tap};
pub use spaces::{Addresses, Space, start, start_with};

use crate::backend::frame;
use crate::backend::port::{self, Port, PortHandover, Received};
use crate::backend::tap::Tap;
use falaj_batch::crossing::CrossingCounts;
use falaj_engine::batch::BatchPolicy;
use falaj_engine::key::{self, Key};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use read_rounds::ReadRounds;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// The largest number of addresses of an adapter, which limits its share of the table.
pub const MOST_ADDRESSES: u32 = 256;
/// The largest number of tries to read a unit in one call. Malformed units, and units with a
/// foreign source or an unknown destination, are skipped. Because of this limit, an adapter that
/// sends only such units does not keep the link from its other work.
const PASSED_OVER: usize = 16;
/// The largest number of ports that are reported as readable at once.
const EVENTS: usize = 64;
/// Number of other removals, and time, after which the number of a removed adapter is reused:
/// before that, its units may still be in transit.
const RESTING: usize = 1024;
const REST: Duration = Duration::from_secs(60);
/// Maximum charge for the queueing of a packet. The measured time is limited to this, because it
/// may contain idle time.
const QUEUEING: Duration = Duration::from_micros(20);
/// Longest time between two polls of the adapters. Even if one adapter always has units, units of
/// the others are noticed within this time.
const LOOK: Duration = Duration::from_micros(20);
/// The number of units for unknown addresses that are flooded in a second, and the largest burst of
/// them: enough for answers that make an address known.
const FLOODED: u32 = 100;
/// The bytes of a unit in which its adapter is noted.
const NOTE: std::ops::Range<usize> = 10..12;
const ETHERNET: usize = 14;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// A change of the table of learned source addresses, with the name of the adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressChange {
    /// The adapter is the first user of the address, and owns it from now on.
    Learned(String, Mac),
    /// The adapter no longer owns the address: another adapter's interface was created with it, or
    /// the adapter has too many addresses and has not used this one since the start.
    Forgotten(String, Mac),
    /// The adapter is gone, and its addresses are free.
    Gone(String),
}

/// The adapter that owns a source address.
struct MacOwner {
    adapter: u16,
    /// True if the owner has sent from this address since the start.
    is_heard: bool,
}

/// Packets that were lost before they reached a flow, by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostBothWays {
    /// Sent by the adapter.
    pub up: u64,
    /// Sent to the adapter.
    pub down: u64,
}

/// Counters of an adapter, in addition to the counters of its flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterCounts {
    /// Units with a source address of another adapter, which were dropped.
    pub foreign: u64,
    /// Source address of the last of these units.
    pub foreign_source: Option<Mac>,
    /// Units that are not Ethernet frames.
    pub malformed: u64,
    /// Units that the adapter did not take: no room, interface down, or no guest.
    pub not_taken: u64,
    /// Packets for which there was no memory, by direction.
    pub no_memory: LostBothWays,
    /// Time of the link's thread spent on reading from the adapter, on its units until they were
    /// queued, and on writing to it.
    pub spent: Duration,
    /// True if the adapter is paused: nothing is read from it, and it gets no packets.
    pub paused: bool,
    /// Number of times that the adapter had used up its quantum of that thread's time while it and
    /// another adapter had more units.
    pub held_back: u64,
    /// True if the adapter's port is permanently gone.
    pub gone: bool,
    /// The current name of the adapter's interface, if it was opened under another name.
    pub interface: Option<String>,
    /// Batches that cross to and from the adapter's guest, and the current policy; not handed over
    /// to another process.
    #[serde(skip)]
    pub batches: Option<(CrossingCounts, BatchPolicy)>,
}

/// The port of an adapter, and the threads that may close it. The kernel closes a packet socket
/// only when no processor uses it any more, for which the link's thread should not wait.
pub enum ClosablePort {
    /// Any thread.
    ByAnybody(Box<dyn Port + Send>),
    /// Only the thread that uses it.
    ByItsUser(Box<dyn Port>),
}

impl From<Box<dyn Port>> for ClosablePort {
    fn from(port: Box<dyn Port>) -> ClosablePort {
        ClosablePort::ByItsUser(port)
    }
}

impl ClosablePort {
    fn get(&self) -> &dyn Port {
        match self {
            ClosablePort::ByAnybody(port) => &**port,
            ClosablePort::ByItsUser(port) => &**port,
        }
    }

    fn get_mut(&mut self) -> &mut dyn Port {
        match self {
            ClosablePort::ByAnybody(port) => &mut **port,
            ClosablePort::ByItsUser(port) => &mut **port,
        }
    }

    /// Closes the port, or returns an object that another thread should drop.
    fn leave(self) -> Option<Box<dyn Any + Send>> {
        match self {
            ClosablePort::ByAnybody(port) => Some(Box::new(port)),
            ClosablePort::ByItsUser(_) => None,
        }
    }
}

struct LiveAdapter {
    name: String,
    id: key::AdapterId,
    port: ClosablePort,
    addresses: u32,
    /// Addresses that the adapter had before a restart; some may have been used or lost since.
    recalled: Vec<Mac>,
    counts: AdapterCounts,
}

#[derive(Default)]
struct AdapterSet {
    /// The adapters; the number that is noted in units is an adapter's index plus one.
    adapters: Vec<Option<LiveAdapter>>,
    /// Numbers of removed adapters, the earliest first.
    free: VecDeque<(u16, Instant)>,
    macs: BTreeMap<Mac, MacOwner>,
    /// Receiver of changes of the table of addresses.
    observer: Option<Sender<AddressChange>>,
    turns: ReadRounds,
    /// The adapter whose unit was read last, the unit's number of packets, and the time at which
    /// the read ended: the adapter is charged for the time until the next read.
    last: Option<(u16, u32, Instant)>,
    /// Time of the last poll of the adapters.
    looked: Option<Instant>,
    /// Dropped units from the uplink for unknown addresses.
    unknown: u64,
}

impl AdapterSet {
    fn adapter(&mut self, n: u16) -> Option<&mut LiveAdapter> {
        self.adapters.get_mut(usize::from(n))?.as_mut()
    }

    /// The adapter that is noted in a unit.
    fn noted(&self, unit: &[u8]) -> Option<u16> {
        let note = unit.get(NOTE)?;
        u16::from_le_bytes([note[0], note[1]]).checked_sub(1)
    }

    fn key(&self, unit: &[u8]) -> Key {
        let adapter = self.noted(unit).and_then(|n| self.adapters.get(usize::from(n))?.as_ref());
        Key { adapter: adapter.map(|adapter| adapter.id), ..frame::key(unit) }
    }

    /// Returns true if this adapter may use that source address. The first user becomes its owner.
    fn is_own(&mut self, n: u16, mac: Mac) -> bool {
        if let Some(owner) = self.macs.get_mut(&mac) {
            owner.is_heard |= owner.adapter == n;
            return owner.adapter == n;
        }
        self.make_room(n);
        if let Some(adapter) = self.adapter(n)
            && adapter.addresses < MOST_ADDRESSES
        {
            adapter.addresses += 1;
            let learned = AddressChange::Learned(adapter.name.clone(), mac);
            self.macs.insert(mac, MacOwner { adapter: n, is_heard: true });
            self.report(learned);
        }
        true
    }

    /// Frees an entry of an adapter that has reached its limit: an address from before the restart
    /// that the adapter has not used since.
    fn make_room(&mut self, n: u16) {
        loop {
            let Some(adapter) = self.adapter(n).filter(|a| a.addresses >= MOST_ADDRESSES) else {
                return;
            };
            let Some(mac) = adapter.recalled.pop() else { return };
            let is_unheard = |owner: &MacOwner| owner.adapter == n && !owner.is_heard;
            if self.macs.get(&mac).is_some_and(is_unheard) {
                self.macs.remove(&mac);
                self.disown(n, mac);
            }
        }
    }

    /// Removes the address from the adapter.
    fn disown(&mut self, n: u16, mac: Mac) {
        if let Some(adapter) = self.adapter(n) {
            adapter.addresses -= 1;
            let forgotten = AddressChange::Forgotten(adapter.name.clone(), mac);
            self.report(forgotten);
        }
    }

    fn report(&self, change: AddressChange) {
        if let Some(observer) = &self.observer {
            // An observer that has ended needs no more reports.
            let _ = observer.send(change);
        }
    }

    /// Assigns that source address to this adapter, whichever adapter has used it before.
    fn pin(&mut self, n: u16, mac: Mac) {
        if let Some(before) = self.macs.insert(mac, MacOwner { adapter: n, is_heard: true }) {
            self.disown(before.adapter, mac);
        }
        if let Some(adapter) = self.adapter(n) {
            adapter.addresses += 1;
        }
    }

    /// Charges an adapter for time that the link's thread has spent on it.
    fn charge(&mut self, n: u16, cost: Duration) {
        self.turns.charge(n, cost);
        if let Some(adapter) = self.adapter(n) {
            adapter.counts.spent += cost;
        }
    }

    /// Counts packets sent by or to an adapter for which there was no memory.
    fn lost(&mut self, unit: &[u8], of: impl FnOnce(&mut LostBothWays) -> &mut u64, packets: u32) {
        if let Some(adapter) = self.noted(unit).and_then(|n| self.adapter(n)) {
            *of(&mut adapter.counts.no_memory) += u64::from(packets);
        }
    }

    /// The next adapter, from this one on, that exists and is not paused.
    fn next_from(&self, n: u16) -> Option<u16> {
        let there = |n: &usize| {
            self.adapters[*n]
                .as_ref()
                .is_some_and(|adapter| !adapter.counts.gone && !adapter.counts.paused)
        };
        (usize::from(n)..self.adapters.len()).find(there).map(|n| n as u16)
    }
}

fn note(unit: &mut [u8], n: u16) {
    if let Some(place) = unit.get_mut(NOTE) {
        place.copy_from_slice(&(n + 1).to_le_bytes());
    }
}

/// Source and destination address of the frame in a unit.
fn addresses(unit: &[u8]) -> Option<(Mac, Mac)> {
    let frame = unit.get(Tap::VNET_HEADER..).filter(|frame| frame.len() >= ETHERNET)?;
    Some((frame[6..12].try_into().ok()?, frame[..6].try_into().ok()?))
}

fn is_for_many(mac: Mac) -> bool {
    mac[0] & 1 != 0
}

/// The adapters of one link. They stay in the forwarder's thread; a clone is another handle to the
/// same adapters.
#[derive(Clone)]
pub struct Adapters {
    shared: Rc<RefCell<AdapterSet>>,
    epoll: Rc<Epoll>,
}

impl Adapters {
    /// A set without adapters.
    ///
    /// # Errors
    /// No descriptor is available.
    pub fn new() -> io::Result<Adapters> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Adapters { shared: Rc::default(), epoll: Rc::new(epoll) })
    }

    /// Adds an adapter. `mac`, if given, is the address with which the adapter's interface was
    /// created; no other adapter may use it.
    ///
    /// # Errors
    /// The kernel cannot poll its port, or there are 64 thousand others.
    pub fn add(
        &self,
        name: &str,
        port: impl Into<ClosablePort>,
        mac: Option<Mac>,
    ) -> io::Result<()> {
        let port = port.into();
        let mut shared = self.shared.borrow_mut();
        let n = match shared.free.front() {
            Some(&(n, left)) if shared.free.len() > RESTING && left.elapsed() >= REST => n,
            _ => u16::try_from(shared.adapters.len()).ok().filter(|n| *n < u16::MAX).ok_or_else(
                || {
                    io::Error::other(format!(
                        "there are at most {} adapters",
                        usize::from(u16::MAX) - RESTING
                    ))
                },
            )?,
        };
        self.epoll.add(port.get().readable(), EpollEvent::new(EpollFlags::EPOLLIN, n.into()))?;
        let id = key::AdapterId::named(name);
        let counts = AdapterCounts::default();
        let (name, recalled) = (name.to_owned(), Vec::new());
        let adapter = Some(LiveAdapter { name, id, port, addresses: 0, recalled, counts });
        if usize::from(n) == shared.adapters.len() {
            shared.adapters.push(adapter);
        } else {
            shared.free.pop_front();
            shared.adapters[usize::from(n)] = adapter;
        }
        shared.turns.add(n);
        if let Some(mac) = mac {
            shared.pin(n, mac);
        }
        Ok(())
    }

    /// Assigns to an adapter the addresses that it had learned before a restart, except those that
    /// another adapter owns by now. Call it before any packet is read, because an address without
    /// an owner goes to its first user.
    pub fn recall(&self, name: &str, macs: impl IntoIterator<Item = Mac>) {
        let mut shared = self.shared.borrow_mut();
        let shared = &mut *shared;
        let places = shared.adapters.iter_mut().enumerate();
        let named = places.filter_map(|(n, adapter)| Some((n, adapter.as_mut()?)));
        let Some((n, adapter)) = named.into_iter().find(|(_, adapter)| adapter.name == name) else {
            return;
        };
        for mac in macs.into_iter().filter(|mac| !is_for_many(*mac)) {
            if adapter.addresses < MOST_ADDRESSES
                && let Entry::Vacant(entry) = shared.macs.entry(mac)
            {
                entry.insert(MacOwner { adapter: n as u16, is_heard: false });
                adapter.addresses += 1;
                adapter.recalled.push(mac);
            }
        }
    }

    /// Sets the receiver of changes of the table of learned addresses, if any. Addresses that
    /// interfaces were created with are not reported.
    pub fn report_addresses(&self, to: Option<Sender<AddressChange>>) {
        self.shared.borrow_mut().observer = to;
    }

    /// Sets the weights of adapters, their relative shares of the link thread's time; initially 1.
    pub fn set_weights(&self, weights: &BTreeMap<&str, u32>) {
        let shared = &mut *self.shared.borrow_mut();
        for (n, adapter) in shared.adapters.iter().enumerate() {
            if let Some(&weight) =
                adapter.as_ref().and_then(|adapter| weights.get(&adapter.name[..]))
            {
                shared.turns.set_weight(n as u16, weight);
            }
        }
    }

    /// Removes an adapter with its port. Returns an object that another thread should drop.
    pub fn remove(&self, name: &str) -> Option<Box<dyn Any + Send>> {
        let mut shared = self.shared.borrow_mut();
        let mut left = None;
        for n in 0..shared.adapters.len() {
            if let Some(adapter) = shared.adapters[n].take_if(|adapter| adapter.name == name) {
                // A descriptor that is closed is not polled any more anyway.
                let _ = self.epoll.delete(adapter.port.get().readable());
                shared.macs.retain(|_, owner| usize::from(owner.adapter) != n);
                shared.report(AddressChange::Gone(name.to_owned()));
                shared.free.push_back((n as u16, Instant::now()));
                left = adapter.port.leave();
            }
        }
        left
    }

    /// Pauses or resumes an adapter: a paused adapter is not read from, and packets for it are not
    /// accepted. Returns true if there is an adapter of that name.
    ///
    /// # Errors
    /// The kernel no longer polls its port.
    pub fn pause(&self, name: &str, paused: bool) -> io::Result<bool> {
        let mut shared = self.shared.borrow_mut();
        let named = |adapter: &Option<LiveAdapter>| {
            adapter.as_ref().is_some_and(|adapter| adapter.name == name)
        };
        let Some(n) = shared.adapters.iter().position(named) else { return Ok(false) };
        if let Some(adapter) =
            shared.adapters[n].as_mut().filter(|adapter| adapter.counts.paused != paused)
        {
            // A paused port leaves the poll set: otherwise a hang-up would be reported again and
            // again, even if no events were requested.
            match (adapter.counts.gone, paused) {
                (true, _) => {}
                (false, true) => self.epoll.delete(adapter.port.get().readable())?,
                (false, false) => {
                    self.epoll.add(
                        adapter.port.get().readable(),
                        EpollEvent::new(EpollFlags::EPOLLIN, n as u64),
                    )?;
                }
            }
            adapter.counts.paused = paused;
        }
        Ok(true)
    }

    /// Sets the current name of an adapter's interface, or `None` for its original one.
    pub fn interface_is_called(&self, name: &str, interface: Option<String>) {
        let mut shared = self.shared.borrow_mut();
        if let Some(adapter) =
            shared.adapters.iter_mut().flatten().find(|adapter| adapter.name == name)
        {
            adapter.counts.interface = interface;
        }
    }

    /// Names and counters of the adapters that exist.
    pub fn counts(&self) -> Vec<(String, AdapterCounts)> {
        let shared = self.shared.borrow();
        let of = |(n, adapter): (usize, &Option<LiveAdapter>)| {
            let adapter = adapter.as_ref()?;
            let held_back = shared.turns.ended(n as u16);
            Some((adapter.name.clone(), AdapterCounts { held_back, ..adapter.counts.clone() }))
        };
        shared.adapters.iter().enumerate().filter_map(of).collect()
    }

    /// Dropped units from the uplink for unknown addresses.
    pub fn unknown(&self) -> u64 {
        self.shared.borrow().unknown
    }

    /// The two ends of the link: all adapters, and the uplink.
    pub fn ends(&self, uplink: Box<dyn Port>) -> [Box<dyn Port>; 2] {
        let near = AdaptersPort { shared: Rc::clone(&self.shared), epoll: Rc::clone(&self.epoll) };
        let far = UplinkPort {
            shared: Rc::clone(&self.shared),
            uplink,
            copied: Vec::new(),
            copies: None,
            flood: FloodLimit { left: FLOODED, since: Instant::now() },
        };
        [Box::new(near), Box::new(far)]
    }
}

/// All adapters as one port.
struct AdaptersPort {
    shared: Rc<RefCell<AdapterSet>>,
    epoll: Rc<Epoll>,
}

impl AdaptersPort {
    /// Polls for adapters that are readable; there may be none.
    fn look(&self, shared: &mut AdapterSet) -> io::Result<()> {
        let mut events = [EpollEvent::empty(); EVENTS];
        match self.epoll.wait(&mut events, EpollTimeout::ZERO) {
            Ok(n) => shared.turns.ready(events[..n].iter().map(|event| event.data() as u16)),
            Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }
}

impl Port for AdaptersPort {
    fn name(&self) -> String {
        "The adapters' poll set".into()
    }

    fn longest(&self) -> usize {
        Tap::MAX_UNIT
    }

    /// Reads a unit of the adapter whose turn it is, so that no adapter keeps the others from being
    /// read.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let shared = &mut *self.shared.borrow_mut();
        let mut began = Instant::now();
        if let Some((n, packets, since)) = shared.last.take() {
            shared.charge(n, (began - since).min(QUEUEING * packets));
        }
        if shared.turns.is_empty() || shared.looked.is_none_or(|last| began - last >= LOOK) {
            self.look(shared)?;
            shared.looked = Some(began);
        }
        for _ in 0..PASSED_OVER {
            let Some(n) = shared.turns.next() else { break };
            let Some(adapter) = shared.adapter(n).filter(|adapter| !adapter.counts.paused) else {
                shared.turns.out_of_units(n);
                continue;
            };
            let received = adapter.port.get_mut().receive(buffer);
            let now = Instant::now();
            shared.charge(n, now - began);
            began = now;
            let Some(adapter) = shared.adapter(n) else { continue };
            let received = match received {
                Ok(Some(received)) => received,
                Ok(None) => {
                    shared.turns.out_of_units(n);
                    continue;
                }
                Err(error) if port::is_gone(&error) => {
                    adapter.counts.gone = true;
                    let _ = self.epoll.delete(adapter.port.get().readable());
                    shared.turns.out_of_units(n);
                    continue;
                }
                Err(_) => {
                    adapter.counts.malformed += 1;
                    continue;
                }
            };
            let from = addresses(&buffer[..received.length])
                .map(|(from, _)| from)
                .filter(|from| !is_for_many(*from));
            let own = from.map(|from| shared.is_own(n, from));
            if own == Some(true) {
                note(buffer, n);
                shared.last = Some((n, received.packets(), now));
                return Ok(Some(received));
            }
            if let Some(adapter) = shared.adapter(n) {
                match from {
                    Some(_) => {
                        adapter.counts.foreign += 1;
                        adapter.counts.foreign_source = from;
                    }
                    None => adapter.counts.malformed += 1,
                }
            }
        }
        Ok(None)
    }

    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool> {
        let shared = &mut *self.shared.borrow_mut();
        let Some(n) = shared.noted(unit) else { return Ok(false) };
        let Some(adapter) = shared.adapter(n) else { return Ok(false) };
        let began = Instant::now();
        // An adapter that is gone or paused takes nothing, and does not end the port.
        let taken =
            !adapter.counts.paused && adapter.port.get_mut().transmit(unit).unwrap_or(false);
        adapter.counts.not_taken += u64::from(!taken);
        shared.charge(n, began.elapsed());
        Ok(taken)
    }

    fn found_no_memory(&mut self, unit: &[u8], packets: u32) {
        self.shared.borrow_mut().lost(unit, |lost| &mut lost.up, packets);
    }

    fn owner(&self, unit: &[u8]) -> Option<u16> {
        self.shared.borrow().noted(unit)
    }

    fn key(&self, unit: &[u8]) -> Key {
        self.shared.borrow().key(unit)
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

impl PortHandover for AdaptersPort {}

/// The token bucket for flooding.
struct FloodLimit {
    left: u32,
    since: Instant,
}

impl FloodLimit {
    /// Takes a token; returns true if there was one.
    fn take(&mut self) -> bool {
        let second = Duration::from_secs(1);
        let earned = self.since.elapsed().min(second).as_nanos() * u128::from(FLOODED);
        let earned = (earned / second.as_nanos()) as u32;
        if earned > 0 {
            (self.left, self.since) = ((self.left + earned).min(FLOODED), Instant::now());
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

/// The uplink.
struct UplinkPort {
    shared: Rc<RefCell<AdapterSet>>,
    uplink: Box<dyn Port>,
    /// A unit for all adapters.
    copied: Vec<u8>,
    /// The description of that unit, and the first adapter that may get the next copy; `None` if no
    /// copy is left.
    copies: Option<(Received, u16)>,
    flood: FloodLimit,
}

impl UplinkPort {
    /// The next copy of a unit for all adapters.
    fn copy(&mut self, buffer: &mut [u8]) -> Option<Received> {
        let (received, from) = self.copies?;
        let n = self.shared.borrow().next_from(from);
        self.copies = n.map(|n| (received, n + 1));
        buffer[..self.copied.len()].copy_from_slice(&self.copied);
        note(buffer, n?);
        Some(received)
    }
}

impl Port for UplinkPort {
    fn name(&self) -> String {
        self.uplink.name()
    }

    fn longest(&self) -> usize {
        self.uplink.longest()
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        for _ in 0..PASSED_OVER {
            if let Some(copy) = self.copy(buffer) {
                return Ok(Some(copy));
            }
            let Some(received) = self.uplink.receive(buffer)? else { return Ok(None) };
            let Some((_, to)) = addresses(&buffer[..received.length]) else { continue };
            if let Some(owner) = self.shared.borrow().macs.get(&to) {
                note(buffer, owner.adapter);
                return Ok(Some(received));
            }
            if is_for_many(to) || self.flood.take() {
                self.copied.clear();
                self.copied.extend_from_slice(&buffer[..received.length]);
                self.copies = Some((received, 0));
            } else {
                self.shared.borrow_mut().unknown += 1;
            }
        }
        Ok(None)
    }

    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool> {
        self.uplink.transmit(unit)
    }

    fn found_no_memory(&mut self, unit: &[u8], packets: u32) {
        self.shared.borrow_mut().lost(unit, |lost| &mut lost.down, packets);
    }

    fn owner(&self, unit: &[u8]) -> Option<u16> {
        self.shared.borrow().noted(unit)
    }

    fn key(&self, unit: &[u8]) -> Key {
        self.shared.borrow().key(unit)
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.uplink.readable()
    }
}

impl PortHandover for UplinkPort {
    fn holds_units(&self) -> bool {
        self.copies.is_some()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.uplink.descriptor()
    }

    fn position(&self) -> u64 {
        self.uplink.position()
    }

    fn resume_at(&mut self, position: u64) {
        self.uplink.resume_at(position);
    }
}

#[cfg(test)]
mod tests;
