//! Names of interfaces, in this network namespace or another one, and states of interfaces.

use std::fmt;
use std::str::FromStr;

/// An interface: `eth0`, or one of another network namespace, `eth0@NETNS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceName {
    /// The interface.
    pub interface: String,
    /// A name under `/run/netns`, or the ID of a process in that namespace; `None` is the
    /// caller's namespace.
    pub namespace: Option<String>,
}

impl FromStr for InterfaceName {
    type Err = String;

    fn from_str(text: &str) -> Result<InterfaceName, String> {
        let (interface, namespace) = match text.rsplit_once('@') {
            Some((interface, namespace)) => (interface, Some(namespace)),
            None => (text, None),
        };
        // The rules for names of files, which the kernel applies to names of interfaces too. It
        // also refuses an interface name with `:` or white space; this is not checked here.
        let name_is_wrong = |name: &str| {
            name.is_empty() || name.contains(['/', '\0']) || name == "." || name == ".."
        };
        if name_is_wrong(interface) || interface.len() >= nix::libc::IFNAMSIZ {
            return Err("write an interface's name, such as `eth0`".into());
        }
        if namespace.is_some_and(name_is_wrong) {
            return Err("write `IF@NETNS`: a name under /run/netns, or the ID of a process".into());
        }
        Ok(InterfaceName {
            interface: interface.to_owned(),
            namespace: namespace.map(str::to_owned),
        })
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.interface)?;
        match &self.namespace {
            Some(namespace) => write!(f, "@{namespace}"),
            None => Ok(()),
        }
    }
}

/// The state of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceState {
    /// Up: frames pass.
    Up,
    /// Taken down: no frame passes until it is brought up.
    Down,
    /// No interface of that name exists; if one appears, it is used.
    Gone,
}

/// Writes `is up`, `is down`, `is gone`.
impl fmt::Display for InterfaceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InterfaceState::Up => "is up",
            InterfaceState::Down => "is down",
            InterfaceState::Gone => "is gone",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_may_be_in_another_namespace() {
        let place = |text: &str| text.parse::<InterfaceName>().map(|p| (p.interface, p.namespace));
        let is = |interface: &str, namespace: Option<&str>| {
            Ok((interface.to_owned(), namespace.map(str::to_owned)))
        };
        assert_eq!(place("eth0"), is("eth0", None));
        assert_eq!(place("eth0@blue"), is("eth0", Some("blue")));
        assert_eq!(place("a@b@4711"), is("a@b", Some("4711")));
        for wrong in ["", "@blue", "eth0@", "eth0@../blue", "eth0@..", "a/b", "sixteen-letters-"] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
        for text in ["eth0", "eth0@blue"] {
            assert_eq!(text.parse::<InterfaceName>().unwrap().to_string(), text);
        }
    }
}
