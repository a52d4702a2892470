//! A build that is measured: its program, in a home that deploy/bench.sh prepared.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use muster_tests::agent::Agent;
use serde::Deserialize;
use serde_json::Value;

/// What deploy/bench.sh says of a home, in its `bench.json`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Build {
    /// The `muster` binary.
    pub(crate) muster: PathBuf,
    /// The home that the file is in.
    #[serde(skip)]
    pub(crate) home: PathBuf,
    /// Where the home's agent listens.
    pub(crate) url: String,
    /// containerd's socket.
    pub(crate) containerd: PathBuf,
    /// The agent's namespace there.
    pub(crate) namespace: String,
}

impl Build {
    /// The build of a home.
    ///
    /// # Errors
    /// When deploy/bench.sh did not prepare the home.
    pub(crate) fn of(home: &Path) -> Result<Self> {
        let path = home.join("bench.json");
        let text = std::fs::read(&path)
            .with_context(|| format!("{}: run sh deploy/bench.sh", path.display()))?;
        let build: Self = serde_json::from_slice(&text)?;
        Ok(Self {
            home: home.to_owned(),
            ..build
        })
    }

    /// Its agent, started.
    ///
    /// # Errors
    /// As [`Agent::start`].
    pub(crate) fn start(&self) -> Result<Agent> {
        Agent::start(&self.muster, &self.home, &self.url)
    }

    /// Its command line with these words, for the agent of its home.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.muster);
        command.args(words).env("MUSTER_HOME", &self.home);
        command
    }

    /// What makes its containers, as `muster node show` says.
    ///
    /// # Errors
    /// When its agent or the engine does not answer.
    pub(crate) fn engine(&self) -> Result<String> {
        let output = self.command(&["node", "show", "-o", "json"]).output()?;
        let node: Value = serde_json::from_slice(&output.stdout)?;
        let engine = node["engine"]["Ok"].as_str();
        Ok(engine.context("the engine does not answer")?.to_owned())
    }
}
