//! Which cells the virtual cluster places on what it was promised: those that the `cluster` group has
//! bound it to, in a cluster that is described. What it lacks is asked for, what it has too much of is
//! given back; both beside everything else, so that a placement waits for nobody.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::exit::Cause;
use muster_model::id::{NodeId, VcName};
use muster_model::job::JobSpec;
use muster_model::time::Time;
use muster_placement::cells::{Cells, Owners, Wants};
use muster_placement::decide::Waiting;
use serde::{Deserialize, Serialize};

use super::planning::Due;
use super::work::Proposal;
use super::{Coordinator, Output};
use crate::bound::Bound;
use crate::cluster::{Binding, CLAIMS_MAX, ClusterState};
use crate::gang::Run;
use crate::vc::attempt::Phase;
use crate::vc::{Entry, VcState};

/// While something is lacking the `cluster` group is asked this often, milliseconds.
const ASK_MS: u64 = 1_000;
/// While nothing is, milliseconds.
const CALM_MS: u64 = 10_000;
/// Opportunistic gangs are made room for this often: they may be gone soon, milliseconds.
const SPARE_MS: u64 = 60_000;
/// How long after its election a leader waits for machines that it has cells of and that have not
/// reported though they may be there, before it asks for others in their place, milliseconds.
const ABSENCE_MS: u64 = 30_000;

/// What every virtual cluster is bound to, as of an entry of the `cluster` group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bindings {
    /// The place of the entry that changed any of it last.
    pub version: u64,
    /// By virtual cluster.
    pub cells: BTreeMap<VcName, Bound>,
    /// Those with gangs that wait for cells which they were promised and have not got.
    pub waiting: BTreeSet<VcName>,
    /// Those that are to say what they have by their own logs: what is said of them here may be old.
    pub unheard: BTreeSet<VcName>,
}

impl Bindings {
    /// What the `cluster` group says, if that is newer than what is known.
    pub fn of(state: &ClusterState, known: u64) -> Option<Self> {
        let all = state.bound().map(|(vc, cells)| (vc.clone(), cells.clone()));
        (state.bound_at() > known).then(|| Self {
            version: state.bound_at(),
            cells: all.collect(),
            waiting: state.waiting().clone(),
            unheard: state.unheard().clone(),
        })
    }
}

/// What the leader knows of who is bound to what.
#[derive(Clone, Debug, Default)]
pub(super) struct Binder {
    /// Whether there is a `cluster` group, which binds.
    pub(super) is_bound: bool,
    /// As it said last in this term; nothing yet if the version is 0.
    known: Bindings,
    /// Whether it was heard in this term.
    is_heard: bool,
    /// Whether the cells are made by it.
    is_news: bool,
    /// When it is to be asked next, and when it was last.
    ask_at: Time,
    asked_at: Time,
    /// When opportunistic gangs are made room for next.
    spare_at: Time,
    /// When machines are waited for no longer.
    patience: Time,
}

impl Coordinator {
    /// Whether a gang of this job is placed within what the virtual cluster is bound to.
    pub(super) fn is_within(&self, job: &JobSpec) -> bool {
        self.inventory.is_owned() && !job.is_opportunistic()
    }

    /// How many cells that the virtual cluster was promised it is not bound to yet; none where nobody but
    /// its leader binds it.
    pub fn lacking(&self) -> Option<usize> {
        let cells = self
            .inventory
            .cells()
            .filter(|_| self.inventory.is_owned())?;
        Some(cells.unbound(self.options.vc.as_str()))
    }

    /// A term begins: what the last leader was told is to be heard anew.
    pub(super) fn begin_binding(&mut self) {
        self.binder = Binder {
            is_bound: self.binder.is_bound,
            is_news: true,
            ask_at: self.now,
            spare_at: self.now.plus_millis(SPARE_MS),
            patience: self.now.plus_millis(ABSENCE_MS),
            ..Binder::default()
        };
    }

    /// Whether there is a `cluster` group that binds.
    pub(super) fn bound_by_cluster(&mut self, is_bound: bool) {
        if self.binder.is_bound != is_bound {
            self.binder.is_bound = is_bound;
            self.begin_binding();
            self.plan.due(Due::All);
        }
    }

    /// The `cluster` group has answered: with all bindings, if those that were known are no more.
    pub(super) fn bound(&mut self, state: &VcState, news: Option<Bindings>, out: &mut Vec<Output>) {
        let was_heard = std::mem::replace(&mut self.binder.is_heard, true);
        let before = self.binder.known.waiting.clone();
        let was_asked = self.is_asked_for_cells();
        if let Some(news) = news.filter(|news| news.version > self.binder.known.version) {
            if !self.others(&news).eq(self.others(&self.binder.known)) {
                self.binder.is_news = true;
                self.plan.due(Due::All);
            }
            self.binder.known = news;
        }
        let is_asked = self.is_asked_for_cells();
        if !was_heard || self.binder.known.waiting != before || is_asked != was_asked {
            self.binder.ask_at = self.now;
        }
        let (version, cells) = (self.binder.known.version, self.bound_to());
        let own = state.own_cells();
        if self.leads && !is_asked && version > own.version() && !own.is_as(&cells) {
            let entry = Entry::Bound { version, cells };
            out.push(Output::Propose(Box::new(entry)));
        }
    }

