//! The cluster's affairs are settled by another group from now on: what machines hear of it, and do.

use muster_consensus::GroupId;
use muster_control::cluster::{Briefing, DESCRIPTION, Document, Entry, Lineage, Succession};
use muster_control::groups::{self, Input};
use muster_gossip::mesh::Reach;
use muster_gossip::record::{MemberState, RecordKey, SuccessionBody};
use muster_model::id::NodeId;
use muster_model::time::Time;

use super::founding::AT_MS;
use super::{At, Cluster, Out};

/// Virtual clusters are waited for so long to say which cells they have, ms.
const HEAR_MS: u64 = 60_000;

/// The number of the description's text, and the machines that are kept free.
pub(super) type Edits = (Option<usize>, Vec<NodeId>);

impl Cluster {
    /// Which groups have settled the cluster's affairs, as far as a machine has heard.
    pub(super) fn heard(&self, node: usize) -> Lineage {
        let core = self.mesh.core(node);
        let said = core.and_then(|core| core.record(RecordKey::Succession));
        let said: Option<SuccessionBody> = said.and_then(|record| record.body().ok());
        Lineage::of_cluster(self.mesh.authority.cluster, said.as_ref())
    }

    /// The group that a machine asks.
    pub(super) fn affairs(&self, node: usize) -> GroupId {
        let process = self.machines[node].process.as_ref();
        let lineage = process.and_then(|it| it.core.lineage());
        lineage.map_or(self.group, |it| GroupId(it.group))
    }

    /// This machine says which group it is, for its copy is to be the first one there.
    pub(super) fn succeed(&mut self, now: Time, node: usize, said: &SuccessionBody, out: &mut Out) {
        let from = self.group;
        self.group = GroupId(said.group);
        self.account.recovered(from, self.group);
        self.heard_by = now.plus_millis(HEAR_MS);
        self.in_mesh(out, |mesh, inner| mesh.succeed(now, node, said, inner));
        self.see(now, node, out);
    }

    /// Whether the newest group has been told what others know, and takes what it is asked.
    pub(super) fn has_succeeded(&self) -> bool {
        let leader = self.leader(self.group);
        let process = leader.and_then(|it| self.machines[it].process.as_ref());
        let machine = process.and_then(|it| it.core.groups().host().machine(self.group));
        let Some((process, groups::Machine::Cluster(state))) = process.zip(machine) else {
            return false;
        };
        let known = state.cluster().map(|cluster| cluster.generation);
        known.is_some() && known == process.core.lineage().map(|it| it.generation)
    }

    /// What admins have said last, as far as machines that run have heard of it: the text of the description
    /// and the machines that are kept free.
    pub(super) fn told(&self) -> Edits {
        let processes = self.machines.iter().filter_map(|it| it.process.as_ref());
        let copies = processes.clone().filter_map(|it| {
            match it.core.groups().host().machine(self.group)? {
                groups::Machine::Cluster(state) => state.briefing(),
                groups::Machine::Vc(_) => None,
            }
        });
        let told = processes.filter_map(|it| it.core.briefing());
        let briefings = told.map(|it| Briefing::clone(it)).chain(copies);
        self.edits(briefings.max_by_key(|it| it.version))
    }

    /// What holds of that by the word of the group's leader.
    pub(super) fn in_force(&self) -> Edits {
        let leader = self.leader(self.group);
        let process = leader.and_then(|it| self.machines[it].process.as_ref());
        match process.and_then(|it| it.core.groups().host().machine(self.group)) {
            Some(groups::Machine::Cluster(state)) => self.edits(state.briefing()),
            _ => Edits::default(),
        }
    }

    fn edits(&self, briefing: Option<Briefing>) -> Edits {
        let Some(briefing) = briefing else {
            return Edits::default();
        };
        let closed = briefing.closed.into_keys().collect();
        (self.text(briefing.description), closed)
    }

    /// Whoever leads it first tells it what others know.
    pub(super) fn begin_succession(&mut self, now: Time, node: usize, out: &mut Out) {
        let group = self.affairs(node);
        let Some(process) = &self.machines[node].process else {
            return;
        };
        let Some(groups::Machine::Cluster(state)) = process.core.groups().host().machine(group)
        else {
            return;
        };
        let generation = process.core.lineage().map_or(0, |it| it.generation);
        let unheard = state.unheard();
        if now > self.heard_by && !unheard.is_empty() && self.machines[node].leads(group) {
            let vcs = unheard.clone();
            return self.propose((now, node), group, &Entry::Unheard { vcs }, out);
        }
        let has_begun = state.cluster().is_none_or(|it| it.generation >= generation);
        if has_begun || !self.machines[node].leads(group) {
            return;
        }
        let core = self.mesh.core(node);
        let ever = core.into_iter().flat_map(|core| core.ever());
        let admissions = ever.filter_map(|id| Some((id, core?.member(id)?.body.clone())));
        let news = admissions.filter(|(id, body)| match state.member(*id) {
            Some(known) => known.is_admitted() && body.state != MemberState::Admitted,
            None => true,
        });
        let reached = |other: &usize| self.mesh.reach_of(node, *other) != Reach::Unreachable;
        let others = (0..self.machines.len()).filter(reached);
        let told = others.filter_map(|it| self.machines[it].process.as_ref()?.core.briefing());
        let told = told.max_by_key(|it| it.version);
        let told = told.map(|told| Briefing::clone(told));
        let known = state.document(DESCRIPTION).map_or(0, Document::version);
        let newer = told.as_ref().map_or(0, |told| told.description);
        let documents = (newer > known).then(|| self.said_in(newer)).flatten();
        let entry = Entry::Succession(Box::new(Succession {
            generation,
            members: news.collect(),
            documents: documents.into_iter().collect(),
            told: told.map(Box::new),
            at_ms: AT_MS,
        }));
        self.propose((now, node), group, &entry, out);
    }

    fn propose(&mut self, (now, node): At, group: GroupId, entry: &Entry, out: &mut Out) {
        let entry = entry.encode().unwrap_or_default();
        let reply = Box::new(|_| ());
        let propose = Input::Propose {
            group,
            entry,
            reply,
        };
        self.keep(now, node, propose, out);
    }
}
