//! Who has which copy of which group's log, and who leads: what each member says of itself, and what follows
//! from what all say. Devices and what is free of them are told to the leaders of virtual clusters alone.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use muster_consensus::{GroupId, StoreId};
use muster_gossip::Mesh;
use muster_gossip::member::MemberId;
use muster_gossip::mesh::Reach;
use muster_gossip::record::NODE_PAYLOAD_MAX;
use serde::{Deserialize, Serialize};

/// The log store of a member, by its own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvertisedStore {
    /// Which it is.
    pub id: StoreId,
    /// How many copies of logs are in it.
    pub copies: usize,
}

/// First byte of a routing record.
const VERSION: u8 = 5;

/// What a node's record carries for other agents. Frozen in its first byte: a change takes the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutingRecord {
    /// What the machine has, for people: `8 Tesla V100, 96 cores, 768 GiB`.
    pub summary: String,
    /// Names its log store: made with it, so that an empty one is not taken for the one before.
    pub store: u64,
    /// Its copies of the logs of groups.
    pub copies: Vec<AdvertisedCopy>,
    /// The version of the cluster map that is known there, if it has a copy; else 0. What a few say
    /// is enough, and a new version makes no other record new.
    pub cluster_map: u64,
}

/// What a node says of its copy of a group's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdvertisedCopy {
    /// The group's number.
    pub group: u64,
    /// Whether it votes.
    pub votes: bool,
    /// In which term it leads; 0: it does not.
    pub leads: u64,
    /// The members that vote, by the word of who leads; empty from all others, who may not know of the
    /// last change.
    pub voters: Vec<MemberId>,
}

impl RoutingRecord {
    /// The log store.
    pub const fn log_store(&self) -> AdvertisedStore {
        AdvertisedStore {
            id: StoreId(self.store),
            copies: self.copies.len(),
        }
    }

    /// As bytes for a record; empty if they do not fit into one.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = postcard::to_extend(self, vec![VERSION]).unwrap_or_default();
        if bytes.len() > NODE_PAYLOAD_MAX {
            Vec::new()
        } else {
            bytes
        }
    }

    /// From a record's bytes, if they are of a known version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [VERSION, body @ ..] => postcard::from_bytes(body).ok(),
            _ => None,
        }
    }
}

/// The members that vote in a group: as its leader says, for a member that was off when another one got its
/// vote has said last that it votes. Where no leader can be reached, all that said that they vote.
pub fn voters_told(
    copies: &[(MemberId, AdvertisedCopy)],
    is_away: impl Fn(MemberId) -> bool,
) -> BTreeSet<MemberId> {
    match leader_of(copies, is_away) {
        Some((_, copy)) => copy.voters.iter().copied().collect(),
        None => {
            let those = copies.iter().filter(|(_, copy)| copy.votes);
            those.map(|(id, _)| *id).collect()
        }
    }
}

/// The leader. A member that led last and cannot be reached leads no more, as far as can be said here.
pub fn leader_of(
    copies: &[(MemberId, AdvertisedCopy)],
    is_away: impl Fn(MemberId) -> bool,
) -> Option<&(MemberId, AdvertisedCopy)> {
    let first = copies.first();
    first.filter(|(id, copy)| copy.leads > 0 && !is_away(*id))
}

/// Whether a member cannot be reached.
pub fn is_away(mesh: &Mesh, member: MemberId) -> bool {
    mesh.reach(member) == Reach::Unreachable
}

/// What a member says of itself, as far as this node has heard.
pub fn record(mesh: &Mesh, member: MemberId) -> Option<RoutingRecord> {
    RoutingRecord::decode(&mesh.member(member)?.node?.payload)
}

/// The numbers of the groups of whose logs a member says that it has copies.
pub fn holds(mesh: &Mesh, member: MemberId) -> BTreeSet<u64> {
    let copies = record(mesh, member).map(|record| record.copies);
    let copies = copies.unwrap_or_default().into_iter();
    copies.map(|copy| copy.group).collect()
}

/// Members that say they have a copy of a group's log: who leads in the newest term first, and last
/// those that cannot be reached.
pub fn copies(mesh: &Mesh, group: GroupId) -> Vec<(MemberId, AdvertisedCopy)> {
    let copy = |id| {
        let record = record(mesh, id)?;
        let mut copies = record.copies.into_iter();
        Some((id, copies.find(|copy| copy.group == group.0)?))
    };
    let copies = mesh.members().filter_map(copy).collect();
    likeliest_first(copies, |id| is_away(mesh, id))
}

/// The leader of the newest term first, and last those that cannot be reached.
pub(super) fn likeliest_first(
    mut copies: Vec<(MemberId, AdvertisedCopy)>,
    is_away: impl Fn(MemberId) -> bool,
) -> Vec<(MemberId, AdvertisedCopy)> {
    copies.sort_by_key(|(id, copy)| (is_away(*id), Reverse(copy.leads), !copy.votes));
    copies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_routing_record_is_read_as_it_was_written() {
        let copy = AdvertisedCopy {
            group: 7,
            votes: true,
            leads: 3,
            voters: vec![MemberId(1), MemberId(2)],
        };
        let record = RoutingRecord {
            summary: "8 Tesla V100, 96 cores, 768 GiB".to_owned(),
            store: u64::MAX,
            copies: vec![copy],
            cluster_map: 5,
        };
        let bytes = record.encode();
        assert_eq!(RoutingRecord::decode(&bytes), Some(record));
        let of_another_release = [&[VERSION - 1], &bytes[1..]].concat();
        assert_eq!(RoutingRecord::decode(&of_another_release), None);
    }

    #[test]
    fn one_that_does_not_fit_into_a_record_is_left_out() {
        let record = RoutingRecord {
            summary: "x".repeat(NODE_PAYLOAD_MAX),
            ..RoutingRecord::default()
        };
        assert_eq!(record.encode(), [0_u8; 0]);
    }
}
