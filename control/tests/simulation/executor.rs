//! A node's executor without containers: what survives an agent's restart, and what does not.

use std::collections::BTreeMap;

use muster_control::ledger::{Observation, Step};
use muster_control::verdict;
use muster_model::exit::{Behavior, Verdict};
use muster_model::id::AttemptUid;
use muster_model::launch::TaskSpec;

use crate::world::Chance;

/// A container, as the engine keeps it while agents come and go.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) spec: TaskSpec,
    pub(crate) phase: Phase,
}

#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// The agent's part of the launch; lost when the agent dies.
    Starting,
    Ready,
    Running,
    Ended(Box<Verdict>),
}

#[derive(Debug, Default)]
pub(crate) struct Executor {
    pub(crate) containers: BTreeMap<AttemptUid, Container>,
}

/// Something that the executor will do after a while.
#[derive(Clone, Debug)]
pub(crate) enum Job {
    Step(Step),
    /// The launch comes to its end.
    Launched(AttemptUid),
    /// The user's commands come to their end.
    Finished(AttemptUid),
}

/// What is observed at once.
type Seen = Vec<(AttemptUid, Observation)>;
/// What happens after so many milliseconds.
type Later = Vec<(u64, Job)>;

impl Executor {
    /// Does something; gives what is observed and what happens later, with its delay.
    pub(crate) fn run(&mut self, job: Job, chance: &mut Chance) -> (Seen, Later) {
        match job {
            Job::Step(step) => self.step(step, chance),
            Job::Launched(uid) => (self.launched(uid, chance), Vec::new()),
            Job::Finished(uid) => (self.finished(uid, chance), Vec::new()),
        }
    }

    fn step(&mut self, step: Step, chance: &mut Chance) -> (Seen, Later) {
        let mut later = Vec::new();
        let seen = match step {
            Step::Adopt(uid) => vec![(uid.clone(), self.look(&uid))],
            Step::Create(spec) => {
                let uid = spec.placement.uid.clone();
                self.containers.entry(uid.clone()).or_insert(Container {
                    spec: *spec,
                    phase: Phase::Starting,
                });
                later.push((chance.below(3_000), Job::Launched(uid)));
                Vec::new()
            }
            Step::Go(uid) => match self.containers.get_mut(&uid) {
                Some(container) if matches!(container.phase, Phase::Ready) => {
                    container.phase = Phase::Running;
                    later.push((chance.below(20_000), Job::Finished(uid.clone())));
                    vec![(uid, Observation::Running)]
                }
                Some(_) | None => Vec::new(),
            },
            Step::Stop { uid, cause, .. } => match self.containers.get_mut(&uid) {
                None => vec![(uid, Observation::Gone)],
                Some(container) => {
                    if !matches!(container.phase, Phase::Ended(_)) {
                        container.phase = Phase::Ended(Box::new(verdict::stopped(cause)));
                    }
                    vec![(uid.clone(), self.look(&uid))]
                }
            },
            Step::Remove(uid) => {
                self.containers.remove(&uid);
                vec![(uid, Observation::Gone)]
            }
        };
        (seen, later)
    }

    fn look(&self, uid: &AttemptUid) -> Observation {
        match self.containers.get(uid).map(|container| &container.phase) {
            None | Some(Phase::Starting) => Observation::Absent,
            Some(Phase::Ready) => Observation::Ready,
            Some(Phase::Running) => Observation::Running,
            Some(Phase::Ended(verdict)) => Observation::Ended(verdict.clone()),
        }
    }

    fn launched(&mut self, uid: AttemptUid, chance: &mut Chance) -> Vec<(AttemptUid, Observation)> {
        let Some(container) = self.containers.get_mut(&uid) else {
            return Vec::new();
        };
        if !matches!(container.phase, Phase::Starting) {
            return Vec::new();
        }
        if chance.one_in(12) {
            let behavior = [Behavior::Transient, Behavior::Permanent][chance.below(2) as usize];
            let verdict = Box::new(failure(253, behavior));
            container.phase = Phase::Ended(verdict.clone());
            return vec![(uid, Observation::LaunchFailed(verdict))];
        }
        container.phase = Phase::Ready;
        vec![(uid, Observation::Ready)]
    }

    fn finished(&mut self, uid: AttemptUid, chance: &mut Chance) -> Vec<(AttemptUid, Observation)> {
        let Some(container) = self.containers.get_mut(&uid) else {
            return Vec::new();
        };
        if !matches!(container.phase, Phase::Running) {
            return Vec::new();
        }
        let verdict = Box::new(match chance.below(6) {
            0 => failure(1, Behavior::Unknown),
            1 => failure(137, Behavior::Transient),
            _ => verdict::succeeded(),
        });
        container.phase = Phase::Ended(verdict.clone());
        vec![(uid, Observation::Ended(verdict))]
    }

    /// The agent died: launches under way are lost with what they had made.
    pub(crate) fn crash(&mut self) {
        self.containers
            .retain(|_, container| !matches!(container.phase, Phase::Starting));
    }
}

fn failure(code: i32, behavior: Behavior) -> Verdict {
    let mut verdict = verdict::succeeded();
    verdict.spec.code = code;
    verdict.spec.behavior = behavior;
    verdict
}
