//! The contract between a discipline and the scheduler that runs it: the calls that the discipline
//! implements, its parameters, and its guarantees.
//!
//! A discipline is a type with four traits: [`Discipline`](discipline::Discipline), the main one;
//! [`Guarantees`](guarantee::Guarantees); and [`QueueHooks`](hooks::QueueHooks) and
//! [`MediumHooks`](hooks::MediumHooks), which are empty for most disciplines. These are the
//! discipline's calls, in the order in which the scheduler makes them (calls in italics have a
//! default):
//!
//! | call | when | may change |
//! |---|---|---|
//! | `start` | once, with empty queues, before all other calls | its state and the flows' |
//! | *`can_migrate_from`* | at a change, on the discipline with the new setup | nothing |
//! | *`retag`* | then, in place of `start`, for each waiting packet | the old discipline's state |
//! | `migrate_from` | after `retag`, once | its state and the flows' |
//! | *`retimed`* | after `migrate_from`, if the packet on the wire now leaves at another time | its state and the flows' |
//! | *`announce`* | before a packet arrives, if `wants_labels` | its state |
//! | *`place`*, *`is_full`* | before a packet joins its queue | nothing |
//! | *`verdict_at_arrival`* | before a packet joins a queue that has room for it; may drop the packet | its state and the flows' |
//! | *`arrived`* | before a packet joins its queue, if `SEES_ARRIVALS`; gives the packet's tag | its state and the flows' |
//! | `ready` | a flow's queue was empty and has a packet now | its state and the flows' |
//! | *`drop_victim`* | a packet has joined its queue | its state |
//! | *`head_dropped`*, *`dropped_behind_head`* | the head of a queue, or the packet behind it, was dropped | its state and the flows' |
//! | *`head_changed`* | a head was replaced or removed without a transmission by this discipline | its state and the flows' |
//! | `next` | the link is free; any number of times | nothing that changes a later answer |
//! | *`airtime`* | before the head that `next` named is sent | nothing |
//! | `on_transmit` | that head starts on the wire: the moment to charge the flow for it | its state and the flows' |
//! | *`marked`*, *`earliness`* | after `on_transmit`, for that packet; `marked` also after `verdict_at_arrival` | its state: it returns the value once |
//! | *`is_reusable`* | a flow's queue is empty, and another flow wants its index | nothing |
//!
//! The other calls are queries that change nothing; they are made before packets arrive or between
//! arrivals. They are the calls of `Guarantees`, of which only `service` has no default, and the
//! hooks *`shared_queue`*, *`own_queues`*, *`wants_labels`*, *`manages_queues`*, *`peeks`*, *`air`*
//! and *`breach`*. *`seed`*, before the first packet, sets the seed of random decisions; its
//! documentation describes how to draw without changing a later decision of `next`.
//!
//! `examples/by_hand.rs` makes these calls on a discipline.
//!
//! # The constructor
//!
//! `new(&Setup)` refuses a setup that the discipline cannot serve. The error names the flow, the
//! key, the fault and its cure. Values from a scenario file have been checked against their
//! [`Param`](params::Param) by then; keys with a default may be unset. But a setup may also be
//! written in Rust, so `new` checks again the ranges on which its arithmetic relies. Most
//! disciplines use two helpers of [`guarantee`]: `room_for_one` refuses a queue with no room for
//! the largest packet, and `finite_rate` refuses an unlimited link, on which no packet ever waits.
//!
//! # Worked examples
//!
//! Worked examples belong in a `mod tests` of the discipline's file, and nowhere else. `order` of
//! `scheduler::worked_example` sends a few packets over a link on which a byte takes a microsecond:
//! `order(&weights(100, &[2]), Wrr::new, &[(0, 'A', 100), (50, 'A', 60)])` is `"A1@100 A2@160"`.
//! `departures` returns the same with all details of each packet, and `guarantee` returns the
//! guarantee to compare them with; `disciplines/wrr.rs` uses all three. Tests of several parts on
//! one link (a change, a tree, a mask, an impairment), and comparisons with a naive model over many
//! random cases, belong in `falaj-engine/tests/all`, each in its own file.

pub mod breach;
pub mod complete;
pub mod discipline;
pub mod draw;
pub mod guarantee;
pub mod hooks;
pub mod library;
pub mod manifest;
pub mod no_guarantee;
pub mod params;
pub mod transmission;
pub mod visitor;
pub mod wfi;
