//! Everything that runs while this node is a member.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use muster_consensus::GroupId;
use muster_control::cluster::{ClusterMap, Lineage};
use muster_control::groups::{self, name};
use muster_control::member::seen::lineage;
use muster_control::request::cluster::{Bind, GetSilence};
use muster_gossip::key::{ClusterId, NodeKey, Sign as _};
use muster_gossip::member::MemberId;
use muster_gossip::mesh::{MeshIdentity, MeshOptions as MeshConfig, VerifiedRecords};
use muster_gossip::net::driver::{
    DriverParts, MeshHandle, RecordStore, RecordStoreError, Started, start,
};
use muster_gossip::net::join::{Inbound, JoinNetConfig as JoinConfig, Questions};
use muster_gossip::net::keys::{Ed25519Signer, Ed25519Verifier};
use muster_gossip::net::quic::{self, MeshStream, NetHandle, StreamError};
use muster_gossip::net::{MonotonicClock, NetCounters};
use muster_gossip::record::Record;
use muster_gossip::{Mesh, net};
use muster_model::id::NodeId;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::cluster_map::ClusterMapClient;
use super::inbound;
use super::membership::{Files, Folder, StoredMembership};
use super::seen;
use super::told;
use super::{cluster_map_loop, marks_loop};
use crate::accounts::Accounts;
use crate::cluster_service::bodies::Bodies;
use crate::cluster_service::{Here, NodeClusterService, leading};
use crate::config;
use crate::documents::policy::PolicyInForce;
use crate::documents::{DocumentKinds, checker};
use crate::groups::message::{ClusterAsker, ClusterCall};
use crate::groups::{ClusterGroup, Groups};
use crate::mesh_file::{self, MeshFile};
use crate::node_status::NodeStatus;
use crate::passwords::PasswordChecks;
use crate::requests::{self, PeerClient, RequestRouter};
use crate::sessions;
use crate::systemd::Manager;
use crate::token_uses;
use crate::vc::{LedVcs, LocalCopies, Seat, Vcs};
use crate::waits::AgentWaits;

/// How long a port may be taken still by what this very agent ends.
const PORT_WAIT: Duration = Duration::from_secs(2);
/// Between two tries to take it.
const PORT_PAUSE: Duration = Duration::from_millis(50);
/// Pause before records are offered again to a disk that refused them.
const KEEP_PAUSE: Duration = Duration::from_secs(1);

/// What a member is made of besides its files.
#[derive(Clone, Debug)]
pub(crate) struct MembershipDependencies {
    /// The mesh's configuration.
    pub(crate) config: config::MeshConfig,
    /// Keeps the mesh's port while the agent restarts.
    pub(crate) manager: Manager,
    /// What is known of this node.
    pub(crate) node: NodeStatus,
    /// How long its parts have been busy with what they do now.
    pub(crate) feels: AgentWaits,
    /// Where the cluster's documents are in force.
    pub(crate) documents: DocumentKinds,
    /// The policy among them.
    pub(crate) policy: PolicyInForce,
    /// Where all of a member's tasks run.
    pub(crate) thread: Handle,
    /// This node's copies of groups.
    pub(crate) groups: Groups,
    /// Which virtual clusters this node serves.
    pub(crate) seat: Arc<watch::Sender<Seat>>,
    /// Users and keys.
    pub(crate) accounts: Accounts,
    /// The file with the first administrator's password.
    pub(crate) admin_password: PathBuf,
}

/// A running membership. Ends when it is dropped.
#[derive(Debug)]
pub(crate) struct ActiveMembership {
    /// Where it is kept.
    pub(crate) folder: Folder,
    /// What is kept of it.
    membership: watch::Sender<StoredMembership>,
    /// This node's number.
    pub(crate) me: MemberId,
    /// The core.
    pub(crate) mesh: MeshHandle,
    /// Questions to others.
    questions: Questions,
    net: NetHandle,
    requests: RequestRouter,
    groups: Groups,
    seat: Arc<watch::Sender<Seat>>,
    cluster_maps: Arc<ClusterMapClient>,
    /// The disk.
    pub(crate) mesh_file: Arc<Mutex<MeshFile>>,
    key: NodeKey,
    listen: SocketAddr,
    mdns: bool,
    manager: Manager,
    thread: Handle,
    stop: CancellationToken,
}

