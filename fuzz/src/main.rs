//! Runs the fuzz targets of the ordinary tests under libFuzzer, which keeps the inputs that reach
//! new code, and mutates them. `FALAJ_FUZZ_TARGET` names the target. `fuzz/run` builds this
//! program, and runs all targets one after the other.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// Includes the file of a test, whose functions are called here.
macro_rules! tests {
    ($name:ident, $path:literal) => {
        #[allow(dead_code, unused, unreachable_pub)]
        #[path = $path]
        mod $name;
    };
}

tests!(parsers, "../../crates/falaj-scenario/tests/all/fuzz.rs");
tests!(importers, "../../crates/falaj-import/tests/all/fuzz.rs");
tests!(common, "../../crates/falaj-engine/tests/all/common/mod.rs");
tests!(scheduler, "../../crates/falaj-engine/tests/all/fuzz.rs");
tests!(rules, "../../crates/falaj-engine/tests/all/rules.rs");
tests!(batches, "../../crates/falaj-engine/tests/all/batches.rs");
tests!(ring, "../../crates/falaj-batch/tests/all/ring.rs");
tests!(memif, "../../crates/falaj-batch/tests/all/memif.rs");
tests!(ports, "../../crates/falaj-live/tests/all/hostile.rs");
tests!(guest, "../../crates/falaj-live/tests/all/guest.rs");
tests!(guests, "../../crates/falaj-live/tests/all/vhost_user.rs");
tests!(relays, "../../crates/falaj-relay/tests/all/hostile.rs");
// These two files are private to their crate. Each uses nothing of the crate except the other.
#[path = "."]
mod xdp {
    tests!(sys, "../../crates/falaj-live/src/backend/xdp/sys.rs");
    tests!(chunks, "../../crates/falaj-live/src/backend/xdp/chunks.rs");

    pub(super) fn hostile(bytes: &[u8]) {
        chunks::hostile(bytes);
    }
}
tests!(queues, "../../crates/falaj-live/src/backend/nfqueue/message.rs");
tests!(keys, "../../crates/falaj-serve/src/keys.rs");

fn target() -> Box<dyn Fn(&[u8]) + Send + Sync> {
    let name = std::env::var("FALAJ_FUZZ_TARGET").expect("FALAJ_FUZZ_TARGET names a target");
    match name.as_str() {
        "scheduler" => Box::new(|bytes| {
            scheduler::scheduler(bytes);
        }),
        "packet" => Box::new(rules::packet),
        "capture" => Box::new(|bytes| drop(falaj_traffic::capture::read(bytes))),
        "container" => Box::new(|bytes| {
            batches::hostile(bytes, bytes.first().map_or(0, |&byte| usize::from(byte) % 13))
        }),
        "ring" => Box::new(ring::hostile),
        "memif" => Box::new(memif::hostile),
        "unit" => Box::new(ports::unit),
        "adapters" => Box::new(ports::adapters),
        "guest" => Box::new(guests::rings),
        "monitor" => Box::new(guests::monitor),
        "xdp" => Box::new(xdp::hostile),
        "relay" => Box::new(relays::relay),
        "nfqueue" => Box::new(queues::hostile),
        "body" => Box::new(|bytes| {
            if let Ok(text) = std::str::from_utf8(bytes) {
                keys::hostile(text);
            }
        }),
        name => {
            let mut all = parsers::TARGETS.into_iter().chain(importers::TARGETS);
            let (_, target, _) = all.find(|known| known.0 == name).expect("a target");
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
