//! Generalised processor sharing, the fluid system that packet disciplines imitate: all backlogged
//! flows are served at once, in proportion to their weights.
//!
//! Parekh and Gallager, "A generalized processor sharing approach to flow control in integrated
//! services networks: the single-node case" (1993). Virtual time `V` grows by
//! `work/sum of the weights present`; a packet of length `L` in a flow of weight `w` starts at
//! `S = max(F of the flow's previous packet, V)` and finishes at `F = S + L/w`. Both are known at
//! its arrival. A flow is present until `V` reaches the `F` of its last packet.
//!
//! The clock is driven by work: the fluid server serves what the link sends. Both are
//! work-conserving, so they become empty together, whatever the rounding to nanoseconds.
//! `ReferenceFluid` is this fluid server beside a link. [`Fluid`](fluid::Fluid) is a separate
//! server, driven by time, with which tests and meters compare a discipline.
//!
//! Work is counted in units of about `2^-63` bytes. Tags are exact, and work that is too small to
//! advance `V` is kept, so `V` is the exact virtual time rounded down. If the weights have no small
//! common multiple, a packet counts as longer than it is by a factor of at most about `1 + w/2^63`,
//! both on the link and in the fluid system.

pub(crate) mod clock;
pub mod fluid;
pub(crate) mod reference;
mod work;

#[cfg(test)]
mod tests {
    use super::clock::{Gps, Work};
    use super::fluid::Fluid;
    use crate::contract::params::{FlowSetup, Setup, Value, Values};
    use crate::mechanisms::weights::Shares;
    use crate::queues::queue::{FlowId, Limit};
    use crate::units::rate::Rate;
    use crate::units::time::Time;

    fn setup(weights: &[u64]) -> Setup {
        let flow = |&w: &u64| FlowSetup {
            values: Values::default().with("weight", Value::Count(w)),
            limit: Limit::Packets(100),
            inner: None,
        };
        let flows = weights.iter().map(flow).collect();
        // A byte takes 1000 ns.
        Setup { rate: Rate::from_mbit(8), largest: 1500, scheduler: Values::default(), flows }
    }

    /// Weights 2, 1, 1. Computed by hand: until C arrives at 1, A gets 2/3 and B 1/3 of the link;
    /// from then on A gets 1/2, B and C 1/4 each.
    #[test]
    fn a_fluid_serves_all_at_once() {
        let mut fluid = Fluid::new(&setup(&[2, 1, 1])).unwrap();
        let (a, b, c) = (FlowId(0), FlowId(1), FlowId(2));
        for bytes in [2, 2, 2, 2] {
            fluid.arrive(a, bytes, Time(0));
        }
        for bytes in [4, 1, 3] {
            fluid.arrive(b, bytes, Time(0));
        }
        fluid.advance(Time(1000));
        assert_eq!(
            (fluid.served(a), fluid.served(b)),
            (0, 0),
            "two thirds and one third of a byte"
        );
        fluid.arrive(c, 3, Time(1000));
        fluid.arrive(c, 3, Time(1000));
        fluid.advance(Time(30_000));
        // A has 8 B: 2/3 B are served by time 1, then half a byte per byte time; the other 22/3 B
        // take until 47/3. B: 1/3 B by time 1, then a quarter; its first 4 B end at 47/3 too, when
        // A is done. Then B and C get half each until C's last 7/3 B are served, at 61/3. After
        // that, B has the whole link.
        let finish = |n| fluid.finish(n).unwrap().0;
        assert_eq!([0, 1, 2, 3].map(finish), [3_667, 7_667, 11_667, 15_667]);
        assert_eq!([4, 5, 6].map(finish), [15_667, 17_667, 22_000]);
        assert_eq!([7, 8].map(finish), [13_000, 20_334]);
        assert_eq!((fluid.start(5), fluid.start(7)), (Some(Time(15_667)), Some(Time(1_000))));
    }

    /// Virtual time is the exact value rounded down, through all changes of weights.
    #[test]
    fn no_work_is_lost() {
        let setup = setup(&[3, 7, 65_535, 1]);
        let shares = Shares::new(&setup, "").unwrap();
        let mut gps = Gps::new(&shares);
        let mut dice = 1u64;
        let mut roll = |n: u64| {
            dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) % n
        };
        let mut owed = 0;
        for _ in 0..200_000 {
            let f = FlowId(roll(4) as u32);
            let bytes = 1 + roll(1500) as u32;
            gps.arrive(f, bytes);
            owed += gps.work(f, bytes);
            let work = owed.min(Work::from(roll(4_000)) * Work::from(shares.byte()) / 3);
            gps.serve(work);
            owed -= work;
            let left = |f: usize| {
                gps.flows[f].finish.saturating_sub(gps.now) * Work::from(gps.flows[f].weight)
            };
            let fluid: Work = (0..4).map(left).sum();
            assert_eq!(fluid, owed + gps.rest, "all that came and was not served is still there");
            assert_eq!(gps.present.is_empty(), owed == 0);
        }
    }
}
