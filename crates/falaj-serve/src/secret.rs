//! Files that only the service should be able to read.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Warns if every user of this host may read the file. The file is used nevertheless: if secrets
/// are mounted, the operator cannot choose the file's mode.
pub(super) fn warn_of_readers(option: &str, file: &Path) {
    // A file without metadata cannot be read either; that error is reported elsewhere.
    let Ok(about) = file.metadata() else { return };
    if about.permissions().mode() & 0o004 != 0 {
        let name = file.display();
        note!("warning: {option} {name}: every user of this host may read it: chmod o= {name}");
    }
}
