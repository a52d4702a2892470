//! Where a request came from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemoteEnd {
    /// The agent's socket, which only root may open.
    Socket,
    /// An address over TCP.
    Tcp(IpAddr),
}

impl RemoteEnd {
    /// The other end of a TCP connection that `own` is this end of. A program that reaches this
    /// machine by its own address is on it as if it came by loopback: the kernel takes no such
    /// packet from a network.
    pub(crate) fn between(own: Option<IpAddr>, other: IpAddr) -> Self {
        match own == Some(other) {
            true => Self::Tcp(Ipv4Addr::LOCALHOST.into()),
            false => Self::Tcp(other),
        }
    }

    /// What counts as one address; `None` on the socket. An IPv6 host owns a /64, and whatever
    /// runs on this machine has all of its loopback addresses.
    pub(crate) fn address(self) -> Option<IpAddr> {
        let Self::Tcp(address) = self else {
            return None;
        };
        Some(match address.to_canonical() {
            one if one.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V4(v4) => v4.into(),
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        })
    }

    /// Whether it is on this machine.
    pub(crate) fn is_here(self) -> bool {
        self.address().is_none_or(|address| address.is_loopback())
    }

    /// What its requests are counted under; `None` if they are not counted.
    pub(crate) fn rate_key(self) -> Option<String> {
        let address = self.address().filter(|address| !address.is_loopback());
        address.map(|address| address.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_foreign_addresses_are_counted() {
        let key = |text: &str| RemoteEnd::Tcp(text.parse().unwrap()).rate_key();
        assert_eq!(RemoteEnd::Socket.rate_key(), None);
        assert_eq!(key("127.0.0.1"), None);
        assert_eq!(key("::1"), None);
        assert_eq!(key("::ffff:127.0.0.1"), None);
        assert_eq!(key("10.0.0.7").as_deref(), Some("10.0.0.7"));
        assert_eq!(key("::ffff:10.0.0.7").as_deref(), Some("10.0.0.7"));
        assert_eq!(key("2001:db8:1:2:3::4"), key("2001:db8:1:2:ffff::9"));
        assert_ne!(key("2001:db8:1:2::4"), key("2001:db8:1:3::4"));
    }

    #[test]
    fn a_machine_that_reaches_itself_is_here() {
        let between = |own: &str, other: &str| {
            let own = own.parse().ok();
            RemoteEnd::between(own, other.parse().unwrap()).is_here()
        };
        assert!(between("10.0.0.1", "10.0.0.1"));
        assert!(between("fd00::1", "fd00::1"));
        assert!(between("127.0.0.1", "127.0.0.5"));
        assert!(!between("10.0.0.1", "10.0.0.2"));
        assert!(!between("unknown", "10.0.0.2"));
    }

    #[test]
    fn all_loopback_addresses_are_one() {
        let address = |text: &str| RemoteEnd::Tcp(text.parse().unwrap()).address();
        for text in ["127.9.8.7", "::1", "::ffff:127.0.0.2"] {
            assert_eq!(address(text), address("127.0.0.1"), "{text}");
        }
        assert_ne!(address("10.0.0.1"), address("127.0.0.1"));
        assert_eq!(RemoteEnd::Socket.address(), None);
    }
}
