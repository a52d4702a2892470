use muster_model::exit::{Behavior, ExitSpec, JudgedBy, LinePlace};
use muster_model::id::TaskId;
use muster_model::remark::Remark;
use muster_model::rule_test::JudgedAs;
use muster_model::state::SubState;
use muster_model::task_use::TaskUsed;
use muster_model::view::{Retries, RoleView, TaskAttemptView, Trigger};

use super::*;
use crate::job::last_end::tests::unresolved;
use crate::stub::summary;

const PLAIN: Paint = Paint { colour: false };
/// Two minutes after the job of [`summary`] was submitted.
const NOW: u64 = 121_000;

fn verdict() -> Verdict {
    Verdict {
        spec: ExitSpec {
            code: 137,
            phrase: "ContainerOOMKilled".into(),
            kind: Some("USER_FAILURE".into()),
            reason: Some("It used more memory than its limit.".into()),
            solution: vec!["Ask for more memory.".into(), "Use smaller batches.".into()],
            ..ExitSpec::default()
        },
        container_exit_code: Some(137),
        origin_exit_code: Some(9),
        signal: Some(9),
        matched_user_log: Some("MemoryError\u{1b}[0m".into()),
        matched_platform_log: None,
        user_log: "step 1\nMemoryError\n".into(),
        platform_log: String::new(),
        device_events: Vec::new(),
        used: Some(TaskUsed {
            cpu_ms: 150_000,
            memory_mb: 2048,
            ..TaskUsed::default()
        }),
        judged: Some(JudgedBy {
            rules_version: 3,
            pattern: Some(2),
            place: Some(LinePlace {
                offset: 7,
                line: Some(2),
                to_end: 12,
            }),
            shadow: Some(JudgedAs {
                code: 201,
                phrase: "LoaderKilled".into(),
                behavior: Behavior::Unknown,
            }),
            goes_elsewhere: false,
            in_a_row_max: None,
        }),
        progress: None,
        diagnostics: "The kernel killed main:0 at its memory limit of 2048 MiB.".into(),
    }
}

fn failed() -> JobDetail {
    let id = TaskId {
        role: "main".parse().unwrap(),
        index: 0,
    };
    let summary = summary("ada~train", SubState::Completed, Some(137));
    JobDetail {
        attempt: Some(AttemptView {
            id: 1,
            uid: None,
            sub_state: SubState::Completed,
            created: Some(2_000),
            launched: Some(10_000),
            completed: Some(100_000),
            verdict: Some(verdict()),
            trigger: Some(Trigger {
                message: "FailedTaskCount 1 has reached MinFailedTaskCount 1".into(),
                task: Some(id.clone()),
            }),
        }),
        partition: None,
        run_limit: None,
        warnings: Vec::new(),
        roles: vec![RoleView {
            name: "main".into(),
            tasks: vec![TaskView {
                id,
                uid: "t".into(),
                by_cells: false,
                ssh: None,
                sub_state: SubState::Completed,
                retries: Retries::default(),
                created: Some(2_000),
                launched: Some(10_000),
                completed: Some(100_000),
                attempts: vec![TaskAttemptView {
                    on_hold: None,
                    id: 0,
                    uid: Some("u".parse().unwrap()),
                    sub_state: SubState::Completed,
                    created: Some(2_000),
                    launched: Some(10_000),
                    completed: Some(100_000),
                    node: Some("n1".parse().unwrap()),
                    address: Some("10.0.0.1".into()),
                    ports: vec![
                        ("ssh".into(), vec![20_001]),
                        ("http".into(), vec![20_002, 20_003]),
                    ],
                    devices: vec![0, 1],
                    verdict: Some(verdict()),
                }],
            }],
        }],
        summary,
    }
}

#[test]
fn a_failed_job_says_why_and_what_to_do() {
    assert_eq!(
        page(&failed(), NOW, PLAIN),
        "\
ada~train  FAILED  exit code 137
  virtual cluster  default
  size             2 tasks in 1 role, 4 GPUs
  submitted        1970-01-01 00:00:01 UTC (2m ago)
  started          1970-01-01 00:00:10 UTC (1m 51s ago), ran 1m 30s
  ended            1970-01-01 00:01:40 UTC (21s ago)
  attempt          1 is FAILED; 1 retry so far, 0 of them counted against the job's limit
  used             2 min of CPU, at most 2.0 GiB of memory in a task

How it ended
  137 ContainerOOMKilled (user failure)
  The kernel killed main:0 at its memory limit of 2048 MiB.
  It used more memory than its limit.
  The command exited with 9, from signal 9.
  Decided by main:0: FailedTaskCount 1 has reached MinFailedTaskCount 1

What was done
  It was not tried again: the job allows no retries (`jobRetryCount`).

Who can act
  The owner of the job

What to do
  - Ask for more memory.
  - Use smaller batches.

The log line that tells
  | MemoryError

Where it stands
  Line 2, at byte 7 of the log of main:0. Read on from there:
    muster job logs ada~train --attempt 1 --role main --index 0 --tail 12

By which rule
  Pattern 2 of rule 137 held, in version 3 of the failure rules. With the rules in shadow it would be 201 LoaderKilled.

Last lines of the log
  | step 1
  | MemoryError

Tasks
  TASK    STATE   NODE  ADDRESS   DEVICES  PORTS                       ATTEMPT  RETRIES  EXIT
  main:0  FAILED  n1    10.0.0.1  0,1      ssh=20001 http=20002,20003  0        0        137 ContainerOOMKilled
"
    );
}

