//! Rules, good and bad, and back again.

use falaj_engine::classifier::{Match, Net, Protocol, Version};
use falaj_scenario::parse_match;
use proptest::prelude::*;

#[test]
fn rules_are_read() {
    let net = |text: &str, len| Some(Net { addr: text.parse().expect("an address"), len });
    let udp = Match { protocol: Some(Protocol::UDP), ..Match::ANY };
    let v4 = Some(Version::V4);
    for (text, rule) in [
        ("any", Match::ANY),
        ("udp", udp),
        ("udp dport 5004", Match { dport: Some((5004, 5004)), ..udp }),
        ("udp and dport 5004", Match { dport: Some((5004, 5004)), ..udp }),
        (" dport  5004-5010\tudp ", Match { dport: Some((5004, 5010)), ..udp }),
        ("sport 0-65535", Match { sport: Some((0, 65535)), ..Match::ANY }),
        ("proto 47", Match { protocol: Some(Protocol(47)), ..Match::ANY }),
        ("ip", Match { version: v4, ..Match::ANY }),
        ("icmp", Match { version: v4, protocol: Some(Protocol::ICMP), ..Match::ANY }),
        ("ip6 icmp6", Match { version: Some(Version::V6), protocol: Some(Protocol::ICMP6), ..Match::ANY }),
        (
            "src 10.0.0.0/8 dst 10.1.2.3",
            Match { version: v4, src: net("10.0.0.0", 8), dst: net("10.1.2.3", 32), ..Match::ANY },
        ),
        ("dst ::/0", Match { version: Some(Version::V6), dst: net("::", 0), ..Match::ANY }),
    ] {
        assert_eq!(parse_match(text), Ok(rule), "{text}");
        assert_eq!(parse_match(&rule.to_string()), Ok(rule), "{rule}");
    }
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
    ] {
        let error = parse_match(text).expect_err(text);
        assert!(error.to_string().contains(message), "{text}: {error}");
        assert_eq!(error.at.map_or("", |at| &text[at]), part, "{text}");
    }
}

#[test]
fn networks_contain_their_addresses() {
    let net = parse_match("src 10.16.0.0/12").expect("a rule").src.expect("a network");
    for (addr, inside) in
        [("10.16.0.0", true), ("10.31.255.255", true), ("10.32.0.0", false), ("::ffff:10.16.0.0", false)]
    {
        assert_eq!(net.contains(addr.parse().expect("an address")), inside, "{addr}");
    }
    let all = parse_match("src ::/0").expect("a rule").src.expect("a network");
    assert!(all.contains("2001:db8::1".parse().expect("an address")));
}

proptest! {
    #[test]
    fn what_is_read_is_written_and_read_again(
        words in prop::collection::vec(prop::sample::select(vec![
            "any", "and", "udp", "tcp", "icmp", "icmp6", "ip", "ip6", "proto", "src", "dst", "sport", "dport",
            "17", "5004", "1-2", "10.0.0.0/8", "::1", "2001:db8::/32", "ü", "-",
        ]), 0..7),
    ) {
        if let Ok(rule) = parse_match(&words.join(" ")) {
            prop_assert_eq!(parse_match(&rule.to_string()), Ok(rule));
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = parse_match(&text);
    }
}
