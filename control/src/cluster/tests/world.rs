//! A cluster in a few lines.

use muster_gossip::join::{JoinToken, TokenId, TokenSecret};
use muster_gossip::key::{ClusterId, NodeKey};
use muster_gossip::member::MemberId;
use muster_gossip::record::{BodyId, DocumentId};
use muster_model::people::Author;
use muster_model::user_token::{TokenKind, UserTokenId};

use crate::cluster::{
    ActivationStep, Admission, ClusterApplied, ClusterEntry, ClusterInit, ClusterRejection,
    ClusterState, ClusterUser, CopyHome, DocumentEdit, Founder, Hidden, Keys, Secret, TokenIssue,
    UserToken, UserTokenIssue, VcCreation, VersionStage,
};

pub(super) const ROOT: NodeKey = NodeKey([100; 32]);
pub(super) const SIGNING: NodeKey = NodeKey([101; 32]);
pub(super) const RULES: DocumentId = DocumentId(1);
pub(super) const DAY_MS: u64 = 86_400_000;

pub(super) const fn key(number: u8) -> NodeKey {
    NodeKey([number; 32])
}

pub(super) const fn token(number: u8) -> TokenId {
    TokenId([number; 5])
}

/// The token as an admin gets it.
pub(super) fn whole_token(number: u8) -> JoinToken {
    JoinToken {
        id: token(number),
        secret: TokenSecret([number; 20]),
        cluster: ClusterId::of_root(&ROOT),
    }
}

pub(super) const fn body(number: u8) -> BodyId {
    BodyId {
        hash: [number; 32],
        bytes: 10,
        chunks: [number; 32],
    }
}

pub(super) fn keys() -> Keys {
    Keys {
        data: Hidden([201; 32]),
        link: Hidden([202; 32]),
        token: Hidden(vec![203; 80]),
        token_number: 1,
        retired: Vec::new(),
    }
}

pub(super) fn user(admin: bool) -> ClusterUser {
    ClusterUser {
        password_hash: Hidden("$argon2id$x".to_owned()),
        email: "a@b".to_owned(),
        extension: "{}".to_owned(),
        groups: admin
            .then(|| "admingroup".parse().unwrap())
            .into_iter()
            .collect(),
        revision: 0,
        tokens: Vec::new(),
    }
}

/// A user's token: of a login if it expires, of a program if not.
pub(super) fn user_token(text: &str, expires_s: Option<u64>) -> UserToken {
    let bytes = text.bytes();
    UserToken {
        text: Hidden(text.to_owned()),
        id: UserTokenId(bytes.fold(7, |hash, byte| hash * 257 % 1_000_000_007 + u64::from(byte))),
        kind: match expires_s {
            Some(_) => TokenKind::Login,
            None => TokenKind::Application,
        },
        name: String::new(),
        issued_s: 0,
        expires_s,
        address: "10.0.0.1".to_owned(),
        key: 1,
        used_s: 0,
    }
}

/// That user asks for it.
pub(super) fn issue_token(user: &str, token: UserToken, now_s: u64) -> ClusterEntry {
    ClusterEntry::UserToken(Box::new(UserTokenIssue {
        user: user.parse().unwrap(),
        token,
        by: author(user),
        now_s,
    }))
}

/// Someone who asks at node `n1`.
pub(super) fn author(user: &str) -> Author {
    Author {
        user: user.to_owned(),
        address: "10.0.0.1".to_owned(),
        node: "n1".to_owned(),
    }
}

pub(super) fn init() -> ClusterEntry {
    ClusterEntry::Init(Box::new(whole_init()))
}

pub(super) fn whole_init() -> ClusterInit {
    ClusterInit {
        name: "farm".parse().unwrap(),
        root: ROOT,
        signing: SIGNING,
        secret: Secret([102; 32]),
        certificate: b"signed by the root key".to_vec(),
        feature_level: 1,
        founder: Founder {
            key: key(0),
            name: "n0".parse().unwrap(),
            rack: "r1".parse().unwrap(),
        },
        vcs: vec![creation("default", 9)],
        users: [("ada", true), ("bob", false)]
            .map(|(name, admin)| (name.parse().unwrap(), user(admin)))
            .into(),
        keys: keys(),
        at_ms: 1,
    }
}

