//! Finds the first of many rules that matches a packet.
//!
//! A rule has one or more clauses, and matches if one of them holds. The conditions of a clause
//! that ask for a value or a prefix form a pattern: a mask over the packet's key, and the value of
//! the key under it. Clauses of one mask are a *shape* and share one hash table, so that a packet
//! costs one lookup for each shape and not one for each rule. Conditions that a pattern cannot
//! express (ranges, negations, tables) are checked after the lookup. If there are many shapes, a
//! binary search for each address of the packet excludes the shapes that have no prefix with this
//! address (a pruned tuple space). Shapes are in the order of their first rule, and the search ends
//! when no earlier rule can follow.

use crate::classifier::Match;
use crate::header::{Net, Protocol, Version};
use crate::key::{AdapterId, Fragment, Key};
use crate::term::{Literal, Term, ports};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Up to this number, clauses are tried one after the other.
const FEW: usize = 8;
/// Up to this number, all shapes are looked up.
const FEW_SHAPES: usize = 8;

/// Words of a packed key; see [`pack`].
const WORDS: usize = 8;
type Words = [u64; WORDS];

/// Bits of word 4, above ports, protocol, TOS and TCP flags.
mod bit {
    pub(super) const IP: u64 = 1 << 56;
    pub(super) const SIX: u64 = 1 << 57;
    pub(super) const PORTS: u64 = 1 << 58;
    pub(super) const TCP: u64 = 1 << 59;
    pub(super) const PIECE: u64 = 1 << 60;
    pub(super) const FIRST: u64 = 1 << 61;
    pub(super) const WAY: u64 = 1 << 62;
    pub(super) const PROTOCOL: u64 = 1 << 63;
    /// Bits of word 5.
    pub(super) const ETHER: u64 = 1 << 16;
    pub(super) const VLAN: u64 = 1 << 48;
    pub(super) const TOS: u64 = 1 << 49;
    /// A bit of words 6 and 7.
    pub(super) const MAC: u64 = 1 << 48;
}

/// The bits of words 6 and 7 above the Ethernet address: bits of a mark in word 6, and of an
/// adapter in word 7.
const BEHIND: u64 = !(bit::MAC | (bit::MAC - 1));

fn of_mac(mac: [u8; 6]) -> u64 {
    mac.iter().fold(0, |all, byte| all << 8 | u64::from(*byte))
}

/// The bits of an adapter's number that fit into a word after an Ethernet address: enough that few
/// other adapters have the same bits.
fn of_adapter(adapter: AdapterId) -> u64 {
    u64::from(adapter.short()) << 49
}

/// The bits of a mark that fit into a word after the other Ethernet address: the low ones, in which
/// marks mostly differ.
fn of_mark(mark: u32) -> u64 {
    u64::from(mark) << 49
}

fn of_address(address: IpAddr) -> [u64; 2] {
    match address {
        IpAddr::V4(a) => [0, a.to_bits().into()],
        IpAddr::V6(a) => [(a.to_bits() >> 64) as u64, a.to_bits() as u64],
    }
}

/// Packs source address, destination address, and the rest. An unknown field is zero; for each
/// field a bit says if it is known.
#[inline]
fn pack(key: &Key, way: usize) -> Words {
    let mut words = [0; WORDS];
    if let (Some(src), Some(dst)) = (key.src, key.dst) {
        [words[0], words[1]] = of_address(src);
        [words[2], words[3]] = of_address(dst);
        words[4] |= bit::IP | if src.is_ipv6() { bit::SIX } else { 0 };
    }
    if let Some((sport, dport)) = ports(key) {
        words[4] |= bit::PORTS | u64::from(sport) | u64::from(dport) << 16;
    }
    if let Some(protocol) = key.protocol {
        words[4] |= bit::PROTOCOL | u64::from(protocol.0) << 32;
    }
    if let Some(tos) = key.tos {
        words[4] |= u64::from(tos) << 40;
        words[5] |= bit::TOS;
    }
    if let Some(flags) = key.tcp {
        words[4] |= bit::TCP | u64::from(flags) << 48;
    }
    words[4] |= match key.fragment {
        Fragment::No => 0,
        Fragment::First => bit::PIECE | bit::FIRST,
        Fragment::Later => bit::PIECE,
    };
    if way == 1 {
        words[4] |= bit::WAY;
    }
    if let Some(kind) = key.ether {
        words[5] |= bit::ETHER | u64::from(kind);
    }
    if let Some(vlan) = key.vlan {
        words[5] |= bit::VLAN | u64::from(vlan) << 32;
    }
    if let Some(macs) = key.macs {
        words[6] = bit::MAC | of_mac(macs.src);
        words[7] = bit::MAC | of_mac(macs.dst);
    }
    words[6] |= of_mark(key.mark);
    if let Some(adapter) = key.adapter {
        words[7] |= of_adapter(adapter);
    }
    words
}

