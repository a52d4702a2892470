//! What OpenPAI's portal reads beside the REST server's own data: alerts, Kubernetes, Prometheus.

use muster_model::alarm::{Alarm, AlarmKind, AlarmState, AlarmSubject};
use muster_model::mesh::MemberReach;
use muster_model::state::SubState;
use serde_json::{Value, json};

use super::setup::*;
use crate::fake::member;

fn alarm(kind: AlarmKind, state: AlarmState, subject: AlarmSubject) -> Alarm {
    Alarm {
        number: 0,
        boot: String::new(),
        at_ms: 1_795_167_174_093,
        kind,
        state,
        subject,
        text: "n2 cannot be reached.".to_owned(),
    }
}

#[tokio::test]
async fn alarms_that_stand_are_alerts_for_admins() {
    let setup = Setup::new();
    let n2 = || AlarmSubject::Member("n2".to_owned());
    let n3 = || AlarmSubject::Member("n3".to_owned());
    for (state, subject) in [
        (AlarmState::Raised, n3()),
        (AlarmState::Cleared, n3()),
        (AlarmState::Raised, n2()),
    ] {
        setup
            .fake
            .alarm(alarm(AlarmKind::MemberLost, state, subject));
    }
    let lost = alarm(
        AlarmKind::MajorityLost,
        AlarmState::Raised,
        AlarmSubject::Cluster,
    );
    setup.fake.alarm(lost);
    let alerts = setup.get(ADMIN, "/api/v2/alerts").await.json();
    let first = &alerts[0];
    assert_eq!(
        first["labels"],
        json!({"alertname": "member_lost", "severity": "warn", "node_name": "n2"})
    );
    assert_eq!(
        first["annotations"],
        json!({"summary": "n2 cannot be reached."})
    );
    assert_eq!(first["startsAt"], "2026-11-20T09:32:54.093Z");
    assert_eq!(
        first["status"],
        json!({"state": "active", "silencedBy": [], "inhibitedBy": []})
    );
    assert_eq!(first["receivers"], json!([{"name": "muster"}]));
    assert_eq!(first["fingerprint"].as_str().map(str::len), Some(16));
    assert_ne!(first["fingerprint"], alerts[1]["fingerprint"]);
    let severity = json!({"alertname": "majority_lost", "severity": "error"});
    assert_eq!(
        (alerts.as_array().map(Vec::len), &alerts[1]["labels"]),
        (Some(2), &severity)
    );
    // None is about a job of theirs.
    assert_eq!(setup.get(ANN, "/api/v2/alerts").await.json(), json!([]));
}

