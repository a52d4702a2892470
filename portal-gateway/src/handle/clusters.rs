//! Virtual clusters, and what else there is to choose from before submitting.

use std::collections::BTreeMap;

use muster_model::alarm::AlarmsAfter;
use muster_model::vc::VcView;

use crate::call::Call;
use crate::clock;
use crate::error::ApiError;
use crate::port::{Membership, Nodes};
use crate::reply::{HandlerResult, HttpReply};
use crate::wire::alert::WireAlert;
use crate::wire::cluster::{NodeGpus, WireSku, WireVc};

/// `GET /virtual-clusters`, with `?nodes` the GPUs of every node instead
pub(crate) async fn list(call: Call, nodes: &dyn Nodes) -> HandlerResult {
    if call.query.has("nodes") {
        return gpus(nodes).await;
    }
    let vcs = nodes.virtual_clusters().await?;
    let all: BTreeMap<&str, WireVc> = vcs
        .iter()
        .map(|vc| (vc.name.as_str(), WireVc::of(vc, &vcs)))
        .collect();
    let ages = vcs.iter().filter_map(|vc| vc.age.as_ref());
    Ok(HttpReply::json(&all)?.aged(ages).tagged())
}

async fn gpus(nodes: &dyn Nodes) -> HandlerResult {
    let nodes = nodes.list().await?;
    let gpus: BTreeMap<&str, NodeGpus> = nodes
        .iter()
        .map(|node| (node.id.as_str(), NodeGpus::of(node)))
        .collect();
    Ok(HttpReply::json(&gpus)?.tagged())
}

/// `GET /virtual-clusters/:vc`
pub(crate) async fn one(call: Call, nodes: &dyn Nodes) -> HandlerResult {
    let name = call.params.text("vc");
    let allowed = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !allowed {
        let rule = "VC name should only contain alpha-numeric and underscore characters";
        return Err(ApiError::Parameters(rule.to_owned()));
    }
    let vcs = nodes.virtual_clusters().await?;
    match find(&vcs, name) {
        Some(vc) => Ok(HttpReply::json(&WireVc::of(vc, &vcs))?
            .aged(&vc.age)
            .tagged()),
        None => Err(ApiError::NoVc(name.to_owned())),
    }
}

fn find<'v>(vcs: &'v [VcView], name: &str) -> Option<&'v VcView> {
    vcs.iter().find(|vc| vc.name.as_str() == name)
}

/// `GET /cluster/sku-types?vc=`: what one cell of a type brings along. None where the cluster is
/// as it was found: jobs name what they need in plain numbers then.
pub(crate) async fn skus(call: Call, nodes: &dyn Nodes) -> HandlerResult {
    reply_skus(call.query.text("vc"), nodes).await
}

/// `GET /virtual-clusters/:vc/sku-types`: the same, where OpenPAI's SDK asks for it.
pub(crate) async fn skus_of_one(call: Call, nodes: &dyn Nodes) -> HandlerResult {
    reply_skus(Some(call.params.text("vc")), nodes).await
}

async fn reply_skus(name: Option<&str>, nodes: &dyn Nodes) -> HandlerResult {
    let mut vcs = nodes.virtual_clusters().await?;
    if let Some(name) = name {
        find(&vcs, name).ok_or_else(|| ApiError::NoSkus(name.to_owned()))?;
        vcs.retain(|vc| vc.name.as_str() == name);
    }
    let all = vcs.iter().flat_map(|vc| &vc.skus);
    let all: BTreeMap<&str, WireSku> = all
        .map(|(name, sku)| (&**name, WireSku::of(*sku)))
        .collect();
    HttpReply::json(&all)
}

/// `GET /alerts`: the alarms that stand. Like upstream, others than admins see those of their own jobs, and
/// no alarm is about a job.
pub(crate) async fn alerts(call: Call, membership: &dyn Membership) -> HandlerResult {
    let mut standing = membership.alarms(&AlarmsAfter::default()).await?.standing;
    if !call.caller()?.admin {
        standing.clear();
    }
    let now_ms = clock::now_s().saturating_mul(1000);
    let alerts: Vec<WireAlert> = standing
        .iter()
        .map(|alarm| WireAlert::of(alarm, now_ms))
        .collect();
    HttpReply::json(&alerts)
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use schemars::JsonSchema;

    use super::{ApiError, BTreeMap, NodeGpus, WireAlert, WireSku, WireVc};
    use crate::openapi::{RouteDoc, any};

    /// Virtual clusters by name, or with `nodes` in the query the GPUs of each node.
    #[derive(JsonSchema)]
    #[schemars(untagged)]
    #[expect(dead_code, reason = "one of the two is written as it is")]
    enum VcsOrNodes {
        Vcs(BTreeMap<String, WireVc>),
        Nodes(BTreeMap<String, NodeGpus>),
    }

    pub(crate) fn list() -> RouteDoc {
        RouteDoc::new("Lists the virtual clusters, with what they have and use.")
            .query::<String>(
                "nodes",
                "If it is there, with or without a value: the GPUs of every node instead.",
            )
            .json::<VcsOrNodes>()
            .tagged()
    }

    pub(crate) fn one() -> RouteDoc {
        RouteDoc::new("Shows one virtual cluster.")
            .json::<WireVc>()
            .tagged()
            .checks_parameters()
            .fails([ApiError::NoVc(any())])
    }

    pub(crate) fn skus() -> RouteDoc {
        RouteDoc::new("Lists the types of cells, with what one of each brings along.")
            .query::<String>("vc", "Only those of this virtual cluster.")
            .json::<BTreeMap<String, WireSku>>()
            .fails([ApiError::NoSkus(any())])
    }

    pub(crate) fn skus_of_one() -> RouteDoc {
        RouteDoc::new("Lists the types of cells of a virtual cluster, likewise.")
            .json::<BTreeMap<String, WireSku>>()
            .fails([ApiError::NoSkus(any())])
    }

    pub(crate) fn alerts() -> RouteDoc {
        RouteDoc::new("Lists the alarms that stand, in the shape of alertmanager's API.")
            .json::<Vec<WireAlert>>()
    }
}
