//! The tasks of a machine: what it answers, and what the leader of the cluster does on its own. They are polled
//! after whatever happens there, in the order in which they began, until none of them wants anything more.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use muster_consensus::{GroupId, NodeId};
use muster_control::answers::cluster::{ClusterService, Leading};
use muster_control::answers::vc::{AtCopy, AtLeader, committed, renew_all};
use muster_control::cluster::{ClusterMap, RecoverableCopy};
use muster_control::request::member::{
    AcceptInventory, CopyAge, GetKnownClusterMap, KeepBody, ListCommitted, ListCopies, ListHealth,
    ListImages, ListPulls, MarkPart, ReadBody, RecoverCluster, RenewLed, Succeed, TakeStacks,
    TestRules,
};
use muster_control::request::{Answers, AnyRequest, RequestFailure};
use muster_gossip::mesh;
use muster_gossip::record::{RecordKey, ReplacementBody};
use muster_gossip::{MemberId, documents};
use muster_model::health::HealthCheck;
use muster_model::id::AttemptUid;
use muster_model::image::ImageView;
use muster_model::inventory::InventoryProblem;
use muster_model::mesh::RecoveryView;
use muster_model::pull::Pull;
use muster_model::rule_test::RuleTest;
use muster_model::stacks::TakenStacks;

use super::asking::Call;
use super::frame::ClusterFrame;
use super::here::{Here, Standing, Want};
use super::machine::MachineDue;
use super::{At, Cluster, Out, number};
use crate::sim::mesh::member;

/// How long a member may take to answer another one's question, ms.
const ANSWER_MS: u64 = 15_000;

/// Something that is under way.
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// All that is under way on a machine.
#[derive(Default)]
pub(super) struct Tasks {
    all: Vec<Task>,
    /// They are being polled, or what they want is being done.
    busy: bool,
    /// What the leader of the cluster remembers, while it does nothing.
    leading: Arc<Mutex<Option<Leading>>>,
    /// Rounds of duties.
    rounds: u64,
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").finish_non_exhaustive()
    }
}

impl Tasks {
    pub(super) fn new() -> Self {
        let tasks = Self::default();
        tasks.rest(Leading::default());
        tasks
    }

    /// Begins something.
    pub(super) fn begin(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.all.push(Box::pin(task));
    }

    fn poll(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        self.all
            .retain_mut(|task| task.as_mut().poll(&mut context) == Poll::Pending);
    }

    fn rest(&self, leading: Leading) {
        let mut slot = self.leading.lock().unwrap_or_else(PoisonError::into_inner);
        *slot = Some(leading);
    }

    /// What the leader has to do, and now and then what every member has to, unless it is at it still.
    pub(super) fn take_turns(&mut self, cluster_service: &Arc<ClusterService<Here>>) {
        let mut slot = self.leading.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut leading) = slot.take() else {
            return;
        };
        drop(slot);
        self.rounds += 1;
        let mends = self.rounds.is_multiple_of(MEND_ROUNDS);
        let (cluster_service, rests) = (cluster_service.clone(), self.leading.clone());
        self.begin(async move {
            leading.turn(&cluster_service).await;
            if mends {
                cluster_service.mend_bodies().await;
            }
            let mut slot = rests.lock().unwrap_or_else(PoisonError::into_inner);
            *slot = Some(leading);
        });
    }
}

/// Bodies are looked for every so many turns.
const MEND_ROUNDS: u64 = 20;

impl Cluster {
    /// This machine is asked.
    pub(super) fn asked(
        &mut self,
        (now, node): At,
        (from, id): (usize, u64),
        request: Arc<[u8]>,
        out: &mut Out,
    ) {
        let Some(process) = &mut self.machines[node].process else {
            return;
        };
        let side = Side {
            cluster_service: process.cluster_service.clone(),
            here: process.here.clone(),
        };
        process.tasks.begin(async move {
            let answer = side.answer_bytes((number(node), member(from)), &request);
            if let Some(answer) = answer.await {
                side.here.want(Want::Answer(from, id, answer));
            }
        });
        self.poll((now, node), out);
    }

