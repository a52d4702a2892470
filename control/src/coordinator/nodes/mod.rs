//! All nodes as their leader knows them, and which of them something is to be done about. A leader hears
//! of a thousand nodes many times a second: what it does at every word must not look at each of them.

mod node;

use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::NodeId;
use muster_model::time::Time;

pub(super) use node::{NodeLife, ReportChanges, ReportedNode};

use crate::fence::StartId;
use crate::order::{FreeList, NodeReport};

/// Who says nothing is asked this often, milliseconds: jobs may wait for it alone.
const MUTE_POLL_MS: u64 = 3_000;

/// Nodes that have reported, and which of them are due.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportedNodes {
    known: BTreeMap<NodeId, ReportedNode>,
    /// When each is to be asked what it has, while anything waits for nodes.
    polls: BTreeSet<(Time, NodeId)>,
    /// The same, of those that are asked though nothing waits.
    restless: BTreeSet<(Time, NodeId)>,
    /// Those that take no new tasks, by their own word.
    closed: BTreeSet<NodeId>,
    /// Those that have said nothing since they let an order wait for too long, or since the term began.
    mute: BTreeSet<NodeId>,
    /// Those that may have something else than was last looked at.
    news: BTreeSet<NodeId>,
}

impl ReportedNodes {
    pub(super) fn get(&self, id: &NodeId) -> Option<&ReportedNode> {
        self.known.get(id)
    }

