//! Throughput of the stations of an 802.11 channel that always have packets.
//!
//! Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination function" (2000):
//! each attempt collides with the same probability `p`, independently of earlier attempts. The rate
//! of attempts follows from `p`, and `p` follows from the rate of attempts. The solution is a fixed
//! point.
//!
//! Slots are counted as in Bianchi and Tinnirello, "Remarks on IEEE 802.11 DCF performance
//! analysis" (2005). A frame is dropped after a limited number of attempts. No station counts down
//! in a slot in which another station sends. A station that has sent may draw zero, and then sends
//! again before any other station counts down.
//!
//! The length of frames does not change these probabilities. So stations of different rates get the
//! same number of packets each, and the air time of the slowest station slows all of them (Heusse
//! and others, "Performance anomaly of 802.11b", 2003).

use falaj_sched::disciplines::dcf::{Channel, DIFS, SLOT};
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;

/// Results for stations that always have packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Saturation {
    /// Fraction of all attempts that collide.
    pub collisions: f64,
    /// Fraction of all packets that are dropped after their last attempt.
    pub dropped: f64,
    /// Packets per second that each station delivers; the same for all stations.
    pub packets: f64,
    /// For each station, the fraction of time for which the packets that it delivers and their
    /// acknowledgements occupy the air.
    pub air: Vec<f64>,
}

/// Computes the saturation throughput for stations with these rates and packet lengths in bytes.
pub fn saturation(channel: &Channel, stations: &[(Rate, u32)]) -> Saturation {
    let others = i32::try_from(stations.len()).unwrap_or(i32::MAX) - 1;
    let collides = |tau: f64| 1.0 - (1.0 - tau).powi(others);
    // The more attempts collide, the fewer attempts a station makes: a bisection finds the fixed
    // point.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let tau = f64::midpoint(low, high);
        if attempts(channel, collides(tau)) > tau { low = tau } else { high = tau }
    }
    let (tau, p) = (low, collides(low));
    let nanos = |span: Span| span.0 as f64;
    let zero = 1.0 / (channel.window(0) + 1) as f64;
    let alone = tau * (1.0 - p);
    let slot = nanos(SLOT);
    let exchange = |&(rate, bytes): &(Rate, u32)| {
        nanos(channel.frame(rate, bytes) + channel.acknowledged(rate))
    };
    let mut frames: Vec<f64> =
        stations.iter().map(|&(rate, bytes)| nanos(channel.frame(rate, bytes))).collect();
    frames.sort_by(f64::total_cmp);
    // Mean lengths of the slots in which no station, one station or several stations begin to send,
    // each multiplied by its probability. If several stations send, the slot lasts as long as the
    // longest of their frames.
    let nobody = (1.0 - tau).powi(others + 1) * slot;
    let one: f64 =
        stations.iter().map(|s| alone * ((exchange(s) + nanos(DIFS)) / (1.0 - zero) + slot)).sum();
    let longest = |(shorter, frame): (usize, &f64)| {
        let shorter = shorter as i32;
        let is_longest =
            tau * (1.0 - tau).powi(others - shorter) * (1.0 - (1.0 - tau).powi(shorter));
        is_longest * (frame + nanos(channel.confused() + DIFS) + slot)
    };
    let several: f64 = frames.iter().enumerate().map(longest).sum();
    let packets = alone / (1.0 - zero) / (nobody + one + several);
    Saturation {
        collisions: p,
        dropped: p.powi(channel.attempts as i32),
        packets: packets * 1e9,
        air: stations.iter().map(|s| packets * exchange(s)).collect(),
    }
}

/// Probability that a station makes an attempt in a slot, if an attempt collides with probability
/// `p`.
fn attempts(channel: &Channel, p: f64) -> f64 {
    let stages = 0..channel.attempts;
    let reached: f64 = stages.clone().map(|n| p.powi(n as i32)).sum();
    let counted: f64 = stages.map(|n| p.powi(n as i32) * channel.window(n) as f64 / 2.0).sum();
    1.0 / (1.0 + counted / reached - (1.0 - p) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use falaj_sched::disciplines::dcf::RATES;
    use falaj_sched::units::counted_layer::CountedLayer;

    fn channel() -> Channel {
        Channel {
            preamble: Span::from_micros(192),
            header: 36,
            layer: CountedLayer::L2,
            basic_rate: RATES[1],
            cw_min: 31,
            cw_max: 1023,
            attempts: 7,
        }
    }

    /// A cycle of one station: DIFS, 15.5 slots, a frame of 192 us and 1536 B, SIFS, and an
    /// acknowledgement of 248 us.
    #[test]
    fn a_station_alone_counts_half_its_window() {
        let all = saturation(&channel(), &[(RATES[3], 1514)]);
        let cycle = 50.0 + 15.5 * 20.0 + 192.0 + 1536.0 * 8.0 / 11.0 + 10.0 + 248.0;
        assert!((all.packets * cycle / 1e6 - 1.0).abs() < 1e-6, "{all:?}");
        assert_eq!((all.collisions, all.dropped), (0.0, 0.0));
    }

    /// The frames of the slow station last more than nine times as long as the others, and each
    /// station gets the same number of packets.
    #[test]
    fn one_slow_station_has_most_of_the_air() {
        let mixed = [(RATES[3], 1514), (RATES[3], 1514), (RATES[0], 1514)];
        let all = saturation(&channel(), &mixed);
        assert!(all.air[2] > 0.7 && all.air.iter().sum::<f64>() < 1.0, "{all:?}");
        let fast = saturation(&channel(), &mixed[..2]);
        assert!(fast.packets > 4.0 * all.packets, "{fast:?} beside {all:?}");
    }
}
