//! The joiner's side.

use std::sync::Arc;

use muster_model::id::NodeId;

use super::claim::{Claim, Nonce, Proof};
use super::message::{
    Challenge, Hello, JoinRefused, JoinReply, JoinerMessage, MessageError, Prove, Welcome,
};
use super::refusal::JoinRefusal;
use super::text::Text;
use super::token::JoinToken;
use super::trust::{ClusterTrust, TrustError};
use crate::key::{NodeKey, Verify};
use crate::member::MemberId;
use crate::record::{ClusterBody, MemberBody, Record, RecordKey};

/// Why a node did not join. Nothing of it is a member's; the attempt is over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinerError {
    /// The cluster says no.
    #[error("{refusal}")]
    Refused {
        /// Why.
        refusal: JoinRefusal,
        /// When to try again, in ms; 0 if that cannot help.
        retry_ms: u32,
    },
    /// What the asked node shows is not to be believed. Nothing was proved to it.
    #[error("the asked node is not to be trusted: {0}")]
    Trust(#[from] TrustError),
    /// What it sent cannot be read.
    #[error("the asked node's answer cannot be read: {0}")]
    Message(#[from] MessageError),
    /// The admission is not the one that was asked for.
    #[error("the cluster admitted this node as {0:?}, which was not asked for")]
    OtherName(String),
    /// An answer that does not follow what was sent.
    #[error("the asked node's answer does not fit what was asked")]
    Unexpected,
}

/// Who wants to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newcomer {
    /// Its key.
    pub key: NodeKey,
    /// The name it wants.
    pub name: NodeId,
    /// Where it stands; empty if nobody said.
    pub rack: Text<64>,
    /// Version of its agent.
    pub agent_version: Text<64>,
    /// What it understands.
    pub feature_level: u32,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinerStep {
    /// Send this to the same node.
    Send(Vec<u8>),
    /// The node is a member.
    Joined(Box<JoinedMember>),
}

/// What a member has to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    /// The cluster.
    pub cluster: ClusterBody,
    /// Its number.
    pub member: MemberId,
    /// Its admission.
    pub admission: MemberBody,
    /// All records that were checked: the cluster's, its own, the asked node's, the seeds'.
    pub records: Vec<Arc<Record>>,
    /// Records of seeds that were not genuine and were left out.
    pub dropped: usize,
}

#[derive(Debug)]
enum JoinerState {
    /// The hello was sent, or will be.
    Greeting,
    /// The proof was sent.
    Proving {
        node: Arc<Record>,
        trust: Box<ClusterTrust>,
    },
    Over,
}

/// One attempt to join by one node. The caller sets the time limit; a new attempt needs a new
/// nonce.
#[derive(Debug)]
pub struct Joiner {
    token: JoinToken,
    newcomer: Newcomer,
    nonce: Nonce,
    state: JoinerState,
}

impl Joiner {
    /// An attempt. The nonce is random and new.
    pub const fn new(token: JoinToken, newcomer: Newcomer, nonce: Nonce) -> Self {
        Self {
            token,
            newcomer,
            nonce,
            state: JoinerState::Greeting,
        }
    }

    /// What to send first.
    ///
    /// # Errors
    /// When it cannot be written, which means a bug.
    pub fn hello(&self) -> Result<Vec<u8>, JoinerError> {
        let newcomer = self.newcomer.clone();
        let hello = Hello {
            key: newcomer.key,
            nonce: self.nonce,
            name: newcomer.name,
            rack: newcomer.rack,
            agent_version: newcomer.agent_version,
            feature_level: newcomer.feature_level,
        };
        Ok(JoinerMessage::Hello(hello).encode()?)
    }

    /// Takes an answer. `peer` is the key that the connection proved.
    ///
    /// # Errors
    /// When the node was refused, or the other side is not to be trusted: the attempt is over.
    pub fn reply(
        &mut self,
        peer: &NodeKey,
        bytes: &[u8],
        verifier: &dyn Verify,
    ) -> Result<JoinerStep, JoinerError> {
        let state = std::mem::replace(&mut self.state, JoinerState::Over);
        match (JoinReply::decode(bytes)?, state) {
            (JoinReply::Refused(JoinRefused { refusal, retry_ms }), _) => {
                Err(JoinerError::Refused { refusal, retry_ms })
            }
            (JoinReply::Challenge(challenge), JoinerState::Greeting) => {
                self.prove(peer, &challenge, verifier)
            }
            (JoinReply::Welcome(welcome), JoinerState::Proving { node, trust }) => {
                self.join(&node, &trust, &welcome, verifier)
            }
            (JoinReply::Challenge(_) | JoinReply::Welcome(_), _) => Err(JoinerError::Unexpected),
        }
    }

