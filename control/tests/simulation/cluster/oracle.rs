//! What must hold, remembered apart from the state: what was promised once is compared with what
//! the state says now.

use std::collections::{BTreeMap, BTreeSet};

use muster_control::cluster::{
    ActivationProgress, Admission, ClusterApplied, ClusterDocument, ClusterEntry, ClusterMap,
    ClusterRejection, ClusterState, MemberHealth, Revision, StatementBody, UserTokenIssue,
    VersionStage,
};
use muster_gossip::join::TokenId;
use muster_gossip::key::NodeKey;
use muster_gossip::member::MemberId;
use muster_gossip::mesh::Reach;
use muster_gossip::record::{AdmissionState, BodyId, DocumentId, RecordKey, RecordVersion};
use muster_model::id::{NodeId, UserName};
use muster_model::user_token::TokenSelection;

#[derive(Debug)]
struct Person {
    key: NodeKey,
    name: NodeId,
    token: Option<TokenId>,
    votes: bool,
    state: AdmissionState,
}

#[derive(Debug)]
struct TokenPromise {
    uses: u32,
    votes: bool,
    expires_ms: u64,
    revoked: bool,
    created: u64,
    admitted: u32,
}

#[derive(Debug, Default)]
pub(super) struct Oracle {
    people: Vec<Person>,
    tokens: BTreeMap<TokenId, TokenPromise>,
    /// When each key was expelled last, as an index of the log.
    expelled: BTreeMap<NodeKey, u64>,
    edits: BTreeMap<DocumentId, Vec<BodyId>>,
    active: BTreeMap<DocumentId, u64>,
    stages: BTreeMap<(DocumentId, u64), u8>,
    records: BTreeMap<RecordKey, (RecordVersion, StatementBody)>,
    /// Users' tokens that are good, with their ends.
    issued: BTreeMap<(UserName, String), Option<u64>>,
    cluster_map: Option<ClusterMap>,
}

impl Oracle {
    /// Whether this number was given already.
    pub(super) fn knows(&self, id: MemberId) -> bool {
        id.index() < self.people.len()
    }

    /// Compares an entry's result, and the state after it, with what was promised before.
    pub(super) fn look(
        &mut self,
        index: u64,
        entry: &ClusterEntry,
        result: &Result<ClusterApplied, ClusterRejection>,
        state: &ClusterState,
    ) {
        self.remember(index, entry, result);
        self.members(state);
        if let (ClusterEntry::DocumentStep(step), Ok(_)) = (entry, result)
            && step.stage == VersionStage::Active
        {
            Self::activated(step.id, state);
        }
        for (id, document) in state.documents() {
            self.document(id, document);
        }
        self.records(index, state);
        self.cluster_map(index, state);
    }

    fn remember(
        &mut self,
        index: u64,
        entry: &ClusterEntry,
        result: &Result<ClusterApplied, ClusterRejection>,
    ) {
        match (entry, result) {
            (ClusterEntry::Init(init), Ok(_)) => self.people.push(Person {
                key: init.founder.key,
                name: init.founder.name.clone(),
                token: None,
                votes: true,
                state: AdmissionState::Admitted,
            }),
            (ClusterEntry::TokenCreated(new), Ok(_)) => {
                let promise = TokenPromise {
                    uses: new.uses,
                    votes: new.votes,
                    expires_ms: new.expires_ms,
                    revoked: false,
                    created: index,
                    admitted: 0,
                };
                assert!(
                    self.tokens.insert(new.id, promise).is_none(),
                    "a token made twice"
                );
            }
            (ClusterEntry::TokenRevoked { id, .. }, Ok(_)) => {
                self.tokens.get_mut(id).unwrap().revoked = true;
            }
            (ClusterEntry::Admitted(admission), Ok(ClusterApplied::Member(id))) => {
                self.admitted(admission, *id)
            }
            (ClusterEntry::Left { member, .. }, Ok(_)) => {
                self.end(index, *member, AdmissionState::Left)
            }
            (ClusterEntry::Expelled { member, .. }, Ok(_)) => {
                self.end(index, *member, AdmissionState::Expelled);
            }
            (
                ClusterEntry::Left { member, .. } | ClusterEntry::Expelled { member, .. },
                Err(error),
            ) => {
                self.stays(*member, error);
            }
            (ClusterEntry::DocumentEdited(edit), Ok(_)) => {
                let edits = self.edits.entry(edit.id).or_default();
                assert_eq!(
                    edit.base,
                    edits.len() as u64,
                    "an edit on an old version was taken"
                );
                edits.push(edit.body);
            }
            (
                ClusterEntry::DocumentEdited(edit),
                Err(ClusterRejection::Conflict { current, .. }),
            ) => {
                let version = self.edits.get(&edit.id).map_or(0, Vec::len) as u64;
                assert_eq!(*current, version, "the wrong current version was told");
                assert_ne!(
                    edit.base, version,
                    "an edit on the newest version was refused"
                );
            }
            (ClusterEntry::DocumentEdited(_), Err(other)) => panic!("an edit was refused: {other}"),
            (ClusterEntry::UserToken(issue), Ok(_)) => {
                let UserTokenIssue {
                    user, token, now_s, ..
                } = &**issue;
                let key = (user.clone(), token.text.0.clone());
                if self.issued.contains_key(&key) {
                    return;
                }
                let over = |end: Option<u64>| end.is_some_and(|end| end <= *now_s);
                self.issued
                    .retain(|held, end| held.0 != *user || !over(*end));
                self.issued.insert(key, token.expires_s);
            }
            (ClusterEntry::UserTokensRevoked(revocation), Ok(_)) => {
                let which = &revocation.which;
                self.issued
                    .retain(|(user, text), _| !is_revoked(which, user, text));
            }
            (_, Ok(_) | Err(_)) => {}
        }
    }

