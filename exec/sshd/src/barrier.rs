//! Waits until the servers of all tasks answer.

use std::io::Read as _;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::peers::PeerTask;

/// How long one server may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// Between two rounds over those that have not answered.
const PAUSE: Duration = Duration::from_millis(500);
/// So many tasks are named.
const NAMED_MAX: usize = 10;

/// Returns when each of them has answered once.
///
/// # Errors
/// Those that have not within `limit`. The failure rules know the sentence.
pub(crate) fn wait(peers: &[PeerTask], limit: Duration) -> Result<(), String> {
    let end = Instant::now() + limit;
    let mut missing: Vec<&PeerTask> = peers.iter().collect();
    loop {
        missing.retain(|peer| !answers(peer));
        if missing.is_empty() {
            return Ok(());
        }
        if Instant::now() >= end {
            let names = missing.iter().take(NAMED_MAX);
            let names: Vec<&str> = names.map(|peer| peer.name.as_str()).collect();
            return Err(format!(
                "SSH barrier reaches max retry count: after {} s {} of {} tasks do not answer: {}",
                limit.as_secs(),
                missing.len(),
                peers.len(),
                names.join(", ")
            ));
        }
        sleep(PAUSE);
    }
}

/// Whether an SSH server says its name there.
fn answers(peer: &PeerTask) -> bool {
    let Ok(address) = peer.address.parse::<IpAddr>() else {
        return false;
    };
    let address = SocketAddr::new(address, peer.port);
    let Ok(mut stream) = TcpStream::connect_timeout(&address, ANSWER_LIMIT) else {
        return false;
    };
    let mut name = [0; 4];
    stream.set_read_timeout(Some(ANSWER_LIMIT)).is_ok()
        && stream.read_exact(&mut name).is_ok()
        && name == *b"SSH-"
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use super::*;

    fn peer(name: &str, port: u16) -> PeerTask {
        PeerTask {
            name: name.to_owned(),
            address: "127.0.0.1".to_owned(),
            port,
        }
    }

    #[test]
    fn it_waits_for_servers_of_ssh_and_names_those_that_are_missing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let gone = other.local_addr().unwrap().port();
        drop(other);
        std::thread::spawn(move || {
            for said in ["HTTP/1.1", "SSH-2.0-x\r\n", "SSH-2.0-x\r\n"] {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(said.as_bytes()).unwrap();
            }
        });
        wait(&[peer("worker-0", port)], Duration::from_secs(30)).unwrap();
        let both = [peer("worker-0", port), peer("worker-1", gone)];
        let told = wait(&both, Duration::ZERO).unwrap_err();
        let expected = "after 0 s 1 of 2 tasks do not answer: worker-1";
        assert!(
            told.starts_with("SSH barrier reaches max retry count") && told.ends_with(expected),
            "{told}"
        );
    }
}
