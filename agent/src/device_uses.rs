//! How busy this node's devices are over time: a ring for each, in memory, and which task held which.
//!
//! A device takes some 8 kB. After a restart of the agent it begins anew.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_exec::figures::DeviceLoad;
use muster_model::id::AttemptUid;
use muster_model::task_use::{DevicePoint, DeviceUse, DeviceUsed};

use crate::day_ring::{DayPoint, DayRing};

/// Devices that are kept. Those that were not sampled for longest are dropped first.
const DEVICES_MAX: usize = 64;
/// How long it is known after its end which devices a task had, and of how many tasks.
const ENDED_MS_MAX: u64 = 24 * 3_600_000;
const TASKS_MAX: usize = 512;

/// The uses of this node's devices. A cheap clone shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceUses {
    kept: Arc<Mutex<KeptUses>>,
}

#[derive(Debug, Default)]
struct KeptUses {
    /// By the device's lasting name.
    rings: BTreeMap<String, DeviceRing>,
    tasks: BTreeMap<AttemptUid, TaskDevices>,
}

#[derive(Debug, Default)]
struct DeviceRing {
    points: DayRing<PackedLoad>,
    last_ms: u64,
}

/// Which devices a task held, and when it was seen with them.
#[derive(Debug)]
struct TaskDevices {
    /// Index and lasting name.
    devices: Vec<(u32, String)>,
    first_ms: u64,
    last_ms: u64,
    /// What its devices did in all, by index.
    totals: BTreeMap<u32, DeviceTotal>,
}

/// Sums of all samples of a device while a task held it.
#[derive(Clone, Copy, Debug, Default)]
struct DeviceTotal {
    utilization_sum: u64,
    utilization_count: u64,
    memory_mb_max: Option<u32>,
}

impl DeviceTotal {
    fn add(&mut self, load: &DeviceLoad) {
        if let Some(utilization) = load.utilization {
            self.utilization_sum += u64::from(utilization);
            self.utilization_count += 1;
        }
        let memory_mb = load
            .memory_used
            .map(|bytes| packed(Some(bytes >> 20), u32::MAX));
        self.memory_mb_max = self.memory_mb_max.max(memory_mb);
    }

    fn used(self, index: u32) -> DeviceUsed {
        let mean = self.utilization_sum.checked_div(self.utilization_count);
        DeviceUsed {
            index,
            utilization: mean.map(|mean| packed(Some(mean), u8::MAX)),
            memory_mb: self.memory_mb_max,
        }
    }
}

/// A point in 12 bytes. The highest number stands for a figure that is not known.
#[derive(Clone, Copy, Debug)]
struct PackedLoad {
    at_s: u32,
    memory_mb: u32,
    power_w: u16,
    utilization: u8,
    temperature: u8,
}

impl DeviceUses {
    /// Takes a round of samples. `held` says which devices each task has, by index and lasting name.
    pub(crate) fn note(
        &self,
        now_ms: u64,
        loads: &[DeviceLoad],
        held: BTreeMap<AttemptUid, Vec<(u32, String)>>,
    ) {
        let mut kept = self.lock();
        for load in loads {
            let ring = kept.rings.entry(load.id.clone()).or_default();
            ring.points.push(PackedLoad::of(now_ms, load));
            ring.last_ms = now_ms;
        }
        for (uid, devices) in held {
            let task = kept.tasks.entry(uid).or_insert_with(|| TaskDevices {
                devices: Vec::new(),
                first_ms: now_ms,
                last_ms: now_ms,
                totals: BTreeMap::new(),
            });
            for (index, id) in &devices {
                if let Some(load) = loads.iter().find(|load| load.id == *id) {
                    task.totals.entry(*index).or_default().add(load);
                }
            }
            (task.devices, task.last_ms) = (devices, now_ms);
        }
        kept.forget(now_ms);
    }

    /// How busy the devices of a task were while it held them, without those that are not sampled.
    pub(crate) fn of(&self, uid: &AttemptUid) -> Vec<DeviceUse> {
        let kept = self.lock();
        let Some(task) = kept.tasks.get(uid) else {
            return Vec::new();
        };
        let times = task.first_ms / 1000..=task.last_ms / 1000;
        let of_device = |(index, id): &(u32, String)| {
            let points = kept.rings.get(id)?.points.points();
            let points = points.filter(|point| times.contains(&u64::from(point.at_s)));
            Some(DeviceUse {
                index: *index,
                points: points.map(PackedLoad::view).collect(),
            })
        };
        task.devices.iter().filter_map(of_device).collect()
    }

