//! The run lease: a task on a node that may be cut off, a leader that may give it up, and another that
//! is asked before. Time goes in steps; whatever is on its way arrives at once, later or never.

use std::collections::BTreeMap;

use muster_control::lease::{
    Hearing, LeaseAuthority, LeaseHolder, LeaseOutput, LeaseTime, Leased, RenewalRequest,
    SilenceQuestion, SilenceWatch,
};
use muster_model::id::{AttemptUid, NodeId, VcName};
use muster_model::time::Time;
use stateright::{Model, Property};

use super::leader::VC;
use super::part::{InternPool, Part};
use super::{Explored, bug};

/// Its lease lasts for 3 steps on the wire, and is over after 3.09.
const LEASE: LeaseTime = LeaseTime { seconds: 20 };
const STEP_MS: u64 = 14_000;

/// How fast clocks go, in thousandths: each is wrong by one percent, the node's slow and the leaders'
/// fast, which is the worst that there can be.
const NODE_RATE: u64 = 990;
const LEADER_RATE: u64 = 1_010;

/// Who may stand still for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Who {
    Node,
    Vc,
    Cluster,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseAction {
    /// Time passes: whoever does not stand still does what is due.
    Pass,
    /// A request arrives: it is granted, for whoever is meant leads.
    Ask(LeaseAuthority),
    /// Its answer arrives.
    Grant(LeaseAuthority),
    /// What is on its way to this one, or back, takes longer than a step. All else that has not
    /// arrived by the end of one is lost.
    Slow(LeaseAuthority),
    /// The other leader hears the question, and answers.
    Question,
    /// Its answer arrives.
    Verdict,
    /// Somebody stands still.
    Pause(Who),
    /// And goes on.
    Resume,
    /// Somebody else leads one of the groups. What is on its way to the one before is lost.
    Depose(LeaseAuthority),
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub(super) struct LeaseState {
    step: u64,
    holder: Part<LeaseHolder>,
    watch: Part<SilenceWatch>,
    hearing: Part<Hearing>,
    /// What the node waits for the answer to.
    waits: BTreeMap<LeaseAuthority, Part<RenewalRequest>>,
    requests: BTreeMap<LeaseAuthority, Part<RenewalRequest>>,
    grants: BTreeMap<LeaseAuthority, Part<RenewalRequest>>,
    question: Option<Part<SilenceQuestion>>,
    verdict: Option<(Part<SilenceQuestion>, bool)>,
    /// Who is slow to be reached, once it is.
    slow: Option<LeaseAuthority>,
    paused: Option<Who>,
    pauses: u8,
    depositions: u8,
    /// When the task's last process is gone, by its node's clock.
    ends: Time,
    pub(super) wrong: Option<String>,
}

/// One exploration.
#[derive(Debug)]
pub(super) struct Leases {
    /// Time ends after so many steps.
    steps: u64,
    pauses: u8,
    depositions: u8,
    holders: InternPool<LeaseHolder>,
    watches: InternPool<SilenceWatch>,
}

impl Model for Leases {
    type State = LeaseState;
    type Action = LeaseAction;

    fn init_states(&self) -> Vec<LeaseState> {
        vec![self.begin()]
    }

    fn actions(&self, state: &LeaseState, actions: &mut Vec<LeaseAction>) {
        if state.wrong.is_some() || state.step == self.steps {
            return;
        }
        let goes = |who| state.paused != Some(who);
        actions.push(LeaseAction::Pass);
        for (of, who) in [
            (LeaseAuthority::Vc, Who::Vc),
            (LeaseAuthority::Cluster, Who::Cluster),
        ] {
            if state.requests.contains_key(&of) && goes(who) {
                actions.push(LeaseAction::Ask(of));
            }
            if state.grants.contains_key(&of) && goes(Who::Node) {
                actions.push(LeaseAction::Grant(of));
            }
            if state.waits.contains_key(&of) && state.slow.is_none() {
                actions.push(LeaseAction::Slow(of));
            }
            if state.depositions > 0 {
                actions.push(LeaseAction::Depose(of));
            }
        }
        if state.question.is_some() && goes(Who::Cluster) {
            actions.push(LeaseAction::Question);
        }
        if state.verdict.is_some() && goes(Who::Vc) {
            actions.push(LeaseAction::Verdict);
        }
        match state.paused {
            Some(_) => actions.push(LeaseAction::Resume),
            None if state.pauses > 0 => {
                actions.extend([Who::Node, Who::Vc, Who::Cluster].map(LeaseAction::Pause));
            }
            None => {}
        }
    }

    fn next_state(&self, state: &LeaseState, action: LeaseAction) -> Option<LeaseState> {
        let mut next = state.clone();
        next.happens(action);
        next.holder = self.holders.known(next.holder);
        next.watch = self.watches.known(next.watch);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(super::CLEAN, |_, state: &LeaseState| {
            state.wrong.is_none()
        })]
    }
}

impl Explored for Leases {
    fn wrong(state: &LeaseState) -> Option<String> {
        state.wrong.clone()
    }

    fn describe(_: &LeaseState, action: &LeaseAction) -> String {
        format!("{action:?}")
    }
}

impl Leases {
    pub(super) fn new(steps: u64, pauses: u8, depositions: u8) -> Self {
        Self {
            steps,
            pauses,
            depositions,
            holders: InternPool::default(),
            watches: InternPool::default(),
        }
    }

