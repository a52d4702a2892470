//! Figures of this node for Prometheus, under the names that dashboards of OpenPAI ask for, and our own.

use std::collections::BTreeMap;

use muster_model::id::{AttemptUid, JobKey};
use muster_model::metric::{MetricFamily, MetricKind};
use muster_model::node::{NodeTask, NodeView};
use muster_model::sight::JobSight;
use muster_model::task_use::TaskUseNow;

use crate::call::Call;
use crate::port::{DeviceFigure, Figures, Jobs, Nodes, Uses};
use crate::reply::{HandlerResult, HttpReply};
use crate::wire::metric_text;

const MIB: f64 = 1_048_576.0;

/// `GET /metrics`: tasks are those of jobs that the caller sees; a guest sees what guests may.
pub(crate) async fn scrape(
    call: Call,
    figures: &dyn Figures,
    jobs: &dyn Jobs,
    nodes: &dyn Nodes,
    uses: &dyn Uses,
) -> HandlerResult {
    let mut families = figures.machine().await;
    let node = nodes.this().await?;
    let sight = call.sight(jobs)?;
    let mut now = BTreeMap::new();
    for uid in node
        .tasks
        .iter()
        .filter_map(|task| task.uid.parse::<AttemptUid>().ok())
    {
        if let Some(used) = uses.now(&uid).await {
            now.insert(uid.to_string(), used);
        }
    }
    families.extend(of_node(&node));
    families.extend(of_devices(&node));
    families.extend(of_tasks(&node, &sight, &now));
    families.extend(of_held_devices(&node, &sight, &figures.devices().await));
    Ok(HttpReply::metrics(metric_text::written(&families)))
}

fn of_node(node: &NodeView) -> Vec<MetricFamily> {
    let gauge = |name: &str, help, value| MetricFamily::gauge(name, help, value);
    let (all, free) = (&node.capacity, &node.free);
    let count = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    let version = vec![("version", node.agent_version.clone())];
    vec![
        MetricFamily::new(
            "muster_build_info",
            MetricKind::Gauge,
            "The agent's version.",
        )
        .with(version, 1.0),
        gauge(
            "muster_engine_up",
            "Whether the container engine answers.",
            f64::from(u8::from(node.engine.is_ok())),
        ),
        gauge(
            "muster_node_problems",
            "How many things are wrong with the node.",
            count(node.problems.len()),
        ),
        gauge(
            "muster_node_cpus",
            "Cores that tasks can get.",
            f64::from(all.cpu),
        ),
        gauge(
            "muster_node_cpus_free",
            "Cores that no task has.",
            f64::from(free.cpu),
        ),
        gauge(
            "muster_node_memory_bytes",
            "Memory that tasks can get.",
            mib(all.memory_mb),
        ),
        gauge(
            "muster_node_memory_free_bytes",
            "Memory that no task has.",
            mib(free.memory_mb),
        ),
        gauge(
            "muster_node_devices",
            "Devices, faulty ones too.",
            count(all.devices.len()),
        ),
        gauge(
            "muster_node_devices_free",
            "Devices that are well and that no task has.",
            count(free.devices.len()),
        ),
        gauge(
            "muster_node_tasks",
            "Tasks that hold something.",
            count(node.tasks.len()),
        ),
    ]
}

fn mib(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX)) * MIB
}

fn of_devices(node: &NodeView) -> Vec<MetricFamily> {
    let family = |name: &str, help| MetricFamily::new(name, MetricKind::Gauge, help);
    let mut info = family("muster_device_info", "A device. Its figure is always 1.");
    let mut faulty = family(
        "muster_device_faulty",
        "Whether a device is not granted, for it is not well.",
    );
    let mut held = family("muster_device_held", "Whether a task has the device.");
    for device in &node.capacity.devices {
        let index = || vec![("index", device.index.to_string())];
        let is_held = node
            .tasks
            .iter()
            .any(|task| task.devices.contains(&device.index));
        let more = [
            ("uuid", device.id.0.clone()),
            ("model", device.model.clone()),
        ];
        info.push(index().into_iter().chain(more).collect(), 1.0);
        faulty.push(index(), f64::from(u8::from(device.fault.is_some())));
        held.push(index(), f64::from(u8::from(is_held)));
    }
    vec![info, faulty, held]
}

