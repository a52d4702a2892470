//! What a gang asks of the cells.

use muster_model::cluster_spec::{ClusterSpec, LEVELS_MAX, kind_of_leaf};
use muster_model::id::{TaskId, UserName};
use muster_model::inventory::AcceleratorKind;
use muster_model::job::{JobSpec, RoleSpec};
use muster_model::state::PriorityClass;
use muster_model::time::Time;
use muster_placement::gang::{
    Gang, GangMember, GangNumber as Number, MachineAmount, Near, Placement,
};

use crate::vc::Current;

/// What holds for every gang that starts now.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::coordinator) struct Terms {
    pub(in crate::coordinator) now: Time,
    /// How long nobody of its own cluster may evict it, milliseconds.
    pub(in crate::coordinator) min_run_ms: u64,
}

/// Tasks of a job that are placed together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking<'a> {
    pub(super) job: &'a JobSpec,
    pub(super) user: &'a UserName,
    pub(super) tasks: &'a [&'a TaskId],
    /// When they were placed; now, if they are not.
    pub(super) since: Time,
}

/// The gang that they are.
///
/// # Errors
/// Why no cell serves one of their roles, as the end of a sentence.
pub(super) fn gang(
    spec: &ClusterSpec,
    asking: &Asking<'_>,
    number: Number,
    terms: &Terms,
) -> Result<Gang, String> {
    let job = asking.job;
    let mut members = Vec::new();
    for (role, pods) in roles(asking) {
        let (leaf_type, leaves) = leaves(spec, job, role)
            .map_err(|reason| format!("role {} cannot be placed: {reason}", role.name))?;
        members.push(GangMember {
            leaf_type,
            leaves,
            ..member(role, pods)
        });
    }
    Ok(of_members(asking, number, members, terms))
}

/// The gang of tasks that run on these leaves, though no cell may serve them any more.
pub(super) fn as_found(
    asking: &Asking<'_>,
    number: Number,
    found: &Placement,
    terms: &Terms,
) -> Gang {
    let mut pods_left = found.pods.iter();
    let members = roles(asking).map(|(role, pods)| {
        let own = pods_left
            .by_ref()
            .take(usize::try_from(pods).unwrap_or(usize::MAX));
        let most = own.map(Vec::len).max().unwrap_or_default();
        GangMember {
            leaves: u32::try_from(most).unwrap_or(u32::MAX).max(1),
            ..member(role, pods)
        }
    });
    let members = members.collect();
    of_members(asking, number, members, terms)
}

/// The roles of the tasks and how many tasks each has, in the order of the tasks.
fn roles<'a>(asking: &Asking<'a>) -> impl Iterator<Item = (&'a RoleSpec, u32)> {
    let Asking { job, tasks, .. } = *asking;
    let alike = tasks.chunk_by(|a, b| a.role == b.role);
    alike.filter_map(|alike| {
        let name = &alike.first()?.role;
        let role = job.roles.iter().find(|role| role.name == *name)?;
        Some((role, u32::try_from(alike.len()).unwrap_or(u32::MAX)))
    })
}

fn of_members(
    asking: &Asking<'_>,
    number: Number,
    members: Vec<GangMember>,
    terms: &Terms,
) -> Gang {
    let Asking { job, since, .. } = *asking;
    let after_s = |seconds: u64| since.plus_millis(seconds.saturating_mul(1000));
    Gang {
        id: number,
        vc: job.vc.to_string(),
        user: asking.user.to_string(),
        priority: priority(job),
        lazy: job.lazy,
        stays: false,
        restartable: job.retry_count != 0,
        pinned: pinned(job, asking.tasks),
        members,
        fixed_until: Some(since.plus_millis(terms.min_run_ms)),
        ends_by: job.max_run_s.map(after_s),
    }
}

/// When the gang was placed, if it is.
pub(super) fn placed_at(current: &Current<'_>) -> Option<Time> {
    let tasks = current.job.attempt.tasks_of(current.gang);
    let placed = tasks.filter_map(|task| task.last().created).min();
    placed.map(Time::from_millis)
}

/// How important a job is to its virtual cluster.
pub(super) fn priority(job: &JobSpec) -> i32 {
    job.priority.unwrap_or(PriorityClass::Test).priority()
}