    /// Tokens are held as they were issued, and whatever changed gives the cluster map a new version.
    fn cluster_map(&mut self, index: u64, state: &ClusterState) {
        let cluster_map = state.cluster_map().expect("a cluster has a cluster map");
        let users = cluster_map.users.iter();
        let held = users.flat_map(|(name, user)| {
            let tokens = user.tokens.iter();
            tokens.map(|it| ((name.clone(), it.text.0.clone()), it.expires_s))
        });
        assert_eq!(held.collect::<BTreeMap<_, _>>(), self.issued);
        if let Some(before) = self.cluster_map.take() {
            let changed = (&before.users, &before.keys) != (&cluster_map.users, &cluster_map.keys);
            let version = if changed { index } else { before.version };
            assert_eq!(cluster_map.version, version, "a cluster map's version");
        }
        self.cluster_map = Some(cluster_map);
    }

    fn admitted(&mut self, admission: &Admission, id: MemberId) {
        if let Some(person) = self.people.get(id.index()) {
            let (key, token) = (person.key, person.token);
            assert_eq!(
                (key, token),
                (admission.key, Some(admission.token)),
                "given twice"
            );
            assert_eq!(
                person.state,
                AdmissionState::Admitted,
                "who was gone came back"
            );
            return;
        }
        assert_eq!(id.index(), self.people.len(), "numbers are not dense");
        let promise = self
            .tokens
            .get_mut(&admission.token)
            .expect("an unknown token admitted");
        promise.admitted += 1;
        assert!(promise.admitted <= promise.uses, "a use was spent twice");
        assert!(!promise.revoked, "a revoked token admitted");
        assert!(
            admission.at_ms < promise.expires_ms,
            "an expired token admitted"
        );
        let expelled = self
            .expelled
            .get(&admission.key)
            .copied()
            .unwrap_or_default();
        assert!(
            promise.created > expelled,
            "an old token let an expelled node in"
        );
        self.people.push(Person {
            key: admission.key,
            name: admission.name.clone(),
            token: Some(admission.token),
            votes: promise.votes,
            state: AdmissionState::Admitted,
        });
    }

    fn end(&mut self, index: u64, id: MemberId, state: AdmissionState) {
        let person = &mut self.people[id.index()];
        if person.state != state {
            assert_eq!(person.state, AdmissionState::Admitted, "an end was changed");
            person.state = state;
            if state == AdmissionState::Expelled {
                self.expelled.insert(person.key, index);
            }
        }
    }

    /// Only the last one that may vote stays a member against its will.
    fn stays(&self, id: MemberId, error: &ClusterRejection) {
        let mut others = (0..).zip(&self.people).filter(|(other, _)| *other != id.0);
        let voter = |person: &Person| person.votes && person.state == AdmissionState::Admitted;
        let last = !others.any(|(_, person)| voter(person));
        let person = self.people.get(id.index());
        let is_member = person.is_some_and(|person| person.state == AdmissionState::Admitted);
        if is_member {
            assert_eq!((error, last), (&ClusterRejection::LastVoter(id), true));
        } else {
            assert_eq!(*error, ClusterRejection::NoMember(id));
        }
    }

