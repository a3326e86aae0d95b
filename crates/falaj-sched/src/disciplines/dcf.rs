//! Stations of an 802.11b channel: each flow is a station, and the stations contend for the channel
//! (DCF, basic access).
//!
//! IEEE 802.11-1999 section 9.2 and 802.11b. A station with a frame waits until the channel has
//! been free for DIFS, and then counts down a random number of slots; it does not count while
//! others send. If a single station finishes its countdown in a slot, it sends: preamble, frame,
//! SIFS, acknowledgement. Stations that finish in the same slot collide: the channel is occupied
//! for the longest of their frames, nothing is received, and each station draws its next number of
//! slots from twice the range. A frame that has collided `attempts` times is dropped. After a frame
//! a station counts down again, even if it has no other frame. A frame that arrives after that
//! countdown, while the channel is free, is sent at once, or at the next slot if other stations
//! count down.
//!
//! The link is occupied by a packet for preamble and frame, which is its [air
//! time](MediumHooks::airtime). During SIFS and the acknowledgement the link is free, but no
//! station sends. Slots are numbered; only free time is counted. A station stores the number of the
//! slot in which it sends, instead of a counter, so a slot that passes needs no computation. Each
//! random number depends on the seed, the station, and the index of the number.

use crate::collections::tournament::Tournament;
use crate::contract::discipline::{Decision, Discipline};
use crate::contract::draw::{self, Dice, Draw};
use crate::contract::guarantee::{Guarantee, Guarantees, room_for_one};
use crate::contract::hooks::{MediumHooks, QueueHooks};
use crate::contract::manifest::{Idling, Manifest};
use crate::contract::no_guarantee::NoGuarantee;
use crate::contract::params::{
    ConfigError, ConfigErrors, FlowSetup, Kind, Param, Setup, Value, Values,
};
use crate::contract::transmission::{Air, Sent};
use crate::mechanisms::bucket::ids;
use crate::queues::queue::{FlowId, Flows};
use crate::units::counted_layer::CountedLayer;
use crate::units::draws::{Draws, mix};
use crate::units::rate::{Rate, Wire};
use crate::units::time::{Span, Time};
use alloc::format;
use alloc::vec::Vec;

/// Name, parameters and guarantee of the discipline.
pub const MANIFEST: Manifest = Manifest {
    kind: "dcf",
    doc: "802.11b wireless channel: each flow is a station that waits, counts down, collides and \
          tries again; packets take air time in place of the link's rate",
    source: "IEEE 802.11-1999 and 802.11b; Rizzo's talk on dummynet; saturation: Bianchi 2000",
    cost: "O(log N)",
    guarantee: "nothing; the throughput in saturation is estimated",
    guarantee_source: "Bianchi 2000",
    aliases: &["802.11b", "wifi", "wi-fi", "wlan", "csma"],
    scheduler: &[
        Param {
            name: "preamble",
            kind: Kind::Choice(&["long", "short"]),
            default: Some("long"),
            doc: "preamble before each frame and each acknowledgement: `long` takes 192us, `short` \
                  96us",
        },
        Param {
            name: "header",
            kind: Kind::Bytes,
            default: Some("36B"),
            doc: "bytes that 802.11 adds to each IP packet, whatever the link's `layer` counts, up \
                  to 4096B",
        },
        Param {
            name: "basic-rate",
            kind: Kind::Rate,
            default: Some("2mbit"),
            doc: "highest rate of acknowledgements, which are otherwise sent at the station's \
                  rate: 1mbit, 2mbit, 5.5mbit or 11mbit",
        },
        Param {
            name: "cw-min",
            kind: Kind::Count { min: 1, max: 1023 },
            default: Some("31"),
            doc: "the contention window of a first attempt: the station waits a random number of \
                  slots of 20us, from 0 to this number",
        },
        Param {
            name: "cw-max",
            kind: Kind::Count { min: 1, max: 65_535 },
            default: Some("1023"),
            doc: "the largest contention window, at least `cw-min`: each collision of a frame \
                  doubles its window, up to this number of slots",
        },
        Param {
            name: "attempts",
            kind: Kind::Count { min: 1, max: 255 },
            default: Some("7"),
            doc: "the number of collisions after which a frame is dropped",
        },
    ],
    flow: &[Param {
        name: "rate",
        kind: Kind::Rate,
        default: Some("the highest 802.11b rate that the link's rate allows"),
        doc: "transmission rate of the station's frames, no higher than the link's: 1mbit, 2mbit, \
              5.5mbit or 11mbit",
    }],
    idles: Idling::because("stations wait and count down before each frame"),
    wants_layer: true,
    draw: Draw { fit, ..Draw::INDEPENDENT },
    ..Manifest::PLAIN
};

