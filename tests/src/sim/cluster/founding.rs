//! How a cluster begins, and what its admins change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_consensus::{GroupId, Home, ReplicaId};
use muster_control::cluster::voters::{self, Candidate, Wanted};
use muster_control::cluster::{
    Admission, Birth, Copy, DESCRIPTION, Edit, Entry, Founder, Hidden, Init, Keys, Lineage,
    NewToken, Secret,
};
use muster_control::groups::copies::VOTERS_MAX;
use muster_control::groups::{self, GENERATION, name};
use muster_gossip::join::{TokenId, TokenKey};
use muster_gossip::key::NodeKey;
use muster_gossip::mesh::Reach;
use muster_gossip::record::{BodyId, SuccessionBody};
use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::VcName;
use muster_model::time::Time;

use super::asking::Purpose;
use super::frame::{Answer, Question, What};
use super::machine::Process;
use super::{Cluster, Out, number};
use crate::sim::mesh::{Authority, member};

/// Who is asked for a change, it is asked for so long, ms.
const PATIENCE_MS: u64 = 10_000;
const TOKEN: TokenId = TokenId([1; 5]);
pub(super) const AT_MS: u64 = 1_800_000_000_000;

/// What became of admins' changes.
#[derive(Debug, Default)]
pub(super) struct Admin {
    next: u64,
    done: BTreeMap<u64, Result<(), String>>,
}

impl Cluster {
    /// The first machine has the first copy of the cluster's group, if it had none before.
    pub(super) fn found(&mut self, now: Time, out: &mut Out) {
        let home = Home {
            node: number(0),
            store: self.machines[0].store.id,
        };
        if self.machines[0].store.copies() > 0 || self.founded {
            return;
        }
        self.founded = true;
        let birth = groups::Input::Birth {
            group: self.group,
            homes: [(ReplicaId(1), home)].into(),
        };
        self.keep(now, 0, birth, out);
    }

    /// An admin at this machine changes something. The number of the change.
    pub(super) fn administer(
        &mut self,
        now: Time,
        node: usize,
        entry: &Entry,
        out: &mut Out,
    ) -> u64 {
        self.admin.next += 1;
        let change = self.admin.next;
        let bytes = entry.encode().unwrap_or_default();
        let question = Question {
            group: self.affairs(node),
            what: What::Propose(bytes.into()),
        };
        let purpose = Purpose::Admin(change);
        self.ask((now, node), (question, purpose), PATIENCE_MS, out);
        change
    }

    /// What came of an admin's change.
    pub(super) fn done(&mut self, change: u64, answer: Option<&Answer>) {
        let result = match answer {
            Some(Answer::Settled(Ok(_))) => Ok(()),
            Some(Answer::Settled(Err(rejected))) => Err(rejected.to_string()),
            Some(answer) => Err(format!("{answer:?}")),
            None => Err("nobody answered".to_owned()),
        };
        self.admin.done.insert(change, result);
    }

    /// What came of an admin's change, if anything has.
    pub(super) fn outcome(&self, change: u64) -> Option<&Result<(), String>> {
        self.admin.done.get(&change)
    }

