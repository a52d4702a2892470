//! Texts of the kernel, and real processes.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::proc_file::{
    ProcStat, parse_command, parse_inner_id, parse_kernel, parse_rank, parse_stat, parse_syscall,
    parse_wchan,
};
use super::python::in_package;
use super::*;

#[test]
fn stat_is_read_whatever_the_program_is_called() {
    let stat = "4711 (a) S (b)) D 12 4711 12 0 -1 4194304 9 0 0 0 150 25 0 0 20 0 3 0 900 1 2 3";
    assert_eq!(
        parse_stat(stat),
        Some(ProcStat {
            name: "a) S (b)".to_owned(),
            state: "D".to_owned(),
            parent: 12,
            cpu_ms: 1750,
        })
    );
    for cut_off in ["", "4711 (a", "4711 (a) S", "4711 (a) S x"] {
        assert_eq!(parse_stat(cut_off), None, "{cut_off}");
    }
}

#[test]
fn numbers_are_those_of_the_container() {
    assert_eq!(
        parse_inner_id("Name:\tx\nNSpid:\t4711\t23\t7\nVmRSS: 1"),
        Some(7)
    );
    assert_eq!(parse_inner_id("NSpid:\t4711\n"), Some(4711));
    assert_eq!(parse_inner_id("Name:\tx\n"), None);
}

#[test]
fn system_calls_have_names() {
    assert_eq!(parse_syscall("running\n"), None);
    assert_eq!(parse_syscall("-1 0x7ffd 0x7f\n"), None);
    assert_eq!(parse_syscall("999999 0x0\n"), None);
    let number = libc::SYS_futex;
    assert_eq!(parse_syscall(&format!("{number} 0x1 0x80")), Some("futex"));
}

#[test]
fn waits_of_the_kernel_are_named() {
    assert_eq!(
        parse_wchan("hrtimer_nanosleep"),
        Some("hrtimer_nanosleep".to_owned())
    );
    assert_eq!(parse_wchan("0"), None);
    assert_eq!(parse_wchan("\n"), None);
    let stack = "[<0>] hrtimer_nanosleep+0x74/0xf0\n[<0>] nvidia_ioctl+0x1/0x2 [nvidia]\nodd\n";
    assert_eq!(parse_kernel(stack), ["hrtimer_nanosleep", "nvidia_ioctl"]);
}

#[test]
fn of_an_environment_the_rank_alone_is_read() {
    assert_eq!(parse_rank(b"A=1\0RANK=3\0B=2\0"), Some(3));
    assert_eq!(parse_rank(b"LOCAL_RANK=3\0XRANK=1\0"), None);
    assert_eq!(parse_rank(b"PMI_RANK=7\0RANK=x\0"), Some(7));
    assert_eq!(parse_rank(b"RANK=secret\0"), None);
    assert_eq!(
        parse_command(b"python\0train.py\0--a b\0"),
        "python train.py --a b"
    );
}

#[test]
fn files_are_told_below_their_packages() {
    for (path, expect) in [
        (
            "/opt/conda/lib/python3.10/site-packages/torch/nn/module.py",
            "torch/nn/module.py",
        ),
        ("/usr/lib/python3/dist-packages/numpy/x.py", "numpy/x.py"),
        ("/usr/lib/python3.11/threading.py", "threading.py"),
        ("/code/lib/pythonic/data.py", "/code/lib/pythonic/data.py"),
        ("/code/train.py", "/code/train.py"),
        ("<string>", "<string>"),
    ] {
        assert_eq!(in_package(path), expect, "{path}");
    }
}

/// A process that ends with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program, and waits until it says that it is ready.
fn started(command: &mut Command) -> Ends {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Ends(child)
}

fn read(pid: u32, all_threads: bool) -> ProcessStack {
    let reading = StackReading {
        pids: vec![pid],
        all_threads,
        limit: Duration::from_secs(20),
    };
    let mut said = Vec::new();
    super::child::read_below(Path::new("/proc"), &reading, &mut said).unwrap();
    let last = said.lines().map_while(Result::ok).last().unwrap();
    let line: ReadLine = serde_json::from_str(&last).unwrap();
    assert!(line.is_done, "{line:?}");
    line.process
}

