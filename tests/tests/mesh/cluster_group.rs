//! The cluster state is held by a majority of its voters, whoever of them is lost.

use anyhow::{Context as _, Result, ensure};
use muster_tests::net::{Lan, View, missing};

use super::rules::{applied, document, rules};
use super::{LIMIT, elsewhere, everywhere, united};

/// Names of those that vote, as one node has heard.
pub(super) fn voters(view: &View) -> Vec<&str> {
    view.voters(None)
}

fn leader(view: &View) -> &str {
    view.0["leadership"]["leader"].as_str().unwrap_or_default()
}

/// The number of the node that leads, once all nodes but this one say the same.
pub(super) async fn leading(lan: &Lan, but: usize) -> Result<usize> {
    let number = |view: &View| {
        let mut nodes = lan.nodes().iter();
        Some(nodes.find(|node| node.name() == leader(view))?.number())
    };
    let is_agreed = |views: &[View]| {
        let leads = views.first().and_then(number);
        leads.is_some() && views.iter().all(|view| number(view) == leads)
    };
    let watch = elsewhere(lan, but);
    let views = watch.seen("one leads", LIMIT, is_agreed).await?;
    views.first().and_then(number).context("nobody leads")
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_leads_may_be_lost() -> Result<()> {
    let Some(mut lan) = united(5).await? else {
        return Ok(());
    };
    let all = |view: &View| voters(view) == ["n1", "n2", "n3", "n4", "n5"];
    everywhere(&lan).each("all vote", LIMIT, all).await?;
    let page = lan.node(2).prints(&["cluster", "status"])?;
    ensure!(page.contains("any 2 may fail"), "{page}");
    applied(lan.node(3), &rules("One"), &["--now"])?;
    // Two leaders in turn, the founder first or second.
    let first = leading(&lan, 0).await?;
    lan.node_mut(first).kill()?;
    let asked = if first == 4 { 5 } else { 4 };
    let killed = std::time::Instant::now();
    let token = lan.token(asked, &[])?;
    println!("a token {:?} after the leader was killed", killed.elapsed());
    applied(lan.node(asked), &rules("Two"), &["--now", "--base", "1"])?;
    let edited = |view: &View| document(view)["here"]["active"] == 2;
    elsewhere(&lan, first).each("rules", LIMIT, edited).await?;
    let second = leading(&lan, first).await?;
    ensure!(second != first, "n{first} is dead and leads");
    // Nothing that was decided meanwhile is lost to who comes back.
    lan.node_mut(first).start()?;
    everywhere(&lan).agree(5, LIMIT).await?;
    everywhere(&lan).each("rules", LIMIT, edited).await?;
    lan.node_mut(second).kill()?;
    let tokens = lan.node(first).prints(&["cluster", "token", "list"])?;
    let id = token.split('.').next().unwrap_or(&token);
    ensure!(tokens.contains(id), "{id}: {tokens}");
    let history = lan.node(first).prints(&["rules", "history"])?;
    ensure!(history.contains('2'), "{history}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_founder_may_leave_and_its_votes_move_on() -> Result<()> {
    let Some(lan) = united(4).await? else {
        return Ok(());
    };
    let three = |view: &View| voters(view).len() == 3;
    everywhere(&lan).each("three vote", LIMIT, three).await?;
    lan.node(1).prints(&["cluster", "leave"])?;
    let rest = elsewhere(&lan, 1);
    let moved = |view: &View| voters(view) == ["n2", "n3", "n4"] && view.state("n1") == "left";
    rest.each("the others vote", LIMIT, moved).await?;
    applied(lan.node(4), &rules("Later"), &["--now"])?;
    // It comes back as a stranger would, and the cluster does not take it for its founder.
    let token = lan.token(2, &[])?;
    let address = lan.node(2).address().to_string();
    let join = ["cluster", "join", &address, &token];
    lan.node(1).prints(&join)?;
    everywhere(&lan).agree(4, LIMIT).await?;
    Ok(())
}

/// Names of those that vote on the jobs of the virtual cluster that there always is.
fn voters_on_jobs(view: &View) -> Vec<&str> {
    view.voters(Some("default"))
}

#[tokio::test(flavor = "multi_thread")]
async fn votes_move_off_a_member_that_is_drained() -> Result<()> {
    let Some(mut lan) = united(4).await? else {
        return Ok(());
    };
    let three = |view: &View| voters(view).len() == 3 && voters_on_jobs(view).len() == 3;
    everywhere(&lan).each("three vote", LIMIT, three).await?;
    // Whoever leads goes too.
    let first = leading(&lan, 0).await?;
    let name = lan.node(first).name();
    let asked = first % 4 + 1;
    let drain = ["drain", &name, "--reason", "new disks"];
    lan.node(asked).prints(&drain)?;
    let moved = |view: &View| {
        let both = [voters(view), voters_on_jobs(view)];
        both.iter()
            .all(|all| all.len() == 3 && !all.contains(&&*name))
    };
    everywhere(&lan)
        .each("the others vote", LIMIT, moved)
        .await?;
    // With it off, one more may fail.
    lan.node_mut(first).kill()?;
    let second = leading(&lan, first).await?;
    lan.node_mut(second).kill()?;
    let rest = (1..=4).find(|node| ![first, second].contains(node));
    lan.token(rest.context("nobody is left")?, &[])?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_whose_log_cannot_be_read_gets_all_of_it_anew() -> Result<()> {
    let Some(mut lan) = united(3).await? else {
        return Ok(());
    };
    let three = |view: &View| voters(view).len() == 3 && voters_on_jobs(view).len() == 3;
    everywhere(&lan).each("three vote", LIMIT, three).await?;
    // What they say of their copies, and of the virtual clusters that there are, is a moment old.
    tokio::time::sleep(std::time::Duration::from_secs(8)).await;
    lan.node_mut(3).kill()?;
    let log = lan.node(3).home().join("state/log.redb");
    let aside = log.with_extension("damaged");
    let mut bytes = std::fs::read(&log)?;
    // All but the head: the file is one of its kind, and nothing in it makes sense.
    bytes.iter_mut().skip(4096).for_each(|byte| *byte = !*byte);
    std::fs::write(&log, &bytes)?;
    lan.node_mut(3).start()?;
    everywhere(&lan).agree(3, LIMIT).await?;
    ensure!(std::fs::read(&aside)? == bytes, "it is as it was found");
    everywhere(&lan).each("three vote", LIMIT, three).await?;
    let page = lan.node(3).prints(&["cluster", "status"])?;
    ensure!(page.contains("any 1 may fail"), "{page}");
    // Another is lost, and its word counts.
    lan.node_mut(1).kill()?;
    lan.token(2, &[])?;
    Ok(())
}

/// A node on its own has no other copy: its jobs are gone, and that is said.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_log_is_gone_says_so() -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(1)?;
    lan.start()?;
    let told = lan.node(1).prints(&["node", "show"])?;
    ensure!(!told.contains("log.redb"), "{told}");
    lan.node_mut(1).stop()?;
    std::fs::remove_file(lan.node(1).home().join("state/log.redb"))?;
    lan.start()?;
    let told = lan.node(1).prints(&["node", "show"])?;
    ensure!(told.contains("log.redb was missing"), "{told}");
    // It fails, which is what it is for.
    let examined = lan.node(1).muster(&["doctor"])?;
    let examined = String::from_utf8_lossy(&examined.stdout).into_owned();
    ensure!(examined.contains("restore the file"), "{examined}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_ends_hands_over() -> Result<()> {
    let Some(mut lan) = united(3).await? else {
        return Ok(());
    };
    let three = |view: &View| voters(view).len() == 3;
    everywhere(&lan).each("three vote", LIMIT, three).await?;
    let first = leading(&lan, 0).await?;
    lan.node_mut(first).stop()?;
    let log = std::fs::read_to_string(lan.node(first).home().join("agent.log"))?;
    ensure!(log.contains("another node leads"), "{log}");
    let second = leading(&lan, first).await?;
    ensure!(second != first, "n{first} has ended and leads");
    lan.token(second, &[])?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_say_that_they_bear_no_loss() -> Result<()> {
    let Some(mut lan) = united(2).await? else {
        return Ok(());
    };
    let copied = |view: &View| {
        voters(view) == ["n1"] && view.0["leadership"]["learners"] == serde_json::json!(["n2"])
    };
    everywhere(&lan)
        .each("a vote and a copy", LIMIT, copied)
        .await?;
    let page = lan.node(2).prints(&["cluster", "status"])?;
    ensure!(page.contains("must not fail"), "{page}");
    lan.node_mut(1).kill()?;
    let text = lan.node(2).refused(&["cluster", "token", "create"], 4)?;
    ensure!(text.contains("n1") && text.contains("again"), "{text}");
    // What it takes if that one never comes back; and if it does all the same.
    let gone = |view: &View| view.state("n1") == "unreachable";
    elsewhere(&lan, 1).each("n1 is gone", LIMIT, gone).await?;
    let recover = ["cluster", "recover", "--lost", "n1"];
    lan.node(2).prints(&recover)?;
    lan.token(2, &[])?;
    lan.node_mut(1).start()?;
    everywhere(&lan).agree(2, LIMIT).await?;
    let one = |view: &View| voters(view) == ["n2"] && view.0["cluster"]["generation"] == 2;
    everywhere(&lan).each("n2 votes", LIMIT, one).await?;
    lan.token(1, &[])?;
    Ok(())
}
