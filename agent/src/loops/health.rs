//! The loop that owns the judge of this node's health: reads the kernel's log, is told what
//! looks find, and keeps what it made of both.
//!
//! Looks read files of drivers, which may hang. They are made by tasks of their own, so that the
//! log is read all the same.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use muster_exec::health::judge::{GrantedDevice, HealthInput, HealthJudge, HealthOutput};
use muster_exec::health::kernel_log::{Boot, KernelLog};
use muster_exec::health::reading::{amd, ports, processes};
use muster_exec::health::rules::HealthRules;
use muster_model::health::{
    DeviceEvent, EventClass, HealthCheck, HealthState, HealthSubject, Quarantine,
};
use muster_model::node::Capacity;
use tokio::sync::{Notify, mpsc};
use tokio::time::{MissedTickBehavior, interval};

use super::hardware::HardwareState;
use super::node::NodeHandle;
use crate::causes::causes;
use crate::clock;
use crate::gpu_samples::{GpuSamples, NewestSamples};
use crate::health::{
    HealthEnds, HealthNow, HealthRequest, HealthStore, KeptHealth, NodeHealth, reading,
};

/// Between two readings of the kernel's log.
const LOG_PAUSE: Duration = Duration::from_secs(1);
/// Between two looks at ports and at AMD's counters.
const LOOK_PAUSE: Duration = Duration::from_secs(10);
/// Looks at processes are as rare as this: they read a directory of each.
const LOOKS_PER_PROCESS_LOOK: u32 = 6;
/// Looks that may wait for the loop.
const LOOKS_MAX: usize = 16;
/// Below a machine's root, a directory for each PCI function that is there.
const PCI_DEVICES: &str = "sys/bus/pci/devices";
/// The code of the event that a device is not on the bus any more.
const DEVICE_GONE: &str = "device-gone";

/// Where the loop reads.
#[derive(Clone, Debug)]
pub(crate) struct HealthConfig {
    /// The machine's file tree.
    pub(crate) root: PathBuf,
    /// The kernel's log, `/dev/kmsg` on a machine.
    pub(crate) kernel_log: PathBuf,
    /// The file of what is kept.
    pub(crate) file: PathBuf,
    /// The parent of all tasks' cgroups.
    pub(crate) cgroup_parent: String,
}

/// The loop.
#[derive(Debug)]
pub(crate) struct HealthLoop {
    config: HealthConfig,
    judge: HealthJudge,
    kept: KeptHealth,
    store: HealthStore,
    log: Option<KernelLog>,
    /// Why less is known than should be, for good.
    problems: Vec<String>,
    /// Why what is known is not on disk.
    unwritten: Option<String>,
    /// PCI addresses of granted devices that were on the bus at the last look.
    on_bus: BTreeSet<String>,
    /// Up to when the log was read to its end, milliseconds since the epoch.
    read_ms: u64,
    /// Told when a device has gone, so that the hardware is looked at.
    look: Arc<Notify>,
    ends: HealthEnds,
    is_changed: bool,
}

/// Opens what an earlier life kept, and the log. `look` is told when a device has gone.
///
/// # Errors
/// When the file of what is kept cannot be read.
pub(crate) fn open(config: HealthConfig, look: Arc<Notify>) -> Result<(NodeHealth, HealthLoop)> {
    let opened = HealthStore::open(config.file.clone());
    let (store, kept, damage) = opened.with_context(|| config.file.display().to_string())?;
    let mut problems: Vec<String> = damage.into_iter().collect();
    let (rules, wrong) = rules(&config.root)?;
    problems.extend(wrong);
    let boot = Boot::read(&config.root);
    let mut judge = HealthJudge::new(rules, kept.memory.clone());
    let mut log = None;
    match boot {
        Ok(boot) => {
            match KernelLog::open(&config.kernel_log, &boot, kept.cursor.clone()) {
                Ok(opened) => log = Some(opened),
                Err(error) => problems.push(format!(
                    "faults of devices that the kernel reports are not seen: {}",
                    causes(&error)
                )),
            }
            judge.handle(now_ms(), HealthInput::Boot(boot), &mut Vec::new());
        }
        Err(error) => problems.push(format!(
            "faults of devices that the kernel reports are not seen: {}",
            causes(&error)
        )),
    }
    let now = HealthNow {
        checks: judge.checks(),
        problems: problems.clone(),
    };
    let (handle, ends) = NodeHealth::new(now);
    let health_loop = HealthLoop {
        config,
        judge,
        kept,
        store,
        log,
        problems,
        unwritten: None,
        on_bus: BTreeSet::new(),
        read_ms: 0,
        look,
        ends,
        is_changed: true,
    };
    Ok((handle, health_loop))
}

/// The rules, and what is wrong with the administrator's file. Then the built-in ones hold.
fn rules(root: &Path) -> Result<(HealthRules, Option<String>)> {
    match HealthRules::read(root) {
        Ok(rules) => Ok((rules, None)),
        Err(error) => {
            let problem = format!("the built-in health rules are used: {}", causes(&error));
            Ok((HealthRules::built_in()?, Some(problem)))
        }
    }
}

