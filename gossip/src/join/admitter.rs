//! The asked node's side: any member's.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use muster_model::time::Time;

use super::attempts::{ProofSource, WrongProofs};
use super::claim::{AdmissionRequest, Claim, Nonce};
use super::message::{
    Challenge, Hello, JoinRefused, JoinReply, JoinerMessage, MessageError, Prove, Welcome,
};
use super::refusal::JoinRefusal;
use crate::key::{ClusterId, NodeKey};
use crate::record::Record;

/// How many strangers are heard, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmitterConfig {
    /// Strangers at a time.
    pub sessions_max: usize,
    /// Strangers at a time from one address.
    pub address_sessions_max: usize,
    /// How long a challenge stands, ms.
    pub challenge_ms: u64,
    /// How long the authority may take, ms.
    pub judge_ms: u64,
    /// When somebody who came while all places were taken may come again, ms.
    pub busy_ms: u32,
}

impl Default for AdmitterConfig {
    fn default() -> Self {
        Self {
            sessions_max: 1_024,
            address_sessions_max: 64,
            challenge_ms: 10_000,
            judge_ms: 10_000,
            busy_ms: 500,
        }
    }
}

/// A request as the driver numbers it: the reply goes to the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// An admission request under way: the verdict names the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AdmissionTicket(pub u64);

/// A request with what the connection says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// Which.
    pub request: RequestId,
    /// From where.
    pub address: IpAddr,
    /// From whom: the key that the connection proved.
    pub key: NodeKey,
    /// What.
    pub bytes: Vec<u8>,
    /// Random and new.
    pub nonce: Nonce,
}

/// What happens to an admitter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmitterInput {
    /// A stranger asks.
    Asked(ReceivedRequest),
    /// The authority has judged an admission request.
    Judged {
        /// Which.
        ticket: AdmissionTicket,
        /// The welcome, or why not.
        verdict: Result<Box<Welcome>, JoinRefusal>,
    },
    /// Nothing but time passed.
    Tick,
}

/// What an admitter wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmitterOutput {
    /// Answer a request.
    Reply {
        /// Which.
        request: RequestId,
        /// With these bytes.
        bytes: Vec<u8>,
    },
    /// Have the authority judge; answer with [`AdmitterInput::Judged`].
    Judge {
        /// Which.
        ticket: AdmissionTicket,
        /// What.
        admission_request: Box<AdmissionRequest>,
    },
}

#[derive(Debug)]
struct JoinSession {
    address: IpAddr,
    until: Time,
    state: SessionState,
}

#[derive(Debug)]
enum SessionState {
    Challenged {
        hello: Box<Hello>,
        nonce: Nonce,
    },
    Judging {
        ticket: AdmissionTicket,
        request: RequestId,
        who: [ProofSource; 2],
    },
}

/// Hears strangers, hands their admission requests to the authority, and answers. Holds one session for
/// each key at most; a challenge is good for one proof.
#[derive(Debug)]
pub struct Admitter {
    config: AdmitterConfig,
    key: NodeKey,
    cluster: Arc<Record>,
    member: Arc<Record>,
    sessions: BTreeMap<NodeKey, JoinSession>,
    attempts: WrongProofs,
    tickets: u64,
    refused: BTreeMap<JoinRefusal, u64>,
    welcomed: u64,
}

impl Admitter {
    /// The admitter of the member with this key, which shows these records to strangers.
    pub fn new(
        config: AdmitterConfig,
        key: NodeKey,
        cluster: Arc<Record>,
        member: Arc<Record>,
    ) -> Self {
        Self {
            config,
            key,
            cluster,
            member,
            sessions: BTreeMap::new(),
            attempts: WrongProofs::default(),
            tickets: 0,
            refused: BTreeMap::new(),
            welcomed: 0,
        }
    }

    /// The cluster's record or this node's admission has a newer version.
    pub fn show(&mut self, cluster: Arc<Record>, member: Arc<Record>) {
        self.cluster = cluster;
        self.member = member;
    }

    /// How often strangers were refused, and why.
    pub const fn refused(&self) -> &BTreeMap<JoinRefusal, u64> {
        &self.refused
    }

    /// How many were welcomed.
    pub const fn welcomed(&self) -> u64 {
        self.welcomed
    }

