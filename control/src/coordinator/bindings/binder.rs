//! Which cells the virtual cluster places on what it was promised: those that the `cluster` group has
//! bound it to, in a cluster that is described. What it lacks is asked for, what it has too much of is
//! given back; both beside everything else, so that a placement waits for nobody.

use std::collections::BTreeSet;

use muster_model::id::{NodeId, VcName};
use muster_model::time::Time;
use muster_placement::cells::{Cells, Owners, Wants};

use super::known::Bindings;
use crate::bound::BoundLeaves;
use crate::cluster::{Binding, CLAIMS_MAX};
use crate::coordinator::context::Context;
use crate::coordinator::inventory::Inventory;
use crate::coordinator::liveness::Liveness;
use crate::coordinator::nodes::ReportedNodes;
use crate::coordinator::output::CoordinatorOutput;
use crate::gang::GangRun;
use crate::vc::{VcEntry, VcState};

/// While something is lacking the `cluster` group is asked this often, milliseconds.
const ASK_MS: u64 = 1_000;
/// While nothing is, milliseconds.
const CALM_MS: u64 = 10_000;
/// Opportunistic gangs are made room for this often: they may be gone soon, milliseconds.
const SPARE_MS: u64 = 60_000;
/// How long after its election a leader waits for machines that it has cells of and that have not
/// reported though they may be there, before it asks for others in their place, milliseconds.
const ABSENCE_MS: u64 = 30_000;

/// What the leader knows of who is bound to what.
#[derive(Clone, Debug, Default)]
pub(in crate::coordinator) struct Binder {
    /// Whether there is a `cluster` group, which binds.
    is_bound: bool,
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

/// What the planner says of the cells when they are asked for.
#[derive(Clone, Copy, Debug)]
pub(in crate::coordinator) struct Readiness {
    /// Whether they are as everything says that is known by now.
    pub(in crate::coordinator) is_settled: bool,
    /// Whether a gang waits for room within its quota.
    pub(in crate::coordinator) waits_for_quota: bool,
    /// Whether a gang waits for quota cells that are bound to none yet.
    pub(in crate::coordinator) waits_for_binding: bool,
    /// Whether it can be told what is lacking: see [`Binder::is_clear`].
    pub(in crate::coordinator) is_clear: bool,
}

impl Binder {
    /// A term begins: what the last leader was told is to be heard anew.
    pub(in crate::coordinator) fn begin_term(&mut self, now: Time) {
        *self = Self {
            is_bound: self.is_bound,
            is_news: true,
            ask_at: now,
            spare_at: now.plus_millis(SPARE_MS),
            patience: now.plus_millis(ABSENCE_MS),
            ..Self::default()
        };
    }

    /// Whether there is a `cluster` group that binds. Whether that is news.
    pub(in crate::coordinator) fn set_bound(&mut self, now: Time, is_bound: bool) -> bool {
        let is_news = self.is_bound != is_bound;
        if is_news {
            self.is_bound = is_bound;
            self.begin_term(now);
        }
        is_news
    }

    /// The `cluster` group has answered: with all bindings, if those that were known are no more. Whether
    /// others are bound to something else.
    pub(in crate::coordinator) fn hear(
        &mut self,
        context: &Context<'_>,
        news: Option<Bindings>,
        out: &mut Vec<CoordinatorOutput>,
    ) -> bool {
        let vc = &context.options.vc;
        let was_heard = std::mem::replace(&mut self.is_heard, true);
        let before = self.known.waiting.clone();
        let was_asked = self.is_asked_for_cells(vc);
        let mut is_other = false;
        if let Some(news) = news.filter(|news| news.version > self.known.version) {
            is_other = !others(&news, vc).eq(others(&self.known, vc));
            self.is_news |= is_other;
            self.known = news;
        }
        let is_asked = self.is_asked_for_cells(vc);
        if !was_heard || self.known.waiting != before || is_asked != was_asked {
            self.ask_at = context.now;
        }
        let (version, cells) = (self.known.version, self.bound_to(vc));
        let own = context.state.own_cells();
        if context.leads && !is_asked && version > own.version() && !own.is_as(&cells) {
            let entry = VcEntry::Bound { version, cells };
            out.push(CoordinatorOutput::Propose(Box::new(entry)));
        }
        is_other
    }

