//! All integration tests of this crate, as one program: each file is a module.

mod attacked;
mod expected;
mod guaranteed;
