//! What clients say in a recording, between the events of the disk.
//!
//! Invariants: a client has one transaction at a time, so at any point of a recording at most one
//! of each client is asked for and not acknowledged. `Asked` is noted before the message that
//! commits is sent; `Acknowledged` and `Seen` after the answer has arrived. So whatever of a
//! transaction is on disk comes after its `Asked`, and all of it before its `Acknowledged`.

use atoll_kernel::io::Trace;

use crate::history::TransactionId;

/// One row of `own` goes from one key to another: no old key is an insert, no new one a delete,
/// twice the same an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Its key before.
    pub old: Option<i64>,
    /// Its key after.
    pub new: Option<i64>,
}

/// What a transaction leaves behind besides its changes of `own`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Journal {
    /// A row in `journal`, its marks, and perhaps a transfer in `main`.
    Kept,
    /// Nothing: it was one statement, or several in one message.
    None,
}

/// What a client says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// The tables are there; the client that made them was told so.
    Ready,
    /// The message that commits this transaction is about to be sent.
    Asked {
        /// Which.
        id: TransactionId,
        /// What it leaves behind.
        journal: Journal,
        /// What it did to its client's rows, in order.
        changes: Vec<Change>,
    },
    /// The answer that this transaction is committed has arrived.
    Acknowledged(TransactionId),
    /// A row that this transaction had written has arrived: it can never be lost from now on.
    Seen(TransactionId),
    /// What the server's buffer pool and checkpoints had done by now. Said by the recorder, not by a
    /// client; only counted by.
    Traffic(Traffic),
}

/// Counts of a server, all growing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traffic {
    /// Pages evicted.
    pub evicted: u64,
    /// Pages loaded.
    pub loaded: u64,
    /// Leaves that published checkpoints moved from the ends of files.
    pub moved: u64,
}

/// No key: keys of rows are positive.
const NO_KEY: i64 = -1;

impl Note {
    /// Adds it to a recording.
    pub fn write(&self, trace: &Trace) {
        trace.note(&self.encode());
    }

    fn encode(&self) -> Vec<u8> {
        let plain = |tag: u8, id: u64| {
            let mut bytes = vec![tag];
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes
        };
        match self {
            Note::Ready => plain(1, 0),
            Note::Asked { id, journal, changes } => {
                let mut bytes = plain(2, id.0);
                bytes.push(u8::from(*journal == Journal::Kept));
                for change in changes {
                    bytes.extend_from_slice(&change.old.unwrap_or(NO_KEY).to_le_bytes());
                    bytes.extend_from_slice(&change.new.unwrap_or(NO_KEY).to_le_bytes());
                }
                bytes
            }
            Note::Acknowledged(id) => plain(3, id.0),
            Note::Seen(id) => plain(4, id.0),
            Note::Traffic(Traffic { evicted, loaded, moved }) => {
                let mut bytes = plain(5, *evicted);
                bytes.extend_from_slice(&loaded.to_le_bytes());
                bytes.extend_from_slice(&moved.to_le_bytes());
                bytes
            }
        }
    }

    /// Reads one; none if it is something else.
    pub fn read(bytes: &[u8]) -> Option<Note> {
        let (tag, rest) = bytes.split_first()?;
        let (id, rest) = rest.split_first_chunk::<8>()?;
        let first = u64::from_le_bytes(*id);
        let id = TransactionId(first);
        match (tag, rest) {
            (1, []) => Some(Note::Ready),
            (2, [journal, keys @ ..]) => {
                let journal = if *journal == 1 { Journal::Kept } else { Journal::None };
                let (pairs, []) = keys.as_chunks::<16>() else { return None };
                let changes = pairs.iter().map(|pair| {
                    let (old, new) = pair.split_at(8);
                    Some(Change { old: key(old)?, new: key(new)? })
                });
                Some(Note::Asked { id, journal, changes: changes.collect::<Option<_>>()? })
            }
            (3, []) => Some(Note::Acknowledged(id)),
            (4, []) => Some(Note::Seen(id)),
            (5, rest) => {
                let ([loaded, moved], []) = rest.as_chunks::<8>() else { return None };
                let [loaded, moved] = [loaded, moved].map(|bytes| u64::from_le_bytes(*bytes));
                Some(Note::Traffic(Traffic { evicted: first, loaded, moved }))
            }
            _ => None,
        }
    }
}

fn key(bytes: &[u8]) -> Option<Option<i64>> {
    let key = i64::from_le_bytes(bytes.try_into().ok()?);
    Some((key != NO_KEY).then_some(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_as_they_were() {
        let id = TransactionId(7_000_001);
        let changes = vec![
            Change { old: None, new: Some(7_001) },
            Change { old: Some(7_001), new: Some(7_002) },
            Change { old: Some(7_002), new: None },
        ];
        for note in [
            Note::Ready,
            Note::Asked { id, journal: Journal::Kept, changes },
            Note::Asked { id, journal: Journal::None, changes: Vec::new() },
            Note::Acknowledged(id),
            Note::Seen(id),
            Note::Traffic(Traffic { evicted: 3, loaded: 1 << 40, moved: 7 }),
        ] {
            let bytes = note.encode();
            assert_eq!(Note::read(&bytes), Some(note));
            assert_eq!(Note::read(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(Note::read(&[]), None);
    }
}
