//! What others ask: strangers with a token, members that try the way, and members with a question.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_control::request::RequestFailure;
use muster_control::request::cluster::{Admit, Admittance};
use muster_gossip::Mesh;
use muster_gossip::join::{
    AdmissionTicket, Admitter, AdmitterConfig, AdmitterInput, AdmitterOutput, JoinRefusal,
    JoinReply, Nonce, ReceivedRequest, RequestId,
};
use muster_gossip::key::NodeKey;
use muster_gossip::member::MemberId;
use muster_gossip::net::driver::MeshHandle;
use muster_gossip::net::join::{Inbound, QuestionProtocol, QuestionResponder, Questions, To};
use muster_gossip::net::quic::IncomingRequest;
use muster_gossip::record::{Record, RecordKey};
use muster_model::time::Time;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::echo::{self, EchoAnswer};
use crate::requests::RequestRouter;

/// How often old sessions are looked for.
const SWEEP: Duration = Duration::from_secs(1);
/// Verdicts of the authority that wait to be passed on.
const VERDICTS_MAX: usize = 256;

/// What hearing strangers needs.
#[derive(Clone, Debug)]
pub(super) struct InboundContext {
    /// The core.
    pub(super) mesh: MeshHandle,
    /// The way to who decides.
    pub(super) requests: RequestRouter,
    /// This node's key.
    pub(super) key: NodeKey,
    /// This node.
    pub(super) me: MemberId,
    /// Questions to others.
    pub(super) questions: Questions,
}

impl InboundContext {
    /// Tells whoever asks of the way there and back.
    async fn echo(&self, from: MemberId, back: bool) -> EchoAnswer {
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
    requests: RequestRouter,
    mut incoming: mpsc::Receiver<IncomingRequest>,
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

type AdmissionVerdict = (AdmissionTicket, AdmitterInput);

/// Hears what others ask, until the ports are closed.
pub(super) async fn run(context: InboundContext, mut inbound: mpsc::Receiver<Inbound>) {
    let (verdicts, mut judged) = mpsc::channel::<AdmissionVerdict>(VERDICTS_MAX);
    let started = Instant::now();
    let mut handler = InboundHandler {
        context,
        admitter: None,
        waiting: BTreeMap::new(),
        next: 0,
        verdicts,
        started,
    };
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        tokio::select! {
            question = inbound.recv() => match question {
                Some(question) => handler.take(question).await,
                None => return,
            },
            Some((_, verdict)) = judged.recv() => handler.handle(verdict).await,
            _ = sweep.tick() => handler.handle(AdmitterInput::Tick).await,
        }
    }
}

struct InboundHandler {
    context: InboundContext,
    /// Made once the node knows its own admission.
    admitter: Option<Admitter>,
    waiting: BTreeMap<RequestId, QuestionResponder>,
    next: u64,
    verdicts: mpsc::Sender<AdmissionVerdict>,
    started: Instant,
}

impl InboundHandler {
    async fn take(&mut self, question: Inbound) {
        match question.protocol {
            QuestionProtocol::Join => self.stranger(question).await,
            QuestionProtocol::Echo => self.echo(question).await,
        }
    }

    /// A member tries the way here: the answer may take a while, others are heard meanwhile.
    async fn echo(&self, question: Inbound) {
        let key = question.from;
        let Ok(Some(from)) = self
            .context
            .mesh
            .look(move |mesh| mesh.member_of(&key))
            .await
        else {
            return;
        };
        let Some(back) = echo::asked(&question.bytes) else {
            return;
        };
        let context = self.context.clone();
        tokio::spawn(async move {
            let echo = context.echo(from, back).await;
            question.responder.answer(echo::encode(&echo)).await;
        });
    }

    async fn stranger(&mut self, question: Inbound) {
        if !self.show().await {
            return;
        }
        self.next += 1;
        let request = RequestId(self.next);
        self.waiting.insert(request, question.responder);
        let asked = ReceivedRequest {
            request,
            address: question.address.ip(),
            key: question.from,
            bytes: question.bytes,
            nonce: Nonce(rand::random()),
        };
        self.handle(AdmitterInput::Asked(asked)).await;
    }

    /// Shows strangers the newest records. Whether there are any to show.
    async fn show(&mut self) -> bool {
        let me = self.context.me;
        let look = self.context.mesh.look(move |mesh| shown(mesh, me)).await;
        let Ok(Some((cluster, member))) = look else {
            return false;
        };
        match &mut self.admitter {
            Some(admitter) => admitter.show(cluster, member),
            None => {
                let key = self.context.key;
                self.admitter = Some(Admitter::new(
                    AdmitterConfig::default(),
                    key,
                    cluster,
                    member,
                ));
            }
        }
        true
    }

    async fn handle(&mut self, input: AdmitterInput) {
        let Some(admitter) = &mut self.admitter else {
            return;
        };
        let elapsed = self.started.elapsed().as_micros();
        let now = Time(u64::try_from(elapsed).unwrap_or(u64::MAX));
        let mut out = Vec::new();
        admitter.handle(now, input, &mut out);
        for output in out {
            match output {
                AdmitterOutput::Reply { request, bytes } => {
                    if let Some(responder) = self.waiting.remove(&request) {
                        responder.answer(bytes).await;
                    }
                }
                AdmitterOutput::Judge {
                    ticket,
                    admission_request,
                } => self.judge(ticket, admission_request.encode()),
            }
        }
    }

    /// Has the authority judge, and passes on what it says.
    fn judge(
        &self,
        ticket: AdmissionTicket,
        admission_request: Result<Vec<u8>, muster_gossip::join::MessageError>,
    ) {
        let requests = self.context.requests.clone();
        let verdicts = self.verdicts.clone();
        tokio::spawn(async move {
            let verdict = match admission_request {
                Ok(bytes) => verdict(requests.cluster(Admit(bytes)).await),
                Err(_) => Err(JoinRefusal::Malformed),
            };
            // Nobody waits where the port is closed.
            let _ = verdicts
                .send((ticket, AdmitterInput::Judged { ticket, verdict }))
                .await;
        });
    }
}

fn verdict(
    answer: Result<Admittance, RequestFailure>,
) -> Result<Box<muster_gossip::join::Welcome>, JoinRefusal> {
    match answer {
        Ok(Admittance::Welcome(bytes)) => match JoinReply::decode(&bytes) {
            Ok(JoinReply::Welcome(welcome)) => Ok(Box::new(welcome)),
            _ => Err(JoinRefusal::Unavailable),
        },
        Ok(Admittance::Refused(refusal)) => Err(refusal),
        Err(failure) => {
            tracing::warn!(%failure, "an admission request was not judged");
            Err(JoinRefusal::Unavailable)
        }
    }
}

fn shown(mesh: &Mesh, me: MemberId) -> Option<(Arc<Record>, Arc<Record>)> {
    let cluster = mesh.record(RecordKey::Cluster)?;
    let member = mesh.record(RecordKey::Member(me))?;
    Some((Arc::clone(cluster), Arc::clone(member)))
}
