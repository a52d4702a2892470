//! Applying entries: every rule is checked here, and an entry that breaks one changes nothing.

use muster_model::id::JobKey;
use muster_model::job::Partition;
use muster_model::launch::TaskPlacement;
use muster_model::state::ExecutionType;

use super::attempt::GangPhase;
use super::entry::{AcceptedJob, Placed, TaskEnd, VcApplied, VcEntry, VcRejection};
use super::job::JobRecord;
use super::{Current, JOBS_MAX, TAGS_MAX, VcState};
use crate::fence::Term;
use crate::gang::{GangRun, JobId};

impl VcState {
    /// Applies the entry at `index` of the log. The same entries give the same state and the
    /// same answers on every replica.
    ///
    /// # Errors
    /// When the entry breaks a rule; the state is then as before.
    pub fn apply(&mut self, index: u64, entry: &VcEntry) -> Result<VcApplied, VcRejection> {
        match entry {
            VcEntry::Elected { term } => self.elected(*term),
            VcEntry::Accept(job) => self.accept(JobId(index), job),
            VcEntry::SetExecution { job, value, at_ms } => self.set_execution(job, *value, *at_ms),
            VcEntry::AddTag { job, tag } => self.add_tag(job, tag),
            VcEntry::RemoveTag { job, tag } => self.remove_tag(job, tag),
            VcEntry::Placed(placed) => self.placed(placed),
            VcEntry::Go {
                run,
                limit_s,
                at_ms,
            } => {
                self.expect(run, |phase| matches!(phase, GangPhase::Placed { .. }))?;
                self.change(run.gang.job, |job| job.go(run, *limit_s, *at_ms))
            }
            VcEntry::Void { run, reason, at_ms } => {
                self.expect(run, |phase| matches!(phase, GangPhase::Placed { .. }))?;
                self.change(run.gang.job, |job| job.void(run, reason, *at_ms))
            }
            VcEntry::Stopping {
                run,
                cause,
                by,
                at_ms,
            } => {
                self.expect(run, |phase| {
                    matches!(phase, GangPhase::Placed { .. } | GangPhase::Going)
                })?;
                self.change(run.gang.job, |job| {
                    job.stop_run(run, *cause, by.as_ref(), *at_ms)
                })
            }
            VcEntry::TaskEnded {
                run,
                task,
                uid,
                end,
                at_ms,
            } => {
                if !self.is_live(run, task, uid) || !self.may_end(run, end) {
                    return Err(VcRejection::NotCurrent(run.clone()));
                }
                let used = self.used_by(run, task);
                let applied = self.change(run.gang.job, |job| job.end_task(run, task, end, *at_ms));
                self.count_gpu_time(used, *at_ms);
                applied
            }
            VcEntry::OnHold {
                run,
                task,
                uid,
                hold,
                at_ms,
            } => {
                self.expect(run, |phase| phase == GangPhase::Going)?;
                if !self.is_live(run, task, uid) {
                    return Err(VcRejection::NotCurrent(run.clone()));
                }
                self.change(run.gang.job, |job| job.hold_task(run, task, hold, *at_ms))
            }
            VcEntry::Bound { version, cells } => self.bind(*version, cells),
            VcEntry::Released(cells) => self.release(cells),
            VcEntry::HourPassed => Ok(self.grow_older()),
        }
    }

    fn elected(&mut self, term: Term) -> Result<VcApplied, VcRejection> {
        if term < self.term {
            return Err(VcRejection::OldTerm(term));
        }
        self.term = term;
        Ok(VcApplied::Term(term))
    }

    fn accept(&mut self, id: JobId, job: &AcceptedJob) -> Result<VcApplied, VcRejection> {
        if let Some(known) = self.job_id(&job.key) {
            return self.accepted_before(known, job);
        }
        if self.jobs.len() >= JOBS_MAX {
            return Err(VcRejection::QueueFull { count: JOBS_MAX });
        }
        self.index.names.insert(&job.key, id);
        self.index.newest.insert(job.submitted_ms, id);
        self.jobs
            .insert(id, Box::new(JobRecord::new(id, job.clone())));
        self.change(id, |_| ())
    }

    /// Whoever heard no answer asks again: the same submission is one job.
    fn accepted_before(&self, id: JobId, job: &AcceptedJob) -> Result<VcApplied, VcRejection> {
        let known = self.jobs.get(&id).map(|known| &known.accepted.uid);
        let finished = self.finished.get(&id);
        let known = known.or_else(|| finished.map(|finished| &finished.uid));
        if known != Some(&job.uid) {
            return Err(VcRejection::JobExists(job.key.clone()));
        }
        let completed = finished.is_some();
        Ok(VcApplied::Job { id, completed })
    }

