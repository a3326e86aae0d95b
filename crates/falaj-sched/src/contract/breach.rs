//! Breaches of the contract by a library's discipline, as reports show them.

use crate::units::time::Time;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A breach of the contract by a library's discipline, and the packets that were sent without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The library's name in the scenario.
    pub library: String,
    /// Description of the breach.
    pub what: String,
    /// Time of the first breach.
    pub at: Time,
    /// Number of instances that broke the contract.
    pub times: u64,
    /// Packets sent since then by round robin, instead of by the library.
    pub instead: u64,
}

impl Breach {
    /// Adds the breach to a list. Equal breaches are merged.
    pub fn join(self, all: &mut Vec<Breach>) {
        match all
            .iter_mut()
            .find(|other| (&other.library, &other.what) == (&self.library, &self.what))
        {
            Some(other) => {
                other.at = other.at.min(self.at);
                other.times += self.times;
                other.instead += self.instead;
            }
            None => all.push(self),
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Breach { library, what, at, times, instead } = self;
        write!(
            f,
            "the plug-in `{library}` broke its contract at {}: {what}",
            at.since(Time::ZERO)
        )?;
        if *times > 1 {
            write!(f, " ({times} times, each in a pipe of its own)")?;
        }
        write!(f, "; it is not called again, and {instead} packets took turns")
    }
}