    /// Strangers that are being heard.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// When to call again at the latest, with [`AdmitterInput::Tick`].
    pub fn deadline(&self) -> Option<Time> {
        self.sessions.values().map(|session| session.until).min()
    }

    /// Takes an input. Every request is answered once.
    pub fn handle(&mut self, now: Time, input: AdmitterInput, out: &mut Vec<AdmitterOutput>) {
        self.expire(now, out);
        match input {
            AdmitterInput::Asked(asked) => self.asked(now, &asked, out),
            AdmitterInput::Judged { ticket, verdict } => self.judged(now, ticket, verdict, out),
            AdmitterInput::Tick => {}
        }
    }

    fn asked(&mut self, now: Time, asked: &ReceivedRequest, out: &mut Vec<AdmitterOutput>) {
        let result = match JoinerMessage::decode(&asked.bytes) {
            Ok(JoinerMessage::Hello(hello)) => self.hello(now, asked, hello),
            Ok(JoinerMessage::Prove(prove)) => self.prove(now, asked, prove),
            Err(MessageError::Version(_)) => Err(refused(JoinRefusal::Unsupported)),
            Err(MessageError::TooLong(_) | MessageError::Malformed) => {
                Err(refused(JoinRefusal::Malformed))
            }
        };
        match result {
            Ok(output) => out.push(output),
            Err(refusal) => self.reply(asked.request, JoinReply::Refused(refusal), out),
        }
    }

    fn hello(
        &mut self,
        now: Time,
        asked: &ReceivedRequest,
        hello: Hello,
    ) -> Result<AdmitterOutput, JoinRefused> {
        if hello.key != asked.key {
            return Err(refused(JoinRefusal::Malformed));
        }
        self.allow(now, ProofSource::address(asked.address))?;
        self.place_for(asked)?;
        let challenge = Challenge {
            cluster: Arc::clone(&self.cluster),
            member: Arc::clone(&self.member),
            nonce: asked.nonce,
        };
        let bytes = JoinReply::Challenge(challenge).encode();
        let session = JoinSession {
            address: asked.address,
            until: now.plus_millis(self.config.challenge_ms),
            state: SessionState::Challenged {
                hello: Box::new(hello),
                nonce: asked.nonce,
            },
        };
        self.sessions.insert(asked.key, session);
        Ok(AdmitterOutput::Reply {
            request: asked.request,
            bytes: bytes.map_err(|_| refused(JoinRefusal::Unavailable))?,
        })
    }

    /// Whether there is a place for this stranger. It may replace its own challenge, not its
    /// admission request.
    fn place_for(&self, asked: &ReceivedRequest) -> Result<(), JoinRefused> {
        let busy = JoinRefused {
            refusal: JoinRefusal::Busy,
            retry_ms: self.config.busy_ms,
        };
        match self.sessions.get(&asked.key).map(|session| &session.state) {
            Some(SessionState::Challenged { .. }) => return Ok(()),
            Some(SessionState::Judging { .. }) => return Err(busy),
            None => {}
        }
        let sessions = self.sessions.values();
        let near = sessions.filter(|session| session.address == asked.address);
        if self.sessions.len() >= self.config.sessions_max
            || near.count() >= self.config.address_sessions_max
        {
            return Err(busy);
        }
        Ok(())
    }

    fn prove(
        &mut self,
        now: Time,
        asked: &ReceivedRequest,
        prove: Prove,
    ) -> Result<AdmitterOutput, JoinRefused> {
        let who = [
            ProofSource::address(asked.address),
            ProofSource::Token(prove.token),
        ];
        let session = self.sessions.get_mut(&asked.key);
        let session = session.ok_or_else(|| refused(JoinRefusal::Late))?;
        let SessionState::Challenged { hello, nonce } = &session.state else {
            return Err(refused(JoinRefusal::Late));
        };
        let claim = claim(self.cluster.cluster, self.key, hello, *nonce, &prove);
        self.tickets += 1;
        let ticket = AdmissionTicket(self.tickets);
        session.until = now.plus_millis(self.config.judge_ms);
        session.state = SessionState::Judging {
            ticket,
            request: asked.request,
            who,
        };
        if let Err(busy) = who.into_iter().try_for_each(|who| self.allow(now, who)) {
            self.sessions.remove(&asked.key);
            return Err(busy);
        }
        let admission_request = AdmissionRequest {
            claim,
            proof: prove.proof,
        };
        Ok(AdmitterOutput::Judge {
            ticket,
            admission_request: Box::new(admission_request),
        })
    }

