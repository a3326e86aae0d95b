//! Loops that only read and write, over the interfaces of a link: an upper bound on the performance
//! of a link with these interfaces.

use anyhow::{Result, bail};
use falaj_live::backend::packet::{PacketReader, PacketSocket};
use falaj_live::backend::tap::Tap;
use falaj_live::sandbox::{End, Sandbox};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Maximum number of units forwarded in one direction before the other direction is served.
const TURN: usize = 64;

type ReadUnit = Box<dyn FnMut(&mut [u8]) -> io::Result<Option<usize>>>;
type WriteUnit = Box<dyn FnMut(&[u8]) -> io::Result<bool>>;

/// A direction: forwards units (frames, or longer packets that the kernel has not segmented) from
/// one interface to another.
pub struct BareWay {
    unit: Vec<u8>,
    read: ReadUnit,
    write: WriteUnit,
}

impl BareWay {
    /// A direction that reads with `read` and writes with `write`.
    pub fn new(read: ReadUnit, write: WriteUnit) -> BareWay {
        BareWay { unit: vec![0; Tap::MAX_UNIT], read, write }
    }

    /// Forwards the available units, up to a limit; returns the number forwarded.
    pub fn turn(&mut self) -> io::Result<u64> {
        let mut taken = 0;
        for _ in 0..TURN {
            let Some(length) = (self.read)(&mut self.unit)? else { break };
            taken += u64::from((self.write)(&self.unit[..length])?);
        }
        Ok(taken)
    }
}

/// Loops in both directions between the two ends of a sandbox, which have no other connection.
pub struct Bare {
    /// The loop towards the far end and the loop towards the near end.
    pub ways: [BareWay; 2],
    /// The descriptors that are readable if there are units to forward.
    readable: [Arc<dyn AsFd>; 2],
}

impl Bare {
    /// Loops between the ends of this sandbox.
    pub fn between(sandbox: &mut Sandbox) -> Result<Bare> {
        if let (Some(near), Some(far)) = (sandbox.packet(End::Near), sandbox.packet(End::Far)) {
            let way = |from: &Arc<PacketSocket>, to: &Arc<PacketSocket>| -> Result<BareWay> {
                let (mut from, to) = (PacketReader::new(Arc::clone(from))?, Arc::clone(to));
                Ok(BareWay::new(
                    Box::new(move |unit| from.read(unit)),
                    Box::new(move |unit| to.send(unit)),
                ))
            };
            let readable: [Arc<dyn AsFd>; 2] = [Arc::clone(near) as _, Arc::clone(far) as _];
            return Ok(Bare { ways: [way(near, far)?, way(far, near)?], readable });
        }
        let [Some(near), Some(far)] = End::BOTH.map(|end| sandbox.take_tap(end).map(Arc::new))
        else {
            bail!("a sandbox that is not joined by packet sockets has a TAP at each end")
        };
        let way = |from: &Arc<Tap>, to: &Arc<Tap>| {
            let (from, to) = (Arc::clone(from), Arc::clone(to));
            BareWay::new(
                Box::new(move |unit| from.read(unit)),
                Box::new(move |unit| to.write(unit)),
            )
        };
        Ok(Bare { ways: [way(&near, &far), way(&far, &near)], readable: [near as _, far as _] })
    }

    /// Runs each direction once. If there was nothing to forward, waits until there is, or until
    /// one of `others` is readable, for at most 5 ms.
    pub fn run(&mut self, others: &[BorrowedFd<'_>]) -> io::Result<()> {
        let [to_far, back] = &mut self.ways;
        if to_far.turn()? + back.turn()? == 0 {
            let fds = self.readable.iter().map(|fd| fd.as_fd()).chain(others.iter().copied());
            let mut fds: Vec<PollFd> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            poll(&mut fds, PollTimeout::from(5u8))?;
        }
        Ok(())
    }
}
