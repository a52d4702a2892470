//! Whether the kernel's limits are wide enough for what this node does.

use std::path::Path;

use muster_model::finding::{Finding, Grade};

use super::limits::KernelLimits;
use super::warn_unless;
use crate::executor::PIDS_SHARE;

/// Files that an agent may need: a thousand connections, and some for every task.
const FILES_MIN: u64 = 8192;
/// Buffers of this size never were the reason for a lost datagram.
const BUFFER_BYTES_GOOD: u64 = 4 << 20;
/// How full the table of tracked connections may be, in percent.
const TRACKED_PERCENT_MAX: u64 = 80;

/// What the limits are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    /// Members of the cluster, this one included.
    pub(super) members: u64,
    /// First and last port that tasks are given.
    pub(super) task_ports: (u16, u16),
    /// Processes and threads that one task may have.
    pub(super) task_pids: u32,
    /// Datagrams to the mesh that the kernel dropped for want of room.
    pub(super) dropped: u64,
}

/// Reads the limits and judges them.
pub(super) fn check(root: &Path, needs: &Needs) -> Vec<Finding> {
    judged(&KernelLimits::read(root), needs)
}

fn judged(limits: &KernelLimits, needs: &Needs) -> Vec<Finding> {
    [
        limits
            .neighbours
            .map(|most| neighbours(most, needs.members)),
        limits.files.map(files),
        limits
            .receive_bytes
            .zip(limits.send_bytes)
            .map(|(receive, send)| buffers(receive, send, needs.dropped)),
        limits.pids.map(|most| pids(most, needs.task_pids)),
        limits.user_namespaces.map(user_namespaces),
        limits
            .outgoing_ports
            .map(|range| outgoing(range, needs.task_ports)),
        limits.tracked.map(|(now, most)| tracked(now, most)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Any member may speak to any other, by its tasks; beside them there are gateways and storage.
fn neighbours(most: u64, members: u64) -> Finding {
    let room = members.saturating_mul(2);
    let evidence = format!("{most} neighbours at most; members of the cluster: {members}");
    let finding = Finding::ok("kernel", "net.ipv4.neigh.default.gc_thresh3", evidence);
    if most >= room {
        return finding;
    }
    let grade = if most < members {
        Grade::Fail
    } else {
        Grade::Warn
    };
    let wanted = room.next_power_of_two();
    finding.but(
        grade,
        format!(
            "sysctl -w net.ipv4.neigh.default.gc_thresh3={wanted}, \
             net.ipv4.neigh.default.gc_thresh2={}, and both in /etc/sysctl.d",
            wanted / 2
        ),
    )
}

fn files(most: u64) -> Finding {
    let evidence = match most {
        u64::MAX => "no limit".to_owned(),
        most => format!("{most} open files at most, {FILES_MIN} are needed"),
    };
    let finding = Finding::ok("kernel", "open files of the agent", evidence);
    let remedy = "set LimitNOFILE=1048576 in the agent's systemd unit";
    warn_unless(most >= FILES_MIN, finding, remedy)
}

/// Small buffers are no fault as long as nothing is lost by them.
fn buffers(receive: u64, send: u64, dropped: u64) -> Finding {
    let evidence = format!(
        "{receive} bytes to receive, {send} to send; {dropped} datagrams to the mesh were dropped"
    );
    let finding = Finding::ok("kernel", "net.core.rmem_max and wmem_max", evidence);
    let wide = receive.min(send) >= BUFFER_BYTES_GOOD;
    let remedy = if wide {
        "the agent gets too little CPU time to empty its socket: see what else runs there"
    } else {
        "sysctl -w net.core.rmem_max=4194304 net.core.wmem_max=4194304, and both in \
         /etc/sysctl.d; then restart the agent"
    };
    warn_unless(dropped == 0, finding, remedy)
}

fn pids(most: u64, task: u32) -> Finding {
    let allowed = u64::from(task).min(most / PIDS_SHARE);
    let evidence = format!("{most} processes and threads; one task may have {allowed}");
    let finding = Finding::ok("kernel", "kernel.pid_max", evidence);
    let enough = most >= u64::from(task).saturating_mul(PIDS_SHARE);
    let remedy = "sysctl -w kernel.pid_max=4194304 and in /etc/sysctl.d, or lower tasks.pids in \
                  agent.toml";
    warn_unless(enough, finding, remedy)
}

fn user_namespaces(most: u64) -> Finding {
    let finding = Finding::ok(
        "kernel",
        "user.max_user_namespaces",
        format!("{most} at most"),
    );
    let remedy = "tools that fence themselves in fail in tasks: sysctl -w \
                  user.max_user_namespaces=65536";
    warn_unless(most > 0, finding, remedy)
}

/// A port that the kernel hands to an outgoing connection is one that a task cannot listen at.
fn outgoing(kernel: (u64, u64), (first, last): (u16, u16)) -> Finding {
    let evidence = format!(
        "{} to {} for outgoing connections, {first} to {last} for tasks",
        kernel.0, kernel.1
    );
    let finding = Finding::ok("kernel", "net.ipv4.ip_local_port_range", evidence);
    let apart = kernel.1 < u64::from(first) || u64::from(last) < kernel.0;
    let remedy = "set hardware.ports in agent.toml to a range clear of it, and restart the agent";
    warn_unless(apart, finding, remedy)
}

fn tracked(now: u64, most: u64) -> Finding {
    let evidence = format!("{now} of {most} tracked connections");
    let finding = Finding::ok("kernel", "net.netfilter.nf_conntrack_max", evidence);
    let room = now.saturating_mul(100) <= most.saturating_mul(TRACKED_PERCENT_MAX);
    let remedy = "new connections are about to be dropped: raise it by sysctl, or do not track \
                  connections between nodes";
    warn_unless(room, finding, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs() -> Needs {
        Needs {
            members: 100,
            task_ports: (15_000, 32_767),
            task_pids: 32_768,
            dropped: 0,
        }
    }

    /// A machine with everything that a kernel can say, set as systemd has it.
    const FILES: &[(&str, &str)] = &[
        ("sys/net/ipv4/neigh/default/gc_thresh3", "1024\n"),
        (
            "self/limits",
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max processes             96365                96365                processes \n\
             Max open files            524288               524288               files     \n",
        ),
        ("sys/net/core/rmem_max", "212992\n"),
        ("sys/net/core/wmem_max", "212992\n"),
        ("sys/kernel/pid_max", "4194304\n"),
        ("sys/user/max_user_namespaces", "96365\n"),
        ("sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
        ("sys/net/netfilter/nf_conntrack_count", "800\n"),
        ("sys/net/netfilter/nf_conntrack_max", "1000\n"),
    ];

    /// What is found when one of the files says something else, or is not there.
    fn trouble(path: &str, text: Option<&str>, needs: &Needs) -> Vec<(String, Grade)> {
        let root = tempfile::tempdir().unwrap();
        for (name, usual) in FILES {
            let file = root.path().join("proc").join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            match text {
                Some(text) if *name == path => std::fs::write(file, text).unwrap(),
                None if *name == path => {}
                _ => std::fs::write(file, usual).unwrap(),
            }
        }
        let found = check(root.path(), needs);
        assert!(found.len() >= FILES.len() - 3, "{found:?}");
        let bad = found.into_iter().filter(Finding::is_trouble);
        bad.map(|one| {
            assert!(!one.remedy.is_empty(), "{one:?}");
            (one.subject, one.grade)
        })
        .collect()
    }

    #[test]
    fn a_usual_machine_is_well() {
        assert_eq!(trouble("", None, &needs()), []);
    }

    #[test]
    fn each_limit_that_is_too_narrow_is_told() {
        let bigger = |members| Needs { members, ..needs() };
        let neighbours = "sys/net/ipv4/neigh/default/gc_thresh3";
        let files = "Max open files            1024                 524288               files\n";
        for (path, text, needs, subject, grade) in [
            (neighbours, "1024", bigger(513), "gc_thresh3", Grade::Warn),
            (neighbours, "1024", bigger(1025), "gc_thresh3", Grade::Fail),
            ("self/limits", files, needs(), "open files", Grade::Warn),
            (
                "sys/kernel/pid_max",
                "32768",
                needs(),
                "pid_max",
                Grade::Warn,
            ),
            (
                "sys/user/max_user_namespaces",
                "0",
                needs(),
                "user_n",
                Grade::Warn,
            ),
            (
                "sys/net/ipv4/ip_local_port_range",
                "1024 65000",
                needs(),
                "local_port",
                Grade::Warn,
            ),
            (
                "sys/net/netfilter/nf_conntrack_count",
                "801",
                needs(),
                "conntrack",
                Grade::Warn,
            ),
        ] {
            let told = trouble(path, Some(text), &needs);
            assert_eq!(told.len(), 1, "{path}: {told:?}");
            assert!(told[0].0.contains(subject), "{told:?}");
            assert_eq!(told[0].1, grade, "{told:?}");
        }
    }

    #[test]
    fn small_buffers_are_told_once_they_cost_something() {
        let lossy = Needs {
            dropped: 3,
            ..needs()
        };
        let told = trouble("", None, &lossy);
        assert_eq!(told.len(), 1, "{told:?}");
        let wide = buffers(8 << 20, 8 << 20, 3);
        assert!(wide.remedy.contains("CPU"), "{wide:?}");
    }

    #[test]
    fn what_a_kernel_does_not_have_is_not_judged() {
        for (path, _) in FILES {
            assert_eq!(trouble(path, None, &needs()), [], "{path}");
        }
    }
}
