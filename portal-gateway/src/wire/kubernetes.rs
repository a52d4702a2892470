//! Members as Kubernetes shows nodes and pods: as much as clients of OpenPAI read of them.

use std::collections::BTreeMap;

use muster_model::known_node::{Has, KnownNode};
use muster_model::mesh::{Leadership, MemberReach, MemberView, Scheduling};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// Where upstream ran its services.
pub(crate) const NAMESPACE: &str = "default";

/// What an object is called, and where it belongs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ObjectMetadata {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'static str>,
    uid: String,
    pub(crate) labels: BTreeMap<&'static str, String>,
}

/// A node or a pod.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KubernetesObject {
    pub(crate) metadata: ObjectMetadata,
    #[schemars(with = "serde_json::Map<String, Value>")]
    spec: Value,
    #[schemars(with = "serde_json::Map<String, Value>")]
    status: Value,
}

/// A list of them.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KubernetesList {
    kind: &'static str,
    api_version: &'static str,
    metadata: BTreeMap<String, String>,
    items: Vec<KubernetesObject>,
}

impl KubernetesList {
    pub(crate) const fn of(kind: &'static str, items: Vec<KubernetesObject>) -> Self {
        Self {
            kind,
            api_version: "v1",
            metadata: BTreeMap::new(),
            items,
        }
    }
}

impl KubernetesObject {
    /// A member as a node, with what it has if that is known.
    pub(crate) fn node(member: &MemberView, known: Option<&KnownNode>, lead: &Leadership) -> Self {
        let is_closed = member
            .scheduling
            .as_ref()
            .is_some_and(|word| word.scheduling != Scheduling::Open);
        let amounts = known
            .and_then(|node| node.has.as_ref())
            .map(NodeAmounts::of);
        let mut status = json!({
            "addresses": [
                {"type": "InternalIP", "address": address(member)},
                {"type": "Hostname", "address": member.name},
            ],
            "conditions": [ready(member)],
            "nodeInfo": {"kubeletVersion": format!("muster-{}", member.agent_version)},
        });
        if let Some(NodeAmounts {
            capacity,
            allocatable,
        }) = amounts
        {
            status["capacity"] = json!(capacity);
            status["allocatable"] = json!(allocatable);
        }
        let mut labels = BTreeMap::from([("kubernetes.io/hostname", member.name.clone())]);
        let yes = || "true".to_owned();
        if member.votes {
            labels.insert("muster-voter", yes());
        }
        if lead.leader.as_ref() == Some(&member.name) {
            labels.insert("muster-leader", yes());
        }
        if !member.rack.is_empty() {
            labels.insert("rack", member.rack.clone());
        }
        Self {
            metadata: ObjectMetadata {
                name: member.name.clone(),
                namespace: None,
                uid: member.key.clone(),
                labels,
            },
            spec: json!({ "unschedulable": is_closed }),
            status,
        }
    }

    /// The agent of a member as a pod.
    pub(crate) fn agent(member: &MemberView) -> Self {
        let phase = match member.reach {
            MemberReach::Unreachable => "Unknown",
            MemberReach::Alive | MemberReach::Suspect => "Running",
        };
        let labels = BTreeMap::from([("app", "muster".to_owned())]);
        Self {
            metadata: ObjectMetadata {
                name: format!("muster-{}", member.name),
                namespace: Some(NAMESPACE),
                uid: format!("{}-{}", member.key, member.incarnation),
                labels,
            },
            spec: json!({"nodeName": member.name}),
            status: json!({
                "phase": phase, "hostIP": address(member), "podIP": address(member),
                "conditions": [ready(member)],
            }),
        }
    }
}

/// The first that it says of itself.
fn address(member: &MemberView) -> String {
    let first = member.addresses.first();
    first.map_or_else(String::new, |address| address.ip().to_string())
}

/// The one condition that clients look at.
fn ready(member: &MemberView) -> Value {
    let status = match (member.reach, member.problems.is_empty()) {
        (MemberReach::Unreachable, _) => "Unknown",
        (_, false) => "False",
        (_, true) => "True",
    };
    let why = member.why.iter().chain(&member.problems).cloned();
    json!({
        "type": "Ready", "status": status, "reason": member.word(),
        "message": why.collect::<Vec<_>>().join(" "),
    })
}

/// What a node has, by Kubernetes' names and units.
struct NodeAmounts {
    capacity: BTreeMap<&'static str, String>,
    /// Without faulty devices.
    allocatable: BTreeMap<&'static str, String>,
}

impl NodeAmounts {
    fn of(has: &Has) -> Self {
        let named = |amount: muster_model::vc::Amount| {
            BTreeMap::from([
                ("cpu", amount.cpu.to_string()),
                ("memory", format!("{}Mi", amount.memory_mb)),
                ("nvidia.com/gpu", amount.gpu.to_string()),
            ])
        };
        Self {
            capacity: named(has.share.total),
            allocatable: named(has.share.healthy),
        }
    }
}
