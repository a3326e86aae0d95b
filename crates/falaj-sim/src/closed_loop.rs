//! Sources that react to the fate of their packets (TCP connections).

use crate::simulate::Experiment;
use falaj_engine::Output;
use falaj_sched::collections::calendar::Calendar;
use falaj_sched::units::label::Ecn;
use falaj_sched::units::time::Time;
use falaj_traffic::source::Model;
use falaj_traffic::tcp::{Connection, Segment, Transfers};

/// A segment in the network.
#[derive(Clone, Copy)]
struct Underway {
    feed: usize,
    segment: Segment,
    marked: bool,
    /// The random number of a bit error, or 0 if no bit was flipped. The checksum detects a flipped
    /// bit, so the segment does not arrive at the receiver.
    turned: u64,
}

/// The connections of an experiment.
#[derive(Default)]
pub(crate) struct ClosedLoop {
    /// By feed: the connection, and the index of its source in the scenario.
    connections: Vec<Option<(Connection, usize)>>,
    /// Segments in the network, by packet handle.
    packets: Vec<Option<Underway>>,
    /// Feeds whose connection was notified of a packet since the last call of `wake`.
    heard: Vec<usize>,
    /// Transfers counted so far, by source of the scenario.
    told: Vec<Transfers>,
}

/// Returns true if any source of the experiment reacts to the fate of its packets.
pub(crate) fn is_closed(experiment: &Experiment) -> bool {
    experiment.feeds.iter().any(|feed| matches!(feed.source.model, Model::Tcp(_)))
}

impl ClosedLoop {
    pub(crate) fn new(experiment: &Experiment, seed: u64) -> ClosedLoop {
        let connection = |feed: &crate::Feed| match &feed.source.model {
            Model::Tcp(tcp) => {
                let layer = experiment.network.places[feed.pipe.0 as usize].layer;
                let length = layer.to_ip(feed.source.largest());
                let (start, stop) = (feed.source.start, feed.source.stop);
                Some((
                    Connection::new(tcp.clone(), length, start, stop, (seed, feed.stream)),
                    feed.traffic,
                ))
            }
            _ => None,
        };
        let connections: Vec<_> = experiment.feeds.iter().map(connection).collect();
        let sources = experiment.feeds.iter().map(|feed| feed.traffic + 1).max().unwrap_or(0);
        let mut closed =
            ClosedLoop { connections, packets: Vec::new(), heard: Vec::new(), told: Vec::new() };
        closed.told = vec![Transfers::default(); sources];
        closed.count();
        closed
    }

    /// Restarts the counts at the end of the warm-up.
    pub(crate) fn count(&mut self) {
        self.told.iter_mut().for_each(|told| *told = Transfers::default());
        for (_, traffic) in self.connections.iter().flatten() {
            self.told[*traffic].connections += 1;
        }
    }

    /// The time at which this feed wants to send or to be polled; `None` if it is not a connection.
    pub(crate) fn next(&self, feed: usize) -> Option<Time> {
        self.connections.get(feed)?.as_ref().map(|(connection, _)| connection.next())
    }

    /// Polls this feed. Returns `None` if it is not a connection; otherwise the segment that it
    /// sends now, if there is one.
    pub(crate) fn ask(&mut self, feed: usize, now: Time) -> Option<Option<Segment>> {
        let (connection, traffic) = self.connections[feed].as_mut()?;
        Some(connection.ask(now, &mut self.told[*traffic]))
    }

    /// Records that a packet enters the network. `segment` is `None` for a source without feedback.
    pub(crate) fn enters(&mut self, handle: u32, feed: usize, segment: Option<Segment>) {
        let handle = handle as usize;
        if handle >= self.packets.len() {
            self.packets.resize(handle + 1, None);
        }
        self.packets[handle] =
            segment.map(|segment| Underway { feed, segment, marked: false, turned: 0 });
    }

    /// Notifies the packet's connection of the packet's fate.
    pub(crate) fn told(&mut self, output: &Output) {
        let handle = match output {
            Output::Emit(emit) | Output::Copy(emit) => emit.handle,
            Output::Drop(dropped) => dropped.handle,
            Output::Mark(mark) => mark.handle,
            Output::Corrupt(corrupt) => corrupt.handle,
            // Departures are reported once their times are final.
            Output::Early(_) | Output::Retimed(_) => return,
        };
        let Some(place) = self.packets.get_mut(handle as usize) else { return };
        let Some(packet) = place else { return };
        match output {
            Output::Emit(emit) | Output::Copy(emit) => {
                if let (0, Some((connection, _))) =
                    (packet.turned, &mut self.connections[packet.feed])
                {
                    connection.arrives(&packet.segment, emit.arrives(), packet.marked);
                    self.heard.push(packet.feed);
                }
            }
            Output::Mark(mark) => packet.marked = mark.ecn == Ecn::Ce,
            // A bit that was flipped for a copy only is reported again with the same random number,
            // which flips it back.
            Output::Corrupt(corrupt) => packet.turned ^= corrupt.draw | 1,
            Output::Drop(_) | Output::Early(_) | Output::Retimed(_) => {}
        }
        if matches!(output, Output::Emit(_) | Output::Drop(_)) {
            *place = None;
        }
    }

    /// Reschedules the connections that were notified: they may want to be polled sooner.
    pub(crate) fn wake(&mut self, arrivals: &mut Calendar) {
        for feed in self.heard.drain(..) {
            if let Some((connection, _)) = &self.connections[feed] {
                arrivals.set(feed, connection.next());
            }
        }
    }

    /// The transfers of all connections, by source of the scenario.
    pub(crate) fn finish(mut self, end: Time) -> Vec<(usize, Transfers)> {
        for (connection, traffic) in self.connections.iter().flatten() {
            self.told[*traffic].unfinished += u64::from(connection.is_underway(end));
        }
        self.told.into_iter().enumerate().filter(|(_, told)| told.connections > 0).collect()
    }
}
