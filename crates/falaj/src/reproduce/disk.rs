//! Load of a disk beside that of the network.

use anyhow::{Context, Result};
use std::io::{Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What is written again and again, and forced onto the disk each time.
const BYTES: usize = 16 << 20;

/// Writes from one instant to another, as long as this is there.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<u64>>,
}

impl Load {
    /// Begins then, and ends then.
    pub(super) fn between(from: Duration, to: Duration) -> Result<Load> {
        let mut file = tempfile::tempfile().context("no file for the load of the disk")?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let began = Instant::now();
        let work = move || {
            let (bytes, mut written) = (vec![0x5a; BYTES], 0);
            while !told.load(Ordering::Relaxed) && began.elapsed() < to {
                if began.elapsed() < from {
                    std::thread::sleep(Duration::from_millis(5));
                    continue;
                }
                file.seek(SeekFrom::Start(0))?;
                file.write_all(&bytes)?;
                file.sync_all()?;
                written += BYTES as u64;
            }
            Ok(written)
        };
        let thread = std::thread::Builder::new().name("disk".into()).spawn(work)?;
        Ok(Load { stop, thread })
    }

    /// Ends it; how many bytes were written.
    pub(super) fn end(self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let written = self.thread.join().ok().context("the load of the disk failed")?;
        written.context("the load of the disk")
    }
}
