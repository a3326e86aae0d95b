//! Output paths, which are checked before long work begins.

use anyhow::{Context, Result, bail};
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;

/// Extensions of picture formats that falaj does not write.
const OTHER_PICTURES: [&str; 9] = ["bmp", "eps", "gif", "jpeg", "jpg", "ps", "tif", "tiff", "webp"];

/// Returns true if a path names one picture, `*.svg`, `*.png` or `*.pdf`; false if it names a
/// directory for several pictures.
///
/// # Errors
/// The extension is that of a picture format that falaj does not write; the message names a
/// converter.
pub fn is_one_picture(option: &str, path: &Path) -> Result<bool> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let ending = ending.to_ascii_lowercase();
    if OTHER_PICTURES.contains(&ending.as_str()) {
        bail!(
            "{option} {}: pictures are written as `*.svg`, `*.png` and `*.pdf`; for others convert \
             the SVG",
            path.display()
        );
    }
    Ok(["svg", "png", "pdf"].contains(&ending.as_str()))
}

/// Checks that a file can be written, without changing anything.
///
/// # Errors
/// The file cannot be written.
pub fn try_file(path: &Path) -> Result<()> {
    let tried = match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(_) => fs::remove_file(path),
        // A pipe or a device is opened only once, when the result is written.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && !is_special(path) => {
            OpenOptions::new().append(true).open(path).map(drop)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    };
    tried.with_context(|| format!("cannot write {}", path.display()))
}

fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// Creates a directory, and checks that files can be written there.
///
/// # Errors
/// The directory or a file in it cannot be created.
pub fn try_directory(path: &Path) -> Result<()> {
    fs::create_dir_all(path)
        .with_context(|| format!("cannot make the directory {}", path.display()))?;
    try_file(&path.join(format!(".falaj-{}", std::process::id())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_tried_and_left_as_it_was() {
        let at = std::env::temp_dir().join(format!("falaj-place-{}", std::process::id()));
        try_directory(&at.join("made/deep")).expect("it can be made");
        let (new, old) = (at.join("new"), at.join("old"));
        fs::write(&old, "kept").expect("it can be written");
        try_file(&new).expect("it can be written");
        try_file(&old).expect("it can be written");
        assert!(!new.exists() && fs::read(&old).expect("it is there") == b"kept");
        assert_eq!(fs::read_dir(at.join("made/deep")).expect("a directory").count(), 0);
        assert!(try_file(&at.join("none/new")).is_err() && try_file(&at).is_err());
        assert!(try_directory(&old).is_err());
        fs::remove_dir_all(&at).expect("it is ours");
    }

    #[test]
    fn pictures_are_known_by_their_names() {
        let is_one = |name: &str| is_one_picture("--svg", Path::new(name));
        for (name, one) in
            [("a.svg", true), ("a.PNG", true), ("a.pdf", true), ("a", false), ("v0.5", false)]
        {
            assert_eq!(is_one(name).ok(), Some(one), "{name}");
        }
        for name in ["a.gif", "a.b.JPG", "x/a.eps"] {
            let error = is_one(name).expect_err("not written").to_string();
            assert!(error.contains("*.svg") && error.contains(name), "{error}");
        }
    }
}
