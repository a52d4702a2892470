//! `muster storage` against the real gateway over a cluster in memory.

use muster_model::storage::ClusterStorages;
use muster_portal_gateway::port::UserView;

use super::gateway_tests::ServedGateway;
use super::status::CliStatus;
use super::stub::TextFile;

const TEXT: &str =
    "storages: [{name: data, type: nfs, readOnly: true, data: {server: s, path: /d}}]";

#[tokio::test]
async fn storages_are_listed() {
    let gateway = ServedGateway::start();
    gateway
        .cluster
        .set_storages(ClusterStorages::read(TEXT).unwrap());
    let (status, out, _) = gateway.muster(&["storage", "list"]).await;
    assert_eq!(status, CliStatus::Ok);
    for word in ["NAME", "data", "nfs", "s:/d", "read"] {
        assert!(out.contains(word), "{out}");
    }
    let (_, out, _) = gateway.muster(&["storage", "list", "-o", "json"]).await;
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&json[0]["name"], &json[0]["granted"]),
        (&"data".into(), &false.into())
    );
}

#[tokio::test]
async fn a_file_is_checked_before_it_is_sent() {
    let gateway = ServedGateway::start();
    let good = TextFile::of(TEXT);
    let (status, out, _) = gateway.muster(&["storage", "check", good.path()]).await;
    assert_eq!((status, out.trim()), (CliStatus::Ok, "valid"));
    let bad = TextFile::of("storages: [{name: data, type: nfs, data: {server: s}}]");
    let (status, out, _) = gateway.muster(&["storage", "check", bad.path()]).await;
    assert_eq!(status, CliStatus::Negative);
    assert!(out.contains("storages[0].data.path: is required"), "{out}");
    let (status, _, err) = gateway.muster(&["storage", "apply", bad.path()]).await;
    assert_eq!(status, CliStatus::Usage);
    assert!(err.contains("storages[0].data.path"), "{err}");
    // The fake has no such document: the command names the route and the document.
    let (status, _, err) = gateway.muster(&["storage", "apply", good.path()]).await;
    assert_eq!(status, CliStatus::Refused);
    assert!(err.contains("storages"), "{err}");
}

#[tokio::test]
async fn files_go_there_and_back() {
    let gateway = ServedGateway::start();
    let text = "storages: [{name: data, type: nfs, data: {server: s, path: /d}}]";
    gateway
        .cluster
        .set_storages(ClusterStorages::read(text).unwrap());
    let admin = UserView {
        name: "admin".parse().unwrap(),
        email: String::new(),
        groups: ["default", "admingroup"]
            .map(|group| group.parse().unwrap())
            .into(),
        extension: serde_json::Value::Null,
        admin: true,
        vcs: Vec::new(),
        storages: Vec::new(),
        revision: 1,
    };
    gateway.cluster.add_user("admin-password", admin);
    // No group of the admin's grants it yet.
    let (status, _, err) = gateway.muster(&["storage", "ls", "data"]).await;
    assert_eq!(status, CliStatus::Refused);
    assert!(err.contains("data"), "{err}");
    let (status, _, err) = gateway
        .muster(&["group", "set", "default", "--storage", "data"])
        .await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    let file = TextFile::of("some words");
    let (status, _, err) = gateway
        .muster(&["storage", "put", file.path(), "data:words"])
        .await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    assert!(err.contains("1 file, 10 B"), "{err}");
    let (_, out, _) = gateway.muster(&["storage", "ls", "data:"]).await;
    assert!(out.contains("words") && out.contains("644"), "{out}");
    let (_, out, _) = gateway.muster(&["storage", "get", "data:words", "-"]).await;
    assert_eq!(out, "some words");
    let back = tempfile::tempdir().unwrap();
    let to = back.path().display().to_string();
    let (status, _, err) = gateway.muster(&["storage", "get", "data:words", &to]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    let read = std::fs::read_to_string(back.path().join("words")).unwrap();
    assert_eq!(read, "some words");
    let names = std::fs::read_dir(back.path()).unwrap().count();
    assert_eq!(names, 1, "a part was left");
    let (status, _, err) = gateway.muster(&["storage", "get", "data:none", "-"]).await;
    assert_eq!(status, CliStatus::Refused);
    assert!(err.contains("none"), "{err}");
    let (status, out, _) = gateway.muster(&["storage", "probe", "data"]).await;
    assert_eq!(status, CliStatus::Ok);
    assert!(
        out.contains("it can be used") && out.contains("writes"),
        "{out}"
    );
}

#[tokio::test]
async fn a_storage_that_is_granted_is_not_taken_out_without_force() {
    let gateway = ServedGateway::start();
    let (status, _, err) = gateway
        .muster(&[
            "storage",
            "add",
            "home",
            "--type",
            "samba",
            "--address",
            "//s/h",
            "--username",
            "u",
        ])
        .await;
    assert_eq!(status, CliStatus::Usage);
    assert!(err.contains("--password-stdin"), "{err}");
}
