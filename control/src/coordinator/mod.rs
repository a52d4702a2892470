//! The leader's side of a virtual cluster: from what is committed and what nodes tell to the
//! next entries and orders.
//!
//! It works from levels, not edges: for each gang it looks at the committed phase, sends the
//! order that the phase calls for until it is answered, and proposes what the answers allow. So
//! a new leader, or the same after a restart, needs nothing but the state and fresh reports.
//!
//! Each part keeps its own state. [`Coordinator`] joins them: it gives an input to the parts that it is news
//! for, then asks all of them, in this order, what is due:
//!
//! ```text
//!  Input ──► Coordinator::handle
//!              │ Tell                 nodes      what each node has, by its own word; whom to ask for a report
//!              │ Unreachable, Left,   liveness   which nodes the mesh and admins rule out; restarts after mass failures
//!              │   Cordoned, Leases
//!              │ Described            inventory  the cells, and which gang is where in them
//!              │ Bound                bindings   which cells the `cluster` group has bound; claims and releases
//!              │ Applied, Silent, Off gangs      reserve, launch, go, stop of each gang, by phase and answers
//!              ▼
//!  1. gangs     leave nodes that are to be empty; restart without silent nodes; what a time has come for
//!  2. gangs     other places for members that cannot start where they are ◄─ cells up to date
//!  3. planner   what waits is planned ◄─ cells up to date ◄─ bindings, nodes, liveness
//!     gangs     carry out each decision: give way, reserve
//!  4. bindings  what is lacking is asked for, what is too much is given back ◄─ planner, inventory
//!  5. nodes     who is due is asked for a report
//!  6. history   an hour is counted
//!              │
//!              ▼
//!  Output: Propose, Send, AskReport, Bind
//! ```
//!
//! Parts know of each other in one direction only, each line of the lines below it:
//!
//! ```text
//!  Coordinator              queries.rs: what it answers; trial.rs: what would become of a job, found out on a copy of it
//!  views                    what people are told; changes nothing
//!  gangs
//!  planner, bindings, history
//!  allowance                what users and groups may still have by the policy's limits
//!  context                  the state, the time, the term: what an input is handled with
//!  inventory, liveness
//!  nodes, places            places: where tasks are by what is committed
//! ```

mod allowance;
mod bindings;
mod context;
mod gangs;
mod history;
mod input;
mod inventory;
mod leadership;
mod liveness;
mod nodes;
mod options;
mod output;
mod places;
mod planner;
mod queries;
#[cfg(test)]
mod tests;
mod trial;
mod views;

use std::collections::BTreeSet;

use muster_model::id::NodeId;
use muster_model::time::Time;
use muster_placement::decide::Decision;

pub use bindings::Bindings;
pub use input::CoordinatorInput;
pub use inventory::UnplaceableJob;
pub use liveness::Cordon;
pub use options::{CoordinatorOptions, LeaderPolicy};
pub use output::CoordinatorOutput;
pub use trial::JobTrial;
pub use views::Outlook;

use crate::fence::Term;
use crate::now::Now;
use crate::order::{NodeReport, Tell};
use crate::vc::{VcApplied, VcEntry, VcRejection, VcState};
use allowance::Allowance;
use bindings::{Binder, Readiness};
use gangs::{GangContext, GangSteering};
use history::HistoryHour;
use inventory::Inventory;
use leadership::LeaderTerm;
use liveness::Liveness;
use nodes::ReportedNodes;
use planner::{Admission, Planner};

/// The leader of one virtual cluster.
#[derive(Clone, Debug)]
pub struct Coordinator {
    leadership: LeaderTerm,
    nodes: ReportedNodes,
    liveness: Liveness,
    inventory: Inventory,
    planner: Planner,
    binder: Binder,
    gangs: GangSteering,
    history: HistoryHour,
}

impl Coordinator {
    /// A coordinator that leads nothing yet.
    pub fn new(options: CoordinatorOptions) -> Self {
        Self {
            leadership: LeaderTerm::new(options),
            nodes: ReportedNodes::default(),
            liveness: Liveness::default(),
            inventory: Inventory::default(),
            planner: Planner::default(),
            binder: Binder::default(),
            gangs: GangSteering::default(),
            history: HistoryHour::default(),
        }
    }

    /// The generation that it leads its virtual cluster in.
    pub const fn generation(&self) -> u32 {
        self.leadership.options().generation
    }

    /// Takes one input. `state` is the state with every entry applied that `Input::Applied`
    /// was given for.
    pub fn handle(
        &mut self,
        now: Now,
        state: &VcState,
        input: CoordinatorInput,
        out: &mut Vec<CoordinatorOutput>,
    ) {
        debug_assert!(
            now.steady >= self.leadership.now().steady,
            "the clock that nobody sets never goes back"
        );
        self.leadership.set_now(now);
        self.take(state, input, out);
        if self.leadership.leads() {
            self.do_what_is_due(state, out);
        }
    }

