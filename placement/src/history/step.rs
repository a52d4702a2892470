//! What can happen in a step.

use super::{HistoryRun, cluster, harm};
use crate::cells::{CellEvent, GangState};
use crate::decide::{Decision, WaitReason, decide, preemption_holds, repairs, split};
use crate::gang::{Gang, GangNumber, Grant};
use crate::index::at;

impl HistoryRun {
    pub(super) fn step(&mut self) -> Result<(), String> {
        self.now = self.now.plus_millis(1);
        match self.random.below(106) {
            0..45 => self.submit(),
            45..59 => self.end_one(),
            59..67 => self.advance(),
            67..70 => self.cancel_one(),
            70..81 => self.node_health(),
            81..87 => self.device_health(),
            87..91 => self.cordon(),
            91..94 => self.repair(),
            94..96 => self.flap(),
            96..98 => self.pod_ends(),
            98..100 => self.pod_is_released(),
            100..101 => self.rebuild(),
            101..102 => self.capacity(),
            102..104 => self.stand(),
            _ => self.reconfigure(),
        }
    }

    pub(super) fn apply(&mut self, event: CellEvent) -> Result<(), String> {
        self.action = match &event {
            CellEvent::Reconfigured(_) => "reconfigured".to_owned(),
            event => format!("{event:?}"),
        };
        harm::apply(&mut self.cells, event, &self.policy)
    }

    fn submit(&mut self) -> Result<(), String> {
        let gang = self.gang();
        self.action = format!("decide {gang:?}");
        let decision = decide(&self.cells, &gang, &self.policy, self.now);
        self.check_decision(&gang, &decision)?;
        self.count_decision(&gang, &decision);
        match decision {
            Decision::Refuse(_) => self.tally.refused += 1,
            Decision::Wait(_) => self.tally.waited += 1,
            Decision::Place(grant) => self.start(gang, grant)?,
            Decision::Preempt { victims, grant } => self.preempt(gang, &victims, grant)?,
        }
        Ok(())
    }

    fn count_decision(&mut self, gang: &Gang, decision: &Decision) {
        let goes = matches!(decision, Decision::Place(_) | Decision::Preempt { .. });
        self.tally.mixed += u64::from(goes && split(gang).is_some());
        match decision {
            Decision::Wait(WaitReason::Machine { .. }) => self.tally.short += 1,
            Decision::Wait(WaitReason::Fixed { .. }) => self.tally.fixed += 1,
            _ => {}
        }
    }

    fn start(&mut self, gang: Gang, grant: Grant) -> Result<(), String> {
        self.count(&grant);
        self.tally.placed += 1;
        self.apply(CellEvent::Started { gang, grant })
    }

    fn count(&mut self, grant: &Grant) {
        self.tally.swaps += grant.swaps.len() as u64;
        self.tally.demoted += grant.demoted.len() as u64;
    }

    fn preempt(&mut self, gang: Gang, victims: &[GangNumber], grant: Grant) -> Result<(), String> {
        self.count(&grant);
        self.tally.preempting += 1;
        let (id, retry) = (gang.id, gang.clone());
        let before = self.cells.clone();
        self.apply(CellEvent::Preempting { gang, grant })?;
        match self.random.below(10) {
            // The claim alone is a state to go on from.
            0..4 => Ok(()),
            4..6 => {
                let overlapped = before.gangs.all().count() > self.cells.gangs.all().count() - 1;
                self.check_state()?;
                self.apply(CellEvent::PreemptionCancelled(id))?;
                if overlapped {
                    return Ok(());
                }
                self.same_as(&before, "after a cancelled preemption")
            }
            _ => {
                for victim in victims {
                    self.apply(CellEvent::GangEnded(*victim))?;
                }
                self.check_state()?;
                match decide(&self.cells, &retry, &self.policy, self.now) {
                    Decision::Place(grant) => self.start(retry, grant),
                    other => Err(format!("its victims are gone, but it gets {other:?}")),
                }
            }
        }
    }

