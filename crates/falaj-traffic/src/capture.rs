//! Captures: the packets that entered a live link, and the engine's decision for each, in one file.
//! Packet analysers can open the file, and falaj can replay it.
//!
//! The file is pcapng. The timestamp of a packet is its arrival. Its comment gives the engine's
//! exact input for this packet and the engine's decision:
//!
//! ```text
//! number=17 flow=0 bytes=1514 ip=1500 in=56789 start=100000 end=221120 due=40221120 delay=164331ns
//! number=18 flow=0 bytes=1514 ip=1500 in=56789 dropped=queue-full
//! number=19 flow=0 bytes=1514 ip=1500 in=56800 waiting
//! number=20 flow=0 bytes=1514 ip=1500 part=3 in=56900 waiting
//! ```
//!
//! Times are nanoseconds of the engine's time. The scenario is the comment of the section, in
//! several pieces if it is long. If the scenario has rules, a packet has a `part`: its index among
//! the packets of one unit that arrived together. Packets that no rule admits are captured too.
//! Changes of the link ([`Wanted`]), and reports of ports about their free room
//! ([`BackpressureReport`]), are log entries between the packets. The interfaces are the directions
//! in which packets enter: 0 at the near end, 1 at the far end. A capture of another program, pcap
//! or pcapng, contains only arrivals.
//!
//! The section names the program that wrote it, and with it the version of the format. `falaj`
//! alone is the first version, which had no changes, and had `ip` only with rules.
//! `falaj, journal 2` is the second version, which had no reports of the ports that pace a link
//! ([`BackpressureReport`]). `falaj, journal 3` is the present version.
//!
//! Packets captured on other links than Ethernet get an Ethernet header when they are read. Files
//! compressed by gzip or zstd are decompressed.

mod change;
mod link_type;
mod read;
mod room;
mod taken;
mod write;
mod zstd;

pub use change::{Change, Wanted};
pub use read::{Broken, Capture, CapturedPacket, LARGEST, Packet, Unreadable, arrivals, read};
pub use room::BackpressureReport;
pub use taken::{Taken, Verdict, word};
pub use write::Writer;

/// Name of the writing program in the section header, before the version of the format.
const OURS: &str = "falaj, journal ";
const VERSION: u32 = 3;
/// Name of the writing program in the section header, in the first version of the format.
const FIRST: &str = "falaj";

#[cfg(test)]
mod tests {
    use super::read::{nanos, of_at_most, version};
    use super::taken::WHYS;
    use super::write::KEPT;
    use super::*;
    use falaj_sched::units::time::Time;
    use pcap_file::DataLink;
    use pcap_file::pcapng::blocks::section_header::SectionHeaderOption;
    use std::io::Read;
    use std::time::Duration;

    fn taken() -> Vec<Taken> {
        let sent = Verdict::Sent { start: Time(2_000), end: Time(3_211), due: Time(u64::MAX - 1) };
        let dropped = WHYS.map(|(why, _)| Verdict::Dropped(why));
        let verdicts = [sent, Verdict::Waiting].into_iter().chain(dropped);
        let one = |(i, verdict): (usize, Verdict)| {
            let number = i as u64;
            let (length, part) = ((i % 3 < 2).then_some(1500), (i % 3 == 0).then_some(i as u32));
            Taken {
                number,
                way: i as u32 % 2,
                flow: 7,
                bytes: 1514,
                length,
                part,
                arrival: Time(1000 + number),
                verdict,
            }
        };
        verdicts.enumerate().map(one).collect()
    }

    fn taken_of(packet: &Packet) -> &Taken {
        packet.taken.as_deref().expect("ours")
    }

    fn written(scenario: &str, taken: &[Taken]) -> Vec<u8> {
        let mut file = Vec::new();
        let zero = Duration::from_secs(1_800_000_000);
        let mut writer = Writer::new(&mut file, scenario, &["near", "far"], zero).expect("memory");
        changes(scenario).iter().rev().for_each(|change| writer.change(change).expect("memory"));
        taken.iter().for_each(|t| writer.write(t, &[t.number as u8; 200]).expect("memory"));
        file
    }

    fn changes(scenario: &str) -> Vec<Change> {
        let wanted = |n: usize| Wanted {
            what: "x".repeat(n),
            scenario: scenario.repeat(n),
            ..Wanted::default()
        };
        (0..4)
            .map(|n| Change { number: n, at: Time(n), behind: n, wanted: wanted(n as usize) })
            .collect()
    }

