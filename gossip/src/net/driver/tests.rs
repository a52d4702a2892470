//! Real meshes over real sockets on loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

mod cargo;

use super::*;
use crate::frame::{Ack, MeshFrame, codec};
use crate::key::{ClusterId, Sign as _};
use crate::member::{Incarnation, MemberId};
use crate::mesh::{MeshEvent, MeshIdentity, MeshInput, Reach, VerifiedRecords};
use crate::net::keys::{Ed25519Signer, Ed25519Verifier};
use crate::net::quic::{self, Lane, NetHandle};
use crate::net::{MonotonicClock, NetCounters};
use crate::record::{
    AdmissionState, ClusterBody, MemberBody, NodeBody, Record, RecordKey, RecordVersion,
};
use crate::{Mesh, mesh};

const PATIENCE: Duration = Duration::from_secs(30);

/// A disk in memory that can be stopped.
#[derive(Debug, Default)]
struct Disk {
    kept: Mutex<Vec<Arc<Record>>>,
    stopped: AtomicBool,
    goes_on: Notify,
    broken: AtomicBool,
}

#[derive(Clone, Debug, Default)]
struct SharedDisk(Arc<Disk>);

impl RecordStore for SharedDisk {
    fn keep(&self, records: Vec<Arc<Record>>) -> BoxFuture<'static, Result<(), RecordStoreError>> {
        let disk = Arc::clone(&self.0);
        async move {
            while disk.stopped.load(Ordering::SeqCst) {
                disk.goes_on.notified().await;
            }
            if disk.broken.load(Ordering::SeqCst) {
                return Err(RecordStoreError("the disk is broken".into()));
            }
            disk.kept.lock().unwrap().extend(records);
            Ok(())
        }
        .boxed()
    }
}

/// The keys of a cluster, and what it says of its members.
struct ClusterKeys {
    root: Ed25519Signer,
    signing: Ed25519Signer,
    nodes: Vec<Ed25519Signer>,
}

impl ClusterKeys {
    fn of(nodes: usize) -> Self {
        Self {
            root: Ed25519Signer::generate(),
            signing: Ed25519Signer::generate(),
            nodes: (0..nodes).map(|_| Ed25519Signer::generate()).collect(),
        }
    }

    fn id(&self) -> ClusterId {
        ClusterId::of_root(&self.root.key())
    }

    fn record(&self, generation: u32) -> Arc<Record> {
        let body = ClusterBody {
            root: self.root.key(),
            generation,
            signing: self.signing.key(),
        };
        let version = RecordVersion {
            incarnation: generation.into(),
            number: 1,
        };
        let record = Record::sign(self.id(), RecordKey::Cluster, version, &body, &self.root);
        Arc::new(record.unwrap())
    }

    fn member(&self, n: u32, state: AdmissionState) -> Arc<Record> {
        let body = MemberBody {
            key: self.nodes[n as usize].key(),
            name: format!("n{n}"),
            rack: String::new(),
            votes: false,
            state,
        };
        let number = if state == AdmissionState::Admitted {
            1
        } else {
            2
        };
        let version = RecordVersion {
            incarnation: 1,
            number,
        };
        let key = RecordKey::Member(MemberId(n));
        Arc::new(Record::sign(self.id(), key, version, &body, &self.signing).unwrap())
    }

    /// Starts a node that knows these members.
    fn start(&self, n: u32, knows: &[u32]) -> Node {
        let known = knows
            .iter()
            .map(|n| self.member(*n, AdmissionState::Admitted));
        self.start_with(n, known.chain([self.record(1)]).collect())
    }

    fn start_with(&self, n: u32, records: Vec<Arc<Record>>) -> Node {
        let signer = self.nodes[n as usize].clone();
        let clock = MonotonicClock::default();
        let config = quic::QuicConfig {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            ..quic::QuicConfig::new(self.id())
        };
        let (net, net_events) = quic::bind(config, &signer, clock).unwrap();
        let (root, verifier) = (self.root.key(), Ed25519Verifier);
        let (known, refused) = VerifiedRecords::load(self.id(), &root, &verifier, records);
        assert_eq!(refused, []);
        let identity = MeshIdentity {
            cluster: self.id(),
            root,
            member: MemberId(n),
            incarnation: Incarnation(1),
        };
        let mesh = Mesh::new(
            mesh::MeshOptions::default(),
            identity,
            Box::new(signer),
            Box::new(verifier),
            known,
        );
        let disk = SharedDisk::default();
        let parts = DriverParts {
            mesh,
            cluster: self.id(),
            net: net.clone(),
            net_events,
            questions: None,
            store: Arc::new(disk.clone()),
            clock,
        };
        let Started {
            handle,
            documents,
            cargo,
            task,
        } = start(parts);
        Node {
            id: MemberId(n),
            net,
            handle,
            disk: disk.0,
            cargo,
            task,
            _documents: documents,
        }
    }
}