    /// What the virtual cluster is bound to has changed, by its own log or the cluster's.
    pub(super) fn cells_changed(&mut self) {
        self.binder.is_news = true;
        self.binder.ask_at = self.now;
        // What nothing could hold these may.
        self.plan.impossible.clear();
        self.plan.due(Due::All);
    }

    /// What is lacking may be something else: it is looked at soon.
    pub(super) fn look_at_binding(&mut self) {
        let soon = self.binder.asked_at.plus_millis(ASK_MS);
        self.binder.ask_at = self.binder.ask_at.min(soon);
    }

    /// Has the cells made by who is bound to what, if that is news.
    pub(super) fn follow_binding(&mut self, state: &VcState) {
        if !std::mem::take(&mut self.binder.is_news) {
            return;
        }
        let is_bound = self.binder.is_bound && self.described().is_some();
        let owners = is_bound.then(|| self.owners(state));
        self.inventory.own(owners);
    }

    /// When the `cluster` group is to be asked.
    pub(super) fn binding_due(&self) -> Option<Time> {
        self.binder.is_bound.then_some(self.binder.ask_at)
    }

    /// Asks for what is lacking and gives back what is too much, when it is time to.
    pub(super) fn ask_for_cells(&mut self, state: &VcState, out: &mut Vec<Output>) {
        if self.binding_due().is_none_or(|at| at > self.now) {
            return;
        }
        let is_ready = self.held_until.is_none() && !self.plan.is_delayed && !self.binder.is_news;
        let is_told = self.binder.is_heard && state.own_cells().is_as(&self.bound_to());
        let mut binding = Binding::default();
        if self.leads && self.is_asked_for_cells() {
            binding.held = Some(state.own_cells().held().clone());
        }
        let is_clear = is_ready && is_told && self.inventory.is_owned();
        if is_clear && !self.is_waiting_for_machines(state) {
            // Where nothing waits, no plan has looked at them.
            self.inventory.follow_others(&self.nodes);
            self.make_way(state, out);
            binding.claims = self.settle_cells(state, out);
        }
        binding.released = state.own_cells().released().clone();
        let waits = self.waits_for_cells();
        let known = self.binder.known.waiting.contains(&self.options.vc);
        binding.waits = (is_ready && is_told && waits != known).then_some(waits);
        let cells = self.inventory.cells();
        let has_lost = cells.is_some_and(|cells| cells.has_lost(self.options.vc.as_str()));
        let is_calm = is_ready && is_told && !waits && !has_lost && binding.is_empty();
        let pause_ms = if is_calm { CALM_MS } else { ASK_MS };
        self.binder.asked_at = self.now;
        self.binder.ask_at = self.now.plus_millis(pause_ms);
        out.push(Output::Bind {
            known: self.binder.known.version,
            binding: Box::new(binding),
        });
    }

    /// Whether the `cluster` group wants to know what it has by its own log.
    fn is_asked_for_cells(&self) -> bool {
        self.binder.known.unheard.contains(&self.options.vc)
    }

    /// Puts quota cells on the best leaves that there are, releases what is too much, and gives what is to
    /// be asked for.
    fn settle_cells(&mut self, state: &VcState, out: &mut Vec<Output>) -> Vec<Bound> {
        let vc = self.options.vc.clone();
        let spares = self.binder.spare_at <= self.now;
        if spares {
            self.binder.spare_at = self.now.plus_millis(SPARE_MS);
        }
        self.inventory.settle_in(vc.as_str());
        let Some(cells) = self.inventory.cells() else {
            return Vec::new();
        };
        let wants = cells.wants(vc.as_str(), spares);
        let surplus = self.surplus(state, cells, &wants);
        if !surplus.is_empty() {
            out.push(Output::Propose(Box::new(Entry::Released(surplus))));
        }
        claims(cells, &wants)
    }

    /// Whether machines that it has cells of may only be late to report.
    fn is_waiting_for_machines(&self, state: &VcState) -> bool {
        let mut nodes = state.own_cells().held().nodes();
        let may_come = |node| !self.nodes.contains(node) && !self.unreachable.contains(node);
        self.now < self.binder.patience && nodes.any(may_come)
    }

    /// What the `cluster` group says that this virtual cluster is bound to.
    fn bound_to(&self) -> Bound {
        let own = self.binder.known.cells.get(&self.options.vc);
        own.cloned().unwrap_or_default()
    }

