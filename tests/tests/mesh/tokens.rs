//! Tokens that admit nobody.

use std::time::Instant;

use anyhow::{Result, ensure};
use muster_tests::net::{Lan, View, Watch, missing};

use super::LIMIT;

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_do_not_admit_say_why() -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(4)?;
    lan.start()?;
    let good = lan.found(1)?;
    let foreign = lan.found(4)?;
    let passing = lan.token(1, &["--expires", "1s"])?;
    let made = Instant::now();
    let revoked = lan.token(1, &[])?;
    lan.node(1)
        .prints(&["cluster", "token", "revoke", &revoked])?;
    let used = lan.token(1, &["--uses", "1"])?;
    lan.join(&[2], &used)?;
    let (wrong, unknown) = (with_another(&good, 1), with_another(&good, 0));
    tokio::time::sleep((std::time::Duration::from_secs(2)).saturating_sub(made.elapsed())).await;
    let address = lan.node(1).address().to_string();
    for (token, expect) in [
        ("nonsense", "3 parts"),
        (&wrong, "secret is wrong"),
        (&unknown, "does not know this token"),
        (&foreign, "belongs to cluster"),
        (&passing, "expired"),
        (&revoked, "revoked"),
        (&used, "used up"),
    ] {
        let join = ["cluster", "join", &address, token];
        let text = lan.node(3).refused(&join, 4)?;
        let said = text.to_lowercase();
        ensure!(said.contains(expect), "{expect} is not in: {text}");
        // What is shown on a terminal is no place for a secret.
        let secret = token.split('.').nth(1).unwrap_or(token);
        ensure!(!text.contains(secret), "{text}");
    }
    let nobody = ["cluster", "join", "10.77.9.9", &good];
    let start = Instant::now();
    let text = lan.node(3).refused(&nobody, 4)?;
    ensure!(text.contains("10.77.9.9"), "{text}");
    println!("nobody there: refused after {:?}", start.elapsed());
    let alone = |view: &View| view.0["solo"] == true && view.alive() == 1;
    Watch::new(&lan, [3])
        .each("n3 is still on its own", LIMIT, alone)
        .await?;
    let listed = lan.node(1).prints(&["cluster", "token", "list"])?;
    for expect in ["expired", "revoked", "used up", "valid"] {
        ensure!(listed.contains(expect), "{expect} is not in {listed}");
    }
    let refused = Watch::new(&lan, [1]);
    let counted = |view: &View| view.counters("join") > 0;
    refused.each("refusals are counted", LIMIT, counted).await?;
    lan.join(&[3], &good)?;
    Watch::new(&lan, 1..=3).agree(3, LIMIT).await?;
    let other = |view: &View| view.alive() == 1;
    Watch::new(&lan, [4])
        .each("n4 is alone", LIMIT, other)
        .await?;
    Ok(())
}

/// The token with the first letter of one of its parts changed.
fn with_another(token: &str, part: usize) -> String {
    let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
    let first = if parts[part].starts_with('a') {
        "b"
    } else {
        "a"
    };
    parts[part].replace_range(..1, first);
    parts.join(".")
}
