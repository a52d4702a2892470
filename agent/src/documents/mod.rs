//! The cluster's documents: texts that all members keep, and go by. A kind of document is one file
//! here that implements [`Kind`], and a line in [`ABOUTS`] and in [`Documents::new`].

pub(crate) mod desk;
pub(crate) mod failure_rules;
pub(crate) mod policy;
mod virtual_clusters;

use std::sync::Arc;

use async_trait::async_trait;
use muster_gossip::record::DocumentId;
use muster_portal_gateway::port::Error;

use failure_rules::RulesInForce;
use policy::PolicyInForce;
pub(crate) use virtual_clusters::VirtualClusters;

/// What can be said of a kind without an agent around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct About {
    /// Its number, in the log and on the wire.
    pub(crate) id: DocumentId,
    /// Its name, as users write it.
    pub(crate) name: &'static str,
    /// Whether few members use a version before all do, and none that died of it uses it again: for
    /// what a member evaluates on its own.
    pub(crate) is_staged: bool,
}

/// All kinds.
pub(crate) const ABOUTS: [About; 3] =
    [policy::ABOUT, failure_rules::ABOUT, virtual_clusters::ABOUT];

/// The kind of this number, if this release has it.
pub(crate) fn about(id: DocumentId) -> Option<About> {
    ABOUTS.into_iter().find(|about| about.id == id)
}

/// Puts a version in force that was read.
pub(crate) type PutInForce = Box<dyn FnOnce() + Send>;

/// A text with its version; 0 for the one that holds before anybody has edited it.
pub(crate) type Versioned = (u64, Arc<str>);

/// A kind of document on this node.
#[async_trait]
pub(crate) trait Kind: std::fmt::Debug + Send + Sync {
    /// Its number and name.
    fn about(&self) -> About;

    /// Reads a version. It is in force once the answer was called.
    ///
    /// # Errors
    /// Everything that is wrong, each with its field.
    fn read(&self, text: &str, version: u64) -> Result<PutInForce, Vec<String>>;

    /// Puts in force what holds before anybody has edited it.
    fn reset(&self);

    /// The text that holds before anybody has edited it; empty where that depends on the machines.
    fn first_text(&self) -> Arc<str>;

    /// The text in force here, if it is this version; none asks for any. `Ok(None)`: it is not, or not
    /// known here yet.
    ///
    /// # Errors
    /// When others have to be asked for it, and do not answer.
    async fn text_here(&self, version: Option<u64>) -> Result<Option<Versioned>, Error>;

    /// Whether a text can become the next version, as far as the cluster can tell before it is one.
    ///
    /// # Errors
    /// [`Error::InvalidDocument`] with what is wrong; or when those who know do not answer.
    async fn check_edit(&self, text: &str) -> Result<(), Error> {
        self.read(text, 0).map(drop).map_err(Error::InvalidDocument)
    }

    /// Waits for what follows an edit that was committed as this version.
    async fn edited(&self, _version: u64) {}
}

/// All kinds of documents on this node. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Documents(Arc<[Arc<dyn Kind>]>);

impl Documents {
    /// Where they are in force. Those that others depend on come first.
    pub(crate) fn new(policy: PolicyInForce, rules: RulesInForce, vcs: VirtualClusters) -> Self {
        Self(Arc::new([Arc::new(policy), Arc::new(rules), Arc::new(vcs)]))
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<dyn Kind>> {
        self.0.iter()
    }

    /// The kind of this number, if this release has it.
    pub(crate) fn of(&self, id: DocumentId) -> Option<&Arc<dyn Kind>> {
        self.all().find(|kind| kind.about().id == id)
    }

    /// The kind of this name.
    ///
    /// # Errors
    /// [`Error::NoDocument`].
    pub(crate) fn named(&self, name: &str) -> Result<&Arc<dyn Kind>, Error> {
        let found = self.all().find(|kind| kind.about().name == name);
        found.ok_or_else(|| Error::NoDocument(name.to_owned()))
    }
}

fn lines(problems: &[impl ToString]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
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
