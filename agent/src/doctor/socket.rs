//! Sockets of this machine: whether the agent's ports are open, and whether the kernel drops what
//! comes in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use muster_model::finding::{Finding, Grade};
use muster_tls::CertificateTrust;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::sockets::{BoundSocket, SocketProtocol};

/// A node that needs longer to say "ok" is of no use to a browser either.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// Datagrams to the mesh's port that found no room.
pub(super) fn dropped(sockets: &[BoundSocket], mesh: Option<u16>) -> u64 {
    let at = |socket: &&BoundSocket| {
        socket.protocol == SocketProtocol::Udp && Some(socket.address.port()) == mesh
    };
    sockets.iter().filter(at).map(|socket| socket.drops).sum()
}

/// Whether both ports of the mesh are open to other machines.
pub(super) fn mesh(sockets: &[BoundSocket], port: u16) -> [Finding; 2] {
    [(SocketProtocol::Udp, "udp"), (SocketProtocol::Tcp, "tcp")].map(|(protocol, name)| {
        let at = |one: &&BoundSocket| one.protocol == protocol && one.address.port() == port;
        let open: Vec<_> = sockets.iter().filter(at).map(|one| one.address).collect();
        bound(&format!("mesh {port}/{name}"), &open)
    })
}

fn bound(subject: &str, open: &[SocketAddr]) -> Finding {
    let shown: Vec<String> = open.iter().map(ToString::to_string).collect();
    let shown = shown.join(", ");
    if open.is_empty() {
        let finding = Finding::ok("port", subject, "nothing listens there");
        return finding.but(
            Grade::Fail,
            "see why in the agent's log: another program may hold the port",
        );
    }
    let finding = Finding::ok("port", subject, format!("open at {shown}"));
    if open.iter().all(|address| address.ip().is_loopback()) {
        return finding.but(
            Grade::Fail,
            "other machines cannot reach it: set node.advertise to this machine's address",
        );
    }
    finding
}

/// Asks this node's own REST side whether it is well. Where there are other members, one that
/// they do not reach at this node's `address` is worth a warning.
///
/// `problem` says what keeps it from being served at all.
pub(super) async fn answers(
    (listen, problem): (SocketAddr, Option<String>),
    by_tls: bool,
    address: IpAddr,
    members: u64,
) -> Finding {
    let subject = format!("http {}/tcp", listen.port());
    if let Some(problem) = problem {
        let remedy = "end what holds the port; the agent takes it then by itself";
        return Finding::ok("port", subject, problem).but(Grade::Fail, remedy);
    }
    match tokio::time::timeout(ANSWER_LIMIT, ask(reachable(listen), by_tls)).await {
        Ok(Ok(())) => {
            let finding = Finding::ok("port", subject, format!("answers at {listen}"));
            match closed(listen.ip(), address).filter(|_| members > 1) {
                Some(remedy) => finding.but(Grade::Warn, remedy),
                None => finding,
            }
        }
        Ok(Err(error)) => silent(subject, error.to_string()),
        Err(_) => silent(
            subject,
            format!("no answer within {} s", ANSWER_LIMIT.as_secs()),
        ),
    }
}

/// Why others do not reach what listens here, and what to do about it.
fn closed(listen: IpAddr, address: IpAddr) -> Option<&'static str> {
    if listen.is_loopback() {
        Some("only this machine reaches it: set http.listen in agent.toml, if others are to")
    } else if listen.is_ipv4() && address.is_ipv6() {
        Some(
            "others reach this machine by IPv6 alone: set http.listen = \"[::]:7741\" in \
             agent.toml",
        )
    } else {
        None
    }
}

fn silent(subject: String, evidence: String) -> Finding {
    let remedy = "see the agent's log; a packet filter on this machine may be in the way";
    Finding::ok("port", subject, evidence).but(Grade::Fail, remedy)
}