/// Waits for something of a process: it may have said that it is ready before it is there.
fn once(pid: u32, all_threads: bool, is_there: impl Fn(&ProcessStack) -> bool) -> ProcessStack {
    let begun = Instant::now();
    loop {
        let process = read(pid, all_threads);
        if is_there(&process) {
            return process;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{process:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const PROGRAM: &str = "
import threading

def helper():
    threading.Event().wait()

def load_batch(lock):
    lock.acquire()

def main():
    threading.Thread(target=helper, daemon=True, name='watcher').start()
    lock = threading.Lock()
    lock.acquire()
    print('ready', flush=True)
    load_batch(lock)

main()
";

/// The kernel's files are read before Python's stacks. A first reading can thus find the thread on its way to the lock,
/// without a system call, and its function later.
fn waits_in_load_batch(process: &ProcessStack) -> bool {
    process.threads.first().is_some_and(|main| {
        let is_in_function = main
            .frames
            .first()
            .is_some_and(|it| it.function == "load_batch");
        is_in_function && main.syscall.is_some()
    })
}

#[test]
fn a_python_program_is_read_with_its_functions_and_lines() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("train.py");
    std::fs::write(&file, PROGRAM).unwrap();
    let child = started(Command::new("python3").arg(&file).env("RANK", "5"));
    let pid = child.0.id();
    let process = once(pid, false, waits_in_load_batch);
    assert_eq!(process.problem, None);
    assert!(
        process.is_python
            && process
                .python
                .as_ref()
                .is_some_and(|it| it.starts_with('3'))
    );
    assert_eq!((process.pid, process.rank), (pid, Some(5)));
    assert!(process.command.ends_with("train.py"), "{}", process.command);
    let main = &process.threads[0];
    let frames: Vec<_> = main
        .frames
        .iter()
        .map(|it| (it.function.as_str(), it.file.as_str(), it.line))
        .collect();
    let file = file.to_str().unwrap();
    assert_eq!(
        frames,
        [
            ("load_batch", file, 8),
            ("main", file, 15),
            ("<module>", file, 17)
        ]
    );
    assert_eq!((main.tid, main.state.as_str()), (pid, "S"));
    assert_eq!(main.syscall.as_deref(), Some("futex"));
    let watcher = process.threads.iter().find(|it| it.name == "watcher");
    let watcher = watcher.expect("the other thread of Python");
    assert_eq!(watcher.frames.last().unwrap().file, "threading.py");
}

/// As a container has it: namespaces of its own for mounts and numbers, a root of its own, and a program that is
/// nowhere else.
const APART: &str = "
set -e
mkdir root; mount --rbind / root; cd root; mkdir -p tmp/old-root
pivot_root . tmp/old-root; cd /; umount -l tmp/old-root; rmdir tmp/old-root
mount -t tmpfs tmpfs /mnt
cp \"$(python3 -c 'import sys; print(sys.executable)')\" /mnt/python3
cp \"$1\" /mnt/train.py
exec env PYTHONHOME=\"$(python3 -c 'import sys; print(sys.base_prefix)')\" /mnt/python3 /mnt/train.py
";

#[test]
fn a_python_program_in_namespaces_of_its_own_is_read() {
    if !nix::unistd::geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "in CI nothing is skipped");
        eprintln!("SKIPPED: not root; see deploy/test.sh");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("train.py");
    std::fs::write(&file, PROGRAM).unwrap();
    let mut unshare = Command::new("unshare");
    unshare.args([
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "sh",
        "-c",
        APART,
        "sh",
    ]);
    let child = started(unshare.arg(&file).current_dir(directory.path()));
    let children = format!("/proc/{0}/task/{0}/children", child.0.id());
    let pid = std::fs::read_to_string(children).unwrap();
    let pid = pid.trim().parse().unwrap();
    let process = once(pid, false, waits_in_load_batch);
    assert_eq!((process.problem.as_deref(), process.pid), (None, 1));
    let main = &process.threads[0];
    assert_eq!((main.tid, main.syscall.as_deref()), (1, Some("futex")));
    assert_eq!(main.frames[0].file, "/mnt/train.py");
    // From Python 3.11 on the numbers of threads are known, as the program sees them.
    let watcher = process
        .threads
        .iter()
        .find(|it| it.name == "watcher")
        .unwrap();
    assert!(watcher.tid == 0 || watcher.state == "S", "{watcher:?}");
}

#[test]
fn a_program_of_another_kind_is_told_by_the_kernel() {
    let child = started(Command::new("sh").args(["-c", "echo ready; exec sleep 600"]));
    let waits = |process: &ProcessStack| {
        let main = process.threads.first();
        main.is_some_and(|main| main.syscall.as_deref() == Some("clock_nanosleep"))
    };
    let process = once(child.0.id(), true, waits);
    assert!(
        !process.is_python && process.problem.is_none(),
        "{process:?}"
    );
    assert_eq!(
        (process.name.as_str(), process.parent),
        ("sleep", std::process::id())
    );
    assert_eq!(process.command, "sleep 600");
    // Who may not read the kernel's stack gets none.
    let main = &process.threads[0];
    let is_named = main.kernel.iter().any(|it| it.contains("nanosleep"));
    assert!(main.kernel.is_empty() || is_named, "{main:?}");
}

#[test]
fn what_only_calls_itself_python_is_told_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let fake = directory.path().join("python3");
    std::fs::copy("/bin/sleep", &fake).unwrap();
    let child = Ends(Command::new(&fake).arg("600").spawn().unwrap());
    let is_named = |process: &ProcessStack| process.command.ends_with("python3 600");
    let process = once(child.0.id(), false, is_named);
    assert!(process.is_python);
    let problem = process.problem.expect("a reason");
    assert!(
        !problem.is_empty() && !problem.contains('\n'),
        "{problem:?}"
    );
    assert_eq!(process.threads.len(), 1);
}

#[test]
fn all_threads_are_told_when_asked_for_and_a_process_that_is_gone_is_not() {
    let own = std::process::id();
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let waiting = std::thread::Builder::new()
        .name("waits-here".to_owned())
        .spawn(move || receiver.recv().is_err())
        .unwrap();
    let is_there =
        |process: &ProcessStack| process.threads.iter().any(|it| it.name == "waits-here");
    let process = once(own, true, is_there);
    assert!(process.threads.len() > 1);
    let main_alone = read(own, false);
    assert_eq!(main_alone.threads.len(), 1);
    assert!(main_alone.threads_left_out > 0);
    drop(sender);
    assert!(waiting.join().unwrap());
    let reading = StackReading {
        pids: vec![u32::MAX],
        all_threads: false,
        limit: Duration::from_secs(5),
    };
    let mut said = Vec::new();
    super::child::read_below(Path::new("/proc"), &reading, &mut said).unwrap();
    assert_eq!(said, b"");
}
