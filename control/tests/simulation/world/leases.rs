//! Run leases in a world of cuts, dead agents and clocks that are not quite right.
//!
//! A node's clock goes up to one percent fast or slow. A task's muster-init ends it at the very end
//! of its lease, and no sooner. Whoever leads grants what arrives; elections make it forget whom it
//! heard.

use muster_control::coordinator;
use muster_control::lease::{
    Hearing, LeaseAuthority, LeaseOutput, RenewalRequest, SilenceQuestion, SilenceWatch,
};
use muster_control::ledger::ExecutorStep;
use muster_control::vc::VcApplied;
use muster_model::exit::Cause;
use muster_model::id::NodeId;
use muster_model::time::Time;

use super::{NODES, World, WorldEvent};
use crate::executor::DelayedWork;

/// A request without an answer is given up after this.
const PATIENCE_MS: u64 = 9_000;
/// Between two looks at silent nodes.
const LOOK_MS: u64 = 1_000;
/// A cut node is seen to be unreachable after this.
const SUSPICION_MS: u64 = 2_000;

/// A node's clock since boot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// Its rate, in thousandths of the world's.
    pub(super) rate: u64,
    pub(super) offset: u64,
}

impl Clock {
    pub(super) const fn read(self, now: Time) -> Time {
        Time(self.offset + now.0 * self.rate / 1000)
    }

    /// The world's time at which it has reached that.
    fn when(self, local: Time) -> Time {
        Time((local.0.saturating_sub(self.offset) * 1000).div_ceil(self.rate))
    }
}

impl World {
    /// Cuts nodes off and lets agents stay dead for a while.
    pub(super) fn plan_cuts(&mut self, faults_ms: u64) {
        for node in NODES {
            let node: NodeId = node.parse().unwrap();
            for _ in 0..self.chance.below(3) {
                let (at, long) = (self.chance.below(faults_ms), self.chance.below(200_000));
                self.at(at, WorldEvent::Cut(node.clone(), long));
            }
            if self.chance.one_in(3) {
                let (at, long) = (self.chance.below(faults_ms), self.chance.below(200_000));
                self.at(at, WorldEvent::Die(node, long));
            }
        }
        for _ in 0..self.chance.below(3) {
            let at = self.chance.below(faults_ms);
            self.at(at, WorldEvent::ClusterElection);
        }
        self.at(LOOK_MS, WorldEvent::Look);
    }

    pub(super) fn cut(&mut self, id: &NodeId, long_ms: u64) {
        let until = self.now.plus_millis(long_ms);
        let machine = self.machines.get_mut(id).unwrap();
        machine.cut_until = machine.cut_until.max(until);
        self.at(SUSPICION_MS, WorldEvent::Seen);
        self.at(long_ms + 1, WorldEvent::Seen);
        self.at(long_ms + 2, WorldEvent::AskReport(id.clone()));
    }

    pub(super) fn is_cut(&self, id: &NodeId) -> bool {
        let machine = &self.machines[id];
        machine.is_down || self.now < machine.cut_until
    }

    /// The leaders see who can be reached.
    pub(super) fn seen(&mut self) {
        let cut = self.machines.keys().filter(|id| self.is_cut(id));
        let unreachable = cut.cloned().collect();
        self.lead_all(&coordinator::CoordinatorInput::Unreachable(unreachable));
    }

    pub(super) fn begin_watch(&mut self, vc: usize, applied: &VcApplied) {
        let reign = &mut self.reigns[vc];
        if *applied == VcApplied::Term(muster_control::fence::Term(reign.term)) {
            let nodes = reign.coordinator.nodes_in_use(&reign.state);
            reign.watch = Some(SilenceWatch::new(self.now, nodes));
        }
    }

    pub(super) fn cluster_elected(&mut self) {
        self.hearing = Hearing::new(self.now);
    }

    pub(super) fn look(&mut self) {
        for vc in self.vcs() {
            let reign = &mut self.reigns[vc];
            let (coordinator, state) = (&reign.coordinator, &reign.state);
            let overdue = |node: &NodeId, ms| coordinator.overdue(state, node, ms);
            let watch = reign.watch.as_mut();
            let questions = watch.map(|watch| watch.questions(self.now, overdue));
            for question in questions.unwrap_or_default() {
                self.post(WorldEvent::Silence(vc, question.clone()));
                self.at(PATIENCE_MS, WorldEvent::Silent(vc, question, None));
            }
        }
        if !self.is_over() {
            self.at(LOOK_MS, WorldEvent::Look);
        }
    }

