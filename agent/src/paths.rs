//! Where an agent keeps its things. With `MUSTER_HOME` set, everything lies under it.

use std::path::{Path, PathBuf};

/// The environment variable that moves all of an agent's paths.
pub(crate) const HOME_VARIABLE: &str = "MUSTER_HOME";

/// The files and directories of one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paths {
    /// `agent.toml`.
    pub(crate) config: PathBuf,
    /// Everything that must outlive the agent.
    pub(crate) state: PathBuf,
    /// The socket that root talks to.
    pub(crate) socket: PathBuf,
    /// The files that tell other exporters which job has which GPU.
    pub(crate) gpu_jobs: PathBuf,
}

impl Paths {
    /// The paths under `home`, or the system's own without one.
    pub(crate) fn new(home: Option<&Path>) -> Self {
        match home {
            Some(home) => Self {
                config: home.join("agent.toml"),
                state: home.join("state"),
                socket: home.join("agent.sock"),
                gpu_jobs: home.join("gpu-jobs"),
            },
            None => Self {
                config: "/etc/muster/agent.toml".into(),
                state: "/var/lib/muster".into(),
                socket: "/run/muster/agent.sock".into(),
                gpu_jobs: "/run/muster/gpu-jobs".into(),
            },
        }
    }

    /// The logs of all groups that have a copy here.
    pub(crate) fn log(&self) -> PathBuf {
        self.state.join("log.redb")
    }

    /// What the node keeps of the clusters that it is a member of.
    pub(crate) fn mesh(&self) -> PathBuf {
        self.state.join("mesh")
    }

    /// The node ledger.
    pub(crate) fn ledger(&self) -> PathBuf {
        self.state.join("ledger.redb")
    }

    /// The faults of this node's parts, with the place up to which the kernel's log was read.
    pub(crate) fn health(&self) -> PathBuf {
        self.state.join("health.json")
    }

    /// What the machine should have.
    pub(crate) fn accepted(&self) -> PathBuf {
        self.state.join("accepted.json")
    }

    /// The failures of this node's tasks, for tests of failure rules.
    pub(crate) fn failures(&self) -> PathBuf {
        self.state.join("failures")
    }

    /// One directory per task attempt: sockets, logs, exit.
    pub(crate) fn tasks(&self) -> PathBuf {
        self.state.join("tasks")
    }

    /// The admin's first password, readable by root alone.
    pub(crate) fn admin_password(&self) -> PathBuf {
        self.state.join("admin-password")
    }

    /// The certificate of the REST API.
    pub(crate) fn rest_certificate(&self) -> PathBuf {
        self.state.join("rest.crt")
    }

    /// Its key.
    pub(crate) fn rest_key(&self) -> PathBuf {
        self.state.join("rest.key")
    }

    /// The lock that keeps a second agent out.
    pub(crate) fn lock(&self) -> PathBuf {
        self.state.join("agent.lock")
    }
}
