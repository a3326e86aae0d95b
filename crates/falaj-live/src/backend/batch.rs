//! A port behind shared memory: the far end's TAP belongs to another process, and packets cross to
//! it and back in batches, as between a driver domain and its guest. The guest is not trusted: its
//! packets are checked, and if it dies or breaks the rings, its end of the link is gone.

use crate::backend::frame;
use crate::backend::port::{Port, PortHandover, Received};
use crate::backend::tap::Tap;
use crate::clock::monotonic;
use crate::gso::{Train, singly};
use crate::poll::PollSet;
use falaj_batch::crossing::{Crossing, CrossingCounts};
use falaj_batch::endpoint::{Endpoint, line};
use falaj_engine::batch::{BatchPolicy, Packer};
use falaj_sched::units::time::{Span, Time};
use nix::errno::Errno;
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::rc::Rc;

/// Size of the ring of each direction, in bytes.
const RING: usize = 1 << 20;
/// Number of bytes of a unit before its destination address; the packer needs it.
pub const BEFORE: usize = Tap::VNET_HEADER;
/// Maximum number of units that the guest moves in one direction before it checks the other.
const TURN: usize = 64;

fn now() -> Time {
    Time(monotonic())
}

/// The link's side of a guest.
pub struct Guest {
    crossing: Crossing,
}

impl Guest {
    /// Starts the guest, a command that calls [`serve`] with its standard input, and passes the TAP
    /// to it. `packer` packs the units that go to the guest; it must be made for units with
    /// [`BEFORE`] bytes before their destination. The guest ends when the link's side does.
    pub fn start(mut command: Command, tap: &Tap, packer: Packer) -> io::Result<(Guest, Child)> {
        let [ours, theirs] = line()?;
        // Ctrl-C is meant for the link, which then ends the guest.
        let child = command.stdin(theirs).process_group(0).spawn()?;
        drop(command);
        Ok((Guest::at(ours, tap, packer)?, child))
    }

    /// The link's side of a guest that was already started; `line` is the link's end of the pair of
    /// sockets between them. Passes the TAP to the guest.
    ///
    /// # Errors
    /// The guest has ended, or there is no shared memory.
    pub fn at(line: OwnedFd, tap: &Tap, packer: Packer) -> io::Result<Guest> {
        let endpoint = Endpoint::create(line, RING, &[tap.as_fd()])?;
        Ok(Guest { crossing: Crossing::new(endpoint, packer) })
    }

    /// The port of the link at this guest.
    ///
    /// # Errors
    /// No descriptor is available.
    pub fn port(self) -> io::Result<GuestPort> {
        let readable = self.crossing.as_fd().try_clone_to_owned()?;
        let crossing = Rc::new(RefCell::new(self.crossing));
        Ok(GuestPort { crossing, readable, part: Vec::new() })
    }
}

/// Starts a guest that does not depend on this process; returns the link's end of their sockets.
pub(crate) fn start_apart(mut command: Command) -> io::Result<OwnedFd> {
    let [ours, theirs] = line()?;
    command.stdin(theirs).process_group(0).spawn()?;
    Ok(ours)
}

/// The link's port to a guest.
pub struct GuestPort {
    crossing: Rc<RefCell<Crossing>>,
    /// The descriptor of `crossing`, which the event loop polls.
    readable: OwnedFd,
    /// Buffer for one packet of a unit with several packets.
    part: Vec<u8>,
}

/// The batches of a guest's port, seen from outside of the event loop.
pub struct GuestBatches {
    crossing: Rc<RefCell<Crossing>>,
}

impl GuestBatches {
    /// The counters of the link's side, and its present policy.
    pub fn counts(&self) -> (CrossingCounts, BatchPolicy) {
        let crossing = self.crossing.borrow();
        (crossing.counts(), crossing.policy())
    }

    /// Packs with another packer from now on, and sends the guest a message about it, from which
    /// the guest makes its own packer.
    ///
    /// # Errors
    /// The guest is gone, or its rings are broken.
    pub fn repack(&self, packer: Packer, message: &str) -> io::Result<()> {
        let mut crossing = self.crossing.borrow_mut();
        crossing.tell(message.as_bytes())?;
        crossing.repack(packer, now())
    }
}

