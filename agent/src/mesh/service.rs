//! What users want of the cluster: of this node alone, or of many.

mod founding;
mod leaving;

use std::net::SocketAddr;
use std::sync::Arc;

use muster_control::answers::cluster::root_hash;
use muster_control::ledger;
use muster_control::request::Answers;
use muster_control::request::cluster::{DescribeCluster, NameCluster, OfCluster};
use muster_gossip::join::{JoinToken, Joiner, JoinerStep, Newcomer, Nonce, Text};
use muster_gossip::key::{ClusterId, Sign as _};
use muster_gossip::net::NetCounters;
use muster_gossip::net::join::{AskError, JoinNetConfig as JoinConfig, QuestionProtocol, To};
use muster_gossip::net::keys::{Ed25519Signer, Ed25519Verifier};
use muster_gossip::record::AdmissionState;
use muster_model::id::NodeId;
use muster_model::mesh::{ClusterView, Joined};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::error::MeshError;
use super::member::{ActiveMembership, MembershipDependencies};
use super::membership::{Files, Folder, StoredMembership};
use super::{entrance, follow_map};
use crate::cluster_service::NodeClusterService;
use crate::mesh_file::MeshFile;
use crate::port::Port;
use crate::vc::{Seat, VcHandle};

/// What this release understands of the mesh.
const FEATURE_LEVEL: u32 = 1;
/// How often a new member asks for the cluster's name.
const NAME_TRIES: u32 = 10;
/// How long a new member waits to be told which virtual clusters there are.
const SERVED_LIMIT: std::time::Duration = std::time::Duration::from_secs(5);
const NAME_PAUSE: std::time::Duration = std::time::Duration::from_millis(200);
/// How long a join waits for the cluster's users and keys.
const CLUSTER_MAP_LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

/// Why an expelled node refuses what needs its cluster.
pub(crate) const EXPELLED: &str = "this node was expelled from the cluster";
/// What an admin has to do on an expelled node.
pub(crate) const AFTER_EXPULSION: &str = "run `muster cluster leave` here, then join with a token that is \
                                          made after that";

/// The way into the cluster.
#[derive(Debug)]
pub(crate) struct Service {
    files: Files,
    dependencies: MembershipDependencies,
    port: Port,
    /// Held by who changes the membership.
    changing: Mutex<()>,
    member: watch::Sender<Arc<ActiveMembership>>,
}

impl Service {
    /// The name of this node.
    pub(crate) const fn node(&self) -> &NodeId {
        &self.dependencies.node.identity.node
    }

    /// Takes up the membership that the files hold; at the first start, founds a cluster of this
    /// node alone.
    ///
    /// # Errors
    /// When the files cannot be used.
    pub(crate) async fn open(
        files: Files,
        dependencies: MembershipDependencies,
        port: Port,
    ) -> anyhow::Result<Self> {
        let current = files.current()?;
        let member = start(&files, current, &dependencies).await?;
        Ok(Self {
            files,
            dependencies,
            port,
            changing: Mutex::default(),
            member: watch::Sender::new(member),
        })
    }

    /// Opens the ports of a member that others are to reach: at once, or as soon as another process
    /// lets go of them.
    pub(crate) async fn open_ports(self: &Arc<Self>) {
        if !self.member().is_open() {
            return;
        }
        let node = &self.dependencies.node.node;
        let Err(error) = self.member().open_ports().await else {
            return;
        };
        self.port.tell(&format!("{error:#}"), node).await;
        let service = Arc::clone(self);
        tokio::spawn(async move {
            let node = &service.dependencies.node.node;
            let open = || async {
                // Who leaves meanwhile closes them.
                let _changing = service.changing.lock().await;
                let member = service.member();
                match member.is_open() {
                    true => member.open_ports().await,
                    false => Ok(()),
                }
            };
            service.port.wait(node, open).await;
        });
    }

    /// The membership that runs now.
    pub(crate) fn member(&self) -> Arc<ActiveMembership> {
        Arc::clone(&self.member.borrow())
    }

    /// Asks the leader of the cluster.
    ///
    /// # Errors
    /// [`MeshError::NotNow`] when this node was expelled, else why it is not done.
    pub(crate) async fn ask<R: OfCluster>(&self, request: R) -> Result<R::Answer, MeshError>
    where
        NodeClusterService: Answers<R>,
    {
        self.check_membership().await?;
        Ok(self.member().requests().cluster(request).await?)
    }

    /// Whether the cluster has expelled this node, as far as that was heard here.
    pub(crate) async fn is_expelled(&self) -> bool {
        let member = self.member();
        let me = member.me;
        let state = member
            .mesh
            .look(move |mesh| mesh.member(me).map(|found| found.body.state));
        matches!(state.await, Ok(Some(AdmissionState::Expelled)))
    }

