//! `muster-nemesis`: a cluster of real agents is attacked while it is used. Prints one JSON line;
//! exit code 1 if anything was as it must not be, 2 if no cluster could be made.
//! `deploy/nemesis.sh` installs what it needs, builds and runs it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum as _};
use muster_tests::nemesis::{HarmKind, RunPlan, run};
use tokio::signal::unix::{SignalKind, signal};

/// Attacks a cluster of this machine's own.
#[derive(Debug, Parser)]
struct NemesisArguments {
    /// How long faults are made, in minutes.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// What all randomness comes from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many nodes.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(3..=50))]
    nodes: u8,
    /// Which faults, with commas between. Default: all.
    #[arg(long, value_enum, value_delimiter = ',')]
    faults: Vec<HarmKind>,
    /// How long one fault lasts at most, in seconds.
    #[arg(long, default_value_t = 60)]
    longest: u64,
    /// Questions a second.
    #[arg(long, default_value_t = 2.0)]
    rate: f64,
    /// Where to write the history, as JSON.
    #[arg(long)]
    history: Option<PathBuf>,
}

impl NemesisArguments {
    fn plan(&self) -> RunPlan {
        let kinds = match self.faults.as_slice() {
            [] => HarmKind::value_variants().to_vec(),
            kinds => kinds.to_vec(),
        };
        RunPlan {
            seed: self.seed,
            nodes: usize::from(self.nodes),
            length: Duration::from_secs_f64(self.minutes.max(0.0) * 60.0),
            longest: Duration::from_secs(self.longest),
            kinds,
            rate: self.rate.max(0.01),
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = NemesisArguments::parse();
    // Whatever was begun is taken down when it is dropped.
    let done = tokio::select! {
        done = attack(&arguments) => done,
        ended = ended() => ended.and(Err(anyhow::anyhow!("interrupted"))),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

async fn attack(arguments: &NemesisArguments) -> Result<ExitCode> {
    let done = run(&arguments.plan()).await?;
    let (report, history) = done.context("a cluster needs root, containerd and namespaces")?;
    if let Some(path) = &arguments.history {
        let text = serde_json::to_string(&history)?;
        std::fs::write(path, text).with_context(|| format!("{}", path.display()))?;
    }
    println!("{report}");
    Ok(ExitCode::from(u8::from(!report.clean())))
}

/// Waits until somebody wants this to end.
async fn ended() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = tokio::signal::ctrl_c() => done?,
        _ = terminate.recv() => {}
    }
    Ok(())
}