    /// When [`CoordinatorInput::Tick`] is due, by the clock that nobody sets.
    pub fn deadline(&self) -> Option<Time> {
        if !self.leadership.leads() {
            return None;
        }
        let now = self.leadership.now();
        let times = [
            self.gangs.next(),
            self.nodes.next_poll(self.wants_reports()),
            self.planner.next(),
            self.planner.held_until(),
            self.liveness.next_drain().map(|at| now.when(at)),
            self.binder.next(),
            self.history.next(),
        ];
        times.into_iter().flatten().min()
    }

    /// Gives the input to the parts that it is news for.
    fn take(&mut self, state: &VcState, input: CoordinatorInput, out: &mut Vec<CoordinatorOutput>) {
        let now = self.leadership.now().steady;
        match input {
            CoordinatorInput::Elected { term } => self.elected(term, out),
            CoordinatorInput::Applied(Ok(applied)) => self.applied(state, applied, out),
            CoordinatorInput::Applied(Err(VcRejection::NotOwn(run))) => {
                let (gangs, mut parts) = self.steering(state, out);
                gangs.not_own(&run, &mut parts);
            }
            // A refused proposal came late, and what overtook it was applied before.
            CoordinatorInput::Applied(Err(_)) | CoordinatorInput::Tick => {}
            CoordinatorInput::Tell { node, tell } => self.told(state, &node, tell, out),
            CoordinatorInput::Unreachable(nodes) => self.unreachable(state, nodes, out),
            CoordinatorInput::Reachable(nodes) => self.liveness.set_reachable(nodes),
            CoordinatorInput::Left(nodes) => self.left(state, nodes),
            CoordinatorInput::Cordoned(nodes) => {
                if self.liveness.cordon(nodes) {
                    self.planner.look_at_all();
                }
            }
            CoordinatorInput::Racks(racks) => {
                if self.inventory.layout_mut().stand(racks) {
                    self.cells_changed();
                }
            }
            CoordinatorInput::Leases(leases) => {
                if self.liveness.set_leases(leases) && self.leadership.leads() {
                    let (gangs, mut parts) = self.steering(state, out);
                    gangs.overlap(&mut parts);
                }
            }
            CoordinatorInput::Silent { node, for_ms } => {
                let (gangs, mut parts) = self.steering(state, out);
                gangs.silent(&node, for_ms, &mut parts);
            }
            CoordinatorInput::Off(node) => {
                let (gangs, mut parts) = self.steering(state, out);
                gangs.off(&node, &mut parts);
            }
            CoordinatorInput::Described(description) => {
                if self
                    .inventory
                    .layout_mut()
                    .describe(description.map(|it| *it))
                {
                    self.cells_changed();
                }
            }
            CoordinatorInput::Policy(policy) => {
                if self.leadership.set_policy(*policy) {
                    let terms = self.leadership.context(state).terms();
                    self.inventory.adopt_anew(state, &terms);
                    self.cells_changed();
                }
            }
            CoordinatorInput::BoundByCluster(is_bound) => {
                if self.binder.set_bound(now, is_bound) {
                    self.planner.look_at_all();
                }
            }
            CoordinatorInput::Bound(news) => {
                let context = self.leadership.context(state);
                if self.binder.hear(&context, news, out) {
                    self.planner.look_at_all();
                }
            }
        }
    }

    /// Asks the parts in turn what is due by now.
    fn do_what_is_due(&mut self, state: &VcState, out: &mut Vec<CoordinatorOutput>) {
        let (gangs, mut parts) = self.steering(state, out);
        gangs.drain(&mut parts);
        gangs.overlap_again(&mut parts);
        gangs.wake(&mut parts);
        self.relocate(state, out);
        self.plan(state, out);
        self.ask_for_cells(state, out);
        self.ask_for_reports(out);
        let context = self.leadership.context(state);
        self.history.count_hours(&context, out);
    }

    fn elected(&mut self, term: Term, out: &mut Vec<CoordinatorOutput>) {
        let now = self.leadership.now().steady;
        self.leadership.begin_term(term);
        self.gangs.begin_term();
        self.history.begin_term();
        self.planner.begin_term();
        self.inventory.clear();
        self.binder.begin_term(now);
        self.nodes.begin_term(now);
        out.push(CoordinatorOutput::Propose(Box::new(VcEntry::Elected {
            term,
        })));
    }

