//! Schedulers: a discipline with its queues, alone or as a tree, with active queue management in
//! front of the queues, and the guard in front of disciplines that come from a library.

mod boxed;
pub mod build;
pub mod guard;
pub mod instance;
pub mod tree;
pub mod with_aqm;
