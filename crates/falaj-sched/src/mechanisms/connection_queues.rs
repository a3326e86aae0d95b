//! Queues to which a hash with a secret key assigns connections.

use crate::contract::params::{ConfigError, Kind, Param, Setup};
use crate::queues::queue::FlowId;
use crate::units::draws::mix;
use alloc::format;

/// Maximum number of queues.
const MOST: u32 = 65_536;

/// The parameter for the number of queues.
pub(crate) const QUEUES: Param = Param {
    name: "queues",
    kind: Kind::Count { min: 1, max: MOST as u64 },
    default: Some("1024"),
    doc: "the number of queues, to which a hash assigns the connections; connections in one queue \
          share its service",
};

/// The number of queues, and the key of the hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionQueues {
    number: u32,
    key: u64,
}

impl ConnectionQueues {
    /// Validates the number of queues.
    pub(crate) fn new(setup: &Setup) -> Result<ConnectionQueues, ConfigError> {
        let number = setup.scheduler.count("queues").unwrap_or(1024);
        let in_range = u32::try_from(number).ok().filter(|n| (1..=MOST).contains(n));
        in_range.map(|number| ConnectionQueues { number, key: 0 }).ok_or_else(|| ConfigError {
            flow: None,
            param: "queues",
            what: format!("{number} queues are out of range"),
            help: format!("from 1 to {MOST}"),
        })
    }

    /// Number of queues.
    pub(crate) fn number(&self) -> usize {
        self.number as usize
    }

    /// Sets the key.
    pub(crate) fn seed(&mut self, seed: u64) {
        self.key = mix(seed);
    }

    /// The queue of this connection of `flow`.
    #[inline]
    pub(crate) fn place(&self, connection: u64, flow: FlowId) -> FlowId {
        let hash = mix(self.key ^ mix(connection ^ u64::from(flow.0) << 40));
        FlowId(((u128::from(hash) * u128::from(self.number)) >> 64) as u32)
    }
}
