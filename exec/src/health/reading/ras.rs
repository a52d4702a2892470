//! AMD's GPUs: whether the kernel's topology of compute devices (KFD) has them, and the counters
//! of their RAS.

use std::path::Path;

use crate::inventory::kernel_file::{entries, hex, number, numbered, text};
use crate::inventory::pci::PciAddress;

const CARDS: &str = "sys/class/drm";
const KFD_NODES: &str = "sys/class/kfd/kfd/topology/nodes";
const AMD: u32 = 0x1002;
const COUNTER: &str = "_err_count";

/// One look at a GPU of AMD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmdReading {
    /// Its PCI address in the kernel's form.
    pub pci: String,
    /// Whether KFD has it: programs cannot compute on it without.
    pub in_kfd: bool,
    /// Errors that were not corrected, since the driver was loaded, by the GPU's block. Blocks
    /// that count none are left out.
    pub uncorrected: Vec<(String, u64)>,
    /// Errors that were corrected, in all blocks. None if the driver counts none.
    pub corrected: Option<u64>,
}

/// AMD's GPUs with a DRM card, of the machine whose file tree is at `root`. It reads no file
/// that the driver takes long to make.
pub fn amd(root: &Path) -> Vec<AmdReading> {
    let in_kfd = kfd_minors(root);
    let cards = numbered(root.join(CARDS), "card").into_iter();
    let readings = cards.filter_map(|(_, card)| {
        let device = card.join("device");
        (hex(device.join("vendor")) == Some(AMD)).then_some(())?;
        let pci = address(&device)?;
        let (mut uncorrected, mut corrected) = (Vec::new(), None);
        for (name, path) in entries(device.join("ras")) {
            let Some(block) = name.strip_suffix(COUNTER) else {
                continue;
            };
            let counts = text(path).unwrap_or_default();
            match count(&counts, "ue:") {
                Some(errors) if errors > 0 => uncorrected.push((block.to_owned(), errors)),
                _ => {}
            }
            if let Some(errors) = count(&counts, "ce:") {
                corrected = Some(corrected.unwrap_or(0) + errors);
            }
        }
        let minors = entries(device.join("drm")).into_iter();
        let mut minors = minors.filter_map(|(name, _)| name.strip_prefix("renderD")?.parse().ok());
        Some(AmdReading {
            pci,
            in_kfd: minors.any(|minor: i64| in_kfd.contains(&minor)),
            uncorrected,
            corrected,
        })
    });
    readings.collect()
}

/// `uevent` has the address also in trees whose links lead nowhere.
fn address(device: &Path) -> Option<String> {
    let uevent = text(device.join("uevent")).unwrap_or_default();
    let by_uevent = uevent
        .lines()
        .find_map(|line| line.strip_prefix("PCI_SLOT_NAME="));
    let target = std::fs::canonicalize(device).ok();
    let by_link = || Some(target?.file_name()?.to_str()?.to_owned());
    let text = by_uevent.map(str::to_owned).or_else(by_link)?;
    text.parse()
        .ok()
        .map(|address: PciAddress| address.to_string())
}

/// The render nodes of the GPUs that KFD has.
fn kfd_minors(root: &Path) -> Vec<i64> {
    let nodes = numbered(root.join(KFD_NODES), "").into_iter();
    let minors = nodes.filter_map(|(_, node)| {
        number(node.join("gpu_id")).filter(|id| *id != 0)?;
        let properties = text(node.join("properties"))?;
        let mut lines = properties.lines();
        let minor = lines.find_map(|line| line.strip_prefix("drm_render_minor "))?;
        minor.trim().parse().ok()
    });
    minors.collect()
}

fn count(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(name))?;
    line.trim().parse().ok()
}
