//! The next step of one gang, from its committed phase and its tasks' standings.

use std::collections::BTreeSet;

use muster_model::exit::Cause;
use muster_model::id::AttemptUid;
use muster_model::launch::TaskPlacement;
use muster_model::time::Time;
use muster_model::view::TaskHold;

use super::launch::GangLaunch;
use super::link::OrderKind;
use super::lost::{LostMembers, may_start_elsewhere};
use super::restart::leave_behind;
use super::runs::OrderTarget;
use super::work::{Proposal, RunWork};
use super::{GangContext, GangSteering};
use crate::coordinator::output::CoordinatorOutput;
use crate::coordinator::places::{live_places, member_of, places_by_node};
use crate::gang::GangId;
use crate::now::Now;
use crate::order::{GangCommand, TaskStanding};
use crate::vc::attempt::GangPhase;
use crate::vc::{Current, TaskEnd, VcEntry};

impl GangSteering {
    /// Looks at a gang and does what is due.
    pub(super) fn steer(&mut self, gang: &GangId, parts: &mut GangContext<'_>) {
        self.settle_ended(gang, parts);
        self.account(gang, parts);
        let current = parts.context.state.current(gang);
        let current = current.filter(|current| current.gang.phase != GangPhase::Ended);
        let Some(current) = current else {
            self.relocations.stop(gang, &mut self.runs, parts);
            return self.forget(gang, parts);
        };
        let work = self.runs.get(gang);
        if work.is_some_and(|work| work.run != current.run) {
            self.turn(&current, parts);
        }
        if !matches!(current.gang.phase, GangPhase::Placed { .. }) {
            self.relocations.stop(gang, &mut self.runs, parts);
        }
        self.leave(&current, parts);
        self.give_way(&current, parts);
        let wake = match current.gang.phase {
            GangPhase::Waiting => self.steer_waiting(&current, parts),
            GangPhase::Placed { .. } => self.steer_placed(&current, parts),
            GangPhase::Going => self.steer_going(&current, parts),
            GangPhase::Stopping { cause } => self.steer_ending(&current, cause, parts),
            GangPhase::Voiding => self.steer_ending(&current, Cause::AttemptCompleted, parts),
            GangPhase::Ended => None,
        };
        self.runs.wake_at(gang, wake);
    }

    /// Where a node evicts one of a gang, the others are told to end at once: they have their grace then, and
    /// mostly find no peer gone first.
    fn give_way(&mut self, current: &Current<'_>, parts: &mut GangContext<'_>) {
        let is_evicted = |work: &RunWork| {
            let mut places = live_places(current);
            places.any(|place| work.standing(place) == Some(&TaskStanding::Evicted))
        };
        let is_live = matches!(
            current.gang.phase,
            GangPhase::Placed { .. } | GangPhase::Going
        );
        if is_live && self.runs.get(&current.run.gang).is_some_and(is_evicted) {
            self.runs.stop(&current.run, Cause::Preempted, None, parts);
        }
    }

    /// Lets go of a gang's run; if it waits it is to be planned.
    pub(super) fn forget(&mut self, gang: &GangId, parts: &mut GangContext<'_>) {
        self.runs.forget(gang);
        parts.planner.add(gang.clone());
    }

    /// Gives back in the cells what the gang has no longer.
    fn account(&self, gang: &GangId, parts: &mut GangContext<'_>) {
        let state = parts.context.state;
        let is_reserving = self.is_reserving(gang);
        let terms = parts.context.terms();
        parts.inventory.account(state, gang, is_reserving, &terms);
        let current = state.current(gang);
        if current.is_none_or(|current| current.gang.phase != GangPhase::Waiting) {
            parts.planner.forget(gang);
        }
    }

    /// Tells nodes which exits they may forget: those that are committed.
    fn settle_ended(&mut self, gang: &GangId, parts: &mut GangContext<'_>) {
        let Some(work) = self.runs.get_mut(gang) else {
            return;
        };
        let run = work.run.clone();
        let current = parts.context.state.current(gang);
        let current = current.filter(|current| current.run == run);
        let places = current.iter().flat_map(live_places);
        let live: BTreeSet<&AttemptUid> = places.map(|place| &place.uid).collect();
        for (node, members) in work.take_settled(&live) {
            parts.settle(&node, &run, members);
        }
    }

