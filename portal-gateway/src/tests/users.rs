//! Users over REST: every route's success and refusals.

use serde_json::{Value, json};

use super::asking::*;
use super::setup::*;

const FORM: &str = "application/x-www-form-urlencoded";
const HASH: &str = "eb3c43fd5c1115b5cf07f19f033bf5f574d392c763de4fdc2445c474c5fe4d8a\
     a31106aaca064a0ad4a5b74fddd0a6550ffc6132e638cdbae78d7ffb60263aec";

#[tokio::test]
async fn a_user_comes_and_goes() {
    let setup = Setup::new();
    setup.fake.grant_vc("prod".parse().unwrap());
    let bob = json!({"username": "bob", "password": "bob-password", "email": "bob@example.com",
        "virtualCluster": ["prod"], "admin": false, "extension": {"k": 1}});
    let created = "User is created successfully";
    done(&setup, ("POST", "users"), bob.clone(), 201, created).await;
    assert_eq!(
        user(&setup, "bob").await,
        json!({"username": "bob", "grouplist": ["default", "prod"], "email": "bob@example.com",
            "extension": {"k": 1}, "admin": false, "virtualCluster": ["default", "prod"],
            "storageConfig": []})
    );
    assert_eq!(log_in(&setup, "bob", "bob-password").await, 200);
    let exists = (409, "ConflictUserError", "User name bob already exists.");
    refused(&setup, (ADMIN, "POST", "users"), &bob.to_string(), exists).await;

    let gone = "user is removed successfully";
    done(&setup, ("DELETE", "users/bob"), Value::Null, 200, gone).await;
    let none = (404, "NoUserError", "User bob is not found.");
    refused(&setup, (ADMIN, "DELETE", "users/bob"), "", none).await;
    let admin = (403, "RemoveAdminError", "admin");
    refused(&setup, (ADMIN, "DELETE", "users/admin"), "", admin).await;
}

