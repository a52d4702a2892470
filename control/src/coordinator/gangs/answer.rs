//! What nodes answer to orders, and what that calls for.

use muster_model::id::NodeId;
use muster_model::launch::Placement;

use super::link::{Kind, Link};
use super::runs::Target;
use super::work::{Relocation, Work};
use super::{Gangs, Parts};
use crate::coordinator::nodes::Life;
use crate::coordinator::output::Output;
use crate::coordinator::places::live_places;
use crate::gang::Run;
use crate::order::{Answer, Member, Refusal, Reply, Standing};
use crate::vc::VcState;
use crate::vc::attempt::Phase;

/// What is to be looked at after an answer. A gang of many nodes has as many answers to each order: looking
/// at every member with each would cost the square of their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Nothing: the gang's next step is the same.
    Nowhere,
    /// The tasks on the node, some of which have ended.
    Node(Kind),
    /// The whole gang.
    Everywhere,
}

impl Gangs {
    /// Counts only the answer to the newest order to that node for that gang.
    pub(in crate::coordinator) fn answered(
        &mut self,
        node: &NodeId,
        mut answer: Answer,
        parts: &mut Parts<'_>,
    ) {
        let free = std::mem::take(&mut answer.free);
        parts.nodes.freed(node, answer.start, free);
        let Some(life) = parts.nodes.get(node).map(|known| known.life) else {
            return;
        };
        if is_out_of_step(&answer.reply) {
            parts.out.push(Output::AskReport { node: node.clone() });
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
            Look::Nowhere => {}
            Look::Node(kind) => {
                let run = &run;
                self.look_at_node(Target { run, node, kind }, parts);
            }
            Look::Everywhere => self.steer(&run.gang, parts),
        }
    }

    /// What a node's word calls for, once it is noted. `is_first`: the order had no answer before.
    fn look(&self, state: &VcState, run: &Run, node: &NodeId, is_first: bool) -> Look {
        let current = state.current(&run.gang);
        let current = current.filter(|current| current.run == *run);
        let work = self.runs.get(&run.gang).filter(|work| work.run == *run);
        let link = work.and_then(|work| work.links.get(node));
        let (Some(current), Some(work), Some(link)) = (current, work, link) else {
            return Look::Everywhere;
        };
        let is_awaited = work.links.values().any(|link| !link.answered);
        if !link.answered || link.refused.is_some() || is_first && !is_awaited {
            return Look::Everywhere;
        }
        let kind = link.kind;
        match (current.gang.phase, kind) {
            (Phase::Waiting, Kind::Reserve) => look_at_grant(link, is_awaited),
            (Phase::Placed { .. }, Kind::Launch) => look_at_launch(work, link),
            // That the others are to give way with it is new.
            (Phase::Going, Kind::Go) if has_evicted(link) => Look::Everywhere,
            (Phase::Going, Kind::Go) | (Phase::Stopping { .. }, Kind::Stop) => {
                let is_over = |(member, _): (&Member, &Standing)| {
                    !state.is_live(run, &member.task, &member.uid)
                };
                match look_at_ends(link) {
                    Look::Node(_) if link.standing.iter().any(is_over) => Look::Everywhere,
                    look => look,
                }
            }
            _ => Look::Everywhere,
        }
    }

    fn look_at_node(&mut self, target: Target<'_>, parts: &mut Parts<'_>) {
        if let Some(current) = parts.context.state.current(&target.run.gang) {
            let places = live_places(&current).filter(|place| place.node == *target.node);
            let places: Vec<&Placement> = places.collect();
            self.propose_ends(&current, &target, &places, parts);
        }
    }
}

/// Whether the node lives another life than the order was for, or has something else than was thought.
const fn is_out_of_step(reply: &Reply) -> bool {
    matches!(
        reply,
        Reply::Refused(
            Refusal::OtherLife | Refusal::Unfenced | Refusal::Unsettled | Refusal::NotFree(_)
        )
    )
}

/// Whether an order of this term is answered, by the node's present life.
fn is_ours(answer: &Answer, life: Life, parts: &Parts<'_>) -> bool {
    let context = &parts.context;
    answer.vc == context.options.vc
        && answer.fence.generation == context.options.generation
        && Some(answer.fence.term) == context.term
        && (answer.epoch, answer.start) == (life.epoch, life.start)
}

/// What was given up, or stopped by a leader before, has ended by now: nobody waits for it.
fn settle_late(node: &NodeId, answer: Answer, parts: &mut Parts<'_>) {
    let Reply::Standing(list) = answer.reply else {
        return;
    };
    let (run, state) = (answer.run, parts.context.state);
    let over = list.into_iter().filter(|(member, standing)| {
        let live = state.is_live(&run, &member.task, &member.uid);
        matches!(standing, Standing::Ended(_)) && !live
    });
    let over = over.map(|(member, _)| member).collect();
    parts.settle(node, &run, over);
}

/// A reservation is granted: nothing to do before all are.
fn look_at_grant(link: &Link, is_awaited: bool) -> Look {
    let mut standings = link.standing.values();
    match is_awaited && standings.all(|standing| *standing == Standing::Reserved) {
        true => Look::Nowhere,
        false => Look::Everywhere,
    }
}

/// Tasks are on their way: nothing to do before all are ready, but to note when the first is.
fn look_at_launch(work: &Work, link: &Link) -> Look {
    let is_ready = |standing: &Standing| matches!(standing, Standing::Ready | Standing::Running);
    let is_well = |standing: &Standing| is_ready(standing) || *standing == Standing::Starting;
    let is_noted = work.ready_since.is_some() || !link.standing.values().any(is_ready);
    let is_quiet = work.relocation == Relocation::NotNeeded && link.standing.values().all(is_well);
    match is_quiet && is_noted && work.links.values().any(Link::is_behind) {
        true => Look::Nowhere,
        false => Look::Everywhere,
    }
}

fn has_evicted(link: &Link) -> bool {
    let mut standings = link.standing.values();
    standings.any(|standing| *standing == Standing::Evicted)
}

/// Tasks run, or are told to stop: only ends are of matter, each by itself.
fn look_at_ends(link: &Link) -> Look {
    let mut look = Look::Nowhere;
    for standing in link.standing.values() {
        match standing {
            Standing::Starting
            | Standing::Ready
            | Standing::Running
            | Standing::Stopping
            | Standing::Evicted => {}
            Standing::Ended(_) => look = Look::Node(link.kind),
            Standing::Reserved | Standing::Absent | Standing::Gone => return Look::Everywhere,
        }
    }
    look
}
