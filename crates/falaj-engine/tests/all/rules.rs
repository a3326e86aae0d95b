//! Rule lookup finds the first rule that matches a packet, as a linear search does.

use falaj_engine::chance::Chance;
use falaj_engine::classifier::Match;
use falaj_engine::header::{Net, Protocol};
use falaj_engine::key::{Fragment, Key, Macs};
use falaj_engine::lookup::Lookup;
use falaj_engine::table::{Field, LookupTable, TableEntry};
use falaj_engine::term::{Literal, Term};
use std::hint::black_box;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

/// Random choices from small sets of values, so that values repeat.
struct Dice(Chance, u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(Chance::new(seed, 0, 0), 0)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.1 += 1;
        ((u128::from(self.0.draw(self.1)) * u128::from(n)) >> 64) as u64
    }
    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }

    /// One of a few addresses, so that rules often match packets and overlap.
    fn address(&mut self) -> IpAddr {
        let low = self.below(16) as u8;
        match self.below(4) {
            0 => IpAddr::V6((0xfd77 << 112 | u128::from(low)).into()),
            _ => IpAddr::V4([10, 0, self.below(4) as u8, low].into()),
        }
    }
    fn net(&mut self) -> Net {
        let address = self.address();
        let most = Net::new(address, 0).bits();
        let less = self.one_of(&[0, 0, 0, 1, 2, 4, 8, 16, most]);
        Net::new(address, most - less)
    }
    fn range(&mut self) -> (u16, u16) {
        let from = self.below(8) as u16;
        (from, from + self.one_of(&[0, 0, 0, 1, 3]))
    }
    fn term(&mut self, table: &Arc<LookupTable>) -> Term {
        let (from, to) = self.range();
        match self.below(18) {
            0..=2 => Term::Src(self.net()),
            3..=5 => Term::Dst(self.net()),
            6 => Term::Sport(from, to),
            7 | 8 => Term::Dport(from, to),
            9 | 10 => Term::Protocol(self.one_of(&[Protocol::TCP, Protocol::UDP, Protocol::ICMP])),
            11 => Term::Vlan(from),
            12 => self.one_of(&[
                Term::Ether(0x800),
                Term::Ether(0x806),
                Term::MacDst([from as u8; 6]),
            ]),
            13 => {
                let mask = self.one_of(&[u8::MAX, 0x1c, 3]);
                let value = (4 * from as u8) & mask;
                self.one_of(&[Term::Dscp(from as u8), Term::Tos { value, mask }])
            }
            14 => self.one_of(&[Term::Length(0, 99), Term::Ttl(from as u8, 64)]),
            15 => self.one_of(&[
                Term::Fragment,
                Term::FirstFragment,
                Term::Flags { set: 2, clear: 16 },
            ]),
            16 => {
                let mask = self.one_of(&[u32::MAX, u32::MAX, 1, 0x8003, 0xffff_0000]);
                Term::Mark { value: self.one_of(&[0, 1, 2, 0x8001, 0x1_0002]) & mask, mask }
            }
            _ => self.one_of(&[
                Term::In(Field::Src, table.clone()),
                Term::In(Field::Dport, table.clone()),
            ]),
        }
    }
    fn clause(&mut self, table: &Arc<LookupTable>) -> Match {
        let terms = self.below(4);
        (0..terms).fold(Match::ANY, |all, _| {
            let literal = Literal { term: self.term(table), not: self.below(6) == 0 };
            all.and(&Match::of(literal)).unwrap_or(all)
        })
    }
    fn key(&mut self) -> Key {
        let protocol = self.one_of(&[Protocol::TCP, Protocol::UDP, Protocol::ICMP]);
        let (src, mut dst) = (self.address(), self.address());
        if src.is_ipv4() != dst.is_ipv4() {
            dst = src;
        }
        let (from, to) = ((src, self.below(9) as u16).into(), (dst, self.below(9) as u16).into());
        let key = Key::of_ordinary(protocol, from, to, self.below(200) as u32);
        let vlan = self.one_of(&[None, Some(1), Some(2)]);
        let tos = Some(self.below(32) as u8);
        let macs = Some(Macs { src: [1; 6], dst: [self.below(4) as u8; 6] });
        let key = Key {
            vlan,
            tos,
            macs,
            tcp: key.tcp.map(|_| self.one_of(&[2, 16, 18])),
            mark: self.one_of(&[0, 0, 1, 2, 0x8001, 0x1_0002]),
            ..key
        };
        match self.below(10) {
            0 => Key {
                src: None,
                dst: None,
                protocol: None,
                ports: None,
                tos: None,
                tcp: None,
                ..key
            },
            1 => Key { ports: None, tcp: None, fragment: Fragment::Later, ..key },
            2 => Key { fragment: Fragment::First, ..key },
            3 => Key { mark: self.one_of(&[0, 1]), ..Key::default() },
            _ => key,
        }
    }
}

