//! One machine: the core that runs on it, and the disk that outlives it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use muster_gossip::frame::DocumentRef;
use muster_gossip::mesh::{Mesh, MeshEvent, MeshOptions};
use muster_gossip::record::{DocumentId, NodeBody, Record, RecordKey};
use muster_model::time::Time;

/// The routing record of an agent with copies of eight groups takes about so much.
const PAYLOAD_BYTES: usize = 180;

/// What outlives a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostDisk {
    /// Starts counted.
    pub(crate) incarnation: u64,
    /// Whether it has the records that all first members start with.
    pub(crate) shared: bool,
    /// What was kept beside those.
    pub(crate) records: BTreeMap<RecordKey, Arc<Record>>,
    /// Documents' bodies.
    pub(crate) bodies: BTreeMap<DocumentRef, Arc<[u8]>>,
    /// What is in force.
    pub(crate) active: BTreeMap<DocumentId, DocumentRef>,
    /// Versions that made the process crash: not put in force again.
    pub(crate) quarantined: BTreeSet<DocumentRef>,
}

/// One machine.
#[derive(Debug)]
pub(crate) struct SimHost {
    pub(crate) core: Option<Mesh>,
    pub(crate) disk: HostDisk,
    /// How its core behaves.
    pub(crate) config: MeshOptions,
    /// What its process says of itself.
    pub(crate) body: NodeBody,
    /// Its monotonic clock is ahead of the world's by this, µs.
    pub(crate) offset: u64,
    /// What it reported that matters to scenarios.
    pub(crate) events: Vec<(Time, MeshEvent)>,
    /// Versions that were put in force, in order.
    pub(crate) activated: Vec<DocumentRef>,
    /// The process fell over what it was told to put in force.
    pub(crate) poisoned: bool,
}

impl SimHost {
    pub(crate) fn new(node: usize) -> Self {
        Self {
            core: None,
            disk: HostDisk::default(),
            config: MeshOptions::default(),
            body: body(node),
            offset: 0,
            events: Vec::new(),
            activated: Vec::new(),
            poisoned: false,
        }
    }

    /// Its clock's reading.
    pub(crate) const fn local(&self, now: Time) -> Time {
        Time(now.0 + self.offset)
    }

    /// When its core wants to be woken, by the world's clock.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let local = self.core.as_ref()?.deadline()?;
        Some(Time(local.0.saturating_sub(self.offset)))
    }

    /// From now on it says this change of itself.
    pub(crate) fn say(&mut self, number: u64) {
        self.body.payload[..8].copy_from_slice(&number.to_le_bytes());
    }
}

fn body(node: usize) -> NodeBody {
    let number = u32::try_from(node).unwrap_or(0);
    let address = Ipv4Addr::from(0x0a00_0001 + number);
    NodeBody {
        run: 0,
        addresses: vec![SocketAddr::from((address, 7740))],
        agent_version: "0.1.0".into(),
        problems: Vec::new(),
        payload: vec![0; PAYLOAD_BYTES],
    }
}
