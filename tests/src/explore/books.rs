//! What was committed and seen, held against what may be.

use std::collections::{BTreeMap, BTreeSet};

use muster_control::gang::{GangRun, JobId};
use muster_control::vc::{TaskEnd, VcEntry};
use muster_model::exit::Cause;
use muster_model::id::{AttemptUid, NodeId};

use super::machine::{self, Fact, Machine, Phase};
use super::part::Part;

#[derive(Clone, Debug, Default)]
pub(super) struct Books {
    placed: BTreeMap<AttemptUid, (GangRun, NodeId)>,
    /// Runs whose Go is committed.
    goes: BTreeSet<GangRun>,
    /// Tasks that were ready, once.
    ready: BTreeSet<AttemptUid>,
    pub(super) ended: BTreeMap<AttemptUid, TaskEnd>,
    /// Runs that have to give way.
    preempted: BTreeSet<GangRun>,
    /// The job that may have to.
    victim: Option<JobId>,
}

/// What is wrong, if anything is.
pub(super) type CheckResult = Result<(), Box<str>>;

/// What is to be written down.
#[derive(Debug, Hash)]
pub(super) enum BooksInput {
    /// An entry was committed.
    Committed(Part<VcEntry>),
    /// Something was seen on a machine.
    Seen(usize, Fact),
    /// Which job may have to give way.
    Victim(Option<JobId>),
}

/// The tasks whose commands run.
#[derive(Debug, Hash)]
pub(super) struct RunningTasks(Vec<AttemptUid>);

impl RunningTasks {
    pub(super) fn of(machines: &[Part<Machine>]) -> Self {
        let all = machines.iter().flat_map(|machine| &machine.containers);
        let running = all.filter(|(_, it)| matches!(it.phase, Phase::Running));
        Self(running.map(|(uid, _)| uid.clone()).collect())
    }
}

impl Books {
    /// Writes something down, and says what is wrong with it.
    pub(super) fn note(&mut self, (what, running): (BooksInput, RunningTasks)) -> CheckResult {
        match what {
            BooksInput::Committed(entry) => self.committed(&entry, &running),
            BooksInput::Seen(at, fact) => self.seen(&machine::name(at), &fact, &running),
            BooksInput::Victim(job) => {
                self.victim = job;
                Ok(())
            }
        }
    }

    fn committed(&mut self, entry: &VcEntry, running: &RunningTasks) -> CheckResult {
        match entry {
            VcEntry::Placed(placed) => {
                let run = &placed.run;
                let other = |of: &GangRun| of.gang == run.gang && of.attempt != run.attempt;
                let running = self.running(running, other);
                for member in &placed.members {
                    let place = (run.clone(), member.node.clone());
                    self.placed.insert(member.uid.clone(), place);
                }
                expect(running.is_none(), || {
                    format!("{run} was placed while {running:?} runs")
                })
            }
            VcEntry::Go { run, .. } => {
                let members = self.placed.iter().filter(|(_, (of, _))| of == run);
                let missing = members
                    .map(|(uid, _)| uid)
                    .find(|uid| !self.ready.contains(*uid));
                self.goes.insert(run.clone());
                expect(missing.is_none(), || {
                    format!("{run} goes, and {missing:?} never was ready")
                })
            }
            VcEntry::Stopping {
                run,
                cause: Cause::Preempted,
                ..
            } => {
                self.preempted.insert(run.clone());
                expect(Some(run.gang.job) == self.victim, || {
                    format!("{run} has to give way, and is nobody's to evict")
                })
            }
            VcEntry::TaskEnded { uid, end, .. } => {
                self.ended.insert(uid.clone(), end.clone());
                let runs = running.0.contains(uid);
                expect(!runs, || format!("{uid} runs after its {end:?}"))
            }
            _ => Ok(()),
        }
    }

    fn seen(&mut self, here: &NodeId, fact: &Fact, running: &RunningTasks) -> CheckResult {
        match fact {
            Fact::Created(uid) => {
                let place = self.placed.get(uid);
                let is_here = place.is_some_and(|(_, node)| node == here);
                let end = self.ended.get(uid);
                let is_over = end.is_some_and(|end| *end != TaskEnd::NotStarted);
                expect(is_here && !is_over, || {
                    format!("{uid} is created where nobody placed it, or after its end")
                })
            }
            Fact::Ready(uid) => {
                self.ready.insert(uid.clone());
                Ok(())
            }
            Fact::Started(uid) => {
                let Some((run, _)) = self.placed.get(uid) else {
                    return Err(format!("{uid} starts, and was placed by nobody").into());
                };
                let (goes, over) = (self.goes.contains(run), self.ended.contains_key(uid));
                let other = |of: &GangRun| of.gang == run.gang && of != run;
                let running = self.running(running, other);
                expect(goes, || format!("{uid} starts before Go of {run}"))?;
                expect(!over, || format!("{uid} starts after its end"))?;
                expect(running.is_none(), || {
                    format!("{uid} of {run} starts while {running:?} runs")
                })
            }
            Fact::Evicted(uid) => {
                let place = self.placed.get(uid);
                let is_meant =
                    place.is_some_and(|(run, node)| node == here && self.preempted.contains(run));
                expect(is_meant, || {
                    format!("{uid} is told to give way, which nobody has committed")
                })
            }
        }
    }

    /// Whether a task is of a run that never had its Go and was followed by another round.
    pub(super) fn has_passed(&self, uid: &AttemptUid) -> bool {
        let Some((run, _)) = self.placed.get(uid) else {
            return false;
        };
        let mut placed = self.placed.values();
        let is_followed = placed.any(|(of, _)| {
            (&of.gang, of.attempt) == (&run.gang, run.attempt) && of.round > run.round
        });
        is_followed && !self.goes.contains(run)
    }

    /// A task whose commands run, of the runs that are meant.
    fn running<'a>(
        &self,
        running: &'a RunningTasks,
        meant: impl Fn(&GangRun) -> bool,
    ) -> Option<&'a AttemptUid> {
        running.0.iter().find(|uid| {
            let place = self.placed.get(*uid);
            place.is_some_and(|(run, _)| meant(run))
        })
    }
}

/// The machine's only device is one task's at a time, and claimed by one at most.
pub(super) fn check_machine(machine: &Machine) -> CheckResult {
    let containers = machine.containers.iter();
    let alive: Vec<_> = containers.filter(|(_, it)| it.lives()).collect();
    expect(alive.len() < 2, || {
        format!(
            "two containers are on the device of {}: {alive:?}",
            machine.name
        )
    })?;
    let tasks = machine.node.ledger().tasks();
    let (claims, grants): (Vec<_>, Vec<_>) = tasks
        .iter()
        .filter(|task| task.state != "Free" && !task.devices.is_empty())
        .partition(|task| task.state == "Claimed");
    expect(grants.len() < 2 && claims.len() < 2, || {
        format!("the device of {} is granted twice: {tasks:?}", machine.name)
    })
}

fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> CheckResult {
    if holds {
        Ok(())
    } else {
        Err(otherwise().into())
    }
}
