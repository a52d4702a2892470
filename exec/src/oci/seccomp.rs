//! Docker's default seccomp profile: every system call that is not listed fails with EPERM.
//!
//! Calls are allowed always, on some machine architectures, with some capability, or for some
//! values of an argument. Names that a host's libseccomp does not know are skipped by runc.

use serde_json::{Value, json};

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;
const AF_VSOCK: u64 = 40;
/// CLONE_NEW* but for CLONE_NEWTIME, which shares its bit with the exit signal's byte.
const CLONE_NAMESPACES: u64 = 0x7E02_0000;
/// PER_LINUX, PER_LINUX32, UNAME26, PER_LINUX32 with UNAME26, and "only ask".
const PERSONALITIES: &[u64] = &[0, 8, 0x2_0000, 0x2_0008, 0xFFFF_FFFF];

/// Allowed to everybody. Not io_uring: its rings go around this filter.
const ALWAYS: &str = "
accept accept4 access adjtimex alarm bind brk cachestat capget capset chdir chmod chown chown32
clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 clock_gettime clock_gettime64
clock_nanosleep clock_nanosleep_time64 close close_range connect copy_file_range creat dup dup2
dup3 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait
epoll_wait_old eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64
fadvise64_64 fallocate fanotify_mark fchdir fchmod fchmodat fchmodat2 fchown fchown32 fchownat
fcntl fcntl64 fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat fstat64
fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futex futex_requeue futex_time64
futex_wait futex_waitv futex_wake futimesat get_robust_list get_thread_area getcpu getcwd
getdents getdents64 getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32
getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresgid32
getresuid getresuid32 getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday
getuid getuid32 getxattr getxattrat inotify_add_watch inotify_init inotify_init1
inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_pgetevents_time64 io_setup
io_submit ioctl ioprio_get ioprio_set ipc kill landlock_add_rule landlock_create_ruleset
landlock_restrict_self lchown lchown32 lgetxattr link linkat listen listmount listxattr
listxattrat llistxattr _llseek lremovexattr lseek lsetxattr lstat lstat64 madvise
map_shadow_stack membarrier memfd_create memfd_secret mincore mkdir mkdirat mknod mknodat mlock
mlock2 mlockall mmap mmap2 mprotect mq_getsetattr mq_notify mq_open mq_timedreceive
mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink mremap mseal msgctl msgget
msgrcv msgsnd msync munlock munlockall munmap name_to_handle_at nanosleep newfstatat _newselect
open openat openat2 pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free
pkey_mprotect poll ppoll ppoll_time64 prctl pread64 preadv preadv2 prlimit64 process_mrelease
process_vm_readv process_vm_writev pselect6 pselect6_time64 ptrace pwrite64 pwritev pwritev2 read
readahead readlink readlinkat readv recv recvfrom recvmmsg recvmmsg_time64 recvmsg
remap_file_pages removexattr removexattrat rename renameat renameat2 restart_syscall rmdir rseq
rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend
rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo sched_get_priority_max
sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler
sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr
sched_setparam sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop
semtimedop_time64 send sendfile sendfile64 sendmmsg sendmsg sendto set_robust_list
set_thread_area set_tid_address setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32
setgroups setgroups32 setitimer setpgid setpriority setregid setregid32 setresgid setresgid32
setresuid setresuid32 setreuid setreuid32 setrlimit setsid setsockopt setuid setuid32 setxattr
setxattrat shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 sigprocmask
sigreturn socketcall socketpair splice stat stat64 statfs statfs64 statmount statx symlink
symlinkat sync sync_file_range syncfs sysinfo tee tgkill time timer_create timer_delete
timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64 timerfd_create
timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64 times tkill truncate
truncate64 ugetrlimit umask uname unlink unlinkat uretprobe utime utimensat utimensat_time64
utimes vfork vmsplice wait4 waitid waitpid write writev";