    fn members(&self, state: &ClusterState) {
        let mut names = BTreeSet::new();
        let mut keys = BTreeSet::new();
        assert_eq!(state.members().count(), self.people.len());
        for ((id, member), person) in state.members().zip(&self.people) {
            assert_eq!(
                (member.key, &member.name),
                (person.key, &person.name),
                "{id:?}"
            );
            assert_eq!(member.state, person.state, "{id:?}");
            if member.is_admitted() {
                assert!(names.insert(&member.name), "two members have one name");
                assert!(keys.insert(member.key), "two members have one key");
                assert_eq!(state.member_by_key(&member.key), Some(id));
                assert_eq!(state.member_by_name(&member.name), Some(id));
            }
        }
        assert_eq!(state.size(), keys.len());
        let voter = |person: &Person| person.votes && person.state == AdmissionState::Admitted;
        assert!(self.people.iter().any(voter), "nobody may vote any more");
        for (id, promise) in &self.tokens {
            let left = state.token(*id).map(|token| token.uses_left);
            assert_eq!(left, Some(promise.uses - promise.admitted), "uses of {id}");
        }
    }

    fn document(&mut self, id: DocumentId, document: &ClusterDocument) {
        let edits = &self.edits[&id];
        assert_eq!(document.version(), edits.len() as u64, "a version was lost");
        for revision in document.history() {
            let version = revision.version;
            let edit = edits[version as usize - 1];
            assert_eq!(
                revision.body, edit,
                "version {version} is not what was edited"
            );
            let rank = rank(revision.stage());
            let before = self.stages.insert((id, version), rank);
            assert!(rank >= before.unwrap_or(0), "version {version} went back");
        }
        let active = self.active.entry(id).or_default();
        assert!(
            document.active() >= *active,
            "the version in force went back"
        );
        *active = document.active();
        if *active > 0 {
            let stage = document.revision(*active).map(Revision::stage);
            assert_eq!(
                stage,
                Some(&VersionStage::Active),
                "what is in force is not remembered so"
            );
        }
    }

    /// Active comes after Canary, unless an admin said so or the cluster has one member.
    fn activated(id: DocumentId, state: &ClusterState) {
        let newest = state
            .document(id)
            .and_then(ClusterDocument::newest)
            .unwrap();
        let mut stages = newest.passed.iter().map(|passed| &passed.stage);
        let tried = stages.any(|stage| matches!(stage, VersionStage::Canary(_)));
        assert!(
            tried || newest.forced || state.size() == 1,
            "{newest:?} skipped its canaries"
        );
    }

    fn records(&mut self, index: u64, state: &ClusterState) {
        for statement in state.records() {
            let RecordVersion {
                incarnation,
                number,
            } = statement.version;
            assert!(incarnation == 1 && (1..=index).contains(&number));
            let new = (statement.version, statement.body);
            if let Some(old) = self.records.get(&statement.key) {
                assert!(new.0 >= old.0, "{:?} went back", statement.key);
                assert_eq!(new.0 > old.0, new.1 != old.1, "{:?}", statement.key);
            }
            self.records.insert(statement.key, new);
        }
    }

    /// What is proposed by itself keeps its promises: nothing goes on that a member rejected,
    /// and all who can be reached have it before anybody tries it.
    pub(super) fn look_at_proposal(
        &self,
        entry: &ClusterEntry,
        state: &ClusterState,
        progress: &BTreeMap<DocumentId, ActivationProgress>,
        sights: &BTreeMap<MemberId, MemberHealth>,
    ) {
        let ClusterEntry::DocumentStep(step) = entry else {
            panic!("not a step: {entry:?}")
        };
        if matches!(step.stage, VersionStage::Withdrawn(_)) {
            return;
        }
        let coverage = &progress[&step.id].coverage;
        let bit = |bits: &[u8], id: MemberId| {
            bits.get(id.index() / 8)
                .is_some_and(|byte| byte & (1 << (id.0 % 8)) != 0)
        };
        for (id, _) in state.members().filter(|(_, member)| member.is_admitted()) {
            assert!(
                !bit(&coverage.rejected, id),
                "{step:?} although {id:?} rejected it"
            );
            let reach = sights
                .get(&id)
                .map_or(Reach::Unreachable, |sight| sight.reach);
            if matches!(step.stage, VersionStage::Canary(_)) && reach != Reach::Unreachable {
                assert!(
                    bit(&coverage.valid, id),
                    "{step:?} although {id:?} does not have it"
                );
            }
        }
    }
}

fn rank(stage: &VersionStage) -> u8 {
    match stage {
        VersionStage::Distribute => 0,
        VersionStage::Canary(_) => 1,
        VersionStage::Active | VersionStage::Withdrawn(_) => 2,
    }
}

/// Here the id of a token is its text as a number.
fn is_revoked(which: &TokenSelection, user: &UserName, text: &str) -> bool {
    match which {
        TokenSelection::All => true,
        TokenSelection::OfUser(of) => user == of,
        TokenSelection::Id(of, id) => user == of && id.0.to_string() == text,
        TokenSelection::Text(of, revoked) => user == of && revoked.0 == text,
    }
}
