//! The guest's job, and its file format: texts, each ended by a zero byte.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// A command, as it would run outside of the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// The program and its arguments; not empty.
    pub command: Vec<OsString>,
    /// The directory in which it runs.
    pub directory: PathBuf,
    /// Its environment.
    pub environment: Vec<(OsString, OsString)>,
}

impl Job {
    /// This command with this process's directory and environment.
    ///
    /// # Errors
    /// The directory is gone.
    pub fn here(command: Vec<OsString>) -> std::io::Result<Job> {
        let environment = std::env::vars_os().collect();
        Ok(Job { command, directory: std::env::current_dir()?, environment })
    }
}

/// The destination or source of a stream of the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stream {
    /// No stream: /dev/null.
    #[default]
    Nothing,
    /// For standard input only: the whole input is in a file of the spool.
    File,
    /// A pipe between guest and host.
    Pipe,
    /// A terminal of the guest's own.
    Terminal,
    /// For standard error only: the destination of standard output.
    Output,
}

impl Stream {
    const WORDS: [(&'static str, Stream); 5] = [
        ("nothing", Stream::Nothing),
        ("file", Stream::File),
        ("pipe", Stream::Pipe),
        ("terminal", Stream::Terminal),
        ("output", Stream::Output),
    ];

    fn word(self) -> &'static str {
        Stream::WORDS.iter().find(|(_, stream)| *stream == self).map_or("", |(word, _)| word)
    }
}

/// Rows and columns of a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WindowSize {
    pub(crate) rows: u16,
    pub(crate) columns: u16,
}

/// All instructions for the guest's init.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) job: Job,
    /// Standard input, output and error.
    pub(crate) streams: [Stream; 3],
    pub(crate) window: WindowSize,
    /// True if the host's terminal converts newlines, so that the guest's terminal must not.
    pub(crate) host_processes_output: bool,
    /// Seed of all random numbers.
    pub(crate) seed: u64,
    /// Name of the host.
    pub(crate) host: OsString,
    /// Directories that are hidden from the command.
    pub(crate) hidden: Vec<PathBuf>,
}

impl Order {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let number = |number: u64| OsString::from(number.to_string());
        let mut texts: Vec<OsString> =
            self.streams.iter().map(|stream| stream.word().into()).collect();
        texts.push(number(self.window.rows.into()));
        texts.push(number(self.window.columns.into()));
        texts.push(number(self.host_processes_output.into()));
        texts.push(number(self.seed));
        texts.push(self.host.clone());
        texts.push(self.job.directory.clone().into());
        texts.push(number(self.hidden.len() as u64));
        texts.extend(self.hidden.iter().map(|path| path.clone().into()));
        texts.push(number(self.job.command.len() as u64));
        texts.extend(self.job.command.iter().cloned());
        for (name, value) in &self.job.environment {
            texts.extend([name.clone(), value.clone()]);
        }
        texts.iter().flat_map(|text| text.as_bytes().iter().copied().chain([0])).collect()
    }

    /// Parses an order; `None` if the bytes are no valid order.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Order> {
        let mut texts = bytes.strip_suffix(&[0])?.split(|byte| *byte == 0);
        let stream = |text: &[u8]| {
            let known = Stream::WORDS.iter().find(|(word, _)| word.as_bytes() == text);
            known.map(|(_, stream)| *stream)
        };
        let streams = [stream(texts.next()?)?, stream(texts.next()?)?, stream(texts.next()?)?];
        let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
        let rows = u16::try_from(number(texts.next()?)?).ok()?;
        let columns = u16::try_from(number(texts.next()?)?).ok()?;
        let host_processes_output = number(texts.next()?)? == 1;
        let seed = number(texts.next()?)?;
        let text = |text: &[u8]| OsStr::from_bytes(text).to_owned();
        let host = text(texts.next()?);
        let directory = PathBuf::from(text(texts.next()?));
        let hidden = number(texts.next()?)?;
        let hidden: Vec<PathBuf> =
            texts.by_ref().take(usize::try_from(hidden).ok()?).map(|t| text(t).into()).collect();
        let words = usize::try_from(number(texts.next()?)?).ok()?;
        let command: Vec<OsString> =
            texts.by_ref().take(words).map(|word| OsString::from_vec(word.to_vec())).collect();
        let mut environment = Vec::new();
        while let Some(name) = texts.next() {
            environment.push((text(name), text(texts.next()?)));
        }
        if command.is_empty() || command.len() != words {
            return None;
        }
        Some(Order {
            job: Job { command, directory, environment },
            streams,
            window: WindowSize { rows, columns },
            host_processes_output,
            seed,
            host,
            hidden,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_arrives_as_it_was_written() {
        let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        let order = Order {
            job: Job {
                command: vec![text(b"sh"), text(b"-c"), text(b"a\nb\xff"), text(b"")],
                directory: "/with a space".into(),
                environment: vec![(text(b"A"), text(b"")), (text(b"B"), text(b"1=2\n"))],
            },
            streams: [Stream::File, Stream::Terminal, Stream::Output],
            window: WindowSize { rows: 24, columns: 80 },
            host_processes_output: true,
            seed: u64::MAX,
            host: text(b"host"),
            hidden: vec!["/run".into()],
        };
        let bytes = order.to_bytes();
        assert_eq!(Order::from_bytes(&bytes), Some(order));
        for end in 0..bytes.len() {
            // A truncated order is invalid, or has fewer variables; parsing never panics.
            let _ = Order::from_bytes(&bytes[..end]);
        }
        assert_eq!(Order::from_bytes(b""), None);
        assert_eq!(Order::from_bytes(b"pipe\0pipe\0sea\0"), None);
    }
}
