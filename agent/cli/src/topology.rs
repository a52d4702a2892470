//! `muster node topology`: how this machine's devices and network adapters are connected, and the
//! cells that they make. Like the inventory it is read by the program itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::NodeId;
use muster_model::inventory::Inventory;
use muster_model::topology::{DeviceLink, Topology};

use super::console::Console;
use super::error::CliError;
use super::output::{Format, OutputOption};
use super::status::CliStatus;

pub(super) const TOPOLOGY_EXAMPLES: &str = "\
The table has the columns of `nvidia-smi topo -m`. With -o yaml the cells are printed that Muster makes of
the devices, as HiveD's physicalCluster. In a file tree (--root) only NCCL's topology file and AMD's
driver tell which GPUs are linked.

Examples:
  muster node topology
  muster node topology -o yaml
  muster node topology --root /tmp/captured -o json";

/// Arguments of `muster node topology`.
#[derive(Debug, Args)]
pub struct TopologyArgs {
    /// Read this file tree, which has `proc` and `sys`, instead of the machine's own [default: /].
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// The form of the answer.
    #[command(flatten)]
    output: OutputOption,
}

impl TopologyArgs {
    /// Prints what was read, or why nothing was, and says how to exit.
    pub fn finish(&self, read: Result<(Inventory, Topology), String>) -> ExitCode {
        let console = Console::standard();
        let printed = read
            .map_err(CliError::Usage)
            .and_then(|(inventory, topology)| self.print(&console, &inventory, &topology));
        let status = match printed {
            Ok(()) => CliStatus::Ok,
            Err(error) => {
                console.report(&error);
                error.status()
            }
        };
        status.into()
    }

    fn print(
        &self,
        console: &Console,
        inventory: &Inventory,
        topology: &Topology,
    ) -> Result<(), CliError> {
        match self.output.format() {
            Format::Yaml => console.line(cells(inventory, &topology.host).trim_end()),
            Format::Table | Format::Json => self
                .output
                .write(console, topology, |topology, _| matrix(topology)),
        }
    }
}

/// The cells of the devices as HiveD's YAML.
fn cells(inventory: &Inventory, host: &str) -> String {
    let capacity = inventory.to_capacity();
    let id = host.to_ascii_lowercase().parse::<NodeId>();
    let id = id.or_else(|_| "machine".parse());
    let Ok(id) = id else {
        return String::new();
    };
    let found = ClusterSpec::of_nodes([(&id, &capacity)].into_iter(), &BTreeMap::new());
    let mut text = String::new();
    for sentence in &found.left_out {
        let _ = writeln!(text, "# {sentence}");
    }
    text + &found.spec.to_hived_yaml()
}

/// A row and a column for each device and adapter, then what their words mean.
fn matrix(topology: &Topology) -> String {
    if topology.points.is_empty() {
        return "This machine has no devices and no network adapters that do RDMA.\n".to_owned();
    }
    let names = topology.points.iter().map(|point| point.name.clone());
    let mut rows = vec![
        std::iter::once(String::new())
            .chain(names)
            .chain(["CPU Affinity", "NUMA Affinity"].map(str::to_owned))
            .collect::<Vec<String>>(),
    ];
    for point in &topology.points {
        let links = point.links.iter().map(|link| link.as_str().to_owned());
        let numa = point
            .numa
            .map_or_else(|| "N/A".to_owned(), |it| it.to_string());
        let cpus = match &*point.cpus {
            "" => "N/A".to_owned(),
            cpus => cpus.to_owned(),
        };
        let row = std::iter::once(point.name.clone()).chain(links);
        rows.push(row.chain([cpus, numa]).collect());
    }
    aligned(&rows) + &legend(topology)
}

fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(String::len).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let line: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        let _ = writeln!(text, "{}", line.join("  ").trim_end());
    }
    text
}

