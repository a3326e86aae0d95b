//! All tests of the live crate that need no namespaces, in one program, so that they are linked
//! once. Only a single-threaded process can start a sandbox, so the tests of sandboxes are a
//! separate program beside this folder.

mod device_paced;
mod event_loop;
#[cfg(feature = "vhost-user")]
mod guest;
mod hostile;
#[cfg(feature = "vhost-user")]
mod vhost_user;
