//! The members, by number and by key.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::event::Admitted;
use super::peer::QuicPeer;
use crate::key::NodeKey;
use crate::member::MemberId;

/// Who may have a link.
#[derive(Debug, Default)]
pub(super) struct PeerTable {
    members: BTreeMap<MemberId, Arc<QuicPeer>>,
    numbers: BTreeMap<NodeKey, MemberId>,
}

impl PeerTable {
    pub(super) fn member(&self, id: MemberId) -> Option<&Arc<QuicPeer>> {
        self.members.get(&id)
    }

    pub(super) fn of_key(&self, key: &NodeKey) -> Option<&Arc<QuicPeer>> {
        self.member(*self.numbers.get(key)?)
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = &Arc<QuicPeer>> {
        self.members.values()
    }

    /// Lets one in, or renews its addresses. Gives back who had its number with another key.
    pub(super) fn admit(&mut self, admitted: Admitted) -> Option<Arc<QuicPeer>> {
        if let Some(peer) = self.members.get(&admitted.id)
            && peer.key == admitted.key
        {
            peer.readdress(admitted.addresses);
            return None;
        }
        let removed = self.remove(admitted.id);
        self.numbers.insert(admitted.key, admitted.id);
        let peer = QuicPeer::new(admitted);
        self.members.insert(peer.id, Arc::new(peer));
        removed
    }

    /// Replaces the list. Gives back who is on it no more.
    pub(super) fn replace(&mut self, list: Vec<Admitted>) -> Vec<Arc<QuicPeer>> {
        let keep: std::collections::BTreeSet<MemberId> = list.iter().map(|new| new.id).collect();
        let gone: Vec<MemberId> = self
            .members
            .keys()
            .filter(|id| !keep.contains(id))
            .copied()
            .collect();
        let mut removed: Vec<_> = gone.into_iter().filter_map(|id| self.remove(id)).collect();
        removed.extend(list.into_iter().filter_map(|new| self.admit(new)));
        removed
    }

    fn remove(&mut self, id: MemberId) -> Option<Arc<QuicPeer>> {
        let peer = self.members.remove(&id)?;
        if self.numbers.get(&peer.key) == Some(&id) {
            self.numbers.remove(&peer.key);
        }
        Some(peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(id: u32, key: u8) -> Admitted {
        Admitted {
            id: MemberId(id),
            key: NodeKey([key; 32]),
            addresses: vec![],
        }
    }

    fn id_of(table: &PeerTable, key: u8) -> Option<u32> {
        table.of_key(&NodeKey([key; 32])).map(|peer| peer.id.0)
    }

    #[test]
    fn a_new_list_replaces_the_old_one_and_keeps_who_stays() {
        let mut table = PeerTable::default();
        table.replace(vec![admitted(0, 10), admitted(1, 11), admitted(2, 12)]);
        let stays = Arc::clone(table.member(MemberId(1)).unwrap());
        let removed = table.replace(vec![admitted(1, 11), admitted(2, 22)]);
        let keys: Vec<u8> = removed.iter().map(|peer| peer.key.0[0]).collect();
        assert_eq!(keys, [10, 12]);
        assert!(Arc::ptr_eq(table.member(MemberId(1)).unwrap(), &stays));
        assert_eq!(
            [10, 11, 12, 22].map(|key| id_of(&table, key)),
            [None, Some(1), None, Some(2)]
        );
    }

    #[test]
    fn a_key_that_comes_back_has_its_new_number() {
        let mut table = PeerTable::default();
        table.replace(vec![admitted(0, 10)]);
        table.replace(vec![admitted(0, 10), admitted(5, 10)]);
        table.replace(vec![admitted(5, 10)]);
        assert_eq!(id_of(&table, 10), Some(5));
    }
}
