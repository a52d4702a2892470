//! The replay: jobs come and end, and whenever something happened a plan is made.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use muster_model::time::Time;

use super::figures::{ReplayFigures, ReplayWaits};
use super::{GPUS_PER_NODE, ReplayError, ReplayPolicy, TraceJob, cluster};
use crate::cells::{CellEvent, Cells};
use crate::decide::{Decision, DecisionPolicy};
use crate::gang::{Gang, GangMember, GangNumber};
use crate::index::at;
use crate::plan::advance;
use crate::queue::{GangQueue, Queued};

/// A replay in progress.
struct Replay<'a> {
    jobs: &'a [TraceJob],
    policy: DecisionPolicy,
    cells: Cells,
    queue: GangQueue,
    /// When running jobs end, by their number.
    ends: BinaryHeap<Reverse<(u64, u32)>>,
    waits: ReplayWaits,
}

/// Replays jobs, in the order in which they came, on so many machines of
/// [`GPUS_PER_NODE`] devices. `clock` gives nanoseconds of work done.
///
/// # Errors
/// If there are no jobs or no machines.
pub fn replay(
    jobs: &[TraceJob],
    nodes: u32,
    kind: ReplayPolicy,
    clock: &dyn Fn() -> u64,
) -> Result<ReplayFigures, ReplayError> {
    if jobs.is_empty() {
        return Err(ReplayError::Empty);
    }
    let start = clock();
    let mut replay = Replay {
        jobs,
        policy: kind.policy(),
        cells: cluster::cells(nodes)?,
        queue: GangQueue::default(),
        ends: BinaryHeap::new(),
        waits: ReplayWaits::new(jobs.len()),
    };
    replay.run()?;
    let cpu_ns = clock() - start;
    Ok(ReplayFigures::new(kind, nodes, jobs, replay.waits, cpu_ns))
}

impl Replay<'_> {
    fn run(&mut self) -> Result<(), ReplayError> {
        let mut next = 0;
        while let Some(now_s) = self.next_event(next) {
            while let Some(Reverse((end_s, number))) = self.ends.peek().copied()
                && end_s == now_s
            {
                self.ends.pop();
                self.end(number)?;
            }
            while let Some(job) = self.jobs.get(next).filter(|job| job.submit_s <= now_s) {
                self.queue.gangs.push(queued(job, next));
                next += 1;
            }
            if !self.queue.gangs.is_empty() {
                self.plan(now_s)?;
            }
            self.waits.peak_queue = self.waits.peak_queue.max(self.queue.gangs.len());
        }
        Ok(())
    }

    fn next_event(&self, next: usize) -> Option<u64> {
        let comes = self.jobs.get(next).map(|job| job.submit_s);
        let ends = self.ends.peek().map(|end| end.0.0);
        comes.into_iter().chain(ends).min()
    }

    fn end(&mut self, number: u32) -> Result<(), ReplayError> {
        let ended = CellEvent::GangEnded(GangNumber(u64::from(number)));
        let done = self.cells.apply(ended);
        done.map_err(|error| ReplayError::Refused(error.to_string()))
    }

    fn plan(&mut self, now_s: u64) -> Result<(), ReplayError> {
        let now = Time::from_millis(now_s * 1000);
        let plan = advance(&mut self.cells, &self.queue, &self.policy, now);
        let mut gone = BTreeSet::new();
        for (gang, decision) in &plan.decisions {
            match decision {
                Decision::Place(_) => self.start(*gang, now_s),
                Decision::Refuse(_) => self.waits.refused += 1,
                Decision::Wait(_) => continue,
                Decision::Preempt { .. } => {
                    return Err(ReplayError::Refused(format!("{gang} preempts its equals")));
                }
            }
            gone.insert(*gang);
        }
        if !gone.is_empty() {
            self.queue
                .gangs
                .retain(|queued| !gone.contains(&queued.gang.id));
        }
        Ok(())
    }

    fn start(&mut self, gang: GangNumber, now_s: u64) {
        let number = u32::try_from(gang.0).unwrap_or(u32::MAX);
        let job = &self.jobs[at(number)];
        self.waits.by_job[at(number)] = Some(now_s - job.submit_s);
        self.ends.push(Reverse((now_s + job.duration_s, number)));
    }
}

/// The job as a gang: on one machine, or on as many whole ones as it needs.
fn queued(job: &TraceJob, number: usize) -> Queued {
    let gang = Gang {
        id: GangNumber(number as u64),
        vc: cluster::VC.to_owned(),
        user: job.user.clone(),
        members: vec![GangMember {
            pods: job.gpus.div_ceil(GPUS_PER_NODE),
            leaves: job.gpus.min(GPUS_PER_NODE),
            ..GangMember::default()
        }],
        ..Gang::default()
    };
    let since = Time::from_millis(job.submit_s * 1000);
    Queued { gang, since }
}
