//! What the tasks of a job do: who may look, and what is shown.

use muster_model::id::TaskId;
use muster_model::stacks::{ProcessStack, StackFrame, TakenStacks, TaskStacks, ThreadStack};
use muster_model::state::SubState;

use super::pages::{SCRIPT, ask, page, send};
use super::setup::*;

const PATH: &str = "/api/muster/v1/jobs/ann~job/stacks";

/// A worker of Python that is in this function.
fn worker(index: u32, function: &str) -> TaskStacks {
    let frame = StackFrame {
        function: function.to_owned(),
        file: "/code/train.py".to_owned(),
        line: 7,
    };
    let process = ProcessStack {
        pid: 23,
        host_pid: 4711,
        name: "python3".to_owned(),
        is_python: true,
        threads: vec![ThreadStack {
            state: "S".to_owned(),
            frames: vec![frame],
            ..ThreadStack::default()
        }],
        ..ProcessStack::default()
    };
    TaskStacks {
        task: TaskId {
            role: "worker".parse().unwrap(),
            index,
        },
        node: "n1".parse().unwrap(),
        taken: TakenStacks {
            silent_s: Some(700),
            devices_busy: Some(100),
            processes: vec![process],
            ..TakenStacks::default()
        },
    }
}

fn hanging(odd: &str) -> Setup {
    let setup = Setup::new();
    setup.fake.put(placed("ann~job", SubState::AttemptRunning));
    let tasks = [worker(0, "reduce"), worker(1, odd), worker(2, "reduce")];
    setup.fake.set_stacks(&key("ann~job"), tasks.into());
    setup
}

#[tokio::test]
async fn the_owner_and_admins_look_and_nobody_else() {
    let setup = hanging("load");
    for token in [ANN, ADMIN, PROGRAM] {
        let stacks = setup.send(token, "POST", PATH, "").await;
        assert_eq!(stacks.status, 200, "{}", stacks.text());
        let stacks = stacks.json();
        assert_eq!(
            stacks["summary"][0],
            "2 of 3 tasks wait in reduce (train.py); worker:1 waits in load (train.py:7)."
        );
        assert_eq!(stacks["groups"][1]["is_odd"], true);
        assert_eq!(stacks["tasks"][0]["processes"][0]["pid"], 23);
    }
    assert_eq!(setup.guest("POST", PATH).await.status, 401);
    setup
        .fake
        .put(placed("admin~job", SubState::AttemptRunning));
    let others = PATH.replace("ann~", "admin~");
    let refused = setup.send(ANN, "POST", &others, "").await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let form = send(&setup, "ann-token", "/jobs/admin~job/stacks", "").await;
    assert_eq!(form.status, 403, "{}", form.text());
    // A look takes work of nodes: no link of elsewhere has it done.
    assert_eq!(setup.get(ANN, PATH).await.status, 404);
    let foreign = ask(
        &setup,
        "ann-token",
        "POST",
        "/jobs/ann~job/stacks",
        "form_key=x",
    )
    .await;
    assert_eq!(foreign.status, 403, "{}", foreign.text());
}

#[tokio::test]
async fn some_tasks_are_asked_for_and_what_is_wrong_is_named() {
    let setup = hanging("load");
    let one = setup
        .send(ANN, "POST", &format!("{PATH}?role=worker&task=1"), "")
        .await
        .json();
    assert_eq!(one["tasks"].as_array().unwrap().len(), 1);
    for (query, status, part) in [
        ("role=no/role", 400, "role: "),
        ("task=x", 400, "task must be the index"),
        ("role=chief", 400, "no such task"),
    ] {
        let refused = setup
            .send(ANN, "POST", &format!("{PATH}?{query}"), "")
            .await;
        assert_eq!(refused.status, status, "{query}");
        assert!(refused.text().contains(part), "{query}: {}", refused.text());
    }
    setup.fake.put(waiting("ann~later"));
    let later = setup
        .send(ANN, "POST", &PATH.replace("~job", "~later"), "")
        .await;
    assert_eq!(
        (later.status.as_u16(), later.text().contains("WAITING")),
        (409, true)
    );
    let missing = setup
        .send(ANN, "POST", &PATH.replace("~job", "~none"), "")
        .await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn a_page_shows_the_groups_and_the_job_leads_to_it() {
    let setup = hanging("load");
    let job = page(&setup, "ann-token", "/jobs/ann~job").await;
    assert!(job.contains("action=\"/jobs/ann%7Ejob/stacks\""), "{job}");
    let shown = send(&setup, "ann-token", "/jobs/ann~job/stacks", "").await;
    assert_eq!(shown.status, 200);
    for part in [
        "<strong>2 of 3 tasks wait in reduce (train.py); worker:1 waits in load (train.py:7).</strong>",
        "The job has written nothing for 11 min, while its devices are busy 100 % of the time",
        "and most others do not",
        "load (/code/train.py:7)",
        "Look again",
    ] {
        assert!(shown.text().contains(part), "{part}: {}", shown.text());
    }
    // Of a job that waits, and of others' jobs, there is nothing to look at.
    setup.fake.put(waiting("ann~later"));
    setup
        .fake
        .put(placed("admin~job", SubState::AttemptRunning));
    for path in ["/jobs/ann~later", "/jobs/admin~job"] {
        let job = page(&setup, "ann-token", path).await;
        assert!(!job.contains("/stacks\""), "{path}: {job}");
    }
}

#[tokio::test]
async fn what_a_program_calls_its_functions_is_no_markup() {
    let setup = hanging(SCRIPT);
    let shown = send(&setup, "ann-token", "/jobs/ann~job/stacks", "").await;
    assert_eq!(
        shown.text().matches("<script").count(),
        1,
        "{}",
        shown.text()
    );
    assert!(shown.text().contains("&lt;script&gt;"), "{}", shown.text());
}
