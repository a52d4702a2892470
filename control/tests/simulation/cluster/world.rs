//! Random entries, members that come, go and fall, and restarts.

use std::collections::{BTreeMap, BTreeSet};

use muster_control::cluster::{
    ActivationProgress, ActivationStep, Admission, Canary, ClusterApplied, ClusterEntry,
    ClusterInit, ClusterRejection, ClusterState, ClusterUser, DocumentEdit, Founder, Hidden, Keys,
    MemberHealth, Proposer, Secret, Soak, TokenIssue, UserToken, UserTokenIssue,
    UserTokensRevocation, VersionStage, steps,
};
use muster_gossip::frame::{Coverage, DocumentRef};
use muster_gossip::join::{TokenId, TokenKey};
use muster_gossip::key::NodeKey;
use muster_gossip::member::{Incarnation, MemberId};
use muster_gossip::mesh::Reach;
use muster_gossip::record::{BodyId, DocumentId};
use muster_model::id::UserName;
use muster_model::people::Author;
use muster_model::user_token::{TokenKind, TokenSelection, UserTokenId};

use super::oracle::Oracle;
use crate::world::Chance;

/// Few of each, so that they meet.
const KEYS: u64 = 9;
const NAMES: u64 = 7;
const TOKENS: u64 = 40;
const DOCUMENTS: u64 = 2;
/// The last of them is never there.
const USERS: u64 = 4;
const USER_TOKENS: u64 = 12;
/// Snapshots that a restart may begin with.
const SNAPSHOTS: usize = 4;

/// What happened, so that a simulation of nothing is noticed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    admitted: usize,
    again: usize,
    rejected: usize,
    conflicts: usize,
    canaries: usize,
    activated: usize,
    withdrawn: usize,
    restarts: usize,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.admitted += other.admitted;
        self.again += other.again;
        self.rejected += other.rejected;
        self.conflicts += other.conflicts;
        self.canaries += other.canaries;
        self.activated += other.activated;
        self.withdrawn += other.withdrawn;
        self.restarts += other.restarts;
    }

    pub(crate) fn is_lively(&self) -> bool {
        let all = [
            self.admitted,
            self.again,
            self.rejected,
            self.conflicts,
            self.canaries,
            self.activated,
            self.withdrawn,
            self.restarts,
        ];
        all.into_iter().all(|count| count > 100)
    }
}

