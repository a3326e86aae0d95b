//! Memory used while captures are read, as the kernel counts it. This is a program of its own, so
//! that nothing else is counted.

use falaj_traffic::capture::{arrivals, read};
use std::fs;
use std::io::{self, Read};

/// Length of a packet's frame in the capture, in bytes.
const FRAME: usize = 60;

/// A capture of short packets by another program, generated while it is read, and never stored as a
/// whole.
struct Generated {
    at: usize,
    length: usize,
}

const HEADER: [u8; 24] =
    [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];
const RECORD: usize = 16 + FRAME;

impl Generated {
    fn of(packets: usize) -> Generated {
        Generated { at: 0, length: HEADER.len() + packets * RECORD }
    }
}

impl Read for Generated {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut record = [0; RECORD];
        (record[0], record[8], record[12]) = (1, FRAME as u8, FRAME as u8);
        let bytes = into.len().min(self.length - self.at);
        for byte in &mut into[..bytes] {
            *byte = match self.at.checked_sub(HEADER.len()) {
                None => HEADER[self.at],
                Some(at) => record[at % RECORD],
            };
            self.at += 1;
        }
        Ok(bytes)
    }
}

/// Begins a measurement: resets the kernel's peak of resident memory.
fn begin() -> usize {
    fs::write("/proc/self/clear_refs", "5").expect("the process is its own");
    most()
}

/// Returns the peak of resident memory since [`begin`], in bytes.
fn most() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it is there");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

#[test]
fn captures_take_about_as_much_memory_as_they_have_bytes() {
    const PACKETS: usize = 400_000;
    let file = Generated::of(PACKETS).length;
    let before = begin();
    let mut seen = 0;
    let broken = arrivals(Generated::of(PACKETS), |_| seen += 1).expect("a capture");
    assert_eq!((seen, broken), (PACKETS, None));
    let taken = most() - before;
    assert!(taken < 4 << 20, "a source took {taken} bytes for one of {file}");

    let before = begin();
    let capture = read(Generated::of(PACKETS)).expect("a capture");
    assert_eq!(capture.packets.len(), PACKETS);
    let taken = most() - before;
    assert!(taken < 2 * file, "a replay took {taken} bytes for one of {file}");
}
