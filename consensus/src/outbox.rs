//! What waits to be sent to other nodes.

use std::collections::BTreeMap;

use protobuf::Message as _;
use raft::eraftpb::{Message, MessageType};

use crate::id::{GroupId, NodeId, ReplicaId, StoreId};
use crate::machine::StateMachine;
use crate::replica::Replica;
use crate::transfer::{Outgoing, TransferId};
use crate::wire::{FRAME_BYTES, GroupPacket, frames};

/// What waits to be sent, by node.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// What the next frames carry.
    packets: BTreeMap<NodeId, Vec<GroupPacket>>,
    /// States that are too long for one.
    states: BTreeMap<NodeId, Outgoing>,
    /// Counts packets that were sent in pieces, and states in parts.
    sent: u64,
    /// Ticks that have passed.
    ticks: u64,
}

impl Outbox {
    pub(crate) fn push(&mut self, to: NodeId, packet: GroupPacket) {
        self.packets.entry(to).or_default().push(packet);
    }

    /// What a replica, whose promises are in the store `home`, says to others.
    pub(crate) fn post<M: StateMachine>(
        &mut self,
        home: StoreId,
        replica: &Replica<M>,
        messages: impl IntoIterator<Item = Message>,
    ) {
        for message in messages {
            let to = ReplicaId(message.to);
            let Some(there) = replica.home_of(to) else {
                continue;
            };
            let Ok(bytes) = message.write_to_bytes() else {
                continue;
            };
            let is_state = message.get_msg_type() == MessageType::MsgSnapshot;
            let packet = GroupPacket::Raft {
                group: replica.group,
                from: replica.id,
                to,
                home,
                store: there.store,
                message: bytes,
            };
            if is_state && packet.len() > FRAME_BYTES {
                self.sent += 1;
                let states = self.states.entry(there.node).or_default();
                states.begin((replica.group, to), &packet, (self.sent, self.ticks));
            } else {
                self.push(there.node, packet);
            }
        }
    }

    /// A node says which parts it has of a state. Gives the copies that are being sent one there, if that
    /// is news.
    pub(crate) fn took(
        &mut self,
        node: NodeId,
        id: TransferId,
        next: u32,
    ) -> Vec<(GroupId, ReplicaId)> {
        let states = self.states.get_mut(&node);
        states.map_or_else(Vec::new, |states| states.took(id, next, self.ticks))
    }

    /// So many ticks have passed in all. A state that comes on no further for `patience` of them is let go.
    pub(crate) fn tick(&mut self, ticks: u64, patience: u64) {
        self.ticks = ticks;
        for states in self.states.values_mut() {
            states.tick(ticks, patience);
        }
        self.states.retain(|_, states| !states.is_empty());
    }

    /// The frames that go now, and to whom.
    pub(crate) fn frames(&mut self) -> Vec<(NodeId, Vec<u8>)> {
        for (node, states) in &mut self.states {
            let parts = states.next(self.ticks);
            if !parts.is_empty() {
                self.packets.entry(*node).or_default().extend(parts);
            }
        }
        let mut all = Vec::new();
        for (to, packets) in std::mem::take(&mut self.packets) {
            let frames = frames(packets, &mut self.sent);
            all.extend(frames.map(|frame| (to, frame)));
        }
        all
    }
}
