//! The common part of disciplines that give timestamps to packets: weights and rates, and the exact
//! numbers of virtual time.
//!
//! | unit | format | counts | range |
//! |---|---|---|---|
//! | [`Virtual`] | `u128`, 63 bits after the point | bytes for each unit of weight | 23 years of a flow of weight 1 alone at 400 Gbit/s |
//! | [`Instant`] | `u128`, 40 bits after the point | nanoseconds | the range of [`Time`]; later instants are set to its end |
//!
//! A flow's slope, the virtual time of one byte, is rounded up once, at its setup. Tags are sums of
//! whole multiples of slopes: they are exact for a flow of that slope, and no error accumulates,
//! however long a link is busy. The relative error of a rate's slope is at most 2^-33 up to 1
//! Tbit/s. The slope of a weight is exact if the weights have a common multiple below 2^40, because
//! the unit of a byte is then a multiple of it. Otherwise the relative error of weight `w`
//! is at most about `w/2^63`: a byte in 140 TB at weight 65,536, and a byte in 2 GB at the largest
//! weight. Guarantees include this error.

use crate::contract::guarantee::{Bound, Guarantee, finite_rate, full_queue, room_for_one};
use crate::contract::params::{ConfigError, ConfigErrors, Kind, Param, Setup, Value};
use crate::mechanisms::common_multiple::multiple;
use crate::mechanisms::oversubscription::Excess;
use crate::queues::queue::FlowId;
use crate::units::rate::{BIT_NANOS, Rate};
use crate::units::time::{Span, Time};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Bytes per unit of weight, in units of about 2^-63: see [`Shares::byte`].
pub(crate) type Virtual = u128;
const VIRTUAL_BITS: u32 = 63;

/// Nanoseconds, in units of 2^-40.
pub(crate) type Instant = u128;
const INSTANT_BITS: u32 = 40;

/// Converts an instant of the clock into a tag.
#[inline]
pub(crate) const fn instant(now: Time) -> Instant {
    (now.0 as u128) << INSTANT_BITS
}

/// Origin of the virtual times of tags. It is far above zero, so that a change of slopes can move a
/// tag back, even to before the first packet, and the flow keeps its credit.
pub(crate) const ORIGIN: u128 = 1 << 120;

/// Converts a length of time into a difference of tags.
pub(crate) fn duration(span: Span) -> Instant {
    u128::from(span.0) << INSTANT_BITS
}

/// Additional delay by rounding to nanoseconds: one for the end of a transmission, one for
/// interpolated work.
pub(crate) const ROUNDING: Span = Span(2);

/// The largest weight.
const HEAVIEST: u64 = u32::MAX as u64;
/// The largest sum of weights, chosen so that byte times at each flow's rate fit into 128 bits.
const HEAVIEST_SUM: u64 = 1 << 52;

/// The weight of a flow.
pub(crate) const WEIGHT: Param = Param {
    name: "weight",
    kind: Kind::Count { min: 1, max: HEAVIEST },
    default: Some("1"),
    doc: "the flow's weight: flows with packets share the link in proportion to their weights",
};

/// A link divided in proportion to weights: flow `f` has the rate `r = w C/sum w`.
#[derive(Debug, Clone)]
pub(crate) struct Shares {
    weights: Vec<u32>,
    total: u64,
    byte: u64,
    rate: Rate,
    largest: u64,
    full_queues: Vec<u64>,
}

impl Shares {
    /// Reads the weights of `setup`. Errors call the discipline `what`.
    pub(crate) fn new(setup: &Setup, what: &'static str) -> Result<Shares, ConfigErrors> {
        finite_rate(setup, what)?;
        room_for_one(setup)?;
        let mut weights = Vec::with_capacity(setup.flows.len());
        for (flow, f) in setup.flows.iter().enumerate() {
            let weight = f.values.count("weight").unwrap_or(1);
            if weight == 0 || weight > HEAVIEST {
                return Err(ConfigError {
                    flow: Some(flow),
                    param: "weight",
                    what: format!("a weight of {weight} is out of range"),
                    help: format!(
                        "from 1 to {HEAVIEST}: a flow's share is its weight over the sum of all"
                    ),
                }
                .into());
            }
            weights.push(weight as u32);
        }
        let total: u64 = weights.iter().map(|&w| u64::from(w)).sum();
        if total > HEAVIEST_SUM {
            return Err(ConfigError {
                flow: None,
                param: "weight",
                what: format!("the weights of all flows add up to {total}"),
                help: format!("a sum of at most {HEAVIEST_SUM}: only ratios of weights matter"),
            }
            .into());
        }
        Ok(Shares {
            total,
            byte: byte(&weights),
            weights,
            rate: setup.rate,
            largest: u64::from(setup.largest),
            full_queues: setup.flows.iter().map(|f| full_queue(setup, f.limit)).collect(),
        })
    }

