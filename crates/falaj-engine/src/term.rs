//! Terms: the conditions on a packet from which rules are made.

use crate::header::{Net, Protocol, Version};
use crate::key::{AdapterId, Fragment, Key};
use crate::table::{Field, LookupTable};
use std::fmt;
use std::sync::Arc;

/// A condition on a packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Term {
    /// The version of IP.
    Version(Version),
    /// The protocol that IP carries.
    Protocol(Protocol),
    /// Source address.
    Src(Net),
    /// Destination address.
    Dst(Net),
    /// Range of source ports of TCP and UDP, both ends included.
    Sport(u16, u16),
    /// Range of destination ports.
    Dport(u16, u16),
    /// The table has an entry that contains this field of the packet.
    In(Field, Arc<LookupTable>),
    /// The Ethernet type.
    Ether(u16),
    /// VLAN identifier of the outer tag.
    Vlan(u16),
    /// Source address of the frame.
    MacSrc([u8; 6]),
    /// Destination address of the frame.
    MacDst([u8; 6]),
    /// The byte of DSCP and ECN (type of service, traffic class), in the bits of `mask`.
    Tos {
        /// The value of these bits; the other bits are zero.
        value: u8,
        /// The bits that are compared.
        mask: u8,
    },
    /// The upper six bits of that byte.
    Dscp(u8),
    /// Range of lengths of the IP packet, both ends included.
    Length(u32, u32),
    /// Range of the time to live, both ends included.
    Ttl(u8, u8),
    /// TCP with some flags set and others clear.
    Flags {
        /// Flags that must be set.
        set: u8,
        /// Flags that must be clear.
        clear: u8,
    },
    /// A fragment, the first included.
    Fragment,
    /// The first fragment.
    FirstFragment,
    /// The mark that rules have set, in the bits of `mask`; zero if no rule has set them.
    Mark {
        /// The value of these bits; the other bits are zero.
        value: u32,
        /// The bits that are compared.
        mask: u32,
    },
    /// The virtual adapter at which the packet enters or leaves. `match` has no word for it: the
    /// key `adapter` of a flow sets it.
    Adapter(AdapterId),
}

/// Names of the TCP flags, the lowest bit first.
pub const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

impl Term {
    /// Returns true if the condition holds for the packet with this key.
    pub fn holds(&self, key: &Key) -> bool {
        match self {
            Term::Version(version) => key.version() == Some(*version),
            Term::Protocol(protocol) => key.protocol == Some(*protocol),
            Term::Src(net) => key.src.is_some_and(|a| net.contains(a)),
            Term::Dst(net) => key.dst.is_some_and(|a| net.contains(a)),
            Term::Sport(from, to) => ports(key).is_some_and(|(s, _)| (*from..=*to).contains(&s)),
            Term::Dport(from, to) => ports(key).is_some_and(|(_, d)| (*from..=*to).contains(&d)),
            Term::In(field, table) => table.find(*field, key).is_some(),
            Term::Ether(kind) => key.ether == Some(*kind),
            Term::Vlan(vlan) => key.vlan == Some(*vlan),
            Term::MacSrc(mac) => key.macs.is_some_and(|m| m.src == *mac),
            Term::MacDst(mac) => key.macs.is_some_and(|m| m.dst == *mac),
            Term::Tos { value, mask } => key.tos.is_some_and(|tos| tos & mask == *value),
            Term::Dscp(dscp) => key.tos.is_some_and(|tos| tos >> 2 == *dscp),
            Term::Length(from, to) => key.length.is_some_and(|l| (*from..=*to).contains(&l)),
            Term::Ttl(from, to) => key.ttl.is_some_and(|t| (*from..=*to).contains(&t)),
            Term::Flags { set, clear } => key.tcp.is_some_and(|f| f & (set | clear) == *set),
            Term::Fragment => key.fragment != Fragment::No,
            Term::FirstFragment => key.fragment == Fragment::First,
            Term::Mark { value, mask } => key.mark & mask == *value,
            Term::Adapter(adapter) => key.adapter == Some(*adapter),
        }
    }
}

impl Term {
    /// Returns true if no packet fulfils both conditions, because they demand different values of
    /// a header field or of a part of it. Ranges and addresses are not compared.
    pub(crate) fn excludes(&self, other: &Term) -> bool {
        let differ = |a: u32, b: u32, mask: u32| (a ^ b) & mask != 0;
        match (self, other) {
            (Term::Ether(a), Term::Ether(b)) | (Term::Vlan(a), Term::Vlan(b)) => a != b,
            (Term::MacSrc(a), Term::MacSrc(b)) | (Term::MacDst(a), Term::MacDst(b)) => a != b,
            (Term::Mark { value: a, mask }, Term::Mark { value: b, mask: other }) => {
                differ(*a, *b, mask & other)
            }
            _ => match (self.service(), other.service()) {
                (Some((a, mask)), Some((b, other))) => {
                    differ(a.into(), b.into(), (mask & other).into())
                }
                _ => false,
            },
        }
    }

