//! Applying entries: every rule is checked here, and an entry that breaks one changes nothing.

use muster_model::id::JobKey;
use muster_model::job::Partition;
use muster_model::launch::Placement;
use muster_model::state::ExecutionType;

use super::attempt::Phase;
use super::entry::{AcceptedJob, Applied, End, Entry, Placed, Rejected};
use super::job::Job;
use super::{Current, JOBS_MAX, TAGS_MAX, VcState};
use crate::fence::Term;
use crate::gang::{JobId, Run};

impl VcState {
    /// Applies the entry at `index` of the log. The same entries give the same state and the
    /// same answers on every replica.
    ///
    /// # Errors
    /// When the entry breaks a rule; the state is then as before.
    pub fn apply(&mut self, index: u64, entry: &Entry) -> Result<Applied, Rejected> {
        match entry {
            Entry::Elected { term } => self.elected(*term),
            Entry::Accept(job) => self.accept(JobId(index), job),
            Entry::SetExecution { job, value, at_ms } => self.set_execution(job, *value, *at_ms),
            Entry::AddTag { job, tag } => self.add_tag(job, tag),
            Entry::RemoveTag { job, tag } => self.remove_tag(job, tag),
            Entry::Placed(placed) => self.placed(placed),
            Entry::Go { run, at_ms } => {
                self.expect(run, |phase| matches!(phase, Phase::Placed { .. }))?;
                self.change(run.gang.job, |job| job.go(run, *at_ms))
            }
            Entry::Void { run, reason, at_ms } => {
                self.expect(run, |phase| matches!(phase, Phase::Placed { .. }))?;
                self.change(run.gang.job, |job| job.void(run, reason, *at_ms))
            }
            Entry::Stopping {
                run,
                cause,
                by,
                at_ms,
            } => {
                self.expect(run, |phase| {
                    matches!(phase, Phase::Placed { .. } | Phase::Going)
                })?;
                self.change(run.gang.job, |job| {
                    job.stop_run(run, *cause, by.as_ref(), *at_ms)
                })
            }
            Entry::TaskEnded {
                run,
                task,
                uid,
                end,
                at_ms,
            } => {
                if !self.is_live(run, task, uid) || !self.may_end(run, end) {
                    return Err(Rejected::NotCurrent(run.clone()));
                }
                self.change(run.gang.job, |job| job.end_task(run, task, end, *at_ms))
            }
            Entry::Bound { version, cells } => self.bind(*version, cells),
            Entry::Released(cells) => self.release(cells),
            Entry::HourPassed => Ok(self.grow_older()),
        }
    }

    fn elected(&mut self, term: Term) -> Result<Applied, Rejected> {
        if term < self.term {
            return Err(Rejected::OldTerm(term));
        }
        self.term = term;
        Ok(Applied::Term(term))
    }

    fn accept(&mut self, id: JobId, job: &AcceptedJob) -> Result<Applied, Rejected> {
        if let Some(known) = self.job_id(&job.key) {
            return self.accepted_before(known, job);
        }
        if self.jobs.len() >= JOBS_MAX {
            return Err(Rejected::QueueFull { count: JOBS_MAX });
        }
        self.index.names.insert(&job.key, id);
        self.jobs.insert(id, Box::new(Job::new(id, job.clone())));
        self.change(id, |_| ())
    }

    /// Whoever heard no answer asks again: the same submission is one job.
    fn accepted_before(&self, id: JobId, job: &AcceptedJob) -> Result<Applied, Rejected> {
        let known = self.jobs.get(&id).map(|known| &known.accepted.uid);
        let finished = self.finished.get(&id);
        let known = known.or_else(|| finished.map(|finished| &finished.uid));
        if known != Some(&job.uid) {
            return Err(Rejected::JobExists(job.key.clone()));
        }
        let completed = finished.is_some();
        Ok(Applied::Job { id, completed })
    }

    fn set_execution(
        &mut self,
        key: &JobKey,
        value: ExecutionType,
        at_ms: u64,
    ) -> Result<Applied, Rejected> {
        let id = self.id(key)?;
        let Some(job) = self.jobs.get(&id) else {
            return Ok(Applied::Job {
                id,
                completed: false,
            });
        };
        match (job.execution, value) {
            (ExecutionType::Stop, ExecutionType::Start) => {
                Err(Rejected::AlreadyStopped(key.clone()))
            }
            (ExecutionType::Start, ExecutionType::Stop) => self.change(id, |job| job.stop(at_ms)),
            (ExecutionType::Start, ExecutionType::Start)
            | (ExecutionType::Stop, ExecutionType::Stop) => self.change(id, |_| ()),
        }
    }

