//! Holds a TCP port for a library that opens its listeners itself.
//!
//! libp2p takes no listener that is open already, so the service manager cannot keep it. It keeps a
//! second socket instead, which is bound to the same address, never listens, and does not share the
//! address: SO_REUSEADDR is off, so nobody can bind there, whether they ask for sharing or not. While
//! the library binds, and only then, the option is on.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use socket2::{Domain, Socket, Type};

/// A socket that is bound and does not listen.
#[derive(Clone, Debug)]
pub(super) struct Reservation {
    address: SocketAddr,
    socket: Arc<Socket>,
}

impl Reservation {
    /// Binds. The kernel remembers for an address whether its first socket was to share it, so the
    /// option must be off from the start. Then connections of an agent that just ended are in the
    /// way for a minute.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub(super) fn new(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        if address.is_ipv6() {
            // As libp2p has it, which opens a socket for each family.
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        Ok(Self::kept(address, socket.into()))
    }

    /// One that the agent before had made.
    pub(super) fn kept(address: SocketAddr, socket: OwnedFd) -> Self {
        Self {
            address,
            socket: Arc::new(socket.into()),
        }
    }

    pub(super) fn is_at(&self, address: SocketAddr) -> bool {
        self.address == address
    }

    fn share(&self, others_may_bind: bool) {
        if let Err(error) = self.socket.set_reuse_address(others_may_bind) {
            tracing::warn!(address = %self.address, %error, "cannot change who may bind");
        }
    }
}

impl AsFd for Reservation {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// While there is one, others may bind to the addresses.
#[derive(Debug)]
pub(crate) struct PortOpening(Vec<Reservation>);

impl PortOpening {
    pub(super) fn new(reservations: Vec<Reservation>) -> Self {
        for reservation in &reservations {
            reservation.share(true);
        }
        Self(reservations)
    }
}

impl Drop for PortOpening {
    fn drop(&mut self) {
        for reservation in &self.0 {
            reservation.share(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    /// An address that nobody has.
    fn free() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap()
    }

    /// std's listeners share their address, as libp2p's do and a task's may.
    fn refused(address: SocketAddr) {
        let error = TcpListener::bind(address).expect_err("the port is held");
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
    }

    #[test]
    fn nobody_binds_but_in_the_opening() {
        let address = free();
        let reservation = Reservation::new(address).unwrap();
        refused(address);
        let opening = PortOpening::new(vec![reservation.clone()]);
        let library = TcpListener::bind(address).unwrap();
        drop(opening);
        refused(address);
        let client = std::net::TcpStream::connect(address).unwrap();
        let (server, _) = library.accept().unwrap();
        drop(library);
        refused(address);
        // The end of connections changes nothing either, whichever side ends first.
        drop((server, client));
        refused(address);

        let again = PortOpening::new(vec![reservation]);
        TcpListener::bind(address).unwrap();
        drop(again);
    }
}
