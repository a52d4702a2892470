//! Job shapes against what a genuine OpenPAI v1.8 answered for the same job.

use muster_model::state::{ExecutionType, SubState};
use serde_json::{Value, json};

use super::setup::*;

/// What stays the same over the whole life of the samples' job.
fn status(rest: Value) -> Value {
    let mut status = json!({
        "username": "admin", "executionType": "START", "retries": 0,
        "retryDetails": {"user": 0, "platform": 0, "resource": 0}, "retryDelayTime": null,
        "appTrackingUrl": "", "virtualCluster": "default", "submissionTime": 1_795_167_174_000_u64,
        "launchedTime": null, "completedTime": null, "appProgress": 0, "appLaunchedTime": null,
        "appCompletedTime": null, "appExitCode": null, "appExitSpec": null,
        "appExitDiagnostics": null, "appExitMessages": null, "appExitTriggerMessage": null,
        "appExitTriggerTaskRoleName": null, "appExitTriggerTaskIndex": null, "appExitType": null,
    });
    for (name, value) in rest.as_object().unwrap() {
        status[name] = value.clone();
    }
    status
}

async fn detail(setup: &Setup) -> Value {
    let answer = setup.get(ADMIN, "/api/v2/jobs/admin~job").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[tokio::test]
async fn a_job_not_yet_placed_has_no_attempt() {
    let setup = Setup::new();
    setup.fake.put(waiting("admin~job"));
    assert_eq!(
        detail(&setup).await,
        json!({
            // md5 of "admin~job"
            "debugId": "9025ca1530752f544dcf06c34913398e",
            "name": "job", "tags": [], "jobPriority": "prod", "taskRoles": {},
            "jobStatus": status(json!({
                "state": "WAITING", "subState": "AttemptCreationPending", "createdTime": null,
                "attemptState": "WAITING", "appCreatedTime": null,
            })),
        })
    );
}

#[tokio::test]
async fn a_job_being_prepared_has_ports_and_no_address() {
    let setup = Setup::new();
    setup
        .fake
        .put(placed("admin~job", SubState::AttemptPreparing));
    let job = detail(&setup).await;
    assert_eq!(
        job["jobStatus"],
        status(json!({
            "state": "WAITING", "subState": "AttemptPreparing", "createdTime": CREATED,
            "attemptId": 0, "attemptState": "WAITING", "appId": "0-cb5ece7b",
            "appCreatedTime": CREATED,
        }))
    );
    let role = &job["taskRoles"]["worker"];
    assert_eq!(role["taskRoleStatus"], json!({"name": "worker"}));
    assert_eq!(
        role["taskStatuses"][1],
        json!({
            "taskIndex": 1, "taskUid": "task-1", "taskState": "WAITING", "containerId": "a-1",
            "containerIp": null, "containerNodeName": null,
            "containerPorts": {"my": "16546,16547", "ssh": "16548", "http": "16549"},
            "containerGpus": "1",
            "containerLog":
                "/api/v2/jobs/admin~job/attempts/0/taskRoles/worker/taskIndex/1/attempts/0/logs",
            "containerExitCode": null, "containerExitSpec": null,
            "containerExitDiagnostics": null, "retries": 0, "accountableRetries": 0,
            "createdTime": CREATED, "launchedTime": null, "completedTime": null,
            "attemptId": 0, "attemptState": "WAITING", "currentAttemptCreatedTime": CREATED,
            "currentAttemptLaunchedTime": null, "currentAttemptCompletedTime": null,
        })
    );
}

#[tokio::test]
async fn a_job_that_succeeded_shows_its_exit() {
    let setup = Setup::new();
    setup.fake.put(ended("admin~job", &success()));
    let job = detail(&setup).await;
    let row = json!({
        "behavior": "UNKNOWN", "causer": "USER_CONTAINER", "code": 0,
        "issuer": "USER_CONTAINER", "phrase": "Succeeded", "reaction": "NEVER_RETRY",
        "repro": ["User program exits with exitcode 0"], "stage": "COMPLETING",
        "type": "USER_SUCCESS",
    });
    assert_eq!(
        job["jobStatus"],
        status(json!({
            "state": "SUCCEEDED", "subState": "Completed", "createdTime": CREATED,
            "launchedTime": LAUNCHED, "completedTime": COMPLETED, "attemptId": 0,
            "attemptState": "SUCCEEDED", "appId": "0-cb5ece7b", "appProgress": 1,
            "appCreatedTime": CREATED, "appLaunchedTime": LAUNCHED,
            "appCompletedTime": COMPLETED, "appExitCode": 0, "appExitSpec": row,
            "appExitDiagnostics": "Pod succeeded",
            "appExitMessages":
                {"container": null, "runtime": null, "launcher": "Pod succeeded"},
            "appExitTriggerMessage": "m", "appExitTriggerTaskRoleName": "worker",
            "appExitTriggerTaskIndex": 0, "appExitType": "Succeeded",
        }))
    );
    let task = &job["taskRoles"]["worker"]["taskStatuses"][0];
    assert_eq!(task["taskState"], "SUCCEEDED");
    assert_eq!(task["containerExitCode"], 0);
    assert_eq!(task["containerExitSpec"], row);
    assert_eq!(task["containerIp"], "127.0.0.1");
    assert_eq!(task["containerSsh"], "ssh -p 16538 ada@127.0.0.1");
    let others = job["taskRoles"]["worker"]["taskStatuses"]
        .as_array()
        .unwrap();
    assert!(
        others[1..]
            .iter()
            .all(|task| task.get("containerSsh").is_none())
    );
}

#[tokio::test]
async fn failures_speak_through_the_runtime_and_stops_through_the_launcher() {
    for (verdict, state, messages) in [
        (
            failure(3),
            "FAILED",
            json!({"container": null, "runtime": {"exitCode": 3, "name": "app"},
                "launcher": null}),
        ),
        (
            stopped(),
            "STOPPED",
            json!({"container": null, "runtime": null,
                "launcher": "User has requested to stop the Framework"}),
        ),
    ] {
        let setup = Setup::new();
        setup.fake.put(ended("admin~job", &verdict));
        let job = detail(&setup).await;
        assert_eq!(job["jobStatus"]["state"], state);
        assert_eq!(job["jobStatus"]["attemptState"], state);
        assert_eq!(job["jobStatus"]["appExitType"], "Failed");
        assert_eq!(job["jobStatus"]["appExitMessages"], messages);
    }
}

#[tokio::test]
async fn a_listed_job_and_a_task() {
    let setup = Setup::new();
    let mut job = ended("admin~job", &success());
    job.summary.execution_type = ExecutionType::Stop;
    setup.fake.put(job);
    let list = setup
        .get(ADMIN, "/api/v2/jobs?keyword=job&withTotalCount=true")
        .await;
    assert_eq!(
        list.json(),
        json!({"totalCount": 1, "data": [{
            "debugId": "9025ca1530752f544dcf06c34913398e", "name": "job", "username": "admin",
            "state": "SUCCEEDED", "subState": "Completed", "executionType": "STOP", "tags": [],
            "retries": 0, "retryDetails": {"user": 0, "platform": 0, "resource": 0},
            "retryDelayTime": null, "submissionTime": 1_795_167_174_000_u64,
            "createdTime": CREATED, "launchedTime": LAUNCHED, "completedTime": COMPLETED,
            "appExitCode": 0, "virtualCluster": "default", "totalGpuNumber": 2,
            "totalTaskNumber": 2, "totalTaskRoleNumber": 1, "jobPriority": "prod",
        }]})
    );
    let path = "/api/v2/jobs/admin~job/attempts/0/taskRoles/worker/taskIndex/0/attempts";
    let task = setup.get(ADMIN, path).await.json();
    assert_eq!(task["jobName"], "job");
    assert_eq!(task["taskRoleName"], "worker");
    assert_eq!(task["attempts"][0]["containerPorts"]["my"], "16536,16537");
}

/// The recorded answers, where they are at hand. Only names of fields are compared: the
/// recorded job's values are its own.
fn recorded() -> Vec<Value> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../shared/data/openpai-rest-samples.json"
    );
    let text = std::fs::read_to_string(path).unwrap_or_else(|_| "[]".to_owned());
    serde_json::from_str(&text).unwrap()
}

