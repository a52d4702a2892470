//! What users are shown of the state.

use std::collections::BTreeSet;

use muster_model::cluster_spec::CPU_LEAF_FIRST;
use muster_model::id::{JobKey, NodeId, TaskId};
use muster_model::job::{Partition, Resources, RoleSpec};
use muster_model::sight::JobSight;
use muster_model::state::{EXIT_ATTEMPT_COMPLETED, EXIT_STOPPED, SubState};
use muster_model::vc::Amount;
use muster_model::view::{
    AttemptView, JobDetail, JobEvent, JobSummary, NodeLease, PartitionView, Retries, RoleView,
    RunLease, RunLimitView, TaskAttemptView, TaskView,
};
use serde::{Deserialize, Serialize};

use super::attempt::{AttemptGang, AttemptRecord, GangPhase, TaskAttempt, TaskRecord};
use super::job::JobRecord;
use super::last_end::last_end;
use super::retry::Count;
use super::{Current, VcState};
use crate::gang::named_uid;

/// The label of the port that a task's SSH server has.
const SSH_PORT: &str = "ssh";

/// What a query asked for is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum NotFound {
    /// No such job.
    #[error("job {0} is not found")]
    Job(JobKey),
    /// The job has no such attempt, or no longer.
    #[error("attempt {attempt} is not found in {job}")]
    Attempt {
        /// The job.
        job: JobKey,
        /// The attempt.
        attempt: u32,
    },
    /// The attempt has no such task.
    #[error("task {task} is not found in {job}")]
    Task {
        /// The job.
        job: JobKey,
        /// The task.
        task: TaskId,
    },
}

impl VcState {
    /// One job's summary.
    pub fn summary(&self, key: &JobKey) -> Option<JobSummary> {
        let id = self.job_id(key)?;
        let finished = self.finished.get(&id).map(|job| job.summary.clone());
        finished.or_else(|| self.jobs.get(&id).map(|job| summary(job)))
    }

    /// The images of every job that has not ended, as the jobs name them.
    pub fn images_wanted(&self) -> BTreeSet<String> {
        let roles = self.jobs.values().flat_map(|job| &job.accepted.spec.roles);
        roles.map(|role| role.image.clone()).collect()
    }

    /// What the tasks that may be running asked for, together.
    pub fn used(&self) -> Amount {
        let mut used = Amount::default();
        for Current { job, gang, .. } in self.live() {
            for task in job
                .attempt
                .tasks_of(gang)
                .filter(|task| task.live().is_some())
            {
                let mut roles = job.accepted.spec.roles.iter();
                let role = roles.find(|role| role.name == task.id.role);
                used = used.plus(role.map(|role| asked(&role.resources)).unwrap_or_default());
            }
        }
        used
    }

    /// A job at an attempt, the latest if none is named.
    ///
    /// # Errors
    /// When there is no such job or attempt.
    pub fn detail(&self, key: &JobKey, attempt: Option<u32>) -> Result<JobDetail, NotFound> {
        self.with_job(key, |job, summary| {
            let id = attempt.unwrap_or(job.attempt.id);
            let found = find_attempt(job, id).ok_or_else(|| NotFound::Attempt {
                job: key.clone(),
                attempt: id,
            })?;
            let placed = found.created.is_some() || found.outcome.is_some();
            Ok(JobDetail {
                summary,
                attempt: placed.then(|| attempt_view(job, found)),
                roles: if placed {
                    role_views(job, found)
                } else {
                    Vec::new()
                },
                partition: job.completed.is_none().then(|| partition(job)),
                run_limit: run_limit(job),
                warnings: job.accepted.spec.warnings.clone(),
            })
        })
    }

    /// One task of an attempt.
    ///
    /// # Errors
    /// When there is no such job, attempt or task.
    pub fn task(&self, key: &JobKey, attempt: u32, task: &TaskId) -> Result<TaskView, NotFound> {
        self.with_job(key, |job, _| {
            let found = find_attempt(job, attempt).ok_or_else(|| NotFound::Attempt {
                job: key.clone(),
                attempt,
            })?;
            let view = found.tasks.iter().find(|known| known.id == *task);
            let view = view.map(|known| task_view(job, found, known));
            view.ok_or_else(|| NotFound::Task {
                job: key.clone(),
                task: task.clone(),
            })
        })
    }

