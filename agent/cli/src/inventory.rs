//! `muster node inventory`: what this machine has. It needs no agent: the program reads the
//! machine itself.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anstyle::AnsiColor;
use clap::Args;
use muster_model::inventory::{Accelerator, FabricPort, Inventory, InventoryProblem, NumaNode};
use muster_model::node::DeviceLevel;

use super::byte_size::ByteSize;
use super::console::{Console, Paint};
use super::error::CliError;
use super::output::OutputOption;
use super::page::Page;
use super::status::CliStatus;
use super::table::{TableCell, TextTable};

pub(super) const INVENTORY_EXAMPLES: &str = "\
CPUS of a NUMA node are those that are online. MEMORY of the machine is what tasks can use: without
huge pages and without the memory of GPUs. A group in braces names devices by their INDEX: those of
one group are linked, or lie below one switch, or beside one NUMA node.

Examples:
  muster node inventory
  muster node inventory -o json | jq -r '.problems[].remedy'
  muster node inventory --root /tmp/captured
  muster node inventory --rules ./devices.d";

/// Arguments of `muster node inventory`.
#[derive(Debug, Args)]
pub struct InventoryArgs {
    /// Read this file tree, which has `proc` and `sys`, instead of the machine's own [default: /].
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Read rule files for devices from here [default: etc/muster/devices.d below the root].
    #[arg(long, value_name = "DIR")]
    pub rules: Option<PathBuf>,
    /// The form of the answer.
    #[command(flatten)]
    output: OutputOption,
}

impl InventoryArgs {
    /// Prints what was read, or why nothing was, and says how to exit.
    pub fn finish(&self, read: Result<Inventory, String>) -> ExitCode {
        let console = Console::standard();
        let printed = read
            .map_err(CliError::Usage)
            .and_then(|inventory| self.print(&console, &inventory));
        let status = match printed {
            Ok(()) => CliStatus::Ok,
            Err(error) => {
                console.report(&error);
                error.status()
            }
        };
        status.into()
    }

    fn print(&self, console: &Console, inventory: &Inventory) -> Result<(), CliError> {
        let title = self.root.as_ref().map_or_else(
            || "This machine".to_owned(),
            |root| root.display().to_string(),
        );
        self.output.write(console, inventory, |inventory, paint| {
            page(&title, inventory, paint)
        })
    }
}

fn page(title: &str, inventory: &Inventory, paint: Paint) -> String {
    let mut page = Page::titled(paint, title);
    page.facts(8, facts(inventory));
    page.table("NUMA nodes", &numa(&inventory.numa));
    page.table("Devices", &devices(&inventory.devices));
    page.table("Fabric", &fabric(&inventory.fabric));
    page.table("Levels", &levels(&inventory.levels));
    page.section("Problems", &problems(&inventory.problems));
    page.into_text()
}

fn facts(inventory: &Inventory) -> Vec<(&'static str, String)> {
    let Inventory { cpus, cores, .. } = inventory;
    let memory = match inventory.memory_mb {
        0 => "unknown".to_owned(),
        mb => format!("{} for tasks", ByteSize::mebibytes(mb)),
    };
    let cpus = match cpus {
        0 => "unknown".to_owned(),
        _ => format!("{cpus} CPUs in {cores} cores"),
    };
    vec![("CPU", cpus), ("memory", memory)]
}

/// A size; nothing where there is none.
fn size(mb: u64) -> TableCell {
    match mb {
        0 => "".into(),
        mb => ByteSize::mebibytes(mb).into(),
    }
}

fn numa(nodes: &[NumaNode]) -> TextTable<3> {
    let mut table = TextTable::new(["NODE", "CPUS", "MEMORY"]);
    for node in nodes {
        table.row([
            node.id.into(),
            node.cpu_list.as_str().into(),
            size(node.memory_mb),
        ]);
    }
    table
}

fn devices(devices: &[Accelerator]) -> TextTable<8> {
    let heading = [
        "INDEX", "KIND", "VENDOR", "MODEL", "MEMORY", "NUMA", "PCI", "PART OF",
    ];
    let mut table = TextTable::new(heading);
    for (index, device) in devices.iter().enumerate() {
        let numa = device
            .numa
            .map_or_else(|| "?".into(), |node| node.to_string());
        table.row([
            index.into(),
            device.kind.as_str().into(),
            device.vendor.as_str().into(),
            device.model.as_str().into(),
            size(device.memory_mb),
            numa.into(),
            device.pci.as_deref().unwrap_or_default().into(),
            device.partition_of.as_deref().unwrap_or_default().into(),
        ]);
    }
    table
}

