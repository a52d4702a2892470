//! Records and snapshots: what containerd keeps of a container on disk.

use containerd_client::services::v1::container::Runtime;
use containerd_client::services::v1::containers_client::ContainersClient;
use containerd_client::services::v1::snapshots::{
    MountsRequest, PrepareSnapshotRequest, RemoveSnapshotRequest, UsageRequest,
};
use containerd_client::services::v1::{
    Container as Record, CreateContainerRequest, DeleteContainerRequest, GetContainerRequest,
    ListContainersRequest,
};
use containerd_client::types::Mount;
use muster_model::id::AttemptUid;
use prost::Message;
use prost_types::Any;
use tonic::Code;
use tonic::transport::Channel;

use super::connection::{ANSWER_BYTES_MAX, CallFault};
use super::image::EngineImage;
use super::{Containerd, Labels};
use crate::engine::{ContainerSpec, EngineError};

/// The shim that containerd starts: runc's.
const RUNTIME: &str = "io.containerd.runc.v2";
const SPEC_TYPE: &str = "types.containerd.io/opencontainers/runtime-spec/1/Spec";

/// The options of runc's shim that are used, by their field numbers in containerd's
/// `containerd.runc.v1.Options`, which no crate has compiled.
#[derive(Clone, PartialEq, Message)]
struct RuncOptions {
    /// The program that stands in for runc.
    #[prost(string, tag = "6")]
    binary_name: String,
    /// Have systemd make the control group.
    #[prost(bool, tag = "9")]
    systemd_cgroup: bool,
}

impl Containerd {
    /// Keeps the specification; one that is there already stays as it is.
    pub(super) async fn create_record(
        &self,
        spec: &ContainerSpec,
        document: String,
    ) -> Result<(), EngineError> {
        let record = Record {
            id: spec.uid.to_string(),
            labels: spec.labels.clone().into_iter().collect(),
            image: spec.image.clone(),
            runtime: Some(Runtime {
                name: RUNTIME.to_owned(),
                options: Some(self.runc_options()),
            }),
            spec: Some(Any {
                type_url: SPEC_TYPE.to_owned(),
                value: document.into_bytes(),
            }),
            snapshotter: self.snapshotter.clone(),
            snapshot_key: spec.uid.to_string(),
            ..Record::default()
        };
        let request = self.connection.request(CreateContainerRequest {
            container: Some(record),
        });
        match self
            .connection
            .call(self.containers().create(request))
            .await
        {
            Ok(_) => Ok(()),
            Err(fault) if fault.is(Code::AlreadyExists) => Ok(()),
            Err(fault) => Err(self.connection.error("record the container", fault)),
        }
    }

    fn runc_options(&self) -> Any {
        let options = RuncOptions {
            binary_name: self.runtime.program().display().to_string(),
            systemd_cgroup: self.host.cgroups.needs_systemd(),
        };
        Any {
            type_url: "containerd.runc.v1.Options".to_owned(),
            value: options.encode_to_vec(),
        }
    }

    /// Makes the writable layer on top of the image and tells how to mount both.
    pub(super) async fn create_snapshot(
        &self,
        spec: &ContainerSpec,
        image: &EngineImage,
    ) -> Result<Vec<Mount>, EngineError> {
        let connection = &self.connection;
        let request = connection.request(PrepareSnapshotRequest {
            snapshotter: self.snapshotter.clone(),
            key: spec.uid.to_string(),
            parent: image.chain_id.clone(),
            ..PrepareSnapshotRequest::default()
        });
        match connection
            .call(connection.client().snapshots().prepare(request))
            .await
        {
            Ok(answer) => Ok(answer.mounts),
            Err(fault) if fault.is(Code::AlreadyExists) => self.snapshot_mounts(&spec.uid).await,
            Err(fault) if fault.is(Code::NotFound) => Err(EngineError::Unfit {
                call: "make the writable layer",
                reason: format!(
                    "the layers of {} are not unpacked for {}",
                    spec.image, self.snapshotter
                ),
            }),
            Err(fault) => Err(connection.error("make the writable layer", fault)),
        }
    }

    async fn snapshot_mounts(&self, uid: &AttemptUid) -> Result<Vec<Mount>, EngineError> {
        let connection = &self.connection;
        let request = connection.request(MountsRequest {
            snapshotter: self.snapshotter.clone(),
            key: uid.to_string(),
        });
        let answer = connection
            .call(connection.client().snapshots().mounts(request))
            .await
            .map_err(|fault| connection.error("find the writable layer", fault))?;
        Ok(answer.mounts)
    }

    /// Bytes in the writable layer.
    pub(super) async fn snapshot_bytes(&self, uid: &AttemptUid) -> Result<u64, CallFault> {
        let connection = &self.connection;
        let request = connection.request(UsageRequest {
            snapshotter: self.snapshotter.clone(),
            key: uid.to_string(),
        });
        let answer = connection
            .call(connection.client().snapshots().usage(request))
            .await?;
        Ok(u64::try_from(answer.size).unwrap_or(0))
    }

    pub(super) async fn remove_snapshot(&self, uid: &AttemptUid) -> Result<(), EngineError> {
        let connection = &self.connection;
        let request = connection.request(RemoveSnapshotRequest {
            snapshotter: self.snapshotter.clone(),
            key: uid.to_string(),
        });
        match connection
            .call(connection.client().snapshots().remove(request))
            .await
        {
            Ok(()) => Ok(()),
            Err(fault) if fault.is(Code::NotFound) => Ok(()),
            Err(fault) => Err(connection.error("remove the writable layer", fault)),
        }
    }

    pub(super) async fn remove_record(&self, uid: &AttemptUid) -> Result<(), EngineError> {
        let request = self.connection.request(DeleteContainerRequest {
            id: uid.to_string(),
        });
        match self
            .connection
            .call(self.containers().delete(request))
            .await
        {
            Ok(()) => Ok(()),
            Err(fault) if fault.is(Code::NotFound) => Ok(()),
            Err(fault) => Err(self.connection.error("forget the container", fault)),
        }
    }

    /// Every container's name and labels. One whose name is no attempt's was not made by us
    /// and is left alone.
    pub(super) async fn records(&self) -> Result<Vec<(AttemptUid, Labels)>, EngineError> {
        let request = self.connection.request(ListContainersRequest::default());
        let answer = self
            .connection
            .call(self.containers().list(request))
            .await
            .map_err(|fault| self.connection.error("list the containers", fault))?;
        Ok(answer
            .containers
            .into_iter()
            .filter_map(|record| {
                Some((record.id.parse().ok()?, record.labels.into_iter().collect()))
            })
            .collect())
    }

    /// Why a container has no process: it does not exist, or only its record does.
    pub(super) async fn absent(&self, uid: &AttemptUid) -> EngineError {
        let request = self.connection.request(GetContainerRequest {
            id: uid.to_string(),
        });
        match self.connection.call(self.containers().get(request)).await {
            Ok(_) => EngineError::NoProcess(uid.clone()),
            Err(fault) if fault.is(Code::NotFound) => EngineError::NoContainer(uid.clone()),
            Err(fault) => self.connection.error("find the container", fault),
        }
    }

    pub(super) fn containers(&self) -> ContainersClient<Channel> {
        self.connection
            .client()
            .containers()
            .max_decoding_message_size(ANSWER_BYTES_MAX)
    }
}
