//! The units of all other modules: instants and spans, rates, the capacity of a link and the
//! transmission time of bytes, the layer whose bytes a link counts, probabilities, random numbers
//! by key and index, and labels of packets. All numbers are integers.

pub mod capacity;
pub mod counted_layer;
pub mod draws;
pub mod label;
pub mod probability;
pub mod rate;
pub mod time;
pub mod two_buckets;
