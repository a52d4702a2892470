//! How a cluster begins, and what its admins change: with the requests that agents send for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_consensus::{GroupId, ReplicaHome, ReplicaId};
use muster_control::cluster::{
    ClusterEntry, ClusterInit, DESCRIPTION, DocumentEdit, Founder, Hidden, Keys, Secret, VcCreation,
};
use muster_control::groups;
use muster_control::request::cluster::{Admit as Ask, EditDocument, OfCluster};
use muster_control::request::member::OfMember;
use muster_control::request::{AnyRequest, RequestFailure, decode_answer};
use muster_gossip::join::{AdmissionRequest, Claim, JoinToken, Nonce, Proof};
use muster_gossip::record::{BodyId, RecordKey};
use muster_model::cluster_spec::ClusterSpec;
use muster_model::time::Time;

use super::asking::{Call, Purpose};
use super::here::Identity;
use super::{Cluster, Out, number};
use crate::sim::mesh::{SimAuthority, member};

/// Who is asked for a change, it is asked for so long, ms.
const PATIENCE_MS: u64 = 10_000;
const AT_MS: u64 = 1_800_000_000_000;
/// The seed of the key that signs for the cluster, as its state has it.
const SECRET: Secret = Secret([102; 32]);
/// Who changes things.
pub(super) const ADMIN: &str = "admin";

/// What became of admins' changes.
#[derive(Debug, Default)]
pub(super) struct Admin {
    next: u64,
    done: BTreeMap<u64, Result<Arc<[u8]>, String>>,
}

impl Cluster {
    /// Who answers on a machine.
    pub(super) fn identity(&self, node: usize) -> Identity {
        Identity {
            cluster: self.mesh.authority.cluster,
            me: member(node),
            store: self.machines[node].store.id,
            signer: self.mesh.authority.cluster_signer().clone(),
            secret: SECRET,
        }
    }

    /// The first machine has the first copy of the cluster's group, if it had none before.
    pub(super) fn found(&mut self, now: Time, out: &mut Out) {
        let home = ReplicaHome {
            node: number(0),
            store: self.machines[0].store.id,
        };
        if self.machines[0].store.copies() > 0 || self.founded {
            return;
        }
        self.founded = true;
        let creation = groups::GroupHostInput::Creation {
            group: self.group,
            homes: [(ReplicaId(1), home)].into(),
        };
        self.keep(now, 0, creation, out);
    }

    /// The first entry.
    pub(super) fn init(&mut self, now: Time, out: &mut Out) {
        let core = self.mesh.core(0);
        let certificate = core.and_then(|core| core.record(RecordKey::Cluster));
        let init = ClusterEntry::Init(Box::new(ClusterInit {
            name: "farm".parse().unwrap_or_default(),
            root: self.mesh.authority.root(),
            signing: muster_gossip::Sign::key(self.mesh.authority.cluster_signer()),
            secret: SECRET,
            certificate: certificate.map_or_else(Vec::new, |it| it.bytes().to_vec()),
            feature_level: 1,
            founder: Founder {
                key: self.mesh.authority.node_key(0),
                name: self.machines[0].name.clone(),
                rack: self.rack(0).parse().unwrap_or_default(),
            },
            vcs: Vec::new(),
            users: BTreeMap::new(),
            keys: Keys {
                data: Hidden([104; 32]),
                link: Hidden([105; 32]),
                token: Hidden(vec![106; 80]),
                token_number: 1,
                retired: Vec::new(),
            },
            at_ms: AT_MS,
        }));
        let propose = groups::GroupHostInput::Propose {
            group: self.group,
            entry: init.encode().unwrap_or_default(),
            reply: Box::new(|_| ()),
        };
        self.keep(now, 0, propose, out);
    }

    /// Whether there is one.
    pub(super) fn has_begun(&self) -> bool {
        let process = self.machines[0].process.as_ref();
        let machine = process.and_then(|it| it.core.groups().host().machine(self.group));
        matches!(machine, Some(groups::GroupState::Cluster(state)) if state.cluster().is_some())
    }

    fn rack(&self, node: usize) -> String {
        format!("r{}", SimAuthority::rack(node, self.machines.len()))
    }

    /// A machine asks the first one to be let in.
    pub(super) fn admission_request(&self, node: usize, token: &JoinToken) -> Ask {
        let nonce = u8::try_from(node % 251).unwrap_or_default();
        let claim = Claim {
            cluster: self.mesh.authority.cluster,
            token: token.id,
            joiner: self.mesh.authority.node_key(node),
            node: self.mesh.authority.node_key(0),
            joiner_nonce: Nonce([nonce; 32]),
            node_nonce: Nonce([251; 32]),
            name: self.machines[node].name.clone(),
            rack: self.rack(node).parse().unwrap_or_default(),
            agent_version: "0.1.0".parse().unwrap_or_default(),
            feature_level: 1,
        };
        let proof = Proof::new(&claim, &token.key()).unwrap_or(Proof([0; 32]));
        Ask(AdmissionRequest { claim, proof }
            .encode()
            .unwrap_or_default())
    }

