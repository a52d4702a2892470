//! Which network containers are put on.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::sys::socket::{getsockopt, sockopt};

/// The network of this process, as runc takes it, where it is not the one of whoever listens at
/// `socket`: containers are on their node's network, and the node's is the agent's. None where both
/// are the same, or nothing can be said.
pub(super) fn of_agent(socket: &Path) -> Option<PathBuf> {
    let peer = UnixStream::connect(socket).ok()?;
    let peer = getsockopt(&peer, sockopt::PeerCredentials).ok()?;
    let theirs = std::fs::read_link(format!("/proc/{}/ns/net", peer.pid())).ok()?;
    let ours = std::fs::read_link("/proc/self/ns/net").ok()?;
    let path = format!("/proc/{}/ns/net", std::process::id());
    (ours != theirs).then(|| path.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn one_network_needs_no_word_and_nobody_gives_none() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        assert_eq!(of_agent(&socket), None);
        let _listener = UnixListener::bind(&socket).unwrap();
        assert_eq!(of_agent(&socket), None);
    }
}
