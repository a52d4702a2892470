//! Events against an agent of canned answers.

use muster_model::state::SubState;
use serde_json::{Value, json};

use crate::status::CliStatus;
use crate::stub::{AgentStub, StubAnswer};
use crate::tests::{detail, job_line};

fn event(uid: &str, kind: &str, count: u32) -> Value {
    json!({
        "uid": uid,
        "frameworkName": "f",
        "podUid": "",
        "taskroleName": "main",
        "taskName": "f-main-0",
        "taskIndex": 0,
        "type": kind,
        "reason": "Placed",
        "message": format!("{uid} happened."),
        "firstTimestamp": "2026-11-20T09:32:54.093Z",
        "lastTimestamp": "2026-11-20T09:32:54.093Z",
        "count": count,
        "sourceComponent": "muster",
        "sourceHost": "n1",
    })
}

fn events(events: &[Value]) -> StubAnswer {
    StubAnswer::json(json!({ "totalCount": events.len(), "data": events }))
}

#[tokio::test]
async fn events_of_a_job_are_listed_oldest_first() {
    let stub = AgentStub::start();
    let all = [event("later", "Warning", 2), event("first", "Normal", 1)];
    stub.answer("GET /api/v2/jobs/ada~j/events", [events(&all)]);
    stub.answer(
        "GET /api/v2/jobs/ada~j/events?type=Warning",
        [events(&all[..1])],
    );
    let (status, out, _) = stub.muster(&["event", "list", "ada~j"]).await;
    assert_eq!(status, CliStatus::Ok);
    assert_eq!(
        out,
        "\
LAST                     TYPE     REASON  TASK    NODE  COUNT  MESSAGE
2026-11-20 09:32:54 UTC  Normal   Placed  main:0  n1    1      first happened.
2026-11-20 09:32:54 UTC  Warning  Placed  main:0  n1    2      later happened.
"
    );
    let (_, out, _) = stub
        .muster(&["event", "list", "ada~j", "-w", "-o", "json"])
        .await;
    let listed: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (listed[0]["uid"].as_str(), &listed[1]),
        (Some("later"), &Value::Null)
    );
}

#[tokio::test]
async fn following_tells_each_event_once_until_the_job_has_ended() {
    let stub = AgentStub::start();
    let running = detail("ada~j", SubState::AttemptRunning, None, 0, 1);
    let ended = detail("ada~j", SubState::Completed, Some(0), 0, 1);
    stub.answer(&job_line("ada~j"), [running, ended].map(StubAnswer::json));
    let (first, again) = (event("first", "Normal", 1), event("first", "Normal", 2));
    let other = event("other", "Normal", 1);
    stub.answer(
        "GET /api/v2/jobs/ada~j/events",
        [events(&[other.clone(), first]), events(&[again, other])],
    );
    let (status, out, _) = stub.muster(&["event", "list", "ada~j", "-f"]).await;
    assert_eq!(status, CliStatus::Ok);
    let count = |word: &str| out.matches(word).count();
    assert_eq!(
        (count("first happened"), count("other happened")),
        (2, 1),
        "{out}"
    );
}

#[tokio::test]
async fn without_a_job_alarms_are_listed() {
    let stub = AgentStub::start();
    let alarm = |number, state| {
        json!({
            "number": number,
            "boot": "b",
            "at_ms": 1_795_173_687_000_u64,
            "kind": "member_lost",
            "state": state,
            "subject": { "type": "member", "name": "n3" },
            "text": format!("n3 is {state}."),
        })
    };
    let alarms = json!({
        "boot": "b",
        "last": 2,
        "dropped": false,
        "standing": [],
        "alarms": [alarm(1, "raised"), alarm(2, "cleared")],
    });
    stub.answer(
        "GET /api/muster/v1/alarms?after=0",
        [StubAnswer::json(alarms)],
    );
    let (status, out, _) = stub.muster(&["event", "list"]).await;
    assert_eq!(status, CliStatus::Ok);
    assert!(
        out.contains("n3 is raised.") && out.contains("n3 is cleared."),
        "{out}"
    );
    let (_, out, _) = stub.muster(&["event", "list", "--warning"]).await;
    assert!(
        out.contains("n3 is raised.") && !out.contains("cleared"),
        "{out}"
    );
}