    /// What the virtual cluster is bound to has changed, by its own log or the cluster's.
    pub(in crate::coordinator) const fn cells_changed(&mut self, now: Time) {
        self.is_news = true;
        self.ask_at = now;
    }

    /// What is lacking may be something else: it is looked at soon.
    pub(in crate::coordinator) fn look_soon(&mut self) {
        let soon = self.asked_at.plus_millis(ASK_MS);
        self.ask_at = self.ask_at.min(soon);
    }

    /// Has the cells made by who is bound to what, if that is news.
    pub(in crate::coordinator) fn follow(
        &mut self,
        context: &Context<'_>,
        inventory: &mut Inventory,
    ) {
        if !std::mem::take(&mut self.is_news) {
            return;
        }
        let is_bound = self.is_bound && inventory.layout().described().is_some();
        let owners = is_bound.then(|| self.owners(context));
        inventory.layout_mut().own(owners);
    }

    /// When the `cluster` group is to be asked.
    pub(in crate::coordinator) fn next(&self) -> Option<Time> {
        self.is_bound.then_some(self.ask_at)
    }

    /// Whether what is lacking can be told by now: the cells are as everything says, and nobody may only be
    /// late to report.
    pub(in crate::coordinator) fn is_clear(
        &self,
        context: &Context<'_>,
        is_settled: bool,
        inventory: &Inventory,
        (nodes, liveness): (&ReportedNodes, &Liveness),
    ) -> bool {
        let mut held = context.state.own_cells().held().nodes();
        let may_come = |node| !nodes.contains(node) && !liveness.is_unreachable(node);
        is_settled
            && !self.is_news
            && self.is_told(context)
            && inventory.layout().is_owned()
            && !(context.now < self.patience && held.any(may_come))
    }

    /// Asks for what is lacking and gives back what is too much; only the latter if that is not clear yet.
    pub(in crate::coordinator) fn ask(
        &mut self,
        context: &Context<'_>,
        readiness: Readiness,
        inventory: &mut Inventory,
        out: &mut Vec<CoordinatorOutput>,
    ) {
        let vc = &context.options.vc;
        let own = context.state.own_cells();
        let is_known = readiness.is_settled && !self.is_news && self.is_told(context);
        let mut binding = Binding::default();
        if context.leads && self.is_asked_for_cells(vc) {
            binding.held = Some(own.held().clone());
        }
        if readiness.is_clear {
            binding.claims = self.settle_cells(context, inventory, out);
        }
        binding.released = own.released().clone();
        let is_occupied =
            |cells: &Cells| readiness.waits_for_quota && cells.is_occupied(vc.as_str());
        let cells = inventory.cells();
        let waits = cells.is_some_and(is_occupied) || readiness.waits_for_binding;
        let is_noted = self.known.waiting.contains(vc);
        binding.waits = (is_known && waits != is_noted).then_some(waits);
        let has_lost = cells.is_some_and(|cells| cells.has_lost(vc.as_str()));
        let is_calm = is_known && !waits && !has_lost && binding.is_empty();
        let pause_ms = if is_calm { CALM_MS } else { ASK_MS };
        self.asked_at = context.now;
        self.ask_at = context.now.plus_millis(pause_ms);
        out.push(CoordinatorOutput::Bind {
            known: self.known.version,
            binding: Box::new(binding),
        });
    }

    /// The runs that have lost their promise and are on cells which somebody else waits for.
    pub(in crate::coordinator) fn in_the_way(
        &self,
        vc: &VcName,
        inventory: &Inventory,
    ) -> Vec<GangRun> {
        let waiting = self.known.waiting.iter().filter(|waiting| *waiting != vc);
        let others: Vec<&str> = waiting.map(VcName::as_str).collect();
        let Some(cells) = inventory.cells().filter(|_| !others.is_empty()) else {
            return Vec::new();
        };
        let numbers = cells.in_the_way(vc.as_str(), &others);
        let runs = numbers.iter().filter_map(|it| inventory.known(*it));
        runs.map(|known| known.run.clone()).collect()
    }

    /// Whether the `cluster` group was heard, and the own log says the same of this virtual cluster.
    fn is_told(&self, context: &Context<'_>) -> bool {
        let own = context.state.own_cells();
        self.is_heard
            && match self.known.cells.get(&context.options.vc) {
                Some(cells) => own.is_as(cells),
                None => own.is_as(&BoundLeaves::default()),
            }
    }