/// The pinned cell that the tasks ask for; the job says no more than one for tasks that start
/// together.
fn pinned(job: &JobSpec, tasks: &[&TaskId]) -> String {
    let asks = |role: &&RoleSpec| tasks.iter().any(|task| task.role == role.name);
    let mut pinned = job
        .roles
        .iter()
        .filter(asks)
        .filter_map(|role| role.pinned.clone());
    pinned.next().unwrap_or_default()
}

/// What is asked for each task of a role beside leaves.
fn member(role: &RoleSpec, pods: u32) -> GangMember {
    GangMember {
        pods,
        share: MachineAmount {
            cpu: role.resources.cpu,
            memory_mb: role.resources.memory_mb,
            ports: role.resources.ports.iter().map(|(_, count)| count).sum(),
        },
        near: role.near.map(|near| Near {
            level: near.level,
            required: near.required,
        }),
        ..GangMember::default()
    }
}

/// The leaf type and how many leaves of it each task of a role takes.
fn leaves(spec: &ClusterSpec, job: &JobSpec, role: &RoleSpec) -> Result<(String, u32), String> {
    let of_type = |leaf_type: &str| spec.leaves_for(leaf_type, &role.resources);
    if let Some(leaf_type) = &role.sku {
        let leaves = of_type(leaf_type).map_err(|e| e.to_string())?;
        return Ok((leaf_type.clone(), leaves));
    }
    let types = types_of(spec, job);
    let plain = types.iter().find(|leaf| spec.is_plain(leaf));
    if role.resources.gpu == 0
        && let Some(plain) = plain
    {
        let leaves = of_type(plain).map_err(|e| e.to_string())?;
        return Ok(((*plain).to_owned(), leaves));
    }
    let devices = device_types(spec, &types, role);
    let is_gpu = |leaf: &str| kind_of_leaf(leaf) == AcceleratorKind::Gpu;
    if let [first, others @ ..] = &devices[..]
        && (others.is_empty() || !is_gpu(first))
    {
        let leaves = of_type(first).map_err(|e| e.to_string())?;
        return Ok(((*first).to_owned(), leaves));
    }
    // Of any type of GPU: as many as it takes of the one that brings least along.
    let counts = devices.into_iter().filter_map(|leaf| of_type(leaf).ok());
    let most = counts.max().unwrap_or(role.resources.gpu);
    Ok((String::new(), most.max(1)))
}

/// The types of devices that a role takes which names none: GPUs. Other devices serve only a task
/// that asks for no device, where there is nothing else.
fn device_types<'a>(spec: &ClusterSpec, types: &[&'a str], role: &RoleSpec) -> Vec<&'a str> {
    let devices = types.iter().copied().filter(|leaf| !spec.is_plain(leaf));
    let devices: Vec<&str> = devices.collect();
    let gpus = devices.iter().copied();
    let gpus: Vec<&str> = gpus
        .filter(|leaf| kind_of_leaf(leaf) == AcceleratorKind::Gpu)
        .collect();
    match gpus.is_empty() && role.resources.gpu == 0 {
        true => devices,
        false => gpus,
    }
}

/// The leaf types that a job's virtual cluster is promised; all there are for opportunistic jobs.
pub(super) fn types_of<'a>(spec: &'a ClusterSpec, job: &JobSpec) -> Vec<&'a str> {
    let all = || spec.cells.iter().map(|cell| &*cell.cell_type);
    let is_opportunistic = job.priority == Some(PriorityClass::Oppo);
    let vc = spec
        .virtual_clusters
        .get(&job.vc)
        .filter(|_| !is_opportunistic);
    let mut types: Vec<&str> = match vc {
        Some(vc) => {
            let paths = vc.quota.iter().filter_map(|quota| quota.path.last());
            paths.map(|cell_type| leaf_of(spec, cell_type)).collect()
        }
        None => all().map(|cell_type| leaf_of(spec, cell_type)).collect(),
    };
    types.sort_unstable();
    types.dedup();
    types
}

/// The type at the bottom of a cell type.
fn leaf_of<'a>(spec: &'a ClusterSpec, cell_type: &'a str) -> &'a str {
    let mut leaf = cell_type;
    for _ in 0..LEVELS_MAX {
        match spec.cell_types.get(leaf) {
            Some(kind) => leaf = &kind.child,
            None => break,
        }
    }
    leaf
}
