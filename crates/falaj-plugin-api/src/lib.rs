//! The interface for writing a falaj discipline in a shared library, in Rust.
//!
//! Implement [`Discipline`], export it with [`export!`](crate::export), and build a `cdylib`. The C
//! interface is in [`abi`]. A panic ends the instance but not the program: falaj reports the panic,
//! and then serves the flows round robin.
//!
//! ```
//! use falaj_plugin_api::{Answer, Discipline, Queue, Refused, Setup};
//!
//! /// Serves the longest queue.
//! struct Longest;
//!
//! impl Discipline for Longest {
//!     const NAME: &'static std::ffi::CStr = c"the longest queue first";
//!     const WORK_CONSERVING: bool = true;
//!     fn new(_: &Setup<'_>) -> Result<Longest, Refused> {
//!         Ok(Longest)
//!     }
//!     fn ready(&mut self, _: &[Queue], _: u32, _: u64) {}
//!     fn next(&mut self, queues: &[Queue], _: u64) -> Answer {
//!         let longest = queues.iter().enumerate().max_by_key(|(_, queue)| queue.bytes);
//!         longest
//!             .filter(|(_, queue)| queue.head > 0)
//!             .map_or(Answer::Idle, |(flow, _)| Answer::Serve(flow as u32))
//!     }
//! }
//!
//! falaj_plugin_api::export!(Longest);
//! # assert_eq!(falaj_discipline.abi, falaj_plugin_api::abi::ABI);
//! ```
#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]
#![warn(clippy::unwrap_used)]

#[allow(unsafe_code)]
pub mod abi;
#[doc(hidden)]
#[allow(unsafe_code)]
pub mod glue;

pub use abi::{Guarantee, Queue, Sent};

/// The decision for a free link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Send the head of this flow; [`Discipline::take`] follows.
    Serve(u32),
    /// Drop the head of this flow; [`Discipline::changed`] follows.
    Drop(u32),
    /// Send nothing before this instant, which is later than now.
    Wait(u64),
    /// Send nothing until a packet arrives.
    Idle,
}

/// The value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A value of none of the kinds below, as text.
    Text(&'a str),
    /// A whole number, written without a unit.
    Number(u64),
    /// A rate in bits per second.
    Rate(u64),
    /// A time in nanoseconds.
    Span(u64),
    /// A number of bytes.
    Bytes(u64),
    /// A number of packets.
    Packets(u64),
}

/// Parameters by name.
#[derive(Clone, Debug, Default)]
pub struct Params<'a>(pub Vec<(&'a str, Value<'a>)>);

impl<'a> Params<'a> {
    /// The parameter `name`, if it is set.
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }
}

/// A flow of the setup.
#[derive(Clone, Debug)]
pub struct Flow<'a> {
    /// The parameters of the flow.
    pub params: Params<'a>,
    /// Limit of its queue in packets, if there is one.
    pub max_packets: Option<u32>,
    /// Limit of its queue in bytes, if there is one.
    pub max_bytes: Option<u64>,
}

/// The setup from which a discipline is created.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// Rate of the link in bits per second; with `u64::MAX` transmissions take no time.
    pub rate: u64,
    /// Maximum packet size in bytes, as the link accounts it.
    pub largest: u32,
    /// The parameters of the scheduler.
    pub params: Params<'a>,
    /// The flows, in the order of the scenario.
    pub flows: Vec<Flow<'a>>,
}

/// The reason why a setup is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The flow concerned, if there is one.
    pub flow: Option<u32>,
    /// The error.
    pub what: String,
    /// The remedy.
    pub help: String,
}

/// Decides which queued packet is sent next. Times are nanoseconds since the link began.
pub trait Discipline: Send + Sized + 'static {
    /// A description in one line.
    const NAME: &'static core::ffi::CStr;
    /// True if the discipline never waits while a packet is queued.
    const WORK_CONSERVING: bool;
    /// True if [`arrived`](Discipline::arrived) is to be called.
    const SEES_ARRIVALS: bool = false;
    /// True if [`migrate_from`](Discipline::migrate_from) is to be called, instead of letting
    /// queued packets arrive again.
    const CAN_MIGRATE: bool = false;

    /// An instance for this setup, with empty queues.
    ///
    /// # Errors
    /// A parameter is refused.
    fn new(setup: &Setup<'_>) -> Result<Self, Refused>;
    /// Reports that flow `flow` had an empty queue and now has a head-of-line packet.
    fn ready(&mut self, queues: &[Queue], flow: u32, now: u64);
    /// The decision at this instant; it must not charge the flow yet.
    fn next(&mut self, queues: &[Queue], now: u64) -> Answer;
    /// Reports that the head of `flow` is being transmitted. The packet stays in its queue until
    /// the end of its transmission.
    fn take(&mut self, queues: &[Queue], flow: u32, sent: &Sent) {
        let _ = (queues, flow, sent);
    }
    /// Reports that a packet joins the queue of `flow`; returns the tag of the packet.
    fn arrived(&mut self, queues: &[Queue], flow: u32, bytes: u32, now: u64) -> u64 {
        let _ = (queues, flow, bytes, now);
        0
    }
    /// Reports that the head of `flow` has changed, or its queue has become empty, for another
    /// reason than [`take`](Discipline::take).
    fn changed(&mut self, queues: &[Queue], flow: u32, now: u64) {
        let _ = (queues, flow, now);
    }
    /// Takes over from an instance that was created from another setup.
    fn migrate_from(&mut self, old: &mut Self, queues: &[Queue], now: u64) {
        let _ = (old, queues, now);
    }
    /// Returns true if another flow may start in the place of this flow, whose queue is empty.
    fn is_reusable(&self, flow: u32, now: u64) -> bool {
        let _ = (flow, now);
        true
    }
    /// The guarantee of the flow, if there is one.
    fn guarantee(&self, flow: u32) -> Option<Guarantee> {
        let _ = flow;
        None
    }
}

/// Exports a [`Discipline`] as the discipline of this library.
#[macro_export]
macro_rules! export {
    ($discipline:ty) => {
        /// The symbol that falaj looks for in a library.
        // SAFETY: no other symbol of a library has this name; it would be another discipline.
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static falaj_discipline: $crate::abi::Discipline =
            $crate::glue::discipline::<$discipline>();
    };
}
