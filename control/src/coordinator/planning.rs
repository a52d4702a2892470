//! Which waiting gang is reserved next, and who has to give way for it.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::cluster_spec::ClusterSpec;
use muster_model::exit::Cause;
use muster_model::id::NodeId;
use muster_model::time::Time;
use muster_placement::decide::{Decision, Waiting};
use muster_placement::gang::{GangId as Number, Placement};
use muster_placement::plan::{Plan, advance};
use muster_placement::queue::{Queue, Queued};

use super::inventory::Terms;
use super::work::Proposal;
use super::{Coordinator, Output};
use crate::gang::GangId;
use crate::vc::attempt::{Pause, Phase};
use crate::vc::{Current, VcState};

/// While something waits everything is planned anew this often, milliseconds: gangs fall overdue.
const REPLAN_MS: u64 = 60_000;

/// The cells of so many nodes are made anew once a millisecond at most: all nodes report at once to who
/// has just been elected, and with each report there would be others.
const NODES_PER_MS: u64 = 10;

/// Everything that waits is planned once a millisecond at most per so many gangs: where a long queue waits
/// for room, each task that ends makes some.
const GANGS_PER_MS: u64 = 100;

/// What has changed since the last plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// Nothing that a plan has to do with.
    #[default]
    Nothing,
    /// Gangs came to wait; those that waited before fit as little as they did.
    Newcomers,
    /// Something may fit that did not.
    All,
}

/// What the last plan left behind.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    pub(super) due: Due,
    /// Gangs that the next plan looks at even if nothing else has changed.
    newcomers: BTreeSet<GangId>,
    /// When a gang's pause ends.
    pause: Option<Time>,
    /// When the pauses end that were looked at.
    pauses: BTreeMap<GangId, (Pause, Time)>,
    /// The cells are not made anew before this.
    reshape_at: Time,
    /// Whether they are to be, and everything waits for that.
    pub(super) is_delayed: bool,
    /// Not everything is planned before this.
    all_at: Time,
    /// Whether nothing waits that could be planned.
    is_idle: bool,
    /// When everything is to be planned anew if something still waits for room then.
    again: Time,
    /// Gangs that were found not to fit, and why.
    pub(super) waiting: BTreeMap<GangId, Waiting>,
    /// Gangs that wait for others to give way.
    pub(super) preempting: BTreeMap<GangId, Vec<Number>>,
    /// Gangs that leaf cells are kept for: they are part of every plan.
    kept: BTreeSet<GangId>,
    /// Gangs that no cell could hold, and why; until the cells change.
    pub(super) impossible: BTreeMap<GangId, String>,
}

/// Where a gang is to go.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) placement: Placement,
    /// Gangs of other virtual clusters that would have to give way for it.
    pub(super) victims: Vec<Number>,
}

impl Notes {
    pub(super) fn due(&mut self, due: Due) {
        self.due = self.due.max(due);
    }

    /// A gang is to be planned, though nothing came free.
    pub(super) fn add(&mut self, gang: GangId) {
        self.newcomers.insert(gang);
        self.due(Due::Newcomers);
    }

    /// When the next plan is to be made.
    pub(super) fn next(&self) -> Option<Time> {
        match self.due {
            _ if self.is_idle => None,
            Due::Nothing => self.timeout(),
            Due::Newcomers => Some(self.shaped_at()),
            Due::All => Some(self.shaped_at().max(self.all_at)),
        }
    }

    /// When the cells are as they are to be.
    fn shaped_at(&self) -> Time {
        match self.is_delayed {
            true => self.reshape_at,
            false => Time::default(),
        }
    }

    /// Whom the last plan left something behind for.
    pub(super) fn gangs(&self) -> impl Iterator<Item = &GangId> {
        let waiting = self.waiting.keys().chain(self.preempting.keys());
        waiting.chain(&self.kept).chain(self.impossible.keys())
    }

    /// Whether a gang waits for room.
    pub(super) fn is_blocked(&self) -> bool {
        !self.waiting.is_empty() || !self.preempting.is_empty()
    }

