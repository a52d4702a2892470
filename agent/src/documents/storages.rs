//! The storages that the cluster declares.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use muster_gossip::record::DocumentId;
use muster_model::storage::{ClusterStorages, STORAGES_DOCUMENT};
use muster_portal_gateway::port::PortError;
use tokio::sync::watch;
use tokio::time::timeout;

use super::kind::{About, DocumentKind, PutInForce, Versioned, lines};

/// No version can make an agent fail, and each node answers for all: it is in force on all at once.
pub(super) const ABOUT: About = About {
    id: DocumentId(4),
    name: STORAGES_DOCUMENT,
    is_staged: false,
};

/// How long the answer to an edit waits until this node goes by it.
const EDITED_LIMIT: Duration = Duration::from_secs(5);

/// Storages with their text.
#[derive(Debug)]
struct StoragesVersion {
    storages: Arc<ClusterStorages>,
    text: Arc<str>,
    /// The document's version; 0 for none at all.
    version: u64,
}

impl StoragesVersion {
    fn first() -> Self {
        Self {
            storages: Arc::default(),
            text: ClusterStorages::default_text().into(),
            version: 0,
        }
    }
}

/// The storages that this node knows. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct StoragesInForce(Arc<watch::Sender<Arc<StoragesVersion>>>);

impl Default for StoragesInForce {
    fn default() -> Self {
        let first = Arc::new(StoragesVersion::first());
        Self(Arc::new(watch::Sender::new(first)))
    }
}

impl StoragesInForce {
    /// The storages now.
    pub(crate) fn now(&self) -> Arc<ClusterStorages> {
        Arc::clone(&self.0.borrow().storages)
    }
}

#[async_trait]
impl DocumentKind for StoragesInForce {
    fn about(&self) -> About {
        ABOUT
    }

    fn read(&self, text: &str, version: u64) -> Result<PutInForce, Vec<String>> {
        let storages = ClusterStorages::read(text).map_err(|problems| lines(&problems))?;
        let version = Arc::new(StoragesVersion {
            storages: Arc::new(storages),
            text: text.into(),
            version,
        });
        let now = Arc::clone(&self.0);
        Ok(Box::new(move || drop(now.send_replace(version))))
    }

    fn reset(&self) {
        self.0.send_replace(Arc::new(StoragesVersion::first()));
    }

    fn first_text(&self) -> Arc<str> {
        ClusterStorages::default_text().into()
    }

    async fn text_here(&self, version: Option<u64>) -> Result<Option<Versioned>, PortError> {
        let here = self.0.borrow();
        let is_asked = version.is_none_or(|asked| asked == here.version);
        Ok(is_asked.then(|| (here.version, Arc::clone(&here.text))))
    }

    /// Waits until this node goes by it, so that what is asked here next finds it.
    async fn edited(&self, version: u64) {
        let mut versions = self.0.subscribe();
        let here = versions.wait_for(|here| here.version >= version);
        if timeout(EDITED_LIMIT, here).await.is_err() {
            tracing::warn!(version, "this node does not know the new storages yet");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_version_is_in_force_once_it_was_put_so() {
        let storages = StoragesInForce::default();
        assert!(storages.now().storages.is_empty());
        assert!(storages.read("storages: 1", 1).is_err());
        let text = "storages: [{name: a, type: other}]";
        let put_in_force = storages.read(text, 3).unwrap();
        assert!(storages.now().find("a").is_none());
        put_in_force();
        assert!(storages.now().find("a").is_some());
        storages.edited(3).await;
        let here = storages.text_here(None).await.unwrap();
        assert_eq!(here, Some((3, text.into())));
        assert_eq!(storages.text_here(Some(2)).await.unwrap(), None);
        storages.reset();
        assert!(storages.now().storages.is_empty());
    }
}
