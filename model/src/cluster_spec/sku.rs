//! How many cells a task takes.

use crate::job::Resources;

use super::{ClusterSpec, PLAIN_LEAF, PLAIN_NODE};
use crate::id::VcName;

/// The share of a machine that goes with one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sku {
    /// Devices, 0 for a share of plain CPU.
    pub gpu: u32,
    /// Cores.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory_mb: u64,
}

/// A task asks for something that a type of cells has nothing of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it asks for {field}: {asked}, but cells of this type bring none along; ask for 0 or choose \
     another skuType"
)]
pub struct Unserved {
    /// The field of `resourcePerInstance`.
    pub field: &'static str,
    /// How much it asks for.
    pub asked: u64,
}

impl ClusterSpec {
    /// How many leaf cells of a type one task takes, at least 1: so many that they bring along
    /// what it asks for of each, as OpenPAI counts; its devices where no share is stated.
    ///
    /// # Errors
    /// If cells of the type have nothing of what it asks for, however many it took.
    pub fn leaves_for(&self, leaf_type: &str, resources: &Resources) -> Result<u32, Unserved> {
        match self.sku_types.get(leaf_type) {
            Some(sku) => sku.leaves_for(resources),
            None if leaf_type == PLAIN_LEAF && resources.gpu > 0 => Err(Unserved {
                field: "gpu",
                asked: resources.gpu.into(),
            }),
            None => Ok(resources.gpu.max(1)),
        }
    }
}

impl ClusterSpec {
    /// Whether leaf cells of a type are shares of machines without a device.
    pub fn is_plain(&self, leaf_type: &str) -> bool {
        let sku = self.sku_types.get(leaf_type);
        leaf_type == PLAIN_LEAF || sku.is_some_and(|sku| sku.gpu == 0)
    }

    /// The virtual clusters that are promised cells, and none without a device among them: their tasks that ask for
    /// no device take some all the same.
    pub fn without_plain_cells(&self) -> impl Iterator<Item = &VcName> {
        let vcs = self.virtual_clusters.iter();
        let lacks = vcs.filter(|(_, vc)| {
            let mut promised = vc.quota.iter().filter(|quota| quota.count > 0).peekable();
            promised.peek().is_some() && !promised.any(|quota| self.is_plain_path(&quota.path))
        });
        lacks.map(|(name, _)| name)
    }

    /// Whether a path of types leads to leaf cells without a device. Where machines are found, types are known by
    /// their names alone.
    fn is_plain_path(&self, path: &[String]) -> bool {
        let Some(last) = path.last() else {
            return false;
        };
        let below = self.path_down(last).unwrap_or_default();
        let leaf = below.last().copied();
        last == PLAIN_NODE || self.is_plain(leaf.unwrap_or(last))
    }
}

impl Sku {
    /// How many such shares one task takes, at least 1.
    ///
    /// # Errors
    /// If they have nothing of what it asks for.
    pub fn leaves_for(&self, resources: &Resources) -> Result<u32, Unserved> {
        let mut most = 1;
        for (field, asked, each) in [
            ("gpu", resources.gpu.into(), self.gpu.into()),
            ("cpu", resources.cpu.into(), self.cpu.into()),
            ("memoryMB", resources.memory_mb, self.memory_mb),
        ] {
            let leaves = match (asked, each) {
                (0, _) => 0,
                (_, 0) => return Err(Unserved { field, asked }),
                _ => u64::div_ceil(asked, each),
            };
            most = most.max(leaves);
        }
        Ok(u32::try_from(most).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ClusterSpec {
        let sku = |gpu, cpu, memory_mb| Sku {
            gpu,
            cpu,
            memory_mb,
        };
        let skus = [("V100", sku(1, 6, 8192)), ("SHARE", sku(0, 4, 4096))];
        ClusterSpec {
            sku_types: skus.map(|(name, sku)| (name.to_owned(), sku)).into(),
            ..ClusterSpec::default()
        }
    }

    #[test]
    fn the_scarcest_share_decides() {
        let check = |leaf_type: &str, (gpu, cpu, memory_mb): (u32, u32, u64), expect: &str| {
            let resources = Resources {
                cpu,
                memory_mb,
                gpu,
                ports: Vec::new(),
            };
            let found = match spec().leaves_for(leaf_type, &resources) {
                Ok(leaves) => leaves.to_string(),
                Err(error) => error.to_string(),
            };
            assert_eq!(found, expect, "{leaf_type} {resources:?}");
        };
        for (asked, expect) in [
            ((2, 1, 1), "2"),
            ((1, 12, 1), "2"),
            ((1, 13, 1), "3"),
            ((1, 6, 8193), "2"),
            ((0, 1, 1), "1"),
            ((0, 0, 0), "1"),
            ((u32::MAX, 0, 0), "4294967295"),
            ((0, 0, u64::MAX), "4294967295"),
        ] {
            check("V100", asked, expect);
        }
        check("SHARE", (0, 5, 1), "2");
        let none = "it asks for gpu: 1, but cells of this type bring none along; ask for 0 or \
                    choose another skuType";
        check("SHARE", (1, 4, 1), none);
        // Nothing is stated of these.
        check("T4", (4, 64, 1), "4");
        check("T4", (0, 64, 1), "1");
        check(PLAIN_LEAF, (0, 64, 1), "1");
        check(PLAIN_LEAF, (1, 1, 1), none);
    }

    #[test]
    fn who_is_promised_no_cells_without_a_device_is_known() {
        let described = "
physicalCluster:
  skuTypes: {DT: {gpu: 1, cpu: 3, memory: 9000Mi}, CORE: {cpu: 1, memory: 2000Mi}}
  cellTypes:
    DT-NODE: {childCellType: DT, childCellNumber: 4, isNodeLevel: true}
    CORE-NODE: {childCellType: CORE, childCellNumber: 4, isNodeLevel: true}
  physicalCells:
  - {cellType: DT-NODE, cellAddress: a}
  - {cellType: CORE-NODE, cellAddress: b}
virtualClusters:
  both: {virtualCells: [{cellType: DT-NODE.DT, cellNumber: 1}, {cellType: CORE-NODE, cellNumber: 1}]}
  cores: {virtualCells: [{cellType: CORE-NODE.CORE, cellNumber: 1}]}
  devices: {virtualCells: [{cellType: DT-NODE, cellNumber: 1}, {cellType: CORE-NODE, cellNumber: 0}]}
  none: {}
";
        let found = "
virtualClusters:
  both: {virtualCells: [{cellType: T4-NODE-4, cellNumber: 1}, {cellType: CPU-NODE, cellNumber: 1}]}
  cores: {virtualCells: [{cellType: CPU-NODE.CPU, cellNumber: 1}]}
  devices: {virtualCells: [{cellType: T4-NODE-4, cellNumber: 1}]}
";
        for text in [described, found] {
            let spec = ClusterSpec::from_hived_yaml(text).unwrap();
            let names: Vec<&str> = spec.without_plain_cells().map(VcName::as_str).collect();
            assert_eq!(names, ["devices"], "{text}");
        }
    }
}
