//! What can happen in a step.

use super::{History, cluster};
use crate::cells::{Event, State};
use crate::decide::{Decision, decide, preemption_holds, repairs};
use crate::gang::{Gang, GangId, GangMember, Grant};
use crate::index::at;

impl History {
    pub(super) fn step(&mut self) -> Result<(), String> {
        match self.random.below(100) {
            0..45 => self.submit(),
            45..60 => self.end_one(),
            60..68 => self.advance(),
            68..71 => self.cancel_one(),
            71..82 => self.node_health(),
            82..88 => self.device_health(),
            88..92 => self.cordon(),
            92..95 => self.repair(),
            95..97 => self.flap(),
            97..98 => self.pod_ends(),
            _ => self.reconfigure(),
        }
    }

    pub(super) fn apply(&mut self, event: Event) -> Result<(), String> {
        self.action = match &event {
            Event::Reconfigured(_) => "reconfigured".to_owned(),
            event => format!("{event:?}"),
        };
        self.cells.apply(event).map_err(|error| error.to_string())
    }

    fn gang(&mut self) -> Gang {
        let random = &mut self.random;
        let vc = format!("v{}", 1 + random.below(3));
        let priority = *random.one_of(&[-1, -1, -1, 0, 0, 1, 10, 100]).unwrap_or(&0);
        let is_small = random.percent(60);
        let lazy = random.percent(50);
        let kinds = if is_small { 1 } else { 1 + random.below(3) };
        let most = if is_small { 2 } else { 3 };
        let member = |_| GangMember {
            pods: 1 + u32::try_from(random.below(most)).unwrap_or(0),
            leaves: 1 + u32::try_from(random.below(4)).unwrap_or(0),
        };
        let members = (0..kinds).map(member).collect();
        let leaf_type = self.leaf_type(&vc);
        let pinned = self
            .cells
            .vcs
            .get(&vc)
            .map(|vc| vc.pinned.keys().cloned().collect());
        let pinned: Vec<String> = pinned.unwrap_or_default();
        let wants_pinned = priority >= 0 && self.random.percent(15);
        let pinned = self
            .random
            .one_of(&pinned)
            .filter(|_| wants_pinned)
            .cloned();
        self.next_gang += 1;
        Gang {
            id: GangId(self.next_gang),
            vc,
            priority,
            lazy,
            leaf_type: match pinned {
                Some(_) => String::new(),
                None => leaf_type,
            },
            user: user(self.next_gang).to_owned(),
            pinned: pinned.unwrap_or_default(),
            members,
        }
    }

    /// Mostly one that the cluster is promised.
    fn leaf_type(&mut self, vc: &str) -> String {
        let pools = self.cells.vcs.get(vc).map(|vc| vc.pools.clone());
        let own = match self.random.one_of(&pools.unwrap_or_default()) {
            Some(pool) => {
                &self.cells.chains[self.cells.pools[at(*pool)].chain]
                    .shape
                    .types[0]
            }
            None => "",
        };
        let types = [own, own, own, own, own, "", "", "A", "C", "D"];
        (*self.random.one_of(&types).unwrap_or(&"")).to_owned()
    }

    fn submit(&mut self) -> Result<(), String> {
        let gang = self.gang();
        self.action = format!("decide {gang:?}");
        let decision = decide(&self.cells, &gang, &self.policy);
        self.check_decision(&gang, &decision)?;
        match decision {
            Decision::Refuse(_) => self.tally.refused += 1,
            Decision::Wait(_) => self.tally.waited += 1,
            Decision::Place(grant) => self.start(gang, grant)?,
            Decision::Preempt { victims, grant } => self.preempt(gang, &victims, grant)?,
        }
        Ok(())
    }

    fn start(&mut self, gang: Gang, grant: Grant) -> Result<(), String> {
        self.count(&grant);
        self.tally.placed += 1;
        self.apply(Event::Started { gang, grant })
    }

    fn count(&mut self, grant: &Grant) {
        self.tally.swaps += grant.swaps.len() as u64;
        self.tally.demoted += grant.demoted.len() as u64;
    }

    fn preempt(&mut self, gang: Gang, victims: &[GangId], grant: Grant) -> Result<(), String> {
        self.count(&grant);
        self.tally.preempting += 1;
        let (id, retry) = (gang.id, gang.clone());
        let before = self.cells.clone();
        self.apply(Event::Preempting { gang, grant })?;
        match self.random.below(10) {
            // The claim alone is a state to go on from.
            0..4 => Ok(()),
            4..6 => {
                let overlapped = before.gangs.all().count() > self.cells.gangs.all().count() - 1;
                self.check_state()?;
                self.apply(Event::PreemptionCancelled(id))?;
                if overlapped {
                    return Ok(());
                }
                self.same_as(&before, "after a cancelled preemption")
            }
            _ => {
                for victim in victims {
                    self.apply(Event::GangEnded(*victim))?;
                }
                self.check_state()?;
                match decide(&self.cells, &retry, &self.policy) {
                    Decision::Place(grant) => self.start(retry, grant),
                    other => Err(format!("its victims are gone, but it gets {other:?}")),
                }
            }
        }
    }

