//! Documents: versions, and how far each has come. Bodies lie beside the log, by their hash.

use std::collections::VecDeque;

use muster_gossip::member::{Incarnation, MemberId};
use muster_gossip::record::{self, BodyId, DocumentId, Header};
use serde::{Deserialize, Serialize};

use super::entry::{ActivationStep, DocumentEdit, GivenName};
use super::rejected::ClusterRejection;

/// The document that describes the cluster: which virtual clusters there are, and what each is
/// promised. Whoever places goes by it, so that it is in force as soon as it is committed.
pub const DESCRIPTION: DocumentId = DocumentId(2);

/// The policy: what holds on all machines alike, as which users see which jobs.
pub const POLICY: DocumentId = DocumentId(3);

/// Whether the cluster map tells its version.
pub(super) const fn is_in_map(document: DocumentId) -> bool {
    matches!(document, DESCRIPTION | POLICY)
}

/// Documents, at most.
pub const DOCUMENTS_MAX: usize = 64;
/// Bytes of a body, at most.
pub const BODY_BYTES_MAX: u64 = 16 << 20;
/// Versions of a document that are remembered, and the one in force if it is older.
pub const HISTORY_MAX: usize = 32;
/// Versions that are left out where somebody may have made some that nobody has heard of.
const UNHEARD_MAX: u64 = 100;
/// Members that try a version first, at most.
pub const CANARIES_MAX: usize = 256;
/// Bytes of a reason, at most.
pub const REASON_BYTES_MAX: usize = 1_024;

/// How far a version has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VersionStage {
    /// All fetch it, check it, and say whether it is valid.
    Distribute,
    /// These put it in force, the others wait. By ascending number.
    Canary(Vec<Canary>),
    /// All put it in force.
    Active,
    /// It was taken back or found bad, with the reason: nobody puts it in force.
    Withdrawn(String),
}

/// Who tries a version, and in which life: a later one means that it did not get through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    /// Who.
    pub member: MemberId,
    /// Its incarnation when it began.
    pub incarnation: Incarnation,
}

impl VersionStage {
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Distribute => "being distributed",
            Self::Canary(_) => "at its canaries",
            Self::Active => "active",
            Self::Withdrawn(_) => "withdrawn",
        }
    }

    fn header(&self) -> record::HeaderStage {
        match self {
            Self::Distribute => record::HeaderStage::Distribute,
            Self::Canary(canaries) => {
                record::HeaderStage::Canary(canaries.iter().map(|canary| canary.member).collect())
            }
            Self::Active => record::HeaderStage::Active,
            Self::Withdrawn(_) => record::HeaderStage::Withdrawn,
        }
    }
}

/// A stage that a version came to, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// Which.
    pub stage: VersionStage,
    /// When, ms since the epoch.
    pub at_ms: u64,
}

/// A version of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// Its number, from 1.
    pub version: u64,
    /// Its body.
    pub body: BodyId,
    /// Who made it.
    pub author: GivenName,
    /// When, ms since the epoch.
    pub at_ms: u64,
    /// Whether steps were skipped.
    pub forced: bool,
    /// The stages it came to, the newest last; never empty.
    pub passed: Vec<Passed>,
}

impl Revision {
    fn new(version: u64, edit: &DocumentEdit) -> Self {
        let stage = match edit.forced {
            true => VersionStage::Active,
            false => VersionStage::Distribute,
        };
        Self {
            version,
            body: edit.body,
            author: edit.author.clone(),
            at_ms: edit.at_ms,
            forced: edit.forced,
            passed: vec![Passed {
                stage,
                at_ms: edit.at_ms,
            }],
        }
    }

    /// How far it has come.
    pub fn stage(&self) -> &VersionStage {
        self.passed
            .last()
            .map_or(&VersionStage::Distribute, |passed| &passed.stage)
    }

    /// Since when it is there.
    pub fn since_ms(&self) -> u64 {
        self.passed.last().map_or(self.at_ms, |passed| passed.at_ms)
    }
}

/// A document with the versions that are remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterDocument {
    /// Oldest first; never empty once the document exists.
    revisions: VecDeque<Revision>,
    active: u64,
    changed: u64,
}

impl ClusterDocument {
    /// The newest version's number; 0 for none.
    pub fn version(&self) -> u64 {
        self.newest().map_or(0, |revision| revision.version)
    }

    /// The newest version.
    pub fn newest(&self) -> Option<&Revision> {
        self.revisions.back()
    }

    /// The version that all put in force last; 0 for none.
    pub const fn active(&self) -> u64 {
        self.active
    }

