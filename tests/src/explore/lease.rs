//! The run lease: a task on a node that may be cut off, a leader that may give it up, and another that
//! is asked before. Time goes in steps; whatever is on its way arrives at once, later or never.

use std::collections::BTreeMap;

use muster_control::lease::{
    Authority, Hearing, Holder, Lease, Leased, Output, Question, Request, Watch,
};
use muster_model::id::{AttemptUid, NodeId, VcName};
use muster_model::time::Time;
use stateright::{Model, Property};

use super::leader::VC;
use super::part::{Part, Pool};
use super::{Explored, bug};

/// Its lease lasts for 3 steps on the wire, and is over after 3.09.
const LEASE: Lease = Lease { seconds: 20 };
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
pub(super) enum Action {
    /// Time passes: whoever does not stand still does what is due.
    Pass,
    /// A request arrives: it is granted, for whoever is meant leads.
    Ask(Authority),
    /// Its answer arrives.
    Grant(Authority),
    /// What is on its way to this one, or back, takes longer than a step. All else that has not
    /// arrived by the end of one is lost.
    Slow(Authority),
    /// The other leader hears the question, and answers.
    Question,
    /// Its answer arrives.
    Verdict,
    /// Somebody stands still.
    Pause(Who),
    /// And goes on.
    Resume,
    /// Somebody else leads one of the groups. What is on its way to the one before is lost.
    Depose(Authority),
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub(super) struct State {
    step: u64,
    holder: Part<Holder>,
    watch: Part<Watch>,
    hearing: Part<Hearing>,
    /// What the node waits for the answer to.
    waits: BTreeMap<Authority, Part<Request>>,
    requests: BTreeMap<Authority, Part<Request>>,
    grants: BTreeMap<Authority, Part<Request>>,
    question: Option<Part<Question>>,
    verdict: Option<(Part<Question>, bool)>,
    /// Who is slow to be reached, once it is.
    slow: Option<Authority>,
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
    holders: Pool<Holder>,
    watches: Pool<Watch>,
}

impl Model for Leases {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.begin()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.wrong.is_some() || state.step == self.steps {
            return;
        }
        let goes = |who| state.paused != Some(who);
        actions.push(Action::Pass);
        for (of, who) in [(Authority::Vc, Who::Vc), (Authority::Cluster, Who::Cluster)] {
            if state.requests.contains_key(&of) && goes(who) {
                actions.push(Action::Ask(of));
            }
            if state.grants.contains_key(&of) && goes(Who::Node) {
                actions.push(Action::Grant(of));
            }
            if state.waits.contains_key(&of) && state.slow.is_none() {
                actions.push(Action::Slow(of));
            }
            if state.depositions > 0 {
                actions.push(Action::Depose(of));
            }
        }
        if state.question.is_some() && goes(Who::Cluster) {
            actions.push(Action::Question);
        }
        if state.verdict.is_some() && goes(Who::Vc) {
            actions.push(Action::Verdict);
        }
        match state.paused {
            Some(_) => actions.push(Action::Resume),
            None if state.pauses > 0 => {
                actions.extend([Who::Node, Who::Vc, Who::Cluster].map(Action::Pause));
            }
            None => {}
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        next.happens(action);
        next.holder = self.holders.known(next.holder);
        next.watch = self.watches.known(next.watch);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(super::CLEAN, |_, state: &State| {
            state.wrong.is_none()
        })]
    }
}

impl Explored for Leases {
    fn wrong(state: &State) -> Option<String> {
        state.wrong.clone()
    }

    fn describe(_: &State, action: &Action) -> String {
        format!("{action:?}")
    }
}

impl Leases {
    pub(super) fn new(steps: u64, pauses: u8, depositions: u8) -> Self {
        Self {
            steps,
            pauses,
            depositions,
            holders: Pool::default(),
            watches: Pool::default(),
        }
    }

    /// The task was placed just now.
    fn begin(&self) -> State {
        let mut holder = Holder::default();
        let leased = |lease| Leased {
            uid: uid(),
            vc: vc(),
            lease,
            before: None,
        };
        holder.follow(Time(0), [leased(None)]);
        holder.follow(Time(0), [leased(Some(LEASE))]);
        State {
            step: 0,
            ends: holder.ends(&uid()).unwrap_or_default(),
            holder: Part::new(holder),
            watch: Part::new(Watch::new(Time(0), [node()])),
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

impl State {
    fn happens(&mut self, action: Action) {
        match action {
            Action::Pass => self.pass(),
            Action::Ask(of) => {
                let now = self.leader_now();
                match of {
                    Authority::Vc => change(&mut self.watch, |it| it.heard(now, &node())),
                    Authority::Cluster => change(&mut self.hearing, |it| it.heard(now, &node())),
                }
                if let Some(request) = self.requests.remove(&of) {
                    self.grants.insert(of, request);
                }
            }
            Action::Grant(of) => {
                if let Some(request) = self.grants.remove(&of) {
                    self.waits.retain(|_, waits| *waits != request);
                    self.answered(&request, true);
                }
            }
            Action::Slow(of) => self.slow = Some(of),
            Action::Question => {
                if let Some(question) = self.question.take() {
                    let silence = self.hearing.silence_ms(self.leader_now(), &node());
                    let silent = silence >= question.for_ms;
                    self.verdict = Some((question, silent));
                }
            }
            Action::Verdict => self.judge(),
            Action::Pause(who) => {
                self.pauses -= 1;
                self.paused = Some(who);
            }
            Action::Resume => self.paused = None,
            Action::Depose(of) => self.depose(of),
        }
    }

    /// A step later, everybody who goes looks at the clock.
    fn pass(&mut self) {
        for of in [Authority::Vc, Authority::Cluster] {
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

    fn give_up(&mut self, of: Authority) {
        self.requests.remove(&of);
        self.grants.remove(&of);
        if let Some(request) = self.waits.remove(&of) {
            self.answered(&request, false);
        }
    }

    fn answered(&mut self, request: &Request, granted: bool) {
        let mut out = Vec::new();
        change(&mut self.holder, |it| {
            it.answered(request, granted, &mut out)
        });
        self.perform(out);
    }

    fn perform(&mut self, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Ask(request) => {
                    let request = Part::new(request);
                    self.waits.insert(request.of, request.clone());
                    self.requests.insert(request.of, request);
                }
                // A muster-init whose lease is over does not hear of a renewal.
                Output::Extend { ends, .. } if self.node_now() < self.ends => self.ends = ends,
                Output::Extend { .. } | Output::End { .. } => {}
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

    fn depose(&mut self, of: Authority) {
        self.depositions -= 1;
        let now = self.leader_now();
        self.requests.remove(&of);
        match of {
            Authority::Vc => {
                self.watch = Part::new(Watch::new(now, [node()]));
                // What was asked for the one before is nobody's question any more.
                self.question = None;
                self.verdict = None;
            }
            Authority::Cluster => self.hearing = Part::new(Hearing::new(now)),
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
