//! What the page of a job shows of its nodes, and what its tasks used.

use muster_model::explanation::{CellHolder, Earliest, Explanation, GangExplanation, JobsAhead};
use muster_model::id::AttemptUid;
use muster_model::state::{JobState, SubState};
use muster_model::task_use::{DevicePoint, DeviceUse, TaskUse, UsePoint};
use muster_model::view::{JobEvent, LastEnd, RunLimitView, TaskHold};
use serde_json::json;

use super::pages::{SCRIPT, ask, page};
use super::setup::*;

fn with_use() -> Setup {
    let setup = Setup::new();
    setup.fake.put(placed("ann~job", SubState::AttemptRunning));
    let points = (0..60).map(|nth| UsePoint {
        at_ms: 1_795_167_174_000 + nth * 10_000,
        cpu_milli: if nth == 30 { 3500 } else { 500 },
        memory_mb: 700,
    });
    let busy = (0..60).map(|nth| DevicePoint {
        at_ms: 1_795_167_174_000 + nth * 10_000,
        utilization: Some(if nth == 30 { 90 } else { 10 }),
        memory_mb: Some(40_960),
        ..DevicePoint::default()
    });
    let uid: AttemptUid = "a-0".parse().unwrap();
    let used = TaskUse {
        points: points.collect(),
        devices: vec![DeviceUse {
            index: 2,
            points: busy.collect(),
        }],
    };
    setup.fake.set_use(&uid, used);
    setup
}

