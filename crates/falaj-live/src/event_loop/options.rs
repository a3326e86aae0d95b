//! Options of the loop.

use super::timer::Timer;
use falaj_engine::PipeId;
use falaj_sched::units::time::Span;

/// Options of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The timer by which the loop waits.
    pub timer: Timer,
    /// How late a packet may be delivered, so that other packets of its unit leave together with
    /// it. With a timer that sleeps, this holds for all packets, which saves wake-ups.
    pub slack: Span,
    /// The fate of a packet that finds its queue full.
    pub when_full: WhenFull,
    /// Memory for units in transit, in bytes.
    pub memory: usize,
    /// Limit of the process's memory, in bytes; above it masks create no more queues and links.
    pub resident: usize,
}

/// The fate of a packet that finds its queue full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The packet is lost, as in a router.
    #[default]
    Drop,
    /// The packet waits at its port, together with all units behind it, as at a full interface.
    Wait,
    /// A packet going down waits, a packet going up is lost.
    WaitDown,
}

impl WhenFull {
    /// Returns true if a packet that finds its queue in this pipe full waits; the second pipe of a
    /// link leads down.
    pub(super) fn waits(self, pipe: PipeId) -> bool {
        match self {
            WhenFull::Drop => false,
            WhenFull::Wait => true,
            WhenFull::WaitDown => pipe.0 % 2 == 1,
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            timer: Timer::default(),
            slack: Span::from_micros(20),
            when_full: WhenFull::default(),
            memory: 1 << 30,
            resident: usize::MAX,
        }
    }
}
