//! A cluster in a few lines: keys, records, a joiner, the node it asks, and who judges.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use muster_model::time::Time;
use sha2::{Digest as _, Sha256};

use crate::join::{
    AdmissionRequest, Admitter, AdmitterConfig, AdmitterInput, AdmitterOutput, JoinRefusal,
    JoinReply, JoinToken, Joiner, JoinerError, JoinerStep, Newcomer, Nonce, ReceivedRequest,
    RequestId, TokenId, TokenSecret, Welcome,
};
use crate::key::{ClusterId, NodeKey, Sign, Signature, Verify};
use crate::member::MemberId;
use crate::record::{
    AdmissionState, ClusterBody, MemberBody, NodeBody, Record, RecordKey, RecordVersion,
};

/// Signs with a hash over its key: whoever takes another key or other bytes gets another hash.
#[derive(Debug)]
pub(super) struct HashSigner(pub NodeKey);

impl Sign for HashSigner {
    fn key(&self) -> NodeKey {
        self.0
    }

    fn sign(&self, bytes: &[u8]) -> Signature {
        hash(&self.0, bytes)
    }
}

#[derive(Debug)]
pub(super) struct FakeVerify;

impl Verify for FakeVerify {
    fn verify(&self, key: &NodeKey, bytes: &[u8], signature: &Signature) -> bool {
        hash(key, bytes) == *signature
    }
}

fn hash(key: &NodeKey, bytes: &[u8]) -> Signature {
    let half: [u8; 32] = Sha256::new()
        .chain_update(key.0)
        .chain_update(bytes)
        .finalize()
        .into();
    let mut both = [0; 64];
    both[..32].copy_from_slice(&half);
    both[32..].copy_from_slice(&half);
    Signature(both)
}

pub(super) const fn key(number: u8) -> NodeKey {
    NodeKey([number; 32])
}

pub(super) const ROOT: NodeKey = key(100);
pub(super) const SIGNING: NodeKey = key(101);
pub(super) const FOUNDER: NodeKey = key(1);
pub(super) const SEED: NodeKey = key(2);
pub(super) const NEW: NodeKey = key(9);
pub(super) const GENERATION: u32 = 1;

pub(super) fn cluster() -> ClusterId {
    ClusterId::of_root(&ROOT)
}

pub(super) fn token() -> JoinToken {
    JoinToken {
        id: TokenId([1, 2, 3, 4, 5]),
        secret: TokenSecret([7; 20]),
        cluster: cluster(),
    }
}

pub(super) fn version(number: u64) -> RecordVersion {
    RecordVersion {
        incarnation: GENERATION.into(),
        number,
    }
}

pub(super) fn cluster_record(number: u64) -> Arc<Record> {
    cluster_record_by(&HashSigner(ROOT), ROOT, version(number))
}

pub(super) fn cluster_record_by(
    signer: &HashSigner,
    root: NodeKey,
    version: RecordVersion,
) -> Arc<Record> {
    let body = ClusterBody {
        root,
        generation: GENERATION,
        signing: SIGNING,
    };
    let id = ClusterId::of_root(&root);
    Arc::new(Record::sign(id, RecordKey::Cluster, version, &body, signer).unwrap())
}

pub(super) fn body(key: NodeKey, name: &str) -> MemberBody {
    MemberBody {
        key,
        name: name.to_owned(),
        rack: "r1".to_owned(),
        votes: true,
        state: AdmissionState::Admitted,
    }
}

pub(super) fn member_record(id: u32, body: &MemberBody) -> Arc<Record> {
    member_record_by(&HashSigner(SIGNING), id, body)
}

pub(super) fn member_record_by(signer: &HashSigner, id: u32, body: &MemberBody) -> Arc<Record> {
    let record_key = RecordKey::Member(MemberId(id));
    Arc::new(Record::sign(cluster(), record_key, version(1), body, signer).unwrap())
}

pub(super) fn node_record(id: u32, signer: &HashSigner) -> Arc<Record> {
    let body = NodeBody {
        run: 5,
        addresses: vec!["10.0.0.2:7740".parse().unwrap()],
        agent_version: "0.1.0".to_owned(),
        problems: Vec::new(),
        payload: vec![1, 2, 3],
    };
    let record_key = RecordKey::Node(MemberId(id));
    Arc::new(Record::sign(cluster(), record_key, version(1), &body, signer).unwrap())
}

