//! Delays, rates and shares as falaj prints them, in a table.
//! `cargo run -p falaj-terminal --example a_table_of_delays`

use falaj_sched::units::time::Span;
use falaj_terminal::text;

pub(crate) fn main() {
    let row = |flow: &str, delay: u64, rate: f64, dropped: u64| {
        let delay = text::span(Some(Span(delay)));
        vec![flow.to_owned(), delay, text::rate(rate), text::percent(dropped, 1_000)]
    };
    let rows = [row("calls", 382_000, 1e6, 0), row("files", 12_100_000, 19.05e6, 365)];
    let table = text::table(&["flow", "delay p50", "rate", "dropped"], rows).to_string();
    println!("{table}");
    assert!(table.contains("382 us") && table.contains("36.50 %"));
}
