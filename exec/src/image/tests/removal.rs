//! Removal, by name and to free the disk.

use std::collections::BTreeSet;

use muster_model::time::Time;

use super::fixture::{Packing, busybox, image, layer, oci_archive};
use super::node::Node;
use crate::image::{Error, Retention};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_unused_images_go_first_and_used_ones_stay() {
    let Some(node) = Node::start("image removal") else {
        return;
    };
    for (name, used) in [("kept:1", 1), ("running:1", 2), ("new:1", 4), ("old:1", 3)] {
        let built = image(&[busybox(), layer("name", name.as_bytes(), Packing::Gzip)]);
        let archive = oci_archive(&[&built], &[built.entry(Some(name))], &[]);
        node.import(archive, None).await.unwrap();
        node.store
            .mark_used(name, Time::from_millis(used))
            .await
            .unwrap();
    }
    let running = "docker.io/library/running:1";
    node.ctr(&["containers", "create", running, "user", "/bin/busybox"]);
    let error = node.store.remove("running:1").await.unwrap_err();
    assert!(
        matches!(&error, Error::InUse { container, .. } if container == "user"),
        "{error}"
    );

    let policy = |used_percent_max| Retention {
        keep: BTreeSet::from(["kept:1".to_owned()]),
        disk: node.containerd.dir().to_owned(),
        used_percent_max,
        used_percent_target: used_percent_max,
    };
    let collect = async |percent| {
        let removed = node.store.collect_garbage(&policy(percent)).await.unwrap();
        removed
            .into_iter()
            .map(|image| image.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        collect(100).await,
        Vec::<String>::new(),
        "the disk is not full"
    );
    // No disk is as empty as this wants, so all that may go goes, in order.
    assert_eq!(
        collect(0).await,
        ["docker.io/library/old:1", "docker.io/library/new:1"]
    );
    let left: Vec<String> = node
        .store
        .list()
        .await
        .unwrap()
        .into_iter()
        .map(|image| image.name)
        .collect();
    assert_eq!(left, ["docker.io/library/kept:1", running]);

    node.ctr(&["containers", "delete", "user"]);
    node.store.remove("running").await.unwrap_err();
    node.store.remove("running:1").await.unwrap();
    let error = node.store.remove("running:1").await.unwrap_err();
    assert!(matches!(error, Error::NotHere(_)), "{error}");
}