/// One clause of a rule.
#[derive(Debug, Clone)]
struct Clause {
    rule: u32,
    mask: Words,
    value: Words,
    /// Conditions that the pattern does not express.
    rest: Vec<Literal>,
    nets: [Option<Net>; 2],
    /// True if the conditions exclude each other.
    never: bool,
}

impl Clause {
    fn new(rule: u32, of: &Match, way: Option<usize>) -> Clause {
        let (mask, value, rest, nets) = ([0; WORDS], [0; WORDS], Vec::new(), [of.src, of.dst]);
        let mut clause = Clause { rule, mask, value, rest, nets, never: false };
        let positive = |term| Literal { term, not: false };
        let terms = [
            of.version.map(Term::Version),
            of.protocol.map(Term::Protocol),
            of.src.map(Term::Src),
            of.dst.map(Term::Dst),
            of.sport.map(|(from, to)| Term::Sport(from, to)),
            of.dport.map(|(from, to)| Term::Dport(from, to)),
        ];
        let all = terms.into_iter().flatten().map(positive).chain(of.more.iter().cloned());
        for literal in all {
            if !clause.take(&literal) {
                clause.rest.push(literal);
            }
        }
        if let Some(way) = way {
            clause.set(4, bit::WAY, if way == 1 { bit::WAY } else { 0 });
        }
        clause
    }

    fn set(&mut self, word: usize, mask: u64, value: u64) {
        self.never |= (self.value[word] ^ value) & self.mask[word] & mask != 0;
        self.mask[word] |= mask;
        self.value[word] |= value;
    }

    fn net(&mut self, word: usize, net: &Net) {
        let ones = u32::from(net.len) + if net.addr.is_ipv4() { 96 } else { 0 };
        let mask = u128::MAX.checked_shl(128 - ones).unwrap_or(0);
        let [high, low] = of_address(net.addr);
        let keep = if net.addr.is_ipv4() { u128::from(u32::MAX) } else { u128::MAX };
        self.set(word, ((mask & keep) >> 64) as u64, high);
        self.set(word + 1, (mask & keep) as u64, low);
        self.version(net.version());
    }

    fn version(&mut self, version: Version) {
        self.set(
            4,
            bit::IP | bit::SIX,
            bit::IP | if version == Version::V6 { bit::SIX } else { 0 },
        );
    }

