//! The scenario file of falaj: one TOML file that describes the links, their division into flows,
//! the traffic on them, and the simulation.
//!
//! [`parse`] reads a file into a [`Scenario`], in which every value is in range and every
//! discipline accepts its parameters. Otherwise it reports all problems of the file, each with its
//! place, its reason, and a cure.
//!
//! ```
//! let (scenario, warnings) = falaj_scenario::parse(
//!     r#"
//!         [link.uplink]
//!         rate = "100mbit"
//!         delay = "2ms"
//!         scheduler = { kind = "drr" }
//!
//!         [link.uplink.flow.voice]
//!         match = "udp dport 5004"
//!
//!         [link.uplink.flow.rest]
//!         match = "any"
//!     "#,
//!     "uplink.toml",
//! )?;
//! assert_eq!(scenario.links[0].up.flows[0].name, "voice");
//! assert!(warnings.is_empty());
//!
//! let wrong = falaj_scenario::parse("[link.a]\nrate = \"10M\"", "a.toml").unwrap_err();
//! assert!(wrong.to_string().contains("write `10mbit` for bits, or `10MB/s` for bytes"));
//! # Ok::<(), falaj_scenario::Diagnostics>(())
//! ```
//!
//! | module | purpose |
//! |---|---|
//! | [`units`] | quantities: exact decimals and unambiguous units |
//! | `matching` | rules that assign packets to flows |
//! | `routing` | rules that route packets over links, and their lookup tables |
//! | `mask` | masks that divide a flow or a link into many |
//! | [`keys`] | every key of the file, described once |
//! | `model` | the contents of a scenario |
//! | [`difference`] | the change of the engine from one scenario to another |
//! | `lints` | values that are legal but hardly intended |
//! | `adapters` | virtual adapters, and the other end of their link |
//! | `parse`, `syntax`, `read` | from the text to the scenario |
//! | `link` | links and their directions: rate, flows, scheduler, plug-ins |
//! | `impairments` | impairments of packets behind a link's queue |
//! | `traffic`, `hosts` | sources of traffic; hosts and their links |
//! | `changes`, `schedule` | scheduled changes, and their order in a run |
//! | [`mod@reference`] | a key explained, the reference page, the JSON Schema, generated from `keys` |
//! | `format` | uniform layout of the file |
//! | [`edit`] | setting values in the file, at the place that a key names |
//! | `incremental` | setting values of one flow in a scenario that was read |
//! | `files` | other files that a scenario names |
//! | `presets` | well-known links by name |
//! | [`suggest`] | names in messages: quoted, listed, and the most similar name |
//! | `diagnostics` | problems and their places |
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used)]

mod adapters;
mod changes;
mod diagnostics;
pub mod difference;
pub mod edit;
mod files;
mod format;
mod hosts;
mod impairments;
mod incremental;
pub mod keys;
mod link;
mod lints;
mod mask;
mod matching;
mod model;
mod parse;
mod presets;
mod read;
pub mod reference;
mod routing;
mod schedule;
pub mod suggest;
mod syntax;
mod traffic;
pub mod units;

pub use diagnostics::{Diagnostics, Problem, Severity};
pub use files::link_trace::LinkTrace;
pub use files::named::files_named;
pub use files::place::{bytes_from, bytes_of, text_of};
pub use format::{RULES, WIDTH, format};
pub use incremental::{FlowChange, Undo, set_values};
pub use link::queue::default_queue;
pub use mask::PARTS;
pub use matching::{TERMS, parse_match, parse_match_or_empty};
pub use model::{
    ALL, Adapter, Bucket, Direction, Flow, Host, Link, ROUTER, Requirement, Rule, Run, RunTime,
    SIMPLE, Scenario, Source, Towards, pipe_of,
};
pub use parse::parse;
pub use presets::{PRESETS, Preset, presets};
pub use schedule::{Schedule, ScheduledChange};
pub use traffic::RaisedLengths;
pub use units::{
    RATE_MAX, Unreadable, parse_limit, parse_mtu, parse_numbers, parse_overhead, parse_probability,
    parse_rate, parse_size, parse_sizes, parse_span,
};
