//! Adapters go on in another process: what was learned and counted, and where their readers are.

use super::{AdapterCounts, Adapters, AddressChange, Mac, MacOwner, NOTE, note};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// The state of adapters, to be written down.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AdaptersState {
    /// By what is noted in units, less one.
    adapters: Vec<Option<AdapterState>>,
    /// Whose addresses are.
    addresses: Vec<(Mac, u16)>,
    /// Units for unknown addresses that were dropped.
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
    /// The adapters that pause.
    pub fn paused(&self) -> impl Iterator<Item = &str> {
        let adapters = self.adapters.iter().flatten();
        adapters.filter(|adapter| adapter.counts.paused).map(|adapter| &adapter.name[..])
    }
}

impl Adapters {
    /// The state by which they go on in another process.
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

    /// Goes on from where those of another process ended; the same ones, by their names. Returns
    /// what makes a unit there one of here.
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
                // A pause is made known to the kernel too, by `Adapters::pause`.
                adapter.counts = AdapterCounts { paused: false, ..was.counts };
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
            // One that is gone has no number here: its packets are dropped.
            let now = become_of.get(usize::from(was)).copied().flatten();
            note(unit, now.unwrap_or(u16::MAX - 1));
        }
    }

    /// A copy of what another process needs to go on at an adapter's port, if it can.
    pub fn descriptor(&self, name: &str) -> Option<OwnedFd> {
        let shared = self.shared.borrow();
        let adapter = shared.adapters.iter().flatten().find(|adapter| adapter.name == name)?;
        adapter.port.get().descriptor()?.try_clone_to_owned().ok()
    }
}