    /// Makes a literal part of the pattern; returns false if a pattern cannot express it.
    fn take(&mut self, literal: &Literal) -> bool {
        if literal.not {
            return false;
        }
        match &literal.term {
            Term::Version(version) => self.version(*version),
            Term::Protocol(Protocol(n)) => {
                self.set(4, bit::PROTOCOL | 0xff << 32, bit::PROTOCOL | u64::from(*n) << 32);
            }
            Term::Src(net) => self.net(0, net),
            Term::Dst(net) => self.net(2, net),
            Term::Sport(from, to) if from == to => {
                self.set(4, bit::PORTS | 0xffff, bit::PORTS | u64::from(*from));
            }
            Term::Dport(from, to) if from == to => {
                self.set(4, bit::PORTS | 0xffff << 16, bit::PORTS | u64::from(*from) << 16);
            }
            Term::Ether(kind) => self.set(5, bit::ETHER | 0xffff, bit::ETHER | u64::from(*kind)),
            Term::Vlan(vlan) => {
                self.set(5, bit::VLAN | 0xffff << 32, bit::VLAN | u64::from(*vlan) << 32);
            }
            Term::MacSrc(mac) => self.set(6, bit::MAC | (bit::MAC - 1), bit::MAC | of_mac(*mac)),
            Term::MacDst(mac) => self.set(7, bit::MAC | (bit::MAC - 1), bit::MAC | of_mac(*mac)),
            Term::Tos { value, mask } => {
                self.set(5, bit::TOS, bit::TOS);
                self.set(4, u64::from(*mask) << 40, u64::from(*value) << 40);
            }
            Term::Dscp(dscp) => {
                self.set(5, bit::TOS, bit::TOS);
                self.set(4, 0xfc << 40, u64::from(*dscp) << 42);
            }
            Term::Flags { set, clear } => {
                self.set(
                    4,
                    bit::TCP | u64::from(set | clear) << 48,
                    bit::TCP | u64::from(*set) << 48,
                );
            }
            Term::Fragment => self.set(4, bit::PIECE, bit::PIECE),
            Term::FirstFragment => self.set(4, bit::FIRST, bit::FIRST),
            Term::Adapter(adapter) => {
                self.set(7, BEHIND, of_adapter(*adapter));
                // The other bits of the adapter are compared too.
                return false;
            }
            Term::Mark { value, mask } => {
                self.set(6, of_mark(*mask), of_mark(*value));
                // The other bits of the mark are compared too.
                return false;
            }
            Term::Sport(..) | Term::Dport(..) | Term::In(..) | Term::Length(..) | Term::Ttl(..) => {
                return false;
            }
        }
        true
    }

    #[inline]
    fn takes(&self, words: &Words, key: &Key) -> bool {
        (0..WORDS).all(|n| words[n] & self.mask[n] == self.value[n])
            && self.rest.iter().all(|l| l.holds(key))
    }
}

/// A clause in its shape's table.
#[derive(Debug, Clone)]
struct Listed {
    rule: u32,
    rest: Vec<Literal>,
}

/// Clauses of one mask.
#[derive(Debug, Clone)]
struct FieldShape {
    /// The words that its mask covers: for each its index and its mask.
    mask: Vec<(u8, u64)>,
    /// Hash table: the number of a pattern plus one; zero: none.
    slots: Vec<u32>,
    /// The words of each pattern, one pattern after the other.
    patterns: Vec<u64>,
    /// The clauses of each pattern, in the order of rules.
    listed: Vec<Vec<Listed>>,
    least: u32,
    last: u32,
}

impl FieldShape {
    fn new(mask: &Words, mut clauses: Vec<Clause>) -> FieldShape {
        clauses.sort_by_key(|c| c.rule);
        let used: Vec<(u8, u64)> =
            mask.iter().enumerate().filter(|(_, m)| **m != 0).map(|(n, m)| (n as u8, *m)).collect();
        let (least, last) =
            (clauses.first().map_or(u32::MAX, |c| c.rule), clauses.last().map_or(0, |c| c.rule));
        let mut by_pattern: BTreeMap<Words, Vec<Listed>> = BTreeMap::new();
        for Clause { rule, value, rest, .. } in clauses {
            by_pattern.entry(value).or_default().push(Listed { rule, rest });
        }
        let size = (2 * by_pattern.len()).next_power_of_two();
        let mut shape = FieldShape {
            mask: used,
            slots: vec![0; size],
            patterns: Vec::new(),
            listed: Vec::new(),
            least,
            last,
        };
        for (value, listed) in by_pattern {
            let mut slot = shape.hash(&value) as usize & (size - 1);
            while shape.slots[slot] != 0 {
                slot = (slot + 1) & (size - 1);
            }
            shape.listed.push(listed);
            shape.slots[slot] = shape.listed.len() as u32;
            shape.patterns.extend(shape.mask.iter().map(|(n, _)| value[*n as usize]));
        }
        shape
    }

