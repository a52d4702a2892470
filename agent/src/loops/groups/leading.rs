//! What is done for the virtual clusters that are led here: their coordinators are fed, and what they
//! want is carried out.

use muster_consensus::{GroupId, Input};
use muster_control::coordinator;
use muster_control::lease::Hearing;
use muster_control::order::Order;
use muster_model::id;

use super::{Asked, GroupsLoop, Machine};
use crate::clock;
use crate::groups::name::{self, Kind};
use crate::groups::parcel::Word;

impl GroupsLoop {
    pub(super) fn elected(&mut self, group: GroupId, term: u64) {
        tracing::debug!(group = group.0, term, "leads a group");
        self.telling.led.send_modify(|led| {
            led.insert(group, term);
        });
        if name::kind(group) == Kind::Cluster {
            self.hearing = Some((group, Hearing::new(self.ticks())));
        }
        self.lead(group, term);
    }

    pub(super) fn lead(&mut self, group: GroupId, term: u64) {
        let Self { vcs, host, .. } = self;
        let (Some(lead), Some(Machine::Vc(state))) = (vcs.get_mut(&group), host.machine(group))
        else {
            return;
        };
        let outputs = lead.elected(clock::now(), state, term);
        self.conduct(group, outputs);
        self.avoid_unreachable();
        self.keep_free();
        self.describe();
        self.allow_leases();
        self.ask_around();
    }

    pub(super) fn deposed(&mut self, group: GroupId) {
        let led = &self.telling.led;
        if led.send_if_modified(|led| led.remove(&group).is_some()) {
            tracing::info!(group = group.0, "another node leads a group, or none");
        }
        self.hearing.take_if(|(of, _)| *of == group);
        // What a coordinator wanted ends with its term.
        self.again.retain(|(of, _)| *of != group);
        if let Some(lead) = self.vcs.get_mut(&group) {
            lead.deposed();
        }
    }

    /// Gives a coordinator an input and performs what comes out.
    pub(super) fn feed(&mut self, group: GroupId, input: coordinator::Input) {
        let Self { vcs, host, .. } = self;
        let (Some(lead), Some(Machine::Vc(state))) = (vcs.get_mut(&group), host.machine(group))
        else {
            return;
        };
        let outputs = lead.feed(clock::now(), state, input);
        self.conduct(group, outputs);
    }

    /// Gives the same to all coordinators.
    pub(super) fn feed_all(&mut self, input: &coordinator::Input) {
        let groups: Vec<_> = self.vcs.keys().copied().collect();
        for group in groups {
            self.feed(group, input.clone());
        }
    }

    pub(super) fn conduct(&mut self, group: GroupId, outputs: Vec<coordinator::Output>) {
        for output in outputs {
            match output {
                coordinator::Output::Propose(entry) => match entry.encode() {
                    Ok(entry) => self.propose_own(group, entry),
                    Err(error) => tracing::error!(%error, "an entry cannot be written"),
                },
                coordinator::Output::Send { node, order } => self.order(group, &node, order),
                coordinator::Output::AskReport { node } => {
                    if let Some(node) = self.numbers.get(&node) {
                        self.ask(group, *node);
                    }
                }
            }
        }
    }

    pub(super) fn order(&mut self, group: GroupId, node: &id::NodeId, order: Box<Order>) {
        match self.numbers.get(node).copied() {
            Some(node) if node == self.me => self.node.order(node, *order),
            Some(node) => {
                let group = group.0;
                self.say(node, &Word::Order { group, order });
            }
            // It is sent again when the node has reported.
            None => {}
        }
    }

    pub(super) fn propose_own(&mut self, group: GroupId, entry: Vec<u8>) {
        let ticket = self.ticket(Asked::Own(entry.clone()));
        self.give(Input::Propose {
            group,
            ticket,
            entry,
        });
    }
}
