//! Reads a file compressed by zstd: its frames one after the other.

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, Read};

/// Returns true if a file that begins with these bytes is compressed by zstd: they are the
/// beginning of a frame, with or without contents.
pub(super) fn begins(first: &[u8]) -> bool {
    first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
        || matches!(first, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// The contents of all frames of a file. Frames without contents, which `pzstd` writes, are
/// skipped.
pub(super) struct ZstdFrames<R> {
    from: BufReader<R>,
    frame: FrameDecoder,
    /// True if the decoder is within a frame.
    begun: bool,
}

impl<R: Read> ZstdFrames<R> {
    pub(super) fn new(from: R) -> ZstdFrames<R> {
        ZstdFrames { from: BufReader::new(from), frame: FrameDecoder::new(), begun: false }
    }

    /// Begins the next frame with contents; returns false if there is none.
    fn next_frame(&mut self) -> io::Result<bool> {
        loop {
            if self.from.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.frame.init(&mut self.from) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut self.from.by_ref().take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }
}

impl<R: Read> Read for ZstdFrames<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.begun {
                self.begun = self.next_frame()?;
                if !self.begun {
                    return Ok(0);
                }
            }
            while self.frame.can_collect() == 0 && !self.frame.is_finished() {
                self.frame
                    .decode_blocks(&mut self.from, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(io::Error::other)?;
            }
            if self.frame.can_collect() > 0 {
                return self.frame.read(buf);
            }
            self.begun = false;
        }
    }
}
