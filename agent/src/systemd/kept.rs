//! Sockets that the agent before left with the service manager.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use socket2::{SockRef, Type};

/// Open sockets by name, each there until it is taken over or its name is removed.
#[derive(Debug, Default)]
pub(super) struct KeptSockets(Vec<(OwnedFd, String)>);

impl KeptSockets {
    pub(super) fn new(sockets: Vec<(OwnedFd, String)>) -> Self {
        Self(sockets)
    }

    /// Takes the listener of that name and address.
    pub(super) fn tcp(&mut self, name: &str, wanted: SocketAddr) -> Option<TcpListener> {
        self.take(name, Type::STREAM, wanted).map(TcpListener::from)
    }

    /// Takes the UDP socket of that name and address.
    pub(super) fn udp(&mut self, name: &str, wanted: SocketAddr) -> Option<UdpSocket> {
        self.take(name, Type::DGRAM, wanted).map(UdpSocket::from)
    }

    /// Closes all of that name, and says where they were.
    pub(super) fn remove(&mut self, name: &str) -> Vec<Option<SocketAddr>> {
        let closed = self.0.extract_if(.., |(_, one)| one == name);
        closed.map(|(socket, _)| address(&socket)).collect()
    }

    /// All names there are, each once.
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.0.iter().map(|(_, name)| name.clone()).collect()
    }

    fn take(&mut self, name: &str, kind: Type, wanted: SocketAddr) -> Option<OwnedFd> {
        // Port 0 asks for any port, which is another one each time.
        if wanted.port() == 0 {
            return None;
        }
        let found = self.0.iter().position(|(socket, one)| {
            let is_kind = SockRef::from(socket).r#type().is_ok_and(|one| one == kind);
            one == name && is_kind && address(socket) == Some(wanted)
        });
        found.map(|at| self.0.swap_remove(at).0)
    }
}

/// Where a socket of the internet is bound; nothing for any other one.
fn address(socket: &OwnedFd) -> Option<SocketAddr> {
    SockRef::from(socket).local_addr().ok()?.as_socket()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    #[test]
    fn a_socket_is_taken_by_name_kind_and_address() {
        let tcp = TcpListener::bind(ANY).unwrap();
        let udp = UdpSocket::bind(ANY).unwrap();
        let (at, mesh) = (tcp.local_addr().unwrap(), udp.local_addr().unwrap());
        let elsewhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, at.port()));
        let mut kept = KeptSockets::new(vec![
            (tcp.into(), "http".into()),
            (udp.into(), "mesh".into()),
        ]);
        assert!(kept.tcp("mesh", mesh).is_none(), "not TCP");
        assert!(kept.udp("http", at).is_none(), "not UDP");
        assert!(kept.tcp("mesh", at).is_none(), "another name");
        assert!(kept.tcp("http", elsewhere).is_none(), "another address");
        assert!(kept.tcp("http", ANY).is_none(), "any port");
        assert_eq!(kept.tcp("http", at).unwrap().local_addr().unwrap(), at);
        assert!(kept.tcp("http", at).is_none(), "taken once");
        assert_eq!(kept.udp("mesh", mesh).unwrap().local_addr().unwrap(), mesh);
    }

    #[test]
    fn what_is_removed_is_closed() {
        let tcp = TcpListener::bind(ANY).unwrap();
        let at = tcp.local_addr().unwrap();
        let mut kept = KeptSockets::new(vec![(tcp.into(), "http".into())]);
        assert_eq!(kept.remove("mesh"), []);
        assert_eq!(kept.remove("http"), [Some(at)]);
        TcpListener::bind(at).unwrap();
    }
}
