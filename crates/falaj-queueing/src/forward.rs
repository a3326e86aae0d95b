//! Simulates the whole path packet by packet: driver domain, shared memory, a virtual machine that
//! returns all packets, shared memory again. It includes features that the model omits: timeouts,
//! packets of a batch that reach the virtual machine all at once, a finite queue, loss and jitter.

use crate::batches::Policy;
use crate::line::Service;
use crate::refused::{Refused, positive};
use falaj_engine::chance::Chance;
use falaj_traffic::interval::Estimate;
use rand_distr::{Distribution, Exp1};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// A machine that forwards packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Number of virtual machines, each with its own batches on both sides.
    pub guests: usize,
    /// The rule for filling batches, on both sides.
    pub policy: Policy,
    /// Service of batches, in both directions.
    pub service: Service,
    /// Number of batches that may wait for their service. A batch that arrives at a full
    /// queue is lost.
    pub room: usize,
    /// True if batches of the driver side hold packets of all guests, as in the paper. Otherwise
    /// each guest has its own batches.
    pub shared: bool,
}

/// Delay, jitter and loss of the packets. Confidence intervals are computed from the means of
/// groups of consecutive packets (the method of batch means).
#[derive(Clone, Debug, PartialEq)]
pub struct Forwarded {
    /// Time from the arrival of a packet to its departure, over packets that departed.
    pub delay: Estimate,
    /// The largest value, over all guests and packets, of the jitter smoothed as in RFC 3550 (and
    /// RFC 1889).
    pub jitter: f64,
    /// Fraction of the packets that were lost.
    pub loss: f64,
    /// Packets that departed, per unit of time.
    pub rate: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Event {
    /// A packet arrives for a guest.
    Packet,
    /// The timeout of a batch: its aggregator, and the batch's number there.
    Timeout(usize, u64),
    /// A service ends.
    Served,
}

struct Due(f64, u64, Event);

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
/// The earliest event is the greatest, because the heap returns the greatest first. Of events at
/// the same time, the event that was planned first is the greatest.
impl Ord for Due {
    fn cmp(&self, other: &Due) -> Ordering {
        other.0.total_cmp(&self.0).then(other.1.cmp(&self.1))
    }
}

/// A packet: its arrival time and its guest.
type Packet = (f64, u32);

struct Open {
    packets: Vec<Packet>,
    number: u64,
}

const BATCHES: usize = 40;

struct World {
    machine: Machine,
    due: BinaryHeap<Due>,
    planned: u64,
    /// Open batches: first the batches of the driver side, then those of the guests.
    open: Vec<Open>,
    /// Waiting batches; the first is in service. The flag is true on the way back.
    queue: VecDeque<(bool, Vec<Packet>)>,
    services: Chance,
    lost: u64,
}

impl World {
    fn plan(&mut self, at: f64, event: Event) {
        self.planned += 1;
        self.due.push(Due(at, self.planned, event));
    }

    /// Puts a packet into an aggregator's batch, and sends the batch when it is full.
    fn put(&mut self, now: f64, aggregator: usize, packet: Packet) {
        let open = &mut self.open[aggregator];
        open.packets.push(packet);
        let number = open.number;
        if open.packets.len() >= self.machine.policy.size {
            self.send(now, aggregator);
        } else if open.packets.len() == 1
            && let Some(timeout) = self.machine.policy.timeout
        {
            self.plan(now + timeout, Event::Timeout(aggregator, number));
        }
    }

    fn send(&mut self, now: f64, aggregator: usize) {
        let drivers = self.drivers();
        let open = &mut self.open[aggregator];
        let packets = std::mem::take(&mut open.packets);
        open.number += 1;
        if self.queue.len() > self.machine.room {
            self.lost += packets.len() as u64;
            return;
        }
        self.queue.push_back((aggregator >= drivers, packets));
        if self.queue.len() == 1 {
            self.serve(now);
        }
    }

