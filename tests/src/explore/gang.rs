//! The gang protocol: a job with a task on each of two machines, or one on either, and what can happen to
//! it.

use std::sync::atomic::{AtomicUsize, Ordering};

use muster_control::vc::{AcceptedJob, JobDocument, VcEntry};
use muster_model::id::JobKey;
use muster_model::job::{JobSpec, Partition};
use muster_model::state::PriorityClass;
use stateright::{Model, Property};

use super::action::Action;
use super::books;
use super::bug;
use super::leader::{LeaderInput, VC};
use super::machine::Phase;
use super::mail::Letter as _;
use super::part::Part;
use super::world::{Budget, Cores, World};
use super::{Counts, Explored};
use crate::sim::cluster::jobs;

/// One exploration.
#[derive(Debug)]
pub(super) struct GangExploration {
    budget: Budget,
    /// How many tasks it has.
    tasks: u64,
    /// An opportunistic job runs on a machine that the gang needs.
    preempts: bool,
    cores: Cores,
    /// States that nothing follows on, all of which came to their end.
    ends: AtomicUsize,
}

impl GangExploration {
    pub(super) fn new(budget: Budget, tasks: u64, preempts: bool) -> Self {
        Self {
            budget,
            tasks,
            preempts,
            cores: Cores::default(),
            ends: AtomicUsize::new(0),
        }
    }

    /// The machines are known, what is to be evicted runs, and the gang is accepted.
    fn begin(&self) -> World {
        let mut world = World::new(&self.cores, Budget::default());
        self.go_on(&mut world, |world| world.next().is_none());
        if self.preempts {
            let victim = job("victim", 1, Some(PriorityClass::Oppo));
            self.accept(&mut world, victim);
            let key = key("victim");
            let id = world.leader.state.job_id(&key);
            world.note(&self.cores, books::BooksInput::Victim(id));
            self.go_on(&mut world, |world| {
                let mut all = world.machines.iter().flat_map(|it| it.containers.values());
                all.any(|it| matches!(it.phase, Phase::Running))
            });
            // What it is told of that is heard.
            while !world.tells.all().is_empty() {
                world.happens(&self.cores, Action::Tell(0));
            }
        }
        self.accept(&mut world, job("gang", self.tasks, None));
        world.budget = self.budget;
        world
    }

    fn accept(&self, world: &mut World, job: VcEntry) {
        world.lead(&self.cores, false, LeaderInput::Entry(Part::new(job)));
    }

    fn go_on(&self, world: &mut World, until: impl Fn(&World) -> bool) {
        while !until(world) {
            match world.next() {
                Some(action) => world.happens(&self.cores, action),
                None => bug("nothing happens any more"),
            }
        }
    }
}

impl Model for GangExploration {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.begin()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        world.actions(&self.cores, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.happens(&self.cores, action);
        let mut actions = Vec::new();
        next.actions(&self.cores, &mut actions);
        if actions.is_empty() && next.wrong.is_none() {
            self.ends.fetch_add(1, Ordering::Relaxed);
            let settled = next.settles(&self.cores);
            next.expect(&settled);
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(super::CLEAN, |_, world: &World| {
            world.wrong.is_none()
        })]
    }
}

impl Explored for GangExploration {
    fn wrong(world: &World) -> Option<String> {
        let wrong = world.wrong.as_ref();
        wrong.map(ToString::to_string)
    }

    fn describe(world: &World, action: &Action) -> String {
        match *action {
            Action::Order(nth, _) | Action::OrderAndDeath(nth, _) => {
                format!("{action:?} {:?}", world.orders.all()[nth].slot())
            }
            Action::Tell(nth) => format!("{action:?} {:?}", world.tells.all()[nth].slot()),
            _ => format!("{action:?}"),
        }
    }

    fn counts(&self) -> Counts {
        let (leaders, machines) = self.cores.parts();
        let ends = self.ends.load(Ordering::Relaxed);
        vec![("ends", ends), ("leaders", leaders), ("machines", machines)]
    }
}

fn key(name: &str) -> JobKey {
    format!("alice~{name}").parse().unwrap_or_else(bug)
}

/// A job of tasks that each need a whole device.
fn job(name: &str, tasks: u64, priority: Option<PriorityClass>) -> VcEntry {
    let vc = VC.parse().unwrap_or_else(bug);
    VcEntry::Accept(Box::new(AcceptedJob {
        key: key(name),
        uid: name.parse().unwrap_or_else(bug),
        spec: JobSpec {
            priority,
            partition: Partition::Hold,
            ..jobs::gang(&vc, tasks, 1, 100)
        },
        document: JobDocument::default(),
        sealed_secrets: Vec::new(),
        submitted_ms: 1,
    }))
}
