//! Who goes where: strictly in turn, the first node that fits, whole gangs only.

use muster_model::id::NodeId;
use muster_model::node::DeviceId;

use super::cells::Cells;
use super::explain;
use super::queue::{Gang, Queue};

/// What becomes of each gang of the queue, in the queue's order. Leaves no choice open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// One per gang.
    pub decisions: Vec<Decision>,
}

/// What becomes of a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It goes here: one slot per task, in the gang's order.
    Place(Vec<Slot>),
    /// It waits, and so does everything behind it.
    Wait {
        /// Why, a sentence part: `needs 4 GPUs on one node; 2 are free on n1`.
        reason: String,
    },
    /// Not even the empty cluster could hold it. Nothing behind it waits for it.
    Impossible {
        /// Why, a sentence part.
        reason: String,
    },
}

/// Where one task goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The node.
    pub node: NodeId,
    /// Its devices there, with their indices.
    pub devices: Vec<(u32, DeviceId)>,
}

/// Plans as many gangs as fit in turn. The first that must wait stops all behind it, so that a
/// large gang is not passed over forever by small ones; a gang that can never fit stops nobody.
pub fn plan(cells: &Cells, queue: &Queue) -> Plan {
    let mut cells = cells.clone();
    let mut blocker: Option<&str> = None;
    let mut decide = |gang| decide(&mut cells, gang, &mut blocker);
    Plan {
        decisions: queue.gangs.iter().map(&mut decide).collect(),
    }
}

fn decide<'a>(cells: &mut Cells, gang: &'a Gang, blocker: &mut Option<&'a str>) -> Decision {
    if let Some(name) = blocker {
        if let Some(reason) = impossible(cells, gang) {
            return Decision::Impossible { reason };
        }
        let reason = format!("waits for its turn behind {name}");
        return Decision::Wait { reason };
    }
    let mut trial = cells.clone();
    if let Ok(slots) = fit(&mut trial, gang) {
        *cells = trial;
        return Decision::Place(slots);
    }
    if let Some(reason) = impossible(cells, gang) {
        return Decision::Impossible { reason };
    }
    *blocker = Some(&gang.name);
    Decision::Wait {
        reason: explain::waiting(cells, gang),
    }
}

/// Takes the gang's slots out of the cells, or names the first task that has no place.
pub(crate) fn fit(cells: &mut Cells, gang: &Gang) -> Result<Vec<Slot>, usize> {
    let mut slots = Vec::new();
    for group in &gang.groups {
        // Equal tasks: a node that is full for one is full for the next.
        let mut nodes = cells.nodes.iter_mut().peekable();
        let mut left = group.tasks;
        while left > 0 {
            let Some((id, node)) = nodes.peek_mut() else {
                return Err(slots.len());
            };
            if let Some(devices) = node.take(&group.need) {
                let node = (*id).clone();
                slots.push(Slot { node, devices });
                left -= 1;
            } else {
                nodes.next();
            }
        }
    }
    Ok(slots)
}

