//! What one task was given, and where it stands.

use muster_model::exit::Verdict;
use muster_model::id::{AttemptUid, JobKey, VcName};
use muster_model::node::{DeviceId, NodeTask};
use muster_model::time::Time;
use muster_model::view::TaskHold;
use serde::{Deserialize, Serialize};

use super::reserve::ReserveRequest;
use crate::gang::GangRun;
use crate::lease::{LeaseTime, Leased};
use crate::order::{ReserveAsk, RunMember, TaskHolding, TaskPorts, TaskStanding};

/// One task's share of the node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TaskGrant {
    pub(super) vc: VcName,
    pub(super) job: JobKey,
    pub(super) run: GangRun,
    pub(super) member: RunMember,
    pub(super) cpu: u32,
    pub(super) memory_mb: u64,
    pub(super) devices: Vec<(u32, DeviceId)>,
    pub(super) leaves: Vec<u32>,
    pub(super) ports: TaskPorts,
    /// Whether the node ends it for whoever was promised what it uses.
    pub(super) evictable: bool,
    /// Tasks that have to go before it can be held; those that are gone count no more.
    pub(super) victims: Vec<AttemptUid>,
    /// It was told to give way, which no later agent takes back.
    pub(super) is_evicted: bool,
    /// By which it is held, once it is.
    pub(super) lease: Option<LeaseTime>,
    /// It was granted in this life of the agent.
    #[serde(skip)]
    pub(super) fresh: bool,
    /// Whose place it was in the round before, if it kept one in this life of the agent.
    #[serde(skip)]
    pub(super) before: Option<AttemptUid>,
    /// The container of an earlier round that is there still. Nothing is created before it is gone.
    #[serde(skip)]
    pub(super) clears: Option<AttemptUid>,
    /// It has failed, and its container is kept. Each life of the agent hears of that anew.
    #[serde(skip)]
    pub(super) on_hold: Option<Box<TaskHold>>,
    pub(super) state: GrantState,
}

/// Where a grant stands. Free has no grant; a sick device is simply not free.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum GrantState {
    /// Set aside until `expires`.
    Reserved { expires: Time },
    /// As reserved, but for what its victims still use. They have heard nothing of it.
    Claimed { expires: Time },
    /// Its placement is committed, and its victims were told to give way.
    Evicting,
    /// Carries out a committed placement.
    Held(HeldPhase),
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
pub(super) enum HeldPhase {
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

impl TaskGrant {
    pub(super) fn reserve(
        request: &ReserveRequest<'_>,
        ask: &ReserveAsk,
        ports: TaskPorts,
    ) -> Self {
        Self {
            vc: request.vc.clone(),
            job: request.job.clone(),
            run: request.run.clone(),
            member: ask.member.clone(),
            cpu: ask.cpu,
            memory_mb: ask.memory_mb,
            devices: ask.devices.clone(),
            leaves: ask.leaves.clone(),
            ports,
            evictable: request.evictable,
            victims: Vec::new(),
            is_evicted: false,
            lease: None,
            fresh: true,
            before: None,
            clears: None,
            on_hold: None,
            state: GrantState::Reserved {
                expires: Time::default(),
            },
        }
    }

    /// Whether it is of an earlier round of the same attempt.
    pub(super) fn is_of_earlier_round(&self, run: &GangRun) -> bool {
        let own = &self.run;
        (&own.gang, own.attempt) == (&run.gang, run.attempt) && own.round < run.round
    }

    /// Whether its resources are in use.
    pub(super) const fn occupies(&self) -> bool {
        !self.claims() && !matches!(self.state, GrantState::Ended { gone: true, .. })
    }

    /// Whether it waits for others to give its resources back.
    pub(super) const fn claims(&self) -> bool {
        matches!(
            self.state,
            GrantState::Claimed { .. } | GrantState::Evicting
        )
    }

    /// Whether it was set aside or claimed in an earlier life of the agent and is not held yet. A lease
    /// counts from the grant, and when that was that life knew.
    pub(super) const fn is_from_earlier_life(&self) -> bool {
        (self.claims() || self.expires().is_some()) && !self.fresh
    }

    /// Whether it ends by itself unless it is launched.
    pub(super) const fn expires(&self) -> Option<Time> {
        match self.state {
            GrantState::Reserved { expires } | GrantState::Claimed { expires } => Some(expires),
            GrantState::Evicting
            | GrantState::Held(_)
            | GrantState::Draining
            | GrantState::Ended { .. } => None,
        }
    }

    /// What it uses, for leaders of other virtual clusters.
    pub(super) fn holding(&self) -> Option<TaskHolding> {
        self.occupies().then(|| TaskHolding {
            job: self.job.clone(),
            leaves: self.leaves.clone(),
            devices: self.devices.iter().map(|(index, _)| *index).collect(),
            cpu: self.cpu,
            memory_mb: self.memory_mb,
            ports: self.port_count(),
            evictable: self.evictable,
        })
    }

    fn port_count(&self) -> u32 {
        let ports = self.ports.iter().map(|(_, ports)| ports.len());
        u32::try_from(ports.sum::<usize>()).unwrap_or(u32::MAX)
    }

    /// The lease that it holds by, or may come to, while there may be something that the lease's
    /// end would end.
    pub(super) fn leased(&self) -> Option<Leased> {
        let counts = match self.state {
            GrantState::Reserved { .. } | GrantState::Claimed { .. } => self.fresh,
            GrantState::Evicting => self.fresh && self.lease.is_some(),
            GrantState::Held(_) | GrantState::Draining => self.lease.is_some(),
            GrantState::Ended { .. } => false,
        };
        counts.then(|| Leased {
            uid: self.member.uid.clone(),
            vc: self.vc.clone(),
            lease: self.lease,
            before: self.before.clone(),
        })
    }

    pub(super) fn standing(&self) -> TaskStanding {
        match &self.state {
            GrantState::Reserved { .. } | GrantState::Claimed { .. } => TaskStanding::Reserved,
            GrantState::Held(HeldPhase::Absent) => TaskStanding::Absent,
            GrantState::Evicting
            | GrantState::Held(HeldPhase::Adopting { .. } | HeldPhase::Starting { .. }) => {
                TaskStanding::Starting
            }
            GrantState::Held(HeldPhase::Ready) => TaskStanding::Ready,
            GrantState::Held(HeldPhase::Running) => match &self.on_hold {
                Some(hold) => TaskStanding::OnHold(hold.clone()),
                None => TaskStanding::Running,
            },
            GrantState::Draining if self.is_evicted => TaskStanding::Evicted,
            GrantState::Draining => TaskStanding::Stopping,
            GrantState::Ended { verdict, .. } => TaskStanding::Ended(verdict.clone()),
        }
    }

    pub(super) fn view(&self) -> NodeTask {
        let state = match self.state {
            GrantState::Reserved { .. } => "Reserved",
            GrantState::Claimed { .. } | GrantState::Evicting => "Claimed",
            GrantState::Held(_) => "Held",
            GrantState::Draining | GrantState::Ended { gone: false, .. } => "Draining",
            GrantState::Ended { gone: true, .. } => "Free",
        };
        NodeTask {
            job: self.job.to_string(),
            vc: self.vc.clone(),
            task: self.member.task.to_string(),
            uid: self.member.uid.to_string(),
            state: state.to_owned(),
            devices: self.devices.iter().map(|(index, _)| *index).collect(),
            cpu: self.cpu,
            memory_mb: self.memory_mb,
        }
    }
}
