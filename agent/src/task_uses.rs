//! What tasks of this node use over time: a ring for each, in memory.
//!
//! The last hour is kept in steps of ten seconds and the day before in steps of five minutes, some 8 kB a task. Of
//! ended tasks the newest few are kept. After a restart of the agent it begins anew.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_exec::engine::Usage;
use muster_model::id::AttemptUid;
use muster_model::task_use::{TaskUse, TaskUseNow, UsePoint};

use crate::day_ring::{DayPoint, DayRing};

/// Ended tasks that are kept, and for how long.
const ENDED_MAX: usize = 128;
const ENDED_MS_MAX: u64 = 24 * 3_600_000;

/// The uses of this node's tasks. A cheap clone shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskUses {
    rings: Arc<Mutex<BTreeMap<AttemptUid, UseRing>>>,
}

/// One task's.
#[derive(Debug, Default)]
struct UseRing {
    points: DayRing<PackedPoint>,
    /// The last reading, and when.
    last: Option<(u64, Usage)>,
    /// The most memory of all readings, MiB.
    memory_mb_max: u32,
    /// When it was first missed.
    ended_ms: Option<u64>,
}

/// A point in 12 bytes.
#[derive(Clone, Copy, Debug)]
struct PackedPoint {
    at_s: u32,
    cpu_milli: u32,
    memory_mb: u32,
}

impl PackedPoint {
    fn view(self) -> UsePoint {
        UsePoint {
            at_ms: u64::from(self.at_s) * 1000,
            cpu_milli: self.cpu_milli,
            memory_mb: self.memory_mb,
        }
    }
}

impl DayPoint for PackedPoint {
    /// The mean of the CPU, and the most of the memory.
    fn merged(points: &[Self]) -> Self {
        let cpu: u64 = points.iter().map(|it| u64::from(it.cpu_milli)).sum();
        Self {
            at_s: points.last().map_or(0, |it| it.at_s),
            cpu_milli: small(cpu / points.len().max(1) as u64),
            memory_mb: points.iter().map(|it| it.memory_mb).max().unwrap_or(0),
        }
    }
}

impl TaskUses {
    /// Takes what the kernel's counters say of every task that runs now. A task that is not among them has ended.
    pub(crate) fn note(&self, now_ms: u64, used: &BTreeMap<AttemptUid, Usage>) {
        let mut rings = self.lock();
        for (uid, usage) in used {
            rings.entry(uid.clone()).or_default().push(now_ms, usage);
        }
        for (uid, ring) in rings.iter_mut() {
            if !used.contains_key(uid) {
                ring.ended_ms.get_or_insert(now_ms);
            }
        }
        forget(&mut rings, now_ms);
    }

    /// What is kept of a task; none if nothing is.
    pub(crate) fn kept(&self, uid: &AttemptUid) -> Option<TaskUse> {
        self.lock().get(uid).map(UseRing::view)
    }

    /// What a task uses now; none if it has ended.
    pub(crate) fn now(&self, uid: &AttemptUid) -> Option<TaskUseNow> {
        let rings = self.lock();
        let ring = rings.get(uid).filter(|ring| ring.ended_ms.is_none())?;
        let (point, (_, last)) = (ring.points.newest()?, ring.last?);
        Some(TaskUseNow {
            point: point.view(),
            cpu_usec: last.cpu_usec,
            disk: last.disk,
        })
    }