/// What its tasks work on.
struct StartedMembership {
    /// Names this life.
    run: u64,
    inbound: mpsc::Receiver<Inbound>,
    started: Started,
    /// Threads beside the mesh's own.
    others: Handle,
    /// Which group holds the cluster state.
    lineage: watch::Sender<Lineage>,
}

impl Drop for ActiveMembership {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The disk, as the driver wants it. One that is full or gone for a while does not end the mesh:
/// signs of life go on, what has to be kept first waits.
#[derive(Debug)]
struct MeshDisk(Arc<Mutex<MeshFile>>);

impl RecordStore for MeshDisk {
    fn keep(&self, records: Vec<Arc<Record>>) -> BoxFuture<'static, Result<(), RecordStoreError>> {
        let mesh_file = Arc::clone(&self.0);
        async move {
            let records: Arc<[_]> = records.into();
            loop {
                let mut mesh_file = Arc::clone(&mesh_file).lock_owned().await;
                let wanted = Arc::clone(&records);
                let kept = tokio::task::spawn_blocking(move || mesh_file.keep(&wanted)).await;
                match kept {
                    Ok(Ok(())) => return Ok(()),
                    Ok(Err(error @ mesh_file::DatabaseError::Closed { .. })) => {
                        return Err(RecordStoreError(error.into()));
                    }
                    Ok(Err(error)) => {
                        tracing::warn!(
                            "the mesh waits for the disk: {:#}",
                            anyhow::Error::from(error)
                        );
                        tokio::time::sleep(KEEP_PAUSE).await;
                    }
                    Err(error) => return Err(RecordStoreError(error.into())),
                }
            }
        }
        .boxed()
    }
}

/// The address others find this node's mesh at.
pub(crate) fn advertised(dependencies: &MembershipDependencies) -> SocketAddr {
    let address = dependencies.node.identity.address;
    SocketAddr::new(address, dependencies.config.listen.port())
}

/// Where to hear questions. UDP's `[::]` takes IPv4 too, a TCP listener of libp2p's does not.
fn tcp_addresses(listen: SocketAddr) -> Vec<SocketAddr> {
    let any = SocketAddr::from((std::net::Ipv4Addr::UNSPECIFIED, listen.port()));
    let both = listen.is_ipv6() && listen.ip().is_unspecified();
    let others = both.then_some(any);
    others.into_iter().chain([listen]).collect()
}

/// Takes the port, which the membership before may be about to let go of.
async fn socket(manager: &Manager, listen: SocketAddr) -> Result<UdpSocket, quic::QuicError> {
    let begun = Instant::now();
    loop {
        match manager.mesh(listen, quic::socket) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && begun.elapsed() < PORT_WAIT => {
                tokio::time::sleep(PORT_PAUSE).await;
            }
            bound => {
                return bound.map_err(|source| quic::QuicError::Listen {
                    address: listen,
                    source,
                });
            }
        }
    }
}

impl ActiveMembership {
    /// Starts everything, on the mesh's own thread but for what waits for the disk: that is for
    /// the caller's threads. No port is open yet: see [`ActiveMembership::open_ports`].
    ///
    /// # Errors
    /// When files cannot be used.
    pub(crate) async fn start(
        files: &Files,
        (folder, membership): (Folder, StoredMembership),
        dependencies: &MembershipDependencies,
    ) -> anyhow::Result<Self> {
        let dependencies = dependencies.clone();
        let signer = files.node_key()?;
        let thread = dependencies.thread.clone();
        let others = Handle::current();
        let starting = async move {
            Self::start_here(&signer, (folder, membership), &dependencies, &others).await
        };
        thread.spawn(starting).await?
    }

