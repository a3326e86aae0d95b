//! What passes, written down.

use super::Forwarder;
use super::recorder::Recorder;
use super::units::{UnitPacket, UnitStore};
use crate::backend::frame;
use crate::backend::tap::Tap;
use falaj_engine::ecn;
use falaj_engine::message::Corrupt;
use falaj_sched::units::label::Ecn;
use falaj_traffic::capture::{self, Verdict};

impl Forwarder {
    /// Gives the recorder back, when it has noted what is still queued.
    pub fn stop_recording(&mut self) -> Option<Recorder> {
        let mut recorder = self.recorder.take()?;
        for (handle, packet) in self.units.undecided() {
            let before = OriginalBits { turned: &[], ecn: self.marked.remove(&handle) };
            let rules = self.network.has_rules();
            record(
                &mut recorder,
                &self.units,
                packet,
                Verdict::Waiting,
                (rules, before),
                &mut self.cut,
            );
        }
        Some(recorder)
    }
}

/// What a packet was like when it came.
#[derive(Default)]
pub(super) struct OriginalBits<'a> {
    /// Bits that were turned.
    pub(super) turned: &'a [Corrupt],
    /// Its ECN bits, where it was marked.
    pub(super) ecn: Option<Ecn>,
}

/// Writes down what became of a packet of an Ethernet port, as it came in: before these bits of it
/// were turned, and before it was marked. Where there are rules, with what they ask about it.
pub(super) fn record(
    recorder: &mut Recorder,
    units: &UnitStore,
    packet: UnitPacket,
    verdict: Verdict,
    (rules, OriginalBits { turned, ecn }): (bool, OriginalBits<'_>),
    cut: &mut Vec<u8>,
) {
    let UnitPacket { unit, index, number, arrival, flow, bytes } = packet;
    let way = units.port(unit) as u32;
    let mut frame =
        units.part(unit, index, index + 1, cut).get(Tap::VNET_HEADER..).unwrap_or_default();
    let mut whole = Vec::new();
    if !turned.is_empty() || ecn.is_some() {
        whole.extend_from_slice(frame);
        turned.iter().for_each(|corrupt| corrupt.turn(&mut whole));
        ecn.into_iter().for_each(|before| ecn::mark_ethernet(&mut whole, before));
        frame = &whole;
    }
    let (length, part) = (Some(frame::length(frame)), rules.then_some(index));
    recorder.take(
        &capture::Taken { number, way, flow: flow.0, bytes, length, part, arrival, verdict },
        frame,
    );
}
