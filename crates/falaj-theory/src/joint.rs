//! Arrival curves of several flows that pass a server together.
//!
//! Flows that leave a server for the same next server count as one flow there. The other flows of
//! the server leave over a service for this set of flows together. The common output of the set
//! follows from this service. Let the server have the rate `R` and the latency `T`, and let the
//! other flows have the burst `b'`. Flows that arrive with the burst `b` and the rate `r` together
//! then leave with a burst of at most `b + r (T + b'/R)`. If each flow counts by itself, it also
//! waits for the bursts of all flows that it leaves with, so the sum of the flows' own curves is
//! higher.

use crate::curve::{Curve, Exact};
use crate::network::{CurvesByHop, Network, Order};
use std::collections::BTreeMap;

/// Maximum number of sets of flows for which a curve is kept. Further sets have no joint curve.
const MOST_SETS: usize = 4_000;

/// The output curves that are known, by server and set of flows.
#[derive(Default)]
pub(crate) struct JointOutputs {
    known: BTreeMap<(usize, Vec<usize>), Option<Curve>>,
}

/// The servers that have been analysed: the curve of each flow at each hop, and the delays.
#[derive(Clone, Copy)]
pub(crate) struct AnalysedServers<'a> {
    pub(crate) network: &'a Network,
    pub(crate) comes: &'a CurvesByHop,
    pub(crate) delays: &'a [Option<Exact>],
}

impl JointOutputs {
    /// An arrival curve of these flows together at a server that they all pass; `None` if the curve
    /// of one of them is unknown.
    pub(crate) fn input(
        &mut self,
        of: AnalysedServers<'_>,
        server: usize,
        flows: &[usize],
    ) -> Option<Curve> {
        let AnalysedServers { network, comes, .. } = of;
        let hop = |f: usize| network.flows[f].path.iter().position(|s| *s == server);
        let mut groups: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
        for &f in flows {
            let before = hop(f)?.checked_sub(1).map(|before| network.flows[f].path[before]);
            groups.entry(before).or_default().push(f);
        }
        let mut by_line: BTreeMap<Option<usize>, Curve> = BTreeMap::new();
        for (before, group) in groups {
            let mut sum = Curve::zero();
            for &f in &group {
                sum = sum.sum(comes[f][hop(f)?].as_ref()?);
            }
            let joint = before.and_then(|before| self.output(of, before, &group));
            let came = joint.map_or_else(|| sum.clone(), |joint| joint.min(&sum));
            let line = before.and_then(|before| network.servers[before].line);
            let all = by_line.entry(line).or_insert_with(Curve::zero);
            *all = all.sum(&came);
        }
        let shaped = by_line.iter().map(|(line, sum)| network.shaped(*line, sum));
        Some(shaped.fold(Curve::zero(), |all, part| all.sum(&part)))
    }

    /// The output curve of these flows together behind a server.
    fn output(&mut self, of: AnalysedServers<'_>, server: usize, flows: &[usize]) -> Option<Curve> {
        let key = (server, flows.to_vec());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        if self.known.len() >= MOST_SETS {
            return None;
        }
        let others: Vec<usize> = of.network.through(server).map(|(f, _)| f).collect();
        let others: Vec<usize> = others.into_iter().filter(|f| !flows.contains(f)).collect();
        let output = self.input(of, server, flows).and_then(|came| {
            let service = &of.network.servers[server].service;
            let left = self.input(of, server, &others).and_then(|others| match of.network.order {
                Order::Fifo => service.left_over_in_order(&others),
                Order::Any => Some(service.left_over(&others)),
            });
            let served = left.and_then(|left| came.deconvolve(&left));
            let delayed = of.delays[server].as_ref().map(|delay| came.earlier(delay));
            served.into_iter().chain(delayed).reduce(|a, b| a.min(&b))
        });
        let output = output.map(Curve::with_short_numbers);
        self.known.insert(key, output.clone());
        output
    }
}
