//! Batches compared with a naive model, with the formula for Poisson arrivals, and under arbitrary
//! bytes.

use falaj_engine::batch::tuning::{EpochStats, PolicyChooser};
use falaj_engine::batch::{
    ADDRESS, Batch, BatchError, BatchPolicy, FlushReason, LENGTH, MOST_OPEN, MalformedBatch,
    Packer, PolicyError, unpack,
};
use falaj_engine::chance::Chance;
use falaj_sched::units::time::{Span, Time};
use proptest::prelude::*;
use rand_core::Rng;
use std::sync::{Arc, Mutex};

/// A batch that left, with its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Gone {
    packets: Vec<Vec<u8>>,
    opened: Time,
    left: Time,
    why: FlushReason,
}

fn gone(batch: Batch<'_>, before: usize) -> Gone {
    let packets: Vec<Vec<u8>> = unpack(batch.bytes)
        .unwrap()
        .map(|packet| {
            let packet = packet.unwrap();
            let mut whole = vec![0; packet.rest.len() + ADDRESS];
            assert_eq!(packet.write(before, &mut whole), Ok(whole.len()));
            whole
        })
        .collect();
    assert_eq!(packets.len(), batch.packets as usize);
    Gone { packets, opened: batch.opened, left: batch.left, why: batch.why }
}

/// The behavior of the packer in its plainest form: open batches in the order in which they were
/// opened.
struct Naive {
    policy: BatchPolicy,
    before: usize,
    open: Vec<Gone>,
    gone: Vec<Gone>,
}

impl Naive {
    fn leave(&mut self, i: usize, left: Time, why: FlushReason) {
        let open = self.open.remove(i);
        self.gone.push(Gone { left, why, ..open });
    }

    fn bytes(&self, open: &Gone) -> usize {
        ADDRESS + open.packets.iter().map(|p| LENGTH + p.len() - ADDRESS).sum::<usize>()
    }

    fn poll(&mut self, now: Time) {
        // With one timeout for all, the oldest is due first.
        while self.open.first().is_some_and(|open| open.opened + self.policy.timeout <= now) {
            let due = self.open[0].opened + self.policy.timeout;
            self.leave(0, due, FlushReason::Timeout);
        }
    }

    fn offer(&mut self, packet: &[u8], now: Time) -> Result<(), BatchError> {
        self.poll(now);
        if packet.len() < self.before + ADDRESS {
            return Err(BatchError::Short);
        }
        if LENGTH + packet.len() > self.policy.bytes as usize {
            return Err(BatchError::Long);
        }
        let to = |p: &[u8]| p[self.before..self.before + ADDRESS].to_vec();
        let mine = self.open.iter().position(|open| to(&open.packets[0]) == to(packet));
        let full = |i: usize| {
            self.bytes(&self.open[i]) + LENGTH + packet.len() - ADDRESS > self.policy.bytes as usize
        };
        let i = match mine {
            Some(i) if !full(i) => i,
            other => {
                if let Some(i) = other {
                    self.leave(i, now, FlushReason::Full);
                }
                self.open.push(Gone {
                    packets: Vec::new(),
                    opened: now,
                    left: now,
                    why: FlushReason::Full,
                });
                self.open.len() - 1
            }
        };
        self.open[i].packets.push(packet.to_vec());
        if self.open[i].packets.len() == self.policy.packets as usize {
            self.leave(i, now, FlushReason::Full);
        }
        Ok(())
    }

    fn all(&mut self, now: Time, why: FlushReason) {
        self.poll(now);
        while !self.open.is_empty() {
            self.leave(0, now, why);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A packet to this destination, of this length, this number of nanoseconds later.
    Offer(u8, usize, u64),
    Poll(u64),
    Idle,
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0u8..4, 0usize..70, 0u64..40)
            .prop_map(|(to, length, gap)| Step::Offer(to, length, gap)),
        2 => (0u64..120).prop_map(Step::Poll),
        1 => Just(Step::Idle),
        1 => Just(Step::Flush),
    ];
    prop::collection::vec(step, 1..200)
}

