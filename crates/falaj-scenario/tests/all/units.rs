//! Valid and invalid quantities; a quantity that is written and read again is the same.

use falaj_scenario::{
    parse_limit, parse_mtu, parse_numbers, parse_overhead, parse_probability, parse_rate,
    parse_size, parse_span,
};
use falaj_sched::queues::queue::Limit;
use falaj_sched::units::rate::Rate;
use falaj_sched::units::time::Span;
use proptest::prelude::*;

#[test]
fn spans() {
    for (text, nanos) in [
        ("0s", 0),
        ("1ns", 1),
        ("30us", 30_000),
        ("30 us", 30_000),
        (" 30us ", 30_000),
        ("30µs", 30_000),
        ("30μs", 30_000),
        ("0.5us", 500),
        ("1.50us", 1_500),
        ("121.12us", 121_120),
        ("007ms", 7_000_000),
        ("2s", 2_000_000_000),
        ("0.000000001s", 1),
        ("1.5min", 90_000_000_000),
        ("1h", 3_600_000_000_000),
        ("18446744073709551615ns", u64::MAX),
        ("0.000000000000000000h", 0),
    ] {
        assert_eq!(parse_span(text), Ok(Span(nanos)), "{text}");
    }
    for (text, message) in [
        ("", "an empty text is not a quantity"),
        ("40", "write `40ms` or `40s`"),
        ("0", "a number without a unit"),
        ("5m", "write `5min` or `5ms`"),
        ("5M", "could be minutes or milliseconds"),
        ("5MS", "did you mean `ms`?"),
        ("5sec", "not a unit of time"),
        ("-5ms", "is negative"),
        ("ms", "does not begin with a number"),
        (".5ms", "does not begin with a number"),
        ("5.ms", "does not begin with a number"),
        ("1.2.3ms", "has more than one point"),
        ("1,5ms", "with a point before decimals"),
        ("1_000ms", "with a point before decimals"),
        ("1e3ms", "more than one number and one unit"),
        ("1h30min", "more than one number and one unit"),
        ("0.3ns", "write `1ns`"),
        ("1.0005us", "write `1us` or `1.001us`"),
        ("18446744073709551616ns", "too large"),
        ("18446744073709551615.5ns", "too large"),
        ("6000000h", "too large"),
        ("99999999999999999999.9999h", "too large"),
        ("999999999999999999999h", "too many digits"),
        ("0.0000000000000000001h", "too many digits"),
        ("１ms", "does not begin with a number"),
        ("1\u{0}ms", "not a unit of time"),
    ] {
        let error = parse_span(text).expect_err(text).to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn rates() {
    for (texts, bits) in [
        (
            &[
                "100mbit",
                "100Mbit",
                "100MBIT",
                "100Mbit/s",
                "100 Mbit/s",
                "100mbps",
                "100Mbps",
                "100 Mbits/s",
            ][..],
            100_000_000,
        ),
        (&["9bit", "9bps", "9 bit/s", "9bits"], 9),
        (&["1.5Gbit/s", "1500mbit", "1.5gbps", "1500000kbit"], 1_500_000_000),
        (&["0.4tbit", "400gbit"], 400_000_000_000),
        (&["12 MB/s", "12MB/s", "96mbit", "12000kB/s"], 96_000_000),
        (&["500kB/s", "4mbit", "500000B/s"], 4_000_000),
        (&["1KiB/s"], 8_192),
        (&["0.125B/s"], 1),
        (&["1000tbit"], 1_000_000_000_000_000),
        (&["unlimited"], u64::MAX),
    ] {
        for text in texts {
            assert_eq!(parse_rate(text), Ok(Rate(bits)), "{text}");
        }
    }
    for (text, message) in [
        ("100", "write `100mbit` or `100kbit`"),
        ("10MB", "write `10MB/s` for bytes a second, or `10mbit` for bits a second"),
        ("10KiB", "is an amount"),
        ("10mb", "write `10mbit` for bits, or `10MB/s` for bytes"),
        ("10Mb/s", "could be bits or bytes"),
        ("10 M", "write `10mbit` for bits, or `10MB/s` for bytes"),
        ("10m", "could be bits or bytes"),
        ("10g", "write `10gbit` for bits, or `10GB/s` for bytes"),
        ("10MBps", "could be bits or bytes"),
        ("10Bps", "write `10bit` for bits, or `10B/s` for bytes"),
        ("10KB/s", "write `10kB/s` (1000) or `10KiB/s` (1024)"),
        ("10mB/s", "could be bits or bytes"),
        ("10mibit", "write `10mbit` if that is meant"),
        ("10mbit/min", "not a unit of rate"),
        ("10mbti", "did you mean `mbit`?"),
        ("10pps", "not a unit of rate"),
        ("0mbit", "a rate of zero"),
        ("0", "a rate of zero"),
        ("0.5bit", "write `1bit`"),
        ("1001tbit", "above the highest rate"),
        ("Unlimited", "does not begin with a number"),
    ] {
        let error = parse_rate(text).expect_err(text).to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn sizes_and_limits() {
    for (text, bytes) in [
        ("1500B", 1500),
        ("1500 bytes", 1500),
        ("64kB", 64_000),
        ("64KiB", 65_536),
        ("1MB", 1_000_000),
        ("1.5kB", 1500),
        ("0.5KiB", 512),
    ] {
        assert_eq!(parse_size(text), Ok(bytes), "{text}");
        assert_eq!(parse_limit(text), Ok(Limit::Bytes(bytes)), "{text}");
    }
    for (text, packets) in
        [("20p", 20), ("20 packets", 20), ("1 packet", 1), ("4294967295p", u32::MAX), ("1.0p", 1)]
    {
        assert_eq!(parse_limit(text), Ok(Limit::Packets(packets)), "{text}");
    }
    for (text, message) in [
        ("1500", "write `1500B`"),
        ("1500b", "a size is in bytes: write `1500B`"),
        ("64kb", "write `64kB`"),
        ("64k", "write `64kB` (1000) or `64KiB` (1024)"),
        ("64KB", "could count 1000 or 1024 bytes"),
        ("1M", "write `1MB` (thousands) or `1MiB` (1024)"),
        ("1.5B", "write `1B` or `2B`"),
        ("20p", "not a unit of size"),
        ("99999999999999999999TB", "too large"),
    ] {
        let error = parse_size(text).expect_err(text).to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
    for (text, message) in [
        ("20", "write `20p` for packets, or `20kB` for an amount of data"),
        ("0p", "holds nothing"),
        ("0kB", "holds nothing"),
        ("2.5p", "write `2p` or `3p`"),
        ("4294967296p", "too many packets"),
        ("64k", "or packets: `20p`"),
        ("20pkts", "or packets: `20p`"),
    ] {
        let error = parse_limit(text).expect_err(text).to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
    assert_eq!(parse_mtu("9kB"), Ok(9000));
    assert!(parse_mtu("67B").is_err() && parse_mtu("65536B").is_err());
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        nanos: u64,
        bits in 1..=1_000_000_000_000_000u64,
        packets in 1..=u32::MAX,
        bytes in 1..=u64::MAX,
    ) {
        prop_assert_eq!(parse_span(&Span(nanos).to_string()), Ok(Span(nanos)));
        prop_assert_eq!(parse_rate(&Rate(bits).to_string()), Ok(Rate(bits)));
        for limit in [Limit::Packets(packets), Limit::Bytes(bytes)] {
            prop_assert_eq!(parse_limit(&limit.to_string()), Ok(limit));
        }
    }

    #[test]
    fn numbers_of_packets_are_read_in_any_order(
        mut all in prop::collection::btree_set(1..1000u64, 1..20),
    ) {
        let written: Vec<String> = all.iter().rev().map(u64::to_string).collect();
        let read = parse_numbers(&written.join(", ")).unwrap();
        prop_assert!(read.into_iter().flatten().eq(std::mem::take(&mut all)));
    }

    #[test]
    fn decimals_are_exact(whole in 0..1_000_000u64, micros in 0..1_000_000u64) {
        prop_assert_eq!(
            parse_span(&format!("{whole}.{micros:06}s")),
            Ok(Span(whole * 1_000_000_000 + micros * 1000))
        );
    }

    #[test]
    fn no_text_panics(
        text in "\\PC*",
        number in "[0-9.]{0,30}",
        unit in "[kKmMgGtTiuµnspbBhP/ %,-]{0,6}",
    ) {
        for text in [text, format!("{number}{unit}")] {
            let _ = (
                parse_span(&text),
                parse_rate(&text),
                parse_size(&text),
                parse_limit(&text),
                parse_mtu(&text),
            );
            let _ = (parse_probability(&text), parse_numbers(&text), parse_overhead(&text));
        }
    }
}
