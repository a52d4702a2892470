//! Everything that runs while this node is a member.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use muster_consensus::{Group, Options};
use muster_control::cluster::{Progress, Sight, Soak};
use muster_gossip::documents::Input as DocumentInput;
use muster_gossip::frame::DocumentRef;
use muster_gossip::key::{ClusterId, NodeKey, Sign as _};
use muster_gossip::member::MemberId;
use muster_gossip::mesh::{Config as MeshConfig, Event, Identity, Input, Known};
use muster_gossip::net::driver::{KeepError, MeshHandle, Parts, Store, start};
use muster_gossip::net::join::{Config as JoinConfig, Inbound, Protocol, Questions, To};
use muster_gossip::net::keys::Ed25519Verifier;
use muster_gossip::net::quic::{self, NetHandle};
use muster_gossip::net::{Clock, NetCounters};
use muster_gossip::record::{DocumentId, Record, RecordKey};
use muster_gossip::{Mesh, net};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use super::bodies::Bodies;
use super::cluster_machine::ClusterMachine;
use super::documents;
use super::door;
use super::keeper::Keeper;
use super::membership::{Files, Membership};
use super::question::{Answer, Asker, BYTES_MAX, Question, Rejection};
use super::told;
use crate::config;
use crate::loops::cluster::{self, ClusterHandle, Keys, Members};
use crate::node_status::NodeStatus;
use crate::rules_in_force::RulesInForce;
use crate::waits::Waits;

/// Pause before records are offered again to a disk that refused them.
const KEEP_PAUSE: Duration = Duration::from_secs(1);
/// Members whose records a newcomer is given.
const SEEDS_MAX: usize = 32;

/// What a member is made of besides its files.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    /// The mesh's configuration.
    pub(crate) config: config::Mesh,
    /// What is known of this node.
    pub(crate) node: NodeStatus,
    /// How long its parts have been busy with what they do now.
    pub(crate) feels: Waits,
    /// The failure rules, which the mesh's document replaces.
    pub(crate) rules: RulesInForce,
    /// Where all of a member's tasks run.
    pub(crate) thread: Handle,
}

/// A running membership. Ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Member {
    /// What is kept of it.
    pub(crate) membership: Membership,
    /// The cluster's name, where it was learnt after the start.
    name: std::sync::OnceLock<String>,
    /// The core.
    pub(crate) mesh: MeshHandle,
    /// Questions to others.
    questions: Questions,
    net: NetHandle,
    cluster: Option<ClusterHandle>,
    /// The disk.
    pub(crate) keeper: Arc<Mutex<Keeper>>,
    key: NodeKey,
    stop: CancellationToken,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What the parts of a member put out, to be taken up by its tasks.
struct Ends {
    run: u64,
    inbound: mpsc::Receiver<Inbound>,
    outputs: mpsc::Receiver<muster_gossip::documents::Output>,
    driver: tokio::task::JoinHandle<Result<(), net::driver::Error>>,
}

/// The disk, as the driver wants it. One that is full or gone for a while does not end the mesh:
/// signs of life go on, what has to be kept first waits.
#[derive(Debug)]
struct Disk(Arc<Mutex<Keeper>>);

impl Store for Disk {
    fn keep(&self, records: Vec<Arc<Record>>) -> BoxFuture<'static, Result<(), KeepError>> {
        let keeper = Arc::clone(&self.0);
        async move {
            let records: Arc<[_]> = records.into();
            loop {
                let mut keeper = Arc::clone(&keeper).lock_owned().await;
                let wanted = Arc::clone(&records);
                let kept = tokio::task::spawn_blocking(move || keeper.keep(&wanted)).await;
                match kept {
                    Ok(Ok(())) => return Ok(()),
                    Ok(Err(error)) => {
                        tracing::warn!(
                            "the mesh waits for the disk: {:#}",
                            anyhow::Error::from(error)
                        );
                        tokio::time::sleep(KEEP_PAUSE).await;
                    }
                    Err(error) => return Err(KeepError(error.into())),
                }
            }
        }
        .boxed()
    }
}

