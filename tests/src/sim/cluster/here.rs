//! What answers need of a simulated machine. They say what they want, and the machine does it between two polls
//! ([`super::tasks`]): nothing here depends on a clock or a thread of the computer that simulates.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use muster_consensus::{GroupId, StoreId};
use muster_control::answers::port::{NextTokenKey, WantedToken};
use muster_control::answers::{CopiesPort, Event, MemberPort};
use muster_control::cluster::{ClusterMap, DESCRIPTION, Hidden, Keys, Lineage, Secret};
use muster_control::groups::{self, ApplyOutcome, GroupError, Local, LocalGroup};
use muster_control::member;
use muster_control::now::Now;
use muster_control::request::RequestFailure;
use muster_control::request::member::MemberRequest;
use muster_gossip::frame::DocumentRef;
use muster_gossip::mesh::Mesh;
use muster_gossip::record::{DocumentId, Record};
use muster_gossip::{ClusterId, MemberId};
use muster_model::id::NodeId;
use muster_model::id::UserName;
use muster_model::login::LoginTrust;
use muster_model::people::{NewPassword, PeopleDenial};
use muster_model::policy::BreakerPolicy;

use crate::sim::mesh::Signer;
use crate::sim::random::Random;

/// Members that try a document are watched for so long, ms.
const SOAK_MS: u64 = 5_000;

/// Bodies of documents beside a machine's logs.
pub(super) type Bodies = Arc<Mutex<BTreeMap<[u8; 32], Arc<[u8]>>>>;

/// Somebody waits for it.
pub(super) struct Slot<T>(Arc<Mutex<Option<T>>>);

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Slot<T> {
    fn new() -> Self {
        Self(Arc::default())
    }

    /// There it is.
    pub(super) fn fill(&self, value: T) {
        *lock(&self.0) = Some(value);
    }

    async fn filled(self) -> T {
        poll_fn(|_| match lock(&self.0).take() {
            Some(value) => Poll::Ready(value),
            None => Poll::Pending,
        })
        .await
    }
}

/// What came of a question to another member.
pub(super) type Asked = Slot<Result<Vec<u8>, RequestFailure>>;

/// Looks at this machine's mesh, where there is one.
type MeshLook = Box<dyn FnOnce(Option<&Mesh>) + Send>;

/// What an answer wants done.
pub(super) enum Want {
    /// The core gets this.
    Core(member::MemberInput),
    /// A look at the mesh.
    Mesh(MeshLook),
    /// The mesh gets these.
    Publish(Vec<Arc<Record>>, Vec<(DocumentRef, Arc<[u8]>)>),
    /// Another member is asked.
    Ask(MemberId, MemberRequest, Asked),
    /// So many milliseconds pass.
    Pause(u64, Slot<()>),
    /// A text on the mesh's disk.
    Text(DocumentRef, Slot<Option<Arc<[u8]>>>),
    /// The cluster map is asked for.
    Brief,
    /// A question of this number, from this machine, is answered so.
    Answer(usize, u64, Vec<u8>),
}

/// Whose answers they are.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) cluster: ClusterId,
    pub(super) me: MemberId,
    pub(super) store: StoreId,
    /// What signs for the cluster, and by which key of its state.
    pub(super) signer: Signer,
    pub(super) secret: Secret,
}

/// How it stands with the machine.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) now: Now,
    pub(super) lineage: Lineage,
    pub(super) cluster_map: Option<Arc<ClusterMap>>,
    /// Whether its disk refuses.
    pub(super) full: bool,
}

struct Inner {
    identity: Identity,
    standing: Standing,
    bodies: Bodies,
    random: Random,
    wants: VecDeque<Want>,
}

/// The machine, as its answers see it.
#[derive(Clone)]
pub(super) struct Here(Arc<Mutex<Inner>>);

impl std::fmt::Debug for Here {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Here").finish_non_exhaustive()
    }
}

impl Here {
    pub(super) fn new(identity: Identity, bodies: Bodies, seed: u64) -> Self {
        let lineage = Lineage::of_cluster(identity.cluster, None);
        Self(Arc::new(Mutex::new(Inner {
            identity,
            standing: Standing {
                now: Now::default(),
                lineage,
                cluster_map: None,
                full: false,
            },
            bodies,
            random: Random::new(seed, 11),
            wants: VecDeque::new(),
        })))
    }

    /// It stands so from now on.
    pub(super) fn set(&self, standing: Standing) {
        self.lock().standing = standing;
    }

    /// What is to be done first.
    pub(super) fn next(&self) -> Option<Want> {
        self.lock().wants.pop_front()
    }

    pub(super) fn want(&self, want: Want) {
        self.lock().wants.push_back(want);
    }

    fn give(&self, input: groups::GroupHostInput) {
        self.want(Want::Core(member::MemberInput::Groups(input)));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.0)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CopiesPort for Here {
    fn now(&self) -> Now {
        self.lock().standing.now
    }

    async fn pause(&self, ms: u64) {
        let slot = Slot::new();
        self.want(Want::Pause(ms, slot.clone()));
        slot.filled().await;
    }

    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        Some(work())
    }

    async fn propose(&self, group: GroupId, entry: &[u8]) -> Result<ApplyOutcome, GroupError> {
        let slot = Slot::new();
        let reply = slot.clone();
        self.give(groups::GroupHostInput::Propose {
            group,
            entry: entry.to_vec(),
            reply: Box::new(move |outcome| reply.fill(outcome)),
        });
        slot.filled().await
    }

    async fn read<T: Send + 'static>(
        &self,
        group: GroupId,
        read: impl FnOnce(LocalGroup<'_>) -> T + Send + 'static,
    ) -> Result<T, GroupError> {
        self.read_for(group, None, read).await
    }

