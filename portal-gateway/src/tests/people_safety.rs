//! Changes of users: who may make them, that none is lost, and that they are recorded.

use muster_model::people::{PeopleChange, UserPatch};
use serde_json::json;

use super::asking::*;
use super::setup::*;
use crate::peer::RemoteEnd;

#[tokio::test]
async fn passwords_are_set_by_those_who_know_them_and_by_admins() {
    let mut setup = Setup::new();
    let of_ann = json!({"newPassword": "by-an-admin"});
    let set = "update user password successfully.";
    done(&setup, ("PUT", "users/ann/password"), of_ann, 201, set).await;
    assert_eq!(log_in(&setup, "ann", "by-an-admin").await, 200);
    assert_eq!(setup.get(ANN, "/api/v2/users").await.status, 401, "revoked");

    let path = "users/admin/password";
    let body = r#"{"newPassword":"new-password"}"#;
    let needed = (400, "InvalidParametersError", "\"oldPassword\" is required");
    refused(&setup, (ADMIN, "PUT", path), body, needed).await;
    let short = (400, "InvalidParametersError", "at least 6 characters");
    let body = r#"{"newPassword":"abcde","oldPassword":"admin-password"}"#;
    refused(&setup, (ADMIN, "PUT", path), body, short).await;
    setup.peer = RemoteEnd::Socket;
    let body = r#"{"newPassword":"by-root"}"#;
    let by_root = setup
        .send("", "PUT", "/api/v2/users/admin/password", body)
        .await;
    assert_eq!(by_root.status, 201, "{}", by_root.text());
    assert_eq!(log_in(&setup, "admin", "by-root").await, 200);
}

#[tokio::test]
async fn old_passwords_cannot_be_guessed() {
    let setup = Setup::new();
    let body = |old: &str| json!({"newPassword": "new-password", "oldPassword": old}).to_string();
    let path = "users/ann/password";
    let wrong = (403, "ForbiddenUserError", "Pls input the correct password.");
    for _ in 0..4 {
        refused(&setup, (ANN, "PUT", path), &body("wrong-password"), wrong).await;
    }
    let (ask, right) = ((ANN, "PUT", path), body("ann-password"));
    let waits = (429, "TooManyLoginsError", "too many wrong passwords");
    refused(&setup, ask, &right, waits).await;
    assert_eq!(
        log_in(&setup, "ann", "ann-password").await,
        429,
        "counted together"
    );
    assert_eq!(log_in(&setup, "admin", "admin-password").await, 200);
    let answer = setup
        .send(ANN, "PUT", "/api/v2/users/ann/password", &right)
        .await;
    assert_eq!(answer.header("retry-after"), "1");

    setup.fake.crowd();
    let data = r#"{"newPassword":"new-password"}"#;
    let busy = setup
        .send(ADMIN, "PUT", "/api/v2/users/ann/password", data)
        .await;
    assert_eq!(
        (busy.status.as_u16(), busy.header("retry-after")),
        (503, "1")
    );
}

#[tokio::test]
async fn a_change_of_another_revision_is_refused() {
    let setup = Setup::new();
    let path = "/api/v2/users/ann";
    let tag = async || setup.get(ADMIN, path).await.header("etag").to_owned();
    let put = async |method: &str, end: &str, tag: &str, body: &str| {
        let path = format!("{path}{end}");
        let headers = [("authorization", ADMIN), ("if-match", tag)];
        let ask = TestRequest {
            method,
            path: &path,
            headers: &headers,
            body,
        };
        setup.ask(ask).await
    };
    let first = tag().await;
    assert_eq!(first, "\"1\"");
    let body = r#"{"email":"a@b.c"}"#;
    assert_eq!(put("PUT", "/email", &first, body).await.status, 201);
    assert_eq!(tag().await, "\"2\"");
    for (method, end, body) in [("PUT", "/email", body), ("DELETE", "", "")] {
        let answer = put(method, end, &first, body).await;
        assert_eq!(answer.status, 412, "{}", answer.text());
        let json = answer.json();
        assert_eq!(json["code"], "ConflictRevisionError");
        assert_eq!(json["currentRevision"], 2);
    }
    for wrong in ["2", "\"x\"", "\"1\", \"2\""] {
        let answer = put("PUT", "/email", wrong, body).await;
        assert_eq!(answer.status, 400, "{wrong}");
        assert!(answer.text().contains("If-Match"), "{}", answer.text());
    }
    assert_eq!(put("PUT", "/email", "*", body).await.status, 201);
    assert_eq!(put("PUT", "/email", "W/\"3\"", body).await.status, 201);
    assert_eq!(put("DELETE", "", "\"4\"", "").await.status, 200);
    let gone = put("DELETE", "", "\"4\"", "").await;
    assert_eq!(
        (gone.status.as_u16(), &gone.json()["code"]),
        (404, &json!("NoUserError"))
    );
}

