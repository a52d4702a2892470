//! What an agent's tasks do now and then: the briefing, who is there, and who has copies of what is led
//! here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use muster_consensus::{GroupId, Home, ReplicaId};
use muster_control::cluster::{Birth, Briefing};
use muster_control::coordinator::Cordon;
use muster_control::groups::copies::{Place, Places, Step, next};
use muster_control::groups::{Input, VcGroup, name};
use muster_gossip::mesh::Reach;
use muster_model::id::VcName;
use muster_model::time::Time;

use super::asking::Purpose;
use super::frame::{Answer, Question, What};
use super::machine::{Due, name_of};
use super::{Cluster, Out, number};
use crate::sim::mesh::{Authority, member};
use crate::sim::protocol::Seen;

/// Between two rounds of duties, ms.
const PAUSE_MS: u64 = 500;
/// The briefing is asked for so long, ms.
const BRIEF_MS: u64 = 2_000;
/// The term of a virtual cluster, ms.
const TERM_MS: u64 = 10_000;

impl Cluster {
    pub(super) fn duties(&mut self, now: Time, node: usize, out: &mut Out) {
        self.follow_succession(now, node, out);
        self.begin_succession(now, node, out);
        self.brief(now, node, out);
        self.see_to_copies(now, node, out);
        self.count_voters(node);
        if !self.outcasts.is_empty() {
            // Keepers are told of members again and again, for once may be too early for them.
            self.see(now, node, out);
        }
        self.machines[node].later(now.plus_millis(PAUSE_MS), Due::Duties);
    }

    fn brief(&mut self, now: Time, node: usize, out: &mut Out) {
        let Some(process) = &self.machines[node].process else {
            return;
        };
        let have = process.briefing.as_ref().map_or(0, |it| it.version);
        let question = Question {
            group: self.affairs(node),
            what: What::Brief(have),
        };
        self.ask((now, node), (question, Purpose::Brief), BRIEF_MS, out);
    }

    /// The leader of the `cluster` group has answered, or not.
    pub(super) fn briefed(
        &mut self,
        now: Time,
        node: usize,
        answer: Option<Answer>,
        out: &mut Out,
    ) {
        let Some(Answer::Brief(Some(briefing))) = answer else {
            return;
        };
        let known = self.machines[node].process.as_ref();
        let known = known.and_then(|it| it.briefing.as_ref());
        if known.is_some_and(|known| known.version >= briefing.version) {
            return;
        }
        self.machines[node].kept = Some(briefing.clone());
        self.go_by(now, node, briefing, out);
    }

    /// A machine goes by this briefing from now on.
    pub(super) fn go_by(&mut self, now: Time, node: usize, briefing: Briefing, out: &mut Out) {
        let Some(process) = &mut self.machines[node].process else {
            return;
        };
        let before = process.briefing.replace(briefing.clone());
        let before = before.map_or_else(BTreeMap::new, |it| groups_of(&it.vcs));
        let vcs = groups_of(&briefing.vcs);
        self.keep(now, node, Input::Serve { vcs: vcs.clone() }, out);
        for birth in &briefing.vcs {
            self.bear(now, node, birth, out);
        }
        let cordons = briefing.closed.keys();
        let cordons = cordons.map(|name| (name.clone(), Cordon::default()));
        self.keep(now, node, Input::Cordoned(cordons.collect()), out);
        let version = briefing.description;
        let spec = self.descriptions.get(&version);
        let described = spec.map(|spec| (version, spec.clone()));
        self.keep(now, node, Input::Described(described), out);
        self.see(now, node, out);
        for (vc, group) in &vcs {
            if before.get(vc) != Some(group) {
                self.learn(now, node, group.id, out);
            }
        }
    }

    /// A machine that is named among the first has a copy.
    fn bear(&mut self, now: Time, node: usize, birth: &Birth, out: &mut Out) {
        if !birth.before.is_empty() {
            return self.keep(now, node, Input::Inherit(birth.lineage()), out);
        }
        let mine = self.machines[node].store.id.0;
        let here = |home: &muster_control::cluster::Home| {
            home.member == member(node) && home.store == mine
        };
        if !birth.homes.iter().any(here) {
            return;
        }
        let homes = (1..).map(ReplicaId).zip(&birth.homes).map(|(id, home)| {
            let home = Home {
                node: name::node(home.member),
                store: muster_consensus::StoreId(home.store),
            };
            (id, home)
        });
        let group = GroupId(birth.group);
        let homes = homes.collect();
        self.keep(now, node, Input::Birth { group, homes }, out);
    }

    /// The term of a virtual cluster is asked for: before it is known the ledger admits no order.
    pub(super) fn learn(&mut self, now: Time, node: usize, group: GroupId, out: &mut Out) {
        let Some(vc) = self.account.vcs.get(&group).cloned() else {
            return;
        };
        let question = Question {
            group,
            what: What::Term,
        };
        let purpose = Purpose::Learn(group, vc);
        self.ask((now, node), (question, purpose), TERM_MS, out);
    }

