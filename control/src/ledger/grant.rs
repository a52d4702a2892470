//! What one task was given, and where it stands.

use muster_model::exit::Verdict;
use muster_model::id::{JobKey, VcName};
use muster_model::node::{DeviceId, NodeTask};
use muster_model::time::Time;
use serde::{Deserialize, Serialize};

use crate::gang::Run;
use crate::lease::{Lease, Leased};
use crate::order::{Ask, Member, Ports, Standing};

/// One task's share of the node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Grant {
    pub(super) vc: VcName,
    pub(super) job: JobKey,
    pub(super) run: Run,
    pub(super) member: Member,
    pub(super) cpu: u32,
    pub(super) memory_mb: u64,
    pub(super) devices: Vec<(u32, DeviceId)>,
    pub(super) ports: Ports,
    /// By which it is held, once it is.
    pub(super) lease: Option<Lease>,
    /// It was granted in this life of the agent.
    #[serde(skip)]
    pub(super) fresh: bool,
    pub(super) state: State,
}

/// Where a grant stands. Free has no grant; a sick device is simply not free.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum State {
    /// Set aside until `expires`.
    Reserved { expires: Time },
    /// Carries out a committed placement.
    Held(Phase),
    /// Told to end; its processes may still be there.
    Draining,
    /// Its exit waits to be committed. Holds its resources until `gone`.
    Ended {
        verdict: Box<Verdict>,
        gone: bool,
        settled: bool,
    },
}

/// How far a held task has come, as this agent life knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// Held by an earlier life; the executor is looking for it.
    Adopting { go: bool },
    /// Looked for and not found.
    Absent,
    /// On its way to Ready.
    Starting { go: bool },
    /// Waits for Go.
    Ready,
    /// Go was given.
    Running,
}

impl Grant {
    pub(super) fn reserve(vc: &VcName, job: &JobKey, run: &Run, ask: &Ask, ports: Ports) -> Self {
        Self {
            vc: vc.clone(),
            job: job.clone(),
            run: run.clone(),
            member: ask.member.clone(),
            cpu: ask.cpu,
            memory_mb: ask.memory_mb,
            devices: ask.devices.clone(),
            ports,
            lease: None,
            fresh: true,
            state: State::Reserved {
                expires: Time::default(),
            },
        }
    }

    /// Whether its resources are in use.
    pub(super) const fn occupies(&self) -> bool {
        !matches!(self.state, State::Ended { gone: true, .. })
    }

    /// The lease that it holds by, or may come to, while there may be something that the lease's
    /// end would end.
    pub(super) fn leased(&self) -> Option<Leased> {
        let counts = match self.state {
            State::Reserved { .. } => self.fresh,
            State::Held(_) | State::Draining => self.lease.is_some(),
            State::Ended { .. } => false,
        };
        counts.then(|| Leased {
            uid: self.member.uid.clone(),
            vc: self.vc.clone(),
            lease: self.lease,
        })
    }

    pub(super) fn standing(&self) -> Standing {
        match &self.state {
            State::Reserved { .. } => Standing::Reserved,
            State::Held(Phase::Absent) => Standing::Absent,
            State::Held(Phase::Adopting { .. } | Phase::Starting { .. }) => Standing::Starting,
            State::Held(Phase::Ready) => Standing::Ready,
            State::Held(Phase::Running) => Standing::Running,
            State::Draining => Standing::Stopping,
            State::Ended { verdict, .. } => Standing::Ended(verdict.clone()),
        }
    }

    pub(super) fn view(&self) -> NodeTask {
        let state = match self.state {
            State::Reserved { .. } => "Reserved",
            State::Held(_) => "Held",
            State::Draining | State::Ended { gone: false, .. } => "Draining",
            State::Ended { gone: true, .. } => "Free",
        };
        NodeTask {
            job: self.job.to_string(),
            task: self.member.task.to_string(),
            uid: self.member.uid.to_string(),
            state: state.to_owned(),
            devices: self.devices.iter().map(|(index, _)| *index).collect(),
            cpu: self.cpu,
            memory_mb: self.memory_mb,
        }
    }
}
