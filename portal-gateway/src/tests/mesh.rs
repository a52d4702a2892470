//! The cluster, its documents and the status page.

use muster_model::alarm::{Alarm, AlarmKind, AlarmState, AlarmSubject};
use muster_model::finding::{Finding, Grade};
use muster_model::mesh::{
    DocumentView, Health, Leadership, MemberReach, MeshView, OneWay, VersionView,
};
use serde_json::{Value, json};

use super::setup::*;
use crate::fake::member;

const CLUSTER: &str = "/api/muster/v1/cluster";
const RULES: &str = "/api/muster/v1/documents/failure-rules";

/// Status and `code`.
fn outcome(answer: &WholeAnswer) -> (u16, String) {
    let code = answer.json()["code"].as_str().map(str::to_owned);
    (answer.status.as_u16(), code.unwrap_or_default())
}

async fn put(setup: &Setup, query: &str, text: &str) -> WholeAnswer {
    let path = format!("{RULES}?{query}");
    setup.send(ADMIN, "PUT", &path, text).await
}

#[tokio::test]
async fn a_cluster_is_made_once_and_left_again() {
    let setup = Setup::new();
    let leave = format!("{CLUSTER}/leave");
    let wrong = setup
        .send(ADMIN, "POST", CLUSTER, r#"{"name":"a b"}"#)
        .await;
    assert_eq!(outcome(&wrong), (400, "InvalidParametersError".to_owned()));
    let made = setup
        .send(ADMIN, "POST", CLUSTER, r#"{"name":"lab"}"#)
        .await;
    assert_eq!(made.json()["name"], "lab");
    let view = setup.get(ANN, CLUSTER).await;
    let view: MeshView = serde_json::from_slice(&view.body).unwrap();
    assert_eq!(
        (view.solo, view.cluster.unwrap().name),
        (false, "lab".into())
    );
    let again = setup.send(ADMIN, "POST", CLUSTER, "").await;
    assert_eq!(outcome(&again), (409, "ConflictClusterError".to_owned()));
    assert_eq!(setup.send(ADMIN, "POST", &leave, "").await.status, 200);
    assert_eq!(setup.send(ADMIN, "POST", &leave, "").await.status, 409);
}

#[tokio::test]
async fn tokens_are_made_listed_and_revoked() {
    let setup = Setup::new();
    let tokens = format!("{CLUSTER}/tokens");
    assert_eq!(setup.send(ADMIN, "POST", &tokens, "").await.status, 400);
    setup.send(ADMIN, "POST", CLUSTER, "").await;
    let body = r#"{"expires_s":3600,"uses":5,"votes":false}"#;
    let made = setup.send(ADMIN, "POST", &tokens, body).await.json();
    assert!(made["text"].as_str().unwrap().starts_with("t0."), "{made}");
    assert_eq!(made["token"]["votes"], false);
    setup.send(ADMIN, "POST", &tokens, "").await;
    let list = setup.get(ADMIN, &tokens).await;
    assert!(!list.text().contains("secret"), "{}", list.text());
    let shown = |at: usize| {
        let token = &list.json()[at];
        [&token["id"], &token["uses_left"], &token["votes"]].map(Value::to_string)
    };
    assert_eq!(shown(0), ["\"t0\"", "5", "false"]);
    assert_eq!(shown(1), ["\"t1\"", "1", "true"]);
    let revoke = format!("{tokens}/t0");
    assert_eq!(setup.send(ADMIN, "DELETE", &revoke, "").await.status, 200);
    assert_eq!(setup.get(ADMIN, &tokens).await.json()[0]["revoked"], true);
    let missing = setup
        .send(ADMIN, "DELETE", &format!("{tokens}/t9"), "")
        .await;
    assert_eq!(outcome(&missing), (404, "NoTokenError".to_owned()));
    for body in [
        r#"{"uses":0}"#,
        r#"{"expires_s":0}"#,
        r#"{"votes":"perhaps"}"#,
        r#"{"use":1}"#,
    ] {
        let answer = setup.send(ADMIN, "POST", &tokens, body).await;
        assert_eq!(answer.status, 400, "{body}");
    }
}

#[tokio::test]
async fn a_node_joins_when_nothing_runs() {
    let setup = Setup::new();
    setup.fake.offer("good", "lab");
    let join = format!("{CLUSTER}/join");
    let ask = async |token: &str| {
        let body = json!({"address": "n2", "token": token}).to_string();
        setup.send(ADMIN, "POST", &join, &body).await
    };
    setup.fake.put(waiting("ann~waits"));
    let plan = setup.get(ADMIN, &join).await.json();
    assert_eq!(plan["jobs"], json!(["ann~waits"]));
    assert_eq!(outcome(&ask("good").await).1, "ConflictClusterError");
    setup.fake.put(ended("ann~waits", &success()));
    assert_eq!(outcome(&ask("bad").await), (409, "JoinRefusedError".into()));
    let joined = ask("good").await.json();
    assert_eq!(joined["cluster"]["name"], "lab");
    let without = setup
        .send(ADMIN, "POST", &join, r#"{"address":"n2"}"#)
        .await;
    assert!(without.text().contains("token"), "{}", without.text());
}

#[tokio::test]
async fn a_member_is_expelled_by_name() {
    let setup = Setup::new();
    let n2 = member(1, "n2", MemberReach::Alive);
    setup.fake.change_mesh(|mesh| mesh.members.push(n2));
    let path = format!("{CLUSTER}/members/n2");
    assert_eq!(setup.send(ADMIN, "DELETE", &path, "").await.status, 200);
    let again = setup.send(ADMIN, "DELETE", &path, "").await;
    assert_eq!(outcome(&again), (404, "NoMemberError".to_owned()));
    let members = setup.get(ANN, &format!("{CLUSTER}/members")).await.json();
    assert_eq!(members[1]["state"], "expelled");
}

#[tokio::test]
async fn jobs_are_kept_off_a_member_by_an_admins_word() {
    let setup = Setup::new();
    let n2 = member(1, "n2", MemberReach::Alive);
    setup.fake.change_mesh(|mesh| mesh.members.push(n2));
    let path = format!("{CLUSTER}/members/n2/scheduling");
    let put = async |who: &str, path: &str, body: Value| {
        let answer = setup.send(who, "PUT", path, &body.to_string()).await;
        (outcome(&answer), answer.text().to_owned())
    };
    let word = json!({"mode": "draining", "reason": "new fans", "after_s": 60});
    assert_eq!(put(ANN, &path, word.clone()).await.0.0, 403);
    assert_eq!(put(ADMIN, &path, word.clone()).await.0.0, 200);
    let members = setup.get(ANN, &format!("{CLUSTER}/members")).await.json();
    let shown = &members[1]["scheduling"];
    assert_eq!(
        (&shown["mode"], &shown["reason"]),
        (&json!("draining"), &json!("new fans"))
    );
    assert!(shown["from_ms"].as_u64() > Some(60_000));
    let status = setup.get("", "/status.txt").await;
    let text = status.text();
    assert!(text.contains("draining: new fans"), "{text}");
    let elsewhere = format!("{CLUSTER}/members/n9/scheduling");
    assert_eq!(
        put(ADMIN, &elsewhere, word).await.0,
        (404, "NoMemberError".to_owned())
    );
    for (body, field) in [
        (json!({"reason": "x"}), "mode"),
        (json!({"mode": "off", "reason": "x"}), "mode"),
        (json!({"mode": "cordoned"}), "reason"),
        (json!({"mode": "cordoned", "reason": "a\u{7}b"}), "reason"),
        (
            json!({"mode": "cordoned", "reason": "x".repeat(257)}),
            "reason",
        ),
        (
            json!({"mode": "cordoned", "reason": "x", "after_s": 1}),
            "after_s",
        ),
        (
            json!({"mode": "draining", "reason": "x", "after_s": -1}),
            "after_s",
        ),
        (
            json!({"mode": "draining", "reason": "x", "after_s": i64::MAX}),
            "after_s",
        ),
        (json!({"mode": "open", "why": "x"}), "why"),
    ] {
        let (wrong, text) = put(ADMIN, &path, body).await;
        assert_eq!(wrong, (400, "InvalidParametersError".to_owned()), "{text}");
        assert!(
            text.contains(&format!("\\\"{field}\\\"")),
            "{field}: {text}"
        );
    }
    assert_eq!(put(ADMIN, &path, json!({"mode": "open"})).await.0.0, 200);
    let members = setup.get(ANN, &format!("{CLUSTER}/members")).await.json();
    assert_eq!(members[1]["scheduling"], Value::Null);
}

#[tokio::test]
async fn only_who_cannot_be_reached_is_taken_for_off() {
    let setup = Setup::new();
    for (id, name, reach) in [
        (1, "n2", MemberReach::Suspect),
        (2, "n3", MemberReach::Unreachable),
    ] {
        let one = member(id, name, reach);
        setup.fake.change_mesh(|mesh| mesh.members.push(one));
        setup.fake.run_on(name, &[("ann~x", "w:0")]);
    }
    let off = async |who: &str, name: &str| {
        let path = format!("{CLUSTER}/members/{name}/off");
        setup.send(who, "POST", &path, "").await
    };
    assert_eq!(outcome(&off(ADMIN, "n2").await).1, "ConflictClusterError");
    assert_eq!(off(ANN, "n3").await.status, 403);
    let given_up = off(ADMIN, "n3").await.json();
    assert_eq!(given_up, json!([{"job": "ann~x", "task": "w:0"}]));
    let tasks = setup
        .get(ADMIN, &format!("{CLUSTER}/members/n3/tasks"))
        .await;
    assert_eq!(tasks.json(), json!([]));
}

#[tokio::test]
async fn what_has_lost_most_of_its_voters_is_recovered_by_who_names_them() {
    let setup = Setup::new();
    setup.fake.change_mesh(|mesh| {
        let led = Leadership {
            leader: None,
            voters: ["n1", "n2", "n3"].map(str::to_owned).to_vec(),
            away: Vec::new(),
            learners: Vec::new(),
        };
        mesh.vcs = [("prod".parse().unwrap(), led)].into();
    });
    let path = |vc: &str| format!("/api/muster/v1/virtual-clusters/{vc}/recovery");
    let plan = setup.get(ADMIN, &path("prod")).await.json();
    assert_eq!(plan["missing"], json!(["n1", "n2"]));
    assert_eq!(plan["from"], "n3");
    let missing = setup.get(ADMIN, &path("dev")).await;
    assert_eq!(outcome(&missing), (404, "NoVirtualClusterError".to_owned()));
    let told = missing.json()["message"].to_string();
    assert!(
        told.contains("dev") && told.contains("`muster vc list`"),
        "{told}"
    );
    let post = async |who: &str, body: &str| setup.send(who, "POST", &path("prod"), body).await;
    for (body, what) in [
        ("{}", "is required"),
        (r#"{"lost": []}"#, "is not allowed to be empty"),
        (r#"{"lost": "n1"}"#, "must be a list of names"),
        (r#"{"lost": ["n1"], "force": true}"#, "is not allowed"),
    ] {
        let answer = post(ADMIN, body).await;
        let told = answer.json()["message"].to_string();
        assert_eq!(answer.status, 400, "{body}");
        assert!(told.contains(what), "{body}: {told}");
    }
    assert_eq!(post(ANN, r#"{"lost": ["n1", "n2"]}"#).await.status, 403);
    let others = post(ADMIN, r#"{"lost": ["n1", "n3"]}"#).await;
    assert_eq!(outcome(&others), (409, "ConflictClusterError".to_owned()));
    let done = post(ADMIN, r#"{"lost": ["n2", "n1"]}"#).await;
    assert_eq!(done.json()["generation"], 2);
    assert_eq!(setup.get(ADMIN, &path("prod")).await.status, 409);
    // The cluster itself is recovered in the same way.
    let itself = format!("{CLUSTER}/recovery");
    assert_eq!(setup.get(ADMIN, &itself).await.status, 409);
    setup.fake.change_mesh(|mesh| {
        mesh.leadership.leader = None;
        mesh.leadership.voters = ["n1", "n2", "n3"].map(str::to_owned).to_vec();
    });
    let plan = setup.get(ADMIN, &itself).await.json();
    assert_eq!((&plan["vc"], &plan["from"]), (&json!(null), &json!("n3")));
    let lost = r#"{"lost": ["n1", "n2"]}"#;
    let done = setup.send(ADMIN, "POST", &itself, lost).await;
    assert_eq!(done.json()["generation"], 2);
    assert_eq!(setup.get(ADMIN, &itself).await.status, 409);
}

#[tokio::test]
async fn an_edit_of_an_old_version_is_refused_and_names_the_current_one() {
    let setup = Setup::new();
    assert_eq!(put(&setup, "base=0", "- a\n").await.json()["version"], 1);
    let late = put(&setup, "base=0", "- b\n").await;
    assert_eq!(outcome(&late), (409, "ConflictDocumentError".to_owned()));
    assert_eq!(late.json()["currentVersion"], 1);
    assert_eq!(put(&setup, "base=1&now=true", "- b\n").await.status, 200);
    let text = setup.get(ANN, &format!("{RULES}/text?version=1")).await;
    assert_eq!(text.json(), json!({"version": 1, "text": "- a\n"}));
    let text = setup.get(ANN, &format!("{RULES}/text")).await.json();
    assert_eq!(text["text"], "- b\n");
    let rollback = format!("{RULES}/rollback?version=1");
    let back = setup.send(ADMIN, "POST", &rollback, "").await.json();
    assert_eq!(back["version"], 3);
    let history = setup.get(ANN, &format!("{RULES}/history")).await;
    let history: Vec<VersionView> = serde_json::from_slice(&history.body).unwrap();
    let told: Vec<_> = history
        .iter()
        .map(|one| (one.version.version, one.version.forced, one.note.as_str()))
        .collect();
    let expect = [
        (3, false, "repeats version 1"),
        (2, true, ""),
        (1, false, ""),
    ];
    assert_eq!(told, expect);
}

#[tokio::test]
async fn documents_that_cannot_be_are_refused() {
    let setup = Setup::new();
    let long = "x".repeat(16 * 1024 * 1024 + 1);
    for (query, text, status) in [
        ("", "- a\n", 400),
        ("base=x", "- a\n", 400),
        ("base=0", " \n", 400),
        ("base=0", long.as_str(), 413),
    ] {
        assert_eq!(put(&setup, query, text).await.status, status, "{query}");
    }
    for path in ["documents/no", "documents/no/history", "documents/no/text"] {
        let answer = setup.get(ANN, &format!("/api/muster/v1/{path}")).await;
        assert_eq!(
            outcome(&answer),
            (404, "NoDocumentError".to_owned()),
            "{path}"
        );
    }
    let rollback = |query| format!("{RULES}/rollback{query}");
    let none = setup.send(ADMIN, "POST", &rollback(""), "").await;
    assert_eq!(none.status, 400);
    let unknown = setup.send(ADMIN, "POST", &rollback("?version=7"), "").await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test]
async fn a_document_waits_for_all_members_but_not_for_those_away() {
    let setup = Setup::new();
    setup.fake.change_mesh(|mesh| {
        mesh.members.push(member(1, "n2", MemberReach::Alive));
        mesh.members.push(member(2, "n3", MemberReach::Unreachable));
    });
    put(&setup, "base=0", "- a\n").await;
    let view = setup.get(ANN, RULES).await;
    assert_eq!(view.json()["newest"]["stage"], "distribute");
    let view: DocumentView = serde_json::from_slice(&view.body).unwrap();
    assert_eq!(
        (view.to_string().as_str(), view.active),
        ("version 1: 2 of 3, unreachable: n3, rejected: 0", 0)
    );
}

#[tokio::test]
async fn what_changes_the_cluster_is_for_admins() {
    let setup = Setup::new();
    for (method, path) in [
        ("POST", CLUSTER.to_owned()),
        ("GET", format!("{CLUSTER}/tokens")),
        ("POST", format!("{CLUSTER}/tokens")),
        ("DELETE", format!("{CLUSTER}/tokens/t0")),
        ("GET", format!("{CLUSTER}/join")),
        ("POST", format!("{CLUSTER}/join")),
        ("POST", format!("{CLUSTER}/leave")),
        ("DELETE", format!("{CLUSTER}/members/n1")),
        ("GET", format!("{CLUSTER}/recovery")),
        ("POST", format!("{CLUSTER}/recovery")),
        ("PUT", format!("{RULES}?base=0")),
        ("POST", format!("{RULES}/rollback?version=0")),
        ("POST", "/api/muster/v1/doctor".to_owned()),
        (
            "GET",
            "/api/muster/v1/virtual-clusters/a/recovery".to_owned(),
        ),
        (
            "POST",
            "/api/muster/v1/virtual-clusters/a/recovery".to_owned(),
        ),
    ] {
        let answer = setup.send(ANN, method, &path, "{}").await;
        assert_eq!(answer.status, 403, "{method} {path}");
    }
    for path in [CLUSTER, RULES] {
        assert_eq!(setup.guest("GET", path).await.status, 401, "{path}");
    }
}

#[tokio::test]
async fn the_doctor_tells_what_it_finds() {
    let setup = Setup::new();
    let slow = Finding::ok("fsync", "/state", "p99 45 ms").but(Grade::Warn, "use a faster disk");
    setup.fake.set_findings(vec![slow.clone()]);
    let answer = setup.send(ADMIN, "POST", "/api/muster/v1/doctor", "").await;
    let findings: Vec<Finding> = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(findings, [slow]);
    assert_eq!(answer.json()[0]["grade"], "warn");
}

/// A mesh of three in which everything is wrong, with markup in every text.
fn in_trouble(setup: &Setup) {
    setup.fake.set_health(Health {
        uptime_s: 7_500,
        checks: vec![Finding::ok("engine", "containerd", "1.6 <x>").but(Grade::Fail, "restart it")],
    });
    setup.fake.change_mesh(|mesh| {
        let mut n2 = member(1, "n2", MemberReach::Suspect);
        n2.why = vec!["n3 has not heard it for 12 s".to_owned()];
        n2.problems = vec!["<script>alert(1)</script>".to_owned()];
        n2.devices = "8 Tesla V100".to_owned();
        n2.age_s = Some(12);
        n2.reach_s = Some(75);
        mesh.members.push(n2);
        mesh.members.push(member(2, "n3", MemberReach::Alive));
        mesh.islands = vec![vec!["n1".into(), "n3".into()], vec!["n2".into()]];
        mesh.one_way.push(OneWay {
            from: "n2".to_owned(),
            to: "n3".to_owned(),
        });
        mesh.counters.insert("records_refused".to_owned(), 7);
        mesh.cloned = Some("another machine uses this node's key".to_owned());
    });
}

#[tokio::test]
async fn the_status_page_shows_the_mesh_to_those_who_are_not_logged_in() {
    let setup = Setup::new();
    let alone = setup.guest("GET", "/status").await;
    assert!(alone.text().contains("this machine is alone"));
    assert!(alone.text().contains("All is well."));
    setup
        .send(ADMIN, "POST", CLUSTER, r#"{"name":"lab"}"#)
        .await;
    put(&setup, "base=0", "- a\n").await;
    in_trouble(&setup);
    let page = setup.guest("GET", "/status").await;
    let text = setup.guest("GET", "/status.txt").await;
    assert_eq!(text.header("content-type"), "text/plain; charset=utf-8");
    for part in [
        "up for 2 h 5 min",
        "restart it",
        "1 of 3 members are not alive",
        "suspect for 1 min 15 s",
        "n3 has not heard it for 12 s",
        "n2 reaches n3, not the other way round",
        "n1, n3",
        "another machine uses this node",
        "failure-rules: version 1:",
        "records_refused",
        "8 Tesla V100",
    ] {
        assert!(page.text().contains(part), "{part}:\n{}", page.text());
        assert!(text.text().contains(part), "{part}:\n{}", text.text());
    }
    assert!(!page.text().contains("<script"), "{}", page.text());
    assert!(page.text().contains("1.6 &lt;x&gt;"));
}

#[tokio::test]
async fn status_as_json_tells_what_the_page_tells_and_no_more() {
    let setup = Setup::new();
    put(&setup, "base=0", "- a\n").await;
    let answer = setup.guest("GET", "/status.json").await;
    assert_eq!(answer.header("access-control-allow-origin"), "");
    let status = answer.json();
    assert_eq!(status["node"]["tasks"][0]["job"], "admin~train");
    assert_eq!(
        status["node"]["devices"][0]["holder"],
        "admin~train worker:0"
    );
    assert_eq!(status["node"]["tasks"][0].get("uid"), None);
    assert_eq!(status["mesh"]["members"][0]["reach"], "alive");
    assert_eq!(status["mesh"]["documents"][0]["newest"]["author"], "");
    assert_eq!(status["health"]["checks"][0]["grade"], "ok");
    assert_eq!(status["node"]["engine"], "containerd 1.6.20");
    assert_eq!(status["missing"], json!([]));
}

#[tokio::test]
async fn a_part_that_does_not_answer_is_left_out_alone() {
    let setup = Setup::new();
    setup.fake.lose_node();
    let page = setup.guest("GET", "/status").await;
    assert_eq!(page.status, 200);
    assert!(
        page.text()
            .contains("not shown: this node: the fake has no node")
    );
    assert!(page.text().contains("<h2>Members</h2>"));
    let status = setup.guest("GET", "/status.json").await.json();
    assert_eq!(status["node"], Value::Null);
    assert_eq!(status["mesh"]["me"], "n1");
}

#[tokio::test]
async fn a_page_of_many_members_begins_with_those_in_trouble() {
    let setup = Setup::new();
    setup.fake.change_mesh(|mesh| {
        let name = |id: u32| format!("m{id:04}");
        mesh.members = (0..1000)
            .map(|id| member(id, &name(id), MemberReach::Alive))
            .collect();
        mesh.members[999].reach = MemberReach::Unreachable;
    });
    let page = setup.guest("GET", "/status.txt").await;
    let shown: Vec<&str> = page
        .text()
        .lines()
        .filter(|l| l.starts_with("  m0"))
        .collect();
    assert_eq!(shown.len(), 200);
    assert!(shown[0].starts_with("  m0999"), "{}", shown[0]);
    assert!(page.text().contains("and 800 more"));
    let all = setup.guest("GET", "/status.json").await.json();
    assert_eq!(all["mesh"]["members"].as_array().unwrap().len(), 1000);
}

#[tokio::test]
async fn alarms_are_read_by_everybody_from_where_they_left_off() {
    const ALARMS: &str = "/api/muster/v1/alarms";
    let setup = Setup::new();
    for state in [AlarmState::Raised, AlarmState::Cleared] {
        setup.fake.alarm(Alarm {
            number: 0,
            boot: String::new(),
            at_ms: 1_000,
            kind: AlarmKind::MemberLost,
            state,
            subject: AlarmSubject::Member("n3".to_owned()),
            text: "n3".to_owned(),
        });
    }
    let all = setup.get(ANN, ALARMS).await.json();
    assert_eq!((&all["boot"], &all["last"]), (&json!("b1"), &json!(2)));
    assert_eq!(all["standing"], json!([]));
    let first = json!({
        "number": 1, "boot": "b1", "at_ms": 1_000, "kind": "member_lost", "state": "raised",
        "subject": {"type": "member", "name": "n3"}, "text": "n3",
    });
    assert_eq!(all["alarms"][0], first);
    for (query, count) in [
        ("after=0", 2),
        ("after=1", 1),
        ("after=1&boot=b1", 1),
        ("after=2&boot=b1", 0),
        ("after=2&boot=b0", 2),
        ("after=3", 2),
    ] {
        let answer = setup.get(ADMIN, &format!("{ALARMS}?{query}")).await.json();
        let listed = answer["alarms"].as_array().unwrap();
        assert_eq!(listed.len(), count, "{query}");
    }
    for wrong in ["x", "-1", "1.5", "18446744073709551616"] {
        let answer = setup.get(ANN, &format!("{ALARMS}?after={wrong}")).await;
        assert_eq!(outcome(&answer), (400, "InvalidParametersError".to_owned()));
        let text = answer.text();
        assert!(text.contains("after must be a number"), "{text}");
    }
    assert_eq!(setup.guest("GET", ALARMS).await.status, 401);
}