    #[test]
    fn files_that_fuzzers_begin_with() {
        let all =
            std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/capture"))
                .expect("it is there");
        for file in all {
            let file = std::fs::File::open(file.expect("a file").path()).expect("it can be read");
            assert!(read(file).is_ok_and(|all| !all.packets.is_empty()));
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let long = "# a comment\n".repeat(20_000);
        for scenario in ["", "[link.l]\nrate = \"1mbit\"\n", &long] {
            let mut out_of_order = taken();
            out_of_order.reverse();
            let capture =
                read(&written(scenario, &out_of_order)[..]).expect("what was just written");
            assert_eq!(
                (capture.scenario.as_deref().unwrap_or(""), &capture.broken),
                (scenario, &None)
            );
            assert_eq!(capture.changes, changes(scenario));
            let packets = &capture.packets;
            assert_eq!(
                packets.iter().filter_map(|p| p.taken.as_deref().copied()).collect::<Vec<_>>(),
                taken()
            );
            assert!(
                packets.iter().all(
                    |p| capture.frame(p) == [taken_of(p).number as u8; KEPT] && p.length == 200
                )
            );
            assert_eq!(packets[1].at, 1_800_000_000_000_001_001);
        }
    }

    #[test]
    fn clocks_of_other_programs() {
        assert_eq!(
            [nanos(5, 6), nanos(5, 9), nanos(5, 0), nanos(1500, 12)],
            [5000, 5, 5_000_000_000, 1]
        );
        assert_eq!(
            [nanos(1 << 32, 0x80 | 32), nanos(u64::MAX, 0), nanos(1, 255)],
            [1_000_000_000, u64::MAX, 0]
        );
    }

    #[test]
    fn an_ordinary_pcap() {
        let mut file = vec![
            0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0,
            0,
        ];
        for i in 0_u8..3 {
            file.extend([10, 0, 0, 0, i, 0, 0, 0, 4, 0, 0, 0, 0xdc, 5, 0, 0, i, i, i, i]);
        }
        let capture = read(&file[..]).expect("a pcap");
        assert_eq!(capture.scenario, None);
        let of = |p: &Packet| (p.at, p.length, capture.frame(p));
        assert_eq!(of(&capture.packets[2]), (10_000_002_000, 1500, &[2; 4][..]));
        file[20] = 230;
        let kind = DataLink::IEEE802_15_4_NOFCS;
        assert!(matches!(read(&file[..]), Err(Unreadable::UnknownLink(k)) if k == kind));
        file[20] = 101;
        let raw = read(&file[..]).expect("packets of IP");
        assert_eq!((raw.packets[2].length, raw.frame(&raw.packets[2]).len()), (1514, 18));
    }

    /// Some packets have more captured bytes than their own length, or than the file's snapshot
    /// length.
    #[test]
    fn lengths_that_others_write() {
        let mut file = vec![
            0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0,
        ];
        // The snapshot length is 4 bytes. The captured bytes and packet lengths are 4 of 1000, 6 of
        // 6, and 6 of 2.
        for (kept, length) in [(4_u8, 1000_u16), (6, 6), (6, 2)] {
            file.extend([1, 0, 0, 0, 0, 0, 0, 0, kept, 0, 0, 0]);
            file.extend(u32::from(length).to_le_bytes());
            file.extend(vec![7; usize::from(kept)]);
        }
        let capture = read(&file[..]).expect("a pcap");
        let lengths: Vec<u32> = capture.packets.iter().map(|p| p.length).collect();
        assert_eq!((lengths, capture.broken), (vec![1000, 6, 6], None));
    }

    #[test]
    fn what_was_packed_is_unpacked() {
        use std::io::Write;
        let good = written("[link.l]\n", &taken());
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(&good).expect("memory");
        let packed = packed.finish().expect("memory");
        assert_eq!(read(&packed[..]).expect("a capture"), read(&good[..]).expect("a capture"));
        let cut = read(&packed[..packed.len() - 9]).expect("its beginning is good");
        assert!(cut.broken.is_some() && cut.packets.len() <= taken().len(), "{:?}", cut.broken);
        // Two frames of zstd, with a frame without contents between them.
        let pack = |part| {
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            ruzstd::encoding::compress_to_vec(part, level)
        };
        let (first, second) = good.split_at(good.len() / 2);
        let empty = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let frames = [pack(first), empty.clone(), pack(second)].concat();
        assert_eq!(read(&frames[..]).expect("a capture"), read(&good[..]).expect("a capture"));
        let other_first = [&empty[..], &pack(&good)].concat();
        assert_eq!(read(&other_first[..]).expect("a capture"), read(&good[..]).expect("a capture"));
        for cut in 6..frames.len() {
            let read = read(&frames[..cut]);
            assert!(read.is_err() || read.is_ok_and(|capture| capture.broken.is_some()), "{cut}");
        }
        let mut bad = packed.clone();
        bad[2] = 99;
        assert!(matches!(read(&bad[..]), Err(Unreadable::Malformed(_) | Unreadable::CutOff(_))));
        for magic in [&b"BZh91AY"[..], &[0xfd, b'7', b'z', b'X', b'Z', 0]] {
            let said = read(magic).expect_err("packed by another").to_string();
            assert!(said.contains("decompress it first"), "{said}");
        }
    }

    #[test]
    fn versions_are_told_apart() {
        let text = "[link.l]\n";
        let now = written(text, &taken());
        let as_of = |version: &str| {
            let mark = format!("{OURS}{VERSION}");
            let at =
                now.windows(mark.len()).position(|w| w == mark.as_bytes()).expect("it is marked");
            let mut other = now.clone();
            // The length of the text stays the same, so that the length fields before it stay
            // right.
            let version = format!("{version:\0<length$}", length = mark.len());
            other[at..at + mark.len()].copy_from_slice(version.as_bytes());
            read(&other[..])
        };
        assert!(matches!(as_of("falaj, journal 4"), Err(Unreadable::Later(4))));
        let said = as_of("falaj, journal 9").expect_err("later").to_string();
        assert!(said.contains("version 9") && said.contains("up to 3"), "{said}");
        assert_eq!(as_of("another program!").expect("a capture").scenario, None);
        assert_eq!(
            [FIRST, "falaj, journal 2", "falaj 2"].map(|name| version(&of(name))),
            [Some(1), Some(2), None]
        );
        fn of(name: &str) -> SectionHeaderOption<'_> {
            SectionHeaderOption::UserApplication(name.into())
        }
    }

