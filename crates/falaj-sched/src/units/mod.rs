//! The units that everything else counts in: instants and spans, rates, the capacity of a link and
//! the time of its bytes, the layer whose bytes a link counts, probabilities, random numbers by key
//! and index, and labels of packets. Integers throughout.

pub mod capacity;
pub mod counted_layer;
pub mod draws;
pub mod label;
pub mod probability;
pub mod rate;
pub mod time;