/// Allowed to who may hold the capability.
const BY_CAPABILITY: &[(&str, &str)] = &[
    ("CAP_BPF", "bpf"),
    ("CAP_DAC_READ_SEARCH", "open_by_handle_at"),
    ("CAP_PERFMON", "perf_event_open"),
    (
        "CAP_SYS_ADMIN",
        "bpf clone clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie mount \
         mount_setattr move_mount open_tree perf_event_open quotactl quotactl_fd setdomainname \
         sethostname setns syslog umount umount2 unshare",
    ),
    ("CAP_SYS_BOOT", "reboot"),
    ("CAP_SYS_CHROOT", "chroot"),
    ("CAP_SYS_MODULE", "delete_module finit_module init_module"),
    (
        "CAP_SYS_NICE",
        "get_mempolicy mbind set_mempolicy set_mempolicy_home_node",
    ),
    ("CAP_SYS_PACCT", "acct"),
    ("CAP_SYS_PTRACE", "kcmp pidfd_getfd process_madvise"),
    ("CAP_SYS_RAWIO", "ioperm iopl"),
    (
        "CAP_SYS_TIME",
        "clock_settime clock_settime64 settimeofday stime",
    ),
    ("CAP_SYS_TTY_CONFIG", "vhangup"),
    ("CAP_SYSLOG", "syslog"),
];

/// What a machine architecture adds: its Rust name, the filter's names, its own calls. Without
/// x32, which Docker lists: few kernels have it, a call of it ends the program this way, and
/// every further architecture costs each launch 5 to 10 ms of filter building.
const BY_ARCHITECTURE: &[(&str, &[&str], &str)] = &[
    (
        "x86_64",
        &["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"],
        "arch_prctl modify_ldt",
    ),
    (
        "aarch64",
        &["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"],
        "arm_fadvise64_64 arm_sync_file_range breakpoint cacheflush set_tls sync_file_range2",
    ),
];

/// The profile for this machine's architecture and a container bounded by `capabilities`.
/// `None` where the architecture has no profile here.
pub(crate) fn profile(architecture: &str, capabilities: &[&str]) -> Option<Value> {
    let (_, filters, own) = BY_ARCHITECTURE
        .iter()
        .find(|(name, ..)| *name == architecture)?;
    let may = |capability: &str| capabilities.contains(&capability);
    let mut rules = vec![allow(ALWAYS), allow(own)];
    rules.extend(
        BY_CAPABILITY
            .iter()
            .filter(|(capability, _)| may(capability))
            .map(|(_, calls)| allow(calls)),
    );
    rules.push(allow_if("socket", "SCMP_CMP_NE", AF_VSOCK));
    rules.extend(
        PERSONALITIES
            .iter()
            .map(|value| allow_if("personality", "SCMP_CMP_EQ", *value)),
    );
    if !may("CAP_SYS_ADMIN") {
        rules.push(allow_if("clone", "SCMP_CMP_MASKED_EQ", CLONE_NAMESPACES));
        // clone3's flags are behind a pointer that no filter can follow. ENOSYS makes a C
        // library fall back to clone.
        rules.push(json!({
            "names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS,
        }));
    }
    Some(json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": EPERM,
        "architectures": filters,
        "syscalls": rules,
    }))
}

fn allow(calls: &str) -> Value {
    let names: Vec<&str> = calls.split_whitespace().collect();
    json!({ "names": names, "action": "SCMP_ACT_ALLOW" })
}

/// Allows `call` where its first argument passes the comparison. For a masked comparison
/// `value` is the mask, and what it keeps has to be zero.
fn allow_if(call: &str, operator: &str, value: u64) -> Value {
    json!({
        "names": [call],
        "action": "SCMP_ACT_ALLOW",
        "args": [{ "index": 0, "value": value, "op": operator }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oci::capabilities;

    fn allowed(profile: &Value, call: &str) -> bool {
        profile["syscalls"].as_array().unwrap().iter().any(|rule| {
            rule["action"] == "SCMP_ACT_ALLOW"
                && rule["args"].is_null()
                && rule["names"].as_array().unwrap().iter().any(|n| n == call)
        })
    }

    #[test]
    fn calls_follow_capabilities_and_architecture() {
        let docker = profile("x86_64", capabilities::DEFAULT).unwrap();
        let admin = profile("aarch64", &["CAP_SYS_ADMIN"]).unwrap();
        for (call, in_docker, in_admin) in [
            ("read", true, true),
            ("chroot", true, false),
            ("arch_prctl", true, false),
            ("cacheflush", false, true),
            ("mount", false, true),
            ("unshare", false, true),
            ("clone", false, true),
            ("io_uring_setup", false, false),
            ("keyctl", false, false),
            ("init_module", false, false),
        ] {
            assert_eq!(allowed(&docker, call), in_docker, "{call}");
            assert_eq!(
                allowed(&admin, call),
                in_admin,
                "{call} for an administrator"
            );
        }
        assert!(profile("vax", capabilities::DEFAULT).is_none());
    }
}
