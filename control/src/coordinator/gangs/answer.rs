//! What nodes answer to orders, and what that calls for.

use muster_model::id::NodeId;
use muster_model::launch::TaskPlacement;

use super::link::{GangLink, OrderKind};
use super::runs::OrderTarget;
use super::work::{Relocation, RunWork};
use super::{GangContext, GangSteering};
use crate::coordinator::nodes::NodeLife;
use crate::coordinator::output::CoordinatorOutput;
use crate::coordinator::places::live_places;
use crate::gang::GangRun;
use crate::order::{OrderAnswer, OrderOutcome, OrderRefusal, RunMember, TaskStanding};
use crate::vc::VcState;
use crate::vc::attempt::GangPhase;

/// What is to be looked at after an answer. A gang of many nodes has as many answers to each order: looking
/// at every member with each would cost the square of their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SteerScope {
    /// Nothing: the gang's next step is the same.
    Nowhere,
    /// The tasks on the node, some of which have ended.
    Node(OrderKind),
    /// The whole gang.
    Everywhere,
}

impl GangSteering {
    /// Counts only the answer to the newest order to that node for that gang.
    pub(in crate::coordinator) fn answered(
        &mut self,
        node: &NodeId,
        mut answer: OrderAnswer,
        parts: &mut GangContext<'_>,
    ) {
        let free = std::mem::take(&mut answer.free);
        parts.nodes.freed(node, answer.start, free);
        let Some(life) = parts.nodes.get(node).map(|known| known.life) else {
            return;
        };
        if is_out_of_step(&answer.reply) {
            parts
                .out
                .push(CoordinatorOutput::AskReport { node: node.clone() });
        }
        if !is_ours(&answer, life, parts) || !parts.context.leads {
            return;
        }
        let now = parts.context.now;
        let Some(work) = self.runs.of_mut(&answer.run) else {
            return settle_late(node, answer, parts);
        };
        let link = work.links.get_mut(node);
        let Some(link) = link.filter(|link| link.seq == answer.fence.seq) else {
            return;
        };
        link.heard(now);
        let is_first = !link.answered;
        link.take(answer.reply);
        let run = answer.run;
        match self.look(parts.context.state, &run, node, is_first) {
            SteerScope::Nowhere => {}
            SteerScope::Node(kind) => {
                let run = &run;
                self.look_at_node(OrderTarget { run, node, kind }, parts);
            }
            SteerScope::Everywhere => self.steer(&run.gang, parts),
        }
    }

    /// What a node's word calls for, once it is noted. `is_first`: the order had no answer before.
    fn look(&self, state: &VcState, run: &GangRun, node: &NodeId, is_first: bool) -> SteerScope {
        let current = state.current(&run.gang);
        let current = current.filter(|current| current.run == *run);
        let work = self.runs.get(&run.gang).filter(|work| work.run == *run);
        let link = work.and_then(|work| work.links.get(node));
        let (Some(current), Some(work), Some(link)) = (current, work, link) else {
            return SteerScope::Everywhere;
        };
        let is_awaited = work.links.values().any(|link| !link.answered);
        if !link.answered || link.refused.is_some() || is_first && !is_awaited {
            return SteerScope::Everywhere;
        }
        let kind = link.kind;
        match (current.gang.phase, kind) {
            (GangPhase::Waiting, OrderKind::Reserve) => look_at_grant(link, is_awaited),
            (GangPhase::Placed { .. }, OrderKind::Launch) => look_at_launch(work, link),
            // That the others are to give way with it is new.
            (GangPhase::Going, OrderKind::Go) if has_evicted(link) => SteerScope::Everywhere,
            (GangPhase::Going, OrderKind::Go) | (GangPhase::Stopping { .. }, OrderKind::Stop) => {
                let is_over = |(member, _): (&RunMember, &TaskStanding)| {
                    !state.is_live(run, &member.task, &member.uid)
                };
                match look_at_ends(link) {
                    SteerScope::Node(_) if link.standing.iter().any(is_over) => {
                        SteerScope::Everywhere
                    }
                    look => look,
                }
            }
            _ => SteerScope::Everywhere,
        }
    }

