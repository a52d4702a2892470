//! `muster node`.

use std::collections::BTreeSet;

use anstyle::AnsiColor;
use clap::Subcommand;
use muster_model::known_node::{KnownDevice, KnownNode, Share};
use muster_model::node::{Device, NodeView};
use muster_model::vc::Amount;

use super::accept::{ACCEPT, AcceptArguments};
use super::api::Api;
use super::byte_size::ByteSize;
use super::console::{Console, Paint};
use super::diagnose::{DIAGNOSE_EXAMPLES, DiagnoseArgs};
use super::error::CliError;
use super::health::{
    HEALTH, HOLD, HealthArguments, HoldArguments, PartArguments, RELEASE, REPAIRED,
};
use super::inventory::{INVENTORY_EXAMPLES, InventoryArgs};
use super::moment::span;
use super::output::OutputOption;
use super::page::Page;
use super::pull::progress;
use super::status::CliStatus;
use super::table::{TableCell, TextTable};
use super::topology::{TOPOLOGY_EXAMPLES, TopologyArgs};

/// What can be done with machines.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// List the machines of the cluster: what each has, how much of it is in use, and why nothing new is
    /// placed there, where that is so.
    #[command(
        visible_alias = "ls",
        after_help = "GPUS, CPU and MEMORY: in use, of all that is well; in brackets all, where some are faulty.
HEARD: when the leader of a virtual cluster heard of the machine last.
Of a machine that an administrator keeps free `muster cluster members` tells by whom, and why.

Examples:
  muster node list
  muster node list -o json | jq -r '.[] | select(.closed != []).id'"
    )]
    List {
        /// The form of the answer.
        #[command(flatten)]
        output: OutputOption,
    },
    /// Show the machine: what it has, what is free, what runs there and what is wrong.
    #[command(after_help = "Examples:
  muster node show
  muster node show --url https://n7:7741
  muster node show -o json | jq -r '.problems[]'")]
    Show {
        /// The form of the answer.
        #[command(flatten)]
        output: OutputOption,
    },
    /// List what this machine has: CPUs, memory, devices, network ports, how they are linked, and what is
    /// wrong. It is read from the machine, so no agent needs to run.
    #[command(after_help = INVENTORY_EXAMPLES)]
    Inventory(InventoryArgs),
    /// Accept what a machine has now as what it should have: what is missing is no longer missed.
    #[command(after_help = ACCEPT)]
    Accept(AcceptArguments),
    /// Show what is wrong with the parts of a machine, and what that keeps from being granted.
    #[command(after_help = HEALTH)]
    Health(HealthArguments),
    /// Keep a part of a machine out of use.
    #[command(after_help = HOLD)]
    Hold(HoldArguments),
    /// End a hold.
    #[command(after_help = RELEASE)]
    Release(PartArguments),
    /// Say that a part of a machine is repaired.
    #[command(after_help = REPAIRED)]
    Repaired(PartArguments),
    /// Test this machine for minutes, while it is cordoned and runs nothing: links, and the programs of vendors.
    #[command(after_help = DIAGNOSE_EXAMPLES)]
    Diagnose(DiagnoseArgs),
    /// Show how this machine's devices and network adapters are connected, and the cells that they make. It
    /// is read from the machine, so no agent needs to run.
    #[command(after_help = TOPOLOGY_EXAMPLES)]
    Topology(TopologyArgs),
}

impl NodeCommand {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        match self {
            Self::List { output } => {
                let nodes = api.nodes().await?;
                output.write(console, &nodes, |nodes, paint| list(nodes).render(paint, 0))?;
            }
            Self::Show { output } => output.write(console, &api.node().await?, page)?,
            Self::Accept(arguments) => return arguments.run(api, console).await,
            Self::Health(arguments) => return arguments.run(api, console).await,
            Self::Hold(arguments) => return arguments.run(api, console).await,
            Self::Release(part) => return part.release(api, console).await,
            Self::Repaired(part) => return part.repaired(api, console).await,
            Self::Inventory(_) | Self::Topology(_) | Self::Diagnose(_) => {
                return Err(CliError::Usage(
                    "muster node inventory, topology and diagnose are started by main".into(),
                ));
            }
        }
        Ok(CliStatus::Ok)
    }
}

