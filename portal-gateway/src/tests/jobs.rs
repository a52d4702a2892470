//! Listing, submitting and changing jobs.

use muster_model::known_node::{Has, KnownNode};
use muster_model::state::{PriorityClass, SubState};
use muster_model::vc::Amount;
use muster_model::view::{JobEvent, LastEnd};
use serde_json::json;

use super::setup::*;

/// Four jobs that differ in everything that can be listed by.
fn some_jobs() -> Setup {
    let setup = Setup::new();
    let mut a = waiting("ann~a");
    a.summary.submitted = 1_000;
    a.summary.priority = None;
    a.summary.tags = vec!["x".to_owned(), "y".to_owned()];
    a.summary.retries.total = 2;
    let mut b = placed("bob~b", SubState::AttemptRunning);
    b.summary.submitted = 2_000;
    b.summary.priority = Some(PriorityClass::Oppo);
    b.summary.vc = "vc1".parse().unwrap();
    b.summary.gpus = 8;
    let mut c = ended("ann~c", &success());
    c.summary.submitted = 3_000;
    c.summary.tags = vec!["y".to_owned()];
    let mut d = ended("bob~d", &failure(1));
    d.summary.submitted = 4_000;
    d.summary.priority = Some(PriorityClass::Test);
    d.summary.completed = Some(COMPLETED + 1);
    for job in [a, b, c, d] {
        setup.fake.put(job);
    }
    setup
}

