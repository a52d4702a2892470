//! An agent that comes back to tasks which an earlier one left.

use std::time::Duration;

use muster_exec::task::TaskEvent;
use muster_model::exit::{Cause, ExitPhase};

use crate::node::{Node, order, setup, uid};

pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "a_waiting_task_is_found_again",
        a_waiting_task_is_found_again,
    ),
    ("a_running_task_goes_on", a_running_task_goes_on),
    (
        "an_end_that_nobody_saw_is_told",
        an_end_that_nobody_saw_is_told,
    ),
    ("what_is_missing_was_lost", what_is_missing_was_lost),
    (
        "a_failed_task_is_kept_and_told_again",
        a_failed_task_is_kept_and_told_again,
    ),
];

fn a_waiting_task_is_found_again() {
    let mut node = Node::new();
    node.spawn(order("t", "echo ran; exit 4"));
    node.expect_started("t");
    node.expect_ready("t");
    node.restart_agent();
    let handle = node.adopt("t", Some(setup("echo another")));
    node.expect_started("t");
    node.expect_ready("t");
    handle.go();
    node.expect_running();
    let evidence = node.expect_exited();
    assert_eq!(
        (evidence.exit.code, evidence.user_log.as_slice()),
        (4, b"ran\n".as_slice())
    );
    node.expect_gone("t");
}

fn a_running_task_goes_on() {
    let mut node = Node::new();
    let script = "echo up; until [ -e go-on ]; do sleep 0.01; done; echo on; exit 5";
    node.run_until_up(order("t", script));
    node.restart_agent();
    node.adopt("t", None);
    node.expect_started("t");
    assert!(node.expect_running() > 0);
    let engine_dir = node.config.tasks_dir.parent().unwrap().join("engine/t");
    std::fs::write(engine_dir.join("go-on"), "").unwrap();
    let evidence = node.expect_exited();
    assert_eq!(
        (evidence.exit.code, evidence.user_log.as_slice()),
        (5, b"up\non\n".as_slice())
    );
    node.expect_gone("t");
}

fn an_end_that_nobody_saw_is_told() {
    let mut node = Node::new();
    let script = "echo up; until [ -e go-on ]; do sleep 0.01; done; echo on; exit 6";
    node.run_until_up(order("t", script));
    node.stop_agent();
    let engine_dir = node.config.tasks_dir.parent().unwrap().join("engine/t");
    std::fs::write(engine_dir.join("go-on"), "").unwrap();
    node.wait_for("it ended", |node| node.dir("t").exit_report().exists());
    node.start_agent();
    let handle = node.adopt("t", None);
    let mut event = node.next();
    // The container may still be there for a moment.
    if event == (TaskEvent::Started { uid: uid("t") }) {
        event = node.next();
    }
    match event {
        TaskEvent::Exited { evidence, .. } => {
            assert_eq!(
                (evidence.exit.code, evidence.exit.phase),
                (6, ExitPhase::UserCommands)
            );
            assert_eq!(evidence.user_log, b"up\non\n");
        }
        other => panic!("{other:?}"),
    }
    handle.stop(Cause::UserStop, Duration::ZERO);
    node.expect_gone("t");
}

fn what_is_missing_was_lost() {
    let mut node = Node::new();
    node.adopt("t", None);
    let exit = node.expect_failed();
    assert_eq!(
        (exit.cause, exit.phase),
        (Some(Cause::Lost), ExitPhase::Launch)
    );
    node.expect_gone("t");
}

fn a_failed_task_is_kept_and_told_again() {
    let mut node = Node::new();
    let mut order = order("t", "echo up; exit 7");
    order.hold = Some(Duration::from_secs(600));
    let handle = node.spawn(order);
    node.expect_started("t");
    node.expect_ready("t");
    handle.go();
    node.expect_running();
    let expect_held = |node: &mut Node| match node.next() {
        TaskEvent::Held {
            evidence, until_ms, ..
        } => {
            assert_eq!(until_ms, evidence.exit.ended_ms + 600_000);
            assert_eq!((evidence.exit.code, evidence.exit.cause), (7, None));
            assert_eq!(evidence.user_log, b"up\n");
        }
        other => panic!("{other:?}"),
    };
    expect_held(&mut node);
    node.restart_agent();
    let handle = node.adopt("t", None);
    node.expect_started("t");
    node.expect_running();
    expect_held(&mut node);
    handle.stop(Cause::UserStop, Duration::from_secs(5));
    let exit = node.expect_exited().exit;
    assert_eq!((exit.code, exit.cause), (7, None), "it ends as it failed");
    node.expect_gone("t");
}
