//! What `/status` shows, as data. `/status.json` is just this and the pages are made of it, so
//! none of them tells more than another: they are open to everybody who reaches the node.

use std::future::Future;
use std::time::Duration;

use muster_model::id::JobKey;
use muster_model::mesh::{Health, MeshView};
use muster_model::node::{Device, NodeTask, NodeView};
use muster_model::sight::{HIDDEN_JOB, JobSight};
use schemars::JsonSchema;
use serde::Serialize;

use crate::port::{JobReader, Jobs, Membership, Nodes, PortError};

/// A part of the agent that needs longer is left out, with a word on it.
const PART_LIMIT: Duration = Duration::from_secs(2);

/// A node as it sees itself and the others.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct StatusPage {
    /// This node; absent if its ledger does not answer.
    pub(crate) node: Option<ThisNode>,
    /// How its agent is.
    pub(crate) health: Option<Health>,
    /// The mesh, without names of users.
    pub(crate) mesh: Option<MeshView>,
    /// What could not be shown, and why.
    pub(crate) missing: Vec<String>,
}

/// This node.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ThisNode {
    pub(crate) id: String,
    pub(crate) host_name: String,
    pub(crate) address: std::net::IpAddr,
    pub(crate) agent_version: String,
    /// Its container engine; absent while that does not answer.
    pub(crate) engine: Option<String>,
    pub(crate) problems: Vec<String>,
    pub(crate) resources: Vec<ResourceFigure>,
    pub(crate) devices: Vec<ShownDevice>,
    pub(crate) tasks: Vec<ShownTask>,
}

/// Something a node has an amount of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct ResourceFigure {
    pub(crate) name: &'static str,
    pub(crate) free: u64,
    pub(crate) all: u64,
}

/// A device and what it is used for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct ShownDevice {
    pub(crate) index: u32,
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) memory_mb: u64,
    pub(crate) simulated: bool,
    pub(crate) fault: Option<String>,
    /// The task that holds it.
    pub(crate) holder: Option<String>,
}

/// A task that holds something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct ShownTask {
    pub(crate) job: String,
    pub(crate) task: String,
    pub(crate) state: String,
    pub(crate) devices: Vec<u32>,
    pub(crate) cpu: u32,
    pub(crate) memory_mb: u64,
}

impl StatusPage {
    /// Asks every part of the agent at once. What does not answer is missing, nothing else is.
    pub(crate) async fn gather(
        jobs: &dyn Jobs,
        nodes: &dyn Nodes,
        membership: &dyn Membership,
    ) -> Self {
        let mut missing = Vec::new();
        let sight = jobs.sight(&JobReader::Guest);
        let (node, health, mesh) = tokio::join!(
            part(nodes.this()),
            part(nodes.health()),
            part(membership.view())
        );
        let mut keep = |what: &str, why: String| missing.push(format!("{what}: {why}"));
        let node = node.and_then(|node| Ok((node, sight.map_err(|why| why.to_string())?)));
        let node = node.map_err(|why| keep("this node", why)).ok();
        let health = health.map_err(|why| keep("health", why)).ok();
        let mesh = mesh.map_err(|why| keep("mesh", why)).ok();
        Self {
            node: node.map(|(node, sight)| ThisNode::of(unnamed(node, &sight))),
            health,
            mesh: mesh.map(MeshView::without_users),
            missing,
        }
    }

    /// What the node is called, if it is known at all.
    pub(crate) fn title(&self) -> &str {
        let node = self.node.as_ref().map(|node| &node.host_name);
        let me = self.mesh.as_ref().map(|mesh| &mesh.me);
        node.or(me).map_or("this node", String::as_str)
    }

    /// Everything that is wrong, as sentences.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = self
            .node
            .as_ref()
            .map_or(Vec::new(), |n| n.problems.clone());
        problems.extend(self.missing.iter().map(|what| format!("not shown: {what}")));
        if let Some(mesh) = &self.mesh {
            problems.extend(troubles(mesh));
        }
        problems
    }
}