    /// Who has which leaves: what this virtual cluster has by its own log, others by the cluster's.
    fn owners(&self, state: &VcState) -> Owners {
        let mut owners = Owners::default();
        let own = (&self.options.vc, state.own_cells().held());
        let others = self.others(&self.binder.known);
        for (vc, cells) in std::iter::once(own).chain(others) {
            for (node, span) in cells.spans() {
                owners.add(vc.as_str(), node.as_str(), span.first, span.last);
            }
        }
        owners
    }

    /// What others are bound to.
    fn others<'a>(&self, known: &'a Bindings) -> impl Iterator<Item = (&'a VcName, &'a Bound)> {
        let own = &self.options.vc;
        known.cells.iter().filter(move |(vc, _)| *vc != own)
    }

    /// Whether a gang waits for cells that the virtual cluster was promised and is not bound to.
    fn waits_for_cells(&self) -> bool {
        let waiting = || self.plan.waiting.values();
        let is_busy = |why| matches!(why, &Waiting::Quota { .. });
        let cells = self.inventory.cells().filter(|_| waiting().any(is_busy));
        let is_occupied = cells.is_some_and(|it| it.is_occupied(self.options.vc.as_str()));
        is_occupied || waiting().any(|why| matches!(why, Waiting::Unbound { .. }))
    }

    /// Has gangs give way that have lost their promise, if they are on cells that somebody waits for.
    fn make_way(&mut self, state: &VcState, out: &mut Vec<Output>) {
        let own = &self.options.vc;
        let waiting = &self.binder.known.waiting;
        let others: Vec<&str> = waiting
            .iter()
            .filter(|vc| *vc != own)
            .map(VcName::as_str)
            .collect();
        let Some(cells) = self.inventory.cells().filter(|_| !others.is_empty()) else {
            return;
        };
        let numbers = cells.in_the_way(own.as_str(), &others);
        let runs = numbers.iter().filter_map(|it| self.inventory.known(*it));
        let runs: Vec<Run> = runs.map(|known| known.run.clone()).collect();
        for run in runs {
            let current = state.current(&run.gang);
            let current = current.filter(|it| it.run == run);
            if current
                .is_some_and(|it| matches!(it.gang.phase, Phase::Placed { .. } | Phase::Going))
            {
                self.stop_run(&run, Cause::Preempted, None, out);
            }
        }
    }

    /// What no quota cell needs, and what machines had that are gone once there are others for them; but
    /// for what placed gangs have of it.
    fn surplus(&self, state: &VcState, cells: &Cells, wants: &Wants) -> Bound {
        let held = state.own_cells().held();
        let mut surplus = Bound::default();
        for leaf in &wants.surplus {
            let (node, leaf) = cells.address(*leaf);
            let node = node.parse::<NodeId>().ok();
            let known = node.and_then(|node| Some((held.epoch_of(&node, leaf)?, node)));
            if let Some((epoch, node)) = known {
                surplus.put(&node, leaf, epoch);
            }
        }
        let lacks_none = wants.claims.is_empty() && self.lacking() == Some(0);
        if lacks_none && self.now >= self.binder.patience {
            surplus.extend(&absent(state, cells));
        }
        surplus.without(&state.in_use(&surplus))
    }

    /// A placement was refused because the virtual cluster has given a cell of it back meanwhile.
    pub(super) fn not_own(&mut self, run: &Run, out: &mut Vec<Output>) {
        let Some(work) = self.work_of_mut(run) else {
            return;
        };
        if work.proposed.remove(&Proposal::Placed).is_some() {
            let retry_at = self.give_up(run, out);
            self.wake_at(&run.gang, Some(retry_at));
        }
    }
}

/// The cells to be asked for.
fn claims(cells: &Cells, wants: &Wants) -> Vec<Bound> {
    let claims = wants.claims.iter().map(|leaves| {
        let leaves = leaves.iter().map(|leaf| {
            let (node, address) = cells.address(*leaf);
            // Cells that stand for missing machines are nobody's to give.
            Some((node.parse::<NodeId>().ok()?, address))
        });
        leaves.collect::<Option<Vec<_>>>()
    });
    let cell =
        |leaves: Vec<(NodeId, u32)>| Bound::of(leaves.iter().map(|(node, leaf)| (node, *leaf)), 0);
    claims.flatten().take(CLAIMS_MAX).map(cell).collect()
}

/// What a virtual cluster has of machines that are not among the cells.
fn absent(state: &VcState, cells: &Cells) -> Bound {
    let names: BTreeSet<&str> = cells.node_names().collect();
    let mut absent = Bound::default();
    for (node, span) in state.own_cells().held().spans() {
        if !names.contains(node.as_str()) {
            absent.add(node, *span);
        }
    }
    absent
}
