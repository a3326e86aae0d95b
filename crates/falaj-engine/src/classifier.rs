//! Rules that assign packets to flows, tried in order.

use crate::header::{Net, Protocol, Version};
use crate::key::Key;
use crate::lookup::Lookup;
use crate::term::{Literal, Term};
use falaj_sched::queues::queue::FlowId;
use std::fmt;

/// Conditions on a packet; a part that is `None` does not matter. If all are `None` and `more` is
/// empty ([`Match::ANY`]), it matches every packet, IP or not.
///
/// A scenario's `match` with `or` becomes several of these.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Match {
    /// The version of IP. It is also set where addresses or the protocol imply it.
    pub version: Option<Version>,
    /// The protocol that IP carries.
    pub protocol: Option<Protocol>,
    /// Source address.
    pub src: Option<Net>,
    /// Destination address.
    pub dst: Option<Net>,
    /// Range of source ports, both ends included. Without a protocol, packets of TCP and UDP
    /// match, and no others.
    pub sport: Option<(u16, u16)>,
    /// Range of destination ports, as `sport`.
    pub dport: Option<(u16, u16)>,
    /// Further conditions, all of which must hold.
    pub more: Vec<Literal>,
}

impl Match {
    /// Matches every packet.
    pub const ANY: Match = Match {
        version: None,
        protocol: None,
        src: None,
        dst: None,
        sport: None,
        dport: None,
        more: Vec::new(),
    };

    /// Matches the packets for which one literal holds.
    pub fn of(literal: Literal) -> Match {
        let mut one = Match::ANY;
        match literal {
            Literal { term: Term::Version(version), not: false } => one.version = Some(version),
            Literal { term: Term::Protocol(protocol), not: false } => one.protocol = Some(protocol),
            Literal { term: Term::Src(net), not: false } => one.src = Some(net),
            Literal { term: Term::Dst(net), not: false } => one.dst = Some(net),
            Literal { term: Term::Sport(from, to), not: false } => one.sport = Some((from, to)),
            Literal { term: Term::Dport(from, to), not: false } => one.dport = Some((from, to)),
            more => one.more.push(more),
        }
        one
    }

    /// Matches the packets that match both `self` and `other`; `None` if it is certain that there
    /// are none.
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
        let mut more = self.more.clone();
        for literal in other.more.iter().filter(|l| !self.more.contains(l)) {
            let must = |own: &&mut Literal| !own.not && !literal.not;
            if more.iter_mut().filter(must).any(|own| own.term.excludes(&literal.term)) {
                return None;
            }
            let join =
                |own: &mut Literal| own.term.joined(&literal.term).map(|term| own.term = term);
            if more.iter_mut().filter(must).find_map(join).is_none() {
                more.push(literal.clone());
            }
        }
        let both = Match {
            version: same(self.version, other.version)?,
            protocol: same(self.protocol, other.protocol)?,
            src: net(self.src, other.src)?,
            dst: net(self.dst, other.dst)?,
            sport: ports(self.sport, other.sport)?,
            dport: ports(self.dport, other.dport)?,
            more,
        };
        let wants_ports = both.sport.is_some() || both.dport.is_some();
        let possible = (!wants_ports || both.protocol.is_none_or(Protocol::has_ports))
            && !both.contradicts_itself();
        possible.then_some(both)
    }

    /// Returns true if a condition that must not hold follows from those that must. Not every
    /// contradiction is detected.
    fn contradicts_itself(&self) -> bool {
        let inside = |range: Option<(u16, u16)>, from: u16, to: u16| {
            range.is_some_and(|r| from <= r.0 && r.1 <= to)
        };
        let within = |net: Option<Net>, wide: &Net| {
            net.is_some_and(|n| wide.len <= n.len && wide.contains(n.addr))
        };
        let follows = |literal: &Literal| match &literal.term {
            Term::Version(version) => self.version == Some(*version),
            Term::Protocol(protocol) => self.protocol == Some(*protocol),
            Term::Src(net) => within(self.src, net),
            Term::Dst(net) => within(self.dst, net),
            Term::Sport(from, to) => inside(self.sport, *from, *to),
            Term::Dport(from, to) => inside(self.dport, *from, *to),
            term => self.more.iter().any(|l| !l.not && l.term.implies(term)),
        };
        self.more.iter().filter(|l| l.not).any(follows)
    }

    /// Returns true if the packet with this key matches.
    pub fn takes(&self, key: &Key) -> bool {
        let holds = |term: Option<Term>| term.is_none_or(|term| term.holds(key));
        holds(self.version.map(Term::Version))
            && holds(self.protocol.map(Term::Protocol))
            && holds(self.src.map(Term::Src))
            && holds(self.dst.map(Term::Dst))
            && holds(self.sport.map(|(from, to)| Term::Sport(from, to)))
            && holds(self.dport.map(|(from, to)| Term::Dport(from, to)))
            && self.more.iter().all(|literal| literal.holds(key))
    }

    /// Returns true if every packet matches.
    pub fn is_any(&self) -> bool {
        *self == Match::ANY
    }
}

