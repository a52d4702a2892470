//! The processes of the container: their ends, and their end.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};

use crate::connection::timeout;

/// The offset of a signal's number in an exit status.
const SIGNAL_BASE: i32 = 128;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    /// 128+N for signal N.
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
}

impl Status {
    pub(crate) const fn exited(code: i32) -> Self {
        Self { code, signal: None }
    }

    pub(crate) const fn signaled(signal: Signal) -> Self {
        Self {
            code: SIGNAL_BASE + signal as i32,
            signal: Some(signal as i32),
        }
    }
}

/// News that signals brought.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// SIGTERM or SIGINT came.
    pub(crate) stop: bool,
    /// Processes that ended, orphans of the image too.
    pub(crate) ended: Vec<(Pid, Status)>,
}

/// Everything that runs below this process.
#[derive(Debug)]
pub(crate) struct Processes {
    signals: SignalFd,
}

impl Processes {
    /// Takes over this process's signals, and every orphan below it.
    pub(crate) fn adopt() -> io::Result<Self> {
        let mut mask = SigSet::empty();
        for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT] {
            mask.add(signal);
        }
        mask.thread_block()?;
        prctl::set_child_subreaper(true)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self {
            signals: SignalFd::with_flags(&mask, flags)?,
        })
    }

    /// What happened since the last call.
    pub(crate) fn news(&self) -> News {
        let mut news = News::default();
        while let Ok(Some(signal)) = self.signals.read_signal() {
            if signal.ssi_signo != Signal::SIGCHLD as u32 {
                news.stop = true;
            }
        }
        while let Some(ended) = reap() {
            news.ended.push(ended);
        }
        news
    }

    /// Kills every process but this one and waits until they are gone. One that the kernel
    /// cannot end within `patience` is left to the end of the pid namespace.
    pub(crate) fn kill_all(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        loop {
            kill_others();
            while reap().is_some() {}
            if !has_children() || !self.wait(deadline) {
                return;
            }
        }
    }

    /// Sleeps until a signal came. `false`: `deadline` has come instead.
    fn wait(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        let woken = !left.is_zero() && !matches!(poll(&mut fds, timeout(left)), Ok(0));
        while let Ok(Some(_)) = self.signals.read_signal() {}
        woken
    }
}

impl AsFd for Processes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }
}

/// Sends a signal to a process group; one that is gone already counts as signalled.
pub(crate) fn signal_group(leader: Pid, signal: Signal) {
    // It fails only if the group is gone.
    let _ = killpg(leader, signal);
}

/// Sends SIGKILL to every process of the container.
pub(crate) fn kill_others() {
    if getpid().as_raw() == 1 {
        // Fails only if nothing else runs. It spares the caller.
        let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
        return;
    }
    // Outside a pid namespace -1 would mean the whole machine. Children of killed processes
    // become ours, so that repeating this gets them all.
    for child in children() {
        let _ = kill(child, Signal::SIGKILL);
    }
}

fn children() -> Vec<Pid> {
    let path = format!("/proc/self/task/{}/children", getpid());
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .map(Pid::from_raw)
        .collect()
}

/// One process that ended, or `None` if there is none now.
fn reap() -> Option<(Pid, Status)> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => return Some((pid, Status::exited(code))),
            Ok(WaitStatus::Signaled(pid, signal, _)) => {
                return Some((pid, Status::signaled(signal)));
            }
            Ok(WaitStatus::StillAlive) => return None,
            Ok(_) | Err(Errno::EINTR) => {}
            // A real-time signal has no name here; the process is reaped all the same.
            Err(Errno::EINVAL) => {}
            Err(_) => return None,
        }
    }
}

fn has_children() -> bool {
    let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT | WaitPidFlag::WEXITED;
    let any = nix::sys::wait::waitid(nix::sys::wait::Id::All, flags);
    !matches!(any, Err(Errno::ECHILD))
}
