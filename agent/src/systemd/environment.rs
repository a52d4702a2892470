//! The variables by which a service manager talks to a service.

use std::ffi::OsString;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use super::kept::KeptSockets;
use super::messages::Channel;

/// The first socket that is handed over; the others follow.
const FIRST: RawFd = 3;
/// More sockets than the agent could have left behind.
const SOCKETS_MAX: usize = 64;

/// All variables that are meant for one process alone.
const NAMES: [&str; 7] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "LISTEN_PID",
    "LISTEN_PIDFDID",
];

/// What stood in the environment.
#[derive(Debug, Default)]
pub(super) struct ServiceEnvironment {
    notify: Option<OsString>,
    sockets: Vec<(OwnedFd, String)>,
}

impl ServiceEnvironment {
    /// Reads the variables and removes them.
    pub(super) fn take() -> Self {
        let read = |name| std::env::var(name).ok();
        let handed_over = handed_over(read, std::process::id());
        let environment = Self {
            notify: std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty()),
            sockets: handed_over.into_iter().filter_map(own).collect(),
        };
        for name in NAMES {
            // SAFETY: the agent has no thread yet that reads or writes the environment: the
            // allocator's own, the only one there can be, does neither.
            #[allow(unsafe_code)]
            unsafe {
                std::env::remove_var(name);
            }
        }
        environment
    }

    /// Where messages go.
    pub(super) fn channel(&self) -> Option<Channel> {
        let address = self.notify.as_deref()?;
        Channel::open(address)
            .inspect_err(|error| {
                tracing::warn!(?address, %error, "cannot use NOTIFY_SOCKET; the service manager is told nothing");
            })
            .ok()
    }

    /// The sockets that were handed over.
    pub(super) fn kept(self) -> KeptSockets {
        KeptSockets::new(self.sockets)
    }
}

/// The descriptors that are meant for the process of this id, with their names.
fn handed_over(read: impl Fn(&'static str) -> Option<String>, pid: u32) -> Vec<(RawFd, String)> {
    let number = |name| read(name).and_then(|text| text.parse::<u32>().ok());
    if number("LISTEN_PID") != Some(pid) {
        return Vec::new();
    }
    let count = number("LISTEN_FDS").and_then(|count| usize::try_from(count).ok());
    let names = read("LISTEN_FDNAMES").unwrap_or_default();
    let names = names.split(':').map(str::to_owned);
    let names = names.chain(std::iter::repeat(String::new()));
    let count = count.unwrap_or(0).min(SOCKETS_MAX);
    (FIRST..).zip(names).take(count).collect()
}

/// Takes a descriptor over, and keeps it from what the agent starts.
fn own((number, name): (RawFd, String)) -> Option<(OwnedFd, String)> {
    // SAFETY: LISTEN_PID says that these descriptors were opened for this process, and nothing of
    // this process has looked at them before.
    #[allow(unsafe_code)]
    let socket = unsafe {
        if libc::fcntl(number, libc::F_GETFD) < 0 {
            tracing::warn!(
                number,
                name,
                "the service manager names a descriptor that is not open"
            );
            return None;
        }
        OwnedFd::from_raw_fd(number)
    };
    let closed = fcntl(&socket, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
    closed
        .inspect_err(|error| tracing::warn!(name, %error, "cannot take a socket over"))
        .ok()?;
    Some((socket, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handed(variables: &[(&str, &str)]) -> Vec<(RawFd, String)> {
        let read = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        handed_over(read, 42)
    }

    #[test]
    fn only_sockets_for_this_process_are_taken() {
        let three = ("LISTEN_FDS", "3");
        let names = ("LISTEN_FDNAMES", "http:mesh");
        let all = |names: [&str; 3]| {
            let names = names.into_iter().map(str::to_owned);
            (3..).zip(names).collect::<Vec<_>>()
        };
        assert_eq!(
            handed(&[("LISTEN_PID", "42"), three, names]),
            all(["http", "mesh", ""])
        );
        assert_eq!(handed(&[("LISTEN_PID", "42"), three]), all(["", "", ""]));
        for wrong in ["41", "", "x"] {
            assert_eq!(handed(&[("LISTEN_PID", wrong), three, names]), []);
        }
        assert_eq!(handed(&[three, names]), []);
        assert_eq!(handed(&[("LISTEN_PID", "42"), ("LISTEN_FDS", "-1")]), []);
        let many = handed(&[("LISTEN_PID", "42"), ("LISTEN_FDS", "4000000000")]);
        assert_eq!(many.len(), SOCKETS_MAX);
    }
}