/// The mesh as the cluster's loop sees it.
struct MeshMembers {
    mesh: MeshHandle,
    address: SocketAddr,
}

impl std::fmt::Debug for MeshMembers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MeshMembers")
    }
}

impl Members for MeshMembers {
    fn publish(&self, records: Vec<Arc<Record>>, bodies: Vec<(DocumentRef, Arc<[u8]>)>) {
        Handle::current().block_on(async {
            for record in records {
                // A mesh that has ended is told of by whoever runs it.
                let _ = self.mesh.input(Input::Record(record)).await;
            }
            for (document, body) in bodies {
                let input = DocumentInput::Body { document, body };
                let _ = self.mesh.input(Input::Document(input)).await;
            }
        });
    }

    fn sights(&self) -> (BTreeMap<MemberId, Sight>, BTreeMap<DocumentId, Progress>) {
        let look = self.mesh.look(|mesh| (sights(mesh), progress(mesh)));
        Handle::current().block_on(look).unwrap_or_default()
    }

    fn seeds(&self) -> Vec<Arc<Record>> {
        let look = self.mesh.look(seeds);
        Handle::current().block_on(look).unwrap_or_default()
    }

    fn address(&self) -> String {
        self.address.to_string()
    }
}

fn sights(mesh: &Mesh) -> BTreeMap<MemberId, Sight> {
    let sight = |member: MemberId| Sight {
        reach: mesh.reach(member),
        incarnation: mesh.incarnation_of(member),
    };
    mesh.members()
        .map(|member| (member, sight(member)))
        .collect()
}

fn progress(mesh: &Mesh) -> BTreeMap<DocumentId, Progress> {
    let documents = mesh.documents().map(|(id, view)| {
        let reason = match &view.verdict {
            Some(muster_gossip::documents::Verdict::Rejected(reason)) => {
                Some((mesh.me(), reason.clone()))
            }
            _ => None,
        };
        let progress = Progress {
            coverage: view.coverage,
            reasons: reason.into_iter().collect(),
        };
        (id, progress)
    });
    documents.collect()
}

/// Admissions and addresses of some that can be reached.
fn seeds(mesh: &Mesh) -> Vec<Arc<Record>> {
    let alive = mesh
        .members()
        .filter(|member| mesh.reach(*member) == muster_gossip::mesh::Reach::Alive);
    let keys = alive
        .take(SEEDS_MAX)
        .flat_map(|member| [RecordKey::Member(member), RecordKey::Node(member)]);
    keys.filter_map(|key| mesh.record(key).cloned()).collect()
}

/// The address others find this node's mesh at.
pub(crate) fn advertised(surroundings: &Surroundings) -> SocketAddr {
    let address = surroundings.node.identity.address;
    SocketAddr::new(address, surroundings.config.listen.port())
}

/// Where to hear questions. UDP's `[::]` takes IPv4 too, a TCP listener of libp2p's does not.
fn tcp_addresses(listen: SocketAddr) -> Vec<SocketAddr> {
    let any = SocketAddr::from((std::net::Ipv4Addr::UNSPECIFIED, listen.port()));
    let both = listen.is_ipv6() && listen.ip().is_unspecified();
    let others = both.then_some(any);
    others.into_iter().chain([listen]).collect()
}

impl Member {
    /// Starts everything, on the mesh's own thread but for what waits for the disk: that is for
    /// the caller's threads.
    ///
    /// # Errors
    /// When files or ports cannot be used.
    pub(crate) async fn start(
        files: &Files,
        membership: Membership,
        surroundings: &Surroundings,
    ) -> anyhow::Result<Self> {
        let (files, surroundings) = (files.clone(), surroundings.clone());
        let thread = surroundings.thread.clone();
        let others = Handle::current();
        let starting =
            async move { Self::start_here(&files, membership, &surroundings, &others).await };
        thread.spawn(starting).await?
    }

