//! Leaving, being expelled, and not being able to join.

use anyhow::{Result, ensure};
use muster_tests::net::{Lan, View, Watch, missing};

use super::{LIMIT, elsewhere, everywhere, united};

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_is_alone_and_may_come_back() -> Result<()> {
    let Some(lan) = united(3).await? else {
        return Ok(());
    };
    lan.node(3).prints(&["cluster", "leave"])?;
    let left = |view: &View| view.state("n3") == "left" && view.alive() == 2;
    elsewhere(&lan, 3).each("n3 has left", LIMIT, left).await?;
    let alone = |view: &View| view.0["solo"] == true && view.alive() == 1;
    let own = Watch::new(&lan, [3]);
    own.each("n3 is on its own", LIMIT, alone).await?;
    // It works on its own, and is let in again.
    let page = lan.node(3).prints(&["node", "show"])?;
    ensure!(page.contains("n3"), "{page}");
    let token = lan.token(1, &[])?;
    lan.join(&[3], &token)?;
    everywhere(&lan).agree(3, LIMIT).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_expelled_is_refused_and_says_so() -> Result<()> {
    let Some(mut lan) = united(3).await? else {
        return Ok(());
    };
    lan.node(1).prints(&["cluster", "expel", "n3", "--yes"])?;
    let expelled = |view: &View| view.state("n3") == "expelled" && view.alive() == 2;
    let rest = elsewhere(&lan, 3);
    rest.each("n3 is expelled", LIMIT, expelled).await?;
    rest.agree(2, LIMIT).await?;
    let own = Watch::new(&lan, [3]);
    let told = |view: &View| view.state("n3") == "expelled";
    own.each("n3 knows it", LIMIT, told).await?;
    // Exits with 1: this is not how a member should be.
    lan.node(3).refused(&["cluster", "status"], 1)?;
    let address = lan.node(1).address().to_string();
    let token = lan.token(1, &[])?;
    for asked in [
        &["cluster", "token", "create"][..],
        &["cluster", "join", &address, &token],
    ] {
        let text = lan.node(3).refused(asked, 4)?;
        ensure!(text.contains("expelled"), "{text}");
        ensure!(text.contains("muster cluster leave"), "{text}");
    }
    // Also as a new start: it is not let in again, and nobody else is troubled.
    lan.node_mut(3).kill()?;
    lan.node_mut(3).start()?;
    let never = |view: &View| view.alive() == 2 && view.state("n3") == "expelled";
    let while_it_tries = std::time::Duration::from_secs(5);
    rest.always("n3 stays out", while_it_tries, never).await?;
    let unknown = lan.node(1).refused(&["cluster", "expel", "n9"], 4)?;
    ensure!(unknown.contains("n9"), "{unknown}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_queued_job_does_not_join() -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(2)?;
    lan.start()?;
    let token = lan.found(1)?;
    let client = lan.node(2).client().await?;
    // Both ask for all of the node's devices: one waits.
    for name in ["holds", "wide"] {
        let job = format!(
            "protocolVersion: 2\nname: {name}\ntype: job\nprerequisites:\n  \
             - {{type: dockerimage, name: image, uri: muster/busybox}}\ntaskRoles:\n  main:\n    \
             instances: 1\n    dockerImage: image\n    resourcePerInstance: \
             {{cpu: 1, memoryMB: 64, gpu: 8}}\n    commands: [\"sleep 1000\"]\n"
        );
        client.submit(&job).await?;
    }
    let address = lan.node(1).address().to_string();
    let join = ["cluster", "join", &address, &token];
    let text = lan.node(2).refused(&join, 4)?;
    ensure!(text.contains("wide") && text.contains("job stop"), "{text}");
    for name in ["wide", "holds"] {
        lan.node(2).prints(&["job", "stop", name, "--wait"])?;
    }
    lan.node(2).prints(&join)?;
    everywhere(&lan).agree(2, LIMIT).await?;
    Ok(())
}