#[tokio::test]
async fn forms_and_the_other_name_of_the_route_do() {
    let setup = Setup::new();
    for (name, rest) in [
        ("cid", "admin=true&email="),
        (
            "dan",
            "virtualCluster%5B%5D=default&extension=%7B%22k%22%3A1%7D",
        ),
    ] {
        let body = format!("username={name}&password=a-password&{rest}");
        let answer = setup
            .ask(TestRequest {
                method: "POST",
                path: "/rest-server/api/v2/user/",
                headers: &[("authorization", ADMIN), ("content-type", FORM)],
                body: &body,
            })
            .await;
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    assert_eq!(user(&setup, "cid").await["admin"], true);
    assert_eq!(user(&setup, "dan").await["extension"], json!({"k": 1}));
}

#[tokio::test]
async fn a_user_of_openpai_keeps_their_password() {
    let setup = Setup::new();
    let body = json!({"username": "imported", "passwordHash": HASH.to_uppercase()});
    let created = "User is created successfully";
    done(&setup, ("POST", "users"), body, 201, created).await;
    assert_eq!(log_in(&setup, "imported", "openpai-password").await, 200);
    assert_eq!(log_in(&setup, "imported", "other-password").await, 400);
}

#[tokio::test]
async fn what_is_wrong_with_a_new_user_is_named() {
    let setup = Setup::new();
    let invalid = "InvalidParametersError";
    for (body, part) in [
        (json!({"password": "abcdef"}), "\"username\" is required"),
        (
            json!({"username": "", "password": "abcdef"}),
            "\"username\" is not allowed to be empty",
        ),
        (
            json!({"username": "a b", "password": "abcdef"}),
            "\"username\" is no user name \"a b\"",
        ),
        (
            json!({"username": 1, "password": "abcdef"}),
            "\"username\" must be a string",
        ),
        (json!({"username": "bob"}), "\"password\" is required"),
        (
            json!({"username": "bob", "password": "abcde"}),
            "at least 6 characters",
        ),
        (
            json!({"username": "bob", "password": "a".repeat(1_025)}),
            "at most 1024 bytes",
        ),
        (
            json!({"username": "bob", "passwordHash": "ab"}),
            "\"passwordHash\" must be OpenPAI's hash",
        ),
        (
            json!({"username": "bob", "passwordHash": HASH, "password": "abcdef"}),
            "\"passwordHash\" is not allowed beside",
        ),
        (
            json!({"username": "bob", "password": "abcdef", "email": "b"}),
            "\"email\" must be a valid",
        ),
        (
            json!({"username": "bob", "password": "abcdef", "admin": 1}),
            "\"admin\" must be a boolean",
        ),
        (
            json!({"username": "bob", "password": "abcdef", "virtualCluster": "default"}),
            "\"virtualCluster\" must be an array",
        ),
        (
            json!({"username": "bob", "password": "abcdef", "virtualCluster": [""]}),
            "\"virtualCluster\" holds a wrong name",
        ),
        (
            json!({"username": "bob", "password": "abcdef", "extension": []}),
            "\"extension\" must be an object",
        ),
        (
            json!({"username": "bob", "password": "abcdef", "z": 1}),
            "\"z\" is not allowed",
        ),
    ] {
        let ask = (ADMIN, "POST", "users");
        refused(&setup, ask, &body.to_string(), (400, invalid, part)).await;
    }
    // As recorded of a genuine server.
    let body = r#"{"username":"zz","password":"abcdef","virtualCluster":["nope"]}"#;
    let no_group = (404, "NoGroupError", "No groups for vc: nope");
    refused(&setup, (ADMIN, "POST", "users"), body, no_group).await;
    assert_eq!(
        setup
            .get(ADMIN, "/api/v2/users")
            .await
            .json()
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[tokio::test]
async fn an_admin_updates_a_user() {
    let setup = Setup::new();
    let updated = "Update user ann successfully";
    let data = json!({"username": "ann", "email": "a@b.c", "extension": {"k": 1}});
    let patch = json!({"patch": true, "data": data});
    done(&setup, ("PUT", "users"), patch, 201, updated).await;
    let ann = user(&setup, "ann").await;
    assert_eq!(
        (&ann["email"], &ann["extension"]["k"]),
        (&json!("a@b.c"), &json!(1))
    );
    assert_eq!(ann["extension"]["mark"], "plain", "merged");

    let bare = json!({"username": "ann", "email": ""});
    done(&setup, ("PUT", "users"), bare, 201, updated).await;
    assert_eq!(user(&setup, "ann").await["email"], "");

    let whole = json!({"data": {"username": "ann", "email": "c@d.e", "virtualCluster": [],
        "admin": true, "password": "new-password", "extension": {}}});
    done(&setup, ("PUT", "users"), whole, 201, updated).await;
    assert_eq!(user(&setup, "ann").await["admin"], true);
    assert_eq!(log_in(&setup, "ann", "new-password").await, 200);
    assert_eq!(setup.get(ANN, "/api/v2/users").await.status, 401, "revoked");

    let ask = (ADMIN, "PUT", "users");
    let invalid = "InvalidParametersError";
    for (body, part) in [
        (
            json!({"data": {"username": "ann", "email": ""}}),
            "\"password\" is required",
        ),
        (
            json!({"data": {"username": "ann", "email": ""}}),
            "\"extension\" is required",
        ),
        (
            json!({"data": [], "patch": true}),
            "\"data\" must be an object",
        ),
        (
            json!({"data": {}, "patch": true}),
            "\"username\" is required",
        ),
        (
            json!({"data": {"username": "ann"}, "patch": true, "z": 1}),
            "\"z\" is not allowed",
        ),
        (
            json!({"data": {"username": "ann", "z": 1}, "patch": true}),
            "\"z\" is not allowed",
        ),
    ] {
        refused(&setup, ask, &body.to_string(), (400, invalid, part)).await;
    }
    let no_user = (404, "NoUserError", "User no is not found.");
    refused(&setup, ask, r#"{"username":"no"}"#, no_user).await;
    let no_vc = (400, "NoVirtualClusterError", "no");
    let body = json!({"username": "bob", "password": "abcdef"});
    done(
        &setup,
        ("POST", "users"),
        body,
        201,
        "User is created successfully",
    )
    .await;
    refused(
        &setup,
        ask,
        r#"{"username":"bob","virtualCluster":["no"]}"#,
        no_vc,
    )
    .await;
}

#[tokio::test]
async fn users_update_themselves() {
    let setup = Setup::new();
    let path = "/api/v2/user/me";
    let update = async |data: Value| {
        let body = json!({"patch": true, "data": data}).to_string();
        setup.send(ANN, "PUT", path, &body).await
    };
    let answer = update(json!({"username": "ann", "email": "a@b.c", "oldPassword": "x"})).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(
        answer.json(),
        json!({"message": "Update user ann successfully"})
    );
    assert_eq!(log_in(&setup, "ann", "ann-password").await, 200);

    let other = update(json!({"username": "admin", "email": "a@b.c"})).await;
    assert_eq!(
        (other.status.as_u16(), &other.json()["code"]),
        (403, &json!("ForbiddenUserError"))
    );
    for (data, part) in [
        (
            json!({"username": "ann", "admin": true}),
            "\"admin\" is not allowed",
        ),
        (
            json!({"username": "ann", "password": "abcdef"}),
            "\"password\" is not allowed",
        ),
        (
            json!({"username": "ann", "newPassword": "abcdef"}),
            "\"oldPassword\" is required",
        ),
        (json!({"email": ""}), "\"username\" is required"),
    ] {
        let answer = update(data).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(
            answer.json()["message"].as_str().unwrap().contains(part),
            "{}",
            answer.text()
        );
    }
    let whole = r#"{"data":{"username":"ann","email":""}}"#;
    let missing = (400, "InvalidParametersError", "\"newPassword\" is required");
    refused(&setup, (ANN, "PUT", "users/me"), whole, missing).await;

    let new =
        |old: &str| json!({"username": "ann", "newPassword": "new-password", "oldPassword": old});
    let wrong = update(new("wrong-password")).await;
    assert_eq!(wrong.status, 403);
    let message = "Pls input the correct password.";
    assert_eq!(
        wrong.json(),
        json!({"code": "ForbiddenUserError", "message": message})
    );
    // The password that she has is no change: OpenPAI's clients send it, and go on with their token.
    let same = |password: &str| json!({"username": "ann", "newPassword": password, "oldPassword": password});
    assert_eq!(update(same("ann-password")).await.status, 201);
    assert_eq!(update(same("wrong-password")).await.status, 403);
    assert_eq!(setup.get(ANN, "/api/v2/users/ann").await.status, 200);
    assert_eq!(update(new("ann-password")).await.status, 201);
    assert_eq!(log_in(&setup, "ann", "new-password").await, 200);
    assert_eq!(log_in(&setup, "ann", "ann-password").await, 400);
    assert_eq!(
        update(json!({"username": "ann"})).await.status,
        401,
        "revoked"
    );
    assert_eq!(setup.get(PROGRAM, "/api/v2/users").await.status, 200);
}

#[tokio::test]
async fn groups_of_a_user() {
    let setup = Setup::new();
    setup.fake.grant_vc("prod".parse().unwrap());
    let group = json!({"groupname": "prod"});
    let path = "users/ann/group";
    let added = "User ann is added into group prod";
    done(&setup, ("PUT", path), group.clone(), 201, added).await;
    assert_eq!(
        user(&setup, "ann").await["grouplist"],
        json!(["default", "prod"])
    );
    let removed = "User ann is removed from group prod";
    done(&setup, ("DELETE", path), group.clone(), 201, removed).await;
    assert_eq!(
        user(&setup, "ann").await["virtualCluster"],
        json!(["default"])
    );
    let list = json!({"grouplist": ["prod"]});
    let set = "update user grouplist successfully.";
    done(&setup, ("PUT", "users/ann/grouplist"), list, 201, set).await;
    assert_eq!(
        user(&setup, "ann").await["grouplist"],
        json!(["default", "prod"])
    );

    let invalid = "InvalidParametersError";
    for (method, path, body, want) in [
        (
            "PUT",
            "users/ann/group",
            r#"{"groupname":"no"}"#,
            (404, "NoGroupError", "Group no"),
        ),
        (
            "PUT",
            "users/no/group",
            r#"{"groupname":"prod"}"#,
            (404, "NoUserError", "User no"),
        ),
        (
            "DELETE",
            "users/no/group",
            r#"{"groupname":"prod"}"#,
            (404, "NoUserError", "User no"),
        ),
        (
            "PUT",
            "users/a%20b/group",
            r#"{"groupname":"prod"}"#,
            (404, "NoUserError", "a b"),
        ),
        (
            "PUT",
            "users/ann/group",
            r#"{"groupname":""}"#,
            (400, invalid, "groupname"),
        ),
        ("PUT", "users/ann/group", "{}", (400, invalid, "groupname")),
        (
            "PUT",
            "users/ann/grouplist",
            r#"{"grouplist":["no"]}"#,
            (404, "NoGroupError", "no"),
        ),
        (
            "PUT",
            "users/no/grouplist",
            r#"{"grouplist":[]}"#,
            (404, "NoUserError", "no"),
        ),
        (
            "PUT",
            "users/ann/grouplist",
            "{}",
            (400, invalid, "grouplist"),
        ),
    ] {
        refused(&setup, (ADMIN, method, path), body, want).await;
    }
}

#[tokio::test]
async fn rights_of_a_user() {
    let setup = Setup::new();
    setup.fake.grant_vc("prod".parse().unwrap());
    let vcs = json!({"virtualCluster": ["prod"]});
    let (vc_path, admin_path) = ("users/ann/virtualcluster", "users/ann/admin");
    let set = "Update user virtualCluster data successfully.";
    done(&setup, ("PUT", vc_path), vcs.clone(), 201, set).await;
    assert_eq!(
        user(&setup, "ann").await["virtualCluster"],
        json!(["default", "prod"])
    );
    let no_vc = (400, "NoVirtualClusterError", "no");
    let (no, prod) = (
        r#"{"virtualCluster":["no"]}"#,
        r#"{"virtualCluster":["prod"]}"#,
    );
    refused(&setup, (ADMIN, "PUT", vc_path), no, no_vc).await;
    let admin = (403, "ForbiddenUserError", "admin");
    refused(
        &setup,
        (ADMIN, "PUT", "users/admin/virtualcluster"),
        prod,
        admin,
    )
    .await;
    let nobody = (404, "NoUserError", "no");
    refused(
        &setup,
        (ADMIN, "PUT", "users/no/virtualcluster"),
        prod,
        nobody,
    )
    .await;
    refused(
        &setup,
        (ADMIN, "PUT", "users/no/admin"),
        r#"{"admin":true}"#,
        nobody,
    )
    .await;
    let missing = (400, "InvalidParametersError", "\"admin\" is required");
    refused(&setup, (ADMIN, "PUT", admin_path), "{}", missing).await;
    let missing = (
        400,
        "InvalidParametersError",
        "\"virtualCluster\" is required",
    );
    refused(&setup, (ADMIN, "PUT", vc_path), "{}", missing).await;

    let changed = "Update user admin permission successfully.";
    for admin in [true, false] {
        done(
            &setup,
            ("PUT", admin_path),
            json!({"admin": admin}),
            201,
            changed,
        )
        .await;
        assert_eq!(user(&setup, "ann").await["admin"], admin);
        let status = setup.get(ANN, "/api/muster/v1/audit").await.status;
        assert_eq!(status == 200, admin, "at once");
    }
    let last = (403, "RemoveAdminError", "admin");
    refused(
        &setup,
        (ADMIN, "PUT", "users/admin/admin"),
        r#"{"admin":false}"#,
        last,
    )
    .await;
}

#[tokio::test]
async fn what_users_may_change_of_themselves_alone() {
    let setup = Setup::new();
    for (path, body, message) in [
        (
            "extension",
            r#"{"extension":{"mark":"new"}}"#,
            "Update user extension data successfully.",
        ),
        (
            "email",
            r#"{"email":"a@b.c"}"#,
            "Update user email data successfully.",
        ),
        (
            "password",
            r#"{"oldPassword":"ann-password","newPassword":"new-password"}"#,
            "update user password successfully.",
        ),
    ] {
        let (own, other) = (format!("users/ann/{path}"), format!("users/admin/{path}"));
        let not_yours = (403, "ForbiddenUserError", "ann");
        refused(&setup, (ANN, "PUT", &other), body, not_yours).await;
        refused(&setup, (ANN, "PUT", "users/no/email"), body, not_yours).await;
        let missing = (400, "InvalidParametersError", "is required");
        refused(&setup, (ANN, "PUT", &own), "{}", missing).await;
        let nobody = (404, "NoUserError", "User no is not found.");
        refused(
            &setup,
            (ADMIN, "PUT", &format!("users/no/{path}")),
            body,
            nobody,
        )
        .await;
        let answer = setup
            .send(ANN, "PUT", &format!("/api/v2/{own}"), body)
            .await;
        let got = (answer.status.as_u16(), answer.json());
        assert_eq!(got, (201, json!({"message": message})), "{path}");
    }
    let ann = user(&setup, "ann").await;
    assert_eq!(
        (&ann["email"], &ann["extension"]["mark"]),
        (&json!("a@b.c"), &json!("new"))
    );
    assert!(ann["extension"].get("jobSSH").is_some(), "merged");
    let wrong = (
        400,
        "InvalidParametersError",
        "\"email\" must be a valid email",
    );
    refused(
        &setup,
        (ADMIN, "PUT", "users/ann/email"),
        r#"{"email":"x"}"#,
        wrong,
    )
    .await;
}