    async fn start_here(
        files: &Files,
        membership: Membership,
        surroundings: &Surroundings,
        others: &Handle,
    ) -> anyhow::Result<Self> {
        let signer = files.node_key()?;
        let cluster = ClusterId::of_root(&membership.root);
        let mut keeper = Keeper::open(&files.keeper())?;
        let incarnation = keeper.raise_incarnation()?;
        let records = keeper.records()?;
        let (known, refused) = Known::load(cluster, &membership.root, &Ed25519Verifier, records);
        for (key, refusal) in refused {
            tracing::warn!(?key, %refusal, "a kept record is not taken");
        }
        let run = rand::random();
        let identity = Identity {
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
        let clock = Clock::default();
        let quic = quic::Config {
            listen: surroundings.config.listen,
            ..quic::Config::new(cluster)
        };
        let (net, net_events) = quic::bind(quic, &signer, clock)?;
        let join = JoinConfig {
            listen: tcp_addresses(surroundings.config.listen),
            mdns: surroundings.config.mdns,
            ..JoinConfig::default()
        };
        let (questions, inbound) =
            net::join::bind(join, &signer, Arc::clone(net.counters())).await?;
        let keeper = Arc::new(Mutex::new(keeper));
        let (mesh, outputs, driver) = start(Parts {
            mesh,
            cluster,
            net: net.clone(),
            net_events,
            questions: Some(questions.clone()),
            store: Arc::new(Disk(Arc::clone(&keeper))),
            clock,
        });
        let stop = CancellationToken::new();
        let member = Self {
            cluster: None,
            membership,
            name: std::sync::OnceLock::new(),
            mesh,
            questions,
            net,
            keeper,
            key: signer.key(),
            stop,
        };
        let ends = Ends {
            run,
            inbound,
            outputs,
            driver,
        };
        member.run(files, surroundings, others, ends)
    }

    fn run(
        mut self,
        files: &Files,
        surroundings: &Surroundings,
        others: &Handle,
        ends: Ends,
    ) -> anyhow::Result<Self> {
        let Ends {
            run,
            inbound,
            outputs,
            driver,
        } = ends;
        if self.membership.member == self.membership.authority {
            self.cluster = Some(self.start_cluster(files, surroundings, others)?);
        }
        let stop = self.stop.clone();
        let told = told::run(
            self.mesh.clone(),
            surroundings.node.clone(),
            told::Said {
                run,
                port: surroundings.config.listen.port(),
            },
        );
        let feeling = told::feel(self.mesh.clone(), surroundings.feels.clone());
        let putting = documents::run(
            self.mesh.clone(),
            Arc::clone(&self.keeper),
            surroundings.rules.clone(),
            outputs,
        );
        let answering = door::run(self.door(), inbound);
        tokio::spawn(async move {
            // None of these ends before the membership does.
            let ended = tokio::select! {
                () = stop.cancelled() => return,
                () = told => "telling",
                () = feeling => "feeling",
                () = putting => "documents",
                () = answering => "answering",
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
        Ok(self)
    }

    fn start_cluster(
        &self,
        files: &Files,
        surroundings: &Surroundings,
        others: &Handle,
    ) -> anyhow::Result<ClusterHandle> {
        let machine = ClusterMachine::default();
        let group = Group::open(&files.cluster_log(), machine, Options::default())?;
        let keys = Keys {
            root: Box::new(files.root_key()?),
            signing: Box::new(files.signing_key()?),
        };
        let bodies = Bodies::open(&files.bodies())?;
        let members = MeshMembers {
            mesh: self.mesh.clone(),
            address: advertised(surroundings),
        };
        let soak = Soak {
            soak_ms: u64::from(surroundings.config.soak_s) * 1000,
            ..Soak::default()
        };
        let (handle, work) = cluster::cluster(group, keys, bodies, members, soak);
        let stop = self.stop.clone();
        others.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = work.run() => {}
            }
        });
        Ok(handle)
    }

    fn door(&self) -> door::Door {
        door::Door {
            mesh: self.mesh.clone(),
            authority: self.authority(),
            key: self.key,
            me: self.membership.member,
            questions: self.questions.clone(),
        }
    }

    /// Questions to others.
    pub(crate) const fn questions(&self) -> &Questions {
        &self.questions
    }

    /// The way to the node that orders the cluster's affairs.
    pub(crate) fn authority(&self) -> Authority {
        Authority {
            me: self.membership.member,
            authority: self.membership.authority,
            cluster: self.cluster.clone(),
            mesh: self.mesh.clone(),
            questions: self.questions.clone(),
        }
    }

    /// What the network refused and dropped.
    pub(crate) fn net_counters(&self) -> &NetCounters {
        self.net.counters()
    }

    /// The links there are.
    pub(crate) const fn net(&self) -> &NetHandle {
        &self.net
    }

    /// The cluster's name; empty while that is not known.
    pub(crate) fn name(&self) -> &str {
        self.name.get().unwrap_or(&self.membership.name)
    }

    /// Takes the cluster's name from who knows it.
    pub(super) fn learn_name(&self, name: &str) {
        self.name.get_or_init(|| name.to_owned());
    }

    /// Ends it, and waits until the ports are free.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.net.close().await;
    }
}

