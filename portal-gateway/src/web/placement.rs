//! Where a job's tasks are: each node with its devices as they lie near to each other, those of the job marked.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use muster_model::known_node::{Has, KnownNode};
use muster_model::node::DeviceLevel;
use muster_model::view::{JobDetail, TaskAttemptView, TaskView};

use crate::port::PortError;

/// Nodes that are drawn.
const NODES_MAX: usize = 32;
/// A device's side, and what is between two, in the drawing's units.
const SIDE: u32 = 30;
const GAP: u32 = 4;
/// Around what is in a group, and for its name.
const PAD: u32 = 6;
const NAME: u32 = 14;

/// What a job has of a node: its tasks, and by device the task that has it.
#[derive(Default)]
struct NodeHold {
    tasks: Vec<String>,
    devices: BTreeMap<u32, String>,
}

/// A group of devices, or one.
enum Near {
    Device(u32),
    Group(String, Vec<Near>),
}

/// The newest attempts of all tasks, and where they are or were.
pub(super) fn of(job: &JobDetail, known: &Result<Vec<KnownNode>, PortError>) -> Markup {
    let holds = holds(job);
    if holds.is_empty() {
        return html! {};
    }
    let is_over = job.summary.state().is_final();
    html! {
        section.card #placement {
            h2 { @if is_over { "Where it ran" } @else { "Where it runs" } }
            @if let Err(error) = known {
                p.warn { "The devices of the nodes are not known now: " (error.to_string()) }
            }
            @for (name, hold) in holds.iter().take(NODES_MAX) {
                @let node = known.as_ref().ok().and_then(|all| all.iter().find(|it| it.id.as_str() == name));
                (one(name, hold, node, known.is_ok()))
            }
            @if holds.len() > NODES_MAX {
                p.dim { "The first " (NODES_MAX) " of " (holds.len()) " nodes. The table of tasks names all." }
            }
        }
    }
}

fn holds(job: &JobDetail) -> BTreeMap<String, NodeHold> {
    let mut holds: BTreeMap<String, NodeHold> = BTreeMap::new();
    let newest = |task: &'_ TaskView| task.attempts.last().cloned();
    for task in job.tasks() {
        let Some(TaskAttemptView {
            node: Some(node),
            devices,
            ..
        }) = newest(task)
        else {
            continue;
        };
        let name = format!("{} {}", task.id.role, task.id.index);
        let hold = holds.entry(node.to_string()).or_default();
        for device in devices {
            hold.devices.insert(device, name.clone());
        }
        hold.tasks.push(name);
    }
    holds
}

fn one(name: &str, hold: &NodeHold, node: Option<&KnownNode>, are_known: bool) -> Markup {
    let has = node.and_then(|node| node.has.as_ref());
    html! {
        div.placed {
            h3 { a href={ "/nodes/" (name) } { (name) } }
            @match has {
                Some(has) if !has.devices.is_empty() => {
                    div.wide tabindex="0" role="region" aria-label={ "Devices of " (name) } { (drawn(name, hold, has)) }
                }
                None if are_known && node.is_none() => {
                    p.warn { "It is no member of the cluster any more; what follows is the job's own record." }
                }
                None if are_known => {
                    p.warn { "Its leader has not heard from it yet; what follows is the job's own record." }
                }
                _ => {}
            }
            p.dim { (told(hold)) }
        }
    }
}

/// The same in words: `devices 0, 1 (worker 0); worker 1 without devices`
fn told(hold: &NodeHold) -> String {
    let mut by_task: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for task in &hold.tasks {
        by_task.entry(task).or_default();
    }
    for (device, task) in &hold.devices {
        by_task.entry(task).or_default().push(device.to_string());
    }
    let parts = by_task
        .iter()
        .map(|(task, devices)| match devices.as_slice() {
            [] => format!("task {task} without devices"),
            [one] => format!("task {task} on device {one}"),
            many => format!("task {task} on devices {}", many.join(", ")),
        });
    parts.collect::<Vec<_>>().join("; ")
}

fn drawn(name: &str, hold: &NodeHold, has: &Has) -> Markup {
    let all = has.devices.iter().map(|device| device.index).collect();
    let near = near(&all, &has.levels);
    let (placed, width) = row(&near);
    let width = width.max(1);
    let height = near.iter().map(|part| size(part).1).max().unwrap_or(SIDE);
    let draw = DeviceDrawing { hold, has };
    html! {
        svg.devices width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } role="img"
            aria-label={ (name) ": " (told(hold)) } {
            @for (x, part) in placed { (draw.part(part, (x, 0))) }
        }
    }
}

