//! What a machine has, read from its file tree and its drivers.
//!
//! Each vendor's reader gives a [`VendorInventory`]. The PCI bus is the second witness: what it
//! shows and no driver does is a problem with a remedy.

mod accepted;
mod access;
pub mod amd;
mod card;
mod cpu;
mod cpu_set;
pub mod fabric;
mod grant;
pub(crate) mod kernel_file;
mod levels;
mod memory;
mod nccl;
mod numa;
pub mod nvidia;
pub(crate) mod pci;
mod rules;
#[cfg(test)]
mod tests;
mod topology;
mod vendor;
mod witness;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_model::cluster_spec::Level;
use muster_model::inventory::{Accelerator, Inventory, InventoryProblem};
use muster_model::node::{DeviceLevel, NVIDIA};

use self::card::{Bus, ListedCards};
pub use self::grant::GrantedDevices;
use self::levels::DevicePlace;
use self::memory::MemInfo;
use self::nccl::NcclTopology;
use self::numa::NumaNodes;
use self::pci::{PciAddress, PciSlot};
use self::rules::AcceleratorRules;
use self::witness::DriversAsked;
pub use accepted::{AcceptedCard, AcceptedInventory};
pub use topology::topology;
pub use vendor::{DeviceAccess, DeviceListing, FoundDevice, VendorInventory};

/// PCI numbers of NVSwitches.
const NVIDIA_VENDOR: u32 = 0x10de;
const NVSWITCH_CLASS: u32 = 0x0680;
/// Where AMD's driver shows its devices.
const KFD: &str = "sys/class/kfd/kfd";
const MODULES: &str = "sys/module";

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventoryConfig {
    /// The machine's file tree.
    pub root: PathBuf,
    /// NVIDIA's driver library, if not where the loader finds it.
    pub nvml: Option<PathBuf>,
    /// The directory of rule files; `etc/muster/devices.d` below the root if none is named.
    pub rules: Option<PathBuf>,
    /// NCCL's topology file by its path below the root, as `NCCL_TOPO_FILE` names it.
    pub nccl_topology: Option<PathBuf>,
}

impl Default for InventoryConfig {
    fn default() -> Self {
        Self {
            root: "/".into(),
            nvml: None,
            rules: None,
            nccl_topology: None,
        }
    }
}

impl InventoryConfig {
    /// Whether NVIDIA's library is asked: of another machine's tree it knows nothing.
    fn asks_nvml(&self) -> bool {
        self.is_this_machine() || self.nvml.is_some()
    }

    fn is_this_machine(&self) -> bool {
        self.root == Path::new("/")
    }

    fn asked(&self) -> DriversAsked {
        let is_complete = self.is_this_machine() || self.root.join(MODULES).is_dir();
        DriversAsked {
            nvidia: self.asks_nvml(),
            amd: is_complete || self.root.join(KFD).is_dir(),
            modules: is_complete,
        }
    }
}

/// Why a directory is not the root of a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootError {
    /// There is no such directory.
    #[error("{} is no directory; name one that has a machine's proc and sys", .0.display())]
    NoDirectory(PathBuf),
    /// It has nothing of a machine.
    #[error("{} has neither proc nor sys; name the directory that has them{hint}", path.display())]
    NoMachine {
        /// The directory.
        path: PathBuf,
        /// A directory below it that has them, as the end of a sentence.
        hint: String,
    },
}

/// Whether a directory can be the root of a machine.
///
/// # Errors
/// When it is no directory, or has neither `proc` nor `sys`.
pub fn check_root(root: &Path) -> Result<(), RootError> {
    if !root.is_dir() {
        return Err(RootError::NoDirectory(root.to_owned()));
    }
    let is_root = |dir: &Path| dir.join("proc").is_dir() || dir.join("sys").is_dir();
    if is_root(root) {
        return Ok(());
    }
    let mut below = kernel_file::entries(root).into_iter().map(|(_, dir)| dir);
    let below = below.find(|dir| is_root(dir));
    let hint = below.map_or_else(String::new, |dir| format!(", such as {}", dir.display()));
    let path = root.to_owned();
    Err(RootError::NoMachine { path, hint })
}

