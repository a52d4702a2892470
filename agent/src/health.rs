//! The health of this node's parts: what the judge says of them, for those that grant, launch,
//! judge and show.

mod breaker;
mod parts;
mod reading;
mod store;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use muster_model::health::{DeviceEvent, HealthCheck, HealthSubject, PersonMark, Quarantine};
use muster_model::node::{Capacity, Device};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

pub(crate) use breaker::BreakerWords;
pub(crate) use parts::NodeParts;
pub(crate) use reading::reading;
pub(crate) use store::{HealthStore, KeptHealth};

/// How long a reader of events waits for the loop, which reads the kernel's log first.
const EVENTS_LIMIT: Duration = Duration::from_secs(2);
/// How long the look at devices before a task's start may take.
const GATE_LIMIT: Duration = Duration::from_secs(20);
/// Requests that may wait.
const QUEUE_MAX: usize = 256;

/// The checks of this node's parts, as the judge lists them now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HealthNow {
    /// What stands, good checks included.
    pub(crate) checks: Vec<HealthCheck>,
    /// Why less is known than should be, as sentences: a log that cannot be read, a file of
    /// rules that is wrong.
    pub(crate) problems: Vec<String>,
    /// The number of the last Xid of each GPU that has had one, by PCI address. None if the kernel's log cannot be
    /// read.
    pub(crate) last_xids: Option<BTreeMap<String, u32>>,
}

/// A wish of those who hold [`NodeHealth`].
#[derive(Debug)]
pub(crate) enum HealthRequest {
    /// All events that are kept, the newest of the kernel's log included.
    Events {
        /// Whether ports of the fabric are of interest, and so looked at now.
        with_ports: bool,
        /// Who wants them.
        reply: oneshot::Sender<Vec<DeviceEvent>>,
    },
    /// Devices are looked at before a task gets them.
    Gate {
        /// The devices.
        devices: Vec<Device>,
        /// The error says why they are not to be used.
        reply: oneshot::Sender<Result<(), String>>,
    },
    /// A person accepts that the machine has these ports of the fabric, and no others.
    PortsAccepted {
        /// The ports.
        ports: Vec<HealthSubject>,
        /// Answered when it is on disk.
        done: oneshot::Sender<()>,
    },
    /// A person says something of a part.
    Mark {
        /// The part.
        subject: HealthSubject,
        /// What.
        mark: PersonMark,
        /// Answered when it is on disk.
        done: oneshot::Sender<()>,
    },
}

/// The way to the loop that owns the judge. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct NodeHealth {
    requests: mpsc::Sender<HealthRequest>,
    now: watch::Receiver<HealthNow>,
}

/// The loop's end of it.
#[derive(Debug)]
pub(crate) struct HealthEnds {
    /// Wishes.
    pub(crate) requests: mpsc::Receiver<HealthRequest>,
    /// What is known.
    pub(crate) now: watch::Sender<HealthNow>,
}

/// Where a task ran that has ended, and since when.
#[derive(Clone, Debug)]
pub(crate) struct DevicesHeld {
    /// Its devices.
    pub(crate) devices: Vec<Device>,
    /// Whether it had the fabric as well.
    pub(crate) infiniband: bool,
    /// Since when, milliseconds since the epoch.
    pub(crate) since_ms: u64,
}

impl NodeHealth {
    /// The handle, and what the loop needs of it. `now` is what stands at the start.
    pub(crate) fn new(now: HealthNow) -> (Self, HealthEnds) {
        let (sender, requests) = mpsc::channel(QUEUE_MAX);
        let (now_sender, now) = watch::channel(now);
        let handle = Self {
            requests: sender,
            now,
        };
        let ends = HealthEnds {
            requests,
            now: now_sender,
        };
        (handle, ends)
    }

    /// What is known now.
    pub(crate) fn now(&self) -> HealthNow {
        self.now.borrow().clone()
    }

    /// To be told of changes.
    pub(crate) fn watch(&self) -> watch::Receiver<HealthNow> {
        self.now.clone()
    }

    /// What was reported of a task's devices while it had them, the oldest first. Nothing where
    /// the loop does not answer in time: a task's end waits for nothing.
    pub(crate) async fn events(&self, held: &DevicesHeld) -> Vec<DeviceEvent> {
        let (reply, answer) = oneshot::channel();
        let asked = async {
            self.requests
                .send(HealthRequest::Events {
                    with_ports: held.infiniband,
                    reply,
                })
                .await
                .ok()?;
            answer.await.ok()
        };
        let events = timeout(EVENTS_LIMIT, asked).await;
        let mut events = events.ok().flatten().unwrap_or_default();
        events.retain(|event| event.at_ms >= held.since_ms && concerns(&event.subject, held));
        events
    }

