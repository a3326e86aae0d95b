//! Units in transit, and their packets. A unit is the result of one read: a packet, or several
//! packets as one train (segmentation offload). The engine decides packet by packet; the bytes of a
//! unit stay in one piece until all its packets are gone.

use super::pool::{MemoryOwner, UnitPool};
use crate::gso::Train;
use falaj_sched::queues::queue::FlowId;
use falaj_sched::units::time::Time;

/// One packet, as the link transmits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitPacket {
    /// The packet's unit, and its index in the unit.
    pub(crate) unit: u32,
    pub(crate) index: u32,
    /// Number of packets that arrived before it.
    pub(crate) number: u64,
    /// Time of arrival.
    pub(crate) arrival: Time,
    /// The packet's flow, by the numbering at its arrival.
    pub(crate) flow: FlowId,
    /// Length as the link accounted it.
    pub(crate) bytes: u32,
}

/// The value of [`UnitPacket::number`] after the engine has decided on the packet.
const DECIDED: u64 = u64::MAX;

/// Attributes of a unit besides its bytes.
#[derive(Clone, Copy, Debug)]
struct UnitInfo {
    port: u32,
    train: Option<Train>,
    /// Number of packets that the engine has neither emitted nor dropped yet.
    undecided: u32,
    /// Number of packets that were neither delivered nor dropped yet.
    left: u32,
}

/// Units in transit, and their packets.
pub(crate) struct UnitStore {
    pool: UnitPool,
    /// Data of each unit, by the pool's handle.
    about: Vec<UnitInfo>,
    /// Data of each packet, by the engine's handle.
    packets: Vec<UnitPacket>,
    free: Vec<u32>,
}

impl UnitStore {
    /// A store for units of `size` bytes at most, of `memory` bytes in all.
    pub(crate) fn new(size: usize, memory: usize) -> UnitStore {
        UnitStore {
            pool: UnitPool::new(size, memory),
            about: Vec::new(),
            packets: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Reserves memory for another purpose.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.pool.reserve(bytes);
    }

    /// The buffer to read a unit into.
    #[inline]
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        self.pool.buffer()
    }

    /// Keeps the unit that was just read at this port; `None` if there is no memory for it, or its
    /// owner has reached its share.
    #[inline]
    pub(crate) fn keep(
        &mut self,
        length: usize,
        (port, adapter): (usize, Option<u16>),
        train: Option<Train>,
    ) -> Option<u32> {
        let owner = adapter.map_or(MemoryOwner::Port(port as u16), MemoryOwner::Adapter);
        self.keep_as(length, (port, owner), train)
    }

    fn keep_as(
        &mut self,
        length: usize,
        (port, owner): (usize, MemoryOwner),
        train: Option<Train>,
    ) -> Option<u32> {
        let packets = train.map_or(1, |t| t.packets()) as u32;
        let unit = self.pool.keep(length, packets, owner)?;
        let about = UnitInfo { port: port as u32, train, undecided: packets, left: packets };
        match self.about.get_mut(unit as usize) {
            Some(place) => *place = about,
            None => self.about.push(about),
        }
        Some(unit)
    }

    /// A handle for a packet.
    #[inline]
    pub(crate) fn packet(&mut self, packet: UnitPacket) -> u32 {
        match self.free.pop() {
            Some(handle) => {
                self.packets[handle as usize] = packet;
                handle
            }
            None => {
                self.packets.push(packet);
                (self.packets.len() - 1) as u32
            }
        }
    }

    /// Records that the engine has decided on this packet, and returns the packet. Its handle may
    /// be reused.
    #[inline]
    pub(crate) fn decided(&mut self, handle: u32) -> UnitPacket {
        self.free.push(handle);
        let packet = self.packets[handle as usize];
        self.packets[handle as usize].number = DECIDED;
        self.about[packet.unit as usize].undecided -= 1;
        packet
    }

