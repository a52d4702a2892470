//! HiveD's YAML, as its text has it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_saphyr::Options;

use super::infer::Inference;
use super::{
    CellType, ClusterSpec, Level, QuotaSpec, Sku, SpecProblem, UnknownLevel, VcSpec, levels,
};
use crate::id::VcName;

/// Longest description that is read, in bytes.
const TEXT_BYTES_MAX: usize = 64 << 20;
/// Most values in it.
const NODES_MAX: usize = 8_000_000;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct RawCluster {
    physical_cluster: RawPhysical,
    virtual_clusters: BTreeMap<String, RawVc>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct RawPhysical {
    cell_types: BTreeMap<String, RawType>,
    sku_types: BTreeMap<String, RawSku>,
    physical_cells: Vec<RawCell>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct RawType {
    child_cell_type: String,
    child_cell_number: i64,
    is_node_level: bool,
    level: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawSku {
    gpu: u32,
    cpu: u32,
    memory: String,
}

/// A physical cell; everything but the top's type may be left out.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct RawCell {
    pub(super) cell_type: String,
    pub(super) cell_address: String,
    pub(super) pinned_cell_id: String,
    pub(super) cell_children: Vec<RawCell>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct RawVc {
    virtual_cells: Vec<RawQuota>,
    pinned_cells: Vec<RawPin>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct RawQuota {
    cell_type: String,
    cell_number: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct RawPin {
    pinned_cell_id: String,
}

pub(super) fn read(text: &str) -> Result<ClusterSpec, Vec<SpecProblem>> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!(
            "has {} bytes; at most {TEXT_BYTES_MAX} are read",
            text.len()
        );
        return Err(vec![SpecProblem::new("", message)]);
    }
    let raw: RawCluster = serde_saphyr::from_str_with_options(text, options())
        .map_err(|error| vec![SpecProblem::new("", describe(&error))])?;
    let mut problems = Vec::new();
    let mut spec = ClusterSpec {
        cell_types: types(&raw.physical_cluster, &mut problems),
        sku_types: skus(&raw.physical_cluster, &mut problems),
        virtual_clusters: vcs(raw.virtual_clusters, &mut problems),
        cells: Vec::new(),
    };
    spec.cells =
        Inference::new(&spec, &mut problems).top_cells(&raw.physical_cluster.physical_cells);
    if problems.is_empty() {
        Ok(spec)
    } else {
        Err(problems)
    }
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 2 * super::LEVELS_MAX + 16,
            max_nodes: NODES_MAX,
            max_events: 4 * NODES_MAX,
            max_documents: 2,
            max_total_scalar_bytes: TEXT_BYTES_MAX,
        },
        with_snippet: false,
    }
}

fn describe(error: &serde_saphyr::Error) -> String {
    error.render_with_formatter(&serde_saphyr::UserMessageFormatter)
}

fn types(raw: &RawPhysical, problems: &mut Vec<SpecProblem>) -> BTreeMap<String, CellType> {
    let mut types = BTreeMap::new();
    for (name, kind) in &raw.cell_types {
        let path = format!("physicalCluster.cellTypes.{name}");
        if kind.child_cell_type.is_empty() {
            problems.push(SpecProblem::new(
                format!("{path}.childCellType"),
                "name the type of the children",
            ));
        }
        let count = u32::try_from(kind.child_cell_number).unwrap_or(0);
        if count == 0 {
            let message = format!("is {}; write a number from 1 up", kind.child_cell_number);
            problems.push(SpecProblem::new(format!("{path}.childCellNumber"), message));
        }
        let kind = CellType {
            child: kind.child_cell_type.clone(),
            count: count.max(1),
            node_level: kind.is_node_level,
            level: level(&kind.level, &path, problems),
            uneven: Vec::new(),
        };
        types.insert(name.clone(), kind);
    }
    levels::check(&types, problems);
    levels::infer(&mut types);
    types
}

fn level(text: &str, path: &str, problems: &mut Vec<SpecProblem>) -> Option<Level> {
    if text.is_empty() {
        return None;
    }
    let level = text.parse();
    level
        .map_err(|error: UnknownLevel| {
            problems.push(SpecProblem::new(format!("{path}.level"), error.to_string()));
        })
        .ok()
}

fn skus(raw: &RawPhysical, problems: &mut Vec<SpecProblem>) -> BTreeMap<String, Sku> {
    let mut skus = BTreeMap::new();
    for (name, sku) in &raw.sku_types {
        let memory_mb = memory_mb(&sku.memory).unwrap_or_else(|| {
            let path = format!("physicalCluster.skuTypes.{name}.memory");
            let message = format!(
                "{:?} is no amount of memory; write 10240Mi or 10Gi",
                sku.memory
            );
            problems.push(SpecProblem::new(path, message));
            0
        });
        let sku = Sku {
            gpu: sku.gpu,
            cpu: sku.cpu,
            memory_mb,
        };
        skus.insert(name.clone(), sku);
    }
    skus
}

/// Kubernetes' way to write memory, in MiB. Nothing written is nothing.
fn memory_mb(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = if text.is_empty() {
        0
    } else {
        digits.parse().ok()?
    };
    let (times, over) = match &text[digits.len()..] {
        "" | "B" => (1, 1 << 20),
        "K" | "k" => (1_000, 1 << 20),
        "M" | "MB" => (1_000_000, 1 << 20),
        "G" | "GB" => (1_000_000_000, 1 << 20),
        "T" | "TB" => (1_000_000_000_000, 1 << 20),
        "Ki" => (1, 1 << 10),
        "Mi" => (1, 1),
        "Gi" => (1 << 10, 1),
        "Ti" => (1 << 20, 1),
        _ => return None,
    };
    Some(number.checked_mul(times)? / over)
}

fn vcs(raw: BTreeMap<String, RawVc>, problems: &mut Vec<SpecProblem>) -> BTreeMap<VcName, VcSpec> {
    let mut vcs = BTreeMap::new();
    for (name, vc) in raw {
        let path = format!("virtualClusters.{name}");
        match name.parse::<VcName>() {
            Ok(parsed) => {
                vcs.insert(parsed, virtual_cluster(&vc, &path, problems));
            }
            Err(error) => problems.push(SpecProblem::new(path, error.to_string())),
        }
    }
    vcs
}

fn virtual_cluster(vc: &RawVc, path: &str, problems: &mut Vec<SpecProblem>) -> VcSpec {
    let mut spec = VcSpec::default();
    for (at, quota) in vc.virtual_cells.iter().enumerate() {
        let path = format!("{path}.virtualCells[{at}]");
        let Ok(count) = u32::try_from(quota.cell_number) else {
            let message = format!("is {}; write a number from 0 up", quota.cell_number);
            problems.push(SpecProblem::new(format!("{path}.cellNumber"), message));
            continue;
        };
        if quota.cell_type.is_empty() {
            let message = "write the types from the chain's top down, with dots between them";
            problems.push(SpecProblem::new(format!("{path}.cellType"), message));
            continue;
        }
        let types = quota.cell_type.split('.').map(str::to_owned).collect();
        spec.quota.push(QuotaSpec { path: types, count });
    }
    spec.pinned = vc
        .pinned_cells
        .iter()
        .map(|pin| pin.pinned_cell_id.clone())
        .collect();
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_not_known_is_named_with_those_that_are() {
        for (text, key, known) in [
            ("virtualCluster: {}", "virtualCluster", "virtualClusters"),
            ("physicalCluster: {cellType: {}}", "cellType", "cellTypes"),
            (
                "virtualClusters: {v: {virtualCells: [{cellTyp: A, cellNumber: 1}]}}",
                "cellTyp",
                "cellType",
            ),
            ("virtualClusters: {v: {cells: []}}", "cells", "pinnedCells"),
            (
                "physicalCluster: {skuTypes: {A: {gpus: 1}}}",
                "gpus",
                "memory",
            ),
        ] {
            let problems = read(text).unwrap_err();
            let told = problems[0].to_string();
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(told.contains(&format!("`{key}`")), "{told}");
            assert!(told.contains(known), "{told}");
        }
    }
}
