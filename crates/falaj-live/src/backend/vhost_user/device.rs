//! A guest's network card as its machine monitor describes it: features, memory, and two rings.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVirtioFeatures,
    VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestMemoryRegion, GuestRegionMmap};

use super::ring::Virtqueue;
use crate::backend::frame;
use crate::backend::name::InterfaceState;
use crate::backend::tap::Tap;
use crate::gso::singly;

/// Feature bits (virtio 1.2, sections 5.1.3 and 6). *Host* bits are for units that the guest sends,
/// *guest* bits for units that it accepts.
mod feature {
    pub(super) const CSUM: u64 = 1;
    pub(super) const GUEST_CSUM: u64 = 1 << 1;
    pub(super) const GUEST_TSO4: u64 = 1 << 7;
    pub(super) const GUEST_TSO6: u64 = 1 << 8;
    pub(super) const GUEST_ECN: u64 = 1 << 9;
    pub(super) const HOST_TSO4: u64 = 1 << 11;
    pub(super) const HOST_TSO6: u64 = 1 << 12;
    pub(super) const HOST_ECN: u64 = 1 << 13;
    pub(super) const MRG_RXBUF: u64 = 1 << 15;
    pub(super) const INDIRECT_DESC: u64 = 1 << 28;
    pub(super) const EVENT_IDX: u64 = 1 << 29;
    pub(super) const VERSION_1: u64 = 1 << 32;
    pub(super) const GUEST_USO4: u64 = 1 << 54;
    pub(super) const GUEST_USO6: u64 = 1 << 55;
    pub(super) const HOST_USO: u64 = 1 << 56;
}

/// All features above are offered, because units of every kind can be passed on unchanged.
const OFFERED: u64 = feature::CSUM
    | feature::GUEST_CSUM
    | feature::GUEST_TSO4
    | feature::GUEST_TSO6
    | feature::GUEST_ECN
    | feature::HOST_TSO4
    | feature::HOST_TSO6
    | feature::HOST_ECN
    | feature::MRG_RXBUF
    | feature::INDIRECT_DESC
    | feature::EVENT_IDX
    | feature::VERSION_1
    | feature::GUEST_USO4
    | feature::GUEST_USO6
    | feature::HOST_USO
    | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();

/// The virtio-net header without the number of buffers, for drivers older than virtio 1.
const OLD_HEADER: usize = 10;

/// The indices of the two rings: to the guest, and from it.
const TO_GUEST: usize = 0;
const FROM_GUEST: usize = 1;

/// A region of the guest's memory: its addresses for the machine monitor and for the guest, and its
/// size in bytes.
struct MemoryRegion {
    monitor: u64,
    guest: u64,
    size: u64,
}

/// The guest's card, as the monitor has described it so far.
pub(super) struct CardDevice {
    features: u64,
    connected: bool,
    memory: Option<GuestMemoryMmap>,
    pieces: Vec<MemoryRegion>,
    rings: [Virtqueue; 2],
    /// Poll set of the descriptors by which the guest notifies falaj (kicks).
    kicks: Arc<Epoll>,
    part: Vec<u8>,
}

impl CardDevice {
    pub(super) fn new(kicks: Arc<Epoll>) -> CardDevice {
        CardDevice {
            features: 0,
            connected: false,
            memory: None,
            pieces: Vec::new(),
            rings: [Virtqueue::new(), Virtqueue::new()],
            kicks,
            part: Vec::new(),
        }
    }

    /// Notes that a monitor has connected.
    pub(super) fn connect(&mut self) {
        self.connected = true;
    }

    /// Notes that the monitor has disconnected, and discards its description of the card.
    pub(super) fn disconnect(&mut self) {
        for ring in 0..self.rings.len() {
            self.forget_kick(ring);
        }
        *self = CardDevice::new(Arc::clone(&self.kicks));
    }

    /// Enables all rings; they run once they are started.
    pub(super) fn enable(&mut self) {
        self.rings.iter_mut().for_each(|ring| ring.enabled = true);
    }

    /// The state in terms of an interface: up, down or gone.
    pub(super) fn state(&self) -> InterfaceState {
        match self.connected {
            false => InterfaceState::Gone,
            true if self.memory.is_some() && self.rings.iter().all(Virtqueue::runs) => {
                InterfaceState::Up
            }
            true => InterfaceState::Down,
        }
    }

    fn has(&self, feature: u64) -> bool {
        self.features & feature != 0
    }

    fn header(&self) -> usize {
        if self.has(feature::VERSION_1 | feature::MRG_RXBUF) {
            Tap::VNET_HEADER
        } else {
            OLD_HEADER
        }
    }

