//! The tests of the live crate without namespaces in one program, so that they are linked once.
//! Sandboxes have to be started by a single-threaded process, so their tests are a program beside
//! this folder.

mod device_paced;
mod event_loop;
#[cfg(feature = "vhost-user")]
mod guest;
mod hostile;
#[cfg(feature = "vhost-user")]
mod vhost_user;
