//! The task itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _};
use tokio::sync::mpsc;
use tokio::time::{sleep, sleep_until};

use super::handle::{Cargo, DriverCommand, DriverEnds, DriverParts};
use super::keep::{Backlog, RecordStore, RecordStoreError};
use super::translate::{Read, Translator, admitted, all_admitted, lane};
use crate::Mesh;
use crate::frame::MeshFrame;
use crate::key::NodeKey;
use crate::member::MemberId;
use crate::mesh::{MeshEvent, MeshInput, MeshOutput};
use crate::net::MonotonicClock;
use crate::net::counters::{add, count};
use crate::net::join::Questions;
use crate::net::quic::{Lane, NetEvent, NetHandle};
use crate::record::{Record, RecordKey};

/// Why the mesh ended.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The disk.
    #[error(transparent)]
    Keep(#[from] RecordStoreError),
    /// The links ended before the mesh did.
    #[error("the network of the mesh has ended")]
    Network,
    /// Nobody takes what has to be done for documents any more.
    #[error("nobody looks after documents any more")]
    Documents,
}

/// Inputs taken in at once before outputs are performed.
const BATCH: usize = 10_000;
/// Waking so much later than planned is a stall of this node.
const STALL: Duration = Duration::from_millis(100);
/// What the sockets may take to hand over what came in during a stall.
const CATCH_UP: Duration = Duration::from_millis(20);

/// Owns the core.
pub(super) struct Driver<S> {
    mesh: Mesh,
    translator: Translator,
    net: NetHandle,
    net_events: mpsc::Receiver<NetEvent>,
    questions: Option<Questions>,
    store: Arc<S>,
    clock: MonotonicClock,
    ends: DriverEnds,
    backlog: Backlog,
    keeping: Option<BoxFuture<'static, Result<(), RecordStoreError>>>,
    outputs: Vec<MeshOutput>,
}

/// What woke the task.
enum Wake {
    Net(Option<NetEvent>),
    Order(Option<DriverCommand>),
    Cargo(Cargo),
    Kept(Result<(), RecordStoreError>),
    Time,
}

impl<S: RecordStore> Driver<S> {
    pub(super) fn new(parts: DriverParts<S>, ends: DriverEnds) -> Self {
        Self {
            mesh: parts.mesh,
            translator: Translator::new(parts.cluster),
            net: parts.net,
            net_events: parts.net_events,
            questions: parts.questions,
            store: parts.store,
            clock: parts.clock,
            ends,
            backlog: Backlog::default(),
            keeping: None,
            outputs: Vec::new(),
        }
    }

    /// Works till every handle is gone.
    pub(super) async fn run(mut self) -> Result<(), DriverError> {
        loop {
            let wake = self.wait().await;
            if self.is_late() {
                sleep(CATCH_UP).await;
            }
            let goes_on = self.take(wake)? && self.drain();
            // Everything that waited is in: now the core may look at the time.
            self.tick();
            self.perform().await?;
            if !goes_on {
                self.net.close().await;
                return Ok(());
            }
        }
    }

    fn is_late(&self) -> bool {
        let deadline = self.mesh.deadline().map(|at| self.clock.instant(at));
        deadline.is_some_and(|at| at.elapsed() > STALL)
    }

