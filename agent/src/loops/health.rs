//! The loop that owns the judge of this node's health: reads the kernel's log, is told what
//! looks find, and keeps what it made of both.
//!
//! Looks read files of drivers, which may hang. They are made by tasks of their own, so that the
//! log is read all the same.

mod breaker;
mod gate;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use muster_control::breaker::NodeQuarantines;
use muster_exec::health::judge::{GrantedDevice, HealthInput, HealthJudge, HealthOutput};
use muster_exec::health::kernel_log::{Boot, KernelLog};
use muster_exec::health::reading::{amd, ports, processes};
use muster_exec::health::rules::{HealthRules, OVERLAY_FILE};
use muster_model::health::{
    DeviceEvent, EventClass, HealthCheck, HealthState, HealthSubject, Quarantine,
};
use muster_model::node::Capacity;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

pub(crate) use breaker::BreakerTalk;
use gate::{DeviceGate, GateLook};

use super::hardware::HardwareState;
use super::node::NodeHandle;
use crate::causes::causes;
use crate::clock;
use crate::gpu_samples::{GpuSamples, NewestSamples};
use crate::health::{
    HealthEnds, HealthNow, HealthRequest, HealthStore, KeptHealth, NodeHealth, fault, reading,
};

/// Between two readings of the kernel's log.
const LOG_PAUSE: Duration = Duration::from_secs(1);
/// Between two looks at ports and at AMD's counters.
const LOOK_PAUSE: Duration = Duration::from_secs(10);
/// How long a look at ports may take that the end of a task waits for.
const PORTS_LIMIT: Duration = Duration::from_secs(1);
/// Evidence that changes without anything else is written this often.
const EVIDENCE_PAUSE: Duration = Duration::from_secs(300);
/// Looks at processes are as rare as this: they read a directory of each.
const LOOKS_PER_PROCESS_LOOK: u32 = 6;
/// Quarantines are held against what the breaker was asked as rarely as this, where nothing has just changed.
const TICKS_PER_QUESTION: u64 = 5;
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
    /// What the machine has, as it was seen last.
    capacity: Capacity,
    /// Why less is known than should be, for good.
    problems: Vec<String>,
    /// Why the administrator's rules are not the ones in use.
    rules_problem: Option<String>,
    /// Why what is known is not on disk.
    unwritten: Option<String>,
    /// PCI addresses of granted devices that were on the bus at the last look.
    on_bus: BTreeSet<String>,
    /// Those that were and are not.
    gone: BTreeSet<String>,
    /// Up to when the log was read to its end, milliseconds since the epoch.
    read_ms: u64,
    /// Told when a device has gone, so that the hardware is looked at.
    look: Arc<Notify>,
    ends: HealthEnds,
    /// Where devices are looked at for tasks; none before the loop runs.
    gate: Option<DeviceGate>,
    /// Something is to be written and shown.
    is_changed: bool,
    /// Only words are others than those that are shown, or on disk: a temperature.
    is_reworded: bool,
    /// When the file was written last.
    written: Instant,
}