    fn add_tag(&mut self, key: &JobKey, tag: &str) -> Result<Applied, Rejected> {
        let id = self.id(key)?;
        let Some(tags) = self.tags_mut(id) else {
            return Err(Rejected::NoJob(key.clone()));
        };
        if !tags.iter().any(|known| known == tag) {
            if tags.len() >= TAGS_MAX {
                return Err(Rejected::TooManyTags { count: TAGS_MAX });
            }
            tags.push(tag.to_owned());
        }
        Ok(Applied::Job {
            id,
            completed: false,
        })
    }

    fn remove_tag(&mut self, key: &JobKey, tag: &str) -> Result<Applied, Rejected> {
        let id = self.id(key)?;
        let Some(tags) = self.tags_mut(id) else {
            return Err(Rejected::NoJob(key.clone()));
        };
        let before = tags.len();
        tags.retain(|known| known != tag);
        if tags.len() == before {
            return Err(Rejected::NoTag(tag.to_owned()));
        }
        Ok(Applied::Job {
            id,
            completed: false,
        })
    }

    fn tags_mut(&mut self, id: JobId) -> Option<&mut Vec<String>> {
        match self.jobs.get_mut(&id) {
            Some(job) => Some(&mut job.tags),
            None => self.finished.get_mut(&id).map(|job| &mut job.summary.tags),
        }
    }

    fn placed(&mut self, placed: &Placed) -> Result<Applied, Rejected> {
        let run = &placed.run;
        let current = self.current(&run.gang);
        let Some(current) = current.filter(|current| may_be_placed(current, run)) else {
            return Err(Rejected::NotCurrent(run.clone()));
        };
        let tasks = current
            .job
            .attempt
            .tasks_of(current.gang)
            .map(|task| &task.id);
        let members = placed.members.iter().map(|member| &member.task);
        let known = current.job.attempt.uids();
        let is_new = |member: &Placement| !known.contains(&member.uid);
        if !tasks.eq(members) || !names_all_ledgers(placed) || !placed.members.iter().all(is_new) {
            return Err(Rejected::WrongMembers(run.clone()));
        }
        if !self.is_within(placed) {
            return Err(Rejected::NotOwn(run.clone()));
        }
        self.change(run.gang.job, |job| job.place(placed))
    }

    /// Checks that the run is the gang's current one and its phase is as asked.
    fn expect(&self, run: &Run, phase: impl Fn(Phase) -> bool) -> Result<(), Rejected> {
        match self.current(&run.gang) {
            Some(current) if current.run == *run && phase(current.gang.phase) => Ok(()),
            Some(_) | None => Err(Rejected::NotCurrent(run.clone())),
        }
    }

    /// A task is given up for silence only as its job agreed to.
    fn may_end(&self, run: &Run, end: &End) -> bool {
        let Some(current) = self.current(&run.gang) else {
            return false;
        };
        match end {
            End::Exit(_) | End::Gone | End::Off => true,
            End::Lost => current.gang.lease.is_some(),
            End::NotStarted => match current.gang.phase {
                Phase::Voiding => true,
                Phase::Stopping { .. } => !current.has_started(),
                Phase::Waiting | Phase::Placed { .. } | Phase::Going | Phase::Ended => false,
            },
            End::Overlapped => current.job.accepted.spec.partition == Partition::Overlap,
        }
    }

    fn id(&self, key: &JobKey) -> Result<JobId, Rejected> {
        let id = self.job_id(key);
        id.ok_or_else(|| Rejected::NoJob(key.clone()))
    }

    /// Changes a job and keeps the indices and the archive in step.
    fn change(&mut self, id: JobId, change: impl FnOnce(&mut Job)) -> Result<Applied, Rejected> {
        let mut completed = false;
        if let Some(job) = self.jobs.get_mut(&id) {
            self.index.remove(job);
            change(job);
            completed = job.completed.is_some();
            if !completed {
                self.index.add(job);
            }
        }
        if completed {
            self.archive(id);
        }
        Ok(Applied::Job { id, completed })
    }
}

/// Whether a gang may be placed as this run: it waits for a place in it, or is placed in the round before
/// and has not had its Go.
fn may_be_placed(current: &Current<'_>, run: &Run) -> bool {
    match current.gang.phase {
        Phase::Waiting => current.run == *run,
        Phase::Placed { .. } => current.next_round().as_ref() == Some(run),
        Phase::Going | Phase::Stopping { .. } | Phase::Voiding | Phase::Ended => false,
    }
}

/// Whether each member's node is named with its ledger.
fn names_all_ledgers(placed: &Placed) -> bool {
    let named = |node| placed.ledgers.iter().any(|(known, _)| known == node);
    placed.members.iter().all(|member| named(&member.node))
}
