//! What root in a container may do: Docker's default capabilities but for raw sockets.
//!
//! Containers share the host's network. A raw or packet socket there reads what every other
//! program of the machine sends and receives, and can send in its name.

/// The capabilities that every container's root user holds, and the bound for everybody else.
const DEFAULT: &[&str] = &[
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_MKNOD",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];

/// Raw and packet sockets, where an admin grants them.
const RAW_SOCKETS: &str = "CAP_NET_RAW";

/// The capabilities of a container's root user.
pub(super) fn granted(raw_sockets: bool) -> Vec<&'static str> {
    let raw = raw_sockets.then_some(RAW_SOCKETS);
    DEFAULT.iter().copied().chain(raw).collect()
}
