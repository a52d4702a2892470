//! Failed tasks whose containers are kept for a look.

use muster_model::exit::Cause;
use muster_model::view::TaskHold;

use super::*;

fn on_hold() -> TaskStanding {
    TaskStanding::OnHold(Box::new(TaskHold {
        until: 3_600_000,
        code: 1,
        phrase: "Failed".to_owned(),
        reason: "it failed".to_owned(),
    }))
}

/// A job of two tasks that runs; its failed tasks are kept for so long.
fn running(bench: &mut Bench, hold_s: u32) {
    let mut entry = job("x", 2, CPU);
    if let VcEntry::Accept(job) = &mut entry {
        job.spec.ending.hold_s = Some(hold_s);
    }
    bench.commit(&entry);
    for name in ["n1", "n2"] {
        bench.grant(name);
    }
    let GangCommand::Launch { tasks, .. } = &bench.orders[&node("n1")].command else {
        panic!("no launch");
    };
    assert_eq!(
        tasks[0].hold_s,
        Some(hold_s.min(86_400)),
        "as the policy allows"
    );
    for standing in [TaskStanding::Ready, TaskStanding::Running] {
        for name in ["n1", "n2"] {
            bench.stands(name, &standing);
        }
    }
    bench.heard();
}

fn held(bench: &Bench) -> Vec<i32> {
    let detail = bench.state.detail(&key("x"), None).unwrap();
    detail.held().map(|(_, hold)| hold.code).collect()
}

#[test]
fn a_failed_task_is_shown_as_kept_once_and_ends_with_its_own_failure() {
    let mut bench = Bench::new();
    running(&mut bench, 100_000);
    bench.stands("n1", &on_hold());
    assert_eq!(bench.heard(), "OnHold", "the others go on");
    assert_eq!((held(&bench), bench.state()), (vec![1], JobState::Running));
    bench.stands("n1", &on_hold());
    assert_eq!(bench.heard(), "", "once");
    // A new leader hears of it anew and knows it from the log.
    bench.elect();
    let standing = on_hold();
    bench.heard();
    for name in ["n1", "n2"] {
        bench.report(name, Vec::new());
    }
    bench.heard();
    bench.stands("n1", &standing);
    assert!(!bench.heard().contains("OnHold"));
    assert_eq!(held(&bench), [1]);
    bench.stands("n1", &ended(1));
    let heard = bench.heard();
    assert!(
        heard.contains("TaskEnded") && heard.contains("n2 stop"),
        "{heard}"
    );
    assert_eq!(held(&bench), Vec::<i32>::new());
    bench.stands("n2", &ended(143));
    let summary = bench.state.summary(&key("x")).unwrap();
    assert_eq!(
        (summary.state(), summary.exit_code),
        (JobState::Failed, Some(1))
    );
    bench.audit();
}

#[test]
fn a_stop_ends_the_hold_and_the_task_keeps_its_failure() {
    let mut bench = Bench::new();
    running(&mut bench, 60);
    bench.stands("n1", &on_hold());
    bench.stop("x");
    let order = &bench.orders[&node("n1")];
    let is_stop = matches!(
        order.command,
        GangCommand::Stop {
            cause: Cause::UserStop,
            ..
        }
    );
    assert!(is_stop, "{order:?}");
    bench.stands("n1", &ended(1));
    bench.stands("n2", &ended(143));
    assert_eq!(bench.state(), JobState::Stopped);
    let detail = bench.state.detail(&key("x"), None).unwrap();
    let codes: Vec<i32> = detail
        .tasks()
        .filter_map(|task| Some(task.attempts.last()?.verdict.as_ref()?.code()))
        .collect();
    assert_eq!(
        codes,
        [1, -210],
        "it had failed before; the other was stopped"
    );
}
