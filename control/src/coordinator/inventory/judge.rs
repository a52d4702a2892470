//! Whether a job could ever be placed, told before it waits for ever.

use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::{TaskId, UserName};
use muster_model::job::{JobSpec, RoleSpec};
use muster_model::time::Time;
use muster_model::usage::ReachedLimit;
use muster_model::vc::unknown;
use muster_placement::cells::Cells;
use muster_placement::decide::{self, DecisionPolicy, GangRefusal};
use muster_placement::gang::{GangNumber as Number, Resource};
use serde::{Deserialize, Serialize};

use super::Terms;
use super::demand::{self, Asking};
use super::layout::Layout;

/// Why a job can never be placed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnplaceableJob {
    /// The field that asks for too much: `.taskRoles.worker.resourcePerInstance.gpu`.
    pub path: String,
    /// What it asks for and what there is at most, as the end of a sentence, with the role.
    pub why: String,
}

impl UnplaceableJob {
    /// There is no such virtual cluster.
    pub(in crate::coordinator) fn no_vc(job: &JobSpec) -> Self {
        Self {
            path: VC_PATH.to_owned(),
            why: unknown(job.vc.as_str()),
        }
    }

    /// It asks for more than a limit of the policy allows.
    pub(in crate::coordinator) fn limited(job: &JobSpec, limit: &ReachedLimit) -> Self {
        let needs = limit.in_words(&job.vc);
        Self {
            path: VC_PATH.to_owned(),
            why: format!("{needs}; ask for less, or have an admin raise `limits` in the policy"),
        }
    }
}

impl Layout {
    /// Whether a job could ever be placed, judged as a whole or task by task, as it asks.
    ///
    /// # Errors
    /// Why not, and for which field.
    pub(in crate::coordinator) fn judge(
        &self,
        job: &JobSpec,
        user: &UserName,
        policy: &DecisionPolicy,
    ) -> Result<(), UnplaceableJob> {
        let Some(cells) = self.cells() else {
            return Ok(());
        };
        judge(cells, self.spec(), job, user, policy)
    }
}

/// Whether a job could ever be placed on cells that were made from `spec`: one task of each role, then each role,
/// then all of it, so that what is refused is told of the smallest part.
///
/// # Errors
/// Why not, and for which field.
pub(in crate::coordinator) fn judge(
    cells: &Cells,
    spec: &ClusterSpec,
    job: &JobSpec,
    user: &UserName,
    policy: &DecisionPolicy,
) -> Result<(), UnplaceableJob> {
    let bench = JudgeContext {
        cells,
        spec,
        job,
        user,
        policy,
    };
    for role in &job.roles {
        bench.judge(JudgedPart::Task(role), task_ids(role).take(1))?;
    }
    if !job.gang {
        return Ok(());
    }
    for role in &job.roles {
        bench.judge(JudgedPart::Role(role), task_ids(role))?;
    }
    bench.judge(JudgedPart::Job, job.roles.iter().flat_map(task_ids))
}

/// What a job is held against.
struct JudgeContext<'a> {
    cells: &'a Cells,
    spec: &'a ClusterSpec,
    job: &'a JobSpec,
    user: &'a UserName,
    policy: &'a DecisionPolicy,
}

impl JudgeContext<'_> {
    fn judge(
        &self,
        part: JudgedPart<'_>,
        tasks: impl Iterator<Item = TaskId>,
    ) -> Result<(), UnplaceableJob> {
        let ids: Vec<TaskId> = tasks.collect();
        let asking = Asking {
            job: self.job,
            user: self.user,
            tasks: &ids.iter().collect::<Vec<_>>(),
            since: Time::default(),
        };
        let gang = demand::gang(self.spec, &asking, Number(0), &Terms::default());
        let gang = gang.map_err(|why| UnplaceableJob {
            path: part.path("resourcePerInstance"),
            why,
        })?;
        decide::judge(self.cells, &gang, self.policy).map_err(|refusal| UnplaceableJob {
            path: part.path_of(&refusal),
            why: format!("{}{}", part.sentence(&refusal), self.known_types(&refusal)),
        })
    }

    /// The types of cells that there are, where another one is asked for.
    fn known_types(&self, refusal: &GangRefusal) -> String {
        let GangRefusal::LeafType { .. } = refusal else {
            return String::new();
        };
        match demand::types_of(self.spec, self.job).join(", ") {
            none if none.is_empty() => "; it has none".to_owned(),
            types => format!("; there are {types}"),
        }
    }
}