struct Node {
    id: MemberId,
    net: NetHandle,
    handle: MeshHandle,
    disk: Arc<Disk>,
    cargo: tokio::sync::mpsc::Receiver<(MemberId, Arc<[u8]>)>,
    task: JoinHandle<Result<(), DriverError>>,
    _documents: tokio::sync::mpsc::Receiver<crate::documents::DocumentsOutput>,
}

impl Node {
    async fn says(&self, payload: &str) {
        let body = NodeBody {
            run: self.id.0.into(),
            addresses: vec![self.net.address().unwrap()],
            agent_version: "1".into(),
            problems: vec![],
            payload: payload.as_bytes().to_vec(),
        };
        self.handle.input(MeshInput::Node(body)).await.unwrap();
    }

    /// Tells it where another one is, as a seed of the join would.
    async fn finds(&self, other: &Self) {
        let id = other.id;
        let key = self
            .handle
            .look(move |mesh| mesh.member(id).map(|it| it.body.key));
        self.net.admit(quic::Admitted {
            id,
            key: key.await.unwrap().expect("a member"),
            addresses: vec![other.net.address().unwrap()],
        });
    }

    async fn payload_of(&self, id: MemberId) -> Option<Vec<u8>> {
        let look = move |mesh: &Mesh| mesh.member(id)?.node.map(|node| node.payload);
        self.handle.look(look).await.unwrap()
    }

    async fn root(&self) -> u64 {
        self.handle.look(Mesh::root).await.unwrap()
    }

    fn count(&self, of: impl Fn(&NetCounters) -> &AtomicU64) -> u64 {
        of(self.net.counters()).load(Ordering::Relaxed)
    }
}

async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, wait)
        .await
        .unwrap_or_else(|_| panic!("never: {what}"));
}

async fn knows(node: &Node, other: &Node, payload: &str) {
    let known = || async { node.payload_of(other.id).await.as_deref() == Some(payload.as_bytes()) };
    until("a record arrives", known).await;
}

#[tokio::test]
async fn five_meshes_agree_on_all_records() {
    let cluster = ClusterKeys::of(5);
    let nodes: Vec<Node> = (0..5).map(|n| cluster.start(n, &[0, 1, 2, 3, 4])).collect();
    for node in &nodes {
        node.says("here").await;
        // All know where the first one is; it tells them of the others.
        if node.id.0 > 0 {
            node.finds(&nodes[0]).await;
        }
    }
    for node in &nodes {
        for other in &nodes {
            knows(node, other, "here").await;
        }
    }
    nodes[3].says("changed").await;
    knows(&nodes[1], &nodes[3], "changed").await;
    let agree = || async {
        let mut roots = Vec::new();
        for node in &nodes {
            roots.push(node.root().await);
        }
        roots.windows(2).all(|pair| pair[0] == pair[1])
    };
    until("roots agree", agree).await;
}

#[tokio::test]
async fn a_node_that_falls_silent_becomes_unreachable() {
    let cluster = ClusterKeys::of(3);
    let nodes: Vec<Node> = (0..3).map(|n| cluster.start(n, &[0, 1, 2])).collect();
    for node in &nodes {
        node.says("here").await;
        for other in nodes.iter().filter(|other| other.id != node.id) {
            node.finds(other).await;
        }
    }
    for node in &nodes {
        for other in &nodes {
            knows(node, other, "here").await;
        }
    }
    let mut events = nodes[0].handle.events();
    nodes[2].task.abort();
    nodes[2].net.close().await;
    let unreachable = async {
        loop {
            if let MeshEvent::Reach { member, reach } = events.recv().await.unwrap()
                && (member, reach) == (MemberId(2), Reach::Unreachable)
            {
                return;
            }
        }
    };
    timeout(PATIENCE, unreachable)
        .await
        .expect("it becomes unreachable");
}

#[tokio::test]
async fn an_admission_that_has_not_arrived_is_no_obstacle() {
    let cluster = ClusterKeys::of(2);
    let old = cluster.start(0, &[0]);
    let new = cluster.start(1, &[0, 1]);
    old.says("old").await;
    new.says("new").await;
    new.finds(&old).await;
    knows(&old, &new, "new").await;
    knows(&new, &old, "old").await;
    let kept = old.disk.kept.lock().unwrap();
    assert!(
        kept.iter()
            .any(|record| record.key == RecordKey::Member(MemberId(1)))
    );
    assert_eq!(old.count(|c| &c.strangers_refused), 0);
}