    /// What happened to a job, oldest first.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn events(&self, key: &JobKey) -> Result<Vec<JobEvent>, NotFound> {
        self.with_job(key, |job, _| Ok(job.events()))
    }

    /// The same for a user: a job that this one gave way to is named if they see it.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn events_for(&self, key: &JobKey, sight: &JobSight) -> Result<Vec<JobEvent>, NotFound> {
        self.with_job(key, |job, _| {
            let mut events = job.events();
            for event in &mut events {
                job.hide_name(&mut event.message, sight);
            }
            Ok(events)
        })
    }

    /// The job's document as submitted, as JSON, secrets masked.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn config(&self, key: &JobKey) -> Result<String, NotFound> {
        self.with_job(key, |job, _| {
            Ok(job.accepted.document.config_json().unwrap_or_default())
        })
    }

    fn with_job<T>(
        &self,
        key: &JobKey,
        read: impl FnOnce(&JobRecord, JobSummary) -> Result<T, NotFound>,
    ) -> Result<T, NotFound> {
        let missing = || NotFound::Job(key.clone());
        let id = self.job_id(key).ok_or_else(missing)?;
        if let Some(job) = self.jobs.get(&id) {
            return read(job, summary(job));
        }
        let finished = self.finished.get(&id).ok_or_else(missing)?;
        let job = finished.unpack().ok_or_else(missing)?;
        read(&job, finished.summary.clone())
    }
}

pub(super) fn summary(job: &JobRecord) -> JobSummary {
    let spec = &job.accepted.spec;
    let waits = job.attempt.created.is_none() && job.attempt.outcome.is_none();
    let not_before = job
        .attempt
        .gangs
        .iter()
        .map(|gang| gang.pause.until_ms)
        .min();
    JobSummary {
        key: job.accepted.key.clone(),
        sub_state: sub_state(job),
        exit_code: exit_code(job),
        execution_type: job.execution,
        tags: job.tags.clone(),
        retries: retries(job.retries),
        retry_at: not_before.filter(|at| waits && *at > 0),
        last_end: last_end(job).map(Box::new),
        submitted: job.accepted.submitted_ms,
        created: job.created,
        launched: job.launched,
        attempt_launched: job.attempt.launched,
        completed: job.completed,
        vc: spec.vc.clone(),
        gpus: spec.gpu_count(),
        gpus_idle: gpus_idle(job),
        tasks: spec.task_count(),
        tasks_failed: tasks_failed(&job.attempt),
        roles: u32::try_from(spec.roles.len()).unwrap_or(u32::MAX),
        priority: spec.priority,
        waiting_for: None,
    }
}

/// Devices of the cells that tasks are on, beyond those that they asked for.
fn gpus_idle(job: &JobRecord) -> u32 {
    let each = job.attempt.tasks.iter().filter_map(|task| {
        let mut roles = job.accepted.spec.roles.iter();
        let asked = roles.find(|role| role.name == task.id.role)?.resources.gpu;
        let leaves = task.live()?.leaves.iter();
        let devices = leaves.filter(|leaf| **leaf < CPU_LEAF_FIRST).count();
        Some(
            u32::try_from(devices)
                .unwrap_or(u32::MAX)
                .saturating_sub(asked),
        )
    });
    each.fold(0, u32::saturating_add)
}

/// Tasks that have ended for good, by themselves and otherwise than well.
fn tasks_failed(attempt: &AttemptRecord) -> u32 {
    let is_well = |code: i32| [0, EXIT_STOPPED, EXIT_ATTEMPT_COMPLETED].contains(&code);
    let failed = attempt.ended().filter(|(_, end)| !is_well(end.code()));
    u32::try_from(failed.count()).unwrap_or(u32::MAX)
}