const VC_PATH: &str = ".defaults.virtualCluster";

/// The part of a job that is judged.
#[derive(Clone, Copy)]
enum JudgedPart<'a> {
    /// One task of a role.
    Task(&'a RoleSpec),
    /// All tasks of a role.
    Role(&'a RoleSpec),
    /// All tasks.
    Job,
}

impl JudgedPart<'_> {
    const fn role(&self) -> Option<&RoleSpec> {
        match self {
            Self::Task(role) | Self::Role(role) => Some(role),
            Self::Job => None,
        }
    }

    /// What is refused of it. Some refusals are sentences of their own.
    fn sentence(&self, refusal: &GangRefusal) -> String {
        let between = match refusal {
            GangRefusal::Machine { .. }
            | GangRefusal::Machines { .. }
            | GangRefusal::Together { .. }
            | GangRefusal::Oversize { .. }
            | GangRefusal::Node { .. }
            | GangRefusal::Near { .. } => "",
            GangRefusal::NoSuchVc(_)
            | GangRefusal::Priority(_)
            | GangRefusal::Nothing(_)
            | GangRefusal::Pods(_)
            | GangRefusal::NoSuchPinnedCell { .. }
            | GangRefusal::PinnedOpportunistic(_)
            | GangRefusal::LeafType { .. }
            | GangRefusal::NoLevel { .. } => ":",
        };
        match (self.role(), between) {
            (Some(role), between) => format!("role {}{between} {refusal}", role.name),
            (None, "") => format!("it {refusal}"),
            (None, _) => refusal.to_string(),
        }
    }

    /// A field of the role; all roles where it is about none.
    fn path(&self, field: &str) -> String {
        match self.role() {
            Some(role) => format!(".taskRoles.{}.{field}", role.name),
            None => ".taskRoles".to_owned(),
        }
    }

    fn extra(&self, section: &str, field: &str) -> String {
        match self.role() {
            Some(role) => format!(".extras.{section}.taskRoles.{}.{field}", role.name),
            None => format!(".extras.{section}"),
        }
    }

    /// What asks for so much: one task's share, or how many there are.
    fn amount(&self, field: &str) -> String {
        match self {
            Self::Task(_) => self.path(&format!("resourcePerInstance{field}")),
            Self::Role(_) | Self::Job => self.path("instances"),
        }
    }

    fn path_of(&self, refusal: &GangRefusal) -> String {
        let cells = match self.role() {
            Some(role) if role.resources.gpu > 0 => ".gpu",
            _ => "",
        };
        match refusal {
            GangRefusal::NoSuchVc(_) => VC_PATH.to_owned(),
            GangRefusal::Priority(_) => ".extras.hivedScheduler.jobPriorityClass".to_owned(),
            GangRefusal::NoSuchPinnedCell { .. } | GangRefusal::PinnedOpportunistic(_) => {
                self.extra("hivedScheduler", "pinnedCellId")
            }
            GangRefusal::LeafType { .. } => self.extra("hivedScheduler", "skuType"),
            GangRefusal::NoLevel { .. } | GangRefusal::Near { .. } => {
                self.extra("muster", "topology")
            }
            GangRefusal::Nothing(_) | GangRefusal::Pods(_) => self.path("instances"),
            GangRefusal::Machine { what, .. } | GangRefusal::Machines { what, .. } => match what {
                Resource::Cpu => self.amount(".cpu"),
                Resource::Memory => self.amount(".memoryMB"),
                Resource::Ports => self.amount(".ports"),
            },
            GangRefusal::Together { .. } => self.amount(""),
            GangRefusal::Oversize { .. } | GangRefusal::Node { .. } => self.amount(cells),
        }
    }
}

fn task_ids(role: &RoleSpec) -> impl Iterator<Item = TaskId> {
    (0..role.instances).map(|index| TaskId {
        role: role.name.clone(),
        index,
    })
}
