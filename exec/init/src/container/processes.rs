//! The processes of the container: their ends, and their end.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::WaitPidFlag;
use nix::unistd::{Pid, getpid};

use crate::connection::timeout;

/// The offset of a signal's number in an exit status.
const SIGNAL_BASE: i32 = 128;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessStatus {
    /// 128+N for signal N.
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
}

impl ProcessStatus {
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

/// Who asked for the end with SIGTERM or SIGINT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A process of this container.
    Inside,
    /// The container engine, the machine, or an admin.
    Outside,
}

impl From<ExitStatus> for ProcessStatus {
    fn from(status: ExitStatus) -> Self {
        let signal = status.signal();
        let of_signal = signal.map_or(0, |signal| SIGNAL_BASE + signal);
        Self {
            code: status.code().unwrap_or(of_signal),
            signal,
        }
    }
}

/// News that signals brought.
#[derive(Debug, Default)]
pub(crate) struct SignalNews {
    /// SIGTERM or SIGINT came. If both askers sent one, that from outside counts.
    pub(crate) stop: Option<Asker>,
    /// Processes that ended, orphans of the image too.
    pub(crate) ended: Vec<(Pid, ProcessStatus)>,
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
    pub(crate) fn news(&self) -> SignalNews {
        let mut news = SignalNews::default();
        while let Ok(Some(signal)) = self.signals.read_signal() {
            if signal.ssi_signo != Signal::SIGCHLD as u32 && news.stop != Some(Asker::Outside) {
                news.stop = Some(asker(signal.ssi_pid));
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
            signal_others(Signal::SIGKILL);
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

/// A sender outside this pid namespace has no pid in it. Outside of any, who sent it cannot be told.
fn asker(sender: u32) -> Asker {
    if is_first() && sender != 0 {
        Asker::Inside
    } else {
        Asker::Outside
    }
}

/// Whether this is the first process of a pid namespace.
fn is_first() -> bool {
    getpid().as_raw() == 1
}

/// Sends SIGTERM to every process of the container but this one, whatever session and process
/// group it is in, and returns those that are spared for now.
///
/// A filter at the end of a pipe, like `tee`, dies of the signal and takes the output of a program
/// with it that handles the signal and has something to say: it would fail to write, in the midst of
/// saving its work. It ends by itself when the program has. Where no program handles the signal,
/// nothing is spared.
pub(crate) fn terminate_others() -> Vec<Pid> {
    let others = others();
    let (filters, rest): (Vec<Pid>, Vec<Pid>) = match others.iter().any(|pid| handles_term(*pid)) {
        true => others.into_iter().partition(|pid| is_filter(*pid)),
        false => (Vec::new(), others),
    };
    if filters.is_empty() {
        // Even what is forked this moment.
        signal_others(Signal::SIGTERM);
    } else {
        for process in rest {
            let _ = kill(process, Signal::SIGTERM);
        }
    }
    filters
}

/// Whether a process is left besides this one and `spared`.
pub(crate) fn are_left_besides(spared: &[Pid]) -> bool {
    others().iter().any(|pid| !spared.contains(pid))
}

/// Sends a signal to every process of the container but this one.
pub(crate) fn signal_others(signal: Signal) {
    if is_first() {
        // Fails only if nothing else runs. It spares the caller.
        let _ = kill(Pid::from_raw(-1), signal);
        return;
    }
    // Outside a pid namespace -1 would mean the whole machine.
    for process in descendants(getpid()) {
        let _ = kill(process, signal);
    }
}

/// Every process of the container but this one.
fn others() -> Vec<Pid> {
    if !is_first() {
        return descendants(getpid());
    }
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let pids = pids.map(Pid::from_raw);
    pids.filter(|pid| *pid != getpid()).collect()
}

/// Whether a program does something of its own when it is told to end.
fn handles_term(pid: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    caught.is_some_and(|bits| bits >> (Signal::SIGTERM as i32 - 1) & 1 == 1)
}

/// Whether a process reads from a pipe, and would just die if it were told to end.
fn is_filter(pid: Pid) -> bool {
    let input = fs::read_link(format!("/proc/{pid}/fd/0"));
    input.is_ok_and(|input| input.as_os_str().as_encoded_bytes().starts_with(b"pipe:"))
        && !handles_term(pid)
}

/// What runs below a process, children before their own. One that is forked meanwhile may be
/// missed.
fn descendants(of: Pid) -> Vec<Pid> {
    let mut found = children(of);
    let mut next = 0;
    while let Some(process) = found.get(next).copied() {
        found.extend(children(process));
        next += 1;
    }
    found
}

/// The children of all threads of a process.
fn children(of: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{of}/task"));
    let lists = threads.into_iter().flatten().flatten().map(|thread| {
        let list = thread.path().join("children");
        fs::read_to_string(list).unwrap_or_default()
    });
    lists
        .collect::<String>()
        .split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .map(Pid::from_raw)
        .collect()
}

/// One process that ended, or `None` if there is none now.
fn reap() -> Option<(Pid, ProcessStatus)> {
    let mut raw = 0;
    // Not by the library: it knows no real-time signals, and drops the end of what died of one.
    // SAFETY: waitpid writes to the one integer that it is given.
    #[allow(unsafe_code)]
    let pid = unsafe { libc::waitpid(-1, &raw mut raw, libc::WNOHANG) };
    let ended = ExitStatus::from_raw(raw);
    (pid > 0).then(|| (Pid::from_raw(pid), ended.into()))
}

/// Whether any process is left below this one.
pub(crate) fn has_children() -> bool {
    let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT | WaitPidFlag::WEXITED;
    let any = nix::sys::wait::waitid(nix::sys::wait::Id::All, flags);
    !matches!(any, Err(Errno::ECHILD))
}
