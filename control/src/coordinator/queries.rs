//! Queries that the leader of a virtual cluster answers. None of them changes anything.

use std::collections::BTreeSet;

use muster_model::explanation::Explanation;
use muster_model::id::{JobKey, NodeId, UserName};
use muster_model::job::{JobSpec, RoleSpec};
use muster_model::known_node::KnownNode;
use muster_model::sight::JobSight;
use muster_model::time::Time;
use muster_model::usage::UsageView;
use muster_model::vc::VcView;
use muster_model::vc_cells::VcCells;

use super::Coordinator;
use super::allowance::Allowance;
use super::inventory::UnplaceableJob;
use super::places;
use super::trial::JobTrial;
use super::views::{self, CellLister, Explainer, NodeRoster, Outlook, Quotas, Viewpoint};
use crate::now::Now;
use crate::usage_rules::{GangUse, HeldUse};
use crate::vc::{NotFound, VcState};

impl Coordinator {
    /// Whether a job could ever be placed: in the cluster that the administrator describes, or, where the
    /// machines are found, on those that there are. `unheard` machines have not said yet what they have: while
    /// there are any, a job that asks for more than the others have is taken, with a remark.
    ///
    /// # Errors
    /// Why not, and for which field.
    pub fn judge(
        &self,
        job: &JobSpec,
        user: &UserName,
        unheard: usize,
    ) -> Result<Option<String>, UnplaceableJob> {
        let options = self.leadership.options();
        self.within_limits(job, user)?;
        let placement = &options.policy.placement;
        self.quotas().judge(job, user, placement, unheard)
    }

    /// Whether the limits allow what has to start at the same time, if its user and their groups have nothing else.
    fn within_limits(&self, job: &JobSpec, user: &UserName) -> Result<(), UnplaceableJob> {
        let options = self.leadership.options();
        let gpus = |role: &RoleSpec| u64::from(role.resources.gpu);
        let most = job.roles.iter().max_by_key(|role| gpus(role));
        let gang = GangUse {
            gpus: match job.gang {
                true => u64::from(job.gpu_count()),
                false => most.map_or(0, gpus),
            },
            is_new_job: true,
        };
        let now_ms = self.leadership.now().wall.as_millis();
        for rule in options.policy.limits.of(&options.vc, user) {
            let checked = rule.check(gang, HeldUse::default(), |_| 0, now_ms);
            checked.map_err(|limit| UnplaceableJob::limited(job, &limit))?;
        }
        Ok(())
    }

    /// What is wrong with the cells that jobs are placed on, as sentences for people.
    pub fn problems(&self) -> Vec<String> {
        self.quotas().problems(self.leadership.now().steady)
    }

    /// Every virtual cluster that the administrator's description names; where the cluster is as
    /// it was found, the one that has all of it.
    pub fn virtual_clusters(&self) -> Vec<VcView> {
        self.quotas().virtual_clusters()
    }

    /// What the virtual cluster is promised, cell by cell, and which of its jobs has what. Jobs are named as far
    /// as they are seen.
    pub fn vc_cells(&self, state: &VcState, sight: &JobSight) -> VcCells {
        let lister = CellLister {
            vc: &self.leadership.options().vc,
            sight,
            state,
            inventory: &self.inventory,
        };
        lister.list()
    }

    /// Every node: these members, those among them that were not heard yet, and nodes that have left while
    /// tasks may be on them. `silence_ms`: for how long nothing was heard of a node.
    pub fn known_nodes(
        &self,
        members: BTreeSet<&NodeId>,
        silence_ms: impl Fn(&NodeId) -> u64,
    ) -> Vec<KnownNode> {
        let roster = NodeRoster {
            nodes: &self.nodes,
            liveness: &self.liveness,
            layout: self.inventory.layout(),
        };
        roster.list(members, silence_ms)
    }

    /// How many cells that the virtual cluster was promised it is not bound to yet; none where nobody but
    /// its leader binds it.
    pub fn lacking(&self) -> Option<usize> {
        self.inventory
            .layout()
            .lacking(&self.leadership.options().vc)
    }