/// Adjusts a random setup: rates of the standard that are not above the link's rate, and `cw-min`
/// at most `cw-max`.
fn fit(setup: &mut Setup, dice: Dice<'_>) {
    setup.rate = setup.rate.max(RATES[0]);
    let slower: Vec<Rate> = RATES.into_iter().filter(|&other| other <= setup.rate).collect();
    let [few, more] = [(1, 15), (15, 63)].map(|(low, high)| Value::Count(dice(low, high)));
    let basic = Value::Rate(draw::one_of(&RATES, dice));
    for (name, value) in [("cw-min", few), ("cw-max", more), ("basic-rate", basic)] {
        setup.scheduler.set(name, value);
    }
    for flow in &mut setup.flows {
        flow.values = Values::default().with("rate", Value::Rate(draw::one_of(&slower, dice)));
    }
}

/// Duration of a slot of the countdown (802.11b).
pub const SLOT: Span = Span::from_micros(20);
/// Time between a frame and its acknowledgement.
pub const SIFS: Span = Span::from_micros(10);
/// Time for which the channel must be free before a countdown: SIFS and two slots.
pub const DIFS: Span = Span::from_micros(50);
/// The rates of 802.11b.
pub const RATES: [Rate; 4] = [Rate(1_000_000), Rate(2_000_000), Rate(5_500_000), Rate(11_000_000)];
/// Bytes of an acknowledgement.
const ACK: u32 = 14;

/// Durations and limits of the channel, which are the same for all stations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channel {
    /// Duration of the preamble before each frame.
    pub preamble: Span,
    /// Bytes of a frame beyond its IP packet.
    pub header: u32,
    /// The layer at which the link counts packets' lengths.
    pub layer: CountedLayer,
    /// The highest rate of acknowledgements.
    pub basic_rate: Rate,
    /// Maximum number of slots before a first attempt.
    pub cw_min: u64,
    /// Maximum number of slots before any attempt.
    pub cw_max: u64,
    /// A frame is dropped after this number of collisions.
    pub attempts: u32,
}

impl Channel {
    /// Builds the channel from a setup.
    pub fn new(setup: &Setup) -> Result<Channel, ConfigErrors> {
        let values = &setup.scheduler;
        let short = values.choice("preamble") == Some("short");
        let basic_rate = values.rate("basic-rate").unwrap_or(RATES[1]);
        let header = values.bytes("header").unwrap_or(36);
        let layer = values.choice("layer").and_then(CountedLayer::from_name).unwrap_or_default();
        let refused =
            |param, what, help: &str| ConfigError { flow: None, param, what, help: help.into() };
        if !RATES.contains(&basic_rate) {
            return Err(refused(
                "basic-rate",
                format!("802.11b has no rate of {basic_rate}"),
                ALLOWED,
            )
            .into());
        }
        let Some(header) = u32::try_from(header).ok().filter(|&header| header <= 4_096) else {
            return Err(refused(
                "header",
                format!("a header of {header} B is too large"),
                "up to 4096B",
            )
            .into());
        };
        let (cw_min, cw_max) =
            (values.count("cw-min").unwrap_or(31), values.count("cw-max").unwrap_or(1023));
        if cw_max < cw_min {
            return Err(refused(
                "cw-max",
                format!("{cw_max} is below `cw-min`, {cw_min}"),
                "`cw-min` or more",
            )
            .into());
        }
        Ok(Channel {
            preamble: Span::from_micros(if short { 96 } else { 192 }),
            header,
            layer,
            basic_rate,
            cw_min,
            cw_max,
            attempts: values.count("attempts").unwrap_or(7) as u32,
        })
    }