#[tokio::test]
async fn members_are_nodes_and_their_agents_are_pods() {
    let setup = Setup::new();
    setup
        .fake
        .change_mesh(|mesh| mesh.members.push(member(1, "n2", MemberReach::Unreachable)));
    let nodes = setup.get(ADMIN, "/api/v1/kubernetes/nodes").await.json();
    assert_eq!(
        (&nodes["kind"], &nodes["apiVersion"]),
        (&json!("NodeList"), &json!("v1"))
    );
    let first = &nodes["items"][0];
    assert_eq!(first["metadata"]["name"], "n1");
    assert_eq!(first["metadata"]["labels"]["muster-leader"], "true");
    assert_eq!(
        first["status"]["addresses"][0],
        json!({"type": "InternalIP", "address": "10.0.0.1"})
    );
    assert_eq!(
        first["status"]["capacity"],
        json!({"cpu": "8", "memory": "16384Mi", "nvidia.com/gpu": "4"})
    );
    assert_eq!(first["status"]["allocatable"]["nvidia.com/gpu"], "3");
    let condition = &nodes["items"][1]["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("Ready"), &json!("Unknown"))
    );

    let names = async |query: &str| {
        let path = format!("/api/v2/kubernetes/pods{query}");
        let pods = setup.get(ADMIN, &path).await.json();
        let items = pods["items"].as_array().unwrap().clone();
        items
            .iter()
            .map(|pod| pod["spec"]["nodeName"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for (query, expect) in [
        ("", vec!["n1", "n2"]),
        ("?namespace=default&labelSelector=app", vec!["n1", "n2"]),
        ("?labelSelector=app=muster", vec!["n1", "n2"]),
        ("?labelSelector=app!%3Dmuster", vec![]),
        ("?labelSelector=!app", vec![]),
        ("?labelSelector=app,job", vec![]),
        ("?namespace=kube-system", vec![]),
    ] {
        assert_eq!(names(query).await, expect, "{query}");
    }
    let pods = setup.get(ADMIN, "/api/v2/kubernetes/pods").await.json();
    assert_eq!(pods["items"][0]["status"]["phase"], "Running");
    assert_eq!(pods["items"][1]["status"]["phase"], "Unknown");
    let refused = setup
        .get(ADMIN, "/api/v2/kubernetes/pods?labelSelector=a%20in%20(b)")
        .await;
    assert_eq!(refused.status, 400);
    for path in ["nodes", "pods"] {
        let refused = setup.get(ANN, &format!("/api/v2/kubernetes/{path}")).await;
        assert_eq!(
            (refused.status.as_u16(), &refused.json()["code"]),
            (403, &json!("ForbiddenUserError"))
        );
    }
}

const LOW_GPU: &str = "/prometheus/api/v1/query?query=avg(avg_over_time(task_gpu_percent%5B10m%5D)%20%3C%2010)%20by%20(job_name)";

fn setup_with_idle_gpus() -> Setup {
    let setup = Setup::new();
    for (name, gpus, gpus_idle) in [("ann~busy", 2, 0), ("ann~idle", 0, 1), ("bob~idle", 0, 4)] {
        let mut job = placed(name, SubState::AttemptRunning);
        (job.summary.gpus, job.summary.gpus_idle) = (gpus, gpus_idle);
        setup.fake.put(job);
    }
    setup
}

fn metrics(answer: &Value) -> Vec<&Value> {
    let result = answer["data"]["result"].as_array().unwrap();
    result.iter().map(|one| &one["metric"]).collect()
}

#[tokio::test]
async fn the_home_page_learns_which_jobs_leave_gpus_idle() {
    let setup = setup_with_idle_gpus();
    let answer = setup.get(ANN, LOW_GPU).await.json();
    assert_eq!(
        (&answer["status"], &answer["data"]["resultType"]),
        (&json!("success"), &json!("vector"))
    );
    assert_eq!(metrics(&answer), [&json!({"job_name": "ann~idle"})]);
    assert_eq!(answer["data"]["result"][0]["value"][1], "0");
    assert!(
        answer["warnings"][0]
            .as_str()
            .unwrap()
            .contains("at /metrics alone")
    );
    let answer = setup.get(ADMIN, LOW_GPU).await.json();
    assert_eq!(metrics(&answer).len(), 2);
}

#[tokio::test]
async fn the_hardware_page_learns_of_machines_and_what_is_not_measured() {
    let setup = Setup::new();
    let answer = setup
        .get(ANN, "/prometheus/api/v1/query?query=node_uname_info")
        .await
        .json();
    assert_eq!(metrics(&answer)[0]["instance"], "10.0.0.1:7740");
    assert_eq!(metrics(&answer)[0]["nodename"], "n1");
    assert_eq!(answer["warnings"], Value::Null);
    let gpus = "/prometheus/api/v1/query_range?query=avg+by+(instance)(gpu_utilization)&start=1&end=1&step=1";
    let answer = setup.get(ANN, gpus).await.json();
    assert_eq!(
        answer["data"],
        json!({"resultType": "matrix", "result": []})
    );
    assert!(
        answer["warnings"][0]
            .as_str()
            .unwrap()
            .contains("at /metrics alone")
    );
    for path in [
        "query?query=up",
        "query",
        "query_range?query=node_uname_info",
    ] {
        let refused = setup.get(ANN, &format!("/prometheus/api/v1/{path}")).await;
        let body = refused.json();
        assert_eq!(refused.status, 400, "{path}");
        assert_eq!(
            (&body["status"], &body["errorType"]),
            (&json!("error"), &json!("bad_data"))
        );
        assert!(!body["error"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn the_cookie_of_the_portal_opens_its_figures_and_nothing_else() {
    let setup = setup_with_idle_gpus();
    let with = async |cookie: &str, path: &str| {
        let headers = [("cookie", cookie)];
        let request = TestRequest {
            method: "GET",
            path,
            headers: &headers,
            body: "",
        };
        setup.ask(request).await.status.as_u16()
    };
    let own = "user=ann; token=ann-token; admin=false";
    assert_eq!(with(own, LOW_GPU).await, 200);
    for cookie in ["", "token=", "token=forged", "tokens=ann-token", "user=ann"] {
        assert_eq!(with(cookie, LOW_GPU).await, 401, "{cookie}");
    }
    assert_eq!(with(own, "/api/v2/jobs").await, 401);
    assert_eq!(setup.guest("GET", LOW_GPU).await.status, 401);
}