const fn asked(resources: &Resources) -> Amount {
    Amount {
        cpu: resources.cpu,
        memory_mb: resources.memory_mb,
        gpu: resources.gpu,
    }
}

fn retries(count: Count) -> Retries {
    Retries {
        total: count.total,
        accountable: count.charged,
    }
}

pub(super) fn exit_code(job: &JobRecord) -> Option<i32> {
    let outcome = job.attempt.outcome.as_ref();
    outcome.map(|outcome| outcome.verdict.code())
}

pub(super) fn sub_state(job: &JobRecord) -> SubState {
    if job.completed.is_some() {
        return SubState::Completed;
    }
    attempt_state(&job.attempt)
}

fn attempt_state(attempt: &AttemptRecord) -> SubState {
    match attempt {
        AttemptRecord {
            completed: Some(_), ..
        } => SubState::AttemptCompleted,
        AttemptRecord {
            outcome: Some(_), ..
        } => SubState::AttemptDeleting,
        AttemptRecord {
            launched: Some(_), ..
        } => SubState::AttemptRunning,
        AttemptRecord {
            created: Some(_), ..
        } => SubState::AttemptPreparing,
        _ => SubState::AttemptCreationPending,
    }
}

fn find_attempt(job: &JobRecord, id: u32) -> Option<&AttemptRecord> {
    let mut attempts = job.old.iter().chain([&job.attempt]);
    attempts.find(|attempt| attempt.id == id)
}

fn attempt_view(job: &JobRecord, attempt: &AttemptRecord) -> AttemptView {
    let name = format!("attempt/{}", attempt.id);
    let uid = named_uid(job.accepted.uid.as_str(), &name);
    AttemptView {
        id: attempt.id,
        uid: attempt.created.map(|_| uid),
        sub_state: attempt_state(attempt),
        created: attempt.created,
        launched: attempt.launched,
        completed: attempt.completed,
        verdict: attempt
            .outcome
            .as_ref()
            .map(|outcome| outcome.verdict.clone()),
        trigger: attempt
            .outcome
            .as_ref()
            .map(|outcome| outcome.trigger.clone()),
    }
}

/// The limit of what runs, or else the one that the job asks for.
fn run_limit(job: &JobRecord) -> Option<RunLimitView> {
    let attempt = &job.attempt;
    let gangs = attempt.gangs.iter().filter(|_| job.completed.is_none());
    let running = gangs.filter_map(|gang| Some((attempt.ends_by(gang)?, gang.run_limit_s?)));
    if let Some((ends_at, seconds)) = running.min() {
        return Some(RunLimitView {
            seconds,
            ends_at: Some(ends_at),
        });
    }
    let spec = &job.accepted.spec;
    let seconds = spec.max_run_s.filter(|_| spec.ending.is_max_run_binding)?;
    Some(RunLimitView {
        seconds,
        ends_at: None,
    })
}

/// The runs of the newest attempt with their leases, but for when these end: that the leader knows.
fn partition(job: &JobRecord) -> PartitionView {
    let policy = job.accepted.spec.partition;
    let live = job.attempt.gangs.iter().filter(|gang| gang.is_live());
    let run = |gang: &AttemptGang| {
        let tasks = job.attempt.tasks_of(gang);
        let nodes = tasks.filter_map(|task| Some(task.live()?.node.clone()));
        let nodes: BTreeSet<NodeId> = nodes.filter(|_| gang.lease.is_some()).collect();
        let lease = |node| NodeLease {
            node,
            ends_by: None,
        };
        RunLease {
            task: gang.task.clone(),
            seconds: gang.lease.map(|lease| lease.seconds),
            without: gang.lease.is_none().then(|| without(policy).to_owned()),
            nodes: nodes.into_iter().map(lease).collect(),
        }
    };
    PartitionView {
        policy: policy.name().to_owned(),
        seconds: match policy {
            Partition::FailoverAfter { seconds } => Some(seconds),
            Partition::Hold | Partition::Overlap => None,
        },
        runs: live.map(run).collect(),
    }
}

