use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

use super::*;

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A service manager that keeps what it is told.
struct Stub {
    socket: UnixDatagram,
    _directory: tempfile::TempDir,
}

impl Stub {
    fn new(sockets: Vec<(OwnedFd, String)>) -> (Self, Manager) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let manager = Manager {
            channel: Some(Arc::new(Channel::open(path.as_os_str()).unwrap())),
            kept: Arc::new(Mutex::new(KeptSockets::new(sockets))),
            mesh: Arc::default(),
            mesh_tcp: Arc::default(),
        };
        let stub = Self {
            socket,
            _directory: directory,
        };
        (stub, manager)
    }

    /// The next message and the descriptors with it.
    fn next(&self) -> (String, Vec<OwnedFd>) {
        use std::os::fd::AsRawFd as _;
        let mut bytes = [0; 4096];
        let mut space = nix::cmsg_space!([i32; 4]);
        let mut parts = [std::io::IoSliceMut::new(&mut bytes)];
        let got = recvmsg::<()>(
            self.socket.as_raw_fd(),
            &mut parts,
            Some(&mut space),
            MsgFlags::MSG_CMSG_CLOEXEC,
        )
        .unwrap();
        let mut descriptors = Vec::new();
        for message in got.cmsgs().unwrap() {
            if let ControlMessageOwned::ScmRights(numbers) = message {
                for number in numbers {
                    // SAFETY: the kernel has just opened it for this process.
                    #[allow(unsafe_code)]
                    descriptors.push(unsafe { OwnedFd::from_raw_fd(number) });
                }
            }
        }
        let length = got.bytes;
        (
            String::from_utf8(bytes[..length].to_vec()).unwrap(),
            descriptors,
        )
    }
}

#[test]
fn it_is_told_how_the_agent_is() {
    let (stub, manager) = Stub::new(Vec::new());
    manager.status("opening the\nstate");
    manager.ready("serves");
    manager.alive();
    manager.stopping("ends");
    for expected in [
        "STATUS=opening the state",
        "READY=1\nSTATUS=serves",
        "WATCHDOG=1",
        "STOPPING=1\nSTATUS=ends",
    ] {
        assert_eq!(stub.next().0, expected);
    }
}

/// An agent leaves its listener and is gone; the next one answers who connected meanwhile.
#[tokio::test]
async fn a_port_outlives_the_agent() {
    let (stub, manager) = Stub::new(Vec::new());
    let first = manager.http(ANY).await.unwrap();
    let address = first.local_addr().unwrap();
    let (message, mut descriptors) = stub.next();
    assert_eq!(message, "FDSTORE=1\nFDPOLL=0\nFDNAME=http");
    drop(first);
    TcpListener::bind(address).expect_err("the port is held");
    let client = std::net::TcpStream::connect(address).unwrap();

    let kept = vec![(descriptors.remove(0), "http".to_owned())];
    let (_stub, manager) = Stub::new(kept);
    let second = manager.http(address).await.unwrap();
    let (_, peer) = second.accept().await.unwrap();
    assert_eq!(peer, client.local_addr().unwrap());
}

/// A node that leaves a cluster and joins another gets its socket again, for it is still open.
#[tokio::test]
async fn the_mesh_keeps_its_socket() {
    let (stub, manager) = Stub::new(Vec::new());
    let first = manager.mesh(ANY, UdpSocket::bind).unwrap();
    let (message, mut descriptors) = stub.next();
    assert_eq!(message, "FDSTORE=1\nFDPOLL=0\nFDNAME=mesh");
    let address = first.local_addr().unwrap();
    drop(first);
    let none = |_| Err(io::ErrorKind::AddrInUse.into());
    let again = manager.mesh(address, none).unwrap();
    assert_eq!(again.local_addr().unwrap(), address);
    drop((again, manager));

    let kept = vec![(descriptors.remove(0), "mesh".to_owned())];
    let (_stub, manager) = Stub::new(kept);
    let next = manager.mesh(address, none).unwrap();
    assert_eq!(next.local_addr().unwrap(), address);
}

/// The mesh's library binds by itself; between two agents nobody else can.
#[test]
fn the_mesh_keeps_its_tcp_port() {
    use std::net::TcpListener;
    let address = TcpListener::bind(ANY).unwrap().local_addr().unwrap();
    let (stub, manager) = Stub::new(Vec::new());
    let opening = manager.mesh_tcp(&[address]);
    let (message, mut descriptors) = stub.next();
    assert_eq!(message, "FDSTORE=1\nFDPOLL=0\nFDNAME=mesh-tcp");
    let library = TcpListener::bind(address).unwrap();
    drop((opening, library, manager));
    TcpListener::bind(address).expect_err("the port is held");

    let kept = vec![(descriptors.remove(0), "mesh-tcp".to_owned())];
    let (_stub, manager) = Stub::new(kept);
    let opening = manager.mesh_tcp(&[address]);
    let library = TcpListener::bind(address).unwrap();
    drop((opening, library));
    TcpListener::bind(address).expect_err("the next agent holds it too");
    // A member that leaves and joins again.
    let _opening = manager.mesh_tcp(&[address]);
    TcpListener::bind(address).unwrap();
}

/// The configured address has changed: the old port is given up before the new one is bound.
#[tokio::test]
async fn a_socket_at_another_address_is_given_up() {
    let old = TcpListener::bind(ANY).unwrap();
    let wanted = SocketAddr::from((Ipv4Addr::UNSPECIFIED, old.local_addr().unwrap().port()));
    let (stub, manager) = Stub::new(vec![(old.into(), "http".to_owned())]);
    let service_manager = std::thread::spawn(move || {
        let removal = stub.next().0;
        let barrier = stub.next().0;
        (removal, barrier, stub.next().0)
    });
    let new = manager.http(wanted).await.unwrap();
    assert_eq!(new.local_addr().unwrap(), wanted);
    let messages = service_manager.join().unwrap();
    let expected = [
        "FDSTOREREMOVE=1\nFDNAME=http",
        "BARRIER=1",
        "FDSTORE=1\nFDPOLL=0\nFDNAME=http",
    ];
    assert_eq!(<[String; 3]>::from(messages), expected);
}

/// A node that is no member any more does not want the mesh's socket.
#[test]
fn what_nobody_took_is_closed_when_the_agent_serves() {
    let left = UdpSocket::bind(ANY).unwrap();
    let address = left.local_addr().unwrap();
    let (stub, manager) = Stub::new(vec![(left.into(), "mesh".to_owned())]);
    let service_manager = std::thread::spawn(move || {
        let removal = stub.next().0;
        drop(stub.next());
        (removal, stub.next().0)
    });
    manager.ready("serves");
    UdpSocket::bind(address).unwrap();
    let (removal, ready) = service_manager.join().unwrap();
    assert_eq!(removal, "FDSTOREREMOVE=1\nFDNAME=mesh");
    assert_eq!(ready, "READY=1\nSTATUS=serves");
}

#[tokio::test]
async fn without_a_service_manager_nothing_is_kept() {
    let manager = Manager::default();
    manager.ready("serves");
    let address = manager.http(ANY).await.unwrap().local_addr().unwrap();
    TcpListener::bind(address).unwrap();
    let first = manager.mesh(ANY, UdpSocket::bind).unwrap();
    let address = first.local_addr().unwrap();
    drop(first);
    UdpSocket::bind(address).unwrap();
}
