//! A short attack: the long ones are made by `deploy/nemesis.sh`.

use std::time::Duration;

use anyhow::{Result, ensure};
use muster_tests::nemesis::{HarmKind, RunPlan, run};

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_cluster_under_attack_keeps_its_word() -> Result<()> {
    let plan = RunPlan {
        seed: 5,
        nodes: 5,
        length: Duration::from_secs(45),
        longest: Duration::from_secs(8),
        kinds: vec![
            HarmKind::Kill,
            HarmKind::Pause,
            HarmKind::CutNode,
            HarmKind::CutOneWay,
            HarmKind::CutLeader,
            HarmKind::Halves,
            HarmKind::FullDisk,
        ],
        rate: 2.0,
    };
    let Some((report, _)) = run(&plan).await? else {
        return Ok(());
    };
    println!("{report}");
    ensure!(report.clean(), "{:#?}", report.violations);
    ensure!(report.accepted > 0 && report.runs > 0, "{report}");
    Ok(())
}
