//! Machines whose agents start, die and come back.

use std::collections::BTreeMap;

use muster_control::fence::{LedgerEpoch, StartId};
use muster_control::lease::LeaseHolder;
use muster_control::ledger::{self, Ledger, LedgerIdentity};
use muster_model::id::{AttemptUid, NodeId};
use muster_model::time::Time;

use super::leases::Clock;
use super::{World, WorldEvent, WorldMachine, capacity};
use crate::executor::{DelayedWork, FakeExecutor, Phase};

impl World {
    pub(super) fn build(&mut self, id: NodeId) {
        let epoch = LedgerEpoch(self.chance.next());
        let ledger = self.recover(&id, epoch, BTreeMap::new());
        let machine = WorldMachine {
            disk: BTreeMap::new(),
            executor: FakeExecutor::default(),
            ledger,
            epoch,
            life: 0,
            holder: LeaseHolder::default(),
            clock: Clock {
                rate: 990 + self.chance.below(21),
                offset: self.chance.below(1_000_000_000),
            },
            cut_until: Time::default(),
            is_down: false,
        };
        self.machines.insert(id.clone(), machine);
        self.started(&id);
    }

    pub(super) fn recover(
        &mut self,
        id: &NodeId,
        epoch: LedgerEpoch,
        disk: BTreeMap<String, Vec<u8>>,
    ) -> Ledger {
        let identity = LedgerIdentity {
            node: id.clone(),
            address: "10.0.0.1".to_owned(),
            epoch,
            start: StartId(self.chance.next()),
        };
        Ledger::recover(identity, disk, capacity(id)).unwrap()
    }

    pub(super) fn started(&mut self, id: &NodeId) {
        self.ledger(id, ledger::LedgerInput::Started);
        let left = self.machines[id].executor.containers.keys();
        let left = left.cloned().collect();
        self.ledger(id, ledger::LedgerInput::Found(left));
        for vc in self.vcs() {
            self.at(1, WorldEvent::Learned(id.clone(), vc));
        }
        self.at(1, WorldEvent::Closed(id.clone()));
        self.at(2, WorldEvent::AskReport(id.clone()));
    }

    pub(super) fn crash(&mut self, id: &NodeId) {
        if !self.machines[id].is_down {
            self.die(id);
            self.start(id);
        }
    }

    pub(super) fn start(&mut self, id: &NodeId) {
        let machine = self.machines.get_mut(id).unwrap();
        machine.is_down = false;
        let (epoch, disk) = (machine.epoch, machine.disk.clone());
        let ledger = self.recover(id, epoch, disk);
        let now = self.now;
        let machine = self.machines.get_mut(id).unwrap();
        machine.ledger = ledger;
        let local = machine.clock.read(now);
        machine.holder.adopt(local, machine.ledger.leased());
        self.started(id);
    }

    /// The agent is gone; containers are not.
    pub(super) fn die(&mut self, id: &NodeId) {
        let machine = self.machines.get_mut(id).unwrap();
        machine.life += 1;
        machine.is_down = true;
        machine.holder = LeaseHolder::default();
        machine.executor.crash(&mut self.chance);
        // Users' commands that ran go on; only their ends are still to come.
        let machine = &self.machines[id];
        let life = machine.life;
        let running: Vec<AttemptUid> = machine
            .executor
            .containers
            .iter()
            .filter(|(_, container)| matches!(container.phase, Phase::Running))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in running {
            let after = self.chance.below(10_000);
            self.at(
                after,
                WorldEvent::Executor(id.clone(), life, Box::new(DelayedWork::Finished(uid))),
            );
        }
    }
}
