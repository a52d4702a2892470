//! The state of a replay: pods come one by one, as they came to HiveD, and each gets the slot of
//! its group's placement.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::cluster_spec::ClusterSpec;
use muster_model::time::Time;

use super::read::{Suite, SuiteError, SuitePod};
use crate::cells::{Bins, CellEvent, Cells, GangState};
use crate::decide::{Decision, DecisionPolicy, decide, preemption_holds};
use crate::gang::{Gang, GangMember, GangNumber, Grant, Leaf, Placement};

/// What comes of scheduling a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScheduleOutcome {
    Bind(Vec<Leaf>),
    Wait(String),
    Preempt(Vec<String>),
    Error(String),
}

/// A replay.
pub(super) struct SuiteRun<'a> {
    pub(super) suite: &'a Suite,
    cluster: &'a dyn Fn(&str) -> Result<String, String>,
    pub(super) cells: Cells,
    ids: BTreeMap<String, GangNumber>,
    groups: BTreeMap<String, Group>,
    /// The leaves that a pod was last given.
    pub(super) given: BTreeMap<String, Vec<Leaf>>,
    pub(super) remembered: BTreeMap<String, Placement>,
    next_id: u64,
}

/// A group that is there.
#[derive(Debug, Default)]
struct Group {
    /// Which pod is in which slot of the placement.
    slots: Vec<Option<String>>,
    /// Pods that wait for the victims to go.
    preempting: BTreeSet<String>,
}

fn cells_of(name: &str, text: Result<String, String>) -> Result<(Cells, ClusterSpec), SuiteError> {
    let invalid = |message: String| SuiteError::Cluster {
        name: name.to_owned(),
        message,
    };
    let list = |problems: Vec<muster_model::cluster_spec::SpecProblem>| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        invalid(lines.join("; "))
    };
    let spec = ClusterSpec::from_hived_yaml(&text.map_err(invalid)?).map_err(list)?;
    let cells = Cells::new(&spec, Bins::PerQuotaCell).map_err(list)?;
    Ok((cells, spec))
}

impl<'a> SuiteRun<'a> {
    pub(super) fn new(
        suite: &'a Suite,
        cluster: &'a dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Self, SuiteError> {
        let (cells, _) = cells_of(&suite.cluster, cluster(&suite.cluster))?;
        Ok(Self {
            suite,
            cluster,
            cells,
            ids: BTreeMap::new(),
            groups: BTreeMap::new(),
            given: BTreeMap::new(),
            remembered: BTreeMap::new(),
            next_id: 0,
        })
    }

