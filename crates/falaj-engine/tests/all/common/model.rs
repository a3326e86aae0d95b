//! The virtual-link servers by definition, from nanosecond to nanosecond: slow, plain, and sharing
//! no code with the disciplines.

use super::Arrival;
use falaj_engine::pipe::PipeSpec;
use falaj_sched::queues::queue::Limit;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    pub handle: u32,
    pub flow: usize,
    pub arrival: u64,
    pub start: u64,
    pub end: u64,
    /// True if it found its queue empty and enough of its phase left for itself.
    pub hot: bool,
}

struct Packet {
    handle: u32,
    bytes: u32,
    at: u64,
    hot: bool,
}

struct Line<'a> {
    spec: &'a PipeSpec,
    arrivals: &'a [Arrival],
    next: usize,
    queues: Vec<VecDeque<Packet>>,
    departures: Vec<Departure>,
}

impl Line<'_> {
    fn new<'a>(spec: &'a PipeSpec, arrivals: &'a [Arrival]) -> Line<'a> {
        Line {
            spec,
            arrivals,
            next: 0,
            queues: spec.setup.flows.iter().map(|_| VecDeque::new()).collect(),
            departures: Vec::new(),
        }
    }
    fn next_at(&self) -> Option<u64> {
        self.arrivals.get(self.next).map(|a| a.at.0)
    }
    /// Admits the next packet if there is room; returns its flow.
    fn admit(&mut self, left: impl Fn(usize) -> Option<u64>) -> usize {
        let a = self.arrivals[self.next];
        let f = a.flow.index();
        let queue = &mut self.queues[f];
        let fits = match self.spec.setup.flows[f].limit {
            Limit::Packets(n) => queue.len() < n as usize,
            Limit::Bytes(n) => {
                queue.iter().map(|p| u64::from(p.bytes)).sum::<u64>() + u64::from(a.bytes) <= n
            }
        };
        if fits {
            let hot =
                queue.is_empty() && left(f).is_some_and(|left| left >= u64::from(a.bytes) * 8);
            queue.push_back(Packet { handle: self.next as u32, bytes: a.bytes, at: a.at.0, hot });
        }
        self.next += 1;
        f
    }
    fn tx(&self, f: usize) -> Option<u64> {
        self.queues[f].front().map(|p| u64::from(p.bytes) * 8)
    }
    fn nobody(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }
    /// Sends the head of `f` from `t` on; packets that arrive meanwhile find it in the queue.
    fn send(&mut self, f: usize, t: u64, left: impl Fn(usize) -> Option<u64>) -> u64 {
        let end = t + self.tx(f).unwrap();
        while self.next_at().is_some_and(|at| at < end) {
            self.admit(&left);
        }
        let p = self.queues[f].pop_front().unwrap();
        self.departures.push(Departure {
            handle: p.handle,
            flow: f,
            arrival: p.at,
            start: t,
            end,
            hot: p.hot,
        });
        end
    }
}

fn phase(spec: &PipeSpec, f: usize) -> u64 {
    spec.setup.flows[f].values.span("phase").unwrap().0
}
fn is_a(spec: &PipeSpec, f: usize) -> bool {
    spec.setup.flows[f].values.choice("kind") == Some("A")
}
fn skips_tail(spec: &PipeSpec) -> bool {
    spec.setup.scheduler.choice("tail") != Some("wait")
}
fn carries_tail(spec: &PipeSpec) -> bool {
    spec.setup.scheduler.choice("tail") == Some("carry")
}
fn lends(spec: &PipeSpec, f: usize) -> bool {
    spec.setup.flows[f].values.choice("lend") == Some("yes")
}

pub fn phase_wise(spec: &PipeSpec, arrivals: &[Arrival]) -> Vec<Departure> {
    let n = spec.setup.flows.len();
    let mut line = Line::new(spec, arrivals);
    let (mut t, mut i, mut end, mut empty_phases) = (0, 0, phase(spec, 0), 0);
    loop {
        if line.nobody() && line.next_at().is_none() {
            return line.departures;
        }
        let over = match line.tx(i) {
            Some(tx) if end - t >= tx => {
                t = line.send(i, t, |_| None);
                empty_phases = 0;
                false
            }
            Some(_) if skips_tail(spec) => true,
            Some(_) => {
                while line.next_at().is_some_and(|at| at < end) {
                    line.admit(|_| None);
                }
                t = end;
                true
            }
            None if !is_a(spec, i) => true,
            None => {
                while line.tx(i).is_none() && line.next_at().is_some_and(|at| at < end) {
                    t = line.next_at().unwrap();
                    line.admit(|_| None);
                }
                if line.tx(i).is_none() {
                    t = end;
                }
                line.tx(i).is_none()
            }
        };
        if over {
            empty_phases = if end > t && line.nobody() { empty_phases + 1 } else { 0 };
            i = (i + 1) % n;
            if empty_phases > n {
                // All are of type B and have nothing to send: continue with the next packet.
                t = line.next_at().unwrap();
                line.admit(|_| None);
                empty_phases = 0;
            }
            end = t + phase(spec, i);
        }
    }
}