    /// Returns true if `other` holds for all packets for which this condition holds. Ranges and
    /// addresses are not compared.
    pub(crate) fn implies(&self, other: &Term) -> bool {
        let part = |a: u32, mask: u32, b: u32, of: u32| of & !mask == 0 && a & of == b;
        match (self, other) {
            (Term::Mark { value: a, mask }, Term::Mark { value: b, mask: of }) => {
                part(*a, *mask, *b, *of)
            }
            _ => match (self.service(), other.service()) {
                (Some((a, mask)), Some((b, of))) => {
                    part(a.into(), mask.into(), b.into(), of.into())
                }
                _ => self == other,
            },
        }
    }

    /// The single condition that is equivalent to both conditions together, for two parts of the
    /// TOS byte or of the mark that do not exclude each other; else `None`.
    pub(crate) fn joined(&self, other: &Term) -> Option<Term> {
        match (self, other) {
            (Term::Tos { value, mask }, Term::Tos { value: v, mask: m }) => {
                Some(Term::Tos { value: value | v, mask: mask | m })
            }
            (Term::Mark { value, mask }, Term::Mark { value: v, mask: m }) => {
                Some(Term::Mark { value: value | v, mask: mask | m })
            }
            _ => None,
        }
    }

    /// The value of the TOS byte, and the bits of it that are compared.
    fn service(&self) -> Option<(u8, u8)> {
        match self {
            Term::Tos { value, mask } => Some((*value, *mask)),
            Term::Dscp(dscp) => Some((dscp << 2, 0xfc)),
            _ => None,
        }
    }
}

/// The ports of a packet, if its protocol has ports; else `None`, so that no port rule matches.
pub(crate) fn ports(key: &Key) -> Option<(u16, u16)> {
    key.ports.filter(|_| key.protocol.is_some_and(Protocol::has_ports))
}

fn range(f: &mut fmt::Formatter<'_>, name: &str, from: u32, to: u32) -> fmt::Result {
    if from == to { write!(f, "{name} {from}") } else { write!(f, "{name} {from}-{to}") }
}

fn mac(f: &mut fmt::Formatter<'_>, name: &str, mac: &[u8; 6]) -> fmt::Result {
    let [a, b, c, d, e, g] = mac;
    write!(f, "{name} {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
}

impl fmt::Display for Term {
    /// Writes the term as it is written in a scenario's `match`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Version(Version::V4) => f.write_str("ip"),
            Term::Version(Version::V6) => f.write_str("ip6"),
            Term::Protocol(protocol) => protocol.fmt(f),
            Term::Src(net) => write!(f, "src {net}"),
            Term::Dst(net) => write!(f, "dst {net}"),
            Term::Sport(from, to) => range(f, "sport", (*from).into(), (*to).into()),
            Term::Dport(from, to) => range(f, "dport", (*from).into(), (*to).into()),
            Term::In(field, table) => write!(f, "{} table {}", field.name(), table.name()),
            Term::Ether(kind) => write!(f, "ether 0x{kind:04x}"),
            Term::Vlan(vlan) => write!(f, "vlan {vlan}"),
            Term::MacSrc(of) => mac(f, "mac-src", of),
            Term::MacDst(of) => mac(f, "mac-dst", of),
            Term::Tos { value, mask: u8::MAX } => write!(f, "tos 0x{value:02x}"),
            Term::Tos { value, mask } => write!(f, "tos 0x{value:02x}/0x{mask:02x}"),
            Term::Dscp(dscp) => write!(f, "dscp {dscp}"),
            Term::Length(from, to) => range(f, "length", *from, *to),
            Term::Ttl(from, to) => range(f, "ttl", (*from).into(), (*to).into()),
            Term::Flags { set, clear } => {
                let named = |bits: u8, sign: &'static str| {
                    let of = move |(n, name): (usize, &&str)| {
                        (bits & (1 << n) != 0).then(|| format!("{sign}{name}"))
                    };
                    FLAGS.iter().enumerate().filter_map(of).collect::<Vec<_>>()
                };
                write!(f, "flags {}", [named(*set, ""), named(*clear, "!")].concat().join(","))
            }
            Term::Fragment => f.write_str("fragment"),
            Term::FirstFragment => f.write_str("first-fragment"),
            Term::Mark { value, mask: u32::MAX } => write!(f, "mark {value}"),
            Term::Mark { value, mask } => write!(f, "mark {value:#x}/{mask:#x}"),
            Term::Adapter(adapter) => write!(f, "adapter {adapter}"),
        }
    }
}

/// A term, or its negation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Literal {
    /// The condition.
    pub term: Term,
    /// True if the condition must not hold.
    pub not: bool,
}

impl Literal {
    /// Returns true if the condition holds for the packet with this key.
    pub fn holds(&self, key: &Key) -> bool {
        self.term.holds(key) != self.not
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.not { write!(f, "not {}", self.term) } else { self.term.fmt(f) }
    }
}
