//! The engine's integration tests in one program, so that they are linked once. Tests that need a
//! program of their own (an allocator that counts) are beside this folder.

mod common;

mod after_changes;
mod batches;
mod cake;
mod changes;
mod class_trees;
mod dcf;
mod defects;
mod device_paced;
mod earliness;
mod envelopes;
mod every_change;
mod exact;
mod fairness;
mod fq;
mod fq_codel;
mod fq_pie;
mod fuzz;
mod guaranteed_rates;
mod guarantees;
mod heads;
mod impairments;
mod masks;
mod minima;
mod network;
mod networks_change;
mod policies;
mod poll_invariance;
mod qfq;
mod qfq_plus;
mod resume;
mod round_robin;
mod rules;
mod shapers;
mod timer_wheels;
mod timestamps;
mod transactions;
mod trees;
mod values;
mod virtual_links;
mod work;

#[path = "../../examples/packets_through_an_engine.rs"]
mod example;

#[test]
fn the_example_runs() {
    example::main();
}
