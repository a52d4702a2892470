//! How a cluster begins: with this node, and what it has of its own.

use muster_consensus::{GroupId, Home, ReplicaId};
use muster_control::cluster::{
    self, Birth, Cluster, ClusterState, DESCRIPTION, Entry, Founder, Init, Lineage, Name, Rejected,
    Secret,
};
use muster_control::groups::{Error as Refusal, GENERATION, name};
use muster_gossip::key::{ClusterId, Sign as _};
use muster_model::id::VcName;
use tokio::sync::watch;

use super::{Error, FEATURE_LEVEL, Service, rack};
use crate::affairs::question::{Answer, Question, Rejection};
use crate::clock;
use crate::description::Description;
use crate::groups::ClusterGroup;
use crate::mesh::member::Member;
use crate::mesh::membership::Membership;
use crate::vc::Seat;

/// Who made the first version of a description that the founder had.
const FOUNDING: &str = "muster cluster init";

impl Service {
    /// Makes the founder's own description the cluster's.
    pub(super) async fn describe(&self, founder: &Member, own: &Description) -> Result<(), Error> {
        if own.text.is_empty() {
            return Ok(());
        }
        let question = Question::Edit {
            document: DESCRIPTION.0,
            base: 0,
            text: own.text.to_string(),
            now: true,
            by: FOUNDING.to_owned(),
        };
        match founder.authority().ask(question).await {
            Answer::Version(_) | Answer::Rejected(Rejection::Conflict { .. }) => Ok(()),
            answer => {
                self.surroundings.in_force.descriptions.put_in_force(None);
                tracing::error!(
                    ?answer,
                    "the cluster does not take its founder's description"
                );
                Err(Error::NotNow(
                    "the cluster was founded, but nobody is promised anything in it yet: apply the \
                     description that cluster.file names with `muster vc apply`"
                        .to_owned(),
                ))
            }
        }
    }

    /// Has the cluster's group born here, and commits its first entry. An earlier attempt that
    /// failed half-way is gone on with.
    pub(super) async fn found(&self, cluster_name: Name) -> Result<Membership, Error> {
        let files = &self.files;
        let failed = |error: anyhow::Error| Error::Failed(error);
        let root = files.root_key().map_err(|error| failed(error.into()))?;
        let node = files.node_key().map_err(|error| failed(error.into()))?;
        let signing = files.signing_key().map_err(|error| failed(error.into()))?;
        let certificate = Cluster::certify(signing.key(), &root);
        let certificate = certificate.map_err(|error| failed(error.into()))?;
        let founder = Founder {
            key: node.key(),
            name: self.surroundings.node.identity.node.clone(),
            rack: rack(&self.surroundings.config.rack)?,
        };
        let (users, keys) = self.surroundings.accounts.founding();
        let init = Init {
            name: cluster_name.clone(),
            root: root.key(),
            signing: signing.key(),
            secret: Secret(signing.seed()),
            certificate: certificate.bytes().to_vec(),
            feature_level: FEATURE_LEVEL,
            founder,
            vcs: self.own_vcs().await?,
            users,
            keys,
            at_ms: clock::now().as_millis(),
        };
        let group = self.born(ClusterId::of_root(&root.key())).await;
        let group = group.map_err(|error| failed(error.into()))?;
        let founded = group.propose(&Entry::Init(Box::new(init))).await;
        match founded.map_err(|error| failed(error.into()))? {
            Ok(_) | Err(Rejected::Founded) => {}
            Err(rejected) => return Err(Error::Invalid(rejected.to_string())),
        }
        let look = group.read(|state| {
            let named = state.cluster().map(|cluster| cluster.name.clone());
            (named, state.briefing())
        });
        let (named, briefing) = look.await.map_err(|error| failed(error.into()))?;
        if let Some(briefing) = briefing {
            // So that nobody has to log in again, not even for a moment.
            let kept = self.surroundings.accounts.keep(&briefing);
            kept.map_err(|error| failed(error.into()))?;
        }
        Ok(Membership {
            name: named.unwrap_or(cluster_name).to_string(),
            root: root.key(),
            member: ClusterState::FOUNDER,
        })
    }

    /// The virtual clusters that the founder had for itself become the cluster's, with their jobs.
    async fn own_vcs(&self) -> Result<Vec<Birth>, Error> {
        let store = self.surroundings.groups.store().await;
        let store = store.map_err(|error| Error::Failed(error.into()))?;
        let Seat::Own(vcs) = &*self.surroundings.seat.borrow() else {
            return Err(Error::NotNow("this node is about to join a cluster".into()));
        };
        let home = cluster::Home {
            member: ClusterState::FOUNDER,
            store: store.0,
        };
        let birth = |(vc, group): (&VcName, &GroupId)| Birth {
            vc: vc.clone(),
            group: group.0,
            generation: GENERATION,
            homes: vec![home],
            before: Vec::new(),
        };
        Ok(vcs.iter().map(birth).collect())
    }

    /// The group of a new cluster, with its one copy here.
    async fn born(&self, cluster: ClusterId) -> Result<ClusterGroup, Refusal> {
        let groups = &self.surroundings.groups;
        let home = Home {
            node: name::node(ClusterState::FOUNDER),
            store: groups.store().await?,
        };
        let (_, first) = watch::channel(Lineage::of_cluster(cluster, None));
        let group = ClusterGroup::new(groups.clone(), first);
        groups
            .bear(group.id(), [(ReplicaId(1), home)].into())
            .await?;
        Ok(group)
    }
}
