//! Groups over REST: every route's success and refusals.

use muster_model::people::{GroupPatch, PeopleChange};
use serde_json::{Value, json};

use super::asking::*;
use super::setup::*;

async fn group(setup: &Setup, name: &str) -> Value {
    setup
        .get(ANN, &format!("/api/v2/group/{name}"))
        .await
        .json()
}

async fn ann(setup: &Setup) -> Value {
    setup.get(ANN, "/api/v2/users/ann").await.json()
}

/// A setup with the group `team`, of which ann is a member.
async fn with_team() -> Setup {
    let setup = Setup::new();
    setup.fake.grant_vc("prod".parse().unwrap());
    let acls = json!({"virtualClusters": ["prod"], "storageConfigs": ["data", "more"]});
    let team = json!({"groupname": "team", "description": "d", "externalName": "e",
        "extension": {"acls": acls, "k": 1}});
    done(
        &setup,
        ("POST", "groups"),
        team,
        201,
        "group is created successfully",
    )
    .await;
    let member = json!({"groupname": "team"});
    let added = "User ann is added into group team";
    done(&setup, ("PUT", "users/ann/group"), member, 201, added).await;
    setup
}

#[tokio::test]
async fn a_group_comes_and_goes() {
    let setup = with_team().await;
    let acls = json!({"admin": false, "virtualClusters": ["prod"],
        "storageConfigs": ["data", "more"]});
    let team = json!({"groupname": "team", "description": "d", "externalName": "e",
        "extension": {"acls": acls, "k": 1}});
    assert_eq!(group(&setup, "team").await, team);
    let list = setup.get(ANN, "/api/v2/groups").await.json();
    let names: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["groupname"])
        .collect();
    assert_eq!(names, ["admingroup", "default", "prod", "team"]);
    let member = ann(&setup).await;
    assert_eq!(member["virtualCluster"], json!(["default", "prod"]));
    assert_eq!(member["storageConfig"], json!(["data", "more"]));

    let members = setup
        .get(ADMIN, "/api/v2/groups/default/userlist")
        .await
        .json();
    let want = json!([{"username": "admin", "clusterAdmin": true},
        {"username": "ann", "clusterAdmin": false}]);
    assert_eq!(members, want);
    assert_eq!(
        setup
            .get(ANN, "/api/v2/groups/default/userlist")
            .await
            .status,
        403
    );

    let removed = "group is removed successfully";
    done(&setup, ("DELETE", "groups/team"), Value::Null, 200, removed).await;
    let member = ann(&setup).await;
    assert_eq!(
        (&member["grouplist"], &member["storageConfig"]),
        (&json!(["default"]), &json!([]))
    );
}

#[tokio::test]
async fn refusals() {
    let setup = with_team().await;
    let invalid = "InvalidParametersError";
    let acls = |acls: Value| json!({"groupname": "new", "extension": {"acls": acls}});
    for (body, want) in [
        (
            json!({"groupname": "team"}),
            (409, "ConflictGroupError", "team"),
        ),
        (json!({}), (400, invalid, "\"groupname\" is required")),
        (
            json!({"groupname": "a b"}),
            (400, invalid, "\"groupname\" is no group name"),
        ),
        (
            json!({"groupname": "new", "z": 1}),
            (400, invalid, "\"z\" is not allowed"),
        ),
        (
            json!({"groupname": "new", "description": 1}),
            (400, invalid, "\"description\""),
        ),
        (
            json!({"groupname": "new", "extension": 1}),
            (400, invalid, "\"extension\""),
        ),
        (acls(json!({"admins": true})), (400, invalid, "admins")),
        (
            acls(json!({"virtualClusters": "prod"})),
            (400, invalid, "extension.acls"),
        ),
        (
            acls(json!({"virtualClusters": ["no"]})),
            (400, "NoVirtualClusterError", "no"),
        ),
    ] {
        refused(&setup, (ADMIN, "POST", "groups"), &body.to_string(), want).await;
    }
    let missing = (400, "NoGroupError", "Group no is not found.");
    for (path, body) in [
        ("groups", json!({"groupname": "no"})),
        ("groups/no/extension", json!({"extension": {"a": 1}})),
        ("groups/no/extension", json!({"extension": {"acls": {}}})),
        ("groups/no/extension/acls/admin", json!({"data": true})),
        ("groups/no/extension/a", json!({"data": true})),
        ("groups/no/description", json!({"description": ""})),
        ("groups/no/externalname", json!({"externalName": ""})),
    ] {
        refused(&setup, (ADMIN, "PUT", path), &body.to_string(), missing).await;
    }
    for (path, name) in [
        ("extension", "extension"),
        ("extension/a", "data"),
        ("description", "description"),
        ("externalname", "externalName"),
    ] {
        let part = format!("\"{name}\" is required");
        let at = (ADMIN, "PUT", &*format!("groups/team/{path}"));
        refused(&setup, at, "{}", (400, invalid, &part)).await;
    }
    let missing = (404, "NoGroupError", "Group no is not found.");
    refused(&setup, (ADMIN, "DELETE", "groups/no"), "", missing).await;
    for needed in ["groups/default", "groups/admingroup"] {
        let want = (403, "ForbiddenKeyError", "every cluster has it");
        refused(&setup, (ADMIN, "DELETE", needed), "", want).await;
    }
    let last = (403, "RemoveAdminError", "last admin");
    let no_admin = json!({"data": false});
    let path = "groups/admingroup/extension/acls/admin";
    refused(&setup, (ADMIN, "PUT", path), &no_admin.to_string(), last).await;
    let list = setup.get(ADMIN, "/api/v2/groups/no/userlist").await;
    assert_eq!(
        (list.status.as_u16(), &list.json()["code"]),
        (400, &json!("NoGroupError"))
    );
}