    /// Before Go: launch everywhere, look for other places for those who cannot start where they are, and
    /// Go once all are ready.
    fn steer_placed(&mut self, current: &Current<'_>, parts: &mut GangContext<'_>) -> Option<Time> {
        let wake = self.steer_live(current, OrderKind::Launch, None, parts);
        let next = match self.relocations.steer(current, &mut self.runs, parts) {
            LostMembers::Nobody => self.steer_barrier(current, parts),
            LostMembers::Until(next) => next,
        };
        [wake, next].into_iter().flatten().min()
    }

    /// Nobody is lost: Go once all are ready, and the end of the attempt if that takes too long.
    fn steer_barrier(
        &mut self,
        current: &Current<'_>,
        parts: &mut GangContext<'_>,
    ) -> Option<Time> {
        let (options, now) = (parts.context.options, parts.context.now);
        let policy = &options.policy;
        let gang = &current.run.gang;
        let work = self.runs.get_mut(gang)?;
        let is_ready = |place: &&TaskPlacement| {
            let standing = work.standing(place);
            matches!(standing, Some(TaskStanding::Ready | TaskStanding::Running))
        };
        let live = live_places(current).count();
        let ready = live_places(current).filter(is_ready).count();
        let all = ready == live;
        if ready > 0 {
            work.ready_since.get_or_insert(now);
        }
        let barrier = work
            .ready_since
            .map(|since| since.plus_millis(policy.barrier_ms));
        let since = *work.launching_since.get_or_insert(now);
        let limit = barrier.unwrap_or_else(|| since.plus_millis(policy.launch_ms));
        let answers_by = work.answers_by(policy.round_timeout_ms);
        let run = current.run.clone();
        if all && live > 0 {
            let bounds = policy.jobs.of(&options.vc);
            let go = VcEntry::Go {
                run,
                limit_s: bounds.run_limit_s(&current.job.accepted.spec),
                at_ms: parts.context.wall.as_millis(),
            };
            self.runs.propose(gang, Proposal::Go, go, parts.out);
            return None;
        }
        if now >= limit {
            self.runs.stop(&run, Cause::BarrierTimeout, None, parts);
            return None;
        }
        Some(answers_by.map_or(limit, |by| limit.min(by)))
    }

    /// Runs, until its time is over if it has a limit.
    fn steer_going(&mut self, current: &Current<'_>, parts: &mut GangContext<'_>) -> Option<Time> {
        let wake = self.steer_live(current, OrderKind::Go, None, parts);
        let run_ends = self.run_ends(current, parts);
        if run_ends.is_some_and(|at| at <= parts.context.now) {
            self.runs
                .stop(&current.run, Cause::RunTimeOver, None, parts);
            return wake;
        }
        [wake, run_ends].into_iter().flatten().min()
    }

    /// When the run's time is over, by the monotonic clock. The time of day is looked at once in a term:
    /// one that is set later ends nothing.
    fn run_ends(&mut self, current: &Current<'_>, parts: &GangContext<'_>) -> Option<Time> {
        let ends_by = current.job.attempt.ends_by(current.gang)?;
        let work = self.runs.get_mut(&current.run.gang)?;
        let now = Now {
            steady: parts.context.now,
            wall: parts.context.wall,
        };
        let at = || now.when(Time::from_millis(ends_by));
        Some(*work.run_ends.get_or_insert_with(at))
    }

    /// What is to end ends where it is. Where nothing of it has been started nobody waits for nodes that
    /// cannot be reached.
    fn steer_ending(
        &mut self,
        current: &Current<'_>,
        cause: Cause,
        parts: &mut GangContext<'_>,
    ) -> Option<Time> {
        let wake = self.steer_live(current, OrderKind::Stop, Some(cause), parts);
        if current.gang.phase == GangPhase::Voiding || !current.has_started() {
            let answers_by = leave_behind(current, &mut self.runs, parts);
            return [wake, answers_by].into_iter().flatten().min();
        }
        wake
    }

