//! Logs: listed, linked, read in parts and followed.

use muster_model::state::SubState;
use serde_json::json;

use super::setup::*;

const LOGS: &str = "/api/v2/jobs/ann~job/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs";
const OWN: &str = "/api/muster/v1/jobs/ann~job/attempts/0/tasks/worker/0/0/logs";

fn with_logs() -> Setup {
    let setup = Setup::new();
    setup.fake.put(placed("ann~job", SubState::AttemptRunning));
    let uid = "a-0".parse().unwrap();
    setup.fake.write_log(&uid, "stdout", "0123456789");
    setup.fake.write_log(&uid, "empty", "");
    setup
}

async fn link(setup: &Setup, query: &str) -> String {
    let list = setup.get(ANN, &format!("{LOGS}{query}")).await.json();
    assert_eq!(list["locations"][1]["name"], "stdout");
    list["locations"][1]["uri"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_link_needs_no_login() {
    let setup = with_logs();
    let uri = link(&setup, "").await;
    let start = "/log-manager/127.0.0.1:7741/api/v1/logs/stdout?token=";
    assert!(uri.starts_with(start), "{uri}");
    assert!(
        uri.contains("&username=ann&taskrole=worker&framework-name="),
        "{uri}"
    );
    let read = setup.guest("GET", &format!("/rest-server{uri}")).await;
    assert_eq!((read.status.as_u16(), read.text()), (200, "0123456789"));
    assert_eq!(read.header("content-type"), "text/plain; charset=utf-8");
    let other_file = uri.replace("/stdout?", "/empty?");
    assert_eq!(setup.guest("GET", &other_file).await.text(), "");

    let forged = uri.replace("token=", "token=x");
    for (uri, status) in [
        (forged.as_str(), 403),
        ("/log-manager/127.0.0.1:7741/api/v1/logs/stdout", 403),
        (&uri.replace("/stdout?", "/nope?"), 404),
        (&uri.replace("/stdout?", "/..%2Fstdout?"), 404),
        (&uri.replace("/stdout?", "/..?"), 404),
    ] {
        assert_eq!(
            setup.guest("GET", uri).await.status.as_u16(),
            status,
            "{uri}"
        );
    }
}

#[tokio::test]
async fn a_link_expires() {
    let mut config = config();
    config.log_link_ttl = std::time::Duration::ZERO;
    let setup = Setup::with(config);
    setup.fake.put(placed("ann~job", SubState::AttemptRunning));
    let uid = "a-0".parse().unwrap();
    setup.fake.write_log(&uid, "all", "");
    setup.fake.write_log(&uid, "stdout", "x");
    let uri = link(&setup, "").await;
    assert_eq!(setup.guest("GET", &uri).await.status, 403);
}

#[tokio::test]
async fn parts_of_a_log() {
    let setup = with_logs();
    let uri = link(&setup, "").await;
    for (range, status, text, content_range) in [
        ("bytes=2-4", 206, "234", "bytes 2-4/10"),
        ("bytes=8-", 206, "89", "bytes 8-9/10"),
        ("bytes=8-99", 206, "89", "bytes 8-9/10"),
        ("bytes=-3", 206, "789", "bytes 7-9/10"),
        ("bytes=-99", 206, "0123456789", "bytes 0-9/10"),
        ("bytes=4-2", 200, "0123456789", ""),
        ("lines=1-2", 200, "0123456789", ""),
    ] {
        let answer = ranged(&setup, &uri, range).await;
        assert_eq!(answer.status.as_u16(), status, "{range}");
        assert_eq!(answer.text(), text, "{range}");
        assert_eq!(answer.header("content-range"), content_range, "{range}");
        assert_eq!(
            answer.header("content-length"),
            text.len().to_string(),
            "{range}"
        );
    }
    let behind = ranged(&setup, &uri, "bytes=10-").await;
    assert_eq!(behind.status, 416);
    assert_eq!(behind.header("content-range"), "bytes */10");
}

async fn ranged(setup: &Setup, path: &str, range: &str) -> WholeAnswer {
    setup
        .ask(TestRequest {
            method: "GET",
            path,
            headers: &[("range", range), ("authorization", ANN)],
            body: "",
        })
        .await
}

#[tokio::test]
async fn tail_mode_is_the_last_16_kib() {
    let setup = with_logs();
    let long: &'static str = Box::leak("abcdefgh".repeat(4096).into_boxed_str());
    let uid = "a-0".parse().unwrap();
    setup.fake.write_log(&uid, "stdout", long);
    let uri = link(&setup, "?tail-mode=true").await;
    assert!(uri.ends_with("&tail-mode=true"));
    let answer = setup.guest("GET", &uri).await;
    assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 16_384));
}

#[tokio::test]
async fn what_is_not_there() {
    let setup = with_logs();
    let mut job = placed("ann~job", SubState::AttemptRunning);
    // Nobody knows where it lies.
    job.roles[0].tasks[1].attempts[0].address = None;
    setup.fake.put(job);
    let of = |from: &str, to: &str| LOGS.replace(from, to);
    for (path, code) in [
        (of("ann~job", "ann~no"), "NoJobError"),
        (
            of("attempts/0/taskRoles", "attempts/9/taskRoles"),
            "NoJobError",
        ),
        (
            of("attempts/0/taskRoles", "attempts/x/taskRoles"),
            "NoJobError",
        ),
        (of("worker", "no"), "NoJobError"),
        (of("taskIndex/0", "taskIndex/9"), "NoJobError"),
        (of("attempts/0/logs", "attempts/9/logs"), "NoTaskLogError"),
        (of("taskIndex/0", "taskIndex/1"), "NoTaskLogError"),
    ] {
        let answer = setup.get(ANN, &path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.json()["code"], code, "{path}");
    }
}

#[tokio::test]
async fn the_command_line_reads_and_follows() {
    let setup = with_logs();
    let files = setup.get(ANN, OWN).await.json();
    let want = json!([{"name": "empty", "size": 0}, {"name": "stdout", "size": 10}]);
    assert_eq!(files, want);
    let stdout = format!("{OWN}/stdout");
    for (query, range, status, start, text) in [
        ("", "", 200, "0", "0123456789"),
        ("?tail=4", "", 200, "6", "6789"),
        ("?follow=true", "", 200, "0", "0123456789more\n"),
        ("?follow=true&tail=2", "", 200, "8", "89more\n"),
        ("?follow=true", "bytes=10-", 200, "10", "more\n"),
        ("", "bytes=3-", 206, "3", "3456789"),
    ] {
        let answer = ranged(&setup, &format!("{stdout}{query}"), range).await;
        assert_eq!(answer.status.as_u16(), status, "{query} {range}");
        assert_eq!(answer.text(), text, "{query} {range}");
        assert_eq!(answer.header("x-muster-start"), start, "{query} {range}");
    }
    let bad = setup.get(ANN, &format!("{stdout}?tail=x")).await;
    assert_eq!(bad.status, 400);
    assert_eq!(setup.guest("GET", &stdout).await.status, 401);
}