    fn some_gang(&mut self, preempting: bool) -> Option<GangNumber> {
        let gangs = self.cells.gangs();
        let chosen = gangs.filter(|gang| (gang.2 == GangState::Preempting) == preempting);
        let ids: Vec<GangNumber> = chosen.map(|gang| gang.0.id).collect();
        self.random.one_of(&ids).copied()
    }

    fn end_one(&mut self) -> Result<(), String> {
        let preempting = self.random.percent(10);
        match self.some_gang(preempting) {
            Some(id) => self.end_gang(id),
            None => Ok(()),
        }
    }

    /// What the gang alone had away from home is home again, if that is possible.
    fn end_gang(&mut self, id: GangNumber) -> Result<(), String> {
        let quotas = self.quotas_of(id);
        self.apply(CellEvent::GangEnded(id))?;
        self.check_home(&quotas)
    }

    /// A preempting gang loses one victim, or starts if there is none left.
    fn advance(&mut self) -> Result<(), String> {
        let Some(id) = self.some_gang(true) else {
            return Ok(());
        };
        if !preemption_holds(&self.cells, id) {
            return self.apply(CellEvent::PreemptionCancelled(id));
        }
        let Some((gang, ..)) = self.cells.gang(id) else {
            return Ok(());
        };
        let gang = gang.clone();
        match decide(&self.cells, &gang, &self.policy, self.now) {
            Decision::Place(grant) => self.start(gang, grant),
            Decision::Preempt { victims, .. } => match self.random.one_of(&victims) {
                Some(victim) => self.apply(CellEvent::GangEnded(*victim)),
                None => Err("preempts without victims".to_owned()),
            },
            other => Err(format!("a preempting gang gets {other:?}")),
        }
    }

    fn cancel_one(&mut self) -> Result<(), String> {
        self.tally.cancelled += 1;
        match self.some_gang(true) {
            Some(id) => self.apply(CellEvent::PreemptionCancelled(id)),
            None => Ok(()),
        }
    }

    pub(super) fn some_node(&mut self) -> Option<String> {
        let nodes: Vec<String> = self.cells.node_names().map(str::to_owned).collect();
        self.random.one_of(&nodes).cloned()
    }

    fn node_health(&mut self) -> Result<(), String> {
        self.tally.health += 1;
        let healthy = self.random.percent(60);
        match self.some_node() {
            Some(node) => self.apply(CellEvent::NodeHealth { node, healthy }),
            None => Ok(()),
        }
    }

    fn device_health(&mut self) -> Result<(), String> {
        self.tally.health += 1;
        let healthy = self.random.percent(60);
        let leaf = self.random.below(u64::from(self.cells.leaf_count()));
        let leaf = u32::try_from(leaf).unwrap_or(0);
        let (node, device) = self.cells.address(leaf);
        let node = node.to_owned();
        self.apply(CellEvent::DeviceHealth {
            node,
            device,
            healthy,
        })
    }

    fn cordon(&mut self) -> Result<(), String> {
        let on = self.random.percent(40);
        match self.some_node() {
            Some(node) => self.apply(CellEvent::Cordon { node, on }),
            None => Ok(()),
        }
    }

    fn repair(&mut self) -> Result<(), String> {
        for swap in repairs(&self.cells) {
            self.tally.swaps += 1;
            self.apply(CellEvent::Swapped(swap))?;
        }
        Ok(())
    }

    /// A healthy machine fails and comes back: as if it never had, but for what any word of a healthy machine does.
    /// Where nothing runs, quota cells that can go home go with it: a repair may just have opened the way.
    fn flap(&mut self) -> Result<(), String> {
        let Some(node) = self.some_node() else {
            return Ok(());
        };
        let is_bad = |leaf: u32| self.cells.leaves.fault[at(leaf)] & 1 != 0;
        let leaves = self.cells.nodes.by_name[&node].iter();
        if leaves
            .flat_map(|node| self.cells.leaves_of_node(*node).1)
            .any(is_bad)
        {
            return Ok(());
        }
        self.apply(CellEvent::NodeHealth {
            node: node.clone(),
            healthy: true,
        })?;
        let before = self.cells.clone();
        for healthy in [false, true] {
            let node = node.clone();
            self.apply(CellEvent::NodeHealth { node, healthy })?;
            self.check_state()?;
        }
        self.same_as(&before, "after a flap")
    }

