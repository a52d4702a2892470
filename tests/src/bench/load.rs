//! A load of requests on keep-alive connections: one thread, no runtime, so that what asks takes as little
//! of the machine as can be. At full speed each connection asks again as soon as it was answered; at a
//! rate requests are due at fixed times, whether those before were answered or not, and their times count
//! from then on.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use muster_tests::net::Namespace;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

use crate::sample::Sample;

/// Longest wait for any answer.
const PATIENCE: Duration = Duration::from_secs(10);
const BUFFER_BYTES: usize = 64 * 1024;
const HEAD_END: &[u8] = b"\r\n\r\n";

/// How fast requests are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    Full,
    /// So many a second.
    Rate(f64),
}

/// What came of a load.
#[derive(Clone, Debug)]
pub(crate) struct LoadResult {
    pub(crate) answers: u64,
    /// From the first request to the last answer.
    pub(crate) took: Duration,
    pub(crate) times: Sample,
    /// CPU that the asking thread took.
    pub(crate) cpu: Duration,
}

impl LoadResult {
    /// Answers a second.
    pub(crate) fn rate(&self) -> f64 {
        self.answers as f64 / self.took.as_secs_f64()
    }
}

/// Connections to one server, and the one request that they ask.
#[derive(Debug)]
pub(crate) struct Load {
    connections: Vec<LoadConnection>,
    request: Vec<u8>,
}

impl Load {
    /// Connects to a server in a network namespace.
    ///
    /// # Errors
    /// When it does not take the connections.
    pub(crate) fn new(
        namespace: &Namespace,
        address: SocketAddr,
        (path, token): (&str, &str),
        connections: usize,
    ) -> Result<Self> {
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\naccept: application/json\r\n\
             authorization: Bearer {token}\r\n\r\n"
        );
        let connect = || (0..connections).map(|_| LoadConnection::open(address));
        let connections = namespace.enter(|| connect().collect::<Result<_>>())??;
        Ok(Self {
            connections,
            request: request.into_bytes(),
        })
    }

    /// Asks for so long, and waits for the last answer.
    ///
    /// # Errors
    /// When an answer is no 200, or does not come.
    pub(crate) fn run(&mut self, pace: Pace, time: Duration) -> Result<LoadResult> {
        let cpu = thread_cpu()?;
        let start = Instant::now();
        let mut schedule = LoadSchedule {
            start,
            end: start + time,
            pace,
            sent: 0,
        };
        // In turn, so that the server finds none of them idle for long, which it would close.
        let mut idle: VecDeque<usize> = (0..self.connections.len()).collect();
        let mut result = LoadResult {
            answers: 0,
            took: Duration::ZERO,
            times: Sample::new()?,
            cpu: Duration::ZERO,
        };
        loop {
            let next = self.send_due(&mut schedule, &mut idle)?;
            if idle.len() == self.connections.len() && next.is_none() {
                break;
            }
            for at in self.readable(next)? {
                let connection = &mut self.connections[at];
                if connection.receive()? {
                    result.times.add(connection.due.elapsed());
                    result.answers += 1;
                    idle.push_back(at);
                }
            }
        }
        result.took = start.elapsed();
        result.cpu = thread_cpu()?.saturating_sub(cpu);
        Ok(result)
    }

    /// Sends what is due, as far as connections are idle. When the next one is due for which one is; none
    /// where nothing is to be sent before an answer came, or ever.
    fn send_due(
        &mut self,
        schedule: &mut LoadSchedule,
        idle: &mut VecDeque<usize>,
    ) -> Result<Option<Instant>> {
        while let Some(at) = idle.front().copied() {
            let now = Instant::now();
            let Some(due) = schedule.due(now) else {
                return Ok(None);
            };
            if due > now {
                return Ok(Some(due));
            }
            schedule.sent += 1;
            self.connections[at].send(&self.request, due)?;
            idle.pop_front();
        }
        Ok(None)
    }

    /// Which connections have something to read, once one has, or at `next`.
    fn readable(&self, next: Option<Instant>) -> Result<Vec<usize>> {
        let wait = next.map_or(PATIENCE, |next| {
            next.saturating_duration_since(Instant::now())
        });
        let polled = |it: &'_ LoadConnection| PollFlags::POLLIN.bits() * i16::from(it.is_busy);
        let mut polls: Vec<PollFd<'_>> = self
            .connections
            .iter()
            .map(|it| PollFd::new(it.stream.as_fd(), PollFlags::from_bits_truncate(polled(it))))
            .collect();
        let ready = ppoll(&mut polls, Some(TimeSpec::from(wait)), None)?;
        ensure!(ready > 0 || next.is_some(), "no answer within {PATIENCE:?}");
        let has = |poll: &PollFd<'_>| poll.revents().is_some_and(|it| !it.is_empty());
        let ready = polls.iter().enumerate().filter(|(_, poll)| has(poll));
        Ok(ready.map(|(at, _)| at).collect())
    }
}

/// When requests are due.
struct LoadSchedule {
    start: Instant,
    end: Instant,
    pace: Pace,
    sent: u32,
}

impl LoadSchedule {
    /// When the next one is; none after the end.
    fn due(&self, now: Instant) -> Option<Instant> {
        let due = match self.pace {
            Pace::Full => now,
            Pace::Rate(rate) => self.start + Duration::from_secs_f64(f64::from(self.sent) / rate),
        };
        (due < self.end).then_some(due)
    }
}

#[derive(Debug)]
struct LoadConnection {
    stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
    /// Length of the answer that is being read, with its head, once that is there.
    length: Option<usize>,
    due: Instant,
    is_busy: bool,
}

impl LoadConnection {
    fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| address.to_string())?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            buffer: vec![0; BUFFER_BYTES],
            filled: 0,
            length: None,
            due: Instant::now(),
            is_busy: false,
        })
    }

    fn send(&mut self, request: &[u8], due: Instant) -> Result<()> {
        // So little always fits into the buffer of a connection that has nothing under way.
        self.stream.write_all(request)?;
        self.due = due;
        self.is_busy = true;
        Ok(())
    }

    /// Reads what is there; whether the answer is whole.
    fn receive(&mut self) -> Result<bool> {
        loop {
            if self.filled == self.buffer.len() {
                self.buffer.resize(2 * self.filled, 0);
            }
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Ok(0) => bail!("the server closed a connection"),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            if self.is_whole()? {
                self.filled = 0;
                self.length = None;
                self.is_busy = false;
                return Ok(true);
            }
        }
    }

    fn is_whole(&mut self) -> Result<bool> {
        if self.length.is_none() {
            self.length = answer_length(&self.buffer[..self.filled])?;
        }
        Ok(self.length.is_some_and(|length| self.filled >= length))
    }
}

/// How long an answer is, with its head, once that is there.
fn answer_length(read: &[u8]) -> Result<Option<usize>> {
    let end = read.windows(HEAD_END.len()).position(|it| it == HEAD_END);
    let Some(end) = end else { return Ok(None) };
    let head = std::str::from_utf8(&read[..end])?;
    ensure!(
        head.starts_with("HTTP/1.1 200 "),
        "answered {}",
        String::from_utf8_lossy(read)
    );
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let length = lines
        .into_iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let (_, length) = length.context("an answer without a length")?;
    Ok(Some(end + HEAD_END.len() + length.trim().parse::<usize>()?))
}

/// CPU that this thread has taken.
fn thread_cpu() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}