#[tokio::test]
async fn a_group_is_updated_in_both_shapes() {
    let setup = with_team().await;
    let updated = "update group team successfully.";
    for (body, description) in [
        (
            json!({"patch": true, "data": {"groupname": "team", "description": "1"}}),
            "1",
        ),
        (
            json!({"data": {"groupname": "team", "description": "2"}}),
            "2",
        ),
        (json!({"groupname": "team", "description": "3"}), "3"),
    ] {
        done(&setup, ("PUT", "groups"), body, 201, updated).await;
        let team = group(&setup, "team").await;
        assert_eq!(team["description"], description);
        assert_eq!(team["externalName"], "e", "stays");
        assert_eq!(
            team["extension"]["acls"]["virtualClusters"],
            json!(["prod"]),
            "stays"
        );
    }
    let mut whole = group(&setup, "team").await;
    whole["extension"]["acls"]["admin"] = true.into();
    whole["extension"]["k"] = 2.into();
    done(&setup, ("PUT", "groups"), whole.clone(), 201, updated).await;
    assert_eq!(group(&setup, "team").await, whole);
    assert_eq!(ann(&setup).await["admin"], true);
}

#[tokio::test]
async fn parts_of_a_group() {
    let setup = with_team().await;
    for (path, body, message) in [
        (
            "description",
            json!({"description": ""}),
            "update group description data successfully.",
        ),
        (
            "externalname",
            json!({"externalName": "x"}),
            "update group externalNameData data successfully.",
        ),
        (
            "extension",
            json!({"extension": {"n": {"m": 1}, "k": null}}),
            "update group extension data successfully.",
        ),
        (
            "extension/n/o",
            json!({"data": [2]}),
            "Update group extension data successfully.",
        ),
        (
            "extension/acls/virtualClusters",
            json!({"data": ["default"]}),
            "Update group extension data successfully.",
        ),
        (
            "extension/acls/admin",
            json!({"data": true}),
            "Update group extension data successfully.",
        ),
    ] {
        let path = format!("group/team/{path}");
        done(&setup, ("PUT", &path), body, 201, message).await;
    }
    let acls = json!({"admin": true, "virtualClusters": ["default"],
        "storageConfigs": ["data", "more"]});
    assert_eq!(
        group(&setup, "team").await,
        json!({"groupname": "team", "description": "", "externalName": "x",
            "extension": {"acls": acls, "n": {"m": 1, "o": [2]}}})
    );
    let body = json!({"extension": {"acls": {"virtualClusters": ["prod"]}}});
    let merged = "update group extension data successfully.";
    done(&setup, ("PUT", "groups/team/extension"), body, 201, merged).await;
    let acls = json!({"admin": false, "virtualClusters": ["prod"], "storageConfigs": []});
    assert_eq!(
        group(&setup, "team").await["extension"]["acls"],
        acls,
        "replaced as one"
    );
    let wrong = (400, "InvalidParametersError", "extension.acls");
    let path = "groups/team/extension/acls/admin";
    refused(
        &setup,
        (ADMIN, "PUT", path),
        &json!({"data": "yes"}).to_string(),
        wrong,
    )
    .await;
}

/// A change that makes another member of `team`'s acl than the test does.
fn concurrent(admin: bool) -> PeopleChange {
    let mut acl = muster_model::people::GroupAcl {
        admin,
        ..Default::default()
    };
    acl.storages.push("other".to_owned());
    PeopleChange::ChangeGroup {
        group: "team".parse().unwrap(),
        patch: GroupPatch {
            acl: Some(acl),
            ..GroupPatch::default()
        },
    }
}

#[tokio::test]
async fn nothing_of_acls_is_lost_when_others_change_them() {
    let setup = with_team().await;
    let path = "/api/v2/groups/team/extension/acls/virtualClusters";
    let body = r#"{"data":["default"]}"#;
    for _ in 0..2 {
        setup.fake.change_first(concurrent(true));
    }
    assert_eq!(setup.send(ADMIN, "PUT", path, body).await.status, 201);
    let acls = json!({"admin": true, "virtualClusters": ["default"], "storageConfigs": ["other"]});
    assert_eq!(group(&setup, "team").await["extension"]["acls"], acls);

    for _ in 0..3 {
        setup.fake.change_first(concurrent(false));
    }
    let given_up = setup.send(ADMIN, "PUT", path, body).await;
    assert_eq!(given_up.status, 412, "{}", given_up.text());
    assert_eq!(given_up.json()["code"], "ConflictRevisionError");
}

#[tokio::test]
async fn a_change_of_another_revision_is_refused() {
    let setup = with_team().await;
    let root = "/api/v2/groups/team";
    let tag = setup.get(ANN, root).await.header("etag").to_owned();
    assert_eq!(tag, "\"1\"");
    let put = async |method: &str, end: &str, body: &str| {
        let path = format!("{root}{end}");
        let headers = [("authorization", ADMIN), ("if-match", &*tag)];
        let ask = TestRequest {
            method,
            path: &path,
            headers: &headers,
            body,
        };
        setup.ask(ask).await.status.as_u16()
    };
    let body = r#"{"data":true}"#;
    assert_eq!(put("PUT", "/extension/acls/admin", body).await, 201);
    assert_eq!(put("PUT", "/extension/acls/admin", body).await, 412);
    assert_eq!(put("PUT", "/extension/k", body).await, 412);
    assert_eq!(put("DELETE", "", "").await, 412);
    assert_eq!(group(&setup, "team").await["extension"]["k"], 1);
}