    /// Has the tasks of a machine go on, and does what they want.
    pub(super) fn poll(&mut self, (now, node): At, out: &mut Out) {
        if !self.set_busy(node) {
            return;
        }
        loop {
            let Some(standing) = self.standing((now, node)) else {
                return;
            };
            let Some(process) = &mut self.machines[node].process else {
                return;
            };
            process.here.set(standing);
            process.tasks.poll();
            let Some(want) = process.here.next() else {
                process.tasks.busy = false;
                return;
            };
            self.does_want((now, node), want, out);
        }
    }

    /// Whether nobody polls them already.
    fn set_busy(&mut self, node: usize) -> bool {
        let process = self.machines[node].process.as_mut();
        process.is_some_and(|it| !std::mem::replace(&mut it.tasks.busy, true))
    }

    fn standing(&self, (now, node): At) -> Option<Standing> {
        let machine = &self.machines[node];
        let core = &machine.process.as_ref()?.core;
        let lineage = core.lineage().cloned();
        Some(Standing {
            now: machine.group_host_now(now),
            lineage: lineage.unwrap_or_else(|| self.heard(node)),
            cluster_map: core.cluster_map().cloned(),
            full: machine.full,
        })
    }

    fn does_want(&mut self, (now, node): At, want: Want, out: &mut Out) {
        // Nobody hears of it.
        if self.machines[node].doomed {
            return;
        }
        match want {
            Want::Core(input) => self.take(now, node, input, out),
            Want::Mesh(look) => look(self.mesh.core(node)),
            Want::Publish(records, bodies) => {
                let records = records.into_iter().map(mesh::MeshInput::Record);
                let bodies = bodies.into_iter().map(|(document, body)| {
                    mesh::MeshInput::Document(documents::DocumentsInput::Body { document, body })
                });
                for input in records.chain(bodies) {
                    self.publish((now, node), input, out);
                }
            }
            Want::Ask(to, request, slot) => {
                let Ok(request) = AnyRequest::Member(request).encode() else {
                    return;
                };
                let call = Call::Task(slot);
                self.call((now, node), to.index(), (request.into(), call), out);
            }
            Want::Pause(ms, slot) => {
                let due = MachineDue::Passed(slot);
                self.machines[node].later(now.plus_millis(ms), due);
            }
            Want::Text(document, slot) => {
                let text = self.mesh.hosts[node].disk.bodies.get(&document);
                slot.fill(text.cloned());
            }
            Want::Brief => self.brief(now, node, out),
            Want::Answer(to, id, answer) if to == node => {
                self.hear_answer((now, node), node, (id, answer.into()), out);
            }
            Want::Answer(to, id, answer) => {
                self.send(
                    (now, node),
                    to,
                    ClusterFrame::Answer(id, answer.into()),
                    out,
                );
            }
        }
    }

    fn publish(&mut self, (now, node): At, input: mesh::MeshInput, out: &mut Out) {
        let said = match &input {
            mesh::MeshInput::Record(record) if record.key == RecordKey::Replacement => {
                record.body::<ReplacementBody>().ok()
            }
            _ => None,
        };
        self.in_mesh(out, |mesh, inner| mesh.input(now, node, input, inner));
        if let Some(said) = said {
            self.note_replacement(&said);
            self.see(now, node, out);
        }
    }

    /// Asks that member, and no other.
    pub(super) fn call(
        &mut self,
        (now, node): At,
        to: usize,
        (request, call): (Arc<[u8]>, Call),
        out: &mut Out,
    ) {
        let id = self.random.next();
        let Some(process) = &mut self.machines[node].process else {
            return;
        };
        process.asks.calls.insert(id, call);
        self.machines[node].later(now.plus_millis(ANSWER_MS), MachineDue::Late(id));
        match to == node {
            true => self.asked((now, node), (node, id), request, out),
            false => self.send((now, node), to, ClusterFrame::Ask(id, request), out),
        }
    }
}