impl HealthLoop {
    /// Runs until nobody wants to know any more.
    pub(crate) async fn run(
        mut self,
        hardware: HardwareState,
        mut gpus: GpuSamples,
        node: NodeHandle,
    ) {
        let (sender, mut looks) = mpsc::channel(LOOKS_MAX);
        tokio::spawn(look_around(self.config.clone(), sender));
        let mut hardware_now = hardware.clone();
        hardware_now.mark_changed();
        let mut tick = interval(LOG_PAUSE);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                request = self.ends.requests.recv() => match request {
                    Some(request) => self.answer(request, &hardware, &node).await,
                    None => return,
                },
                Some(input) = looks.recv() => self.feed(input),
                Ok(()) = hardware_now.changed() => {
                    let capacity = hardware_now.borrow_and_update().capacity.clone();
                    self.feed(HealthInput::Devices(known(&capacity)));
                }
                Ok(()) = gpus.changed() => {
                    let samples = Arc::clone(&gpus.borrow_and_update());
                    self.sampled(&samples);
                }
                _ = tick.tick() => {
                    self.watch_bus(&hardware);
                    self.read_log(&hardware, &node).await;
                    self.feed(HealthInput::Tick);
                }
            }
            self.settle();
        }
    }

    /// Takes a round of samples.
    fn sampled(&mut self, samples: &NewestSamples) {
        for sample in &samples.nvidia {
            let Some(pci) = sample.identity.pci.clone() else {
                continue;
            };
            let reading = reading(sample);
            self.feed(HealthInput::Gpu { pci, reading });
        }
    }

    async fn answer(
        &mut self,
        request: HealthRequest,
        hardware: &HardwareState,
        node: &NodeHandle,
    ) {
        match request {
            HealthRequest::Events(reply) => {
                self.watch_bus(hardware);
                self.read_log(hardware, node).await;
                // Who went away needs no answer.
                let _ = reply.send(self.kept.events.iter().cloned().collect());
            }
            HealthRequest::Mark {
                subject,
                mark,
                done,
            } => {
                // What was logged before the word lies before the boundary that it sets.
                self.read_log(hardware, node).await;
                self.feed(HealthInput::Person { subject, mark });
                self.is_changed = true;
                self.settle();
                if self.unwritten.is_none() {
                    let _ = done.send(());
                }
            }
        }
    }

    /// Reads what the kernel has logged since, and judges it.
    async fn read_log(&mut self, hardware: &HardwareState, node: &NodeHandle) {
        loop {
            let Some(log) = &mut self.log else {
                return;
            };
            let read = match log.read() {
                Ok(read) => read,
                Err(error) => {
                    tracing::warn!(error = causes(&error), "the kernel's log cannot be read");
                    return;
                }
            };
            if read.lost > 0 {
                let lost = read.lost;
                tracing::warn!(lost, "records of the kernel's log were overwritten unread");
            }
            if !read.events.is_empty() {
                let users = users(hardware, node).await;
                self.feed(HealthInput::Users(users));
                self.is_changed = true;
            }
            let now_ms = now_ms();
            for mut event in read.events {
                // The kernel counts on a clock that nobody corrects, and the time of its start is
                // known in whole seconds. Once the log was read to its end, what is new in it is
                // of this second.
                event.at_ms = match self.read_ms {
                    0 => event.at_ms.min(now_ms),
                    _ => now_ms,
                };
                self.feed(HealthInput::Kernel(event));
            }
            if !read.more {
                self.read_ms = now_ms;
                return;
            }
        }
    }

    /// Whether granted devices are still on the bus. The kernel tells nothing of one that a slot
    /// was emptied of.
    fn watch_bus(&mut self, hardware: &HardwareState) {
        let capacity = hardware.borrow().capacity.clone();
        let bus = self.config.root.join(PCI_DEVICES);
        for device in capacity.devices.iter().filter(|one| !one.simulated) {
            let Some(pci) = device.partition_of.as_ref().or(device.pci.as_ref()) else {
                continue;
            };
            if bus.join(pci).exists() {
                self.on_bus.insert(pci.clone());
            } else if self.on_bus.remove(pci) {
                let subject = HealthSubject::Device {
                    pci: Some(pci.clone()),
                    id: Some(device.id.clone()),
                };
                let text = format!("{pci} is not on the PCI bus any more");
                self.note(event(subject, DEVICE_GONE, EventClass::Hardware, text));
                self.look.notify_one();
            }
        }
    }

    /// Tells the judge, and keeps what it says.
    fn feed(&mut self, input: HealthInput) {
        let is_of_kernel = matches!(input, HealthInput::Kernel(_));
        let mut out = Vec::new();
        self.judge.handle(now_ms(), input, &mut out);
        for output in out {
            self.is_changed = true;
            match output {
                HealthOutput::Event(event) => self.note(event),
                HealthOutput::Changed(check) => {
                    tell(&check);
                    if !is_of_kernel && check.effect() != Quarantine::None {
                        self.note(event_of(&check));
                    }
                }
                HealthOutput::Cleared(check) => {
                    let (check, subject) = (&check.name, check.subject.to_string());
                    tracing::info!(check, subject, "a health check is cleared");
                }
            }
        }
    }

    /// Keeps an event that was not told before.
    fn note(&mut self, event: DeviceEvent) {
        let is_same = |other: &DeviceEvent| {
            (&other.subject, &other.code, other.at_ms) == (&event.subject, &event.code, event.at_ms)
                && other.text == event.text
        };
        if !self.kept.events.iter().any(is_same) {
            self.kept.note(event);
            self.is_changed = true;
        }
    }

    /// Writes what has changed, then shows it: what was acted on is known after a restart.
    fn settle(&mut self) {
        if !self.is_changed {
            return;
        }
        self.kept.cursor = self.log.as_ref().map(|log| log.cursor().clone());
        self.kept.memory = self.judge.memory().clone();
        let written = tokio::task::block_in_place(|| self.store.write(&self.kept));
        self.is_changed = written.is_err();
        self.unwritten = written.err().map(|error| {
            let path = self.store.path().display();
            format!("{path} cannot be written, so faults of devices may be forgotten: {error}")
        });
        let problems = self.problems.iter().chain(&self.unwritten).cloned();
        let now = HealthNow {
            checks: self.judge.checks(),
            problems: problems.collect(),
        };
        self.ends.now.send_if_modified(|shown| {
            let is_other = *shown != now;
            *shown = now;
            is_other
        });
    }
}