/// The words of the table and the names of its columns.
fn legend(topology: &Topology) -> String {
    let links = topology.points.iter().flat_map(|point| &point.links);
    let used: BTreeSet<DeviceLink> = links.copied().collect();
    let mut text = String::from("\nLegend:\n");
    for link in DeviceLink::ALL.iter().filter(|link| used.contains(link)) {
        let _ = writeln!(text, "  {:4} = {}", link.as_str(), link.meaning());
    }
    text.push('\n');
    for point in &topology.points {
        let _ = writeln!(text, "  {}: {}", point.name, point.model);
    }
    text
}

#[cfg(test)]
mod tests {
    use muster_model::inventory::{Accelerator, AcceleratorKind};
    use muster_model::topology::TopologyPoint;

    use super::*;

    fn point(name: &str, model: &str, numa: Option<u32>, links: &[DeviceLink]) -> TopologyPoint {
        TopologyPoint {
            name: name.into(),
            model: model.into(),
            numa,
            cpus: numa.map_or_else(String::new, |_| "0-7".into()),
            links: links.to_vec(),
        }
    }

    #[test]
    fn the_table_is_as_nvidias_tool_prints_it() {
        use DeviceLink::{Nv, Pix, Sys, X};
        let topology = Topology {
            host: "n1".into(),
            points: vec![
                point("GPU0", "V100", Some(0), &[X, Nv, Pix]),
                point("GPU1", "V100", Some(0), &[Nv, X, Sys]),
                point("NIC0", "mlx5_0", None, &[Pix, Sys, X]),
            ],
        };
        assert_eq!(
            matrix(&topology),
            "      GPU0  GPU1  NIC0  CPU Affinity  NUMA Affinity
GPU0  X     NV    PIX   0-7           0
GPU1  NV    X     SYS   0-7           0
NIC0  PIX   SYS   X     N/A           N/A

Legend:
  X    = itself
  NV   = NVLink
  PIX  = at most one PCIe switch
  SYS  = the connection between NUMA nodes

  GPU0: V100
  GPU1: V100
  NIC0: mlx5_0
"
        );
        let none = matrix(&Topology::default());
        assert!(none.starts_with("This machine has no devices"), "{none}");
    }

    #[test]
    fn the_cells_can_be_read_as_a_description() {
        let device = Accelerator {
            kind: AcceleratorKind::Gpu,
            vendor: "nvidia".into(),
            model: "V100".into(),
            pci: None,
            numa: None,
            memory_mb: 0,
            partition_of: None,
        };
        let level = |level: &str, groups: &[&[u32]]| muster_model::node::DeviceLevel {
            level: level.parse().unwrap(),
            groups: groups.iter().map(|group| group.to_vec()).collect(),
        };
        let inventory = Inventory {
            devices: vec![device; 6],
            levels: vec![
                level("numa", &[&[0, 1, 2, 3], &[4, 5]]),
                level("pcie", &[&[0, 1], &[2, 3], &[4, 5]]),
            ],
            ..Inventory::default()
        };
        let text = cells(&inventory, "N1");
        assert_eq!(
            text,
            "\
physicalCluster:
  cellTypes:
    V100-NODE-6-NUMA-4+2-PCIE-2:
      # groups of numa: 4, 2
      childCellType: V100-PCIE-2
      childCellNumber: 3
      isNodeLevel: true
    V100-PCIE-2:
      childCellType: V100
      childCellNumber: 2
      level: pcie
  physicalCells:
  - cellType: V100-NODE-6-NUMA-4+2-PCIE-2
    cellAddress: \"n1\"
    cellChildren:
    - cellType: V100-PCIE-2
      cellAddress: \"0\"
      cellChildren:
      - cellAddress: \"0\"
      - cellAddress: \"1\"
    - cellType: V100-PCIE-2
      cellAddress: \"1\"
      cellChildren:
      - cellAddress: \"2\"
      - cellAddress: \"3\"
    - cellType: V100-PCIE-2
      cellAddress: \"2\"
      cellChildren:
      - cellAddress: \"4\"
      - cellAddress: \"5\"
"
        );
        let read = ClusterSpec::from_hived_yaml(&text).unwrap();
        assert_eq!(read.cells.len(), 1);
        assert_eq!(read.cells[0].children[2].children[1].address, "5");
        assert_eq!(
            read.to_hived_yaml().lines().count(),
            text.lines().count() - 1
        );
    }
}
