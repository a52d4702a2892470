//! A job's secret reaches its commands, and is nowhere else.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use muster_tests::home;

use crate::stage::{Job, Stage, status};

const SECRET: &str = "the-secret-9f3b7c52";

#[tokio::test(flavor = "multi_thread")]
async fn containerd_secrets_lie_nowhere_in_the_clear() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let secrets = format!("secrets: {{token: '{SECRET}'}}");
    let commands = "printf %s '<% $secrets.token %>' | md5sum; sleep 2";
    let job = Job {
        extra: &secrets,
        ..Job::new("secret", commands)
    };
    stage.runs(&job).await?;
    let searched = |when: &str| -> Result<()> {
        let found = files_with(stage.home.path(), SECRET.as_bytes())?;
        assert!(found.is_empty(), "{when}: {found:?}");
        Ok(())
    };
    let control = files_with(stage.home.path(), b"md5sum")?;
    assert!(
        !control.is_empty(),
        "the search does not find what is there"
    );
    searched("while it runs")?;
    let containers = stage.home.ctr(&["containers", "list", "-q"])?;
    for id in String::from_utf8_lossy(&containers.stdout).lines() {
        let info = stage.home.ctr(&["containers", "info", id])?;
        let text = String::from_utf8_lossy(&info.stdout);
        assert!(text.contains(id) && !text.contains(SECRET), "{text}");
    }
    let detail = stage.waits("secret").await?;
    assert_eq!(status(&detail).0, "SUCCEEDED", "{detail:#}");
    let digest = "ce9963fc0fb5884e0c8e9bdb4ca2ab7c";
    let log = stage.log(&detail, "stdout").await?;
    assert!(log.starts_with(digest), "{log}");
    searched("afterwards")?;
    for path in [
        "/api/v2/jobs",
        "/api/v2/jobs/admin~secret",
        "/api/v2/jobs/admin~secret/config",
    ] {
        let answer = stage.client.text(path).await?;
        assert!(!answer.contains(SECRET), "{path}: {answer}");
    }
    Ok(())
}

/// Every file below a directory, on its own disk, that holds `needle`.
fn files_with(directory: &Path, needle: &[u8]) -> Result<Vec<PathBuf>> {
    let disk = std::fs::symlink_metadata(directory)?.dev();
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        // Files and directories come and go while tasks run.
        let entries = match std::fs::read_dir(&directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            entries => entries.with_context(|| directory.display().to_string())?,
        };
        for entry in entries {
            let path = entry?.path();
            let Ok(about) = std::fs::symlink_metadata(&path) else {
                continue;
            };
            if about.is_dir() && about.dev() == disk {
                directories.push(path);
            } else if about.is_file() {
                let bytes = std::fs::read(&path).unwrap_or_default();
                if bytes.windows(needle.len()).any(|part| part == needle) {
                    found.push(path);
                }
            }
        }
    }
    Ok(found)
}