    /// What the devices of a task did in all while it held them, without those that are not sampled.
    pub(crate) fn totals(&self, uid: &AttemptUid) -> Vec<DeviceUsed> {
        let kept = self.lock();
        let totals = kept.tasks.get(uid).map(|task| &task.totals);
        let used = |(index, total): (&u32, &DeviceTotal)| total.used(*index);
        totals.into_iter().flatten().map(used).collect()
    }

    fn lock(&self) -> MutexGuard<'_, KeptUses> {
        // A ring that a panic left half changed lacks a point at most.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptUses {
    fn forget(&mut self, now_ms: u64) {
        self.tasks
            .retain(|_, task| now_ms.saturating_sub(task.last_ms) <= ENDED_MS_MAX);
        drop_oldest(&mut self.tasks, TASKS_MAX, |task| task.last_ms);
        drop_oldest(&mut self.rings, DEVICES_MAX, |ring| ring.last_ms);
    }
}

/// Leaves the newest ones.
fn drop_oldest<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, most: usize, at: fn(&V) -> u64) {
    while map.len() > most {
        let oldest = map.iter().min_by_key(|(_, value)| at(value));
        let Some(key) = oldest.map(|(key, _)| key.clone()) else {
            return;
        };
        map.remove(&key);
    }
}

impl PackedLoad {
    fn of(now_ms: u64, load: &DeviceLoad) -> Self {
        let memory_mb = load.memory_used.map(|bytes| bytes >> 20);
        Self {
            at_s: u32::try_from(now_ms / 1000).unwrap_or(u32::MAX),
            memory_mb: packed(memory_mb, u32::MAX),
            power_w: packed(load.power_mw.map(|mw| mw / 1000), u16::MAX),
            utilization: packed(load.utilization, u8::MAX),
            temperature: packed(load.temperature, u8::MAX),
        }
    }

    fn view(self) -> DevicePoint {
        DevicePoint {
            at_ms: u64::from(self.at_s) * 1000,
            utilization: known(self.utilization, u8::MAX),
            memory_mb: known(self.memory_mb, u32::MAX),
            power_w: known(self.power_w, u16::MAX),
            temperature: known(self.temperature, u8::MAX),
        }
    }
}

/// A figure in its place, or what stands for none.
fn packed<W, N: TryFrom<W>>(figure: Option<W>, none: N) -> N {
    let figure = figure.and_then(|figure| N::try_from(figure).ok());
    figure.unwrap_or(none)
}

fn known<N: PartialEq>(figure: N, none: N) -> Option<N> {
    (figure != none).then_some(figure)
}

