//! Why a gang waits, in words.

use muster_model::id::NodeId;

use super::cells::{Cells, Holder, Node};
use super::plan::fit;
use super::queue::{Gang, Need};

/// Holders named in one sentence at most.
const HOLDERS_NAMED: usize = 3;

/// Why the gang does not fit now, though it would fit the empty cluster.
pub(crate) fn waiting(cells: &Cells, gang: &Gang) -> String {
    if cells.nodes.is_empty() {
        return "no node is connected".to_owned();
    }
    let mut left = cells.clone();
    let Err(placed) = fit(&mut left, gang) else {
        return "waits for a reservation to end".to_owned();
    };
    let need = need_of(gang, placed);
    let missing = missing_in(cells, &need).or_else(|| {
        let together = missing_in(&left, &need)?;
        let tasks: u32 = gang.groups.iter().map(|group| group.tasks).sum();
        Some(format!(
            "has room for {placed} of its {tasks} tasks; the next one {together}"
        ))
    });
    let missing = missing.unwrap_or_else(|| "waits for room on one node".to_owned());
    match holders(cells, &need) {
        names if names.is_empty() => missing,
        names => format!("{missing} (in use by {})", names.join(", ")),
    }
}

/// Why not even the empty cluster could hold the gang.
pub(crate) fn impossible(cells: &Cells, gang: &Gang) -> String {
    let sizes = || cells.nodes.values().map(|node| node.size);
    for group in &gang.groups {
        let need = group.need;
        let largest = [
            (
                u64::from(need.cpu),
                sizes().map(|s| u64::from(s.cpu)).max(),
                CORES,
            ),
            (need.memory_mb, sizes().map(|s| s.memory_mb).max(), MEMORY),
            (
                u64::from(need.gpu),
                sizes().map(|s| u64::from(s.gpu)).max(),
                GPUS,
            ),
            (
                u64::from(need.ports),
                sizes().map(|s| u64::from(s.ports)).max(),
                PORTS,
            ),
        ];
        for (asked, has, unit) in largest {
            let has = has.unwrap_or(0);
            if asked > has {
                let asked = unit.count(asked);
                let has = if has == 0 {
                    "none".to_owned()
                } else {
                    has.to_string()
                };
                return format!("asks for {asked}, but the largest node has {has}: {NEVER}");
            }
        }
    }
    let sum = |of: fn(&Need) -> u32| -> u64 {
        let groups = gang.groups.iter();
        groups
            .map(|g| u64::from(g.tasks) * u64::from(of(&g.need)))
            .sum()
    };
    let tasks: u32 = gang.groups.iter().map(|group| group.tasks).sum();
    let (cpu, gpu) = (sum(|need| need.cpu), sum(|need| need.gpu));
    format!(
        "asks for {tasks} tasks at once ({}, {}), which do not fit into the whole cluster even \
         when it is empty: {NEVER}",
        CORES.count(cpu),
        GPUS.count(gpu)
    )
}

/// A kind of resource, as it is said in a sentence.
#[derive(Clone, Copy, Debug)]
struct Unit {
    one: &'static str,
    many: &'static str,
}

const CORES: Unit = Unit {
    one: "CPU core",
    many: "CPU cores",
};
const GPUS: Unit = Unit {
    one: "GPU",
    many: "GPUs",
};
const MEMORY: Unit = Unit {
    one: "MiB of memory",
    many: "MiB of memory",
};
const PORTS: Unit = Unit {
    one: "port",
    many: "ports",
};
const NEVER: &str = "it can never start here, ask for less";

impl Unit {
    /// `4 GPUs`.
    fn count(self, number: u64) -> String {
        let name = if number == 1 { self.one } else { self.many };
        format!("{number} {name}")
    }
}

/// `2 are free on n1`.
fn free_on(number: u64, node: &NodeId) -> String {
    match number {
        0 => "none is free".to_owned(),
        1 => format!("1 is free on {node}"),
        number => format!("{number} are free on {node}"),
    }
}

/// What the task after `placed` others needs.
fn need_of(gang: &Gang, placed: usize) -> Need {
    let mut before = 0;
    for group in &gang.groups {
        before += usize::try_from(group.tasks).unwrap_or(usize::MAX);
        if placed < before {
            return group.need;
        }
    }
    Need::default()
}

/// The first thing that no node has enough of.
fn missing_in(cells: &Cells, need: &Need) -> Option<String> {
    type Free = fn(&Node) -> u64;
    let kinds: [(u64, Free, Unit); 4] = [
        (u64::from(need.gpu), |n| n.free.devices.len() as u64, GPUS),
        (u64::from(need.cpu), |n| u64::from(n.free.cpu), CORES),
        (need.memory_mb, |n| n.free.memory_mb, MEMORY),
        (u64::from(need.ports), |n| u64::from(n.free.ports), PORTS),
    ];
    kinds.into_iter().find_map(|(asked, free, unit)| {
        let (id, node) = cells.nodes.iter().max_by_key(|(_, node)| free(node))?;
        let most = free(node);
        (asked > most).then(|| {
            format!(
                "needs {} on one node; {}",
                unit.count(asked),
                free_on(most, id)
            )
        })
    })
}

/// Who holds most of what is needed, by name.
fn holders(cells: &Cells, need: &Need) -> Vec<String> {
    let all = cells.nodes.values().flat_map(|node| &node.holders);
    let weight = |holder: &Holder| match need.gpu {
        0 => u64::from(holder.cpu).max(holder.memory_mb / 1024),
        _ => u64::from(holder.gpu),
    };
    let mut holders: Vec<&Holder> = all.filter(|holder| weight(holder) > 0).collect();
    holders.sort_by_key(|holder| std::cmp::Reverse(weight(holder)));
    let mut names: Vec<String> = Vec::new();
    for holder in holders {
        if !names.contains(&holder.name) && names.len() < HOLDERS_NAMED {
            names.push(holder.name.clone());
        }
    }
    names
}