#[tokio::test]
async fn somebody_of_another_cluster_with_a_member_of_the_same_number_stays_out() {
    let (cluster, other) = (ClusterKeys::of(2), ClusterKeys::of(2));
    let node = cluster.start(0, &[0]);
    let stranger = other.start(1, &[0, 1]);
    stranger.says("let me in").await;
    stranger.net.admit(quic::Admitted {
        id: MemberId(0),
        key: cluster.nodes[0].key(),
        addresses: vec![node.net.address().unwrap()],
    });
    until("refused", || async { node.count(|c| &c.bad_hello) > 0 }).await;
    assert_eq!(node.payload_of(MemberId(1)).await, None);
}

#[tokio::test]
async fn who_was_expelled_while_away_is_told_so() {
    let cluster = ClusterKeys::of(2);
    let node = cluster.start(0, &[0, 1]);
    let expelled = MeshInput::Record(cluster.member(1, AdmissionState::Expelled));
    node.handle.input(expelled).await.unwrap();
    let away = cluster.start(1, &[0, 1]);
    let mut events = away.handle.events();
    away.finds(&node).await;
    let told = async { while events.recv().await.unwrap() != MeshEvent::Expelled {} };
    timeout(PATIENCE, told)
        .await
        .expect("it hears that it is out");
}

#[tokio::test]
async fn a_new_generation_reaches_those_of_the_old_one() {
    let cluster = ClusterKeys::of(2);
    let members = [0, 1].map(|n| cluster.member(n, AdmissionState::Admitted));
    let recovered = members.iter().cloned().chain([cluster.record(2)]).collect();
    let node = cluster.start_with(0, recovered);
    let behind = cluster.start(1, &[0, 1]);
    behind.finds(&node).await;
    let caught_up = || async {
        let look = |mesh: &Mesh| mesh.cluster().map(|cluster| cluster.generation);
        behind.handle.look(look).await.unwrap() == Some(2)
    };
    until("the new generation", caught_up).await;
}

#[tokio::test]
async fn garbage_of_a_member_is_counted() {
    let cluster = ClusterKeys::of(2);
    let (one, two) = (cluster.start(0, &[0, 1]), cluster.start(1, &[0, 1]));
    one.finds(&two).await;
    let foreign = codec::encode(
        &MeshFrame::Ack(Ack { numbers: vec![1] }),
        ClusterId([9; 16]),
        1,
    );
    for bytes in [Bytes::from_static(b"garbage"), foreign.into()] {
        one.net.send(two.id, Lane::Stream, bytes);
    }
    until("both counted", || async {
        two.count(|c| &c.bad_frame) == 2
    })
    .await;
}

#[tokio::test]
async fn what_is_not_kept_is_not_said_but_life_goes_on() {
    let cluster = ClusterKeys::of(2);
    let (one, two) = (cluster.start(0, &[0, 1]), cluster.start(1, &[0, 1]));
    one.says("before").await;
    two.says("before").await;
    one.finds(&two).await;
    knows(&two, &one, "before").await;
    knows(&one, &two, "before").await;
    two.disk.stopped.store(true, Ordering::SeqCst);
    two.says("during").await;
    // It answers probes for long enough to be taken for dead if it did not.
    let mut events = one.handle.events();
    let patient = Duration::from_millis(mesh::MeshOptions::default().gone_ms * 2);
    let suspected = async {
        loop {
            if let Ok(MeshEvent::Reach { member, .. }) = events.recv().await
                && member == two.id
            {
                return;
            }
        }
    };
    assert!(
        timeout(patient, suspected).await.is_err(),
        "nobody doubts it"
    );
    assert_eq!(
        one.payload_of(two.id).await.as_deref(),
        Some(&b"before"[..])
    );
    two.disk.stopped.store(false, Ordering::SeqCst);
    two.disk.goes_on.notify_one();
    knows(&one, &two, "during").await;
}

#[tokio::test]
async fn a_mesh_that_cannot_keep_ends() {
    let cluster = ClusterKeys::of(1);
    let node = cluster.start(0, &[0]);
    node.disk.broken.store(true, Ordering::SeqCst);
    node.says("anything").await;
    let ended = timeout(PATIENCE, node.task).await.unwrap().unwrap();
    assert!(matches!(ended, Err(DriverError::Keep(_))), "{ended:?}");
    assert_eq!(node.handle.look(|_| ()).await, Err(Ended));
}
