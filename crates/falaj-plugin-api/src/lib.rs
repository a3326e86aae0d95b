//! What a discipline for falaj in a shared library is written with, in Rust.
//!
//! Implement [`Discipline`], export it with [`export!`](crate::export), and build a `cdylib`. All
//! that C knows of is in [`abi`]. A panic ends the instance and not the program: falaj says so, and
//! lets flows take turns.
//!
//! ```
//! use falaj_plugin_api::{Answer, Discipline, Queue, Refused, Setup};
//!
//! /// Always the longest queue.
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

pub use abi::{Promise, Queue, Sent};

/// What may happen on a free link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The head of this flow goes; [`Discipline::take`] follows.
    Serve(u32),
    /// The head of this flow is thrown away; [`Discipline::changed`] follows.
    Drop(u32),
    /// Nothing before this instant, which is later than now.
    Wait(u64),
    /// Nothing until a packet comes.
    Idle,
}

/// What a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// None of the others.
    Text(&'a str),
    /// A whole number, written without a unit.
    Number(u64),
    /// Bits a second.
    Rate(u64),
    /// Nanoseconds.
    Span(u64),
    /// Bytes.
    Bytes(u64),
    /// Packets.
    Packets(u64),
}

/// Parameters by name.
#[derive(Clone, Debug, Default)]
pub struct Params<'a>(pub Vec<(&'a str, Value<'a>)>);

impl<'a> Params<'a> {
    /// The parameter `name`, if it was set.
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }
}

/// What is known of a flow.
#[derive(Clone, Debug)]
pub struct Flow<'a> {
    /// What was set for it.
    pub params: Params<'a>,
    /// How many packets its queue holds, where these are bounded.
    pub max_packets: Option<u32>,
    /// How many bytes its queue holds, where these are bounded.
    pub max_bytes: Option<u64>,
}

/// What a discipline is made from.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// Bits a second; `u64::MAX` takes no time.
    pub rate: u64,
    /// Bytes of the largest packet, as the link accounts it.
    pub largest: u32,
    /// What was set for the scheduler.
    pub params: Params<'a>,
    /// The flows, in the order of the scenario.
    pub flows: Vec<Flow<'a>>,
}

/// Why there is no instance for a setup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The flow in question, if it is one.
    pub flow: Option<u32>,
    /// What is wrong.
    pub what: String,
    /// What would do.
    pub help: String,
}

/// Decides which queued packet goes on the link next. Times are nanoseconds since the link began.
pub trait Discipline: Send + Sized + 'static {
    /// What it is, in one line.
    const NAME: &'static core::ffi::CStr;
    /// It never waits while there is a packet.
    const WORK_CONSERVING: bool;
    /// [`arrived`](Discipline::arrived) is of interest.
    const SEES_ARRIVALS: bool = false;
    /// [`succeed`](Discipline::succeed) is to be called, instead of letting packets arrive anew.
    const SUCCEEDS: bool = false;

    /// An instance for this setup, with empty queues.
    ///
    /// # Errors
    /// A parameter is refused.
    fn new(setup: &Setup<'_>) -> Result<Self, Refused>;
    /// Flow `flow` had nothing to send and now has a head.
    fn ready(&mut self, queues: &[Queue], flow: u32, now: u64);
    /// What may happen now. Charges nothing.
    fn next(&mut self, queues: &[Queue], now: u64) -> Answer;
    /// The head of `flow` goes on the wire, and stays in its queue until its end.
    fn take(&mut self, queues: &[Queue], flow: u32, sent: &Sent) {
        let _ = (queues, flow, sent);
    }
    /// A packet joins the queue of `flow`: the tag that it carries.
    fn arrived(&mut self, queues: &[Queue], flow: u32, bytes: u32, now: u64) -> u64 {
        let _ = (queues, flow, bytes, now);
        0
    }
    /// The head of `flow` is another one, or there is none, and not because of
    /// [`take`](Discipline::take).
    fn changed(&mut self, queues: &[Queue], flow: u32, now: u64) {
        let _ = (queues, flow, now);
    }
    /// Takes over from an instance that was made from another setup.
    fn succeed(&mut self, old: &mut Self, queues: &[Queue], now: u64) {
        let _ = (old, queues, now);
    }
    /// May another flow start in the place of this one, which is empty?
    fn forgettable(&self, flow: u32, now: u64) -> bool {
        let _ = (flow, now);
        true
    }
    /// What the flow is promised.
    fn promise(&self, flow: u32) -> Option<Promise> {
        let _ = flow;
        None
    }
}

/// Exports a [`Discipline`] as the one of this library.
#[macro_export]
macro_rules! export {
    ($discipline:ty) => {
        /// What falaj looks for in a library.
        // SAFETY: no other symbol of a library has this name; it would be another discipline.
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static falaj_discipline: $crate::abi::Discipline =
            $crate::glue::discipline::<$discipline>();
    };
}
