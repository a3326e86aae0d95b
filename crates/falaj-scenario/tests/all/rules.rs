//! Valid and invalid match rules; a rule that is written and read again is the same.

use falaj_engine::classifier::Match;
use falaj_engine::header::{Net, Protocol, Version};
use falaj_engine::key::Key;
use falaj_scenario::parse_match;
use proptest::prelude::*;

#[test]
fn rules_are_read() {
    let net = |text: &str, len| Some(Net { addr: text.parse().expect("an address"), len });
    let udp = || Match { protocol: Some(Protocol::UDP), ..Match::ANY };
    let v4 = Some(Version::V4);
    for (text, rule) in [
        ("any", Match::ANY),
        ("udp", udp()),
        ("udp dport 5004", Match { dport: Some((5004, 5004)), ..udp() }),
        ("udp and dport 5004", Match { dport: Some((5004, 5004)), ..udp() }),
        (" dport  5004-5010\tudp ", Match { dport: Some((5004, 5010)), ..udp() }),
        ("sport 0-65535", Match { sport: Some((0, 65535)), ..Match::ANY }),
        ("proto 47", Match { protocol: Some(Protocol(47)), ..Match::ANY }),
        ("ip", Match { version: v4, ..Match::ANY }),
        ("icmp", Match { version: v4, protocol: Some(Protocol::ICMP), ..Match::ANY }),
        (
            "ip6 icmp6",
            Match { version: Some(Version::V6), protocol: Some(Protocol::ICMP6), ..Match::ANY },
        ),
        (
            "src 10.0.0.0/8 dst 10.1.2.3",
            Match { version: v4, src: net("10.0.0.0", 8), dst: net("10.1.2.3", 32), ..Match::ANY },
        ),
        ("dst ::/0", Match { version: Some(Version::V6), dst: net("::", 0), ..Match::ANY }),
    ] {
        assert_eq!(parse_match(text), Ok(vec![rule.clone()]), "{text}");
        assert_eq!(parse_match(&rule.to_string()), Ok(vec![rule.clone()]), "{rule}");
    }
}

/// The alternatives of a rule, written as rules.
fn apart(text: &str) -> Vec<String> {
    parse_match(text)
        .unwrap_or_else(|e| panic!("{text}: {e}"))
        .iter()
        .map(Match::to_string)
        .collect()
}

#[test]
fn terms_of_all_headers_are_read() {
    for text in [
        "ether 0x0806",
        "vlan 7",
        "mac-src 02:00:00:00:00:01",
        "mac-dst ff:ff:ff:ff:ff:ff",
        "dscp 46",
        "tos 0xb8",
        "tos 0x08/0x18",
        "ttl 1-5",
        "length 0-128",
        "flags syn,!ack",
        "fragment",
        "first-fragment",
        "tcp not flags syn",
        "not udp not src 10.0.0.0/8",
        "src table customers not dport table odd",
    ] {
        assert_eq!(apart(text), [text]);
    }
    assert_eq!(apart("dscp ef ether arp"), ["dscp 46 ether 0x0806"]);
    assert_eq!(apart("dscp af41"), ["dscp 34"]);
    assert_eq!(apart("dscp cs7 tos 0xe1"), ["dscp 56 tos 0xe1"]);
    assert_eq!(apart("tos 3/3 ( tos 0x10/0x18 or tos 0/1 )"), ["tos 0x13/0x1b"]);
    assert_eq!(apart("mark 1/3 ( mark 4/4 or mark 2/2 )"), ["mark 0x5/0x7"]);
}

#[test]
fn lists_and_blocks_come_apart() {
    assert_eq!(
        apart("tcp dport 80,443,8000-8080"),
        ["tcp dport 80", "tcp dport 443", "tcp dport 8000-8080"]
    );
    assert_eq!(apart("not dport 80,443"), ["not dport 80 not dport 443"]);
    assert_eq!(apart("( udp or tcp dport 80 ) ip6"), ["ip6 udp", "ip6 tcp dport 80"]);
    assert_eq!(apart("(udp or tcp) and (sport 1 or dport 1)").len(), 4);
    assert_eq!(
        apart("not ( udp dport 53 or icmp )"),
        ["not udp not icmp", "not dport 53 not icmp"]
    );
    assert_eq!(apart("not not udp"), ["udp"]);
    // Sides of a block that contradict the rest of the rule are dropped.
    assert_eq!(apart("tcp ( src 10.0.0.0/8 or icmp )"), ["tcp src 10.0.0.0/8"]);
    assert_eq!(apart("src 10.0.0.0/8 ( src 10.1.0.0/16 or src 11.0.0.0/8 )"), ["src 10.1.0.0/16"]);
    assert_eq!(apart("( any or udp )").len(), 2);
}

