//! Slurm's scripts and commands, through the whole product.

use anyhow::{Context as _, Result, ensure};
use muster_tests::home;

use crate::stage::{SIMULATED, Stage};

const RANKS: &str = "\
#!/bin/sh
#SBATCH --job-name=ranks --output=%x-%j.out
#SBATCH -N 2 --ntasks-per-node=2
#SBATCH --gpus-per-node=v100:2 --mem=64M --time=5
master=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)
srun sh -c \"echo rank \\$SLURM_PROCID of \\$SLURM_NTASKS by $master\"
";

/// Exit code and stdout of a command; what it says on stderr is shown when the test fails.
fn slurm(stage: &Stage, words: &[&str]) -> Result<(Option<i32>, String)> {
    let words: Vec<&str> = ["slurm"].into_iter().chain(words.iter().copied()).collect();
    let output = stage.home.muster(&words)?;
    eprint!("{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok((output.status.code(), String::from_utf8(output.stdout)?))
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_script_of_slurm_runs_as_it_is() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::with(SIMULATED).await?;
    let script = stage.home.path().join("ranks.sh");
    std::fs::write(&script, RANKS)?;
    let script = script.to_str().context("a path")?;
    let image = ["sbatch", "--image", "muster/busybox"];

    let words = [&image[..], &["--parsable", "--wait", script]].concat();
    let (code, number) = slurm(&stage, &words)?;
    ensure!(code == Some(0), "{code:?}");
    let job = format!("ranks-{}", number.trim());
    let logs = stage.home.muster(&["job", "logs", &job])?;
    let logs = String::from_utf8(logs.stdout)?;
    let mut lines: Vec<&str> = logs.lines().collect();
    lines.sort_unstable();
    let node = home::NODE;
    let expect = [(0, 0), (0, 1), (1, 2), (1, 3)]
        .map(|(index, rank)| format!("main:{index} | rank {rank} of 4 by {node}"));
    ensure!(lines == expect, "{logs}");

    let words = [
        &image[..],
        &["--parsable", "--mem=64M", "--wrap", "sleep 600"],
    ]
    .concat();
    let (_, number) = slurm(&stage, &words)?;
    let number = number.trim();
    let active = ["squeue", "-h", "-o", "%i %j %u", "-j", number];
    let (_, shown) = slurm(&stage, &active)?;
    ensure!(shown == format!("{number} wrap admin\n"), "{shown}");
    let (code, _) = slurm(&stage, &["scancel", number])?;
    ensure!(code == Some(0), "{code:?}");
    let name = format!("wrap-{number}");
    stage.home.muster(&["job", "wait", &name])?;
    let (code, shown) = slurm(&stage, &active)?;
    ensure!((code, &shown[..]) == (Some(0), ""), "{shown}");
    stage.holds_nothing().await
}
