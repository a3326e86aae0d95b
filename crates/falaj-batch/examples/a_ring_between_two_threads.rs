//! Byte strings through a ring in shared memory, from one thread to another.
//! `cargo run -p falaj-batch --example a_ring_between_two_threads`

use falaj_batch::memory::SharedMemory;
use falaj_batch::ring::{CONTROL, Popped, Pushed, RingReader, RingWriter};
use std::error::Error;

/// Words for strings, a power of two: enough for a few packets.
const ROOM: usize = 512;
const STRINGS: u32 = 10_000;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (fd, memory) = SharedMemory::create(CONTROL + ROOM)?;
    let mut writer = RingWriter::new(memory, 0, ROOM).ok_or("too little memory")?;
    // Another process would get the descriptor over a socket.
    let reading = std::thread::spawn(move || {
        let memory = SharedMemory::open(fd).expect("it is shared memory");
        let mut reader = RingReader::new(memory, 0, ROOM).expect("as large as the writer says");
        let (mut string, mut expected) = (Vec::new(), 0);
        while expected < STRINGS {
            string.clear();
            match reader.pop(&mut string).expect("the writer keeps the rules") {
                Popped::Empty => std::thread::yield_now(),
                Popped::Wake | Popped::Quiet => {
                    assert_eq!(string, expected.to_le_bytes(), "in order, and none is missing");
                    expected += 1;
                }
            }
        }
        expected
    });
    for number in 0..STRINGS {
        while writer.push(&number.to_le_bytes())? == Pushed::Full {
            std::thread::yield_now();
        }
    }
    println!("{} strings have crossed", reading.join().expect("the reader does not panic"));
    Ok(())
}