    /// The task was placed just now.
    fn begin(&self) -> LeaseState {
        let mut holder = LeaseHolder::default();
        let leased = |lease| Leased {
            uid: uid(),
            vc: vc(),
            lease,
            before: None,
        };
        holder.follow(Time(0), [leased(None)]);
        holder.follow(Time(0), [leased(Some(LEASE))]);
        LeaseState {
            step: 0,
            ends: holder.ends(&uid()).unwrap_or_default(),
            holder: Part::new(holder),
            watch: Part::new(SilenceWatch::new(Time(0), [node()])),
            hearing: Part::new(Hearing::new(Time(0))),
            waits: BTreeMap::new(),
            requests: BTreeMap::new(),
            grants: BTreeMap::new(),
            question: None,
            verdict: None,
            slow: None,
            paused: None,
            pauses: self.pauses,
            depositions: self.depositions,
            wrong: None,
        }
    }
}

impl LeaseState {
    fn happens(&mut self, action: LeaseAction) {
        match action {
            LeaseAction::Pass => self.pass(),
            LeaseAction::Ask(of) => {
                let now = self.leader_now();
                match of {
                    LeaseAuthority::Vc => change(&mut self.watch, |it| it.heard(now, &node())),
                    LeaseAuthority::Cluster => {
                        change(&mut self.hearing, |it| it.heard(now, &node()))
                    }
                }
                if let Some(request) = self.requests.remove(&of) {
                    self.grants.insert(of, request);
                }
            }
            LeaseAction::Grant(of) => {
                if let Some(request) = self.grants.remove(&of) {
                    self.waits.retain(|_, waits| *waits != request);
                    self.answered(&request, true);
                }
            }
            LeaseAction::Slow(of) => self.slow = Some(of),
            LeaseAction::Question => {
                if let Some(question) = self.question.take() {
                    let silence = self.hearing.silence_ms(self.leader_now(), &node());
                    let silent = silence >= question.for_ms;
                    self.verdict = Some((question, silent));
                }
            }
            LeaseAction::Verdict => self.judge(),
            LeaseAction::Pause(who) => {
                self.pauses -= 1;
                self.paused = Some(who);
            }
            LeaseAction::Resume => self.paused = None,
            LeaseAction::Depose(of) => self.depose(of),
        }
    }

    /// A step later, everybody who goes looks at the clock.
    fn pass(&mut self) {
        for of in [LeaseAuthority::Vc, LeaseAuthority::Cluster] {
            if self.slow != Some(of) && self.paused != Some(Who::Node) {
                self.give_up(of);
            }
        }
        self.step += 1;
        if self.paused != Some(Who::Node) {
            let now = self.node_now();
            let mut out = Vec::new();
            change(&mut self.holder, |it| it.tick(now, &mut out));
            self.perform(out);
        }
        if self.paused != Some(Who::Vc) {
            let now = self.leader_now();
            let lost_ms = LEASE.lost_ms();
            let mut questions = Vec::new();
            change(&mut self.watch, |it| {
                let overdue = |_: &NodeId, silence: u64| (silence >= lost_ms).then_some(lost_ms);
                questions = it.questions(now, overdue);
            });
            self.question = questions
                .pop()
                .map(Part::new)
                .or_else(|| self.question.take());
        }
    }

    fn give_up(&mut self, of: LeaseAuthority) {
        self.requests.remove(&of);
        self.grants.remove(&of);
        if let Some(request) = self.waits.remove(&of) {
            self.answered(&request, false);
        }
    }

    fn answered(&mut self, request: &RenewalRequest, granted: bool) {
        let mut out = Vec::new();
        change(&mut self.holder, |it| {
            it.answered(request, granted, &mut out)
        });
        self.perform(out);
    }

    fn perform(&mut self, out: Vec<LeaseOutput>) {
        for output in out {
            match output {
                LeaseOutput::Ask(request) => {
                    let request = Part::new(request);
                    self.waits.insert(request.of, request.clone());
                    self.requests.insert(request.of, request);
                }
                // A muster-init whose lease is over does not hear of a renewal.
                LeaseOutput::Extend { ends, .. } if self.node_now() < self.ends => self.ends = ends,
                LeaseOutput::Extend { .. } | LeaseOutput::End { .. } => {}
            }
        }
    }

    fn judge(&mut self) {
        let Some((question, silent)) = self.verdict.take() else {
            return;
        };
        let now = self.leader_now();
        let mut is_lost = false;
        change(&mut self.watch, |it| {
            is_lost = it.answered(now, &question, Some(silent));
        });
        if is_lost && self.node_now() < self.ends {
            self.wrong = Some(format!(
                "the task is given up in step {}, and may run until {:?} of its node's clock, where \
                 it is {:?}",
                self.step,
                self.ends,
                self.node_now()
            ));
        }
    }

    fn depose(&mut self, of: LeaseAuthority) {
        self.depositions -= 1;
        let now = self.leader_now();
        self.requests.remove(&of);
        match of {
            LeaseAuthority::Vc => {
                self.watch = Part::new(SilenceWatch::new(now, [node()]));
                // What was asked for the one before is nobody's question any more.
                self.question = None;
                self.verdict = None;
            }
            LeaseAuthority::Cluster => self.hearing = Part::new(Hearing::new(now)),
        }
    }

    fn node_now(&self) -> Time {
        Time(self.step * STEP_MS * NODE_RATE)
    }

    fn leader_now(&self) -> Time {
        Time(self.step * STEP_MS * LEADER_RATE)
    }
}

fn change<T: Clone + std::fmt::Debug>(part: &mut Part<T>, how: impl FnOnce(&mut T)) {
    let mut value = T::clone(part);
    how(&mut value);
    *part = Part::new(value);
}

fn node() -> NodeId {
    "n0".parse().unwrap_or_else(bug)
}

fn vc() -> VcName {
    VC.parse().unwrap_or_else(bug)
}

fn uid() -> AttemptUid {
    "task".parse().unwrap_or_else(bug)
}
