//! Which waiting gang is reserved next, and who has to give way for it.
//!
//! The planner knows what the last plan left behind and when the next one is due. It has the cells brought up
//! to date, and tells what is to be done with each gang; carrying that out is for others.

mod elsewhere;
mod pauses;
mod plan;

use std::collections::{BTreeMap, BTreeSet};

use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::NodeId;
use muster_model::time::Time;
use muster_model::usage::ReachedLimit;
use muster_placement::decide::{Decision, WaitReason};
use muster_placement::gang::{GangNumber as Number, Placement};

use super::allowance::Allowance;
use super::context::Context;
use super::inventory::Inventory;
use super::liveness::Liveness;
use super::nodes::ReportedNodes;
use super::places::nodes_in_use;
use crate::gang::{GangId, GangRun};
use crate::vc::attempt::GangPhase;
use crate::vc::{Current, VcState};

pub(super) use elsewhere::places_elsewhere;
use pauses::Pauses;

/// While something waits everything is planned anew this often, milliseconds: gangs fall overdue.
const REPLAN_MS: u64 = 60_000;

/// The cells of so many nodes are made anew once a millisecond at most: all nodes report at once to who
/// has just been elected, and with each report there would be others.
const NODES_PER_MS: u64 = 10;

/// Everything that waits is planned once a millisecond at most per so many gangs: where a long queue waits
/// for room, each task that ends makes some.
const GANGS_PER_MS: u64 = 100;

/// How long a new leader waits for the reports of nodes that tasks run on, milliseconds: what they
/// hold counts for their virtual cluster once it is known where.
const HOLD_MS: u64 = 10_000;
/// The same, after a recovery: what nodes run that nobody knows any more is stopped first.
const STRAYS_MS: u64 = 120_000;

/// What has changed since the last plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum PlanDue {
    /// Nothing that a plan has to do with.
    #[default]
    Nothing,
    /// Gangs came to wait; those that waited before fit as little as they did.
    Newcomers,
    /// Something may fit that did not.
    All,
}

/// What the last plan left behind, and when the next one is due.
#[derive(Clone, Debug, Default)]
pub(super) struct Planner {
    due: PlanDue,
    /// Gangs that the next plan looks at even if nothing else has changed.
    newcomers: BTreeSet<GangId>,
    pauses: Pauses,
    /// Nothing is placed before, while nodes that tasks run on have not reported.
    held_until: Option<Time>,
    /// The cells are not made anew before this.
    reshape_at: Time,
    /// Whether they are to be, and everything waits for that.
    is_delayed: bool,
    /// Not everything is planned before this.
    all_at: Time,
    /// Whether nothing waits that could be planned.
    is_idle: bool,
    /// When everything is to be planned anew if something still waits for room then.
    again: Time,
    /// Gangs that were found not to fit, and why.
    waiting: BTreeMap<GangId, WaitReason>,
    /// Gangs that a limit of their user's or a group's holds back.
    limited: BTreeMap<GangId, ReachedLimit>,
    /// Gangs that wait for others to give way.
    preempting: BTreeMap<GangId, Vec<Number>>,
    /// Gangs that leaf cells are kept for: they are part of every plan.
    kept: BTreeSet<GangId>,
    /// Gangs that no cell could hold, and why; until the cells change.
    impossible: BTreeMap<GangId, Impossible>,
}

/// Why no cell could hold a gang.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Impossible {
    /// What it asks for and what there is, as the end of a sentence.
    pub(super) fact: String,
    /// What follows, if all machines are known; goes on with the sentence, or is empty.
    pub(super) advice: String,
}

/// Where a gang is to go.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) placement: Placement,
    /// Gangs of other virtual clusters that would have to give way for it.
    pub(super) victims: Vec<Number>,
}

/// What is asked of a gang before it is planned.
pub(super) struct Admission<'a> {
    /// When a run may be planned, by what is being done about it; none while it is being reserved.
    pub(super) ready_at: &'a dyn Fn(&GangRun) -> Option<Time>,
    /// What its user may still have.
    pub(super) allowance: &'a Allowance<'a>,
}

/// What a decision calls for, in this order.
#[derive(Clone, Debug, Default)]
pub(super) struct PlannedStep {
    /// Gangs of this virtual cluster that have to give way first.
    pub(super) evict: Vec<Number>,
    /// Where the gang is to be reserved.
    pub(super) reserve: Option<Planned>,
    /// Whether the virtual cluster may lack cells that it was promised.
    pub(super) lacks_cells: bool,
}

impl Planner {
    /// A term begins: nothing of the last leader's plans is known.
    pub(super) fn begin_term(&mut self) {
        *self = Self::default();
    }

    /// The term is this node's: nothing is placed before nodes have said what they hold, if they do so soon.
    pub(super) fn hold(&mut self, context: &Context<'_>) {
        let hold_ms = match context.is_recovered() {
            false => HOLD_MS,
            true => STRAYS_MS,
        };
        self.held_until = Some(context.now.plus_millis(hold_ms));
        self.look_at_all();
    }

