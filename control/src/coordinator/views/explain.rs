//! Why a job waits, or does not get on, in words.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::explanation::{
    CellHolder, Earliest, Explanation, GANGS_MAX, GangExplanation, LAUNCHES_MAX, Lack, Launch, Move,
};
use muster_model::id::{JobKey, NodeId};
use muster_model::sight::{HIDDEN_JOB, JobSight};
use muster_model::time::Time;
use muster_model::usage::{ReachedAmount, ReachedLimit};
use muster_placement::decide::{RoomiestRack, WaitReason};
use muster_placement::explain::{self, Constraint, Troubles, explain, troubles};
use muster_placement::gang::GangNumber as Number;
use muster_placement::queue::{GangQueue, Queued};

use crate::coordinator::context::Context;
use crate::coordinator::gangs::{GangSteering, LivenessView};
use crate::coordinator::inventory::{Inventory, Terms};
use crate::coordinator::liveness::Liveness;
use crate::coordinator::nodes::ReportedNodes;
use crate::coordinator::places::live_places;
use crate::coordinator::planner::{Impossible, Planner};
use crate::gang::JobId;
use crate::order::TaskStanding;
use crate::vc::attempt::GangPhase;
use crate::vc::{Current, NotFound, some_of};

/// A launch that takes longer is explained, seconds.
const SLOW_LAUNCH_S: u64 = 10;

/// All that has to do with why a gang waits.
#[derive(Clone, Copy, Debug)]
pub(in crate::coordinator) struct Explainer<'a> {
    /// Which jobs may be named.
    pub(in crate::coordinator) sight: &'a JobSight,
    pub(in crate::coordinator) context: Context<'a>,
    pub(in crate::coordinator) nodes: &'a ReportedNodes,
    pub(in crate::coordinator) liveness: &'a Liveness,
    pub(in crate::coordinator) inventory: &'a Inventory,
    pub(in crate::coordinator) planner: &'a Planner,
    pub(in crate::coordinator) gangs: &'a GangSteering,
}

