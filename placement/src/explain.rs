//! Why a gang waits, in words.

use crate::cells::{Cells, Holder, Node};
use crate::plan::fit;
use crate::queue::{Gang, Need};

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
            "has place for {placed} of {tasks} tasks; the next {together}"
        ))
    });
    let missing = missing.unwrap_or_else(|| "waits for room on one node".to_owned());
    match holders(cells, &need) {
        names if names.is_empty() => missing,
        names => format!("{missing}; held by {}", names.join(", ")),
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
                "CPU cores",
            ),
            (
                need.memory_mb,
                sizes().map(|s| s.memory_mb).max(),
                "MiB of memory",
            ),
            (
                u64::from(need.gpu),
                sizes().map(|s| u64::from(s.gpu)).max(),
                "GPUs",
            ),
            (
                u64::from(need.ports),
                sizes().map(|s| u64::from(s.ports)).max(),
                "ports",
            ),
        ];
        for (asked, has, what) in largest {
            let has = has.unwrap_or(0);
            if asked > has {
                return format!("asks {asked} {what}, the largest node has {has}");
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
        "asks {tasks} tasks at once ({cpu} CPU cores, {gpu} GPUs), the cluster holds fewer together"
    )
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
    let kinds: [(u64, Free, &str); 4] = [
        (u64::from(need.gpu), |n| n.free.devices.len() as u64, "GPUs"),
        (u64::from(need.cpu), |n| u64::from(n.free.cpu), "CPU cores"),
        (need.memory_mb, |n| n.free.memory_mb, "MiB of memory"),
        (u64::from(need.ports), |n| u64::from(n.free.ports), "ports"),
    ];
    kinds.into_iter().find_map(|(asked, free, what)| {
        let best = cells.nodes.iter().max_by_key(|(_, node)| free(node))?;
        let most = free(best.1);
        (asked > most).then(|| {
            format!(
                "needs {asked} {what} on one node, {most} are free on {}",
                best.0
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