    #[test]
    fn what_is_cut_off_says_where() {
        let good = written("[link.l]\n", &taken());
        let at = |length: usize| {
            read(&good[..length])
                .map(|capture| capture.broken.map(|broken| (broken.at, broken.of, broken.why)))
        };
        let last = good.len() - 1;
        let (begin, end, why) = at(last).expect("its beginning is good").expect("it is cut off");
        assert!(begin < last && end == last && why.is_none(), "{begin} {end} {why:?}");
        assert!(matches!(at(20), Err(Unreadable::CutOff(20))));
        let length = good.len() as u64;
        assert!(of_at_most(&good[..], length).is_ok());
        let said = of_at_most(&good[..], length - 1).expect_err("a byte too many").to_string();
        assert!(said.contains("larger than 4 GiB") && said.contains("editcap -r"), "{said}");
        let mut bad = good.clone();
        bad[begin + 4..begin + 8].copy_from_slice(&13_u32.to_be_bytes());
        let broken =
            read(&bad[..]).expect("its beginning is good").broken.expect("an invalid length");
        assert_eq!((broken.at, broken.of), (begin, good.len()));
        assert!(
            broken.to_string().starts_with(&format!("the block at byte {begin} of {}", good.len())),
            "{broken}"
        );
    }

    /// A reader that returns a few bytes at a time, as a pipe does.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let n = into.len().min(1_000).min(self.0.len());
            let (now, later) = self.0.split_at(n);
            into[..n].copy_from_slice(now);
            self.0 = later;
            Ok(n)
        }
    }

    /// Some blocks continue beyond the end of a piece, and one block is longer than a piece.
    #[test]
    fn a_file_is_read_a_piece_at_a_time() {
        let long = "# a comment\n".repeat(60_000);
        let many: Vec<Taken> = taken().into_iter().cycle().take(20_000).collect();
        let file = written(&long, &many);
        assert!(file.len() > 3 << 20, "{}", file.len());
        let whole = read(&file[..]).expect("a capture");
        assert_eq!((whole.packets.len(), whole.broken.as_ref()), (many.len(), None));
        assert_eq!(read(Trickle(&file)).expect("a capture"), whole);
        let mut seen = 0;
        let broken = arrivals(&file[..], |arrival| {
            seen +=
                usize::from(arrival.taken().is_some_and(|t| arrival.frame[0] == t.number as u8));
        });
        assert_eq!((seen, broken.expect("a capture")), (many.len(), None));
        let cut = read(&file[..file.len() - 1]).expect("a capture").broken.expect("it is cut off");
        assert_eq!((cut.of, cut.why), (file.len() - 1, None));
        assert!(cut.at > file.len() - 500, "{}", cut.at);
    }

    /// After an invalid block, the rest of the file, which might be long, is not parsed.
    #[test]
    fn interfaces_without_end_are_refused() {
        let mut file = written("", &[]);
        let interface = [1_u32, 20, 1 << 16, 0, 20].map(u32::to_be_bytes).concat();
        for _ in 0..70_000 {
            file.extend_from_slice(&interface);
        }
        let broken = read(&file[..]).expect("its beginning is good").broken.expect("too many");
        assert!(broken.to_string().contains("more than 65536 interfaces"), "{broken}");
    }

    /// Reading a file ends without a panic, whatever it contains.
    #[test]
    fn files_of_any_kind() {
        use falaj_engine::chance::Chance;
        let good = written("[link.l]\n", &taken());
        let (chance, mut drawn) = (Chance::new(1, 0, 0), 0);
        let mut draw = |below: usize| {
            drawn += 1;
            (chance.draw(drawn) % below as u64) as usize
        };
        for _ in 0..3000 {
            let mut bad = good.clone();
            for _ in 0..=draw(4) {
                let at = draw(bad.len());
                bad[at] = draw(256) as u8;
            }
            bad.truncate(draw(2 * good.len()));
            let _ = read(&bad[..]);
        }
        let whole = read(&good[..]).expect("what was just written").packets.len();
        for length in good.len() - 300..good.len() {
            let read = read(&good[..length]).expect("its beginning is good");
            assert!(read.packets.len() < whole, "{length} of {}", good.len());
        }
    }
}
