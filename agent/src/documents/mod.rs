//! The cluster's documents: texts that all members keep, and go by. A kind of document is one file
//! here that implements [`DocumentKind`], and a line in [`ABOUTS`] and in [`DocumentKinds::new`].

pub(crate) mod checker;
pub(crate) mod failure_rules;
mod in_force;
mod kind;
pub(crate) mod policy;
pub(crate) mod storages;
mod virtual_clusters;

use std::sync::Arc;

use muster_gossip::record::DocumentId;
use muster_portal_gateway::port::PortError;

use failure_rules::RulesInForce;
pub(crate) use kind::{About, DocumentKind, PutInForce};
use policy::PolicyInForce;
use storages::StoragesInForce;
pub(crate) use virtual_clusters::VirtualClusters;

/// All kinds.
pub(crate) const ABOUTS: [About; 4] = [
    policy::ABOUT,
    failure_rules::ABOUT,
    virtual_clusters::ABOUT,
    storages::ABOUT,
];

/// The kind of this number, if this release has it.
pub(crate) fn about(id: DocumentId) -> Option<About> {
    ABOUTS.into_iter().find(|about| about.id == id)
}

/// All kinds of documents on this node. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct DocumentKinds(Arc<[Arc<dyn DocumentKind>]>);

impl DocumentKinds {
    /// Where they are in force. Those that others depend on come first.
    pub(crate) fn new(
        policy: PolicyInForce,
        rules: RulesInForce,
        vcs: VirtualClusters,
        storages: StoragesInForce,
    ) -> Self {
        Self(Arc::new([
            Arc::new(policy),
            Arc::new(rules),
            Arc::new(vcs),
            Arc::new(storages),
        ]))
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<dyn DocumentKind>> {
        self.0.iter()
    }

    /// The kind of this number, if this release has it.
    pub(crate) fn of(&self, id: DocumentId) -> Option<&Arc<dyn DocumentKind>> {
        self.all().find(|kind| kind.about().id == id)
    }

    /// The kind of this name.
    ///
    /// # Errors
    /// [`PortError::NoDocument`].
    pub(crate) fn named(&self, name: &str) -> Result<&Arc<dyn DocumentKind>, PortError> {
        let found = self.all().find(|kind| kind.about().name == name);
        found.ok_or_else(|| PortError::NoDocument(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_kind_has_a_number_and_a_name_of_its_own() {
        let numbers: BTreeSet<_> = ABOUTS.map(|about| about.id).into();
        let names: BTreeSet<_> = ABOUTS.map(|about| about.name).into();
        assert_eq!((numbers.len(), names.len()), (ABOUTS.len(), ABOUTS.len()));
        for kind in ABOUTS {
            assert_eq!(about(kind.id), Some(kind));
        }
    }
}
