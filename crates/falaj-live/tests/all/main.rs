//! The tests of the live crate that need no namespace: one program, so that they are linked once.
//! Sandboxes are started by a process with one thread, so their tests are a program beside this
//! folder.

mod device_paced;
mod event_loop;
#[cfg(feature = "vhost-user")]
mod guest;
mod hostile;
#[cfg(feature = "vhost-user")]
mod vhost_user;