/// Reaches the node that orders the cluster's affairs: this one, or another member.
#[derive(Clone, Debug)]
pub(crate) struct Authority {
    me: MemberId,
    authority: MemberId,
    cluster: Option<ClusterHandle>,
    mesh: MeshHandle,
    questions: Questions,
}

impl Authority {
    /// Asks, for this node itself.
    pub(crate) async fn ask(&self, question: Question) -> Answer {
        match &self.cluster {
            Some(cluster) => cluster.ask(Asker(self.me), question).await,
            None => self
                .ask_afar(question)
                .await
                .unwrap_or_else(Answer::Rejected),
        }
    }

    /// Asks for another member, which only the authority itself can.
    pub(crate) async fn ask_for(&self, from: MemberId, question: Question) -> Answer {
        match &self.cluster {
            Some(cluster) => cluster.ask(Asker(from), question).await,
            None => Answer::Rejected(Rejection::Unavailable(
                "this node does not order the cluster's affairs".to_owned(),
            )),
        }
    }

    async fn ask_afar(&self, question: Question) -> Result<Answer, Rejection> {
        let failed = |why: String| Rejection::Unavailable(why);
        let authority = self.authority;
        let look = self.mesh.look(move |mesh| {
            let member = mesh.member(authority)?;
            let addresses = member.node.map(|node| node.addresses).unwrap_or_default();
            Some((member.body.name.clone(), member.body.key, addresses))
        });
        let found = look.await.map_err(|error| failed(error.to_string()))?;
        let (name, key, addresses) =
            found.ok_or_else(|| failed("the cluster's founder is not known yet".to_owned()))?;
        let bytes = serde_json::to_vec(&question).map_err(|error| failed(error.to_string()))?;
        if bytes.len() > BYTES_MAX {
            return Err(Rejection::Invalid(format!("longer than {BYTES_MAX} bytes")));
        }
        let mut last =
            format!("no address of {name}, which orders the cluster's affairs, is known");
        for address in addresses {
            let to = To {
                address,
                key: Some(key),
            };
            match self
                .questions
                .ask(to, Protocol::Authority, bytes.clone())
                .await
            {
                Ok((_, answer)) => {
                    return serde_json::from_slice(&answer)
                        .map_err(|error| failed(format!("{name} answered nonsense: {error}")));
                }
                Err(error) => {
                    last = format!(
                        "{name}, which orders the cluster's affairs, does not answer: {error}"
                    );
                }
            }
        }
        Err(failed(last))
    }
}

/// Tells what happens in the mesh to the log.
pub(crate) fn log(event: &Event) {
    match event {
        Event::Reach { member, reach } => {
            tracing::info!(member = member.0, ?reach, "a member is seen otherwise");
        }
        Event::Cloned => tracing::error!(
            "another machine uses this node's key: stop one of them and remove its state/mesh"
        ),
        Event::Expelled => tracing::error!("this node is a member no more"),
        Event::MassFailure => {
            tracing::error!("a third of the members became unreachable within a minute");
        }
        Event::Members | Event::Node(_) => {}
    }
}
