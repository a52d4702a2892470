//! The topology file of NCCL, with which images for virtual machines tell the switches and links
//! that the machine's own sysfs does not show.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use muster_model::cluster_spec::Level;
use muster_model::inventory::InventoryProblem;
use muster_model::node::DeviceLevel;
use xml::attribute::OwnedAttribute;
use xml::reader::{EventReader, XmlEvent};

use super::kernel_file::text;
use super::pci::{PciAddress, PciSlot};

/// Where NCCL's settings are, below the root.
const SETTINGS: &str = "etc/nccl.conf";
/// Where NVIDIA's daemon for virtual machines puts the file.
const DAEMON_FILES: &[&str] = &[
    "run/nvidia-topologyd/virtualTopology.xml",
    "var/run/nvidia-topologyd/virtualTopology.xml",
];
/// Where AWS's plugin has a file for each type of machine.
const AWS_DIRS: &[&str] = &[
    "opt/amazon/ofi-nccl/share/aws-ofi-nccl/xml",
    "opt/aws-ofi-nccl/share/aws-ofi-nccl/xml",
];
const PRODUCT: &str = "sys/class/dmi/id/product_name";
const BRIDGE_CLASS: &str = "0x0604";
/// Classes of GPUs and of NVSwitches: what a link between GPUs leads to.
const LINK_CLASSES: &[&str] = &["0x0300", "0x0302", "0x0380", "0x1200", "0x0680"];
/// No machine has a larger file.
const BYTES_MAX: u64 = 4 << 20;

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NcclTopology {
    /// The bridges above each device, the outermost first.
    bridges: BTreeMap<PciSlot, Vec<String>>,
    numa: BTreeMap<PciSlot, u32>,
    /// NVLink or xGMI: a device, and what it is linked to, a device or a switch.
    links: Vec<(PciSlot, String)>,
}

impl NcclTopology {
    /// The file of a machine, if it has one. `named` is the value of `NCCL_TOPO_FILE`.
    pub(super) fn read(root: &Path, named: Option<&Path>) -> (Self, Vec<InventoryProblem>) {
        let named = named.map(|path| below(root, path));
        // The environment is this machine's: another one's tree need not have the file.
        let named = named.filter(|file| root == Path::new("/") || file.is_file());
        let setting = || setting(root).map(|path| below(root, &path));
        let file = named.or_else(setting).or_else(|| usual_file(root));
        match file.map(|file| (parse_file(&file), file)) {
            None => (Self::default(), Vec::new()),
            Some((Ok(topology), _)) => (topology, Vec::new()),
            Some((Err(why), file)) => (Self::default(), vec![unusable(&file, &why)]),
        }
    }

    pub(super) fn bridges(&self, slot: PciSlot) -> Option<&[String]> {
        let bridges = self.bridges.get(&slot)?;
        (!bridges.is_empty()).then_some(bridges)
    }

    pub(super) fn numa(&self, slot: PciSlot) -> Option<u32> {
        self.numa.get(&slot).copied()
    }

    /// Devices that are linked to each other, directly or through others.
    pub(super) fn linked(&self, slots: &[Option<PciSlot>]) -> Option<DeviceLevel> {
        let mut parts: Vec<BTreeSet<String>> = Vec::new();
        for (slot, target) in &self.links {
            let ends = [name(*slot), target.clone()];
            let (mut joined, rest): (Vec<_>, Vec<_>) = parts
                .into_iter()
                .partition(|part| ends.iter().any(|end| part.contains(end)));
            parts = rest;
            joined.push(ends.into());
            parts.push(joined.into_iter().flatten().collect());
        }
        let of_part = |part: &BTreeSet<String>| -> Vec<u32> {
            let devices = (0..).zip(slots);
            let linked =
                devices.filter(|(_, slot)| slot.is_some_and(|slot| part.contains(&name(slot))));
            linked.map(|(device, _)| device).collect()
        };
        let groups = parts.iter().map(of_part).filter(|group| group.len() > 1);
        let mut groups: Vec<Vec<u32>> = groups.collect();
        groups.sort();
        let level = Level::Nvlink;
        (!groups.is_empty()).then_some(DeviceLevel { level, groups })
    }

    fn parse(reader: impl std::io::Read) -> Result<Self, String> {
        let mut topology = Self::default();
        let mut open: Vec<Element> = Vec::new();
        for event in EventReader::new(reader) {
            match event.map_err(|error| error.to_string())? {
                XmlEvent::StartElement {
                    name, attributes, ..
                } => {
                    let element = Element::of(&name.local_name, &attributes);
                    topology.take(&open, &element, &attributes);
                    open.push(element);
                }
                XmlEvent::EndElement { .. } => {
                    open.pop();
                }
                _ => {}
            }
        }
        Ok(topology)
    }