fn policies() -> impl Strategy<Value = BatchPolicy> {
    (1u32..8, 9u32..200, prop_oneof![1u64..150, Just(u64::MAX)], any::<bool>())
        .prop_map(|(packets, bytes, timeout, when_idle)| BatchPolicy {
            packets,
            bytes,
            timeout: Span(timeout),
            when_idle,
        })
        .prop_filter("it leaves some time", |policy| policy.check().is_ok())
}

/// Applies policies in turn, and records the statistics.
#[derive(Debug)]
struct InTurn {
    policies: Vec<BatchPolicy>,
    seen: Arc<Mutex<Vec<EpochStats>>>,
}

impl PolicyChooser for InTurn {
    fn choose(&mut self, seen: &EpochStats, _: BatchPolicy) -> BatchPolicy {
        let mut all = self.seen.lock().unwrap();
        all.push(*seen);
        self.policies[all.len() % self.policies.len()]
    }
}

proptest! {
    #[test]
    fn the_packer_does_what_a_naive_one_does(
        policy in policies(),
        steps in steps(),
        before in 0usize..13,
    ) {
        let mut packer = Packer::new(policy, before).unwrap();
        let mut naive = Naive { policy, before, open: Vec::new(), gone: Vec::new() };
        let (mut out, mut now) = (Vec::new(), Time::ZERO);
        for (number, step) in steps.into_iter().enumerate() {
            let mut left = |c: Batch<'_>| {
                assert!(c.bytes.len() <= policy.bytes as usize);
                out.push(gone(c, before));
            };
            match step {
                Step::Offer(to, length, gap) => {
                    now += Span(gap);
                    let mut packet: Vec<u8> = (0..length).map(|i| (i * 7 + number) as u8).collect();
                    if let Some(address) = packet.get_mut(before..before + ADDRESS) {
                        address.fill(to);
                    }
                    prop_assert_eq!(
                        packer.offer(&packet, now, &mut left),
                        naive.offer(&packet, now)
                    );
                }
                Step::Poll(gap) => {
                    now += Span(gap);
                    packer.poll(now, &mut left);
                    naive.poll(now);
                }
                Step::Idle => {
                    packer.idle(now, &mut left);
                    if policy.when_idle {
                        naive.all(now, FlushReason::Idle);
                    }
                }
                Step::Flush => {
                    packer.flush(now, &mut left);
                    naive.all(now, FlushReason::Flushed);
                }
            }
            prop_assert_eq!(&out, &naive.gone);
            let due = naive.open.first().map_or(Time::NEVER, |open| open.opened + policy.timeout);
            prop_assert_eq!(packer.next_due(), due);
            prop_assert_eq!(packer.is_empty(), naive.open.is_empty());
        }
    }

    /// However often the packer is polled, batches leave at the same instants with the same
    /// packets.
    #[test]
    fn polling_changes_nothing(
        policy in policies(),
        gaps in prop::collection::vec(0u64..90, 1..80),
        polls in any::<u64>(),
    ) {
        let run = |polled: bool| {
            let (mut packer, mut out, mut now) =
                (Packer::new(policy, 0).unwrap(), Vec::new(), Time::ZERO);
            for (i, gap) in gaps.iter().enumerate() {
                for step in 0..*gap {
                    if polled && polls >> ((i as u64 + step) % 64) & 1 == 1 {
                        packer.poll(now + Span(step), &mut |c| out.push(gone(c, 0)));
                    }
                }
                now += Span(*gap);
                let _ = packer.offer(&[(i % 3) as u8; 14], now, &mut |c| out.push(gone(c, 0)));
            }
            packer.flush(now, &mut |c| out.push(gone(c, 0)));
            out
        };
        prop_assert_eq!(run(false), run(true));
    }

    /// A change loses nothing, and open batches follow the new policy.
    #[test]
    fn a_change_loses_nothing(
        policies in prop::collection::vec(policies(), 1..6),
        gaps in prop::collection::vec(0u64..30, 1..120),
    ) {
        let mut packer = Packer::new(policies[0], 0).unwrap();
        let (mut out, mut offered, mut now) = (Vec::new(), Vec::new(), Time::ZERO);
        for (i, gap) in gaps.iter().enumerate() {
            now += Span(*gap);
            if i % 7 == 3 {
                let policy = policies[i % policies.len()];
                packer.change(policy, now, &mut |c| out.push(gone(c, 0))).unwrap();
                prop_assert!(packer.next_due() > now);
                prop_assert_eq!(packer.policy(), policy);
            }
            let packet = vec![i as u8; ADDRESS + i % 20];
            if packer.offer(&packet, now, &mut |c| out.push(gone(c, 0))).is_ok() {
                offered.push(packet);
            }
        }
        packer.flush(now, &mut |c| out.push(gone(c, 0)));
        let mut came: Vec<Vec<u8>> = out.into_iter().flat_map(|gone| gone.packets).collect();
        came.sort();
        offered.sort();
        prop_assert_eq!(came, offered);
    }

    /// The same holds if the policy is chosen anew after each epoch: however often the packer is
    /// polled, the epochs have the same statistics, each packet and each batch is counted once, and
    /// batches leave at the same instants.
    #[test]
    fn epochs_do_not_depend_on_polling(
        choices in prop::collection::vec(policies(), 1..5),
        gaps in prop::collection::vec(0u64..400, 1..80),
        polls in any::<u64>(),
    ) {
        let run = |polled: bool| {
            let seen = Arc::new(Mutex::new(Vec::new()));
            let chooser = InTurn { policies: choices.clone(), seen: Arc::clone(&seen) };
            let mut packer =
                Packer::new(choices[0], 0).unwrap().tuned(Box::new(chooser), Span(7), 10);
            let (mut out, mut offered, mut now) = (Vec::new(), 0, Time::ZERO);
            for (i, gap) in gaps.iter().enumerate() {
                for step in 0..*gap {
                    if polled && polls >> ((i as u64 + step) % 64) & 1 == 1 {
                        packer.poll(now + Span(step), &mut |c| out.push((gone(c, 0), c.waited)));
                    }
                }
                now += Span(*gap);
                let taken = packer
                    .offer(&[(i % 3) as u8; 14], now, &mut |c| out.push((gone(c, 0), c.waited)));
                offered += u64::from(taken.is_ok());
            }
            packer.flush(now, &mut |c| out.push((gone(c, 0), c.waited)));
            // The last epoch ends, and none begins.
            packer.poll(now + Span(1000), &mut |_| unreachable!("nothing is left"));
            let seen = seen.lock().unwrap().clone();
            (out, seen, offered)
        };
        let (out, seen, offered) = run(false);
        let sum = |of: fn(&EpochStats) -> u64| seen.iter().map(of).sum::<u64>();
        prop_assert_eq!(sum(|s| s.packets), offered);
        prop_assert_eq!(sum(|s| s.bytes), 14 * offered);
        prop_assert_eq!((sum(|s| s.carried), sum(|s| s.batches)), (offered, out.len() as u64));
        prop_assert_eq!(sum(|s| s.waited.0), out.iter().map(|(_, waited)| waited.0).sum::<u64>());
        prop_assert!(
            seen.iter().all(|s| s.slots == 10 && s.span == Span(70) && s.squares >= s.packets)
        );
        prop_assert_eq!((out, seen, offered), run(true));
    }

    /// Whatever bytes a batch has, unpacking ends, and packets contain bytes of the batch only.
    #[test]
    fn a_hostile_batch_costs_its_own_packets(
        bytes in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..300),
        before in 0usize..13,
    ) {
        hostile(&bytes, before);
    }
}