/// Fields that one has and the other lacks, as paths. Lists compare by their first element.
fn differences(ours: &Value, theirs: &Value, path: &str, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            for name in a.keys().chain(b.keys()) {
                let path = format!("{path}.{name}");
                match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) => differences(a, b, &path, found),
                    (Some(_), None) => found.push(format!("+{path}")),
                    (None, _) => found.push(format!("-{path}")),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            if let (Some(a), Some(b)) = (a.first(), b.first()) {
                differences(a, b, path, found);
            }
        }
        _ => {}
    }
}

#[tokio::test]
async fn fields_are_those_of_the_recorded_answers() {
    let setup = Setup::new();
    let path = "/api/v2/jobs/admin~job";
    for sample in recorded() {
        let name = sample["name"].as_str().unwrap();
        let (job, path) = match name {
            "detail at once (WAITING, not yet scheduled)" => {
                (Some(waiting("admin~job")), path.to_owned())
            }
            "detail AttemptPreparing" => (
                Some(placed("admin~job", SubState::AttemptPreparing)),
                path.to_owned(),
            ),
            "detail AttemptRunning" => (
                Some(placed("admin~job", SubState::AttemptRunning)),
                path.to_owned(),
            ),
            "detail SUCCEEDED" => (Some(ended("admin~job", &success())), path.to_owned()),
            "detail FAILED" => (Some(ended("admin~job", &failure(3))), path.to_owned()),
            "list" => (None, "/api/v2/jobs?withTotalCount=true".to_owned()),
            "job-attempts" => (
                Some(ended("admin~job", &success())),
                format!("{path}/job-attempts"),
            ),
            "users" | "groups" | "virtual-clusters" | "nodes" | "storages" | "info"
            | "authn info" | "tokens/check" => (None, sample["path"].as_str().unwrap().to_owned()),
            _ => continue,
        };
        if let Some(job) = job {
            setup.fake.put(job);
        }
        let ours = setup.get(ADMIN, &path).await.json();
        let mut found = Vec::new();
        differences(&ours, &sample["body"], "", &mut found);
        found.retain(|path| !known_difference(name, path));
        found.sort();
        found.dedup();
        assert_eq!(found, Vec::<String>::new(), "{name}");
    }
}

/// Where we differ on purpose.
fn known_difference(sample: &str, path: &str) -> bool {
    match sample {
        // The deprecated attempts show a task in full, where upstream leaves fields out.
        "job-attempts" => {
            path.starts_with("+.taskRoles.worker.taskStatuses.")
                || path == "+.jobPriority"
                || path == "+.exitDiagnostics.container"
        }
        // Free-form: what the recorded site kept there.
        "users" => path.contains(".extension."),
        // How a person logs in, which upstream tells of the whole job.
        _ if path.ends_with(".containerSsh") => true,
        // What upstream never knew of a failure.
        "detail FAILED" if path.ends_with("ExitJudged") => true,
        // Upstream's detail lacks what its list has.
        _ => path == "+.jobPriority",
    }
}