#[tokio::test]
async fn only_people_with_the_right_change_users_and_groups() {
    let setup = Setup::new();
    let program = crate::port::Caller {
        user: "admin".parse().unwrap(),
        admin: true,
        application: true,
    };
    setup.fake.add_token("admin-program", program);
    for (method, path) in [
        ("POST", "users"),
        ("PUT", "users"),
        ("PUT", "users/me"),
        ("DELETE", "users/ann"),
        ("PUT", "users/ann/group"),
        ("DELETE", "users/ann/group"),
        ("PUT", "users/ann/grouplist"),
        ("PUT", "users/ann/extension"),
        ("PUT", "users/ann/virtualcluster"),
        ("PUT", "users/ann/admin"),
        ("PUT", "users/ann/password"),
        ("PUT", "users/ann/email"),
        ("POST", "groups"),
        ("PUT", "groups"),
        ("DELETE", "groups/default"),
        ("PUT", "groups/default/extension"),
        ("PUT", "groups/default/extension/acls/admin"),
        ("PUT", "groups/default/description"),
        ("PUT", "groups/default/externalname"),
    ] {
        let application = (403, "ForbiddenUserError", "Applications are");
        for token in ["Bearer admin-program", PROGRAM] {
            refused(&setup, (token, method, path), "{broken", application).await;
        }
        let guest = (401, "UnauthorizedUserError", "Guest");
        refused(&setup, ("", method, path), "{broken", guest).await;
        let own = ["me", "extension", "password", "email"];
        if path.starts_with("groups") || !own.iter().any(|end| path.ends_with(end)) {
            let not_admin = (403, "ForbiddenUserError", "Non-admin");
            refused(&setup, (ANN, method, path), "{broken", not_admin).await;
        }
    }
    let log = setup.get(ADMIN, "/api/muster/v1/audit").await.json();
    assert_eq!(log, json!({"records": [], "dropped": 0}));
}

#[tokio::test]
async fn secrets_of_others_are_not_shown_after_a_change_either() {
    let setup = Setup::new();
    let body = r#"{"extension":{"githubPAT":"pat","shown":1}}"#;
    let path = "/api/v2/users/admin/extension";
    assert_eq!(setup.send(ADMIN, "PUT", path, body).await.status, 201);
    let seen = setup.get(ANN, "/api/v2/users/admin").await.json();
    assert_eq!(seen["extension"], json!({"mark": "plain", "shown": 1}));
    let list = setup.get(ANN, "/api/v2/users").await;
    assert!(!list.text().contains("\"pat\""), "{}", list.text());
}

#[tokio::test]
async fn changes_are_recorded() {
    let mut setup = Setup::new();
    setup.peer = RemoteEnd::Tcp([10, 0, 0, 9].into());
    let root = "/api/muster/v1/audit";
    let path = "/api/v2/users/ann/email";
    for mail in ["a@b.c", "c@d.e"] {
        let body = json!({"email": mail}).to_string();
        assert_eq!(setup.send(ADMIN, "PUT", path, &body).await.status, 201);
    }
    setup.peer = RemoteEnd::Socket;
    let group = r#"{"groupname":"team"}"#;
    assert_eq!(
        setup.send("", "POST", "/api/v2/groups", group).await.status,
        201
    );
    let log = setup.get(ADMIN, root).await.json();
    let records = log["records"].as_array().unwrap();
    let subjects: Vec<_> = records
        .iter()
        .map(|it| it["subject"].as_str().unwrap())
        .collect();
    assert_eq!(subjects, ["team", "ann", "ann"]);
    let by = |address: &str| json!({"user": "admin", "address": address, "node": ""});
    assert_eq!(records[0]["by"], by("socket"));
    assert_eq!(records[1]["by"], by("10.0.0.9"));
    assert!(records[1]["after"].as_str().unwrap().contains("c@d.e"));

    let ann = setup
        .get(ADMIN, &format!("{root}?subject=ann&limit=1"))
        .await
        .json();
    assert_eq!(ann["records"], json!([records[1]]));
    setup.peer = RemoteEnd::Tcp([10, 0, 0, 9].into());
    for limit in ["0", "10001", "-1", "x", "1e3"] {
        let answer = setup.get(ADMIN, &format!("{root}?limit={limit}")).await;
        assert_eq!(answer.status, 400, "{limit}");
        assert!(answer.text().contains("limit"), "{}", answer.text());
    }
    assert_eq!(setup.get(ANN, root).await.status, 403);
}

#[tokio::test]
async fn a_change_of_somebody_else_is_not_overwritten() {
    let setup = Setup::new();
    let concurrent = PeopleChange::ChangeUser {
        user: "ann".parse().unwrap(),
        patch: UserPatch {
            email: Some("first@b.c".to_owned()),
            ..UserPatch::default()
        },
    };
    setup.fake.change_first(concurrent);
    let ask = TestRequest {
        method: "PUT",
        path: "/api/v2/users/ann/email",
        headers: &[("authorization", ADMIN), ("if-match", "\"1\"")],
        body: r#"{"email":"late@b.c"}"#,
    };
    assert_eq!(setup.ask(ask).await.status, 412);
    assert_eq!(user(&setup, "ann").await["email"], "first@b.c");
}
