//! Muster's own routes and the pages.

use muster_model::image::ImageProgress;
use muster_model::node::NodeView;
use muster_model::state::SubState;
use muster_model::view::{Age, JobDetail};
use serde_json::{Value, json};

use super::setup::*;

const ROOT: &str = "/api/muster/v1";

#[tokio::test]
async fn jobs_in_the_models_own_shape() {
    let setup = Setup::new();
    let job = ended("ann~job", &failure(3));
    setup.fake.put(job.clone());
    let detail = setup
        .get(ANN, &format!("{ROOT}/jobs/ann~job?attempt=0"))
        .await;
    let back: JobDetail = serde_json::from_slice(&detail.body).unwrap();
    assert_eq!(back, job);
    let list = setup
        .get(ANN, &format!("{ROOT}/jobs?state=FAILED"))
        .await
        .json();
    assert_eq!(list[0]["state"], "FAILED");
    assert_eq!(list[0]["key"], json!({"user": "ann", "name": "job"}));
    let missing = setup
        .get(ANN, &format!("{ROOT}/jobs/ann~job?attempt=4"))
        .await;
    assert_eq!(missing.json()["code"], "NoJobError");
    let huge = setup
        .get(ANN, &format!("{ROOT}/jobs/ann~job?attempt=4294967296"))
        .await;
    assert_eq!(huge.status, 400);
}

#[tokio::test]
async fn who_waits_hears_when_a_job_has_got_on() {
    let setup = Setup::new();
    let job = placed("ann~job", SubState::AttemptRunning);
    let mark = job.summary.mark();
    setup.fake.put(job);
    let wait = |query: &str| format!("{ROOT}/jobs/ann~job/wait?{query}");
    // Seen otherwise: answered at once, long before the time is over.
    let other = setup
        .get(ANN, &wait("seen=AttemptPreparing.0&timeout_ms=60000"))
        .await;
    assert_eq!(other.json()["mark"], mark);
    let same = wait(&format!("seen={mark}&timeout_ms=60000"));
    let change = async {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        setup.fake.put(placed("ann~job", SubState::AttemptDeleting));
    };
    let (changed, ()) = tokio::join!(setup.get(ANN, &same), change);
    assert_ne!(changed.json()["mark"], mark);
    let over = setup.get(ANN, &wait("timeout_ms=1")).await;
    assert_eq!(over.json()["state"], changed.json()["state"]);
}

