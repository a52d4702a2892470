//! The asked node's side: any member's.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use muster_model::time::Time;

use super::attempts::{Attempts, Who};
use super::claim::{Claim, Nonce, Petition};
use super::message::{Challenge, Hello, MessageError, Prove, Refused, Reply, Request, Welcome};
use super::refusal::Refusal;
use crate::key::{ClusterId, NodeKey};
use crate::record::Record;

/// How many strangers are heard, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
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

impl Default for Config {
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

/// A petition under way: the verdict names the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// A request with what the connection says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
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
pub enum Input {
    /// A stranger asks.
    Asked(Asked),
    /// The authority has judged a petition.
    Judged {
        /// Which.
        ticket: Ticket,
        /// The welcome, or why not.
        verdict: Result<Box<Welcome>, Refusal>,
    },
    /// Nothing but time passed.
    Tick,
}

/// What an admitter wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Answer a request.
    Reply {
        /// Which.
        request: RequestId,
        /// With these bytes.
        bytes: Vec<u8>,
    },
    /// Have the authority judge; answer with [`Input::Judged`].
    Judge {
        /// Which.
        ticket: Ticket,
        /// What.
        petition: Box<Petition>,
    },
}

#[derive(Debug)]
struct Session {
    address: IpAddr,
    until: Time,
    state: State,
}

#[derive(Debug)]
enum State {
    Challenged {
        hello: Box<Hello>,
        nonce: Nonce,
    },
    Judging {
        ticket: Ticket,
        request: RequestId,
        who: [Who; 2],
    },
}

/// Hears strangers, hands their petitions to the authority, and answers. Holds one session for
/// each key at most; a challenge is good for one proof.
#[derive(Debug)]
pub struct Admitter {
    config: Config,
    key: NodeKey,
    cluster: Arc<Record>,
    member: Arc<Record>,
    sessions: BTreeMap<NodeKey, Session>,
    attempts: Attempts,
    tickets: u64,
    refused: BTreeMap<Refusal, u64>,
    welcomed: u64,
}

