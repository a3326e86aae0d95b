//! All integration tests of this crate, as one program: each file is a module.

mod changes;
mod course;
mod device_paced;
mod network;
mod practice;
mod tcp;
