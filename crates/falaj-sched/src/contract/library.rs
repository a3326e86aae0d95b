//! Disciplines that come from a library: the library's declarations, and the calls to its
//! instances.
//!
//! Loading is not covered here: it is the task of the implementation of [`Library`], which makes an
//! [`Instance`] for each pipe.

use crate::contract::params::{ConfigError, Setup};
use crate::contract::transmission::Sent;
use crate::queues::queue::FlowId;
use crate::units::rate::Rate;
use crate::units::time::{Span, Time};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::any::Any;
use core::fmt;

/// The view that an instance has of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct QueueView {
    /// The tag that [`Instance::arrived`] returned for the packet at the head.
    pub tag: u64,
    /// Queued bytes, the packet in service included.
    pub bytes: u64,
    /// Length of the packet at the head; 0 if there is none.
    pub head: u32,
    /// Queued packets, the one in service included.
    pub packets: u32,
}

/// An unchecked answer of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LibraryDecision {
    /// Send the head of this flow.
    Serve(u32),
    /// Drop the head of this flow.
    Drop(u32),
    /// Send nothing before this instant.
    Wait(Time),
    /// Send nothing until a packet arrives.
    Idle,
    /// It cannot continue; [`Instance::why`] has the reason.
    Failed,
    /// A number that is not a valid answer.
    Unknown(u32),
}

/// A guarantee that a library declares for a flow, without a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// See [`Guarantee::rate`](crate::contract::guarantee::Guarantee::rate).
    pub rate: Rate,
    /// See [`Guarantee::latency`](crate::contract::guarantee::Guarantee::latency).
    pub latency: Span,
    /// See [`Guarantee::delay`](crate::contract::guarantee::Guarantee::delay).
    pub delay: Span,
}

/// A discipline of a library, running for one pipe. The moments of its calls are those of
/// [`Discipline`](crate::contract::discipline::Discipline).
pub trait Instance: Send + Any {
    /// See [`Discipline::arrived`](crate::contract::discipline::Discipline::arrived); the tag is
    /// shown while the packet is the head.
    fn arrived(&mut self, queues: &[QueueView], f: FlowId, bytes: u32, now: Time) -> u64;
    /// See [`Discipline::ready`](crate::contract::discipline::Discipline::ready).
    fn ready(&mut self, queues: &[QueueView], f: FlowId, now: Time);
    /// See [`Discipline::head_changed`](crate::contract::discipline::Discipline::head_changed).
    fn changed(&mut self, queues: &[QueueView], f: FlowId, now: Time);
    /// See [`Discipline::next`](crate::contract::discipline::Discipline::next).
    fn next(&mut self, queues: &[QueueView], now: Time) -> LibraryDecision;
    /// The reason why it has just [failed](LibraryDecision::Failed).
    fn why(&self) -> String;
    /// See [`Discipline::on_transmit`](crate::contract::discipline::Discipline::on_transmit).
    fn on_transmit(&mut self, queues: &[QueueView], f: FlowId, sent: Sent);
    /// See [`Discipline::migrate_from`](crate::contract::discipline::Discipline::migrate_from);
    /// `old` is of the same library.
    fn migrate_from(&mut self, old: Box<dyn Instance>, queues: &[QueueView], now: Time);
    /// See [`Discipline::is_reusable`](crate::contract::discipline::Discipline::is_reusable).
    fn is_reusable(&self, f: FlowId, now: Time) -> bool;
    /// The guarantee that it declares for a flow.
    fn guarantee(&self, f: FlowId) -> Option<Declared>;
}

/// Properties of a library's discipline, available before there is an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// True if it declares that it never waits while there is a packet.
    pub work_conserving: bool,
    /// True if it sees packets at their arrival.
    pub sees_arrivals: bool,
    /// True if it can take over from another instance of its own library.
    pub succeeds: bool,
}

/// A loaded library with one discipline.
pub trait Library: Send + Sync + fmt::Debug {
    /// Its name in the scenario.
    fn name(&self) -> &str;
    /// Identifies the code: libraries with the same number share it.
    fn code(&self) -> usize;
    /// The properties that it declares.
    fn traits(&self) -> Traits;
    /// Makes an instance for this setup.
    ///
    /// # Errors
    /// The library refuses a value, of a flow or of its own.
    fn make(&self, setup: &Setup) -> Result<Box<dyn Instance>, ConfigError>;
}

/// A library, shared by all instances built from it.
#[derive(Clone, Debug)]
pub struct Loaded(pub(crate) Arc<dyn Library>);

impl Loaded {
    /// Wraps a library; called by its loader.
    pub fn new(library: impl Library + 'static) -> Loaded {
        Loaded(Arc::new(library))
    }

    /// Its name in the scenario.
    pub fn name(&self) -> &str {
        self.0.name()
    }
}

impl PartialEq for Loaded {
    fn eq(&self, other: &Loaded) -> bool {
        (self.0.name(), self.0.code()) == (other.0.name(), other.0.code())
    }
}
impl Eq for Loaded {}
