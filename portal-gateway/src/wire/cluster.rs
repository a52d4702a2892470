//! Virtual clusters and what nodes have.

use muster_model::known_node::{KnownNode, Share};
use muster_model::vc::{Amount, VcView};
use schemars::JsonSchema;
use serde::Serialize;

/// Clients compute with every field, so each is there twice, under its old and new name.
#[derive(Debug, Serialize, JsonSchema)]
struct WireResources {
    cpu: u32,
    memory: u64,
    gpu: u32,
    #[serde(rename = "vCores")]
    v_cores: u32,
    #[serde(rename = "GPUs")]
    gpus: u32,
}

impl WireResources {
    fn of(amount: Amount) -> Self {
        Self {
            cpu: amount.cpu,
            memory: amount.memory_mb,
            gpu: amount.gpu,
            v_cores: amount.cpu,
            gpus: amount.gpu,
        }
    }
}

/// What one cell of a type brings along.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WireSku {
    cpu: u32,
    memory: u64,
    gpu: u32,
}

impl WireSku {
    pub(crate) const fn of(amount: Amount) -> Self {
        Self {
            cpu: amount.cpu,
            memory: amount.memory_mb,
            gpu: amount.gpu,
        }
    }
}

/// A virtual cluster. The capacities are percentages of the cluster's GPUs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireVc {
    capacity: f64,
    used_capacity: f64,
    max_capacity: f64,
    dedicated: bool,
    resources_used: WireResources,
    resources_guaranteed: WireResources,
    resources_total: WireResources,
}

impl WireVc {
    /// One of `all` virtual clusters.
    pub(crate) fn of(vc: &VcView, all: &[VcView]) -> Self {
        let gpus: u32 = all.iter().map(|vc| vc.total.gpu).sum();
        let capacity = percent(vc.total.gpu, gpus);
        Self {
            capacity,
            used_capacity: percent(vc.used.gpu, gpus),
            max_capacity: capacity,
            dedicated: false,
            resources_used: WireResources::of(vc.used),
            resources_guaranteed: WireResources::of(vc.guaranteed),
            resources_total: WireResources::of(vc.total),
        }
    }
}

fn percent(part: u32, whole: u32) -> f64 {
    match whole {
        0 => 0.0,
        whole => f64::from(part) * 100.0 / f64::from(whole),
    }
}

/// A node's GPUs. Faulty ones are neither used nor available, nor are free ones available where no new
/// tasks are placed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeGpus {
    gpu_used: u32,
    gpu_available: u32,
    gpu_total: u32,
    /// Why none is available, also where it is not known how many there are. Not a field of OpenPAI's.
    #[serde(skip_serializing_if = "String::is_empty")]
    problem: String,
}

impl NodeGpus {
    pub(crate) fn of(node: &KnownNode) -> Self {
        let share = node
            .has
            .as_ref()
            .map_or_else(Share::default, |has| has.share);
        Self {
            gpu_used: share.used().gpu,
            gpu_available: node.available().gpu,
            gpu_total: share.total.gpu,
            problem: node.closed.join("; "),
        }
    }
}
