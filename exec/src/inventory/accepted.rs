//! The inventory that was accepted last: what a machine should have.
//!
//! A GPU that is gone since the machine started leaves no trace in the kernel log, and a machine
//! with fewer memory banks starts as well as before. Only a comparison with what was there shows
//! the loss.

use std::collections::BTreeMap;

use muster_model::inventory::{Accelerator, FabricPort, Inventory, InventoryProblem};
use serde::{Deserialize, Serialize};

/// A loss of memory below this, MiB, is the kernel's own: another kernel reserves more.
const MEMORY_SLACK_MB: u64 = 512;
/// And one below this share of all memory.
const MEMORY_SLACK_SHARE: u64 = 50;

/// What a machine should have. Additions join it at once; a loss stays missed until a person
/// accepts it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedInventory {
    /// Logical CPUs.
    pub cpus: u32,
    /// Memory that tasks can use, MiB.
    pub memory_mb: u64,
    /// Cards by PCI address. Partitions count as their card, because an administrator makes and
    /// removes them.
    pub cards: BTreeMap<String, AcceptedCard>,
    /// Ports for RDMA, as `mlx5_0/1`.
    pub ports: BTreeMap<String, String>,
}

/// A card of the accepted inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedCard {
    /// In small letters.
    pub vendor: String,
    /// As the driver or the table called it. Of partitions the first one's.
    pub model: String,
}

impl AcceptedInventory {
    /// All that an inventory has.
    pub fn of(found: &Inventory) -> Self {
        let cards = found.devices.iter().filter_map(card);
        let ports = found.fabric.iter().map(|port| {
            let layer = port.link_layer.to_string();
            (port_name(port), layer)
        });
        Self {
            cpus: found.cpus,
            memory_mb: found.memory_mb,
            // The first of several partitions counts.
            cards: cards.rev().collect(),
            ports: ports.collect(),
        }
    }

    /// What is missing now of what was accepted, a problem each.
    pub fn missing(&self, found: &Inventory) -> Vec<InventoryProblem> {
        let now = Self::of(found);
        let cards = self.cards.iter();
        let cards = cards.filter(|(pci, _)| !now.cards.contains_key(*pci));
        let cards = cards.map(|(pci, card)| {
            let AcceptedCard { vendor, model } = card;
            missing("device-missing", Some(pci), format!("{vendor} {model}"))
        });
        let ports = self.ports.iter();
        let ports = ports.filter(|(name, _)| !now.ports.contains_key(*name));
        let ports = ports
            .map(|(name, layer)| missing("port-missing", Some(name), format!("this {layer} port")));
        let cpus = (now.cpus < self.cpus).then(|| {
            let what = format!("{} CPUs, of which {} are online now", self.cpus, now.cpus);
            missing("cpus-missing", None, what)
        });
        let memory = self.has_less_memory(now.memory_mb).then(|| {
            let (had, has) = (self.memory_mb, now.memory_mb);
            let what = format!("{had} MiB of memory, of which {has} are there now");
            missing("memory-missing", None, what)
        });
        cards.chain(ports).chain(cpus).chain(memory).collect()
    }

    /// Takes in what is new; what is missing stays. Returns whether that changed anything.
    pub fn extend(&mut self, found: &Inventory) -> bool {
        let before = self.clone();
        let now = Self::of(found);
        self.cpus = self.cpus.max(now.cpus);
        self.memory_mb = self.memory_mb.max(now.memory_mb);
        // A card that was replaced by another one in its slot is the new one.
        self.cards.extend(now.cards);
        self.ports.extend(now.ports);
        *self != before
    }

    fn has_less_memory(&self, now_mb: u64) -> bool {
        let slack = MEMORY_SLACK_MB.max(self.memory_mb / MEMORY_SLACK_SHARE);
        self.memory_mb.saturating_sub(now_mb) > slack
    }
}

/// A card by its address; none for a device that is on no PCI bus.
fn card(device: &Accelerator) -> Option<(String, AcceptedCard)> {
    let pci = device.partition_of.as_ref().or(device.pci.as_ref())?;
    let (vendor, model) = (device.vendor.clone(), device.model.clone());
    Some((pci.clone(), AcceptedCard { vendor, model }))
}

fn port_name(port: &FabricPort) -> String {
    format!("{}/{}", port.device, port.port)
}

