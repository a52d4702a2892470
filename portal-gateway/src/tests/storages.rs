//! Storages: who sees which, and without secrets.

use serde_json::{Value, json};

use super::setup::*;

/// Everybody's group grants data and home; nobody has blob.
async fn setup() -> Setup {
    let setup = Setup::new();
    setup.fake.set_storages(storages_declared());
    grant(
        &setup,
        "PUT",
        "/api/v2/groups/default/extension",
        &["data", "home"],
    )
    .await;
    setup
}

/// Makes a group, or changes it, so that it grants these storages.
async fn grant(setup: &Setup, method: &str, path: &str, storages: &[&str]) {
    let acls = json!({"virtualClusters": ["default"], "storageConfigs": storages});
    let extension = json!({"acls": acls});
    let body = match method {
        "POST" => {
            json!({"groupname": "lab", "description": "", "externalName": "", "extension": extension})
        }
        _ => json!({ "extension": extension }),
    };
    let answer = setup.send(ADMIN, method, path, &body.to_string()).await;
    assert_eq!(answer.status, 201, "{path}: {}", answer.text());
}

async fn get(setup: &Setup, token: &str, path: &str) -> Value {
    let answer = setup.get(token, path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

#[tokio::test]
async fn a_user_sees_what_their_groups_grant() {
    let setup = setup().await;
    let data = json!({"name": "data", "share": true, "volumeName": "data-pv", "default": true});
    let home =
        |default| json!({"name": "home", "share": false, "volumeName": "home", "default": default});
    // An admin's groups count as everybody's do.
    for token in [ANN, ADMIN] {
        let all = get(&setup, token, "/api/v2/storages").await;
        assert_eq!(all, json!({"storages": [data, home(false)]}));
    }
    let defaults = get(&setup, ANN, "/api/v2/storages?default=true").await;
    assert_eq!(defaults, json!({"storages": [data]}));
    // The first one of each group is a default.
    grant(&setup, "POST", "/api/v2/groups", &["home", "nowhere"]).await;
    let lab = r#"{"groupname": "lab"}"#;
    let joined = setup
        .send(ADMIN, "PUT", "/api/v2/users/ann/group", lab)
        .await;
    assert_eq!(joined.status, 201, "{}", joined.text());
    let defaults = get(&setup, ANN, "/api/v2/storages?default=true").await;
    assert_eq!(defaults, json!({"storages": [data, home(true)]}));
}

#[tokio::test]
async fn a_detail_has_secrets_for_admins_alone() {
    let setup = setup().await;
    assert_eq!(
        get(&setup, ANN, "/api/v2/storages/data").await,
        json!({
            "name": "data", "share": true, "volumeName": "data-pv", "type": "nfs",
            "data": {"server": "127.0.0.1", "path": "/data"}, "readOnly": false,
        })
    );
    let home = get(&setup, ANN, "/api/v2/storages/home").await;
    assert_eq!(
        home["data"],
        json!({"address": "//fs/home/all", "username": "u"})
    );
    let home = get(&setup, ADMIN, "/api/v2/storages/home").await;
    assert_eq!(home["data"]["password"], "hunter2");
    for (name, status, code) in [
        ("blob", 403, "ForbiddenUserError"),
        ("no", 404, "NoStorageError"),
    ] {
        let refused = setup.get(ANN, &format!("/api/v2/storages/{name}")).await;
        assert_eq!(
            (refused.status.as_u16(), &refused.json()["code"]),
            (status, &json!(code))
        );
    }
    for path in ["storages", "storage/server", "storage/config"] {
        let answer = setup.get(ANN, &format!("/api/v2/{path}")).await;
        assert!(!answer.text().contains("hunter2"), "{path}");
    }
    let own = setup.get(ANN, "/api/muster/v1/storages").await;
    assert!(!own.text().contains("hunter2"));
    assert_eq!(own.json().as_array().map(Vec::len), Some(2));
    let all = get(&setup, ADMIN, "/api/muster/v1/storages").await;
    assert_eq!(all[2]["name"], "blob");
    assert_eq!(
        (&all[2]["granted"], &all[2]["default"]),
        (&json!(false), &json!(false))
    );
}

#[tokio::test]
async fn old_clients_find_the_old_shapes() {
    let setup = setup().await;
    let config = json!({
        "name": "data", "default": true, "servers": ["data-pv"],
        "mountInfos":
            [{"mountPoint": "/mnt/data", "path": "", "server": "data-pv", "permission": "rw"}],
    });
    let server = json!({
        "spn": "data-pv", "type": "nfs", "data": {"address": "127.0.0.1", "rootPath": "/data"},
        "extension": {},
    });
    assert_eq!(
        get(&setup, ANN, "/api/v2/storage/config?names=data").await,
        json!([config])
    );
    assert_eq!(
        get(&setup, ANN, "/api/v2/storage/config/data").await,
        config
    );
    assert_eq!(
        get(&setup, ANN, "/api/v2/storage/server?names=data-pv").await,
        json!([server])
    );
    assert_eq!(
        get(&setup, ANN, "/api/v2/storage/server/data-pv").await,
        server
    );
    let both = get(&setup, ANN, "/api/v2/storage/config?names=data&names=home").await;
    assert_eq!(both[1]["mountInfos"][0]["path"], "${PAI_USER_NAME}");
    let home = get(&setup, ANN, "/api/v2/storage/server/home").await;
    assert_eq!(home["data"]["rootPath"], "home/all");
    assert_eq!(
        setup.get(ANN, "/api/v2/storage/config/blob").await.status,
        404
    );
}

#[tokio::test]
async fn the_document_is_for_admins() {
    let setup = setup().await;
    let path = "/api/muster/v1/documents/storages/text";
    let refused = setup.get(ANN, path).await;
    assert_eq!(
        (refused.status.as_u16(), &refused.json()["code"]),
        (403, &json!("ForbiddenUserError"))
    );
    // The fake has no such document.
    assert_eq!(setup.get(ADMIN, path).await.status, 404);
}