/// Turns an error of the rings into one that means that the port is gone.
fn ended(_: io::Error) -> io::Error {
    Errno::ENODEV.into()
}

impl GuestPort {
    /// The batches of this port, for use outside of the event loop.
    pub fn batches(&self) -> GuestBatches {
        GuestBatches { crossing: Rc::clone(&self.crossing) }
    }

    fn unit(crossing: &mut Crossing, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        match crossing.receive(buffer).map_err(ended)? {
            None => Ok(None),
            Some(Ok(length)) => Ok(Some(frame::received(&buffer[..length]))),
            Some(Err(malformed)) => Err(io::Error::new(io::ErrorKind::InvalidData, malformed)),
        }
    }
}

impl Port for GuestPort {
    fn name(&self) -> String {
        "The process at the far end that accepts batches".into()
    }

    fn longest(&self) -> usize {
        Tap::MAX_UNIT
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let crossing = &mut *self.crossing.borrow_mut();
        crossing.poll(now()).map_err(ended)?;
        if let Some(received) = GuestPort::unit(crossing, buffer)? {
            return Ok(Some(received));
        }
        // First clear the wake-up, then poll, so that a wake-up in between is not lost.
        crossing.clear()?;
        loop {
            crossing.poll(now()).map_err(ended)?;
            if let Some(received) = GuestPort::unit(crossing, buffer)? {
                return Ok(Some(received));
            }
            if crossing.is_gone() {
                return Err(Errno::ENODEV.into());
            }
            if crossing.rest().map_err(ended)? {
                crossing.alarm()?;
                return Ok(None);
            }
        }
    }

    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool> {
        let crossing = &mut *self.crossing.borrow_mut();
        let now = now();
        let mut offer = |packet: &[u8]| crossing.offer(packet, now).map_err(ended);
        // Batches are for single packets: a unit of many packets would fill a batch, or fit into
        // none.
        let taken = match Train::of(unit) {
            None => offer(unit)?,
            Some(_) => singly(unit, &mut self.part, |packet| offer(packet))?,
        };
        crossing.alarm()?;
        Ok(taken)
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

impl PortHandover for GuestPort {}

/// Runs the guest, which moves units between the TAP received over `line` and the rings, until the
/// other side ends. `packer` packs the units that go back; it is made as for [`Guest::start`].
/// `repacked` makes a new packer from a message of the other side.
pub fn serve(
    line: OwnedFd,
    packer: Packer,
    repacked: impl Fn(&str) -> Option<Packer>,
) -> io::Result<()> {
    let (endpoint, more) = Endpoint::accept(line)?;
    let Some(tap) = more.into_iter().next() else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no TAP came with the rings"));
    };
    let tap = Tap::adopt(tap);
    let mut crossing = Crossing::new(endpoint, packer);
    let mut unit = vec![0; Tap::MAX_UNIT];
    let mut watch = PollSet::default();
    let fds = [tap.as_fd(), crossing.as_fd()].map(|fd| fd.try_clone_to_owned());
    let [tap_fd, crossing_fd] = fds;
    let (tap_fd, crossing_fd) = (tap_fd?, crossing_fd?);
    watch.set([tap_fd.as_fd(), crossing_fd.as_fd()].into_iter());
    loop {
        let mut busy = false;
        crossing.poll(now())?;
        for _ in 0..TURN {
            match crossing.receive(&mut unit)? {
                None => break,
                // A frame that the interface rejects, or a malformed one, is lost.
                Some(Ok(length)) => drop(tap.write(&unit[..length])),
                Some(Err(_)) => {}
            }
            busy = true;
        }
        for _ in 0..TURN {
            if crossing.is_full() {
                break;
            }
            let Some(length) = tap.read(&mut unit)? else { break };
            crossing.offer(&unit[..length], now())?;
            busy = true;
        }
        if busy {
            continue;
        }
        if crossing.is_gone() {
            return Ok(());
        }
        if crossing.rest()? {
            watch.set_interest(0, !crossing.is_full(), false);
            let until = crossing.next_due().since(now());
            watch.wait(until.min(Span::from_secs(3600)))?;
            crossing.clear()?;
            while let Some(message) = crossing.told() {
                if let Some(packer) = str::from_utf8(&message).ok().and_then(&repacked) {
                    crossing.repack(packer, now())?;
                }
            }
        }
    }
}