#[test]
fn wrong_rules_are_refused() {
    for (text, message, part) in [
        ("", "write `any`", ""),
        ("and udp", "`and` joins two terms", "and"),
        ("udp and and dport 1", "`and` joins two terms", "and"),
        ("any udp", "`any` stands alone", "udp"),
        ("udp any", "`any` stands alone", "any"),
        ("udp tcp", "a second protocol", "tcp"),
        ("UDP", "did you mean `udp`?", "UDP"),
        ("udp mark x", "not a mark", "x"),
        ("mark 1/x", "not a mark", "x"),
        ("mark 0x13/0xf0", "write `0x10/0xf0`", "0x13/0xf0"),
        ("recv eth0", "direction = \"up\"", "recv"),
        ("dport", "`dport` needs a port", "dport"),
        ("dport 5010-5004", "write `5004-5010`", "5010-5004"),
        ("dport 65536", "not a port", "65536"),
        ("dport +5", "not a port", "+5"),
        ("dport http", "not a port", "http"),
        ("dport 1 dport 2", "a second dport", "dport"),
        ("proto 256", "not the number", "256"),
        ("proto udp", "write `udp` alone", "udp"),
        ("src localhost", "not an address", "localhost"),
        ("src 10.0.0.0/33", "0 to 32", "10.0.0.0/33"),
        ("src 10.0.0.0/", "0 to 32", "10.0.0.0/"),
        ("src 10.0.0.1/8", "write `10.0.0.0/8`", "10.0.0.1/8"),
        ("src 10.0.0.1 dst ::1", "both IPv4 and IPv6", "dst ::1"),
        ("ip6 icmp", "both IPv4 and IPv6", "icmp"),
        ("icmp sport 5", "`icmp` has no ports", "sport 5"),
        ("proto 47 sport 5", "`proto 47` has no ports", "sport 5"),
        ("dport 80,x", "not a port", "x"),
        ("dport 80,", "not a port", ""),
        ("not", "`not` needs a term", "not"),
        ("not any", "`not any` matches nothing", "any"),
        ("not and udp", "`not` needs a term after it", "and"),
        ("udp or tcp", "`or` is valid only in a block", "or"),
        ("udp )", "no block ends here", ")"),
        ("( udp or tcp", "this block is not closed", "("),
        ("( or tcp )", "`or` joins two sides", "or"),
        ("( udp or )", "a side with nothing in it", ")"),
        ("( udp tcp or tcp )", "a second protocol", "tcp"),
        ("udp not udp", "exclude each other", "udp not udp"),
        ("dscp cs7 tos 3", "exclude each other", "dscp cs7 tos 3"),
        ("dscp 2 not tos 8/0x18", "exclude each other", "dscp 2 not tos 8/0x18"),
        (
            "( mark 0x1/0x1 ) ( mark 0x10/0x10 ) not mark 0x1/0x1",
            "exclude each other",
            "( mark 0x1/0x1 ) ( mark 0x10/0x10 ) not mark 0x1/0x1",
        ),
        ("vlan 4096", "not a VLAN", "4096"),
        ("ttl 9-3", "write `3-9`", "9-3"),
        ("ttl 256", "0 to 255", "256"),
        ("length 5-", "not a length", "5-"),
        ("ether 5", "from 1536 to 65535", "5"),
        ("tos 0xfff", "not a type of service", "0xfff"),
        ("tos 1/0x100", "not a type of service", "0x100"),
        ("tos 9/8", "no packet has a type of service like this: write `0x8/0x8`", "9/8"),
        ("mark 0x11/0xf0", "no packet has a mark like this: write `0x10/0xf0`", "0x11/0xf0"),
        ("dscp ff", "not a DSCP", "ff"),
        ("dscp af44", "not a DSCP", "af44"),
        ("mac-src 02:00", "six bytes", "02:00"),
        ("mac-src 02:00:00:00:00:01:02", "six bytes", "02:00:00:00:00:01:02"),
        ("flags sny", "did you mean `syn`?", "sny"),
        ("flags syn,!syn", "set and not set", "syn,!syn"),
        ("src table", "`src` needs the name of a table", "src"),
    ] {
        let error = parse_match(text).expect_err(text);
        assert!(error.to_string().contains(message), "{text}: {error}");
        assert_eq!(error.at.map_or("", |at| &text[at]), part, "{text}");
    }
}

