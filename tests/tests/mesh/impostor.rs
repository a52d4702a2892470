//! Somebody who has the key of a member and speaks in its name, as a stolen disk lets them. It
//! keeps to the protocol as far as it likes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use libp2p::identity::Keypair;
use muster_gossip::frame::{Ack, FRAME_BYTES_MAX, MeshFrame, Want, codec};
use muster_gossip::key::{ClusterId, NodeKey, Sign, Signature};
use muster_gossip::record::{Record, RecordKey};
use muster_tests::net::BareNode;
use quinn::crypto::rustls::QuicClientConfig;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::timeout;

/// How long it waits for whatever it waits for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Streams that a member lets others have open.
const STREAMS_MAX: usize = 16;
/// The generation of a cluster that never had to be recovered.
const GENERATION: u32 = 1;

/// A key of a node's disk, and the cluster it is of.
#[derive(Clone, Debug)]
pub(super) struct Impostor {
    key: Keypair,
    /// The cluster.
    pub(super) cluster: ClusterId,
}

impl Sign for Impostor {
    fn key(&self) -> NodeKey {
        public(&self.key)
    }

    fn sign(&self, bytes: &[u8]) -> Signature {
        let signature = self.key.sign(bytes).expect("an Ed25519 key signs");
        Signature(signature.try_into().expect("of 64 bytes"))
    }
}

fn public(key: &Keypair) -> NodeKey {
    let key = key.public().try_into_ed25519().expect("an Ed25519 key");
    NodeKey(key.to_bytes())
}

fn read(node: &BareNode, name: &str) -> Result<Keypair> {
    let path = node.home().join("state/mesh").join(name);
    let seed = std::fs::read(&path).with_context(|| path.display().to_string())?;
    Ok(Keypair::ed25519_from_bytes(seed)?)
}

impl Impostor {
    /// Has the key of this name from the disk of `node`; the founder's disk says which cluster.
    pub(super) fn new(node: &BareNode, name: &str, founder: &BareNode) -> Result<Self> {
        let root = public(&read(founder, "own/root.key")?);
        Ok(Self {
            key: read(node, name)?,
            cluster: ClusterId::of_root(&root),
        })
    }

    /// Makes a connection to the member at this address, as a member does.
    pub(super) async fn call(&self, address: IpAddr) -> Result<Line> {
        let mut tls = libp2p_tls::make_client_config(&self.key, None)?;
        tls.alpn_protocols = vec![b"muster/1".to_vec()];
        let tls = QuicClientConfig::try_from(tls)?;
        let anywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let mut endpoint = quinn::Endpoint::client(anywhere)?;
        endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(tls)));
        let connecting = endpoint.connect((address, 7740).into(), "muster")?;
        let connection = timeout(PATIENCE, connecting).await??;
        let (heard, words) = mpsc::unbounded_channel();
        tokio::spawn(listen(connection.clone(), heard));
        let line = Line {
            connection,
            words: Mutex::new(words),
            cluster: self.cluster,
            _endpoint: endpoint,
        };
        line.send(&self.hello()).await?;
        Ok(line)
    }

    /// The first words of a connection. Whoever knows the caller needs no admission in them.
    fn hello(&self) -> Vec<u8> {
        let version = 1_u16.to_le_bytes();
        [&b"MHLO"[..], &version, &self.cluster.0].concat()
    }
}

/// Passes on what a member says, until it hangs up. A stream that never ends holds up no other:
/// what the groups of consensus say comes on one of those.
async fn listen(connection: quinn::Connection, heard: UnboundedSender<Vec<u8>>) -> Result<()> {
    loop {
        tokio::select! {
            stream = connection.accept_uni() => {
                let (mut stream, heard) = (stream?, heard.clone());
                tokio::spawn(async move {
                    let bytes = stream.read_to_end(FRAME_BYTES_MAX).await?;
                    heard.send(bytes).context("nobody listens")
                });
            }
            datagram = connection.read_datagram() => heard.send(datagram?.to_vec())?,
        }
    }
}

/// A connection to a member.
#[derive(Debug)]
pub(super) struct Line {
    connection: quinn::Connection,
    /// What the member said, as it came.
    words: Mutex<UnboundedReceiver<Vec<u8>>>,
    cluster: ClusterId,
    _endpoint: quinn::Endpoint,
}

impl Line {
    /// The bytes of a frame, as they should be.
    pub(super) fn encode(&self, frame: &MeshFrame) -> Vec<u8> {
        codec::encode(frame, self.cluster, GENERATION)
    }

    /// Whether a member can read these bytes at all.
    pub(super) fn is_frame(&self, bytes: &[u8]) -> bool {
        codec::decode(bytes, self.cluster, GENERATION).is_ok()
    }

    /// Sends bytes as one stream.
    pub(super) async fn send(&self, bytes: &[u8]) -> Result<()> {
        let send = async {
            let mut stream = self.connection.open_uni().await?;
            stream.write_all(bytes).await?;
            stream.finish()?;
            anyhow::Ok(())
        };
        timeout(PATIENCE, send).await?
    }

    /// Asks the member for a record, of this start of its writer at least: what the member had to
    /// say earlier comes first.
    pub(super) async fn ask(&self, key: RecordKey, start: u64) -> Result<Arc<Record>> {
        let want = MeshFrame::Want(Want { keys: vec![key] });
        self.send(&self.encode(&want)).await?;
        let hear = self.hear(|record| record.key == key && record.version.incarnation >= start);
        timeout(PATIENCE, hear).await?
    }

    async fn hear(&self, wanted: impl Fn(&Record) -> bool) -> Result<Arc<Record>> {
        let mut words = self.words.lock().await;
        loop {
            let bytes = words.recv().await.context("the member hung up")?;
            let Ok(MeshFrame::Push(push)) = codec::decode(&bytes, self.cluster, GENERATION) else {
                continue;
            };
            if let Some(record) = push.records.into_iter().find(|record| wanted(record)) {
                return Ok(record);
            }
        }
    }

    /// Waits until the member has heard it all, and hangs up.
    pub(super) async fn hang_up(self) -> Result<()> {
        // A stream may be opened when one of those before was read.
        let nothing = self.encode(&MeshFrame::Ack(Ack { numbers: vec![] }));
        for _ in 0..4 * STREAMS_MAX {
            self.send(&nothing).await?;
        }
        self.ask(RecordKey::Cluster, 0).await?;
        self.connection.close(0_u8.into(), b"");
        Ok(())
    }

    /// Waits until the member has hung up.
    pub(super) async fn left_alone(self) -> Result<()> {
        timeout(PATIENCE, self.connection.closed()).await?;
        Ok(())
    }
}
