//! Finding a cluster by multicast, where that is asked for.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use anyhow::{Result, ensure};
use muster_tests::net::{Lan, Namespace, Watch, missing};

use super::LIMIT;

/// Where nodes that look for each other talk.
const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 251);
const PORT: u16 = 5353;
/// Longer than the pause before the first question of those who look.
const A_WHILE: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_found_without_an_address_where_both_sides_want_it() -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(4)?;
    let ear = ear(&lan.guest()?)?;
    // Node 1 is a cluster of its own that node 4 might take for the one of nodes 2 and 3.
    lan.start()?;
    lan.found(1)?;
    let token = lan.found(2)?;
    let address = lan.node(2).address().to_string();
    lan.node(3).prints(&["cluster", "join", &address, &token])?;
    Watch::new(&lan, [2, 3]).agree(2, LIMIT).await?;
    let join = ["cluster", "join", "mdns", &token];
    let refused = lan.node(4).refused(&join, 4)?;
    ensure!(refused.contains("mdns is off here"), "{refused}");
    tokio::time::sleep(A_WHILE).await;
    ensure!(heard(&ear)? == 0, "it was asked for by nobody");

    for number in [1, 2, 4] {
        lan.node_mut(number).stop()?;
        lan.node(number).configure("[mesh]\nmdns = true\n")?;
        lan.node_mut(number).start()?;
    }
    let joined = lan.node(4).prints(&join)?;
    ensure!(joined.contains("n4 is member 2 of lab"), "{joined}");
    Watch::new(&lan, 2..=4).agree(3, LIMIT).await?;
    let heard = heard(&ear)?;
    println!("{heard} packets to the group");
    ensure!(heard > 0, "found by other means");
    Ok(())
}

/// Where multicast is asked for, it begins with the name of the cluster, and not with the next start.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_is_found_from_the_moment_on_that_it_lets_others_in() -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(2)?;
    let ear = ear(&lan.guest()?)?;
    for number in [1, 2] {
        lan.node(number).configure("[mesh]\nmdns = true\n")?;
    }
    lan.start()?;
    tokio::time::sleep(A_WHILE).await;
    ensure!(heard(&ear)? == 0, "machines alone say something");
    let token = lan.found(1)?;
    lan.node(2).prints(&["cluster", "join", "mdns", &token])?;
    Watch::new(&lan, 1..=2).agree(2, LIMIT).await?;
    Ok(())
}

/// Hears what is said to the group.
fn ear(guest: &Namespace) -> Result<UdpSocket> {
    guest.enter(|| {
        let ear = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
        ear.join_multicast_v4(&GROUP, &Ipv4Addr::UNSPECIFIED)?;
        ear.set_nonblocking(true)?;
        Ok(ear)
    })?
}

/// How many packets were heard since the last look.
fn heard(ear: &UdpSocket) -> Result<usize> {
    let mut packets = 0;
    loop {
        match ear.recv(&mut [0; 2048]) {
            Ok(_) => packets += 1,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(packets),
            Err(error) => return Err(error.into()),
        }
    }
}
