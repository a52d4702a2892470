//! The judge of a node's health: a pure state machine that is told what was seen.
//!
//! What stands is cleared by time, by data, or by a boundary: a reset, a restart of the machine,
//! a repair. What lies before a boundary does not count. Before and after go by the order of
//! inputs, for the clock of the kernel's log is not that of the machine: the caller reads the
//! log to its end before it tells a boundary.

mod amd;
mod check;
mod escalation;
mod event;
mod gpu;
mod memory;
mod port;
mod process;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use muster_model::health::{DeviceEvent, HealthCheck, HealthState, HealthSubject, PersonMark};
use muster_model::node::DeviceId;

pub use check::HELD;
pub use memory::HealthMemory;
use memory::{Hold, PartMemory, Standing};

use super::kernel_log::{Boot, KernelEvent};
use super::reading::{AmdReading, GpuReading, PortReading, ProcessReading};
use super::rules::{ClearedBy, HealthRules};

/// What the judge is told.
#[derive(Clone, Debug)]
pub enum HealthInput {
    /// Which boot this is: the first input after a start.
    Boot(Boot),
    /// All devices that the machine grants: again whenever they change.
    Devices(Vec<GrantedDevice>),
    /// Who uses which device now, all of them: its PCI address and the user.
    Users(Vec<(String, String)>),
    /// An event of the kernel's log.
    Kernel(KernelEvent),
    /// A look at a GPU.
    Gpu {
        /// Its PCI address.
        pci: String,
        /// What its driver told.
        reading: GpuReading,
    },
    /// A driver did not answer for a GPU within its deadline.
    GpuSilent {
        /// Its PCI address.
        pci: String,
    },
    /// A look at all of AMD's GPUs.
    Amd(Vec<AmdReading>),
    /// A look at all ports of the fabric.
    Ports(Vec<PortReading>),
    /// A look at all processes that hang or hold devices.
    Processes(Vec<ProcessReading>),
    /// Processes of tasks that hold devices right before others get these: their own tasks have
    /// ended.
    LeftBehind(Vec<ProcessReading>),
    /// The device at a PCI address was reset.
    Reset {
        /// The address.
        pci: String,
    },
    /// A person accepts that the machine has these ports of the fabric, and no others.
    PortsAccepted(Vec<HealthSubject>),
    /// A person says something of a part.
    Person {
        /// The part.
        subject: HealthSubject,
        /// What.
        mark: PersonMark,
    },
    /// Nothing: time has passed.
    Tick,
}

/// A device that the machine grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedDevice {
    /// Its PCI address in the kernel's form. Partitions of a card share it.
    pub pci: String,
    /// The name that it is granted by.
    pub id: DeviceId,
    /// Its own device files: `/dev/nvidia0`, `/dev/dri/renderD128`.
    pub paths: Vec<String>,
}

/// What the judge says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthOutput {
    /// Something happened that the end of a task may be judged by.
    Event(DeviceEvent),
    /// A check is new, or is not what it was.
    Changed(HealthCheck),
    /// A check is cleared, and no longer listed. It is told as it last was.
    Cleared(HealthCheck),
}

/// The judge.
#[derive(Clone, Debug)]
pub struct HealthJudge {
    rules: HealthRules,
    memory: HealthMemory,
    devices: Vec<GrantedDevice>,
    users: BTreeMap<String, Vec<String>>,
}

impl HealthJudge {
    /// A judge that goes on from what an earlier one kept.
    pub fn new(rules: HealthRules, memory: HealthMemory) -> Self {
        Self {
            rules,
            memory,
            devices: Vec::new(),
            users: BTreeMap::new(),
        }
    }

    /// What has to be kept over restarts of the agent.
    pub fn memory(&self) -> &HealthMemory {
        &self.memory
    }

    /// Judges by other rules from now on. What stands is shown by them at once.
    pub fn set_rules(&mut self, rules: HealthRules) {
        self.rules = rules;
    }