/// What a machine answers with.
struct Side {
    cluster_service: Arc<ClusterService<Here>>,
    here: Here,
}

impl Side {
    /// As the agent does: by whom the request is for.
    async fn answer_bytes(
        &self,
        (me, from): (NodeId, MemberId),
        request: &[u8],
    ) -> Option<Vec<u8>> {
        match AnyRequest::decode(request).ok()? {
            AnyRequest::Cluster(request) => request.answer(&*self.cluster_service, from).await,
            AnyRequest::Vc { group, request } => {
                let side = AtLeader::new(&self.here, me, GroupId(group));
                request.answer(&side, from).await
            }
            AnyRequest::Copy { group, request } => {
                let side = AtCopy::new(&self.here, GroupId(group));
                request.answer(&side, from).await
            }
            AnyRequest::Member(request) => request.answer(self, from).await,
        }
    }
}

/// Answered by what decides for the cluster.
macro_rules! of_cluster_group {
    ($($request:ty => $answer:ty,)*) => {
        $(impl Answers<$request> for Side {
            async fn answer(&self, from: MemberId, request: $request) -> Result<$answer, RequestFailure> {
                self.cluster_service.answer(from, request).await
            }
        })*
    };
}

of_cluster_group! {
    KeepBody => (),
    ReadBody => String,
    ListCopies => Vec<RecoverableCopy>,
    GetKnownClusterMap => Option<ClusterMap>,
    RecoverCluster => RecoveryView,
    Succeed => (),
}

impl Answers<RenewLed> for Side {
    async fn answer(&self, _: MemberId, request: RenewLed) -> Result<Vec<u64>, RequestFailure> {
        Ok(renew_all(&self.here, request.groups, &request.node).await)
    }
}

impl Answers<ListCommitted> for Side {
    async fn answer(
        &self,
        _: MemberId,
        request: ListCommitted,
    ) -> Result<Vec<(u64, u64)>, RequestFailure> {
        Ok(committed(&self.here, request.groups).await)
    }
}

impl Answers<CopyAge> for Side {
    async fn answer(&self, _: MemberId, _: CopyAge) -> Result<Option<u64>, RequestFailure> {
        Ok(None)
    }
}

impl Answers<ListPulls> for Side {
    async fn answer(&self, _: MemberId, _: ListPulls) -> Result<Vec<Pull>, RequestFailure> {
        Ok(Vec::new())
    }
}

impl Answers<AcceptInventory> for Side {
    async fn answer(
        &self,
        _: MemberId,
        _: AcceptInventory,
    ) -> Result<Vec<InventoryProblem>, RequestFailure> {
        Ok(Vec::new())
    }
}

impl Answers<ListHealth> for Side {
    async fn answer(&self, _: MemberId, _: ListHealth) -> Result<Vec<HealthCheck>, RequestFailure> {
        Ok(Vec::new())
    }
}

impl Answers<MarkPart> for Side {
    async fn answer(
        &self,
        _: MemberId,
        request: MarkPart,
    ) -> Result<Vec<HealthCheck>, RequestFailure> {
        Err(RequestFailure::missing(request.part))
    }
}

impl Answers<ListImages> for Side {
    async fn answer(&self, _: MemberId, _: ListImages) -> Result<Vec<ImageView>, RequestFailure> {
        Ok(Vec::new())
    }
}

impl Answers<TestRules> for Side {
    async fn answer(&self, _: MemberId, _: TestRules) -> Result<RuleTest, RequestFailure> {
        Ok(RuleTest::default())
    }
}

impl Answers<TakeStacks> for Side {
    async fn answer(
        &self,
        _: MemberId,
        _: TakeStacks,
    ) -> Result<Vec<(AttemptUid, TakenStacks)>, RequestFailure> {
        Ok(Vec::new())
    }
}