    async fn start_here(
        signer: &Ed25519Signer,
        (folder, membership): (Folder, StoredMembership),
        dependencies: &MembershipDependencies,
        others: &Handle,
    ) -> anyhow::Result<Self> {
        folder.make()?;
        let cluster = ClusterId::of_root(&membership.root);
        let mut mesh_file = MeshFile::open(&folder.mesh_file())?;
        let incarnation = mesh_file.raise_incarnation()?;
        let records = mesh_file.records()?;
        let (known, refused) =
            VerifiedRecords::load(cluster, &membership.root, &Ed25519Verifier, records);
        for (key, refusal) in refused {
            tracing::warn!(?key, %refusal, "a kept record is not taken");
        }
        let run = rand::random();
        let identity = MeshIdentity {
            cluster,
            root: membership.root,
            member: membership.member,
            incarnation,
        };
        let mesh = Mesh::new(
            MeshConfig::default(),
            identity,
            Box::new(signer.clone()),
            Box::new(Ed25519Verifier),
            known,
        );
        let lineage = watch::channel(lineage(&mesh, cluster));
        let clock = MonotonicClock::default();
        let quic = quic::QuicConfig {
            listen: dependencies.config.listen,
            ..quic::QuicConfig::new(cluster)
        };
        let (net, net_events) = quic::open(None, quic, signer, clock)?;
        let join = JoinConfig::default();
        let (questions, inbound) = net::join::bind(join, signer, Arc::clone(net.counters()))?;
        let mesh_file = Arc::new(Mutex::new(mesh_file));
        let started = start(DriverParts {
            mesh,
            cluster,
            net: net.clone(),
            net_events,
            questions: Some(questions.clone()),
            store: Arc::new(MeshDisk(Arc::clone(&mesh_file))),
            clock,
        });
        let stop = CancellationToken::new();
        let handle = &started.handle;
        let mesh = handle.clone();
        let carrier = Arc::new(move |to, frame| {
            if let Some(to) = name::member(to) {
                mesh.carry(to, frame);
            }
        });
        let groups = dependencies.groups.clone();
        let way = PeerClient {
            mesh: handle.clone(),
            net: net.clone(),
        };
        let group = ClusterGroup::new(groups.clone(), lineage.1.clone());
        let bell = Arc::new(Notify::new());
        let here = Here {
            group: group.clone(),
            way: way.clone(),
            address: advertised(dependencies),
            bell: Arc::clone(&bell),
            mesh_file: Arc::clone(&mesh_file),
            accounts: dependencies.accounts.clone(),
            bodies: Bodies::open(&folder.bodies())?,
            policy: dependencies.policy.clone(),
            checks: PasswordChecks::default(),
        };
        let cluster_service = NodeClusterService::new(cluster, membership.member, here);
        let who = (cluster, membership.member);
        groups.joined(who, group.lineage(), carrier).await?;
        let cluster_service = Arc::new(cluster_service);
        let work = leading::run(Arc::clone(&cluster_service));
        let seat = &dependencies.seat;
        let me = name::node(membership.member);
        let led = LedVcs::new(groups.clone(), me, seat.subscribe());
        let requests = RequestRouter::new(requests::RequestDependencies {
            me: membership.member,
            cluster_service,
            group,
            led,
            local_copies: LocalCopies::new(groups.clone()),
            images: Arc::clone(&dependencies.node.images),
            parts: dependencies.node.parts.clone(),
            tester: dependencies.node.tester.clone(),
            stacks: dependencies.node.stacks.clone(),
            way,
            turns: RequestRouter::turns(),
        });
        groups.ask_by(asker(&requests, &groups)).await?;
        let cluster_maps =
            ClusterMapClient::new(dependencies.accounts.clone(), requests.clone(), bell);
        let member = Self {
            requests,
            groups,
            seat: Arc::clone(&dependencies.seat),
            cluster_maps: Arc::new(cluster_maps),
            folder,
            me: membership.member,
            membership: watch::Sender::new(membership),
            mesh: handle.clone(),
            questions,
            net,
            mesh_file,
            key: signer.key(),
            listen: dependencies.config.listen,
            mdns: dependencies.config.mdns,
            manager: dependencies.manager.clone(),
            thread: dependencies.thread.clone(),
            stop,
        };
        let stopped = member.stop.clone();
        others.spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = work => {}
            }
        });
        let begun = StartedMembership {
            run,
            inbound,
            started,
            others: others.clone(),
            lineage: lineage.0,
        };
        member.run(dependencies, begun);
        Ok(member)
    }

    fn run(
        &self,
        dependencies: &MembershipDependencies,
        StartedMembership {
            run,
            inbound,
            started,
            others: threads,
            lineage,
        }: StartedMembership,
    ) {
        let Started {
            documents: outputs,
            cargo,
            task: driver,
            ..
        } = started;
        let stop = self.stop.clone();
        let told = told::run(
            self.mesh.clone(),
            dependencies.node.clone(),
            self.groups.routing(),
            told::ProcessFacts {
                run,
                port: dependencies.config.listen.port(),
            },
        );
        let feeling = told::feel(self.mesh.clone(), dependencies.feels.clone());
        let putting = checker::run(
            self.mesh.clone(),
            Arc::clone(&self.mesh_file),
            dependencies.documents.clone(),
            outputs,
        );
        let hearing = inbound::run(self.inbound_context(), inbound);
        let answering = inbound::answer(self.requests(), self.net.requests(), threads.clone());
        let sessions = dependencies.node.sessions.clone();
        let serving = sessions::run(sessions, self.net.streams(), threads);
        let seeing = seen::run(
            (self.mesh.clone(), self.cluster()),
            self.groups.clone(),
            lineage,
        );
        let cluster_map = cluster_map_loop::run(
            Arc::clone(&self.cluster_maps),
            self.mesh.clone(),
            self.groups.clone(),
        );
        let carrying = unload(cargo, self.groups.clone());
        let marking = marks_loop::run(self.requests());
        let using = token_uses::run(dependencies.accounts.clone(), self.requests());
        tokio::spawn(async move {
            // None of these ends before the membership does.
            let ended = tokio::select! {
                () = stop.cancelled() => return,
                () = told => "telling",
                () = feeling => "feeling",
                () = putting => "documents",
                () = hearing => "hearing",
                () = answering => "answering",
                () = serving => "sessions",
                () = seeing => "members",
                () = carrying => "carrying",
                () = marking => "marks",
                () = using => "token uses",
                () = cluster_map => "cluster_map",
                ended = driver => match ended {
                    Ok(Ok(())) => "driving",
                    Ok(Err(error)) => return tracing::error!(%error, "the mesh has ended"),
                    Err(error) => return tracing::error!(%error, "the mesh has failed"),
                },
            };
            if !stop.is_cancelled() {
                tracing::error!(part = ended, "the mesh has ended; restart the agent");
            }
        });
    }

    /// The group that holds the cluster state.
    pub(crate) fn group(&self) -> ClusterGroup {
        self.requests.group().clone()
    }

    fn inbound_context(&self) -> inbound::InboundContext {
        inbound::InboundContext {
            mesh: self.mesh.clone(),
            requests: self.requests(),
            key: self.key,
            me: self.me,
            questions: self.questions.clone(),
        }
    }

    /// Opens a stream to the member of this name.
    ///
    /// # Errors
    /// [`StreamError`]
    pub(crate) async fn stream_to(
        &self,
        node: &NodeId,
        header: &[u8],
        limit: Duration,
    ) -> Result<MeshStream, StreamError> {
        let name = node.to_string();
        let look = self.mesh.look(move |mesh| {
            let mut members = mesh.members().filter_map(|id| mesh.member(id));
            members
                .find(|member| member.body.name == name)
                .map(|member| member.id)
        });
        let member = look.await.ok().flatten().ok_or(StreamError::Unknown)?;
        self.net.open_stream(member, header, limit).await
    }

    /// Keeps users and keys up to date.
    pub(crate) const fn cluster_maps(&self) -> &Arc<ClusterMapClient> {
        &self.cluster_maps
    }

    /// Questions to others.
    pub(crate) const fn questions(&self) -> &Questions {
        &self.questions
    }

    /// The way of requests.
    pub(crate) fn requests(&self) -> RequestRouter {
        self.requests.clone()
    }

    /// Goes by this cluster map from now on. Fails only while the agent ends.
    pub(super) async fn serve(
        &self,
        cluster_map: &Arc<ClusterMap>,
    ) -> Result<(), groups::GroupError> {
        if self.stop.is_cancelled() {
            return Ok(());
        }
        self.groups
            .take_cluster_map(Arc::clone(cluster_map))
            .await?;
        let vcs = cluster_map.vcs.iter();
        let vcs = vcs.map(|creation| (creation.vc.clone(), GroupId(creation.group)));
        let vcs: Vcs = vcs.collect();
        let requests = Box::new(self.requests());
        self.seat.send_if_modified(|seat| {
            // The caller of `stop` says what is served then, after this.
            let is_news = !self.stop.is_cancelled() && seat.vcs() != Some(&vcs);
            if is_news {
                *seat = Seat::Shared(vcs, requests);
            }
            is_news
        });
        Ok(())
    }

    /// What the network refused and dropped.
    pub(crate) fn net_counters(&self) -> &NetCounters {
        self.net.counters()
    }

    /// The links there are.
    pub(crate) const fn net(&self) -> &NetHandle {
        &self.net
    }

    /// What is kept of it.
    pub(crate) fn membership(&self) -> StoredMembership {
        self.membership.borrow().clone()
    }

    /// Which cluster it is of.
    pub(crate) fn cluster(&self) -> ClusterId {
        ClusterId::of_root(&self.membership.borrow().root)
    }

    /// Whether the ports of the mesh are to be open.
    pub(crate) fn is_open(&self) -> bool {
        self.membership.borrow().open
    }

    /// The cluster's name; empty while it has none, or while that is not known.
    pub(crate) fn name(&self) -> String {
        self.membership.borrow().name.clone()
    }

    /// Keeps the cluster's name, and whether the ports are to be open.
    ///
    /// # Errors
    /// When the disk refuses; then nothing is changed.
    pub(super) fn keep(
        &self,
        name: &str,
        open: bool,
    ) -> Result<(), super::membership::MembershipFileError> {
        let membership = StoredMembership {
            name: name.to_owned(),
            open,
            ..self.membership()
        };
        tokio::task::block_in_place(|| self.folder.write(&membership))?;
        self.membership.send_replace(membership);
        Ok(())
    }

    /// The port of the mesh, while it is open.
    pub(crate) fn port(&self) -> Option<u16> {
        let address = self.net.address().ok()?;
        Some(address.port()).filter(|port| *port != 0)
    }

    /// Lets others reach this node from now on. Nothing happens where they do.
    ///
    /// # Errors
    /// When another process holds a port, or it cannot be used; then none is open.
    pub(super) async fn open_ports(&self) -> anyhow::Result<()> {
        if self.port().is_some() {
            return Ok(());
        }
        let socket = socket(&self.manager, self.listen).await?;
        let addresses = tcp_addresses(self.listen);
        let opening = self.manager.mesh_tcp(&addresses);
        self.questions.listen(addresses, self.mdns).await?;
        drop(opening);
        // The socket wakes the thread of the runtime that it is registered with.
        let net = self.net.clone();
        let rebound = self.thread.spawn(async move { net.rebind(socket) });
        Ok(rebound.await??)
    }

    /// Nobody reaches this node from now on.
    pub(super) async fn close_ports(&self) {
        self.net.close_port();
        // An endpoint that has ended listens nowhere.
        let _ = self.questions.listen(Vec::new(), false).await;
    }

    /// Ends it, and waits until the ports are free. The copies of the cluster's groups stay.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.seat.send_replace(Seat::Unknown);
        self.close_ports().await;
        self.net.close().await;
        // Tasks that are about to end hold it as well, and the file is wanted again.
        self.mesh_file.lock().await.close();
    }
}