    pub(crate) fn flows(&self) -> usize {
        self.weights.len()
    }
    pub(crate) fn all(&self) -> impl Iterator<Item = FlowId> + use<> {
        (0..self.weights.len() as u32).map(FlowId)
    }
    pub(crate) fn weight(&self, f: FlowId) -> u32 {
        self.weights[f.index()]
    }
    /// Rate of the whole link.
    pub(crate) fn link(&self) -> Rate {
        self.rate
    }
    /// Bytes of the largest packet.
    pub(crate) fn largest(&self) -> u64 {
        self.largest
    }
    /// The largest number of bytes in the queue of `f`.
    pub(crate) fn full_queue(&self, f: FlowId) -> u64 {
        self.full_queues[f.index()]
    }
    /// Sum over all other flows of one largest packet each, in bytes.
    pub(crate) fn one_of_each_other(&self) -> u64 {
        (self.weights.len() as u64 - 1) * self.largest
    }
    /// Virtual time of a byte at weight 1: 2^63, or the next lower multiple of all weights. The
    /// relative difference is less than 2^-23.
    pub(crate) fn byte(&self) -> u64 {
        self.byte
    }
    /// Virtual time of a byte of `f`.
    pub(crate) fn slope(&self, f: FlowId) -> u64 {
        self.byte.div_ceil(u64::from(self.weight(f)))
    }
    /// Time of a byte of `f` at its own rate, rounded up.
    pub(crate) fn pace(&self, f: FlowId) -> Instant {
        let whole = (u128::from(BIT_NANOS) * u128::from(self.total)) << INSTANT_BITS;
        whole.div_ceil(u128::from(self.weight(f)) * u128::from(self.rate.0))
    }
    /// The slope of `f` times its weight, minus `byte`. It is above zero if the slope was rounded
    /// up.
    fn excess(&self, f: FlowId) -> u128 {
        u128::from(self.slope(f)) * u128::from(self.weight(f)) - u128::from(self.byte)
    }
    /// The rate of `f`, rounded down.
    pub(crate) fn rate(&self, f: FlowId) -> Rate {
        let counted = u128::from(self.slope(f)) * u128::from(self.total);
        Rate((u128::from(self.rate.0) * u128::from(self.byte) / counted) as u64)
    }
    /// Time that `f` needs for `bytes` at its own rate.
    pub(crate) fn own_time(&self, bytes: u64, f: FlowId) -> Span {
        let bits = u128::from(bytes) * u128::from(BIT_NANOS);
        let nanos = bits
            .checked_mul(u128::from(self.total))
            .map(|work| work.div_ceil(u128::from(self.weight(f)) * u128::from(self.rate.0)));
        let nanos = nanos.and_then(|n| u64::try_from(n).ok()).unwrap_or(u64::MAX);
        let longer = (u128::from(nanos) * self.excess(f)).div_ceil(u128::from(self.byte));
        Span(nanos.saturating_add(longer as u64))
    }
    /// Whole bytes that `f` sends in this time at its own rate.
    pub(crate) fn own_bytes(&self, time: Span, f: FlowId) -> u64 {
        let whole = u128::from(self.rate.0) * u128::from(time.0);
        let shared = whole.saturating_mul(u128::from(self.weight(f)));
        u64::try_from(shared / (u128::from(self.total) * u128::from(BIT_NANOS))).unwrap_or(u64::MAX)
    }
    /// The longest time of any flow's largest packet at the flow's own rate.
    pub(crate) fn slowest_packet(&self) -> Span {
        self.all().map(|f| self.own_time(self.largest, f)).max().unwrap_or(Span::ZERO)
    }
    /// Maximum time from a packet's finish in the fluid server to its departure: one packet that
    /// was on the wire.
    pub(crate) fn behind_fluid(&self) -> Span {
        self.rate.airtime_of_many(self.largest) + ROUNDING
    }
    /// The guarantee if packets leave at most [`behind_fluid`](Shares::behind_fluid) after the
    /// fluid server has finished them: the bound `delay`, and the bound of Parekh and Gallager for
    /// a flow that keeps to its rate.
    pub(crate) fn guarantee_by_fluid(&self, f: FlowId, delay: Bound) -> Guarantee {
        let behind = self.behind_fluid();
        let smooth = Bound {
            delay: self.own_time(self.full_queue(f), f) + behind,
            formula: "B/r + L/C",
            condition: "a flow that never sends more than B + r t",
        };
        self.guarantee(f, behind, delay, vec![smooth])
    }
    /// The guarantee of the flow's rate, with this latency in addition to `L/r`, and with this
    /// delay.
    pub(crate) fn guarantee(
        &self,
        f: FlowId,
        latency: Span,
        delay: Bound,
        others: Vec<Bound>,
    ) -> Guarantee {
        Guarantee {
            rate: self.rate(f),
            latency: self.own_time(self.largest, f) + latency,
            rate_formula: "w C/sum w",
            delay,
            others,
        }
    }
}

