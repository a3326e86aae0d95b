//! Virtual links served phase by phase (Fortuna and Chydzinski, section II).
//!
//! The server serves the links in a ring. In a link's phase it sends the packets that fit in the
//! rest of the phase. An empty type A link keeps its phase; an empty type B link ends it.
//!
//! A phase that lasts its whole length ends at its nominal instant, even if no decision is made
//! then. No event is scheduled for the end of a phase if no transmission can begin then. This is so
//! while no link has a packet, and in the phases of empty links before the next link with a packet.
//! The phases that have passed are counted at the next decision.

use crate::contract::discipline::{Decision, Discipline};
use crate::contract::guarantee::{Guarantee, Guarantees, RingPhase, Settling, StaircaseCurve};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{ConfigErrors, Setup};
use crate::contract::transmission::Sent;
use crate::disciplines::virtual_links::{Serve, Tail, Type, VirtualLinks};
use crate::queues::queue::{FlowId, Flows};
use crate::units::rate::Wire;
use crate::units::time::{Span, Time};

/// Virtual links served phase by phase.
#[derive(Debug, Clone)]
pub struct PhaseWise {
    config: VirtualLinks,
    /// The link whose phase it is.
    current: usize,
    /// End of its phase.
    end: Time,
    /// True if no link had a packet at the last decision.
    idle: bool,
    /// Set if no link could send at the last decision: the start of the next phase whose link has a
    /// packet, and that link. Valid if nothing arrives.
    waiting: Option<(Time, usize)>,
    /// Sum of the phases of type A: the cycle of an idle server.
    idle_cycle: Span,
    /// The transmissions so far, with the fraction of a nanosecond of the last one. If flows are
    /// divided, the wire that `next` receives is not the link's, and has sent nothing.
    wire: Wire,
}

impl PhaseWise {
    /// Validates the setup. The first link's phase begins at time zero.
    pub fn new(setup: &Setup) -> Result<PhaseWise, ConfigErrors> {
        let config = VirtualLinks::new(setup)?;
        config.only_phases(setup)?;
        let idle_cycle = config.links.iter().filter(|l| l.kind == Type::A).map(|l| l.phase).sum();
        let last = config.links.len() - 1;
        let wire = Wire::new(config.rate);
        Ok(PhaseWise {
            config,
            wire,
            current: last,
            end: Time::ZERO,
            idle: true,
            waiting: None,
            idle_cycle,
        })
    }

    fn after(&self, link: usize) -> usize {
        if link + 1 == self.config.links.len() { 0 } else { link + 1 }
    }

    /// Ends the current phase; the next link's phase begins at `now`.
    fn next_phase(&mut self, now: Time) {
        self.current = self.after(self.current);
        self.end = now + self.config.links[self.current].phase;
    }

    fn current_is(&self, kind: Type) -> bool {
        self.config.links[self.current].kind == kind
    }

    /// Begins the idle state after the last packet: an empty link of type B ends its phase.
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

    /// Skips the phases that ended until now while no link had a packet.
    fn catch_up(&mut self, now: Time) {
        if self.idle_cycle == Span::ZERO {
            // All links are of type B, whose phases take no time while they are empty: the current
            // phase begins now.
            self.end = now + self.config.links[self.current].phase;
            return;
        }
        if self.end <= now {
            let passed = now - self.end;
            self.end += passed - passed % self.idle_cycle;
        }
        self.let_empty_phases_pass(now);
    }

    /// Counts the phases that have ended until now. The links of these phases had no packets.
    fn let_empty_phases_pass(&mut self, now: Time) {
        while self.end <= now {
            let ended = self.end;
            self.next_phase(ended);
            while self.current_is(Type::B) {
                self.next_phase(ended);
            }
        }
    }

    /// Waits for the rest of the current phase and all following phases of links without a packet.
    /// Unless a packet arrives, nothing is sent until then.
    fn wait(&mut self, flows: &Flows<()>) -> Decision {
        let (mut then, mut link) = (self.end, self.after(self.current));
        // Some link has a packet, and a whole phase is long enough for any packet.
        while flows.head(FlowId(link as u32)).is_none() {
            if self.config.links[link].kind == Type::A {
                then += self.config.links[link].phase;
            }
            link = self.after(link);
        }
        self.waiting = Some((then, link));
        Decision::NotBefore(then)
    }

    /// Completes a wait, or the part of it that has passed.
    fn end_wait(&mut self, now: Time) {
        match self.waiting.take() {
            Some((then, link)) if then <= now => {
                self.current = link;
                self.end = then + self.config.links[link].phase;
            }
            Some(_) => self.let_empty_phases_pass(now),
            None => {}
        }
    }
}

impl Discipline for PhaseWise {
    type State = ();
    type Tag = ();

    fn start(&mut self, _: &mut Flows<()>) {}

    /// The current phase continues, but not beyond its new length.
    fn migrate_from(&mut self, mut old: PhaseWise, _: &mut Flows<()>, now: Time) {
        old.end_wait(now);
        (self.current, self.idle) = (old.current, old.idle);
        self.end = old.end.min(now + self.config.links[self.current].phase);
        if self.config.rate == old.config.rate {
            self.wire = old.wire;
        }
    }

    fn ready(&mut self, _: &mut Flows<()>, _: FlowId, _: Time) {}

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<()>, now: Time, _: &Wire) -> Decision {
        if self.idle {
            self.catch_up(now);
        }
        self.end_wait(now);
        if flows.backlogged() == 0 {
            if !self.idle {
                self.rest(now);
            }
            return Decision::Idle;
        }
        self.idle = false;
        loop {
            let current = FlowId(self.current as u32);
            match flows.head(current) {
                Some(bytes) if self.wire.end_of(bytes, now) <= self.end => {
                    return Decision::Serve(current);
                }
                Some(_) if self.config.tail == Tail::Wait && now < self.end => {
                    return self.wait(flows);
                }
                None if self.current_is(Type::A) && now < self.end => return self.wait(flows),
                _ => self.next_phase(now),
            }
        }
    }

    #[inline(always)]
    fn on_transmit(&mut self, _: &mut Flows<()>, _: FlowId, sent: Sent) {
        self.wire.send(sent.bytes, sent.start);
    }
}

impl QueueHooks for PhaseWise {}
impl MediumHooks for PhaseWise {}

impl Guarantees for PhaseWise {
    fn service(&self, f: FlowId) -> Result<Guarantee, NoGuarantee> {
        self.config.service(f, Serve::PhaseWise)
    }

    fn turns(&self, f: FlowId) -> Option<StaircaseCurve> {
        Some(self.config.turns(f, Serve::PhaseWise))
    }

    fn phase(&self, f: FlowId) -> Option<RingPhase> {
        let link = &self.config.links[f.index()];
        Some(RingPhase {
            length: link.phase,
            stays_empty: link.kind == Type::A,
            skips_tail: self.config.tail == Tail::Skip,
        })
    }

    fn settling(&self) -> Settling {
        Settling::OwnPackets(0)
    }

    fn serves_strictly(&self) -> bool {
        true
    }

    fn only_on_a_link(&self) -> Option<&'static str> {
        Some("its phases are times on the link itself")
    }
}
