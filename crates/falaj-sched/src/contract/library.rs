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

/// The data of a queue that an instance sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct QueueView {
    /// The tag that [`Instance::arrived`] returned for the packet at the head.
    pub tag: u64,
    /// Queued bytes, the packet in service included.
    pub bytes: u64,
    /// Length of the packet at the head, in bytes; 0 if the queue is empty.
    pub head: u32,
    /// Queued packets, the packet in service included.
    pub packets: u32,
}

/// A decision of a library, not yet checked.
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
    /// The library cannot continue; [`Instance::why`] has the reason.
    Failed,
    /// A number that is not a valid decision.
    Unknown(u32),
}

/// A guarantee that a library declares for a flow. falaj does not prove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// See [`Guarantee::rate`](crate::contract::guarantee::Guarantee::rate).
    pub rate: Rate,
    /// See [`Guarantee::latency`](crate::contract::guarantee::Guarantee::latency).
    pub latency: Span,
    /// See [`Guarantee::delay`](crate::contract::guarantee::Guarantee::delay).
    pub delay: Span,
}

/// A discipline of a library, running for one pipe. Its functions are called at the same moments as
/// those of [`Discipline`](crate::contract::discipline::Discipline).
pub trait Instance: Send + Any {
    /// See [`Discipline::arrived`](crate::contract::discipline::Discipline::arrived); the returned
    /// tag is `QueueView::tag` while the packet is the head.
    fn arrived(&mut self, queues: &[QueueView], f: FlowId, bytes: u32, now: Time) -> u64;
    /// See [`Discipline::ready`](crate::contract::discipline::Discipline::ready).
    fn ready(&mut self, queues: &[QueueView], f: FlowId, now: Time);
    /// See [`Discipline::head_changed`](crate::contract::discipline::Discipline::head_changed).
    fn changed(&mut self, queues: &[QueueView], f: FlowId, now: Time);
    /// See [`Discipline::next`](crate::contract::discipline::Discipline::next).
    fn next(&mut self, queues: &[QueueView], now: Time) -> LibraryDecision;
    /// The reason why the instance has just [failed](LibraryDecision::Failed).
    fn why(&self) -> String;
    /// See [`Discipline::on_transmit`](crate::contract::discipline::Discipline::on_transmit).
    fn on_transmit(&mut self, queues: &[QueueView], f: FlowId, sent: Sent);
    /// See [`Discipline::migrate_from`](crate::contract::discipline::Discipline::migrate_from);
    /// `old` is of the same library.
    fn migrate_from(&mut self, old: Box<dyn Instance>, queues: &[QueueView], now: Time);
    /// See [`Discipline::is_reusable`](crate::contract::discipline::Discipline::is_reusable).
    fn is_reusable(&self, f: FlowId, now: Time) -> bool;
    /// The guarantee that the instance declares for a flow, if any.
    fn guarantee(&self, f: FlowId) -> Option<Declared>;
}

/// Properties of a library's discipline, available before there is an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// True if the library declares that it never waits while there is a packet.
    pub work_conserving: bool,
    /// True if the discipline sees packets at their arrival.
    pub sees_arrivals: bool,
    /// True if an instance can take over the state of another instance of the same library.
    pub can_migrate: bool,
}

/// A loaded library with one discipline.
pub trait Library: Send + Sync + fmt::Debug {
    /// The library's name in the scenario.
    fn name(&self) -> &str;
    /// Identifies the code: libraries with the same number share it.
    fn code(&self) -> usize;
    /// The properties that the library declares.
    fn traits(&self) -> Traits;
    /// Makes an instance for this setup.
    ///
    /// # Errors
    /// The library refuses a value of a flow or of the scheduler.
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

    /// The library's name in the scenario.
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
