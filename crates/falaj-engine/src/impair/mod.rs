//! Impairments of a link: loss, duplication, bit errors, varying delay, reordering.
//!
//! All of them act behind the queue: a lost packet has used its time on the link, and a copy takes
//! none. Queue, discipline and guarantees do not see the impairments. Only profiles and full slots
//! occupy the link for longer, so that packets wait in the queue, up to its limit. Every draw has
//! an address: the packet's flow, and its number among the packets that arrived for that flow.
//! Where the outcome depends on earlier packets, the address is the packet's number among those
//! that left the queue.
//!
//! Each impairment has a file: its configuration is an [`Impairment`], which makes the state that
//! acts on packets. A new impairment needs three more lines: its module, its row in `impairments!`
//! below, and a variant of `event::RngStream` for its random numbers.
//!
//! | module | contents |
//! |---|---|
//! | [`transit`] | a packet on the link, and the traits of an impairment |
//! | [`event`] | events that happen to packets with a probability, independently or in runs |
//! | [`loss`] | packets that are lost |
//! | [`duplicate`] | packets that arrive twice |
//! | [`corrupt`] | packets that arrive with a bit flipped |
//! | [`reorder`] | packets that overtake others |
//! | [`jitter`], [`distribution`] | delays that vary from packet to packet |
//! | `jitter_process` | varying delays that keep packets in order |
//! | [`profile`] | air time in addition to the packets' own |
//! | [`slots`] | delivery in slots |

pub mod corrupt;
pub mod distribution;
pub mod duplicate;
pub mod event;
pub mod jitter;
mod jitter_process;
pub mod loss;
pub mod profile;
pub mod reorder;
pub mod slots;
pub mod transit;

use crate::message::{Corrupt, DropReason, Dropped, Emit, Output};
use crate::pipe::ImpairmentProgress;
use crate::transmission::Transmission;
use event::Chances;
use falaj_sched::contract::no_guarantee::NoGuarantee;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use transit::{Impairment, ImpairmentState, LinkDelays, Transit};

