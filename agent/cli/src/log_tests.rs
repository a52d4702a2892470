//! `muster job logs` against an agent of canned answers.

use muster_model::state::SubState;

use super::status::CliStatus;
use super::stub::{AgentStub, StubAnswer};
use super::tests::{detail, job_line, log_line};

#[tokio::test]
async fn logs_of_several_tasks_are_told_apart() {
    let stub = AgentStub::start();
    let two = detail("ada~j", SubState::AttemptRunning, None, 1, 2);
    stub.answer(&job_line("ada~j"), [StubAnswer::json(&two)]);
    stub.answer(
        &log_line("ada~j", 1, 0, "all?whole=true&follow=false"),
        [StubAnswer::text("a\nb\n")],
    );
    stub.answer(
        &log_line("ada~j", 1, 1, "all?whole=true&follow=false"),
        [StubAnswer::text("c")],
    );
    let (status, out, err) = stub.muster(&["job", "logs", "ada~j"]).await;
    assert_eq!(
        (status, out.as_str()),
        (CliStatus::Ok, "main:0 | a\nmain:0 | b\nmain:1 | c\n"),
        "{err}"
    );
    stub.answer(
        &log_line("ada~j", 1, 1, "stderr?whole=true&follow=false&tail=5"),
        [StubAnswer::text("raw\r")],
    );
    let arguments = [
        "job", "logs", "ada~j", "--index", "1", "--name", "stderr", "--tail", "5",
    ];
    let (_, out, _) = stub.muster(&arguments).await;
    assert_eq!(out, "raw\r");
    let (status, _, err) = stub.muster(&["job", "logs", "ada~j", "--index", "2"]).await;
    assert_eq!(status, CliStatus::Usage);
    assert_eq!(err, "error: ada~j has no such task; it has main:0 to 1\n");
}

#[tokio::test]
async fn what_of_a_log_is_not_kept_is_said() {
    let stub = AgentStub::start();
    let ended = detail("ada~j", SubState::Completed, Some(0), 0, 1);
    stub.answer(&job_line("ada~j"), [StubAnswer::json(&ended)]);
    stub.answer(
        &log_line("ada~j", 0, 0, "all?whole=true&follow=false"),
        [StubAnswer::text("rest\n").with("x-muster-start", 4096)],
    );
    let line = "muster: 4096 bytes of the log all of main:0 are missing here: of a long log only the end is \
                kept\n";
    let (status, out, err) = stub.muster(&["job", "logs", "ada~j"]).await;
    assert_eq!((status, &*out, &*err), (CliStatus::Ok, "rest\n", line));
    // Following, a part may be dropped between two connections.
    stub.answer(
        &log_line("ada~j", 0, 0, "all?whole=true&follow=true"),
        [
            StubAnswer::text("one\n")
                .with("x-muster-start", 0)
                .breaking_off(),
            StubAnswer::text("later\n").with("x-muster-start", 4100),
        ],
    );
    let (status, out, err) = stub.muster(&["job", "logs", "-f", "ada~j"]).await;
    assert_eq!(
        (status, &*out, &*err),
        (CliStatus::Ok, "one\nlater\n", line)
    );
}

/// Between attempts, and while the newest has written nothing yet, the newest that wrote something is shown.
#[tokio::test]
async fn logs_of_a_job_that_is_tried_again_are_of_the_newest_attempt_that_wrote() {
    let line = |attempt: u32, query: &str| {
        log_line("ada~j", attempt, 0, &format!("all?whole=true&{query}"))
    };
    let older = |attempt| format!("{}?attempt={attempt}", job_line("ada~j"));
    let mut between = detail("ada~j", SubState::AttemptCreationPending, None, 3, 1);
    between.summary.retries.total = 3;
    (between.attempt, between.roles) = (None, Vec::new());
    let mut silent = detail("ada~j", SubState::AttemptRunning, None, 3, 1);
    silent.summary.retries.total = 3;
    for latest in [between, silent] {
        let stub = AgentStub::start();
        stub.answer(&job_line("ada~j"), [StubAnswer::json(&latest)]);
        for attempt in [0, 1, 2] {
            let ended = detail("ada~j", SubState::AttemptCompleted, Some(137), attempt, 1);
            stub.answer(&older(attempt), [StubAnswer::json(&ended)]);
        }
        stub.answer(&line(3, "follow=false&tail=1"), [StubAnswer::text("")]);
        stub.answer(&line(1, "follow=false&tail=1"), [StubAnswer::text("t")]);
        stub.answer(&line(1, "follow=false"), [StubAnswer::text("important")]);
        let (status, out, err) = stub.muster(&["job", "logs", "ada~j"]).await;
        assert_eq!(
            (status, out.as_str()),
            (CliStatus::Ok, "important"),
            "{err}"
        );
        let told = "muster: this is of attempt 1, the newest that wrote something";
        assert!(err.starts_with(told), "{err}");
    }
    let stub = AgentStub::start();
    let mut none = detail("ada~j", SubState::AttemptCreationPending, None, 1, 1);
    (none.attempt, none.roles) = (None, Vec::new());
    stub.answer(&job_line("ada~j"), [StubAnswer::json(&none)]);
    let (status, _, err) = stub.muster(&["job", "logs", "ada~j"]).await;
    assert_eq!(status, CliStatus::Usage);
    assert!(
        err.contains("no attempt of ada~j that is kept has written"),
        "{err}"
    );
}

/// Retries, a log that is not there yet, and a connection that breaks in the middle.
#[tokio::test]
async fn following_goes_on_through_breaks_and_retries() {
    let stub = AgentStub::start();
    let at = |sub, code, attempt| StubAnswer::json(detail("ada~j", sub, code, attempt, 1));
    let mut waiting = detail("ada~j", SubState::AttemptCreationPending, None, 0, 1);
    waiting.attempt = None;
    waiting.roles.clear();
    stub.answer(
        &job_line("ada~j"),
        [
            StubAnswer::json(waiting),
            at(SubState::AttemptRunning, None, 0),
            at(SubState::AttemptRunning, None, 2),
            at(SubState::Completed, Some(0), 2),
        ],
    );
    for attempt in [0, 1] {
        let line = format!("{}?attempt={attempt}", job_line("ada~j"));
        stub.answer(&line, [at(SubState::AttemptCompleted, Some(1), attempt)]);
    }
    let first = log_line("ada~j", 0, 0, "all?whole=true&follow=true");
    stub.answer(
        &first,
        [
            StubAnswer::refusal(404, "NoTaskLogError", "no log yet"),
            StubAnswer::text("one\ntw")
                .with("x-muster-start", 0)
                .breaking_off(),
            StubAnswer::text("wo\n").with("x-muster-start", 5),
        ],
    );
    stub.answer(
        &log_line("ada~j", 1, 0, "all?whole=true&follow=true"),
        [StubAnswer::text("again\n")],
    );
    stub.answer(
        &log_line("ada~j", 2, 0, "all?whole=true&follow=true"),
        [StubAnswer::text("done\n")],
    );

    let (status, out, err) = stub.muster(&["job", "logs", "-f", "ada~j"]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert_eq!(out, "one\ntwo\nagain\ndone\n");
    let asked = stub.asked();
    let resumed = asked.iter().rfind(|asked| asked.line == first).unwrap();
    assert_eq!(resumed.headers["range"], "bytes=5-");
}
