//! Values measured with dummynet's own test program (github.com/luigirizzo/dummynet, e717cdd; gcc
//! 12.2 -O3, an AMD EPYC with two processors), of which the talk shows plots and tables. Of the
//! numbers that the talk itself states, only [`TALK`] is here.

/// Bytes of a full packet.
pub(super) const SEGMENT: f64 = 1_500.0;

/// Numbers of equal flows.
pub(super) const FLOWS: [u32; 12] = [1, 2, 4, 8, 16, 64, 256, 1_024, 4_096, 8_192, 16_384, 32_768];

/// Published nanoseconds per packet, when nearly empty, and when filled and drained.
pub(super) struct PublishedCost {
    pub(super) name: &'static str,
    pub(super) empty: [Option<f64>; 12],
    pub(super) full: [Option<f64>; 12],
}

const fn all(of: [f64; 12]) -> [Option<f64>; 12] {
    let mut out = [None; 12];
    let mut n = 0;
    while n < 12 {
        out[n] = Some(of[n]);
        n += 1;
    }
    out
}

/// Values for each number of flows except the largest: with that number, dummynet's WF2Q+ spends
/// most of its time on growing an array by sixteen entries at a time.
const fn but_last(of: [f64; 11]) -> [Option<f64>; 12] {
    let mut out = [None; 12];
    let mut n = 0;
    while n < 11 {
        out[n] = Some(of[n]);
        n += 1;
    }
    out
}

pub(super) const COSTS: [PublishedCost; 6] = [
    PublishedCost {
        name: "none, published",
        empty: all([9.1, 9.7, 9.5, 9.6, 9.6, 9.7, 9.6, 9.8, 9.7, 9.9, 10.0, 10.1]),
        full: all([9.9, 11.0, 9.9, 10.1, 10.2, 10.1, 10.2, 10.6, 11.1, 11.5, 12.4, 15.3]),
    },
    PublishedCost {
        name: "fifo, published",
        empty: all([9.8, 11.6, 11.4, 11.3, 11.5, 11.7, 11.5, 11.6, 11.8, 11.8, 11.9, 12.1]),
        full: all([11.4, 11.9, 11.6, 11.8, 11.4, 11.6, 11.8, 12.3, 12.3, 12.6, 14.1, 16.1]),
    },
    PublishedCost {
        name: "drr, published",
        empty: all([11.2, 12.5, 12.1, 11.9, 11.8, 11.9, 11.6, 11.8, 12.2, 12.0, 12.1, 12.4]),
        full: all([12.7, 12.0, 11.9, 11.7, 12.6, 12.1, 13.9, 14.5, 14.7, 15.3, 16.9, 19.4]),
    },
    PublishedCost {
        name: "priority, published",
        empty: all([10.4, 11.2, 11.7, 11.4, 11.2, 11.6, 11.4, 11.6, 11.9, 11.8, 12.3, 12.4]),
        full: all([12.1, 16.7, 17.0, 17.7, 17.5, 17.0, 17.5, 17.9, 18.2, 18.7, 19.4, 21.2]),
    },
    PublishedCost {
        name: "qfq, published",
        empty: all([16.4, 17.3, 18.3, 18.2, 17.6, 17.3, 17.3, 17.5, 17.8, 17.5, 18.0, 17.8]),
        full: all([27.9, 25.5, 21.4, 19.8, 18.9, 17.5, 19.6, 19.7, 19.9, 21.4, 22.7, 25.0]),
    },
    PublishedCost {
        name: "wf2q+, published",
        empty: all([19.2, 21.8, 24.2, 27.2, 35.1, 48.4, 58.8, 68.5, 70.8, 70.6, 69.7, 70.1]),
        full: but_last([17.6, 20.1, 26.3, 29.5, 35.3, 46.5, 63.8, 116.0, 231.0, 281.0, 417.0]),
    },
];

/// The talk's own costs, on a desktop of 2010, as (flows, nanoseconds per packet): none, DRR and
/// QFQ. The costs are constant up to this number of flows. DRR costs 55 ns more than `none`, and
/// QFQ 110 ns more.
pub(super) const TALK: [(f64, f64); 3] = [(256.0, 60.0), (256.0, 115.0), (256.0, 170.0)];

/// Nanoseconds per packet by mix, in the order of `falaj bench sched mixes`: RR, QFQ and WF2Q+,
/// each nearly empty, and filled and drained.
pub(super) const MIXED: [[[f64; 2]; 3]; 9] = [
    [[11.3, 12.9], [16.8, 26.4], [19.4, 18.8]],
    [[12.2, 12.0], [18.5, 18.8], [28.3, 29.7]],
    [[12.6, 12.1], [17.7, 17.1], [48.2, 46.6]],
    [[12.4, 13.8], [17.6, 19.6], [65.1, 65.4]],
    [[12.1, 12.8], [18.8, 23.9], [25.8, 28.1]],
    [[12.3, 13.1], [17.6, 19.2], [32.6, 38.3]],
    [[13.4, 16.6], [17.6, 21.3], [42.5, 104.5]],
    [[12.4, 13.9], [17.8, 20.5], [51.9, 97.6]],
    [[12.7, 27.3], [18.1, 29.3], [108.1, 466.6]],
];

/// The lag in bytes of the worst flow of a mix, in the order of `falaj bench wfi`.
pub(super) struct PublishedService {
    pub(super) statement: &'static str,
    /// RR, for mixes whose queues are longer than the amount that a flow sends at once.
    pub(super) rr: Option<f64>,
    /// QFQ as dummynet ships it: virtual time advances by a constant in place of the sum of
    /// weights.
    pub(super) shipped: f64,
    /// QFQ whose virtual time advances by the actual sum of weights.
    pub(super) true_sum: f64,
    pub(super) wf2q: f64,
}

const fn service(
    statement: &'static str,
    rr: Option<f64>,
    shipped: f64,
    true_sum: f64,
    wf2q: f64,
) -> PublishedService {
    PublishedService { statement, rr, shipped, true_sum, wf2q }
}

pub(super) const SERVICE: [PublishedService; 9] = [
    service("QFQ, 10 equal flows", Some(1_350.0), 5_400.0, 5_400.0, 2_400.0),
    service("QFQ, 64 equal flows", Some(1_477.0), 5_906.0, 5_906.0, 2_883.0),
    service("QFQ, 10 + 10 x 1", Some(7_500.0), 15_000.0, 4_125.0, 2_325.0),
    service("QFQ, 20 + 20 x 1", Some(15_000.0), 30_000.0, 3_188.0, 2_250.0),
    service("QFQ, 50 + 50 x 1", Some(36_750.0), 75_000.0, 2_610.0, 1_875.0),
    service("QFQ, 100 + 500 x 1", None, 250_000.0, 4_503.0, 2_418.0),
    service("QFQ, 512 x 1 + 100", Some(125_490.0), 250_980.0, 4_534.0, 2_502.0),
    service("QFQ, 100 of 64 B + 100 x 1", None, 149_904.0, 2_229.0, 1_313.0),
    service("QFQ, 64000 + 50 x 1280", Some(1_125_000.0), 3_345.0, 3_345.0, 111.0),
];
