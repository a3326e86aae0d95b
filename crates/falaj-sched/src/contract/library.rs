//! Disciplines that come from a library: what it declares, and the calls that its instances answer.
//!
//! Nothing is known here of how libraries are loaded: that is the affair of the implementation of
//! [`Library`], which makes an [`Instance`] for each pipe.

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

/// What an instance sees of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Seen {
    /// What [`Instance::arrived`] said of the packet at the head.
    pub tag: u64,
    /// Bytes that are queued, the packet in service included.
    pub bytes: u64,
    /// Length of the packet at the head; 0 where there is none.
    pub head: u32,
    /// Packets that are queued, the one in service included.
    pub packets: u32,
}

/// What a library said, before anybody has looked at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The head of this flow goes.
    Serve(u32),
    /// The head of this flow is thrown away.
    Drop(u32),
    /// Nothing before this instant.
    Wait(Time),
    /// Nothing until a packet comes.
    Idle,
    /// It cannot go on; [`Instance::why`] knows more.
    Failed,
    /// A number that is no answer.
    Unknown(u32),
}

/// What a library declares of a flow, without a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// See [`Promise::rate`](crate::contract::guarantee::Promise::rate).
    pub rate: Rate,
    /// See [`Promise::latency`](crate::contract::guarantee::Promise::latency).
    pub latency: Span,
    /// See [`Promise::delay`](crate::contract::guarantee::Promise::delay).
    pub delay: Span,
}

/// A discipline of a library, at work for one pipe. The moments are those of
/// [`Discipline`](crate::contract::discipline::Discipline).
pub trait Instance: Send + Any {
    /// See [`Discipline::arrived`](crate::contract::discipline::Discipline::arrived); the tag is
    /// shown while the packet is the head.
    fn arrived(&mut self, queues: &[Seen], f: FlowId, bytes: u32, now: Time) -> u64;
    /// See [`Discipline::ready`](crate::contract::discipline::Discipline::ready).
    fn ready(&mut self, queues: &[Seen], f: FlowId, now: Time);
    /// See [`Discipline::head_changed`](crate::contract::discipline::Discipline::head_changed).
    fn changed(&mut self, queues: &[Seen], f: FlowId, now: Time);
    /// See [`Discipline::next`](crate::contract::discipline::Discipline::next).
    fn next(&mut self, queues: &[Seen], now: Time) -> Said;
    /// Why it has just [failed](Said::Failed).
    fn why(&self) -> String;
    /// See [`Discipline::on_transmit`](crate::contract::discipline::Discipline::on_transmit).
    fn on_transmit(&mut self, queues: &[Seen], f: FlowId, sent: Sent);
    /// See [`Discipline::migrate_from`](crate::contract::discipline::Discipline::migrate_from);
    /// `old` is of the same library.
    fn migrate_from(&mut self, old: Box<dyn Instance>, queues: &[Seen], now: Time);
    /// See [`Discipline::is_reusable`](crate::contract::discipline::Discipline::is_reusable).
    fn is_reusable(&self, f: FlowId, now: Time) -> bool;
    /// What it declares of a flow.
    fn promise(&self, f: FlowId) -> Option<Declared>;
}

/// What is known of a library's discipline before there is an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// It says that it never waits while there is a packet.
    pub work_conserving: bool,
    /// It looks at packets when they arrive.
    pub sees_arrivals: bool,
    /// It can take over from another instance of its own.
    pub succeeds: bool,
}

/// A library that was loaded, and holds one discipline.
pub trait Library: Send + Sync + fmt::Debug {
    /// As the scenario names it.
    fn name(&self) -> &str;
    /// Two with the same number are the same code.
    fn code(&self) -> usize;
    /// What it says of itself.
    fn traits(&self) -> Traits;
    /// An instance for this setup.
    ///
    /// # Errors
    /// It refuses a value, of a flow or of its own.
    fn make(&self, setup: &Setup) -> Result<Box<dyn Instance>, ConfigError>;
}

/// A library, shared by all that are built from it.
#[derive(Clone, Debug)]
pub struct Loaded(pub(crate) Arc<dyn Library>);

impl Loaded {
    /// From whoever has loaded it.
    pub fn new(library: impl Library + 'static) -> Loaded {
        Loaded(Arc::new(library))
    }

    /// As the scenario names it.
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
