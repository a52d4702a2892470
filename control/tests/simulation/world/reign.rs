//! A virtual cluster: its log, who leads it, and an own account of what was committed.

use std::collections::{BTreeMap, BTreeSet};

use muster_control::coordinator::Coordinator;
use muster_control::fence::Term;
use muster_control::gang::{AttemptNo, GangId, GangRun, JobId};
use muster_control::lease::SilenceWatch;
use muster_control::vc::{AcceptedJob, Placed, VcApplied, VcEntry, VcRejection, VcState};
use muster_control::verdict::{EXIT_BARRIER_TIMEOUT, EXIT_PREEMPTED, EXIT_RUN_TIME};
use muster_model::exit::Verdict;
use muster_model::id::{AttemptUid, JobKey, NodeId, TaskId, VcName};
use muster_model::row::JobRow as _;
use muster_model::state::{EXIT_ATTEMPT_COMPLETED, EXIT_STOPPED, JobState, PriorityClass};

use super::{JOBS, options};

/// A virtual cluster.
#[derive(Debug)]
pub(super) struct Reign {
    pub(super) vc: VcName,
    pub(super) state: VcState,
    log: Vec<VcEntry>,
    pub(super) term: u64,
    /// The newest term whose leader's first entry is committed.
    pub(super) elected: u64,
    pub(super) coordinator: Coordinator,
    pub(super) watch: Option<SilenceWatch>,
    pub(super) accepted: BTreeSet<JobKey>,
    pub(super) placed: BTreeSet<(GangRun, AttemptUid)>,
    /// Where runs were placed.
    pub(super) places: BTreeMap<GangRun, BTreeSet<NodeId>>,
    pub(super) going: BTreeSet<GangRun>,
    /// Runs that were told to give way.
    pub(super) preempted: BTreeSet<GangRun>,
    /// When runs that have a limit are to end, milliseconds since the epoch.
    pub(super) ends: BTreeMap<GangRun, u64>,
    /// Runs that had to leave a node that was to be empty.
    pub(super) moved: BTreeSet<GangRun>,
    /// Jobs of which a task failed by itself.
    pub(super) failed: BTreeSet<JobId>,
    newest: BTreeMap<GangId, (AttemptNo, u32)>,
}

impl Reign {
    pub(super) fn new(vc: VcName, seed: u64) -> Self {
        Self {
            coordinator: Coordinator::new(options(&vc, seed)),
            vc,
            state: VcState::default(),
            log: Vec::new(),
            term: 0,
            elected: 0,
            watch: None,
            accepted: BTreeSet::new(),
            placed: BTreeSet::new(),
            places: BTreeMap::new(),
            going: BTreeSet::new(),
            preempted: BTreeSet::new(),
            ends: BTreeMap::new(),
            moved: BTreeSet::new(),
            failed: BTreeSet::new(),
            newest: BTreeMap::new(),
        }
    }

    /// A new leader: nothing is left of the old but the log.
    pub(super) fn begin(&mut self, seed: u64) -> Term {
        self.term += 1;
        self.state = VcState::restore(&self.state.snapshot()).unwrap();
        self.coordinator = Coordinator::new(options(&self.vc, seed));
        self.watch = None;
        Term(self.term)
    }

    pub(super) fn apply(&mut self, entry: &VcEntry) -> Result<VcApplied, VcRejection> {
        self.log.push(entry.clone());
        self.state.apply(self.log.len() as u64, entry)
    }

    /// Whether every job has ended.
    pub(super) fn is_over(&self) -> bool {
        self.accepted.len() as u64 == JOBS && self.state.rows().all(|job| job.state().is_final())
    }

    /// The run that a task was placed in.
    pub(super) fn run_of(&self, uid: &AttemptUid) -> Option<&GangRun> {
        let found = self.placed.iter().find(|(_, known)| known == uid);
        found.map(|(run, _)| run)
    }

    /// Whether a run that never had its Go was followed by another round of the same attempt.
    pub(super) fn has_passed(&self, run: &GangRun) -> bool {
        let newest = self.newest.get(&run.gang);
        newest > Some(&(run.attempt, run.round)) && !self.going.contains(run)
    }

    pub(super) fn is_opportunistic(&self, run: &GangRun) -> bool {
        let entry = self.log.get(run.gang.job.0 as usize - 1);
        let Some(VcEntry::Accept(job)) = entry else {
            panic!("{run} belongs to no job");
        };
        let job: &AcceptedJob = job;
        job.spec.priority == Some(PriorityClass::Oppo)
    }

    pub(super) fn note_placed(&mut self, placed: &Placed) {
        let run = &placed.run;
        for member in &placed.members {
            self.placed.insert((run.clone(), member.uid.clone()));
        }
        let nodes = placed.members.iter().map(|member| member.node.clone());
        self.places.insert(run.clone(), nodes.collect());
        let place = (run.attempt, run.round);
        let old = self.newest.insert(run.gang.clone(), place);
        assert!(old < Some(place), "{run} came after {old:?}");
    }

    /// What a run that had started left behind is shown with its exit, or as stopped.
    pub(super) fn check_record(
        &self,
        run: &GangRun,
        task: &TaskId,
        uid: &AttemptUid,
        exit: &Verdict,
    ) {
        if !self.going.contains(run) {
            return;
        }
        let mut keys = self.accepted.iter();
        let key = keys.find(|key| self.state.job_id(key) == Some(run.gang.job));
        let view = self.state.task(key.unwrap(), run.attempt.job, task);
        let attempts = view.unwrap().attempts;
        let own = attempts.into_iter().find(|a| a.uid.as_ref() == Some(uid));
        let code = own
            .and_then(|own| own.verdict)
            .map(|verdict| verdict.code());
        let stopped = [
            EXIT_STOPPED,
            EXIT_ATTEMPT_COMPLETED,
            EXIT_BARRIER_TIMEOUT,
            EXIT_PREEMPTED,
            EXIT_RUN_TIME,
        ];
        assert!(
            code == Some(exit.code()) || code.is_some_and(|code| stopped.contains(&code)),
            "{uid} ended with {}, its record says {code:?}",
            exit.code()
        );
    }

    /// No job fails unless one of its tasks did.
    pub(super) fn check_failures(&self) {
        for job in self.state.rows().map(|row| row.summary()) {
            let id = self.state.job_id(&job.key).unwrap();
            assert!(
                job.state() != JobState::Failed || self.failed.contains(&id),
                "{} failed by no fault of its own: {:?}",
                job.key,
                job.exit_code
            );
        }
    }

    /// Who gives way is not charged for it, and goes on.
    pub(super) fn check_charges(&self) {
        for job in self.state.rows().map(|row| row.summary()) {
            let attempts = 0..=job.retries.total;
            let views = attempts.filter_map(|i| self.state.detail(&job.key, Some(i)).ok()?.attempt);
            let exits: Vec<i32> = views
                .filter_map(|view| Some(view.verdict?.code()))
                .collect();
            let gave_way = exits.iter().filter(|code| **code == EXIT_PREEMPTED).count();
            let free = job.retries.total - job.retries.accountable;
            assert!(gave_way as u64 <= free.into(), "{} was charged", job.key);
            assert_ne!(job.exit_code, Some(EXIT_PREEMPTED), "{} ended", job.key);
        }
    }
}
