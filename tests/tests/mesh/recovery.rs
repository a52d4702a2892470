//! A cluster that has lost most of its voters for good goes on from what is left.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use muster_tests::net::{Lan, View, Watch, missing};

use super::cluster_group::{leading, voters};
use super::rules::{applied, document, rules};
use super::{LIMIT, everywhere};
use crate::recovery::plan;

/// Six members, five of which vote; one of these is off while the others change something and admit a
/// seventh. Then those four are lost, and who missed it all is what is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_goes_on_from_a_copy_that_missed_the_last_changes() -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(7)?;
    lan.start()?;
    let token = lan.found(1)?;
    lan.join(&[2, 3, 4, 5, 6], &token)?;
    let six = Watch::new(&lan, 1..=6);
    let five = |views: &[View]| {
        views
            .iter()
            .all(|view| voters(view) == voters(&views[0]) && voters(view).len() == 5)
    };
    let views = six.seen("five vote", LIMIT, five).await?;
    applied(lan.node(1), &rules("One"), &["--now"])?;
    let leader = leading(&lan, 7).await?;
    let voting = voters(views.first().context("no view")?);
    let number = |name: &str| name[1..].parse::<usize>();
    let voting: Vec<usize> = voting.into_iter().map(number).collect::<Result<_, _>>()?;
    // The first one is where others join.
    let late = *voting
        .iter()
        .find(|it| ![1, leader].contains(it))
        .context("no other voter")?;
    let other = (1..=6)
        .find(|it| !voting.contains(it))
        .context("all vote")?;
    lan.node_mut(late).stop()?;
    applied(lan.node(leader), &rules("Two"), &["--now", "--base", "1"])?;
    lan.node(leader)
        .prints(&["cordon", &lan.node(other).name(), "--reason", "odd"])?;
    lan.join(&[7], &token)?;
    let left = Watch::new(&lan, [other, 7]);
    let two = |view: &View| document(view)["here"]["active"] == 2 && view.members().len() == 7;
    left.each("the second rules", LIMIT, two).await?;

    let lost: Vec<usize> = voting.into_iter().filter(|it| *it != late).collect();
    for node in &lost {
        lan.node_mut(*node).kill()?;
    }
    lan.node_mut(late).start()?;
    let three = Watch::new(&lan, [late, other, 7]);
    three.each("the second rules", LIMIT, two).await?;
    let plan = plan(lan.node(other), &[])?;
    let names: BTreeSet<String> = lost.iter().map(|it| lan.node(*it).name()).collect();
    let missing = plan["missing"].as_array().into_iter().flatten();
    let missing: Vec<&str> = missing.filter_map(|name| name.as_str()).collect();
    let from = lan.node(late).name();
    let named: BTreeSet<String> = missing.iter().map(ToString::to_string).collect();
    ensure!(named == names, "{plan}");
    ensure!(plan["from"] == from && plan["vc"].is_null(), "{plan}");
    let told = lan.node(7).prints(&["cluster", "recover"])?;
    let all = missing.join(",");
    ensure!(told.contains(&format!("recover --lost {all}")), "{told}");
    let few = ["cluster", "recover", "--lost", missing[0]];
    let refused = lan.node(other).refused(&few, 4)?;
    ensure!(refused.contains(missing[3]), "{refused}");

    let begun = Instant::now();
    lan.node(other)
        .prints(&["cluster", "recover", "--lost", &all])?;
    let refused = lan.node(late).refused(&["cluster", "recover"], 4)?;
    println!("{refused}");
    let again = |view: &View| voters(view).len() == 3 && view.0["cluster"]["generation"] == 2;
    three.each("those that are left vote", LIMIT, again).await?;
    println!("three vote {:?} after it was recovered", begun.elapsed());
    // What the copy had missed is known all the same, and counts on.
    let again = |view: &View| document(view)["here"]["active"] == 100;
    three.each("the second rules again", LIMIT, again).await?;
    let text = lan.node(7).prints(&["rules", "show"])?;
    ensure!(text.contains("Two"), "{text}");
    applied(lan.node(7), &rules("Three"), &["--now", "--base", "100"])?;
    let closed = |view: &View| {
        let member = view.member(&lan.node(other).name()).clone();
        member["scheduling"]["mode"] == "cordoned" && view.members().len() == 7
    };
    three.each("the cordon", LIMIT, closed).await?;
    lan.node(late)
        .prints(&["cordon", "n7", "--reason", "it is known"])?;

    // Those that were lost come back, all at once, with most votes of what was.
    for node in &lost {
        lan.node_mut(*node).start()?;
    }
    let all = everywhere(&lan);
    all.agree(7, LIMIT).await?;
    let five = |view: &View| {
        voters(view).len() == 5
            && view.0["cluster"]["generation"] == 2
            && document(view)["here"]["active"] == 101
    };
    all.each("five vote again", LIMIT, five).await?;
    lan.token(lost[0], &[])?;
    let page = lan.node(lost[1]).prints(&["cluster", "status"])?;
    ensure!(page.contains("any 2 may fail"), "{page}");
    Ok(())
}
