//! The relay's integration tests as one program, so that they are linked only once.

mod hostile;
mod relay;