#[tokio::test]
async fn a_listing_names_those_whose_jobs_are_missing() {
    let setup = Setup::new();
    setup.fake.put(ended("ann~job", &failure(3)));
    let paths = [format!("{ROOT}/jobs"), "/api/v2/jobs".to_owned()];
    for path in &paths {
        let list = setup.get(ANN, path).await;
        assert!(!list.headers.contains_key("x-muster-away"));
    }
    for vc in ["dev", "prod"] {
        setup.fake.silence(vc.parse().unwrap());
    }
    for path in &paths {
        let list = setup.get(ANN, path).await;
        assert_eq!(list.headers["x-muster-away"], "dev, prod");
        assert_eq!(list.json().as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn what_a_copy_tells_says_how_old_it_is() {
    let setup = Setup::new();
    setup.fake.put(ended("ann~job", &failure(3)));
    let own = format!("{ROOT}/jobs");
    let detail = format!("{own}/ann~job");
    let vcs = format!("{ROOT}/virtual-clusters");
    let mut paths: Vec<String> = [&own, &detail, &vcs].map(Clone::clone).into();
    let wire = [
        "jobs",
        "jobs/ann~job",
        "jobs/ann~job/config",
        "jobs/ann~job/events",
        "jobs/ann~job/job-attempts",
        "jobs/ann~job/job-attempts/0",
        "jobs/ann~job/attempts/0/taskRoles/worker/taskIndex/0/attempts",
        "virtual-clusters",
        "virtual-clusters/default",
    ];
    paths.extend(wire.map(|path| format!("/api/v2/{path}")));
    for path in &paths {
        let answer = setup.get(ANN, path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.headers.contains_key("x-muster-age"), "{path}");
    }
    let now = setup.get(ANN, &own).await.json();
    assert!(now[0].get("age").is_none(), "{now}");
    let age = |vc: &str, seconds| Age {
        vc: vc.parse().unwrap(),
        seconds,
    };
    setup.fake.age(age("default", Some(42)));
    for path in &paths {
        let answer = setup.get(ANN, path).await;
        assert_eq!(answer.headers["x-muster-age"], "default=42", "{path}");
        let exposed = answer.header("access-control-expose-headers");
        assert!(exposed.contains("X-Muster-Age"), "{exposed}");
    }
    let told = json!({"vc": "default", "seconds": 42});
    assert_eq!(setup.get(ANN, &own).await.json()[0]["age"], told);
    assert_eq!(setup.get(ANN, &detail).await.json()["age"], told);
    assert_eq!(setup.get(ANN, &vcs).await.json()[0]["age"], told);
    setup.fake.age(age("dev", None));
    let list = setup.get(ANN, &own).await;
    assert_eq!(list.headers["x-muster-age"], "default=42, dev=unknown");
}

#[tokio::test]
async fn a_job_that_waits_is_explained() {
    let setup = Setup::new();
    let mut job = placed("ann~job", SubState::AttemptCreationPending);
    job.summary.waiting_for = Some("needs 8 GPUs".to_owned());
    setup.fake.put(job);
    let path = format!("{ROOT}/jobs/ann~job/explanation");
    let answer = setup.get(ANN, &path).await.json();
    assert_eq!(
        (&answer["state"], &answer["reason"]),
        (&json!("WAITING"), &json!("needs 8 GPUs"))
    );
    let missing = setup
        .get(ANN, &format!("{ROOT}/jobs/ann~no/explanation"))
        .await;
    assert_eq!(
        (missing.status.as_u16(), &missing.json()["code"]),
        (404, &json!("NoJobError"))
    );
}

#[tokio::test]
async fn what_would_become_of_a_job_is_told_and_nothing_is_submitted() {
    let setup = Setup::new();
    let path = format!("{ROOT}/jobs/what-if");
    let body = "name: job\n# warning: mind this\n";
    let told = setup.send(ANN, "POST", &path, body).await;
    assert_eq!(told.status, 200, "{}", told.text());
    let told = told.json();
    assert_eq!(told["outcome"], "starts");
    assert_eq!(told["key"]["name"], "job");
    assert_eq!(told["warnings"][0]["message"], "mind this");
    let detail = setup.get(ANN, &format!("{ROOT}/jobs/ann~job")).await;
    assert_eq!(detail.status, 404, "it was not submitted");
    let wrong = setup.send(ANN, "POST", &path, "[]").await;
    assert_eq!(wrong.json()["code"], "InvalidProtocolError");
    setup.send(ANN, "POST", "/api/v2/jobs", body).await;
    let known = setup.send(ANN, "POST", &path, body).await;
    assert_eq!(known.json()["code"], "ConflictJobError");
    let guest = setup.guest("POST", &path).await;
    assert_eq!(guest.status, 401);
}

#[tokio::test]
async fn waiting_ends_with_the_job_or_the_time() {
    let setup = Setup::new();
    setup.fake.put(placed("ann~job", SubState::AttemptRunning));
    let path = format!("{ROOT}/jobs/ann~job/wait");
    let early = setup.get(ANN, &format!("{path}?timeout_ms=1")).await.json();
    assert_eq!(early["state"], "RUNNING");
    let waited = async {
        tokio::join!(setup.get(ANN, &path), async {
            tokio::task::yield_now().await;
            setup.fake.put(ended("ann~job", &success()));
        })
    };
    let soon = std::time::Duration::from_secs(10);
    let (ended, ()) = tokio::time::timeout(soon, waited).await.unwrap();
    assert_eq!(ended.json()["state"], "SUCCEEDED");
    let missing = setup.get(ANN, &format!("{ROOT}/jobs/ann~no/wait")).await;
    assert_eq!(missing.status, 404);
}

fn steps(answer: &WholeAnswer) -> Vec<ImageProgress> {
    assert_eq!(answer.header("content-type"), "application/x-ndjson");
    let lines = answer.text().lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn images() {
    let setup = Setup::new();
    let images = format!("{ROOT}/images");
    // An archive may be larger than any body that is read as a whole.
    let archive = "x".repeat(3 * 1024 * 1024);
    let path = format!("{images}/import?name=lib%2Fa:1");
    let imported = steps(&setup.send(ADMIN, "POST", &path, &archive).await);
    assert!(matches!(
        &imported[0],
        ImageProgress::Bytes {
            done: 3_145_728,
            ..
        }
    ));
    assert!(matches!(&imported[1], ImageProgress::Ready(image) if image.name == "lib/a:1"));
    let list = setup.get(ADMIN, &images).await.json();
    assert_eq!(list[0]["name"], "lib/a:1");

    let pull = format!("{images}/pull");
    let pulled = steps(&setup.send(ADMIN, "POST", &pull, r#"{"name":"b"}"#).await);
    assert!(matches!(&pulled[..], [ImageProgress::Failed { .. }]));
    assert_eq!(setup.send(ADMIN, "POST", &pull, "{}").await.status, 400);

    let path = format!("{images}?name=lib/a:1");
    assert_eq!(setup.send(ADMIN, "DELETE", &path, "").await.status, 200);
    let again = setup.send(ADMIN, "DELETE", &path, "").await;
    assert_eq!(again.json()["code"], "NoImageError");
    assert_eq!(setup.send(ADMIN, "DELETE", &images, "").await.status, 400);
    for (method, path) in [
        ("GET", ""),
        ("POST", "/pull"),
        ("POST", "/import"),
        ("DELETE", ""),
    ] {
        let answer = setup
            .send(ANN, method, &format!("{images}{path}"), "")
            .await;
        assert_eq!(answer.status, 403, "{method} {path}");
    }
}

#[tokio::test]
async fn this_node() {
    let setup = Setup::new();
    let answer = setup.get(ADMIN, &format!("{ROOT}/node")).await;
    let back: NodeView = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(back, node());
}

#[tokio::test]
async fn the_status_page_needs_no_login_and_hides_no_markup() {
    let setup = Setup::new();
    let mut view = node();
    view.problems = vec!["disk <b>full</b> & \"hot\"".to_owned()];
    view.engine = Err("containerd does not answer".to_owned());
    setup.fake.set_node(view);
    let page = setup.guest("GET", "/status").await;
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert!(
        page.header("content-security-policy")
            .starts_with("default-src 'none'")
    );
    for part in [
        "<h1>n1</h1>",
        "disk &lt;b&gt;full&lt;/b&gt; &amp; &quot;hot&quot;",
        "Tesla &lt;V100&gt;",
        "Xid 79: fell off the bus",
        "containerd does not answer",
        "admin~train worker:0",
    ] {
        assert!(page.text().contains(part), "{part}");
    }
    assert!(!page.text().contains("<script"));
    let policy = page.header("content-security-policy");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(page.header("x-frame-options"), "DENY");
    assert!(
        !page.text().contains("a-0"),
        "the uid of an attempt is shown"
    );
    assert_eq!(page.header("access-control-allow-origin"), "");
    let login = setup.guest("GET", "/login").await;
    assert!(login.text().contains("href=\"/status\""));
    assert_eq!(setup.guest("GET", "/healthz").await.text(), "ok");
    assert_eq!(
        setup.guest("POST", "/rest-server/api/v2/info").await.json()["launcherType"],
        Value::from("k8s")
    );
}

#[tokio::test]
async fn virtual_clusters_are_shown_to_users() {
    let setup = Setup::new();
    let shown = setup
        .get(ANN, "/api/muster/v1/virtual-clusters")
        .await
        .json();
    assert_eq!(shown[0]["name"], "default");
    assert!(shown[0]["total"]["cpu"].as_u64() > Some(0), "{shown}");
    let nobody = setup.get("", "/api/muster/v1/virtual-clusters").await;
    assert_eq!(nobody.status, 401);
}

#[tokio::test]
async fn pages_are_shown_under_own_names_alone() {
    let names = crate::HostNames::new(["n1.example".to_owned()]);
    let setup = Setup::with(crate::GatewayConfig {
        host_names: names,
        ..config()
    });
    for page in ["/login", "/status", "/status.json", "/status.txt"] {
        for (host, status) in [
            ("n1.example:7741", 200),
            ("10.0.0.1:7741", 200),
            ("localhost:7741", 200),
            ("evil.example:7741", 403),
        ] {
            let ask = TestRequest {
                method: "GET",
                path: page,
                headers: &[("host", host)],
                body: "",
            };
            let answer = setup.ask(ask).await;
            assert_eq!(answer.status, status, "{page} {host}");
            if status == 403 {
                let text = answer.text();
                assert!(text.contains("http.host_names"), "{text}");
            }
        }
    }
}

#[tokio::test]
async fn connect_and_trace_are_no_methods() {
    let setup = Setup::new();
    for method in ["CONNECT", "TRACE"] {
        let answer = setup.guest(method, "/api/v2/info").await;
        assert_eq!(answer.status, 405, "{method}");
        assert!(answer.header("allow").contains("GET"), "{method}");
    }
}

#[tokio::test]
async fn packed_bodies_are_taken_and_others_are_415() {
    use std::io::Write as _;
    let setup = Setup::new();
    setup.fake.put(waiting("ann~job"));
    let path = "/api/v2/jobs/ann~job/tag";
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(br#"{"value":"packed"}"#).unwrap();
    let packed = encoder.finish().unwrap();
    let ask = async |encoding: &str, body: &[u8]| {
        let request = http::Request::put(path)
            .header("authorization", ANN)
            .header("content-encoding", encoding)
            .body(http_body_util::Full::new(bytes::Bytes::copy_from_slice(
                body,
            )));
        let mut request = request.unwrap();
        request.extensions_mut().insert(setup.peer);
        let service = warp::service(setup.gateway.filter());
        let answer = tower::ServiceExt::oneshot(service, request).await;
        answer.unwrap().status().as_u16()
    };
    assert_eq!(ask("gzip", &packed).await, 200);
    assert_eq!(ask("br", &packed).await, 415);
    assert_eq!(ask("gzip", b"plain").await, 400);
}

#[tokio::test]
async fn a_tag_of_several_lines_is_refused_and_can_be_removed() {
    let setup = Setup::new();
    setup.fake.put(waiting("ann~job"));
    let path = "/api/v2/jobs/ann~job/tag";
    for tag in ["a\\nb", "a\\r", "\\u001b[31m", "\\u0085"] {
        let body = format!(r#"{{"value":"{tag}"}}"#);
        let refused = setup.send(ANN, "PUT", path, &body).await;
        assert_eq!(refused.status, 400, "{tag}");
        let message = refused.json()["message"].to_string();
        assert!(
            message.contains("value") && message.contains("control"),
            "{message}"
        );
        let removed = setup.send(ANN, "DELETE", path, &body).await;
        assert_ne!(removed.status, 400, "{tag}");
    }
}
