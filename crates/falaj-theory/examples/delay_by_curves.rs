//! The delay bound as the distance between two curves, over one server and over two.
//! `cargo run -p falaj-theory --example delay_by_curves`

use falaj_sched::units::{rate::Rate, time::Span};
use falaj_theory::{Curve, exact};

pub(crate) fn main() {
    // 3000 B at once and 10 Mbit/s in the long run; each server serves at 20 Mbit/s after 1 ms.
    let sent = Curve::token_bucket(Rate::from_mbit(10), 3000);
    let server = Curve::rate_latency(Rate::from_mbit(20), Span::from_millis(1));
    let one = sent.delay(&server).expect("a bound").length;
    let two = sent.delay(&server.convolve(&server)).expect("a bound").length;
    println!("one server: {one} ns, two in a row: {two} ns");
    // One server takes 1 ms + 1.2 ms, two take 2 ms + 1.2 ms: the burst is paid for only once.
    assert_eq!((one, two), (exact(2_200_000), exact(3_200_000)));
}