fn missing(name: &str, subject: Option<&String>, what: String) -> InventoryProblem {
    InventoryProblem {
        name: name.to_owned(),
        subject: subject.cloned(),
        evidence: format!("The machine had {what}."),
        remedy: "Look for a loose card, a failed part or a setting of the firmware. If the change \
                 was meant, run `muster node accept` on the machine."
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use muster_model::inventory::{AcceleratorKind, LinkLayer};

    use super::*;

    fn device(pci: &str, model: &str) -> Accelerator {
        Accelerator {
            kind: AcceleratorKind::Gpu,
            vendor: "nvidia".to_owned(),
            model: model.to_owned(),
            pci: Some(pci.to_owned()),
            numa: None,
            memory_mb: 0,
            partition_of: None,
        }
    }

    fn part(card: &str, model: &str) -> Accelerator {
        Accelerator {
            partition_of: Some(card.to_owned()),
            ..device(card, model)
        }
    }

    fn port(name: &str) -> FabricPort {
        FabricPort {
            device: name.to_owned(),
            port: 1,
            link_layer: LinkLayer::InfiniBand,
            state: "ACTIVE".to_owned(),
            rate_gbps: 400,
        }
    }

    fn machine() -> Inventory {
        Inventory {
            cpus: 64,
            memory_mb: 512_000,
            devices: vec![
                device("0000:1a:00.0", "H100"),
                part("0000:3b:00.0", "1g.10gb"),
            ],
            fabric: vec![port("mlx5_0"), port("mlx5_1")],
            ..Inventory::default()
        }
    }

    fn shown(problems: &[InventoryProblem]) -> Vec<String> {
        let shown = problems.iter().map(|problem| {
            let subject = problem.subject.as_deref().unwrap_or("machine");
            format!("{} {subject}: {}", problem.name, problem.evidence)
        });
        shown.collect()
    }

    #[test]
    fn each_loss_is_missed() {
        let accepted = AcceptedInventory::of(&machine());
        assert_eq!(accepted.missing(&machine()), []);
        let mut now = machine();
        now.devices.remove(0);
        now.fabric.remove(1);
        (now.cpus, now.memory_mb) = (32, 384_000);
        let expect = [
            "device-missing 0000:1a:00.0: The machine had nvidia H100.",
            "port-missing mlx5_1/1: The machine had this InfiniBand port.",
            "cpus-missing machine: The machine had 64 CPUs, of which 32 are online now.",
            "memory-missing machine: The machine had 512000 MiB of memory, of which 384000 are \
             there now.",
        ];
        assert_eq!(shown(&accepted.missing(&now)), expect);
    }

    #[test]
    fn what_an_administrator_or_another_kernel_changes_is_not_missed() {
        let accepted = AcceptedInventory::of(&machine());
        let mut now = machine();
        now.memory_mb -= 512_000 / MEMORY_SLACK_SHARE;
        // Other instances of the card, and then none.
        now.devices.splice(
            1..,
            [
                part("0000:3b:00.0", "3g.40gb"),
                part("0000:3b:00.0", "3g.40gb"),
            ],
        );
        assert_eq!(accepted.missing(&now), []);
        now.devices.splice(1.., [device("0000:3b:00.0", "A100")]);
        assert_eq!(accepted.missing(&now), []);
        now.memory_mb -= 1;
        assert_eq!(accepted.missing(&now).len(), 1);
    }

    #[test]
    fn what_is_new_joins_and_what_is_missing_stays_missed() {
        let mut accepted = AcceptedInventory::of(&machine());
        assert!(!accepted.extend(&machine()));
        let mut now = machine();
        now.devices[0] = device("0000:af:00.0", "H200");
        assert!(accepted.extend(&now));
        assert!(!accepted.extend(&now), "it has joined");
        let missing = |now: &Inventory| shown(&accepted.missing(now));
        let first = "device-missing 0000:1a:00.0: The machine had nvidia H100.";
        assert_eq!(missing(&now), [first]);
        now.devices.remove(0);
        let second = "device-missing 0000:af:00.0: The machine had nvidia H200.";
        assert_eq!(missing(&now), [first, second]);
        // Accepted as it is: nothing is missed any more.
        assert_eq!(AcceptedInventory::of(&now).missing(&now), []);
    }
}