    fn pod_ends(&mut self) -> Result<(), String> {
        let Some(gang) = self.some_gang(false) else {
            return Ok(());
        };
        let pod = self.some_pod(gang);
        self.apply(CellEvent::PodEnded { gang, pod })
    }

    fn some_pod(&mut self, gang: GangNumber) -> u32 {
        let running = self.cells.gangs.by_id(gang);
        let pods = running.map_or(0, |running| running.placement.pods.len());
        u32::try_from(self.random.below(pods.max(1) as u64)).unwrap_or(0)
    }

    /// A pod's leaves are free then and nobody else's; releasing it twice is refused.
    fn pod_is_released(&mut self) -> Result<(), String> {
        let Some(gang) = self.some_gang(false) else {
            return Ok(());
        };
        let pod = self.some_pod(gang);
        let Some((_, placement, _)) = self.cells.gang(gang) else {
            return Ok(());
        };
        let leaves = placement.pods[at(pod)].clone();
        let quotas = self.quotas_of(gang);
        let done = self.apply(CellEvent::PodReleased { gang, pod });
        if leaves.is_empty() {
            return match done {
                Ok(()) => Err("a pod is released twice".to_owned()),
                Err(_) => Ok(()),
            };
        }
        done?;
        self.tally.released += 1;
        if leaves.iter().any(|leaf| self.cells.holder(*leaf).is_some()) {
            return Err("a released pod still has leaves".to_owned());
        }
        self.check_home(&quotas)
    }

    fn capacity(&mut self) -> Result<(), String> {
        let Some(node) = self.some_node() else {
            return Ok(());
        };
        let amount = self.amount();
        self.apply(CellEvent::Capacity { node, amount })
    }

    /// Machines are told other racks, some of them none.
    pub(super) fn stand(&mut self) -> Result<(), String> {
        let nodes: Vec<String> = self.cells.node_names().map(str::to_owned).collect();
        let racks = nodes.into_iter().filter_map(|node| {
            let rack = ["", "r1", "r1", "r2", "r3"];
            let rack = self.random.one_of(&rack)?;
            Some((node, (*rack).to_owned()))
        });
        let racks = racks.collect();
        self.apply(CellEvent::Racks(racks))
    }

    fn reconfigure(&mut self) -> Result<(), String> {
        self.tally.reconfigured += 1;
        let mut tops = self.tops.clone();
        if self.random.percent(40) {
            let chain = self.random.below(tops.len() as u64);
            let count = 1 + u32::try_from(self.random.below(2)).unwrap_or(0);
            tops[usize::try_from(chain).unwrap_or(0)] = count;
        }
        let spec = cluster::spec(&mut self.random, &tops);
        let before = self.cells.clone();
        let what_if = self
            .cells
            .what_if(&spec)
            .map_err(|error| error.to_string())?;
        self.spec = spec.clone();
        self.apply(CellEvent::Reconfigured(Box::new(spec)))?;
        self.tops = tops;
        self.check_carried(&before, &what_if)
    }

    /// Everything ends and heals, and no trace is left.
    pub(super) fn end_everything(&mut self) -> Result<(), String> {
        for preempting in [true, false] {
            while let Some(id) = self.some_gang(preempting) {
                self.apply(CellEvent::GangEnded(id))?;
            }
        }
        let nodes: Vec<String> = self.cells.node_names().map(str::to_owned).collect();
        for node in nodes {
            let on = false;
            let healthy = true;
            self.apply(CellEvent::Cordon {
                node: node.clone(),
                on,
            })?;
            self.apply(CellEvent::NodeHealth { node, healthy })?;
        }
        for leaf in 0..self.cells.leaf_count() {
            let (node, device) = self.cells.address(leaf);
            let node = node.to_owned();
            self.apply(CellEvent::DeviceHealth {
                node,
                device,
                healthy: true,
            })?;
        }
        self.check_state()?;
        for _ in 0..self.cells.quotas.len() {
            self.repair()?;
        }
        match self.cells.is_pristine() {
            true => Ok(()),
            false => Err("everything ended, but the cells are not as they were built".to_owned()),
        }
    }
}