pub(super) fn newcomer(key: NodeKey) -> Newcomer {
    Newcomer {
        key,
        name: "n9".parse().unwrap(),
        rack: "r1".parse().unwrap(),
        agent_version: "0.1.0".parse().unwrap(),
        feature_level: 1,
    }
}

pub(super) fn joiner() -> Joiner {
    Joiner::new(token(), newcomer(NEW), Nonce([3; 32]))
}

pub(super) fn welcome() -> Welcome {
    let seeds = [
        member_record(1, &body(SEED, "n1")),
        node_record(1, &HashSigner(SEED)),
    ];
    Welcome::new(member_record(9, &body(NEW, "n9")), cluster_record(1), seeds)
}

pub(super) fn address(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

/// The asked node, with a clock.
pub(super) struct AskedNode {
    pub(super) admitter: Admitter,
    pub(super) now: Time,
    requests: u64,
}

impl AskedNode {
    pub(super) fn new() -> Self {
        Self::with(AdmitterConfig::default())
    }

    pub(super) fn with(config: AdmitterConfig) -> Self {
        let member = member_record(0, &body(FOUNDER, "n0"));
        Self {
            admitter: Admitter::new(config, FOUNDER, cluster_record(1), member),
            now: Time(1_000_000),
            requests: 0,
        }
    }

    pub(super) fn wait_ms(&mut self, ms: u64) {
        self.now = self.now.plus_millis(ms);
    }

    /// One request of this stranger; its nonce is as unique as the request.
    pub(super) fn ask(
        &mut self,
        from: NodeKey,
        address: IpAddr,
        bytes: &[u8],
    ) -> Vec<AdmitterOutput> {
        self.requests += 1;
        let mut nonce = [0; 32];
        nonce[..8].copy_from_slice(&self.requests.to_le_bytes());
        self.input(AdmitterInput::Asked(ReceivedRequest {
            request: RequestId(self.requests),
            address,
            key: from,
            bytes: bytes.to_vec(),
            nonce: Nonce(nonce),
        }))
    }

    pub(super) fn input(&mut self, input: AdmitterInput) -> Vec<AdmitterOutput> {
        let mut out = Vec::new();
        self.admitter.handle(self.now, input, &mut out);
        out
    }

    /// The bytes of the only reply.
    pub(super) fn reply(out: &[AdmitterOutput]) -> Vec<u8> {
        match out {
            [AdmitterOutput::Reply { bytes, .. }] => bytes.clone(),
            other => panic!("one reply was due: {other:?}"),
        }
    }

    /// Why the only reply refuses.
    pub(super) fn refusal(out: &[AdmitterOutput]) -> (JoinRefusal, u32) {
        match JoinReply::decode(&Self::reply(out)).unwrap() {
            JoinReply::Refused(refused) => (refused.refusal, refused.retry_ms),
            other => panic!("a refusal was due: {other:?}"),
        }
    }

    /// One whole attempt of a joiner, judged by `judge`.
    pub(super) fn attempt(
        &mut self,
        joiner: &mut Joiner,
        from: NodeKey,
        address: IpAddr,
        judge: impl FnOnce(&AdmissionRequest) -> Result<Welcome, JoinRefusal>,
    ) -> Result<JoinerStep, JoinerError> {
        let out = self.ask(from, address, &joiner.hello()?);
        let prove = match joiner.reply(&FOUNDER, &Self::reply(&out), &FakeVerify)? {
            JoinerStep::Send(bytes) => bytes,
            JoinerStep::Joined(_) => panic!("joined without a proof"),
        };
        let out = self.ask(from, address, &prove);
        let out = match out.as_slice() {
            [
                AdmitterOutput::Judge {
                    ticket,
                    admission_request,
                },
            ] => {
                let verdict = judge(admission_request).map(Box::new);
                self.input(AdmitterInput::Judged {
                    ticket: *ticket,
                    verdict,
                })
            }
            _ => out,
        };
        joiner.reply(&FOUNDER, &Self::reply(&out), &FakeVerify)
    }
}

/// Judges like an authority that knows one token.
pub(super) fn judge(admission_request: &AdmissionRequest) -> Result<Welcome, JoinRefusal> {
    if admission_request.claim.token != token().id {
        return Err(JoinRefusal::UnknownToken);
    }
    if !admission_request
        .proof
        .holds(&admission_request.claim, &token().key())
    {
        return Err(JoinRefusal::WrongSecret);
    }
    Ok(welcome())
}