    /// Duration of preamble and frame for a packet that the link counts as `bytes`. If the layer
    /// pads short packets, a short packet takes the time of the longest packet that is counted with
    /// the same length.
    pub fn frame(&self, rate: Rate, bytes: u32) -> Span {
        self.preamble + rate.airtime(self.layer.to_ip(bytes).saturating_add(self.header))
    }

    /// Time from the end of a received frame to the end of its acknowledgement.
    pub fn acknowledged(&self, rate: Rate) -> Span {
        SIFS + self.preamble + rate.min(self.basic_rate).airtime(ACK)
    }

    /// Time after a collision, in addition to DIFS, in which no station counts (EIFS minus DIFS):
    /// SIFS and an acknowledgement at the lowest rate.
    pub fn confused(&self) -> Span {
        SIFS + self.preamble + RATES[0].airtime(ACK)
    }

    /// Maximum number of slots for a frame that has collided this number of times.
    pub fn window(&self, collisions: u32) -> u64 {
        let doubled = (u128::from(self.cw_min) + 1) << collisions.min(64);
        doubled.saturating_sub(1).min(self.cw_max.into()) as u64
    }
}

const ALLOWED: &str = "1mbit, 2mbit, 5.5mbit or 11mbit, no more than the link's";

/// The rate of each station of a setup.
pub fn rates(setup: &Setup) -> Result<Vec<Rate>, ConfigErrors> {
    let Some(&fastest) = RATES.iter().rev().find(|&&rate| rate <= setup.rate) else {
        let what = format!("802.11b has no rate as low as {}", setup.rate);
        return Err(
            ConfigError { flow: None, param: "rate", what, help: "at least 1mbit".into() }.into()
        );
    };
    let rate = |(flow, f): (usize, &FlowSetup)| {
        let rate = f.values.rate("rate").unwrap_or(fastest);
        if RATES.contains(&rate) && rate <= fastest {
            return Ok(rate);
        }
        let what = match RATES.contains(&rate) {
            true => format!("{rate} is more than the link's {}", setup.rate),
            false => format!("802.11b has no rate of {rate}"),
        };
        Err(ConfigError { flow: Some(flow), param: "rate", what, help: ALLOWED.into() }.into())
    };
    setup.flows.iter().enumerate().map(rate).collect()
}

/// Stations that contend for a channel: the discipline.
#[derive(Debug, Clone)]
pub struct Dcf {
    channel: Channel,
    stations: Vec<Station>,
    /// Stations that have a frame, by the slot in which they send it.
    contending: Tournament<u64>,
    /// Stations whose frame has collided too often; the frame is dropped when the channel is free.
    given_up: Vec<FlowId>,
    /// Stations of a collision that is being handled.
    colliding: Vec<FlowId>,
    /// The time from which slots are counted. The channel has then been free for DIFS.
    counts: Time,
    /// Number of slots counted up to the time `counts`.
    slots: u64,
    /// Number of transmissions and collisions so far.
    taken: u64,
    /// The station of the packet on the wire, until the next decision.
    serving: Option<FlowId>,
}

/// A station of the channel: a flow.
#[derive(Debug, Clone, Copy)]
struct Station {
    rate: Rate,
    draws: Draws,
    /// The slot in which the station sends; without a frame, the slot at which its countdown ends.
    slot: u64,
    /// Value of [`Dcf::taken`] when the slot was drawn.
    drawn: u64,
    /// Number of collisions of the frame that the station sends next.
    collisions: u32,
    air: Air,
}

impl Dcf {
    /// Validates the setup.
    pub fn new(setup: &Setup) -> Result<Dcf, ConfigErrors> {
        room_for_one(setup)?;
        let station = |(f, rate): (usize, Rate)| Station {
            rate,
            draws: Draws::new(0, f as u64),
            slot: 0,
            drawn: 0,
            collisions: 0,
            air: Air::default(),
        };
        let flows = setup.flows.len();
        Ok(Dcf {
            channel: Channel::new(setup)?,
            stations: rates(setup)?.into_iter().enumerate().map(station).collect(),
            contending: Tournament::new(flows),
            given_up: Vec::with_capacity(flows),
            colliding: Vec::with_capacity(flows),
            counts: Time::ZERO,
            slots: 0,
            taken: 0,
            serving: None,
        })
    }

