//! Text files: the scenario, and the files that it names, which consist of lines of words. A place
//! is a line and a column of such a file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The text of a file, or the place at which it is not UTF-8.
pub(crate) fn decoded(bytes: Vec<u8>) -> Result<String, At> {
    String::from_utf8(bytes).map_err(|error| {
        let (good, rest) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
        let before =
            String::from_utf8_lossy(good.rsplit(|byte| *byte == b'\n').next().unwrap_or_default());
        let what = format!(
            "the byte 0x{:02x} is not a character: a text is in UTF-8",
            rest.first().unwrap_or(&0)
        );
        At { line, column: 1 + before.chars().count(), what }
    })
}

/// Maximum size in bytes of a scenario, or of a file that a scenario names.
const LONGEST: u64 = 64 << 20;

/// The bytes of a text file. If the file is too long, such as `/dev/zero` or a capture of
/// gigabytes, reading stops at the limit.
///
/// # Errors
/// The file cannot be read, or has more than 64 MiB.
pub fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    bytes_from(File::open(path)?)
}

/// The bytes of a text file that is open already, such as standard input.
///
/// # Errors
/// The errors of [`bytes_of`].
pub fn bytes_from(reader: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        let mib = LONGEST >> 20;
        return Err(io::Error::other(format!("it has more than {mib} MiB, the most for a text")));
    }
    Ok(bytes)
}

/// Decodes the text of the file with this name. If the bytes are not UTF-8, the error names the
/// place and the problem.
pub fn text_of(bytes: Vec<u8>, name: &str) -> Result<String, String> {
    decoded(bytes).map_err(|at| at.in_file(name))
}

/// A line and a column, counted from 1, and the problem there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct At {
    line: usize,
    column: usize,
    what: String,
}

impl At {
    pub(crate) const START: At = At { line: 1, column: 1, what: String::new() };

    pub(crate) fn says(&self, what: impl Into<String>) -> At {
        At { what: what.into(), ..*self }
    }

    /// The place that is this number of characters later in the line.
    pub(crate) fn later(&self, by: usize) -> At {
        At { column: self.column + by, ..self.clone() }
    }

    /// The problem with its place in the file `name`, as in `wifi.dist:3:7: what is wrong`.
    pub(crate) fn in_file(&self, name: &str) -> String {
        format!("{name}:{}:{}: {}", self.line, self.column, self.what)
    }
}

/// All lines of a text that are not blank, without comments and surrounding blanks, each with its
/// place.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (At, &str)> {
    text.lines().enumerate().filter_map(|(n, whole)| {
        let line = whole.split('#').next().unwrap_or("");
        let column = 1 + line.chars().take_while(|c| c.is_whitespace()).count();
        let line = line.trim();
        (!line.is_empty()).then(|| (At { line: n + 1, column, what: String::new() }, line))
    })
}

/// The words of each line that has words, without comments, each word with its place.
pub(crate) fn words_of_lines(text: &str) -> impl Iterator<Item = Vec<(At, &str)>> {
    text.lines().enumerate().filter_map(|(n, whole)| {
        let line = whole.split('#').next().unwrap_or("");
        let words = line.split_whitespace().map(|word| {
            let before = word.as_ptr() as usize - whole.as_ptr() as usize;
            let column = 1 + whole[..before].chars().count();
            (At { line: n + 1, column, what: String::new() }, word)
        });
        Some(words.collect::<Vec<_>>()).filter(|words| !words.is_empty())
    })
}

/// All words of a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (At, &str)> {
    words_of_lines(text).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_end_is_refused() {
        let error = bytes_of(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(error, "it has more than 64 MiB, the most for a text");
        assert_eq!(bytes_from(&b"[link.a]"[..]).unwrap(), b"[link.a]");
    }

    #[test]
    fn where_a_file_is_no_text() {
        assert_eq!(
            text_of("0s,1mbit\n# \u{e9}t\u{e9}".into(), "a").as_deref(),
            Ok("0s,1mbit\n# \u{e9}t\u{e9}")
        );
        for (bytes, place) in
            [(&b"\xff"[..], "1:1"), (b"a\nb\xc3\xa9 \xe9t", "2:4"), (b"a\n\x80", "2:1")]
        {
            let said = text_of(bytes.to_vec(), "a").unwrap_err();
            assert!(said.starts_with(&format!("a:{place}: the byte 0x")), "{said}");
        }
    }
}