    /// The entries that a cluster of all machines begins with.
    pub(super) fn founding(&self) -> Vec<Entry> {
        let root = self.mesh.authority.root();
        let rack = |node| {
            let rack = Authority::rack(node, self.machines.len());
            format!("r{rack}").parse().unwrap_or_default()
        };
        let init = Entry::Init(Box::new(Init {
            name: "farm".parse().unwrap_or_default(),
            root,
            signing: NodeKey([101; 32]),
            secret: Secret([102; 32]),
            certificate: vec![103; 200],
            feature_level: 1,
            founder: Founder {
                key: self.mesh.authority.node_key(0),
                name: self.machines[0].name.clone(),
                rack: rack(0),
            },
            vcs: Vec::new(),
            users: BTreeMap::new(),
            keys: Keys {
                data: Hidden([104; 32]),
                link: Hidden([105; 32]),
                token: Hidden(vec![106; 80]),
            },
            at_ms: AT_MS,
        }));
        let token = Entry::TokenCreated(Box::new(NewToken {
            id: TOKEN,
            key: TokenKey([1; 32]),
            expires_ms: AT_MS + 100_000_000,
            uses: 10_000,
            votes: true,
            author: "admin".parse().unwrap_or_default(),
            at_ms: AT_MS,
        }));
        let admitted = |node: usize| {
            Entry::Admitted(Box::new(Admission {
                token: TOKEN,
                key: self.mesh.authority.node_key(node),
                name: self.machines[node].name.clone(),
                rack: rack(node),
                at_ms: AT_MS,
            }))
        };
        let others = (1..self.machines.len()).map(admitted);
        [init, token].into_iter().chain(others).collect()
    }

    /// The version of the description in force; 0 if there is none.
    pub(super) fn described(&self) -> u64 {
        match self.descriptions.last_key_value() {
            Some((version, _)) => *version,
            None => 0,
        }
    }

    /// The entry that describes the cluster so, made after so many versions. Virtual clusters that are
    /// new are born with it.
    pub(super) fn description(&mut self, spec: ClusterSpec, base: u64) -> Entry {
        let known: Vec<_> = self.account.vcs.values().cloned().collect();
        let named = spec.virtual_clusters.keys();
        let new: Vec<VcName> = named.filter(|vc| !known.contains(vc)).cloned().collect();
        let births: Vec<_> = new.into_iter().map(|vc| self.birth(vc)).collect();
        for birth in &births {
            let group = muster_consensus::GroupId(birth.group);
            self.account.vcs.insert(group, birth.vc.clone());
        }
        self.texts.push(Arc::new(spec));
        let text = self.texts.len().to_string();
        Entry::DocumentEdited(Box::new(Edit {
            id: DESCRIPTION,
            base,
            body: BodyId::of(text.as_bytes()),
            author: "admin".parse().unwrap_or_default(),
            at_ms: AT_MS,
            forced: true,
            births,
        }))
    }

    /// A description was committed: what it says is known by its body.
    pub(super) fn note_description(&mut self, edit: &Edit) {
        self.note_version(edit.base + 1, &edit.body);
    }

    /// The number of the text that this version of the description has.
    pub(super) fn text(&self, version: u64) -> Option<usize> {
        let spec = self.descriptions.get(&version)?;
        let text = self.texts.iter().position(|it| Arc::ptr_eq(it, spec))?;
        Some(text + 1)
    }

    /// What this version of the description says, once more.
    pub(super) fn said_in(&self, version: u64) -> Option<Edit> {
        let text = self.text(version)?;
        Some(Edit {
            id: DESCRIPTION,
            base: version,
            body: BodyId::of(text.to_string().as_bytes()),
            author: "admin".parse().unwrap_or_default(),
            at_ms: AT_MS,
            forced: true,
            births: Vec::new(),
        })
    }

    /// The description in force came into force once more, by the word of this machine's copy.
    pub(super) fn note_restated(&mut self, node: usize) {
        let process = self.machines[node].process.as_ref();
        let machine = process.and_then(|it| it.core.groups().host().machine(self.group));
        let Some(groups::Machine::Cluster(state)) = machine else {
            return;
        };
        let document = state.document(DESCRIPTION);
        let active = document.and_then(|it| it.revision(it.active()));
        if let Some((version, body)) = active.map(|it| (it.version, it.body)) {
            self.note_version(version, &body);
        }
    }

    fn note_version(&mut self, version: u64, body: &BodyId) {
        let of = |text: usize| BodyId::of(text.to_string().as_bytes());
        let text = (1..=self.texts.len()).find(|text| of(*text) == *body);
        if let Some(spec) = text.and_then(|text| self.texts.get(text - 1)) {
            self.descriptions.insert(version, spec.clone());
        }
    }

