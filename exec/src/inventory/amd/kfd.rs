//! KFD's topology below `sys/class/kfd`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use muster_model::inventory::InventoryProblem;

const NODES: &str = "sys/class/kfd/kfd/topology/nodes";
const PCI_DEVICES: &str = "sys/bus/pci/devices";
const NUMA_NODES: &str = "sys/devices/system/node";
/// AMD's PCI number.
pub(super) const VENDOR: u32 = 0x1002;
/// Kinds of memory that are a GPU's own: all of it seen by the CPU, or not.
const OWN_MEMORY: [u64; 2] = [1, 2];

/// A place on the PCI bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciPlace {
    /// The bus's domain.
    pub domain: u32,
    /// The number that KFD calls `location_id`: bus, device and function in 8, 5 and 3 bits.
    pub location: u32,
}

impl PciPlace {
    /// Without the function.
    fn card(self) -> Self {
        Self {
            location: self.location & !7,
            ..self
        }
    }

    fn function(self) -> u32 {
        self.location & 7
    }
}

impl fmt::Display for PciPlace {
    /// As the kernel writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bus, device) = (self.location >> 8 & 0xff, self.location >> 3 & 0x1f);
        write!(
            f,
            "{:04x}:{bus:02x}:{device:02x}.{}",
            self.domain,
            self.function()
        )
    }
}

/// A GPU of the topology: a card, or a partition of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KfdGpu {
    /// KFD's number of the node.
    pub node: u32,
    /// The PCI device number.
    pub device: u32,
    /// Where it is on the bus. The function is the partition's number if it is a partition.
    pub place: PciPlace,
    /// Where its card is on the bus.
    pub card: PciPlace,
    /// The card's serial number, which all its partitions have. 0 on cards without.
    pub unique_id: u64,
    /// The number of the partition on its card. None for a whole card.
    pub partition: Option<u32>,
    /// Compute units.
    pub compute_units: u64,
    /// Accelerator dies. None on kernels that do not tell.
    pub dies: Option<u64>,
    /// Memory of its own in bytes.
    pub memory_bytes: u64,
    /// Of its file `/dev/dri/renderD128` 128.
    pub render_minor: Option<u32>,
    /// Number of the GPUs that xGMI links. None if nothing is linked, or the kernel is too old.
    pub hive: Option<u64>,
    /// The NUMA node next to it.
    pub numa: Option<u32>,
}

impl KfdGpu {
    /// A name that lasts as long as the card, and is another one for each partition. Of a card
    /// without a serial number it is the place.
    pub fn id(&self) -> String {
        if self.unique_id == 0 {
            return self.place.to_string();
        }
        match self.partition {
            Some(partition) => format!("{:016x}-{partition}", self.unique_id),
            None => format!("{:016x}", self.unique_id),
        }
    }
}

/// Numbers by name, as KFD's files have them a line each.
type Properties = BTreeMap<String, u64>;

/// The GPUs in KFD's order, and what is wrong with the topology. A machine without KFD has none.
pub fn gpus(root: &Path) -> (Vec<KfdGpu>, Vec<InventoryProblem>) {
    let mut problems = Vec::new();
    let mut nodes: Vec<(u32, Properties)> = Vec::new();
    for node in numbers(&root.join(NODES)) {
        match properties(&node_dir(root, node).join("properties")) {
            Some(found) => nodes.push((node, found)),
            None => problems.push(unreadable(node)),
        }
    }
    let cpus = CpuNodes::new(root, &nodes);
    let mut gpus: Vec<KfdGpu> = Vec::new();
    for (node, found) in &nodes {
        if number(found, "simd_count") == 0 {
            continue;
        }
        let gpu = gpu(root, *node, found, &cpus);
        // Two GPUs with numbers of their own cannot be in one place.
        let same = |other: &&KfdGpu| other.place == gpu.place && other.unique_id != gpu.unique_id;
        match gpus.iter().find(same) {
            Some(other) => problems.push(duplicate(other, &gpu)),
            None => gpus.push(gpu),
        }
    }
    mark_partitions(root, &mut gpus);
    (gpus, problems)
}

