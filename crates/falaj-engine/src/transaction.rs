//! A change of all that there is, at one instant: pipes, what becomes of their flows, how packets
//! are sorted, rules. Whoever drives a [`Network`](crate::network::Network) applies it, with
//! packets of its own in mind.

use crate::handover::FlowMapping;
use crate::network::{IngressChange, RuleChange};
use crate::{PipeId, Prepared};

/// What becomes of a pipe's flows.
#[derive(Debug)]
pub struct FlowChange {
    /// The pipe.
    pub pipe: PipeId,
    /// Of each that there is.
    pub fates: Vec<FlowMapping>,
    /// How many there are from now on.
    pub number: usize,
}

/// A change that was found good, apart from what happened since.
pub struct Transaction {
    /// Of the pipes.
    pub engine: Prepared,
    /// Of their flows, where these are others.
    pub flows: Vec<FlowChange>,
    /// Of how packets are sorted where they enter, where that is another.
    pub sorted: Vec<IngressChange>,
    /// Of rules, where these are others.
    pub rules: Option<RuleChange>,
    /// The pipes that are told of from then on, in the order of their links.
    pub order: Vec<PipeId>,
}