    /// Orders every node with live tasks what the phase calls for, and proposes the ends.
    fn steer_live(
        &mut self,
        current: &Current<'_>,
        kind: OrderKind,
        cause: Option<Cause>,
        parts: &mut GangContext<'_>,
    ) -> Option<Time> {
        let gang = &current.run.gang;
        self.runs.begin(&current.run).reserving = None;
        let options = parts.context.options;
        let policy = &options.policy;
        let (disk_mb, grace_ms) = (policy.disk_mb, policy.stop_grace_ms);
        let mut launch: Option<GangLaunch> = None;
        let mut wake: Option<Time> = None;
        for (node, places) in places_by_node(current) {
            let target = OrderTarget {
                run: &current.run,
                node,
                kind,
            };
            self.propose_ends(current, &target, &places, parts);
            if let Some(work) = self
                .runs
                .get_mut(gang)
                .filter(|_| kind == OrderKind::Launch)
            {
                work.relaunch_absent(node);
            }
            let members = || places.iter().map(|place| member_of(place)).collect();
            let command = || match (kind, cause) {
                (OrderKind::Launch, _) => {
                    let bounds = policy.jobs.of(&options.vc);
                    let launch = launch.get_or_insert_with(|| GangLaunch::of(current, &bounds));
                    launch.command(current, &places, (disk_mb, grace_ms))
                }
                (_, Some(cause)) => GangCommand::Stop {
                    members: members(),
                    cause,
                    grace_ms,
                },
                (_, None) => GangCommand::Go { members: members() },
            };
            let due = self.runs.order(&target, command, parts);
            wake = [wake, due].into_iter().flatten().min();
        }
        wake
    }

    /// Proposes the end of each task that ended, and of each that is not there although the
    /// order for this very phase was answered.
    pub(super) fn propose_ends(
        &mut self,
        current: &Current<'_>,
        target: &OrderTarget<'_>,
        places: &[&TaskPlacement],
        parts: &mut GangContext<'_>,
    ) {
        let OrderTarget { run, node, kind } = *target;
        let Some(work) = self.runs.get_mut(&run.gang) else {
            return;
        };
        for place in places {
            let of_phase = work.links.get(node).is_some_and(|link| link.kind == kind);
            let end = match work.standing(place) {
                Some(TaskStanding::Ended(verdict))
                    if kind == OrderKind::Launch
                        && may_start_elsewhere(current, work, node, verdict) =>
                {
                    continue;
                }
                Some(TaskStanding::Ended(verdict)) => TaskEnd::Exit(verdict.clone()),
                Some(TaskStanding::Gone) if of_phase && kind != OrderKind::Launch => TaskEnd::Gone,
                Some(TaskStanding::OnHold(hold)) => {
                    let hold = hold.clone();
                    propose_hold(current, place, hold, work, parts);
                    continue;
                }
                Some(_) | None => continue,
            };
            if work.propose(Proposal::Ended(place.uid.clone())) {
                let entry = VcEntry::TaskEnded {
                    run: current.run.clone(),
                    task: place.task.clone(),
                    uid: place.uid.clone(),
                    end,
                    at_ms: parts.context.wall.as_millis(),
                };
                parts.out.push(CoordinatorOutput::Propose(Box::new(entry)));
            }
        }
    }
}

/// Proposes that a failed task is kept, once, for all to see.
fn propose_hold(
    current: &Current<'_>,
    place: &TaskPlacement,
    hold: Box<TaskHold>,
    work: &mut RunWork,
    parts: &mut GangContext<'_>,
) {
    let mut tasks = current.job.attempt.tasks_of(current.gang);
    let is_known = tasks.any(|task| task.id == place.task && task.last().on_hold.is_some());
    let is_going = current.gang.phase == GangPhase::Going;
    if is_going && !is_known && work.propose(Proposal::OnHold(place.uid.clone())) {
        let entry = VcEntry::OnHold {
            run: current.run.clone(),
            task: place.task.clone(),
            uid: place.uid.clone(),
            hold,
            at_ms: parts.context.wall.as_millis(),
        };
        parts.out.push(CoordinatorOutput::Propose(Box::new(entry)));
    }
}