    pub(super) fn contains(&self, id: &NodeId) -> bool {
        self.known.contains_key(id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&NodeId, &ReportedNode)> {
        self.known.iter()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &NodeId> {
        self.known.keys()
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Those that take no new tasks, by their own word.
    pub(super) const fn closed(&self) -> &BTreeSet<NodeId> {
        &self.closed
    }

    /// Those that have said nothing since they let an order wait for too long, or since the term began.
    pub(super) const fn mute(&self) -> &BTreeSet<NodeId> {
        &self.mute
    }

    /// Takes a node's newest word on itself. It is asked again `every_ms` later, if it is new.
    pub(super) fn hear(
        &mut self,
        now: Time,
        id: &NodeId,
        every_ms: u64,
        report: NodeReport,
    ) -> ReportChanges {
        let is_closed = report.closed.is_some();
        let changes = match self.known.get_mut(id) {
            Some(known) => known.update(report),
            None => {
                let node = ReportedNode::new(now, every_ms, report);
                self.polls.insert((node.next_poll(), id.clone()));
                self.known.insert(id.clone(), node);
                ReportChanges {
                    is_old: false,
                    is_other_life: true,
                    is_other_capacity: true,
                    is_other_offer: !is_closed,
                    is_other_mind: !is_closed,
                }
            }
        };
        if changes.is_other_capacity {
            self.news.insert(id.clone());
        }
        if changes.is_other_mind || is_closed {
            self.note_mind(id);
        }
        changes
    }

    fn note_mind(&mut self, id: &NodeId) {
        let known = self.known.get(id);
        match known.is_some_and(|known| known.closed.is_some()) {
            true => self.closed.insert(id.clone()),
            false => self.closed.remove(id),
        };
    }

    /// A node says in passing what is free there.
    pub(super) fn freed(&mut self, id: &NodeId, start: StartId, free: FreeList) {
        if let Some(node) = self.known.get_mut(id) {
            node.freed(start, free);
        }
    }

    /// Forgets one.
    pub(super) fn remove(&mut self, id: &NodeId) {
        let Some(node) = self.known.remove(id) else {
            return;
        };
        let poll = (node.next_poll(), id.clone());
        self.polls.remove(&poll);
        self.restless.remove(&poll);
        self.closed.remove(id);
        self.mute.remove(id);
        self.news.remove(id);
    }

    /// Another term begins, or none goes on: orders are counted anew, and what nodes have is looked at
    /// again. Those that were known before are mute until they say something in this term: who led last
    /// may have been lost together with others.
    pub(super) fn begin_term(&mut self, now: Time) {
        let ids: Vec<NodeId> = self.known.keys().cloned().collect();
        for id in &ids {
            self.change(id, ReportedNode::begin_term);
            self.mark_mute(now, id);
        }
        self.news = ids.into_iter().collect();
    }

    /// The number of the next order to a node, and the life that it is for; none if the node never
    /// reported.
    pub(super) fn next_order(&mut self, id: &NodeId) -> Option<(u64, NodeLife)> {
        self.known.get_mut(id).map(ReportedNode::next_order)
    }

    /// Whether a node may hold tasks that are no more by what is committed.
    pub(super) fn set_unsettled(&mut self, id: &NodeId, is_unsettled: bool) {
        self.change(id, |node| node.is_unsettled = is_unsettled);
    }

    /// Whether it was told to forget tasks, and may not have heard that.
    pub(super) fn set_settling(&mut self, id: &NodeId, is_settling: bool) {
        self.change(id, |node| node.is_settling = is_settling);
    }

    /// A node says nothing, as far as this leader hears. Others may hear it all the same.
    pub(super) fn mark_mute(&mut self, now: Time, id: &NodeId) {
        if self.contains(id) {
            self.change(id, |node| node.is_mute = true);
            self.mute.insert(id.clone());
            self.schedule(now, MUTE_POLL_MS, id);
        }
    }

    /// It says something. Whether it was mute before.
    pub(super) fn unmute(&mut self, id: &NodeId) -> bool {
        let was_mute = self.mute.remove(id);
        if was_mute {
            self.change(id, |node| node.is_mute = false);
        }
        was_mute
    }

    fn change(&mut self, id: &NodeId, change: impl FnOnce(&mut ReportedNode)) {
        let Some(node) = self.known.get_mut(id) else {
            return;
        };
        let was_restless = node.is_restless();
        change(node);
        if node.is_restless() != was_restless {
            let poll = (node.next_poll(), id.clone());
            match was_restless {
                true => self.restless.remove(&poll),
                false => self.restless.insert(poll),
            };
        }
    }

    /// When the first is to be asked what it has. `all`: also those that are only of interest because
    /// something waits.
    pub(super) fn next_poll(&self, all: bool) -> Option<Time> {
        let polls = if all { &self.polls } else { &self.restless };
        polls.first().map(|(at, _)| *at)
    }

    /// One that is to be asked what it has, which is then asked again `every_ms` later.
    pub(super) fn poll(&mut self, now: Time, every_ms: u64, all: bool) -> Option<NodeId> {
        let polls = if all { &self.polls } else { &self.restless };
        let (_, id) = polls.first().filter(|(at, _)| *at <= now)?.clone();
        let every_ms = match self.mute.contains(&id) {
            true => every_ms.min(MUTE_POLL_MS),
            false => every_ms,
        };
        self.schedule(now, every_ms, &id);
        Some(id)
    }

    /// A node is to be asked what it has so much later.
    fn schedule(&mut self, now: Time, after_ms: u64, id: &NodeId) {
        let Some(node) = self.known.get_mut(id) else {
            return;
        };
        let before = (node.next_poll(), id.clone());
        node.polled(now, after_ms);
        let after = (node.next_poll(), id.clone());
        if self.restless.remove(&before) {
            self.restless.insert(after.clone());
        }
        self.polls.remove(&before);
        self.polls.insert(after);
    }

    /// Those that may have something else than when [`ReportedNodes::looked_at`] was last called.
    pub(super) const fn news(&self) -> &BTreeSet<NodeId> {
        &self.news
    }

    /// What nodes have is known by now.
    pub(super) fn looked_at(&mut self) {
        self.news.clear();
    }

    /// Checks that what is due is as the nodes say.
    ///
    /// # Errors
    /// What is not, as a sentence.
    pub(super) fn audit(&self) -> Result<(), String> {
        let polls = |is: fn(&ReportedNode) -> bool| {
            let nodes = self.known.iter().filter(move |(_, node)| is(node));
            nodes.map(|(id, node)| (node.next_poll(), id.clone()))
        };
        let closed = self.known.iter().filter(|(_, node)| node.closed.is_some());
        let mute = self.known.iter().filter(|(_, node)| node.is_mute);
        let is_so = self
            .polls
            .iter()
            .cloned()
            .eq(polls(|_| true).collect::<BTreeSet<_>>())
            && self.restless == polls(ReportedNode::is_restless).collect()
            && self.closed.iter().eq(closed.map(|(id, _)| id))
            && self.mute.iter().eq(mute.map(|(id, _)| id))
            && self.news.iter().all(|id| self.contains(id));
        match is_so {
            true => Ok(()),
            false => Err("which nodes are due is not as the nodes say".to_owned()),
        }
    }
}