    /// Where this node stands, as its cluster was told when it joined; empty if nobody said.
    pub(crate) async fn rack(&self) -> String {
        let member = self.member();
        let me = member.me;
        let rack = member
            .mesh
            .look(move |mesh| mesh.member(me).map(|found| found.body.rack.clone()));
        rack.await.ok().flatten().unwrap_or_default()
    }

    /// Whether this node has a cluster that could answer.
    ///
    /// # Errors
    /// When it was expelled, with what to do.
    pub(crate) async fn check_membership(&self) -> Result<(), MeshError> {
        match self.is_expelled().await {
            true => Err(MeshError::NotNow(format!("{EXPELLED}: {AFTER_EXPULSION}"))),
            false => Ok(()),
        }
    }

    /// Gives the cluster of this node alone a name, its own if that is empty, and opens its ports:
    /// others can join from now on.
    ///
    /// # Errors
    /// When the cluster has a name already, or the files or ports cannot be used.
    pub(crate) async fn init(&self, name: &str) -> Result<ClusterView, MeshError> {
        let _changing = self.changing.lock().await;
        let member = self.member();
        if member.is_open() {
            return Err(already(&member.membership()));
        }
        let name = match name {
            "" => self.dependencies.node.identity.node.as_str(),
            name => name,
        };
        self.listen(&member).await?;
        let named = self.name(&member, name).await;
        if named.is_err() {
            member.close_ports().await;
        }
        let view = named?;
        tracing::info!(name, id = %view.id, "the cluster has a name, and others can join");
        Ok(view)
    }

    /// Opens the ports of a member that was not to be reached till now.
    async fn listen(&self, member: &ActiveMembership) -> Result<(), MeshError> {
        let node = &self.dependencies.node.node;
        match member.open_ports().await {
            Ok(()) => Ok(()),
            Err(error) => {
                let text = self.port.explain(&format!("{error:#}"), node).await;
                Err(MeshError::NotNow(text))
            }
        }
    }

    /// Gives the cluster a name, and notes that the ports are to be open.
    async fn name(&self, member: &ActiveMembership, name: &str) -> Result<ClusterView, MeshError> {
        let request = NameCluster {
            name: name.to_owned(),
        };
        let view = member.requests().cluster(request).await?;
        let kept = member.keep(name, !name.is_empty());
        kept.map_err(|error| MeshError::Failed(error.into()))?;
        Ok(view)
    }

    /// Joins the cluster of the member at `address`. The cluster of this node alone rests while it
    /// is a member there.
    ///
    /// # Errors
    /// When the node is in a cluster with others already, or the cluster does not let it in.
    pub(crate) async fn join(
        self: &Arc<Self>,
        address: &str,
        token: &str,
    ) -> Result<Joined, MeshError> {
        let _changing = self.changing.lock().await;
        let own = self.member();
        self.check_membership().await?;
        if own.is_open() {
            return Err(already(&own.membership()));
        }
        let token: JoinToken = token
            .trim()
            .parse()
            .map_err(|error| MeshError::Invalid(format!("token: {error}")))?;
        // Before the cluster has let it in: it could not take part.
        self.listen(&own).await?;
        own.close_ports().await;
        let served = self.close().await?;
        let joined = match self.ask_admission(address, token).await {
            Ok(joined) => joined,
            Err(error) => {
                self.dependencies.seat.send_replace(served);
                return Err(error);
            }
        };
        let member = self.enter(&own, &joined).await?;
        brief(&member).await;
        let cluster = self.learn_name(&member).await;
        wait_until_served(&self.dependencies.seat).await;
        tracing::info!(id = %cluster.id, member = joined.member.0, "joined a cluster");
        Ok(Joined {
            cluster,
            member: joined.member.0,
            name: joined.admission.name,
        })
    }

    /// Takes up the membership of a cluster that let this node in.
    async fn enter(
        self: &Arc<Self>,
        own: &Arc<ActiveMembership>,
        joined: &muster_gossip::join::JoinedMember,
    ) -> Result<Arc<ActiveMembership>, MeshError> {
        let folder = self.files.joined();
        let membership = StoredMembership {
            name: String::new(),
            root: joined.cluster.root,
            member: joined.member,
            open: true,
        };
        let keep = || -> anyhow::Result<()> {
            // What an earlier try may have left.
            folder.put_aside()?;
            folder.make()?;
            MeshFile::open(&folder.mesh_file())?.keep(&joined.records)?;
            Ok(folder.write(&membership)?)
        };
        tokio::task::block_in_place(keep)?;
        own.stop().await;
        // First: what this node remembers of its own terms would shut out the cluster's leaders.
        self.dependencies.node.node.moved().await;
        self.take_up().await
    }

