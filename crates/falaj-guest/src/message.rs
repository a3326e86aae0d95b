//! Messages of the host to a running guest: frames on a line into the guest.

use crate::job::WindowSize;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A piece of standard input, or of terminal input, is in the file of this number.
    Input(u32),
    /// No more input comes.
    EndOfInput,
    /// A signal for the command.
    Signal(u8),
    /// The terminal has another size.
    Window(WindowSize),
    /// Asks if the guest's init is alive. A beat answers.
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

    /// Takes the first frame off a line; `None` as long as a part of it is missing. A frame of an
    /// unknown kind is skipped.
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