#[tokio::test]
async fn a_job_is_drawn_on_its_nodes() {
    let setup = with_use();
    let text = page(&setup, "ann-token", "/jobs/ann~job").await;
    for part in [
        "Where it runs",
        "class=\"mine\"",
        "Device 0, Tesla &lt;V100&gt;: of task worker 1",
        "Device 3, Tesla &lt;V100&gt;: faulty: Xid 79: fell off the bus",
        "class=\"idle\"",
        "task worker 1 on device 0",
        "data-part=\"/jobs/ann%7Ejob/use?attempt=0\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn a_job_whose_node_is_gone_is_shown_by_its_record() {
    let setup = Setup::new();
    let mut job = placed("ann~job", SubState::AttemptRunning);
    job.roles[0].tasks[1].attempts[0].node = Some("n7".parse().unwrap());
    job.roles[0].tasks[1].attempts[0].devices = vec![4, 5];
    setup.fake.put(job);
    let text = page(&setup, "ann-token", "/jobs/ann~job").await;
    assert!(
        text.contains("It is no member of the cluster any more"),
        "{text}"
    );
    assert!(text.contains("task worker 1 on devices 4, 5"), "{text}");
    // Nobody answers at the address of its tasks.
    let used = page(&setup, "ann-token", "/jobs/ann~job/use").await;
    assert!(
        used.contains("The figures are on n7, which cannot be asked now"),
        "{used}"
    );
}

#[tokio::test]
async fn a_task_is_plotted_and_told() {
    let setup = with_use();
    let text = page(&setup, "ann-token", "/jobs/ann~job/use").await;
    for part in [
        "CPU: 0.50 cores at last, 0.55 cores on average, 3.50 cores at most",
        "Memory: 700 MiB at last",
        "<polyline points=\"0,",
        "CPU, memory and devices of task worker 0 on n1",
        "<h3>Device 2</h3>",
        "Utilization: 10 % at last, 11 % on average, 90 % at most",
        "Memory of the device: 40 GiB at last",
        "cannot be asked now",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let path = "/api/muster/v1/jobs/ann~job/attempts/0/tasks/worker/0/0/use";
    let json = setup.get(ANN, path).await.json();
    assert_eq!(json["points"][30]["cpu_milli"], 3500);
    assert_eq!(setup.guest("GET", path).await.status, 401);
    let other = path.replace("worker/0", "worker/7");
    assert_eq!(setup.get(ANN, &other).await.status, 404);
    let forged = "/log-manager/127.0.0.1:7741/api/v1/use?token=x";
    assert_eq!(setup.guest("GET", forged).await.status, 403);
    let wrong = ask(&setup, "ann-token", "GET", "/jobs/ann~job/use?from=x", "").await;
    assert_eq!(wrong.status, 400);
}

#[tokio::test]
async fn what_nodes_say_of_themselves_is_no_markup() {
    let setup = with_use();
    let mut node = node();
    node.capacity.devices[1].model = SCRIPT.to_owned();
    node.capacity.devices[2].fault = Some(SCRIPT.to_owned());
    setup.fake.set_node(node);
    for path in ["/jobs/ann~job", "/jobs/ann~job/use"] {
        let text = page(&setup, "ann-token", path).await;
        assert_eq!(text.matches("<script").count(), 1, "{path}: {text}");
        assert!(!text.contains("<img"), "{path}: {text}");
    }
    let text = page(&setup, "ann-token", "/jobs/ann~job").await;
    assert!(text.matches("&lt;script&gt;").count() >= 2, "{text}");
}

/// Why a job waits: for a device that others have, of which one said when it would end.
fn behind(key_text: &str, ends_by: u64) -> Explanation {
    let holder = |job: Option<&str>, ends_by| CellHolder {
        job: job.map(key),
        leaves: 1,
        ends_by,
    };
    Explanation {
        key: key(key_text),
        state: JobState::Waiting,
        reason: Some("needs 1 device".to_owned()),
        gangs: vec![GangExplanation {
            task: None,
            constraint: "quota".to_owned(),
            reason: "needs 1 device".to_owned(),
            lacks: Vec::new(),
            holders: vec![
                holder(Some("ann~late"), Some(ends_by)),
                holder(None, Some(FAR_MS)),
            ],
            earliest: Earliest::At(FAR_MS),
            moves: Vec::new(),
        }],
        waiting: 1,
        ahead: Some(JobsAhead {
            jobs: 3,
            next: Some(key("ann~a")),
        }),
        last_end: None,
        gpus_idle: 0,
        launches: Vec::new(),
    }
}

/// A time in the future, in 2096.
const FAR_MS: u64 = 4_000_000_000_000;

#[tokio::test]
async fn an_expected_run_time_is_an_estimate() {
    let setup = Setup::new();
    setup.fake.put(waiting("ann~waits"));
    setup.fake.set_explanation(behind("ann~waits", SUBMITTED));
    let config = json!({"name": "waits", "extras": {"muster": {"maxRunTime": 5400}}});
    setup.fake.set_config(&key("ann~waits"), config);
    let text = page(&setup, "ann-token", "/jobs/ann~waits").await;
    for part in [
        "<dt>Expected run time</dt><dd>1 h 30 min",
        "late</a> (overdue by ",
        "a job that you do not see (expected to end <time",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let form = page(&setup, "ann-token", "/submit").await;
    assert!(form.contains("Expected run time, seconds"), "{form}");
    assert!(
        form.contains("the job is not stopped when it takes longer, unless its virtual cluster")
            && !form.contains("Runs at most")
    );
}

#[tokio::test]
async fn a_failed_task_that_is_kept_is_told_with_what_ends_that() {
    let setup = Setup::new();
    let mut job = placed("ann~broken", SubState::AttemptRunning);
    job.roles[0].tasks[0].attempts[0].on_hold = Some(TaskHold {
        until: FAR_MS,
        code: 255,
        phrase: "Unknown".to_owned(),
        reason: "It said <no>.".to_owned(),
    });
    setup.fake.put(job);
    let text = page(&setup, "ann-token", "/jobs/ann~broken").await;
    for part in [
        "Kept for a look",
        "failed with exit code 255 (Unknown). Its container and devices are kept for ",
        "It said &lt;no&gt;.",
        "To end it now, stop the job.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let detail = setup.get(ANN, "/api/v2/jobs/ann~broken").await.json();
    let roles = detail["taskRoles"].as_object().unwrap();
    let task = &roles.values().next().unwrap()["taskStatuses"][0];
    let expect = json!({"untilTime": FAR_MS, "exitCode": 255, "exitPhrase": "Unknown", "exitDiagnostics": "It said <no>."});
    assert_eq!(task["containerOnHold"], expect);
}

#[tokio::test]
async fn a_limit_of_the_run_time_is_shown_with_its_end() {
    let setup = Setup::new();
    let mut job = placed("ann~runs", SubState::AttemptRunning);
    job.run_limit = Some(RunLimitView {
        seconds: 5400,
        ends_at: Some(FAR_MS),
    });
    setup.fake.put(job);
    let config = json!({"name": "runs", "extras": {"muster": {"maxRunTime": 5400}}});
    setup.fake.set_config(&key("ann~runs"), config);
    let text = page(&setup, "ann-token", "/jobs/ann~runs").await;
    assert!(text.contains("<dt>Time limit</dt><dd>1 h 30 min"), "{text}");
    assert!(text.contains(", ends in "), "{text}");
    assert!(!text.contains("Expected run time"), "{text}");
    let detail = setup.get(ANN, "/api/v2/jobs/ann~runs").await.json();
    let limit = &detail["jobStatus"]["runLimit"];
    assert_eq!(*limit, json!({"seconds": 5400, "endsTime": FAR_MS}));
}

#[tokio::test]
async fn the_place_in_the_queue_is_told_and_a_forecast_promises_nothing() {
    let setup = Setup::new();
    setup.fake.put(waiting("ann~waits"));
    setup.fake.set_explanation(behind("ann~waits", SUBMITTED));
    let text = page(&setup, "ann-token", "/jobs/ann~waits").await;
    for part in [
        "3 jobs are ahead of it in its queue, the next: ann~a.",
        "It does not start before 2096-10-02 07:06:40 UTC",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// How an attempt ended, of a job that gave way to another one.
fn gave_way() -> LastEnd {
    LastEnd {
        task: None,
        attempt: 0,
        ended: LAUNCHED + 60_000,
        code: -200,
        phrase: "PodPreemptedForCriticalPod".to_owned(),
        reason: "It gave way to a job with a better claim.".to_owned(),
        solution: Vec::new(),
        in_a_row: 1,
        is_charged: false,
        tries_max: None,
        next_at: Some(1),
    }
}

fn event(reason: &str, message: &str, last: u64) -> JobEvent {
    JobEvent {
        uid: format!("e{last}"),
        attempt_uid: None,
        task: None,
        warning: true,
        reason: reason.to_owned(),
        message: message.to_owned(),
        first: last,
        last,
        count: 1,
        node: None,
    }
}

#[tokio::test]
async fn a_job_that_gave_way_names_the_other_and_does_not_run_while_it_waits() {
    let setup = Setup::new();
    let mut job = waiting("ann~victim");
    job.summary.created = Some(CREATED);
    job.summary.launched = Some(LAUNCHED);
    job.summary.retries.total = 1;
    job.summary.last_end = Some(Box::new(gave_way()));
    setup.fake.put(job.clone());
    let victim = key("ann~victim");
    let preempted = event("Preempted", "It gives way to bob~crit.", LAUNCHED);
    setup.fake.add_event(&victim, preempted);
    let text = page(&setup, "ann-token", "/jobs/ann~victim").await;
    for part in [
        "<p>It gives way to bob~crit.</p>",
        "had earlier attempts within 1 min, has waited again for ",
        "with 1 retry.",
        "The next attempt may start <time datetime=\"1970-01-01 00:00:00 UTC\" title=\"1970-01-01 00:00:00 UTC\">now</time>",
        "<li><span class=\"key before\"></span>earlier attempts</li>",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let list = page(&setup, "ann-token", "/jobs").await;
    let last = "<td class=\"narrow-off\"></td></tr>";
    assert!(list.contains(last), "it does not run: {list}");
    // A drain ended the next attempt: the job that it gave way to before is not its cause.
    let drained = event(
        "PodPreemptedForCriticalPod",
        "An admin drains.",
        LAUNCHED + 1,
    );
    setup.fake.add_event(&victim, drained);
    let text = page(&setup, "ann-token", "/jobs/ann~victim").await;
    assert!(!text.contains("<p>It gives way to"), "{text}");
    // It runs again: the wait is no part of that.
    job.summary.sub_state = SubState::AttemptRunning;
    job.summary.attempt_launched = Some(COMPLETED - 1_000);
    job.summary.completed = Some(COMPLETED);
    job.summary.sub_state = SubState::Completed;
    job.summary.exit_code = Some(0);
    setup.fake.put(job);
    let list = page(&setup, "ann-token", "/jobs").await;
    assert!(
        list.contains("<td class=\"narrow-off\">1.0 s</td></tr>"),
        "{list}"
    );
}

#[tokio::test]
async fn the_own_exit_code_of_a_command_comes_first() {
    let setup = Setup::new();
    let mut verdict = failure(226);
    verdict.origin_exit_code = Some(1);
    verdict.user_log = "no such file".to_owned();
    setup.fake.put(ended("ann~fails", &verdict));
    let text = page(&setup, "ann-token", "/jobs/ann~fails").await;
    for part in [
        "<strong>Exit code 1</strong> of the command",
        "<dd>1 (Muster's class 226)</dd>",
        "<td class=\"n\">1<div class=\"dim\">class 226</div></td>",
        "<details open><summary>The end of the log</summary>",
        "ran, and failed",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    setup.fake.put(ended("ann~lost", &failure(-210)));
    let text = page(&setup, "ann-token", "/jobs/ann~lost").await;
    assert!(!text.contains("Muster's class"), "{text}");
    setup.fake.put(waiting("ann~waits"));
    let text = page(&setup, "ann-token", "/jobs/ann~waits").await;
    assert!(text.contains("It has waited for "), "{text}");
}