type Rules = Vec<(Vec<Match>, Option<usize>)>;

fn lookup(rules: &Rules) -> Lookup {
    Lookup::new(rules.iter().map(|(clauses, way)| (&clauses[..], *way)))
}

fn one_by_one(rules: &Rules, key: &Key, way: usize, from: u32) -> Option<u32> {
    let takes = |(clauses, of): &(Vec<Match>, Option<usize>)| {
        of.is_none_or(|of| of == way) && clauses.iter().any(|clause| clause.takes(key))
    };
    (from..rules.len() as u32).find(|n| takes(&rules[*n as usize]))
}

fn table() -> Arc<LookupTable> {
    let net = |text: &str, len| TableEntry::Net(Net::new(text.parse().expect("an address"), len));
    let entries =
        [net("10.0.1.0", 24), net("10.0.2.8", 29), net("fd77::", 64), TableEntry::Numbers(3, 5)];
    Arc::new(LookupTable::new("odd", &entries).expect("they differ"))
}

#[test]
fn the_first_rule_is_found_as_one_by_one() {
    let table = table();
    let mut found = 0;
    for seed in 0..300 {
        let mut dice = Dice::new(seed);
        // From few rules to many, so that few or many rules have conditions on the same fields.
        let many = [3, 12, 60, 400][seed as usize % 4];
        let rules: Rules = (0..many)
            .map(|_| {
                let (clauses, any) = (1 + dice.below(2), dice.below(40) == 0);
                let way = dice.one_of(&[None, None, Some(0), Some(1)]);
                (
                    (0..clauses)
                        .map(|_| dice.clause(&table))
                        .filter(|c| any || !c.is_any())
                        .collect(),
                    way,
                )
            })
            .collect();
        let lookup = lookup(&rules);
        for _ in 0..200 {
            let (key, way, from) =
                (dice.key(), dice.below(2) as usize, dice.below(many.min(9) + 1) as u32);
            let from = if dice.below(2) == 0 { 0 } else { from };
            let expected = one_by_one(&rules, &key, way, from);
            assert_eq!(lookup.find(&key, way, from), expected, "seed {seed}: {key:?} {rules:#?}");
            found += u32::from(expected.is_some());
        }
    }
    assert!(found > 10_000, "packets and rules meet: {found}");
}

/// For all prefixes of eight addresses: rules that match the prefix as source and another prefix as
/// destination, and rules that match the prefix only as destination. The packets have all pairs of
/// ten addresses.
#[test]
fn a_small_world_is_sorted_as_one_by_one() {
    let address = |n: u32| IpAddr::V4(n.into());
    let nets: Vec<Net> = (29..=32u8)
        .flat_map(|len| (0..8).step_by(1 << (32 - len)).map(move |n| Net::new(address(n), len)))
        .collect();
    for turn in 0..nets.len() {
        let mut rules: Rules = Vec::new();
        for (n, src) in nets.iter().enumerate() {
            let dst = nets[(n * 7 + turn) % nets.len()];
            rules.push((vec![Match { src: Some(*src), dst: Some(dst), ..Match::ANY }], None));
            rules.push((vec![Match { dst: Some(*src), ..Match::ANY }], Some(turn % 2)));
        }
        let lookup = lookup(&rules);
        for (src, dst) in (0..10).flat_map(|src| (0..10).map(move |dst| (src, dst))) {
            let key = Key { src: Some(address(src)), dst: Some(address(dst)), ..Key::default() };
            for from in 0..rules.len() as u32 {
                assert_eq!(
                    lookup.find(&key, 0, from),
                    one_by_one(&rules, &key, 0, from),
                    "{src} {dst} {from}"
                );
            }
        }
    }
}