    fn some_gang(&mut self, preempting: bool) -> Option<GangId> {
        let gangs = self.cells.gangs();
        let chosen = gangs.filter(|gang| (gang.2 == State::Preempting) == preempting);
        let ids: Vec<GangId> = chosen.map(|gang| gang.0.id).collect();
        self.random.one_of(&ids).copied()
    }

    fn end_one(&mut self) -> Result<(), String> {
        let preempting = self.random.percent(10);
        match self.some_gang(preempting) {
            Some(id) => self.apply(Event::GangEnded(id)),
            None => Ok(()),
        }
    }

    /// A preempting gang loses one victim, or starts if there is none left.
    fn advance(&mut self) -> Result<(), String> {
        let Some(id) = self.some_gang(true) else {
            return Ok(());
        };
        if !preemption_holds(&self.cells, id) {
            return self.apply(Event::PreemptionCancelled(id));
        }
        let Some((gang, ..)) = self.cells.gang(id) else {
            return Ok(());
        };
        let gang = gang.clone();
        match decide(&self.cells, &gang, &self.policy) {
            Decision::Place(grant) => self.start(gang, grant),
            Decision::Preempt { victims, .. } => match self.random.one_of(&victims) {
                Some(victim) => self.apply(Event::GangEnded(*victim)),
                None => Err("preempts without victims".to_owned()),
            },
            other => Err(format!("a preempting gang gets {other:?}")),
        }
    }

    fn cancel_one(&mut self) -> Result<(), String> {
        self.tally.cancelled += 1;
        match self.some_gang(true) {
            Some(id) => self.apply(Event::PreemptionCancelled(id)),
            None => Ok(()),
        }
    }

    fn some_node(&mut self) -> Option<String> {
        let nodes: Vec<String> = self.cells.node_names().map(str::to_owned).collect();
        self.random.one_of(&nodes).cloned()
    }

    fn node_health(&mut self) -> Result<(), String> {
        self.tally.health += 1;
        let healthy = self.random.percent(60);
        match self.some_node() {
            Some(node) => self.apply(Event::NodeHealth { node, healthy }),
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
        self.apply(Event::DeviceHealth {
            node,
            device,
            healthy,
        })
    }

    fn cordon(&mut self) -> Result<(), String> {
        let on = self.random.percent(40);
        match self.some_node() {
            Some(node) => self.apply(Event::Cordon { node, on }),
            None => Ok(()),
        }
    }

    fn repair(&mut self) -> Result<(), String> {
        for swap in repairs(&self.cells) {
            self.tally.swaps += 1;
            self.apply(Event::Swapped(swap))?;
        }
        Ok(())
    }

    /// A healthy machine fails and comes back: as if it never had.
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
        let before = self.cells.clone();
        for healthy in [false, true] {
            let node = node.clone();
            self.apply(Event::NodeHealth { node, healthy })?;
            self.check_state()?;
        }
        self.same_as(&before, "after a flap")
    }

    fn pod_ends(&mut self) -> Result<(), String> {
        let Some(gang) = self.some_gang(false) else {
            return Ok(());
        };
        self.apply(Event::PodEnded { gang, pod: 0 })
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
        self.apply(Event::Reconfigured(Box::new(spec)))?;
        self.tops = tops;
        self.check_carried(&before, &what_if)
    }

    /// Everything ends and heals, and no trace is left.
    pub(super) fn end_everything(&mut self) -> Result<(), String> {
        for preempting in [true, false] {
            while let Some(id) = self.some_gang(preempting) {
                self.apply(Event::GangEnded(id))?;
            }
        }
        let nodes: Vec<String> = self.cells.node_names().map(str::to_owned).collect();
        for node in nodes {
            let on = false;
            let healthy = true;
            self.apply(Event::Cordon {
                node: node.clone(),
                on,
            })?;
            self.apply(Event::NodeHealth { node, healthy })?;
        }
        for leaf in 0..self.cells.leaf_count() {
            let (node, device) = self.cells.address(leaf);
            let node = node.to_owned();
            self.apply(Event::DeviceHealth {
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

/// Some gangs are nobody's in particular.
const fn user(number: u64) -> &'static str {
    match number % 3 {
        0 => "",
        1 => "ann",
        _ => "bo",
    }
}