    /// Returns true if no unit is kept.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.about.iter().all(|about| about.left == 0)
    }

    /// The packets that the engine has not decided on, and their handles.
    pub(crate) fn undecided(&self) -> impl Iterator<Item = (u32, UnitPacket)> {
        (0..).zip(self.packets.iter().copied()).filter(|(_, packet)| packet.number != DECIDED)
    }

    /// The packet of this handle, if the engine has not decided on it.
    pub(crate) fn packet_of(&self, handle: u32) -> Option<UnitPacket> {
        self.packets.get(handle as usize).copied().filter(|packet| packet.number != DECIDED)
    }

    /// Returns true if more packets of the unit may be emitted.
    #[inline]
    pub(crate) fn is_undecided(&self, unit: u32) -> bool {
        self.about[unit as usize].undecided > 0
    }

    /// The port at which the unit was read.
    #[inline]
    pub(crate) fn port(&self, unit: u32) -> usize {
        self.about[unit as usize].port as usize
    }

    /// The packets `from..to` of a unit as a separate unit; `cut` is the buffer for it, if one is
    /// needed.
    #[inline]
    pub(crate) fn part<'a>(
        &'a self,
        unit: u32,
        from: u32,
        to: u32,
        cut: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        let bytes = self.pool.unit(unit);
        match &self.about[unit as usize].train {
            Some(train) if (to - from) as usize != train.packets() => {
                train.cut(bytes, from as usize..to as usize, cut);
                cut
            }
            _ => bytes,
        }
    }

    /// A copy of this packet as a unit of its own, which the engine emits in addition; `None` if
    /// there is no memory for it.
    pub(crate) fn copy(&mut self, handle: u32, cut: &mut Vec<u8>) -> Option<UnitPacket> {
        let packet = self.packets[handle as usize];
        let unit = self.alone(packet, cut)?;
        self.about[unit as usize].undecided = 0;
        Some(UnitPacket { unit, index: 0, ..packet })
    }

    /// Moves a packet from a train to a unit of its own, and returns the unit that it was in
    /// before; `None` if there is no memory for the new unit.
    pub(crate) fn separate(&mut self, handle: u32, cut: &mut Vec<u8>) -> Option<u32> {
        let packet = self.packets[handle as usize];
        let was = packet.unit;
        if self.about[was as usize].train.is_some() {
            let unit = self.alone(packet, cut)?;
            self.packets[handle as usize] = UnitPacket { unit, index: 0, ..packet };
            self.about[was as usize].undecided -= 1;
            self.gone(was, 1);
        }
        Some(was)
    }

    /// A new unit of one packet.
    fn alone(&mut self, packet: UnitPacket, cut: &mut Vec<u8>) -> Option<u32> {
        let UnitPacket { unit, index, .. } = packet;
        let bytes = self.part(unit, index, index + 1, cut);
        let (length, from) = (bytes.len(), (self.port(unit), self.pool.owner(unit)));
        let bytes = bytes.to_vec();
        self.pool.buffer()[..length].copy_from_slice(&bytes);
        self.keep_as(length, from, None)
    }

    /// The port and the bytes of a packet that is a unit of its own.
    pub(crate) fn bytes_of(&mut self, handle: u32) -> (usize, &mut [u8]) {
        let unit = self.packets[handle as usize].unit;
        (self.about[unit as usize].port as usize, self.pool.unit_mut(unit))
    }

    /// The port and the bytes of a unit of one packet.
    #[inline]
    pub(crate) fn single(&self, unit: u32) -> Option<(usize, &[u8])> {
        let about = self.about[unit as usize];
        about.train.is_none().then(|| (about.port as usize, self.pool.unit(unit)))
    }

    /// Records that one packet of the unit does not reach the engine.
    pub(crate) fn refused(&mut self, unit: u32) {
        self.about[unit as usize].undecided -= 1;
    }

    /// Records that the engine of another process has emitted the unit's only packet.
    pub(crate) fn undecide(&mut self, unit: u32) {
        self.about[unit as usize].undecided = 0;
    }

    /// Records that this number of the unit's packets were delivered or dropped. After the last
    /// packet the unit's memory is released.
    #[inline]
    pub(crate) fn gone(&mut self, unit: u32, packets: u32) {
        let left = &mut self.about[unit as usize].left;
        *left -= packets;
        if *left == 0 {
            self.pool.release(unit);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A unit of this number of packets, in the form of TCP segmentation offload.
    pub(crate) fn unit_of(units: &mut UnitStore, packets: u32) -> u32 {
        let mut unit = vec![0; 12 + 14 + 20 + 20];
        (unit[0], unit[1], unit[4], unit[6]) = (1, 1, 100, 34);
        (unit[24], unit[26], unit[58]) = (0x08, 0x45, 0x50);
        unit.resize(unit.len() + 100 * packets as usize, 0);
        units.buffer()[..unit.len()].copy_from_slice(&unit);
        let train = Train::of(&unit);
        assert_eq!(train.map_or(1, |t| t.packets()), packets as usize);
        units.keep(unit.len(), (0, None), train).expect("memory")
    }

    fn handles(units: &mut UnitStore, unit: u32, packets: u32) -> Vec<u32> {
        let (arrival, flow, bytes) = (Time::ZERO, FlowId(0), 154);
        let packet = |index| UnitPacket { unit, index, number: index.into(), arrival, flow, bytes };
        (0..packets).map(|index| units.packet(packet(index))).collect()
    }

    #[test]
    fn a_packet_that_is_corrupted_or_doubled_leaves_its_train_as_it_is() {
        let (mut units, mut cut) = (UnitStore::new(65_536, 1 << 20), Vec::new());
        let train = unit_of(&mut units, 3);
        let handles = handles(&mut units, train, 3);
        let whole = units.part(train, 0, 3, &mut cut).to_vec();
        let second = units.part(train, 1, 2, &mut cut).to_vec();

        assert_eq!(units.separate(handles[1], &mut cut), Some(train));
        let (port, bytes) = units.bytes_of(handles[1]);
        assert_eq!((port, &*bytes), (0, &second[..]));
        bytes[100] ^= 1;
        let copy = units.copy(handles[1], &mut cut).expect("memory");
        assert_eq!(
            units.part(copy.unit, 0, 1, &mut cut)[100],
            second[100] ^ 1,
            "a copy of what it is now"
        );
        assert_eq!(units.part(train, 0, 3, &mut cut), whole);

        // All packets leave, and their memory is freed.
        units.gone(copy.unit, 1);
        for handle in handles {
            let unit = units.decided(handle).unit;
            units.gone(unit, 1);
        }
        assert_eq!(units.undecided().count(), 0);
        assert!(units.is_empty());
    }
}
