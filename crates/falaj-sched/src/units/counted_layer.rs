//! Accounting layers, which determine the bytes of a packet that count.

/// The layer at which a link counts a packet's bytes, for rates, queues,
/// quanta and sizes alike.
///
/// Header lengths are those of UDP over IPv4 without options. The payload of another protocol is
/// counted as if its headers had the same lengths. A VLAN tag is not counted at any layer: `tc`
/// does not count it either, and a link accounts a tagged packet as one without a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CountedLayer {
    /// The payload of the transport protocol: 28 bytes less than the IP packet.
    Payload,
    /// The IP packet.
    Ip,
    /// The Ethernet frame without its check sequence: 14 bytes more than the IP packet, as `tc`
    /// counts.
    #[default]
    L2,
    /// The bytes that occupy the wire: frame, check sequence (4), preamble (8) and gap (12), at
    /// least 84 bytes in all.
    L1,
}

/// Length of the IPv4 and UDP headers in bytes.
const IP_UDP: u32 = 28;
/// Length of the Ethernet header in bytes.
const ETHERNET: u32 = 14;
/// Check sequence, preamble, and gap between frames, in bytes.
const WIRE: u32 = 24;
/// The shortest frame with its check sequence, preamble and gap, in bytes.
const WIRE_LEAST: u32 = 84;

impl CountedLayer {
    /// Names of the layers in a scenario.
    pub const NAMES: &'static [&'static str] = &["payload", "ip", "l2", "l1"];

    /// Returns the layer of this name in a scenario.
    pub fn from_name(name: &str) -> Option<CountedLayer> {
        [CountedLayer::Payload, CountedLayer::Ip, CountedLayer::L2, CountedLayer::L1]
            .into_iter()
            .find(|a| a.name() == name)
    }

    /// The layer's name in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            CountedLayer::Payload => "payload",
            CountedLayer::Ip => "ip",
            CountedLayer::L2 => "l2",
            CountedLayer::L1 => "l1",
        }
    }

    /// Bytes accounted for an IP packet of `len` bytes.
    pub const fn from_ip(self, len: u32) -> u32 {
        match self {
            CountedLayer::Payload => len.saturating_sub(IP_UDP),
            CountedLayer::Ip => len,
            CountedLayer::L2 => len.saturating_add(ETHERNET),
            CountedLayer::L1 => {
                let wire = len.saturating_add(ETHERNET + WIRE);
                if wire < WIRE_LEAST { WIRE_LEAST } else { wire }
            }
        }
    }

    /// The length of the IP packet that is accounted as `accounted` bytes; the longest one if
    /// padding gives several lengths the same count.
    pub const fn to_ip(self, accounted: u32) -> u32 {
        match self {
            CountedLayer::Payload => accounted.saturating_add(IP_UDP),
            CountedLayer::Ip => accounted,
            CountedLayer::L2 => accounted.saturating_sub(ETHERNET),
            CountedLayer::L1 => accounted.saturating_sub(ETHERNET + WIRE),
        }
    }

    /// Bytes accounted for the largest packet of a link whose largest IP packet is `mtu`.
    pub const fn largest(self, mtu: u32) -> u32 {
        self.from_ip(mtu)
    }

    /// The UDP payload of the datagram (over IPv4) that is accounted as `accounted` bytes; the
    /// longest one if padding gives several lengths the same count. Returns `None` if there is no
    /// such datagram.
    pub const fn udp_payload(self, accounted: u32) -> Option<u32> {
        let overhead = match self {
            CountedLayer::Payload => 0,
            CountedLayer::Ip => IP_UDP,
            CountedLayer::L2 => IP_UDP + ETHERNET,
            CountedLayer::L1 if accounted < WIRE_LEAST => return None,
            CountedLayer::L1 => IP_UDP + ETHERNET + WIRE,
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
        let all = [CountedLayer::Payload, CountedLayer::Ip, CountedLayer::L2, CountedLayer::L1];
        assert_eq!(all.map(|a| a.largest(1500)), [1472, 1500, 1514, 1538]);
        assert_eq!(all.map(|a| a.from_ip(28)), [0, 28, 42, 84]);
        assert_eq!(all.map(|a| a.from_ip(46)), [18, 46, 60, 84]);
        assert_eq!(all.map(|a| a.from_ip(47)), [19, 47, 61, 85]);
    }

    #[test]
    fn the_payload_is_found_again() {
        for layer in [CountedLayer::Payload, CountedLayer::Ip, CountedLayer::L2, CountedLayer::L1] {
            for payload in 18..=65_507 {
                assert_eq!(layer.udp_payload(layer.from_udp(payload)), Some(payload));
                assert_eq!(layer.to_ip(layer.from_udp(payload)), payload + 28);
            }
            assert_eq!(layer.udp_payload(layer.from_udp(65_508)), None);
            assert_eq!(CountedLayer::from_name(layer.name()), Some(layer));
            assert!(CountedLayer::NAMES.contains(&layer.name()));
        }
        assert_eq!(CountedLayer::L1.udp_payload(83), None);
        assert_eq!(CountedLayer::L1.udp_payload(84), Some(18));
        assert_eq!(CountedLayer::L2.udp_payload(41), None);
    }
}