    fn judged(
        &mut self,
        now: Time,
        ticket: AdmissionTicket,
        verdict: Result<Box<Welcome>, JoinRefusal>,
        out: &mut Vec<AdmitterOutput>,
    ) {
        // A verdict that came too late finds nobody: its request was answered.
        let Some((request, who)) = self.close(ticket) else {
            return;
        };
        let reply = match verdict {
            Ok(welcome) => JoinReply::Welcome(*welcome),
            Err(refusal) => {
                self.count_wrong(now, who, refusal);
                JoinReply::Refused(refused(refusal))
            }
        };
        self.reply(request, reply, out);
    }

    /// Guessing ids counts against the address alone: the table of tokens is not to be filled
    /// with tokens that do not exist.
    fn count_wrong(&mut self, now: Time, [address, token]: [ProofSource; 2], refusal: JoinRefusal) {
        if matches!(
            refusal,
            JoinRefusal::WrongSecret | JoinRefusal::UnknownToken
        ) {
            self.attempts.wrong(now, address);
        }
        if refusal == JoinRefusal::WrongSecret {
            self.attempts.wrong(now, token);
        }
    }

    fn close(&mut self, wanted: AdmissionTicket) -> Option<(RequestId, [ProofSource; 2])> {
        let found = self
            .sessions
            .iter()
            .find_map(|(key, session)| match session.state {
                SessionState::Judging {
                    ticket,
                    request,
                    who,
                } if ticket == wanted => Some((*key, request, who)),
                SessionState::Judging { .. } | SessionState::Challenged { .. } => None,
            });
        let (key, request, who) = found?;
        self.sessions.remove(&key);
        Some((request, who))
    }

    fn allow(&self, now: Time, who: ProofSource) -> Result<(), JoinRefused> {
        match self.attempts.wait_ms(now, who) {
            None => Ok(()),
            Some(wait_ms) => Err(JoinRefused {
                refusal: JoinRefusal::Busy,
                retry_ms: u32::try_from(wait_ms).unwrap_or(u32::MAX),
            }),
        }
    }

    fn expire(&mut self, now: Time, out: &mut Vec<AdmitterOutput>) {
        let over = |session: &JoinSession| session.until <= now;
        let keys = self.sessions.iter().filter(|(_, session)| over(session));
        let keys: Vec<NodeKey> = keys.map(|(key, _)| *key).collect();
        for key in keys {
            let session = self.sessions.remove(&key);
            if let Some(SessionState::Judging { request, .. }) =
                session.map(|session| session.state)
            {
                self.reply(
                    request,
                    JoinReply::Refused(refused(JoinRefusal::Unavailable)),
                    out,
                );
            }
        }
    }

    fn reply(&mut self, request: RequestId, reply: JoinReply, out: &mut Vec<AdmitterOutput>) {
        let bytes = reply.encode().or_else(|_| {
            // Only a welcome that was not made by `Welcome::new` can be too long.
            JoinReply::Refused(refused(JoinRefusal::Unavailable)).encode()
        });
        match reply {
            JoinReply::Refused(JoinRefused { refusal, .. }) => {
                *self.refused.entry(refusal).or_default() += 1;
            }
            JoinReply::Welcome(_) => self.welcomed += 1,
            JoinReply::Challenge(_) => {}
        }
        out.push(AdmitterOutput::Reply {
            request,
            bytes: bytes.unwrap_or_default(),
        });
    }
}

const fn refused(refusal: JoinRefusal) -> JoinRefused {
    let retry_ms = if refusal.passes() { 1_000 } else { 0 };
    JoinRefused { refusal, retry_ms }
}

fn claim(
    cluster: ClusterId,
    node: NodeKey,
    hello: &Hello,
    node_nonce: Nonce,
    prove: &Prove,
) -> Claim {
    Claim {
        cluster,
        token: prove.token,
        joiner: hello.key,
        node,
        joiner_nonce: hello.nonce,
        node_nonce,
        name: hello.name.clone(),
        rack: hello.rack.clone(),
        agent_version: hello.agent_version.clone(),
        feature_level: hello.feature_level,
    }
}