/// CPUs and memory of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostResources {
    /// Logical CPUs that are online. 0 if the tree does not tell.
    pub cpus: u32,
    /// Memory that tasks can use, MiB. None if the tree does not tell.
    pub memory_mb: Option<u64>,
}

impl HostResources {
    /// Reads them from the file tree at `root`.
    pub fn read(root: &Path) -> Self {
        HostReadings::read(root).resources(root)
    }
}

/// What the readers of the host found.
struct HostReadings {
    online: cpu_set::CpuSet,
    info: Option<MemInfo>,
    numa: NumaNodes,
}

impl HostReadings {
    fn read(root: &Path) -> Self {
        let online = cpu::online(root);
        let info = MemInfo::read(root);
        let numa = NumaNodes::read(root, &online, info.as_ref().map(MemInfo::total_kb));
        Self { online, info, numa }
    }

    fn resources(&self, root: &Path) -> HostResources {
        let info = self.info.as_ref();
        HostResources {
            cpus: self.online.count(),
            memory_mb: info.map(|info| memory::usable_kb(root, info, &self.numa) / 1024),
        }
    }

    /// What is not known of the host. A tree without `proc` does not hold it.
    fn problems(&self, root: &Path) -> Vec<InventoryProblem> {
        let mut problems = Vec::new();
        let is_complete = root.join("proc").is_dir();
        if is_complete && self.info.is_none() {
            problems.push(unknown(
                "memory-unknown",
                "proc/meminfo does not tell the memory.",
            ));
        }
        if is_complete && self.online.is_empty() {
            let evidence = "Neither sys/devices/system/cpu nor proc/cpuinfo lists a CPU.";
            problems.push(unknown("cpus-unknown", evidence));
        }
        problems
    }
}

fn unknown(name: &str, evidence: &str) -> InventoryProblem {
    InventoryProblem {
        name: name.into(),
        subject: None,
        evidence: evidence.into(),
        remedy:
            "Mount /proc and /sys where the agent runs, or take the tree anew with these files."
                .into(),
    }
}

/// What one look at a machine gave.
#[derive(Clone, Debug)]
pub struct MachineLook {
    /// All that it has.
    pub inventory: Inventory,
    /// What of that tasks can get.
    pub granted: GrantedDevices,
    /// CPUs and memory.
    pub host: HostResources,
}

/// Looks at a machine once, for its inventory alone.
pub fn read(config: &InventoryConfig) -> Inventory {
    look(config).inventory
}

/// Looks at a machine once.
pub fn look(config: &InventoryConfig) -> MachineLook {
    let root = config.root.as_path();
    let host = HostReadings::read(root);
    let vendors = vendor_inventories(config);
    let (fabric, fabric_problems) = fabric::ports(root);
    let mut found = Devices::of_vendors(vendors);
    found.problems.extend(host.problems(root));
    found.problems.extend(fabric_problems);
    found.add_bus(config, &host.numa);
    let resources = host.resources(root);
    let granted = GrantedDevices::of(&found);
    let (devices, levels) = found.listed();
    let inventory = Inventory {
        cpus: resources.cpus,
        cores: cpu::cores(root, &host.online),
        memory_mb: resources.memory_mb.unwrap_or(0),
        numa: host
            .numa
            .nodes
            .iter()
            .map(numa::MemoryNode::to_model)
            .collect(),
        devices,
        fabric,
        levels,
        problems: found.problems,
    };
    MachineLook {
        inventory,
        granted,
        host: resources,
    }
}

