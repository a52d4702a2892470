//! Storages with a helper that plays: a script that notes its requests, and hangs or fails where a file tells it to.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_model::id::AttemptUid;
use muster_model::storage::ClusterStorages;

use super::*;

const SCRIPT: &str = r#"#!/bin/sh
cd "${0%/*}"
request=$(cat)
step=$(printf %s "$request" | sed 's/.*"step":{*"\([A-Za-z]*\)".*/\1/')
case $request in
    *'"mode":"'*) step=$(printf %s "$request" | sed 's/.*"mode":"\([A-Za-z]*\)".*/\1/') ;;
esac
name=$(printf %s "$request" | sed -n 's|.*mounts/\([a-z]*\)-.*|\1|p')
echo "$step $name" >>log
if [ -e "dead-$name" ]; then exec sleep 60; fi
if [ -e "bad-$name" ] && [ "$step" = Check ]; then
    rm "bad-$name"
    echo '{"Err":{"kind":"Failed","message":"stale handle"}}'
    exit
fi
echo '{"Ok":null}'
"#;

struct Bench {
    home: tempfile::TempDir,
    mounts: Arc<StorageMounts>,
}

impl Bench {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let program = home.path().join("helper");
        fs::write(&program, SCRIPT).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let helper = StorageStepRunner::new(program, home.path().to_owned());
        let times = StorageTimes {
            mount: Duration::from_millis(400),
            answer: Duration::from_millis(300),
            fresh: Duration::from_millis(200),
            idle: Duration::from_millis(100),
        };
        let mounts = Arc::new(StorageMounts::new(helper, home.path(), times));
        Self { home, mounts }
    }

    /// The steps that the helper was asked for, and begins anew.
    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.home.path().join("log")).unwrap_or_default();
        let _ = fs::remove_file(self.home.path().join("log"));
        text.lines()
            .map(|line| line.trim_end().to_owned())
            .collect()
    }

    fn set(&self, name: &str) {
        fs::write(self.home.path().join(name), "").unwrap();
    }

    fn unset(&self, name: &str) {
        let _ = fs::remove_file(self.home.path().join(name));
    }

    async fn acquire(&self, task: u8, name: &str) -> Result<(), StorageError> {
        let acquired = self.mounts.acquire(&uid(task), &nfs(name)).await;
        acquired.map(drop)
    }
}

fn uid(task: u8) -> AttemptUid {
    AttemptUid::from_bytes([task; 16])
}

/// A storage whose tasks fail after a second.
fn nfs(name: &str) -> StorageUse {
    let text =
        format!("{{name: {name}, type: nfs, data: {{server: s, path: /d}}, failAfterSeconds: 1}}");
    match source(&text) {
        MountSource::Mounted(using) => using,
        MountSource::Host(path) => panic!("{} is not mounted", path.display()),
    }
}

fn source(entry: &str) -> MountSource {
    let read = ClusterStorages::read(&format!("storages: [{entry}]")).unwrap();
    MountSource::of(&read.storages[0]).unwrap()
}

fn using(entry: &str) -> StorageUse {
    let MountSource::Mounted(using) = source(entry) else {
        panic!("{entry}: it is not mounted")
    };
    using
}

#[test]
fn declarations_become_calls_of_mount() {
    let call = |entry: &str| using(entry).call("/at".into());
    let plain = call("{name: a, type: nfs, data: {server: nfs1, path: /data}}");
    assert_eq!((&*plain.kind, &*plain.source), ("nfs", "nfs1:/data"));
    assert_eq!(
        plain.options,
        ["retry=0", "nosharecache", "nosuid", "nodev"]
    );
    let options = call(
        "{name: a, type: nfs, data: {server: 'fd00::1', path: /}, mountOptions: ['vers=4.2,noatime', suid]}",
    );
    assert_eq!(options.source, "[fd00::1]:/");
    // Of two that contradict each other the last one holds.
    assert_eq!(
        options.options,
        [
            "retry=0",
            "nosharecache",
            "vers=4.2",
            "noatime",
            "suid",
            "nosuid",
            "nodev"
        ]
    );
    let samba =
        call("{name: a, type: samba, data: {address: //s/d, username: u, password: 'p,q'}}");
    assert_eq!((&*samba.kind, &*samba.source), ("cifs", "//s/d"));
    assert_eq!(samba.options[..2], ["hard", "username=u"]);
    assert_eq!(samba.secrets, [("PASSWD".to_owned(), "p,q".to_owned())]);
    assert!(!format!("{samba:?}").contains("p,q"));
    let guest = call("{name: a, type: samba, data: {address: //s/d}}");
    assert_eq!((&*guest.options[1], guest.secrets.len()), ("guest", 0));
    let azure =
        call("{name: a, type: azureFile, data: {shareName: s, accountName: acc, accountKey: k}}");
    assert_eq!(azure.source, "//acc.file.core.windows.net/s");
    assert!(azure.options.contains(&"username=acc".to_owned()));
    let host = source("{name: a, type: hostPath, data: {path: /srv}}");
    assert_eq!(host, MountSource::Host(Path::new("/srv").to_owned()));
    let other = ClusterStorages::read("storages: [{name: a, type: other}]").unwrap();
    assert_eq!(MountSource::of(&other.storages[0]), None);
}

