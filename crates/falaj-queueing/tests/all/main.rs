//! All integration tests of this crate, as one program: each file is a module.

mod agree;
mod batches;
mod cases;
mod dimension;
mod tune;
