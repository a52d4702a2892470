//! The fake does what every cluster does.

use muster_model::id::AttemptUid;
use muster_model::task_use::{DevicePoint, DeviceUse, TaskUse, UsePoint};

use super::setup::*;
use crate::conformance;
use crate::fake::FakeCluster;
use crate::port::{Caller, NoIdentityProvider, StoragePlace};

fn admin() -> Caller {
    Caller {
        user: "admin".parse().unwrap(),
        admin: true,
        application: false,
    }
}

#[tokio::test]
async fn documents() {
    let fake = Setup::new().fake;
    conformance::documents(&*fake, &admin(), "failure-rules").await;
}

#[tokio::test]
async fn identity() {
    let fake = Setup::new().fake;
    conformance::identity(&*fake, &fake, || {}).await;
    fake.set_device_flow(false);
    conformance::without_devices(&*fake).await;
    conformance::without_devices(&NoIdentityProvider).await;
}

#[tokio::test]
async fn images() {
    let fake = Setup::new().fake;
    conformance::images(&*fake, "a/b:1", "tar".into()).await;
}

#[tokio::test]
async fn jobs() {
    let fake = Setup::new().fake;
    conformance::jobs(&*fake, &admin()).await;
}

#[tokio::test]
async fn uses() {
    let fake = std::sync::Arc::new(FakeCluster::default());
    let uid: AttemptUid = "a-0".parse().unwrap();
    let point = UsePoint {
        at_ms: 1,
        cpu_milli: 1,
        memory_mb: 1,
    };
    fake.set_use(
        &uid,
        TaskUse {
            points: vec![point],
            devices: vec![DeviceUse {
                index: 0,
                points: vec![DevicePoint::default()],
            }],
        },
    );
    conformance::uses(&*fake, &uid).await;
}

#[tokio::test]
async fn logs() {
    let fake = Setup::new().fake;
    let uid = "a-0".parse().unwrap();
    fake.write_log(&uid, "stdout", "0123456789");
    conformance::logs(&*fake, &uid).await;
}

#[tokio::test]
async fn membership() {
    let fake = Setup::new().fake;
    conformance::alone(&*fake, &admin()).await;
    conformance::membership(&*fake, &admin()).await;
}

#[tokio::test]
async fn nodes() {
    let fake = Setup::new().fake;
    conformance::nodes(&*fake, &*fake, &admin()).await;
}

#[tokio::test]
async fn sessions() {
    let fake = Setup::new().fake;
    conformance::sessions(&*fake, &*fake, &admin()).await;
}

#[tokio::test]
async fn storages() {
    let fake = Setup::new().fake;
    conformance::storages(&*fake, &[]).await;
    fake.set_storages(storages_declared());
    conformance::storages(&*fake, &["data", "home", "blob"]).await;
    let place = StoragePlace {
        storage: storages_declared().storages.remove(0),
        user: "ann".parse().unwrap(),
        address: "192.0.2.1".to_owned(),
        path: String::new(),
    };
    conformance::storage_files(&*fake, &place).await;
}

#[tokio::test]
async fn users() {
    let fake = Setup::new().fake;
    conformance::users(&*fake, ("admin", "admin-password")).await;
}