    async fn renew(&self, group: GroupId, node: NodeId) -> Result<(), GroupError> {
        self.read_for(group, Some(node), |_| ()).await
    }

    async fn look<T: Send + 'static>(
        &self,
        group: GroupId,
        look: impl FnOnce(Local<'_>) -> T + Send + 'static,
    ) -> Result<Option<T>, GroupError> {
        let slot = Slot::new();
        let reply = slot.clone();
        let looking = Box::new(move |local: Option<Local<'_>>| reply.fill(local.map(look)));
        self.give(groups::GroupHostInput::Look { group, looking });
        Ok(slot.filled().await)
    }

    async fn going(&self, group: GroupId, member: MemberId) -> Result<(), GroupError> {
        self.want(Want::Core(member::MemberInput::Going { group, member }));
        Ok(())
    }

    async fn off(&self, group: GroupId, node: NodeId) -> Result<(), GroupError> {
        let slot = Slot::new();
        let reply = slot.clone();
        self.give(groups::GroupHostInput::Off {
            group,
            node,
            reply: Box::new(move |said| reply.fill(said)),
        });
        slot.filled().await
    }

    async fn store(&self) -> Result<StoreId, GroupError> {
        Ok(self.lock().identity.store)
    }

    fn tell(&self, _: Event) {}
}

impl Here {
    async fn read_for<T: Send + 'static>(
        &self,
        group: GroupId,
        heard: Option<NodeId>,
        read: impl FnOnce(LocalGroup<'_>) -> T + Send + 'static,
    ) -> Result<T, GroupError> {
        let slot = Slot::new();
        let reply = slot.clone();
        self.give(groups::GroupHostInput::Read {
            group,
            heard,
            reading: Box::new(move |seen: Result<LocalGroup<'_>, GroupError>| {
                reply.fill(seen.map(read))
            }),
        });
        slot.filled().await
    }
}

impl MemberPort for Here {
    type Copies = Self;
    type Signer = Signer;

    fn copies(&self) -> &Self {
        self
    }

    fn signer(&self, secret: &Secret) -> Option<Signer> {
        let inner = self.lock();
        (*secret == inner.identity.secret).then(|| inner.identity.signer.clone())
    }

    fn fill(&self, bytes: &mut [u8]) {
        let random = &mut self.lock().random;
        for part in bytes.chunks_mut(8) {
            let next = random.next().to_le_bytes();
            part.copy_from_slice(&next[..part.len()]);
        }
    }

    fn lineage(&self) -> Lineage {
        self.lock().standing.lineage.clone()
    }

    async fn mesh<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Mesh) -> T + Send + 'static,
    ) -> Option<T> {
        let slot = Slot::new();
        let reply = slot.clone();
        let look = Box::new(move |mesh: Option<&Mesh>| reply.fill(mesh.map(look)));
        self.want(Want::Mesh(look));
        slot.filled().await
    }

    async fn publish(&self, records: Vec<Arc<Record>>, bodies: Vec<(DocumentRef, Arc<[u8]>)>) {
        self.want(Want::Publish(records, bodies));
    }

    async fn ask(
        &self,
        member: MemberId,
        request: MemberRequest,
    ) -> Result<Vec<u8>, RequestFailure> {
        let slot = Slot::new();
        self.want(Want::Ask(member, request, slot.clone()));
        slot.filled().await
    }

    fn cluster_map(&self) -> Option<Arc<ClusterMap>> {
        self.lock().standing.cluster_map.clone()
    }

    fn brief(&self) {
        self.want(Want::Brief);
    }

    fn address(&self) -> String {
        format!("n{}", self.lock().identity.me.0)
    }

    async fn text(&self, document: DocumentRef) -> Option<Arc<[u8]>> {
        let slot = Slot::new();
        self.want(Want::Text(document, slot.clone()));
        slot.filled().await
    }

    fn keep_body(&self, hash: &[u8; 32], body: &[u8]) -> Result<(), String> {
        let inner = self.lock();
        if inner.standing.full {
            return Err("no space is left".to_owned());
        }
        lock(&inner.bodies).insert(*hash, body.into());
        Ok(())
    }

    fn read_body(&self, hash: &[u8; 32]) -> Result<Option<Arc<[u8]>>, String> {
        let inner = self.lock();
        let body = lock(&inner.bodies).get(hash).cloned();
        Ok(body)
    }

    fn has_body(&self, hash: &[u8; 32]) -> bool {
        lock(&self.lock().bodies).contains_key(hash)
    }

    /// None is as old as a body that is let go.
    fn retain_bodies(&self, _: &[[u8; 32]]) {}

    fn breaker(&self) -> BreakerPolicy {
        BreakerPolicy::default()
    }

    fn soak_ms(&self) -> u64 {
        SOAK_MS
    }

    fn is_staged(&self, document: DocumentId) -> bool {
        document != DESCRIPTION
    }

    async fn is_right(
        &self,
        _: Option<Hidden<String>>,
        _: Hidden<String>,
        _: LoginTrust,
    ) -> Option<bool> {
        None
    }

    async fn hash(&self, _: &UserName, _: NewPassword) -> Result<Hidden<String>, PeopleDenial> {
        Err(PeopleDenial::Busy)
    }

    fn token(&self, _: &Keys, _: &WantedToken<'_>) -> Result<Hidden<String>, String> {
        Err("nobody logs in here".to_owned())
    }

    fn next_token_key(&self, _: &Keys) -> Result<NextTokenKey, String> {
        Err("nobody changes keys here".to_owned())
    }
}
