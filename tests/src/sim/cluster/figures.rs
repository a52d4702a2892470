//! How long things took, in virtual time.

use std::collections::BTreeMap;

use muster_consensus::GroupId;
use muster_control::gang::JobId;
use muster_control::vc::VcEntry;
use muster_model::time::Time;
use nix::time::ClockId;
use serde_json::{Value, json};

/// What is measured.
#[derive(Debug, Default)]
pub(super) struct ClusterFigures {
    /// When jobs were submitted, by group and name.
    submitted: BTreeMap<(GroupId, String), Time>,
    /// The same, of those that wait for their first placement.
    waiting: BTreeMap<(GroupId, JobId), Time>,
    /// Groups whose leader was lost, and when.
    headless: BTreeMap<GroupId, Time>,
    /// When the last first placement of a job was.
    last_placed: Option<Time>,
    /// From submission to placement, µs.
    placed_us: Vec<u64>,
    /// From the loss of a leader to the next placement, µs.
    failover_us: Vec<u64>,
    /// Processor time of this simulator in the group hosts of machines that lead, ns, while that is counted.
    led_ns: Option<u64>,
    /// What the clock itself takes of that each time, ns.
    clock_ns: u64,
}

/// Processor time of this thread, ns; 0 where the kernel does not say.
fn thread_ns() -> u64 {
    let now = ClockId::CLOCK_THREAD_CPUTIME_ID.now();
    let now = now.map(std::time::Duration::from);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

/// What this clock shows of nothing, ns: it is asked of the kernel.
fn nothing_ns() -> u64 {
    let mut all = [(); 1_001].map(|()| {
        let begun = thread_ns();
        thread_ns().saturating_sub(begun)
    });
    all.sort_unstable();
    all[all.len() / 2]
}

impl ClusterFigures {
    /// A user submits a job for the first time.
    pub(super) fn submits(&mut self, now: Time, group: GroupId, name: &str) {
        self.submitted.insert((group, name.to_owned()), now);
    }

    /// A virtual cluster goes on in another group.
    pub(super) fn recovered(&mut self, from: GroupId, to: GroupId) {
        let move_to = |group| if group == from { to } else { group };
        let submitted = std::mem::take(&mut self.submitted).into_iter();
        let submitted = submitted.map(|((group, name), at)| ((move_to(group), name), at));
        self.submitted = submitted.collect();
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let waiting = waiting.map(|((group, job), at)| ((move_to(group), job), at));
        self.waiting = waiting.collect();
    }

    /// From now on it is counted what leading costs.
    pub(super) fn count_leading(&mut self) {
        self.clock_ns = nothing_ns();
        self.led_ns = Some(0);
    }

    /// What leading has cost since then, µs.
    pub(super) fn led_us(&mut self) -> u64 {
        self.led_ns.take().unwrap_or(0) / 1_000
    }

    /// Does what a group host does. `leads`: whether its machine leads something.
    pub(super) fn timed<T>(&mut self, leads: bool, does: impl FnOnce() -> T) -> T {
        let Some(spent) = self.led_ns.as_mut().filter(|_| leads) else {
            return does();
        };
        let begun = thread_ns();
        let done = does();
        let took = thread_ns().saturating_sub(begun);
        *spent += took.saturating_sub(self.clock_ns);
        done
    }

    /// The leader of a group was lost.
    pub(super) fn lost_leader(&mut self, now: Time, group: GroupId) {
        self.headless.entry(group).or_insert(now);
    }

    /// An entry was committed.
    pub(super) fn committed(&mut self, now: Time, (group, index): (GroupId, u64), entry: &VcEntry) {
        match entry {
            VcEntry::Accept(job) => {
                let name = (group, job.key.to_string());
                if let Some(at) = self.submitted.remove(&name) {
                    self.waiting.insert((group, JobId(index)), at);
                }
            }
            VcEntry::Placed(placed) => {
                if let Some(at) = self.waiting.remove(&(group, placed.run.gang.job)) {
                    self.placed_us.push(now.micros_since(at));
                    self.last_placed = Some(now);
                }
                if let Some(at) = self.headless.remove(&group) {
                    self.failover_us.push(now.micros_since(at));
                }
            }
            _ => {}
        }
    }

    /// When a job was placed for the first time, the last of all.
    pub(super) const fn last_placed(&self) -> Option<Time> {
        self.last_placed
    }

    /// Whether jobs of a group that were submitted wait for their first placement.
    pub(super) fn is_waiting(&self, group: GroupId) -> bool {
        let accepted = self.waiting.keys().any(|(of, _)| *of == group);
        accepted || self.submitted.keys().any(|(of, _)| *of == group)
    }

    /// From submission to placement since this was asked last: percentiles, in milliseconds.
    pub(super) fn take_placed(&mut self) -> Value {
        percentiles(&mut std::mem::take(&mut self.placed_us))
    }

    /// Percentiles, in milliseconds.
    pub(super) fn report(&mut self) -> Value {
        json!({
            "submit_to_placed_ms": percentiles(&mut self.placed_us),
            "leader_lost_to_placed_ms": percentiles(&mut self.failover_us),
        })
    }
}

fn percentiles(all: &mut [u64]) -> Value {
    all.sort_unstable();
    let at = |percent: usize| {
        let place = (all.len() * percent).div_ceil(100).max(1) - 1;
        all.get(place).map(|us| *us as f64 / 1_000.0)
    };
    json!({"count": all.len(), "p50": at(50), "p99": at(99), "max": at(100)})
}
