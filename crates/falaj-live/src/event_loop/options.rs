//! How the loop is to go about it.

use super::timer::Timer;
use falaj_engine::PipeId;
use falaj_sched::units::time::Span;

/// How the loop goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How it waits.
    pub timer: Timer,
    /// How much later than due a packet may be handed over so that others of its
    /// unit leave with it, or, sleeping, so that there are fewer wake-ups.
    pub slack: Span,
    /// What becomes of a packet that finds its queue full.
    pub when_full: WhenFull,
    /// Memory for units on their way, in bytes.
    pub memory: usize,
    /// Masks make no more queues and links while the process has as much memory as this, in bytes.
    pub resident: usize,
}

/// What becomes of a packet that finds its queue full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It is lost, as in a router.
    #[default]
    Drop,
    /// It waits at its port, and whatever comes behind it there, as behind an interface that is
    /// full.
    Wait,
    /// What comes down waits, what goes up is lost.
    WaitDown,
}

impl WhenFull {
    /// Whether it waits if it is to enter this pipe; of a link's two the second leads down.
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
