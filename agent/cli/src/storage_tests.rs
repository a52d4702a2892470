//! `muster storage` against the real gateway over a cluster in memory.

use muster_model::storage::ClusterStorages;

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
