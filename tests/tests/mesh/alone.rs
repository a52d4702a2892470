//! A machine alone: a cluster of one, with every command, and without a port.

use std::net::{TcpStream, UdpSocket};

use anyhow::{Result, ensure};
use muster_tests::net::{BareNode, Lan, missing};
use serde_json::Value;

/// Whether somebody listens at the mesh's TCP port.
fn is_open(node: &BareNode) -> Result<bool> {
    node.namespace()
        .enter(|| TcpStream::connect("127.0.0.1:7740").is_ok())
}

/// How jobs are scheduled on the node, by the next listing; null: as ever.
fn scheduling(node: &BareNode) -> Result<Value> {
    let view = node.json(&["cluster", "members"])?;
    Ok(view["members"][0]["scheduling"]["mode"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_alone_takes_every_command_and_opens_no_port() -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(1)?;
    lan.start()?;
    let node = lan.node(1);
    ensure!(!is_open(node)?);
    node.prints(&["cordon", "n1", "--reason", "fans"])?;
    assert_eq!(scheduling(node)?, "cordoned");
    node.prints(&["uncordon", "n1"])?;
    node.prints(&["drain", "n1", "--reason", "disks"])?;
    assert_eq!(scheduling(node)?, "draining");
    node.prints(&["undrain", "n1"])?;
    assert_eq!(scheduling(node)?, Value::Null);
    let token = node.refused(&["cluster", "token", "create"], 4)?;
    ensure!(token.contains("muster cluster init"), "{token}");
    let recover = node.refused(&["cluster", "recover", "--lost", "n9"], 4)?;
    ensure!(recover.contains("there is nothing to recover"), "{recover}");
    let own = node.refused(&["cluster", "expel", "n1", "--yes"], 4)?;
    ensure!(own.contains("muster cluster leave"), "{own}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_alone_gets_a_name_only_with_its_ports() -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(1)?;
    lan.start()?;
    let node = lan.node(1);
    let held = node
        .namespace()
        .enter(|| UdpSocket::bind("0.0.0.0:7740"))??;
    let refused = node.refused(&["cluster", "init", "--name", "lab"], 4)?;
    ensure!(refused.contains("the mesh is not served"), "{refused}");
    let page = node.prints(&["cluster", "status"])?;
    ensure!(page.contains("alone") && !is_open(node)?, "{page}");
    drop(held);
    // Without a name it has the machine's.
    node.prints(&["cluster", "init"])?;
    let status = node.json(&["cluster", "status"])?;
    ensure!(status["cluster"]["name"] == "n1", "{status:#}");
    ensure!(is_open(node)? && status["solo"] == false);
    let again = node.refused(&["cluster", "init", "--name", "lab"], 4)?;
    ensure!(again.contains("\"n1\" already"), "{again}");
    Ok(())
}
