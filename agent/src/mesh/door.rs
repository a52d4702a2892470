//! Who knocks: strangers with a token, members that try the way, and members with a question.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_control::request::Failure;
use muster_control::request::cluster::{Admittance, Petition};
use muster_gossip::Mesh;
use muster_gossip::join::{
    Admitter, Asked, Config, Input, Nonce, Output, Refusal, Reply, RequestId, Ticket,
};
use muster_gossip::key::NodeKey;
use muster_gossip::member::MemberId;
use muster_gossip::net::driver::MeshHandle;
use muster_gossip::net::join::{Inbound, Protocol, Questions, Responder, To};
use muster_gossip::net::quic::Incoming;
use muster_gossip::record::{Record, RecordKey};
use muster_model::time::Time;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::echo::{self, Echo};
use crate::requests::Requests;

/// How often old sessions are looked for.
const SWEEP: Duration = Duration::from_secs(1);
/// Verdicts of the authority that wait to be passed on.
const VERDICTS_MAX: usize = 256;

/// What hearing strangers needs.
#[derive(Clone, Debug)]
pub(super) struct Door {
    /// The core.
    pub(super) mesh: MeshHandle,
    /// The way to who decides.
    pub(super) requests: Requests,
    /// This node's key.
    pub(super) key: NodeKey,
    /// This node.
    pub(super) me: MemberId,
    /// Questions to others.
    pub(super) questions: Questions,
}

impl Door {
    /// Tells whoever asks of the way there and back.
    async fn echo(&self, from: MemberId, back: bool) -> Echo {
        let look = self.mesh.look(move |mesh| {
            let member = mesh.member(from)?;
            let key = Some(member.body.key);
            let addresses = member.node.map(|node| node.addresses).unwrap_or_default();
            let to = addresses.into_iter().map(|address| To { address, key });
            Some(to.collect())
        });
        let to = look.await.ok().flatten().unwrap_or_default();
        echo::answer(&self.questions, to, back).await
    }
}

/// Answers what members ask, until the ports are closed. Answers are made by `others`: they may be
/// long, and the mesh's own thread has signs of life to give.
pub(super) async fn answer(
    requests: Requests,
    mut incoming: mpsc::Receiver<Incoming>,
    others: Handle,
) {
    while let Some(asked) = incoming.recv().await {
        let requests = requests.clone();
        others.spawn(async move {
            if let Some(bytes) = requests.answer_bytes(asked.from, &asked.bytes).await {
                asked.responder.answer(&bytes).await;
            }
        });
    }
}

type Verdict = (Ticket, Input);

/// Hears whoever knocks, until the ports are closed.
pub(super) async fn run(door: Door, mut inbound: mpsc::Receiver<Inbound>) {
    let (verdicts, mut judged) = mpsc::channel::<Verdict>(VERDICTS_MAX);
    let started = Instant::now();
    let mut hall = Hall {
        door,
        admitter: None,
        waiting: BTreeMap::new(),
        next: 0,
        verdicts,
        started,
    };
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        tokio::select! {
            knock = inbound.recv() => match knock {
                Some(knock) => hall.knock(knock).await,
                None => return,
            },
            Some((_, verdict)) = judged.recv() => hall.handle(verdict).await,
            _ = sweep.tick() => hall.handle(Input::Tick).await,
        }
    }
}

struct Hall {
    door: Door,
    /// Made once the node knows its own admission.
    admitter: Option<Admitter>,
    waiting: BTreeMap<RequestId, Responder>,
    next: u64,
    verdicts: mpsc::Sender<Verdict>,
    started: Instant,
}

impl Hall {
    async fn knock(&mut self, knock: Inbound) {
        match knock.protocol {
            Protocol::Join => self.stranger(knock).await,
            Protocol::Echo => self.echo(knock).await,
        }
    }

    /// A member tries the way here: the answer may take a while, others are heard meanwhile.
    async fn echo(&self, knock: Inbound) {
        let key = knock.from;
        let Ok(Some(from)) = self.door.mesh.look(move |mesh| mesh.member_of(&key)).await else {
            return;
        };
        let Some(back) = echo::asked(&knock.bytes) else {
            return;
        };
        let door = self.door.clone();
        tokio::spawn(async move {
            let echo = door.echo(from, back).await;
            knock.responder.answer(echo::encode(&echo)).await;
        });
    }

    async fn stranger(&mut self, knock: Inbound) {
        if !self.show().await {
            return;
        }
        self.next += 1;
        let request = RequestId(self.next);
        self.waiting.insert(request, knock.responder);
        let asked = Asked {
            request,
            address: knock.address.ip(),
            key: knock.from,
            bytes: knock.bytes,
            nonce: Nonce(rand::random()),
        };
        self.handle(Input::Asked(asked)).await;
    }

    /// Shows strangers the newest records. Whether there are any to show.
    async fn show(&mut self) -> bool {
        let me = self.door.me;
        let look = self.door.mesh.look(move |mesh| shown(mesh, me)).await;
        let Ok(Some((cluster, member))) = look else {
            return false;
        };
        match &mut self.admitter {
            Some(admitter) => admitter.show(cluster, member),
            None => {
                let key = self.door.key;
                self.admitter = Some(Admitter::new(Config::default(), key, cluster, member));
            }
        }
        true
    }

    async fn handle(&mut self, input: Input) {
        let Some(admitter) = &mut self.admitter else {
            return;
        };
        let elapsed = self.started.elapsed().as_micros();
        let now = Time(u64::try_from(elapsed).unwrap_or(u64::MAX));
        let mut out = Vec::new();
        admitter.handle(now, input, &mut out);
        for output in out {
            match output {
                Output::Reply { request, bytes } => {
                    if let Some(responder) = self.waiting.remove(&request) {
                        responder.answer(bytes).await;
                    }
                }
                Output::Judge { ticket, petition } => self.judge(ticket, petition.encode()),
            }
        }
    }

    /// Has the authority judge, and passes on what it says.
    fn judge(&self, ticket: Ticket, petition: Result<Vec<u8>, muster_gossip::join::MessageError>) {
        let requests = self.door.requests.clone();
        let verdicts = self.verdicts.clone();
        tokio::spawn(async move {
            let verdict = match petition {
                Ok(bytes) => verdict(requests.cluster(Petition(bytes)).await),
                Err(_) => Err(Refusal::Malformed),
            };
            // Nobody waits where the door is closed.
            let _ = verdicts
                .send((ticket, Input::Judged { ticket, verdict }))
                .await;
        });
    }
}

fn verdict(
    answer: Result<Admittance, Failure>,
) -> Result<Box<muster_gossip::join::Welcome>, Refusal> {
    match answer {
        Ok(Admittance::Welcome(bytes)) => match Reply::decode(&bytes) {
            Ok(Reply::Welcome(welcome)) => Ok(Box::new(welcome)),
            _ => Err(Refusal::Unavailable),
        },
        Ok(Admittance::Refused(refusal)) => Err(refusal),
        Err(failure) => {
            tracing::warn!(%failure, "a petition was not judged");
            Err(Refusal::Unavailable)
        }
    }
}

fn shown(mesh: &Mesh, me: MemberId) -> Option<(Arc<Record>, Arc<Record>)> {
    let cluster = mesh.record(RecordKey::Cluster)?;
    let member = mesh.record(RecordKey::Member(me))?;
    Some((Arc::clone(cluster), Arc::clone(member)))
}