    /// Whether the `cluster` group wants to know what it has by its own log.
    fn is_asked_for_cells(&self, vc: &VcName) -> bool {
        self.known.unheard.contains(vc)
    }

    /// Puts quota cells on the best leaves that there are, releases what is too much, and gives what is to
    /// be asked for.
    fn settle_cells(
        &mut self,
        context: &Context<'_>,
        inventory: &mut Inventory,
        out: &mut Vec<CoordinatorOutput>,
    ) -> Vec<BoundLeaves> {
        let vc = context.options.vc.as_str();
        let spares = self.spare_at <= context.now;
        if spares {
            self.spare_at = context.now.plus_millis(SPARE_MS);
        }
        inventory.layout_mut().settle_in(vc);
        let Some(cells) = inventory.cells() else {
            return Vec::new();
        };
        let wants = cells.wants(vc, spares);
        let surplus = self.surplus(context, inventory, cells, &wants);
        let claims = claims(cells, &wants);
        debug_assert!(
            claims.iter().all(|claim| surplus.without(claim) == surplus),
            "what is claimed is not released"
        );
        if !surplus.is_empty() {
            out.push(CoordinatorOutput::Propose(Box::new(VcEntry::Released(
                surplus,
            ))));
        }
        claims
    }

    /// What the `cluster` group says that this virtual cluster is bound to.
    fn bound_to(&self, vc: &VcName) -> BoundLeaves {
        self.known.cells.get(vc).cloned().unwrap_or_default()
    }

    /// Who has which leaves: what this virtual cluster has by its own log, others by the cluster's.
    fn owners(&self, context: &Context<'_>) -> Owners {
        let mut owners = Owners::default();
        let own = (&context.options.vc, context.state.own_cells().held());
        let others = others(&self.known, &context.options.vc);
        for (vc, cells) in std::iter::once(own).chain(others) {
            for (node, span) in cells.spans() {
                owners.add(vc.as_str(), node.as_str(), span.first, span.last);
            }
        }
        owners
    }

    /// What no quota cell needs, and what machines had that are gone once there are others for them; but
    /// for what placed gangs have of it.
    fn surplus(
        &self,
        context: &Context<'_>,
        inventory: &Inventory,
        cells: &Cells,
        wants: &Wants,
    ) -> BoundLeaves {
        let state = context.state;
        let held = state.own_cells().held();
        let mut surplus = BoundLeaves::default();
        for leaf in &wants.surplus {
            let (node, leaf) = cells.address(*leaf);
            let node = node.parse::<NodeId>().ok();
            let known = node.and_then(|node| Some((held.epoch_of(&node, leaf)?, node)));
            if let Some((epoch, node)) = known {
                surplus.put(&node, leaf, epoch);
            }
        }
        let lacks_none =
            wants.claims.is_empty() && inventory.layout().lacking(&context.options.vc) == Some(0);
        if lacks_none && context.now >= self.patience {
            surplus.extend(&absent(state, cells));
        }
        surplus.without(&state.in_use(&surplus))
    }
}

/// What others are bound to.
fn others<'a>(
    known: &'a Bindings,
    own: &'a VcName,
) -> impl Iterator<Item = (&'a VcName, &'a BoundLeaves)> {
    known.cells.iter().filter(move |(vc, _)| *vc != own)
}

/// The cells to be asked for.
fn claims(cells: &Cells, wants: &Wants) -> Vec<BoundLeaves> {
    let claims = wants.claims.iter().map(|leaves| {
        let leaves = leaves.iter().map(|leaf| {
            let (node, address) = cells.address(*leaf);
            // Cells that stand for missing machines are nobody's to give.
            Some((node.parse::<NodeId>().ok()?, address))
        });
        leaves.collect::<Option<Vec<_>>>()
    });
    let cell = |leaves: Vec<(NodeId, u32)>| {
        BoundLeaves::of(leaves.iter().map(|(node, leaf)| (node, *leaf)), 0)
    };
    claims.flatten().take(CLAIMS_MAX).map(cell).collect()
}

/// What a virtual cluster has of machines that are not among the cells.
fn absent(state: &VcState, cells: &Cells) -> BoundLeaves {
    let names: BTreeSet<&str> = cells.node_names().collect();
    let mut absent = BoundLeaves::default();
    for (node, span) in state.own_cells().held().spans() {
        if !names.contains(node.as_str()) {
            absent.add(node, *span);
        }
    }
    absent
}
