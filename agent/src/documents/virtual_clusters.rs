//! How the cluster is described: which virtual clusters there are, and what each is promised.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use muster_control::cluster::DESCRIPTION;
use muster_portal_gateway::port::PortError;
use tokio::time::{sleep, timeout};

use super::kind::{About, DocumentKind, PutInForce, Versioned, lines};
use crate::description::{Description, Descriptions};
use crate::vc::VcHandle;

/// Only leaders evaluate it, so that there is nothing to be tried on few nodes first.
pub(super) const ABOUT: About = About {
    id: DESCRIPTION,
    name: "virtual-clusters",
    is_staged: false,
};

/// How long the answer to an edit waits until all leaders use the new version.
const EDITED_LIMIT: Duration = Duration::from_secs(10);
const EDITED_PAUSE: Duration = Duration::from_millis(20);

/// The descriptions that this node knows, and the leaders that go by them.
#[derive(Debug)]
pub(crate) struct VirtualClusters {
    descriptions: Descriptions,
    vcs: VcHandle,
}

impl VirtualClusters {
    pub(crate) const fn new(descriptions: Descriptions, vcs: VcHandle) -> Self {
        Self { descriptions, vcs }
    }

    /// Whether this node knows a version, and all leaders that it names go by it.
    async fn go_by(&self, version: u64) -> bool {
        let known = self.descriptions.now();
        let Some(known) = known.filter(|known| known.version >= version) else {
            return false;
        };
        let Ok(named) = known.vcs() else {
            return false;
        };
        // One that is not served here yet cannot be asked.
        let described = self.vcs.description(named).await;
        described.is_ok_and(|known| known >= Some(version))
    }
}

#[async_trait]
impl DocumentKind for VirtualClusters {
    fn about(&self) -> About {
        ABOUT
    }

    fn read(&self, text: &str, version: u64) -> Result<PutInForce, Vec<String>> {
        let description = Description::read(text, version).map_err(|problems| lines(&problems))?;
        let descriptions = self.descriptions.clone();
        Ok(Box::new(move || {
            descriptions.put_in_force(Some(description));
        }))
    }

    fn reset(&self) {
        self.descriptions.put_in_force(None);
    }

    fn first_text(&self) -> Arc<str> {
        "".into()
    }

    async fn text_here(&self, version: Option<u64>) -> Result<Option<Versioned>, PortError> {
        let Some(description) = self.descriptions.now() else {
            return Ok(None);
        };
        if version.is_some_and(|asked| asked != description.version) {
            return Ok(None);
        }
        let text = match description.text.is_empty() {
            true => self.vcs.found().await?.into(),
            false => Arc::clone(&description.text),
        };
        Ok(Some((description.version, text)))
    }

    async fn check_edit(&self, text: &str) -> Result<(), PortError> {
        let what = self.vcs.what_if(text.to_owned()).await?;
        what.map(|_| ()).map_err(PortError::InvalidDocument)
    }

    /// Waits until all leaders that the version names go by it, so that what is asked next finds it. It
    /// holds also where nobody tells so in time.
    async fn edited(&self, version: u64) {
        let wait = async {
            while !self.go_by(version).await {
                sleep(EDITED_PAUSE).await;
            }
        };
        if timeout(EDITED_LIMIT, wait).await.is_err() {
            tracing::warn!(version, "not all leaders go by the new description yet");
        }
    }
}