    /// The entry that has a virtual cluster go on from the best copy that is left, by what machines that
    /// are awake say.
    pub(super) fn recovery(&mut self, group: GroupId, awake: &[usize]) -> Result<Entry, String> {
        let new = name::new_vc(self.random.next()).0;
        let processes = self.processes(awake);
        let briefings = processes.iter().filter_map(|it| it.core.briefing());
        let briefing = briefings.max_by_key(|it| it.version);
        let mut births = briefing.into_iter().flat_map(|it| &it.vcs);
        let known = births.find(|birth| birth.group == group.0);
        let known = known.ok_or("nobody was told of it")?;
        let copies = copies(&processes, &known.lineage());
        let plan = known.lineage().recovery(&copies, &BTreeSet::new(), new);
        let plan = plan.map_err(|why| format!("{why:?}"))?;
        Ok(Entry::Recovered(Box::new(plan.birth(known.vc.clone()))))
    }

    /// How the cluster itself would go on from the best copy of its own group that is left.
    pub(super) fn succession(&mut self, awake: &[usize]) -> Result<SuccessionBody, String> {
        let new = name::new_cluster(self.random.next()).0;
        let processes = self.processes(awake);
        let lineages = processes.iter().filter_map(|it| it.core.lineage());
        let known = lineages.max_by_key(|it| it.generation);
        let known = known.ok_or("nobody is awake")?;
        let plan = known.recovery(&copies(&processes, known), &BTreeSet::new(), new);
        let plan = plan.map_err(|why| format!("{why:?}"))?;
        plan.lineage
            .said()
            .ok_or_else(|| "it has no home".to_owned())
    }

    fn processes(&self, awake: &[usize]) -> Vec<&Process> {
        let processes = awake.iter().map(|node| &self.machines[*node].process);
        processes.flatten().collect()
    }

    /// A virtual cluster goes on in another group.
    pub(super) fn note_recovery(&mut self, birth: &Birth) {
        if let Some(from) = birth.before.last() {
            let (from, to) = (GroupId(*from), GroupId(birth.group));
            self.account.recovered(from, to);
            self.users.recovered(from, to);
            self.figures.recovered(from, to);
            if std::mem::take(&mut self.loses) {
                self.forgets = Some(to);
            }
        }
    }

    fn birth(&mut self, vc: VcName) -> Birth {
        let group = name::new_vc(self.random.next()).0;
        let wanted = Wanted {
            group,
            voters_max: VOTERS_MAX,
            apart: true,
        };
        let candidate = |node: usize| Candidate {
            member: member(node),
            rack: format!("r{}", Authority::rack(node, self.machines.len()))
                .parse()
                .unwrap_or_default(),
            reach: Reach::Alive,
            since_ms: 0,
            votes: true,
            has_store: true,
            is_drained: false,
            keeps_affairs: self.keeps_affairs(self.group, node),
        };
        let candidates: Vec<_> = (0..self.machines.len()).map(candidate).collect();
        let home = |member: &muster_gossip::MemberId| muster_control::cluster::Home {
            member: *member,
            store: self.machines[member.index()].store.id.0,
        };
        let first = voters::first(&wanted, &candidates);
        Birth {
            vc,
            group,
            generation: GENERATION,
            homes: first.iter().map(home).collect(),
            before: Vec::new(),
        }
    }
}

/// What these say of their copies of all groups of a lineage.
fn copies(processes: &[&Process], of: &Lineage) -> Vec<Copy> {
    let copy = |group: u64, process: &Process| {
        Copy::of(group, &process.core.groups().host().view(GroupId(group))?)
    };
    let groups = of.groups().into_iter();
    let copies = groups.flat_map(|group| processes.iter().filter_map(move |it| copy(group, it)));
    copies.collect()
}
