//! The relay's tests: one program, so that they are linked once.

mod hostile;
mod relay;
