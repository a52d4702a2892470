//! What agents send each other about groups: the frames that copies of a group exchange, and the
//! words between the leader of a virtual cluster and the nodes.

use std::collections::BTreeMap;

use muster_consensus::{FRAME_BYTES, GroupId, NodeId};
use muster_model::id;
use serde::{Deserialize, Serialize};

use crate::fence::Term;
use crate::order::{Order, Tell};

/// First byte of a frame of copies; the rest is theirs.
const FRAME: u8 = 0;
/// First byte of a whole word.
const WORD: u8 = 1;
/// First byte of a piece of a word.
const PIECE: u8 = 2;
/// Bytes of a piece: it fits where a frame does.
const PIECE_BYTES: usize = FRAME_BYTES - 16;
/// Bytes of a word, mostly.
const WORD_BYTES: usize = 512;
/// Most pieces of a word: 15 MiB, far more than a node with all its grants has to report.
const PIECES_MAX: u16 = 64;

/// A word between the leader of a virtual cluster and a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// The leader orders.
    Order {
        /// The group of its virtual cluster.
        group: u64,
        /// What.
        order: Box<Order>,
    },
    /// The leader asks for a report.
    Ask {
        /// The group of its virtual cluster.
        group: u64,
        /// Its generation.
        generation: u32,
        /// The leader's term.
        term: Term,
    },
    /// A node tells the leader.
    Tell {
        /// The group of its virtual cluster.
        group: u64,
        /// The node.
        node: id::NodeId,
        /// What.
        tell: Box<Tell>,
    },
}

/// What came out of an envelope.
#[derive(Debug, PartialEq, Eq)]
pub enum Envelope {
    /// For the host of all groups.
    Frame(Vec<u8>),
    /// For a coordinator or a ledger.
    Word(Word),
}

/// A frame of copies, as it is sent.
pub fn frame(frame: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(frame.len() + 1);
    bytes.push(FRAME);
    bytes.extend_from_slice(frame);
    bytes
}

/// A word as it is sent, in one envelope or several; none if it is longer than anybody takes.
/// `number` tells the pieces of one word from those of the next.
pub fn pack(word: &Word, number: u32) -> Vec<Vec<u8>> {
    let mut bytes = Vec::with_capacity(WORD_BYTES);
    bytes.push(WORD);
    // Plain data: encoding it into a Vec cannot fail; an empty word is refused where it arrives.
    let bytes = postcard::to_extend(word, bytes).unwrap_or_else(|_| vec![WORD]);
    let whole = &bytes[1..];
    if whole.len() <= PIECE_BYTES {
        return vec![bytes];
    }
    let chunks = whole.chunks(PIECE_BYTES);
    let Some(of) = u16::try_from(chunks.len())
        .ok()
        .filter(|of| *of <= PIECES_MAX)
    else {
        return Vec::new();
    };
    let pieces = (0_u16..).zip(chunks);
    let head = |part: u16| {
        let [a, b] = part.to_le_bytes();
        let [c, d] = of.to_le_bytes();
        let [e, f, g, h] = number.to_le_bytes();
        [PIECE, a, b, c, d, e, f, g, h]
    };
    pieces
        .map(|(part, bytes)| [&head(part), bytes].concat())
        .collect()
}

/// Takes envelopes of other nodes apart. Pieces come in order, over a link that keeps it; where one
/// is missing the word is lost, as any other may be.
#[derive(Debug, Default)]
pub struct EnvelopeUnpacker(BTreeMap<NodeId, EnvelopePieces>);

#[derive(Debug, Default)]
struct EnvelopePieces {
    number: u32,
    next: u16,
    bytes: Vec<u8>,
}

impl Word {
    /// The group of the virtual cluster that it is about.
    pub const fn group(&self) -> GroupId {
        match self {
            Self::Order { group, .. } | Self::Ask { group, .. } | Self::Tell { group, .. } => {
                GroupId(*group)
            }
        }
    }
}

impl EnvelopeUnpacker {
    /// What is whole now, if anything is.
    pub fn take(&mut self, from: NodeId, envelope: &[u8]) -> Option<Envelope> {
        match envelope.split_first()? {
            (&FRAME, frame) => Some(Envelope::Frame(frame.to_vec())),
            (&WORD, word) => read(word),
            (&PIECE, [a, b, c, d, e, f, g, h, bytes @ ..]) => {
                let (part, of) = (u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d]));
                let number = u32::from_le_bytes([*e, *f, *g, *h]);
                let pieces = self.0.entry(from).or_default();
                read(&pieces.take(number, part, of, bytes)?)
            }
            _ => None,
        }
    }

    /// Forgets what is half there, when nodes come and go.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl EnvelopePieces {
    fn take(&mut self, number: u32, part: u16, of: u16, bytes: &[u8]) -> Option<Vec<u8>> {
        if part == 0 {
            *self = Self {
                number,
                ..Self::default()
            };
        }
        let expected = number == self.number && part == self.next && of <= PIECES_MAX;
        if !expected || bytes.len() > PIECE_BYTES {
            return None;
        }
        self.bytes.extend_from_slice(bytes);
        self.next += 1;
        (self.next == of).then(|| std::mem::take(&mut self.bytes))
    }
}

