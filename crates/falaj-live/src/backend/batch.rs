//! A port behind shared memory: the far end's TAP belongs to another process, and packets cross to
//! it and back in batches, as between a driver domain and its guest. The guest is not trusted: its
//! packets are checked, and if it dies or breaks the rings, its end of the link is gone.

use crate::backend::frame;
use crate::backend::port::{Port, PortHandover, Received};
use crate::backend::tap::Tap;
use crate::clock::monotonic;
use crate::poll::PollSet;
use falaj_batch::crossing::Crossing;
use falaj_batch::endpoint::{Endpoint, line};
use falaj_engine::batch::Packer;
use falaj_sched::units::time::{Span, Time};
use nix::errno::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Bytes of a ring in each direction.
const RING: usize = 1 << 20;
/// Bytes of a unit before its destination, for the packer.
pub const BEFORE: usize = Tap::VNET_HEADER;
/// Number of units that the guest moves before it checks the other direction.
const TURN: usize = 64;

fn now() -> Time {
    Time(monotonic())
}

/// The link's side of a guest.
pub struct Guest {
    crossing: Crossing,
}

impl Guest {
    /// Starts the guest, a command that calls [`serve`] with its standard input, and passes it the
    /// TAP. `packer` packs the units that go to the guest; it must be made for units with
    /// [`BEFORE`] bytes before their destination. The guest ends when this side does.
    pub fn start(mut command: Command, tap: &Tap, packer: Packer) -> io::Result<(Guest, Child)> {
        let [ours, theirs] = line()?;
        // Ctrl-C is meant for the link, which then ends the guest.
        let child = command.stdin(theirs).process_group(0).spawn()?;
        drop(command);
        let endpoint = Endpoint::create(ours, RING, &[tap.as_fd()])?;
        Ok((Guest { crossing: Crossing::new(endpoint, packer) }, child))
    }

    /// The port of the link at this guest.
    pub fn port(self) -> GuestPort {
        GuestPort { crossing: self.crossing }
    }
}

/// The link's port to a guest.
pub struct GuestPort {
    crossing: Crossing,
}

/// Maps an error of the rings themselves to the end of the port.
fn ended(_: io::Error) -> io::Error {
    Errno::ENODEV.into()
}

impl GuestPort {
    fn unit(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        match self.crossing.receive(buffer).map_err(ended)? {
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
        self.crossing.poll(now()).map_err(ended)?;
        if let Some(received) = self.unit(buffer)? {
            return Ok(Some(received));
        }
        // First clear, then poll: a wake-up in between is not lost.
        self.crossing.clear()?;
        loop {
            self.crossing.poll(now()).map_err(ended)?;
            if let Some(received) = self.unit(buffer)? {
                return Ok(Some(received));
            }
            if self.crossing.is_gone() {
                return Err(Errno::ENODEV.into());
            }
            if self.crossing.rest().map_err(ended)? {
                self.crossing.alarm()?;
                return Ok(None);
            }
        }
    }

    fn transmit(&mut self, unit: &[u8]) -> io::Result<bool> {
        let taken = self.crossing.offer(unit, now()).map_err(ended)?;
        self.crossing.alarm()?;
        Ok(taken)
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.crossing.as_fd()
    }
}

impl PortHandover for GuestPort {}

/// Runs the guest between the TAP received over the line and the rings, until the other side ends.
/// `packer` packs the units that go back; it is made as for [`Guest::start`].
pub fn serve(line: OwnedFd, packer: Packer) -> io::Result<()> {
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
            watch.heed(0, !crossing.is_full(), false);
            let until = crossing.next_due().since(now());
            watch.wait(until.min(Span::from_secs(3600)))?;
            crossing.clear()?;
        }
    }
}
