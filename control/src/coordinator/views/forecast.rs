//! What would become of a job that was just given to a copy of the leader.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::explanation::{GANGS_MAX, JobsAhead};
use muster_model::forecast::{FORECAST_NODES_MAX, ForecastOutcome, JobForecast, NodeShare};
use muster_model::id::{JobKey, NodeId};
use muster_model::job::JobSpec;
use muster_model::launch::TaskPlacement;
use muster_model::time::Time;
use muster_model::vc::Amount;
use muster_placement::gang::GangNumber as Number;
use muster_placement::queue::GangQueue;

use super::Explainer;
use crate::gang::JobId;
use crate::vc::{AcceptedJob, Current};

/// Why nothing is known of a gang that no plan has looked at.
const UNPLANNED: &str = "waits until its leader, which is new, plans";

/// Where the gangs of a job stand.
#[derive(Default)]
struct Standings<'a> {
    places: Vec<&'a TaskPlacement>,
    waiting: Vec<Current<'a>>,
    victims: BTreeSet<Number>,
    /// Gangs that start when others have given way.
    preempting: usize,
    /// Gangs that no plan has looked at.
    unplanned: usize,
}

impl<'a> Explainer<'a> {
    /// What would become of the job, which is part of the state.
    pub(in crate::coordinator) fn forecast(&self, now: Time, job: &AcceptedJob) -> JobForecast {
        let id = self.context.state.job_id(&job.key);
        let standings = id.map(|id| self.standings(id)).unwrap_or_default();
        let queue = self.waiting_queue(now);
        let told = standings.waiting.iter().take(GANGS_MAX);
        let gangs: Vec<_> = told
            .map(|current| self.explain_gang(now, current, &queue))
            .collect();
        let first_waiting = standings.waiting.first();
        let ahead = first_waiting.and_then(|current| self.ahead(now, current, &queue));
        let outcome = standings.outcome();
        let first = gangs.first().map(|gang| gang.reason.clone());
        let reason = match outcome {
            ForecastOutcome::Starts | ForecastOutcome::Preempts => None,
            ForecastOutcome::Unknown => self.nothing_there().or_else(|| Some(UNPLANNED.to_owned())),
            ForecastOutcome::Waits | ForecastOutcome::StartsInPart => first,
        };
        let mut shares = shares(&standings.places);
        let nodes = count(shares.len());
        shares.truncate(FORECAST_NODES_MAX);
        JobForecast {
            key: job.key.clone(),
            vc: job.spec.vc.clone(),
            outcome,
            reason,
            takes: takes(&job.spec),
            tasks: job.spec.task_count(),
            placed: count(standings.places.len()),
            places: shares,
            nodes,
            victims: self.keys(&standings.victims),
            ahead: ahead.map_or(0, |ahead| ahead.jobs),
            gangs,
            waiting: count(standings.waiting.len()),
            warnings: job.spec.warnings.clone(),
        }
    }

    fn standings(&self, id: JobId) -> Standings<'a> {
        let mut all = Standings::default();
        for current in self.context.state.gangs_of(id) {
            let gang = &current.run.gang;
            let victims = self.planner.victims(gang);
            all.victims.extend(victims.into_iter().flatten());
            if let Some(places) = self.gangs.places_reserved(&current.run) {
                all.places.extend(places);
                all.preempting += usize::from(victims.is_some());
            } else if victims.is_some() {
                all.preempting += 1;
            } else {
                all.unplanned += usize::from(!self.planner.has_decided(gang));
                all.waiting.push(current);
            }
        }
        all
    }

    /// The jobs of these gangs, as far as they are seen.
    fn keys(&self, numbers: &BTreeSet<Number>) -> Vec<Option<JobKey>> {
        let keys = numbers.iter().filter_map(|number| self.key_of(*number));
        let keys: BTreeSet<Option<JobKey>> = keys.map(|key| key.cloned()).collect();
        keys.into_iter().collect()
    }

    /// The other jobs that have their turn before a gang; none if it is not in the queue.
    pub(super) fn ahead(
        &self,
        now: Time,
        current: &Current<'_>,
        queue: &GangQueue,
    ) -> Option<JobsAhead> {
        let turns = &self.context.options.policy.placement.turns;
        let number = self.inventory.number(&current.run)?;
        let ahead = queue.ahead_of(number, self.inventory.cells()?, turns, now)?;
        let job_of = |number: Number| Some(self.inventory.known(number)?.run.gang.job);
        let others = ahead
            .into_iter()
            .filter_map(|number| Some((number, job_of(number)?)));
        let others: Vec<(Number, JobId)> =
            others.filter(|(_, job)| *job != current.job.id).collect();
        let jobs: BTreeSet<JobId> = others.iter().map(|(_, job)| *job).collect();
        let next = others.first().and_then(|(number, _)| self.key_of(*number));
        Some(JobsAhead {
            jobs: count(jobs.len()),
            next: next.flatten().cloned(),
        })
    }
}

impl Standings<'_> {
    fn outcome(&self) -> ForecastOutcome {
        match (self.waiting.len(), self.places.len()) {
            (0, _) if self.preempting > 0 => ForecastOutcome::Preempts,
            (0, _) => ForecastOutcome::Starts,
            (waiting, _) if waiting == self.unplanned => ForecastOutcome::Unknown,
            (_, 0) => ForecastOutcome::Waits,
            _ => ForecastOutcome::StartsInPart,
        }
    }
}

/// What each node would give.
fn shares(places: &[&TaskPlacement]) -> Vec<NodeShare> {
    let mut shares: BTreeMap<&NodeId, NodeShare> = BTreeMap::new();
    for place in places {
        let share = shares.entry(&place.node).or_insert_with(|| NodeShare {
            node: place.node.clone(),
            tasks: Vec::new(),
            devices: Vec::new(),
        });
        share.tasks.push(place.task.clone());
        let devices = place.devices.iter().map(|(index, _)| *index);
        share.devices.extend(devices);
    }
    shares.into_values().collect()
}

/// What all tasks ask for together.
fn takes(job: &JobSpec) -> Amount {
    let roles = job.roles.iter().map(|role| {
        let (tasks, each) = (role.instances, &role.resources);
        Amount {
            cpu: each.cpu.saturating_mul(tasks),
            memory_mb: each.memory_mb.saturating_mul(tasks.into()),
            gpu: each.gpu.saturating_mul(tasks),
        }
    });
    roles.fold(Amount::default(), Amount::plus)
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
