//! Virtual clusters, and what else there is to choose from before submitting.

use std::collections::BTreeMap;

use muster_model::vc::VcView;
use serde_json::json;

use crate::call::Call;
use crate::error::Error;
use crate::port::Nodes;
use crate::reply::{Answer, Reply};
use crate::wire::cluster::{NodeGpus, Sku, Vc};

/// `GET /virtual-clusters`, with `?nodes` the GPUs of every node instead
pub(crate) async fn list(call: Call, nodes: &dyn Nodes) -> Answer {
    if call.query.has("nodes") {
        return gpus(nodes).await;
    }
    let vcs = nodes.virtual_clusters().await?;
    let all: BTreeMap<&str, Vc> = vcs
        .iter()
        .map(|vc| (vc.name.as_str(), Vc::of(vc, &vcs)))
        .collect();
    let ages = vcs.iter().filter_map(|vc| vc.age.as_ref());
    Ok(Reply::json(&all)?.aged(ages))
}

async fn gpus(nodes: &dyn Nodes) -> Answer {
    let nodes = nodes.list().await?;
    let gpus: BTreeMap<&str, NodeGpus> = nodes
        .iter()
        .map(|node| (node.id.as_str(), NodeGpus::of(node)))
        .collect();
    Reply::json(&gpus)
}

/// `GET /virtual-clusters/:vc`
pub(crate) async fn one(call: Call, nodes: &dyn Nodes) -> Answer {
    let name = call.params.text("vc");
    let allowed = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !allowed {
        let rule = "VC name should only contain alpha-numeric and underscore characters";
        return Err(Error::Parameters(rule.to_owned()));
    }
    let vcs = nodes.virtual_clusters().await?;
    match find(&vcs, name) {
        Some(vc) => Ok(Reply::json(&Vc::of(vc, &vcs))?.aged(&vc.age)),
        None => Err(Error::NoVc(name.to_owned())),
    }
}

fn find<'v>(vcs: &'v [VcView], name: &str) -> Option<&'v VcView> {
    vcs.iter().find(|vc| vc.name.as_str() == name)
}

/// `GET /cluster/sku-types?vc=`: what one cell of a type brings along. None where the cluster is
/// as it was found: jobs name what they need in plain numbers then.
pub(crate) async fn skus(call: Call, nodes: &dyn Nodes) -> Answer {
    let mut vcs = nodes.virtual_clusters().await?;
    if let Some(name) = call.query.text("vc") {
        find(&vcs, name).ok_or_else(|| Error::NoSkus(name.to_owned()))?;
        vcs.retain(|vc| vc.name.as_str() == name);
    }
    let all = vcs.iter().flat_map(|vc| &vc.skus);
    let all: BTreeMap<&str, Sku> = all.map(|(name, sku)| (&**name, Sku::of(*sku))).collect();
    Reply::json(&all)
}

/// `GET /storages`: none yet
pub(crate) async fn storages(_: Call) -> Answer {
    Reply::json(&json!({"storages": []}))
}

/// `GET /storages/:storage`
pub(crate) async fn storage(call: Call) -> Answer {
    Err(Error::NoStorage(call.params.text("storage").to_owned()))
}

/// `GET /alerts`: none yet
pub(crate) async fn alerts(_: Call) -> Answer {
    Reply::json(&json!([]))
}