    /// Returns true if the channel is free.
    fn is_free(&self, now: Time) -> bool {
        now + DIFS >= self.counts
    }

    /// Records a transmission or collision in `slot`. Slots are counted again from the time
    /// `counts` on.
    fn take_air(&mut self, slot: u64, counts: Time) {
        self.slots = self.slots.max(slot);
        self.counts = counts;
        self.taken += 1;
    }

    /// Draws the slot in which a station sends next; it is after all slots counted so far.
    fn draw(&mut self, f: FlowId) {
        let (slots, taken) = (self.slots, self.taken);
        let station = &mut self.stations[f.index()];
        let window = u128::from(self.channel.window(station.collisions)) + 1;
        station.slot = slots + ((u128::from(station.draws.draw()) * window) >> 64) as u64;
        station.drawn = taken;
    }

    /// Adds a station to the contending stations, with its slot, if it has a packet; otherwise
    /// removes it.
    fn follow(&mut self, flows: &Flows<()>, f: FlowId) {
        match flows.head(f) {
            Some(_) => self.contending.set(f, self.stations[f.index()].slot),
            None => self.contending.remove(f),
        }
    }

    /// Records a collision of all stations with this slot: they send from `now` on, and no frame is
    /// received.
    fn collide(&mut self, flows: &Flows<()>, slot: u64, now: Time) {
        let mut longest = Span::ZERO;
        while let Some((_, f)) = self.contending.first().filter(|&(other, _)| other == slot) {
            let station = &mut self.stations[f.index()];
            let frame = self.channel.frame(station.rate, flows.head(f).unwrap_or_default());
            longest = longest.max(frame);
            station.collisions += 1;
            station.air.lost += frame;
            station.air.collisions += 1;
            self.contending.remove(f);
            self.colliding.push(f);
        }
        self.take_air(slot, now + longest + self.channel.confused() + DIFS);
        while let Some(f) = self.colliding.pop() {
            if self.stations[f.index()].collisions >= self.channel.attempts {
                self.given_up.push(f);
            } else {
                self.draw(f);
                self.follow(flows, f);
            }
        }
    }
}

impl Discipline for Dcf {
    type State = ();
    type Tag = ();

    fn start(&mut self, _: &mut Flows<()>) {}

    /// Countdowns and collision counts continue.
    fn migrate_from(&mut self, old: Dcf, flows: &mut Flows<()>, _: Time) {
        (self.counts, self.slots, self.taken) = (old.counts, old.slots, old.taken);
        (self.given_up, self.serving) = (old.given_up, old.serving);
        for (f, before) in ids(old.stations.len()).zip(old.stations) {
            let station = &mut self.stations[f.index()];
            *station = Station { rate: station.rate, ..before };
            if self.serving != Some(f) && !self.given_up.contains(&f) {
                self.follow(flows, f);
            }
        }
    }

    #[inline(always)]
    fn ready(&mut self, flows: &mut Flows<()>, f: FlowId, now: Time) {
        let Station { slot, drawn, .. } = self.stations[f.index()];
        if !self.is_free(now) {
            // If the countdown of a station was over when another station began to send, it has to
            // count down again.
            if slot < self.slots || slot == self.slots && drawn != self.taken {
                self.draw(f);
            }
            return self.follow(flows, f);
        }
        let waited = now.since(self.counts).0;
        let (whole, begun) = (self.slots + waited / SLOT.0, self.slots + waited.div_ceil(SLOT.0));
        if slot <= whole && self.contending.is_empty() {
            // No other station counts down, so this station may send at once, or when DIFS is over.
            (self.counts, self.slots) = (self.counts.max(now), whole);
            self.stations[f.index()].slot = whole;
        } else {
            self.stations[f.index()].slot = slot.max(begun);
        }
        self.follow(flows, f);
    }

    /// A packet that is removed without transmission does not change the slot, but resets the
    /// collision count.
    fn head_changed(&mut self, flows: &mut Flows<()>, f: FlowId, _: Time) {
        self.stations[f.index()].collisions = 0;
        if let Some(n) = self.given_up.iter().position(|&other| other == f) {
            self.given_up.remove(n);
            self.draw(f);
        }
        self.follow(flows, f);
    }

