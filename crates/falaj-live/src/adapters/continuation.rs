//! Resuming adapters in another process: learned addresses, counters, and positions of readers.

use super::{AdapterCounts, Adapters, AddressChange, Mac, MacOwner, NOTE, note};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// The state of adapters, in serializable form.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AdaptersState {
    /// The adapters; the number that is noted in units is an adapter's index plus one.
    adapters: Vec<Option<AdapterState>>,
    /// Owner of each address.
    addresses: Vec<(Mac, u16)>,
    /// Dropped units for unknown addresses.
    unknown: u64,
}

/// The state of an adapter.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct AdapterState {
    name: String,
    counts: AdapterCounts,
    /// See [`Port::position`].
    position: u64,
}

impl AdaptersState {
    /// The paused adapters.
    pub fn paused(&self) -> impl Iterator<Item = &str> {
        let adapters = self.adapters.iter().flatten();
        adapters.filter(|adapter| adapter.counts.paused).map(|adapter| &adapter.name[..])
    }
}

impl Adapters {
    /// The state from which the adapters resume in another process.
    pub fn state(&self) -> AdaptersState {
        let shared = self.shared.borrow();
        let one = |adapter: &super::LiveAdapter| AdapterState {
            name: adapter.name.clone(),
            counts: adapter.counts.clone(),
            position: adapter.port.get().position(),
        };
        AdaptersState {
            adapters: shared.adapters.iter().map(|adapter| adapter.as_ref().map(one)).collect(),
            addresses: shared.macs.iter().map(|(mac, owner)| (*mac, owner.adapter)).collect(),
            unknown: shared.unknown,
        }
    }

    /// Resumes from the state of another process's adapters, which are identified by their names.
    /// Returns a function that converts a unit of that process to one of this process.
    pub fn resume(&self, state: AdaptersState) -> impl FnMut(&mut [u8]) + use<> {
        let shared = &mut *self.shared.borrow_mut();
        let places = shared.adapters.iter().enumerate();
        let here: BTreeMap<&str, u16> = places
            .filter_map(|(n, adapter)| Some((&adapter.as_ref()?.name[..], n as u16)))
            .collect();
        let named = |was: &Option<AdapterState>| here.get(&was.as_ref()?.name[..]).copied();
        let become_of: Vec<Option<u16>> = state.adapters.iter().map(named).collect();
        for (was, now) in state.adapters.into_iter().zip(&become_of) {
            let (Some(was), Some(now)) = (was, *now) else { continue };
            if let Some(adapter) = shared.adapter(now) {
                // The state of this process counts for `paused`: `Adapters::pause` has set it, and
                // the port of a paused adapter is not polled.
                adapter.counts = AdapterCounts { paused: adapter.counts.paused, ..was.counts };
                adapter.port.get_mut().resume_at(was.position);
            }
        }
        for (mac, was) in state.addresses {
            let Some(&Some(adapter)) = become_of.get(usize::from(was)) else { continue };
            if shared.macs.contains_key(&mac) {
                continue;
            }
            shared.macs.insert(mac, MacOwner { adapter, is_heard: true });
            let Some(adapter) = shared.adapter(adapter) else { continue };
            adapter.addresses += 1;
            let learned = AddressChange::Learned(adapter.name.clone(), mac);
            shared.report(learned);
        }
        shared.unknown = state.unknown;
        move |unit| {
            let was = unit.get(NOTE).map(|note| u16::from_le_bytes([note[0], note[1]]));
            let Some(was) = was.and_then(|was| was.checked_sub(1)) else { return };
            // An adapter that is gone has no number here: its packets are dropped.
            let now = become_of.get(usize::from(was)).copied().flatten();
            note(unit, now.unwrap_or(u16::MAX - 1));
        }
    }

    /// A copy of the descriptor by which another process takes over an adapter's port, if
    /// supported.
    pub fn descriptor(&self, name: &str) -> Option<OwnedFd> {
        let shared = self.shared.borrow();
        let adapter = shared.adapters.iter().flatten().find(|adapter| adapter.name == name)?;
        adapter.port.get().descriptor()?.try_clone_to_owned().ok()
    }
}
