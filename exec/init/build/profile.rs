//! Docker's default profile of system calls for what Docker's default capabilities can use, without
//! packet sockets unless those are granted.
//!
//! Every call that is not listed fails with EPERM. Names that the library here does not know
//! are left out: they are denied like any other.

use libseccomp::error::SeccompError;
use libseccomp::{
    ScmpAction, ScmpArch, ScmpArgCompare, ScmpCompareOp, ScmpFilterContext, ScmpSyscall,
};

const EPERM: i32 = 1;
const ENOSYS: i32 = 38;
/// Families of sockets that reach past the network's own addresses: the hypervisor's, and those
/// that take and send whole frames.
const AF_PACKET: u64 = 17;
const AF_VSOCK: u64 = 40;
const AF_XDP: u64 = 44;
/// More than the kernel knows.
const FAMILIES: u64 = 64;
/// The kernel takes a family as an int and drops the upper half of the register.
const INT: u64 = 0xFFFF_FFFF;
/// CLONE_NEW* but for CLONE_NEWTIME, which shares its bit with the exit signal's byte.
const CLONE_NAMESPACES: u64 = 0x7E02_0000;
/// PER_LINUX, PER_LINUX32, UNAME26, PER_LINUX32 with UNAME26, and "only ask".
const PERSONALITIES: [u64; 5] = [0, 8, 0x2_0000, 0x2_0008, 0xFFFF_FFFF];
/// A filter that the kernel walks as a tree: fewer steps a call than a list.
const AS_TREE: u32 = 2;

/// Allowed to everybody. Not io_uring: its rings go around this filter.
const ALWAYS: &str = "
accept accept4 access adjtimex alarm bind brk cachestat capget capset chdir chmod chown chown32
chroot clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 clock_gettime
clock_gettime64 clock_nanosleep clock_nanosleep_time64 close close_range connect copy_file_range
creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2
epoll_wait epoll_wait_old eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2
fadvise64 fadvise64_64 fallocate fanotify_mark fchdir fchmod fchmodat fchmodat2 fchown fchown32
fchownat fcntl fcntl64 fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat
fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futex futex_requeue futex_time64
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
process_vm_readv process_vm_writev pselect6 pselect6_time64 ptrace pwrite64 pwritev pwritev2
read readahead readlink readlinkat readv recv recvfrom recvmmsg recvmmsg_time64 recvmsg
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

/// What a machine architecture adds: its Rust name, the filter's names, its own calls. Without
/// x32, which Docker lists: few kernels have it, and a call of it ends the program this way.
const BY_ARCHITECTURE: [(&str, [ScmpArch; 2], &str); 2] = [
    (
        "x86_64",
        [ScmpArch::X8664, ScmpArch::X86],
        "arch_prctl modify_ldt",
    ),
    (
        "aarch64",
        [ScmpArch::Aarch64, ScmpArch::Arm],
        "arm_fadvise64_64 arm_sync_file_range breakpoint cacheflush set_tls sync_file_range2",
    ),
];

/// The filter for a machine architecture, `None` where there is no profile for it. Packet sockets
/// are allowed by it if `raw_sockets`.
pub(crate) fn filter(
    architecture: &str,
    raw_sockets: bool,
) -> Result<Option<ScmpFilterContext>, SeccompError> {
    let known = |(name, ..): &&(&str, _, _)| *name == architecture;
    let Some((_, names, own)) = BY_ARCHITECTURE.iter().find(known) else {
        return Ok(None);
    };
    let mut filter = ScmpFilterContext::new(ScmpAction::Errno(EPERM))?;
    for name in names {
        filter.add_arch(*name)?;
    }
    if !names.contains(&ScmpArch::native()) {
        filter.remove_arch(ScmpArch::native())?;
    }
    filter.set_ctl_optimize(AS_TREE)?;
    allow(&mut filter, ALWAYS)?;
    allow(&mut filter, own)?;
    allow_by_argument(&mut filter)?;
    allow_sockets(&mut filter, raw_sockets)?;
    // clone3's flags are behind a pointer that no filter can follow. ENOSYS makes a C library
    // fall back to clone.
    add(&mut filter, ScmpAction::Errno(ENOSYS), "clone3", None)?;
    Ok(Some(filter))
}

fn allow(filter: &mut ScmpFilterContext, calls: &str) -> Result<(), SeccompError> {
    calls
        .split_whitespace()
        .try_for_each(|call| add(filter, ScmpAction::Allow, call, None))
}

fn allow_by_argument(filter: &mut ScmpFilterContext) -> Result<(), SeccompError> {
    let mut allow_if = |call: &str, operator, value| {
        let first = ScmpArgCompare::new(0, operator, value);
        add(filter, ScmpAction::Allow, call, Some(first))
    };
    for value in PERSONALITIES {
        allow_if("personality", ScmpCompareOp::Equal, value)?;
    }
    allow_if("clone", ScmpCompareOp::MaskedEqual(CLONE_NAMESPACES), 0)
}

/// Allows the families of sockets one by one: several comparisons of one argument cannot be joined.
fn allow_sockets(filter: &mut ScmpFilterContext, raw_sockets: bool) -> Result<(), SeccompError> {
    let is_allowed = |family: &u64| match *family {
        AF_VSOCK => false,
        AF_PACKET | AF_XDP => raw_sockets,
        _ => true,
    };
    (0..FAMILIES).filter(is_allowed).try_for_each(|family| {
        let equal = ScmpCompareOp::MaskedEqual(INT);
        let first = ScmpArgCompare::new(0, equal, family);
        add(filter, ScmpAction::Allow, "socket", Some(first))
    })
}

fn add(
    filter: &mut ScmpFilterContext,
    action: ScmpAction,
    call: &str,
    condition: Option<ScmpArgCompare>,
) -> Result<(), SeccompError> {
    let Ok(call) = ScmpSyscall::from_name(call) else {
        return Ok(());
    };
    match condition {
        Some(condition) => filter.add_rule_conditional(action, call, &[condition])?,
        None => filter.add_rule(action, call)?,
    };
    Ok(())
}
