//! The contract between a discipline and everything around it: the calls that it answers, the
//! parameters that it takes, and the guarantees that it gives.
//!
//! A discipline is a type with four traits: [`Discipline`](discipline::Discipline), which most of
//! it is; [`Guarantees`](guarantee::Guarantees); and [`QueueHooks`](hooks::QueueHooks) and
//! [`MediumHooks`](hooks::MediumHooks), which are empty for most. Its calls, in the order in which
//! they come (those in italics have a default):
//!
//! | call | when | may change |
//! |---|---|---|
//! | `start` | once, with empty queues, before all else | its state and the flows' |
//! | *`can_migrate_from`* | at a change, of the new setup's discipline | nothing |
//! | *`retag`* | in place of `start`, for each packet that waits | the old discipline's state |
//! | `migrate_from` | after it, once | its state and the flows' |
//! | *`announce`* | before a packet arrives, if `wants_labels` | its state |
//! | *`place`*, *`is_full`* | before a packet joins its queue | nothing |
//! | *`arrived`* | before a packet joins its queue, if `SEES_ARRIVALS`; gives the packet's tag | its state and the flows' |
//! | `ready` | a flow that had no head has one | its state and the flows' |
//! | *`drop_victim`* | a packet has joined | its state |
//! | *`thrown_away`*, *`dropped_behind_head`* | a packet was thrown out of a queue | its state and the flows' |
//! | *`head_changed`* | a head was replaced or removed without a transmission | its state and the flows' |
//! | `next` | the link is free; any number of times | nothing that changes a later answer |
//! | *`airtime`* | the head that `next` named is about to go | nothing |
//! | `on_transmit` | that head goes on the wire: the moment to charge for it | its state and the flows' |
//! | *`marked`*, *`earliness`* | after it, of that packet | its state: it tells once |
//! | *`is_reusable`* | a flow is empty, and another may take its place | nothing |
//!
//! The rest are questions that change nothing, asked before packets come or between them: those of
//! `Guarantees`, of which `service` alone has no default, and the hooks *`shared_queue`*,
//! *`own_queues`*, *`wants_labels`*, *`manages_queues`*, *`peeks`*, *`air`* and *`breach`*.
//! *`seed`*, before the first packet, says where random decisions begin; its page says how to draw
//! without changing a later answer of `next`.
//!
//! `examples/by_hand.rs` drives a discipline through such a life.
//!
//! # The constructor
//!
//! `new(&Setup)` refuses a setup that the discipline cannot serve, with the flow, the key, the
//! fault and its cure. A scenario file has checked each value against its
//! [`Param`](params::Param) by then and left defaults unset, but a setup may be written in Rust: a
//! range that arithmetic relies on is checked again. Two helpers of [`guarantee`] serve most:
//! `room_for_one` refuses a queue in which the largest packet never fits, and `finite_rate` refuses
//! an unlimited link, on which no packet ever waits.
//!
//! # Worked examples
//!
//! They stand in a `mod tests` of the discipline's file, and nowhere else. `order` of
//! `scheduler::worked_example` sends a few packets over a link on which a byte takes a microsecond:
//! `order(&weights(100, &[2]), Wrr::new, &[(0, 'A', 100), (50, 'A', 60)])` is `"A1@100 A2@160"`.
//! `departures` has the same with all that is known of each packet, and `promise` the guarantee to
//! hold it against; `disciplines/wrr.rs` uses all three. What takes more than one discipline on one
//! link (a change, a tree, a mask, an impairment), and comparisons with a naive model over many
//! random cases, stand in `falaj-engine/tests/all`, in a file of their own.

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