    /// Checks who asks for the proof, and only then gives it.
    fn prove(
        &mut self,
        peer: &NodeKey,
        challenge: &Challenge,
        verifier: &dyn Verify,
    ) -> Result<JoinerStep, JoinerError> {
        let trust = ClusterTrust::new(self.token.cluster, &challenge.cluster, verifier)?;
        trust.admission(&challenge.member, peer, verifier)?;
        let proof = Proof::new(&self.claim(*peer, challenge.nonce), &self.token.key())?;
        self.state = JoinerState::Proving {
            node: Arc::clone(&challenge.member),
            trust: Box::new(trust),
        };
        let token = self.token.id;
        Ok(JoinerStep::Send(
            JoinerMessage::Prove(Prove { token, proof }).encode()?,
        ))
    }

    fn claim(&self, node: NodeKey, node_nonce: Nonce) -> Claim {
        let newcomer = self.newcomer.clone();
        Claim {
            cluster: self.token.cluster,
            token: self.token.id,
            joiner: newcomer.key,
            node,
            joiner_nonce: self.nonce,
            node_nonce,
            name: newcomer.name,
            rack: newcomer.rack,
            agent_version: newcomer.agent_version,
            feature_level: newcomer.feature_level,
        }
    }

    fn join(
        &self,
        node: &Arc<Record>,
        before: &ClusterTrust,
        welcome: &Welcome,
        verifier: &dyn Verify,
    ) -> Result<JoinerStep, JoinerError> {
        let trust = ClusterTrust::new(self.token.cluster, &welcome.cluster, verifier)?;
        if trust.version() < before.version() {
            return Err(JoinerError::Unexpected);
        }
        let key = &self.newcomer.key;
        let (member, admission) = trust.admission(&welcome.member, key, verifier)?;
        let newcomer = &self.newcomer;
        if (admission.name.as_str(), admission.rack.as_str())
            != (newcomer.name.as_str(), newcomer.rack.as_str())
        {
            return Err(JoinerError::OtherName(admission.name));
        }
        let seeds = std::iter::once(node).chain(&welcome.seeds);
        let (seeds, dropped) = genuine(&trust, seeds, verifier);
        let mut records = vec![Arc::clone(&welcome.cluster), Arc::clone(&welcome.member)];
        records.extend(seeds);
        Ok(JoinerStep::Joined(Box::new(JoinedMember {
            cluster: trust.body().clone(),
            member,
            admission,
            records,
            dropped,
        })))
    }
}

/// The genuine ones of some records, and how many were not: admissions, which group holds the
/// cluster state, and what admitted nodes say of themselves.
fn genuine<'a>(
    trust: &ClusterTrust,
    records: impl Iterator<Item = &'a Arc<Record>> + Clone,
    verifier: &dyn Verify,
) -> (Vec<Arc<Record>>, usize) {
    let admitted: Vec<(MemberId, NodeKey)> = records
        .clone()
        .filter_map(|record| trust.member(record, verifier).ok())
        .map(|(id, body)| (id, body.key))
        .collect();
    let is_genuine = |record: &Record| match record.key {
        RecordKey::Member(_) => trust.member(record, verifier).is_ok(),
        RecordKey::Replacement => trust.replacement(record, verifier).is_ok(),
        RecordKey::Node(id) => {
            let writer = admitted.iter().find(|(known, _)| *known == id);
            writer.is_some_and(|(_, key)| trust.said_by(record, key, verifier).is_ok())
        }
        RecordKey::Cluster | RecordKey::Watch(_) | RecordKey::Document(_) => false,
    };
    let (kept, dropped): (Vec<_>, Vec<_>) = records.cloned().partition(|record| is_genuine(record));
    (kept, dropped.len())
}
