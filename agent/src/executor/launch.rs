//! From a task's specification to its runner: secrets opened, image here, devices found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_control::environment::MACHINES;
use muster_exec::engine::{ContainerInfo, DeviceGrant};
use muster_exec::preflight::{self, MachineNow};
use muster_exec::task::{self, TaskOrder, TaskSetup};
use muster_exec::{image, port};
use muster_model::exit::{Cause, ExitPhase, RawExit};
use muster_model::launch::{RegistryAuth, TaskLimits, TaskPlacement, TaskSpec};
use muster_model::node::{Capacity, Device};
use muster_model::protocol::Secrets;
use tokio::sync::watch;

use super::collectives::CollectiveLinks;
use super::sealed_secrets::SealedSecrets;
use super::ssh::SshStart;
use super::storages::{self, TaskStorages};
use super::{ExecutorShared, Meanwhile, share};
use crate::causes::causes;
use crate::clock;

/// Variables that the engine's hooks read; the rest reaches the commands alone.
const HOOK_PREFIX: &str = "NVIDIA_";

/// Prepares the task and starts its runner, or tells why not.
pub(super) async fn run(
    shared: Arc<ExecutorShared>,
    spec: TaskSpec,
    mut came: watch::Receiver<Meanwhile>,
) {
    let uid = spec.placement.uid.clone();
    let prepared = tokio::select! {
        prepared = prepare(&shared, spec) => prepared,
        stop = stop(&mut came) => Err(stop),
    };
    match prepared {
        Ok(order) => shared.running(shared.runner.spawn(order), &came),
        Err((cause, message)) => {
            shared.storages.release(&uid);
            tracing::info!(%uid, message, "a task is not started");
            shared.not_launched(uid, not_launched(cause, message)).await;
        }
    }
}

async fn stop(came: &mut watch::Receiver<Meanwhile>) -> (Cause, String) {
    let stopped = came.wait_for(|meanwhile| meanwhile.stop.is_some());
    if stopped.await.is_err() {
        std::future::pending::<()>().await;
    }
    let stop = came.borrow().stop.clone();
    let (cause, why) = match &stop {
        Some(stop) => (stop.cause, &*stop.message),
        None => (Cause::UserStop, ""),
    };
    let message = match why {
        "" => "stopped before it was started".to_owned(),
        why => format!("stopped before it was started: {why}"),
    };
    (cause, message)
}

async fn prepare(
    shared: &ExecutorShared,
    mut spec: TaskSpec,
) -> Result<TaskOrder, (Cause, String)> {
    let secrets = open(shared, &spec).await?;
    let auth = spec.image_auth.as_ref().map(|auth| RegistryAuth {
        username: secrets.render(&auth.username),
        password: secrets.render(&auth.password),
        registry: secrets.render(&auth.registry),
    });
    let image = match shared.images.ensure(&spec.image, auth).await {
        Ok(image) => image,
        Err(error) => {
            let alike = shared.images.alike(&spec.image).await;
            return Err((cause_of(&error), with_alike(causes(&error), &alike)));
        }
    };
    check(shared, &spec).map_err(|error| (Cause::PortConflict, causes(&error)))?;
    let storages = storages::acquire(shared, &spec).await?;
    let gate = gate(shared, &spec.placement).await;
    gate.map_err(|why| (Cause::PortConflict, why))?;
    let disk_mb = disk_mb(shared, spec.limits.disk_mb).await;
    let tasks = shared.policy.now().tasks;
    let render = |texts: &[String]| texts.iter().map(|text| secrets.render(text)).collect();
    let ssh = SshStart::of(&spec, &secrets, &shared.config.init_binary)?;
    let mut pre_commands: Vec<String> = render(&spec.pre_commands);
    let mut mounts = Vec::new();
    if let Some(ssh) = ssh {
        pre_commands.insert(0, ssh.command);
        mounts.push(ssh.mount);
    }
    let capacity = shared.hardware.borrow().capacity.clone();
    visible_devices(&capacity, &spec.placement, &mut spec.environment);
    let hooked = spec
        .environment
        .iter()
        .filter(|(name, _)| name.starts_with(HOOK_PREFIX));
    Ok(TaskOrder {
        uid: spec.placement.uid.clone(),
        labels: labels(&spec, &shared.name, &storages),
        storages: storages.places,
        image,
        devices: devices(&capacity, &spec.placement),
        default_environment: collectives(&spec),
        environment: hooked
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        machines: machines(&shared.host_name, &spec.placement, &spec.environment),
        mounts,
        infiniband: spec.infiniband,
        raw_sockets: shared.limits.raw_sockets,
        hold: spec
            .hold_s
            .map(|seconds| Duration::from_secs(seconds.into())),
        setup: TaskSetup {
            pre_commands,
            script: secrets.render(&spec.entrypoint),
            post_commands: render(&spec.post_commands),
            environment: spec.environment,
            workdir: None,
            grace_ms: tasks.stop_grace_ms,
            // Its runner is given it, as renewed by then.
            lease: None,
        },
        limits: TaskLimits {
            pids: share::pids(tasks.pids),
            disk_mb,
            ..spec.limits
        },
    })
}

