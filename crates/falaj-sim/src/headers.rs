//! Headers of simulated packets, for masks and rules: each source has its own ports, and each
//! instance of a source has its own address at the near end. All share one address at the far end.

use falaj_engine::key::Key;
use falaj_scenario::{Source, Towards};
use falaj_traffic::source::Model;

/// The addresses of the near end follow this one: 100.64.0.0/10, the shared address space of
/// providers (RFC 6598).
const NEAR: u32 = 0x6440_0000;
/// The address of the far end, in the network for benchmarks: 198.18.0.1.
const FAR: u32 = 0xc612_0001;

/// Returns the key of a packet of the scenario's source number `number`, for its `n`th instance. If
/// rules route the packet, the scenario gives the key of the first instance; further instances have
/// the following addresses at the near end.
pub fn key(source: &Source, number: usize, n: u32) -> Key {
    match source.key {
        None => {
            let key =
                Key { tos: Some(source.ecn as u8), ..Key::of_ethernet(&frame(source, number, n)) };
            if matches!(source.model, Model::Tcp(_)) { key.of_tcp() } else { key }
        }
        Some(key) => source.following(&key, n),
    }
}

/// Returns a frame of the `n`th instance of the scenario's source number `number`: the headers of
/// UDP over IPv4, without payload. The `n`th instances of all sources share an address at the near
/// end, so that their traffic up and down belongs to one host.
pub fn frame(source: &Source, number: usize, n: u32) -> [u8; 42] {
    let port = (number % 10_000) as u16;
    let (sport, dport) = (20_000 + port, 40_000 + port);
    let near = NEAR + 1 + n;
    let (src, dst) = match source.towards {
        Towards::Up => (near, FAR),
        Towards::Down => (FAR, near),
    };
    let mut frame = [0; 42];
    // Ethernet: locally administered addresses, made from the IP addresses.
    let mac = |address: u32| {
        let [a, b, c, d] = address.to_be_bytes();
        [2, 0, a, b, c, d]
    };
    frame[..6].copy_from_slice(&mac(dst));
    frame[6..12].copy_from_slice(&mac(src));
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    // IPv4: version and header length, total length, time to live, protocol UDP.
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&28u16.to_be_bytes());
    (frame[22], frame[23]) = (64, 17);
    frame[26..30].copy_from_slice(&src.to_be_bytes());
    frame[30..34].copy_from_slice(&dst.to_be_bytes());
    frame[34..36].copy_from_slice(&sport.to_be_bytes());
    frame[36..38].copy_from_slice(&dport.to_be_bytes());
    frame[38..40].copy_from_slice(&8u16.to_be_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_known_by_its_headers() {
        let text = "[link.a]\nrate = \"1mbit\"\n[traffic.x]\nmodel = \"cbr\"\nrate = \"1kbit\"\nsize = \"100B\"\nsources = 2";
        let mut source = falaj_scenario::parse(text, "x").unwrap().0.traffic.remove(0);
        let key = Key::of_ethernet(&frame(&source, 3, 1));
        assert_eq!(key.src, Some([100, 64, 0, 2].into()));
        assert_eq!((key.dst, key.ports), (Some([198, 18, 0, 1].into()), Some((20_003, 40_003))));
        source.towards = Towards::Down;
        assert_eq!(Key::of_ethernet(&frame(&source, 3, 1)).dst, Some([100, 64, 0, 2].into()));
    }
}
