//! Sockets of this machine, as the kernel lists them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// The state of a TCP socket that listens, as the kernel writes it.
const LISTEN: &str = "0A";

/// Which of the kernel's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketProtocol {
    Udp,
    Tcp,
}

/// A socket that something may arrive at: a bound UDP one, or a TCP one that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BoundSocket {
    /// Its kind.
    pub(crate) protocol: SocketProtocol,
    /// Where it is bound.
    pub(crate) address: SocketAddr,
    /// Its number, by which the processes are found that have it open.
    pub(crate) inode: u64,
    /// Datagrams that found no room.
    pub(crate) drops: u64,
}

/// Every such socket of this network namespace. What cannot be read is not there.
pub(crate) fn read(root: &Path) -> Vec<BoundSocket> {
    let tables = [
        ("udp", SocketProtocol::Udp),
        ("udp6", SocketProtocol::Udp),
        ("tcp", SocketProtocol::Tcp),
        ("tcp6", SocketProtocol::Tcp),
    ];
    let mut sockets = Vec::new();
    for (name, protocol) in tables {
        let path = root.join("proc/net").join(name);
        let text = std::fs::read_to_string(path).unwrap_or_default();
        sockets.extend(text.lines().filter_map(|line| parse(protocol, line)));
    }
    sockets
}

/// A line of `/proc/net/udp` and the like; none for headings and for sockets of other kinds.
fn parse(protocol: SocketProtocol, line: &str) -> Option<BoundSocket> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if protocol == SocketProtocol::Tcp && *words.get(3)? != LISTEN {
        return None;
    }
    let (address, port) = words.get(1)?.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let drops = match protocol {
        SocketProtocol::Udp => words.get(12)?.parse().ok()?,
        SocketProtocol::Tcp => 0,
    };
    Some(BoundSocket {
        protocol,
        address: SocketAddr::new(ip(address)?, port),
        inode: words.get(9)?.parse().ok()?,
        drops,
    })
}

/// The kernel writes words of four bytes, each in the order of this machine.
fn ip(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let text = hex.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(text, 16).ok()?.to_ne_bytes())
    };
    if hex.len() == 8 {
        return Some(IpAddr::V4(Ipv4Addr::from(word(0)?)));
    }
    let mut bytes = [0; 16];
    for (at, part) in bytes.chunks_mut(4).enumerate() {
        part.copy_from_slice(&word(at)?);
    }
    Some(IpAddr::V6(Ipv6Addr::from(bytes)))
}

/// Those of one port.
pub(crate) fn sockets_at(root: &Path, port: u16) -> Vec<BoundSocket> {
    let mut sockets = read(root);
    sockets.retain(|socket| socket.address.port() == port);
    sockets
}