    /// Looks at devices right before a task gets them: whether they are on the bus, whether the
    /// newest sample, taken after this call, finds them well, and whether a process of a task that
    /// has ended holds them. Takes some seconds at most.
    ///
    /// # Errors
    /// Why they are not to be used, one sentence or two.
    pub(crate) async fn gate(&self, devices: Vec<Device>) -> Result<(), String> {
        let (reply, answer) = oneshot::channel();
        let request = HealthRequest::Gate { devices, reply };
        let asked = async {
            self.requests.send(request).await.ok()?;
            answer.await.ok()
        };
        match timeout(GATE_LIMIT, asked).await {
            Ok(Some(found)) => found,
            Ok(None) => Err("the agent is ending".to_owned()),
            Err(_) => {
                let seconds = GATE_LIMIT.as_secs();
                Err(format!(
                    "its devices could not be looked at within {seconds} seconds"
                ))
            }
        }
    }

    /// Takes a person's word on a part. Returns when it is on disk; false if it is not.
    pub(crate) async fn mark(&self, subject: HealthSubject, mark: PersonMark) -> bool {
        self.is_done(|done| HealthRequest::Mark {
            subject,
            mark,
            done,
        })
        .await
    }

    /// Forgets all ports of the fabric but these. Returns when that is on disk; false if it is not.
    pub(crate) async fn accept_ports(&self, ports: Vec<HealthSubject>) -> bool {
        self.is_done(|done| HealthRequest::PortsAccepted { ports, done })
            .await
    }

    async fn is_done(&self, request: impl FnOnce(oneshot::Sender<()>) -> HealthRequest) -> bool {
        let (done, is_done) = oneshot::channel();
        self.requests.send(request(done)).await.is_ok() && is_done.await.is_ok()
    }
}

fn concerns(subject: &HealthSubject, held: &DevicesHeld) -> bool {
    match subject {
        HealthSubject::Machine => false,
        HealthSubject::FabricPort { .. } => held.infiniband,
        HealthSubject::Device { .. } => held.devices.iter().any(|device| is_of(subject, device)),
    }
}

/// Whether a subject is a device, or the card that it is a partition of.
pub(crate) fn is_of(subject: &HealthSubject, device: &Device) -> bool {
    let HealthSubject::Device { pci, id } = subject else {
        return false;
    };
    let card = device.partition_of.as_ref().or(device.pci.as_ref());
    id.as_ref() == Some(&device.id) || pci.is_some() && (pci.as_ref() == card || *pci == device.pci)
}

/// The capacity with the faults that checks bring: what they quarantine is not granted.
pub(crate) fn with_faults(mut capacity: Capacity, checks: &[HealthCheck]) -> Capacity {
    for device in &mut capacity.devices {
        if device.fault.is_none() && !device.simulated {
            device.fault = fault(device, checks);
        }
    }
    capacity
}

/// Why a device may not be granted: the widest quarantine of those that concern it, the earliest
/// of these.
pub(crate) fn fault(device: &Device, checks: &[HealthCheck]) -> Option<String> {
    let quarantining = checks.iter().filter(|check| keeps(check, device));
    let worst =
        quarantining.min_by_key(|check| (std::cmp::Reverse(check.effect()), check.since_ms))?;
    let HealthCheck {
        name,
        evidence,
        advice,
        ..
    } = worst;
    Some(format!("{name}: {evidence} {advice}").trim_end().to_owned())
}

/// Whether a check keeps a device from being granted.
fn keeps(check: &HealthCheck, device: &Device) -> bool {
    match check.effect() {
        Quarantine::Node => true,
        Quarantine::Device => is_of(&check.subject, device),
        Quarantine::Links => keeps_by_links(check, device),
        Quarantine::None => false,
    }
}

/// What the names of checks of switches between GPUs begin with.
const SWITCHES: &str = "sxid ";
/// How the driver's names of instances of a GPU begin.
const INSTANCE: &str = "MIG-";

/// Whether a device is not granted because links between GPUs have failed. A grant does not say
/// which links its task will use, so a GPU is granted with all its links or not at all. Which GPUs
/// a switch links is not known: all that the driver counts. An instance of a GPU has no links.
fn keeps_by_links(check: &HealthCheck, device: &Device) -> bool {
    let is_of_switch = check.name.starts_with(SWITCHES) && device.is_nvidia();
    let is_instance = device.id.0.starts_with(INSTANCE);
    !is_instance && (is_of_switch || is_of(&check.subject, device))
}

/// What is kept from tasks that ask for the fabric, as sentences: ports and network adapters whose
/// links are quarantined.
pub(crate) fn fabric_problems(capacity: &Capacity, checks: &[HealthCheck]) -> Vec<String> {
    let is_of_fabric = |check: &&HealthCheck| {
        let mut devices = capacity.devices.iter();
        check.effect() == Quarantine::Links
            && !check.name.starts_with(SWITCHES)
            && !devices.any(|device| is_of(&check.subject, device))
    };
    let kept = checks.iter().filter(is_of_fabric);
    let sentences = kept.map(|check| {
        let HealthCheck {
            name,
            subject,
            evidence,
            advice,
            ..
        } = check;
        format!("{subject} is kept from tasks that ask for InfiniBand: {name}: {evidence} {advice}")
    });
    sentences
        .map(|sentence| sentence.trim_end().to_owned())
        .collect()
}
