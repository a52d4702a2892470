//! How a cluster begins: at a node's first start, with that node alone.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use muster_consensus::{ReplicaHome, ReplicaId};
use muster_control::cluster::{
    self, ClusterEntry, ClusterIdentity, ClusterInit, ClusterState, Founder, GivenName, Lineage,
    Secret, VcCreation,
};
use muster_control::groups::{GENERATION, name};
use muster_gossip::key::{ClusterId, Sign as _};
use muster_gossip::net::keys::Ed25519Signer;
use muster_portal_gateway::port::DEFAULT_VC;
use tokio::sync::watch;

use super::{FEATURE_LEVEL, rack};
use crate::groups::{ClusterGroup, Groups};
use crate::mesh::member::MembershipDependencies;
use crate::mesh::membership::{Files, StoredMembership};
use crate::{accounts, clock, first_admin, keyring};

/// Has a cluster of this node alone born here: its group, with its one copy, and the first entry. An
/// earlier attempt that failed half-way is gone on with.
///
/// # Errors
/// When the files or the log cannot be used.
pub(super) async fn found(
    files: &Files,
    dependencies: &MembershipDependencies,
) -> Result<StoredMembership> {
    let folder = files.own();
    let root = folder.root_key()?;
    let cluster = ClusterId::of_root(&root.key());
    let group = born(cluster, &dependencies.groups).await?;
    if group.read(|state| state.cluster().is_none()).await? {
        let signing = folder.signing_key()?;
        let init = init(files, &root, &signing, dependencies).await?;
        let founded = group.propose(&ClusterEntry::Init(Box::new(init))).await?;
        founded.context("the cluster of this machine cannot begin")?;
    }
    let cluster_map = group.read(ClusterState::cluster_map).await?;
    if let Some(cluster_map) = cluster_map {
        // So that users and virtual clusters are known from the first moment.
        accounts::keep(&folder.cluster_map(), &cluster_map)?;
    }
    let membership = StoredMembership {
        name: String::new(),
        root: root.key(),
        member: ClusterState::FOUNDER,
        open: false,
    };
    folder.write(&membership)?;
    tracing::info!(id = %cluster, "this machine is a cluster of its own");
    Ok(membership)
}

/// The group of a new cluster, with its one copy here.
async fn born(cluster: ClusterId, groups: &Groups) -> Result<ClusterGroup> {
    let home = ReplicaHome {
        node: name::FOUNDER,
        store: groups.store().await?,
    };
    let lineage = Lineage::of_cluster(cluster, None);
    let (_, first) = watch::channel(lineage.clone());
    let group = ClusterGroup::new(groups.clone(), first);
    // Nobody else is there to hear anything.
    let carrier = Arc::new(|_, _| {});
    let founder = (cluster, ClusterState::FOUNDER);
    groups.joined(founder, lineage, carrier).await?;
    groups
        .bear(group.id(), [(ReplicaId(1), home)].into())
        .await?;
    Ok(group)
}

/// The first entry.
async fn init(
    files: &Files,
    root: &Ed25519Signer,
    signing: &Ed25519Signer,
    dependencies: &MembershipDependencies,
) -> Result<ClusterInit> {
    let certificate = ClusterIdentity::certify(signing.key(), root)?;
    let store = dependencies.groups.store().await?;
    let default = VcCreation {
        vc: DEFAULT_VC.parse()?,
        group: name::new_vc(rand::random()).0,
        generation: GENERATION,
        homes: vec![cluster::CopyHome {
            member: ClusterState::FOUNDER,
            store: store.0,
        }],
        before: Vec::new(),
    };
    Ok(ClusterInit {
        name: GivenName::default(),
        root: root.key(),
        signing: signing.key(),
        secret: Secret(signing.seed()),
        certificate: certificate.bytes().to_vec(),
        feature_level: FEATURE_LEVEL,
        founder: Founder {
            key: files.node_key()?.key(),
            name: dependencies.node.identity.node.clone(),
            rack: rack(&dependencies.config.rack)?,
        },
        vcs: vec![default],
        users: first_admin::users(&dependencies.admin_password)?,
        keys: keyring::random()?,
        at_ms: clock::now().as_millis(),
    })
}
