//! Samples the GPUs every ten seconds, and keeps what tasks did with them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use muster_exec::figures::loads;
use muster_exec::health::judge::HELD;
use muster_exec::inventory::amd::{self, AmdSample};
use muster_exec::inventory::nvidia::{GpuRound, GpuSampler, NvidiaError};
use muster_model::id::AttemptUid;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::node::{LedgerView, NodeHandle};
use crate::causes::causes;
use crate::device_uses::DeviceUses;
use crate::gpu_samples::{GpuSamples, NewestSamples};
use crate::health::{HealthNow, NodeHealth};
use crate::held_idle::HeldIdle;

/// Between two rounds.
const PAUSE: Duration = Duration::from_secs(10);
/// Between two looks at a machine that has no GPUs: a driver may be installed.
const PAUSE_WITHOUT: Duration = Duration::from_secs(60);

/// What the drivers answered.
struct Sampled {
    began: Instant,
    nvidia: Result<Option<GpuRound>, NvidiaError>,
    amd: Vec<AmdSample>,
}

/// The loop, until it is run.
#[derive(Debug)]
pub(crate) struct GpuSampleLoop {
    sampler: GpuSampler,
    uses: DeviceUses,
    idle: HeldIdle,
    sender: watch::Sender<Arc<NewestSamples>>,
    /// Told when a round is wanted at once.
    wanted: Arc<Notify>,
    /// What was told to be wrong.
    problem: Option<String>,
}

/// A loop over the GPUs of this machine, and what it finds. `wanted` has them sampled at once.
pub(crate) fn watch(uses: DeviceUses, wanted: Arc<Notify>) -> (GpuSamples, GpuSampleLoop) {
    let (sender, samples) = watch::channel(Arc::default());
    let sample_loop = GpuSampleLoop {
        sampler: GpuSampler::new(Path::new("/"), None),
        uses,
        idle: HeldIdle::default(),
        sender,
        wanted,
        problem: None,
    };
    (samples, sample_loop)
}

impl GpuSampleLoop {
    /// Samples until the agent ends.
    ///
    /// While a person holds a GPU, nothing is kept open between rounds: a GPU can be reset or taken from its driver
    /// only if no program has it open.
    pub(crate) async fn run(mut self, node: NodeHandle, health: NodeHealth) {
        loop {
            let sampler = self.sampler.clone();
            let began = Instant::now();
            // A driver that hangs keeps a thread of the sampler; this one comes back.
            let sampled = tokio::task::spawn_blocking(move || Sampled {
                began,
                nvidia: sampler.round(),
                amd: amd::samples(Path::new("/")),
            });
            let (Ok(sampled), Some(view)) = (sampled.await, node.view().await) else {
                return;
            };
            let has_gpus = self.take(sampled, &view);
            if is_held(&health.now()) {
                let sampler = self.sampler.clone();
                // A driver that hangs is told of by the next round.
                let let_go = move || drop(sampler.pause());
                let _ = tokio::task::spawn_blocking(let_go).await;
            }
            let pause = if has_gpus { PAUSE } else { PAUSE_WITHOUT };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.wanted.notified() => {}
            }
        }
    }

    /// Takes a round. Whether there is anything to sample.
    fn take(&mut self, sampled: Sampled, view: &LedgerView) -> bool {
        let Sampled { began, nvidia, amd } = sampled;
        let problem = match &nvidia {
            Ok(round) => round.as_ref().and_then(|round| round.hangs.as_ref()),
            Err(error) => Some(error),
        };
        self.tell(problem.map(|error| causes(error)));
        let round = match nvidia {
            Ok(Some(round)) => round,
            Ok(None) if amd.is_empty() => return false,
            Ok(None) => GpuRound::default(),
            // What was sampled before stays, and grows old.
            Err(_) => return true,
        };
        let now_ms = UNIX_EPOCH.elapsed().unwrap_or_default().as_millis();
        let now_ms = u64::try_from(now_ms).unwrap_or(u64::MAX);
        let loads = loads(&round.gpus, &amd);
        let held = held(view);
        self.idle.note(now_ms, &loads, &holders(&held));
        self.uses.note(now_ms, &loads, held);
        self.sender.send_replace(Arc::new(NewestSamples {
            at: Some(Instant::now()),
            began: Some(began),
            nvidia: round.gpus,
            amd,
            loads,
            idle_s: self.idle.seconds(),
        }));
        true
    }

    /// One line of the log for each change.
    fn tell(&mut self, problem: Option<String>) {
        if self.problem == problem {
            return;
        }
        match &problem {
            Some(problem) => tracing::warn!(problem, "GPUs cannot be sampled"),
            None => tracing::info!("GPUs are sampled again"),
        }
        self.problem = problem;
    }
}