    /// A version that is remembered.
    pub fn revision(&self, version: u64) -> Option<&Revision> {
        let mut revisions = self.revisions.iter();
        revisions.find(|revision| revision.version == version)
    }

    /// Versions that are remembered, oldest first: the last [`HISTORY_MAX`], and the one in force
    /// if it is older.
    pub fn history(&self) -> impl DoubleEndedIterator<Item = &Revision> {
        self.revisions.iter()
    }

    pub(super) const fn changed(&self) -> u64 {
        self.changed
    }

    pub(super) fn header(&self) -> Option<Header> {
        let newest = self.newest()?;
        Some(Header {
            version: newest.version,
            hash: newest.body.hash,
            bytes: newest.body.bytes,
            chunks: newest.body.chunks,
            stage: newest.stage().header(),
            active: self.active,
            active_body: self.active_body(newest.version),
            author: newest.author.to_string(),
            at_ms: newest.at_ms,
            forced: newest.forced,
        })
    }

    /// The body in force, where that is another version than the newest.
    fn active_body(&self, newest: u64) -> Option<BodyId> {
        let active = self.revision(self.active)?;
        (active.version != newest).then_some(active.body)
    }

    /// Takes an edit whose base is the newest version.
    pub(super) fn edit(&mut self, index: u64, edit: &DocumentEdit) {
        let revision = Revision::new(self.version() + 1, edit);
        if edit.forced {
            self.active = revision.version;
        }
        self.revisions.push_back(revision);
        self.changed = index;
        self.forget();
    }

    /// What is in force comes into force once more, in a version after any that somebody may have made
    /// without being heard. An edit says what that is and after which version, where others have heard more
    /// than is known here.
    pub(super) fn restate(&mut self, index: u64, heard: Option<&DocumentEdit>, at_ms: u64) {
        let heard = heard.filter(|edit| edit.base >= self.version());
        let after = |version: u64| (version / UNHEARD_MAX + 1) * UNHEARD_MAX;
        let revision = match heard {
            Some(edit) => Some(Revision::new(after(edit.base), edit)),
            None => self.revision(self.active).map(|active| Revision {
                version: after(self.version()),
                forced: true,
                passed: vec![Passed {
                    stage: VersionStage::Active,
                    at_ms,
                }],
                ..active.clone()
            }),
        };
        if let Some(revision) = revision {
            self.active = revision.version;
            self.revisions.push_back(revision);
            self.forget();
        }
        self.changed = index;
    }

    /// Takes a step of the newest version. `alone` if the cluster has one member only, which
    /// needs no canaries.
    pub(super) fn step(
        &mut self,
        index: u64,
        step: &ActivationStep,
        alone: SoleMember,
    ) -> Result<(), ClusterRejection> {
        let current = self.version();
        let newest = self.revisions.back_mut();
        let newest = newest.ok_or(ClusterRejection::NoDocument(step.id))?;
        let version = step.version;
        if version != current {
            return Err(ClusterRejection::NotCurrent { version, current });
        }
        if !follows(newest.stage(), step, alone) {
            return Err(ClusterRejection::NotForward {
                version,
                from: newest.stage().word(),
                to: step.stage.word(),
            });
        }
        if step.stage == VersionStage::Active {
            self.active = version;
        }
        newest.forced |= step.forced;
        newest.passed.push(Passed {
            stage: step.stage.clone(),
            at_ms: step.at_ms,
        });
        self.changed = index;
        Ok(())
    }

    /// Forgets what is too old, but never the version in force.
    fn forget(&mut self) {
        let active = self.active;
        let mut over = self.revisions.len().saturating_sub(HISTORY_MAX);
        self.revisions.retain(|revision| {
            let is_old = over > 0;
            over = over.saturating_sub(1);
            !is_old || revision.version == active
        });
    }
}

/// Whether a cluster has one member only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SoleMember {
    Yes,
    No,
}

/// Whether a step goes forward, and skips nothing unless an admin says so.
fn follows(from: &VersionStage, step: &ActivationStep, alone: SoleMember) -> bool {
    match (from, &step.stage) {
        (VersionStage::Distribute, VersionStage::Canary(_)) => true,
        (VersionStage::Distribute, VersionStage::Active) => step.forced || alone == SoleMember::Yes,
        (VersionStage::Canary(_), VersionStage::Active) => true,
        (VersionStage::Distribute | VersionStage::Canary(_), VersionStage::Withdrawn(_)) => true,
        (VersionStage::Canary(_), VersionStage::Canary(_))
        | (VersionStage::Active | VersionStage::Withdrawn(_), _)
        | (_, VersionStage::Distribute) => false,
    }
}