/// Parts beside each other: where each begins, and how wide all are.
fn row(parts: &[Near]) -> (Vec<(u32, &Near)>, u32) {
    let mut x = 0;
    let mut placed = Vec::new();
    for part in parts {
        placed.push((x, part));
        x += size(part).0 + GAP;
    }
    (placed, x.saturating_sub(GAP))
}

/// Devices in groups by the levels, the widest first. A device in no group of a level stands by itself.
fn near(devices: &BTreeSet<u32>, levels: &[DeviceLevel]) -> Vec<Near> {
    let Some((level, finer)) = levels.split_first() else {
        return devices.iter().copied().map(Near::Device).collect();
    };
    let mut rest = devices.clone();
    let mut parts = Vec::new();
    for group in &level.groups {
        let inside: BTreeSet<u32> = group.iter().copied().filter(|it| rest.remove(it)).collect();
        if !inside.is_empty() {
            parts.push(Near::Group(level.level.to_string(), near(&inside, finer)));
        }
    }
    parts.extend(near(&rest, finer));
    parts
}

fn size(part: &Near) -> (u32, u32) {
    match part {
        Near::Device(_) => (SIDE, SIDE),
        Near::Group(_, parts) => {
            let height = parts.iter().map(|part| size(part).1).max().unwrap_or(0);
            (row(parts).1 + 2 * PAD, height + 2 * PAD + NAME)
        }
    }
}

struct DeviceDrawing<'a> {
    hold: &'a NodeHold,
    has: &'a Has,
}

impl DeviceDrawing<'_> {
    fn part(&self, part: &Near, (x, y): (u32, u32)) -> Markup {
        match part {
            Near::Device(index) => self.device(*index, (x, y)),
            Near::Group(name, parts) => {
                let (width, height) = size(part);
                let (inside, _) = row(parts);
                html! {
                    rect class="near" x=(x) y=(y) width=(width) height=(height) rx="5" {}
                    text class="level" x=(x + PAD) y=(y + NAME) { (name) }
                    @for (left, part) in inside { (self.part(part, (x + PAD + left, y + NAME + PAD))) }
                }
            }
        }
    }

    fn device(&self, index: u32, (x, y): (u32, u32)) -> Markup {
        let device = self.has.devices.iter().find(|device| device.index == index);
        let model = device.map_or("", |device| device.model.as_str());
        let fault = device.and_then(|device| device.fault.as_deref());
        let (class, state) = match (self.hold.devices.get(&index), fault) {
            (Some(task), _) => ("mine", format!("of task {task}")),
            (None, Some(fault)) => ("sick", format!("faulty: {fault}")),
            (None, None) if device.is_some_and(|device| device.is_used) => {
                ("taken", "another task has it".to_owned())
            }
            (None, None) => ("idle", "free".to_owned()),
        };
        html! {
            g class=(class) {
                title { "Device " (index) ", " (model) ": " (state) }
                rect x=(x) y=(y) width=(SIDE) height=(SIDE) rx="4" {}
                text x=(x + SIDE / 2) y=(y + SIDE / 2 + 5) { (index) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_model::cluster_spec::Level;

    use super::*;

    fn told_of(parts: &[Near]) -> String {
        let parts = parts.iter().map(|part| match part {
            Near::Device(index) => index.to_string(),
            Near::Group(name, parts) => format!("{name}({})", told_of(parts)),
        });
        parts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn devices_lie_in_their_groups_and_none_is_left_out() {
        let level = |level, groups: &[&[u32]]| DeviceLevel {
            level,
            groups: groups.iter().map(|group| group.to_vec()).collect(),
        };
        let levels = [
            level(Level::Numa, &[&[0, 1, 2, 3], &[4, 5, 6]]),
            level(Level::Pcie, &[&[0, 1], &[2, 3], &[4, 5]]),
        ];
        let all = (0..8).collect();
        let drawn = told_of(&near(&all, &levels));
        assert_eq!(drawn, "numa(pcie(0 1) pcie(2 3)) numa(pcie(4 5) 6) 7");
        assert_eq!(told_of(&near(&all, &[])), "0 1 2 3 4 5 6 7");
    }
}
