//! What is done for the virtual clusters that are led here: their coordinators are fed, and what they
//! want is carried out.

use muster_consensus::{GroupId, HostInput};
use muster_model::id;

use super::envelope::Word;
use super::name::{self, GroupKind};
use super::{GroupEvent, GroupHost, GroupHostOutput, GroupState, PendingCall};
use crate::cluster::Binding;
use crate::coordinator;
use crate::lease::Hearing;
use crate::order::Order;

impl GroupHost {
    pub(super) fn elected(&mut self, group: GroupId, term: u64) {
        self.led.insert(group, term);
        self.out.push(GroupHostOutput::Leads { group, term });
        if name::kind(group) == GroupKind::Cluster {
            self.hearing.insert(group, Hearing::new(self.now.steady));
        }
        self.lead(group, term);
    }

    pub(super) fn lead(&mut self, group: GroupId, term: u64) {
        if self.vcs.contains_key(&group) {
            self.succeed(group);
        }
        let Self { now, vcs, host, .. } = self;
        let (Some(lead), Some(GroupState::Vc(state))) = (vcs.get_mut(&group), host.machine(group))
        else {
            return;
        };
        let outputs = lead.elected(*now, state, term);
        self.conduct(group, outputs);
        self.avoid_unreachable();
        self.forget_left();
        self.keep_free();
        self.stand();
        self.describe();
        self.set_policy();
        self.allow_leases();
        self.say_who_binds();
        self.ask_around();
    }

    /// Tells coordinators whether there is a `cluster` group that binds cells.
    pub(super) fn say_who_binds(&mut self) {
        let is_bound = self.cluster.is_some();
        self.feed_all(&coordinator::CoordinatorInput::BoundByCluster(is_bound));
    }

    fn bind(&mut self, group: GroupId, known: u64, binding: Box<Binding>) {
        if let Some(lead) = self.vcs.get(&group) {
            let vc = lead.vc().clone();
            self.out.push(GroupHostOutput::Bind {
                group,
                vc,
                known,
                binding,
            });
        }
    }

    pub(super) fn deposed(&mut self, group: GroupId) {
        if self.led.remove(&group).is_some() {
            self.out.push(GroupHostOutput::Led { group });
        }
        self.hearing.remove(&group);
        // What a coordinator wanted ends with its term.
        self.again.retain(|(of, _)| *of != group);
        if let Some(lead) = self.vcs.get_mut(&group) {
            lead.deposed();
        }
    }

    /// Gives a coordinator an input and performs what comes out.
    pub(super) fn feed(&mut self, group: GroupId, input: coordinator::CoordinatorInput) {
        let Self { now, vcs, host, .. } = self;
        let (Some(lead), Some(GroupState::Vc(state))) = (vcs.get_mut(&group), host.machine(group))
        else {
            return;
        };
        let outputs = lead.feed(*now, state, input);
        self.conduct(group, outputs);
    }

    /// Gives the same to all coordinators.
    pub(super) fn feed_all(&mut self, input: &coordinator::CoordinatorInput) {
        let groups: Vec<_> = self.vcs.keys().copied().collect();
        for group in groups {
            self.feed(group, input.clone());
        }
    }

    pub(super) fn conduct(&mut self, group: GroupId, outputs: Vec<coordinator::CoordinatorOutput>) {
        for output in outputs {
            match output {
                coordinator::CoordinatorOutput::Propose(entry) => match entry.encode() {
                    Ok(entry) => self.propose_own(group, entry),
                    Err(error) => {
                        let event = GroupEvent::Unwritable(error.to_string());
                        self.out.push(GroupHostOutput::Event(event));
                    }
                },
                coordinator::CoordinatorOutput::Send { node, order } => {
                    self.order(group, &node, order)
                }
                coordinator::CoordinatorOutput::Bind { known, binding } => {
                    self.bind(group, known, binding)
                }
                coordinator::CoordinatorOutput::AskReport { node } => {
                    if let Some(node) = self.numbers.get(&node) {
                        self.ask(group, *node);
                    }
                }
            }
        }
    }

    pub(super) fn order(&mut self, group: GroupId, node: &id::NodeId, order: Box<Order>) {
        match self.numbers.get(node).copied() {
            Some(from) if from == self.me => self.out.push(GroupHostOutput::Order { from, order }),
            Some(node) => {
                let group = group.0;
                self.say(node, &Word::Order { group, order });
            }
            // It is sent again when the node has reported.
            None => {}
        }
    }

    pub(super) fn propose_own(&mut self, group: GroupId, entry: Vec<u8>) {
        let ticket = self.ticket(PendingCall::Own(entry.clone()));
        self.give(HostInput::Propose {
            group,
            ticket,
            entry,
        });
    }
}
