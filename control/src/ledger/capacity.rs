//! What is free: the node's capacity less what grants occupy, and ports among the rest.

use std::collections::BTreeSet;

use muster_model::id::AttemptUid;
use muster_model::node::Free;

use super::grant::TaskGrant;
use super::{GRANTS_MAX, Ledger};
use crate::order::{ReserveAsk, TaskPorts};

impl Ledger {
    pub(super) fn count_free(&self) -> Free {
        self.free_without(&[])
    }

    /// What would be free without some who have something now. What is claimed is free to nobody
    /// else, counted once where those still have it who would give it up.
    fn free_without(&self, gone: &[AttemptUid]) -> Free {
        let stays = |grant: &&TaskGrant| !gone.contains(&grant.member.uid);
        let used = self.grants.values().filter(|g| g.occupies()).filter(stays);
        let claims = self.grants.values().filter(|grant| grant.claims());
        let used: Vec<&TaskGrant> = used.chain(claims).collect();
        let taken: BTreeSet<_> = used.iter().flat_map(|g| &g.devices).map(|d| &d.1).collect();
        let given_up = self.given_up(gone);
        let cpu: u64 = used.iter().map(|g| u64::from(g.cpu)).sum();
        let cpu = u32::try_from(cpu.saturating_sub(given_up.cpu)).unwrap_or(u32::MAX);
        let memory_mb: u64 = used.iter().map(|g| g.memory_mb).sum();
        let memory_mb = memory_mb.saturating_sub(given_up.memory_mb);
        let devices = self.capacity.devices.iter();
        let free = devices.filter(|d| d.fault.is_none() && !taken.contains(&d.id));
        let ports = self.port_count().saturating_sub(self.ports_taken().len());
        Free {
            cpu: self.capacity.cpu.saturating_sub(cpu),
            memory_mb: self.capacity.memory_mb.saturating_sub(memory_mb),
            devices: free.map(|d| (d.index, d.id.clone())).collect(),
            ports: u32::try_from(ports).unwrap_or(u32::MAX),
        }
    }

    /// Checks that all asks fit together into what is free now, or would be without some who have
    /// something; says what does not.
    pub(super) fn fits(&self, asks: &[ReserveAsk], gone: &[AttemptUid]) -> Result<(), String> {
        if self.grants.len() + asks.len() > GRANTS_MAX {
            return Err(format!("the node holds {} tasks", self.grants.len()));
        }
        let free = self.free_without(gone);
        let cpu: u64 = asks.iter().map(|ask| u64::from(ask.cpu)).sum();
        if cpu > u64::from(free.cpu) {
            return Err(format!("{cpu} cores asked, {} free", free.cpu));
        }
        let memory: u64 = asks
            .iter()
            .fold(0, |sum, a| sum.saturating_add(a.memory_mb));
        if memory > free.memory_mb {
            return Err(format!("{memory} MiB asked, {} free", free.memory_mb));
        }
        let mut devices: BTreeSet<_> = free.devices.iter().collect();
        let mut asked = asks.iter().flat_map(|ask| &ask.devices);
        match asked.find(|device| !devices.remove(device)) {
            Some((index, id)) => Err(format!("device {index} ({})", id.0)),
            None => Ok(()),
        }
    }

    /// Picks ports for every ask, going round the range so that a port rests before it is
    /// given again.
    pub(super) fn pick_ports(
        &mut self,
        asks: &[ReserveAsk],
        port_is_free: &dyn Fn(u16) -> bool,
    ) -> Result<Vec<TaskPorts>, String> {
        let mut taken = self.ports_taken();
        asks.iter()
            .map(|ask| {
                let labels = ask.ports.iter();
                labels
                    .map(|(label, count)| {
                        let ports = (0..*count).map(|_| self.pick_port(&mut taken, port_is_free));
                        Ok((label.clone(), ports.collect::<Result<_, _>>()?))
                    })
                    .collect()
            })
            .collect()
    }

    fn pick_port(
        &mut self,
        taken: &mut BTreeSet<u16>,
        port_is_free: &dyn Fn(u16) -> bool,
    ) -> Result<u16, String> {
        let (first, last) = (self.capacity.port_first, self.capacity.port_last);
        for _ in 0..self.port_count() {
            if self.next_port < first || self.next_port > last {
                self.next_port = first;
            }
            let port = self.next_port;
            self.next_port = port.wrapping_add(1);
            if !taken.contains(&port) && port_is_free(port) {
                taken.insert(port);
                return Ok(port);
            }
        }
        Err(format!("no port from {first} to {last} is left"))
    }

    fn port_count(&self) -> usize {
        usize::from(
            self.capacity
                .port_last
                .saturating_sub(self.capacity.port_first),
        ) + 1
    }

    fn ports_taken(&self) -> BTreeSet<u16> {
        let used = self.grants.values();
        let used = used.filter(|grant| grant.occupies() || grant.claims());
        used.flat_map(|grant| &grant.ports)
            .flat_map(|(_, ports)| ports.iter().copied())
            .collect()
    }
}