    /// Reads a unit that the guest has sent, if there is one.
    pub(super) fn receive(&mut self, unit: &mut [u8]) -> Option<std::result::Result<usize, Errno>> {
        let header = self.header();
        let (memory, ring) = (self.memory.as_ref()?, &mut self.rings[FROM_GUEST]);
        if !ring.runs() {
            return None;
        }
        ring.take(memory, header, unit)
    }

    /// Makes the guest kick when it sends a unit; returns true if it has already sent one.
    pub(super) fn ask(&mut self) -> bool {
        let ring = &mut self.rings[FROM_GUEST];
        self.memory.as_ref().is_some_and(|memory| ring.runs() && ring.ask(memory))
    }

    /// Passes a unit to the guest in a form that it accepts; returns false if it has no room, or
    /// accepts nothing now.
    pub(super) fn transmit(&mut self, unit: &[u8]) -> io::Result<bool> {
        if self.state() != InterfaceState::Up {
            return Ok(false);
        }
        if self.takes(unit) {
            return Ok(self.put(unit)?);
        }
        let mut part = std::mem::take(&mut self.part);
        let done = singly(unit, &mut part, |packet| {
            if !self.has(feature::GUEST_CSUM) {
                frame::finish_checksum(packet);
            }
            Ok(self.put(packet)?)
        });
        self.part = part;
        done
    }

    fn put(&mut self, unit: &[u8]) -> std::result::Result<bool, Errno> {
        let (header, mergeable) = (self.header(), self.has(feature::MRG_RXBUF));
        let Some(memory) = &self.memory else { return Ok(false) };
        self.rings[TO_GUEST].put(memory, header, mergeable, unit)
    }

    /// Returns true if the guest accepts this unit unchanged.
    fn takes(&self, unit: &[u8]) -> bool {
        const NEEDS_CHECKSUM: u8 = 1;
        const CONGESTION: u8 = 0x80;
        let [flags, kind] = [unit.first(), unit.get(1)].map(|byte| byte.copied().unwrap_or(0));
        let of_kind = match kind & !CONGESTION {
            0 => true,
            1 => self.has(feature::GUEST_TSO4),
            4 => self.has(feature::GUEST_TSO6),
            5 => self.has(feature::GUEST_USO4) && self.has(feature::GUEST_USO6),
            _ => false,
        };
        of_kind
            && (flags & NEEDS_CHECKSUM == 0 || self.has(feature::GUEST_CSUM))
            && (kind & CONGESTION == 0 || self.has(feature::GUEST_ECN))
    }

    fn ring(&mut self, index: impl TryInto<usize>) -> Result<&mut Virtqueue> {
        index.try_into().ok().and_then(|index| self.rings.get_mut(index)).ok_or(Error::InvalidParam)
    }

    /// Translates an address of the monitor to an address of the guest.
    fn guest_address(&self, monitor: u64) -> Result<GuestAddress> {
        let within = |piece: &&MemoryRegion| {
            monitor >= piece.monitor && monitor - piece.monitor < piece.size
        };
        let piece = self.pieces.iter().find(within).ok_or(Error::InvalidParam)?;
        Ok(GuestAddress(monitor - piece.monitor + piece.guest))
    }

    fn forget_kick(&mut self, ring: usize) {
        if let Some(kick) = self.rings[ring].kick.take() {
            // The monitor has a copy of the descriptor, so closing ours would not remove it from
            // the poll set.
            let _ = self.kicks.delete(&kick);
        }
    }
}

/// Maps a region of the guest's memory. The region must lie within its file; otherwise an access to
/// it would kill this process.
fn map(region: &VhostUserMemoryRegion, file: File) -> io::Result<GuestRegionMmap> {
    use nix::libc::{MAP_NORESERVE, MAP_SHARED, PROT_READ, PROT_WRITE};
    let size = usize::try_from(region.memory_size).map_err(io::Error::other)?;
    // The file is sealed before its length is read. If it cannot be sealed, for example because it
    // is on a disk, the monitor must not shrink it.
    let _ = fcntl(file.as_fd(), FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK));
    let about = file.metadata()?;
    if !about.is_file()
        || region.mmap_offset.checked_add(region.memory_size).is_none_or(|end| end > about.len())
    {
        return Err(io::Error::other("it is not within its file"));
    }
    let mapping = MmapRegionBuilder::new(size)
        .with_file_offset(FileOffset::new(file, region.mmap_offset))
        .with_mmap_prot(PROT_READ | PROT_WRITE)
        .with_mmap_flags(MAP_SHARED | MAP_NORESERVE)
        .build()
        .map_err(io::Error::other)?;
    GuestRegionMmap::new(mapping, GuestAddress(region.guest_phys_addr))
        .ok_or_else(|| io::Error::other("it ends beyond all addresses"))
}

