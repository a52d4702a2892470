//! The portal's pages in a real browser, over a real agent with jobs that run, wait and have failed.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use muster_tests::home;

use crate::stage::{Job, SIMULATED, Stage};

/// Colours first, then a line every moment.
const TALKS: &str = "printf '\\033[31mred\\033[0m\\n'; while true; do echo step; sleep 0.3; done";

#[tokio::test(flavor = "multi_thread")]
async fn containerd_pages_are_whole_in_a_browser_in_light() -> Result<()> {
    browsed("light").await
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_pages_are_whole_in_a_browser_in_dark() -> Result<()> {
    browsed("dark").await
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_pages_are_used_in_a_browser() -> Result<()> {
    browsed("use").await
}

/// `tests/browser/terminal.cjs`: a shell in a task, as a person uses it.
#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_shell_is_used_in_a_browser() -> Result<()> {
    browsed("terminal").await
}

/// Does a part of `tests/browser/pages.cjs`, or the script of terminals.
async fn browsed(part: &str) -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let root = root.context("the root of the project")?;
    let target = std::env::var("CARGO_TARGET_DIR").map_or_else(|_| root.join("target"), Into::into);
    let packages = target.join("browser/node_modules");
    ensure!(packages.exists(), "run `sh deploy/browser.sh` first");
    let stage = Stage::with(SIMULATED).await?;
    let runs = Job {
        gpu: 8,
        ..Job::new("runs", TALKS)
    };
    stage.runs(&runs).await?;
    let fails = Job::new("fails", "echo 'RuntimeError: CUDA out of memory'; exit 3");
    stage.ends(&fails).await?;
    let waits = Job {
        gpu: 4,
        ..Job::new("waits", "true")
    };
    stage.client.submit(&waits.yaml()).await?;

    // A browser speaks HTTP/2 by TLS alone, as with every node that is not on its own machine.
    let url = match part {
        "use" | "terminal" => stage.home.url().replacen("http:", "https:", 1),
        _ => stage.home.url().to_owned(),
    };
    let script = match part {
        "terminal" => "tests/browser/terminal.cjs",
        _ => "tests/browser/pages.cjs",
    };
    let mut browser = Command::new("node");
    browser
        .arg(root.join(script))
        .arg(part)
        .arg(url)
        .arg(stage.home.state().join("admin-password"))
        .env("NODE_PATH", &packages);
    if let Ok(folder) = std::env::var("MUSTER_SCREENSHOTS") {
        browser.arg(folder);
    }
    let looked = browser.output()?;
    let (told, error) = (&looked.stdout, &looked.stderr);
    let (told, error) = (
        String::from_utf8_lossy(told),
        String::from_utf8_lossy(error),
    );
    ensure!(looked.status.success(), "{told}{error}");
    Ok(())
}