    pub(super) fn pod(&self, name: &str) -> Result<&'a SuitePod, String> {
        self.suite
            .pods
            .get(name)
            .ok_or_else(|| format!("no pod {name}"))
    }

    pub(super) fn apply(&mut self, event: CellEvent) -> Result<(), String> {
        self.cells.apply(event).map_err(|error| error.to_string())
    }

    /// The cluster as freshly started with another description.
    pub(super) fn load(&mut self, name: &str) -> Result<(), String> {
        let loaded = cells_of(name, (self.cluster)(name));
        self.cells = loaded.map_err(|error| error.to_string())?.0;
        self.groups.clear();
        self.ids.clear();
        self.given.clear();
        Ok(())
    }

    /// The cluster with another description, what runs carried over.
    pub(super) fn reload(&mut self, name: &str) -> Result<(), String> {
        let loaded = cells_of(name, (self.cluster)(name));
        let (_, spec) = loaded.map_err(|error| error.to_string())?;
        self.apply(CellEvent::Reconfigured(Box::new(spec)))?;
        let groups: Vec<String> = self.groups.keys().cloned().collect();
        for name in groups {
            match self.id(&name).and_then(|id| self.cells.gang(id)) {
                Some((_, placement, _)) => self.regive(&name, &placement.clone()),
                None => self.forget(&name),
            }
        }
        Ok(())
    }

    fn regive(&mut self, group: &str, placement: &Placement) {
        let slots = self
            .groups
            .get(group)
            .into_iter()
            .flat_map(|group| &group.slots);
        for (pod, leaves) in slots.zip(&placement.pods) {
            if let Some(pod) = pod {
                self.given.insert(pod.clone(), leaves.clone());
            }
        }
    }

    fn forget(&mut self, group: &str) {
        self.groups.remove(group);
        self.ids.remove(group);
    }

    fn id(&self, group: &str) -> Option<GangNumber> {
        self.ids.get(group).copied()
    }

    /// A group's gang as it is in the cells.
    pub(super) fn gang(&self, group: &str) -> Option<(&Gang, &Placement, GangState)> {
        self.cells.gang(self.id(group)?)
    }

    fn new_gang(&mut self, pod: &SuitePod) -> Gang {
        self.next_id += 1;
        let typed = |member: &GangMember| GangMember {
            leaf_type: pod.leaf_type.clone(),
            ..member.clone()
        };
        Gang {
            id: GangNumber(self.next_id),
            vc: pod.vc.clone(),
            priority: pod.priority,
            lazy: pod.lazy,
            pinned: pod.pinned.clone(),
            members: pod.members.iter().map(typed).collect(),
            ..Gang::default()
        }
    }

    /// Schedules a pod; `commit`: if it is bound, it runs. `preempting`: not only a query, so
    /// a gang with victims claims its cells.
    pub(super) fn schedule(
        &mut self,
        name: &str,
        preempting: bool,
        commit: bool,
    ) -> Result<ScheduleOutcome, String> {
        let pod = self.pod(name)?;
        if !pod.members.iter().any(|member| member.leaves == pod.cells) {
            let message = format!("no member of group {} has {} cells", pod.group, pod.cells);
            return Ok(ScheduleOutcome::Error(message));
        }
        match self.gang(&pod.group).map(|gang| gang.2) {
            Some(GangState::Allocated { .. }) => Ok(self.take_slot(name, pod, commit)),
            Some(GangState::Preempting) => self.preempting(name, pod, preempting, commit),
            None => self.newcomer(name, pod, preempting, commit),
        }
    }

    /// A pod of a group that runs takes a slot that is free.
    fn take_slot(&mut self, name: &str, pod: &SuitePod, commit: bool) -> ScheduleOutcome {
        let full = || {
            ScheduleOutcome::Error(format!(
                "group {} has all its pods of {} cells",
                pod.group, pod.cells
            ))
        };
        let Some((gang, placement, _)) = self.gang(&pod.group) else {
            return full();
        };
        let (sizes, placement) = (gang.sizes(), placement.clone());
        let Some(group) = self.groups.get_mut(&pod.group) else {
            return full();
        };
        let mut slots = group.slots.iter().zip(&sizes);
        let free = slots.position(|(slot, size)| slot.is_none() && *size == pod.cells);
        let Some(slot) = free else {
            return full();
        };
        let leaves = placement.pods.get(slot).cloned().unwrap_or_default();
        if commit {
            group.slots[slot] = Some(name.to_owned());
        }
        self.given.insert(name.to_owned(), leaves.clone());
        ScheduleOutcome::Bind(leaves)
    }

    fn preempting(
        &mut self,
        name: &str,
        pod: &SuitePod,
        preempting: bool,
        commit: bool,
    ) -> Result<ScheduleOutcome, String> {
        let Some((gang, _, _)) = self.gang(&pod.group) else {
            return self.newcomer(name, pod, preempting, commit);
        };
        let gang = gang.clone();
        if !preemption_holds(&self.cells, gang.id) {
            self.apply(CellEvent::PreemptionCancelled(gang.id))?;
            self.forget(&pod.group);
            return self.newcomer(name, pod, preempting, commit);
        }
        let decision = decide(&self.cells, &gang, &DecisionPolicy::hived(), Time(0));
        self.carry_out((name, pod), gang, decision, (preempting, commit))
    }

    fn newcomer(
        &mut self,
        name: &str,
        pod: &SuitePod,
        preempting: bool,
        commit: bool,
    ) -> Result<ScheduleOutcome, String> {
        let gang = self.new_gang(pod);
        let decision = decide(&self.cells, &gang, &DecisionPolicy::hived(), Time(0));
        self.carry_out((name, pod), gang, decision, (preempting, commit))
    }

    fn carry_out(
        &mut self,
        (name, pod): (&str, &SuitePod),
        gang: Gang,
        decision: Decision,
        (preempting, commit): (bool, bool),
    ) -> Result<ScheduleOutcome, String> {
        match decision {
            Decision::Refuse(refusal) => Ok(ScheduleOutcome::Error(refusal.to_string())),
            Decision::Wait(waiting) => Ok(ScheduleOutcome::Wait(waiting.to_string())),
            Decision::Place(grant) if commit => {
                let sizes = gang.sizes();
                self.start(pod, gang, grant)?;
                let group = self.groups.entry(pod.group.clone()).or_default();
                group.slots = vec![None; sizes.len()];
                group.preempting.clear();
                Ok(self.take_slot(name, pod, true))
            }
            Decision::Place(grant) => {
                let slot = gang.sizes().iter().position(|size| *size == pod.cells);
                let leaves = slot.and_then(|slot| grant.placement.pods.get(slot));
                let leaves = leaves.cloned().unwrap_or_default();
                // Like HiveD, which preempts lazily as soon as it has found a way.
                self.apply(CellEvent::Demoted(grant.demoted))?;
                self.given.insert(name.to_owned(), leaves.clone());
                Ok(ScheduleOutcome::Bind(leaves))
            }
            Decision::Preempt { victims, grant } => {
                if preempting && self.gang(&pod.group).is_none() {
                    self.ids.insert(pod.group.clone(), gang.id);
                    self.groups.insert(pod.group.clone(), Group::default());
                    self.apply(CellEvent::Preempting { gang, grant })?;
                    self.forget_cancelled();
                }
                if let Some(group) = self.groups.get_mut(&pod.group) {
                    group.preempting.insert(name.to_owned());
                }
                Ok(ScheduleOutcome::Preempt(self.pods_of(&victims)))
            }
        }
    }

    fn start(&mut self, pod: &SuitePod, gang: Gang, grant: Grant) -> Result<(), String> {
        self.ids.insert(pod.group.clone(), gang.id);
        self.apply(CellEvent::Started { gang, grant })?;
        self.forget_cancelled();
        Ok(())
    }

    /// Groups whose preemption was cancelled by another.
    fn forget_cancelled(&mut self) {
        let gone = |group: &&String| self.gang(group).is_none();
        let gone: Vec<String> = self.groups.keys().filter(gone).cloned().collect();
        for group in gone {
            self.forget(&group);
        }
    }

    /// The running pods of gangs.
    fn pods_of(&self, gangs: &[GangNumber]) -> Vec<String> {
        let of_gang = |group: &&String| self.id(group).is_some_and(|id| gangs.contains(&id));
        let groups = self.groups.iter().filter(|(name, _)| of_gang(name));
        groups
            .flat_map(|(_, group)| group.slots.iter().flatten().cloned())
            .collect()
    }

    /// A pod ended, or gave up before it ran.
    pub(super) fn delete(&mut self, name: &str) -> Result<(), String> {
        let pod = self.pod(name)?;
        let Some(group) = self.groups.get_mut(&pod.group) else {
            return Ok(());
        };
        let ran = group
            .slots
            .iter_mut()
            .find(|slot| slot.as_deref() == Some(name));
        if let Some(slot) = ran {
            *slot = None;
            self.given.remove(name);
        }
        group.preempting.remove(name);
        let done = group.slots.iter().all(Option::is_none) && group.preempting.is_empty();
        let Some(id) = self.id(&pod.group).filter(|_| done) else {
            return Ok(());
        };
        self.forget(&pod.group);
        self.apply(CellEvent::GangEnded(id))
    }

    /// Whether the pod runs.
    pub(super) fn runs(&self, name: &str) -> bool {
        let groups = self.groups.values();
        let mut slots = groups.flat_map(|group| group.slots.iter().flatten());
        slots.any(|pod| pod == name)
    }
}