    /// The group of a virtual cluster, as far as a machine was briefed.
    pub(super) fn group_of(&self, node: usize, vc: &VcName) -> Option<GroupId> {
        let process = self.machines[node].process.as_ref()?;
        let births = &process.briefing.as_ref()?.vcs;
        let birth = births.iter().find(|birth| birth.vc == *vc)?;
        Some(GroupId(birth.group))
    }

    /// Tells the keeper who can be reached, if that has changed.
    pub(super) fn see_others(&mut self, now: Time, node: usize, out: &mut Out) {
        let reach = |seen: &Seen| matches!(seen, Seen::Reach { .. });
        let Some(process) = &mut self.machines[node].process else {
            return;
        };
        if out.seen.iter().any(reach) || std::mem::take(&mut process.looks) {
            self.see(now, node, out);
        }
    }

    fn see(&mut self, now: Time, node: usize, out: &mut Out) {
        let all = 0..self.machines.len();
        let reach = |other: usize| self.mesh.reach_of(node, other) != Reach::Unreachable;
        let all = all.filter(|other| self.holds_for_member(node, *other));
        let members = all.clone().map(|other| (number(other), reach(other)));
        let names = all.map(|other| (name_of(other), number(other)));
        let others = Input::Others {
            members: members.collect(),
            names: names.collect(),
            cluster: (self.group, self.cluster_voters),
        };
        self.keep(now, node, others, out);
    }

    /// Members say in their records whether they have a vote in the cluster's group.
    fn count_voters(&mut self, node: usize) {
        if !self.machines[node].leads(self.group) {
            return;
        }
        let process = self.machines[node].process.as_ref();
        let view = process.and_then(|it| it.keeper.host().view(self.group));
        let voters = view.map_or(0, |view| view.voters.len());
        if voters != self.cluster_voters {
            self.cluster_voters = voters;
            let running = self.machines.iter_mut();
            running
                .filter_map(|machine| machine.process.as_mut())
                .for_each(|process| process.looks = true);
        }
    }

    /// Who has copies of the groups that are led here.
    fn see_to_copies(&mut self, now: Time, node: usize, out: &mut Out) {
        let groups = self.account.vcs.keys().copied().chain([self.affairs(node)]);
        let led: BTreeSet<_> = groups
            .filter(|group| self.machines[node].leads(*group))
            .collect();
        if let Some(process) = &mut self.machines[node].process {
            process.sightings.retain(|group, _| led.contains(group));
        }
        if led.is_empty() {
            return;
        }
        let places = Arc::new(self.places(node));
        for group in led {
            self.see_to(now, node, (group, places.clone()), out);
        }
    }

    fn see_to(
        &mut self,
        now: Time,
        node: usize,
        (group, places): (GroupId, Arc<Places>),
        out: &mut Out,
    ) {
        let ticks = self.machines[node].keeper_now(now).steady;
        let Some(process) = &mut self.machines[node].process else {
            return;
        };
        let sightings = process.sightings.entry(group).or_default();
        sightings.update(ticks, &places);
        let candidates = sightings.candidates(ticks, &places, &BTreeSet::new());
        let found = Arc::new(Mutex::new(None));
        let step = found.clone();
        let looking = Box::new(move |local: Option<muster_control::groups::Local<'_>>| {
            let standing = local.map(|local| local.standing);
            let standing = standing.filter(|standing| standing.view.leads);
            let what = standing.and_then(|it| next(&it, &candidates, &places, group));
            *step.lock().unwrap_or_else(PoisonError::into_inner) = what;
        });
        self.keep(now, node, Input::Look { group, looking }, out);
        let step = found.lock().unwrap_or_else(PoisonError::into_inner).take();
        match step {
            Some(Step::Change(changes)) => {
                let reply = Box::new(|_| ());
                let change = Input::Change {
                    group,
                    changes,
                    reply,
                };
                self.keep(now, node, change, out);
            }
            Some(Step::HandOver(to)) => self.keep(now, node, Input::Transfer { group, to }, out),
            None => {}
        }
    }

    /// Every member, as this one sees it.
    fn places(&self, node: usize) -> Places {
        let affairs = self.affairs(node);
        let place = |other: usize| {
            let machine = &self.machines[other];
            let rack = Authority::rack(other, self.machines.len());
            let place = Place {
                rack: format!("r{rack}").parse().unwrap_or_default(),
                votes: true,
                reach: self.mesh.reach_of(node, other),
                store: Some(machine.store.id),
                copies: machine.store.copies(),
                is_drained: false,
                keeps_affairs: self.keeps_affairs(affairs, other),
            };
            (member(other), place)
        };
        let all = 0..self.machines.len();
        let members = all.filter(|other| self.holds_for_member(node, *other));
        members.map(place).collect()
    }

    /// Whether a machine says that it votes on the cluster's affairs.
    pub(super) fn keeps_affairs(&self, affairs: GroupId, node: usize) -> bool {
        let process = self.machines[node].process.as_ref();
        let view = process.and_then(|it| it.keeper.host().view(affairs));
        view.is_some_and(|view| view.voters.contains(&view.replica))
    }
}

fn groups_of(births: &[Birth]) -> BTreeMap<VcName, VcGroup> {
    let group = |birth: &Birth| (birth.vc.clone(), VcGroup::of(birth));
    births.iter().map(group).collect()
}