fn node_dir(root: &Path, node: u32) -> std::path::PathBuf {
    root.join(NODES).join(node.to_string())
}

fn gpu(root: &Path, node: u32, found: &Properties, cpus: &CpuNodes) -> KfdGpu {
    let place = PciPlace {
        domain: number(found, "domain").try_into().unwrap_or(0),
        location: number(found, "location_id").try_into().unwrap_or(0),
    };
    let simd_per_cu = number(found, "simd_per_cu").max(1);
    KfdGpu {
        node,
        device: number(found, "device_id").try_into().unwrap_or(0),
        place,
        card: place.card(),
        unique_id: number(found, "unique_id"),
        partition: None,
        compute_units: number(found, "simd_count") / simd_per_cu,
        dies: found.get("num_xcc").copied(),
        memory_bytes: memory_bytes(root, node, found),
        render_minor: found
            .get("drm_render_minor")
            .and_then(|minor| u32::try_from(*minor).ok())
            .filter(|minor| *minor > 0),
        hive: found.get("hive_id").copied().filter(|hive| *hive != 0),
        numa: numa(root, node, place.card(), cpus),
    }
}

/// What the banks of its own memory have; newer kernels write 0 as the sum.
fn memory_bytes(root: &Path, node: u32, found: &Properties) -> u64 {
    let dir = node_dir(root, node).join("mem_banks");
    let banks = numbers(&dir).into_iter();
    let banks = banks.filter_map(|bank| properties(&dir.join(bank.to_string()).join("properties")));
    let own = banks.filter(|bank| OWN_MEMORY.contains(&number(bank, "heap_type")));
    let sum = own.map(|bank| number(&bank, "size_in_bytes")).sum();
    match sum {
        0 => number(found, "local_mem_size"),
        sum => sum,
    }
}

/// The CPUs of the topology.
struct CpuNodes {
    /// KFD's numbers with the NUMA node of each.
    numa: BTreeMap<u64, u32>,
}

impl CpuNodes {
    /// KFD makes a node of each NUMA node that has CPUs, in their order. Numbers of NUMA nodes
    /// may have gaps, KFD's have none.
    fn new(root: &Path, nodes: &[(u32, Properties)]) -> Self {
        let is_cpu = |found: &Properties| {
            number(found, "cpu_cores_count") > 0 && number(found, "simd_count") == 0
        };
        let cpus = nodes.iter().filter(|(_, found)| is_cpu(found));
        let cpus: Vec<u64> = cpus.map(|(node, _)| u64::from(*node)).collect();
        let mut numa = numa_with_cpus(root);
        if numa.len() != cpus.len() {
            numa = (0..).take(cpus.len()).collect();
        }
        Self {
            numa: cpus.into_iter().zip(numa).collect(),
        }
    }

    /// The only one, if there is just one.
    fn only(&self) -> Option<u32> {
        let mut all = self.numa.values().copied();
        all.next().filter(|_| all.next().is_none())
    }
}

/// Numbers of the NUMA nodes that have CPUs.
fn numa_with_cpus(root: &Path) -> Vec<u32> {
    let dir = root.join(NUMA_NODES);
    let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut nodes: Vec<u32> = names
        .filter_map(|name| name.strip_prefix("node")?.parse().ok())
        .collect();
    nodes.sort_unstable();
    nodes.retain(|node| {
        let map = dir.join(format!("node{node}")).join("cpumap");
        let map = fs::read_to_string(map).unwrap_or_default();
        map.chars().any(|c| c.is_ascii_hexdigit() && c != '0')
    });
    nodes
}

