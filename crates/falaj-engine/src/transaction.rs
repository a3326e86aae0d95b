//! A change of everything at one instant: pipes, flow mappings, classification, rules. The driver
//! of a [`Network`](crate::network::Network) applies it, and takes care of its own packets.

use crate::handover::FlowMapping;
use crate::network::{IngressChange, RuleChange};
use crate::{PipeId, Prepared};

/// The mapping of a pipe's flows.
#[derive(Debug)]
pub struct FlowChange {
    /// The pipe.
    pub pipe: PipeId,
    /// The mapping of each existing flow.
    pub mappings: Vec<FlowMapping>,
    /// Number of flows after the change.
    pub number: usize,
}

/// A change that was checked. The check does not consider changes made since.
pub struct Transaction {
    /// Changes of the pipes.
    pub engine: Prepared,
    /// Mappings of their flows, where these change.
    pub flows: Vec<FlowChange>,
    /// Classification of entering packets, where it changes.
    pub ingress: Vec<IngressChange>,
    /// New rules, if they change.
    pub rules: Option<RuleChange>,
    /// The pipes that are reported from then on, in the order of their links.
    pub order: Vec<PipeId>,
}