    /// Takes an element that stands within those that are `open`.
    fn take(&mut self, open: &[Element], element: &Element, attributes: &[OwnedAttribute]) {
        match element {
            Element::Device(slot) => {
                let bridges = open.iter().filter_map(Element::bridge);
                self.bridges
                    .insert(*slot, bridges.map(str::to_owned).collect());
                let numa = open.iter().find_map(Element::numa);
                self.numa.extend(numa.map(|numa| (*slot, numa)));
            }
            Element::Link(target) => {
                let class = attribute(attributes, "tclass").unwrap_or("0x0302");
                let is_device = LINK_CLASSES.iter().any(|prefix| class.starts_with(prefix));
                let device = open.iter().rev().find_map(Element::device);
                self.links.extend(
                    device
                        .filter(|_| is_device)
                        .map(|slot| (slot, target.clone())),
                );
            }
            Element::Cpu(_) | Element::Bridge(_) | Element::Other => {}
        }
    }
}

/// An element of the file, as far as it matters here.
#[derive(Clone, Debug)]
enum Element {
    Cpu(Option<u32>),
    Bridge(String),
    Device(PciSlot),
    Link(String),
    Other,
}

impl Element {
    fn of(name: &str, attributes: &[OwnedAttribute]) -> Self {
        let attribute = |name| attribute(attributes, name);
        match name {
            "cpu" => Self::Cpu(attribute("numaid").and_then(|id| id.parse().ok())),
            "pci" => {
                let bus = attribute("busid").unwrap_or_default();
                if attribute("class").is_some_and(|class| class.starts_with(BRIDGE_CLASS)) {
                    return Self::Bridge(bus.to_owned());
                }
                bus.parse().map_or(Self::Other, |address: PciAddress| {
                    Self::Device(address.slot)
                })
            }
            "nvlink" | "xgmi" => attribute("target").map_or(Self::Other, |target| {
                let slot = target.parse().map(|address: PciAddress| name_of(address));
                Self::Link(slot.unwrap_or_else(|_| target.to_owned()))
            }),
            _ => Self::Other,
        }
    }

    fn bridge(&self) -> Option<&str> {
        match self {
            Self::Bridge(bus) => Some(bus),
            _ => None,
        }
    }

    fn numa(&self) -> Option<u32> {
        match self {
            Self::Cpu(numa) => *numa,
            _ => None,
        }
    }

    fn device(&self) -> Option<PciSlot> {
        match self {
            Self::Device(slot) => Some(*slot),
            _ => None,
        }
    }
}

fn attribute<'a>(attributes: &'a [OwnedAttribute], name: &str) -> Option<&'a str> {
    let found = attributes.iter().find(|one| one.name.local_name == name);
    found.map(|one| one.value.as_str())
}

/// What an end of a link is called.
fn name(slot: PciSlot) -> String {
    PciAddress { slot, function: 0 }.to_string()
}

fn name_of(address: PciAddress) -> String {
    name(address.slot)
}

/// `NCCL_TOPO_FILE=/opt/microsoft/ndv4-topo.xml` in NCCL's settings.
fn setting(root: &Path) -> Option<PathBuf> {
    let text = text(root.join(SETTINGS))?;
    let mut settings = text.lines().filter_map(|line| line.split_once('='));
    let (_, file) = settings.find(|(name, _)| name.trim() == "NCCL_TOPO_FILE")?;
    Some(file.trim().into())
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn usual_file(root: &Path) -> Option<PathBuf> {
    let daemon = DAEMON_FILES.iter().map(|file| root.join(file));
    let aws = aws_names(root).into_iter();
    let aws = aws.flat_map(|name| AWS_DIRS.iter().map(move |dir| root.join(dir).join(&name)));
    daemon.chain(aws).find(|file| file.is_file())
}

/// The names of AWS's files for this type of machine: `p4d-24xl-topo.xml` for p4d.24xlarge.
fn aws_names(root: &Path) -> Vec<String> {
    let product = text(root.join(PRODUCT)).unwrap_or_default();
    let Some((family, size)) = product.split_once('.') else {
        return Vec::new();
    };
    let size = size.replace("xlarge", "xl");
    let names = ["-", "."].map(|sign| format!("{family}{sign}{size}-topo.xml"));
    names.into()
}

fn parse_file(path: &Path) -> Result<NcclTopology, String> {
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    let size = file.metadata().map_err(|error| error.to_string())?.len();
    if size > BYTES_MAX {
        return Err(format!("it has {size} bytes, more than {BYTES_MAX}"));
    }
    NcclTopology::parse(std::io::BufReader::new(file))
}

fn unusable(path: &Path, why: &str) -> InventoryProblem {
    InventoryProblem {
        name: "topology-file".into(),
        subject: Some(path.display().to_string()),
        evidence: format!("The topology file of NCCL is not used: {why}."),
        remedy:
            "Correct the file, or take NCCL_TOPO_FILE out of /etc/nccl.conf and the environment."
                .into(),
    }
}
