//! Rules that say which packets are a flow's, tried in order.

use crate::key::Key;
use falaj_sched::queue::FlowId;
use std::fmt;
use std::net::IpAddr;

/// The version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// What IP carries, by its assigned number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    /// ICMP of IPv4.
    pub const ICMP: Protocol = Protocol(1);
    /// TCP.
    pub const TCP: Protocol = Protocol(6);
    /// UDP.
    pub const UDP: Protocol = Protocol(17);
    /// ICMP of IPv6.
    pub const ICMP6: Protocol = Protocol(58);

    /// Does it have ports that a rule can look at (TCP and UDP)?
    pub const fn has_ports(self) -> bool {
        matches!(self, Protocol::TCP | Protocol::UDP)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Protocol::ICMP => f.write_str("icmp"),
            Protocol::TCP => f.write_str("tcp"),
            Protocol::UDP => f.write_str("udp"),
            Protocol::ICMP6 => f.write_str("icmp6"),
            Protocol(n) => write!(f, "proto {n}"),
        }
    }
}

/// Addresses that share their first `len` bits; the bits after those are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Net {
    /// The lowest address.
    pub addr: IpAddr,
    /// How many bits are compared: 0 to 32 (IPv4) or 128 (IPv6).
    pub len: u8,
}

impl Net {
    /// The addresses that share the first `len` bits of `addr`.
    pub fn new(addr: IpAddr, len: u8) -> Net {
        let shared = match addr {
            IpAddr::V4(a) => {
                let mask = u32::MAX.checked_shl(32u32.saturating_sub(len.into())).unwrap_or(0);
                IpAddr::V4((a.to_bits() & mask).into())
            }
            IpAddr::V6(a) => {
                let mask = u128::MAX.checked_shl(128u32.saturating_sub(len.into())).unwrap_or(0);
                IpAddr::V6((a.to_bits() & mask).into())
            }
        };
        Net { addr: shared, len }
    }

    /// How many bits an address of its version has.
    pub const fn bits(&self) -> u8 {
        match self.addr {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        }
    }

    /// Which IP it belongs to.
    pub const fn version(&self) -> Version {
        match self.addr {
            IpAddr::V4(_) => Version::V4,
            IpAddr::V6(_) => Version::V6,
        }
    }

    /// Is `addr` one of these?
    pub fn contains(&self, addr: IpAddr) -> bool {
        match (self.addr, addr) {
            (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => {
                Net::new(addr, self.len).addr == self.addr
            }
            _ => false,
        }
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.len == self.bits() { write!(f, "{}", self.addr) } else { write!(f, "{}/{}", self.addr, self.len) }
    }
}

/// What a packet must be like; a part that is `None` does not matter. All
/// `None` ([`Match::ANY`]) takes every packet, IP or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Match {
    /// The version of IP. Set also where addresses or the protocol decide it.
    pub version: Option<Version>,
    /// What IP carries.
    pub protocol: Option<Protocol>,
    /// Source address.
    pub src: Option<Net>,
    /// Destination address.
    pub dst: Option<Net>,
    /// Source port, from and to, both included. With no protocol given, TCP
    /// and UDP match and nothing else does.
    pub sport: Option<(u16, u16)>,
    /// Destination port, as `sport`.
    pub dport: Option<(u16, u16)>,
}

impl Match {
    /// Takes every packet.
    pub const ANY: Match = Match { version: None, protocol: None, src: None, dst: None, sport: None, dport: None };

    /// What takes the packets that both take; `None` if there are none.
    pub fn and(&self, other: &Match) -> Option<Match> {
        fn same<T: Copy + PartialEq>(a: Option<T>, b: Option<T>) -> Option<Option<T>> {
            match (a, b) {
                (Some(a), Some(b)) => (a == b).then_some(Some(a)),
                (a, b) => Some(a.or(b)),
            }
        }
        fn net(a: Option<Net>, b: Option<Net>) -> Option<Option<Net>> {
            let (Some(a), Some(b)) = (a, b) else { return Some(a.or(b)) };
            let (wide, narrow) = if a.len <= b.len { (a, b) } else { (b, a) };
            wide.contains(narrow.addr).then_some(Some(narrow))
        }
        fn ports(a: Option<(u16, u16)>, b: Option<(u16, u16)>) -> Option<Option<(u16, u16)>> {
            let (Some(a), Some(b)) = (a, b) else { return Some(a.or(b)) };
            let (from, to) = (a.0.max(b.0), a.1.min(b.1));
            (from <= to).then_some(Some((from, to)))
        }
        let both = Match {
            version: same(self.version, other.version)?,
            protocol: same(self.protocol, other.protocol)?,
            src: net(self.src, other.src)?,
            dst: net(self.dst, other.dst)?,
            sport: ports(self.sport, other.sport)?,
            dport: ports(self.dport, other.dport)?,
        };
        let wants_ports = both.sport.is_some() || both.dport.is_some();
        (!wants_ports || both.protocol.is_none_or(Protocol::has_ports)).then_some(both)
    }

