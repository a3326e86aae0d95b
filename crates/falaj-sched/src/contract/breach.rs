//! Breaches of the contract by the discipline of a library, as reports name them.

use crate::units::time::Time;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// How a library's discipline broke the contract, and what was done instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// As the scenario names it.
    pub library: String,
    /// What it did.
    pub what: String,
    /// When, the first time.
    pub at: Time,
    /// How many instances did so.
    pub times: u64,
    /// Packets that were sent by turns since then.
    pub instead: u64,
}

impl Breach {
    /// Puts it among others: those that are alike are one.
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
        write!(f, "; it is not asked again, and {instead} packets took turns")
    }
}