/// The variables of a task whose job has tasks on other machines.
fn collectives(spec: &TaskSpec) -> BTreeMap<String, String> {
    let machines = spec.environment.get(MACHINES).map(String::as_str);
    let mut machines = machines.unwrap_or_default().split(',');
    let own = spec.placement.node.to_string();
    let is_other = |machine: &str| machine.split_once('=').is_some_and(|(name, _)| name != own);
    if !machines.any(is_other) {
        return BTreeMap::new();
    }
    CollectiveLinks::read(spec.infiniband).variables(&spec.placement.address)
}

/// The machines of a task's job by name, its own first. Its own is called what the machine calls itself
/// as well.
fn machines(
    host_name: &str,
    own: &TaskPlacement,
    environment: &BTreeMap<String, String>,
) -> Vec<task::HostEntry> {
    let machine = |address: &str, names: Vec<String>| {
        let address = address.parse().ok()?;
        Some(task::HostEntry { address, names })
    };
    let names = vec![host_name.to_owned(), own.node.to_string()];
    let Some(own) = machine(&own.address, names) else {
        return Vec::new();
    };
    let others = environment.get(MACHINES).map(String::as_str);
    let others = others.unwrap_or_default().split(',');
    let others = others.filter_map(|other| {
        let (name, address) = other.split_once('=')?;
        machine(address, vec![name.to_owned()])
    });
    std::iter::once(own).chain(others).collect()
}

/// The limit on the writable layer in MiB. As ordered where the engine does not say where it keeps them.
pub(super) async fn disk_mb(shared: &ExecutorShared, ordered: u64) -> u64 {
    let store = shared.images.store();
    let Ok(disk) = shared.disk.get_or_try_init(|| store.disk()).await else {
        return ordered;
    };
    let disk = disk.clone();
    // A dead disk hangs the call.
    let share = tokio::task::spawn_blocking(move || share::disk_mb(ordered, &disk));
    share.await.unwrap_or(ordered)
}

/// Whether the machine still has what it promised the task.
fn check(shared: &ExecutorShared, spec: &TaskSpec) -> Result<(), preflight::PreflightError> {
    let machine = MachineNow {
        root: Path::new("/"),
        capacity: &shared.hardware.borrow().capacity,
        checks: &shared.health.now().checks,
        port_is_free: &port::is_free,
    };
    preflight::check(spec, &machine)
}

/// Looks at the task's devices: another task may just have let go of them.
async fn gate(shared: &ExecutorShared, placement: &TaskPlacement) -> Result<(), String> {
    let capacity = shared.hardware.borrow().capacity.clone();
    let devices = granted(&capacity, placement).filter(|device| !device.simulated);
    let devices: Vec<Device> = devices.cloned().collect();
    if devices.is_empty() {
        return Ok(());
    }
    shared.health.gate(devices).await
}