impl Admitter {
    /// The admitter of the member with this key, which shows these records to strangers.
    pub fn new(config: Config, key: NodeKey, cluster: Arc<Record>, member: Arc<Record>) -> Self {
        Self {
            config,
            key,
            cluster,
            member,
            sessions: BTreeMap::new(),
            attempts: Attempts::default(),
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
    pub const fn refused(&self) -> &BTreeMap<Refusal, u64> {
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

    /// When to call again at the latest, with [`Input::Tick`].
    pub fn deadline(&self) -> Option<Time> {
        self.sessions.values().map(|session| session.until).min()
    }

    /// Takes an input. Every request is answered once.
    pub fn handle(&mut self, now: Time, input: Input, out: &mut Vec<Output>) {
        self.expire(now, out);
        match input {
            Input::Asked(asked) => self.asked(now, &asked, out),
            Input::Judged { ticket, verdict } => self.judged(now, ticket, verdict, out),
            Input::Tick => {}
        }
    }

    fn asked(&mut self, now: Time, asked: &Asked, out: &mut Vec<Output>) {
        let result = match Request::decode(&asked.bytes) {
            Ok(Request::Hello(hello)) => self.hello(now, asked, hello),
            Ok(Request::Prove(prove)) => self.prove(now, asked, prove),
            Err(MessageError::Version(_)) => Err(refused(Refusal::Unsupported)),
            Err(MessageError::TooLong(_) | MessageError::Malformed) => {
                Err(refused(Refusal::Malformed))
            }
        };
        match result {
            Ok(output) => out.push(output),
            Err(refusal) => self.reply(asked.request, Reply::Refused(refusal), out),
        }
    }

    fn hello(&mut self, now: Time, asked: &Asked, hello: Hello) -> Result<Output, Refused> {
        if hello.key != asked.key {
            return Err(refused(Refusal::Malformed));
        }
        self.allow(now, Who::address(asked.address))?;
        self.place_for(asked)?;
        let challenge = Challenge {
            cluster: Arc::clone(&self.cluster),
            member: Arc::clone(&self.member),
            nonce: asked.nonce,
        };
        let bytes = Reply::Challenge(challenge).encode();
        let session = Session {
            address: asked.address,
            until: now.plus_millis(self.config.challenge_ms),
            state: State::Challenged {
                hello: Box::new(hello),
                nonce: asked.nonce,
            },
        };
        self.sessions.insert(asked.key, session);
        Ok(Output::Reply {
            request: asked.request,
            bytes: bytes.map_err(|_| refused(Refusal::Unavailable))?,
        })
    }

    /// Whether there is a place for this stranger. It may replace its own challenge, not its
    /// petition.
    fn place_for(&self, asked: &Asked) -> Result<(), Refused> {
        let busy = Refused {
            refusal: Refusal::Busy,
            retry_ms: self.config.busy_ms,
        };
        match self.sessions.get(&asked.key).map(|session| &session.state) {
            Some(State::Challenged { .. }) => return Ok(()),
            Some(State::Judging { .. }) => return Err(busy),
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

    fn prove(&mut self, now: Time, asked: &Asked, prove: Prove) -> Result<Output, Refused> {
        let who = [Who::address(asked.address), Who::Token(prove.token)];
        let session = self.sessions.get_mut(&asked.key);
        let session = session.ok_or_else(|| refused(Refusal::Late))?;
        let State::Challenged { hello, nonce } = &session.state else {
            return Err(refused(Refusal::Late));
        };
        let claim = claim(self.cluster.cluster, self.key, hello, *nonce, &prove);
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        session.until = now.plus_millis(self.config.judge_ms);
        session.state = State::Judging {
            ticket,
            request: asked.request,
            who,
        };
        if let Err(busy) = who.into_iter().try_for_each(|who| self.allow(now, who)) {
            self.sessions.remove(&asked.key);
            return Err(busy);
        }
        let petition = Petition {
            claim,
            proof: prove.proof,
        };
        Ok(Output::Judge {
            ticket,
            petition: Box::new(petition),
        })
    }

    fn judged(
        &mut self,
        now: Time,
        ticket: Ticket,
        verdict: Result<Box<Welcome>, Refusal>,
        out: &mut Vec<Output>,
    ) {
        // A verdict that came too late finds nobody: its request was answered.
        let Some((request, who)) = self.close(ticket) else {
            return;
        };
        let reply = match verdict {
            Ok(welcome) => Reply::Welcome(*welcome),
            Err(refusal) => {
                self.count_wrong(now, who, refusal);
                Reply::Refused(refused(refusal))
            }
        };
        self.reply(request, reply, out);
    }

    /// Guessing ids counts against the address alone: the table of tokens is not to be filled
    /// with tokens that do not exist.
    fn count_wrong(&mut self, now: Time, [address, token]: [Who; 2], refusal: Refusal) {
        if matches!(refusal, Refusal::WrongSecret | Refusal::UnknownToken) {
            self.attempts.wrong(now, address);
        }
        if refusal == Refusal::WrongSecret {
            self.attempts.wrong(now, token);
        }
    }

    fn close(&mut self, wanted: Ticket) -> Option<(RequestId, [Who; 2])> {
        let found = self
            .sessions
            .iter()
            .find_map(|(key, session)| match session.state {
                State::Judging {
                    ticket,
                    request,
                    who,
                } if ticket == wanted => Some((*key, request, who)),
                State::Judging { .. } | State::Challenged { .. } => None,
            });
        let (key, request, who) = found?;
        self.sessions.remove(&key);
        Some((request, who))
    }

    fn allow(&self, now: Time, who: Who) -> Result<(), Refused> {
        match self.attempts.wait_ms(now, who) {
            None => Ok(()),
            Some(wait_ms) => Err(Refused {
                refusal: Refusal::Busy,
                retry_ms: u32::try_from(wait_ms).unwrap_or(u32::MAX),
            }),
        }
    }

    fn expire(&mut self, now: Time, out: &mut Vec<Output>) {
        let over = |session: &Session| session.until <= now;
        let keys = self.sessions.iter().filter(|(_, session)| over(session));
        let keys: Vec<NodeKey> = keys.map(|(key, _)| *key).collect();
        for key in keys {
            let session = self.sessions.remove(&key);
            if let Some(State::Judging { request, .. }) = session.map(|session| session.state) {
                self.reply(request, Reply::Refused(refused(Refusal::Unavailable)), out);
            }
        }
    }

    fn reply(&mut self, request: RequestId, reply: Reply, out: &mut Vec<Output>) {
        let bytes = reply.encode().or_else(|_| {
            // Only a welcome that was not made by `Welcome::new` can be too long.
            Reply::Refused(refused(Refusal::Unavailable)).encode()
        });
        match reply {
            Reply::Refused(Refused { refusal, .. }) => {
                *self.refused.entry(refusal).or_default() += 1;
            }
            Reply::Welcome(_) => self.welcomed += 1,
            Reply::Challenge(_) => {}
        }
        out.push(Output::Reply {
            request,
            bytes: bytes.unwrap_or_default(),
        });
    }
}

const fn refused(refusal: Refusal) -> Refused {
    let retry_ms = if refusal.passes() { 1_000 } else { 0 };
    Refused { refusal, retry_ms }
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