/// Unpacks an arbitrary batch: a plain function, for any fuzzer.
pub(crate) fn hostile(bytes: &[u8], before: usize) {
    let Ok(packets) = unpack(bytes) else {
        assert!(bytes.len() < ADDRESS);
        return;
    };
    let (mut used, mut buffer) = (ADDRESS, vec![0; 300]);
    let mut failed = false;
    for packet in packets {
        assert!(!failed, "nothing comes after an error");
        match packet {
            Ok(packet) => {
                assert_eq!(packet.rest, &bytes[used + LENGTH..used + LENGTH + packet.rest.len()]);
                used += LENGTH + packet.rest.len();
                let wrote = packet.write(before, &mut buffer);
                assert_eq!(
                    wrote.is_ok(),
                    packet.rest.len() >= before && packet.rest.len() + ADDRESS <= buffer.len()
                );
            }
            Err(why) => {
                failed = true;
                let left = bytes.len() - used;
                assert_eq!(
                    why,
                    if left < LENGTH { MalformedBatch::NoLength } else { MalformedBatch::TooLong }
                );
            }
        }
    }
    assert!(failed || used == bytes.len());
}

/// With an endless number of destinations the open batches stay at their maximum number: the oldest
/// batch leaves to make room.
#[test]
fn random_destinations_cost_no_memory() {
    let policy =
        BatchPolicy { packets: 9, bytes: 4096, timeout: Span::from_secs(1), when_idle: false };
    let mut packer = Packer::new(policy, 0).unwrap();
    let mut left = Vec::new();
    for i in 0..3 * MOST_OPEN as u64 {
        let mut packet = [0; 14];
        packet[..8].copy_from_slice(&(i << 16).to_be_bytes());
        packer.offer(&packet, Time(i), &mut |c| left.push((c.opened, c.why))).unwrap();
    }
    let oldest: Vec<_> =
        (0..2 * MOST_OPEN as u64).map(|i| (Time(i), FlushReason::Flushed)).collect();
    assert_eq!(left, oldest);
}