#[tokio::test]
async fn listings() {
    let setup = some_jobs();
    for (query, want) in [
        ("", "dcba"),
        ("?username=ann", "ca"),
        ("?username=ann,bob", "dcba"),
        ("?vc=vc1", "b"),
        ("?state=RUNNING,WAITING", "ba"),
        ("?state=FAILED", "d"),
        ("?state=UNKNOWN", ""),
        ("?state=UNKNOWN,FAILED", "d"),
        ("?state=", "dcba"),
        ("?statee=FAILED", "dcba"),
        ("?keyword=ob", "db"),
        ("?keyword=vc1", "b"),
        ("?keyword=OB", ""),
        ("?jobPriority=default", "a"),
        ("?jobPriority=default,oppo", "ba"),
        ("?jobPriority=test", "d"),
        ("?keyword=ann&jobPriority=default", "a"),
        ("?tagsContain=x,z", "a"),
        ("?tagsContain=y", "ca"),
        ("?tagsContain=y&tagsNotContain=x", "c"),
        ("?tagsNotContain=y", "db"),
        ("?limit=2", "dc"),
        ("?limit=2&offset=1", "cb"),
        ("?limit=0", ""),
        ("?offset=9", ""),
        ("?order=jobName,ASC", "abcd"),
        ("?order=undefined,ASC", "dcba"),
        ("?order=username,ASC", "cadb"),
        ("?order=vc,DESC", "bdca"),
        ("?order=retries,DESC", "adcb"),
        ("?order=totalGpuNumber,DESC", "bdca"),
        ("?order=state,ASC", "dbca"),
        ("?order=completionTime,ASC", "cdba"),
        ("?order=completionTime,DESC", "badc"),
        ("?order=jobPriority,ASC", "bcda"),
        ("?order=jobPriority,DESC", "adcb"),
    ] {
        let answer = setup.get(ADMIN, &format!("/api/v2/jobs{query}")).await;
        let names: String = answer
            .json()
            .as_array()
            .unwrap_or_else(|| panic!("{query}: {}", answer.text()))
            .iter()
            .map(|job| job["name"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, want, "{query}");
    }
    for (query, message) in [
        (
            "state=running",
            "state must be of [WAITING, RUNNING, STOPPING, SUCCEEDED, STOPPED, FAILED, UNKNOWN], \
                           joined by commas, not \"running\"",
        ),
        ("state=FAILED,BOGUS", "not \"BOGUS\""),
        (
            "jobPriority=none",
            "jobPriority must be of [oppo, test, prod, crit, default]",
        ),
        (
            "order=jobName,asc",
            "order must be FIELD,ASC or FIELD,DESC, not \"jobName,asc\"",
        ),
        (
            "order=name,SIDEWAYS",
            "the fields are jobName, submissionTime, username",
        ),
        (
            "withTotalCount=1",
            "withTotalCount must be true or false, not \"1\"",
        ),
    ] {
        let refused = setup.get(ADMIN, &format!("/api/v2/jobs?{query}")).await;
        assert_eq!(refused.status, 400, "{query}");
        let body = refused.json();
        assert_eq!(body["code"], "InvalidParametersError");
        assert!(
            body["message"].as_str().unwrap().contains(message),
            "{body}"
        );
    }
    let counted = setup
        .get(
            ADMIN,
            "/api/v2/jobs?username=ann&limit=0&withTotalCount=true",
        )
        .await;
    assert_eq!(counted.json(), json!({"totalCount": 2, "data": []}));
    let of_user = setup.get(ADMIN, "/api/v1/user/bob/jobs?state=FAILED").await;
    assert_eq!(of_user.json()[0]["name"], "d");
}

#[tokio::test]
async fn a_job_is_there_as_soon_as_it_is_accepted() {
    let setup = Setup::new();
    let answer = setup
        .send(ANN, "POST", "/rest-server/api/v2/jobs/", "name: new\n")
        .await;
    assert_eq!(answer.status, 202);
    let want = json!({"status": 202, "message": "Update job new for user ann successfully."});
    assert_eq!(answer.json(), want);
    let warned = setup
        .send(
            ANN,
            "POST",
            "/api/v2/jobs",
            "name: warned\n# warning: no ssh\n",
        )
        .await;
    let warnings = json!([{"path": "", "message": "no ssh"}]);
    assert_eq!(warned.json()["warnings"], warnings);
    let detail = setup.get(ANN, "/api/v2/jobs/ann~warned").await;
    assert_eq!(detail.json()["warnings"], warnings);
    for (user, status) in [("ann", 202), ("bob", 403)] {
        let path = format!("/api/v1/user/{user}/jobs");
        let answer = setup.send(ANN, "POST", &path, "name: v1\n").await;
        assert_eq!(answer.status.as_u16(), status, "{user}");
    }
    let read = setup.get(ADMIN, "/API/v2/Jobs/ann%7Enew").await;
    assert_eq!(read.json()["jobStatus"]["state"], "WAITING");
    let config = setup.get(ADMIN, "/api/v2/jobs/ann~new/config").await;
    assert_eq!(config.header("content-type"), "text/yaml; charset=utf-8");
    assert_eq!(config.json()["secrets"], "******");
}

#[tokio::test]
async fn a_job_between_attempts_says_how_the_last_one_ended() {
    let setup = Setup::new();
    let mut again = waiting("ann~again");
    let read = |answer: WholeAnswer| answer.json()["jobStatus"].clone();
    setup.fake.put(again.clone());
    let status = read(setup.get(ADMIN, "/api/v2/jobs/ann~again").await);
    let fields = status.as_object().unwrap();
    assert!(!fields.contains_key("lastAttempt"), "{status}");
    assert!(!fields.contains_key("waitingFor"), "{status}");
    again.summary.waiting_for = Some("waits for a while".to_owned());
    again.summary.last_end = Some(Box::new(LastEnd {
        task: None,
        attempt: 3,
        ended: 60_000,
        code: 254,
        phrase: "ContainerImageNotExists".to_owned(),
        reason: "Nobody knows it.".to_owned(),
        solution: vec!["Correct it.".to_owned()],
        in_a_row: 4,
        is_charged: false,
        tries_max: Some(5),
        next_at: Some(100_000),
    }));
    setup.fake.put(again);
    let status = read(setup.get(ADMIN, "/api/v2/jobs/ann~again").await);
    assert_eq!(status["waitingFor"], "waits for a while");
    let expected = json!({
        "attemptId": 3, "completedTime": 60_000, "exitCode": 254,
        "exitPhrase": "ContainerImageNotExists", "exitDiagnostics": "Nobody knows it.",
        "solution": ["Correct it."], "inARow": 4, "inARowMax": 5, "accountable": false,
        "nextTime": 100_000,
    });
    assert_eq!(status["lastAttempt"], expected);
}

#[tokio::test]
async fn a_job_is_changed_by_its_owner() {
    let setup = Setup::new();
    setup.fake.put(placed("ann~job", SubState::AttemptRunning));
    let job = "/api/v2/jobs/ann~job";
    let stop = r#"{"value":"STOP"}"#;
    let tag = r#"{"value":"t"}"#;
    for (method, end, body, want) in [
        (
            "PUT",
            "executionType",
            stop,
            json!({"status": 202, "message": "Execute job ann~job successfully."}),
        ),
        (
            "PUT",
            "tag",
            tag,
            json!({"status": 200, "message": "Add tag t for job ann~job successfully."}),
        ),
        (
            "PUT",
            "tag",
            tag,
            json!({"status": 200, "message": "Add tag t for job ann~job successfully."}),
        ),
    ] {
        let answer = setup.send(ANN, method, &format!("{job}/{end}"), body).await;
        assert_eq!(answer.json(), want);
        assert_eq!(json!(answer.status.as_u16()), want["status"]);
    }
    let read = setup.get(ANN, job).await.json();
    assert_eq!(read["tags"], json!(["t"]));
    assert_eq!(read["jobStatus"]["executionType"], "STOP");
    assert_eq!(
        read["jobStatus"]["state"], "RUNNING",
        "until it has stopped"
    );
    let gone = setup
        .send(ADMIN, "DELETE", &format!("{job}/tag"), tag)
        .await;
    assert_eq!(gone.status, 200);
    assert_eq!(setup.get(ANN, job).await.json()["tags"], json!([]));

    let path = format!("{job}/executionType");
    for (body, message) in [
        (
            r#"{"value":"PAUSE"}"#,
            "child \"value\" fails because [\"value\" must be one of [START, STOP]]",
        ),
        (
            "{}",
            "child \"value\" fails because [\"value\" is required]",
        ),
    ] {
        let answer = setup.send(ANN, "PUT", &path, body).await;
        assert_eq!(answer.json()["message"], message);
    }
    let comma = setup
        .send(ANN, "PUT", &format!("{job}/tag"), r#"{"value":"a,b"}"#)
        .await;
    assert_eq!(comma.status, 400);
}

#[tokio::test]
async fn events_come_newest_first() {
    let setup = Setup::new();
    setup.fake.put(waiting("ann~job"));
    for (uid, warning, last) in [("1", false, 1_000), ("2", true, 3_000), ("3", true, 2_000)] {
        let event = JobEvent {
            uid: uid.to_owned(),
            attempt_uid: Some("a-0".parse().unwrap()),
            task: Some(muster_model::id::TaskId {
                role: "w".parse().unwrap(),
                index: 0,
            }),
            warning,
            reason: "Why".to_owned(),
            message: "because".to_owned(),
            first: 500,
            last,
            count: 1,
            node: None,
        };
        setup.fake.add_event(&key("ann~job"), event);
    }
    let all = setup.get(ANN, "/api/v2/jobs/ann~job/events").await.json();
    let uids: Vec<_> = all["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| &e["uid"])
        .collect();
    assert_eq!(uids, ["2", "3", "1"]);
    let warnings = setup
        .get(ANN, "/api/v2/jobs/ann~job/events?type=Warning")
        .await
        .json();
    assert_eq!(warnings["totalCount"], 2);
    let md5 = crate::wire::framework_name(&key("ann~job"));
    assert_eq!(
        warnings["data"][0],
        json!({"uid": "2", "frameworkName": md5, "podUid": "a-0", "taskroleName": "w",
            "taskName": format!("{md5}-w-0"), "taskIndex": 0, "type": "Warning",
            "reason": "Why", "message": "because",
            "firstTimestamp": "1970-01-01T00:00:00.500Z",
            "lastTimestamp": "1970-01-01T00:00:03.000Z", "count": 1,
            "sourceComponent": "muster", "sourceHost": null})
    );
}

#[tokio::test]
async fn why_a_job_waits_is_an_event() {
    let setup = Setup::new();
    let mut job = waiting("ann~job");
    job.summary.waiting_for = Some("needs 4 GPUs on one node; 2 are free on n1".to_owned());
    setup.fake.put(job);
    let path = "/api/v2/jobs/ann~job/events?type=Warning";
    let events = setup.get(ANN, path).await.json();
    assert_eq!(events["totalCount"], 1);
    let event = &events["data"][0];
    assert_eq!(event["reason"], "Waiting");
    let message = "Not placed yet: the job needs 4 GPUs on one node; 2 are free on n1.";
    assert_eq!(event["message"], message);
    assert_eq!(event["firstTimestamp"], "2026-11-20T09:32:54.631Z");
    assert_eq!(event["uid"].as_str().map(str::len), Some(36));
    let again = setup.get(ANN, path).await.json();
    assert_eq!(again["data"][0]["uid"], event["uid"]);
    setup.fake.put(waiting("ann~job"));
    assert_eq!(setup.get(ANN, path).await.json()["totalCount"], 0);
}

#[tokio::test]
async fn a_task_shows_its_devices_and_that_it_asks_for_cells() {
    let setup = Setup::new();
    let mut job = placed("ann~job", SubState::AttemptRunning);
    let task = &mut job.roles[0].tasks[0];
    task.by_cells = true;
    task.attempts[0].devices = vec![1, 3];
    job.roles[0].tasks[1].attempts[0].devices = Vec::new();
    setup.fake.put(job);
    let detail = setup.get(ANN, "/api/v2/jobs/ann~job").await.json();
    let tasks = &detail["taskRoles"]["worker"]["taskStatuses"];
    assert_eq!(
        (&tasks[0]["containerGpus"], &tasks[1]["containerGpus"]),
        (&json!("10"), &json!(null))
    );
    let md5 = crate::wire::framework_name(&key("ann~job"));
    assert_eq!(
        tasks[0]["hived"],
        json!({"affinityGroupName": format!("default/{md5}-worker-0"), "lazyPreempted": null,
            "lazyPreemptionStatus": null})
    );
    assert_eq!(tasks[1].get("hived"), None);
}

#[tokio::test]
async fn what_there_is_to_choose_from() {
    let setup = Setup::new();
    let vcs = setup.get(ANN, "/api/v2/virtual-clusters").await.json();
    let amount = |cpu: u32, memory: u32, gpu: u32| json!({"cpu": cpu, "memory": memory, "gpu": gpu, "vCores": cpu, "GPUs": gpu});
    assert_eq!(
        vcs,
        json!({"default": {
            "capacity": 100.0, "usedCapacity": 25.0, "maxCapacity": 100.0, "dedicated": false,
            "resourcesUsed": amount(1, 128, 1),
            "resourcesGuaranteed": amount(8, 16_384, 3),
            "resourcesTotal": amount(8, 16_384, 4),
        }})
    );
    for (path, want) in [
        (
            "virtual-clusters?nodes",
            json!({"n1": {"gpuUsed": 1, "gpuAvailable": 2, "gpuTotal": 4}}),
        ),
        ("virtual-clusters/default", vcs["default"].clone()),
        ("cluster/sku-types?vc=default", json!({})),
        ("storages", json!({"storages": []})),
        ("alerts", json!([])),
    ] {
        let answer = setup.get(ANN, &format!("/api/v2/{path}")).await;
        assert_eq!(answer.json(), want, "{path}");
    }
}

#[tokio::test]
async fn types_of_cells_are_told_where_the_server_and_the_sdk_have_them() {
    let setup = Setup::new();
    let amount = Amount {
        cpu: 4,
        memory_mb: 8192,
        gpu: 1,
    };
    setup.fake.set_sku("V100", amount);
    let skus = json!({"V100": {"cpu": 4, "memory": 8192, "gpu": 1}});
    for path in [
        "cluster/sku-types",
        "cluster/sku-types?vc=default",
        "virtual-clusters/default/sku-types",
    ] {
        let answer = setup.get(ANN, &format!("/api/v2/{path}")).await;
        assert_eq!(answer.json(), skus, "{path}");
    }
    for path in ["cluster/sku-types?vc=no", "virtual-clusters/no/sku-types"] {
        let answer = setup.get(ANN, &format!("/api/v2/{path}")).await;
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.json()["code"], "NoVirtualClusterError", "{path}");
    }
}

#[tokio::test]
async fn every_node_of_the_cluster_is_listed_and_what_is_wrong_with_it_told() {
    let setup = Setup::new();
    let known = |id: &str, has, why: &str| KnownNode {
        id: id.parse().unwrap(),
        has,
        closed: vec![why.to_owned()],
    };
    let view = node();
    let has = Has::of(&view.capacity, &view.free, 3_000);
    setup
        .fake
        .add_node(known("n2", Some(has), "it is kept free"));
    setup
        .fake
        .add_node(known("n3", None, "it was not heard yet"));
    let path = "/api/v2/virtual-clusters?nodes";
    assert_eq!(
        setup.get(ANN, path).await.json(),
        json!({
            "n1": {"gpuUsed": 1, "gpuAvailable": 2, "gpuTotal": 4},
            "n2": {"gpuUsed": 1, "gpuAvailable": 0, "gpuTotal": 4, "problem": "it is kept free"},
            "n3": {"gpuUsed": 0, "gpuAvailable": 0, "gpuTotal": 0, "problem": "it was not heard yet"},
        })
    );
    let own = setup.get(ANN, "/api/muster/v1/nodes").await.json();
    assert_eq!(
        own[0]["has"]["devices"][3]["fault"],
        "Xid 79: fell off the bus"
    );
    assert_eq!(own[1]["has"], json!(null));
    // No leader answers: no part of the list is taken for all of it.
    setup.fake.silence("default".parse().unwrap());
    let answer = setup.get(ANN, path).await;
    assert_eq!(answer.status, 503, "{:?}", answer.json());
}
