//! Removal, by name and to free the disk.

use std::collections::BTreeSet;

use muster_model::time::Time;

use super::fixture::{Packing, busybox, image, layer, oci_archive};
use super::node::Node;
use super::registry::{Scripted, answer};
use crate::image::{ImageError, Retention};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_unused_images_go_first_and_used_ones_stay() {
    let Some(node) = Node::start("image removal") else {
        return;
    };
    let with = |name: &str| image(&[busybox(), layer("name", name.as_bytes(), Packing::Gzip)]);
    let registry = Scripted::start(move |asked| {
        let name = asked.path.split('/').nth(2).unwrap();
        answer(&with(name), asked)
    })
    .await;
    let name = |short: &str| format!("{}/{short}:1", registry.address);
    for (short, used) in [("kept", 2), ("running", 3), ("new", 5), ("old", 4)] {
        let name = name(short);
        node.store.pull(&name, None).finish().await.unwrap();
        let used = Time::from_millis(used);
        node.store.mark_used(&name, used).await.unwrap();
    }
    // Longest unused of all, but nowhere else to be had.
    let built = with("imported");
    let archive = oci_archive(&[&built], &[built.entry(Some("imported:1"))], &[]);
    node.import(archive, None).await.unwrap();
    let used = Time::from_millis(1);
    node.store.mark_used("imported:1", used).await.unwrap();
    // Pulled once, and imported under another name: gone from there, who knows.
    let built = with("both");
    node.store.pull(&name("both"), None).finish().await.unwrap();
    let archive = oci_archive(&[&built], &[built.entry(Some("both:1"))], &[]);
    node.import(archive, None).await.unwrap();
    let running = &name("running");
    node.ctr(&["containers", "create", running, "user", "/bin/busybox"]);
    let error = node.store.remove(running).await.unwrap_err();
    assert!(
        matches!(&error, ImageError::InUse { container, .. } if container == "user"),
        "{error}"
    );

    let policy = |used_percent_max| Retention {
        keep: BTreeSet::from([name("kept")]),
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
    assert_eq!(collect(0).await, [name("old"), name("new")]);
    let left: Vec<String> = node
        .store
        .list()
        .await
        .unwrap()
        .into_iter()
        .map(|image| image.name)
        .collect();
    let kept = [
        name("both"),
        name("kept"),
        running.clone(),
        "docker.io/library/both:1".to_owned(),
        "docker.io/library/imported:1".to_owned(),
    ];
    assert_eq!(left, kept);

    node.ctr(&["containers", "delete", "user"]);
    node.store.remove("running").await.unwrap_err();
    node.store.remove(running).await.unwrap();
    let error = node.store.remove(running).await.unwrap_err();
    assert!(matches!(error, ImageError::NotHere(_)), "{error}");
}