fn list(nodes: &[KnownNode]) -> TextTable<7> {
    let mut table = TextTable::new(["NODE", "GPUS", "MODEL", "CPU", "MEMORY", "HEARD", ""]);
    for node in nodes {
        let has = node.has.as_ref();
        let share =
            |show: fn(Amount) -> String| has.map_or_else(String::new, |has| shown(has.share, show));
        let models: BTreeSet<&str> = devices_of(node).map(|it| it.model.as_str()).collect();
        let faults = devices_of(node).filter_map(|device| {
            let fault = device.fault.as_ref()?;
            Some(format!("device {} is faulty: {fault}", device.index))
        });
        let problems: Vec<String> = node.closed.iter().cloned().chain(faults).collect();
        table.row([
            node.id.as_str().into(),
            share(|amount| amount.gpu.to_string()).into(),
            models.into_iter().collect::<Vec<_>>().join(", ").into(),
            share(|amount| amount.cpu.to_string()).into(),
            share(|amount| ByteSize::mebibytes(amount.memory_mb).to_string()).into(),
            has.map_or_else(String::new, |has| format!("{} ago", span(has.silent_ms)))
                .into(),
            TableCell::styled(problems.join("; "), AnsiColor::Red.on_default()),
        ]);
    }
    table
}

fn devices_of(node: &KnownNode) -> impl Iterator<Item = &KnownDevice> {
    node.has.iter().flat_map(|has| &has.devices)
}

/// `3 of 7 (8)`: in use, well, and in all if that is more.
fn shown(share: Share, show: fn(Amount) -> String) -> String {
    let (used, healthy, total) = (show(share.used()), show(share.healthy), show(share.total));
    match total == healthy {
        true => format!("{used} of {healthy}"),
        false => format!("{used} of {healthy} ({total})"),
    }
}

fn page(node: &NodeView, paint: Paint) -> String {
    let mut page = Page::titled(paint, node.id.as_str());
    page.facts(9, facts(node));
    page.list("Problems", &node.problems);
    page.list("Known faults of the engine", &node.engine_faults);
    page.table("Devices", &devices(node));
    page.section("Images on their way", &pulls(node));
    page.table("Tasks", &tasks(node));
    page.into_text()
}

fn facts(node: &NodeView) -> Vec<(&'static str, String)> {
    let NodeView { capacity, free, .. } = node;
    let ports = u32::from(capacity.port_last.saturating_sub(capacity.port_first)) + 1;
    let mut facts = vec![("host", format!("{}, {}", node.host_name, node.address))];
    if !node.rack.is_empty() {
        facts.push(("rack", node.rack.clone()));
    }
    facts.extend([
        ("agent", node.agent_version.clone()),
        (
            "TLS",
            match &node.certificate {
                Some(certificate) => format!("certificate {certificate}"),
                None => "off: other machines are answered in clear".to_owned(),
            },
        ),
        (
            "engine",
            match &node.engine {
                Ok(engine) => engine.clone(),
                Err(why) => format!("does not answer: {why}"),
            },
        ),
        (
            "CPU",
            format!("{} of {} cores free", free.cpu, capacity.cpu),
        ),
        (
            "memory",
            format!(
                "{} of {} free",
                ByteSize::mebibytes(free.memory_mb),
                ByteSize::mebibytes(capacity.memory_mb)
            ),
        ),
    ]);
    if !capacity.devices.is_empty() {
        let faulty = capacity
            .devices
            .iter()
            .filter(|device| device.fault.is_some());
        let faulty = match faulty.count() {
            0 => String::new(),
            count => format!(", {count} faulty"),
        };
        facts.push((
            "devices",
            format!(
                "{} of {} free{faulty}",
                free.devices.len(),
                capacity.devices.len()
            ),
        ));
    }
    facts.push(("ports", format!("{} of {ports} free", free.ports)));
    facts
}

fn pulls(node: &NodeView) -> String {
    let lines = node.pulls.iter();
    let lines = lines.map(|pull| format!("{}: {}\n", pull.image, progress(pull)));
    lines.collect()
}

fn devices(node: &NodeView) -> TextTable<5> {
    let mut table = TextTable::new(["INDEX", "MODEL", "MEMORY", "STATE", "ID"]);
    for device in &node.capacity.devices {
        table.row([
            device.index.into(),
            device.model.as_str().into(),
            match device.memory_mb {
                0 => "".into(),
                mb => ByteSize::mebibytes(mb).into(),
            },
            state(node, device),
            device.id.0.as_str().into(),
        ]);
    }
    table
}

fn state(node: &NodeView, device: &Device) -> TableCell {
    let free = node.free.devices.iter().any(|(_, id)| *id == device.id);
    let holder = node
        .tasks
        .iter()
        .find(|task| task.devices.contains(&device.index));
    match (&device.fault, holder) {
        (Some(fault), _) => {
            TableCell::styled(format!("faulty: {fault}"), AnsiColor::Red.on_default())
        }
        (None, Some(task)) => format!("{} {}", task.job, task.task).into(),
        (None, None) if free => TableCell::styled("free", AnsiColor::Green.on_default()),
        (None, None) => "held".into(),
    }
}