    /// What these users, and the groups that they are in, have of what is limited.
    pub fn usage(&self, now: Time, state: &VcState, users: &BTreeSet<UserName>) -> Vec<UsageView> {
        let mut context = self.leadership.context(state);
        context.wall = now;
        let placing = self.gangs.reserving(state);
        Allowance::new(&context, placing).views(users)
    }

    /// Why a job waits, a sentence part, if it does and this node leads. Other jobs are named as far as they
    /// are seen.
    pub fn waiting_for(&self, state: &VcState, job: &JobKey, sight: &JobSight) -> Option<String> {
        self.explainer(state, sight).waiting_for(job)
    }

    /// Why a job waits, in full. Other jobs are named as far as they are seen.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn explanation(
        &self,
        now: Time,
        state: &VcState,
        (key, sight): (&JobKey, &JobSight),
    ) -> Result<Explanation, NotFound> {
        self.explainer(state, sight).explanation(now, key)
    }

    /// A copy of this leader, on which a job can be tried without an effect on anything. `wall`: the time of day.
    pub fn trial(&self, wall: Time, state: &VcState) -> JobTrial {
        let steady = self.leadership.now().steady;
        JobTrial::new(self.clone(), state.sketch(), Now { steady, wall })
    }

    /// A description of the machines that were found, promised to one virtual cluster: to be edited.
    pub fn found(&self) -> String {
        views::found(&self.nodes)
    }

    /// All that another description is held against, as it is now: to be looked at in peace.
    pub fn outlook(&self, state: &VcState) -> Outlook {
        let viewpoint = Viewpoint {
            context: self.leadership.context(state),
            nodes: &self.nodes,
            inventory: &self.inventory,
        };
        viewpoint.outlook()
    }

    /// The nodes that tasks of the virtual cluster may be running on.
    pub fn nodes_in_use(&self, state: &VcState) -> BTreeSet<NodeId> {
        places::nodes_in_use(state)
    }

    /// For how many milliseconds the node must have been silent for the first of the leases on it
    /// to be over; none if that is more than it was silent.
    pub fn overdue(&self, state: &VcState, node: &NodeId, silence_ms: u64) -> Option<u64> {
        let leases = state.live().filter_map(|current| {
            let lost_ms = current.gang.lease?.lost_ms();
            (lost_ms <= silence_ms && places::is_on(&current, node)).then_some(lost_ms)
        });
        leases.min()
    }

    /// Checks that the cells agree with what is committed: every task that may run has its
    /// leaves, and nothing is held for a gang that has none by what is committed, that is not
    /// being reserved, claims nothing, and has no devices that its node is still clearing.
    ///
    /// # Errors
    /// The first thing that is wrong, as a sentence.
    #[doc(hidden)]
    pub fn audit(&self, state: &VcState) -> Result<(), String> {
        if !self.leadership.leads() {
            return Ok(());
        }
        self.nodes.audit()?;
        self.inventory.audit_news(&self.nodes)?;
        self.gangs.audit()?;
        let is_reserving = |gang: &_| self.gangs.is_reserving(gang);
        self.inventory.audit(state, is_reserving)?;
        self.planner.audit(state)
    }

    /// Whether the cells are as if nothing had ever been placed.
    #[doc(hidden)]
    pub fn is_pristine(&self) -> bool {
        let mut inventory = self.inventory.clone();
        // While nothing waits nobody looks at what runs for other virtual clusters.
        inventory.follow_others(&self.nodes);
        inventory.is_pristine()
    }

    const fn quotas(&self) -> Quotas<'_> {
        Quotas {
            vc: &self.leadership.options().vc,
            nodes: &self.nodes,
            liveness: &self.liveness,
            layout: self.inventory.layout(),
        }
    }

    pub(super) const fn explainer<'a>(
        &'a self,
        state: &'a VcState,
        sight: &'a JobSight,
    ) -> Explainer<'a> {
        Explainer {
            sight,
            context: self.leadership.context(state),
            nodes: &self.nodes,
            liveness: &self.liveness,
            inventory: &self.inventory,
            planner: &self.planner,
            gangs: &self.gangs,
        }
    }
}
