//! Run leases: a task ends by itself when nobody renews, agent or no agent.

use std::time::Duration;

use muster_init::exit_report::TaskPhase;
use muster_init::message::{Go, LeaseMessage, TaskSetup, ToInit};
use nix::time::{ClockId, clock_gettime};

use crate::agent::setup;
use crate::task::{Image, Mode, Task, can_run, until};

const HOST: Mode = Mode::Pid1(Image::Host);

/// Ignores the polite signal and whatever else it can.
const STUBBORN: &str = "trap '' TERM; echo up; while :; do sleep 0.01; done";

fn since_boot() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap().into()
}

/// A lease that ends so long from now.
fn lease(ends: Duration, grace: Duration) -> LeaseMessage {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap();
    LeaseMessage {
        ends_ms: millis(since_boot() + ends),
        grace_ms: millis(grace),
    }
}

fn leased(script: &str, lease: LeaseMessage) -> TaskSetup {
    TaskSetup {
        lease: Some(lease),
        ..setup(script)
    }
}

#[test]
fn a_task_ends_with_its_lease_although_nobody_is_there() {
    if !can_run() {
        return;
    }
    for (script, code) in [("echo up; sleep 1000", 143), (STUBBORN, 137)] {
        let mut task = Task::start(HOST);
        let ends = Duration::from_millis(3_500);
        let grace = Duration::from_millis(2_000);
        let over = since_boot() + ends;
        task.agent().launch(leased(script, lease(ends, grace)));
        until("up", || task.log("stdout").contains("up\n"));
        task.agent().disconnect();
        task.wait_init();
        assert!(since_boot() < over, "{script} outlived its lease");
        assert!(task.wait_logger().success());
        let report = task.stored().unwrap();
        assert_eq!((report.code, report.lease_ended), (code, true), "{script}");
        assert!(task.log("runtime.log").contains("run lease"), "{script}");
    }
}

#[test]
fn a_renewed_task_runs_on() {
    if !can_run() {
        return;
    }
    let mut task = Task::start(HOST);
    let short = lease(Duration::from_millis(2_500), Duration::from_millis(1_000));
    let long = lease(Duration::from_secs(600), Duration::from_secs(20));
    let script = "echo up; sleep 3; echo still";
    task.agent().launch(leased(script, short));
    task.agent().send(&ToInit::Lease(long));
    let report = task.agent().wait_exit();
    assert_eq!((report.code, report.lease_ended), (0, false));
    assert!(task.log("stdout").contains("still"));
}

#[test]
fn nothing_is_run_under_a_lease_that_is_over() {
    if !can_run() {
        return;
    }
    let mut task = Task::start(HOST);
    let over = lease(Duration::ZERO, Duration::from_secs(20));
    task.agent().get_ready(leased("echo ran", over));
    let long = lease(Duration::from_secs(600), Duration::from_secs(20));
    task.agent().send(&ToInit::Lease(long));
    task.agent().send(&ToInit::Go(Go {}));
    let report = task.agent().wait_exit();
    assert_eq!(
        (report.phase, report.launched_ms, report.lease_ended),
        (TaskPhase::Ready, 0, true)
    );
    assert_eq!(task.log("stdout"), "");
}
