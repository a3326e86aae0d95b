//! The mechanisms that several disciplines share: lists of active flows, timestamps, virtual time,
//! token buckets, weights, class trees. Each is one file or folder, and depends on no discipline.

pub(crate) mod active_list;
pub(crate) mod arrival_stamp;
pub(crate) mod bucket;
pub mod classes;
pub(crate) mod common_multiple;
pub(crate) mod connection_queues;
pub(crate) mod curve;
pub mod deficit;
pub(crate) mod eligible_set;
pub(crate) mod epoch_sweep;
pub(crate) mod flow_tag;
pub mod gps;
pub(crate) mod groups;
pub(crate) mod levels;
pub(crate) mod longest_queue;
pub(crate) mod low_latency;
pub(crate) mod new_and_old;
pub mod oversubscription;
pub(crate) mod proportion;
pub(crate) mod substitute_arrivals;
pub(crate) mod timestamp;
pub(crate) mod virtual_time;
pub(crate) mod weights;