    fn serve(&mut self, now: f64) {
        if let Some((_, packets)) = self.queue.front() {
            let time = self.machine.service.draw(packets.len() as u64, &mut self.services);
            self.plan(now + time, Event::Served);
        }
    }

    fn drivers(&self) -> usize {
        if self.machine.shared { 1 } else { self.machine.guests }
    }
}

/// Simulates `packets` Poisson packets at a total `rate`. Before them, a tenth of that number of
/// packets is simulated without being counted.
pub fn forward(
    machine: &Machine,
    rate: f64,
    packets: u64,
    seed: u64,
) -> Result<Forwarded, Refused> {
    let rate = positive("the rate of packets", rate)?;
    Policy::new(machine.policy.size, machine.policy.timeout)?;
    if machine.guests == 0 {
        return Err(Refused::Value {
            what: "the number of virtual machines",
            value: 0.0,
            allowed: "1 or more",
        });
    }
    positive("the cost of a batch with one packet", machine.service.mean(1.0))?;
    let mut world = World {
        machine: *machine,
        due: BinaryHeap::new(),
        planned: 0,
        open: Vec::new(),
        queue: VecDeque::new(),
        services: Chance::new(seed, 2, 1),
        lost: 0,
    };
    let drivers = world.drivers();
    world.open =
        (0..drivers + machine.guests).map(|_| Open { packets: Vec::new(), number: 0 }).collect();
    let mut gaps = Chance::new(seed, 1, 1);
    let guests = Chance::new(seed, 3, 1);
    let warm_up = packets / 10;
    let mut came = 0u64;
    let (mut from, mut until, mut lost_before) = (0.0, 0.0, 0);
    let mut delays = Vec::new();
    let (mut last, mut smooth) = (vec![None::<f64>; machine.guests], vec![0.0f64; machine.guests]);
    let mut jitter = 0.0f64;
    let next =
        |chance: &mut Chance| -> f64 { <Exp1 as Distribution<f64>>::sample(&Exp1, chance) / rate };
    let first = next(&mut gaps);
    world.plan(first, Event::Packet);
    while let Some(Due(now, _, event)) = world.due.pop() {
        match event {
            Event::Packet => {
                if came == warm_up {
                    (from, lost_before) = (now, world.lost);
                }
                if came == packets + warm_up {
                    until = now;
                    break;
                }
                let guest = (guests.draw(came) % machine.guests as u64) as u32;
                came += 1;
                let aggregator = if machine.shared { 0 } else { guest as usize };
                world.put(now, aggregator, (now, guest));
                let gap = next(&mut gaps);
                world.plan(now + gap, Event::Packet);
            }
            Event::Timeout(aggregator, number) => {
                if world.open[aggregator].number == number {
                    world.send(now, aggregator);
                }
            }
            Event::Served => {
                let Some((back, batch)) = world.queue.pop_front() else { continue };
                world.serve(now);
                for packet @ (at, guest) in batch {
                    let guest_number = guest as usize;
                    if !back {
                        world.put(now, drivers + guest_number, packet);
                    } else if came > warm_up {
                        let delay = now - at;
                        delays.push(delay);
                        // RFC 3550, 6.4.1: a sixteenth of the difference at a time.
                        if let Some(before) = last[guest_number].replace(delay) {
                            let smooth = &mut smooth[guest_number];
                            *smooth += ((delay - before).abs() - *smooth) / 16.0;
                            jitter = jitter.max(*smooth);
                        }
                    }
                }
            }
        }
    }
    let batch = (delays.len() / BATCHES).max(1);
    let means: Vec<f64> =
        delays.chunks(batch).map(|b| b.iter().sum::<f64>() / b.len() as f64).collect();
    let delay = Estimate::of(&means).ok_or(Refused::Value {
        what: "the number of packets to forward",
        value: packets as f64,
        allowed: "higher: none of the packets departed",
    })?;
    let offered = (until - from) * rate;
    let loss = (world.lost - lost_before) as f64 / offered;
    Ok(Forwarded { delay, jitter, loss, rate: delays.len() as f64 / (until - from) })
}