fn tasks(node: &NodeView) -> TextTable<6> {
    let mut table = TextTable::new(["JOB", "TASK", "STATE", "CPU", "MEMORY", "DEVICES"]);
    for task in &node.tasks {
        let devices: Vec<String> = task.devices.iter().map(ToString::to_string).collect();
        table.row([
            task.job.as_str().into(),
            task.task.as_str().into(),
            task.state.as_str().into(),
            task.cpu.into(),
            ByteSize::mebibytes(task.memory_mb).into(),
            devices.join(",").into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::known_node::Has;
    use muster_model::node::{Capacity, DeviceId, Free, NodeTask};
    use muster_model::pull::Pull;

    fn device(index: u32, fault: Option<&str>) -> Device {
        Device {
            memory_mb: 16_384,
            fault: fault.map(str::to_owned),
            ..Device::simulated(format!("sim-V100-{index}"), index, "Tesla V100")
        }
    }

    #[test]
    fn the_list_tells_what_is_used_and_why_a_machine_gets_nothing_new() {
        let amount = |cpu, gpu| Amount {
            cpu,
            memory_mb: u64::from(cpu) << 10,
            gpu,
        };
        let known = |index, fault: Option<&str>| KnownDevice {
            index,
            model: "Tesla V100".into(),
            fault: fault.map(str::to_owned),
            is_used: false,
        };
        let has = Has {
            share: Share {
                total: amount(8, 3),
                healthy: amount(8, 2),
                free: amount(6, 1),
            },
            devices: vec![known(0, None), known(1, None), known(2, Some("Xid 79"))],
            levels: Vec::new(),
            silent_ms: 3_000,
        };
        let node = |id: &str, has, closed: &[&str]| KnownNode {
            id: id.parse().unwrap(),
            has,
            closed: closed.iter().map(|why| (*why).to_owned()).collect(),
        };
        let nodes = [
            node("n1", Some(has), &[]),
            node(
                "n2",
                None,
                &["it cannot be reached", "it was not heard yet"],
            ),
        ];
        assert_eq!(
            list(&nodes).render(Paint { colour: false }, 0),
            "\
NODE  GPUS        MODEL       CPU     MEMORY                HEARD
n1    1 of 2 (3)  Tesla V100  2 of 8  2.00 GiB of 8.00 GiB  3s ago  device 2 is faulty: Xid 79
n2                                                                  it cannot be reached; it was not heard yet
"
        );
    }

    #[test]
    fn the_page_tells_free_from_held_from_faulty() {
        let node = NodeView {
            id: "n1".parse().unwrap(),
            host_name: "n1.example".into(),
            address: [10, 0, 0, 1].into(),
            rack: "r1".into(),
            capacity: Capacity {
                cpu: 8,
                memory_mb: 32_768,
                devices: vec![device(0, None), device(1, None), device(2, Some("Xid 79"))],
                levels: Vec::new(),
                port_first: 20_000,
                port_last: 20_999,
            },
            free: Free {
                cpu: 6,
                memory_mb: 16_384,
                devices: vec![(1, DeviceId("sim-V100-1".into()))],
                ports: 998,
            },
            agent_version: "0.1.0".into(),
            engine: Err("connection refused".into()),
            engine_faults: vec!["runc: stuck start: it may hang (fixed in 1.3.6)".into()],
            problems: vec!["GPU 2 fell off the bus".into()],
            tasks: vec![NodeTask {
                vc: "default".parse().unwrap(),
                job: "ada~train".into(),
                task: "main:0".into(),
                uid: "u".into(),
                state: "Held".into(),
                devices: vec![0],
                cpu: 2,
                memory_mb: 16_384,
            }],
            health: Vec::new(),
            pulls: vec![Pull {
                image: "big:1".into(),
                bytes: 3 << 20,
                bytes_total: Some(12 << 20),
                layers: 0,
                layers_total: 0,
                for_ms: 61_000,
            }],
            certificate: Some("sha256:00ff".into()),
        };
        assert_eq!(
            page(&node, Paint { colour: false }),
            "\
n1
  host     n1.example, 10.0.0.1
  rack     r1
  agent    0.1.0
  TLS      certificate sha256:00ff
  engine   does not answer: connection refused
  CPU      6 of 8 cores free
  memory   16.00 GiB of 32.00 GiB free
  devices  1 of 3 free, 1 faulty
  ports    998 of 1000 free

Problems
  - GPU 2 fell off the bus

Known faults of the engine
  - runc: stuck start: it may hang (fixed in 1.3.6)

Devices
  INDEX  MODEL       MEMORY     STATE             ID
  0      Tesla V100  16.00 GiB  ada~train main:0  sim-V100-0
  1      Tesla V100  16.00 GiB  free              sim-V100-1
  2      Tesla V100  16.00 GiB  faulty: Xid 79    sim-V100-2

Images on their way
  big:1: 3.00 MiB of 12.00 MiB have arrived, for 1m 1s so far

Tasks
  JOB        TASK    STATE  CPU  MEMORY     DEVICES
  ada~train  main:0  Held   2    16.00 GiB  0
"
        );
    }
}