    #[inline(always)]
    fn next(&mut self, flows: &mut Flows<()>, now: Time, _: &Wire) -> Decision {
        if let Some(f) = self.serving.take() {
            self.follow(flows, f);
        }
        loop {
            if let Some(&f) = self.given_up.first() {
                let free = Time(self.counts.0.saturating_sub(DIFS.0));
                return if self.is_free(now) {
                    Decision::Drop(f)
                } else {
                    Decision::NotBefore(free)
                };
            }
            let Some((slot, f)) = self.contending.first() else { return Decision::Idle };
            let begins = self.counts + SLOT * slot.saturating_sub(self.slots);
            if now < begins {
                return Decision::NotBefore(begins);
            }
            if !self.contending.is_tied() {
                return Decision::Serve(f);
            }
            self.collide(flows, slot, now);
        }
    }

    fn on_transmit(&mut self, _: &mut Flows<()>, f: FlowId, sent: Sent) {
        let station = &mut self.stations[f.index()];
        let acknowledged = self.channel.acknowledged(station.rate);
        station.collisions = 0;
        station.air.used += sent.end - sent.start + acknowledged;
        let slot = station.slot;
        self.contending.remove(f);
        self.take_air(slot, sent.end + acknowledged + DIFS);
        self.draw(f);
        self.serving = Some(f);
    }

    fn is_reusable(&self, _: &Flows<()>, f: FlowId, now: Time) -> bool {
        let station = &self.stations[f.index()];
        station.slot <= self.slots + now.since(self.counts) / SLOT
    }
}

impl QueueHooks for Dcf {}

impl MediumHooks for Dcf {
    fn seed(&mut self, seed: u64) {
        for (f, station) in self.stations.iter_mut().enumerate() {
            station.draws = Draws::new(mix(seed), f as u64);
        }
    }

    #[inline]
    fn airtime(&self, f: FlowId, bytes: u32) -> Option<Span> {
        Some(self.channel.frame(self.stations[f.index()].rate, bytes))
    }

    fn air(&self, f: FlowId) -> Option<Air> {
        Some(self.stations[f.index()].air)
    }
}

impl Guarantees for Dcf {
    fn service(&self, _: FlowId) -> Result<Guarantee, NoGuarantee> {
        Err(NoGuarantee("stations contend at random: rate and delay have no bound".into()))
    }

    /// Returns true: a frame that has collided is sent again, so the head must stay the same
    /// packet.
    fn only_over_queues(&self) -> bool {
        true
    }

    fn only_on_a_link(&self) -> Option<&'static str> {
        Some("its flows are stations, which contend for a channel")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::params::Values;
    use crate::queues::queue::Limit;
    use std::vec;

    fn channel() -> Channel {
        let flows = vec![FlowSetup::new(Values::default(), Limit::Packets(1))];
        let setup = Setup { rate: RATES[3], largest: 1514, scheduler: Values::default(), flows };
        Channel::new(&setup).unwrap()
    }

    /// An IP packet of 1500 B is 1536 B after the preamble. The acknowledgement is sent at 2
    /// Mbit/s; at 1 Mbit/s it would take 304 us.
    #[test]
    fn a_frame_lasts_as_long_as_the_standard_says() {
        let channel = channel();
        let us = |span: Span| (span.0 as f64 / 1e3).round();
        assert_eq!(us(channel.frame(RATES[3], 1514)), 192.0 + 1117.0);
        assert_eq!(us(channel.frame(RATES[0], 1514)), 192.0 + 12_288.0);
        assert_eq!(us(channel.acknowledged(RATES[3])), 258.0);
        assert_eq!(us(channel.acknowledged(RATES[0])), 314.0);
        // EIFS is 364 us, of which DIFS is 50 us.
        assert_eq!(us(channel.confused() + DIFS), 364.0);
    }

    #[test]
    fn windows_double_up_to_the_largest() {
        let channel = channel();
        let windows: Vec<u64> = (0..8).chain([u32::MAX]).map(|n| channel.window(n)).collect();
        assert_eq!(windows, [31, 63, 127, 255, 511, 1023, 1023, 1023, 1023]);
    }
}
