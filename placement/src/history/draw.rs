//! Gangs and machines as they come.

use muster_model::cluster_spec::Level;

use super::HistoryRun;
use crate::amount::MachineAmount;
use crate::cells::CellEvent;
use crate::gang::{Gang, GangMember, GangNumber, Near};
use crate::index::at;
use crate::random::SplitMix64;

impl HistoryRun {
    pub(super) fn gang(&mut self) -> Gang {
        let random = &mut self.random;
        let vc = format!("v{}", 1 + random.below(3));
        let priority = *random.one_of(&[-1, -1, -1, 0, 0, 1, 10, 100]).unwrap_or(&0);
        let lazy = random.percent(50);
        let pinned = self.pinned(&vc, priority);
        let fixed_ms = self.random.below(40);
        let is_fixed = self.random.percent(25);
        self.next_gang += 1;
        Gang {
            id: GangNumber(self.next_gang),
            members: self.members(&vc, pinned.is_some()),
            vc,
            priority,
            lazy,
            user: user(self.next_gang).to_owned(),
            pinned: pinned.unwrap_or_default(),
            fixed_until: is_fixed.then(|| self.now.plus_millis(fixed_ms)),
            ..Gang::default()
        }
    }

    fn pinned(&mut self, vc: &str, priority: i32) -> Option<String> {
        let vc = self.cells.vcs.get(vc);
        let pinned = vc.map(|vc| vc.pinned.keys().cloned().collect());
        let pinned: Vec<String> = pinned.unwrap_or_default();
        let wants_pinned = priority >= 0 && self.random.percent(15);
        let pinned = self.random.one_of(&pinned);
        pinned.filter(|_| wants_pinned).cloned()
    }

    fn members(&mut self, vc: &str, is_pinned: bool) -> Vec<GangMember> {
        let is_small = self.random.percent(60);
        let kinds = if is_small {
            1
        } else {
            1 + self.random.below(3)
        };
        let most = if is_small { 2 } else { 3 };
        let (has_types, has_shares) = (self.random.percent(20), self.random.percent(50));
        let (leaf_type, share) = (self.leaf_type(vc), self.share());
        let member = |_| {
            let random = &mut self.random;
            let pods = 1 + u32::try_from(random.below(most)).unwrap_or(0);
            let leaves = 1 + u32::try_from(random.below(4)).unwrap_or(0);
            let own = has_types.then(|| self.leaf_type(vc));
            let own_share = self.random.percent(30).then(|| self.share());
            let share = own_share.unwrap_or(share);
            GangMember {
                pods,
                leaves,
                leaf_type: match is_pinned {
                    true => String::new(),
                    false => own.unwrap_or_else(|| leaf_type.clone()),
                },
                share: if has_shares {
                    share
                } else {
                    MachineAmount::NONE
                },
                near: near(&mut self.random),
            }
        };
        (0..kinds).map(member).collect()
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

    fn share(&mut self) -> MachineAmount {
        let mut below = |most| u32::try_from(self.random.below(most)).unwrap_or(0);
        MachineAmount {
            cpu: below(4),
            memory_mb: u64::from(below(3)) * 1000,
            ports: below(2),
        }
    }

    /// What a machine may have.
    pub(super) fn amount(&mut self) -> MachineAmount {
        let mut below = |most| u32::try_from(self.random.below(most)).unwrap_or(0);
        MachineAmount {
            cpu: 2 + below(9),
            memory_mb: 1000 + u64::from(below(8)) * 1000,
            ports: 1 + below(6),
        }
    }

    /// Half of the histories know what their machines have.
    pub(super) fn state_capacities(&mut self) -> Result<(), String> {
        if self.random.percent(50) {
            return Ok(());
        }
        let nodes: Vec<String> = self.cells.node_names().map(str::to_owned).collect();
        nodes.into_iter().try_for_each(|node| {
            let amount = self.amount();
            self.apply(CellEvent::Capacity { node, amount })
        })
    }
}

/// Three of ten members ask for nearness.
fn near(random: &mut SplitMix64) -> Option<Near> {
    let asks = random.percent(30);
    let levels = [
        Level::Pcie,
        Level::Pcie,
        Level::Numa,
        Level::Numa,
        Level::Node,
        Level::Rack,
    ];
    let level = *random.one_of(&levels)?;
    let required = random.percent(60);
    asks.then_some(Near { level, required })
}

/// Some gangs are nobody's in particular.
const fn user(number: u64) -> &'static str {
    match number % 3 {
        0 => "",
        1 => "ann",
        _ => "bo",
    }
}