impl fmt::Display for Match {
    /// Writes the conditions as they are written in a scenario's `match`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_any() {
            return f.write_str("any");
        }
        let decided = self.src.or(self.dst).is_some()
            || matches!(self.protocol, Some(Protocol::ICMP | Protocol::ICMP6));
        let terms = [
            self.version.filter(|_| !decided).map(Term::Version),
            self.protocol.map(Term::Protocol),
            self.src.map(Term::Src),
            self.dst.map(Term::Dst),
            self.sport.map(|(from, to)| Term::Sport(from, to)),
            self.dport.map(|(from, to)| Term::Dport(from, to)),
        ];
        let terms = terms.into_iter().flatten().map(|term| Literal { term, not: false });
        let terms = terms.chain(self.more.iter().cloned()).map(|literal| literal.to_string());
        f.write_str(&terms.collect::<Vec<_>>().join(" "))
    }
}

/// Finds the flow of a pipe that a packet belongs to: the first flow whose rules match.
#[derive(Debug, Clone, Default)]
pub struct Classifier {
    lookup: Lookup,
    /// True if the first flow matches every packet, whatever its key.
    any: bool,
}

impl Classifier {
    /// Builds it from one list of rules for each flow; flows are tried in order.
    pub fn new<'a>(flows: impl IntoIterator<Item = &'a [Match]>) -> Classifier {
        let flows: Vec<&[Match]> = flows.into_iter().collect();
        let any = flows.first().is_some_and(|rules| rules.iter().any(Match::is_any));
        Classifier { lookup: Lookup::new(flows.into_iter().map(|rules| (rules, None))), any }
    }

    /// Returns true if the flow depends on the packet's key.
    pub fn wants_key(&self) -> bool {
        !self.any
    }

    /// The flow that the frame belongs to; `None` if no rule matches.
    pub fn flow(&self, frame: &[u8]) -> Option<FlowId> {
        if self.any { Some(FlowId(0)) } else { self.flow_of(&Key::of_ethernet(frame)) }
    }

    /// The flow of a packet whose key is known; see [`flow`](Classifier::flow).
    #[inline]
    pub fn flow_of(&self, key: &Key) -> Option<FlowId> {
        if self.any { Some(FlowId(0)) } else { self.lookup.find(key, 0, 0).map(FlowId) }
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
        let voice =
            Match { protocol: Some(Protocol::UDP), dport: Some((5000, 5009)), ..Match::ANY };
        let near = Match { src: Some(Net::new([10, 77, 0, 9].into(), 30)), ..Match::ANY };
        let v6 = Match { version: Some(Version::V6), ..Match::ANY };
        let rules =
            Classifier::new([&[voice.clone()][..], &[v6, near.clone()][..], &[Match::ANY][..]]);
        assert_eq!(rules.flow(&udp(1, 5004)), Some(FlowId(0)));
        assert_eq!(
            rules.flow(&udp(5004, 5010)),
            Some(FlowId(2)),
            "10.77.0.1 is not in 10.77.0.8/30"
        );
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
