//! Names of the ends of a bridge: `eth0`, `eth0@NETNS`, `vhost:/run/a.sock`, `memif:/run/b.sock`,
//! `nfqueue:5`.

use super::{BACKENDS, Backend, BackendEntry, InterfaceName, Monitor};
use falaj_engine::batch::BatchPolicy;
use std::any::Any;
use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// An open end, and the monitor of its changes.
pub type OpenEnd = (Box<dyn Backend>, Monitor);

/// Options for opening ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Use AF_XDP sockets instead of packet sockets for interfaces.
    pub xdp: bool,
    /// Policy for batches of packets to a peer that accepts batches.
    pub batches: Option<BatchPolicy>,
    /// For `nfqueue:N`: true if packets pass, instead of being dropped, when the kernel's queue is
    /// full and when falaj ends.
    pub fail_open: bool,
}

/// The name of an end, in the form of its backend; displayed with its scheme, and without secrets.
pub trait Address: Comparable + fmt::Debug + fmt::Display + Send + Sync {
    /// Opens the end.
    ///
    /// # Errors
    /// The step that failed, its cause, and a remedy.
    fn open(&self, options: &OpenOptions) -> Result<OpenEnd, OpenError>;

    /// The kernel interface that this address names, if it names one.
    fn interface(&self) -> Option<&InterfaceName> {
        None
    }

    /// The socket file that `open` creates, if any.
    fn socket(&self) -> Option<&Path> {
        None
    }
}

/// Comparison of names of different backends; implemented for each type that can be compared.
pub trait Comparable: Any {
    /// Returns true if both names stand for the same end.
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<T: Any + PartialEq> Comparable for T {
    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }
}

/// The name of an end of a bridge, of one of the [`BACKENDS`].
#[derive(Clone, Debug)]
pub struct EndName {
    entry: &'static BackendEntry,
    address: Arc<dyn Address>,
}

impl EndName {
    /// The entry of this end's backend in [`BACKENDS`].
    pub fn entry(&self) -> &'static BackendEntry {
        self.entry
    }

    /// The kernel interface that this name stands for, if it stands for one.
    pub fn interface(&self) -> Option<&InterfaceName> {
        self.address.interface()
    }

    /// The socket file that `open` creates, if any.
    pub fn socket(&self) -> Option<&Path> {
        self.address.socket()
    }

    /// Opens the end.
    ///
    /// # Errors
    /// The step that failed, its cause, and a remedy.
    pub fn open(&self, options: &OpenOptions) -> Result<OpenEnd, OpenError> {
        self.address.open(options)
    }
}

impl FromStr for EndName {
    type Err = String;

    fn from_str(text: &str) -> Result<EndName, String> {
        let found =
            BACKENDS.iter().find_map(|&entry| Some((entry, text.strip_prefix(entry.scheme)?)));
        let (entry, rest) = found.ok_or("no backend takes such a name")?;
        Ok(EndName { entry, address: (entry.parse)(rest)? })
    }
}

impl fmt::Display for EndName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

impl PartialEq for EndName {
    fn eq(&self, other: &EndName) -> bool {
        let other: &dyn Any = &*other.address;
        self.address.equals(other)
    }
}

impl Eq for EndName {}

/// The error of opening an end: its cause and, if the cause does not name them itself, the
/// attempted step with a remedy.
#[derive(Debug)]
pub struct OpenError {
    attempt: Option<Cow<'static, str>>,
    cause: Box<dyn Error + Send + Sync>,
}

impl OpenError {
    /// An error with its attempted step and a remedy.
    pub(crate) fn new(
        attempt: impl Into<Cow<'static, str>>,
        cause: impl Error + Send + Sync + 'static,
    ) -> OpenError {
        OpenError { attempt: Some(attempt.into()), cause: Box::new(cause) }
    }
}

impl From<crate::error::Error> for OpenError {
    fn from(cause: crate::error::Error) -> OpenError {
        OpenError { attempt: None, cause: Box::new(cause) }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.attempt {
            Some(attempt) => f.write_str(attempt),
            None => self.cause.fmt(f),
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self.attempt {
            Some(_) => Some(&*self.cause),
            None => self.cause.source(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each backend parses the first name in its example, and displays it as it was written.
    #[test]
    fn each_backend_reads_the_names_of_its_example() {
        for backend in BACKENDS.iter().filter(|backend| !backend.example.is_empty()) {
            let text = backend.example.split(' ').next().expect("a word");
            match text.parse::<EndName>() {
                Ok(name) => {
                    assert!(std::ptr::eq(name.entry(), *backend), "{text}");
                    assert_eq!(name.to_string(), text);
                }
                Err(why) => assert!(why.contains("was built without"), "{text}: {why}"),
            }
            assert!(backend.form.starts_with(backend.scheme) && !backend.help.is_empty());
        }
    }

    #[test]
    fn names_of_all_backends_are_read_and_compared() {
        for text in ["eth0", "eth0@blue", "memif:/run/a.sock,slave,id=3", "nfqueue:5"] {
            let name = text.parse::<EndName>().expect("a name");
            assert_eq!(name.to_string(), text);
            assert_eq!(text.parse(), Ok(name.clone()));
            assert_ne!("eth1".parse(), Ok(name));
        }
        let queue = "nfqueue:5".parse::<EndName>().expect("a queue");
        assert!(queue.entry().returns_packets && queue.interface().is_none());
        let secret = "memif:/a,secret=x".parse::<EndName>().expect("shared memory");
        assert_eq!(secret.to_string(), "memif:/a", "a secret is not displayed");
        assert_eq!(secret.socket(), Some(Path::new("/a")));
        for none in ["eth0", "memif:/a,slave", "memif:@a"] {
            assert_eq!(none.parse::<EndName>().expect("a name").socket(), None, "{none}");
        }
        assert_ne!(secret, "memif:/a".parse().expect("shared memory"));
        assert!("nfqueue:x".parse::<EndName>().is_err() && "vhost:".parse::<EndName>().is_err());
    }
}