/// Opens what an earlier life kept, and the log. `capacity` is what the machine has. `look` is told
/// when a device has gone.
///
/// # Errors
/// When the file of what is kept cannot be read.
pub(crate) fn open(
    config: HealthConfig,
    capacity: Capacity,
    look: Arc<Notify>,
) -> Result<(NodeHealth, HealthLoop)> {
    let opened = HealthStore::open(config.file.clone());
    let (store, kept, damage) = opened.with_context(|| config.file.display().to_string())?;
    let mut problems: Vec<String> = damage.into_iter().collect();
    let (rules, rules_problem) = rules(&config.root)?;
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
    let mut checks = judge.checks();
    kept.breaker.mark(&mut checks);
    let now = HealthNow {
        checks,
        problems: problems.iter().chain(&rules_problem).cloned().collect(),
        last_xids: log.as_ref().map(|_| kept.last_xids()),
    };
    let (handle, ends) = NodeHealth::new(now);
    let health_loop = HealthLoop {
        config,
        judge,
        kept,
        store,
        log,
        capacity,
        problems,
        rules_problem,
        unwritten: None,
        on_bus: BTreeSet::new(),
        gone: BTreeSet::new(),
        read_ms: 0,
        look,
        ends,
        gate: None,
        is_changed: true,
        is_reworded: false,
        written: Instant::now(),
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

impl HealthConfig {
    /// Whether a cgroup is one of a task of this agent.
    fn is_task(&self, group: &str) -> bool {
        group.contains(&format!("/{}/", self.cgroup_parent.trim_matches('/')))
    }
}

impl HealthLoop {
    /// Runs until nobody wants to know any more. `sample` has the GPUs sampled at once.
    pub(crate) async fn run(
        mut self,
        (hardware, node): (HardwareState, NodeHandle),
        (mut gpus, sample): (GpuSamples, Arc<Notify>),
        mut breaker: BreakerTalk,
    ) {
        let (sender, mut looks) = mpsc::channel(LOOKS_MAX);
        tokio::spawn(look_around(self.config.clone(), sender.clone()));
        self.gate = Some(DeviceGate {
            config: self.config.clone(),
            gpus: gpus.clone(),
            sample,
            looks: sender,
        });
        let mut hardware_now = hardware.clone();
        hardware_now.mark_changed();
        let mut tick = interval(LOG_PAUSE);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut ticks: u64 = 0;
        loop {
            tokio::select! {
                request = self.ends.requests.recv() => match request {
                    Some(request) => self.answer(request, &hardware, &node).await,
                    None => return,
                },
                Some(look) = looks.recv() => match look {
                    HealthLook::Found(input) => self.found(*input, &hardware, &node).await,
                    HealthLook::Gate(look) => {
                        self.read_log(&hardware, &node).await;
                        let samples = Arc::clone(&gpus.borrow_and_update());
                        self.sampled(&samples);
                        self.pass(*look);
                    }
                    HealthLook::Rules(rules) => self.take_rules(*rules),
                },
                Ok(()) = hardware_now.changed() => {
                    self.capacity = hardware_now.borrow_and_update().capacity.clone();
                    self.feed(HealthInput::Devices(known(&self.capacity)));
                }
                Ok(()) = gpus.changed() => {
                    let samples = Arc::clone(&gpus.borrow_and_update());
                    self.sampled(&samples);
                }
                Some((asked, Some(review))) = breaker.reviewed() => {
                    self.is_changed |= self.kept.breaker.answered(now_ms(), &asked, review);
                }
                _ = tick.tick() => {
                    self.watch_bus();
                    self.read_log(&hardware, &node).await;
                    self.feed(HealthInput::Tick);
                    ticks += 1;
                    if self.is_changed || ticks.is_multiple_of(TICKS_PER_QUESTION) {
                        let checks = self.judge.checks();
                        breaker.ask(self.quarantines(&checks));
                    }
                }
            }
            self.settle();
            breaker.tell(self.kept.breaker.held_back());
        }
    }

    /// What rules quarantine, as the breaker is asked. What it said of anything else is forgotten.
    fn quarantines(&mut self, checks: &[HealthCheck]) -> NodeQuarantines {
        let now = (checks, &self.capacity);
        self.kept.breaker.ask(now_ms(), now)
    }

    /// Takes what a look found.
    async fn found(&mut self, input: HealthInput, hardware: &HardwareState, node: &NodeHandle) {
        if matches!(input, HealthInput::Processes(_)) {
            let users = users(hardware, node).await;
            self.feed(HealthInput::Users(users));
        }
        self.feed(input);
    }

    /// Says whether devices may be used, by all that is known of them.
    fn pass(&mut self, look: GateLook) {
        self.watch_bus();
        self.feed(HealthInput::LeftBehind(look.left));
        self.settle();
        let checks = self.ends.now.borrow().checks.clone();
        let faults = look.devices.iter().filter_map(|device| {
            let pci = device.partition_of.as_ref().or(device.pci.as_ref());
            let is_gone = pci.is_some_and(|pci| self.gone.contains(pci));
            let gone = is_gone.then(|| "it is not on the PCI bus any more".to_owned());
            let fault = gone.or_else(|| fault(device, &checks))?;
            Some(format!("device {} is sick: {fault}", device.id.0))
        });
        let faults: Vec<String> = faults.collect();
        let passed = match faults.is_empty() {
            true => Ok(()),
            false => Err(faults.join("; ")),
        };
        // Who went away needs no answer.
        let _ = look.reply.send(passed);
    }

    /// Takes a round of samples.
    fn sampled(&mut self, samples: &NewestSamples) {
        let inputs = samples.nvidia.iter().filter_map(|sample| {
            let pci = sample.identity.pci.clone()?;
            let reading = reading(sample);
            Some(HealthInput::Gpu { pci, reading })
        });
        let mut out = Vec::new();
        self.judge.handle_all(now_ms(), inputs, &mut out);
        self.heed(out, false);
    }

    async fn answer(
        &mut self,
        request: HealthRequest,
        hardware: &HardwareState,
        node: &NodeHandle,
    ) {
        match request {
            HealthRequest::Gate { devices, reply } => {
                if let Some(gate) = self.gate.clone() {
                    tokio::spawn(gate.look(devices, self.capacity.clone(), reply));
                }
            }
            HealthRequest::Events { with_ports, reply } => {
                self.watch_bus();
                self.read_log(hardware, node).await;
                if with_ports {
                    self.look_at_ports().await;
                }
                let events = self.kept.events.iter().cloned();
                // Who went away needs no answer.
                let _ = reply.send(events.chain(self.judge.lost_ports()).collect());
            }
            HealthRequest::Mark {
                subject,
                mark,
                done,
            } => {
                // What was logged before the word lies before the boundary that it sets.
                self.read_log(hardware, node).await;
                self.keep(HealthInput::Person { subject, mark }, done);
            }
            HealthRequest::PortsAccepted { ports, done } => {
                self.keep(HealthInput::PortsAccepted(ports), done);
            }
        }
    }

    /// Takes a person's word, and says so once it is on disk.
    fn keep(&mut self, word: HealthInput, done: oneshot::Sender<()>) {
        self.feed(word);
        self.is_changed = true;
        self.settle();
        if self.unwritten.is_none() {
            // Who went away needs no answer.
            let _ = done.send(());
        }
    }

    /// Looks at the ports now. One that was lost since the last look may be why a task has ended.
    async fn look_at_ports(&mut self) {
        let root = self.config.root.clone();
        let look = tokio::task::spawn_blocking(move || ports(&root));
        match timeout(PORTS_LIMIT, look).await {
            Ok(Ok(ports)) => self.feed(HealthInput::Ports(ports)),
            Ok(Err(_)) | Err(_) => {
                tracing::warn!("the ports of the fabric cannot be looked at: their driver hangs");
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
    fn watch_bus(&mut self) {
        let bus = self.config.root.join(PCI_DEVICES);
        let mut lost = Vec::new();
        let devices = self.capacity.devices.iter();
        for device in devices.filter(|device| !device.simulated) {
            let Some(pci) = device.partition_of.as_ref().or(device.pci.as_ref()) else {
                continue;
            };
            if bus.join(pci).exists() {
                if !self.on_bus.contains(pci) {
                    self.on_bus.insert(pci.clone());
                    self.gone.remove(pci);
                }
            } else if self.on_bus.remove(pci) {
                self.gone.insert(pci.clone());
                lost.push((pci.clone(), device.id.clone()));
            }
        }
        for (pci, id) in lost {
            let text = format!("{pci} is not on the PCI bus any more");
            let subject = HealthSubject::Device {
                pci: Some(pci),
                id: Some(id),
            };
            self.note(event(subject, DEVICE_GONE, EventClass::Hardware, text));
            self.look.notify_one();
        }
    }

    /// Tells the judge, and keeps what it says.
    fn feed(&mut self, input: HealthInput) {
        let is_of_kernel = matches!(input, HealthInput::Kernel(_));
        let mut out = Vec::new();
        self.judge.handle(now_ms(), input, &mut out);
        self.heed(out, is_of_kernel);
    }

    /// Keeps what the judge says. `is_of_kernel`: of a line of the kernel's log.
    fn heed(&mut self, out: Vec<HealthOutput>, is_of_kernel: bool) {
        for output in out {
            match output {
                HealthOutput::Event(event) => self.note(event),
                HealthOutput::Changed(check) if self.is_only_reworded(&check) => {
                    self.is_reworded = true;
                }
                HealthOutput::Changed(check) => {
                    self.is_changed = true;
                    tell(&check);
                    if !is_of_kernel && check.effect() != Quarantine::None {
                        self.note(event_of(&check));
                    }
                }
                HealthOutput::Cleared(check) => {
                    self.is_changed = true;
                    let (check, subject) = (&check.name, check.subject.to_string());
                    tracing::info!(check, subject, "a health check is cleared");
                }
            }
        }
    }

    /// Whether a check is shown already but for its evidence.
    fn is_only_reworded(&self, check: &HealthCheck) -> bool {
        let shown = self.ends.now.borrow();
        let mut shown = shown.checks.iter();
        shown.any(|shown| {
            let reworded = HealthCheck {
                evidence: check.evidence.clone(),
                held_back: check.held_back.clone(),
                ..shown.clone()
            };
            reworded == *check
        })
    }

    /// The administrator's file of rules is another one than before.
    fn take_rules(&mut self, rules: Result<HealthRules, String>) {
        self.is_changed = true;
        match rules {
            Ok(rules) => {
                tracing::info!("the health rules have changed");
                self.judge.set_rules(rules);
                self.rules_problem = None;
            }
            Err(why) => {
                tracing::warn!(why, "the health rules of before stay in use");
                let problem = format!("the health rules of before are used: {why}");
                self.rules_problem = Some(problem);
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

    /// Writes what has changed, then shows it: what was acted on is known after a restart. Evidence
    /// that alone is otherwise, a temperature say, is shown at once and written now and then.
    fn settle(&mut self) {
        if !self.is_changed && !self.is_reworded {
            return;
        }
        let mut checks = self.judge.checks();
        self.quarantines(&checks);
        self.kept.breaker.mark(&mut checks);
        if self.is_changed || self.written.elapsed() >= EVIDENCE_PAUSE {
            self.write();
        }
        let problems = self.problems.iter().chain(&self.rules_problem);
        let now = HealthNow {
            checks,
            problems: problems.chain(&self.unwritten).cloned().collect(),
            last_xids: self.log.as_ref().map(|_| self.kept.last_xids()),
        };
        self.ends.now.send_if_modified(|shown| {
            let is_other = *shown != now;
            *shown = now;
            is_other
        });
    }

    fn write(&mut self) {
        self.kept.cursor = self.log.as_ref().map(|log| log.cursor().clone());
        self.kept.memory = self.judge.memory().clone();
        let written = tokio::task::block_in_place(|| self.store.write(&self.kept));
        self.written = Instant::now();
        self.is_reworded = false;
        self.is_changed = written.is_err();
        self.unwritten = written.err().map(|error| {
            let path = self.store.path().display();
            format!("{path} cannot be written, so faults of devices may be forgotten: {error}")
        });
    }
}

/// What was looked at beside the loop.
#[derive(Debug)]
enum HealthLook {
    /// The machine.
    Found(Box<HealthInput>),
    /// Devices that a task is about to get.
    Gate(Box<GateLook>),
    /// The administrator's file of rules, which is another one than before. The error says why it
    /// cannot be used.
    Rules(Box<Result<HealthRules, String>>),
}

/// Looks at ports, AMD's counters, processes and the file of rules, again and again.
async fn look_around(config: HealthConfig, sender: mpsc::Sender<HealthLook>) {
    let mut turn = 0;
    let mut rules_text = rules_text(&config.root);
    loop {
        let (config_now, with_processes) = (config.clone(), turn % LOOKS_PER_PROCESS_LOOK == 0);
        let looks = tokio::task::spawn_blocking(move || {
            let rules = changed_rules(&config_now.root, &mut rules_text);
            let rules = rules.map(|rules| HealthLook::Rules(Box::new(rules)));
            let found = looks(&config_now, with_processes).into_iter();
            let found = found.map(|input| HealthLook::Found(Box::new(input)));
            (found.chain(rules).collect::<Vec<HealthLook>>(), rules_text)
        });
        let Ok((looks, text)) = looks.await else {
            return;
        };
        rules_text = text;
        for look in looks {
            if sender.send(look).await.is_err() {
                return;
            }
        }
        turn += 1;
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// The bytes of the administrator's file of rules; none if there is none.
fn rules_text(root: &Path) -> Option<Vec<u8>> {
    std::fs::read(root.join(OVERLAY_FILE)).ok()
}

/// The administrator's rules, if their file is another one than before.
fn changed_rules(root: &Path, before: &mut Option<Vec<u8>>) -> Option<Result<HealthRules, String>> {
    let now = rules_text(root);
    if now == *before {
        return None;
    }
    *before = now;
    Some(HealthRules::read(root).map_err(|error| causes(&error)))
}

fn looks(config: &HealthConfig, with_processes: bool) -> Vec<HealthInput> {
    let root = &config.root;
    let mut inputs = vec![HealthInput::Ports(ports(root)), HealthInput::Amd(amd(root))];
    if with_processes {
        let processes = processes(root, |group| config.is_task(group));
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
