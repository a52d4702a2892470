//! Looks at the hardware again and again: a device that falls sick is granted no more, one that
//! recovers is granted again. A task whose device has vanished is ended.

use std::sync::Arc;
use std::time::Duration;

use muster_model::health::{HealthCheck, HealthState};
use muster_model::node::{Capacity, Device, NodeTask};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::node::NodeHandle;
use crate::accepted::Accepted;
use crate::causes::causes;
use crate::config::Hardware;
use crate::executor::TaskStopper;
use crate::hardware::{self, Probed};
use crate::health::{HealthNow, is_of, with_faults};
use crate::waits::Calls;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(30);
/// A driver that needs longer hangs. It is still waited for, but told of.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// The fault of a device that was there.
const MISSING: &str = "it is not there any more";
/// Checks that mean that a device cannot be reached any more: a program that waits for it waits
/// for ever.
const VANISHED: [&str; 2] = ["xid 79", "gpu-gone"];

/// The hardware as it was seen last, with what is wrong with it.
pub(crate) type HardwareState = watch::Receiver<Probed>;

/// What the loop is made of.
#[derive(Debug)]
pub(crate) struct HardwareParts {
    pub(crate) config: Hardware,
    /// What the machine has, as the ledger was told at the start, but without the faults that
    /// checks of its health bring.
    pub(crate) known: Probed,
    /// What it should have.
    pub(crate) accepted: Accepted,
    pub(crate) health: watch::Receiver<HealthNow>,
    /// Told when the hardware is to be looked at now.
    pub(crate) look: Arc<Notify>,
    pub(crate) calls: Calls,
}

/// Starts the loop.
pub(crate) fn watch(mut parts: HardwareParts) -> (HardwareState, HardwareLoop) {
    parts.known.compare(&parts.accepted);
    let shown = parts.known.with_health(&parts.health.borrow());
    let (sender, state) = watch::channel(shown);
    (state, HardwareLoop { parts, sender })
}

/// The loop itself, until it is run.
#[derive(Debug)]
pub(crate) struct HardwareLoop {
    parts: HardwareParts,
    sender: watch::Sender<Probed>,
}

impl Probed {
    /// Adds what is missing of what was accepted to the problems.
    fn compare(&mut self, accepted: &Accepted) {
        let found = self.inventory.take();
        let missing = found.map(|found| accepted.note(found));
        self.problems.extend(missing.into_iter().flatten());
    }

    /// The same with what checks of the machine's health say.
    pub(crate) fn with_health(&self, health: &HealthNow) -> Self {
        let problems = self.problems.iter().chain(&health.problems);
        Self {
            capacity: with_faults(self.capacity.clone(), &health.checks),
            problems: problems.cloned().collect(),
            inventory: None,
        }
    }
}

impl HardwareLoop {
    /// Looks until nobody wants to know any more.
    pub(crate) async fn run(mut self, node: NodeHandle, stopper: TaskStopper) {
        while !self.sender.is_closed() {
            let mut health = self.parts.health.clone();
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => self.look().await,
                () = self.parts.look.notified() => self.look().await,
                changed = health.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.parts.health.mark_unchanged();
                }
            }
            self.show(&node, &stopper).await;
        }
    }

    /// Looks at the machine.
    async fn look(&mut self) {
        let config = self.parts.config.clone();
        let _call = self.parts.calls.begin();
        // A sick driver may hang; then a thread does, not the agent.
        let probe = tokio::task::spawn_blocking(move || hardware::probe(&config));
        match self.answer(probe).await {
            Some(Ok(mut probed)) => {
                probed.compare(&self.parts.accepted);
                let capacity = with_missing(&self.parts.known.capacity, probed.capacity);
                self.parts.known = Probed { capacity, ..probed };
            }
            Some(Err(error)) => {
                self.tell(format!("its hardware cannot be read: {}", causes(&error)));
            }
            None => {}
        }
    }

    /// Tells the ledger and all others what is there, and ends tasks whose device has vanished.
    async fn show(&self, node: &NodeHandle, stopper: &TaskStopper) {
        let health = self.parts.health.borrow().clone();
        let shown = self.parts.known.with_health(&health);
        if shown.capacity != self.sender.borrow().capacity {
            tracing::warn!("the hardware has changed");
            node.capacity(shown.capacity.clone());
        }
        let lost: Vec<&Device> = shown.capacity.devices.iter().collect();
        let lost: Vec<u32> = lost
            .into_iter()
            .filter(|device| has_vanished(device, &health.checks))
            .map(|device| device.index)
            .collect();
        self.sender.send_replace(shown);
        if lost.is_empty() {
            return;
        }
        let tasks = node.view().await.map(|view| view.tasks);
        for task in holders(&tasks.unwrap_or_default(), &lost) {
            if let Ok(uid) = task.uid.parse() {
                tracing::warn!(
                    task = task.uid,
                    "a device of the task has vanished; it is ended"
                );
                stopper.device_lost(&uid);
            }
        }
    }

    /// Waits for the probe as long as it takes; tells when that is too long.
    async fn answer<T>(&mut self, mut probe: JoinHandle<T>) -> Option<T> {
        match tokio::time::timeout(ANSWER_LIMIT, &mut probe).await {
            Ok(answer) => answer.ok(),
            Err(_) => {
                let seconds = ANSWER_LIMIT.as_secs();
                self.tell(format!(
                    "its GPU driver gave no answer for {seconds} s; restart the machine"
                ));
                probe.await.ok()
            }
        }
    }

    fn tell(&mut self, problem: String) {
        self.parts.known.problems = vec![problem.clone()];
        self.sender
            .send_modify(|state| state.problems = vec![problem]);
    }
}