    /// Takes an input. `now_ms` is the machine's clock, milliseconds since the epoch.
    pub fn handle(&mut self, now_ms: u64, input: HealthInput, out: &mut Vec<HealthOutput>) {
        // Most ticks change nothing, and a machine has hundreds of checks.
        let is_due = || self.deadline().is_some_and(|due| due <= now_ms);
        if !matches!(input, HealthInput::Tick) || is_due() {
            self.handle_all(now_ms, [input], out);
        }
    }

    /// Takes inputs of one moment. What has changed is told once.
    pub fn handle_all(
        &mut self,
        now_ms: u64,
        inputs: impl IntoIterator<Item = HealthInput>,
        out: &mut Vec<HealthOutput>,
    ) {
        let before = self.checks();
        self.expire(now_ms);
        for input in inputs {
            self.take(now_ms, input, out);
        }
        self.differences(before, out);
    }

    /// When a check is cleared by time: the next input is due then, a tick if there is no other.
    pub fn deadline(&self) -> Option<u64> {
        let standing = self.memory.parts.iter().flat_map(|part| &part.standing);
        let ends = standing.filter_map(|(rule, standing)| self.ends_at(rule, standing));
        ends.min()
    }

    fn take(&mut self, now_ms: u64, input: HealthInput, out: &mut Vec<HealthOutput>) {
        match input {
            HealthInput::Boot(boot) => self.boot(boot),
            HealthInput::Devices(devices) => self.devices = devices,
            HealthInput::Users(users) => {
                self.users.clear();
                for (pci, user) in users {
                    self.users.entry(pci).or_default().push(user);
                }
            }
            HealthInput::Kernel(event) => self.kernel(&event, out),
            HealthInput::Gpu { pci, reading } => self.gpu(now_ms, &pci, &reading),
            HealthInput::GpuSilent { pci } => self.gpu_silent(now_ms, &pci),
            HealthInput::Amd(readings) => self.amd(now_ms, &readings),
            HealthInput::Ports(readings) => self.ports(now_ms, &readings),
            HealthInput::Processes(readings) => self.processes(now_ms, &readings),
            HealthInput::LeftBehind(readings) => self.left_behind(now_ms, &readings),
            HealthInput::Reset { pci } => {
                let part = self.memory.part(&HealthSubject::at(pci));
                boundary(&self.rules, part, ClearedBy::Reset);
            }
            HealthInput::PortsAccepted(ports) => self.ports_accepted(&ports),
            HealthInput::Person { subject, mark } => self.person(now_ms, &subject, mark),
            HealthInput::Tick => {}
        }
    }

    /// Another boot than the one before is a boundary for all parts.
    fn boot(&mut self, boot: Boot) {
        if boot.id == self.memory.boot.id {
            return;
        }
        for part in &mut self.memory.parts {
            boundary(&self.rules, part, ClearedBy::Reboot);
        }
        self.memory.last = None;
        self.memory.looks.clear();
        self.memory.boot = boot;
    }

    fn person(&mut self, now_ms: u64, subject: &HealthSubject, mark: PersonMark) {
        let subject = self.key(subject);
        let part = self.memory.part(&subject);
        match mark {
            PersonMark::Held { by, why } => {
                let since_ms = part.hold.as_ref().map_or(now_ms, |hold| hold.since_ms);
                part.hold = Some(Hold { by, why, since_ms });
            }
            PersonMark::Released => part.hold = None,
            PersonMark::Repaired => boundary(&self.rules, part, ClearedBy::Repair),
        }
    }

    /// A part is kept under its PCI address where that is known.
    fn key(&self, subject: &HealthSubject) -> HealthSubject {
        let HealthSubject::Device { pci, id } = subject else {
            return subject.clone();
        };
        let known = self
            .devices
            .iter()
            .find(|device| Some(&device.id) == id.as_ref());
        let pci = pci
            .clone()
            .or_else(|| known.map(|device| device.pci.clone()));
        match pci {
            Some(pci) => HealthSubject::at(pci),
            None => subject.clone(),
        }
    }

