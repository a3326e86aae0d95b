//! Accounting layers: the bytes of a packet that count.

/// The layer at which a link counts a packet's bytes, for rates, queues,
/// quanta and sizes alike.
///
/// Lengths here are those of UDP over IPv4 without options; another protocol's
/// payload is counted as if its headers were as long. A VLAN tag is not counted,
/// at no layer: `tc` does not either, and a tagged packet is no larger for its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Account {
    /// The transport's payload: 28 bytes less than the IP packet.
    Payload,
    /// The IP packet.
    Ip,
    /// The Ethernet frame without its check sequence: 14 bytes more, as `tc` counts.
    #[default]
    L2,
    /// The bytes that occupy the wire: frame, check sequence (4), preamble (8) and gap (12), at
    /// least 84 bytes in all.
    L1,
}

/// IPv4 and UDP headers.
const IP_UDP: u32 = 28;
/// The Ethernet header.
const ETHERNET: u32 = 14;
/// Check sequence, preamble, gap between frames.
const WIRE: u32 = 24;
/// The shortest frame with its check sequence, preamble and gap.
const WIRE_LEAST: u32 = 84;

impl Account {
    /// Names of the layers in a scenario.
    pub const NAMES: &'static [&'static str] = &["payload", "ip", "l2", "l1"];

    /// Returns the layer of this name in a scenario.
    pub fn from_name(name: &str) -> Option<Account> {
        [Account::Payload, Account::Ip, Account::L2, Account::L1]
            .into_iter()
            .find(|a| a.name() == name)
    }

    /// The layer's name in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Account::Payload => "payload",
            Account::Ip => "ip",
            Account::L2 => "l2",
            Account::L1 => "l1",
        }
    }

    /// Bytes accounted for an IP packet of `len` bytes.
    pub const fn from_ip(self, len: u32) -> u32 {
        match self {
            Account::Payload => len.saturating_sub(IP_UDP),
            Account::Ip => len,
            Account::L2 => len.saturating_add(ETHERNET),
            Account::L1 => {
                let wire = len.saturating_add(ETHERNET + WIRE);
                if wire < WIRE_LEAST { WIRE_LEAST } else { wire }
            }
        }
    }

    /// The length of the IP packet that is accounted as `accounted` bytes; the longest one where
    /// padding makes several lengths equal.
    pub const fn to_ip(self, accounted: u32) -> u32 {
        match self {
            Account::Payload => accounted.saturating_add(IP_UDP),
            Account::Ip => accounted,
            Account::L2 => accounted.saturating_sub(ETHERNET),
            Account::L1 => accounted.saturating_sub(ETHERNET + WIRE),
        }
    }

    /// Bytes accounted for the largest packet of a link whose largest IP packet is `mtu`.
    pub const fn largest(self, mtu: u32) -> u32 {
        self.from_ip(mtu)
    }

    /// The UDP payload of the datagram (over IPv4) that is accounted as `accounted` bytes; the
    /// longest one where padding makes several equal; `None` if there is no such datagram.
    pub const fn udp_payload(self, accounted: u32) -> Option<u32> {
        let overhead = match self {
            Account::Payload => 0,
            Account::Ip => IP_UDP,
            Account::L2 => IP_UDP + ETHERNET,
            Account::L1 if accounted < WIRE_LEAST => return None,
            Account::L1 => IP_UDP + ETHERNET + WIRE,
        };
        match accounted.checked_sub(overhead) {
            // An IP packet's length is a 16-bit number.
            Some(payload) if payload <= 65_535 - IP_UDP => Some(payload),
            _ => None,
        }
    }

    /// Bytes accounted for a datagram of `payload` bytes over IPv4.
    pub const fn from_udp(self, payload: u32) -> u32 {
        self.from_ip(payload.saturating_add(IP_UDP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layers_of_a_full_packet() {
        let all = [Account::Payload, Account::Ip, Account::L2, Account::L1];
        assert_eq!(all.map(|a| a.largest(1500)), [1472, 1500, 1514, 1538]);
        assert_eq!(all.map(|a| a.from_ip(28)), [0, 28, 42, 84]);
        assert_eq!(all.map(|a| a.from_ip(46)), [18, 46, 60, 84]);
        assert_eq!(all.map(|a| a.from_ip(47)), [19, 47, 61, 85]);
    }

    #[test]
    fn the_payload_is_found_again() {
        for account in [Account::Payload, Account::Ip, Account::L2, Account::L1] {
            for payload in 18..=65_507 {
                assert_eq!(account.udp_payload(account.from_udp(payload)), Some(payload));
                assert_eq!(account.to_ip(account.from_udp(payload)), payload + 28);
            }
            assert_eq!(account.udp_payload(account.from_udp(65_508)), None);
            assert_eq!(Account::from_name(account.name()), Some(account));
            assert!(Account::NAMES.contains(&account.name()));
        }
        assert_eq!(Account::L1.udp_payload(83), None);
        assert_eq!(Account::L1.udp_payload(84), Some(18));
        assert_eq!(Account::L2.udp_payload(41), None);
    }
}
