//! Tests that the header, its Rust version, and the page that shows it agree.

use crate::common;
use falaj_plugin_api::abi;
use std::fmt::Write;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

macro_rules! layout {
    ($out:ident, $c:literal, $rust:ty, $($member:ident)*) => {
        writeln!($out, "{} {}", $c, size_of::<$rust>()).unwrap();
        $(
            let offset = offset_of!($rust, $member);
            writeln!($out, "{}.{} {}", $c, stringify!($member), offset).unwrap();
        )*
    };
}

#[test]
fn what_c_has_rust_has_in_the_same_places() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/layout.c");
    let output = Command::new(common::cc(&source, &[])).output().unwrap();
    let mut own = String::new();
    writeln!(own, "abi {}\nflags {}", abi::ABI, abi::WORK_CONSERVING).unwrap();
    writeln!(
        own,
        "decisions {} {} {} {} {}",
        abi::IDLE,
        abi::SERVE,
        abi::WAIT,
        abi::DROP,
        abi::FAILED
    )
    .unwrap();
    let units = [abi::TEXT, abi::NUMBER, abi::RATE, abi::SPAN, abi::BYTES, abi::PACKETS];
    writeln!(own, "units {}", units.map(|unit| unit.to_string()).join(" ")).unwrap();
    writeln!(own, "none {} {}", abi::UNBOUNDED, abi::NO_FLOW).unwrap();
    layout!(own, "falaj_param", abi::Param, name text number unit);
    layout!(own, "falaj_flow", abi::Flow, params max_bytes max_packets param_count);
    layout!(own, "falaj_setup", abi::Setup, flows params rate flow_count param_count largest);
    layout!(own, "falaj_refusal", abi::Refusal, flow what help);
    layout!(own, "falaj_queue", abi::Queue, tag bytes head packets);
    layout!(own, "falaj_answer", abi::Answer, time why flow);
    layout!(own, "falaj_sent", abi::Sent, start end bytes);
    layout!(own, "falaj_guarantee", abi::Guarantee, rate latency delay);
    layout!(
        own, "falaj_discipline", abi::Discipline,
        abi flags name create destroy ready next take arrived changed migrate_from is_reusable
        guarantee
    );
    assert_eq!(String::from_utf8(output.stdout).unwrap(), own);
}

#[test]
fn the_page_shows_the_header() {
    let header = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("include/falaj_discipline.h"),
    );
    let page = format!(
        "# The interface of plug-ins\n\n\
         <!-- Made from the header by `UPDATE_EXPECT=1 cargo test -p falaj-plugin`; a test fails where it is not up to date. -->\n\n\
         `crates/falaj-plugin/include/falaj_discipline.h`, version {}. How to write a discipline with it, and what falaj does if a discipline\n\
         breaks the contract: [Write a discipline of your own](../how-to/plugin.md). In Rust, the crate `falaj-plugin-api` has the same as a\n\
         trait.\n\n```c\n{}```\n",
        abi::ABI & 0xffff,
        header.unwrap(),
    );
    // An absolute path, independent of any outer workspace.
    expect_test::expect_file![concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/plugin.md"
    )]
    .assert_eq(&page);
}
