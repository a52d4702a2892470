//! Ports of network adapters that do RDMA, as the kernel's files tell them.

mod discover;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fs;
use std::path::Path;

use muster_model::inventory::{FabricPort, InventoryProblem, LinkLayer};

pub use discover::{FabricHost, FabricMap, discovered};

const ADAPTERS: &str = "sys/class/infiniband";
/// The kernel's word for a port that carries data.
pub const ACTIVE: &str = "ACTIVE";

/// A port's files, each without the number before its word.
struct PortFiles {
    /// Of `4: ACTIVE` the word.
    state: String,
    /// Of `5: LinkUp` the number: newer numbers have no word.
    phys_state: Option<u32>,
    /// `InfiniBand`, `Ethernet`, `Unknown`.
    link_layer: String,
    /// `100 Gb/sec (4X EDR)`.
    rate: String,
}

/// Whether the cable of a port carries anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PhysicalLink {
    /// It is up.
    Up,
    /// The port looks for a peer, or loses it again and again.
    Seeking,
    /// The port has given up, or has been told to: Omni-Path's state 9.
    Offline,
    /// Nothing is plugged in, or the port is off on purpose.
    Unused,
}

/// Every port of the machine whose file tree is at `root`, by name and number, and what is wrong
/// with them. A port that nothing is plugged into has no problem. Counters are not asked: they
/// stay at their top, and tell nothing of now.
pub fn ports(root: &Path) -> (Vec<FabricPort>, Vec<InventoryProblem>) {
    let (mut ports, mut problems) = (Vec::new(), Vec::new());
    for device in names(&root.join(ADAPTERS)) {
        let adapter = root.join(ADAPTERS).join(&device);
        for number in names(&adapter.join("ports")) {
            let Ok(number) = number.parse() else {
                continue;
            };
            match port(&adapter, &device, number) {
                Ok((port, link)) => {
                    problems.extend(problem(&port, link));
                    ports.push(port);
                }
                Err(problem) => problems.push(*problem),
            }
        }
    }
    (ports, problems)
}

/// The InfiniBand ports that are active on the machine whose file tree is at `root`. Ports of
/// Ethernet, Omni-Path and EFA are none.
pub fn active_infiniband(root: &Path) -> Vec<FabricPort> {
    let (mut ports, _) = ports(root);
    ports.retain(|port| port.link_layer == LinkLayer::InfiniBand && port.state == ACTIVE);
    ports
}

/// The PCI address of a network adapter by its name, `mlx5_0`, if it is on the bus.
pub fn adapter_pci(root: &Path, device: &str) -> Option<String> {
    let link = fs::read_link(root.join(ADAPTERS).join(device).join("device")).ok()?;
    link.file_name()?.to_str().map(str::to_owned)
}

/// What is in a directory, in the order that people count in; nothing if there is none.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort_by(|a, b| natural(a, b));
    names
}

/// `mlx5_2` before `mlx5_10`.
fn natural(a: &str, b: &str) -> Ordering {
    parts(a).cmp(&parts(b)).then_with(|| a.cmp(b))
}

/// A name in pieces: the text before a number, and the number.
fn parts(name: &str) -> Vec<(&str, u64)> {
    let mut rest = name;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let text = rest.find(|c: char| c.is_ascii_digit());
        let (text, tail) = rest.split_at(text.unwrap_or(rest.len()));
        let digits = tail.find(|c: char| !c.is_ascii_digit());
        let (digits, tail) = tail.split_at(digits.unwrap_or(tail.len()));
        parts.push((text, digits.parse().unwrap_or(0)));
        rest = tail;
    }
    parts
}

fn port(
    adapter: &Path,
    device: &str,
    number: u32,
) -> Result<(FabricPort, PhysicalLink), Box<InventoryProblem>> {
    let unreadable = |evidence| {
        Box::new(InventoryProblem {
            name: "port-unreadable".to_owned(),
            subject: Some(format!("{device}/{number}")),
            evidence,
            remedy: "Look for the adapter's driver in the kernel log; reload it, or restart the \
                     machine."
                .to_owned(),
        })
    };
    let files = PortFiles::read(&adapter.join("ports").join(number.to_string()))
        .map_err(|file| unreadable(format!("The kernel's file {file} of the port has no word.")))?;
    let driver = driver(adapter);
    let link_layer = link_layer(device, driver.as_deref(), &files.link_layer).ok_or_else(|| {
        let (word, driver) = (&files.link_layer, driver.as_deref().unwrap_or("unknown"));
        unreadable(format!(
            "The port's link layer is {word}, which is not known of the driver {driver}."
        ))
    })?;
    let port = FabricPort {
        device: device.to_owned(),
        port: number,
        link_layer,
        state: files.state,
        rate_gbps: rate_gbps(&files.rate),
    };
    Ok((port, PhysicalLink::new(files.phys_state)))
}