    /// Something may fit that did not: all that waits is to be planned.
    pub(super) fn look_at_all(&mut self) {
        self.due = PlanDue::All;
    }

    /// The cells are others: what nothing could hold these may.
    pub(super) fn cells_changed(&mut self) {
        self.impossible.clear();
        self.look_at_all();
    }

    /// A node has something else than before: what nothing could hold it may.
    pub(super) fn capacity_changed(&mut self) {
        self.impossible.clear();
    }

    /// A gang is to be planned, though nothing came free.
    pub(super) fn add(&mut self, gang: GangId) {
        self.newcomers.insert(gang);
        self.due = self.due.max(PlanDue::Newcomers);
    }

    /// What is not waiting any more is not remembered.
    pub(super) fn forget(&mut self, gang: &GangId) {
        self.waiting.remove(gang);
        self.limited.remove(gang);
        self.pauses.forget(gang);
        self.preempting.remove(gang);
        self.kept.remove(gang);
        self.impossible.remove(gang);
    }

    /// When the next plan is to be made.
    pub(super) fn next(&self) -> Option<Time> {
        match self.due {
            _ if self.is_idle => None,
            PlanDue::Nothing => self.timeout(),
            PlanDue::Newcomers => Some(self.shaped_at()),
            PlanDue::All => Some(self.shaped_at().max(self.all_at)),
        }
    }

    /// Until when nothing is placed, for a new leader hears first what runs on the nodes.
    pub(super) const fn held_until(&self) -> Option<Time> {
        self.held_until
    }

    /// Whether the cells are as everything says that is known by now.
    pub(super) const fn is_settled(&self) -> bool {
        self.held_until.is_none() && !self.is_delayed
    }

    /// Whether a gang waits for room, or could be held by no cell: then it matters what nodes have.
    pub(super) fn waits_for_nodes(&self) -> bool {
        self.is_blocked() || !self.impossible.is_empty()
    }

    /// Whether a gang waits for room within its quota.
    pub(super) fn waits_for_quota(&self) -> bool {
        let is_quota = |why: &WaitReason| matches!(why, WaitReason::Quota { .. });
        self.waiting.values().any(is_quota)
    }

    /// Whether a gang waits for quota cells that are bound to none yet.
    pub(super) fn waits_for_binding(&self) -> bool {
        let is_unbound = |why: &WaitReason| matches!(why, WaitReason::Unbound { .. });
        self.waiting.values().any(is_unbound)
    }

    /// Why no cell could hold a gang, if so.
    pub(super) fn impossible(&self, gang: &GangId) -> Option<&Impossible> {
        self.impossible.get(gang)
    }

    /// The limit that holds a gang back, if one does.
    pub(super) fn limit(&self, gang: &GangId) -> Option<&ReachedLimit> {
        self.limited.get(gang)
    }

    /// A gang is held back by a limit that what was decided just before has reached: others may have its room.
    pub(super) fn hold_back(&mut self, gang: &GangId, limit: ReachedLimit) {
        self.note_limit(gang, limit);
        self.look_at_all();
    }

    /// Nobody gives way for a gang that a limit holds back, nor is anything kept for it.
    fn note_limit(&mut self, gang: &GangId, limit: ReachedLimit) {
        self.waiting.remove(gang);
        self.preempting.remove(gang);
        self.kept.remove(gang);
        self.limited.insert(gang.clone(), limit);
    }

    /// Who is to give way for a gang, if it waits for that.
    pub(super) fn victims(&self, gang: &GangId) -> Option<&[Number]> {
        self.preempting.get(gang).map(Vec::as_slice)
    }

    /// Why a gang did not fit, if so.
    pub(super) fn why_waiting(&self, gang: &GangId) -> Option<&WaitReason> {
        self.waiting.get(gang)
    }

    /// Whether a plan has left something to tell of a gang that was given no place.
    pub(super) fn has_decided(&self, gang: &GangId) -> bool {
        let waits = self.waiting.contains_key(gang) || self.limited.contains_key(gang);
        waits || self.preempting.contains_key(gang) || self.impossible.contains_key(gang)
    }

    /// When a gang's pause ends, by the clock that nobody sets.
    pub(super) fn pause_end(&self, context: &Context<'_>, current: &Current<'_>) -> Time {
        self.pauses.end(context, current)
    }

    /// Whether too little is known to place anything: how the cluster is described, or, where the
    /// machines are found, what running tasks hold of what is promised.
    pub(super) fn is_held(
        &mut self,
        context: &Context<'_>,
        nodes: &ReportedNodes,
        liveness: &Liveness,
        inventory: &Inventory,
    ) -> bool {
        let is_over = self.held_until.is_some_and(|until| until <= context.now);
        let has_unheard = || has_unheard(context, nodes, liveness, inventory);
        if self.held_until.is_some() && (is_over || !has_unheard()) {
            self.held_until = None;
            self.look_at_all();
        }
        inventory.layout().description().is_none() || self.held_until.is_some()
    }

