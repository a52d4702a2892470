//! A machine that was copied with its key.

use anyhow::Result;
use muster_tests::net::{Lan, View, Watch, missing};

use super::LIMIT;

#[tokio::test(flavor = "multi_thread")]
async fn a_copied_key_is_noticed_and_shown() -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(4)?;
    for number in 1..=3 {
        lan.node_mut(number).start()?;
    }
    let token = lan.found(1)?;
    lan.join(&[2, 3], &token)?;
    Watch::new(&lan, 1..=3).agree(3, LIMIT).await?;
    lan.node_mut(3).stop()?;
    lan.copy_home(3, 4)?;
    lan.node_mut(3).start()?;
    Watch::new(&lan, 1..=3).agree(3, LIMIT).await?;
    lan.node_mut(4).start()?;
    let shown = |view: &View| {
        view.0["cloned"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
    };
    let both = Watch::new(&lan, [3, 4]);
    let time = both.each("the copy is noticed", LIMIT, shown).await?;
    println!("a copied key is noticed on both after {time:?}");
    let text = lan.node(3).refused(&["cluster", "status"], 1)?;
    assert!(text.contains("cloned"), "{text}");
    // The others go on.
    let fine = |view: &View| view.state("n1") == "alive" && view.state("n2") == "alive";
    let rest = Watch::new(&lan, [1, 2]);
    let a_while = std::time::Duration::from_secs(3);
    rest.always("the others are well", a_while, fine).await?;
    Ok(())
}
