//! Between the words of the core and those of the network.

use std::collections::BTreeMap;

use bytes::Bytes;
use muster_model::time::Time;

use crate::Mesh;
use crate::frame::{MeshFrame, Push, codec};
use crate::key::{ClusterId, NodeKey};
use crate::member::MemberId;
use crate::net::quic::{Admitted, Lane};
use crate::record::{Record, RecordKey};

/// A member of an older generation is told of the newer one at most this often, ms.
const TELL_MS: u64 = 1_000;

/// The cluster's name and generation on every frame, and who was told that its own is over.
#[derive(Debug)]
pub(super) struct Translator {
    cluster: ClusterId,
    told: BTreeMap<MemberId, Time>,
}

/// What bytes are.
pub(super) enum Read {
    /// A frame for the core.
    Frame(MeshFrame),
    /// Its sender lives in a generation that is over: these bytes tell it so.
    Outdated(Option<Bytes>),
    /// Nothing that this node can use.
    Bad(codec::FrameError),
}

fn generation(mesh: &Mesh) -> u32 {
    mesh.cluster().map_or(0, |cluster| cluster.generation)
}

impl Translator {
    pub(super) const fn new(cluster: ClusterId) -> Self {
        Self {
            cluster,
            told: BTreeMap::new(),
        }
    }

    pub(super) fn write(&self, mesh: &Mesh, frame: &MeshFrame) -> Bytes {
        codec::encode(frame, self.cluster, generation(mesh)).into()
    }

    pub(super) fn read(&mut self, mesh: &Mesh, from: MemberId, now: Time, bytes: &[u8]) -> Read {
        match codec::decode(bytes, self.cluster, generation(mesh)) {
            Ok(frame) => Read::Frame(frame),
            Err(codec::FrameError::OlderGeneration(theirs)) => {
                Read::Outdated(self.tell(mesh, from, now, theirs))
            }
            Err(error) => Read::Bad(error),
        }
    }

    /// The record of the cluster's generation, in a frame that the sender can read.
    fn tell(&mut self, mesh: &Mesh, to: MemberId, now: Time, theirs: u32) -> Option<Bytes> {
        let due = self
            .told
            .get(&to)
            .map_or(Time(0), |at| at.plus_millis(TELL_MS));
        if now < due {
            return None;
        }
        self.told.insert(to, now);
        self.push(mesh.record(RecordKey::Cluster)?, theirs)
    }

    fn push(&self, record: &std::sync::Arc<Record>, generation: u32) -> Option<Bytes> {
        let records = vec![record.clone()];
        let push = MeshFrame::Push(Push { number: 0, records });
        Some(codec::encode(&push, self.cluster, generation).into())
    }

    /// What to tell one whose membership is over, before its connection is closed: the record
    /// that says so.
    pub(super) fn farewell(&self, mesh: &Mesh, key: &NodeKey) -> Option<Bytes> {
        let over = mesh
            .ever()
            .filter_map(|id| mesh.member(id))
            .filter(|member| member.body.key == *key)
            .last()?;
        self.push(mesh.record(RecordKey::Member(over.id))?, generation(mesh))
    }
}

/// How the core's frames go out.
pub(super) fn lane(output: &crate::mesh::MeshOutput) -> Option<Lane> {
    match output {
        crate::mesh::MeshOutput::Send { frame, carrier, .. } => Some(Lane::of(frame, *carrier)),
        _ => None,
    }
}

/// A member, as the network needs it.
pub(super) fn admitted(mesh: &Mesh, id: MemberId) -> Option<Admitted> {
    let member = mesh.member(id)?;
    Some(Admitted {
        id,
        key: member.body.key,
        addresses: member.node.map(|node| node.addresses).unwrap_or_default(),
    })
}

/// All members but this node.
pub(super) fn all_admitted(mesh: &Mesh) -> Vec<Admitted> {
    mesh.members()
        .filter(|id| *id != mesh.me())
        .filter_map(|id| admitted(mesh, id))
        .collect()
}
