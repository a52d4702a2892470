//! Images that nobody needs make room when the disk is full.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use muster_tests::home;

use crate::stage::{Job, LIMIT, SIMULATED, Stage};

/// No disk is as empty as this wants, so all goes that may.
const FULL: &str = "[images]\ndisk_percent_max = 0\ndisk_percent_target = 0\n";
#[tokio::test(flavor = "multi_thread")]
async fn containerd_unused_images_make_room_and_wanted_ones_stay() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let mut stage = Stage::with(&format!("{SIMULATED}{FULL}")).await?;
    let archive = stage.home.path().join("busybox.tar");
    let archive = archive.to_string_lossy();
    for name in ["some/holder:1", "nobody/wants:1"] {
        let import = ["image", "import", &*archive, "--name", name];
        ensure!(stage.home.muster(&import)?.status.success());
    }
    // Both ask for all devices: one waits, with an image that nothing uses yet.
    let holds = Job {
        image: "some/holder:1",
        gpu: 8,
        ..Job::new("holds", "sleep 1000")
    };
    stage.runs(&holds).await?;
    let waits = Job {
        gpu: 8,
        ..Job::new("waits", "true")
    };
    stage.client.submit(&waits.yaml()).await?;
    came_from_a_registry(&stage)?;
    assert_eq!(images(&stage)?, 3);
    stage.crash().await?;
    let start = Instant::now();
    while images(&stage)? != 2 {
        ensure!(start.elapsed() < LIMIT, "nothing was removed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let left = stage.home.ctr(&["images", "list", "-q"])?.stdout;
    let left = String::from_utf8_lossy(&left);
    assert!(left.contains("muster/busybox"), "{left}");
    assert!(left.contains("some/holder"), "{left}");
    Ok(())
}

/// What is imported is never removed. The images of this test have one manifest under three names: it is noted as
/// one that was pulled.
fn came_from_a_registry(stage: &Stage) -> Result<()> {
    let list = stage.home.ctr(&["images", "list"])?.stdout;
    let list = String::from_utf8_lossy(&list).into_owned();
    let digest = list
        .split_whitespace()
        .find(|word| word.starts_with("sha256:"));
    let digest = digest.context("an image")?;
    let labels = ["muster.io/imported=", "muster.io/pulled=openly"];
    let output = stage
        .home
        .ctr(&["content", "label", digest, labels[0], labels[1]])?;
    ensure!(output.status.success(), "{output:?}");
    Ok(())
}

fn images(stage: &Stage) -> Result<usize> {
    let list = stage.home.ctr(&["images", "list", "-q"])?.stdout;
    Ok(String::from_utf8_lossy(&list).lines().count())
}