    /// The most memory that a task was seen with, MiB; 0 if it was never seen.
    pub(crate) fn memory_mb_max(&self, uid: &AttemptUid) -> u32 {
        self.lock().get(uid).map_or(0, |ring| ring.memory_mb_max)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AttemptUid, UseRing>> {
        // A ring that a panic left half changed lacks a point at most.
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops ended tasks that are too old or too many, the oldest first.
fn forget(rings: &mut BTreeMap<AttemptUid, UseRing>, now_ms: u64) {
    rings.retain(|_, ring| {
        let ended = ring.ended_ms.unwrap_or(now_ms);
        now_ms.saturating_sub(ended) <= ENDED_MS_MAX
    });
    let ended = rings
        .iter()
        .filter_map(|(uid, ring)| Some((ring.ended_ms?, uid.clone())));
    let mut ended: Vec<_> = ended.collect();
    ended.sort();
    let surplus = ended.len().saturating_sub(ENDED_MAX);
    for (_, uid) in ended.into_iter().take(surplus) {
        rings.remove(&uid);
    }
}

impl UseRing {
    fn push(&mut self, now_ms: u64, usage: &Usage) {
        self.ended_ms = None;
        let last = self.last.replace((now_ms, *usage));
        let cpu_milli = last.map_or(0, |(at_ms, last)| {
            let took_ms = now_ms.saturating_sub(at_ms).max(1);
            usage.cpu_usec.saturating_sub(last.cpu_usec) / took_ms
        });
        let point = PackedPoint {
            at_s: small(now_ms / 1000),
            cpu_milli: small(cpu_milli),
            memory_mb: small(usage.memory_bytes >> 20),
        };
        self.memory_mb_max = self.memory_mb_max.max(point.memory_mb);
        self.points.push(point);
    }

    fn view(&self) -> TaskUse {
        let points = self.points.points().map(PackedPoint::view);
        TaskUse {
            points: points.collect(),
            devices: Vec::new(),
        }
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::day_ring::{COARSE_MAX, FINE_IN_COARSE, FINE_MAX};

    fn usage(cpu_usec: u64, memory_mb: u64) -> Usage {
        Usage {
            cpu_usec,
            memory_bytes: memory_mb << 20,
            ..Usage::default()
        }
    }

    fn uid(name: &str) -> AttemptUid {
        name.parse().unwrap()
    }

    #[test]
    fn cpu_is_the_rate_between_two_readings() {
        let uses = TaskUses::default();
        for (second, cpu_usec, memory) in [
            (0, 5_000_000, 10),
            (10, 20_000_000, 20),
            (20, 20_000_000, 30),
        ] {
            let used = BTreeMap::from([(uid("a"), usage(cpu_usec, memory))]);
            uses.note(second * 1000, &used);
        }
        let points = uses.kept(&uid("a")).unwrap().points;
        let figures: Vec<_> = points
            .iter()
            .map(|it| (it.at_ms, it.cpu_milli, it.memory_mb))
            .collect();
        assert_eq!(figures, [(0, 0, 10), (10_000, 1500, 20), (20_000, 0, 30)]);
        assert!(uses.kept(&uid("b")).is_none());
    }

    #[test]
    fn a_day_is_kept_and_takes_bounded_memory() {
        let uses = TaskUses::default();
        for step in 0..30_000_u64 {
            let used = BTreeMap::from([(uid("a"), usage(step * 10_000_000, step % 100))]);
            uses.note(step * 10_000, &used);
        }
        let points = uses.kept(&uid("a")).unwrap().points;
        assert!(points.len() <= FINE_MAX + COARSE_MAX + FINE_IN_COARSE);
        assert!(points.is_sorted_by_key(|it| it.at_ms));
        assert!(points[1..].iter().all(|it| it.cpu_milli == 1000));
        let hours = (points[points.len() - 1].at_ms - points[0].at_ms) / 3_600_000;
        assert!((24..=25).contains(&hours), "{hours} h");
    }

    #[test]
    fn ended_tasks_are_kept_for_a_while_and_the_newest_stay() {
        let uses = TaskUses::default();
        for nth in 0..ENDED_MAX as u64 + 5 {
            let used = BTreeMap::from([(uid(&format!("t-{nth}")), usage(0, 1))]);
            uses.note(nth * 10_000, &used);
        }
        uses.note(2_000_000, &BTreeMap::new());
        assert!(uses.kept(&uid("t-0")).is_none(), "the oldest went first");
        assert!(uses.kept(&uid("t-132")).is_some());
        uses.note(2_000_000 + ENDED_MS_MAX + 1_000_000, &BTreeMap::new());
        assert!(uses.kept(&uid("t-132")).is_none());
    }
}