/// Where a listener is reached from this machine.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// Asks by TLS where that is spoken: programs here may be refused in clear. Whose certificate it is does not
/// matter, for nothing secret is sent.
async fn ask(address: SocketAddr, by_tls: bool) -> std::io::Result<()> {
    let stream = TcpStream::connect(address).await?;
    if !by_tls {
        return ask_over(stream).await;
    }
    let trust = CertificateTrust::Anything;
    let connected = muster_tls::connect(stream, "localhost", trust).await;
    let (stream, _) = connected.map_err(std::io::Error::other)?;
    ask_over(stream).await
}

async fn ask_over(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<()> {
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).await?;
    if head.ends_with(b" 200") {
        Ok(())
    } else {
        let head = String::from_utf8_lossy(&head).into_owned();
        Err(std::io::Error::other(format!("it answers {head}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockets::read;

    const UDP: &str = "\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  123: 00000000:1E3C 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4242 2 0000000000000000 17
  124: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4243 2 0000000000000000 3
";
    const TCP6: &str = "\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000001000000:1E3C 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 99 1 0 100 0 0 10 0
   1: 00000000000000000000000001000000:1E3D 00000000000000000000000001000000:8000 01 00000000:00000000 00:00000000 00000000     0        0 98 1 0 100 0 0 10 0
";

    fn machine() -> Vec<BoundSocket> {
        let root = tempfile::tempdir().unwrap();
        let net = root.path().join("proc/net");
        std::fs::create_dir_all(&net).unwrap();
        std::fs::write(net.join("udp"), UDP).unwrap();
        std::fs::write(net.join("tcp6"), TCP6).unwrap();
        read(root.path())
    }

    #[test]
    fn the_kernels_tables_are_read() {
        let sockets = machine();
        let shown: Vec<String> = sockets.iter().map(|one| one.address.to_string()).collect();
        assert_eq!(shown, ["0.0.0.0:7740", "127.0.0.1:53", "[::1]:7740"]);
        assert_eq!(dropped(&sockets, Some(7740)), 17);
        assert_eq!(dropped(&sockets, None), 0);
    }

    #[test]
    fn a_port_is_open_to_others_or_not() {
        let sockets = machine();
        let [udp, tcp] = mesh(&sockets, 7740);
        assert_eq!(udp.grade, Grade::Ok, "{udp:?}");
        assert_eq!(tcp.grade, Grade::Fail, "{tcp:?}");
        assert!(tcp.remedy.contains("node.advertise"), "{tcp:?}");
        let [udp, _] = mesh(&sockets, 7742);
        assert_eq!(udp.evidence, "nothing listens there");
    }

    #[tokio::test]
    async fn rest_is_asked() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            for status in ["200 OK", "200 OK", "503 Service Unavailable"] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let here = address.ip();
        assert_eq!(
            answers((address, None), false, here, 1).await.grade,
            Grade::Ok
        );
        // It answers, but to this machine alone.
        assert_eq!(
            answers((address, None), false, here, 2).await.grade,
            Grade::Warn
        );
        let sick = answers((address, None), false, here, 1).await;
        assert_eq!(sick.evidence, "it answers HTTP/1.1 503");
        server.await.unwrap();
        assert_eq!(
            answers((address, None), false, here, 1).await.grade,
            Grade::Fail
        );
    }

    #[test]
    fn a_listener_is_open_to_those_who_know_this_machines_address() {
        for (listen, address, is_closed) in [
            ("0.0.0.0", "10.0.0.1", false),
            ("::", "10.0.0.1", false),
            ("::", "fd77::1", false),
            ("0.0.0.0", "fd77::1", true),
            ("10.0.0.1", "10.0.0.1", false),
            ("127.0.0.1", "10.0.0.1", true),
            ("::1", "fd77::1", true),
        ] {
            let remedy = closed(listen.parse().unwrap(), address.parse().unwrap());
            assert_eq!(remedy.is_some(), is_closed, "{listen} {address}");
        }
    }
}
