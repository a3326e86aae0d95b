//! Sources that replay a capture.

use falaj_scenario::{RaisedLengths, Scenario};
use falaj_traffic::source::recorded::Recording;
use falaj_traffic::source::{Model, Source};
use std::path::PathBuf;
use std::sync::Arc;

/// A pcap file with timestamps in nanoseconds. `packets` has the instant, the port and the length
/// of each frame; only the headers are in the file.
fn pcap(packets: &[(u64, u16, u32)]) -> Vec<u8> {
    let mut out = Vec::new();
    let words =
        |out: &mut Vec<u8>, words: &[u32]| words.iter().for_each(|w| out.extend(w.to_le_bytes()));
    // Magic number, version 2.4, time zone, accuracy, snapshot length, link type Ethernet.
    words(&mut out, &[0xa1b2_3c4d, 0x0004_0002, 0, 0, 65_535, 1]);
    for &(at, port, length) in packets {
        let mut frame = [0u8; 42];
        frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        frame[16..18].copy_from_slice(&((length - 14) as u16).to_be_bytes());
        frame[23] = 17;
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame[36..38].copy_from_slice(&port.to_be_bytes());
        words(&mut out, &[(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, 42, length]);
        out.extend(frame);
    }
    out
}

const PACKETS: [(u64, u16, u32); 5] = [
    (1_700_000_000_000_001_000, 53, 100),
    (1_700_000_000_000_001_500, 443, 1514),
    (1_700_000_000_002_001_000, 53, 600),
    (1_700_000_000_003_001_000, 443, 60),
    (1_700_000_000_005_001_000, 53, 1514),
];

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// Writes a capture with this name, and reads a scenario with a source that replays it.
fn parse(
    name: &str,
    packets: &[(u64, u16, u32)],
    more: &str,
) -> Result<(Scenario, String), String> {
    std::fs::write(directory().join(name), pcap(packets)).unwrap();
    let text = format!(
        "[link.a]\nrate = \"100mbit\"\n[traffic.x]\nmodel = \"replay\"\ncapture = \"{name}\"\nsize = \"1000B\"\n{more}\n"
    );
    let path = directory().join("a.toml");
    let told = falaj_scenario::parse(&text, path.to_str().unwrap());
    told.map(|(scenario, warnings)| (scenario, warnings.to_string()))
        .map_err(|errors| errors.to_string())
}

fn recording(scenario: &Scenario) -> &Arc<Recording> {
    match &scenario.traffic[0].model {
        Model::Recorded(recording) => recording,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_capture_is_one_flow_at_any_speed_and_scale() {
    let (scenario, warnings) = parse("one.pcap", &PACKETS, "select = \"udp dport 53\"").unwrap();
    // Lengths as the link counts them, without the frame check sequence; the longest is cut to 1000
    // bytes.
    assert_eq!(recording(&scenario).packets, [(0, 100), (2_000_000, 600), (5_000_000, 1000)]);
    assert!(
        warnings
            .contains("1 packets of the capture are longer than 1000B, and are sent with 1000B"),
        "{warnings}"
    );
    let more =
        "select = \"udp dport 53\"\nspeed = 2\nscale = 0.5\nrepeat = \"yes\"\noffset = \"3us\"";
    let (mut scenario, _) = parse("half.pcap", &PACKETS, more).unwrap();
    // The IP lengths of 86, 586 and 1500 bytes are halved, and the Ethernet header of 14 bytes is
    // added.
    assert_eq!(recording(&scenario).packets, [(0, 57), (1_000_000, 307), (2_500_000, 764)]);
    // The recording has two gaps with a mean of 1.25 ms, and one more mean gap before it repeats.
    let sent: Vec<(u64, u32)> =
        Source::new(scenario.traffic[0].spec(), 1, 0).take(5).map(|p| (p.at.0, p.bytes)).collect();
    let first = [(3_000, 57), (1_003_000, 307), (2_503_000, 764)];
    assert_eq!(sent, [&first[..], &[(3_753_000, 57), (4_753_000, 307)]].concat());
    assert_eq!(scenario.traffic[0].mean_rate().0, 1128 * 8_000_000_000 / 3_750_000);
    // The first packet has no room for the mark of a live sender.
    let raised = scenario.make_room_for_marks();
    assert_eq!(raised, [RaisedLengths { source: "x".to_owned(), packets: 1, to: 74 }]);
    assert_eq!(recording(&scenario).packets, [(0, 74), (1_000_000, 307), (2_500_000, 764)]);
    assert_eq!(scenario.make_room_for_marks(), []);
}

#[test]
fn what_is_no_capture_is_refused() {
    let refused =
        |packets: &[(u64, u16, u32)], more: &str| parse("refused.pcap", packets, more).unwrap_err();
    assert!(refused(&PACKETS, "select = \"tcp\"").contains("has none of these, of 5 packets"));
    assert!(refused(&[], "").contains("has no packets, of 0 packets"));
    for wrong in ["0", "-1", "1e9"] {
        let said = refused(&PACKETS, &format!("speed = {wrong}"));
        assert!(said.contains("write a number from 0.000001 to 1000000"), "{wrong}: {said}");
    }
    assert!(refused(&PACKETS, "speed = nan").contains("`speed`: that is not a finite number"));
    assert!(refused(&PACKETS, "scale = 0").contains("write a number from 0.001 to 1000"));
    assert!(refused(&PACKETS, "rate = \"1mbit\"").contains("`rate` is for "));
    let text = |file: &str| {
        let rest = "\nsize = \"1000B\"\n[link.a]\nrate = \"1mbit\"\n";
        format!("[traffic.x]\nmodel = \"replay\"\ncapture = \"{file}\"{rest}")
    };
    let name = directory().join("b.toml");
    let said = |file: &str| {
        falaj_scenario::parse(&text(file), name.to_str().unwrap()).unwrap_err().to_string()
    };
    assert!(said("nowhere.pcap").contains("`nowhere.pcap` cannot be read: No such file"));
    std::fs::write(directory().join("text.pcap"), "no capture").unwrap();
    assert!(said("text.pcap").contains("`capture`: `text.pcap`: "));
}