fn read(bytes: &[u8]) -> Option<Envelope> {
    postcard::from_bytes(bytes).ok().map(Envelope::Word)
}

#[cfg(test)]
mod tests {
    use muster_model::node::Capacity;

    use super::*;
    use crate::fence::{LedgerEpoch, StartId};
    use crate::order::{FreeList, NodeReport};

    fn ask(term: u64) -> Word {
        Word::Ask {
            group: 7,
            generation: 1,
            term: Term(term),
        }
    }

    /// A report whose address has so many letters.
    fn report(letters: usize) -> Word {
        let node: id::NodeId = "n1".parse().unwrap();
        let report = NodeReport {
            node: node.clone(),
            start: StartId(1),
            epoch: LedgerEpoch(1),
            address: "x".repeat(letters),
            capacity: Capacity {
                cpu: 1,
                memory_mb: 1,
                devices: Vec::new(),
                levels: Vec::new(),
                port_first: 1,
                port_last: 2,
            },
            free: FreeList::default(),
            closed: None,
            has_strays: false,
            tasks: Vec::new(),
        };
        Word::Tell {
            group: 7,
            node,
            tell: Box::new(Tell::Report(Box::new(report))),
        }
    }

    fn take(unpacker: &mut EnvelopeUnpacker, envelopes: &[Vec<u8>]) -> Vec<Envelope> {
        let envelopes = envelopes.iter();
        let whole = envelopes.filter_map(|envelope| unpacker.take(NodeId(1), envelope));
        whole.collect()
    }

    #[test]
    fn words_and_frames_come_out_as_they_went_in() {
        let unpacker = &mut EnvelopeUnpacker::default();
        let whole = take(unpacker, &[frame(b"raft")]);
        assert_eq!(whole, [Envelope::Frame(b"raft".to_vec())]);
        assert_eq!(take(unpacker, &pack(&ask(7), 1)), [Envelope::Word(ask(7))]);
        let long = report(2 * PIECE_BYTES);
        let envelopes = pack(&long, 2);
        assert_eq!(envelopes.len(), 3);
        assert!(
            envelopes
                .iter()
                .all(|envelope| envelope.len() <= FRAME_BYTES)
        );
        assert_eq!(take(unpacker, &envelopes), [Envelope::Word(long)]);
    }

    #[test]
    fn a_word_comes_whole_or_not_at_all() {
        let unpacker = &mut EnvelopeUnpacker::default();
        let (one, two) = (pack(&report(PIECE_BYTES), 1), pack(&report(PIECE_BYTES), 2));
        assert_eq!(take(unpacker, &one[1..]), []);
        assert_eq!(take(unpacker, &[one[0].clone(), two[1].clone()]), []);
        let first = [Envelope::Word(report(PIECE_BYTES))];
        assert_eq!(take(unpacker, &one[1..]), first, "not mixed with the other");
        assert_eq!(take(unpacker, &[one[0].clone(), two[0].clone()]), []);
        assert_eq!(take(unpacker, &one[1..]), []);
        assert_eq!(take(unpacker, &two).len(), 1);
        let other = [NodeId(1), NodeId(2)];
        for (node, piece) in other.into_iter().zip(&one) {
            assert_eq!(unpacker.take(node, piece), None);
        }
    }

    #[test]
    fn nonsense_and_what_is_too_long_is_nothing() {
        let unpacker = &mut EnvelopeUnpacker::default();
        let nonsense: [&[u8]; 5] = [b"", &[9, 9], &[WORD, 0xff], &[PIECE, 1], &[PIECE; 200]];
        for bytes in nonsense {
            assert_eq!(unpacker.take(NodeId(1), bytes), None, "{bytes:?}");
        }
        let most = usize::from(PIECES_MAX) * PIECE_BYTES;
        assert!(pack(&report(most), 1).is_empty());
        for part in 0..3 * PIECES_MAX {
            let [a, b] = part.to_le_bytes();
            let piece = [&[PIECE, a, b, 0xff, 0xff, 1, 0, 0, 0], &[0; 9][..]].concat();
            assert_eq!(unpacker.take(NodeId(1), &piece), None);
        }
        assert!(unpacker.0[&NodeId(1)].bytes.is_empty());
    }
}
