//! What nodes answer to orders, and what that calls for.

use muster_model::id::NodeId;
use muster_model::launch::Placement;

use super::launching::live_places;
use super::steering::Target;
use super::work::{Kind, Link, Mending, Work};
use super::{Coordinator, Output};
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

impl Coordinator {
    /// Counts only the answer to the newest order to that node for that gang.
    pub(super) fn answered(
        &mut self,
        state: &VcState,
        node: &NodeId,
        mut answer: Answer,
        out: &mut Vec<Output>,
    ) {
        let free = std::mem::take(&mut answer.free);
        self.nodes.freed(node, answer.start, free);
        let Some(known) = self.nodes.get(node) else {
            return;
        };
        let ours = answer.vc == self.options.vc
            && answer.fence.generation == self.options.generation
            && Some(answer.fence.term) == self.term
            && (answer.epoch, answer.start) == (known.life.epoch, known.life.start);
        if matches!(
            answer.reply,
            Reply::Refused(
                Refusal::OtherLife | Refusal::Unfenced | Refusal::Unsettled | Refusal::NotFree(_)
            )
        ) {
            out.push(Output::AskReport { node: node.clone() });
        }
        if !ours || !self.leads {
            return;
        }
        let now = self.now;
        let Some(work) = self.work_of_mut(&answer.run) else {
            return self.settle_late(state, node, answer, out);
        };
        let link = work.links.get_mut(node);
        let Some(link) = link.filter(|link| link.seq == answer.fence.seq) else {
            return;
        };
        link.heard(now);
        let is_first = !link.answered;
        link.take(answer.reply);
        let run = answer.run;
        match self.look(state, &run, node, is_first) {
            Look::Nowhere => {}
            Look::Node(kind) => self.look_at_node(
                state,
                Target {
                    run: &run,
                    node,
                    kind,
                },
                out,
            ),
            Look::Everywhere => self.steer(state, &run.gang, out),
        }
    }

    /// What a node's word calls for, once it is noted. `is_first`: the order had no answer before.
    fn look(&self, state: &VcState, run: &Run, node: &NodeId, is_first: bool) -> Look {
        let current = state.current(&run.gang);
        let current = current.filter(|current| current.run == *run);
        let work = self.work.get(&run.gang).filter(|work| work.run == *run);
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

    fn look_at_node(&mut self, state: &VcState, target: Target<'_>, out: &mut Vec<Output>) {
        if let Some(current) = state.current(&target.run.gang) {
            let places = live_places(&current).filter(|place| place.node == *target.node);
            let places: Vec<&Placement> = places.collect();
            self.propose_ends(&current, &target, &places, out);
        }
    }

    /// What was given up, or stopped by a leader before, has ended by now: nobody waits for it.
    fn settle_late(
        &mut self,
        state: &VcState,
        node: &NodeId,
        answer: Answer,
        out: &mut Vec<Output>,
    ) {
        let Reply::Standing(list) = answer.reply else {
            return;
        };
        let run = answer.run;
        let over = list.into_iter().filter(|(member, standing)| {
            let live = state.is_live(&run, &member.task, &member.uid);
            matches!(standing, Standing::Ended(_)) && !live
        });
        let over = over.map(|(member, _)| member).collect();
        self.settle(node, &run, over, out);
    }
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
    let is_quiet = work.mending == Mending::Not && link.standing.values().all(is_well);
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