/// Opens the job's secrets, and keeps them sealed with the task's logs.
async fn open(shared: &ExecutorShared, spec: &TaskSpec) -> Result<Secrets, (Cause, String)> {
    let Some(sealed) = SealedSecrets::of(spec) else {
        return Ok(Secrets::default());
    };
    let failed = |error: &dyn std::error::Error| (Cause::RuntimeFailed, causes(error));
    let secrets = sealed.open(&shared.accounts).await;
    let secrets = secrets.map_err(|error| failed(&error))?;
    let dir = task::task_dir(&shared.config, &spec.placement.uid);
    let written = tokio::task::spawn_blocking(move || sealed.write(dir.root()));
    match written.await {
        Ok(Ok(())) => Ok(secrets),
        Ok(Err(error)) => Err(failed(&error)),
        Err(error) => Err(failed(&error)),
    }
}

/// The label that says whose a container is, if several agents use one containerd.
pub(super) const AGENT: &str = "muster.io/agent";
/// The label with the limit on the writable layer as it was ordered, MiB: the policy may be another by
/// the time that another life of the agent takes the task over.
const DISK_MB: &str = "muster.io/disk-mb";
/// The label that says whether it has the fabric.
const INFINIBAND: &str = "muster.io/infiniband";

/// Whether a container has the fabric.
pub(super) fn has_infiniband(container: &ContainerInfo) -> bool {
    let label = container.labels.get(INFINIBAND);
    label.is_some_and(|label| label == "true")
}

/// The limit on a container's writable layer as it was ordered.
pub(super) fn ordered_disk_mb(container: &ContainerInfo) -> Option<u64> {
    container.labels.get(DISK_MB)?.parse().ok()
}

fn labels(spec: &TaskSpec, agent: &str, storages: &TaskStorages) -> BTreeMap<String, String> {
    let own = [
        (AGENT, agent.to_owned()),
        ("muster.io/job", spec.job.to_string()),
        ("muster.io/attempt", spec.attempt.to_string()),
        ("muster.io/task", spec.placement.task.to_string()),
        (DISK_MB, spec.limits.disk_mb.to_string()),
        (INFINIBAND, spec.infiniband.to_string()),
    ];
    let all = own.into_iter().chain(storages.label());
    all.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The class of NVIDIA's CDI names. Its tool names a device by its index or by its UUID.
const CDI_CLASS: &str = "nvidia.com/gpu";
/// The class of AMD's. Its tool's numbers need not be those of the driver: the serial number alone
/// names a device.
const AMD_CDI_CLASS: &str = "amd.com/gpu";
const AMD: &str = "amd";
/// What NVIDIA's hooks and libraries read.
const VISIBLE_DEVICES: &str = "NVIDIA_VISIBLE_DEVICES";

/// How the driver's names of instances of a GPU begin.
const MIG_PREFIX: &str = "MIG-";

/// What the granted devices are to the engine. A simulated one is nothing.
fn devices(capacity: &Capacity, placement: &TaskPlacement) -> Vec<DeviceGrant> {
    // Where instances of GPUs are counted, an index of ours is another device's in CDI.
    let mut all = capacity.devices.iter();
    let has_instances = all.any(|device| device.id.0.starts_with(MIG_PREFIX));
    let grant = |device: &Device| DeviceGrant {
        cdi_names: cdi_names(device, has_instances),
        paths: device.paths.iter().map(PathBuf::from).collect(),
    };
    granted(capacity, placement)
        .filter(|device| !device.simulated)
        .map(grant)
        .collect()
}

/// The devices that a task was granted.
fn granted<'a>(
    capacity: &'a Capacity,
    placement: &'a TaskPlacement,
) -> impl Iterator<Item = &'a Device> {
    let is_granted = |device: &&Device| placement.devices.iter().any(|(_, id)| *id == device.id);
    capacity.devices.iter().filter(is_granted)
}

/// What a device may be called in CDI files, the best name first.
fn cdi_names(device: &Device, has_instances: bool) -> Vec<String> {
    let id = &device.id.0;
    if device.is_nvidia() {
        let by_index = format!("{CDI_CLASS}={}", device.index);
        let by_index = (!has_instances).then_some(by_index);
        return [format!("{CDI_CLASS}={id}")]
            .into_iter()
            .chain(by_index)
            .collect();
    }
    match &*device.vendor {
        AMD => vec![format!("{AMD_CDI_CLASS}={id}")],
        _ => Vec::new(),
    }
}

