//! The limits of the kernel as they stand in `/proc`.

use std::fs;
use std::path::Path;

/// What is set. None: this kernel has no such limit, or not in this network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KernelLimits {
    /// Neighbours (ARP entries) that the kernel keeps at most.
    pub(super) neighbours: Option<u64>,
    /// Files and sockets that the agent may have open; `u64::MAX` if unlimited.
    pub(super) files: Option<u64>,
    /// Most bytes that a program may ask for a socket's receive buffer.
    pub(super) receive_bytes: Option<u64>,
    /// The same for sending.
    pub(super) send_bytes: Option<u64>,
    /// Processes and threads of the machine.
    pub(super) pids: Option<u64>,
    /// User namespaces.
    pub(super) user_namespaces: Option<u64>,
    /// Ports that the kernel takes for outgoing connections, first and last.
    pub(super) outgoing_ports: Option<(u64, u64)>,
    /// Connections that the packet filter keeps track of, now and at most.
    pub(super) tracked: Option<(u64, u64)>,
}

impl KernelLimits {
    /// Reads them under a root, `/` on a real machine.
    pub(super) fn read(root: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(root.join("proc").join(path)).ok();
        let number = |path: &str| text(path)?.trim().parse::<u64>().ok();
        Self {
            neighbours: number("sys/net/ipv4/neigh/default/gc_thresh3"),
            files: text("self/limits").and_then(|limits| open_files(&limits)),
            receive_bytes: number("sys/net/core/rmem_max"),
            send_bytes: number("sys/net/core/wmem_max"),
            pids: number("sys/kernel/pid_max"),
            user_namespaces: number("sys/user/max_user_namespaces"),
            outgoing_ports: text("sys/net/ipv4/ip_local_port_range").and_then(|text| pair(&text)),
            tracked: number("sys/net/netfilter/nf_conntrack_count")
                .zip(number("sys/net/netfilter/nf_conntrack_max")),
        }
    }
}

/// The soft limit of `Max open files`.
fn open_files(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn pair(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}
