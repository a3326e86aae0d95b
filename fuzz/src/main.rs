//! The targets of the ordinary tests under libFuzzer, which grows its inputs by what code they reach. Which target it is stands in
//! `FALAJ_FUZZ_TARGET`; `fuzz/run` builds this and goes through all of them.
#![no_main]

use falaj_aggregate::memif::message::LENGTH;
use falaj_aggregate::memif::session::Role;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// Tests as they stand, for the plain functions in them.
macro_rules! tests {
    ($name:ident, $path:literal) => {
        #[allow(dead_code, unused, unreachable_pub)]
        #[path = $path]
        mod $name;
    };
}

tests!(parsers, "../../crates/falaj-scenario/tests/fuzz.rs");
tests!(scheduler, "../../crates/falaj-engine/tests/fuzz.rs");
tests!(rules, "../../crates/falaj-engine/tests/rules.rs");
tests!(containers, "../../crates/falaj-engine/tests/containers.rs");
tests!(ring, "../../crates/falaj-aggregate/tests/ring.rs");
tests!(memif, "../../crates/falaj-aggregate/tests/memif.rs");

fn target() -> Box<dyn Fn(&[u8]) + Send + Sync> {
    let name = std::env::var("FALAJ_FUZZ_TARGET").expect("FALAJ_FUZZ_TARGET names a target");
    match name.as_str() {
        "scheduler" => Box::new(|bytes| {
            scheduler::scheduler(bytes);
        }),
        "packet" => Box::new(rules::packet),
        "container" => {
            Box::new(|bytes| containers::hostile(bytes, bytes.first().map_or(0, |&byte| usize::from(byte) % 13)))
        }
        "ring" => Box::new(ring::hostile),
        "memif-messages" => Box::new(|bytes| {
            let (role, messages) = bytes.split_first().unwrap_or((&0, &[]));
            let messages: Vec<Vec<u8>> = messages.chunks(LENGTH).map(<[u8]>::to_vec).collect();
            memif::told(if role % 2 == 0 { Role::Master } else { Role::Slave }, &messages);
        }),
        "memif-memory" => Box::new(|bytes| {
            let write = |bytes: &[u8; 10]| {
                let [at0, at1, value @ ..] = *bytes;
                (u16::from_le_bytes([at0, at1]), u64::from_le_bytes(value))
            };
            memif::rings(&bytes.as_chunks().0.iter().map(write).collect::<Vec<_>>());
        }),
        name => {
            let (_, target, _) = parsers::TARGETS.into_iter().find(|known| known.0 == name).expect("a target");
            Box::new(move |bytes| {
                if let Ok(text) = std::str::from_utf8(bytes) {
                    target(text);
                }
            })
        }
    }
}

static TARGET: LazyLock<Box<dyn Fn(&[u8]) + Send + Sync>> = LazyLock::new(target);

fuzz_target!(|bytes: &[u8]| TARGET(bytes));
