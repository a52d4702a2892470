//! The logger process: writes one container's output to bounded files.
//!
//! containerd's shim starts it with the read ends of the container's stdout and stderr as fd 3
//! and 4, and waits for a byte on fd 5, or, before containerd 2.3, until that is closed. It outlives
//! the agent, and whatever goes wrong with the disk it goes on reading, because a task whose output is
//! not read stands still. Only a flood is read slowly: see `pace`.
//!
//! Its socket takes one connection in its life: that of muster-init, which connects before any
//! command of the image runs, so that no such command can speak for it.

mod config;
mod control;
mod pace;
mod rotating_file;
mod source;
mod time_index;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

pub use self::config::LoggerConfig;
use self::control::Control;
use self::pace::OutputPace;
use self::rotating_file::RotatingFile;
use self::source::{OutputPipe, PipeRead, take_inherited};
use crate::connection::timeout;
use crate::message::{ExitStored, Flushed, FromLogger, ToLogger};
use crate::task_dir::TaskDir;
use crate::wall_clock::{TimeStamp, now_ms};

const FD_STDOUT: i32 = 3;
const FD_STDERR: i32 = 4;
const FD_READY: i32 = 5;
/// What the engine waits for.
const READY: &[u8] = b"\0";

/// One read. As much as the pipes are made to hold.
const READ_BYTES: usize = 256 << 10;
/// After SIGTERM the container is gone: how long the ends of the pipes may still take to come.
const TERM_PATIENCE: Duration = Duration::from_millis(50);

/// Logs into `dir` until the container's output ends.
pub fn run(dir: &Path) -> ExitCode {
    // First of all, before anything is opened under these numbers.
    let ready = take_inherited(FD_READY).ok();
    let pipes = take_inherited(FD_STDOUT).and_then(|out| Ok([out, take_inherited(FD_STDERR)?]));
    match pipes.and_then(|pipes| LoggerProcess::new(dir, pipes)) {
        Ok(mut logger) => {
            // Without a reader nobody waits.
            drop(ready.map(|ready| File::from(ready).write_all(READY)));
            logger.run();
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("muster-init: cannot log to {}: {error}", dir.display());
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug)]
struct LoggerProcess {
    signals: SignalFd,
    stdout: OutputPipe,
    stderr: OutputPipe,
    all: RotatingFile,
    runtime: RotatingFile,
    control: Control,
    exit_report: PathBuf,
    pace: OutputPace,
    buffer: Vec<u8>,
    dropped: u64,
    /// How much of `dropped` the runtime log tells already.
    dropped_noted: u64,
    /// Set by SIGTERM: when to end even if the pipes have not.
    term_at: Option<Instant>,
    /// Locked while this process lives, so that others see when the files are complete.
    _lock: File,
}

impl LoggerProcess {
    fn new(dir: &Path, [stdout, stderr]: [OwnedFd; 2]) -> io::Result<Self> {
        let task = TaskDir::of_log(dir);
        fs::create_dir_all(dir)?;
        let lock = File::open(dir)?;
        drop(lock.try_lock());
        let bytes_max = LoggerConfig::load(&task.logger_config()).bytes_max;
        let dir = Rc::new(OwnedFd::from(lock.try_clone()?));
        let file = |name| RotatingFile::new(&dir, name, bytes_max);
        let mut logger = Self {
            signals: block_signals()?,
            stdout: OutputPipe::new(stdout, file("stdout"))?,
            stderr: OutputPipe::new(stderr, file("stderr"))?,
            all: file("all"),
            runtime: file("runtime.log"),
            control: Control::listen(&task.ctl()),
            exit_report: task.exit_report(),
            pace: OutputPace::new(Instant::now()),
            buffer: vec![0; READ_BYTES],
            dropped: 0,
            dropped_noted: 0,
            term_at: None,
            _lock: lock,
        };
        logger.touch_files();
        Ok(logger)
    }

    /// A full disk is met again, and counted, with the first output.
    fn touch_files(&mut self) {
        for file in [
            &mut self.all,
            &mut self.runtime,
            &mut self.stdout.file,
            &mut self.stderr.file,
        ] {
            drop(file.touch());
        }
    }

    fn run(&mut self) {
        while !self.is_done() {
            self.sleep();
            self.read_signals();
            if self.pace.pause(Instant::now()).is_zero() {
                self.read_once();
            }
            for message in self.control.receive() {
                self.obey(message);
            }
            self.note_dropped();
        }
    }

    fn is_done(&self) -> bool {
        let ended = self.stdout.has_ended() && self.stderr.has_ended();
        (ended && !self.control.is_connected())
            || self.term_at.is_some_and(|at| at <= Instant::now())
    }

    fn sleep(&self) {
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        let pause = self.pace.pause(Instant::now());
        for source in [&self.stdout, &self.stderr] {
            let open = source.fd().filter(|_| pause.is_zero());
            fds.extend(open.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        }
        fds.extend(self.control.poll_fd());
        let term = self
            .term_at
            .map(|at| at.saturating_duration_since(Instant::now()));
        let pause = Some(pause).filter(|pause| !pause.is_zero());
        let until = term.into_iter().chain(pause).min();
        let until = until.map_or(PollTimeout::NONE, timeout);
        // Interrupted or not: everything is looked at afterwards.
        let _ = poll(&mut fds, until);
    }

    fn read_signals(&mut self) {
        while let Ok(Some(_)) = self.signals.read_signal() {
            self.read_all();
            self.term_at
                .get_or_insert_with(|| Instant::now() + TERM_PATIENCE);
        }
    }

    /// One read of each pipe, so that neither waits for the other. Says whether there was any.
    fn read_once(&mut self) -> bool {
        let mut any = false;
        for source in [&mut self.stdout, &mut self.stderr] {
            match source.read(&mut self.buffer) {
                PipeRead::Bytes(count) => {
                    self.pace.take(count, Instant::now());
                    let bytes = &self.buffer[..count];
                    self.dropped += source.file.write(bytes) + self.all.write(bytes);
                    any = true;
                }
                PipeRead::Nothing | PipeRead::End => {}
            }
        }
        any
    }

    fn read_all(&mut self) {
        while self.read_once() {}
    }

    fn obey(&mut self, message: ToLogger) {
        let answer = match message {
            ToLogger::RuntimeLog(log) => {
                self.dropped += self.runtime.write(&log.lines);
                return;
            }
            ToLogger::Flush(_) => {
                self.read_all();
                FromLogger::Flushed(Flushed {
                    dropped_bytes: self.dropped,
                })
            }
            ToLogger::StoreExit(report) => {
                let stored = report.store(&self.exit_report);
                FromLogger::ExitStored(ExitStored {
                    problem: stored.err().map(|e| e.to_string()).unwrap_or_default(),
                })
            }
        };
        self.control.send(&answer);
    }

    /// Tells of lost output as soon as the disk takes a line again.
    fn note_dropped(&mut self) {
        if self.dropped == self.dropped_noted {
            return;
        }
        let line = format!(
            "[{}] [openpai-runtime] {} bytes of output could not be written and are lost\n",
            TimeStamp(now_ms()),
            self.dropped
        );
        if self.runtime.write(line.as_bytes()) == 0 {
            self.dropped_noted = self.dropped;
        }
    }
}

/// Takes SIGTERM as a message, and ignores what a terminal or a session might send.
fn block_signals() -> io::Result<SignalFd> {
    let mut all = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        all.add(signal);
    }
    all.thread_block()?;
    let mut term = SigSet::empty();
    term.add(Signal::SIGTERM);
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    Ok(SignalFd::with_flags(&term, flags)?)
}