/// Converts a time at the slope `from` to the slope `to`: the number of bytes stays the same.
/// Rounded up.
pub(crate) fn rescaled(time: u128, from: u128, to: u128) -> u128 {
    let from = from.max(1);
    // The multiplication may overflow at slopes of less than a kilobit a second. The part of a byte
    // then counts as a whole byte.
    let part = (time % from).checked_mul(to).map_or(to, |part| part.div_ceil(from));
    (time / from).saturating_mul(to).saturating_add(part)
}

/// Converts the tag of a flow whose slope changes: its distance ahead of `now` stays the same in
/// bytes. A tag before `now` does not change.
pub(crate) fn retagged(tag: u128, now: u128, from: u128, to: u128) -> u128 {
    match tag.checked_sub(now) {
        Some(ahead) => now.saturating_add(rescaled(ahead, from, to)),
        None => tag,
    }
}

/// Converts the start of a head whose slope changes: its distance from `now` stays the same in
/// bytes, ahead of `now` or behind it.
pub(crate) fn shifted(start: u128, now: u128, from: u128, to: u128) -> u128 {
    match now.checked_sub(start) {
        Some(behind) => now.saturating_sub(rescaled(behind, from, to)),
        None => retagged(start, now, from, to),
    }
}

/// A number with many divisors. If the unit of a byte is a multiple of this number, quotients of
/// small weights are exact too in most cases.
const DIVISIBLE: u64 = 64 * 81 * 25 * 7 * 11 * 13;

fn byte(weights: &[u32]) -> u64 {
    let multiple = |of| multiple(of, weights.iter().map(|&w| w.into()), (1 << 40) - 1);
    let most = 1u64 << VIRTUAL_BITS;
    most - most % multiple(DIVISIBLE).or_else(|| multiple(1)).unwrap_or(1)
}

/// The rate of a flow.
pub(crate) const RATE: Param = Param {
    name: "rate",
    kind: Kind::Rate,
    default: Some("an equal part of the rate that the other flows leave"),
    doc: "rate reserved for the flow; the sum over all flows must not exceed the link's rate",
};

/// The flows' rates. Flows without a rate get equal parts of the rest.
pub(crate) fn rates(setup: &Setup, what: &'static str) -> Result<Vec<Rate>, ConfigErrors> {
    finite_rate(setup, what)?;
    room_for_one(setup)?;
    let given = || {
        setup.flows.iter().enumerate().filter_map(|(flow, f)| Some((flow, f.values.rate("rate")?)))
    };
    if let Some((flow, _)) = given().find(|(_, rate)| rate.0 == 0) {
        let help = format!("at most {} for all flows together", setup.rate);
        return Err(ConfigError {
            flow: Some(flow),
            param: "rate",
            what: "a rate of 0 sends nothing".into(),
            help,
        }
        .into());
    }
    if let Some(excess) = Excess::of("rate", given(), setup.rate) {
        return Err(excess.refused("").into());
    }
    let given: u64 = given().map(|(_, rate)| rate.0).sum();
    let unset = |f: &crate::contract::params::FlowSetup| {
        !matches!(f.values.get("rate"), Some(Value::Rate(_)))
    };
    let sharing = setup.flows.iter().filter(|f| unset(f)).count() as u64;
    let part = (setup.rate.0 - given).checked_div(sharing).unwrap_or(1);
    if part == 0 {
        return Err(ConfigError {
            flow: setup.flows.iter().position(unset),
            param: "rate",
            what: format!("the other flows leave nothing of the link's {}", setup.rate),
            help: "give it a `rate`, and others less".into(),
        }
        .into());
    }
    Ok(setup.flows.iter().map(|f| f.values.rate("rate").unwrap_or(Rate(part))).collect())
}

/// Time of a byte at this rate, rounded up, so that the sum of the rates never exceeds the
/// configured sum.
pub(crate) fn pace(rate: Rate) -> Instant {
    (u128::from(BIT_NANOS) << INSTANT_BITS).div_ceil(u128::from(rate.0))
}
