//! What gangs are steered with.

use muster_model::id::NodeId;

use super::lost::LivenessView;
use crate::coordinator::context::Context;
use crate::coordinator::inventory::Inventory;
use crate::coordinator::liveness::Liveness;
use crate::coordinator::nodes::ReportedNodes;
use crate::coordinator::output::CoordinatorOutput;
use crate::coordinator::planner::Planner;
use crate::fence::Fence;
use crate::gang::GangRun;
use crate::order::{GangCommand, Order, RunMember};

/// The other parts of the coordinator, as far as gangs have to do with them, and what comes of it all.
#[derive(Debug)]
pub(in crate::coordinator) struct GangContext<'a> {
    pub(in crate::coordinator) context: Context<'a>,
    pub(in crate::coordinator) nodes: &'a mut ReportedNodes,
    pub(in crate::coordinator) liveness: &'a mut Liveness,
    pub(in crate::coordinator) inventory: &'a mut Inventory,
    pub(in crate::coordinator) planner: &'a mut Planner,
    pub(in crate::coordinator) out: &'a mut Vec<CoordinatorOutput>,
}

impl GangContext<'_> {
    /// Where it is seen which members of a gang are lost.
    pub(super) const fn sight(&self) -> LivenessView<'_> {
        LivenessView {
            context: self.context,
            nodes: self.nodes,
            liveness: self.liveness,
        }
    }

    /// Sends an order and gives its number; nothing is sent, and the number is 0, to a node that
    /// never reported. Whether anybody waits for the answer is the caller's business.
    pub(super) fn send(&mut self, node: &NodeId, run: &GangRun, command: GangCommand) -> u64 {
        let options = self.context.options;
        let (Some(term), Some((seq, life))) = (self.context.term, self.nodes.next_order(node))
        else {
            return 0;
        };
        let order = Order {
            vc: options.vc.clone(),
            fence: Fence {
                generation: options.generation,
                term,
                seq,
            },
            epoch: life.epoch,
            start: life.start,
            run: run.clone(),
            command,
        };
        self.out.push(CoordinatorOutput::Send {
            node: node.clone(),
            order: Box::new(order),
        });
        seq
    }

    /// Has a node forget tasks whose ends are committed.
    pub(super) fn settle(&mut self, node: &NodeId, run: &GangRun, members: Vec<RunMember>) {
        if members.is_empty() {
            return;
        }
        self.send(node, run, GangCommand::Settle { members });
        // It may be lost, or come after a newer order: the node is asked what it has still.
        self.nodes.set_settling(node, true);
    }

    /// Nothing is placed on nodes that have not answered before they say something. The mesh may hold them
    /// for alive, for it goes by what others hear: the gang would be placed there again and again.
    pub(super) fn mute(&mut self, silent: Vec<NodeId>) {
        for node in silent {
            self.nodes.mark_mute(self.context.now, &node);
            self.out.push(CoordinatorOutput::AskReport { node });
        }
    }
}
