//! A packet that is too long for a frame, in pieces: a large entry of a log. States, which are longer still,
//! go part by part ([`crate::transfer`]).

use super::{FRAME_BYTES, GroupPacket};

/// Most pieces of a packet: 64 MiB.
const PIECES_MAX: u32 = 274;
/// Bytes of a piece; there has to be room for what goes around it.
const PIECE_BYTES: usize = FRAME_BYTES - 64;

/// The pieces of a packet; none when it is longer than anybody would take.
pub(super) fn split(packet: &GroupPacket, number: u64) -> Vec<GroupPacket> {
    // Plain numbers and bytes: encoding them cannot fail.
    let bytes = postcard::to_stdvec(packet).unwrap_or_default();
    let chunks = bytes.chunks(PIECE_BYTES);
    let Some(of) = u32::try_from(chunks.len())
        .ok()
        .filter(|of| *of <= PIECES_MAX)
    else {
        return Vec::new();
    };
    let pieces = (0..).zip(chunks).map(|(part, bytes)| GroupPacket::Piece {
        number,
        part,
        of,
        bytes: bytes.to_vec(),
    });
    pieces.collect()
}

/// What has come of one packet. Pieces come in order, over a link that keeps it; where one is
/// missing the packet is lost, as any other may be.
#[derive(Debug, Default)]
pub(crate) struct PacketPieces {
    number: u64,
    next: u32,
    bytes: Vec<u8>,
}

impl PacketPieces {
    /// Takes in a piece; gives the packet when it is whole.
    pub(crate) fn take(
        &mut self,
        number: u64,
        part: u32,
        of: u32,
        bytes: &[u8],
    ) -> Option<GroupPacket> {
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
        if self.next != of {
            return None;
        }
        let whole = std::mem::take(self);
        postcard::from_bytes(&whole.bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::packet;

    fn give(pieces: &mut PacketPieces, packet: &GroupPacket) -> Option<GroupPacket> {
        match packet {
            GroupPacket::Piece {
                number,
                part,
                of,
                bytes,
            } => pieces.take(*number, *part, *of, bytes),
            packet => panic!("{packet:?}"),
        }
    }

    #[test]
    fn a_packet_comes_whole_or_not_at_all() {
        let long = packet(2 * PIECE_BYTES + 7);
        let parts = split(&long, 5);
        assert_eq!(parts.len(), 3);
        let whole = |order: &[usize]| {
            let mut pieces = PacketPieces::default();
            let given = order
                .iter()
                .filter_map(|place| give(&mut pieces, &parts[*place]));
            let given: Vec<_> = given.collect();
            (given, pieces.bytes.len())
        };
        assert_eq!(whole(&[0, 1, 2]), (vec![long.clone()], 0));
        assert_eq!(whole(&[0, 2, 1]).0, []);
        assert_eq!(whole(&[1, 2]).0, []);
        assert_eq!(whole(&[0, 1, 0, 1, 2]), (vec![long], 0));
    }

    #[test]
    fn pieces_of_two_packets_are_not_mixed() {
        let (one, two) = (
            split(&packet(PIECE_BYTES + 9), 5),
            split(&packet(PIECE_BYTES + 9), 6),
        );
        let mut pieces = PacketPieces::default();
        assert_eq!(give(&mut pieces, &one[0]), None);
        assert_eq!(give(&mut pieces, &two[1]), None);
    }

    #[test]
    fn there_is_a_most() {
        assert_eq!(split(&packet(PIECES_MAX as usize * PIECE_BYTES), 1), []);
        let mut pieces = PacketPieces::default();
        for part in 0..2 * PIECES_MAX {
            assert_eq!(pieces.take(1, part, u32::MAX, &[0; 100]), None);
        }
        assert_eq!(pieces.bytes.len(), 0);
        assert_eq!(pieces.take(1, 0, 2, &[0; PIECE_BYTES + 1]), None);
        assert_eq!(pieces.bytes.len(), 0);
    }
}
