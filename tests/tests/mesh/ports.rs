//! Ports that another process holds when the agent starts.

use std::net::{TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use muster_tests::net::{BareNode, Lan, missing};

use super::pages::curl;

/// The agent takes a port soon after it is free.
const SOON: Duration = Duration::from_secs(20);

/// Waits until the command's output is as wanted.
fn until(node: &BareNode, arguments: &[&str], wanted: impl Fn(&str) -> bool) -> Result<String> {
    let start = Instant::now();
    loop {
        let output = node.muster(arguments)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && wanted(&text) {
            return Ok(text);
        }
        ensure!(start.elapsed() < SOON, "{arguments:?}: {text}{output:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_starts_without_its_ports_and_takes_them_when_they_are_free() -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(1)?;
    let own = format!("by process {} (", std::process::id());

    let held = lan
        .node(1)
        .namespace()
        .enter(|| TcpListener::bind("0.0.0.0:7741"))??;
    lan.start()?;
    let node = lan.node(1);
    let told = until(node, &["node", "show"], |text| text.contains("REST is not"))?;
    ensure!(told.contains(&own), "{told}");
    ensure!(
        told.contains(&format!("kill {}", std::process::id())),
        "{told}"
    );
    // It fails, which is what it is for.
    let examined = node.muster(&["doctor"])?;
    let examined = String::from_utf8_lossy(&examined.stdout).into_owned();
    ensure!(examined.contains("REST is not served"), "{examined}");
    drop(held);
    until(node, &["node", "show"], |text| {
        !text.contains("REST is not")
    })?;
    ensure!(curl(node, "/healthz")? == "ok");

    node.prints(&["cluster", "init", "--name", "lab"])?;
    lan.node_mut(1).stop()?;
    let held = lan
        .node(1)
        .namespace()
        .enter(|| UdpSocket::bind("0.0.0.0:7740"))??;
    lan.start()?;
    let node = lan.node(1);
    let told = until(node, &["node", "show"], |text| {
        text.contains("the mesh is not")
    })?;
    ensure!(told.contains(&own), "{told}");
    // It is of its cluster all the same, and nobody can reach it.
    let refused = node.refused(&["cluster", "init", "--name", "other"], 4)?;
    ensure!(refused.contains("\"lab\""), "{refused}");
    drop(held);
    until(node, &["node", "show"], |text| {
        !text.contains("the mesh is not")
    })?;
    Ok(())
}