const NOT_OFFERED: Error = Error::InvalidOperation("it was not offered");

impl VhostUserBackendReqHandlerMut for CardDevice {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.rings.iter_mut().for_each(Virtqueue::stop);
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(OFFERED)
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !OFFERED != 0 {
            return Err(Error::InvalidParam);
        }
        self.features = features;
        if !self.has(VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()) {
            // Without this feature no message enables the rings.
            self.enable();
        }
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        let mapped = regions.iter().zip(files).map(|(region, file)| map(region, file));
        let mut mapped = mapped.collect::<io::Result<Vec<_>>>().map_err(Error::ReqHandlerError)?;
        mapped.sort_by_key(GuestMemoryRegion::start_addr);
        let memory = GuestMemoryMmap::from_regions(mapped);
        self.memory =
            Some(memory.map_err(|error| Error::ReqHandlerError(io::Error::other(error)))?);
        let piece = |region: &VhostUserMemoryRegion| MemoryRegion {
            monitor: region.user_addr,
            guest: region.guest_phys_addr,
            size: region.memory_size,
        };
        self.pieces = regions.iter().map(piece).collect();
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, entries: u32) -> Result<()> {
        self.ring(index)?.set_entries(entries).map_err(|()| Error::InvalidParam)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        let parts = [
            self.guest_address(descriptors)?,
            self.guest_address(available)?,
            self.guest_address(used)?,
        ];
        self.ring(index)?.set_addresses(parts).map_err(|()| Error::InvalidParam)
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.ring(index)?.set_next(base as u16);
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let ring = self.ring(index)?;
        ring.stop();
        let next = ring.next();
        self.forget_kick(index as usize);
        Ok(VhostUserVringState::new(index, next.into()))
    }

    fn set_vring_kick(&mut self, index: u8, kick: Option<File>) -> Result<()> {
        self.ring(index)?;
        let index = usize::from(index);
        self.forget_kick(index);
        let event_index = self.has(feature::EVENT_IDX);
        let memory =
            self.memory.as_ref().ok_or(Error::InvalidOperation("there is no memory yet"))?;
        if index == FROM_GUEST
            && let Some(kick) = &kick
        {
            // Edge-triggered: each kick wakes the poll once. So the descriptor, which may be of any
            // kind, need not be read.
            let edge = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0);
            self.kicks.add(kick, edge).map_err(|errno| Error::ReqHandlerError(errno.into()))?;
        }
        self.rings[index].kick = kick;
        self.rings[index].start(memory, event_index).map_err(|()| Error::InvalidParam)
    }

    fn set_vring_call(&mut self, index: u8, call: Option<File>) -> Result<()> {
        self.ring(index)?.set_call(call).map_err(|errno| Error::ReqHandlerError(errno.into()))
    }

    fn set_vring_err(&mut self, index: u8, _err: Option<File>) -> Result<()> {
        self.ring(index).map(drop)
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::REPLY_ACK)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(1)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.ring(index)?.enabled = enable;
        Ok(())
    }

    fn get_config(
        &mut self,
        _offset: u32,
        _size: u32,
        _flags: VhostUserConfigFlags,
    ) -> Result<Vec<u8>> {
        Err(NOT_OFFERED)
    }

    fn set_config(
        &mut self,
        _offset: u32,
        _bytes: &[u8],
        _flags: VhostUserConfigFlags,
    ) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn set_gpu_socket(&mut self, _gpu: GpuBackend) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shared_object(&mut self, _uuid: VhostUserSharedMsg) -> Result<File> {
        Err(NOT_OFFERED)
    }

    fn get_inflight_fd(
        &mut self,
        _inflight: &VhostUserInflight,
    ) -> Result<(VhostUserInflight, File)> {
        Err(NOT_OFFERED)
    }

    fn set_inflight_fd(&mut self, _inflight: &VhostUserInflight, _file: File) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Err(NOT_OFFERED)
    }

    fn add_mem_region(
        &mut self,
        _region: &VhostUserSingleMemoryRegion,
        _file: File,
        _postcopy: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        Err(NOT_OFFERED)
    }

    fn remove_mem_region(&mut self, _region: &VhostUserSingleMemoryRegion) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _file: File,
    ) -> Result<Option<File>> {
        Err(NOT_OFFERED)
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(NOT_OFFERED)
    }

    fn set_log_base(&mut self, _log: &VhostUserLog, _file: File) -> Result<()> {
        Err(NOT_OFFERED)
    }
}