    /// When time clears a check of an event. Those of samples are cleared by looks.
    fn ends_at(&self, rule: &str, standing: &Standing) -> Option<u64> {
        let rule = self.rules.of_code(rule)?;
        let by_time = rule.clears != ClearedBy::Data;
        let sticky_s = rule.sticky_s.filter(|_| by_time)?;
        Some(standing.seen_ms.saturating_add(sticky_s * 1000))
    }

    fn expire(&mut self, now_ms: u64) {
        let over: Vec<(usize, String)> = self
            .memory
            .parts
            .iter()
            .enumerate()
            .flat_map(|(at, part)| {
                let standing = part.standing.iter();
                let over = standing.filter(|(rule, standing)| {
                    let end = self.ends_at(rule, standing);
                    end.is_some_and(|end| end <= now_ms)
                });
                over.map(move |(rule, _)| (at, rule.clone()))
            })
            .collect();
        for (at, rule) in over {
            self.memory.parts[at].standing.remove(&rule);
        }
    }
}

/// A reset, a restart or a repair of a part: clears what it clears, and forgets what it ends.
fn boundary(rules: &HealthRules, part: &mut PartMemory, by: ClearedBy) {
    part.standing.retain(|name, _| {
        let rule = rules.of_code(name);
        rule.is_some_and(|rule| rule.clears > by)
    });
    part.action = 0;
    if by == ClearedBy::Repair {
        let hold = part.hold.take();
        *part = PartMemory::new(part.subject.clone());
        part.hold = hold;
    } else {
        // Fatal incidents are counted over resets: a GPU that needs one every day is no good.
        part.past.retain(|event| event.is_fatal);
        part.gpu.silent_since_ms = None;
        part.gpu.slow.clear();
        part.gpu.corrected = None;
        part.port.is_down_since_ms = None;
        part.port.link_downed = None;
    }
}

/// What a look found of a rule: evidence if it is a sign, none if it is well.
type Look = (&'static str, Option<String>);

impl HealthJudge {
    /// Notes what looks found of a part. A rule with a time is well only after that time.
    fn looked(&mut self, now_ms: u64, subject: &HealthSubject, looks: Vec<Look>) {
        for (name, evidence) in looks {
            match evidence {
                Some(evidence) => self.raise(now_ms, subject, name, evidence),
                None => self.well(now_ms, subject, name),
            }
        }
    }

    fn raise(&mut self, now_ms: u64, subject: &HealthSubject, name: &str, evidence: String) {
        let Some(rule) = self.rules.of_code(name) else {
            return;
        };
        let state = rule.state;
        self.stand(now_ms, subject, name, (state, evidence));
    }

    fn stand(
        &mut self,
        now_ms: u64,
        subject: &HealthSubject,
        name: &str,
        (state, evidence): (HealthState, String),
    ) {
        let part = self.memory.part(subject);
        let earlier = part.standing.get(name);
        let since_ms = earlier.filter(|it| it.state == state).map(|it| it.since_ms);
        let standing = Standing {
            state,
            evidence,
            since_ms: since_ms.unwrap_or(now_ms),
            seen_ms: now_ms,
            is_mild: false,
        };
        part.standing.insert(name.to_owned(), standing);
        if since_ms.is_none() && state == HealthState::Bad {
            self.count_reset(now_ms, subject, name);
        }
    }

    fn well(&mut self, now_ms: u64, subject: &HealthSubject, name: &str) {
        let rule = self.rules.of_code(name);
        let sticky_ms = rule.and_then(|rule| rule.sticky_s).unwrap_or(0) * 1000;
        let part = self.memory.part(subject);
        let is_sticky = |standing: &Standing| {
            standing.state != HealthState::Good
                && now_ms < standing.seen_ms.saturating_add(sticky_ms)
        };
        if part.standing.get(name).is_some_and(is_sticky) {
            return;
        }
        let evidence = "It was looked at, and is well.".to_owned();
        self.stand(now_ms, subject, name, (HealthState::Good, evidence));
    }
}
