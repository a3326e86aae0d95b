//! All integration tests of this crate, as one program: each file is a module.

mod agree;
mod cases;
mod containers;
mod dimension;
mod tune;
