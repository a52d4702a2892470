//! Admins that keep nodes free for a while, and nodes that lose their power.

use muster_control::coordinator::{self, Cordon};
use muster_control::gang::GangRun;
use muster_control::ledger;
use muster_model::id::NodeId;

use super::{NODES, World, WorldEvent};

impl World {
    /// At the end of the faults all nodes are open.
    pub(super) fn plan_cordons(&mut self, faults_ms: u64) {
        for node in NODES {
            let node: NodeId = node.parse().unwrap();
            for _ in 0..self.chance.below(3) {
                let from = self.chance.below(faults_ms);
                let drain = self.chance.one_in(2);
                let after_ms = self.chance.below(30_000);
                let drain_at = drain.then(|| self.now.plus_millis(from + after_ms));
                self.at(
                    from,
                    WorldEvent::Cordon(node.clone(), Some(Cordon { drain_at })),
                );
                let long = self.chance.below(60_000);
                self.at(from + long, WorldEvent::Cordon(node.clone(), None));
            }
            if self.chance.one_in(4) {
                let (at, long) = (self.chance.below(faults_ms), self.chance.below(100_000));
                self.at(at, WorldEvent::PowerOff(node.clone(), long));
            }
            self.at(faults_ms, WorldEvent::Cordon(node, None));
        }
    }

    pub(super) fn cordon(&mut self, node: NodeId, cordon: Option<Cordon>) {
        match cordon {
            Some(cordon) => {
                self.cordons.insert(node.clone(), cordon);
                if cordon.drain_at.is_some() {
                    self.drained.insert(node.clone());
                }
            }
            None => {
                self.cordons.remove(&node);
            }
        }
        self.lead_all(&coordinator::CoordinatorInput::Cordoned(
            self.cordons.clone(),
        ));
        let after = self.chance.below(2_000);
        self.at(after, WorldEvent::Closed(node));
    }

    /// A node hears whether it is kept free.
    pub(super) fn hear_cordon(&mut self, node: &NodeId) {
        let closed = self.cordons.contains_key(node);
        let why = closed.then(|| "cordoned".to_owned());
        self.ledger(node, ledger::LedgerInput::Closed(why));
    }

    /// Everything that runs on the node ends, and leaves no word.
    pub(super) fn power_off(&mut self, node: NodeId, long_ms: u64) {
        if self.machines[&node].is_down {
            return;
        }
        self.die(&node);
        let machine = self.machines.get_mut(&node).unwrap();
        machine.executor.power_off();
        self.cut(&node, long_ms);
        if self.chance.one_in(2) {
            let after = self.chance.below(long_ms.max(1));
            self.at(after, WorldEvent::Off(node.clone()));
        }
        self.at(long_ms, WorldEvent::Start(node));
    }

    pub(super) fn say_off(&mut self, node: NodeId) {
        self.lead_all(&coordinator::CoordinatorInput::Off(node));
    }

    /// A run leaves only a node that an admin wants to be empty.
    pub(super) fn check_moved(&mut self, vc: usize, run: &GangRun) {
        let reign = &mut self.reigns[vc];
        let nodes = &reign.places[run];
        assert!(
            !nodes.is_disjoint(&self.drained),
            "{run} had to leave {nodes:?}, none of which was to be empty"
        );
        reign.moved.insert(run.clone());
    }
}
