//! The setup of a class: its two buckets, and its parameters for turns.

use crate::contract::params::{ConfigError, FlowSetup, Setup};
use crate::mechanisms::bucket::{Bucket, bucket, usual_burst};
use crate::mechanisms::classes::Shape;
use crate::mechanisms::weights::{Instant, pace};
use crate::units::rate::Rate;
use alloc::format;

#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    pub(super) own: Bucket,
    pub(super) ceil: Bucket,
    /// Virtual time per byte.
    pub(super) pace: Instant,
    /// Priority of a leaf.
    pub(super) prio: u8,
    /// Index of the class's order in `Htb::green`.
    pub(super) level: u8,
}

impl Rule {
    /// The rule of a class in a tree of this depth. Errors name the class by its number.
    pub(super) fn of(
        setup: &Setup,
        shape: &Shape,
        deepest: usize,
        (class, number, f): (u32, usize, &FlowSetup),
    ) -> Result<Rule, ConfigError> {
        let refused = |param, what, help| ConfigError { flow: Some(number), param, what, help };
        let own = bucket(setup, number, f)?;
        let ceil = f.values.rate("ceil").unwrap_or(setup.rate.max(own.rate));
        if ceil < own.rate {
            let what = format!("a ceiling of {ceil} is below the rate of {}", own.rate);
            return Err(refused("ceil", what, format!("at least {}", own.rate)));
        }
        let burst = f.values.bytes("ceil-burst").unwrap_or(usual_burst(ceil, setup.largest));
        if burst < setup.largest.into() {
            let what = format!("a bucket of {burst} B never holds a packet of {} B", setup.largest);
            return Err(refused("ceil-burst", what, format!("at least `{}B`", setup.largest)));
        }
        let is_leaf = shape.is_leaf(class);
        // The default priority: 0.
        let prio = f.values.count("prio").unwrap_or(0);
        if !is_leaf && prio > 0 {
            let what = "a class that is divided has no priority: its parts have".into();
            return Err(refused("prio", what, "give `prio` to its parts".into()));
        }
        if prio > 7 {
            let what = format!("{prio} is out of range");
            return Err(refused("prio", what, "from 0, which goes first, to 7".into()));
        }
        let quantum = f.values.bytes("quantum");
        if let Some(bytes) = quantum.filter(|&bytes| bytes == 0 || bytes > u64::from(u32::MAX)) {
            let what = format!("a quantum of {bytes} B is out of range");
            return Err(refused("quantum", what, "from `1B` to `4GB`".into()));
        }
        Ok(Rule {
            own,
            ceil: Bucket::new(ceil, burst),
            // The default quantum: a tenth of a second's bytes.
            pace: pace(quantum.map_or(own.rate, |bytes| Rate(bytes * 80))),
            prio: prio as u8,
            level: if is_leaf { 0 } else { (deepest + 1 - shape.path(class).count()) as u8 },
        })
    }
}