fn fabric(ports: &[FabricPort]) -> TextTable<4> {
    let mut table = TextTable::new(["PORT", "LINK", "STATE", "RATE"]);
    for port in ports {
        let colour = match port.state.as_str() {
            "ACTIVE" => AnsiColor::Green,
            _ => AnsiColor::Yellow,
        };
        table.row([
            format!("{}/{}", port.device, port.port).into(),
            port.link_layer.into(),
            TableCell::styled(&port.state, colour.on_default()),
            format!("{} Gb/s", port.rate_gbps).into(),
        ]);
    }
    table
}

fn levels(levels: &[DeviceLevel]) -> TextTable<2> {
    let mut table = TextTable::new(["LEVEL", "GROUPS"]);
    for level in levels {
        let groups: Vec<String> = level.groups.iter().map(|group| braces(group)).collect();
        table.row([level.level.into(), groups.join(" ").into()]);
    }
    table
}

/// `{0-3,8}`.
fn braces(group: &[u32]) -> String {
    let runs = group.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let runs = runs.filter_map(|run| match run {
        [] => None,
        [only] => Some(only.to_string()),
        [first, second] => Some(format!("{first},{second}")),
        [first, .., last] => Some(format!("{first}-{last}")),
    });
    format!("{{{}}}", runs.collect::<Vec<_>>().join(","))
}

/// Each problem once, with all that have it.
fn problems(problems: &[InventoryProblem]) -> String {
    let mut same: BTreeMap<(&str, &str, &str), Vec<&str>> = BTreeMap::new();
    for problem in problems {
        let key = (&*problem.name, &*problem.evidence, &*problem.remedy);
        let subjects = same.entry(key).or_default();
        subjects.extend(problem.subject.as_deref());
    }
    let texts = same.iter().map(|((name, evidence, remedy), subjects)| {
        let of = match subjects[..] {
            [] => String::new(),
            _ => format!(" of {}", subjects.join(", ")),
        };
        format!("{name}{of}\n  {evidence}\n  {remedy}\n")
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use muster_model::cluster_spec::Level;
    use muster_model::inventory::{AcceleratorKind, LinkLayer};

    use super::*;

    fn gpu(bus: &str, numa: Option<u32>) -> Accelerator {
        Accelerator {
            kind: AcceleratorKind::Gpu,
            vendor: "nvidia".into(),
            model: "Tesla V100-SXM2-16GB".into(),
            pci: Some(format!("0004:{bus}:00.0")),
            numa,
            memory_mb: 16_384,
            partition_of: None,
        }
    }

    fn missing(bus: &str) -> InventoryProblem {
        InventoryProblem {
            name: "driver-missing".into(),
            subject: Some(format!("0004:{bus}:00.0")),
            evidence: "The module is not loaded.".into(),
            remedy: "Load it.".into(),
        }
    }

    fn machine() -> Inventory {
        let level = |level, groups| DeviceLevel { level, groups };
        Inventory {
            cpus: 160,
            cores: 40,
            memory_mb: 257_608,
            numa: vec![NumaNode {
                id: 8,
                cpus: 80,
                cpu_list: "80-159".into(),
                memory_mb: 130_816,
            }],
            devices: vec![gpu("04", Some(8)), gpu("05", None)],
            fabric: vec![FabricPort {
                device: "mlx5_0".into(),
                port: 1,
                link_layer: LinkLayer::InfiniBand,
                state: "ACTIVE".into(),
                rate_gbps: 100,
            }],
            levels: vec![
                level(Level::Nvlink, vec![vec![0, 1, 2, 3, 8, 10, 11]]),
                level(Level::Pcie, vec![vec![0], vec![1, 2]]),
            ],
            problems: vec![missing("04"), missing("05")],
        }
    }

    #[test]
    fn the_page_shows_all_parts_and_each_problem_once() {
        assert_eq!(
            page("This machine", &machine(), Paint { colour: false }),
            "\
This machine
  CPU     160 CPUs in 40 cores
  memory  251.57 GiB for tasks

NUMA nodes
  NODE  CPUS    MEMORY
  8     80-159  127.75 GiB

Devices
  INDEX  KIND  VENDOR  MODEL                 MEMORY     NUMA  PCI
  0      gpu   nvidia  Tesla V100-SXM2-16GB  16.00 GiB  8     0004:04:00.0
  1      gpu   nvidia  Tesla V100-SXM2-16GB  16.00 GiB  ?     0004:05:00.0

Fabric
  PORT      LINK        STATE   RATE
  mlx5_0/1  InfiniBand  ACTIVE  100 Gb/s

Levels
  LEVEL   GROUPS
  nvlink  {0-3,8,10,11}
  pcie    {0} {1,2}

Problems
  driver-missing of 0004:04:00.0, 0004:05:00.0
    The module is not loaded.
    Load it.
"
        );
        let unknown = page("x", &Inventory::default(), Paint { colour: false });
        assert_eq!(unknown, "x\n  CPU     unknown\n  memory  unknown\n");
    }
}