impl PortFiles {
    /// The name of the file that cannot be read is the error.
    fn read(dir: &Path) -> Result<Self, &'static str> {
        let word = |file: &'static str| {
            let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
            let text = text.trim().to_owned();
            Some(text).filter(|text| !text.is_empty()).ok_or(file)
        };
        let state = word("state")?;
        let (_, state) = state.split_once(':').ok_or("state")?;
        // Some drivers have no file of these; then the state decides alone.
        let phys_state = word("phys_state").unwrap_or_default();
        let number = phys_state.split(':').next().unwrap_or_default();
        Ok(Self {
            state: state.trim().to_owned(),
            phys_state: number.parse().ok(),
            link_layer: word("link_layer")?,
            rate: word("rate").unwrap_or_default(),
        })
    }
}

/// The adapter's driver, where its device tells it.
fn driver(adapter: &Path) -> Option<String> {
    let link = fs::read_link(adapter.join("device/driver")).ok()?;
    link.file_name()?.to_str().map(str::to_owned)
}

/// What runs on the wire. Omni-Path's driver writes InfiniBand, that of EFA writes Unknown.
fn link_layer(device: &str, driver: Option<&str>, word: &str) -> Option<LinkLayer> {
    // Without a driver the name tells: hfi1_0 as the kernel counts, opap23s0 as udev renames it.
    let is_omni_path = match driver {
        Some(driver) => driver == "hfi1",
        None => device.starts_with("hfi1_") || device.starts_with("opa"),
    };
    match word {
        "InfiniBand" if is_omni_path => Some(LinkLayer::OmniPath),
        "InfiniBand" => Some(LinkLayer::InfiniBand),
        "Ethernet" => Some(LinkLayer::Ethernet),
        "Unknown" if driver.is_none_or(|driver| driver == "efa") => Some(LinkLayer::Efa),
        _ => None,
    }
}

/// Of `100 Gb/sec (4X EDR)` 100. Only whole gigabits count: 2 of `2.5 Gb/sec (1X SDR)`.
fn rate_gbps(text: &str) -> u32 {
    let number = text.split_once(" Gb/sec").map_or("", |(number, _)| number);
    let whole = number.split('.').next().unwrap_or_default();
    whole.parse().unwrap_or(0)
}

impl PhysicalLink {
    /// By the number in the kernel's file, as the InfiniBand specification has them.
    fn new(number: Option<u32>) -> Self {
        match number {
            Some(5) => Self::Up,
            // Polling, training, recovering from errors.
            Some(2 | 4 | 6) => Self::Seeking,
            Some(9) => Self::Offline,
            _ => Self::Unused,
        }
    }
}

/// What is wrong with a port, if anything.
fn problem(port: &FabricPort, link: PhysicalLink) -> Option<InventoryProblem> {
    let needs_manager = matches!(port.link_layer, LinkLayer::InfiniBand | LinkLayer::OmniPath);
    let manager = match port.link_layer {
        LinkLayer::OmniPath => "fabric manager",
        _ => "subnet manager",
    };
    let (name, evidence, remedy) = match (&*port.state, link) {
        ("INIT", PhysicalLink::Up) if needs_manager => (
            "no-subnet-manager",
            format!("The port's link is up, but it is INIT: no {manager} has set it up."),
            format!("Start the fabric's {manager}, or ask who runs it; the cable is well."),
        ),
        ("ARMED", PhysicalLink::Up) if needs_manager => (
            "port-not-activated",
            format!("The port's link is up, but it is ARMED: the {manager} has not activated it."),
            format!("Wait some seconds; if it stays so, look at the fabric's {manager}."),
        ),
        // A virtual function whose link is up and that is DOWN is kept so by the host it is of.
        ("DOWN" | "INIT" | "ARMED", PhysicalLink::Seeking) => (
            "no-link",
            format!("The port is {}: it finds no peer on its cable.", port.state),
            "Check the cable and the port at its other end.".to_owned(),
        ),
        ("DOWN", PhysicalLink::Offline) => (
            "no-link",
            "The port is DOWN and its link is offline.".to_owned(),
            "Check the cable and the port at its other end; enable the port if it was disabled."
                .to_owned(),
        ),
        _ => return None,
    };
    Some(InventoryProblem {
        name: name.to_owned(),
        subject: Some(format!("{}/{}", port.device, port.port)),
        evidence,
        remedy,
    })
}
