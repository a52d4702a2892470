//! The look at devices between a task's end and the next task's start.

use std::sync::Arc;
use std::time::Duration;

use muster_exec::health::reading::{ProcessReading, processes};
use muster_model::node::{Capacity, Device};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};

use super::{HealthConfig, HealthLook};
use crate::gpu_samples::{GpuSamples, NewestSamples};

/// A process that is being ended has so many looks to let go of a device.
const LOOKS: u32 = 8;
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(300);
/// How long one may take.
const LOOK_LIMIT: Duration = Duration::from_secs(3);
/// How long a sample of the GPUs may take that a task's start waits for.
const SAMPLE_LIMIT: Duration = Duration::from_secs(3);

/// What was found of devices that a task is about to get.
#[derive(Debug)]
pub(super) struct GateLook {
    /// The devices.
    pub(super) devices: Vec<Device>,
    /// Processes of tasks that have ended and hold them still.
    pub(super) left: Vec<ProcessReading>,
    /// Who waits. The error says why they are not to be used.
    pub(super) reply: oneshot::Sender<Result<(), String>>,
}

/// What the looks need.
#[derive(Clone, Debug)]
pub(super) struct DeviceGate {
    pub(super) config: HealthConfig,
    pub(super) gpus: GpuSamples,
    /// Has the GPUs sampled now.
    pub(super) sample: Arc<Notify>,
    /// To the loop.
    pub(super) looks: mpsc::Sender<HealthLook>,
}

impl DeviceGate {
    /// Looks at devices, and passes on to the loop what was found. Their samples are newer than
    /// the last task's end by then.
    pub(super) async fn look(
        mut self,
        devices: Vec<Device>,
        capacity: Capacity,
        reply: oneshot::Sender<Result<(), String>>,
    ) {
        let (left, ()) = tokio::join!(
            left_behind(&self.config, &devices, &capacity),
            sampled(&mut self.gpus, &self.sample)
        );
        let look = GateLook {
            devices,
            left,
            reply,
        };
        // The loop ends only with the agent.
        let _ = self.looks.send(HealthLook::Gate(Box::new(look))).await;
    }
}

/// Waits for a round of samples of the GPUs that begins now, where they are sampled. A round that
/// is under way already may have looked at them before the last task ended.
async fn sampled(gpus: &mut GpuSamples, sample: &Notify) {
    if gpus.borrow().at.is_none() {
        return;
    }
    let now = Instant::now();
    sample.notify_one();
    let is_new = |newest: &Arc<NewestSamples>| newest.began >= Some(now);
    if timeout(SAMPLE_LIMIT, gpus.wait_for(is_new)).await.is_err() {
        tracing::warn!("the GPUs were not sampled in time before a task's start");
    }
}

/// The processes of tasks that hold the devices and do not let go of them.
async fn left_behind(
    config: &HealthConfig,
    devices: &[Device],
    capacity: &Capacity,
) -> Vec<ProcessReading> {
    let files = own_files(devices, capacity);
    let mut left = Vec::new();
    for look in 0..LOOKS {
        if look > 0 {
            sleep(PAUSE).await;
        }
        let (config, files) = (config.clone(), files.clone());
        let found = tokio::task::spawn_blocking(move || holders(&config, &files));
        left = match timeout(LOOK_LIMIT, found).await {
            Ok(found) => found.unwrap_or_default(),
            Err(_) => {
                tracing::warn!("processes were not looked at in time before a task's start");
                return Vec::new();
            }
        };
        if left.is_empty() {
            break;
        }
    }
    left
}

fn holders(config: &HealthConfig, files: &[String]) -> Vec<ProcessReading> {
    let mut found = processes(&config.root, |group| config.is_task(group));
    for reading in &mut found {
        reading.devices.retain(|file| files.contains(file));
    }
    found
        .retain(|reading| !reading.devices.is_empty() && (reading.is_task || reading.state == 'Z'));
    found
}

/// The files of devices that no other device has: those of a card are all its instances'.
fn own_files(devices: &[Device], capacity: &Capacity) -> Vec<String> {
    let files = devices.iter().flat_map(|device| &device.paths);
    let is_own = |file: &&String| {
        let all = capacity.devices.iter();
        all.filter(|other| other.paths.contains(*file)).count() == 1
    };
    files.filter(is_own).cloned().collect()
}