    fn applied(&mut self, state: &VcState, applied: VcApplied, out: &mut Vec<CoordinatorOutput>) {
        match applied {
            VcApplied::Term(term) => {
                if self.leadership.confirm(term) {
                    self.lead(state, out);
                }
            }
            VcApplied::Job { id, .. } if self.leadership.leads() => {
                let (gangs, mut parts) = self.steering(state, out);
                gangs.job_changed(id, &mut parts);
            }
            VcApplied::Cells if self.leadership.leads() => self.cells_changed(),
            VcApplied::Job { .. } | VcApplied::Cells | VcApplied::Hour => {}
        }
    }

    /// This node leads from now on.
    fn lead(&mut self, state: &VcState, out: &mut Vec<CoordinatorOutput>) {
        let context = self.leadership.context(state);
        self.planner.hold(&context);
        let is_recovered = context.is_recovered();
        let (gangs, mut parts) = self.steering(state, out);
        gangs.lead(&mut parts);
        let nodes: Vec<NodeId> = self.nodes.ids().cloned().collect();
        for node in nodes {
            if is_recovered {
                // What it told before was not looked through: it may run what nobody knows.
                self.nodes.set_unsettled(&node, true);
            }
            out.push(CoordinatorOutput::AskReport { node });
        }
    }

    fn told(
        &mut self,
        state: &VcState,
        node: &NodeId,
        tell: Tell,
        out: &mut Vec<CoordinatorOutput>,
    ) {
        let was_mute = self.nodes.unmute(node);
        if was_mute {
            self.planner.look_at_all();
        }
        match tell {
            Tell::Answer(answer) => {
                let (gangs, mut parts) = self.steering(state, out);
                gangs.answered(node, answer, &mut parts);
            }
            Tell::Report(report) => self.reported(state, node, *report, out),
        }
        if was_mute && self.leadership.leads() {
            let (gangs, mut parts) = self.steering(state, out);
            gangs.heard_again(node, &mut parts);
        }
    }

    fn reported(
        &mut self,
        state: &VcState,
        node: &NodeId,
        mut report: NodeReport,
        out: &mut Vec<CoordinatorOutput>,
    ) {
        let has_strays = report.has_strays;
        let options = self.leadership.options();
        let tasks = std::mem::take(&mut report.tasks).into_iter();
        let (own, others) = tasks.partition(|task| task.vc == options.vc);
        let every_ms = options.policy.report_ms;
        let now = self.leadership.now().steady;
        let changes = self.nodes.hear(now, node, every_ms, report);
        let others_differ = !changes.is_old && self.inventory.uses(node, others);
        if changes.is_other_capacity {
            self.planner.capacity_changed();
        }
        if others_differ || changes.is_other_mind || changes.is_other_capacity {
            self.planner.look_at_all();
        }
        if !self.leadership.leads() {
            return;
        }
        let (gangs, mut parts) = self.steering(state, out);
        if others_differ || changes.is_other_life || changes.is_other_offer {
            gangs.try_again(&mut parts);
        }
        gangs.reported(node, own, (changes, has_strays), &mut parts);
    }

    fn unreachable(
        &mut self,
        state: &VcState,
        unreachable: BTreeSet<NodeId>,
        out: &mut Vec<CoordinatorOutput>,
    ) {
        let now = self.leadership.now().steady;
        let Some(before) = self.liveness.set_unreachable(now, unreachable) else {
            return;
        };
        self.planner.look_at_all();
        if self.leadership.leads() {
            let (gangs, mut parts) = self.steering(state, out);
            gangs.look_elsewhere(&before, &mut parts);
            gangs.overlap(&mut parts);
        }
    }

    /// Forgets nodes that are no members any more, but for those that tasks may still be on.
    fn left(&mut self, state: &VcState, nodes: BTreeSet<NodeId>) {
        self.liveness.set_left(nodes.clone());
        if nodes.is_empty() {
            return;
        }
        let in_use = places::nodes_in_use(state);
        for node in nodes.difference(&in_use) {
            if self.nodes.contains(node) {
                self.nodes.remove(node);
                self.inventory.layout_mut().forget_node(node);
                self.planner.look_at_all();
            }
        }
    }

    /// What the virtual cluster has or is promised is something else.
    fn cells_changed(&mut self) {
        self.binder.cells_changed(self.leadership.now().steady);
        self.planner.cells_changed();
    }

    /// Looks for places for all members that need others.
    fn relocate(&mut self, state: &VcState, out: &mut Vec<CoordinatorOutput>) {
        if !self.gangs.wants_other_places() {
            return;
        }
        let context = self.leadership.context(state);
        let (nodes, liveness) = (&self.nodes, &self.liveness);
        let is_held = self
            .planner
            .is_held(&context, nodes, liveness, &self.inventory);
        if is_held || !self.update_cells(state) {
            return;
        }
        self.inventory.follow_others(&self.nodes);
        let (gangs, mut parts) = self.steering(state, out);
        gangs.relocate_all(&mut parts);
    }

