//! Containers of failed tasks that are kept.

use std::time::{Duration, Instant};

use muster_init::exit_report::TaskPhase;
use muster_init::message::{Go, HeldMessage, HoldMessage, ToAgent, ToInit};

use crate::agent::{Agent, setup};
use crate::task::{Mode, Task};

/// Longer than a test takes.
const LONG_MS: u64 = 600_000;

fn launch(task: &mut Task, hold_ms: u64, script: &str) {
    let agent = task.agent();
    assert_eq!(agent.accept(), TaskPhase::Setup);
    agent.send(&ToInit::Hold(HoldMessage { hold_ms }));
    agent.send(&ToInit::Setup(setup(script)));
    assert!(matches!(agent.next(), Some(ToAgent::Ready(_))));
    agent.send(&ToInit::Go(Go {}));
}

/// What muster-init says when its commands have failed.
fn held(agent: &mut Agent) -> HeldMessage {
    loop {
        match agent.next() {
            Some(ToAgent::Held(held)) => return held,
            Some(ToAgent::Exit(report)) => panic!("it ended: {report:?}"),
            Some(_) => {}
            None => panic!("the connection ended"),
        }
    }
}

#[test]
fn what_failed_is_kept_for_its_time_and_ends_as_it_failed() {
    let mut task = Task::start(Mode::Process);
    let begun = Instant::now();
    launch(&mut task, 700, "echo out; exit 3");
    let told = held(task.agent());
    assert_eq!((told.report.code, told.report.stopped), (3, false));
    assert_eq!(told.until_ms, told.report.ended_ms + 700);
    let report = task.agent().wait_exit();
    assert_eq!(report, told.report);
    assert!(begun.elapsed() >= Duration::from_millis(700));
}

#[test]
fn a_stop_ends_the_hold_and_not_the_verdict() {
    let mut task = Task::start(Mode::Process);
    launch(&mut task, LONG_MS, "exit 4");
    held(task.agent());
    task.agent().stop(LONG_MS);
    let report = task.agent().wait_exit();
    assert_eq!((report.code, report.stopped), (4, false));
}

#[test]
fn an_agent_that_comes_back_is_told_again() {
    let mut task = Task::start(Mode::Process);
    launch(&mut task, LONG_MS, "exit 5");
    let told = held(task.agent());
    task.agent().disconnect();
    assert_eq!(task.agent().accept(), TaskPhase::UserCommands);
    assert_eq!(held(task.agent()), told);
    task.agent().stop(0);
    assert_eq!(task.agent().wait_exit().code, 5);
}

#[test]
fn only_what_failed_by_itself_is_kept() {
    let mut task = Task::start(Mode::Process);
    launch(&mut task, LONG_MS, "true");
    assert_eq!(task.agent().wait_exit().code, 0);

    let mut task = Task::start(Mode::Process);
    launch(&mut task, LONG_MS, "sleep 600");
    task.agent().wait_phase(TaskPhase::UserCommands);
    task.agent().stop(5_000);
    assert!(task.agent().wait_exit().stopped);
}
