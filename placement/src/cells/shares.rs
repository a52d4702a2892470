//! What machines have beside leaf cells, and what the pods on them take of it.
//!
//! A machine may be in several chains; it is one machine here. What it has is unlimited until it
//! is stated.

use std::collections::BTreeMap;

use super::{AllocationMode, Cells, CellsError};
use crate::amount::{MachineAmount, Resource};
use crate::gang::{Gang, Leaf, Placement};
use crate::index::{at, small};

/// A sum of amounts, wide enough never to wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sum {
    cpu: u64,
    memory_mb: u128,
    ports: u64,
}

impl Sum {
    pub(crate) fn add(&mut self, amount: MachineAmount) {
        self.cpu += u64::from(amount.cpu);
        self.memory_mb += u128::from(amount.memory_mb);
        self.ports += u64::from(amount.ports);
    }

    pub(crate) fn take(&mut self, amount: MachineAmount) {
        self.cpu -= u64::from(amount.cpu);
        self.memory_mb -= u128::from(amount.memory_mb);
        self.ports -= u64::from(amount.ports);
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            memory_mb: self.memory_mb + other.memory_mb,
            ports: self.ports + other.ports,
        }
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(other.cpu),
            memory_mb: self.memory_mb.saturating_sub(other.memory_mb),
            ports: self.ports.saturating_sub(other.ports),
        }
    }

    pub(crate) fn fits_in(self, has: &MachineAmount) -> bool {
        self.cpu <= u64::from(has.cpu)
            && self.memory_mb <= u128::from(has.memory_mb)
            && self.ports <= u64::from(has.ports)
    }

    /// What is left of a total; nothing where this is more.
    pub(crate) fn left_of(self, total: MachineAmount) -> MachineAmount {
        let narrow = |sum: u64| u32::try_from(sum).unwrap_or(u32::MAX);
        total.minus(MachineAmount {
            cpu: narrow(self.cpu),
            memory_mb: u64::try_from(self.memory_mb).unwrap_or(u64::MAX),
            ports: narrow(self.ports),
        })
    }

    /// How much of one resource, as far as it can be counted.
    pub(crate) fn of(&self, what: Resource) -> u64 {
        match what {
            Resource::Cpu => self.cpu,
            Resource::Memory => u64::try_from(self.memory_mb).unwrap_or(u64::MAX),
            Resource::Ports => self.ports,
        }
    }
}

/// A machine, whatever chains it is in.
#[derive(Clone, Debug, Default)]
pub(crate) struct MachineShares {
    /// Its numbers among the nodes.
    pub(crate) nodes: Vec<u32>,
    /// What it has; none if that was never stated.
    pub(crate) total: Option<MachineAmount>,
    /// What guaranteed gangs take.
    pub(crate) guaranteed: Sum,
    /// What opportunistic gangs take.
    pub(crate) opportunistic: Sum,
    /// What preempting gangs will take.
    pub(crate) claimed: Sum,
}

impl MachineShares {
    fn sum(&mut self, mode: AllocationMode) -> &mut Sum {
        match mode {
            AllocationMode::Guaranteed => &mut self.guaranteed,
            AllocationMode::Opportunistic => &mut self.opportunistic,
            AllocationMode::Preempting => &mut self.claimed,
        }
    }

    /// What running gangs take.
    pub(crate) fn held(&self) -> Sum {
        self.guaranteed.plus(self.opportunistic)
    }
}

/// What the machines of a chain have, kept ready to be asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChainStock {
    /// Machines that never stated what they have.
    pub(crate) unstated: u32,
    /// All that is stated together.
    pub(crate) sum: Sum,
    /// How many machines have how much, by resource.
    amounts: [BTreeMap<u64, u32>; Resource::ALL.len()],
}

impl ChainStock {
    /// The most of a resource that one machine has.
    pub(crate) fn largest(&self, what: Resource) -> u64 {
        let most = self.amounts[what as usize].last_key_value();
        most.map_or(0, |most| *most.0)
    }

    fn state(&mut self, amount: MachineAmount) {
        self.sum.add(amount);
        for what in Resource::ALL {
            *self.amounts[what as usize]
                .entry(amount.of(what))
                .or_default() += 1;
        }
    }

    fn forget(&mut self, amount: MachineAmount) {
        self.sum.take(amount);
        for what in Resource::ALL {
            let counts = &mut self.amounts[what as usize];
            if let Some(count) = counts.get_mut(&amount.of(what)) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&amount.of(what));
                }
            }
        }
    }
}

impl Cells {
    /// The machine of a leaf, whatever chain that is in.
    pub(crate) fn machine_of(&self, leaf: Leaf) -> u32 {
        self.nodes.machine[at(self.node_of(leaf))]
    }

    /// The name of a machine.
    pub(crate) fn machine_name(&self, machine: u32) -> &str {
        let node = self.nodes.machines[at(machine)].nodes.first();
        node.map_or("", |node| &self.nodes.name[at(*node)])
    }

    /// What a machine has beside leaf cells; none if that was never stated, and then it is
    /// unlimited.
    pub fn capacity(&self, node: &str) -> Option<MachineAmount> {
        let number = self.nodes.by_name.get(node)?.first()?;
        let machine = self.nodes.machine[at(*number)];
        self.nodes.machines[at(machine)].total
    }

