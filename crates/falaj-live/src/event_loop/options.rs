//! Options of the loop.

use super::timer::Timer;
use falaj_engine::PipeId;
use falaj_sched::units::time::Span;

/// Options of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The timer, by which it waits.
    pub timer: Timer,
    /// Maximum lateness of a packet's delivery, so that others of its unit leave with it. With a
    /// timer that sleeps, this holds for all packets, so that there are fewer wake-ups.
    pub slack: Span,
    /// The fate of a packet that finds its queue full.
    pub when_full: WhenFull,
    /// Memory for units in transit, in bytes.
    pub memory: usize,
    /// Memory of the process, in bytes, from which on masks create no more queues and links.
    pub resident: usize,
}

/// The fate of a packet that finds its queue full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It is lost, as in a router.
    #[default]
    Drop,
    /// It waits at its port, together with all units behind it, as at an interface that is full.
    Wait,
    /// A packet going down waits, a packet going up is lost.
    WaitDown,
}

impl WhenFull {
    /// Returns true if a packet that is to enter this pipe waits; the second pipe of a link leads
    /// down.
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
