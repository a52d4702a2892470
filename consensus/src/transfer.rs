//! A state that is too long for a frame: it goes to another node part by part, a few at a time, each
//! acknowledged. A link drops what it has no room for, so that a long state sent at once would never
//! come whole.

use std::collections::VecDeque;

use xxhash_rust::xxh3::xxh3_64;

use crate::id::{GroupId, ReplicaId};
use crate::wire::{FRAME_BYTES, GroupPacket};

/// Parts on their way to a node: a megabyte, so that what else goes there waits little behind them.
const WINDOW: u32 = 4;
/// Most parts: a gigabyte.
const PARTS_MAX: u32 = 4_370;
/// Bytes of a part; there has to be room for what goes around it.
const PART_BYTES: usize = FRAME_BYTES - 64;
/// Without an acknowledgement for so many ticks (a second), parts count as lost.
const RESEND_TICKS: u64 = 17;

/// Which transfer a part is of: two of one sender differ in their numbers, and after its restart in what
/// they carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct TransferId {
    /// Counts what the sender has sent so since it was started.
    number: u64,
    /// Over all that is carried.
    check: u64,
}

/// A state on its way to one copy.
#[derive(Debug)]
struct Transfer {
    group: GroupId,
    to: ReplicaId,
    id: TransferId,
    bytes: Vec<u8>,
    /// Parts that were acknowledged.
    taken: u32,
    /// Parts that were sent.
    sent: u32,
    /// At which tick it came on last, or began.
    moved: u64,
    /// At which tick parts were sent last.
    tried: u64,
}

impl Transfer {
    fn parts(&self) -> u32 {
        // It is no longer than PARTS_MAX.
        u32::try_from(self.bytes.len().div_ceil(PART_BYTES)).unwrap_or(PARTS_MAX)
    }

    /// The parts that may go now.
    fn next(&mut self, ticks: u64) -> Vec<GroupPacket> {
        let (id, of) = (self.id, self.parts());
        let end = of.min(self.taken + WINDOW);
        let parts = (self.sent..end).map(|part| {
            let from = part as usize * PART_BYTES;
            let to = self.bytes.len().min(from + PART_BYTES);
            let bytes = self.bytes[from..to].to_vec();
            GroupPacket::Part {
                transfer: id,
                part,
                of,
                bytes,
            }
        });
        let parts: Vec<GroupPacket> = parts.collect();
        if !parts.is_empty() {
            self.sent = end;
            self.tried = ticks;
        }
        parts
    }
}

/// States on their way to one node: one after the other.
#[derive(Debug, Default)]
pub(crate) struct Outgoing(VecDeque<Transfer>);

impl Outgoing {
    /// Sends a state, instead of the one that is on its way to that copy. Nothing where nobody would take
    /// one as long.
    pub(crate) fn begin(
        &mut self,
        (group, to): (GroupId, ReplicaId),
        packet: &GroupPacket,
        (number, ticks): (u64, u64),
    ) {
        // Plain numbers and bytes: encoding them cannot fail.
        let bytes = postcard::to_stdvec(packet).unwrap_or_default();
        if bytes.len() > PARTS_MAX as usize * PART_BYTES {
            return;
        }
        let transfer = Transfer {
            group,
            to,
            id: TransferId {
                number,
                check: xxh3_64(&bytes),
            },
            bytes,
            taken: 0,
            sent: 0,
            moved: ticks,
            tried: ticks,
        };
        let mut all = self.0.iter_mut();
        match all.find(|old| (old.group, old.to) == (group, to)) {
            Some(old) => *old = transfer,
            None => self.0.push_back(transfer),
        }
    }

    /// The node has all parts up to this one. Gives the copies that are being sent a state there, if that
    /// is news.
    pub(crate) fn took(
        &mut self,
        id: TransferId,
        next: u32,
        ticks: u64,
    ) -> Vec<(GroupId, ReplicaId)> {
        let first = self.0.front_mut();
        let Some(first) = first.filter(|first| first.id == id && next <= first.parts()) else {
            return Vec::new();
        };
        if next < first.taken {
            // It was started anew, or has waited too long for the rest.
            (first.taken, first.sent) = (next, next);
            return Vec::new();
        }
        if next == first.taken {
            return Vec::new();
        }
        first.taken = next;
        first.sent = first.sent.max(next);
        let is_whole = next == first.parts();
        for transfer in &mut self.0 {
            transfer.moved = ticks;
        }
        let sending = self.0.iter().map(|it| (it.group, it.to)).collect();
        if is_whole {
            self.0.pop_front();
        }
        sending
    }

    /// Sends again what may be lost; lets go what came on no further for `patience` ticks: by now Raft
    /// sends a newer state.
    pub(crate) fn tick(&mut self, ticks: u64, patience: u64) {
        self.0.retain(|transfer| transfer.moved + patience > ticks);
        if let Some(first) = self.0.front_mut()
            && first.tried + RESEND_TICKS <= ticks
        {
            first.sent = first.taken;
        }
    }

    /// The parts that may go now.
    pub(crate) fn next(&mut self, ticks: u64) -> Vec<GroupPacket> {
        let first = self.0.front_mut();
        first.map(|first| first.next(ticks)).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What has come of one node's transfer.
#[derive(Debug, Default)]
pub(crate) struct IncomingTransfer {
    id: TransferId,
    of: u32,
    next: u32,
    bytes: Vec<u8>,
}

impl IncomingTransfer {
    /// Takes in a part. Gives how many there are, in order, and the packet when it is whole.
    pub(crate) fn take(
        &mut self,
        id: TransferId,
        (part, of): (u32, u32),
        bytes: &[u8],
    ) -> (u32, Option<GroupPacket>) {
        if (id, of) != (self.id, self.of) {
            if part != 0 || of == 0 || of > PARTS_MAX {
                return (0, None);
            }
            *self = Self {
                id,
                of,
                ..Self::default()
            };
        }
        if part != self.next || bytes.len() > PART_BYTES {
            return (self.next, None);
        }
        self.bytes.extend_from_slice(bytes);
        self.next += 1;
        if self.next != self.of {
            return (self.next, None);
        }
        let whole = std::mem::take(&mut self.bytes);
        let is_good = xxh3_64(&whole) == id.check;
        let packet = is_good.then(|| postcard::from_bytes(&whole).ok());
        (self.next, packet.flatten())
    }
}

#[cfg(test)]
mod tests;