impl DayPoint for PackedLoad {
    /// The means of utilization and power, the most of memory and heat.
    fn merged(points: &[Self]) -> Self {
        let all = |read: fn(&Self) -> Option<u32>| points.iter().filter_map(read);
        let mean = |read: fn(&Self) -> Option<u32>| {
            let count = u32::try_from(all(read).count()).unwrap_or(u32::MAX);
            let sum: u32 = all(read).sum();
            sum.checked_div(count)
        };
        let utilization = mean(|it| known(it.utilization, u8::MAX).map(u32::from));
        let power = mean(|it| known(it.power_w, u16::MAX).map(u32::from));
        let heat = all(|it| known(it.temperature, u8::MAX).map(u32::from)).max();
        Self {
            at_s: points.last().map_or(0, |it| it.at_s),
            memory_mb: packed(all(|it| known(it.memory_mb, u32::MAX)).max(), u32::MAX),
            power_w: packed(power, u16::MAX),
            utilization: packed(utilization, u8::MAX),
            temperature: packed(heat, u8::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::day_ring::{COARSE_MAX, FINE_IN_COARSE, FINE_MAX};

    fn load(id: &str, utilization: u32) -> DeviceLoad {
        DeviceLoad {
            id: id.to_owned(),
            utilization: Some(utilization),
            memory_used: Some(1 << 30),
            power_mw: Some(250_500),
            ..DeviceLoad::default()
        }
    }

    fn held(uid: &str, devices: &[(u32, &str)]) -> BTreeMap<AttemptUid, Vec<(u32, String)>> {
        let devices = devices.iter().map(|(index, id)| (*index, (*id).to_owned()));
        BTreeMap::from([(uid.parse().unwrap(), devices.collect())])
    }

    #[test]
    fn a_task_is_told_of_its_own_devices_in_its_own_time() {
        let uses = DeviceUses::default();
        let loads = |utilization| [load("GPU-a", utilization), load("GPU-b", 1)];
        uses.note(10_000, &loads(10), BTreeMap::new());
        uses.note(20_000, &loads(20), held("a", &[(3, "GPU-a"), (4, "GPU-x")]));
        uses.note(30_000, &loads(30), held("a", &[(3, "GPU-a"), (4, "GPU-x")]));
        uses.note(40_000, &loads(40), held("b", &[(3, "GPU-a")]));
        let found = uses.of(&"a".parse().unwrap());
        let point = |at_ms, utilization| DevicePoint {
            at_ms,
            utilization: Some(utilization),
            memory_mb: Some(1024),
            power_w: Some(250),
            temperature: None,
        };
        let expect = DeviceUse {
            index: 3,
            points: vec![point(20_000, 20), point(30_000, 30)],
        };
        assert_eq!(found, [expect]);
        assert_eq!(uses.of(&"c".parse().unwrap()), []);
    }

    /// A round of two devices: the first one's utilization, and the memory that it uses in MiB.
    fn round(utilization: Option<u32>, memory_mb: Option<u64>) -> [DeviceLoad; 2] {
        let first = DeviceLoad {
            utilization,
            memory_used: memory_mb.map(|mb| mb << 20),
            ..load("GPU-a", 0)
        };
        [first, load("GPU-b", 100)]
    }

    fn used(index: u32, utilization: Option<u8>, memory_mb: Option<u32>) -> DeviceUsed {
        DeviceUsed {
            index,
            utilization,
            memory_mb,
        }
    }

    #[test]
    fn the_total_of_a_device_is_the_mean_and_the_most_memory_of_its_task_s_rounds() {
        let uses = DeviceUses::default();
        let task = "a".parse().unwrap();
        let all = [(0, "GPU-a"), (1, "GPU-b"), (2, "GPU-x")];
        uses.note(0, &round(Some(100), Some(9_000)), BTreeMap::new());
        assert_eq!(uses.totals(&task), []);
        // The last round is of another task.
        let rounds = [
            (Some(90), Some(2_000), "a"),
            (None, Some(3_000), "a"),
            (Some(31), None, "a"),
            (Some(0), Some(1_000), "a"),
            (Some(100), Some(8_000), "b"),
        ];
        for (at_s, (utilization, memory_mb, task)) in (1..).zip(rounds) {
            let loads = round(utilization, memory_mb);
            uses.note(at_s * 1000, &loads, held(task, &all));
        }
        // 121 in three rounds that say something of it.
        let expect = [
            used(0, Some(40), Some(3_000)),
            used(1, Some(100), Some(1_024)),
        ];
        assert_eq!(uses.totals(&task), expect);
    }

    #[test]
    fn a_figure_that_no_round_has_is_not_known_in_all() {
        let uses = DeviceUses::default();
        let task = "a".parse().unwrap();
        let only = [(3, "GPU-a")];
        uses.note(0, &round(None, None), held("a", &only));
        assert_eq!(uses.totals(&task), [used(3, None, None)]);
        uses.note(1000, &round(None, Some(0)), held("a", &only));
        assert_eq!(uses.totals(&task), [used(3, None, Some(0))]);
        uses.note(2000, &round(Some(0), None), held("a", &only));
        assert_eq!(uses.totals(&task), [used(3, Some(0), Some(0))]);
    }

    #[test]
    fn a_day_is_kept_and_takes_bounded_memory() {
        let uses = DeviceUses::default();
        for step in 0..30_000_u64 {
            let utilization = u32::try_from(step % 2 * 100).unwrap();
            let now_ms = step * 10_000;
            uses.note(
                now_ms,
                &[load("GPU-a", utilization)],
                held("a", &[(0, "GPU-a")]),
            );
        }
        let found = uses.of(&"a".parse().unwrap());
        let points = &found[0].points;
        assert!(points.len() <= FINE_MAX + COARSE_MAX + FINE_IN_COARSE);
        assert!(points.is_sorted_by_key(|it| it.at_ms));
        assert_eq!(
            points[0].utilization,
            Some(50),
            "the mean of several minutes"
        );
        assert_eq!(points[0].temperature, None);
        assert_eq!(size_of::<PackedLoad>(), 12);
        for nth in 0..TASKS_MAX as u64 + 5 {
            let now_ms = 400_000_000 + nth;
            uses.note(now_ms, &[], held(&format!("t-{nth}"), &[]));
            uses.note(now_ms, &[load(&format!("GPU-{nth}"), 0)], BTreeMap::new());
        }
        let kept = uses.lock();
        assert_eq!(
            (kept.tasks.len(), kept.rings.len()),
            (TASKS_MAX, DEVICES_MAX)
        );
        assert!(!kept.rings.contains_key("GPU-a"), "the oldest goes first");
    }
}
