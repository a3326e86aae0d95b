//! Captures of passing packets.

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
    /// Returns the recorder, after it has recorded the packets that are still queued.
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

/// The original bits of a packet.
#[derive(Default)]
pub(super) struct OriginalBits<'a> {
    /// The bits that were flipped.
    pub(super) turned: &'a [Corrupt],
    /// The packet's ECN bits before it was marked, if it was marked.
    pub(super) ecn: Option<Ecn>,
}

/// Records the fate of a packet of an Ethernet port in its original form: before its bits were
/// flipped, and before it was marked. With rules, the packet's index in its unit is recorded too.
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
        turned.iter().for_each(|corrupt| corrupt.flip(&mut whole));
        ecn.into_iter().for_each(|before| ecn::mark_ethernet(&mut whole, before));
        frame = &whole;
    }
    let (length, part) = (Some(frame::length(frame)), rules.then_some(index));
    recorder.take(
        &capture::Taken { number, way, flow: flow.0, bytes, length, part, arrival, verdict },
        frame,
    );
}
