//! The storages that the cluster declares.

use std::sync::Arc;

use muster_gossip::record::DocumentId;
use muster_model::cluster_spec::SpecProblem;
use muster_model::storage::{ClusterStorages, STORAGES_DOCUMENT};

use super::in_force::{InForce, PlainDocument};
use super::kind::About;

/// No version can make an agent fail, and each node answers for all: it is in force on all at once.
pub(super) const ABOUT: About = About {
    id: DocumentId(4),
    name: STORAGES_DOCUMENT,
    is_staged: false,
};

/// The storages that this node knows. Cheap to clone.
pub(crate) type StoragesInForce = InForce<Arc<ClusterStorages>>;

impl PlainDocument for Arc<ClusterStorages> {
    const ABOUT: About = ABOUT;

    fn read(text: &str) -> Result<Self, Vec<SpecProblem>> {
        ClusterStorages::read(text).map(Self::new)
    }

    fn default_text() -> &'static str {
        ClusterStorages::default_text()
    }
}

impl StoragesInForce {
    /// The storages now.
    pub(crate) fn now(&self) -> Arc<ClusterStorages> {
        Arc::clone(&self.here().value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::kind::DocumentKind as _;
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