#[test]
fn another_declaration_is_another_mount_and_another_password_is_not() {
    let key = |entry: &str| using(entry).key;
    let first = key("{name: a, type: samba, data: {address: //s/d, username: u, password: p}}");
    assert_eq!(
        first,
        key("{name: a, type: samba, data: {address: //s/d, username: u, password: q}}")
    );
    assert_ne!(
        first,
        key("{name: a, type: samba, data: {address: //s/e, username: u, password: p}}")
    );
    assert_ne!(
        first,
        key("{name: a, type: samba, data: {address: //s/d, username: v, password: p}}")
    );
    assert!(first.starts_with("a-") && first.len() == 14, "{first}");
    let waits = using("{name: a, type: nfs, data: {server: s, path: /d}, failAfterSeconds: 0}");
    assert_eq!(waits.fail_after, None);
    let usual = using("{name: a, type: nfs, data: {server: s, path: /d}}");
    assert_eq!(usual.fail_after, Some(Duration::from_secs(600)));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_tasks_that_come_together_one_has_it_mounted() {
    let bench = Arc::new(Bench::new());
    let tasks: Vec<_> = (0..20)
        .map(|task| {
            let bench = Arc::clone(&bench);
            tokio::spawn(async move { bench.acquire(task, "data").await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(bench.log(), ["Make", "Mount data", "Check data"]);
    // An answer is good for a while.
    bench.acquire(30, "data").await.unwrap();
    assert_eq!(bench.log(), [""; 0]);
    tokio::time::sleep(Duration::from_millis(250)).await;
    bench.acquire(31, "data").await.unwrap();
    assert_eq!(bench.log(), ["Mount data", "Check data"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_is_not_waited_for_by_others() {
    let bench = Bench::new();
    bench.acquire(1, "data").await.unwrap();
    bench.set("dead-gone");
    let begun = Instant::now();
    let (gone, data, other) = tokio::join!(
        bench.acquire(2, "gone"),
        bench.acquire(3, "data"),
        bench.acquire(4, "other"),
    );
    assert!(matches!(gone, Err(StorageError::Late(_))), "{gone:?}");
    assert_eq!(
        gone.unwrap_err().to_string(),
        "the server has not answered for 0 s"
    );
    data.unwrap();
    other.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
    bench.log();
    // It is known for a while.
    assert!(bench.acquire(5, "gone").await.is_err());
    assert_eq!(bench.log(), [""; 0]);
    bench.unset("dead-gone");
    tokio::time::sleep(Duration::from_millis(150)).await;
    bench.acquire(5, "gone").await.unwrap();
    assert_eq!(bench.log(), ["Mount gone", "Check gone"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_of_no_use_any_more_is_mounted_anew() {
    let bench = Bench::new();
    bench.set("bad-data");
    bench.acquire(1, "data").await.unwrap();
    let steps = [
        "Make",
        "Mount data",
        "Check data",
        "Detach data",
        "Mount data",
        "Check data",
    ];
    assert_eq!(bench.log(), steps);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_comes_takes_no_mount_from_those_that_run() {
    let bench = Bench::new();
    bench.acquire(1, "data").await.unwrap();
    tokio::time::sleep(Duration::from_millis(250)).await;
    bench.set("bad-data");
    bench.log();
    let refused = bench.acquire(2, "data").await.unwrap_err();
    assert_eq!(refused.to_string(), "stale handle");
    assert_eq!(bench.log(), ["Mount data", "Check data"]);
    // The one that came is no user.
    bench.mounts.release(&uid(1));
    tokio::time::sleep(Duration::from_millis(150)).await;
    bench.mounts.tend().await;
    assert_eq!(bench.log(), ["Idle data", "Leave"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_never_mounted_is_not_checked_and_its_reason_stays() {
    let bench = Bench::new();
    bench.set("dead-data");
    bench.acquire(1, "data").await.unwrap_err();
    bench.log();
    assert_eq!(bench.mounts.tend().await, []);
    assert_eq!(bench.log(), [""; 0]);
    // A task that waits for its mount has not lost it.
    let waits = {
        let mounts = Arc::clone(&bench.mounts);
        tokio::spawn(async move { mounts.acquire(&uid(2), &nfs("data")).await })
    };
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(bench.mounts.tend().await, []);
    waits.await.unwrap().unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_task_has_the_limit_that_was_declared_when_it_came() {
    let bench = Bench::new();
    bench.acquire(1, "data").await.unwrap();
    let mut patient = nfs("data");
    patient.fail_after = None;
    bench.mounts.acquire(&uid(2), &patient).await.unwrap();
    bench.set("dead-data");
    bench.mounts.tend().await;
    tokio::time::sleep(Duration::from_millis(900)).await;
    let lost = bench.mounts.tend().await;
    let lost: Vec<_> = lost
        .into_iter()
        .filter_map(|lost| lost.user.task().cloned())
        .collect();
    assert_eq!(lost, [uid(1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_given_up_while_it_waits_leaves_nothing() {
    let bench = Bench::new();
    bench.set("dead-data");
    let using = nfs("data");
    let task = uid(1);
    let waits = bench.mounts.acquire(&task, &using);
    assert!(
        tokio::time::timeout(Duration::from_millis(100), waits)
            .await
            .is_err()
    );
    bench.mounts.release(&task);
    tokio::time::sleep(Duration::from_millis(150)).await;
    bench.unset("dead-data");
    bench.mounts.tend().await;
    assert_eq!(bench.log().last().unwrap(), "Leave");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_earlier_life_of_the_agent_left_is_unmounted() {
    let bench = Bench::new();
    let left = bench.home.path().join("mounts").join(&nfs("left").key);
    fs::create_dir_all(left).unwrap();
    let helper = StorageStepRunner::new(
        bench.home.path().join("helper"),
        bench.home.path().to_owned(),
    );
    let times = StorageTimes {
        idle: Duration::from_millis(100),
        ..StorageTimes::default()
    };
    let mounts = Arc::new(StorageMounts::new(helper, bench.home.path(), times));
    // It may not be mounted any more: to ask for it would keep those away that come for it.
    mounts.tend().await;
    assert_eq!(bench.log(), [""; 0]);
    tokio::time::sleep(Duration::from_millis(150)).await;
    mounts.tend().await;
    assert_eq!(bench.log(), ["Idle left", "Leave"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_unmounted_is_tried_again_and_its_namespace_stays() {
    let bench = Bench::new();
    bench.acquire(1, "data").await.unwrap();
    bench.mounts.release(&uid(1));
    bench.set("dead-data");
    tokio::time::sleep(Duration::from_millis(150)).await;
    bench.log();
    bench.mounts.tend().await;
    assert_eq!(bench.log(), ["Idle data", "Detach data"]);
    bench.unset("dead-data");
    bench.mounts.tend().await;
    assert_eq!(bench.log(), ["Idle data", "Leave"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_lose_a_storage_whose_server_is_silent_for_too_long() {
    let bench = Bench::new();
    bench.acquire(1, "data").await.unwrap();
    bench.acquire(2, "other").await.unwrap();
    assert_eq!(bench.mounts.tend().await, []);
    bench.set("dead-data");
    bench.log();
    assert_eq!(bench.mounts.tend().await, [], "not yet");
    tokio::time::sleep(Duration::from_millis(900)).await;
    bench.unset("log");
    let lost = bench.mounts.tend().await;
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].user, StorageUser::Task(uid(1)));
    assert_eq!(
        lost[0].message,
        "storage data has not answered for 1 s: the server has not answered for 0 s"
    );
    // They are told to end. What waits for the server is let go after that.
    assert!(!bench.log().contains(&"Abort data".to_owned()));
    assert_eq!(bench.mounts.tend().await.len(), 1);
    assert!(bench.log().contains(&"Abort data".to_owned()));
    bench.unset("dead-data");
    assert_eq!(bench.mounts.tend().await, [], "it is back");
    bench.set("dead-data");
    assert_eq!(bench.mounts.tend().await, [], "its time begins anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_idle_is_unmounted_and_the_last_one_ends_the_namespace() {
    let bench = Bench::new();
    bench.acquire(1, "data").await.unwrap();
    bench.acquire(2, "data").await.unwrap();
    // One that a task of an earlier life of the agent uses.
    bench.mounts.adopt(&uid(3), &nfs("other").key, None);
    bench.mounts.release(&uid(1));
    tokio::time::sleep(Duration::from_millis(150)).await;
    bench.log();
    bench.mounts.tend().await;
    let mut steps = bench.log();
    steps.sort();
    assert_eq!(steps, ["Check data", "Check other"]);
    bench.mounts.release(&uid(2));
    bench.mounts.tend().await;
    assert!(
        !bench.log().contains(&"Idle data".to_owned()),
        "it is kept for a while"
    );
    tokio::time::sleep(Duration::from_millis(150)).await;
    bench.mounts.tend().await;
    assert!(bench.log().contains(&"Idle data".to_owned()));
    bench.mounts.release(&uid(3));
    tokio::time::sleep(Duration::from_millis(150)).await;
    bench.mounts.tend().await;
    assert_eq!(bench.log(), ["Idle other", "Leave"]);
    bench.acquire(4, "data").await.unwrap();
    assert_eq!(bench.log()[0], "Make");
}
