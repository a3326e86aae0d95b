//! All integration tests of this crate, as one program: each file is a module.

mod captures;
mod changes;
mod disciplines;
mod every_message;
mod explain;
mod files;
mod format;
mod fuzz;
mod hosts;
mod link_traces;
mod masks;
mod messages;
mod robust;
mod rules;
mod schema;
mod sums;
mod table;
mod units;