/// Variants of the packet-wise model.
#[derive(Clone, Copy)]
pub struct Variant {
    pub paper: bool,
    /// True if a packet that arrives for a link that is still alive ends the wait at the end of a
    /// cycle. A link is alive until it may send no more in this cycle. While a link of type A is
    /// alive, such a packet ends the wait in either case.
    pub interrupt: bool,
}

/// Departures, and the instants at which cycles began.
pub fn packet_wise(
    spec: &PipeSpec,
    arrivals: &[Arrival],
    variant: Variant,
) -> (Vec<Departure>, Vec<u64>) {
    let n = spec.setup.flows.len();
    let mut line = Line::new(spec, arrivals);
    let mut began = Vec::new();
    let (mut t, mut last) = (0, n - 1);
    let (mut served_last, mut rotating) = (n - 1, n - 1);
    let mut carried = vec![0; n];
    loop {
        // A cycle begins.
        began.push(t);
        let mut res: Vec<u64> =
            (0..n).map(|f| phase(spec, f) + std::mem::take(&mut carried[f])).collect();
        let mut alive = vec![true; n];
        let (mut debt, mut first) = (0, true);
        match spec.setup.scheduler.choice("start") {
            Some("rotate") => {
                rotating = (rotating + 1) % n;
                last = rotating;
            }
            Some("second") => last = 0,
            None if variant.paper => last = 0,
            _ => {}
        }
        'cycle: loop {
            if line.nobody() && line.next_at().is_none() {
                return (line.departures, began);
            }
            for i in 0..n {
                if alive[i] && line.tx(i).is_some_and(|tx| res[i] < tx) {
                    alive[i] = false;
                    debt += if skips_tail(spec) { 0 } else { res[i] };
                    carried[i] = if carries_tail(spec) { res[i] } else { 0 };
                    res[i] = 0;
                }
            }
            let can = (0..n).any(|i| alive[i] && line.tx(i).is_some());
            let mut served = false;
            for step in 1..=n {
                let k = (last + step) % n;
                if !alive[k] {
                    continue;
                }
                if let Some(tx) = line.tx(k) {
                    let hot = |f: usize| {
                        if alive[f] {
                            Some(if f == k { res[f] - tx } else { res[f] })
                        } else {
                            None
                        }
                    };
                    t = line.send(k, t, hot);
                    res[k] -= tx;
                    alive[k] = res[k] > 0;
                    (last, first, served, served_last) = (k, false, true, k);
                    break;
                } else if !is_a(spec, k) {
                    let kept = variant.paper && (k == last || (first && !can));
                    alive[k] &= kept;
                } else if !can && variant.paper {
                    break;
                }
            }
            if served {
                continue 'cycle;
            }
            let any_a = (0..n).any(|i| alive[i] && is_a(spec, i));
            if !any_a && debt == 0 {
                break 'cycle;
            }
            let deaf = !any_a && !variant.interrupt;
            let pays = |i: usize| variant.paper || is_a(spec, i);
            let mut payers: Vec<usize> = (0..n).filter(|&i| any_a && alive[i] && pays(i)).collect();
            let mut turn = 0;
            'idle: loop {
                // A link that is done for this cycle may send in this time.
                let free =
                    (0..n).any(|i| lends(spec, i)) && (0..n).all(|i| !alive[i] || lends(spec, i));
                let borrower = free.then(|| {
                    let idle = debt + payers.iter().map(|&i| res[i]).sum::<u64>();
                    let mut ring = (1..=n).map(|step| (served_last + step) % n);
                    ring.find(|&k| line.tx(k).is_some_and(|tx| tx <= idle))
                });
                if let Some(k) = borrower.flatten() {
                    served_last = k;
                    let end = line.send(k, t, |_| None);
                    while t < end {
                        t += 1;
                        if debt > 0 {
                            debt -= 1;
                            turn = if debt == 0 { 0 } else { turn };
                        } else if !payers.is_empty() {
                            let payer = payers[turn % payers.len()];
                            turn += 1;
                            res[payer] -= 1;
                            if res[payer] == 0 {
                                alive[payer] = false;
                                payers.retain(|&i| i != payer);
                                turn = 0;
                                // Without a link of type A the cycle is over, whatever time other
                                // links have left.
                                if !payers.iter().any(|&i| is_a(spec, i)) {
                                    payers.clear();
                                }
                            }
                        }
                    }
                    break 'idle;
                }
                if line.next_at() == Some(t) {
                    let f = line.admit(|f| if alive[f] { Some(res[f]) } else { None });
                    if alive[f] && line.tx(f).is_some() && !deaf {
                        break;
                    }
                    continue;
                }
                t += 1;
                if debt > 0 {
                    debt -= 1;
                    if debt == 0 && deaf {
                        break 'cycle;
                    }
                    if debt == 0 {
                        break;
                    }
                } else {
                    let payer = payers[turn % payers.len()];
                    turn += 1;
                    res[payer] -= 1;
                    if res[payer] == 0 {
                        alive[payer] = false;
                        break;
                    }
                }
                if line.nobody() && line.next_at().is_none() {
                    return (line.departures, began);
                }
            }
        }
        if line.nobody() && began.last() == Some(&t) {
            // A cycle of no length: continue with the next packet, with a cycle of its own.
            let Some(at) = line.next_at() else { return (line.departures, began) };
            t = at;
            rotating = (rotating + n - 1) % n;
            line.admit(|f| Some(phase(spec, f)));
        }
    }
}
