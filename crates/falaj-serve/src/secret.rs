//! Files that are to be read by the service alone.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Says so if everybody on this host may read it. It is used all the same: where secrets are
/// mounted, modes are not the operator's to choose.
pub(super) fn warn_of_readers(option: &str, file: &Path) {
    // Who cannot be asked about cannot be read either, which is said elsewhere.
    let Ok(about) = file.metadata() else { return };
    if about.permissions().mode() & 0o004 != 0 {
        let name = file.display();
        note!("warning: {option} {name}: everybody on this host may read it: chmod o= {name}");
    }
}
