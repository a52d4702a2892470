//! Where a request came from.

use std::net::{IpAddr, Ipv6Addr};

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The agent's socket, which only root may open.
    Socket,
    /// An address over TCP.
    Tcp(IpAddr),
}

impl Peer {
    /// What its requests are counted under; `None` if they are not counted.
    ///
    /// An IPv6 host owns a /64, so that is what counts as one.
    pub(crate) fn rate_key(self) -> Option<String> {
        let Self::Tcp(address) = self else {
            return None;
        };
        let address = address.to_canonical();
        if address.is_loopback() {
            return None;
        }
        Some(match address {
            IpAddr::V4(v4) => v4.to_string(),
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_foreign_addresses_are_counted() {
        let key = |text: &str| Peer::Tcp(text.parse().unwrap()).rate_key();
        assert_eq!(Peer::Socket.rate_key(), None);
        assert_eq!(key("127.0.0.1"), None);
        assert_eq!(key("::1"), None);
        assert_eq!(key("::ffff:127.0.0.1"), None);
        assert_eq!(key("10.0.0.7").as_deref(), Some("10.0.0.7"));
        assert_eq!(key("::ffff:10.0.0.7").as_deref(), Some("10.0.0.7"));
        assert_eq!(key("2001:db8:1:2:3::4"), key("2001:db8:1:2:ffff::9"));
        assert_ne!(key("2001:db8:1:2::4"), key("2001:db8:1:3::4"));
    }
}