    #[inline]
    fn hash(&self, words: &Words) -> u64 {
        let step = |hash: u64, (n, mask): &(u8, u64)| {
            let word = (hash ^ (words[*n as usize] & mask)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            word ^ (word >> 32)
        };
        self.mask.iter().fold(0x51_7C_C1_B7_27_22_0A_95, step)
    }

    /// The clauses whose pattern matches the packet.
    #[inline]
    fn find(&self, words: &Words) -> Option<&[Listed]> {
        let mut slot = self.hash(words) as usize & (self.slots.len() - 1);
        loop {
            let n = (self.slots[slot] as usize).checked_sub(1)?;
            let long = self.mask.len();
            let same =
                |(pattern, (n, mask)): (&u64, &(u8, u64))| words[*n as usize] & mask == *pattern;
            if self.patterns[n * long..(n + 1) * long].iter().zip(&self.mask).all(same) {
                return Some(&self.listed[n]);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }
}

/// For one side of packets, source or destination: maps an address to the set of shapes, as bits,
/// that have a prefix with this address or ignore that side.
#[derive(Debug, Clone, Default)]
struct Prunes {
    /// From each address on, the number of the set that applies.
    four: Vec<(u32, u32)>,
    six: Vec<(u128, u32)>,
    sets: Vec<Vec<u64>>,
    /// The set for packets without addresses.
    none: Vec<u64>,
}

impl Prunes {
    /// `shapes` has the prefixes of each shape; `None` if a shape ignores this side.
    fn new(shapes: &[Option<Vec<Net>>]) -> Prunes {
        let long = shapes.len().div_ceil(64);
        let mut none = vec![0u64; long];
        shapes
            .iter()
            .enumerate()
            .filter(|(_, p)| p.is_none())
            .for_each(|(n, _)| none[n / 64] |= 1 << (n % 64));
        let mut numbers: BTreeMap<Vec<u64>, u32> = BTreeMap::new();
        let mut out = Prunes { none: none.clone(), ..Prunes::default() };
        for version in [Version::V4, Version::V6] {
            // Begin and end of each prefix, by shape.
            let mut ends: Vec<(u128, usize, bool)> = Vec::new();
            for (n, prefixes) in shapes.iter().enumerate() {
                for net in prefixes.iter().flatten().filter(|net| net.version() == version) {
                    let (low, high) = net.range();
                    ends.push((low, n, true));
                    ends.extend(high.checked_add(1).map(|behind| (behind, n, false)));
                }
            }
            ends.sort_unstable();
            let (mut open, mut set) = (vec![0u32; shapes.len()], none.clone());
            let mut sets: Vec<(u128, Vec<u64>)> = vec![(0, set.clone())];
            for at in ends.chunk_by(|a, b| a.0 == b.0) {
                for &(_, n, begins) in at {
                    if begins {
                        open[n] += 1;
                    } else {
                        open[n] -= 1;
                    }
                    let bit = 1 << (n % 64);
                    set[n / 64] = if open[n] > 0 { set[n / 64] | bit } else { set[n / 64] & !bit };
                }
                sets.push((at[0].0, set.clone()));
            }
            for (from, set) in sets {
                let next = numbers.len() as u32;
                let number = *numbers.entry(set.clone()).or_insert(next);
                if number == next {
                    out.sets.push(set);
                }
                match version {
                    Version::V4 => {
                        out.four.extend(u32::try_from(from).ok().map(|from| (from, number)));
                    }
                    Version::V6 => out.six.push((from, number)),
                }
            }
        }
        out
    }

    #[inline]
    fn of(&self, address: Option<IpAddr>) -> &[u64] {
        let number = match address {
            None => return &self.none,
            Some(IpAddr::V4(a)) => {
                let a = a.to_bits();
                self.four[self.four.partition_point(|(from, _)| *from <= a) - 1].1
            }
            Some(IpAddr::V6(a)) => {
                let a = a.to_bits();
                self.six[self.six.partition_point(|(from, _)| *from <= a) - 1].1
            }
        };
        &self.sets[number as usize]
    }
}

/// Rules, indexed by their clauses.
#[derive(Debug, Clone, Default)]
pub struct Lookup {
    /// All clauses, if they are few; then there are no shapes.
    clauses: Vec<Clause>,
    shapes: Vec<FieldShape>,
    /// By source and by destination, if there are many shapes.
    prunes: Option<[Prunes; 2]>,
}

impl Lookup {
    /// Builds the index from the clauses of each rule, one of which must hold, and the direction of
    /// the rule (`None`: both).
    pub fn new<'a>(rules: impl IntoIterator<Item = (&'a [Match], Option<usize>)>) -> Lookup {
        let of = |(n, (clauses, way)): (usize, (&'a [Match], Option<usize>))| {
            clauses.iter().map(move |clause| Clause::new(n as u32, clause, way))
        };
        let clauses: Vec<Clause> =
            rules.into_iter().enumerate().flat_map(of).filter(|c| !c.never).collect();
        if clauses.len() <= FEW {
            return Lookup { clauses, ..Lookup::default() };
        }
        let mut by_mask: BTreeMap<Words, Vec<Clause>> = BTreeMap::new();
        clauses.into_iter().for_each(|clause| by_mask.entry(clause.mask).or_default().push(clause));
        let mut shapes: Vec<(Words, Vec<Clause>)> = by_mask.into_iter().collect();
        shapes.sort_by_key(|(_, clauses)| clauses[0].rule);
        let prunes = (shapes.len() > FEW_SHAPES).then(|| {
            [0, 1].map(|side| {
                let nets = |(_, clauses): &(Words, Vec<Clause>)| {
                    clauses.iter().map(|c| c.nets[side]).collect()
                };
                Prunes::new(&shapes.iter().map(nets).collect::<Vec<_>>())
            })
        });
        Lookup {
            clauses: Vec::new(),
            shapes: shapes.into_iter().map(|(m, c)| FieldShape::new(&m, c)).collect(),
            prunes,
        }
    }

    /// The first rule from `from` on that matches the packet with this key, in direction up (0) or
    /// down (1).
    #[inline]
    pub fn find(&self, key: &Key, way: usize, from: u32) -> Option<u32> {
        let words = pack(key, way);
        if self.shapes.is_empty() {
            let takes = |c: &&Clause| c.rule >= from && c.takes(&words, key);
            return self.clauses.iter().find(takes).map(|c| c.rule);
        }
        let mut best = u32::MAX;
        match &self.prunes {
            None => {
                for shape in &self.shapes {
                    if shape.least >= best {
                        break;
                    }
                    best = best.min(first(shape, &words, key, from, best));
                }
            }
            Some([by_src, by_dst]) => {
                let sets = by_src.of(key.src).iter().zip(by_dst.of(key.dst));
                'all: for (n, (src, dst)) in sets.enumerate() {
                    let mut left = src & dst;
                    while left != 0 {
                        let shape = &self.shapes[64 * n + left.trailing_zeros() as usize];
                        left &= left - 1;
                        if shape.least >= best {
                            break 'all;
                        }
                        best = best.min(first(shape, &words, key, from, best));
                    }
                }
            }
        }
        (best != u32::MAX).then_some(best)
    }
}

/// The first rule of a shape that matches, from `from` on and before `best`; else `u32::MAX`.
#[inline]
fn first(shape: &FieldShape, words: &Words, key: &Key, from: u32, best: u32) -> u32 {
    if shape.last < from {
        return u32::MAX;
    }
    let Some(listed) = shape.find(words) else { return u32::MAX };
    let begin = if from == 0 { 0 } else { listed.partition_point(|l| l.rule < from) };
    let mut before = listed[begin..].iter().take_while(|l| l.rule < best);
    before.find(|l| l.rest.iter().all(|l| l.holds(key))).map_or(u32::MAX, |l| l.rule)
}