    /// Plans what waits, if anything changed.
    fn plan(&mut self, state: &VcState, out: &mut Vec<CoordinatorOutput>) {
        let context = self.leadership.context(state);
        let (nodes, liveness) = (&self.nodes, &self.liveness);
        let is_due = self
            .planner
            .begin(&context, nodes, liveness, &mut self.inventory);
        if !is_due || !self.update_cells(state) {
            return;
        }
        let (gangs, binder, mut parts) = self.split(state, out);
        let (context, nodes) = (parts.context, &*parts.nodes);
        let placing = gangs.reserving(state);
        let mut allowance = Allowance::new(&context, placing);
        let admission = Admission {
            ready_at: &|run| gangs.ready_at(run),
            allowance: &allowance,
        };
        let decided = parts
            .planner
            .plan(&context, nodes, parts.inventory, &admission);
        for (current, decision) in decided {
            let gang = &current.run.gang;
            if matches!(decision, Decision::Place(_) | Decision::Preempt { .. }) {
                // Each kept to the limits, but not all that one plan places together.
                if let Err(limit) = allowance.check(&current) {
                    parts.planner.hold_back(gang, limit);
                    parts.inventory.end(gang);
                    continue;
                }
                allowance.take(&current);
            }
            let step = parts.planner.decided(parts.inventory, gang, decision);
            if step.lacks_cells {
                binder.look_soon();
            }
            gangs.carry_out(&current, step, &mut parts);
        }
    }

    /// Brings the cells up to what is known; false while they are to be made anew and that waits.
    fn update_cells(&mut self, state: &VcState) -> bool {
        let context = self.leadership.context(state);
        self.binder.follow(&context, &mut self.inventory);
        let (nodes, inventory) = (&mut self.nodes, &mut self.inventory);
        let is_new = self
            .planner
            .update_cells(&context, nodes, &self.liveness, inventory);
        if is_new == Some(true) {
            self.binder.look_soon();
        }
        is_new.is_some()
    }

    /// Asks for cells that are lacking and gives back what is too much, when it is time to.
    fn ask_for_cells(&mut self, state: &VcState, out: &mut Vec<CoordinatorOutput>) {
        let now = self.leadership.now().steady;
        if self.binder.next().is_none_or(|at| at > now) {
            return;
        }
        let is_settled = self.planner.is_settled();
        let context = self.leadership.context(state);
        let known = (&self.nodes, &self.liveness);
        let is_clear = self
            .binder
            .is_clear(&context, is_settled, &self.inventory, known);
        if is_clear {
            // Where nothing waits, no plan has looked at them.
            self.inventory.follow_others(&self.nodes);
            let vc = &context.options.vc;
            let runs = self.binder.in_the_way(vc, &self.inventory);
            let (gangs, mut parts) = self.steering(state, out);
            gangs.vacate(&runs, &mut parts);
        }
        let readiness = Readiness {
            is_settled,
            is_clear,
            waits_for_quota: self.planner.waits_for_quota(),
            waits_for_binding: self.planner.waits_for_binding(),
        };
        let context = self.leadership.context(state);
        self.binder
            .ask(&context, readiness, &mut self.inventory, out);
    }

    /// Asks nodes what they have that are due.
    fn ask_for_reports(&mut self, out: &mut Vec<CoordinatorOutput>) {
        let all = self.wants_reports();
        let now = self.leadership.now().steady;
        let every_ms = self.leadership.options().policy.report_ms;
        while let Some(node) = self.nodes.poll(now, every_ms, all) {
            out.push(CoordinatorOutput::AskReport { node });
        }
    }

    /// Whether anything waits for nodes.
    fn wants_reports(&self) -> bool {
        !self.gangs.is_empty() || self.planner.waits_for_nodes()
    }

    /// The gangs, and all that they are steered with.
    fn steering<'a>(
        &'a mut self,
        state: &'a VcState,
        out: &'a mut Vec<CoordinatorOutput>,
    ) -> (&'a mut GangSteering, GangContext<'a>) {
        let (gangs, _, parts) = self.split(state, out);
        (gangs, parts)
    }

    /// The same beside the binder.
    fn split<'a>(
        &'a mut self,
        state: &'a VcState,
        out: &'a mut Vec<CoordinatorOutput>,
    ) -> (&'a mut GangSteering, &'a mut Binder, GangContext<'a>) {
        let parts = GangContext {
            context: self.leadership.context(state),
            nodes: &mut self.nodes,
            liveness: &mut self.liveness,
            inventory: &mut self.inventory,
            planner: &mut self.planner,
            out,
        };
        (&mut self.gangs, &mut self.binder, parts)
    }
}
