use proptest::prelude::*;

use super::*;

pub(crate) fn packet(len: usize) -> GroupPacket {
    GroupPacket::Raft {
        group: GroupId(7),
        from: ReplicaId(1),
        to: ReplicaId(2),
        home: StoreId(3),
        store: StoreId(4),
        message: (0..=250).cycle().take(len).collect(),
    }
}

#[test]
fn packets_keep_their_order_in_few_frames() {
    let full = FRAME_BYTES - 60;
    let sizes = [10, full, 20, FRAME_BYTES / 2, FRAME_BYTES / 3, 30, full];
    let packets: Vec<_> = sizes.into_iter().map(packet).collect();
    let frames: Vec<_> = frames(packets.clone(), &mut 0).collect();
    let counts: Vec<_> = frames
        .iter()
        .map(|frame| read(frame).unwrap().len())
        .collect();
    assert_eq!(counts, [1, 1, 4, 1]);
    let read: Vec<_> = frames
        .iter()
        .flat_map(|frame| read(frame).unwrap())
        .collect();
    assert_eq!(read, packets);
}

#[test]
fn what_has_an_end_too_many_is_no_frame() {
    let mut frame = frames(vec![packet(3)], &mut 0).next().unwrap();
    assert!(read(&frame).is_some());
    frame.push(0);
    assert!(read(&frame).is_none());
    assert!(read(&frame[..frame.len() - 2]).is_none());
}

/// A frame is the same in every release: hosts of two releases talk to each other.
#[test]
fn golden_bytes() {
    let gone = GroupPacket::Gone {
        group: GroupId(300),
        replica: ReplicaId(2),
    };
    let piece = GroupPacket::Piece {
        number: 9,
        part: 1,
        of: 2,
        bytes: vec![8],
    };
    let transfer = TransferId::default();
    let part = GroupPacket::Part {
        transfer,
        part: 1,
        of: 2,
        bytes: vec![8],
    };
    let took = GroupPacket::Took { transfer, next: 5 };
    let packets = vec![packet(2), gone, piece, part, took];
    let frame = frames(packets, &mut 0).next().unwrap();
    assert_eq!(
        frame,
        [
            5, 0, 7, 1, 2, 3, 4, 2, 0, 1, 1, 172, 2, 2, 2, 9, 1, 2, 1, 8, 3, 0, 0, 1, 2, 1, 8, 4,
            0, 0, 5
        ]
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Some(packets) = read(&bytes) {
            prop_assert!(packets.len() <= bytes.len());
        }
    }
}
