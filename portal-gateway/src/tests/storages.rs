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

/// A path of files in a storage.
fn files(storage: &str, rest: &str) -> String {
    format!("/api/muster/v1/storages/{storage}/files{rest}")
}

#[tokio::test]
async fn files_are_written_read_and_listed() {
    let setup = setup().await;
    let path = files("data", "/content?path=a.txt&size=10");
    let written = setup.send(ANN, "PUT", &path, "0123456789").await;
    assert_eq!(written.status, 200, "{}", written.text());
    assert_eq!(written.json(), json!({"bytes": 10, "files": 1}));
    let read = setup.get(ANN, &files("data", "/content?path=/a.txt")).await;
    assert_eq!((read.status.as_u16(), read.text()), (200, "0123456789"));
    assert_eq!(read.header("content-type"), "application/octet-stream");
    for (range, status, told, text) in [
        ("bytes=2-4", 206, "bytes 2-4/10", "234"),
        ("bytes=7-", 206, "bytes 7-9/10", "789"),
        ("bytes=-2", 206, "bytes 8-9/10", "89"),
        ("bytes=99-", 416, "", ""),
    ] {
        let path = files("data", "/content?path=a.txt");
        let headers = [("authorization", ANN), ("range", range)];
        let request = TestRequest {
            method: "GET",
            path: &path,
            headers: &headers,
            body: "",
        };
        let answer = setup.ask(request).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("content-range")),
            (status, told),
            "{range}"
        );
        assert!(status == 416 || answer.text() == text, "{range}");
    }
    setup
        .send(ANN, "PUT", &files("data", "/content?path=b.txt"), "b")
        .await;
    let page = get(&setup, ANN, &files("data", "?limit=1")).await;
    assert_eq!(
        (&page["entries"][0]["name"], &page["next"]),
        (&json!("a.txt"), &json!("a.txt"))
    );
    let page = get(&setup, ANN, &files("data", "?limit=1&after=a.txt")).await;
    assert_eq!(
        (&page["entries"][0]["name"], &page["next"]),
        (&json!("b.txt"), &json!(null))
    );
    // Each user has files of their own where they do not share.
    let own = files("home", "/content?path=mine");
    assert_eq!(setup.send(ANN, "PUT", &own, "of ann").await.status, 200);
    assert_eq!(setup.get(ANN, &own).await.text(), "of ann");
    assert_eq!(setup.get(ADMIN, &own).await.status, 404);
}

#[tokio::test]
async fn files_are_refused_with_a_code() {
    let setup = setup().await;
    let code = |answer: &WholeAnswer| {
        answer.json()["code"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    for (method, rest, status, expected) in [
        ("GET", "none/files", 404, "NoStorageError"),
        ("GET", "blob/files", 403, "ForbiddenUserError"),
        (
            "PUT",
            "blob/files/content?path=a",
            403,
            "ForbiddenUserError",
        ),
        ("GET", "data/files/content?path=none", 404, "NoFileError"),
        ("GET", "data/files?limit=0", 400, "InvalidParametersError"),
        (
            "GET",
            "data/files?limit=10001",
            400,
            "InvalidParametersError",
        ),
        (
            "GET",
            "data/files/upload?path=a",
            400,
            "InvalidParametersError",
        ),
        (
            "PUT",
            "data/files/content?path=a&offset=3",
            400,
            "InvalidParametersError",
        ),
        (
            "PUT",
            "data/files/content?path=a&offset=3&upload=u",
            400,
            "InvalidParametersError",
        ),
        (
            "PUT",
            "data/files/content?path=a&mode=999",
            400,
            "InvalidParametersError",
        ),
        (
            "PUT",
            "data/files/content?path=a&mode=7777",
            400,
            "InvalidParametersError",
        ),
        (
            "PUT",
            "data/files/content?path=a&offset=3&upload=u&sha256=0",
            409,
            "FileChangedError",
        ),
        (
            "PUT",
            "data/files/content?path=a&size=3",
            409,
            "FileChangedError",
        ),
        ("POST", "blob/probe", 403, "ForbiddenUserError"),
    ] {
        let path = format!("/api/muster/v1/storages/{rest}");
        let answer = setup.send(ANN, method, &path, "").await;
        assert_eq!(
            (answer.status.as_u16(), code(&answer)),
            (status, expected.to_owned()),
            "{method} {rest}"
        );
    }
    assert_eq!(setup.guest("GET", &files("data", "")).await.status, 401);
    // An admin may look how a storage is that no group of theirs grants, and no more.
    let probe = setup
        .send(ADMIN, "POST", "/api/muster/v1/storages/blob/probe", "")
        .await;
    assert_eq!(
        (probe.status.as_u16(), &probe.json()["problem"]),
        (200, &json!(null))
    );
    assert_eq!(setup.get(ADMIN, &files("blob", "")).await.status, 403);
}