#[test]
fn nonsense_is_refused() {
    let policy =
        BatchPolicy { packets: 62, bytes: 4096, timeout: Span::from_micros(200), when_idle: false };
    assert_eq!(policy.check(), Ok(policy));
    assert_eq!(BatchPolicy { packets: 0, ..policy }.check(), Err(PolicyError::Empty));
    assert_eq!(BatchPolicy { bytes: 8, ..policy }.check(), Err(PolicyError::TooShort));
    assert_eq!(BatchPolicy { timeout: Span::MAX, ..policy }.check(), Err(PolicyError::Stays));
    assert!(BatchPolicy { timeout: Span::MAX, when_idle: true, ..policy }.check().is_ok());
    assert!(BatchPolicy::one_by_one(100).check().is_ok());
}

/// Simulated Poisson arrivals fill batches by the formula: the mean wait of a packet is
/// `sum j P(j) / rate / E[size]`. `E[size] = 1 + sum P(j)` is the mean number of packets in a
/// batch, and `P(j)` the probability of `j` or more arrivals within the timeout.
#[test]
fn batches_fill_as_the_formula_says() {
    for most in [8u32, 62, 160] {
        for timeout in [50_000u64, 200_000, 1 << 40] {
            for kpps in [10.0, 100.0, 400.0, 1600.0] {
                let rate = kpps * 1e-6;
                let policy = BatchPolicy {
                    packets: most,
                    bytes: 1 << 16,
                    timeout: Span(timeout),
                    when_idle: false,
                };
                let mut packer = Packer::new(policy, 0).unwrap();
                let mut chance = Chance::new(7, most.into(), timeout);
                let (mut at, mut came, mut waited, mut batches) = (0.0, 0.0, 0.0, 0u32);
                let packets = 200_000;
                for _ in 0..packets {
                    // Uniform on (0, 1].
                    let unit = ((chance.next_u64() >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
                    at -= unit.ln() / rate;
                    let now = Time(at as u64);
                    let mut left = |c: Batch<'_>| {
                        batches += 1;
                        waited += c.left.0 as f64 * f64::from(c.packets);
                    };
                    packer.offer(&[1; 60], now, &mut left).unwrap();
                    came += now.0 as f64;
                }
                packer.flush(Time(at as u64), &mut |c| {
                    waited += c.left.0 as f64 * f64::from(c.packets);
                });
                let mean = rate * timeout as f64;
                let (mut size, mut wait, mut fewer, mut log_of_one) = (1.0, 0.0, 0.0, -mean);
                for j in 1..most {
                    fewer += f64::exp(log_of_one);
                    log_of_one += mean.ln() - f64::from(j).ln();
                    let p = (1.0 - fewer).max(0.0);
                    size += p;
                    wait += f64::from(j) * p;
                }
                let (found, said) = ((waited - came) / f64::from(packets), wait / rate / size);
                assert!(
                    (found / said - 1.0).abs() < 0.015,
                    "{most} {timeout} {kpps}: {found} not {said}"
                );
                let found = f64::from(packets) / f64::from(batches);
                assert!(
                    (found / size - 1.0).abs() < 0.01,
                    "{most} {timeout} {kpps}: {found} in one, not {size}"
                );
            }
        }
    }
}
