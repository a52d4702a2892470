//! What the datagrams of an agent cost a program that does nothing but send and receive them: no
//! agent on the same machine can take less.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use muster_tests::net::{BareNode, Lan};
use nix::time::{ClockId, clock_gettime};

const WINDOW: Duration = Duration::from_secs(10);
/// Bytes of a probe or its answer on the wire.
const DATAGRAM: [u8; 75] = [0; 75];
/// Longer than any answer takes that is not lost.
const PATIENCE: Duration = Duration::from_millis(200);

/// Percent of a core that two bare programs on two nodes take, the mean, while each sends the other
/// `rate` datagrams a second.
pub(crate) fn percent(lan: &Lan, rate: f64) -> Result<f64> {
    let (asking, answering) = (socket(lan.node(1))?, socket(lan.node(2))?);
    asking.connect(answering.local_addr()?)?;
    answering.connect(asking.local_addr()?)?;
    let until = Instant::now() + WINDOW;
    let pause = Duration::from_secs_f64(1.0 / rate);
    let (asked, answered) = std::thread::scope(|scope| {
        let answers = scope.spawn(|| taken(|| answer(&answering, until)));
        let asks = scope.spawn(|| taken(|| ask(&asking, until, pause)));
        (asks.join(), answers.join())
    });
    let ended = |end: std::thread::Result<Result<Duration>>| {
        end.map_err(|_| anyhow::anyhow!("a bare program panicked"))?
    };
    let taken = ended(asked)? + ended(answered)?;
    Ok(taken.as_secs_f64() / 2.0 / WINDOW.as_secs_f64() * 100.0)
}

/// A socket of a node's network, with a port of its own.
fn socket(node: &BareNode) -> Result<UdpSocket> {
    let bind = || UdpSocket::bind(SocketAddr::new(node.address(), 0));
    let socket = node.namespace().enter(bind)?.context("a bare socket")?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Processor time that this thread takes for something.
fn taken(run: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let clock = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from);
    let before = clock()?;
    run()?;
    Ok(clock()?.saturating_sub(before))
}

fn ask(socket: &UdpSocket, until: Instant, pause: Duration) -> Result<()> {
    let mut buffer = DATAGRAM;
    while Instant::now() < until {
        socket.send(&DATAGRAM)?;
        // One that is lost is not waited for.
        let _ = socket.recv(&mut buffer);
        std::thread::sleep(pause);
    }
    Ok(())
}

fn answer(socket: &UdpSocket, until: Instant) -> Result<()> {
    let mut buffer = DATAGRAM;
    while Instant::now() < until {
        if let Ok(bytes) = socket.recv(&mut buffer) {
            socket.send(&buffer[..bytes])?;
        }
    }
    Ok(())
}