    /// Does it take the packet with this key?
    pub fn takes(&self, key: &Key) -> bool {
        let within = |port: u16, range: Option<(u16, u16)>| range.is_none_or(|(from, to)| (from..=to).contains(&port));
        let has_ports = key.protocol.is_some_and(Protocol::has_ports) && key.ports.is_some();
        let (sport, dport) = key.ports.unwrap_or_default();
        self.version.is_none_or(|v| key.version() == Some(v))
            && self.protocol.is_none_or(|p| key.protocol == Some(p))
            && self.src.is_none_or(|net| key.src.is_some_and(|a| net.contains(a)))
            && self.dst.is_none_or(|net| key.dst.is_some_and(|a| net.contains(a)))
            && (has_ports || (self.sport.is_none() && self.dport.is_none()))
            && within(sport, self.sport)
            && within(dport, self.dport)
    }

    /// Does it take every packet?
    pub fn is_any(&self) -> bool {
        *self == Match::ANY
    }
}

impl fmt::Display for Match {
    /// In the grammar of a scenario's `match`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_any() {
            return f.write_str("any");
        }
        let decided =
            self.src.or(self.dst).is_some() || matches!(self.protocol, Some(Protocol::ICMP | Protocol::ICMP6));
        let ports = |name: &str, range: Option<(u16, u16)>| match range {
            Some((from, to)) if from == to => Some(format!("{name} {from}")),
            Some((from, to)) => Some(format!("{name} {from}-{to}")),
            None => None,
        };
        let terms = [
            self.version.filter(|_| !decided).map(|v| if v == Version::V4 { "ip" } else { "ip6" }.to_owned()),
            self.protocol.map(|p| p.to_string()),
            self.src.map(|n| format!("src {n}")),
            self.dst.map(|n| format!("dst {n}")),
            ports("sport", self.sport),
            ports("dport", self.dport),
        ];
        f.write_str(&terms.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

/// The rules of one pipe, first match wins.
#[derive(Debug, Clone, Default)]
pub struct Classifier {
    rules: Vec<(Match, FlowId)>,
}

impl Classifier {
    /// One list of rules for each flow; flows are tried in order.
    pub fn new<'a>(flows: impl IntoIterator<Item = &'a [Match]>) -> Classifier {
        let of = |(f, rules): (usize, &'a [Match])| rules.iter().map(move |&rule| (rule, FlowId(f as u32)));
        Classifier { rules: flows.into_iter().enumerate().flat_map(of).collect() }
    }

    /// The flow that the frame belongs to; `None` where no rule takes it.
    pub fn flow(&self, frame: &[u8]) -> Option<FlowId> {
        let (first, flow) = self.rules.first()?;
        if first.is_any() {
            return Some(*flow);
        }
        self.flow_of(&Key::of_ethernet(frame))
    }

    /// The same for a packet whose key is known.
    pub fn flow_of(&self, key: &Key) -> Option<FlowId> {
        self.rules.iter().find(|(rule, _)| rule.takes(key)).map(|&(_, flow)| flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn udp(sport: u16, dport: u16) -> Vec<u8> {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 77, 0, 1], [10, 77, 0, 2], 64)
            .udp(sport, dport)
            .write(&mut frame, &[0; 10])
            .expect("a vector takes it all");
        frame
    }

    #[test]
    fn the_first_rule_that_takes_a_packet_wins() {
        let voice = Match { protocol: Some(Protocol::UDP), dport: Some((5000, 5009)), ..Match::ANY };
        let near = Match { src: Some(Net::new([10, 77, 0, 9].into(), 30)), ..Match::ANY };
        let v6 = Match { version: Some(Version::V6), ..Match::ANY };
        let rules = Classifier::new([&[voice][..], &[v6, near][..], &[Match::ANY][..]]);
        assert_eq!(rules.flow(&udp(1, 5004)), Some(FlowId(0)));
        assert_eq!(rules.flow(&udp(5004, 5010)), Some(FlowId(2)), "10.77.0.1 is not in 10.77.0.8/30");
        assert_eq!(rules.flow(b"no packet at all"), Some(FlowId(2)));
        assert_eq!(Classifier::new([&[voice][..]]).flow(&udp(1, 1)), None);
        assert_eq!(Classifier::new([&[near][..]]).flow(b""), None);
    }

    #[test]
    fn ports_are_looked_for_only_where_there_are_ports() {
        let to_zero = Match { dport: Some((0, 0)), ..Match::ANY };
        let mut ping = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 77, 0, 1], [10, 77, 0, 2], 64)
            .icmpv4_echo_request(1, 1)
            .write(&mut ping, &[0; 10])
            .expect("a vector takes it all");
        assert_eq!(Classifier::new([&[to_zero][..]]).flow(&ping), None);
    }
}