/// Figures of tasks by the names of OpenPAI's job exporter.
fn of_tasks(
    node: &NodeView,
    sight: &JobSight,
    now: &BTreeMap<String, TaskUseNow>,
) -> Vec<MetricFamily> {
    let family = |name: &str, help| MetricFamily::new(name, MetricKind::Gauge, help);
    let mut cpu = family(
        "task_cpu_percent",
        "CPU time of the last ten seconds; 100 is one core.",
    );
    let mut cpu_time = MetricFamily::new(
        "task_cpu_seconds_total",
        MetricKind::Counter,
        "CPU time of the task.",
    );
    let mut read = family("task_block_in_byte", "What the task has read from disks.");
    let mut written = family("task_block_out_byte", "What the task has written to disks.");
    let mut memory = family("task_mem_usage_byte", "Memory that the task has now.");
    let mut share = family(
        "task_mem_usage_percent",
        "The same as a share of its limit.",
    );
    let mut limit = family("task_mem_limit_byte", "Memory that the task may have.");
    let mut cores = family("muster_task_cpus", "Cores that the task was granted.");
    let mut devices = family(
        "muster_task_device",
        "A device that the task was granted. Its figure is always 1.",
    );
    for (task, labels) in node
        .tasks
        .iter()
        .filter_map(|task| Some((task, labels(task, sight)?)))
    {
        cores.push(labels.clone(), f64::from(task.cpu));
        limit.push(labels.clone(), mib(task.memory_mb));
        for index in &task.devices {
            let index = [("index", index.to_string())];
            devices.push(labels.iter().cloned().chain(index).collect(), 1.0);
        }
        if let Some(used) = now.get(&task.uid) {
            let point = used.point;
            cpu_time.push(labels.clone(), used.cpu_usec as f64 / 1e6);
            if let Some(disk) = used.disk {
                read.push(labels.clone(), disk.read as f64);
                written.push(labels.clone(), disk.written as f64);
            }
            cpu.push(labels.clone(), f64::from(point.cpu_milli) / 10.0);
            memory.push(labels.clone(), f64::from(point.memory_mb) * MIB);
            if task.memory_mb > 0 {
                share.push(
                    labels,
                    f64::from(point.memory_mb) * MIB / mib(task.memory_mb) * 100.0,
                );
            }
        }
    }
    vec![
        cpu, cpu_time, read, written, memory, share, limit, cores, devices,
    ]
}

/// How busy the devices of tasks are, by the names of OpenPAI's job exporter, and whether they are used at all.
fn of_held_devices(
    node: &NodeView,
    sight: &JobSight,
    devices: &[DeviceFigure],
) -> Vec<MetricFamily> {
    let family = |name: &str, help| MetricFamily::new(name, MetricKind::Gauge, help);
    let mut busy = family(
        "task_gpu_percent",
        "Share of time in which a device of the task was busy, percent.",
    );
    let mut memory = family(
        "task_gpu_mem_percent",
        "Share of the memory of a device of the task that is used, percent.",
    );
    let mut idle = family(
        "muster_device_held_idle_seconds",
        "How long the task has held the device with utilization 0 and the same memory used in every sample.",
    );
    for (index, labels, device) in held(node, sight, devices) {
        let with = |more| labels.iter().cloned().chain([more]).collect();
        if let Some(minor) = device
            .minor
            .map(|minor| ("minor_number", minor.to_string()))
        {
            if let Some(percent) = device.utilization {
                busy.push(with(minor.clone()), f64::from(percent));
            }
            if let Some(percent) = memory_percent(device) {
                memory.push(with(minor), percent);
            }
        }
        if let Some(seconds) = device.idle_s {
            let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
            idle.push(with(("index", index.to_string())), f64::from(seconds));
        }
    }
    vec![busy, memory, idle]
}

/// Devices that are sampled and held by a task that is seen: the index, the labels of the task, and the figures.
fn held<'d>(
    node: &NodeView,
    sight: &JobSight,
    devices: &'d [DeviceFigure],
) -> Vec<(u32, TaskLabels, &'d DeviceFigure)> {
    let figure = |index: u32| {
        let mut all = node.capacity.devices.iter();
        let device = all.find(|device| device.index == index)?;
        devices.iter().find(|figure| figure.id == device.id.0)
    };
    let mut held = Vec::new();
    for task in &node.tasks {
        if let Some(labels) = labels(task, sight) {
            let indices = task.devices.iter();
            held.extend(indices.filter_map(|at| Some((*at, labels.clone(), figure(*at)?))));
        }
    }
    held
}

fn memory_percent(device: &DeviceFigure) -> Option<f64> {
    let (used, total) = (device.memory_used?, device.memory_total?);
    (total > 0).then(|| mib(used >> 20) / mib(total >> 20) * 100.0)
}

/// Names and values.
type TaskLabels = Vec<(&'static str, String)>;

/// The labels of job exporter; none for a task of a job that is not seen.
fn labels(task: &NodeTask, sight: &JobSight) -> Option<TaskLabels> {
    let job: JobKey = task.job.parse().ok()?;
    let (role, index) = task.task.rsplit_once(':')?;
    sight.sees(&task.vc, &job.user).then(|| {
        vec![
            ("username", job.user.to_string()),
            ("job_name", task.job.clone()),
            ("role_name", role.to_owned()),
            ("task_index", index.to_owned()),
            ("job_instance_id", task.uid.clone()),
            ("virtual_cluster", task.vc.to_string()),
        ]
    })
}

/// What `/openapi.json` tells of this route.
pub(crate) mod about {
    use http::StatusCode;

    use crate::openapi::{RouteDoc, TEXT};
    use crate::port::PortError;

    pub(crate) fn scrape() -> RouteDoc {
        RouteDoc::new(
            "Tells figures of this node for Prometheus, with those of tasks that the caller sees.",
        )
        .fails([PortError::InvalidToken])
        .answer::<String>(StatusCode::OK, TEXT)
    }
}
