//! TCP as a closed loop: what is sent depends on what arrives.
//!
//! A [`Connection`] is a state machine without clock and without packets. It says when it next
//! wants to be asked, hands out segments, and is told which of them arrive, and when. Everything
//! else is not its own: queues, loss, marks and delay are the network's.
//!
//! | module | what it holds |
//! |---|---|
//! | [`connection`] | both ends and the way back of acknowledgements |
//! | [`sender`] | what is under way, what is lost, when to give up waiting |
//! | [`receiver`] | what has arrived, and when that is acknowledged |
//! | [`round_trip`] | the round trip time, and the timeout that follows (RFC 6298) |
//! | [`reno`], [`cubic`], [`dctcp`], [`bbr`] | how much may be under way |
//!
//! What is left out is listed where users look: `docs/explanation/tcp.md`.

pub mod bbr;
pub mod connection;
pub mod cubic;
pub mod dctcp;
pub mod receiver;
pub mod reno;
pub mod round_trip;
pub mod sender;

pub use connection::{Connection, Segment, Transfers};

use bbr::Bbr;
use cubic::Cubic;
use dctcp::Dctcp;
use falaj_sched::units::time::{Span, Time};
use reno::Reno;

/// Bytes of IPv4 and TCP headers, without options.
pub const HEADERS: u32 = 40;

/// A sender and its receiver.
#[derive(Clone, Debug, PartialEq)]
pub struct Tcp {
    /// How much may be under way.
    pub congestion: Congestion,
    /// How long an acknowledgement takes back.
    pub back: Span,
    /// There and back, without queues: what is random in it is a part of this.
    pub base: Span,
    /// A transfer has so many bytes of payload; `None`: without end.
    pub bytes: Option<u64>,
    /// Mean time between a transfer and the next one, exponential; `None`: there is one alone.
    pub pause: Option<Span>,
    /// So many segments may be under way at the beginning.
    pub initial_window: u32,
    /// And so many bytes of payload at most.
    pub window: u64,
    /// Every second segment is acknowledged, or one that waited for long; else each.
    pub delayed: bool,
}

/// How a sender finds out how much may be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// One segment more each round trip, half at a loss (RFC 5681).
    Reno,
    /// A cubic function of the time since the last loss (RFC 9438).
    Cubic,
    /// Reno's growth; of its window as much goes as was marked of it (RFC 8257).
    Dctcp,
    /// As much as a model of the path holds: its rate and its shortest round trip (Cardwell and
    /// others 2016).
    Bbr,
}

impl Congestion {
    /// Its name in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Congestion::Reno => "reno",
            Congestion::Cubic => "cubic",
            Congestion::Dctcp => "dctcp",
            Congestion::Bbr => "bbr",
        }
    }
}

/// What an acknowledgement says to the control of congestion.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// When.
    pub now: Time,
    /// So many segments more have arrived.
    pub segments: u32,
    /// Of these, so many were marked.
    pub marked: u32,
    /// The round trip of the last of them.
    pub round_trip: Span,
    /// So many are under way now.
    pub in_flight: u32,
    /// The next one goes after this at the earliest, where they are paced.
    pub paced: Span,
    /// The window was what kept the sender from sending more.
    pub limited: bool,
    /// It was sent before the window was last reduced, or losses are being repaired.
    pub recovering: bool,
    /// Segments a second that arrived while it was under way.
    pub rate: Option<f64>,
    /// The first acknowledgement of a round trip: of what was sent after the last such one had
    /// come.
    pub round: bool,
}

/// How much may be under way; windows in segments.
#[derive(Clone, Debug)]
pub(crate) enum Control {
    Reno(Reno),
    Cubic(Cubic),
    Dctcp(Dctcp),
    Bbr(Bbr),
}

impl Control {
    /// `draw` is a random number.
    pub(crate) fn new(congestion: Congestion, initial: u32, draw: u64) -> Control {
        match congestion {
            Congestion::Reno => Control::Reno(Reno::new(initial)),
            Congestion::Cubic => Control::Cubic(Cubic::new(initial)),
            Congestion::Dctcp => Control::Dctcp(Dctcp::new(initial)),
            Congestion::Bbr => Control::Bbr(Bbr::new(initial, draw)),
        }
    }

    /// Segments have arrived.
    pub(crate) fn acked(&mut self, acked: &Acked) {
        match self {
            Control::Reno(control) => control.acked(acked),
            Control::Cubic(control) => control.acked(acked),
            Control::Dctcp(control) => control.acked(acked),
            Control::Bbr(control) => control.acked(acked),
        }
    }

    /// Segments are lost: once for all that were sent before this was last said, or that they are
    /// marked.
    pub(crate) fn congested(&mut self) {
        match self {
            Control::Reno(control) => control.congested(),
            Control::Cubic(control) => control.congested(),
            Control::Dctcp(control) => control.congested(),
            Control::Bbr(control) => control.congested(),
        }
    }

    /// Segments are marked: once as well.
    pub(crate) fn marked(&mut self) {
        match self {
            Control::Dctcp(control) => control.marked(),
            _ => self.congested(),
        }
    }

    /// Nothing has arrived for long; it is the first time since something did, or not.
    pub(crate) fn timed_out(&mut self, first: bool) {
        match self {
            Control::Reno(control) => control.timed_out(first),
            Control::Cubic(control) => control.timed_out(first),
            Control::Dctcp(control) => control.timed_out(first),
            Control::Bbr(control) => control.timed_out(),
        }
    }

    /// So many may be under way.
    pub(crate) fn window(&self) -> f64 {
        match self {
            Control::Reno(control) => control.window(),
            Control::Cubic(control) => control.window(),
            Control::Dctcp(control) => control.window(),
            Control::Bbr(control) => control.window(),
        }
    }

    /// So many a second, evenly; `None`: as acknowledgements come.
    pub(crate) fn pace(&self) -> Option<f64> {
        match self {
            Control::Bbr(control) => control.pace(),
            _ => None,
        }
    }
}