/// A node without the names of jobs that guests do not see.
fn unnamed(mut node: NodeView, sight: &JobSight) -> NodeView {
    let is_seen = |task: &NodeTask| {
        let job = task.job.parse::<JobKey>();
        job.is_ok_and(|job| sight.sees(&task.vc, &job.user))
    };
    for task in node.tasks.iter_mut().filter(|task| !is_seen(task)) {
        for problem in &mut node.problems {
            *problem = problem.replace(&task.job, HIDDEN_JOB);
        }
        HIDDEN_JOB.clone_into(&mut task.job);
        task.task.clear();
    }
    node
}

async fn part<T>(asked: impl Future<Output = Result<T, PortError>>) -> Result<T, String> {
    match tokio::time::timeout(PART_LIMIT, asked).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", PART_LIMIT.as_secs())),
    }
}

/// What is wrong with the mesh, as sentences.
fn troubles(mesh: &MeshView) -> Vec<String> {
    let mut troubles: Vec<String> = mesh.cloned.iter().cloned().collect();
    let away = mesh.admitted().filter(|member| !member.is_well()).count();
    if away > 0 {
        let all = mesh.admitted().count();
        troubles.push(format!("{away} of {all} members are not alive, see below"));
    }
    if mesh.islands.len() > 1 {
        let islands = mesh.islands.len();
        troubles.push(format!(
            "the members are {islands} groups that do not hear each other"
        ));
    }
    let documents = mesh.documents.iter();
    let bad = documents.filter(|document| !document.here.problem.is_empty());
    troubles.extend(bad.map(|one| format!("{}: {}", one.name, one.here.problem)));
    troubles
}

impl ThisNode {
    fn of(node: NodeView) -> Self {
        let resources = resources(&node);
        let holder = |device: &Device| {
            let mut tasks = node.tasks.iter();
            let task = tasks.find(|task| task.devices.contains(&device.index));
            task.map(|task| format!("{} {}", task.job, task.task).trim_end().to_owned())
        };
        let devices = node.capacity.devices.iter();
        Self {
            devices: devices
                .map(|device| ShownDevice::of(device, holder(device)))
                .collect(),
            tasks: node.tasks.iter().map(ShownTask::of).collect(),
            resources,
            id: node.id.to_string(),
            host_name: node.host_name,
            address: node.address,
            agent_version: node.agent_version,
            problems: problems(&node.engine, node.problems),
            engine: node.engine.ok(),
        }
    }
}

/// The node's problems, that of its engine among them.
fn problems(engine: &Result<String, String>, mut problems: Vec<String>) -> Vec<String> {
    if let Err(why) = engine
        && !problems.iter().any(|problem| problem.contains(why))
    {
        problems.push(format!("no task can start: {why}"));
    }
    problems
}

fn resources(node: &NodeView) -> Vec<ResourceFigure> {
    let (free, all) = (&node.free, &node.capacity);
    let healthy = all.devices.iter().filter(|one| one.fault.is_none()).count();
    let resource = |name, free, all| ResourceFigure { name, free, all };
    vec![
        resource("CPU cores", free.cpu.into(), all.cpu.into()),
        resource("Memory, MiB", free.memory_mb, all.memory_mb),
        resource("GPUs", free.devices.len() as u64, healthy as u64),
    ]
}

impl ShownDevice {
    fn of(device: &Device, holder: Option<String>) -> Self {
        Self {
            index: device.index,
            id: device.id.0.clone(),
            model: device.model.clone(),
            memory_mb: device.memory_mb,
            simulated: device.simulated,
            fault: device.fault.clone(),
            holder,
        }
    }
}

impl ShownTask {
    fn of(task: &NodeTask) -> Self {
        Self {
            job: task.job.clone(),
            task: task.task.clone(),
            state: task.state.clone(),
            devices: task.devices.clone(),
            cpu: task.cpu,
            memory_mb: task.memory_mb,
        }
    }
}