#[test]
fn a_waiting_job_says_for_what() {
    let mut summary = summary("ada~train", SubState::AttemptCreationPending, None);
    summary.launched = None;
    summary.execution_type = ExecutionType::Stop;
    summary.waiting_for = Some("needs 8 GPUs on one node; n1 has 4 free".into());
    summary.retry_at = Some(NOW + 20_000);
    summary.tags = vec!["night".into(), "vision".into()];
    let detail = JobDetail {
        summary,
        attempt: None,
        roles: Vec::new(),
        partition: None,
        run_limit: None,
        warnings: Vec::new(),
    };
    assert_eq!(
        page(&detail, NOW, PLAIN),
        "\
ada~train  WAITING  (a stop was asked for)
  virtual cluster  default
  size             2 tasks in 1 role, 4 GPUs
  submitted        1970-01-01 00:00:01 UTC (2m ago)
  tags             night, vision

Why it waits
  It needs 8 GPUs on one node; n1 has 4 free.
  The next attempt may start in 20s.
"
    );
}

#[test]
fn a_job_between_attempts_says_how_the_last_one_ended() {
    let mut summary = summary("ada~train", SubState::AttemptCreationPending, None);
    summary.launched = None;
    summary.waiting_for = Some("waits for the end of the pause before another try".into());
    summary.retry_at = Some(NOW + 20_000);
    summary.last_end = Some(Box::new(unresolved()));
    let detail = JobDetail {
        summary,
        attempt: None,
        roles: Vec::new(),
        warnings: Vec::new(),
        partition: None,
        run_limit: None,
    };
    let shown = page(&detail, 90_000, PLAIN);
    let expected = "\
Why it waits
  It waits for the end of the pause before another try.

How its last attempt ended
  Attempt 3 ended with 254 (ContainerImageNotExists), 30s ago.
  The registry is not known: nosuch.example
  4 attempts have ended so far, the last 4 in a row for this reason; 5 in a row are the last.
  The retry after it does not count against the job's limit.
  The next attempt may start in 10s.
  - Correct its name.
";
    assert!(shown.ends_with(expected), "{shown}");
}

#[test]
fn tasks_with_a_server_have_a_line_to_copy() {
    let mut detail = failed();
    assert!(!page(&detail, NOW, PLAIN).contains("To log in"));
    detail.roles[0].tasks[0].ssh = Some("ssh -p 20001 ada@10.0.0.1".to_owned());
    let shown = page(&detail, NOW, PLAIN);
    let lines = "\nTo log in\n  main:0  ssh -p 20001 ada@10.0.0.1\n";
    assert!(shown.contains(lines), "{shown}");
}

#[test]
fn a_job_that_runs_says_how_it_holds_when_a_machine_falls_silent() {
    let node = |name: &str, ends_by| NodeLease {
        node: name.parse().unwrap(),
        ends_by,
    };
    let run = |seconds, without: Option<&str>, nodes| RunLease {
        task: None,
        seconds,
        without: without.map(str::to_owned),
        nodes,
    };
    let nodes = vec![
        node("n1", Some(NOW + 350_000)),
        node("n2", Some(NOW + 65_000)),
    ];
    let mut detail = JobDetail {
        summary: summary("ada~train", SubState::AttemptRunning, None),
        attempt: None,
        run_limit: Some(RunLimitView {
            seconds: 3_600,
            ends_at: Some(NOW + 600_000),
        }),
        partition: Some(PartitionView {
            policy: "failover_after".to_owned(),
            seconds: Some(300),
            runs: vec![run(Some(300), None, nodes)],
        }),
        roles: Vec::new(),
        warnings: vec![Remark::at(".extras.strange", "This key has no effect.")],
    };
    let shown = page(&detail, NOW, PLAIN);
    let warned = "\nNot carried out\n  .extras.strange: This key has no effect.\n";
    assert!(shown.contains(warned), "{shown}");
    let lines = "  on silence       failover_after, 300 s
  run lease        300 s; over in 1m 5s if n2 is not heard by then
";
    assert!(shown.contains(lines), "{shown}");
    assert!(shown.contains("time limit       1h, ends "), "{shown}");
    assert!(shown.contains(" (in 10m)\n"), "{shown}");
    let mut alone = run(None, Some("was placed among few"), Vec::new());
    alone.task = Some(TaskId {
        role: "main".parse().unwrap(),
        index: 0,
    });
    // A copy of the log does not know when a lease ends.
    let of_copy = run(Some(300), None, vec![node("n1", None)]);
    detail.partition = Some(PartitionView {
        policy: "hold".to_owned(),
        seconds: None,
        runs: vec![alone, of_copy],
    });
    let shown = page(&detail, NOW, PLAIN);
    let lines = "  on silence       hold
  run lease        main:0: none: it was placed among few
  run lease        300 s
";
    assert!(shown.contains(lines), "{shown}");
}

#[test]
fn a_failed_task_that_is_kept_is_told_with_what_ends_that() {
    let mut detail = failed();
    detail.attempt = None;
    let task = &mut detail.roles[0].tasks[0];
    task.sub_state = SubState::AttemptRunning;
    let last = task.attempts.last_mut().unwrap();
    last.verdict = None;
    last.on_hold = Some(TaskHold {
        until: NOW + 600_000,
        code: 255,
        phrase: "Unknown".to_owned(),
        reason: "It said no.".to_owned(),
    });
    let shown = page(&detail, NOW, PLAIN);
    for part in [
        "Kept for a look\n",
        " failed with exit code 255 (Unknown); its container is kept until ",
        " (for 10m).\n  It said no.\n",
        "To end it now: muster job stop ada~train\n",
        "255 Unknown (kept)",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}