    /// When there is something to plan though nothing happens.
    fn timeout(&self) -> Option<Time> {
        let again = self.is_blocked().then_some(self.again);
        [self.pause, again].into_iter().flatten().min()
    }

    fn forget(&mut self, gang: &GangId) {
        self.waiting.remove(gang);
        self.pauses.remove(gang);
        self.preempting.remove(gang);
        self.kept.remove(gang);
        self.impossible.remove(gang);
    }
}

impl Coordinator {
    /// Plans what waits, if anything changed.
    pub(super) fn plan(&mut self, state: &VcState, out: &mut Vec<Output>) {
        self.inventory.settle(&self.nodes);
        self.plan.is_idle = state.waiting().next().is_none();
        let is_time = self.plan.timeout().is_some_and(|at| at <= self.now);
        if is_time || self.inventory.take_roomier() {
            self.plan.due(Due::All);
        }
        if self.is_held(state) {
            // Everything is planned afterwards.
            self.plan.due = Due::Nothing;
            self.plan.pause = None;
            self.plan.again = self.now.plus_millis(REPLAN_MS);
        }
        if self.plan.due == Due::Nothing {
            return;
        }
        if !self.update_cells(state) {
            return;
        }
        // Most of what nodes tell is of no matter while nothing waits.
        if self.plan.is_idle {
            return;
        }
        self.inventory.follow_others(&self.nodes);
        self.inventory.drop_broken_claims();
        if self.inventory.take_roomier() {
            self.plan.due(Due::All);
        }
        if self.plan.due == Due::All && self.now < self.plan.all_at {
            return;
        }
        let due = std::mem::take(&mut self.plan.due);
        if due == Due::All {
            self.plan.waiting.clear();
            self.plan.pause = None;
            self.plan.again = self.now.plus_millis(REPLAN_MS);
        }
        let ready = self.ready(state, due);
        if due == Due::All {
            let pause_ms = ready.len() as u64 / GANGS_PER_MS;
            self.plan.all_at = self.now.plus_millis(pause_ms);
        }
        // With the first node everything is planned.
        if ready.is_empty() || self.nodes.is_empty() {
            return;
        }
        let terms = self.terms();
        let queue = self.queue(&ready, &terms);
        let Some(cells) = self.inventory.cells_mut() else {
            return;
        };
        let plan = advance(cells, &queue, &self.options.placement, self.wall);
        self.carry_out(state, &ready, plan, out);
    }

    /// Brings the cells up to what is known; false while they are to be made anew and that waits.
    pub(super) fn update_cells(&mut self, state: &VcState) -> bool {
        self.follow_binding(state);
        self.plan.is_delayed =
            self.now < self.plan.reshape_at && self.inventory.is_to_be_reshaped(&self.nodes);
        if self.plan.is_delayed {
            return false;
        }
        let terms = self.terms();
        if self.inventory.update(&mut self.nodes, state, &terms) {
            self.look_at_binding();
            let pause_ms = self.nodes.len() as u64 / NODES_PER_MS;
            self.plan.reshape_at = self.now.plus_millis(pause_ms);
        }
        self.inventory.reach(self.cut_off());
        self.inventory.cordon(self.cordoned());
        true
    }

    /// Whether too little is known to place anything: how the cluster is described, or, where the
    /// machines are found, what running tasks hold of what is promised.
    pub(super) fn is_held(&mut self, state: &VcState) -> bool {
        let is_over = self.held_until.is_some_and(|until| until <= self.now);
        if self.held_until.is_some() && (is_over || !self.has_unheard(state)) {
            self.held_until = None;
            self.plan.due(Due::All);
        }
        self.inventory.description().is_none() || self.held_until.is_some()
    }

    /// Whether promises rest on machines that are found, and one that tasks run on has not reported; or,
    /// after a recovery, something may run that nobody knows.
    fn has_unheard(&self, state: &VcState) -> bool {
        if self.options.generation > 1 && self.has_strays() {
            return true;
        }
        let is_promised = |description: &ClusterSpec| {
            description.cells.is_empty() && !description.virtual_clusters.is_empty()
        };
        if self
            .inventory
            .description()
            .is_some_and(|it| !is_promised(it))
        {
            return false;
        }
        let is_unheard =
            |node: &NodeId| !self.nodes.contains(node) && !self.unreachable.contains(node);
        self.nodes_in_use(state).iter().any(is_unheard)
    }

