//! Variables for libraries of collective communication, NCCL and Gloo, of tasks whose job has tasks on other machines:
//! the network card that the other tasks reach the task by, and the ports that carry its data.
//!
//! Left to itself, NCCL takes the first card that is up, often a bridge for containers, and all RDMA ports that are
//! active, also those of the storage. These are defaults: an image or a job that sets a variable wins.

use std::collections::BTreeMap;
use std::net::IpAddr;

use muster_exec::inventory::fabric::ACTIVE;
use muster_model::inventory::FabricPort;

/// What a machine has for it.
#[derive(Debug)]
pub(super) struct CollectiveLinks {
    /// The addresses of network cards, by the name of the card.
    pub(super) cards: Vec<(String, IpAddr)>,
    /// The ports for RDMA, of a task that may use them.
    pub(super) ports: Vec<FabricPort>,
}

impl CollectiveLinks {
    /// Reads them from the machine.
    pub(super) fn read(infiniband: bool) -> Self {
        let root = std::path::Path::new("/");
        let ports = infiniband.then(|| muster_exec::inventory::fabric::ports(root).0);
        Self {
            cards: cards(),
            ports: ports.unwrap_or_default(),
        }
    }

    /// The variables of a task that is reached at `address`.
    pub(super) fn variables(&self, address: &str) -> BTreeMap<String, String> {
        let mut variables = BTreeMap::new();
        if let Some(card) = self.card(address) {
            // NCCL takes a name for the beginning of names; with "=" it is the whole name.
            variables.insert("NCCL_SOCKET_IFNAME".to_owned(), format!("={card}"));
            variables.insert("GLOO_SOCKET_IFNAME".to_owned(), card.to_owned());
        }
        if let Some(ports) = self.fastest() {
            variables.insert("NCCL_IB_HCA".to_owned(), format!("={ports}"));
        }
        variables
    }

    fn card(&self, address: &str) -> Option<&str> {
        let address: IpAddr = address.parse().ok()?;
        let mut cards = self.cards.iter();
        let (card, _) = cards.find(|(_, of_card)| *of_card == address)?;
        Some(card)
    }

    /// The ports with the highest rate of those that are active. None if these are all active ports, because NCCL
    /// finds those by itself.
    fn fastest(&self) -> Option<String> {
        let active = self.ports.iter().filter(|port| port.state == ACTIVE);
        let rate = active.clone().map(|port| port.rate_gbps).max()?;
        let fastest = active.clone().filter(|port| port.rate_gbps == rate);
        let names: Vec<_> = fastest
            .map(|port| format!("{}:{}", port.device, port.port))
            .collect();
        (names.len() < active.count()).then(|| names.join(","))
    }
}

/// Every address of every network card; none if the kernel does not tell them.
fn cards() -> Vec<(String, IpAddr)> {
    let Ok(addresses) = nix::ifaddrs::getifaddrs() else {
        return Vec::new();
    };
    let of_card = |card: nix::ifaddrs::InterfaceAddress| {
        let address = card.address?;
        let v4 = address.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
        let v6 = || address.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip()));
        Some((card.interface_name, v4.or_else(v6)?))
    };
    addresses.filter_map(of_card).collect()
}

#[cfg(test)]
mod tests {
    use muster_model::inventory::LinkLayer;

    use super::*;

    fn port(device: &str, state: &str, rate_gbps: u32) -> FabricPort {
        FabricPort {
            device: device.to_owned(),
            port: 1,
            link_layer: LinkLayer::InfiniBand,
            state: state.to_owned(),
            rate_gbps,
        }
    }

    fn links(ports: &[FabricPort]) -> CollectiveLinks {
        let cards = [
            ("docker0", "172.17.0.1"),
            ("eth1", "10.0.0.7"),
            ("eth1", "fd00::7"),
        ];
        let cards = cards.map(|(card, address)| (card.to_owned(), address.parse().unwrap()));
        CollectiveLinks {
            cards: cards.to_vec(),
            ports: ports.to_vec(),
        }
    }

    #[test]
    fn the_card_is_that_of_the_tasks_address() {
        for address in ["10.0.0.7", "fd00::7"] {
            let variables = links(&[]).variables(address);
            assert_eq!(variables["NCCL_SOCKET_IFNAME"], "=eth1");
            assert_eq!(variables["GLOO_SOCKET_IFNAME"], "eth1");
            assert_eq!(variables.len(), 2);
        }
        // Behind a translation of addresses, and by name, the card is not known.
        for address in ["192.0.2.1", "node7.example.org"] {
            assert_eq!(links(&[]).variables(address), BTreeMap::new());
        }
    }

    #[test]
    fn slower_ports_carry_no_data_of_a_task() {
        let fast = [port("mlx5_0", "ACTIVE", 400), port("mlx5_1", "ACTIVE", 400)];
        let storage = port("mlx5_2", "ACTIVE", 100);
        let down = port("mlx5_3", "DOWN", 800);
        let named = |ports: &[FabricPort]| links(ports).fastest();
        let both = [fast.to_vec(), vec![storage.clone(), down.clone()]].concat();
        assert_eq!(named(&both).as_deref(), Some("mlx5_0:1,mlx5_1:1"));
        assert_eq!(named(&[fast.to_vec(), vec![down.clone()]].concat()), None);
        assert_eq!(named(&[down]), None);
        let variables = links(&[fast[0].clone(), storage]).variables("10.0.0.7");
        assert_eq!(variables["NCCL_IB_HCA"], "=mlx5_0:1");
    }

    #[test]
    fn the_kernel_tells_the_loopback_card() {
        let is_loopback =
            |(card, address): &(String, IpAddr)| card == "lo" && address.is_loopback();
        assert!(cards().iter().any(is_loopback));
    }
}