/// Numbers of devices that are not NVIDIA's are not told as such: NVIDIA's libraries and hooks
/// would take them for their own. Others have their files in the container, and no more.
fn visible_devices(
    capacity: &Capacity,
    placement: &TaskPlacement,
    environment: &mut BTreeMap<String, String>,
) {
    if granted(capacity, placement).all(Device::is_nvidia) {
        return;
    }
    let nvidia = granted(capacity, placement).filter(|device| device.is_nvidia());
    let indices: Vec<String> = nvidia.map(|device| device.index.to_string()).collect();
    let value = match indices.is_empty() {
        true => "none".to_owned(),
        false => indices.join(","),
    };
    environment.insert(VISIBLE_DEVICES.to_owned(), value);
}

/// Why an image could not be had, with what a user may have meant.
fn with_alike(error: String, alike: &[String]) -> String {
    match alike {
        [] => error,
        alike => format!("{error}. On the node: {}", alike.join(", ")),
    }
}

fn not_launched(cause: Cause, message: String) -> RawExit {
    RawExit {
        code: 1,
        signal: None,
        oom_killed: false,
        own_doing: false,
        phase: ExitPhase::Launch,
        cause: Some(cause),
        message,
        ended_ms: clock::now().as_millis(),
    }
}

/// What failed for good is the user's to mend; what may pass is tried again.
fn cause_of(error: &image::ImageError) -> Cause {
    match error {
        image::ImageError::UnknownHost { .. } => Cause::RegistryUnknown,
        error if error.is_transient() => Cause::ImageNotFetched,
        _ => Cause::ImageNotFound,
    }
}

#[cfg(test)]
mod tests {
    use muster_model::id::{AttemptUid, TaskId};
    use muster_model::node::DeviceId;

    use super::*;

    fn device(index: u32, simulated: bool) -> Device {
        Device {
            paths: vec![format!("/dev/nvidia{index}")],
            simulated,
            ..Device::simulated(format!("GPU-{index}"), index, "V100")
        }
    }

    fn placement() -> TaskPlacement {
        let granted = [1, 2].map(|index| (index, DeviceId(format!("GPU-{index}"))));
        TaskPlacement {
            task: TaskId {
                role: "worker".parse().unwrap(),
                index: 0,
            },
            uid: AttemptUid::from_bytes([1; 16]),
            node: "n1".parse().unwrap(),
            address: "192.0.2.1".to_owned(),
            leaves: Vec::new(),
            devices: granted.into(),
            ports: Vec::new(),
        }
    }

    #[test]
    fn a_task_knows_the_machines_of_its_job_by_name() {
        let told = |machines: &str| {
            let environment = BTreeMap::from([(MACHINES.to_owned(), machines.to_owned())]);
            let machines = super::machines("host", &placement(), &environment);
            machines
                .into_iter()
                .map(|machine| format!("{} {}", machine.address, machine.names.join(" ")))
                .collect::<Vec<_>>()
        };
        let own = "192.0.2.1 host n1";
        assert_eq!(told(""), [own]);
        let both = told("n1=192.0.2.1,n2=192.0.2.2,odd,n3=,n4=x");
        assert_eq!(both, [own, "192.0.2.1 n1", "192.0.2.2 n2"]);
    }

    #[test]
    fn an_image_that_cannot_be_had_is_told_with_those_that_are_called_alike() {
        let error = || "registry muster: its host name cannot be resolved".to_owned();
        assert_eq!(with_alike(error(), &[]), error());
        let alike = ["docker.io/muster/busybox:latest".to_owned()];
        assert_eq!(
            with_alike(error(), &alike),
            "registry muster: its host name cannot be resolved. On the node: docker.io/muster/busybox:latest"
        );
    }

