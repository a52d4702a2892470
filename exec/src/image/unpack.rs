//! From layers in the content store to a stack of snapshots that containers start from.

use std::collections::HashMap;

use containerd_client::services::v1::ApplyRequest;
use containerd_client::services::v1::snapshots::{
    CommitSnapshotRequest, PrepareSnapshotRequest, RemoveSnapshotRequest, StatSnapshotRequest,
};
use containerd_client::types::Mount;

use super::connection::{FaultKind, ImageConnection, optional};
use super::document::{Descriptor, chain_id};
use super::locks::Locks;
use super::{ContentLease, Digest, ImageError};

/// Unpacks the layers of one image, bottom first. Layers that another image has unpacked are
/// used as they are.
#[derive(Debug)]
pub(super) struct LayerUnpacker<'a> {
    pub(super) line: &'a ImageConnection,
    pub(super) lease: &'a ContentLease,
    pub(super) locks: &'a Locks,
    /// The stack so far.
    pub(super) chain: Option<Digest>,
}

impl LayerUnpacker<'_> {
    /// Puts one more layer on the stack.
    pub(super) async fn add(
        &mut self,
        layer: &Descriptor,
        diff_id: &Digest,
    ) -> Result<(), ImageError> {
        let chain = chain_id(self.chain.as_ref(), diff_id);
        let _turn = self.locks.lock(chain.as_str()).await;
        if self.exists(&chain).await? {
            self.lease.hold_snapshot(self.line, chain.as_str()).await?;
        } else {
            self.unpack(layer, diff_id, &chain).await?;
        }
        self.chain = Some(chain);
        Ok(())
    }

    async fn exists(&self, chain: &Digest) -> Result<bool, ImageError> {
        let snapshotter = self.line.snapshotter().to_owned();
        let body = StatSnapshotRequest {
            snapshotter,
            key: chain.to_string(),
        };
        let mut client = self.line.client().snapshots();
        let answer = self
            .line
            .call("look for a layer", client.stat(self.line.request(body)));
        Ok(optional(answer.await)?.is_some())
    }

    async fn unpack(
        &self,
        layer: &Descriptor,
        diff_id: &Digest,
        chain: &Digest,
    ) -> Result<(), ImageError> {
        let key = format!("muster-extract-{}", uuid::Uuid::new_v4());
        let mounts = self.prepare(&key).await?;
        let done = match self.apply(layer, diff_id, mounts).await {
            Ok(()) => self.commit(&key, chain).await,
            Err(error) => Err(error),
        };
        if done.is_err() {
            self.remove(&key).await;
        }
        done
    }

    async fn prepare(&self, key: &str) -> Result<Vec<Mount>, ImageError> {
        let body = PrepareSnapshotRequest {
            snapshotter: self.line.snapshotter().to_owned(),
            key: key.to_owned(),
            parent: self
                .chain
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            labels: HashMap::new(),
        };
        let request = self.line.leased(body, self.lease);
        let mut client = self.line.client().snapshots();
        Ok(self
            .line
            .call("prepare a layer", client.prepare(request))
            .await?
            .mounts)
    }

    async fn apply(
        &self,
        layer: &Descriptor,
        diff_id: &Digest,
        mounts: Vec<Mount>,
    ) -> Result<(), ImageError> {
        let diff = Some(layer.to_containerd());
        let body = ApplyRequest {
            diff,
            mounts,
            ..ApplyRequest::default()
        };
        let request = self.line.leased(body, self.lease);
        let mut client = self.line.client().diff();
        let applied = async {
            client
                .apply(request)
                .await
                .map(|answer| answer.into_inner())
        };
        let applied = self
            .line
            .long_call("unpack a layer", applied)
            .await?
            .applied;
        let found = applied.map(|a| a.digest).unwrap_or_default();
        if found == diff_id.as_str() {
            return Ok(());
        }
        let reason = format!("unpacked it is {found}, but the image says {diff_id}");
        Err(ImageError::Digest {
            what: format!("layer {}", layer.digest),
            reason,
        })
    }

    async fn commit(&self, key: &str, chain: &Digest) -> Result<(), ImageError> {
        let body = CommitSnapshotRequest {
            snapshotter: self.line.snapshotter().to_owned(),
            name: chain.to_string(),
            key: key.to_owned(),
            labels: HashMap::new(),
        };
        let request = self.line.leased(body, self.lease);
        let mut client = self.line.client().snapshots();
        let committed = async {
            client
                .commit(request)
                .await
                .map(|answer| answer.into_inner())
        };
        match self.line.long_call("keep a layer", committed).await {
            Ok(()) => Ok(()),
            Err(fault) if fault.kind == FaultKind::Exists => {
                self.remove(key).await;
                self.lease.hold_snapshot(self.line, chain.as_str()).await
            }
            Err(fault) => Err(fault.error),
        }
    }

    /// Best effort: the lease's end removes it too.
    async fn remove(&self, key: &str) {
        let snapshotter = self.line.snapshotter().to_owned();
        let body = RemoveSnapshotRequest {
            snapshotter,
            key: key.to_owned(),
        };
        let mut client = self.line.client().snapshots();
        let request = self.line.request(body);
        let _ = self.line.call("drop a layer", client.remove(request)).await;
    }
}
