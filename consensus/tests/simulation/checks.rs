//! What must hold after every event.

use std::collections::{BTreeMap, BTreeSet};

use muster_consensus::{GroupId, NodeId, Ticket};

use muster_model::time::Time;

use crate::chain::HashChain;

/// What is known of all groups, from outside.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// The history of each group: the hash after each index.
    history: BTreeMap<(GroupId, u64), u64>,
    leaders: BTreeMap<(GroupId, u64), NodeId>,
    /// Entries proposed, by ticket.
    proposed: BTreeMap<Ticket, (GroupId, u64)>,
    /// Questions without an answer: where they were asked, and when.
    open: BTreeMap<Ticket, (NodeId, Time)>,
    /// Entries whose proposer was told that they are committed.
    accepted: BTreeMap<GroupId, BTreeSet<u64>>,
    /// Entries whose proposer was told that they never will be.
    refused: BTreeMap<GroupId, BTreeSet<u64>>,
    /// The newest index applied anywhere.
    newest: BTreeMap<GroupId, u64>,
    /// Open reads, and what was the newest when they were asked.
    reads: BTreeMap<Ticket, u64>,
    pub(crate) answered: u64,
}

impl Checks {
    pub(crate) fn asked(&mut self, ticket: Ticket, node: NodeId, now: Time) {
        self.open.insert(ticket, (node, now));
    }

    /// Nobody there can answer any more.
    pub(crate) fn crashed(&mut self, node: NodeId) {
        self.open.retain(|_, (asked, _)| *asked != node);
    }

    /// Every question is answered.
    pub(crate) fn all_answered(&self, since: Time) -> Result<(), String> {
        match self.open.iter().find(|(_, (_, at))| *at < since) {
            Some((ticket, place)) => Err(format!("{ticket:?} has no answer: {place:?}")),
            None => Ok(()),
        }
    }

    pub(crate) fn propose(&mut self, ticket: Ticket, group: GroupId, entry: u64) {
        self.proposed.insert(ticket, (group, entry));
    }

    /// The same index holds the same entry everywhere.
    pub(crate) fn applied(
        &mut self,
        group: GroupId,
        (index, hash): (u64, u64),
    ) -> Result<(), String> {
        let known = *self.history.entry((group, index)).or_insert(hash);
        let newest = self.newest.entry(group).or_default();
        *newest = index.max(*newest);
        let same = known == hash;
        same.then_some(())
            .ok_or_else(|| format!("{group:?} has two histories at {index}"))
    }

    /// A state that was restored is one that was.
    pub(crate) fn state(&mut self, group: GroupId, chain: &HashChain) -> Result<(), String> {
        if chain.index == 0 {
            return Ok(());
        }
        let doubled = chain.entries.iter().collect::<BTreeSet<_>>().len() != chain.entries.len();
        if doubled {
            return Err(format!("{group:?} has an entry twice"));
        }
        self.applied(group, (chain.index, chain.hash))
    }

    pub(crate) fn accept(&mut self, ticket: Ticket) -> Result<(), String> {
        self.open.remove(&ticket);
        if let Some((group, entry)) = self.proposed.remove(&ticket) {
            self.accepted.entry(group).or_default().insert(entry);
            return Ok(());
        }
        Err(format!("{ticket:?} was answered twice, or never asked"))
    }

    pub(crate) fn refuse(&mut self, ticket: Ticket, for_ever: bool) -> Result<(), String> {
        self.open.remove(&ticket);
        if self.reads.remove(&ticket).is_some() {
            return Ok(());
        }
        let Some((group, entry)) = self.proposed.remove(&ticket) else {
            return Err(format!("{ticket:?} was refused twice, or never asked"));
        };
        if for_ever {
            self.refused.entry(group).or_default().insert(entry);
        }
        Ok(())
    }

    pub(crate) fn ask(&mut self, ticket: Ticket, group: GroupId) {
        let newest = self.newest.get(&group).copied().unwrap_or_default();
        self.reads.insert(ticket, newest);
    }

    /// Who reads sees all that anybody had seen before.
    pub(crate) fn read(&mut self, ticket: Ticket, applied: u64) -> Result<(), String> {
        self.open.remove(&ticket);
        let Some(newest) = self.reads.remove(&ticket) else {
            return Err(format!("{ticket:?} was read twice, or never asked"));
        };
        self.answered += 1;
        if applied < newest {
            return Err(format!(
                "a read at {applied} misses what was seen at {newest}"
            ));
        }
        Ok(())
    }

    /// One leader a term.
    pub(crate) fn leads(&mut self, group: GroupId, term: u64, node: NodeId) -> Result<(), String> {
        let known = *self.leaders.entry((group, term)).or_insert(node);
        let same = known == node;
        same.then_some(())
            .ok_or_else(|| format!("{group:?} has two leaders in term {term}"))
    }

    /// All that was accepted is there, and nothing that was refused for ever.
    pub(crate) fn complete(&self, group: GroupId, chain: &HashChain) -> Result<(), String> {
        let there: BTreeSet<u64> = chain.entries.iter().copied().collect();
        let accepted = self.accepted.get(&group);
        if let Some(lost) = accepted.and_then(|all| all.difference(&there).next()) {
            return Err(format!("{group:?} has lost the accepted entry {lost}"));
        }
        let refused = self.refused.get(&group);
        if let Some(there) = refused.and_then(|all| all.intersection(&there).next()) {
            return Err(format!("{group:?} has the refused entry {there}"));
        }
        Ok(())
    }

    pub(crate) fn accepted(&self) -> usize {
        self.accepted.values().map(BTreeSet::len).sum()
    }
}