/// Whether a person keeps a device out of use.
fn is_held(health: &HealthNow) -> bool {
    let mut checks = health.checks.iter();
    checks.any(|check| check.name == HELD && check.subject.pci().is_some())
}

/// Which devices each task has, by index and lasting name.
pub(crate) fn held(view: &LedgerView) -> BTreeMap<AttemptUid, Vec<(u32, String)>> {
    let id = |index: &u32| {
        let mut devices = view.capacity.devices.iter();
        let device = devices.find(|device| device.index == *index)?;
        Some((*index, device.id.0.clone()))
    };
    let with_devices = view.tasks.iter().filter(|task| !task.devices.is_empty());
    let held = with_devices.filter(|task| HOLDING.contains(&&*task.state));
    held.filter_map(|task| {
        let devices = task.devices.iter().filter_map(id).collect();
        Some((task.uid.parse().ok()?, devices))
    })
    .collect()
}

/// States of a task on its node in which its devices are open to it.
const HOLDING: [&str; 2] = ["Held", "Draining"];

fn holders(held: &BTreeMap<AttemptUid, Vec<(u32, String)>>) -> BTreeMap<String, AttemptUid> {
    let of_task = |(uid, devices): (&AttemptUid, &Vec<(u32, String)>)| {
        let ids = devices.iter().map(|(_, id)| (id.clone(), uid.clone()));
        ids.collect::<Vec<_>>()
    };
    held.iter().flat_map(of_task).collect()
}

#[cfg(test)]
mod tests {
    use muster_exec::inventory::nvidia::{GpuIdentity, GpuMemory, GpuSample};
    use muster_model::node::{Capacity, Device, Free, NodeTask};

    use super::*;

    fn view(state: &str) -> LedgerView {
        let device = Device {
            simulated: false,
            ..Device::simulated("GPU-a", 2, "V100")
        };
        let task = NodeTask {
            job: "ann~mine".to_owned(),
            vc: "default".parse().unwrap(),
            task: "worker:0".to_owned(),
            uid: "a-0".to_owned(),
            state: state.to_owned(),
            devices: vec![2],
            cpu: 1,
            memory_mb: 1,
        };
        LedgerView {
            capacity: Capacity {
                cpu: 1,
                memory_mb: 1,
                devices: vec![device],
                levels: Vec::new(),
                port_first: 1,
                port_last: 2,
            },
            free: Free::default(),
            tasks: vec![task],
        }
    }

    fn sampled(utilization: u32) -> Sampled {
        let gpu = GpuSample {
            identity: GpuIdentity {
                uuid: "GPU-a".to_owned(),
                ..GpuIdentity::default()
            },
            utilization: Some(utilization),
            memory: Some(GpuMemory {
                total: 2 << 30,
                used: 1 << 30,
                free: 1 << 30,
                reserved: None,
            }),
            ..GpuSample::default()
        };
        let round = GpuRound {
            gpus: vec![gpu],
            ..GpuRound::default()
        };
        Sampled {
            began: Instant::now(),
            nvidia: Ok(Some(round)),
            amd: Vec::new(),
        }
    }

    #[tokio::test]
    async fn a_round_is_told_and_kept_for_the_task_that_holds_the_device() {
        let uses = DeviceUses::default();
        let (samples, mut sample_loop) = watch(uses.clone(), Arc::default());
        let round = sampled(50);
        let began = round.began;
        assert!(sample_loop.take(round, &view("Held")));
        assert_eq!(samples.borrow().began, Some(began));
        assert!(samples.borrow().at > Some(began));
        let devices = samples.borrow().devices(Instant::now());
        assert_eq!(
            (devices[0].utilization, devices[0].idle_s),
            (Some(50), Some(0))
        );
        let kept = uses.of(&"a-0".parse().unwrap());
        assert_eq!(
            (kept[0].index, kept[0].points[0].utilization),
            (2, Some(50))
        );
        // A task that does not have its devices yet holds none.
        assert!(sample_loop.take(sampled(60), &view("Reserved")));
        assert_eq!(samples.borrow().devices(Instant::now())[0].idle_s, None);
    }

    #[tokio::test]
    async fn a_driver_that_hangs_leaves_the_last_samples() {
        let (samples, mut sample_loop) = watch(DeviceUses::default(), Arc::default());
        let nothing = || Sampled {
            began: Instant::now(),
            nvidia: Ok(None),
            amd: Vec::new(),
        };
        assert!(!sample_loop.take(nothing(), &view("Held")), "no GPUs");
        assert!(samples.borrow().at.is_none());
        sample_loop.take(sampled(50), &view("Held"));
        let hangs = Sampled {
            nvidia: Err(NvidiaError::NoAnswer { call: "sample" }),
            ..nothing()
        };
        assert!(sample_loop.take(hangs, &view("Held")));
        assert_eq!(samples.borrow().nvidia.len(), 1);
        assert!(sample_loop.problem.is_some());
    }
}