#[test]
fn networks_contain_their_addresses() {
    let net = parse_match("src 10.16.0.0/12").expect("a rule")[0].src.expect("a network");
    for (addr, inside) in [
        ("10.16.0.0", true),
        ("10.31.255.255", true),
        ("10.32.0.0", false),
        ("::ffff:10.16.0.0", false),
    ] {
        assert_eq!(net.contains(addr.parse().expect("an address")), inside, "{addr}");
    }
    let all = parse_match("src ::/0").expect("a rule")[0].src.expect("a network");
    assert!(all.contains("2001:db8::1".parse().expect("an address")));
}

/// Packets of all kinds that the terms above distinguish.
fn keys() -> Vec<Key> {
    let mut all = vec![Key::default()];
    for protocol in [Protocol::UDP, Protocol::TCP, Protocol::ICMP] {
        for (src, sport, dport, ttl) in [
            ([10, 1, 1, 1], 7, 80, 1),
            ([10, 1, 1, 1], 8, 443, 64),
            ([11, 1, 1, 1], 7, 81, 5),
            ([11, 1, 1, 1], 8, 80, 6),
        ] {
            let (from, to) = ((src, sport).into(), ([9, 9, 9, 9], dport).into());
            all.push(Key { ttl: Some(ttl), ..Key::of_ordinary(protocol, from, to, 100) });
        }
    }
    all
}

proptest! {
    #[test]
    fn what_is_read_is_written_and_read_again(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "any",
                "and",
                "not",
                "udp",
                "tcp",
                "icmp",
                "icmp6",
                "ip",
                "ip6",
                "proto",
                "src",
                "dst",
                "sport",
                "dport",
                "ttl",
                "flags",
                "fragment",
                "vlan",
                "syn,!ack",
                "17",
                "5004",
                "1-2",
                "10.0.0.0/8",
                "::1",
                "2001:db8::/32",
                "ü",
                "-",
            ]),
            0..7,
        ),
    ) {
        for rule in parse_match(&words.join(" ")).unwrap_or_default() {
            prop_assert_eq!(parse_match(&rule.to_string()), Ok(vec![rule]));
        }
    }

    /// A rule matches the packets that its words describe, however it is divided into alternatives.
    #[test]
    fn blocks_mean_what_they_say(
        one in 0usize..6,
        two in 0usize..6,
        three in 0usize..6,
        form in 0usize..6,
    ) {
        let terms = ["udp", "tcp", "dport 80,443", "src 10.0.0.0/8", "ttl 1-5", "not sport 7"];
        let (a, b, c) = (terms[one], terms[two], terms[three]);
        let mean: (String, fn(bool, bool, bool) -> bool) = match form {
            0 => (format!("( {a} or {b} ) not ( {c} )"), |a, b, c| (a || b) && !c),
            1 => (format!("not ( {a} or {b} ) ( {c} )"), |a, b, c| !(a || b) && c),
            2 => (format!("not ( ( {a} ) ( {b} or {c} ) )"), |a, b, c| !(a && (b || c))),
            3 => (format!("( {a} or not ( {b} ) or {c} )"), |a, b, c| a || !b || c),
            4 => (format!("( ( {a} ) ( {b} ) or {c} )"), |a, b, c| (a && b) || c),
            _ => (format!("not ( not ( {a} ) not ( {b} ) ) ( any or {c} )"), |a, b, _| a || b),
        };
        // If the parser reports that no packet can match, the rule must not match any packet.
        let matches = parse_match(&mean.0).unwrap_or_default();
        let take = |matches: &[Match], key: &Key| matches.iter().any(|m| m.takes(key));
        let [a, b, c] = [a, b, c].map(|text| parse_match(text).expect("a rule"));
        for key in keys() {
            let meant = (mean.1)(take(&a, &key), take(&b, &key), take(&c, &key));
            prop_assert_eq!(take(&matches, &key), meant, "{} of {:?}", mean.0, key);
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = parse_match(&text);
    }
}
