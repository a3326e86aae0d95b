//! The relay's tests in one program, so that they are linked once.

mod hostile;
mod relay;
