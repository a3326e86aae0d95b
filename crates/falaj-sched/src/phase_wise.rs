//! Virtual links served phase by phase (Fortuna and Chydzinski, section II).
//!
//! The server attends the links in a ring. In a link's phase it sends what
//! fits in the rest of it; a type A link keeps its phase when it is empty, a
//! type B link ends it. All phase ends lie at nominal instants; while nobody
//! has a packet no instant is waited for, and the phases that went by are
//! counted when one arrives.

use crate::discipline::{Answer, Discipline, Sent};
use crate::params::{Refusals, Setup};
use crate::promise::{NoPromise, Promise};
use crate::queue::{FlowId, Flows};
use crate::rate::Wire;
use crate::time::{Span, Time};
use crate::virtual_links::{Serve, Tail, Type, VirtualLinks};

/// Virtual links served phase by phase.
#[derive(Debug, Clone)]
pub struct PhaseWise {
    config: VirtualLinks,
    /// The link being attended.
    current: usize,
    /// When its phase ends.
    end: Time,
    /// Nobody had a packet when we were asked last.
    idle: bool,
    /// Sum of the phases of type A: the cycle of an idle server.
    idle_cycle: Span,
}

impl PhaseWise {
    /// Validates the setup. The first link's phase begins at time zero.
    pub fn new(setup: &Setup) -> Result<PhaseWise, Refusals> {
        let config = VirtualLinks::new(setup)?;
        config.only_phases(setup)?;
        let idle_cycle = config.links.iter().filter(|l| l.kind == Type::A).map(|l| l.phase).sum();
        let last = config.links.len() - 1;
        Ok(PhaseWise { config, current: last, end: Time::ZERO, idle: true, idle_cycle })
    }

    /// Ends the current phase; the next link's begins at `now`.
    fn next_phase(&mut self, now: Time) {
        self.current += 1;
        if self.current == self.config.links.len() {
            self.current = 0;
        }
        self.end = now + self.config.links[self.current].phase;
    }

    fn current_is(&self, kind: Type) -> bool {
        self.config.links[self.current].kind == kind
    }

    /// Nobody has a packet any more: an empty link of type B ends its phase.
    fn rest(&mut self, now: Time) {
        self.idle = true;
        if self.idle_cycle == Span::ZERO {
            self.next_phase(now);
            return;
        }
        while self.current_is(Type::B) || self.end <= now {
            self.next_phase(now);
        }
    }

    /// Lets the phases go by that ended until now while nobody had a packet.
    fn catch_up(&mut self, now: Time) {
        if self.idle_cycle == Span::ZERO {
            // Nothing but phases of no length: this one begins now.
            self.end = now + self.config.links[self.current].phase;
            return;
        }
        if self.end <= now {
            let passed = now - self.end;
            self.end += passed - passed % self.idle_cycle;
        }
        while self.end <= now {
            let ended = self.end;
            self.next_phase(ended);
            while self.current_is(Type::B) {
                self.next_phase(ended);
            }
        }
    }
}

impl Discipline for PhaseWise {
    type State = ();

    fn start(&mut self, _: &mut Flows<()>) {}

    fn ready(&mut self, _: &mut Flows<()>, _: FlowId, _: Time) {}

    #[inline]
    fn next(&mut self, flows: &mut Flows<()>, now: Time, wire: &Wire) -> Answer {
        if self.idle {
            self.catch_up(now);
        }
        if flows.backlogged() == 0 {
            if !self.idle {
                self.rest(now);
            }
            return Answer::Idle;
        }
        self.idle = false;
        loop {
            let current = FlowId(self.current as u32);
            match flows.head(current) {
                Some(bytes) if now + wire.airtime(bytes) <= self.end => return Answer::Serve(current),
                Some(_) if self.config.tail == Tail::Wait && now < self.end => return Answer::NotBefore(self.end),
                None if self.current_is(Type::A) && now < self.end => return Answer::NotBefore(self.end),
                _ => self.next_phase(now),
            }
        }
    }

    #[inline]
    fn take(&mut self, _: &mut Flows<()>, _: FlowId, _: Sent) {}

    fn service(&self, f: FlowId) -> Result<Promise, NoPromise> {
        self.config.service(f, Serve::PhaseWise)
    }
}
