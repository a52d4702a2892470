//! Somebody who is no member, and what their noise does: nothing but counters.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use muster_tests::net::{Namespace, View};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::{LIMIT, everywhere, united};

const CONNECTIONS: usize = 10_000;
/// Connections that are held open at a time.
const HELD: usize = 1_000;
const DATAGRAMS: usize = 20_000;
/// For all connections to one port.
const STORM_LIMIT: Duration = Duration::from_secs(40);
/// A connection that is not answered is given up after this.
const CONNECT_LIMIT: Duration = Duration::from_millis(500);

#[tokio::test(flavor = "multi_thread")]
async fn strangers_do_no_harm_and_are_counted() -> Result<()> {
    let Some(mut lan) = united(3).await? else {
        return Ok(());
    };
    let guest = lan.guest()?;
    let victim = lan.node(2).address();
    let all = everywhere(&lan);
    let before = all.views().await?[1].strangers();

    let noise = std::thread::spawn(move || -> Result<()> {
        guest.enter(|| garbage(victim))??;
        for port in [7740, 7741] {
            let time = storm(&guest, (victim, port).into())?;
            println!("{CONNECTIONS} connections to port {port} in {time:?}");
            ensure!(time < STORM_LIMIT, "{time:?}");
        }
        Ok(())
    });
    let well = |view: &View| {
        let mut members = view.members().iter();
        members.all(|member| member["reach"] != "unreachable")
    };
    while !noise.is_finished() {
        let a_moment = Duration::from_millis(500);
        all.always("nobody is lost to noise", a_moment, well)
            .await?;
    }
    noise
        .join()
        .map_err(|_| anyhow::anyhow!("the noise panicked"))??;
    all.agree(3, LIMIT).await?;
    let after = all.views().await?[1].strangers();
    println!("refused or dropped: {before}, then {after}");
    ensure!(after > before, "nothing of it was counted");
    let page = lan.node(2).prints(&["cluster", "status"])?;
    ensure!(page.contains("join_limited"), "{page}");
    ensure!(page.contains("not_quic"), "{page}");
    Ok(())
}

/// Bytes that mean nothing, to every port there is.
fn garbage(victim: IpAddr) -> Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let mut noise = Noise(1);
    for _ in 0..DATAGRAMS {
        let bytes = noise.bytes(1400);
        // A full socket buffer is the sender's own trouble.
        let _ = socket.send_to(&bytes, (victim, 7740));
    }
    for port in [7740, 7741] {
        for _ in 0..50 {
            let mut stream = TcpStream::connect((victim, port))?;
            stream.set_read_timeout(Some(CONNECT_LIMIT))?;
            stream.set_write_timeout(Some(CONNECT_LIMIT))?;
            let bytes = noise.bytes(20_000);
            // It may hang up in the middle, and does well to.
            let _ = stream.write_all(&bytes);
            let _ = stream.read(&mut [0; 64]);
        }
    }
    Ok(())
}

/// Opens many connections that say nothing, and holds as many of them as it may.
fn storm(guest: &Namespace, target: SocketAddr) -> Result<Duration> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    let start = Instant::now();
    let refused = guest.enter(|| {
        let mut held = std::collections::VecDeque::new();
        let mut refused = 0;
        for _ in 0..CONNECTIONS {
            match TcpStream::connect_timeout(&target, CONNECT_LIMIT) {
                Ok(stream) => held.push_back(stream),
                Err(_) => refused += 1,
            }
            if held.len() > HELD {
                held.pop_front();
            }
            if start.elapsed() > STORM_LIMIT {
                break;
            }
        }
        refused
    })?;
    println!("port {}: {refused} were not accepted", target.port());
    Ok(start.elapsed())
}

/// Numbers without a pattern; xorshift.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From 1 up to `most` of them.
    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let count = 1 + usize::try_from(self.next()).unwrap_or(0) % most;
        (0..count).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}