    /// Takes up the membership that the files hold by now, in place of the one before, which has been
    /// stopped.
    async fn take_up(self: &Arc<Self>) -> Result<Arc<ActiveMembership>, MeshError> {
        let current = self.files.current();
        let current = current.map_err(|error| MeshError::Failed(error.into()))?;
        let member = start(&self.files, current, &self.dependencies).await?;
        self.member.send_replace(Arc::clone(&member));
        member.cluster_maps().ring();
        self.open_ports().await;
        Ok(member)
    }

    /// Takes no more jobs, for this node is about to join a cluster: nothing may wait or run. Gives
    /// what was served till now; its jobs stay on disk, and are seen again when the node has left.
    async fn close(&self) -> Result<Seat, MeshError> {
        let seat = &self.dependencies.seat;
        let served = seat.borrow().clone();
        let vcs = VcHandle::new(
            self.dependencies.groups.clone(),
            watch::channel(served.clone()).1,
        );
        seat.send_replace(Seat::Unknown);
        let open = self.hold_nothing_open(&vcs).await;
        if let Err(error) = open {
            seat.send_replace(served);
            return Err(error);
        }
        Ok(served)
    }

    async fn hold_nothing_open(&self, vcs: &VcHandle) -> Result<(), MeshError> {
        let jobs = vcs.all_jobs().await;
        let jobs = jobs.map_err(|error| MeshError::NotNow(error.to_string()))?;
        let open = jobs.iter().filter(|job| !job.state().is_final()).count();
        let tasks = match open {
            0 => self.tasks_left().await,
            _ => 0,
        };
        if open + tasks > 0 {
            return Err(MeshError::NotNow(held_up(open, tasks)));
        }
        Ok(())
    }

    /// The cluster's name is nothing that joining depends on: asked for once, and kept.
    async fn learn_name(&self, member: &ActiveMembership) -> ClusterView {
        let root_hash = root_hash(&member.membership().root);
        let mut asked = self.ask(DescribeCluster).await;
        // No member that leads may have been heard yet.
        for _ in 0..NAME_TRIES {
            if asked.is_ok() {
                break;
            }
            tokio::time::sleep(NAME_PAUSE).await;
            asked = self.ask(DescribeCluster).await;
        }
        match asked {
            Ok(view) => {
                if let Err(error) = member.keep(&view.name, true) {
                    tracing::warn!(%error, "the cluster's name cannot be kept");
                }
                view
            }
            _ => ClusterView {
                id: root_hash.clone(),
                name: String::new(),
                root_hash,
                generation: 1,
                feature_level: FEATURE_LEVEL,
            },
        }
    }

    /// Talks with a member, at one of its addresses after the other, until it is let in or
    /// refused. Whoever finds it busy comes again by itself.
    async fn ask_admission(
        &self,
        address: &str,
        token: JoinToken,
    ) -> Result<muster_gossip::join::JoinedMember, MeshError> {
        let failed = |error: anyhow::Error| MeshError::Failed(error);
        let nearby = address == entrance::NEARBY;
        if nearby && !self.dependencies.config.mdns {
            return Err(MeshError::Invalid(
                "address: mdns is off here: set it to true under [mesh] in agent.toml, or name a \
                 member's address"
                    .to_owned(),
            ));
        }
        let signer = self
            .files
            .node_key()
            .map_err(|error| failed(error.into()))?;
        let config = JoinConfig {
            mdns: nearby,
            ..JoinConfig::default()
        };
        let counters = Arc::new(NetCounters::default());
        let bound = muster_gossip::net::join::bind(config, &signer, counters);
        let (questions, _inbound) = bound.map_err(|error| failed(error.into()))?;
        let addresses = if nearby {
            entrance::nearby(&questions).await?
        } else {
            entrance::resolve(address).await?
        };
        let talk = |address| self.talk(&questions, address, token.clone(), &signer);
        entrance::one_by_one(&addresses, talk).await
    }