/// Whether a device cannot be reached any more.
fn has_vanished(device: &Device, checks: &[HealthCheck]) -> bool {
    let is_missing = device.fault.as_deref() == Some(MISSING);
    is_missing
        || checks.iter().any(|check| {
            let is_standing = check.state == HealthState::Bad && !check.shadow;
            is_standing && VANISHED.contains(&&*check.name) && is_of(&check.subject, device)
        })
}

/// The tasks that run with one of these devices.
fn holders<'a>(tasks: &'a [NodeTask], devices: &'a [u32]) -> impl Iterator<Item = &'a NodeTask> {
    let held = tasks.iter().filter(|task| task.state == "Held");
    held.filter(|task| task.devices.iter().any(|index| devices.contains(index)))
}

/// What is there now, and what was there before with that as its fault: whoever holds a device
/// that fell off the bus must be able to see it. It stays near to the devices it was near to.
fn with_missing(known: &Capacity, mut now: Capacity) -> Capacity {
    let is_known = |device: &Device| known.devices.iter().any(|k| k.id == device.id);
    let is_missing = |device: &Device| !now.devices.iter().any(|found| found.id == device.id);
    if known.devices.iter().any(is_missing) {
        keep_indices(known, &mut now);
    }
    for device in &known.devices {
        if now.devices.iter().any(|found| found.id == device.id) {
            continue;
        }
        now.levels.clone_from(&known.levels);
        // One that the driver still counts but does not know: that is the one in its place.
        let nameless = |found: &Device| {
            found.index == device.index && found.fault.is_some() && !is_known(found)
        };
        let nameless = now.devices.iter().position(nameless);
        let fault = nameless.and_then(|at| now.devices.swap_remove(at).fault);
        now.devices.push(Device {
            fault: fault.or_else(|| Some(MISSING.to_owned())),
            ..device.clone()
        });
    }
    now.devices.sort_by_key(|device| device.index);
    now
}

/// Devices whose numbers are ours, and no driver's, keep them when one before them is gone.
fn keep_indices(known: &Capacity, now: &mut Capacity) {
    for device in now.devices.iter_mut().filter(|device| !device.is_nvidia()) {
        let same = known.devices.iter().find(|known| known.id == device.id);
        device.index = same.map_or(device.index, |same| same.index);
    }
}

#[cfg(test)]
mod tests {
    use muster_model::cluster_spec::Level;
    use muster_model::node::DeviceLevel;

    use super::*;

    fn capacity(devices: &[(&str, Option<&str>)]) -> Capacity {
        let device = |(index, (id, fault)): (u32, &(&str, Option<&str>))| Device {
            fault: fault.map(str::to_owned),
            simulated: false,
            ..Device::simulated(*id, index, "V100")
        };
        Capacity {
            cpu: 1,
            memory_mb: 1,
            devices: (0..).zip(devices).map(device).collect(),
            levels: Vec::new(),
            port_first: 1,
            port_last: 2,
        }
    }

    #[test]
    fn a_device_that_fell_off_stays_listed_with_that_fault() {
        let gone = Some("it is not there any more");
        for (known, now, expect) in [
            (vec![("a", None)], vec![("a", None)], vec![("a", None)]),
            (
                vec![("a", None)],
                vec![("a", Some("sick"))],
                vec![("a", Some("sick"))],
            ),
            (
                vec![("a", None), ("b", None)],
                vec![("a", None)],
                vec![("a", None), ("b", gone)],
            ),
            (vec![("a", gone)], vec![("a", None)], vec![("a", None)]),
            (vec![], vec![("a", None)], vec![("a", None)]),
        ] {
            assert_eq!(
                with_missing(&capacity(&known), capacity(&now)),
                capacity(&expect)
            );
        }
    }

    #[test]
    fn a_device_that_fell_off_keeps_its_name_and_its_place() {
        let pairs = DeviceLevel {
            level: Level::Pcie,
            groups: vec![vec![0, 1], vec![2, 3]],
        };
        let mut known = capacity(&[("a", None), ("b", None), ("c", None), ("d", None)]);
        known.levels.push(pairs);
        // The driver still counts it; three devices cannot be paired.
        let mut now = capacity(&[
            ("a", None),
            ("b", None),
            ("gpu-2", Some("lost")),
            ("d", None),
        ]);
        now.devices[2].model = "unknown".to_owned();
        let mut expect = known.clone();
        expect.devices[2].fault = Some("lost".to_owned());
        assert_eq!(with_missing(&known, now), expect);
        // What is all there is as it is seen now.
        let mut moved = known.clone();
        moved.levels.clear();
        assert_eq!(with_missing(&known, moved.clone()), moved);
        // A known device that is sick in another's place is not the missing one.
        let mut shifted = capacity(&[("a", None), ("c", Some("sick"))]);
        shifted.devices[1].index = 1;
        let seen = with_missing(&known, shifted);
        let faults = seen.devices.iter().map(|d| (&*d.id.0, d.fault.as_deref()));
        let gone = Some("it is not there any more");
        let expect = [("a", None), ("b", gone), ("c", Some("sick")), ("d", gone)];
        let mut faults: Vec<_> = faults.collect();
        faults.sort_unstable();
        assert_eq!(faults, expect);
    }

    #[test]
    fn other_vendors_devices_keep_their_numbers() {
        let mut known = capacity(&[("a", None), ("b", None), ("x", None)]);
        known.devices[2].vendor = "amd".to_owned();
        let mut now = known.clone();
        now.devices.remove(1);
        now.devices[1].index = 1;
        let mut expect = known.clone();
        expect.devices[1].fault = Some("it is not there any more".to_owned());
        assert_eq!(with_missing(&known, now), expect);
    }
}