pub(super) fn new_token(number: u8, uses: u32) -> TokenIssue {
    TokenIssue {
        id: token(number),
        key: whole_token(number).key(),
        expires_ms: DAY_MS,
        uses,
        votes: true,
        author: "alice".parse().unwrap(),
        at_ms: 2,
    }
}

pub(super) fn admission(by: u8, number: u8) -> Admission {
    Admission {
        token: token(by),
        key: key(number),
        name: format!("n{number}").parse().unwrap(),
        rack: "r1".parse().unwrap(),
        at_ms: 3,
    }
}

pub(super) fn edit(base: u64, number: u8) -> DocumentEdit {
    DocumentEdit {
        id: RULES,
        base,
        body: body(number),
        author: "alice".parse().unwrap(),
        at_ms: 1_000,
        forced: false,
        creations: Vec::new(),
    }
}

pub(super) fn creation(vc: &str, group: u64) -> VcCreation {
    VcCreation {
        vc: vc.parse().unwrap(),
        group,
        generation: 1,
        homes: vec![CopyHome {
            member: ClusterState::FOUNDER,
            store: 1,
        }],
        before: Vec::new(),
    }
}

pub(super) fn step(version: u64, stage: VersionStage) -> ActivationStep {
    ActivationStep {
        id: RULES,
        version,
        stage,
        forced: false,
        at_ms: 2_000,
    }
}

/// A state with the index of its log.
pub(super) struct Bench {
    pub(super) state: ClusterState,
    pub(super) index: u64,
}

impl Bench {
    /// A founded cluster.
    pub(super) fn new() -> Self {
        let mut bench = Self {
            state: ClusterState::default(),
            index: 0,
        };
        bench.apply(&init()).unwrap();
        bench
    }

    /// A cluster of so many members, admitted by token 200.
    pub(super) fn of(members: u8) -> Self {
        let mut bench = Self::new();
        bench.token(new_token(200, 1_000)).unwrap();
        for number in 1..members {
            bench.admit(admission(200, number)).unwrap();
        }
        bench
    }

    /// Applies an entry as it comes from the log. What is rejected changes nothing.
    pub(super) fn apply(
        &mut self,
        entry: &ClusterEntry,
    ) -> Result<ClusterApplied, ClusterRejection> {
        let before = self.state.snapshot();
        let entry = ClusterEntry::decode(&entry.encode().unwrap()).unwrap();
        self.index += 1;
        let result = self.state.apply(self.index, &entry);
        if result.is_err() {
            assert_eq!(self.state.snapshot(), before, "{entry:?} changed something");
        }
        let restored = ClusterState::restore(&self.state.snapshot()).unwrap();
        assert_eq!(restored.snapshot(), self.state.snapshot());
        assert_eq!(
            restored.roll, self.state.roll,
            "the index is made anew as it was"
        );
        result
    }

    pub(super) fn token(&mut self, token: TokenIssue) -> Result<ClusterApplied, ClusterRejection> {
        self.apply(&ClusterEntry::TokenCreated(Box::new(token)))
    }

    pub(super) fn admit(
        &mut self,
        admission: Admission,
    ) -> Result<ClusterApplied, ClusterRejection> {
        self.apply(&ClusterEntry::Admitted(Box::new(admission)))
    }

    pub(super) fn expel(&mut self, member: u32) -> Result<ClusterApplied, ClusterRejection> {
        let member = MemberId(member);
        self.apply(&ClusterEntry::Expelled { member, at_ms: 9 })
    }

    pub(super) fn leave(&mut self, member: u32) -> Result<ClusterApplied, ClusterRejection> {
        let member = MemberId(member);
        self.apply(&ClusterEntry::Left { member, at_ms: 9 })
    }

    pub(super) fn edit(&mut self, edit: DocumentEdit) -> Result<ClusterApplied, ClusterRejection> {
        self.apply(&ClusterEntry::DocumentEdited(Box::new(edit)))
    }

    pub(super) fn step(
        &mut self,
        step: ActivationStep,
    ) -> Result<ClusterApplied, ClusterRejection> {
        self.apply(&ClusterEntry::DocumentStep(Box::new(step)))
    }

    pub(super) fn stage(&self) -> &VersionStage {
        self.state
            .document(RULES)
            .unwrap()
            .newest()
            .unwrap()
            .stage()
    }
}