pub(crate) struct World {
    chance: Chance,
    now_ms: u64,
    state: ClusterState,
    /// All entries as bytes; index 1 is the first.
    log: Vec<Vec<u8>>,
    snapshots: Vec<(usize, Vec<u8>)>,
    oracle: Oracle,
    sights: BTreeMap<MemberId, MemberHealth>,
    progress: BTreeMap<DocumentId, ActivationProgress>,
    /// For a node whose answer is lost.
    last_admission: Option<Admission>,
    pub(crate) counts: Counts,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut world = Self {
            chance: Chance::new(seed),
            now_ms: 1_000,
            state: ClusterState::default(),
            log: Vec::new(),
            snapshots: vec![(0, ClusterState::default().snapshot())],
            oracle: Oracle::default(),
            sights: BTreeMap::new(),
            progress: BTreeMap::new(),
            last_admission: None,
            counts: Counts::default(),
        };
        let result = world.commit(&ClusterEntry::Init(Box::new(ClusterInit {
            name: "farm".parse().unwrap(),
            root: NodeKey([100; 32]),
            signing: NodeKey([101; 32]),
            secret: Secret([102; 32]),
            certificate: vec![103; 200],
            feature_level: 1,
            founder: Founder {
                key: NodeKey([0; 32]),
                name: "n0".parse().unwrap(),
                rack: "r".parse().unwrap(),
            },
            vcs: Vec::new(),
            users: (0..USERS - 1).map(|it| (user_name(it), user())).collect(),
            keys: Keys {
                data: Hidden([104; 32]),
                link: Hidden([105; 32]),
                token: Hidden(vec![106; 80]),
                token_number: 1,
                retired: Vec::new(),
            },
            at_ms: 1_000,
        })));
        result.unwrap();
        world
    }

    pub(crate) fn run(&mut self, entries: usize) {
        for _ in 0..entries {
            self.now_ms += self.chance.below(30_000);
            match self.chance.below(100) {
                0..4 => self.restart(),
                4..7 => self.keep_snapshot(),
                7..10 => self.garbage(),
                10..30 => self.mesh(),
                30..50 => self.automatic_step(),
                _ => {
                    let entry = self.entry();
                    let _ = self.commit(&entry);
                }
            }
        }
        self.restart();
    }

    /// When all members are well and find everything valid, every document comes into force or
    /// was withdrawn.
    pub(crate) fn settle(&mut self) {
        for (id, _) in self.state.members() {
            let incarnation = self
                .sights
                .get(&id)
                .map_or(Incarnation(1), |old| old.incarnation);
            let reach = Reach::Alive;
            self.sights.insert(id, MemberHealth { reach, incarnation });
        }
        for (id, document) in self.state.documents() {
            let version = document.version();
            self.progress
                .insert(id, all_well(DocumentRef { id, version }));
        }
        for _ in 0..2 * DOCUMENTS {
            self.now_ms += 200_000;
            self.automatic_step();
        }
        assert_eq!(self.next_step(), None, "something is left to do");
        for (id, document) in self.state.documents() {
            let stage = document.newest().unwrap().stage();
            let over = matches!(stage, VersionStage::Active | VersionStage::Withdrawn(_));
            assert!(over, "{id:?} is not settled: {stage:?}");
        }
    }

    /// Applies an entry as the log would, has the oracle look, and counts.
    fn commit(&mut self, entry: &ClusterEntry) -> Result<ClusterApplied, ClusterRejection> {
        let before = self.state.snapshot();
        self.log.push(entry.encode().unwrap());
        let index = self.log.len() as u64;
        let result = self.state.apply(index, entry);
        if result.is_err() {
            assert_eq!(
                self.state.snapshot(),
                before,
                "{entry:?} was rejected, yet it changed"
            );
        }
        self.count(entry, &result);
        self.oracle.look(index, entry, &result, &self.state);
        result
    }

    fn count(&mut self, entry: &ClusterEntry, result: &Result<ClusterApplied, ClusterRejection>) {
        let counts = &mut self.counts;
        match (entry, result) {
            (ClusterEntry::Admitted(_), Ok(ClusterApplied::Member(id)))
                if self.oracle.knows(*id) =>
            {
                counts.again += 1;
            }
            (ClusterEntry::Admitted(_), Ok(_)) => counts.admitted += 1,
            (_, Err(ClusterRejection::Conflict { .. })) => counts.conflicts += 1,
            (_, Err(_)) => counts.rejected += 1,
            (ClusterEntry::DocumentStep(step), Ok(_)) => match step.stage {
                VersionStage::Canary(_) => counts.canaries += 1,
                VersionStage::Active => counts.activated += 1,
                VersionStage::Withdrawn(_) => counts.withdrawn += 1,
                VersionStage::Distribute => {}
            },
            (_, Ok(_)) => {}
        }
    }

    /// A replica that starts from an older snapshot and the log after it gets to the same state.
    fn restart(&mut self) {
        let at = self.chance.below(self.snapshots.len() as u64) as usize;
        let (applied, snapshot) = &self.snapshots[at];
        let mut state = ClusterState::restore(snapshot).unwrap();
        for (index, bytes) in self.log.iter().enumerate().skip(*applied) {
            if let Ok(entry) = ClusterEntry::decode(bytes) {
                let _ = state.apply(index as u64 + 1, &entry);
            }
        }
        assert_eq!(
            state.snapshot(),
            self.state.snapshot(),
            "replayed from {applied}"
        );
        assert_eq!(state.records(), self.state.records());
        assert_eq!(state.cluster_map(), self.state.cluster_map());
        self.state = state;
        self.counts.restarts += 1;
    }

    fn keep_snapshot(&mut self) {
        self.snapshots.push((self.log.len(), self.state.snapshot()));
        if self.snapshots.len() > SNAPSHOTS {
            self.snapshots.remove(0);
        }
    }

    /// An entry that cannot be read is skipped, on every replica.
    fn garbage(&mut self) {
        let mut bytes = self.entry().encode().unwrap();
        bytes[0] = 200;
        assert!(ClusterEntry::decode(&bytes).is_err());
        self.log.push(bytes);
    }

    fn entry(&mut self) -> ClusterEntry {
        let at_ms = self.now_ms;
        match self.chance.below(23) {
            20..22 => self.user_token(),
            22 => self.revocation(),
            0..3 => self.new_token(),
            3 => ClusterEntry::TokenRevoked {
                id: self.token(),
                at_ms,
            },
            4..9 => self.admission(),
            9..11 => ClusterEntry::Left {
                member: self.member(),
                at_ms,
            },
            11 => ClusterEntry::Expelled {
                member: self.member(),
                at_ms,
            },
            12 => ClusterEntry::FeatureLevel {
                level: self.chance.below(4) as u32,
            },
            13..17 => self.edit(),
            _ => self.step(),
        }
    }

    fn new_token(&mut self) -> ClusterEntry {
        ClusterEntry::TokenCreated(Box::new(TokenIssue {
            id: self.token(),
            key: TokenKey([1; 32]),
            expires_ms: self.now_ms + self.chance.below(3_000_000),
            uses: self.chance.below(5) as u32,
            votes: self.chance.one_in(2),
            author: "alice".parse().unwrap(),
            at_ms: self.now_ms,
        }))
    }

    fn user_token(&mut self) -> ClusterEntry {
        let now_s = self.now_ms / 1_000;
        let life_s = self.chance.below(2_000);
        let number = self.chance.below(USER_TOKENS);
        let expires_s = (life_s > 500).then_some(now_s + life_s);
        ClusterEntry::UserToken(Box::new(UserTokenIssue {
            user: user_name(self.chance.below(USERS)),
            token: UserToken {
                text: Hidden(number.to_string()),
                id: UserTokenId(number),
                kind: expires_s.map_or(TokenKind::Application, |_| TokenKind::Login),
                name: String::new(),
                issued_s: now_s,
                expires_s,
                address: String::new(),
                key: 1,
                used_s: 0,
            },
            by: author(),
            now_s,
        }))
    }

    fn revocation(&mut self) -> ClusterEntry {
        let user = user_name(self.chance.below(USERS));
        let number = self.chance.below(USER_TOKENS);
        let which = match self.chance.below(20) {
            0 => TokenSelection::All,
            1..4 => TokenSelection::OfUser(user),
            4..12 => TokenSelection::Id(user, UserTokenId(number)),
            _ => TokenSelection::Text(user, Hidden(number.to_string())),
        };
        ClusterEntry::UserTokensRevoked(Box::new(UserTokensRevocation {
            which,
            by: author(),
            now_s: self.now_ms / 1_000,
        }))
    }

    fn admission(&mut self) -> ClusterEntry {
        let mut admission = match &self.last_admission {
            Some(last) if self.chance.one_in(5) => last.clone(),
            _ => self.new_admission(),
        };
        admission.at_ms = self.now_ms;
        self.last_admission = Some(admission.clone());
        ClusterEntry::Admitted(Box::new(admission))
    }

    fn new_admission(&mut self) -> Admission {
        let key = self.chance.below(KEYS);
        // Mostly each key has its own name; now and then somebody else's.
        let name = match self.chance.one_in(5) {
            true => self.chance.below(NAMES),
            false => key,
        };
        let tokens = self.state.tokens().map(|(id, _)| id);
        let known: Vec<TokenId> = tokens.collect();
        let token = match known.len() as u64 {
            0 => self.token(),
            count => known[self.chance.below(count) as usize],
        };
        Admission {
            token,
            key: NodeKey([key as u8; 32]),
            name: format!("n{name}").parse().unwrap(),
            rack: "r".parse().unwrap(),
            at_ms: self.now_ms,
        }
    }

    fn edit(&mut self) -> ClusterEntry {
        let id = self.document();
        let current = self
            .state
            .document(id)
            .map_or(0, |document| document.version());
        // Some editors have looked at an older version, or at none.
        let base = match self.chance.below(4) {
            0 => self.chance.below(current + 2),
            _ => current,
        };
        let hash = self.chance.below(200) as u8;
        ClusterEntry::DocumentEdited(Box::new(DocumentEdit {
            id,
            base,
            body: BodyId {
                hash: [hash; 32],
                bytes: 5,
                chunks: [hash; 32],
            },
            author: "alice".parse().unwrap(),
            at_ms: self.now_ms,
            forced: self.chance.one_in(8),
            creations: Vec::new(),
        }))
    }

    fn step(&mut self) -> ClusterEntry {
        let id = self.document();
        let current = self
            .state
            .document(id)
            .map_or(0, |document| document.version());
        let stage = match self.chance.below(4) {
            0 => VersionStage::Distribute,
            1 => VersionStage::Canary(vec![Canary {
                member: self.member(),
                incarnation: Incarnation(1),
            }]),
            2 => VersionStage::Active,
            _ => VersionStage::Withdrawn("an admin took it back".to_owned()),
        };
        ClusterEntry::DocumentStep(Box::new(ActivationStep {
            id,
            version: current.saturating_sub(u64::from(self.chance.one_in(4))),
            stage,
            forced: self.chance.one_in(8),
            at_ms: self.now_ms,
        }))
    }

    /// Something happens to members or to what is known of a document.
    fn mesh(&mut self) {
        let id = self.member();
        let sight = self.sights.entry(id).or_insert(MemberHealth {
            reach: Reach::Alive,
            incarnation: Incarnation(1),
        });
        match self.chance.below(8) {
            0 => sight.reach = Reach::Unreachable,
            1 => sight.incarnation.0 += 1,
            2 => sight.reach = Reach::Suspect,
            _ => sight.reach = Reach::Alive,
        }
        let id = self.document();
        let version = self
            .state
            .document(id)
            .map_or(0, |document| document.version());
        let mut progress = all_well(DocumentRef { id, version });
        if self.chance.one_in(3) {
            progress.coverage.valid[0] = self.chance.below(256) as u8;
            progress.coverage.active[0] = self.chance.below(256) as u8;
        }
        if self.chance.one_in(6) {
            progress.coverage.rejected = vec![self.chance.below(256) as u8];
        }
        self.progress.insert(id, progress);
    }

    fn next_step(&self) -> Option<ClusterEntry> {
        // Whoever leads the group at the moment.
        let members = self.state.members().count() as u64;
        let proposer = Proposer {
            me: MemberId((self.now_ms % members) as u32),
            progress: &self.progress,
            sights: &self.sights,
            soak: Soak::default(),
            now_ms: self.now_ms,
        };
        steps(&self.state, &proposer)
    }

    /// What is proposed to a state is never rejected by it.
    fn automatic_step(&mut self) {
        let Some(entry) = self.next_step() else {
            return;
        };
        self.oracle
            .look_at_proposal(&entry, &self.state, &self.progress, &self.sights);
        let result = self.commit(&entry);
        assert!(
            result.is_ok(),
            "{entry:?} was proposed and rejected: {result:?}"
        );
    }

    fn token(&mut self) -> TokenId {
        TokenId([self.chance.below(TOKENS) as u8; 5])
    }

    fn document(&mut self) -> DocumentId {
        DocumentId(self.chance.below(DOCUMENTS) as u16)
    }

    /// A member, or somebody who was one, or will be.
    fn member(&mut self) -> MemberId {
        let count = self.state.members().count() as u64;
        MemberId(self.chance.below(count + 1) as u32)
    }
}

fn user_name(number: u64) -> UserName {
    format!("u{number}").parse().unwrap()
}

fn author() -> Author {
    Author {
        user: "root".to_owned(),
        address: "socket".to_owned(),
        node: "n0".to_owned(),
    }
}

fn user() -> ClusterUser {
    ClusterUser {
        password_hash: Hidden("$argon2id$".to_owned()),
        email: String::new(),
        extension: "{}".to_owned(),
        groups: BTreeSet::new(),
        revision: 0,
        tokens: Vec::new(),
    }
}

fn all_well(document: DocumentRef) -> ActivationProgress {
    ActivationProgress {
        coverage: Coverage {
            document: Some(document),
            valid: vec![0xff; 32],
            rejected: Vec::new(),
            active: vec![0xff; 32],
        },
        reasons: BTreeMap::new(),
    }
}