    /// One conversation.
    async fn talk(
        &self,
        questions: &muster_gossip::net::join::Questions,
        address: SocketAddr,
        token: JoinToken,
        signer: &Ed25519Signer,
    ) -> Result<muster_gossip::join::JoinedMember, MeshError> {
        let newcomer = Newcomer {
            key: signer.key(),
            name: self.dependencies.node.identity.node.clone(),
            rack: rack(&self.dependencies.config.rack)?,
            agent_version: Text::try_from(env!("CARGO_PKG_VERSION").to_owned())
                .map_err(|error| MeshError::Invalid(error.to_string()))?,
            feature_level: FEATURE_LEVEL,
        };
        let mut joiner = Joiner::new(token, newcomer, Nonce(rand::random()));
        let mut bytes = joiner.hello().map_err(refused)?;
        let mut to = To { address, key: None };
        loop {
            let asked = questions.ask(to, QuestionProtocol::Join, bytes).await;
            let (peer, reply) = asked.map_err(unanswered)?;
            to.key = Some(peer);
            match joiner
                .reply(&peer, &reply, &Ed25519Verifier)
                .map_err(refused)?
            {
                JoinerStep::Send(next) => bytes = next,
                JoinerStep::Joined(joined) => return Ok(*joined),
            }
        }
    }
}

/// Starts the member of this membership. Without one, a cluster of this node alone is founded.
async fn start(
    files: &Files,
    current: Option<(Folder, StoredMembership)>,
    dependencies: &MembershipDependencies,
) -> anyhow::Result<Arc<ActiveMembership>> {
    let current = match current {
        Some(current) => current,
        None => (files.own(), founding::found(files, dependencies).await?),
    };
    let cluster = ClusterId::of_root(&current.1.root);
    let member = current.1.member;
    let service = ledger::Membership { cluster, member };
    dependencies.node.node.serves(service).await;
    let cluster_map = current.0.cluster_map();
    dependencies.accounts.enter(cluster, cluster_map);
    let member = Arc::new(ActiveMembership::start(files, current, dependencies).await?);
    follow_map::follow(&member, dependencies);
    if dependencies.accounts.version() > 0 {
        // It was told before which virtual clusters there are: jobs can be submitted at once.
        wait_until_served(&dependencies.seat).await;
    }
    Ok(member)
}

/// Jobs can be submitted as soon as a member knows the virtual clusters. Where it is not told in time
/// it is a member all the same.
async fn wait_until_served(seat: &watch::Sender<Seat>) {
    let mut seat = seat.subscribe();
    let served = seat.wait_for(|seat| !matches!(seat, Seat::Unknown));
    let _late = tokio::time::timeout(SERVED_LIMIT, served).await.is_err();
}

/// Waits for the users and keys of a cluster that was joined just now. If they do not come, the
/// member's loop goes on asking.
async fn brief(member: &ActiveMembership) {
    let until = Instant::now() + CLUSTER_MAP_LIMIT;
    while member.cluster_maps().version() == 0 {
        let asked = member.cluster_maps().refresh(Instant::now()).await;
        match asked {
            Ok(()) => {}
            Err(error) if Instant::now() >= until => {
                tracing::warn!(%error, "the cluster's users and keys are not known here yet");
                return;
            }
            Err(_) => tokio::time::sleep(NAME_PAUSE).await,
        }
    }
}

fn refused(error: muster_gossip::join::JoinerError) -> MeshError {
    let text = error.to_string();
    use muster_gossip::join::JoinerError as Join;
    match error {
        Join::Refused { retry_ms, .. } if retry_ms > 0 => {
            MeshError::Busy(format!("{text} (in {} s)", retry_ms.div_ceil(1000)))
        }
        Join::Refused { .. } | Join::OtherName(_) => MeshError::Refused(text),
        Join::Trust(_) | Join::Message(_) | Join::Unexpected => MeshError::Elsewhere(text),
    }
}

fn unanswered(error: AskError) -> MeshError {
    if error.passes() {
        MeshError::Busy(error.to_string())
    } else {
        MeshError::NotNow(error.to_string())
    }
}

fn rack(text: &str) -> Result<Text<64>, MeshError> {
    Text::try_from(text.to_owned())
        .map_err(|error| MeshError::Invalid(format!("mesh.rack in agent.toml: {error}")))
}

/// Why this node does not join yet. Tasks without a job here are those of a cluster that it was in.
fn held_up(open: usize, tasks: usize) -> String {
    match (open, tasks) {
        (0, tasks) => format!(
            "this node still holds {}, which `muster node show` lists: wait for their end before it joins \
             a cluster; a run lease ends a task that no leader of its cluster reaches",
            counted(tasks, "task")
        ),
        (open, _) => format!(
            "{} not ended on this node: stop them, or wait for their end, before it joins a cluster",
            match open {
                1 => "1 job has".to_owned(),
                open => format!("{open} jobs have"),
            }
        ),
    }
}

/// `1 task`, `2 tasks`.
pub(super) fn counted(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        number => format!("{number} {thing}s"),
    }
}

fn already(membership: &StoredMembership) -> MeshError {
    MeshError::NotNow(format!(
        "this node is in cluster {:?} already, as member {}; leave it first with `muster cluster \
         leave`",
        membership.name, membership.member.0
    ))
}