    #[test]
    fn what_the_user_has_to_mend_is_told_from_what_may_pass() {
        let registry = || "r.example".to_owned();
        let reason = || "no".to_owned();
        let table = [
            (
                image::ImageError::UnknownHost {
                    registry: registry(),
                    reason: reason(),
                },
                Cause::RegistryUnknown,
            ),
            (
                image::ImageError::Registry {
                    registry: registry(),
                    reason: reason(),
                },
                Cause::ImageNotFetched,
            ),
            (
                image::ImageError::Unavailable {
                    socket: "/s".to_owned(),
                    reason: reason(),
                },
                Cause::ImageNotFetched,
            ),
            (
                image::ImageError::NotFound {
                    reference: "r.example/x".to_owned(),
                    registry: registry(),
                },
                Cause::ImageNotFound,
            ),
            (
                image::ImageError::Unauthorized {
                    reference: "r.example/x".to_owned(),
                    registry: registry(),
                    reason: reason(),
                },
                Cause::ImageNotFound,
            ),
        ];
        for (error, cause) in table {
            assert_eq!(cause_of(&error), cause, "{error}");
        }
    }

    #[test]
    fn a_task_gets_the_real_devices_it_was_granted() {
        let capacity = Capacity {
            cpu: 1,
            memory_mb: 1,
            devices: vec![device(0, false), device(1, false), device(2, true)],
            levels: Vec::new(),
            port_first: 1,
            port_last: 1,
        };
        let expected = DeviceGrant {
            cdi_names: vec![
                "nvidia.com/gpu=GPU-1".to_owned(),
                "nvidia.com/gpu=1".to_owned(),
            ],
            paths: vec!["/dev/nvidia1".into()],
        };
        assert_eq!(devices(&capacity, &placement()), [expected]);
    }

    #[test]
    fn devices_of_other_vendors_have_names_and_numbers_of_their_own() {
        let of = |index: u32, id: &str, vendor: &str| Device {
            id: DeviceId(id.to_owned()),
            vendor: vendor.to_owned(),
            ..device(index, false)
        };
        let capacity = Capacity {
            cpu: 1,
            memory_mb: 1,
            devices: vec![
                device(1, false),
                of(2, "0a1b", "amd"),
                of(3, "nec-0000:1a:00.0", "nec"),
            ],
            levels: Vec::new(),
            port_first: 1,
            port_last: 1,
        };
        let with = |ids: &[&str]| TaskPlacement {
            devices: ids
                .iter()
                .map(|id| (0, DeviceId((*id).to_owned())))
                .collect(),
            ..placement()
        };
        let shown = |ids: &[&str]| {
            let leader = (VISIBLE_DEVICES.to_owned(), "as the leader says".to_owned());
            let mut environment = BTreeMap::from([leader]);
            visible_devices(&capacity, &with(ids), &mut environment);
            let grants = devices(&capacity, &with(ids));
            let names = grants.iter().flat_map(|grant| grant.cdi_names.clone());
            let names: Vec<String> = names.collect();
            (environment[VISIBLE_DEVICES].clone(), names.join(" "))
        };
        for (ids, visible, names) in [
            (
                vec!["GPU-1"],
                "as the leader says",
                "nvidia.com/gpu=GPU-1 nvidia.com/gpu=1",
            ),
            (vec!["0a1b"], "none", "amd.com/gpu=0a1b"),
            (
                vec!["GPU-1", "0a1b", "nec-0000:1a:00.0"],
                "1",
                "nvidia.com/gpu=GPU-1 nvidia.com/gpu=1 amd.com/gpu=0a1b",
            ),
        ] {
            assert_eq!(
                shown(&ids),
                (visible.to_owned(), names.to_owned()),
                "{ids:?}"
            );
        }
    }

    #[test]
    fn an_index_is_no_name_of_a_device_where_instances_are_counted() {
        let mut instance = device(0, false);
        instance.id.0 = "MIG-0".to_owned();
        let capacity = Capacity {
            cpu: 1,
            memory_mb: 1,
            devices: vec![instance, device(1, false)],
            levels: Vec::new(),
            port_first: 1,
            port_last: 1,
        };
        let [grant] = &devices(&capacity, &placement())[..] else {
            panic!("one device is granted")
        };
        assert_eq!(grant.cdi_names, ["nvidia.com/gpu=GPU-1"]);
    }
}
