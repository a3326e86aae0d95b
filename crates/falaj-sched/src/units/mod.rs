//! The units that everything else counts in: instants and spans, rates and what turns bytes into
//! time, probabilities, and random numbers by key and index. Integers throughout.

pub mod capacity;
pub mod draws;
pub mod label;
pub mod probability;
pub mod rate;
pub mod time;