impl Explainer<'_> {
    /// Why a job waits, a sentence part, if it does and this node leads.
    pub(in crate::coordinator) fn waiting_for(&self, job: &JobKey) -> Option<String> {
        if !self.context.leads {
            return None;
        }
        let state = self.context.state;
        let mut gangs = state.gangs_of(state.job_id(job)?);
        gangs.find_map(|current| self.reason(&current))
    }

    /// Why a gang waits, if it does; or for which machines it does not get on.
    fn reason(&self, current: &Current<'_>) -> Option<String> {
        match current.gang.phase {
            GangPhase::Waiting => {}
            GangPhase::Placed { at_ms } => {
                let slow = || self.slow_launch(current, Time::from_millis(at_ms));
                return self.relocation(current).or_else(slow);
            }
            GangPhase::Going | GangPhase::Stopping { .. } | GangPhase::Voiding => {
                return self.silent_machines(current);
            }
            GangPhase::Ended => return None,
        }
        let gang = &current.run.gang;
        if let Some(reason) = self.planner.impossible(gang) {
            return Some(self.impossible(reason));
        }
        if self.gangs.is_reserving(gang) {
            return Some("waits for its resources to be reserved".to_owned());
        }
        if let Some(limit) = self.planner.limit(gang) {
            return Some(limit.in_words(&self.context.options.vc));
        }
        if let Some(victims) = self.planner.victims(gang) {
            let names = self.names(victims);
            return Some(match names.is_empty() {
                true => "waits for its devices to be cleared".to_owned(),
                false => format!("waits for {names} to give way"),
            });
        }
        if let Some(why) = self.planner.why_waiting(gang) {
            return Some(self.text(current, why));
        }
        if self.is_paused(current) {
            return Some("waits for the end of the pause before another try".to_owned());
        }
        self.nothing_there()
    }

    fn is_paused(&self, current: &Current<'_>) -> bool {
        self.planner.pause_end(&self.context, current) > self.context.now
    }

    /// Why other places are looked for, for members of a gang that is placed.
    fn relocation(&self, current: &Current<'_>) -> Option<String> {
        let sight = LivenessView {
            context: self.context,
            nodes: self.nodes,
            liveness: self.liveness,
        };
        self.gangs.why_relocated(current, sight)
    }

    /// The machines of a gang that cannot be reached, and what is to be done about them.
    fn silent_machines(&self, current: &Current<'_>) -> Option<String> {
        let nodes = live_places(current).map(|place| &place.node);
        let silent: BTreeSet<&NodeId> = nodes
            .filter(|id| self.liveness.is_unreachable(id))
            .collect();
        let since = silent.iter().filter_map(|id| self.liveness.lost_since(id));
        let seconds = self.context.now.micros_since(since.min()?) / 1_000_000;
        let names = some_of(silent.iter().map(ToString::to_string), ", ");
        let by_itself = match current.gang.lease {
            Some(_) => "it goes on elsewhere once its run lease there is over, or at once",
            None => "it goes on elsewhere",
        };
        Some(format!(
            "waits for {names}, which cannot be reached for {} at least: {by_itself} when somebody \
             has seen that they are off, and says so with `muster cluster off NODE`",
            span(seconds)
        ))
    }

    /// What is missing before anything can be placed.
    pub(super) fn nothing_there(&self) -> Option<String> {
        if self.inventory.layout().description().is_none() {
            return Some("waits for its leader to hear how the cluster is described".to_owned());
        }
        if let Some(problem) = self.inventory.layout().problem() {
            return Some(format!(
                "waits, for the cluster's description is of no use: {problem}"
            ));
        }
        if self.nodes.is_empty() {
            return Some("waits for a machine: none is connected".to_owned());
        }
        let unheard = "waits while its leader, which is new, hears what runs on the machines";
        self.planner.held_until().map(|_| unheard.to_owned())
    }

    /// Why no cell could hold a gang. What machines have of which nothing was heard is not known.
    fn impossible(&self, why: &Impossible) -> String {
        let unheard = self.unheard();
        if unheard.is_empty() {
            return format!("{}{}", why.fact, why.advice);
        }
        let verb = if unheard.len() == 1 { "is" } else { "are" };
        let names = some_of(unheard.into_iter(), ", ");
        format!(
            "{}; what there is on {names} is not known yet: it is looked at again when {names} {verb} back",
            why.fact
        )
    }

    /// The machines that cannot be reached and of which this leader has heard nothing: those that have cells
    /// of the virtual cluster, or else all of them.
    fn unheard(&self) -> BTreeSet<String> {
        let is_unheard = |id: &&NodeId| !self.nodes.contains(id);
        let own = self.context.state.own_cells().held();
        let own: BTreeSet<String> = own
            .nodes()
            .filter(is_unheard)
            .map(ToString::to_string)
            .collect();
        if !own.is_empty() {
            return own;
        }
        let away = self.liveness.away_members().filter(is_unheard);
        away.map(ToString::to_string).collect()
    }

    /// What cannot be used of the cells that a gang may use.
    fn troubles(&self, current: &Current<'_>) -> Troubles {
        let gang = self.inventory.demand_of(current, &self.context.terms());
        let (Some(cells), Some(gang)) = (self.inventory.cells(), gang) else {
            return Troubles::default();
        };
        let mut found = troubles(cells, &gang);
        found.are_on(self.unheard());
        found
    }

    /// In few words, for a line in a listing. [`Explainer::explanation`] says more.
    fn text(&self, current: &Current<'_>, why: &WaitReason) -> String {
        let devices = |asked: u64| match asked {
            1 => "1 device".to_owned(),
            asked => format!("{asked} devices"),
        };
        let free = |free: u32| match free {
            1 => "1 is free".to_owned(),
            free => format!("{free} are free"),
        };
        let cells = |asked: u64, there: u32| match u64::from(there) >= asked {
            true => format!(
                "needs {} together; {}, but apart",
                devices(asked),
                free(there)
            ),
            false => format!("needs {}; {}", devices(asked), free(there)),
        };
        let in_rack = |rack: &Option<RoomiestRack>| {
            let rack = rack.as_ref();
            rack.map_or_else(String::new, |rack| format!("; {rack}"))
        };
        match why {
            WaitReason::Behind(other) => {
                format!("waits for its turn behind {}", self.names(&[*other]))
            }
            WaitReason::Quota {
                asked,
                vc,
                free,
                bad,
                rack,
                ..
            } => {
                let bad = match bad {
                    0 => String::new(),
                    _ => format!("; {}", self.troubles(current).in_words("")),
                };
                let cells = cells(*asked, *free);
                format!("{cells} in virtual cluster {vc}{bad}{}", in_rack(rack))
            }
            WaitReason::Idle {
                asked, free, rack, ..
            } => format!("{}{}", cells(*asked, *free), in_rack(rack)),
            why => why.to_string(),
        }
    }

    /// The jobs that numbers stand for, each once.
    fn names(&self, numbers: &[Number]) -> String {
        let names = numbers.iter().filter_map(|number| self.name(*number));
        let names: BTreeSet<String> = names.collect();
        some_of(names.into_iter(), ", ")
    }

    /// What the job of a gang is called to who asks.
    fn name(&self, number: Number) -> Option<String> {
        let key = self.key_of(number)?;
        Some(key.map_or_else(|| HIDDEN_JOB.to_owned(), ToString::to_string))
    }

    /// The job of a gang; `Some(None)` if it is not seen.
    pub(super) fn key_of(&self, number: Number) -> Option<Option<&JobKey>> {
        let (vc, key) = self.inventory.job_of(self.context.state, number)?;
        Some(self.sight.sees(vc, &key.user).then_some(key))
    }

    /// Why a job waits, in full.
    ///
    /// # Errors
    /// When there is no such job.
    pub(in crate::coordinator) fn explanation(
        &self,
        now: Time,
        key: &JobKey,
    ) -> Result<Explanation, NotFound> {
        let state = self.context.state;
        let missing = || NotFound::Job(key.clone());
        let summary = state.summary(key).ok_or_else(missing)?;
        let id = state.job_id(key).ok_or_else(missing)?;
        let waits = |current: &Current<'_>| current.gang.phase == GangPhase::Waiting;
        let waiting: Vec<Current<'_>> = match self.context.leads {
            true => state.gangs_of(id).filter(waits).collect(),
            false => Vec::new(),
        };
        let queue = match waiting.is_empty() {
            true => GangQueue::default(),
            false => self.waiting_queue(now),
        };
        let told = waiting.iter().take(GANGS_MAX);
        let gangs: Vec<GangExplanation> = told
            .map(|current| self.explain_gang(now, current, &queue))
            .collect();
        let first = gangs.first().map(|gang| gang.reason.clone());
        let ahead = waiting.first();
        let ahead = ahead.and_then(|current| self.ahead(now, current, &queue));
        Ok(Explanation {
            key: key.clone(),
            state: summary.state(),
            reason: first.or_else(|| self.waiting_for(key)),
            last_end: summary.last_end,
            gpus_idle: summary.gpus_idle,
            gangs,
            waiting: u32::try_from(waiting.len()).unwrap_or(u32::MAX),
            ahead,
            launches: self.launches(id),
        })
    }

    /// The machines of its gangs that have their places and have not started, those first that are not ready.
    fn launches(&self, id: JobId) -> Vec<Launch> {
        let mut launches: BTreeMap<&NodeId, Launch> = BTreeMap::new();
        let placed = |current: &Current<'_>| matches!(current.gang.phase, GangPhase::Placed { .. });
        for current in self.context.state.gangs_of(id).filter(placed) {
            for place in live_places(&current) {
                let standing = self.gangs.standing(&current.run.gang, place);
                let roles = &current.job.accepted.spec.roles;
                let role = roles.iter().find(|role| role.name == place.task.role);
                let launch = launches.entry(&place.node).or_insert_with(|| Launch {
                    node: place.node.clone(),
                    is_ready: true,
                    images: BTreeSet::new(),
                    pulls: Vec::new(),
                    is_heard: false,
                });
                launch.is_ready &= standing == Some(&TaskStanding::Ready);
                launch.images.extend(role.map(|role| role.image.clone()));
            }
        }
        let mut launches: Vec<Launch> = launches.into_values().collect();
        launches.sort_by_key(|launch| launch.is_ready);
        launches.truncate(LAUNCHES_MAX);
        launches
    }

    /// Everything that waits, as the next plan will see it.
    pub(super) fn waiting_queue(&self, now: Time) -> GangQueue {
        let terms = Terms {
            now,
            ..self.context.terms()
        };
        let waiting = self.context.state.waiting();
        let waiting = waiting.filter(|current| self.planner.limit(&current.run.gang).is_none());
        let gangs = waiting.filter_map(|current| {
            Some(Queued {
                gang: self.inventory.demand_of(&current, &terms)?,
                since: Time::from_millis(current.job.accepted.submitted_ms),
            })
        });
        GangQueue {
            gangs: gangs.collect(),
        }
    }

    pub(super) fn explain_gang(
        &self,
        now: Time,
        current: &Current<'_>,
        queue: &GangQueue,
    ) -> GangExplanation {
        let number = self.inventory.number(&current.run);
        let gang = &current.run.gang;
        let is_planned =
            self.planner.why_waiting(gang).is_some() || self.planner.victims(gang).is_some();
        let policy = &self.context.options.policy.placement;
        let told = number.filter(|_| is_planned).and_then(|number| {
            let cells = self.inventory.cells()?;
            let mut told = explain(cells, queue, number, policy, now)?;
            if let Constraint::Hardware { troubles, .. } = &mut told.constraint {
                troubles.are_on(self.unheard());
            }
            Some(told)
        });
        match told {
            Some(told) => self.in_names(now, current, &told),
            None => self.in_short(current),
        }
    }

    /// What is to be said of a gang that no plan has to do with.
    fn in_short(&self, current: &Current<'_>) -> GangExplanation {
        let gang = &current.run.gang;
        let is_impossible = self.planner.impossible(gang).is_some();
        let is_paused = self.is_paused(current);
        let (constraint, earliest) = match self.nothing_there() {
            _ if is_impossible && !self.unheard().is_empty() => ("hardware", Earliest::Unknown),
            _ if is_impossible => ("refused", Earliest::Never),
            _ if let Some(limit) = self.planner.limit(gang) => ("limit", earliest_within(limit)),
            Some(_) if !is_paused => ("nodes", Earliest::Unknown),
            _ => ("turn", Earliest::Now),
        };
        let reason = self.reason(current);
        GangExplanation {
            task: current.gang.task.clone(),
            constraint: constraint.to_owned(),
            reason: reason.unwrap_or_else(|| "waits for its turn".to_owned()),
            lacks: Vec::new(),
            holders: Vec::new(),
            earliest,
            moves: Vec::new(),
        }
    }

    /// An explanation with jobs in the place of numbers.
    fn in_names(
        &self,
        now: Time,
        current: &Current<'_>,
        told: &muster_placement::explain::WaitExplanation,
    ) -> GangExplanation {
        let name = |number: Number| self.name(number);
        let lacks = told.lacking.lacks.iter().filter_map(|lack| {
            Some(Lack {
                node: lack.node.parse().ok()?,
                what: lack.what.clone(),
                wanted: lack.wanted,
                missing: lack.missing,
            })
        });
        let holders = told.lacking.holders.iter().filter_map(|holder| {
            Some(CellHolder {
                job: self.key_of(holder.gang)?.cloned(),
                leaves: holder.leaves,
                ends_by: holder.ends_by.map(Time::as_millis),
            })
        });
        let moves = told.moves.iter().filter_map(|step| {
            let places = step.to.pods.iter();
            let nodes = places.filter_map(|leaves| Some(self.inventory.layout().place(leaves)?.0));
            Some(Move {
                job: self.key_of(step.gang)?.cloned(),
                leaves: u32::try_from(step.to.leaves().count()).unwrap_or(u32::MAX),
                to: nodes.collect::<BTreeSet<_>>().into_iter().collect(),
            })
        });
        GangExplanation {
            task: current.gang.task.clone(),
            constraint: told.constraint.word().to_owned(),
            reason: told.sentence(now, &name),
            lacks: lacks.collect(),
            holders: holders.collect(),
            earliest: match told.earliest {
                explain::EarliestStart::Now => Earliest::Now,
                explain::EarliestStart::At(at) => Earliest::At(at.as_millis()),
                explain::EarliestStart::Unknown => Earliest::Unknown,
                explain::EarliestStart::Never => Earliest::Never,
            },
            moves: moves.collect(),
        }
    }

    /// What a launch waits for that takes remarkably long.
    fn slow_launch(&self, current: &Current<'_>, placed: Time) -> Option<String> {
        let seconds = self.context.wall.micros_since(placed) / 1_000_000;
        if seconds < SLOW_LAUNCH_S {
            return None;
        }
        let places = live_places(current);
        let nodes: BTreeSet<&str> = places.map(|place| place.node.as_str()).collect();
        let nodes = some_of(nodes.iter().map(ToString::to_string), ", ");
        Some(format!(
            "waits for its containers on {nodes} for {seconds} s: an image may be on its way there; \
             `muster node show` there tells how the engine is"
        ))
    }
}

/// A time in words, in seconds below two minutes.
fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        _ => format!("{} minutes", seconds / 60),
    }
}

/// When a limit lets a gang start at the earliest.
const fn earliest_within(limit: &ReachedLimit) -> Earliest {
    match limit.amount {
        _ if limit.is_for_ever() => Earliest::Never,
        ReachedAmount::GpuHours { span, .. } => Earliest::At(span.end_ms()),
        ReachedAmount::Gpus { .. } | ReachedAmount::Jobs(_) => Earliest::Unknown,
    }
}
