//! How long nothing passed before a start, where the service before was killed.
//!
//! Once a second the control socket's file is given the time of day as that of its last change. An
//! orderly end takes the file away; after any other it tells when the service was last seen.

use falaj_sched::units::time::Span;
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::SystemTime;
use tracing::warn;

/// Says that the service of this control socket is there.
pub(super) fn give(socket: &Path) {
    // Without it a later start has less to say, and no more than that.
    let _ = utimensat(
        AT_FDCWD,
        socket,
        &TimeSpec::UTIME_OMIT,
        &TimeSpec::UTIME_NOW,
        UtimensatFlags::NoFollowSymlink,
    );
}

/// When a service was last seen whose control socket is left there.
pub(super) fn last(socket: &Path) -> Option<SystemTime> {
    let left = fs::symlink_metadata(socket).ok()?;
    left.file_type().is_socket().then(|| left.modified().ok())?
}

/// Tells how long ago that was, now that packets pass.
pub(super) fn tell(seen: SystemTime, is_bridged: bool) {
    let past = seen.elapsed().unwrap_or_default();
    let gap = Span(u64::try_from(past.as_nanos()).unwrap_or(u64::MAX));
    let meanwhile = if is_bridged { "packets passed without promises" } else { "nothing passed" };
    warn!(
        gap_ns = gap.0,
        "the service before was killed, or its host was: {meanwhile} for {gap}, to a second"
    );
}
