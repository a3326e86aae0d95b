//! Takes the place of a virtual machine: a driver of the machine's network card, which sends and
//! receives frames.

use crate::guest::{
    CSUM, FROM_GUEST, Guest, HEADER, LEAST, MRG_RXBUF, SIZE, TO_GUEST, TSO4, parts,
};
use crate::storm::FrameTransport;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use vm_memory::{Bytes, GuestAddress};

/// Guest address of the first buffer for frames that the guest sends.
const SENT: u64 = 0x40000;
/// Guest address of the first buffer for frames that the guest receives.
const COMES: u64 = 0x80000;
/// Size of a buffer in bytes; each descriptor of a ring has one.
const BUFFER: u64 = 0x4000;

pub(crate) struct Driver {
    guest: Guest,
    /// Number of entries already read from the ring to the guest.
    seen: u16,
}

impl Driver {
    pub(crate) fn of(card: &Path) -> Driver {
        let mut guest = Guest::start(card, LEAST | MRG_RXBUF | CSUM | TSO4);
        for n in 0..u64::from(SIZE) {
            guest.offer(TO_GUEST, &[(COMES + n * BUFFER, BUFFER as u32)]);
        }
        guest.kicks[TO_GUEST].write(1).expect("room");
        Driver { guest, seen: 0 }
    }

    /// Sends a frame as soon as a descriptor is free. Returns true if it was sent, and false if no
    /// descriptor was free within a second.
    fn sends(&mut self, parts: [&[u8]; 2]) -> bool {
        let (guest, began) = (&mut self.guest, Instant::now());
        while guest.made[FROM_GUEST].wrapping_sub(guest.used(FROM_GUEST)) >= SIZE {
            if began.elapsed() > Duration::from_secs(1) {
                return false;
            }
            std::thread::yield_now();
        }
        let unit = parts.concat();
        assert!(unit.len() <= BUFFER as usize, "{} B", unit.len());
        let at = SENT + u64::from(guest.made[FROM_GUEST] % SIZE) * BUFFER;
        guest.memory.write_slice(&unit, GuestAddress(at)).expect("within the memory");
        guest.offer(FROM_GUEST, &[(at, unit.len() as u32)]);
        guest.kicks[FROM_GUEST].write(1).is_ok()
    }
}

impl FrameTransport for Driver {
    fn good(&mut self, frame: &[u8]) -> bool {
        self.sends([&[0; HEADER], frame])
    }

    /// Sends a bad frame. The header here is two bytes longer than that of packet sockets; without
    /// `header`, it is all zeroes.
    fn bad(&mut self, bytes: &[u8], header: bool) -> bool {
        match bytes.split_at_checked(HEADER - 2) {
            Some((header_of, frame)) if header => {
                self.sends([&[header_of, &[0; 2]].concat(), frame])
            }
            _ => self.sends([&[0; HEADER], bytes]),
        }
    }

    fn comes(&mut self, frame: &mut [u8], milliseconds: u16) -> Option<usize> {
        let guest = &mut self.guest;
        let call = guest.calls[TO_GUEST].as_raw_fd();
        // SAFETY: the descriptor stays open as long as `guest` exists.
        let call = unsafe { BorrowedFd::borrow_raw(call) };
        while guest.used(TO_GUEST) == self.seen {
            let mut fds = [PollFd::new(call, PollFlags::POLLIN)];
            if poll(&mut fds, PollTimeout::from(milliseconds)).expect("it polls") == 0 {
                return None;
            }
            let _ = guest.calls[TO_GUEST].read();
        }
        let used = parts(TO_GUEST)[2] + 4 + 8 * u64::from(self.seen % SIZE);
        let buffer: u32 = guest.memory.read_obj(GuestAddress(used)).expect("within the memory");
        let length = (guest.used_length(TO_GUEST, self.seen) as usize)
            .clamp(HEADER, HEADER + frame.len())
            - HEADER;
        let at = COMES + u64::from(buffer) * BUFFER;
        guest
            .memory
            .read_slice(&mut frame[..length], GuestAddress(at + HEADER as u64))
            .expect("within the memory");
        self.seen = self.seen.wrapping_add(1);
        assert_eq!(
            u64::from(guest.made[TO_GUEST] % SIZE),
            u64::from(buffer),
            "buffers are used in turn"
        );
        guest.offer(TO_GUEST, &[(at, BUFFER as u32)]);
        guest.kicks[TO_GUEST].write(1).expect("room");
        Some(length)
    }
}