/// The NUMA node next to a GPU. The bus knows it best: KFD links a GPU to its first CPU where the
/// firmware does not tell, which is then no knowledge but a filler.
fn numa(root: &Path, node: u32, card: PciPlace, cpus: &CpuNodes) -> Option<u32> {
    let file = root
        .join(PCI_DEVICES)
        .join(card.to_string())
        .join("numa_node");
    match fs::read_to_string(file) {
        Ok(text) => text.trim().parse().ok().or_else(|| cpus.only()),
        Err(_) => linked_numa(root, node, cpus),
    }
}

/// By the GPU's nearest link to a CPU.
fn linked_numa(root: &Path, node: u32, cpus: &CpuNodes) -> Option<u32> {
    let dir = node_dir(root, node).join("io_links");
    let links = numbers(&dir).into_iter();
    let links = links.filter_map(|link| properties(&dir.join(link.to_string()).join("properties")));
    let to_cpu = links.filter_map(|link| {
        let numa = cpus.numa.get(&number(&link, "node_to"))?;
        Some((number(&link, "weight"), *numa))
    });
    to_cpu.min().map(|(_, numa)| numa)
}

/// Nodes of one card are its partitions. Their functions number them; on older kernels they all
/// have function 0, and their order does.
fn mark_partitions(root: &Path, gpus: &mut [KfdGpu]) {
    let mut cards: BTreeMap<(PciPlace, u64), Vec<usize>> = BTreeMap::new();
    for (at, gpu) in gpus.iter().enumerate() {
        cards.entry((gpu.card, gpu.unique_id)).or_default().push(at);
    }
    for members in cards.into_values() {
        if let [only] = members[..] {
            mark_single(root, &mut gpus[only]);
            continue;
        }
        let same = gpus[members[0]].place;
        let is_numbered = members.iter().skip(1).all(|at| gpus[*at].place != same);
        for (number, at) in (0..).zip(members) {
            let gpu = &mut gpus[at];
            if !is_numbered {
                gpu.place.location = gpu.card.location | number & 7;
            }
            gpu.partition = Some(if is_numbered {
                gpu.place.function()
            } else {
                number
            });
        }
    }
}

/// A node that is alone in its place is a card, also one at another function than 0 as virtual
/// functions are. It is a partition whose siblings are gone if the bus does not have it.
fn mark_single(root: &Path, gpu: &mut KfdGpu) {
    let is_on_bus = |place: PciPlace| root.join(PCI_DEVICES).join(place.to_string()).exists();
    if gpu.place.function() == 0 {
        return;
    }
    if is_on_bus(gpu.place) {
        gpu.card = gpu.place;
    } else {
        gpu.partition = Some(gpu.place.function());
    }
}

fn unreadable(node: u32) -> InventoryProblem {
    InventoryProblem {
        name: "kfd-unreadable".to_owned(),
        subject: None,
        evidence: format!("The properties of KFD's node {node} cannot be read."),
        remedy: "Look for amdgpu in the kernel log; reload the driver, or restart the machine."
            .to_owned(),
    }
}

fn duplicate(first: &KfdGpu, second: &KfdGpu) -> InventoryProblem {
    InventoryProblem {
        name: "kfd-duplicate".to_owned(),
        subject: Some(second.place.to_string()),
        evidence: format!(
            "KFD's node {} says that it is where node {} is; only the first is listed.",
            second.node, first.node
        ),
        remedy: "Reload the driver amdgpu, or restart the machine.".to_owned(),
    }
}

/// The numbers that are names in a directory, in their order.
fn numbers(dir: &Path) -> Vec<u32> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut numbers: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// None if the file cannot be read or has nothing.
fn properties(file: &Path) -> Option<Properties> {
    let text = fs::read_to_string(file).ok()?;
    let line = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    let found: Properties = text.lines().filter_map(line).collect();
    Some(found).filter(|found| !found.is_empty())
}

/// A number that old kernels do not have is 0.
fn number(found: &Properties, name: &str) -> u64 {
    found.get(name).copied().unwrap_or(0)
}
