//! Requests for files with a helper that plays: scripts that hang, end early, or answer.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use muster_init::storage::files::FileDone;
use muster_model::storage::ClusterStorages;

use super::super::StorageTimes;
use super::*;

const SILENCE: Duration = Duration::from_millis(300);

struct Bench {
    home: tempfile::TempDir,
    mounts: Arc<StorageMounts>,
    access: StorageFileAccess,
}

impl Bench {
    /// One whose helper does `script` with files, and says yes to all steps of storages.
    fn new(script: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let program = home.path().join("helper");
        let text = format!(
            "#!/bin/sh\ncd \"${{0%/*}}\"\nif [ \"$1\" = storage ]; then cat >>steps; echo '{{\"Ok\":null}}'; exit; fi\n{script}\n"
        );
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let steps = StorageStepRunner::new(program, home.path().to_owned());
        let times = StorageTimes {
            idle: Duration::ZERO,
            ..StorageTimes::default()
        };
        let mounts = Arc::new(StorageMounts::new(steps.clone(), home.path(), times));
        let limits = FileLimits {
            node: 3,
            user: 2,
            silence: SILENCE,
        };
        let access = StorageFileAccess::new(steps, Arc::clone(&mounts), limits);
        Self {
            home,
            mounts,
            access,
        }
    }

    async fn begin(&self, user: &str) -> Result<FileHelper, FileError> {
        self.access.begin(user, place(), FileStep::Probe).await
    }

    fn steps(&self) -> String {
        fs::read_to_string(self.home.path().join("steps")).unwrap_or_default()
    }
}

fn place() -> FilePlace {
    let text = "storages: [{name: data, type: nfs, data: {server: s, path: /d}}]";
    let declared = ClusterStorages::read(text).unwrap();
    FilePlace {
        source: MountSource::of(&declared.storages[0]).unwrap(),
        below: Vec::new(),
        read_only: false,
        path: "file".to_owned(),
    }
}

/// Waits until something is so.
async fn becomes(mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..200 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it does not become so");
}

#[tokio::test]
async fn there_are_few_at_a_time() {
    let bench = Bench::new("exec sleep 60");
    let first = bench.begin("ada").await.unwrap();
    let _second = bench.begin("ada").await.unwrap();
    let refused = bench.begin("ada").await.unwrap_err();
    assert!(matches!(refused, FileError::TooMany(2)), "{refused}");
    let _third = bench.begin("bob").await.unwrap();
    let refused = bench.begin("carl").await.unwrap_err();
    assert!(matches!(refused, FileError::NodeFull(3)), "{refused}");
    drop(first);
    becomes(async || bench.begin("carl").await.is_ok()).await;
}

#[tokio::test]
async fn one_that_says_nothing_is_given_up() {
    let bench = Bench::new("exec sleep 60");
    let begun = Instant::now();
    let mut helper = bench.begin("ada").await.unwrap();
    let error = helper.head().await.unwrap_err();
    assert!(matches!(error, FileError::Silent(_)), "{error}");
    // Nor does it wait for one that takes no bytes.
    let mut error = None;
    for _ in 0..64 {
        if let Err(found) = helper.write(&[0; 64 << 10]).await {
            error = Some(found);
            break;
        }
    }
    assert!(matches!(error, Some(FileError::Silent(_))), "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    drop(helper);
    becomes(async || {
        let turns = [bench.begin("ada").await, bench.begin("ada").await];
        turns.iter().all(Result::is_ok)
    })
    .await;
}

#[tokio::test]
async fn a_sign_of_life_gives_it_more_time() {
    // Frames of kind 6, then one of kind 7 with an object.
    let beat = r"printf 'mstr\001\000\006\000\000\000\000\000'; sleep 0.2";
    let done = r#"printf 'mstr\001\000\007\000\055\000\000\000{"bytes":7,"files":1,"is_directory":false,"has_more":false}'"#;
    let body = r#"{"bytes":7,"files":1,"is_directory":false,"has_more":false}"#;
    let done = done.replace("\\055", &format!("\\{:03o}", body.len()));
    let bench = Bench::new(&format!("{beat}; {beat}; {beat}; {done}"));
    let mut helper = bench.begin("ada").await.unwrap();
    let done: FileDone = helper.done().await.unwrap();
    assert_eq!(done.bytes, 7);
    let bench = Bench::new("exit 1");
    let mut helper = bench.begin("ada").await.unwrap();
    let error = helper.head().await.unwrap_err();
    assert!(matches!(error, FileError::NoAnswer), "{error}");
}

#[tokio::test]
async fn a_storage_is_not_unmounted_while_its_files_are_used() {
    let bench = Bench::new("exec sleep 60");
    let helper = bench.begin("ada").await.unwrap();
    bench.mounts.tend().await;
    assert!(!bench.steps().contains("Unmount"), "{}", bench.steps());
    drop(helper);
    becomes(async || {
        bench.mounts.tend().await;
        bench.steps().contains("Unmount")
    })
    .await;
}
