//! How the cluster is described: which virtual clusters there are, and what each is promised.
//!
//! A member goes by the cluster's document, and by nothing before it has the version that the
//! cluster map names: a leader with an older one would take from some what they were promised.

use std::sync::Arc;

use muster_control::answers::cluster::named_vcs;
use muster_model::cluster_spec::{ClusterSpec, SpecProblem};
use muster_model::id::VcName;
use muster_placement::description;
use tokio::sync::watch;

use crate::accounts::{AccountSource, Accounts};
use crate::groups::Groups;

/// A description, read and checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Description {
    /// What it says. Without machines: those that are found; without virtual clusters: all for one.
    pub(crate) spec: ClusterSpec,
    /// What it was read from; empty if nobody described the cluster.
    pub(crate) text: Arc<str>,
    /// The document's version; 0 for what is no document.
    pub(crate) version: u64,
}

impl Description {
    /// Reads a description, and sees whether cells can be made of it.
    ///
    /// # Errors
    /// Everything that is wrong, each with the path of the field.
    pub(crate) fn read(text: &str, version: u64) -> Result<Self, Vec<SpecProblem>> {
        Ok(Self {
            spec: description::read(text)?,
            text: text.into(),
            version,
        })
    }

    /// The virtual clusters that there are.
    ///
    /// # Errors
    /// See [`named_vcs`].
    pub(crate) fn vcs(&self) -> Result<Vec<VcName>, muster_model::id::InvalidName> {
        named_vcs(&self.spec)
    }
}

/// What the cluster has told of its description.
#[derive(Clone, Copy, Debug)]
enum ToldDescription {
    /// Nothing yet.
    Nothing,
    /// This version is in force; 0: nobody described it.
    Version(u64),
}

impl ToldDescription {
    fn of(source: &AccountSource) -> Self {
        match source {
            AccountSource::Waiting(_) => Self::Nothing,
            AccountSource::ClusterMap(cluster_map, _) => Self::Version(cluster_map.description),
        }
    }
}

/// The descriptions that this node knows, and the one that holds. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Descriptions(Arc<DescriptionInner>);

#[derive(Debug, Default)]
struct DescriptionInner {
    /// The cluster's newest that is in force here.
    document: watch::Sender<Option<Arc<Description>>>,
    /// The one that holds, once it is known.
    now: watch::Sender<Option<Arc<Description>>>,
}

impl Descriptions {
    /// The one that holds, once it is known.
    pub(crate) fn now(&self) -> Option<Arc<Description>> {
        self.0.now.borrow().clone()
    }

    /// Every virtual cluster, as far as this node has heard.
    pub(crate) fn vcs(&self) -> Vec<VcName> {
        let vcs = self.now().and_then(|description| description.vcs().ok());
        vcs.unwrap_or_default()
    }

    /// Puts a version of the cluster's document in force here; none: nobody described the cluster, as
    /// far as is known here.
    pub(crate) fn put_in_force(&self, document: Option<Description>) {
        self.0.document.send_replace(document.map(Arc::new));
    }

    /// The one that holds, once it is known.
    fn holding(&self, told: ToldDescription) -> Option<Arc<Description>> {
        let version = match told {
            ToldDescription::Nothing => return None,
            ToldDescription::Version(version) => version,
        };
        let document = self.0.document.borrow().clone();
        let newest = document.filter(|document| document.version >= version);
        newest.or_else(|| (version == 0).then(Arc::default))
    }

    /// Tells the groups' loop which one holds, as long as the agent runs.
    pub(crate) async fn follow(self, accounts: Accounts, groups: Groups) {
        let (mut told, mut documents) = (accounts.watch(), self.0.document.subscribe());
        loop {
            let said = ToldDescription::of(&told.borrow_and_update());
            documents.mark_unchanged();
            let holding = self.holding(said);
            let known = holding.as_deref();
            let known = known.map(|it| (it.version, Arc::new(it.spec.clone())));
            if groups.described(known).await.is_err() {
                return;
            }
            // Last: who sees it here can be sure that the loop hears it before any later question.
            self.0.now.send_replace(holding);
            let changed = tokio::select! {
                changed = told.changed() => changed,
                changed = documents.changed() => changed,
            };
            if changed.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "virtualClusters:
  a: {virtualCells: [{cellType: CPU-NODE, cellNumber: 1}]}
  b: {virtualCells: [{cellType: CPU-NODE, cellNumber: 1}]}
";

    #[test]
    fn a_description_names_the_virtual_clusters() {
        let names = |description: &Description| {
            let vcs = description.vcs().unwrap();
            vcs.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names(&Description::default()), ["default"]);
        assert_eq!(names(&Description::read(TWO, 3).unwrap()), ["a", "b"]);
    }

    #[test]
    fn nothing_holds_that_is_older_than_what_the_cluster_told() {
        let known = Descriptions::default();
        let version = |told| known.holding(told).map(|description| description.version);
        assert_eq!(version(ToldDescription::Nothing), None);
        assert_eq!(
            known.holding(ToldDescription::Version(0)).as_deref(),
            Some(&Description::default())
        );
        known.put_in_force(Some(Description::read(TWO, 2).unwrap()));
        for (told, expect) in [(0, Some(2)), (1, Some(2)), (2, Some(2)), (3, None)] {
            assert_eq!(version(ToldDescription::Version(told)), expect, "{told}");
        }
        known.put_in_force(None);
        assert_eq!(version(ToldDescription::Version(2)), None);
    }
}