const fn without(policy: Partition) -> &'static str {
    match policy {
        Partition::FailoverAfter { .. } => {
            "was placed while its virtual cluster or the cluster had fewer than three voters"
        }
        Partition::Hold => "waits for its machines, as the job asks",
        Partition::Overlap => {
            "starts anew elsewhere at once, as the job asks, unless its virtual cluster or the cluster \
             has fewer than three voters"
        }
    }
}

fn role_views(job: &JobRecord, attempt: &AttemptRecord) -> Vec<RoleView> {
    let roles = job.accepted.spec.roles.iter();
    roles
        .map(|role| {
            let tasks = attempt
                .tasks
                .iter()
                .filter(|task| task.id.role == role.name);
            RoleView {
                name: role.name.to_string(),
                tasks: tasks.map(|task| task_view(job, attempt, task)).collect(),
            }
        })
        .collect()
}

fn task_view(job: &JobRecord, attempt: &AttemptRecord, task: &TaskRecord) -> TaskView {
    let phase = attempt.gangs.iter().find(|gang| gang.holds(&task.id));
    let phase = phase.map_or(GangPhase::Ended, |gang| gang.phase);
    let state = |of: &TaskAttempt| task_attempt_state(of, phase);
    let last = state(task.last());
    let name = format!("attempt/{}/task/{}", attempt.id, task.id);
    let mut roles = job.accepted.spec.roles.iter();
    let role = roles.find(|role| role.name == task.id.role);
    let by_cells = |role: &RoleSpec| {
        role.sku.is_some() || role.pinned.is_some() || role.affinity_group.is_some()
    };
    TaskView {
        id: task.id.clone(),
        uid: named_uid(job.accepted.uid.as_str(), &name).to_string(),
        by_cells: role.is_some_and(by_cells),
        ssh: role
            .filter(|role| role.has_ssh && last == SubState::AttemptRunning)
            .and_then(|_| login(job, task.last())),
        sub_state: if task.completed.is_some() {
            SubState::Completed
        } else {
            last
        },
        retries: retries(task.retries),
        created: task.created,
        launched: task.launched,
        completed: task.completed,
        attempts: task
            .attempts()
            .map(|of| task_attempt_view(of, state(of)))
            .collect(),
    }
}

/// The command that logs in to a task: the server takes the job's user.
fn login(job: &JobRecord, attempt: &TaskAttempt) -> Option<String> {
    let place = attempt.placement.as_ref()?;
    let ports = place.ports.iter().find(|(label, _)| label == SSH_PORT);
    let port = ports.and_then(|(_, numbers)| numbers.first())?;
    let user = &job.accepted.key.user;
    Some(format!("ssh -p {port} {user}@{}", place.address))
}

fn task_attempt_state(attempt: &TaskAttempt, phase: GangPhase) -> SubState {
    if attempt.completed.is_some() {
        return SubState::AttemptCompleted;
    }
    match phase {
        GangPhase::Waiting | GangPhase::Ended => SubState::AttemptCreationPending,
        GangPhase::Placed { .. } | GangPhase::Voiding => SubState::AttemptPreparing,
        GangPhase::Going => SubState::AttemptRunning,
        GangPhase::Stopping { .. } => SubState::AttemptDeleting,
    }
}

fn task_attempt_view(attempt: &TaskAttempt, sub_state: SubState) -> TaskAttemptView {
    let placement = attempt.placement.as_deref();
    TaskAttemptView {
        id: attempt.no,
        uid: placement.map(|place| place.uid.clone()),
        sub_state,
        created: attempt.created,
        launched: attempt.launched,
        completed: attempt.completed,
        node: placement.map(|place| place.node.clone()),
        address: placement.map(|place| place.address.clone()),
        ports: placement
            .map(|place| place.ports.clone())
            .unwrap_or_default(),
        devices: placement
            .map(|place| place.devices.iter().map(|(index, _)| *index).collect())
            .unwrap_or_default(),
        on_hold: match attempt.completed {
            None => attempt.on_hold.as_deref().cloned(),
            Some(_) => None,
        },
        verdict: attempt.verdict.as_deref().cloned(),
    }
}