/// Asks the leader of the cluster, for the one of a virtual cluster.
fn asker(requests: &RequestRouter, groups: &Groups) -> ClusterAsker {
    let (requests, groups) = (requests.clone(), groups.clone());
    let busy = Arc::new(Mutex::new(BTreeSet::new()));
    Box::new(move |group, request| {
        let (requests, groups) = (requests.clone(), groups.clone());
        let busy = busy.clone();
        // The loop ends only with the agent.
        tokio::spawn(async move {
            match request {
                ClusterCall::Silence(question) => {
                    let node = question.node.clone();
                    let ms = requests.cluster(GetSilence { node }).await;
                    let silent = ms.ok().map(|ms| ms >= question.for_ms);
                    let _ = groups.silence(group, question, silent).await;
                }
                ClusterCall::Bind { vc, binding, known } => {
                    // It is asked again every second, and may be answered long afterwards.
                    if !busy.lock().await.insert(group) {
                        return;
                    }
                    let binding = *binding;
                    let answer = requests.cluster(Bind { vc, binding, known }).await;
                    busy.lock().await.remove(&group);
                    if let Ok(news) = answer {
                        let _ = groups.bound(group, news).await;
                    }
                }
            }
        });
    })
}

/// Hands frames of groups to their loop, which drops what it has no room for.
async fn unload(mut cargo: mpsc::Receiver<(MemberId, Arc<[u8]>)>, groups: Groups) {
    while let Some((from, bytes)) = cargo.recv().await {
        groups.frame(name::node(from), bytes.to_vec());
    }
}
