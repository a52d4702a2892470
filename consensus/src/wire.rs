//! What nodes say to each other: one frame carries what all groups have for a node.

mod pieces;

pub(crate) use pieces::PacketPieces;

use serde::{Deserialize, Serialize};

use crate::id::{GroupId, ReplicaId, StoreId};
use crate::transfer::TransferId;

/// Bytes of packets after which a frame is full. A packet that is larger goes in pieces.
pub const FRAME_BYTES: usize = 240 << 10;

/// A word about one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GroupPacket {
    /// A message of Raft.
    Raft {
        group: GroupId,
        from: ReplicaId,
        to: ReplicaId,
        /// The sender's, for those that do not know it yet.
        home: StoreId,
        /// Where the receiver's promises are: an empty disk must not answer for them.
        store: StoreId,
        #[serde(with = "serde_bytes")]
        message: Vec<u8>,
    },
    /// The replica is no more: removed, or lost with its disk.
    Gone { group: GroupId, replica: ReplicaId },
    /// A part of a packet that is too long for a frame.
    Piece {
        /// Counts what this node has sent in pieces.
        number: u64,
        /// Which part, from 0.
        part: u32,
        /// Of how many.
        of: u32,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// A part of a state that is too long for a frame.
    Part {
        transfer: TransferId,
        /// Which part, from 0.
        part: u32,
        /// Of how many.
        of: u32,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// How many parts of a state are there, in order.
    Took { transfer: TransferId, next: u32 },
}

impl GroupPacket {
    /// Bytes in a frame, at most.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Raft { message, .. } => message.len() + 60,
            Self::Gone { .. } => 20,
            Self::Piece { bytes, .. } => bytes.len() + 20,
            Self::Part { bytes, .. } => bytes.len() + 40,
            Self::Took { .. } => 40,
        }
    }
}

/// Packs packets, in order, into few frames. `number`: of what was sent in pieces so far.
pub(crate) fn frames(packets: Vec<GroupPacket>, number: &mut u64) -> impl Iterator<Item = Vec<u8>> {
    let mut frames: Vec<(usize, Vec<GroupPacket>)> = Vec::new();
    let packets = packets.into_iter().flat_map(|packet| {
        if packet.len() <= FRAME_BYTES {
            return vec![packet];
        }
        *number += 1;
        pieces::split(&packet, *number)
    });
    for packet in packets {
        let len = packet.len();
        match frames.last_mut() {
            Some((bytes, frame)) if *bytes + len <= FRAME_BYTES => {
                *bytes += len;
                frame.push(packet);
            }
            _ => frames.push((len, vec![packet])),
        }
    }
    // Plain numbers and bytes: encoding them cannot fail.
    let encode = |(bytes, packets): (usize, Vec<GroupPacket>)| {
        postcard::to_extend(&packets, Vec::with_capacity(bytes + 16)).ok()
    };
    frames.into_iter().filter_map(encode)
}

/// Reads a frame; `None` when it is none.
pub(crate) fn read(frame: &[u8]) -> Option<Vec<GroupPacket>> {
    let (packets, rest) = postcard::take_from_bytes(frame).ok()?;
    rest.is_empty().then_some(packets)
}

#[cfg(test)]
pub(crate) mod tests;
