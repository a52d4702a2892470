//! No byte of output is lost, and no disk is filled.

use std::thread;
use std::time::{Duration, Instant};

use muster_init::logger::LoggerConfig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::agent::setup;
use crate::task::{Mode, Task, until};

#[test]
fn instant_failures_leave_whole_logs() {
    const TASKS: usize = 500;
    const THREADS: usize = 4;
    let one = |number: usize| {
        let mut task = Task::start(Mode::Process);
        task.agent().launch(setup(&format!(
            "echo out {number}; echo err {number} >&2; exit 1"
        )));
        let report = task.agent().wait_exit();
        assert_eq!(report.code, 1);
        assert_eq!(task.log("stdout"), format!("out {number}\n"));
        assert_eq!(task.log("stderr"), format!("err {number}\n"));
        let all = task.log("all");
        assert!(
            all.contains(&task.log("stdout")) && all.contains(&task.log("stderr")),
            "{all}"
        );
        assert!(task.log("runtime.log").contains("ended with exit code 1"));
        assert!(task.wait_logger().success());
        assert_eq!(task.stored(), Some(report));
    };
    thread::scope(|scope| {
        for first in 0..THREADS {
            scope.spawn(move || (first..TASKS).step_by(THREADS).for_each(one));
        }
    });
}

#[test]
fn big_output_is_kept_in_two_bounded_files() {
    const BYTES_MAX: usize = 1 << 20;
    let config = LoggerConfig {
        bytes_max: BYTES_MAX as u64,
    };
    let mut task = Task::start_with(Mode::Process, config, true);
    task.agent().launch(setup("seq 1 1000000"));
    assert_eq!(task.agent().wait_exit().code, 0);
    let (old, new) = (task.log("stdout.1"), task.log("stdout"));
    // It is cut where a line ends.
    assert!(old.ends_with('\n') && old.len() <= BYTES_MAX && old.len() + 8 > BYTES_MAX);
    assert!(new.len() <= BYTES_MAX);
    let kept = old + &new;
    let dropped: usize = task.log("stdout.dropped").parse().unwrap();
    let written: usize = (1..=1_000_000).map(|n: u32| n.to_string().len() + 1).sum();
    assert_eq!(dropped + kept.len(), written);
    let numbers: Vec<u32> = kept.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(numbers.last(), Some(&1_000_000));
    assert!(numbers.is_sorted_by(|a, b| a + 1 == *b));
}

#[test]
fn a_flood_of_output_waits_for_its_log() {
    const BYTES: usize = 160 << 20;
    let config = LoggerConfig { bytes_max: 1 << 20 };
    let mut task = Task::start_with(Mode::Process, config, true);
    let begin = Instant::now();
    task.agent()
        .launch(setup("yes 1234567 | head -c 160M || true"));
    assert_eq!(task.agent().wait_exit().code, 0);
    // 64 MiB at once, the rest at 32 MiB a second, less what the pipe holds: 2.97 s.
    let took = begin.elapsed();
    assert!(took > Duration::from_millis(2500), "{took:?}");
    let kept = task.log("stdout.1").len() + task.log("stdout").len();
    let dropped: usize = task.log("stdout.dropped").parse().unwrap();
    assert_eq!(dropped + kept, BYTES);
}

#[test]
fn a_logger_ends_with_its_pipes_or_soon_after_a_sigterm() {
    let mut task = Task::start(Mode::Process);
    task.agent().launch(setup("echo up; exec sleep 1000"));
    until("up", || task.log("all") == "up\n");
    // The shim's way at task delete, here while a writer is left.
    kill(Pid::from_raw(task.logger_pid()), Signal::SIGTERM).unwrap();
    assert!(task.wait_logger().success());

    let mut task = Task::start(Mode::Process);
    task.agent().launch(setup("echo up; read line </dev/null"));
    kill(Pid::from_raw(task.init_pid()), Signal::SIGKILL).unwrap();
    assert!(task.wait_logger().success());
    assert_eq!(task.log("all"), task.log("stdout"));
}
