//! Whether a device's PCI link has all its lanes.
//!
//! The speed says nothing: GPUs lower it while they are idle. A card may have more lanes than its slot, so the slot's
//! number counts where it is smaller.

use std::path::Path;

use muster_model::diagnosis::Diagnosis;
use muster_model::health::HealthState;
use muster_model::inventory::Accelerator;

use super::number;

const PCI_DEVICES: &str = "sys/bus/pci/devices";
/// What the kernel says where the link has no number of lanes: of devices of a virtual machine.
const NO_LANES: [u32; 2] = [0, 255];

/// What the kernel tells of the link; none of a device without one.
pub(super) fn look(root: &Path, device: &Accelerator) -> Option<Diagnosis> {
    let pci = device.pci.as_deref()?;
    let dir = root.join(PCI_DEVICES).join(pci);
    let lanes = |dir: &Path, name: &str| number(dir, name).filter(|it| !NO_LANES.contains(it));
    let now = lanes(&dir, "current_link_width")?;
    let own = lanes(&dir, "max_link_width")?;
    let slot = std::fs::canonicalize(&dir).ok();
    let slot = slot.as_deref().and_then(Path::parent);
    let slot = slot.and_then(|slot| lanes(slot, "max_link_width"));
    let most = own.min(slot.unwrap_or(own));
    let (state, evidence) = if now < most {
        let what = format!(
            "{now} of {most} lanes are in use. Take the card out and put it back, then try another slot."
        );
        (HealthState::Bad, what)
    } else {
        (HealthState::Good, format!("{now} lanes"))
    };
    Some(Diagnosis {
        test: "pci-link".to_owned(),
        part: pci.to_owned(),
        state,
        evidence,
        took_ms: 0,
    })
}