/// Looks at ports, AMD's counters and processes, again and again.
async fn look_around(config: HealthConfig, sender: mpsc::Sender<HealthInput>) {
    let mut turn = 0;
    loop {
        let (config_now, with_processes) = (config.clone(), turn % LOOKS_PER_PROCESS_LOOK == 0);
        let looks = tokio::task::spawn_blocking(move || looks(&config_now, with_processes));
        for input in looks.await.unwrap_or_default() {
            if sender.send(input).await.is_err() {
                return;
            }
        }
        turn += 1;
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

fn looks(config: &HealthConfig, with_processes: bool) -> Vec<HealthInput> {
    let root = &config.root;
    let mut inputs = vec![HealthInput::Ports(ports(root)), HealthInput::Amd(amd(root))];
    if with_processes {
        let parent = format!("/{}/", config.cgroup_parent.trim_matches('/'));
        let processes = processes(root, |group| group.contains(&parent));
        inputs.push(HealthInput::Processes(processes));
    }
    inputs
}

/// The granted devices that have an address.
fn known(capacity: &Capacity) -> Vec<GrantedDevice> {
    let devices = capacity.devices.iter().filter(|one| !one.simulated);
    let known = devices.filter_map(|device| {
        Some(GrantedDevice {
            pci: device.partition_of.clone().or_else(|| device.pci.clone())?,
            id: device.id.clone(),
            paths: device.paths.clone(),
        })
    });
    known.collect()
}

/// Who uses which device now.
async fn users(hardware: &HardwareState, node: &NodeHandle) -> Vec<(String, String)> {
    let Some(view) = node.view().await else {
        return Vec::new();
    };
    let devices = known(&hardware.borrow().capacity);
    let held = view.tasks.iter().flat_map(|task| {
        let user = task.job.split('~').next().unwrap_or_default();
        task.devices.iter().map(move |index| (*index, user))
    });
    let users = held.filter_map(|(index, user)| {
        let mut all = view.capacity.devices.iter();
        let device = all.find(|device| device.index == index)?;
        let known = devices.iter().find(|known| known.id == device.id)?;
        Some((known.pci.clone(), user.to_owned()))
    });
    users.collect()
}

fn tell(check: &HealthCheck) {
    let (name, subject) = (&check.name, check.subject.to_string());
    let (state, evidence) = (check.state.as_str(), &check.evidence);
    match check.state {
        HealthState::Good | HealthState::Unknown => {
            tracing::debug!(check = name, subject, state, evidence, "a health check");
        }
        HealthState::Warn | HealthState::Bad => {
            tracing::warn!(check = name, subject, state, evidence, "a health check");
        }
    }
}

/// What a look found that ends of tasks may be judged by.
fn event_of(check: &HealthCheck) -> DeviceEvent {
    let class = match check.effect() {
        Quarantine::Links => EventClass::Link,
        Quarantine::Device | Quarantine::Node => EventClass::Hardware,
        Quarantine::None => EventClass::Information,
    };
    DeviceEvent {
        at_ms: check.since_ms,
        ..event(
            check.subject.clone(),
            &check.name,
            class,
            check.evidence.clone(),
        )
    }
}

fn event(subject: HealthSubject, code: &str, class: EventClass, text: String) -> DeviceEvent {
    DeviceEvent {
        subject,
        at_ms: now_ms(),
        code: code.to_owned(),
        class,
        pid: None,
        text,
    }
}

fn now_ms() -> u64 {
    clock::now().as_millis()
}