    /// An admin at this machine wants something of whoever leads the cluster. The number of the change.
    pub(super) fn administer<R: OfCluster>(
        &mut self,
        now: Time,
        node: usize,
        request: R,
        out: &mut Out,
    ) -> u64 {
        self.admin.next += 1;
        let change = self.admin.next;
        let asked = (self.to_cluster(node, request), Purpose::Admin(change));
        self.ask((now, node), asked, PATIENCE_MS, out);
        change
    }

    /// An admin at this machine wants something of it alone.
    pub(super) fn administer_here<R: OfMember>(
        &mut self,
        now: Time,
        node: usize,
        request: R,
        out: &mut Out,
    ) -> u64 {
        self.admin.next += 1;
        let change = self.admin.next;
        let request = AnyRequest::Member(request.into()).encode();
        let asked = (request.unwrap_or_default().into(), Call::Admin(change));
        self.call((now, node), node, asked, out);
        change
    }

    /// What came of an admin's change.
    pub(super) fn done(&mut self, change: u64, answer: Result<&[u8], &RequestFailure>) {
        let result = match answer {
            Ok(bytes) => match decode_answer::<()>(bytes) {
                Ok(Err(failure)) => Err(failure.to_string()),
                _ => Ok(bytes.into()),
            },
            Err(failure) => Err(failure.to_string()),
        };
        self.admin.done.insert(change, result);
    }

    /// What came of an admin's change, if anything has.
    pub(super) fn outcome(&self, change: u64) -> Option<&Result<Arc<[u8]>, String>> {
        self.admin.done.get(&change)
    }

    /// The version of the description in force; 0 if there is none.
    pub(super) fn described(&self) -> u64 {
        match self.descriptions.last_key_value() {
            Some((version, _)) => *version,
            None => 0,
        }
    }

    /// The edit that describes the cluster so, made after so many versions.
    pub(super) fn description(&mut self, text: String, base: u64) -> EditDocument {
        let spec = match ClusterSpec::from_hived_yaml(&text) {
            Ok(spec) => spec,
            Err(problems) => panic!("bug in the simulator: {problems:?}"),
        };
        let body = BodyId::of(text.as_bytes());
        if !self.texts.iter().any(|(known, _)| *known == body) {
            self.texts.push((body, Arc::new(spec)));
        }
        EditDocument {
            document: DESCRIPTION.0,
            base,
            text,
            now: false,
            by: ADMIN.to_owned(),
        }
    }

    /// A description was committed: what it says is known by its body. Virtual clusters that are new are born
    /// with it.
    pub(super) fn note_description(&mut self, edit: &DocumentEdit) {
        for creation in &edit.creations {
            self.account
                .vcs
                .insert(GroupId(creation.group), creation.vc.clone());
        }
        self.note_version(edit.base + 1, &edit.body);
    }

    /// The number of the text that this version of the description has.
    pub(super) fn text(&self, version: u64) -> Option<usize> {
        let spec = self.descriptions.get(&version)?;
        let text = self
            .texts
            .iter()
            .position(|(_, it)| Arc::ptr_eq(it, spec))?;
        Some(text + 1)
    }

    /// The description in force came into force once more, by the word of this machine's copy.
    pub(super) fn note_restated(&mut self, node: usize) {
        let process = self.machines[node].process.as_ref();
        let machine = process.and_then(|it| it.core.groups().host().machine(self.group));
        let Some(groups::GroupState::Cluster(state)) = machine else {
            return;
        };
        let document = state.document(DESCRIPTION);
        let active = document.and_then(|it| it.revision(it.active()));
        if let Some((version, body)) = active.map(|it| (it.version, it.body)) {
            self.note_version(version, &body);
        }
    }

    fn note_version(&mut self, version: u64, body: &BodyId) {
        let text = self.texts.iter().find(|(known, _)| known == body);
        if let Some((_, spec)) = text {
            self.descriptions.insert(version, spec.clone());
        }
    }

    /// A virtual cluster goes on in another group.
    pub(super) fn note_recovery(&mut self, creation: &VcCreation) {
        if let Some(from) = creation.before.last() {
            let (from, to) = (GroupId(*from), GroupId(creation.group));
            self.account.recovered(from, to);
            self.users.recovered(from, to);
            self.figures.recovered(from, to);
            if std::mem::take(&mut self.loses) {
                self.forgets = Some(to);
            }
        }
    }
}
