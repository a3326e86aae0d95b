//! The queues that disciplines read and pipes fill, and the active queue management (AQM) that
//! drops or marks packets before a queue is full.

pub mod aqm;
pub mod queue;