    fn set_execution(
        &mut self,
        key: &JobKey,
        value: ExecutionType,
        at_ms: u64,
    ) -> Result<VcApplied, VcRejection> {
        let id = self.id(key)?;
        let Some(job) = self.jobs.get(&id) else {
            return Ok(VcApplied::Job {
                id,
                completed: false,
            });
        };
        match (job.execution, value) {
            (ExecutionType::Stop, ExecutionType::Start) => {
                Err(VcRejection::AlreadyStopped(key.clone()))
            }
            (ExecutionType::Start, ExecutionType::Stop) => self.change(id, |job| job.stop(at_ms)),
            (ExecutionType::Start, ExecutionType::Start)
            | (ExecutionType::Stop, ExecutionType::Stop) => self.change(id, |_| ()),
        }
    }

    fn add_tag(&mut self, key: &JobKey, tag: &str) -> Result<VcApplied, VcRejection> {
        let id = self.id(key)?;
        let Some(tags) = self.tags_mut(id) else {
            return Err(VcRejection::NoJob(key.clone()));
        };
        if !tags.iter().any(|known| known == tag) {
            if tags.len() >= TAGS_MAX {
                return Err(VcRejection::TooManyTags { count: TAGS_MAX });
            }
            tags.push(tag.to_owned());
        }
        Ok(VcApplied::Job {
            id,
            completed: false,
        })
    }

    fn remove_tag(&mut self, key: &JobKey, tag: &str) -> Result<VcApplied, VcRejection> {
        let id = self.id(key)?;
        let Some(tags) = self.tags_mut(id) else {
            return Err(VcRejection::NoJob(key.clone()));
        };
        let before = tags.len();
        tags.retain(|known| known != tag);
        if tags.len() == before {
            return Err(VcRejection::NoTag(tag.to_owned()));
        }
        Ok(VcApplied::Job {
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

    fn placed(&mut self, placed: &Placed) -> Result<VcApplied, VcRejection> {
        let run = &placed.run;
        let current = self.current(&run.gang);
        let Some(current) = current.filter(|current| may_be_placed(current, run)) else {
            return Err(VcRejection::NotCurrent(run.clone()));
        };
        let tasks = current
            .job
            .attempt
            .tasks_of(current.gang)
            .map(|task| &task.id);
        let members = placed.members.iter().map(|member| &member.task);
        let known = current.job.attempt.uids();
        let is_new = |member: &TaskPlacement| !known.contains(&member.uid);
        if !tasks.eq(members) || !names_all_ledgers(placed) || !placed.members.iter().all(is_new) {
            return Err(VcRejection::WrongMembers(run.clone()));
        }
        if !self.is_within(placed) {
            return Err(VcRejection::NotOwn(run.clone()));
        }
        self.change(run.gang.job, |job| job.place(placed))
    }

    /// Checks that the run is the gang's current one and its phase is as asked.
    fn expect(&self, run: &GangRun, phase: impl Fn(GangPhase) -> bool) -> Result<(), VcRejection> {
        match self.current(&run.gang) {
            Some(current) if current.run == *run && phase(current.gang.phase) => Ok(()),
            Some(_) | None => Err(VcRejection::NotCurrent(run.clone())),
        }
    }

    /// A task is given up for silence only as its job agreed to.
    fn may_end(&self, run: &GangRun, end: &TaskEnd) -> bool {
        let Some(current) = self.current(&run.gang) else {
            return false;
        };
        match end {
            TaskEnd::Exit(_) | TaskEnd::Gone | TaskEnd::Off => true,
            TaskEnd::Lost => current.gang.lease.is_some(),
            TaskEnd::NotStarted => match current.gang.phase {
                GangPhase::Voiding => true,
                GangPhase::Stopping { .. } => !current.has_started(),
                GangPhase::Waiting
                | GangPhase::Placed { .. }
                | GangPhase::Going
                | GangPhase::Ended => false,
            },
            TaskEnd::Overlapped => current.job.accepted.spec.partition == Partition::Overlap,
        }
    }

    fn id(&self, key: &JobKey) -> Result<JobId, VcRejection> {
        let id = self.job_id(key);
        id.ok_or_else(|| VcRejection::NoJob(key.clone()))
    }

    /// Changes a job and keeps the indices and the archive in step.
    fn change(
        &mut self,
        id: JobId,
        change: impl FnOnce(&mut JobRecord),
    ) -> Result<VcApplied, VcRejection> {
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
        Ok(VcApplied::Job { id, completed })
    }
}

/// Whether a gang may be placed as this run: it waits for a place in it, or is placed in the round before
/// and has not had its Go.
fn may_be_placed(current: &Current<'_>, run: &GangRun) -> bool {
    match current.gang.phase {
        GangPhase::Waiting => current.run == *run,
        GangPhase::Placed { .. } => current.next_round().as_ref() == Some(run),
        GangPhase::Going | GangPhase::Stopping { .. } | GangPhase::Voiding | GangPhase::Ended => {
            false
        }
    }
}

/// Whether each member's node is named with its ledger.
fn names_all_ledgers(placed: &Placed) -> bool {
    let named = |node| placed.ledgers.iter().any(|(known, _)| known == node);
    placed.members.iter().all(|member| named(&member.node))
}