fn impossible(cells: &Cells, gang: &Gang) -> Option<String> {
    if cells.nodes.is_empty() {
        return None;
    }
    let mut empty = Cells {
        nodes: cells
            .nodes
            .iter()
            .map(|(id, node)| (id.clone(), node.emptied()))
            .collect(),
    };
    fit(&mut empty, gang).err()?;
    Some(explain::impossible(cells, gang))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fifo::cells::{Holder, Node, Size};
    use crate::fifo::queue::{Group, Need};
    use muster_model::node::Free;

    /// `n1=8/4` is a node with 8 cores and 4 GPUs, all free; `n1=8/4-2/2` has 2 and 2 in use.
    fn cells(text: &str) -> Cells {
        let mut cells = Cells::default();
        for word in text.split_whitespace() {
            let (id, size) = word.split_once('=').unwrap();
            let (size, used) = size.split_once('-').unwrap_or((size, "0/0"));
            let pair = |text: &str| {
                let (cpu, gpu) = text.split_once('/').unwrap();
                (cpu.parse::<u32>().unwrap(), gpu.parse::<u32>().unwrap())
            };
            let ((cpu, gpu), (cpu_used, gpu_used)) = (pair(size), pair(used));
            let device = |index| (index, DeviceId(format!("{id}-{index}")));
            let node = Node {
                size: Size {
                    cpu,
                    memory_mb: 1024,
                    gpu,
                    ports: 100,
                },
                free: Free {
                    cpu: cpu - cpu_used,
                    memory_mb: 1024,
                    devices: (gpu_used..gpu).map(device).collect(),
                    ports: 100,
                },
                holders: vec![Holder {
                    name: "bob~y".to_owned(),
                    cpu: cpu_used,
                    memory_mb: 0,
                    gpu: gpu_used,
                }],
            };
            cells.nodes.insert(id.parse().unwrap(), node);
        }
        cells
    }

    /// `a:2x1/1` is a gang with 2 tasks of 1 core and 1 GPU.
    fn queue(text: &str) -> Queue {
        let gang = |word: &str| {
            let (name, groups) = word.split_once(':').unwrap();
            let group = |text: &str| {
                let (tasks, need) = text.split_once('x').unwrap();
                let (cpu, gpu) = need.split_once('/').unwrap();
                Group {
                    tasks: tasks.parse().unwrap(),
                    need: Need {
                        cpu: cpu.parse().unwrap(),
                        gpu: gpu.parse().unwrap(),
                        memory_mb: 1,
                        ports: 2,
                    },
                }
            };
            Gang {
                name: name.to_owned(),
                groups: groups.split('+').map(group).collect(),
            }
        };
        Queue {
            gangs: text.split_whitespace().map(gang).collect(),
        }
    }

    fn show(decision: &Decision) -> String {
        match decision {
            Decision::Place(slots) => {
                let slot = |slot: &Slot| {
                    let devices: Vec<_> = slot.devices.iter().map(|d| d.0.to_string()).collect();
                    format!("{}[{}]", slot.node, devices.join(","))
                };
                slots.iter().map(slot).collect::<Vec<_>>().join(" ")
            }
            Decision::Wait { reason } => format!("wait: {reason}"),
            Decision::Impossible { reason } => format!("never: {reason}"),
        }
    }

    fn check(nodes: &str, gangs: &str, expected: &[&str]) {
        let plan = plan(&cells(nodes), &queue(gangs));
        let got: Vec<String> = plan.decisions.iter().map(show).collect();
        assert_eq!(got, expected, "{nodes} <- {gangs}");
    }

    #[test]
    fn placed_in_turn() {
        check("n1=8/4", "a:1x4/2 b:1x4/2", &["n1[0,1]", "n1[2,3]"]);
        check("n1=8/2 n2=8/2", "a:3x1/1", &["n1[0] n1[1] n2[0]"]);
        check("n1=4/0 n2=8/2", "a:1x6/0+1x4/0", &["n2[] n1[]"]);
        check("n1=8/4-0/2", "a:1x1/1", &["n1[2]"]);
    }

    #[test]
    fn waiting_stops_those_behind_but_impossible_does_not() {
        check(
            "n1=8/4-2/2",
            "a:1x1/4 b:1x1/1 c:1x16/0",
            &[
                "wait: needs 4 GPUs on one node; 2 are free on n1 (in use by bob~y)",
                "wait: waits for its turn behind a",
                "never: asks for 16 CPU cores, but the largest node has 8: \
                 it can never start here, ask for less",
            ],
        );
        check(
            "n1=8/4",
            "c:1x16/0 d:3x1/2 b:1x1/1",
            &[
                "never: asks for 16 CPU cores, but the largest node has 8: \
                 it can never start here, ask for less",
                "never: asks for 3 tasks at once (3 CPU cores, 6 GPUs), which do not fit into the \
                 whole cluster even when it is empty: it can never start here, ask for less",
                "n1[0]",
            ],
        );
    }

    #[test]
    fn reasons_read_well() {
        let table = [
            ("", "a:1x1/0", "wait: no node is connected"),
            (
                "n1=8/1-1/1",
                "a:1x1/1",
                "wait: needs 1 GPU on one node; none is free (in use by bob~y)",
            ),
            (
                "n1=8/0-7/0",
                "a:1x2/0",
                "wait: needs 2 CPU cores on one node; 1 is free on n1 (in use by bob~y)",
            ),
            (
                "n1=4/0-1/0 n2=4/0",
                "a:2x4/0",
                "wait: has room for 1 of its 2 tasks; the next one needs 4 CPU cores on one node; \
                 3 are free on n1 (in use by bob~y)",
            ),
            (
                "n1=8/0",
                "a:1x1/1",
                "never: asks for 1 GPU, but the largest node has none: \
                 it can never start here, ask for less",
            ),
        ];
        for (nodes, gangs, expected) in table {
            check(nodes, gangs, &[expected]);
        }
    }
}