    /// Brings the cells up to what is known. Whether they were made anew; none while they are to be and that
    /// waits.
    pub(super) fn update_cells(
        &mut self,
        context: &Context<'_>,
        nodes: &mut ReportedNodes,
        liveness: &Liveness,
        inventory: &mut Inventory,
    ) -> Option<bool> {
        self.is_delayed =
            context.now < self.reshape_at && inventory.layout().is_to_be_reshaped(nodes);
        if self.is_delayed {
            return None;
        }
        let is_new = inventory.update(nodes, context.state, &context.terms());
        if is_new {
            let pause_ms = nodes.len() as u64 / NODES_PER_MS;
            self.reshape_at = context.now.plus_millis(pause_ms);
        }
        inventory.layout_mut().reach(liveness.cut_off(nodes));
        inventory.layout_mut().cordon(liveness.closed(nodes));
        Some(is_new)
    }

    /// Takes what was decided of a gang.
    pub(super) fn decided(
        &mut self,
        inventory: &Inventory,
        gang: &GangId,
        decision: Decision,
    ) -> PlannedStep {
        debug_assert!(
            !self.impossible.contains_key(gang),
            "what no cell could hold is not planned"
        );
        self.waiting.remove(gang);
        self.limited.remove(gang);
        self.preempting.remove(gang);
        let mut step = PlannedStep::default();
        match decision {
            Decision::Place(grant) => {
                step.reserve = Some(Planned {
                    placement: grant.placement,
                    victims: Vec::new(),
                });
            }
            Decision::Preempt { victims, grant } => {
                let is_foreign = |victim: &Number| inventory.is_foreign(*victim);
                let (foreign, own): (Vec<Number>, Vec<Number>) =
                    victims.iter().copied().partition(is_foreign);
                self.preempting.insert(gang.clone(), victims);
                // The nodes see to it that gangs of other virtual clusters give way.
                step.reserve = own.is_empty().then_some(Planned {
                    placement: grant.placement,
                    victims: foreign,
                });
                step.evict = own;
            }
            Decision::Wait(why) => {
                step.lacks_cells = matches!(
                    why,
                    WaitReason::Quota { bad: 1.., .. } | WaitReason::Unbound { .. }
                );
                self.waiting.insert(gang.clone(), why);
            }
            Decision::Refuse(why) => {
                let (fact, advice) = why.parts();
                self.impossible
                    .insert(gang.clone(), Impossible { fact, advice });
            }
        }
        step
    }

    /// Whom the last plan left something behind for waits.
    ///
    /// # Errors
    /// Who does not, as a sentence.
    pub(super) fn audit(&self, state: &VcState) -> Result<(), String> {
        let gangs = self.waiting.keys().chain(self.preempting.keys());
        let gangs = gangs.chain(&self.kept).chain(self.impossible.keys());
        let mut gangs = gangs.chain(self.limited.keys());
        let is_stale = |gang: &&GangId| {
            let current = state.current(gang);
            current.is_none_or(|current| current.gang.phase != GangPhase::Waiting)
        };
        match gangs.find(is_stale) {
            Some(gang) => Err(format!("{gang:?} is planned though it does not wait")),
            None => Ok(()),
        }
    }

    /// When the cells are as they are to be.
    fn shaped_at(&self) -> Time {
        match self.is_delayed {
            true => self.reshape_at,
            false => Time::default(),
        }
    }

    /// Whether a gang waits for room.
    fn is_blocked(&self) -> bool {
        !self.waiting.is_empty() || !self.preempting.is_empty()
    }

    /// When there is something to plan though nothing happens.
    fn timeout(&self) -> Option<Time> {
        let waits = self.is_blocked() || !self.limited.is_empty();
        let again = waits.then_some(self.again);
        [self.pauses.next(), again].into_iter().flatten().min()
    }
}

/// Whether promises rest on machines that are found, and one that tasks run on has not reported; or,
/// after a recovery, something may run that nobody knows.
fn has_unheard(
    context: &Context<'_>,
    nodes: &ReportedNodes,
    liveness: &Liveness,
    inventory: &Inventory,
) -> bool {
    if context.is_recovered() && liveness.has_strays(nodes) {
        return true;
    }
    let is_promised = |description: &ClusterSpec| {
        description.cells.is_empty() && !description.virtual_clusters.is_empty()
    };
    let description = inventory.layout().description();
    if description.is_some_and(|it| !is_promised(it)) {
        return false;
    }
    let is_unheard = |node: &NodeId| !nodes.contains(node) && !liveness.is_unreachable(node);
    nodes_in_use(context.state).iter().any(is_unheard)
}
