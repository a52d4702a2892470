//! What keeps half-done work from containerd's garbage collector, and gives it up as a whole.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use containerd_client::services::v1::{
    AddResourceRequest, CreateRequest, DeleteRequest, ListRequest, ListResourcesRequest, Resource,
};
use containerd_client::tonic::metadata::{Ascii, MetadataValue};

use super::connection::{ImageConnection, optional};
use super::{Digest, ImageError};

/// After this a lease ends by itself, should the agent die and never come back.
const LIFE: Duration = Duration::from_secs(24 * 3600);
const EXPIRE_LABEL: &str = "containerd.io/gc.expire";
const PURPOSE_LABEL: &str = "muster.io/image-lease";

/// Content and snapshots that must stay although no image refers to them yet.
#[derive(Clone, Debug)]
pub(super) struct ContentLease {
    id: String,
    header: MetadataValue<Ascii>,
}

impl ContentLease {
    /// Opens a lease. What an earlier try for the same purpose had got so far is taken over.
    pub(super) async fn open(line: &ImageConnection, purpose: &str) -> Result<Self, ImageError> {
        let earlier = Self::of_purpose(line, purpose).await?;
        let lease = Self::create(line, purpose).await?;
        for id in earlier {
            lease.take_over(line, &id).await?;
        }
        Ok(lease)
    }

    async fn create(line: &ImageConnection, purpose: &str) -> Result<Self, ImageError> {
        let id = format!("muster-image-{}", uuid::Uuid::new_v4());
        let header = id.parse().map_err(|_| ImageError::Refused {
            call: "open a lease",
            reason: format!("{id} is not ASCII"),
        })?;
        // The engine compares it with its own clock.
        let expires = prost_types::Timestamp::from(SystemTime::now() + LIFE).to_string();
        let labels = HashMap::from([
            (EXPIRE_LABEL.to_owned(), expires),
            (PURPOSE_LABEL.to_owned(), label_value(purpose)),
        ]);
        let request = line.request(CreateRequest {
            id: id.clone(),
            labels,
        });
        line.call("open a lease", line.client().leases().create(request))
            .await?;
        Ok(Self { id, header })
    }

    async fn of_purpose(line: &ImageConnection, purpose: &str) -> Result<Vec<String>, ImageError> {
        let request = line.request(ListRequest {
            filters: Vec::new(),
        });
        let listed = line
            .call("list leases", line.client().leases().list(request))
            .await?;
        let value = label_value(purpose);
        let ours = |labels: &HashMap<String, String>| labels.get(PURPOSE_LABEL) == Some(&value);
        Ok(listed
            .leases
            .into_iter()
            .filter(|l| ours(&l.labels))
            .map(|l| l.id)
            .collect())
    }

    async fn take_over(&self, line: &ImageConnection, earlier: &str) -> Result<(), ImageError> {
        let request = line.request(ListResourcesRequest {
            id: earlier.to_owned(),
        });
        let mut client = line.client().leases();
        let answer = line.call("read a lease", client.list_resources(request));
        for resource in optional(answer.await)?
            .map(|r| r.resources)
            .unwrap_or_default()
        {
            optional(self.add(line, resource).await)?;
        }
        delete(line, earlier).await
    }

    /// Keeps a blob that was there before.
    pub(super) async fn hold_content(
        &self,
        line: &ImageConnection,
        digest: &Digest,
    ) -> Result<(), ImageError> {
        let resource = Resource {
            id: digest.to_string(),
            r#type: "content".to_owned(),
        };
        Ok(self.add(line, resource).await?)
    }

    /// Keeps a snapshot that was there before.
    pub(super) async fn hold_snapshot(
        &self,
        line: &ImageConnection,
        name: &str,
    ) -> Result<(), ImageError> {
        let kind = format!("snapshots/{}", line.snapshotter());
        Ok(self
            .add(
                line,
                Resource {
                    id: name.to_owned(),
                    r#type: kind,
                },
            )
            .await?)
    }

    async fn add(
        &self,
        line: &ImageConnection,
        resource: Resource,
    ) -> Result<(), super::connection::FailedCall> {
        let body = AddResourceRequest {
            id: self.id.clone(),
            resource: Some(resource),
        };
        let mut client = line.client().leases();
        line.call("extend a lease", client.add_resource(line.request(body)))
            .await
    }

    /// Gives everything up that no image refers to by now, and waits until it is gone.
    pub(super) async fn close(&self, line: &ImageConnection) -> Result<(), ImageError> {
        delete(line, &self.id).await
    }

    pub(super) fn header(&self) -> MetadataValue<Ascii> {
        self.header.clone()
    }
}

async fn delete(line: &ImageConnection, id: &str) -> Result<(), ImageError> {
    let request = line.request(DeleteRequest {
        id: id.to_owned(),
        sync: true,
    });
    let mut client = line.client().leases();
    let answer = client.delete(request);
    let gone = line.long_call("end a lease", async {
        answer.await.map(|r| r.into_inner())
    });
    optional(gone.await).map(drop)
}

/// Labels are bounded to 4,096 bytes with their key; names of images are not.
fn label_value(purpose: &str) -> String {
    Digest::of(purpose.as_bytes()).to_string()
}