/// What the readers of vendors' drivers give, in the order in which their devices are listed.
fn vendor_inventories(config: &InventoryConfig) -> Vec<VendorInventory> {
    let library = config.nvml.as_deref();
    let nvidia = config
        .asks_nvml()
        .then(|| nvidia::read(&config.root, library));
    nvidia
        .into_iter()
        .chain([amd::read(&config.root)])
        .collect()
}

/// Devices as far as they are known.
#[derive(Debug, Default)]
struct Devices {
    devices: Vec<FoundDevice>,
    levels: Vec<DeviceLevel>,
    problems: Vec<InventoryProblem>,
}

impl Devices {
    /// The list of what the machine has, and which of that lie near to each other.
    fn listed(&self) -> (Vec<Accelerator>, Vec<DeviceLevel>) {
        let mut devices = Vec::new();
        let mut place_of = BTreeMap::new();
        for (place, device) in (0..).zip(&self.devices) {
            if device.is_listed() {
                place_of.insert(place, u32::try_from(devices.len()).unwrap_or(u32::MAX));
                devices.push(device.accelerator.clone());
            }
        }
        (devices, levels::renumbered(&self.levels, &place_of))
    }

    fn of_vendors(vendors: Vec<VendorInventory>) -> Self {
        let mut all = Self::default();
        for vendor in vendors {
            let first = u32::try_from(all.devices.len()).unwrap_or(u32::MAX);
            all.add_levels(vendor.levels, first);
            all.devices.extend(vendor.devices);
            all.problems.extend(vendor.problems);
        }
        all
    }

    /// Adds a vendor's levels, whose device 0 is device `first` here. Levels of one kind become
    /// one: the vendors' devices are different ones.
    fn add_levels(&mut self, levels: Vec<DeviceLevel>, first: u32) {
        let earlier = std::mem::take(&mut self.levels);
        let mut left: Vec<Option<DeviceLevel>> = earlier.into_iter().map(Some).collect();
        let mut added = Vec::new();
        for mut level in levels {
            let groups = level.groups.iter_mut().flatten();
            groups.for_each(|device| *device += first);
            let same = left.iter_mut().find(|other| {
                other
                    .as_ref()
                    .is_some_and(|other| other.level == level.level)
            });
            let same = same.and_then(Option::take);
            let mut groups = same.map_or_else(Vec::new, |same| same.groups);
            groups.append(&mut level.groups);
            added.push(DeviceLevel { groups, ..level });
        }
        self.levels = added
            .into_iter()
            .chain(left.into_iter().flatten())
            .collect();
    }

    /// Adds what the bus shows: devices that no driver lists, NUMA nodes, levels, problems.
    fn add_bus(&mut self, config: &InventoryConfig, numa: &NumaNodes) {
        let root = config.root.as_path();
        let dir = config.rules.clone();
        let (rules, problems) =
            AcceleratorRules::read(&dir.unwrap_or_else(|| root.join(rules::RULE_DIR)));
        self.problems.extend(problems);
        let bus = Bus::read(root, &rules);
        let asked = config.asked();
        for card in bus.cards(root, &self.cards(), numa) {
            self.problems.extend(witness::problems(root, &card, asked));
            let access = access::access(root, &card);
            self.devices
                .push(FoundDevice::listed(card.accelerator, access));
        }
        self.leave_out(&bus);
        let (topology, problems) = NcclTopology::read(root, config.nccl_topology.as_deref());
        self.problems.extend(problems);
        self.add_numa(&bus, &topology, numa);
        self.add_links(&bus, &topology);
        self.levels
            .extend(levels::levels(&self.places(&bus, &topology)));
        levels::widest_first(&mut self.levels);
    }

    fn accelerators(&self) -> impl Iterator<Item = &Accelerator> {
        self.devices.iter().map(|device| &device.accelerator)
    }

    /// Devices that their driver lists and a rule leaves out.
    fn leave_out(&mut self, bus: &Bus<'_>) {
        for device in &mut self.devices {
            let slot = slot_of(&device.accelerator);
            if slot.is_some_and(|slot| bus.is_left_out(slot)) {
                device.listing = DeviceListing::LeftOut;
            }
        }
    }