    pub(super) fn silence(&mut self, vc: usize, question: SilenceQuestion) {
        let silent = self.hearing.silence_ms(self.now, &question.node) >= question.for_ms;
        self.post(WorldEvent::Silent(vc, question, Some(silent)));
    }

    pub(super) fn silent(&mut self, vc: usize, question: &SilenceQuestion, silent: Option<bool>) {
        let now = self.now;
        let watch = self.reigns[vc].watch.as_mut();
        if watch.is_some_and(|watch| watch.answered(now, question, silent)) {
            let SilenceQuestion { node, for_ms, .. } = question.clone();
            self.lead(vc, coordinator::CoordinatorInput::Silent { node, for_ms });
        }
    }

    /// A request arrives at whoever leads, and is granted.
    pub(super) fn renew(&mut self, id: &NodeId, life: u64, request: RenewalRequest) {
        let vc = self.vc_of(&request.vc);
        match (request.of, &mut self.reigns[vc].watch) {
            (LeaseAuthority::Cluster, _) => self.hearing.heard(self.now, id),
            (LeaseAuthority::Vc, Some(watch)) => watch.heard(self.now, id),
            (LeaseAuthority::Vc, None) => return,
        }
        self.post(WorldEvent::Renewed(id.clone(), life, request, true));
    }

    pub(super) fn renewed(
        &mut self,
        id: &NodeId,
        life: u64,
        request: &RenewalRequest,
        granted: bool,
    ) {
        let machine = self.machines.get_mut(id).unwrap();
        if machine.life == life {
            let mut out = Vec::new();
            machine.holder.answered(request, granted, &mut out);
            self.hold(id, out);
        }
    }

    /// The agent of a node that is not dead looks after its leases.
    pub(super) fn follow_leases(&mut self, id: &NodeId) {
        let now = self.now;
        let machine = self.machines.get_mut(id).unwrap();
        if machine.is_down {
            return;
        }
        let local = machine.clock.read(now);
        let leased: Vec<_> = machine.ledger.leased().collect();
        let mut out = Vec::new();
        machine.holder.follow(local, leased);
        machine.holder.tick(local, &mut out);
        self.hold(id, out);
    }

    /// What is created for a leased task runs until its lease ends.
    pub(super) fn begin_lease(&mut self, id: &NodeId, step: &ExecutorStep) {
        let ExecutorStep::Create(spec) = step else {
            return;
        };
        let machine = self.machines.get_mut(id).unwrap();
        let uid = &spec.placement.uid;
        if spec.lease_s.is_some() {
            let ends = machine.holder.ends(uid).expect("no lease begins");
            machine.executor.renew(uid.clone(), Time::default(), ends);
        }
    }

    fn hold(&mut self, id: &NodeId, out: Vec<LeaseOutput>) {
        let now = self.now;
        for output in out {
            let machine = self.machines.get_mut(id).unwrap();
            let life = machine.life;
            match output {
                LeaseOutput::Ask(request) => {
                    self.post(WorldEvent::Renew(id.clone(), life, request.clone()));
                    let given_up = WorldEvent::Renewed(id.clone(), life, request, false);
                    self.at(PATIENCE_MS, given_up);
                }
                LeaseOutput::Extend { uid, ends } => {
                    let local = machine.clock.read(now);
                    machine.executor.renew(uid, local, ends);
                }
                LeaseOutput::End { uid } => {
                    let stop = ExecutorStep::Stop {
                        uid,
                        cause: Cause::LeaseEnded,
                        grace_ms: 0,
                    };
                    let job = Box::new(DelayedWork::Step(stop));
                    self.at(0, WorldEvent::Executor(id.clone(), life, job));
                }
            }
        }
    }

    /// When the next lease of a node is to be asked for, or a task's muster-init ends it.
    pub(super) fn lease_deadline(&self, id: &NodeId) -> Option<Time> {
        let machine = &self.machines[id];
        let asks = machine.holder.deadline().filter(|_| !machine.is_down);
        let ends = machine.executor.next_end();
        let next = asks.into_iter().chain(ends).min()?;
        Some(machine.clock.when(next))
    }

    pub(super) fn leases_tick(&mut self, id: &NodeId) {
        let now = self.now;
        let machine = self.machines.get_mut(id).unwrap();
        let local = machine.clock.read(now);
        let ended = machine.executor.end_leases(local);
        self.lease_ends += ended.len();
        let down = machine.is_down;
        for (uid, what) in ended {
            if !down {
                self.ledger(
                    id,
                    muster_control::ledger::LedgerInput::Observed { uid, what },
                );
            }
        }
        self.follow_leases(id);
    }
}