    fn look_at_node(&mut self, target: OrderTarget<'_>, parts: &mut GangContext<'_>) {
        if let Some(current) = parts.context.state.current(&target.run.gang) {
            let places = live_places(&current).filter(|place| place.node == *target.node);
            let places: Vec<&TaskPlacement> = places.collect();
            self.propose_ends(&current, &target, &places, parts);
        }
    }
}

/// Whether the node lives another life than the order was for, or has something else than was thought.
const fn is_out_of_step(reply: &OrderOutcome) -> bool {
    matches!(
        reply,
        OrderOutcome::Refused(
            OrderRefusal::OtherLife
                | OrderRefusal::Unfenced
                | OrderRefusal::Unsettled
                | OrderRefusal::NotFree(_)
        )
    )
}

/// Whether an order of this term is answered, by the node's present life.
fn is_ours(answer: &OrderAnswer, life: NodeLife, parts: &GangContext<'_>) -> bool {
    let context = &parts.context;
    answer.vc == context.options.vc
        && answer.fence.generation == context.options.generation
        && Some(answer.fence.term) == context.term
        && (answer.epoch, answer.start) == (life.epoch, life.start)
}

/// What was given up, or stopped by a leader before, has ended by now: nobody waits for it.
fn settle_late(node: &NodeId, answer: OrderAnswer, parts: &mut GangContext<'_>) {
    let OrderOutcome::Standing(list) = answer.reply else {
        return;
    };
    let (run, state) = (answer.run, parts.context.state);
    let over = list.into_iter().filter(|(member, standing)| {
        let live = state.is_live(&run, &member.task, &member.uid);
        matches!(standing, TaskStanding::Ended(_)) && !live
    });
    let over = over.map(|(member, _)| member).collect();
    parts.settle(node, &run, over);
}

/// A reservation is granted: nothing to do before all are.
fn look_at_grant(link: &GangLink, is_awaited: bool) -> SteerScope {
    let mut standings = link.standing.values();
    match is_awaited && standings.all(|standing| *standing == TaskStanding::Reserved) {
        true => SteerScope::Nowhere,
        false => SteerScope::Everywhere,
    }
}

/// Tasks are on their way: nothing to do before all are ready, but to note when the first is.
fn look_at_launch(work: &RunWork, link: &GangLink) -> SteerScope {
    let is_ready =
        |standing: &TaskStanding| matches!(standing, TaskStanding::Ready | TaskStanding::Running);
    let is_well =
        |standing: &TaskStanding| is_ready(standing) || *standing == TaskStanding::Starting;
    let is_noted = work.ready_since.is_some() || !link.standing.values().any(is_ready);
    let is_quiet = work.relocation == Relocation::NotNeeded && link.standing.values().all(is_well);
    match is_quiet && is_noted && work.links.values().any(GangLink::is_behind) {
        true => SteerScope::Nowhere,
        false => SteerScope::Everywhere,
    }
}

fn has_evicted(link: &GangLink) -> bool {
    let mut standings = link.standing.values();
    standings.any(|standing| *standing == TaskStanding::Evicted)
}

/// Tasks run, or are told to stop: only ends and holds are of matter, each by itself.
fn look_at_ends(link: &GangLink) -> SteerScope {
    let mut look = SteerScope::Nowhere;
    for standing in link.standing.values() {
        match standing {
            TaskStanding::Starting
            | TaskStanding::Ready
            | TaskStanding::Running
            | TaskStanding::Stopping
            | TaskStanding::Evicted => {}
            TaskStanding::Ended(_) | TaskStanding::OnHold(_) => look = SteerScope::Node(link.kind),
            TaskStanding::Reserved | TaskStanding::Absent | TaskStanding::Gone => {
                return SteerScope::Everywhere;
            }
        }
    }
    look
}
