//! Images that nobody needs make room when the disk is full.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use muster_tests::home;

use crate::stage::{Job, LIMIT, SIMULATED, Stage};

/// No disk is as empty as this wants, so all goes that may.
const FULL: &str = "[images]\ndisk_percent_max = 0\ndisk_percent_target = 0\n";
/// More memory than any node has, in MiB.
const TOO_MUCH: u32 = 1 << 30;

#[tokio::test(flavor = "multi_thread")]
async fn containerd_unused_images_make_room_and_wanted_ones_stay() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let mut stage = Stage::with(&format!("{SIMULATED}{FULL}")).await?;
    let waits = Job {
        memory_mb: TOO_MUCH,
        ..Job::new("waits", "true")
    };
    stage.client.submit(&waits.yaml()).await?;
    let archive = stage.home.path().join("busybox.tar");
    let archive = archive.to_string_lossy();
    let import = ["image", "import", &*archive, "--name", "nobody/wants:1"];
    ensure!(stage.home.muster(&import)?.status.success());
    assert_eq!(images(&stage)?, 2);
    stage.crash().await?;
    let start = Instant::now();
    while images(&stage)? != 1 {
        ensure!(start.elapsed() < LIMIT, "nothing was removed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let left = stage.home.ctr(&["images", "list", "-q"])?.stdout;
    let left = String::from_utf8_lossy(&left);
    assert!(left.contains("muster/busybox"), "{left}");
    Ok(())
}

fn images(stage: &Stage) -> Result<usize> {
    let list = stage.home.ctr(&["images", "list", "-q"])?.stdout;
    Ok(String::from_utf8_lossy(&list).lines().count())
}
