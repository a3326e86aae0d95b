//! How full containers get and how long packets wait in them, in closed form:
//! packets come as a Poisson process, and a container leaves when it is full or
//! its timeout is over.

/// What containers are like in the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fill {
    /// Packets in a container.
    pub(super) packets: f64,
    /// What a packet waits in it, in the unit of time of the rate.
    pub(super) wait: f64,
}

/// Packets come at `rate`; a container holds `most` of them and waits `timeout` at most.
///
/// The packet that makes `j` others besides the first comes within the timeout
/// with probability P(j), that of `j` or more arrivals of a Poisson process. A
/// container has 1 + P(1) + ... + P(most - 1) packets in the mean; until the
/// next comes or the timeout is over, `j` packets wait in it for P(j) / rate.
pub(super) fn fill(rate: f64, most: u32, timeout: f64) -> Fill {
    let mean = rate * timeout;
    // Of fewer than j arrivals, and of exactly j - 1 (in logarithms: e^-mean may be nothing).
    let (mut fewer, mut log_of_one) = (0.0, -mean);
    let (mut packets, mut waiting) = (1.0, 0.0);
    for j in 1..most {
        fewer += log_of_one.exp();
        log_of_one += mean.ln() - f64::from(j).ln();
        let p = (1.0 - fewer).max(0.0);
        packets += p;
        waiting += f64::from(j) * p;
    }
    Fill { packets, wait: waiting / rate / packets }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of a simulation of 62 packets and 200 us, by packets a microsecond: size and wait.
    #[test]
    fn the_formula_is_what_a_simulation_gave() {
        let simulated = [(0.01, 133.35), (0.1, 104.66), (0.2, 102.31), (0.3, 96.53), (0.4, 76.27), (0.8, 38.23)];
        for (rate, wait) in simulated {
            let found = fill(rate, 62, 200.0);
            assert!((found.wait / wait - 1.0).abs() < 0.004, "{rate}: {found:?}");
        }
        assert!((fill(0.2, 62, 200.0).packets - 41.0).abs() < 0.01);
    }

    #[test]
    fn its_ends_are_known() {
        // Never full: the first waits all the time, the others half of it.
        let never = fill(0.05, 10_000, 200.0);
        assert!((never.packets - 11.0).abs() < 1e-9 && (never.wait - 200.0 * (1.0 + 5.0) / 11.0).abs() < 1e-9);
        // Always full.
        let always = fill(1.0, 62, 1e6);
        assert!((always.packets - 62.0).abs() < 1e-9 && (always.wait - 30.5).abs() < 1e-9);
        assert_eq!(fill(1.0, 1, 200.0), Fill { packets: 1.0, wait: 0.0 });
    }
}
