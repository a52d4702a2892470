//! What this node and others say to each other about virtual clusters: orders, what is told of them, and
//! requests for reports.

use muster_consensus::{GroupId, HostInput, NodeId};
use muster_model::id::{self, VcName};

use super::envelope::{self, Envelope, Word};
use super::{GroupEvent, GroupHost, GroupHostOutput};
use crate::coordinator;
use crate::order::Tell;

impl GroupHost {
    /// Takes apart what another node sent.
    pub(super) fn unpack(&mut self, from: NodeId, envelope: &[u8]) {
        match self.unpacker.take(from, envelope) {
            Some(Envelope::Frame(bytes)) => self.give(HostInput::Frame { from, bytes }),
            Some(Envelope::Word(word)) => self.hear(from, word),
            None => {}
        }
    }

    /// This node tells the leader of a virtual cluster something.
    pub(super) fn pass_on(&mut self, to: NodeId, vc: &VcName, node: id::NodeId, tell: Box<Tell>) {
        let mut vcs = self.vcs.iter();
        let Some((group, _)) = vcs.find(|(_, lead)| lead.vc() == vc) else {
            return;
        };
        let group = *group;
        if to == self.me {
            return self.told(group, to, node, *tell);
        }
        let group = group.0;
        self.say(to, &Word::Tell { group, node, tell });
    }

    /// Hears what another node says of virtual clusters that this one serves, and of no other.
    fn hear(&mut self, from: NodeId, word: Word) {
        let group = word.group();
        if !self.vcs.contains_key(&group) {
            return;
        }
        if matches!(word, Word::Order { .. } | Word::Ask { .. }) {
            self.succeed(group);
        }
        let Some(lead) = self.vcs.get(&group) else {
            return;
        };
        match word {
            Word::Order { order, .. } => self.out.push(GroupHostOutput::Order { from, order }),
            Word::Ask {
                generation, term, ..
            } => {
                let vc = lead.vc().clone();
                self.out.push(GroupHostOutput::Asked {
                    from,
                    vc,
                    generation,
                    term,
                });
            }
            Word::Tell { node, tell, .. } => self.told(group, from, node, *tell),
        }
    }

    /// A node tells the leader of a virtual cluster something; nothing, if that is not here.
    pub(super) fn told(&mut self, group: GroupId, from: NodeId, node: id::NodeId, tell: Tell) {
        let Some(lead) = self.vcs.get_mut(&group) else {
            return;
        };
        if matches!(tell, Tell::Report(_)) {
            lead.heard_of(from);
        }
        self.heard(group, &node);
        if self.numbers.get(&node) != Some(&from) {
            self.numbers.insert(node.clone(), from);
            self.avoid_unreachable();
        }
        self.feed(group, coordinator::CoordinatorInput::Tell { node, tell });
    }

    /// Says a word to another node. May be lost.
    pub(super) fn say(&mut self, to: NodeId, word: &Word) {
        self.words = self.words.wrapping_add(1);
        let envelopes = envelope::pack(word, self.words);
        if envelopes.is_empty() {
            self.out
                .push(GroupHostOutput::Event(GroupEvent::TooLong { to }));
        }
        let send = |bytes| GroupHostOutput::Send { to, bytes };
        self.out.extend(envelopes.into_iter().map(send));
    }

    /// Asks a node for a report to the leader of a virtual cluster, if that is here.
    pub(super) fn ask(&mut self, group: GroupId, node: NodeId) {
        let Some(lead) = self.vcs.get(&group) else {
            return;
        };
        let Some(term) = lead.term() else { return };
        let generation = lead.generation();
        if node == self.me {
            let vc = lead.vc().clone();
            self.out.push(GroupHostOutput::Asked {
                from: node,
                vc,
                generation,
                term,
            });
            return;
        }
        let group = group.0;
        let word = Word::Ask {
            group,
            generation,
            term,
        };
        self.say(node, &word);
    }
}
