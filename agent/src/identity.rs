//! Who this node is: its name, and the address others reach it at.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use muster_model::id::NodeId;

use crate::config;

/// A node's name and address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeIdentity {
    /// Its id: the configured name, else the host's.
    pub(crate) node: NodeId,
    /// The host's name.
    pub(crate) host_name: String,
    /// Where others reach it, as it was at the start.
    pub(crate) address: IpAddr,
    /// Whether the configuration says so. If not, the address may change.
    pub(crate) is_fixed: bool,
}

impl NodeIdentity {
    /// Finds out who this node is.
    ///
    /// # Errors
    /// When the configured or the host's name is no valid node name.
    pub(crate) fn find(config: &config::NodeConfig) -> Result<Self, muster_model::id::InvalidName> {
        let host_name = sysinfo::System::host_name().unwrap_or_else(|_| "localhost".to_owned());
        let node = config.name.as_deref().unwrap_or(&host_name).parse()?;
        let address = config.advertise.or_else(default_route_address);
        Ok(Self {
            node,
            host_name,
            address: address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            is_fixed: config.advertise.is_some(),
        })
    }

    /// Where others reach it now. A node without a default route has the address it had.
    pub(crate) fn address_now(&self) -> IpAddr {
        let found = if self.is_fixed {
            None
        } else {
            default_route_address()
        };
        found.unwrap_or(self.address)
    }
}

/// The names that users may reach this machine by: the node's, the host's, and that in every domain
/// that is searched by default.
pub(crate) fn host_names(identity: &NodeIdentity, resolver: &str) -> Vec<String> {
    let host = identity.host_name.as_str();
    let short = host.split('.').next().unwrap_or(host);
    let domains = resolver
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let is_search = matches!(words.next(), Some("search" | "domain"));
            is_search.then_some(words)
        })
        .flatten();
    let far = domains.map(|domain| format!("{short}.{domain}"));
    let near = [identity.node.as_str(), host, short].map(str::to_owned);
    near.into_iter().chain(far).collect()
}

/// The source address of the default route: of IPv4's where there is one, else of IPv6's. Connecting
/// a UDP socket asks the kernel for it and sends nothing; the targets are from the ranges kept for
/// documentation.
fn default_route_address() -> Option<IpAddr> {
    let v4 = (
        Ipv4Addr::UNSPECIFIED.into(),
        Ipv4Addr::new(192, 0, 2, 1).into(),
    );
    let v6 = (
        Ipv6Addr::UNSPECIFIED.into(),
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    );
    [v4, v6]
        .into_iter()
        .find_map(|(any, target)| source_address(any, target))
}

/// The address that packets to `target` come from, if there is a way there.
fn source_address(any: IpAddr, target: IpAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((target, 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified()).then_some(address)
}
