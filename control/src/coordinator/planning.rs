//! Which waiting gang is reserved next.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::NodeId;
use muster_model::time::Time;
use muster_placement::{
    Cells, Decision, Gang, Group, Holder, Need, Node as Cell, Queue, Size, plan,
};

use super::node::Node;
use super::work::{Kind, Work};
use super::{Coordinator, Output};
use crate::gang::GangId;
use crate::vc::attempt::Phase;
use crate::vc::{Current, VcState};

/// A launch that takes longer is explained, seconds.
const SLOW_LAUNCH_S: u64 = 10;
/// Gangs that are planned at once.
const CHUNK: usize = 64;

/// What the last plan left behind.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Something changed since.
    pub(super) due: bool,
    /// When a gang's pause ends.
    pub(super) next: Option<Time>,
    /// Something waits for room.
    pub(super) blocked: bool,
    /// Why the gangs at the head of the queue wait.
    reasons: BTreeMap<GangId, String>,
    /// Whom the rest waits for.
    blocker: Option<String>,
    /// Gangs that no node could hold, and why; until a node's capacity changes.
    pub(super) impossible: BTreeMap<GangId, String>,
}

impl Coordinator {
    /// Plans the queue if anything changed.
    pub(super) fn plan(&mut self, state: &VcState, out: &mut Vec<Output>) {
        let pause_over = self.plan.next.is_some_and(|at| at <= self.now);
        if !self.plan.due && !pause_over {
            return;
        }
        self.plan.due = false;
        self.plan.reasons.clear();
        self.plan.blocker = None;
        self.plan.blocked = false;
        self.plan.impossible.retain(|gang, _| {
            let current = state.current(gang);
            current.is_some_and(|current| current.gang.phase == Phase::Waiting)
        });
        let (ready, next) = self.ready(state);
        self.plan.next = next;
        let mut cells: Option<Cells> = None;
        for chunk in ready.chunks(CHUNK) {
            let known = cells.get_or_insert_with(|| self.cells(state));
            if !self.plan_chunk(state, known, chunk, out) {
                return;
            }
            cells = None;
        }
    }

