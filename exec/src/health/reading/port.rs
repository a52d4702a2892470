//! Ports of the fabric, from `/sys/class/infiniband`.

use std::path::Path;

use muster_model::inventory::LinkLayer;

use crate::inventory::{fabric, kernel_file};

const ADAPTERS: &str = "sys/class/infiniband";
/// The counter of lost links has 8 bits, and stays at its top.
const LINK_DOWNED_TOP: u64 = 255;
const LINK_UP: u32 = 5;

/// One look at a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortReading {
    /// The adapter's name: `mlx5_0`.
    pub device: String,
    /// The port's number, from 1.
    pub port: u32,
    /// What runs on the wire.
    pub link_layer: LinkLayer,
    /// The kernel's word: ACTIVE, DOWN, INIT or ARMED.
    pub state: String,
    /// Whether the cable carries a signal. None where the kernel does not tell it.
    pub link_up: Option<bool>,
    /// How often the link was lost. None where the counter is at its top: its value then says
    /// nothing any more.
    pub link_downed: Option<u64>,
}

/// All ports of the machine whose file tree is at `root`.
pub fn ports(root: &Path) -> Vec<PortReading> {
    let (ports, _) = fabric::ports(root);
    let readings = ports.into_iter().map(|port| {
        let dir = root.join(format!("{ADAPTERS}/{}/ports/{}", port.device, port.port));
        let link = kernel_file::text(dir.join("phys_state"));
        let link = link.and_then(|text| text.split(':').next()?.trim().parse().ok());
        let downed = kernel_file::number(dir.join("counters/link_downed"));
        let downed = downed.and_then(|number| u64::try_from(number).ok());
        PortReading {
            device: port.device,
            port: port.port,
            link_layer: port.link_layer,
            state: port.state,
            link_up: link.map(|number: u32| number == LINK_UP),
            link_downed: downed.filter(|number| *number < LINK_DOWNED_TOP),
        }
    });
    readings.collect()
}
