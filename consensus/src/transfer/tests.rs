use super::*;
use crate::wire::tests::packet;

const COPY: (GroupId, ReplicaId) = (GroupId(7), ReplicaId(2));
const PATIENCE: u64 = 84;

/// What arrives is taken; gives how many parts are there, and the packet when it is whole.
fn give(
    incoming: &mut IncomingTransfer,
    part: &GroupPacket,
) -> (TransferId, u32, Option<GroupPacket>) {
    match part {
        GroupPacket::Part {
            transfer,
            part,
            of,
            bytes,
        } => {
            let (next, packet) = incoming.take(*transfer, (*part, *of), bytes);
            (*transfer, next, packet)
        }
        packet => panic!("{packet:?}"),
    }
}

/// A state of so many parts on its way.
fn sending(parts: usize) -> (Outgoing, GroupPacket) {
    let state = packet(parts * PART_BYTES - 100);
    let mut outgoing = Outgoing::default();
    outgoing.begin(COPY, &state, (1, 0));
    (outgoing, state)
}

#[test]
fn a_few_parts_go_at_a_time() {
    let (mut outgoing, state) = sending(10);
    let mut incoming = IncomingTransfer::default();
    let mut came = None;
    let mut most = 0;
    let mut parts: VecDeque<GroupPacket> = outgoing.next(0).into();
    while let Some(part) = parts.pop_front() {
        let (id, next, packet) = give(&mut incoming, &part);
        came = came.or(packet);
        assert_eq!(outgoing.took(id, next, 0), [COPY]);
        parts.extend(outgoing.next(0));
        most = most.max(parts.len());
    }
    assert_eq!((came, most), (Some(state), WINDOW as usize));
    assert!(outgoing.is_empty());
}

#[test]
fn what_is_lost_is_sent_again_after_a_second() {
    let (mut outgoing, _) = sending(10);
    assert_eq!(outgoing.next(0).len(), 4);
    outgoing.tick(RESEND_TICKS - 1, PATIENCE);
    assert_eq!(outgoing.next(RESEND_TICKS - 1), []);
    outgoing.tick(RESEND_TICKS, PATIENCE);
    assert_eq!(outgoing.next(RESEND_TICKS).len(), 4);
    outgoing.tick(RESEND_TICKS + 1, PATIENCE);
    assert_eq!(outgoing.next(RESEND_TICKS + 1), [], "not twice at once");
    outgoing.tick(PATIENCE, PATIENCE);
    assert!(outgoing.is_empty(), "nobody answers");
}

#[test]
fn a_gap_and_what_came_before_change_nothing() {
    let (mut outgoing, _) = sending(3);
    let parts = outgoing.next(0);
    let mut incoming = IncomingTransfer::default();
    let nexts: Vec<u32> = [1, 0, 0, 2, 1]
        .map(|part: usize| give(&mut incoming, &parts[part]).1)
        .into();
    assert_eq!(nexts, [0, 1, 1, 1, 2]);
    let (_, next, packet) = give(&mut incoming, &parts[2]);
    assert!(next == 3 && packet.is_some());
    let (_, next, packet) = give(&mut incoming, &parts[0]);
    assert_eq!((next, packet), (3, None), "it is not given twice");
}

#[test]
fn a_receiver_that_has_lost_its_parts_gets_them_again() {
    let (mut outgoing, state) = sending(6);
    let mut incoming = IncomingTransfer::default();
    for part in outgoing.next(0) {
        let (id, next, _) = give(&mut incoming, &part);
        outgoing.took(id, next, 0);
    }
    incoming = IncomingTransfer::default();
    let mut came = None;
    let mut parts: VecDeque<GroupPacket> = outgoing.next(0).into();
    while let Some(part) = parts.pop_front() {
        let (id, next, packet) = give(&mut incoming, &part);
        came = came.or(packet);
        outgoing.took(id, next, 0);
        parts.extend(outgoing.next(0));
    }
    assert_eq!(came, Some(state));
}

#[test]
fn a_newer_state_for_the_same_copy_goes_instead() {
    let (mut outgoing, _) = sending(10);
    let old = outgoing.next(0);
    let newer = packet(PART_BYTES);
    outgoing.begin(COPY, &newer, (2, 0));
    let mut incoming = IncomingTransfer::default();
    let (id, next, _) = give(&mut incoming, &old[0]);
    assert_eq!(outgoing.took(id, next, 0), [], "of the old one");
    let parts = outgoing.next(0);
    let came = parts.iter().find_map(|part| give(&mut incoming, part).2);
    assert_eq!(came, Some(newer));
}

#[test]
fn what_was_changed_on_its_way_is_no_state() {
    let (mut outgoing, _) = sending(1);
    let mut part = outgoing.next(0).remove(0);
    if let GroupPacket::Part { bytes, .. } = &mut part {
        bytes[9] ^= 1;
    }
    assert_eq!(give(&mut IncomingTransfer::default(), &part).2, None);
}

#[test]
fn there_is_a_most() {
    let id = TransferId::default();
    let mut incoming = IncomingTransfer::default();
    assert_eq!(incoming.take(id, (0, PARTS_MAX + 1), &[7]), (0, None));
    assert_eq!(incoming.take(id, (0, 2), &[0; PART_BYTES + 1]), (0, None));
    assert_eq!(incoming.bytes.len(), 0);
}
