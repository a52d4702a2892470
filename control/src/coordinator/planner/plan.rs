//! One plan: what is to be planned, and what was decided.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::time::Time;
use muster_placement::decide::Decision;
use muster_placement::gang::GangNumber as Number;
use muster_placement::plan::{Plan, advance};
use muster_placement::queue::{GangQueue, Queued};

use super::elsewhere::away_from_faults;
use super::{Admission, GANGS_PER_MS, Impossible, PlanDue, Planner, REPLAN_MS};
use crate::coordinator::context::Context;
use crate::coordinator::inventory::{Inventory, Terms};
use crate::coordinator::liveness::Liveness;
use crate::coordinator::nodes::ReportedNodes;
use crate::gang::GangId;
use crate::vc::Current;
use crate::vc::attempt::GangPhase;

/// What was decided of gangs, in the order in which it is to be carried out.
type Decided<'a> = Vec<(Current<'a>, Decision)>;

impl Planner {
    /// Looks at what has changed. Whether there is anything to plan: then the cells are brought up to date next.
    pub(in crate::coordinator) fn begin(
        &mut self,
        context: &Context<'_>,
        nodes: &ReportedNodes,
        liveness: &Liveness,
        inventory: &mut Inventory,
    ) -> bool {
        inventory.settle(nodes);
        self.is_idle = context.state.waiting().next().is_none();
        let is_time = self.timeout().is_some_and(|at| at <= context.now);
        if is_time || inventory.layout_mut().take_roomier() {
            self.look_at_all();
        }
        if self.is_held(context, nodes, liveness, inventory) {
            // Everything is planned afterwards.
            self.due = PlanDue::Nothing;
            self.look_again_later(context);
        }
        self.due != PlanDue::Nothing
    }

    /// Plans what is due on cells that are up to date.
    pub(in crate::coordinator) fn plan<'a>(
        &mut self,
        context: &Context<'a>,
        nodes: &ReportedNodes,
        inventory: &mut Inventory,
        admission: &Admission<'_>,
    ) -> Decided<'a> {
        // Most of what nodes tell is of no matter while nothing waits.
        if self.is_idle {
            return Vec::new();
        }
        inventory.follow_others(nodes);
        inventory.drop_broken_claims();
        if inventory.layout_mut().take_roomier() {
            self.look_at_all();
        }
        if self.due == PlanDue::All && context.now < self.all_at {
            return Vec::new();
        }
        let due = std::mem::take(&mut self.due);
        if due == PlanDue::All {
            self.waiting.clear();
            self.limited.clear();
            self.look_again_later(context);
        }
        let ready = self.ready(context, due, admission);
        if due == PlanDue::All {
            let pause_ms = ready.len() as u64 / GANGS_PER_MS;
            self.all_at = context.now.plus_millis(pause_ms);
        }
        // With the first node everything is planned.
        if ready.is_empty() || nodes.is_empty() {
            return Vec::new();
        }
        let (queue, queued) = self.queue(ready, inventory, &context.terms());
        let Some(cells) = inventory.layout_mut().cells_mut() else {
            return Vec::new();
        };
        let mut plan = advance(
            cells,
            &queue,
            &context.options.policy.placement,
            context.wall,
        );
        if self.waiting.is_empty() && self.preempting.is_empty() {
            away_from_faults(context, inventory, queue, &queued, &mut plan);
        }
        self.take(inventory, plan, queued)
    }

    fn look_again_later(&mut self, context: &Context<'_>) {
        self.pauses.look_anew();
        self.again = context.now.plus_millis(REPLAN_MS);
    }

    /// The waiting gangs that are to be planned now; notes when a pause ends next.
    fn ready<'a>(
        &mut self,
        context: &Context<'a>,
        due: PlanDue,
        admission: &Admission<'_>,
    ) -> Vec<Current<'a>> {
        let state = context.state;
        let newcomers = std::mem::take(&mut self.newcomers);
        if due == PlanDue::All {
            let all = state.waiting();
            let is_ready = |current: &Current<'_>| self.is_ready(context, current, admission);
            return all.filter(is_ready).collect();
        }
        let gangs = newcomers.iter().chain(&self.kept);
        let gangs: BTreeSet<GangId> = gangs.chain(self.preempting.keys()).cloned().collect();
        let mut ready = Vec::new();
        for current in gangs.iter().filter_map(|gang| state.current(gang)) {
            let is_waiting = current.gang.phase == GangPhase::Waiting;
            if is_waiting && self.is_ready(context, &current, admission) {
                ready.push(current);
            }
        }
        ready
    }

    /// Whether a waiting gang is to be planned now; notes the end of its pause if it has one.
    fn is_ready(
        &mut self,
        context: &Context<'_>,
        current: &Current<'_>,
        admission: &Admission<'_>,
    ) -> bool {
        let gang = &current.run.gang;
        let Some(retry_at) = (admission.ready_at)(&current.run) else {
            return false;
        };
        let has_no_room = self.waiting.contains_key(gang) && !self.kept.contains(gang);
        let is_settled = has_no_room || self.limited.contains_key(gang);
        if is_settled || self.impossible.contains_key(gang) {
            return false;
        }
        let at = self.pauses.note(context, current).max(retry_at);
        if at > context.now {
            self.pauses.wait_until(at);
            return false;
        }
        match admission.allowance.check(current) {
            Ok(()) => true,
            Err(limit) => {
                self.note_limit(gang, limit);
                false
            }
        }
    }

    /// The queue that is planned, and whose the numbers in it are.
    fn queue<'a>(
        &mut self,
        ready: Vec<Current<'a>>,
        inventory: &mut Inventory,
        terms: &Terms,
    ) -> (GangQueue, BTreeMap<Number, Current<'a>>) {
        let mut queue = GangQueue::default();
        let mut queued = BTreeMap::new();
        for current in ready {
            match inventory.demand(&current, terms) {
                Ok(gang) => {
                    let number = gang.id;
                    queue.gangs.push(Queued {
                        gang,
                        since: Time::from_millis(current.job.accepted.submitted_ms),
                    });
                    queued.insert(number, current);
                }
                Err(reason) => {
                    let why = Impossible {
                        fact: reason,
                        ..Impossible::default()
                    };
                    self.impossible.insert(current.run.gang.clone(), why);
                }
            }
        }
        (queue, queued)
    }

    /// Notes whom leaf cells are kept for, and gives what was decided.
    fn take<'a>(
        &mut self,
        inventory: &Inventory,
        plan: Plan,
        mut queued: BTreeMap<Number, Current<'a>>,
    ) -> Decided<'a> {
        let kept = plan.kept.iter();
        let kept = kept.filter_map(|(number, _)| inventory.known(*number));
        self.kept = kept.map(|known| known.run.gang.clone()).collect();
        let decisions = plan.decisions.into_iter();
        let decided =
            decisions.filter_map(|(number, decision)| Some((queued.remove(&number)?, decision)));
        decided.collect()
    }
}
