//! Measures how long no service was running before a start, if the previous service was killed.
//!
//! Once a second the modification time of the control socket's file is set to the present. An
//! orderly end removes the file. After any other end, the modification time shows when the service
//! last ran.

use falaj_sched::units::time::Span;
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::SystemTime;
use tracing::warn;

/// Records that the service of this control socket is running.
pub(super) fn give(socket: &Path) {
    // If this fails, a later start only reports the outage less precisely.
    let _ = utimensat(
        AT_FDCWD,
        socket,
        &TimeSpec::UTIME_OMIT,
        &TimeSpec::UTIME_NOW,
        UtimensatFlags::NoFollowSymlink,
    );
}

/// Returns the time at which the service that left this control socket behind last ran.
pub(super) fn last(socket: &Path) -> Option<SystemTime> {
    let left = fs::symlink_metadata(socket).ok()?;
    left.file_type().is_socket().then(|| left.modified().ok())?
}

/// Logs the length of the outage once packets are forwarded again.
pub(super) fn tell(seen: SystemTime, is_bridged: bool) {
    let past = seen.elapsed().unwrap_or_default();
    let gap = Span(u64::try_from(past.as_nanos()).unwrap_or(u64::MAX));
    let meanwhile =
        if is_bridged { "packets passed without guarantees" } else { "no packet passed" };
    warn!(
        gap_ns = gap.0,
        "the previous service was killed, or its host stopped: {meanwhile} for {gap}, to the nearest second"
    );
}