    async fn wait(&mut self) -> Wake {
        let deadline = self.mesh.deadline().map(|at| self.clock.instant(at));
        let timer = async {
            match deadline {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let kept = async {
            match &mut self.keeping {
                Some(keeping) => keeping.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            result = kept => Wake::Kept(result),
            event = self.net_events.recv() => Wake::Net(event),
            order = self.ends.orders.recv() => Wake::Order(order),
            Some(cargo) = self.ends.outbound.recv() => Wake::Cargo(cargo),
            () = timer => Wake::Time,
        }
    }

    /// Takes in one thing; false when the work is over.
    fn take(&mut self, wake: Wake) -> Result<bool, DriverError> {
        match wake {
            Wake::Net(event) => self.network(event.ok_or(DriverError::Network)?),
            Wake::Order(None) => return Ok(false),
            Wake::Order(Some(order)) => self.order(order),
            Wake::Cargo((to, bytes)) => self.carry(to, bytes),
            Wake::Kept(result) => {
                self.keeping = None;
                result?;
            }
            Wake::Time => {}
        }
        Ok(true)
    }

    /// Takes in what else waits, so that a stall of this node is not taken for one of others.
    fn drain(&mut self) -> bool {
        for _ in 0..BATCH {
            match self.net_events.try_recv() {
                Ok(event) => self.network(event),
                Err(_) => break,
            }
        }
        for _ in 0..BATCH {
            match self.ends.outbound.try_recv() {
                Ok((to, bytes)) => self.carry(to, bytes),
                Err(_) => break,
            }
        }
        loop {
            match self.ends.orders.try_recv() {
                Ok(order) => self.order(order),
                Err(mpsc::error::TryRecvError::Empty) => return true,
                Err(mpsc::error::TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn tick(&mut self) {
        let now = self.clock.now();
        if self.mesh.deadline().is_some_and(|deadline| deadline <= now) {
            self.input(MeshInput::Tick);
        }
    }

    fn input(&mut self, input: MeshInput) {
        self.mesh.handle(self.clock.now(), input, &mut self.outputs);
    }

    fn order(&mut self, order: DriverCommand) {
        match order {
            DriverCommand::Input(input) => self.input(input),
            DriverCommand::Look(look) => look(&self.mesh),
        }
    }

    /// Cargo waits for no disk: whoever gave it has kept what it had to.
    fn carry(&self, to: MemberId, bytes: Arc<[u8]>) {
        let bytes = self.translator.write(&self.mesh, &MeshFrame::Cargo(bytes));
        self.net.send(to, Lane::Ordered, bytes);
    }

    /// Cargo that came in. The mesh does not wait for its owner.
    fn hand_over(&self, from: MemberId, bytes: Arc<[u8]>) {
        if !self.mesh.is_member(from) || self.ends.inbound.try_send((from, bytes)).is_err() {
            count(&self.net.counters().cargo_dropped);
        }
    }

    fn network(&mut self, event: NetEvent) {
        match event {
            NetEvent::Frame { from, bytes, .. } => {
                let now = self.clock.now();
                match self.translator.read(&self.mesh, from, now, &bytes) {
                    Read::Frame(MeshFrame::Cargo(bytes)) => self.hand_over(from, bytes),
                    Read::Frame(frame) => self.input(MeshInput::Frame { from, frame }),
                    Read::Outdated(told) => {
                        count(&self.net.counters().bad_frame);
                        if let Some(bytes) = told {
                            self.net.send(from, Lane::Stream, bytes);
                        }
                    }
                    Read::Bad(error) => {
                        count(&self.net.counters().bad_frame);
                        tracing::debug!(member = from.0, %error, "dropped a frame");
                    }
                }
            }
            NetEvent::Hello { key, record, .. } => self.hello(key, &record),
            NetEvent::Refused {
                key,
                address,
                reason,
                ..
            } => tracing::info!(%key, %address, reason = reason.text(), "refused a connection"),
            NetEvent::Connected { member, address } => {
                tracing::debug!(member = member.0, %address, "connected");
            }
            NetEvent::Disconnected { member } => {
                tracing::debug!(member = member.0, "disconnected");
            }
        }
    }

    /// A stranger says that it is a member: the core decides, by its own rules.
    fn hello(&mut self, key: NodeKey, bytes: &Bytes) {
        if let Ok(record) = Record::decode(bytes)
            && matches!(record.key, RecordKey::Member(_))
        {
            self.input(MeshInput::Record(Arc::new(record)));
        }
        match self.mesh.member_of(&key).filter(|id| *id != self.mesh.me()) {
            Some(id) => self.readdress(id),
            None => self
                .net
                .refuse(&key, self.translator.farewell(&self.mesh, &key)),
        }
    }

    /// Tells the network who is a member.
    pub(super) fn list_members(&self) {
        self.net.members(all_admitted(&self.mesh));
        if let Some(questions) = &self.questions {
            let members = self.mesh.members().filter_map(|id| self.mesh.member(id));
            questions.members(members.map(|member| member.body.key));
        }
        if let Some(record) = self.mesh.record(RecordKey::Member(self.mesh.me())) {
            self.net.hello(Bytes::copy_from_slice(record.bytes()));
        }
    }

    fn readdress(&self, id: MemberId) {
        let member = admitted(&self.mesh, id).filter(|_| id != self.mesh.me());
        if let Some(member) = member {
            self.net.admit(member);
        }
    }

    /// Performs what may be performed, and begins to keep what is to be kept.
    async fn perform(&mut self) -> Result<(), DriverError> {
        self.backlog.extend(self.outputs.drain(..));
        while self.keeping.is_none() {
            let mut ready = self.backlog.kept();
            let records = self.backlog.next_records();
            if records.is_empty() {
                ready.append(&mut self.backlog.free());
            }
            self.output_all(ready).await?;
            if records.is_empty() {
                return Ok(());
            }
            self.keep(records)?;
        }
        let urgent = |output: &MeshOutput| lane(output) == Some(Lane::Liveness);
        let urgent = self.backlog.overtaking(urgent);
        add(&self.net.counters().queue_dropped, self.backlog.shed());
        self.output_all(urgent).await
    }

    /// Begins to keep. A store in memory is done at once.
    fn keep(&mut self, records: Vec<Arc<Record>>) -> Result<(), DriverError> {
        let mut keeping = self.store.keep(records);
        match (&mut keeping).now_or_never() {
            Some(result) => result?,
            None => self.keeping = Some(keeping),
        }
        Ok(())
    }

    async fn output_all(&mut self, outputs: Vec<MeshOutput>) -> Result<(), DriverError> {
        for output in outputs {
            self.output(output).await?;
        }
        Ok(())
    }

    async fn output(&mut self, output: MeshOutput) -> Result<(), DriverError> {
        match output {
            MeshOutput::Send { to, carrier, frame } => {
                let lane = Lane::of(&frame, carrier);
                self.net
                    .send(to, lane, self.translator.write(&self.mesh, &frame));
            }
            MeshOutput::Event(event) => self.event(event),
            MeshOutput::Document(output) => {
                let taken = self.ends.documents.send(output).await;
                taken.map_err(|_| DriverError::Documents)?;
            }
            // Kept before: see `Backlog::next_records`.
            MeshOutput::Keep(_) => {}
        }
        Ok(())
    }

    fn event(&self, event: MeshEvent) {
        match &event {
            MeshEvent::Members => self.list_members(),
            MeshEvent::Node(id) => self.readdress(*id),
            _ => {}
        }
        // Nobody has to listen.
        let _ = self.ends.events.send(event);
    }
}
