//! Whose end explains the others': ranks of a gang fail when they lose a peer, and say so before anybody
//! knows what became of it.

use muster_model::exit::{Behavior, Cause, Verdict};
use muster_model::id::TaskId;
use muster_model::view::Trigger;

use super::attempt::AttemptOutcome;
use super::job::JobRecord;
use crate::gang::GangRun;
use crate::verdict::{self, EXIT_LOST, EXIT_PREEMPTED};

impl JobRecord {
    /// A task of a gang that is ending was evicted or lost, by no fault of its own, and another one had failed
    /// before that was known: that one lost its peer, as far as anybody can tell. So the attempt ends for the
    /// peer's reason, and is not charged. Whether it was so.
    pub(super) fn blame(
        &mut self,
        run: &GangRun,
        task: &TaskId,
        verdict: &Verdict,
        at_ms: u64,
    ) -> bool {
        let Some(failed) = self.failed().filter(|_| run.gang.task.is_none()) else {
            return false;
        };
        match verdict.code() {
            EXIT_PREEMPTED => {
                self.attempt.outcome = None;
                self.stop_run(run, Cause::Preempted, None, at_ms);
                true
            }
            EXIT_LOST => {
                self.blame_loss(&failed, task, verdict, at_ms);
                true
            }
            _ => {
                // The task itself ended for the reason that its own verdict has.
                self.blame_device(&failed, task, verdict, at_ms);
                self.blame_peer(&failed, task, verdict, at_ms)
            }
        }
    }

    /// The failure that decided the attempt is what a lost peer looks like, and another task failed by itself: that
    /// one is the reason, whichever was heard of first. The first such task stays the reason. Whether it was so.
    fn blame_peer(
        &mut self,
        failed: &TaskId,
        task: &TaskId,
        verdict: &Verdict,
        at_ms: u64,
    ) -> bool {
        let outcome = self.attempt.outcome.as_deref();
        let is_open = outcome.is_some_and(|outcome| outcome.verdict.is_peer_fault());
        if !is_open || !is_root(verdict) {
            return false;
        }
        let message = format!(
            "{failed} failed because it lost a peer, and {task} failed by itself: that is taken as the reason. {}",
            verdict.diagnostics
        );
        self.warn("PeerFailed", message.clone(), at_ms);
        let trigger = Trigger {
            message,
            task: Some(task.clone()),
        };
        self.attempt.outcome = Some(Box::new(AttemptOutcome {
            verdict: Verdict {
                used: None,
                ..verdict.clone()
            },
            trigger,
            at_ms,
        }));
        true
    }

    /// The machine of another task reported that a device or a link failed while the gang ran. The
    /// attempt then ends for that reason, if the rules found none for the failure that decided it:
    /// a rank whose peer has lost its link waits, and fails with a timeout.
    fn blame_device(&mut self, failed: &TaskId, task: &TaskId, verdict: &Verdict, at_ms: u64) {
        let outcome = self.attempt.outcome.as_deref();
        let is_open = outcome.is_some_and(|outcome| {
            let decided = &outcome.verdict;
            decided.spec.behavior == Behavior::Unknown && decided.device_fault().is_none()
        });
        let Some(event) = verdict.device_fault().filter(|_| is_open) else {
            return;
        };
        let message = format!(
            "{failed} failed, and a device of {task} had failed: that is taken as the reason. {}",
            event.text
        );
        self.warn("PeerDeviceFault", message.clone(), at_ms);
        let trigger = Trigger {
            message,
            task: Some(task.clone()),
        };
        self.attempt.outcome = Some(Box::new(AttemptOutcome {
            verdict: verdict::device_fault(event),
            trigger,
            at_ms,
        }));
    }

    /// The same where that was known before: a task was lost, which did not decide the attempt, and then one
    /// that failed by itself did.
    pub(super) fn blame_earlier(&mut self, at_ms: u64) {
        let Some(failed) = self.failed().filter(|_| self.accepted.spec.gang) else {
            return;
        };
        let is_lost = |(_, verdict): &(&TaskId, &Verdict)| verdict.code() == EXIT_LOST;
        let lost = self.attempt.ended().find(is_lost);
        let lost = lost.map(|(task, verdict)| (task.clone(), verdict.clone()));
        if let Some((task, verdict)) = lost {
            return self.blame_loss(&failed, &task, &verdict, at_ms);
        }
        let other = |is_reason: fn(&Verdict) -> bool| {
            let mut others = self.attempt.ended().filter(|(task, _)| **task != failed);
            let found = others.find(|(_, verdict)| is_reason(verdict));
            found.map(|(task, verdict)| (task.clone(), verdict.clone()))
        };
        let (fault, root) = (
            other(|verdict| verdict.device_fault().is_some()),
            other(is_root),
        );
        if let Some((task, verdict)) = fault {
            self.blame_device(&failed, &task, &verdict, at_ms);
        }
        if let Some((task, verdict)) = root {
            self.blame_peer(&failed, &task, &verdict, at_ms);
        }
    }

    fn blame_loss(&mut self, failed: &TaskId, lost: &TaskId, verdict: &Verdict, at_ms: u64) {
        let message = format!(
            "{lost} was lost and {failed} failed: the loss is taken as the reason. {}",
            verdict.diagnostics
        );
        self.warn("PeerLost", message.clone(), at_ms);
        let trigger = Trigger {
            message,
            task: Some(lost.clone()),
        };
        self.attempt.outcome = Some(Box::new(AttemptOutcome {
            verdict: verdict.clone(),
            trigger,
            at_ms,
        }));
    }

    /// The task whose own failure decided the attempt, if one's did. Before its Go nobody has peers.
    fn failed(&self) -> Option<TaskId> {
        self.attempt.launched?;
        let outcome = self.attempt.outcome.as_deref()?;
        let code = outcome.verdict.container_exit_code?;
        let is_its_own = code != 0 && outcome.verdict.code() != EXIT_LOST;
        outcome.trigger.task.clone().filter(|_| is_its_own)
    }
}

/// Whether a task failed by itself, and not because it lost a peer.
fn is_root(verdict: &Verdict) -> bool {
    verdict.code() > 0 && verdict.container_exit_code.is_some() && !verdict.is_peer_fault()
}