    /// Whether a node that can be reached may run what nobody knows any more. It may also as long as
    /// nobody has said which can be.
    fn has_strays(&self) -> bool {
        let is_open = |node| self.nodes.get(node).is_none_or(|known| known.is_unsettled);
        self.reachable.is_empty() || self.reachable.iter().any(is_open)
    }

    pub(super) fn terms(&self) -> Terms {
        Terms {
            now: self.wall,
            min_run_ms: self.options.min_run_ms,
        }
    }

    /// The waiting gangs that are to be planned now; notes when a pause ends next.
    fn ready<'a>(&mut self, state: &'a VcState, due: Due) -> Vec<Current<'a>> {
        let newcomers = std::mem::take(&mut self.plan.newcomers);
        if due == Due::All {
            let all = state.waiting();
            return all.filter(|current| self.is_ready(current)).collect();
        }
        let notes = &self.plan;
        let gangs = newcomers.iter().chain(&notes.kept);
        let gangs: BTreeSet<GangId> = gangs.chain(notes.preempting.keys()).cloned().collect();
        let mut ready = Vec::new();
        for current in gangs.iter().filter_map(|gang| state.current(gang)) {
            if current.gang.phase == Phase::Waiting && self.is_ready(&current) {
                ready.push(current);
            }
        }
        ready
    }

    /// Whether a waiting gang is to be planned now; notes the end of its pause if it has one.
    fn is_ready(&mut self, current: &Current<'_>) -> bool {
        let gang = &current.run.gang;
        let work = self.work.get(gang);
        let work = work.filter(|work| work.run == current.run);
        let is_settled = self.plan.waiting.contains_key(gang) && !self.plan.kept.contains(gang);
        if work.is_some_and(|work| work.reserving.is_some())
            || self.plan.impossible.contains_key(gang)
            || is_settled
        {
            return false;
        }
        let retry_at = work.map_or_else(Time::default, |work| work.retry_at);
        let at = self.note_pause(current).max(retry_at);
        if at > self.now {
            let next = self.plan.pause.map_or(at, |next| next.min(at));
            self.plan.pause = Some(next);
        }
        at <= self.now
    }

    /// When a gang's pause ends, by the clock that nobody sets: no later than when it was first looked at
    /// in this term and as long again. Whoever said when it began may have a clock that is wrong.
    fn note_pause(&mut self, current: &Current<'_>) -> Time {
        let end = self.pause_end(current);
        if end > self.now {
            let gang = current.run.gang.clone();
            self.plan.pauses.insert(gang, (current.gang.pause, end));
        } else {
            self.plan.pauses.remove(&current.run.gang);
        }
        end
    }

    pub(super) fn pause_end(&self, current: &Current<'_>) -> Time {
        let pause = current.gang.pause;
        let left = pause.until_ms.saturating_sub(self.wall.as_millis());
        let end = self.now.plus_millis(left.min(pause.for_ms));
        let noted = self.plan.pauses.get(&current.run.gang);
        match noted.filter(|(of, _)| *of == pause) {
            Some((_, noted)) => end.min(*noted),
            None => end,
        }
    }

    fn queue(&mut self, ready: &[Current<'_>], terms: &Terms) -> Queue {
        let mut queue = Queue::default();
        for current in ready {
            let gang = &current.run.gang;
            match self.inventory.demand(current, terms) {
                Ok(demand) => queue.gangs.push(Queued {
                    gang: demand,
                    since: Time::from_millis(current.job.accepted.submitted_ms),
                }),
                Err(reason) => {
                    self.plan.impossible.insert(gang.clone(), reason);
                }
            }
        }
        queue
    }

    fn carry_out(
        &mut self,
        state: &VcState,
        ready: &[Current<'_>],
        plan: Plan,
        out: &mut Vec<Output>,
    ) {
        let by_gang = ready.iter().map(|current| (&current.run.gang, current));
        let by_gang: BTreeMap<&GangId, &Current<'_>> = by_gang.collect();
        self.plan.kept.clear();
        for (number, _) in &plan.kept {
            if let Some(known) = self.inventory.known(*number) {
                self.plan.kept.insert(known.run.gang.clone());
            }
        }
        for (number, decision) in plan.decisions {
            let gang = self.inventory.known(number).map(|known| &known.run.gang);
            let current = gang.and_then(|gang| by_gang.get(gang));
            if let Some(current) = current {
                self.decided(state, current, decision, out);
            }
        }
    }

    fn decided(
        &mut self,
        state: &VcState,
        current: &Current<'_>,
        decision: Decision,
        out: &mut Vec<Output>,
    ) {
        let gang = current.run.gang.clone();
        self.plan.waiting.remove(&gang);
        self.plan.preempting.remove(&gang);
        match decision {
            Decision::Place(grant) => {
                let plan = Planned {
                    placement: grant.placement,
                    victims: Vec::new(),
                };
                self.begin(state, current, &plan, out);
            }
            Decision::Preempt { victims, grant } => {
                let foreign = |victim: &Number| self.inventory.is_foreign(*victim);
                let (foreign, own): (Vec<Number>, Vec<Number>) =
                    victims.iter().copied().partition(foreign);
                for victim in &own {
                    self.evict(state, *victim, current, out);
                }
                self.plan.preempting.insert(gang, victims);
                // The nodes see to it that gangs of other virtual clusters give way.
                if own.is_empty() {
                    let plan = Planned {
                        placement: grant.placement,
                        victims: foreign,
                    };
                    self.begin(state, current, &plan, out);
                }
            }
            Decision::Wait(why) => {
                if matches!(
                    why,
                    Waiting::Quota { bad: 1.., .. } | Waiting::Unbound { .. }
                ) {
                    self.look_at_binding();
                }
                self.plan.waiting.insert(gang, why);
            }
            Decision::Refuse(why) => {
                self.plan.impossible.insert(gang, why.to_string());
            }
        }
    }

    fn begin(
        &mut self,
        state: &VcState,
        current: &Current<'_>,
        plan: &Planned,
        out: &mut Vec<Output>,
    ) {
        let gang = &current.run.gang;
        if self.reserve(state, current, plan) {
            return self.steer(state, gang, out);
        }
        // A device of the plan is not reported any more; the next report tells more.
        self.inventory.end(gang);
    }

    /// Sees to it that a gang gives way. Asked again with every plan until it is gone.
    fn evict(&mut self, state: &VcState, victim: Number, by: &Current<'_>, out: &mut Vec<Output>) {
        let known = self.inventory.known(victim).map(|known| known.run.clone());
        let current = known.as_ref().and_then(|run| state.current(&run.gang));
        let Some(current) = current.filter(|current| Some(&current.run) == known.as_ref()) else {
            return;
        };
        match current.gang.phase {
            Phase::Waiting => self.call_off(&current, victim, out),
            Phase::Placed { .. } | Phase::Going => {
                let by = by.job.accepted.key.clone();
                self.stop_run(&current.run, Cause::Preempted, Some(by), out);
            }
            Phase::Stopping { .. } | Phase::Voiding | Phase::Ended => {}
        }
    }

    /// Ends a reservation that is not proposed to be committed yet.
    fn call_off(&mut self, current: &Current<'_>, victim: Number, out: &mut Vec<Output>) {
        let gang = &current.run.gang;
        let work = self.work.get(gang);
        let is_open = work.is_some_and(|work| {
            work.reserving.is_some() && !work.proposed.contains(&Proposal::Placed)
        });
        if is_open {
            let retry_at = self.give_up(&current.run, out);
            self.inventory.withdraw(victim);
            self.wake_at(gang, Some(retry_at));
        }
    }

    /// What is not waiting any more is not remembered.
    pub(super) fn forget_plans(&mut self, gang: &GangId) {
        self.plan.forget(gang);
    }
}