    /// The cards that drivers list; a partition lists its card.
    fn cards(&self) -> ListedCards {
        let cards = self.accelerators().flat_map(|device| {
            let addresses = [&device.pci, &device.partition_of].into_iter();
            let slots = addresses.filter_map(|address| slot(address.as_deref()));
            slots.map(|slot| (slot, device.vendor.clone()))
        });
        cards.collect()
    }

    /// The NUMA nodes that drivers do not tell.
    fn add_numa(&mut self, bus: &Bus<'_>, topology: &NcclTopology, numa: &NumaNodes) {
        for device in self.devices.iter_mut().map(|it| &mut it.accelerator) {
            let slot = slot_of(device);
            let function = slot.and_then(|slot| bus.function(slot));
            let told = function.and_then(|function| function.numa.filter(|number| *number >= 0));
            let by_file = || slot.and_then(|slot| topology.numa(slot));
            let by_bus = numa.of_device(told);
            device.numa = device.numa.or(by_bus).or_else(by_file);
        }
    }

    /// Links between devices, where no driver told any: by NCCL's file, or by the switches that
    /// link all GPUs of a board.
    fn add_links(&mut self, bus: &Bus<'_>, topology: &NcclTopology) {
        if self.levels.iter().any(|level| level.level == Level::Nvlink) {
            return;
        }
        let slots: Vec<_> = self.accelerators().map(slot_of).collect();
        let links = topology.linked(&slots);
        self.levels.extend(links.or_else(|| self.nvswitched(bus)));
    }

    fn nvswitched(&self, bus: &Bus<'_>) -> Option<DeviceLevel> {
        let devices = (0..).zip(&self.devices);
        let listed = devices.filter(|(_, device)| device.is_listed());
        let gpus = listed.map(|(at, device)| (at, &device.accelerator));
        let gpus = gpus.filter(|(_, device)| device.vendor == NVIDIA);
        let gpus: Vec<(u32, &str)> = gpus
            .map(|(at, device)| (at, device.model.as_str()))
            .collect();
        let (_, first) = gpus.first()?;
        let is_board = gpus.len() > 1 && gpus.iter().all(|(_, model)| model == first);
        let has_switch = bus.has(NVIDIA_VENDOR, NVSWITCH_CLASS);
        (is_board && has_switch).then(|| DeviceLevel {
            level: Level::Nvlink,
            groups: vec![gpus.iter().map(|(at, _)| *at).collect()],
        })
    }

    fn places(&self, bus: &Bus<'_>, topology: &NcclTopology) -> Vec<DevicePlace> {
        let devices = self.devices.iter().enumerate();
        let places = devices.map(|(at, found)| {
            let device = &found.accelerator;
            let slot = slot_of(device);
            let function = slot.and_then(|slot| bus.function(slot));
            let by_bus = function.map(|function| {
                let bridges = function.bridges.iter();
                bridges.map(PciAddress::to_string).collect()
            });
            let by_file = slot
                .and_then(|slot| topology.bridges(slot))
                .map(<[String]>::to_vec);
            DevicePlace {
                model: format!("{} {}", device.vendor, device.model),
                card: slot.map_or_else(|| format!("device {at}"), |slot| format!("{slot:?}")),
                numa: device.numa,
                bridges: by_file.or(by_bus).unwrap_or_default(),
                is_listed: found.is_listed(),
            }
        });
        places.collect()
    }
}

/// The slot of a device, or of the card that it is a partition of.
fn slot_of(device: &Accelerator) -> Option<PciSlot> {
    slot(device.partition_of.as_deref().or(device.pci.as_deref()))
}

fn slot(address: Option<&str>) -> Option<PciSlot> {
    let address: PciAddress = address?.parse().ok()?;
    Some(address.slot)
}