#[test]
fn frames_that_fuzzers_begin_with() {
    let all = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/packet"))
        .expect("it is there");
    for file in all {
        packet(&std::fs::read(file.expect("a file").path()).expect("bytes"));
    }
}

/// Every frame has a key, and rules classify it as a linear search does. This is a plain function
/// that any fuzzer can call: the first byte chooses the rules, the rest is the frame.
pub(crate) fn packet(bytes: &[u8]) {
    let Some((seed, frame)) = bytes.split_first() else { return };
    let key = Key::of_ethernet(frame);
    let mut dice = Dice::new(u64::from(*seed));
    let table = table();
    let rules: Rules = (0..30)
        .map(|_| (vec![dice.clause(&table)], None))
        .filter(|(c, _)| !c[0].is_any())
        .collect();
    assert_eq!(lookup(&rules).find(&key, 0, 0), one_by_one(&rules, &key, 0, 0), "{key:?}");
}

#[test]
fn any_frame_is_sorted() {
    let mut dice = Dice::new(99);
    for _ in 0..3000 {
        let length = dice.below(100);
        let mut bytes: Vec<u8> = (0..=length).map(|_| dice.below(256) as u8).collect();
        // Most frames get an EtherType that is parsed, with or without a VLAN tag; about half get a
        // known IPv6 next header.
        if let Some(head) = bytes.get_mut(13..17) {
            head.copy_from_slice(&dice.one_of(&[
                [8, 0, 0x45, 0],
                [0x86, 0xdd, 0x60, 0],
                [0x81, 0, 0, 1],
                [8, 6, 0, 1],
            ]));
        }
        if let (true, Some(tagged)) = (dice.below(3) == 0, bytes.get_mut(17..20)) {
            tagged.copy_from_slice(&dice.one_of(&[
                [8, 0, 0x45],
                [0x86, 0xdd, 0x60],
                [0x88, 0xa8, 0],
            ]));
        }
        if let (true, Some(next)) = (dice.below(2) == 0, bytes.get_mut(21)) {
            *next = dice.one_of(&[0, 6, 17, 43, 44, 51, 60]);
        }
        packet(&bytes);
    }
}

/// Nanoseconds of a lookup among this number of rules, which match prefixes and exact values.
fn cost(rules: u32) -> f64 {
    let mut dice = Dice::new(7);
    let all: Rules = (0..rules)
        .map(|n| {
            let src = Net::new(IpAddr::V4((10 << 24 | n << 8).into()), 24 + (n % 9) as u8);
            let port = (n % 60_000) as u16;
            let dport = (n % 3 == 0).then_some((port, port));
            let protocol = (n % 2 == 0).then_some(Protocol::UDP);
            (vec![Match { src: Some(src), dport, protocol, ..Match::ANY }], None)
        })
        .collect();
    let lookup = lookup(&all);
    let key = |n: u64| {
        let src = IpAddr::V4((10 << 24 | (n as u32) << 8).into());
        Key::of_ordinary(Protocol::UDP, (src, 1).into(), ([10, 9, 9, 9], n as u16).into(), 100)
    };
    let keys: Vec<Key> = (0..1000).map(|_| key(dice.below(rules.into()))).collect();
    let best = (0..20).map(|_| {
        let began = Instant::now();
        keys.iter().for_each(|key| assert!(black_box(lookup.find(key, 0, 0)).is_some()));
        began.elapsed().as_nanos()
    });
    best.min().unwrap_or(0) as f64 / keys.len() as f64
}

/// With 10,000 rules, a linear search would cost a thousand times as much as with 10; the limit
/// leaves room for a busy machine.
#[test]
fn ten_thousand_rules_cost_about_what_ten_do() {
    let (few, many) = (cost(10), cost(10_000));
    println!("10 rules: {few:.0} ns, 10,000 rules: {many:.0} ns");
    assert!(many < 50.0 * few.max(10.0), "{few} ns and {many} ns");
}
