//! Messages from the host to a running guest: frames on the guest's second console, which is the
//! *line* from the host.

use crate::job::WindowSize;

/// A message; each is one frame: a byte for its kind, the length of the payload (16 bits, little
/// endian), and the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The next piece of the command's input (standard input or terminal) is in the file of this
    /// number.
    Input(u32),
    /// End of the command's input.
    EndOfInput,
    /// A signal for the command.
    Signal(u8),
    /// New size of the terminal.
    Window(WindowSize),
    /// Asks if the guest's init is alive; init answers with a beat.
    Ping,
}

impl Message {
    pub(crate) fn write_to(&self, line: &mut Vec<u8>) {
        let (kind, payload) = match self {
            Message::Input(number) => (b'i', number.to_le_bytes().to_vec()),
            Message::EndOfInput => (b'e', Vec::new()),
            Message::Signal(signal) => (b's', vec![*signal]),
            Message::Window(size) => {
                let [rows, columns] = [size.rows, size.columns].map(u16::to_le_bytes);
                (b'w', [rows, columns].concat())
            }
            Message::Ping => (b'p', Vec::new()),
        };
        line.push(kind);
        line.extend((payload.len() as u16).to_le_bytes());
        line.extend(payload);
    }

    /// Removes the first frame from the bytes received so far, and returns its message; `None` if
    /// the frame is not complete yet. A frame of an unknown kind is skipped.
    pub(crate) fn read_from(line: &mut Vec<u8>) -> Option<Message> {
        loop {
            let &[kind, low, high, ..] = line.as_slice() else { return None };
            let end = 3 + usize::from(u16::from_le_bytes([low, high]));
            if line.len() < end {
                return None;
            }
            let frame: Vec<u8> = line.drain(..end).skip(3).collect();
            return Some(match (kind, frame.as_slice()) {
                (b'i', &[a, b, c, d]) => Message::Input(u32::from_le_bytes([a, b, c, d])),
                (b'e', []) => Message::EndOfInput,
                (b's', &[signal]) => Message::Signal(signal),
                (b'w', &[a, b, c, d]) => Message::Window(WindowSize {
                    rows: u16::from_le_bytes([a, b]),
                    columns: u16::from_le_bytes([c, d]),
                }),
                (b'p', []) => Message::Ping,
                _ => continue,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_in_pieces_of_any_size() {
        let all = [
            Message::Input(0),
            Message::Input(u32::MAX),
            Message::EndOfInput,
            Message::Signal(15),
            Message::Window(WindowSize { rows: 24, columns: 300 }),
            Message::Ping,
        ];
        let mut sent = Vec::new();
        all.iter().for_each(|message| message.write_to(&mut sent));
        for piece in [1, 2, 3, 7, sent.len()] {
            let (mut line, mut heard) = (Vec::new(), Vec::new());
            for bytes in sent.chunks(piece) {
                line.extend(bytes);
                heard.extend(std::iter::from_fn(|| Message::read_from(&mut line)));
            }
            assert_eq!(heard, all, "in pieces of {piece}");
            assert!(line.is_empty());
        }
        let mut line = vec![b'?', 1, 0, 0, b'p', 0, 0];
        assert_eq!(Message::read_from(&mut line), Some(Message::Ping));
    }
}