    /// What a machine has left beside leaf cells, what preempting gangs claim left out; none if it
    /// is unlimited.
    pub fn free_amount(&self, node: &str) -> Option<MachineAmount> {
        let number = self.nodes.by_name.get(node)?.first()?;
        let machine = &self.nodes.machines[at(self.nodes.machine[at(*number)])];
        let used = machine.held().plus(machine.claimed);
        machine.total.map(|total| used.left_of(total))
    }

    /// Numbers the machines once all of them are named.
    pub(crate) fn number_machines(&mut self) {
        let nodes = &mut self.nodes;
        nodes.machine = vec![0; nodes.name.len()];
        nodes.machines = Vec::new();
        for of_name in nodes.by_name.values() {
            for node in of_name {
                nodes.machine[at(*node)] = small(nodes.machines.len());
            }
            nodes.machines.push(MachineShares {
                nodes: of_name.clone(),
                ..MachineShares::default()
            });
        }
        for chain in &mut self.chains {
            chain.stock.unstated = chain.shape.count(chain.shape.node);
        }
    }

    pub(crate) fn state_capacity(
        &mut self,
        node: &str,
        amount: MachineAmount,
    ) -> Result<(), CellsError> {
        let numbers = self.nodes.by_name.get(node);
        let numbers = numbers.ok_or_else(|| CellsError::NoSuch(format!("machine {node}")))?;
        let Some(first) = numbers.first() else {
            return Ok(());
        };
        let machine = &mut self.nodes.machines[at(self.nodes.machine[at(*first)])];
        let before = machine.total.replace(amount);
        for number in machine.nodes.clone() {
            let chain = self.chain_of_node(number);
            let stock = &mut self.chains[chain].stock;
            match before {
                Some(before) => stock.forget(before),
                None => stock.unstated -= 1,
            }
            stock.state(amount);
        }
        Ok(())
    }

    /// What each pod of a placement takes of which machine.
    pub(crate) fn shares_of<'a>(
        &'a self,
        gang: &'a Gang,
        placement: &'a Placement,
    ) -> impl Iterator<Item = (u32, MachineAmount)> + 'a {
        let pods = placement.pods.iter().zip(gang.shares());
        pods.filter_map(|(pod, share)| {
            let leaf = pod.first().filter(|_| !share.is_none())?;
            Some((self.machine_of(*leaf), share))
        })
    }

    /// What a gang takes of each machine, wherever that is anything.
    pub(crate) fn shares_by_machine(
        &self,
        gang: &Gang,
        placement: &Placement,
    ) -> BTreeMap<u32, Sum> {
        let mut sums: BTreeMap<u32, Sum> = BTreeMap::new();
        if gang.has_shares() {
            for (machine, share) in self.shares_of(gang, placement) {
                sums.entry(machine).or_default().add(share);
            }
        }
        sums
    }

    /// Counts what a gang takes where it is.
    pub(crate) fn count_shares(&mut self, slot: u32, change: fn(&mut Sum, MachineAmount)) {
        let Some(running) = self.gangs.get(slot) else {
            return;
        };
        if !running.gang.has_shares() {
            return;
        }
        let mode = running.shares_as();
        let shares = self.shares_of(&running.gang, &running.placement);
        let shares: Vec<(u32, MachineAmount)> = shares.collect();
        for (machine, share) in shares {
            change(self.nodes.machines[at(machine)].sum(mode), share);
        }
    }

    /// Whether the machines have enough for a gang beside everything that runs.
    pub(crate) fn check_shares(
        &self,
        gang: &Gang,
        placement: &Placement,
    ) -> Result<(), CellsError> {
        for (number, asked) in self.shares_by_machine(gang, placement) {
            let machine = &self.nodes.machines[at(number)];
            let Some(total) = machine.total else {
                continue;
            };
            let all = machine.held().plus(asked);
            let over = |what: &Resource| asked.of(*what) > 0 && all.of(*what) > total.of(*what);
            if let Some(what) = Resource::ALL.into_iter().find(over) {
                return Err(CellsError::Machine {
                    gang: gang.id,
                    what,
                    asked: asked.of(what),
                    free: machine.held().left_of(total).of(what),
                    node: self.machine_name(number).to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Checks every sum from scratch.
    pub(crate) fn audit_shares(&self) -> Result<(), String> {
        let mut machines: Vec<MachineShares> =
            vec![MachineShares::default(); self.nodes.machines.len()];
        for running in self.gangs.all() {
            for (machine, share) in self.shares_of(&running.gang, &running.placement) {
                machines[at(machine)].sum(running.shares_as()).add(share);
            }
        }
        let sums =
            |machine: &MachineShares| (machine.guaranteed, machine.opportunistic, machine.claimed);
        if !machines
            .iter()
            .zip(&self.nodes.machines)
            .all(|(a, b)| sums(a) == sums(b))
        {
            return Err("what a machine's pods take is counted wrong".to_owned());
        }
        self.chains.iter().try_for_each(|chain| {
            let mut fresh = ChainStock::default();
            let nodes = chain.node_base..chain.node_base + chain.shape.count(chain.shape.node);
            for node in nodes {
                match self.nodes.machines[at(self.nodes.machine[at(node)])].total {
                    Some(total) => fresh.state(total),
                    None => fresh.unstated += 1,
                }
            }
            let same = fresh.unstated == chain.stock.unstated
                && fresh.sum == chain.stock.sum
                && fresh.amounts == chain.stock.amounts;
            match same {
                true => Ok(()),
                false => Err("what a chain's machines have is counted wrong".to_owned()),
            }
        })
    }
}