/// Makes [`Impairments`] of a table: the field of each impairment, and its configuration.
macro_rules! impairments {
    ($($(#[$doc:meta])* $field:ident: $configuration:ty,)*) => {
        /// The impairments of a link; none by default.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Impairments {
            $($(#[$doc])* pub $field: Option<$configuration>,)*
        }

        impl Impairments {
            /// The impairments that are set, in the order of the table.
            pub fn all(&self) -> impl Iterator<Item = &dyn Impairment> {
                let all = [$(self.$field.as_ref().map(|one| one as &dyn Impairment)),*];
                all.into_iter().flatten()
            }
        }
    };
}

impairments! {
    /// Loss of packets.
    loss: loss::Loss,
    /// Duplication of packets.
    duplicate: duplicate::Duplication,
    /// Packets with a bit flipped.
    corrupt: corrupt::Corruption,
    /// Packets that overtake others.
    reorder: reorder::Reorder,
    /// Delays that vary.
    jitter: jitter::Jitter,
    /// Time of each packet beyond its own transmission.
    profile: profile::Profile,
    /// Delivery in slots.
    slots: slots::Slots,
}

impl Impairments {
    /// Returns true if the link has no impairments.
    pub fn is_none(&self) -> bool {
        *self == Impairments::default()
    }

    /// The shortest and the longest time of a packet on the link, from the link's delay and random
    /// draws; packets that wait for a packet before them or for a slot are later.
    pub fn delays(&self, delay: Span) -> (Span, Span) {
        self.link_delays(delay).range()
    }

    fn link_delays(&self, delay: Span) -> LinkDelays {
        let mut delays = LinkDelays::of(delay);
        self.all().for_each(|impairment| impairment.widen(&mut delays));
        delays
    }

    /// The reason why no discipline has a guarantee on such a link; `None` on most links.
    pub fn no_guarantee(&self) -> Option<NoGuarantee> {
        self.all().find_map(Impairment::no_guarantee)
    }
}

/// Counters of a flow's packets on the link.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct ImpairmentCounters {
    pub(crate) lost: u64,
    pub(crate) lost_bytes: u64,
    pub(crate) duplicated: u64,
    pub(crate) corrupted: u64,
    pub(crate) reordered: u64,
}

impl ImpairmentCounters {
    pub(crate) fn add(&mut self, more: &ImpairmentCounters) {
        self.lost += more.lost;
        self.lost_bytes += more.lost_bytes;
        self.duplicated += more.duplicated;
        self.corrupted += more.corrupted;
        self.reordered += more.reordered;
    }
}

/// The impairments of a pipe, with their state.
pub(crate) struct Impairer {
    delay: Span,
    chances: Chances,
    states: Vec<Box<dyn ImpairmentState>>,
    /// By flow, the numbers of the packets in its queue. The number of the packet on the wire is
    /// missing if the packet was sent through this impairer.
    numbers: Vec<VecDeque<u64>>,
    /// Number of packets that left.
    left: u64,
    /// The latest due time of the packets that left.
    last: Time,
    /// The last packet that left.
    sent: Option<Departure>,
}

/// A packet that left, and the state on which its delivery depends.
struct Departure {
    packet: Transit,
    /// The latest due time of the packets that left before it.
    last: Time,
}

impl Impairer {
    pub(crate) fn new(what: &Impairments, delay: Span, chances: Chances, flows: usize) -> Impairer {
        let link = what.link_delays(delay);
        Impairer {
            delay,
            chances,
            states: what.all().map(|impairment| impairment.state(&link)).collect(),
            numbers: vec![VecDeque::new(); flows],
            left: 0,
            last: Time::ZERO,
            sent: None,
        }
    }

    /// The position in its random numbers.
    pub(crate) fn progress(&self) -> ImpairmentProgress {
        let Impairer { numbers, left, last, .. } = self;
        ImpairmentProgress { numbers: numbers.clone(), left: *left, last: last.0 }
    }

    /// Resumes from this position.
    pub(crate) fn resume(&mut self, progress: ImpairmentProgress) {
        let ImpairmentProgress { numbers, left, last } = progress;
        (self.numbers, self.left, self.last) = (numbers, left, Time(last));
    }

    /// The transmission of the packet that left last.
    pub(crate) fn on_the_wire(&self) -> Option<Transmission> {
        let Departure { packet, .. } = self.sent.as_ref()?;
        let &Transit { end, free, due, .. } = packet;
        let deliveries = if packet.lost { 0 } else { 1 + u8::from(packet.twice) };
        Some(Transmission { end, free, due, deliveries, handed: false })
    }

    /// The packet that left last occupies the wire until `end` instead of `old_end`; `None` if that
    /// packet did not end at `old_end`.
    pub(crate) fn retime(&mut self, old_end: Time, end: Time) -> Option<Transmission> {
        let Departure { packet, last } = self.sent.as_mut()?;
        if packet.end != old_end {
            return None;
        }
        (packet.end, packet.free) = (end, end);
        if !packet.lost {
            self.states.iter_mut().for_each(|state| state.withdraw());
            self.last = *last;
            deliver(packet, &mut self.states, self.last);
            self.last = self.last.max(packet.due);
        }
        self.on_the_wire()
    }

    /// The packet `number` of its flow arrives at the queue.
    pub(crate) fn comes(&mut self, flow: FlowId, number: u64) {
        self.numbers[flow.index()].push_back(number);
    }

    /// The last packet that arrived for this flow found no room.
    pub(crate) fn turned_away(&mut self, flow: FlowId) {
        self.numbers[flow.index()].pop_back();
    }

    /// The first packet of a flow left its queue without being sent.
    pub(crate) fn head_dropped(&mut self, flow: FlowId) {
        self.numbers[flow.index()].pop_front();
    }

    /// Takes over the state of `old`, which has at most as many flows. If `numbers` is true, the
    /// queued packets are the same and keep their numbers.
    pub(crate) fn migrate_from(&mut self, old: Impairer, numbers: bool) {
        if numbers {
            for (own, old) in self.numbers.iter_mut().zip(old.numbers) {
                *own = old;
            }
        }
        (self.left, self.last, self.sent) = (old.left, old.last, old.sent);
    }

    /// Sends a packet over the link, and outputs whether and when it arrives. Its flow has
    /// `backlog` packets in the queue, this packet included. Returns the time until which it
    /// occupies the wire, and the time from which the next packet may go.
    pub(crate) fn pass(
        &mut self,
        emit: Emit,
        backlog: u64,
        counters: &mut ImpairmentCounters,
        out: &mut Vec<Output>,
    ) -> (Time, Time) {
        let numbers = &mut self.numbers[emit.flow.index()];
        while numbers.len() as u64 > backlog {
            numbers.pop_front();
        }
        let number = numbers.pop_front().unwrap_or(0);
        let mut packet = Transit::new(&emit, self.delay, self.chances, (number, self.left));
        self.left += 1;
        self.states.iter_mut().for_each(|state| state.on_wire(&mut packet));
        packet.free = packet.end;
        let Emit { pipe, flow, handle, bytes, arrival, .. } = emit;
        if packet.lost {
            counters.lost += 1;
            counters.lost_bytes += u64::from(bytes);
            let why = DropReason::Lost;
            out.push(Output::Drop(Dropped { pipe, flow, handle, bytes, arrival, why }));
            let times = (packet.end, packet.free);
            self.sent = Some(Departure { packet, last: self.last });
            return times;
        }
        self.states.iter_mut().for_each(|state| state.on_the_way(&mut packet));
        let last = self.last;
        deliver(&mut packet, &mut self.states, last);
        if packet.due < self.last {
            counters.reordered += 1;
        } else {
            self.last = packet.due;
        }
        if let Some(draw) = packet.flipped_bit {
            counters.corrupted += 1;
            out.push(Output::Corrupt(Corrupt { handle, draw }));
        }
        let emit = Emit { end: packet.end, due: packet.due, ..emit };
        if packet.twice {
            counters.duplicated += 1;
            out.push(Output::Copy(emit));
        }
        out.push(Output::Emit(emit));
        let times = (packet.end, packet.free);
        self.sent = Some(Departure { packet, last });
        times
    }
}

/// Sets the due time of a packet; `last` is the latest due time of the packets before it.
fn deliver(packet: &mut Transit, states: &mut [Box<dyn ImpairmentState>], last: Time) {
    packet.due = packet.end + packet.beyond;
    if !packet.overtakes {
        packet.due += packet.delay;
        if packet.keeps_order {
            packet.due = packet.due.max(last);
        }
    }
    states.iter_mut().for_each(|state| state.at_delivery(packet));
}
