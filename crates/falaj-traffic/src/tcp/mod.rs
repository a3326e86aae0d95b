//! TCP as a closed loop: its transmissions depend on what arrives.
//!
//! A [`Connection`] is a state machine without clock and without packets. It names the time of its
//! next poll, returns segments, and is notified of their arrivals. Queues, loss, marks and delay
//! are simulated by the network.
//!
//! | module | content |
//! |---|---|
//! | [`connection`] | both ends, and the return path of acknowledgements |
//! | [`sender`] | segments in flight, loss detection, timers |
//! | [`receiver`] | arrived segments and their acknowledgement |
//! | [`round_trip`] | the round trip time and the retransmission timeout (RFC 6298) |
//! | [`reno`], [`cubic`], [`dctcp`], [`bbr`] | congestion control |
//!
//! Features of TCP that are not simulated are listed in the user documentation:
//! `docs/explanation/tcp.md`.

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

/// Length of the IPv4 and TCP headers in bytes, without options.
pub const HEADERS: u32 = 40;

/// Parameters of a connection: a sender and its receiver.
#[derive(Clone, Debug, PartialEq)]
pub struct Tcp {
    /// The congestion control.
    pub congestion: Congestion,
    /// Delay of the return path.
    pub back: Span,
    /// Base round trip time, without queues; random offsets are fractions of this time.
    pub base: Span,
    /// Bytes of payload of a transfer; `None` if it is unlimited.
    pub bytes: Option<u64>,
    /// Mean pause between two transfers, which is exponentially distributed; `None` if there is
    /// only one transfer.
    pub pause: Option<Span>,
    /// Initial congestion window in segments.
    pub initial_window: u32,
    /// Maximum window in bytes of payload.
    pub window: u64,
    /// Delayed acknowledgements: every second segment is acknowledged, or a single one after a
    /// timeout. If false, each segment is acknowledged.
    pub delayed: bool,
}

/// Algorithms of congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// Growth by one segment each round trip, reduction by half at a loss (RFC 5681).
    Reno,
    /// A cubic function of the time since the last loss (RFC 9438).
    Cubic,
    /// Reno's growth; reduction by half of the marked fraction (RFC 8257).
    Dctcp,
    /// A model of the path: its rate and its minimum round trip time (Cardwell and others 2016).
    Bbr,
}

impl Congestion {
    /// Returns the algorithm's name in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Congestion::Reno => "reno",
            Congestion::Cubic => "cubic",
            Congestion::Dctcp => "dctcp",
            Congestion::Bbr => "bbr",
        }
    }
}

/// An acknowledgement, as congestion control sees it.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// Time of arrival of the acknowledgement.
    pub now: Time,
    /// Number of newly acknowledged segments.
    pub segments: u32,
    /// Number of marked segments among the newly acknowledged segments.
    pub marked: u32,
    /// The round trip time of the last newly acknowledged segment.
    pub round_trip: Span,
    /// Number of segments in flight now.
    pub in_flight: u32,
    /// Time until the next paced transmission, at the earliest.
    pub paced: Span,
    /// True if the window limited the sender.
    pub limited: bool,
    /// True during recovery, and if the acknowledged segment was sent before the window was last
    /// reduced.
    pub recovering: bool,
    /// Delivery rate while the segment was in flight, in segments per second.
    pub rate: Option<f64>,
    /// True for the first acknowledgement of a round trip: the segment was sent after the previous
    /// such acknowledgement had arrived.
    pub round: bool,
}

/// Congestion control; windows are in segments.
#[derive(Clone, Debug)]
pub(crate) enum Control {
    Reno(Reno),
    Cubic(Cubic),
    Dctcp(Dctcp),
    Bbr(Bbr),
}

impl Control {
    /// The initial state; `draw` is a random number.
    pub(crate) fn new(congestion: Congestion, initial: u32, draw: u64) -> Control {
        match congestion {
            Congestion::Reno => Control::Reno(Reno::new(initial)),
            Congestion::Cubic => Control::Cubic(Cubic::new(initial)),
            Congestion::Dctcp => Control::Dctcp(Dctcp::new(initial)),
            Congestion::Bbr => Control::Bbr(Bbr::new(initial, draw)),
        }
    }

    /// Handles newly acknowledged segments.
    pub(crate) fn acked(&mut self, acked: &Acked) {
        match self {
            Control::Reno(control) => control.acked(acked),
            Control::Cubic(control) => control.acked(acked),
            Control::Dctcp(control) => control.acked(acked),
            Control::Bbr(control) => control.acked(acked),
        }
    }

    /// Handles losses. It is not called for segments that were sent before the last reduction by a
    /// loss or a mark, so that the losses of a round trip reduce the window only once.
    pub(crate) fn congested(&mut self) {
        match self {
            Control::Reno(control) => control.congested(),
            Control::Cubic(control) => control.congested(),
            Control::Dctcp(control) => control.congested(),
            Control::Bbr(control) => control.congested(),
        }
    }

    /// Handles marks. It is called only once in a round trip, like `congested`.
    pub(crate) fn marked(&mut self) {
        match self {
            Control::Dctcp(control) => control.marked(),
            _ => self.congested(),
        }
    }

    /// Handles a retransmission timeout; `first` is true unless timeouts follow each other.
    pub(crate) fn timed_out(&mut self, first: bool) {
        match self {
            Control::Reno(control) => control.timed_out(first),
            Control::Cubic(control) => control.timed_out(first),
            Control::Dctcp(control) => control.timed_out(first),
            Control::Bbr(control) => control.timed_out(),
        }
    }

    /// The congestion window.
    pub(crate) fn window(&self) -> f64 {
        match self {
            Control::Reno(control) => control.window(),
            Control::Cubic(control) => control.window(),
            Control::Dctcp(control) => control.window(),
            Control::Bbr(control) => control.window(),
        }
    }

    /// The pacing rate in segments per second; `None` if acknowledgements trigger transmissions.
    pub(crate) fn pace(&self) -> Option<f64> {
        match self {
            Control::Bbr(control) => control.pace(),
            _ => None,
        }
    }
}