    /// The waiting gangs that may be planned now, and when the next one may.
    fn ready<'a>(&self, state: &'a VcState) -> (Vec<Current<'a>>, Option<Time>) {
        let mut ready = Vec::new();
        let mut next: Option<Time> = None;
        for current in state.waiting() {
            let work = self.work.get(&current.run.gang);
            let work = work.filter(|work| work.run == current.run);
            if work.is_some_and(|work| work.reserving.is_some())
                || self.plan.impossible.contains_key(&current.run.gang)
            {
                continue;
            }
            let pause = Time::from_millis(current.gang.not_before_ms);
            let at = work.map_or(pause, |work| work.retry_at.max(pause));
            if at <= self.now {
                ready.push(current);
            } else {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        (ready, next)
    }

    /// Plans some gangs; false when one of them must wait.
    fn plan_chunk(
        &mut self,
        state: &VcState,
        cells: &Cells,
        chunk: &[Current<'_>],
        out: &mut Vec<Output>,
    ) -> bool {
        let queue = Queue {
            gangs: chunk.iter().map(request).collect(),
        };
        for (current, decision) in chunk.iter().zip(plan(cells, &queue).decisions) {
            let gang = &current.run.gang;
            match decision {
                Decision::Place(slots) => {
                    self.reserve(current, slots);
                    self.steer(state, gang, out);
                }
                Decision::Wait { reason } => {
                    let name = current.job.accepted.key.to_string();
                    self.plan.blocker.get_or_insert(name);
                    self.plan.blocked = true;
                    self.plan.reasons.insert(gang.clone(), reason);
                }
                Decision::Impossible { reason } => {
                    self.plan.impossible.insert(gang.clone(), reason);
                }
            }
        }
        !self.plan.blocked
    }

    /// What is free, less what was asked for and not answered yet.
    fn cells(&self, state: &VcState) -> Cells {
        let mut cells = Cells::default();
        for (id, node) in &self.nodes {
            cells.nodes.insert(id.clone(), cell(node));
        }
        for work in self.work.values() {
            take_unanswered(work, &mut cells);
        }
        for current in state.live() {
            name_holders(&current, &mut cells);
        }
        cells
    }

    /// Why a gang waits, if it does.
    pub(super) fn reason(&self, current: &Current<'_>) -> Option<String> {
        match current.gang.phase {
            Phase::Waiting => {}
            Phase::Placed { at_ms } => return self.slow_launch(current, Time::from_millis(at_ms)),
            _ => return None,
        }
        let gang = &current.run.gang;
        if let Some(reason) = self.plan.impossible.get(gang) {
            return Some(reason.clone());
        }
        if let Some(reason) = self.plan.reasons.get(gang) {
            return Some(reason.clone());
        }
        let work = self.work.get(gang);
        if work.is_some_and(|work| work.reserving.is_some()) {
            return Some("its resources are being reserved".to_owned());
        }
        if current.gang.not_before_ms > 0 && self.plan.blocker.is_none() {
            return Some("waits for the end of the pause before another try".to_owned());
        }
        let blocker = self.plan.blocker.as_ref()?;
        Some(format!("waits for its turn behind {blocker}"))
    }
}

impl Coordinator {
    /// What a launch waits for that takes remarkably long.
    fn slow_launch(&self, current: &Current<'_>, placed: Time) -> Option<String> {
        let seconds = self.now.micros_since(placed) / 1_000_000;
        if seconds < SLOW_LAUNCH_S {
            return None;
        }
        let tasks = current.job.attempt.tasks_of(current.gang);
        let places = tasks.filter_map(|task| task.live());
        let nodes: BTreeSet<&str> = places.map(|place| place.node.as_str()).collect();
        let nodes = nodes.into_iter().collect::<Vec<_>>().join(", ");
        Some(format!(
            "waits for its containers on {nodes} for {seconds} s: a large image may be on its \
             way; `muster node show` there tells how the engine is"
        ))
    }
}

fn cell(node: &Node) -> Cell {
    Cell {
        size: Size::of(&node.capacity),
        free: node.free.free.clone(),
        holders: Vec::new(),
    }
}

fn take_unanswered(work: &Work, cells: &mut Cells) {
    let Some(reserving) = &work.reserving else {
        return;
    };
    for (id, asks) in &reserving.asks {
        let link = work.links.get(id);
        if link.is_some_and(|link| link.kind == Kind::Reserve && link.answered) {
            continue;
        }
        let Some(cell) = cells.nodes.get_mut(id) else {
            continue;
        };
        for ask in asks {
            cell.free.cpu = cell.free.cpu.saturating_sub(ask.cpu);
            cell.free.memory_mb = cell.free.memory_mb.saturating_sub(ask.memory_mb);
            cell.free
                .devices
                .retain(|device| !ask.devices.contains(device));
        }
    }
}

fn name_holders(current: &Current<'_>, cells: &mut Cells) {
    let job = &current.job.accepted;
    let mut sums: BTreeMap<NodeId, Holder> = BTreeMap::new();
    for task in current.job.attempt.tasks_of(current.gang) {
        let role = job.spec.roles.iter().find(|role| role.name == task.id.role);
        let (Some(place), Some(role)) = (task.live(), role) else {
            continue;
        };
        let sum = sums.entry(place.node.clone()).or_insert_with(|| Holder {
            name: job.key.to_string(),
            cpu: 0,
            memory_mb: 0,
            gpu: 0,
        });
        sum.cpu = sum.cpu.saturating_add(role.resources.cpu);
        sum.memory_mb = sum.memory_mb.saturating_add(role.resources.memory_mb);
        sum.gpu = sum.gpu.saturating_add(role.resources.gpu);
    }
    for (node, holder) in sums {
        if let Some(cell) = cells.nodes.get_mut(&node) {
            cell.holders.push(holder);
        }
    }
}

fn request(current: &Current<'_>) -> Gang {
    let spec = &current.job.accepted.spec;
    let group = |role: &muster_model::job::RoleSpec, tasks| Group {
        tasks,
        need: Need {
            cpu: role.resources.cpu,
            memory_mb: role.resources.memory_mb,
            gpu: role.resources.gpu,
            ports: role.resources.ports.iter().map(|(_, count)| count).sum(),
        },
    };
    let groups = match &current.gang.task {
        None => spec
            .roles
            .iter()
            .map(|role| group(role, role.instances))
            .collect(),
        Some(task) => {
            let own = spec.roles.iter().filter(|role| role.name == task.role);
            own.map(|role| group(role, 1)).collect()
        }
    };
    Gang {
        name: current.job.accepted.key.to_string(),
        groups,
    }
}
