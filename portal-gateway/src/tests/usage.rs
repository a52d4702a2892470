//! What is used of what the policy limits.

use muster_model::usage::{UsageSubject, UsageView, UseOf};

use super::setup::{ADMIN, ANN, PROGRAM, Setup};

fn row(subject: UsageSubject) -> UsageView {
    UsageView {
        vc: "default".parse().unwrap(),
        subject,
        gpus: Some(UseOf { used: 1, most: 4 }),
        jobs: None,
        gpu_hours: None,
    }
}

fn setup() -> Setup {
    let setup = Setup::new();
    let user = |name: &str| row(UsageSubject::User(name.parse().unwrap()));
    setup.fake.set_usage(vec![user("ann"), user("admin")]);
    setup
}

async fn users(setup: &Setup, token: &str, query: &str) -> Vec<String> {
    let answer = setup
        .get(token, &format!("/api/muster/v1/usage{query}"))
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let rows = answer.json();
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row["user"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_user_sees_their_own_usage_and_an_admin_all() {
    let setup = setup();
    assert_eq!(users(&setup, ANN, "").await, ["ann"]);
    assert_eq!(users(&setup, PROGRAM, "?user=ann").await, ["ann"]);
    assert_eq!(users(&setup, ADMIN, "").await, ["admin"]);
    assert_eq!(users(&setup, ADMIN, "?user=ann").await, ["ann"]);
    assert_eq!(users(&setup, ADMIN, "?all=true").await, ["ann", "admin"]);
    let shown = setup.get(ANN, "/api/muster/v1/usage").await.json();
    assert_eq!(
        shown[0],
        serde_json::json!({
            "vc": "default", "user": "ann", "gpus": {"used": 1, "most": 4}, "jobs": null, "gpu_hours": null
        })
    );
}

#[tokio::test]
async fn the_usage_of_others_is_refused_not_left_out() {
    let setup = setup();
    for (query, of) in [
        ("?user=admin", "admin"),
        ("?all=true", "all users"),
        ("?user=nobody", "nobody"),
    ] {
        let refused = setup
            .get(ANN, &format!("/api/muster/v1/usage{query}"))
            .await;
        assert_eq!(refused.status, 403, "{query}");
        let message = refused.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(&format!("not that of {of}")), "{message}");
    }
    let missing = setup.get(ADMIN, "/api/muster/v1/usage?user=nobody").await;
    assert_eq!(missing.json()["code"], "NoUserError");
    assert_eq!(setup.get("", "/api/muster/v1/usage").await.status, 401);
}
