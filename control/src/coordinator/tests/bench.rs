//! A leader between a log that commits at once and nodes that say what the test has them say.

use std::collections::BTreeMap;

use muster_model::cluster_spec::ClusterSpec;
use muster_model::exit::Behavior;
use muster_model::id::{JobKey, NodeId, TaskId};
use muster_model::job::{JobEnding, JobSpec, Partition, Resources, RoleSpec};
use muster_model::launch::TaskPlacement;
use muster_model::node::{Capacity, Device, Free};
use muster_model::sight::JobSight;
use muster_model::state::{ExecutionType, JobState, PriorityClass};
use muster_model::time::Time;

use super::super::{
    Coordinator, CoordinatorInput, CoordinatorOptions, CoordinatorOutput, LeaderPolicy,
};
use crate::cluster::Binding;
use crate::fence::{LedgerEpoch, StartId, Term};
use crate::gang::{AttemptNo, GangId, GangRun, JobId};
use crate::order::{
    FreeList, GangCommand, HeldTask, NodeReport, Order, OrderAnswer, OrderOutcome, RunMember,
    TaskStanding, Tell,
};
use crate::vc::{AcceptedJob, JobDocument, VcEntry, VcState};
use crate::verdict;

/// Cores of each node.
pub(super) const CPU: u32 = 4;

pub(super) struct Bench {
    pub(super) state: VcState,
    pub(super) index: u64,
    pub(super) coordinator: Coordinator,
    pub(super) now: Time,
    pub(super) term: u64,
    /// The newest order to each node.
    pub(super) orders: BTreeMap<NodeId, Order>,
    /// What was sent and committed, in words.
    pub(super) heard: Vec<String>,
    /// The nodes that were asked for reports.
    pub(super) polled: Vec<NodeId>,
    /// What the `cluster` group was asked, and by which version.
    pub(super) asked: Vec<(u64, Binding)>,
    pub(super) start: u64,
    /// Of what nodes say is free.
    pub(super) version: u64,
    /// GPUs of each node.
    pub(super) gpus: u32,
    /// Whether nodes say that containers are on them of which their ledgers know nothing.
    pub(super) has_strays: bool,
    pub(super) options: CoordinatorOptions,
    pub(super) description: ClusterSpec,
}

pub(super) fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

pub(super) fn key(name: &str) -> JobKey {
    format!("alice~{name}").parse().unwrap()
}

/// A role of so many tasks, all of which must succeed.
pub(in crate::coordinator) fn role(tasks: u32, resources: Resources) -> RoleSpec {
    RoleSpec {
        name: "w".parse().unwrap(),
        instances: tasks,
        min_failed: 1,
        min_succeeded: -1,
        task_retry_count: 0,
        image: String::new(),
        image_auth: None,
        resources,
        sku: None,
        pinned: None,
        affinity_group: None,
        near: None,
        shm_mb: None,
        infiniband: false,
        storages: Vec::new(),
        has_ssh: false,
        ssh: None,
        pre_commands: Vec::new(),
        entrypoint: String::new(),
        post_commands: Vec::new(),
    }
}

pub(super) fn job(name: &str, tasks: u32, cpu: u32) -> VcEntry {
    job_of(name, tasks, cpu, None)
}

pub(super) fn job_of(name: &str, tasks: u32, cpu: u32, priority: Option<PriorityClass>) -> VcEntry {
    let role = role(
        tasks,
        Resources {
            cpu,
            ..Resources::default()
        },
    );
    VcEntry::Accept(Box::new(AcceptedJob {
        key: key(name),
        uid: name.parse().unwrap(),
        spec: JobSpec {
            vc: "default".parse().unwrap(),
            retry_count: 0,
            gang: true,
            priority,
            lazy: false,
            max_run_s: None,
            ending: JobEnding::default(),
            partition: Partition::default(),
            roles: vec![role],
            warnings: Vec::new(),
        },
        document: JobDocument::default(),
        sealed_secrets: Vec::new(),
        submitted_ms: 1,
    }))
}

pub(super) fn members(order: &Order) -> Vec<RunMember> {
    match &order.command {
        GangCommand::Reserve { asks, .. } => asks.iter().map(|ask| ask.member.clone()).collect(),
        GangCommand::Launch { tasks, .. } => tasks
            .iter()
            .map(|task| RunMember {
                task: task.placement.task.clone(),
                uid: task.placement.uid.clone(),
            })
            .collect(),
        GangCommand::Go { members }
        | GangCommand::Stop { members, .. }
        | GangCommand::Settle { members } => members.clone(),
    }
}

/// What a node holds of the only task of a job's first run.
pub(super) fn held(vc: &str, job: u64, uid: &str, standing: TaskStanding) -> HeldTask {
    HeldTask {
        vc: vc.parse().unwrap(),
        run: GangRun {
            gang: GangId {
                job: JobId(job),
                task: None,
            },
            attempt: AttemptNo::default(),
            round: 0,
        },
        member: RunMember {
            task: TaskId {
                role: "w".parse().unwrap(),
                index: 0,
            },
            uid: uid.parse().unwrap(),
        },
        standing,
        holding: None,
    }
}

pub(super) fn ended(code: i32) -> TaskStanding {
    let mut verdict = verdict::succeeded();
    verdict.spec.code = code;
    verdict.spec.behavior = Behavior::Unknown;
    verdict.container_exit_code = Some(code);
    TaskStanding::Ended(Box::new(verdict))
}

impl Bench {
    /// A leader of two idle nodes.
    pub(super) fn new() -> Self {
        Self::with(options())
    }

    pub(super) fn with(options: CoordinatorOptions) -> Self {
        let mut bench = Self {
            state: VcState::default(),
            index: 0,
            coordinator: Coordinator::new(options.clone()),
            now: Time::from_millis(1_000_000),
            term: 0,
            orders: BTreeMap::new(),
            heard: Vec::new(),
            polled: Vec::new(),
            asked: Vec::new(),
            start: 1,
            version: 1,
            gpus: 0,
            has_strays: false,
            options,
            description: ClusterSpec::default(),
        };
        bench.elect();
        for name in ["n1", "n2"] {
            bench.report(name, Vec::new());
        }
        bench
    }

    pub(super) fn elect(&mut self) {
        self.term += 1;
        self.coordinator = Coordinator::new(self.options.clone());
        self.input(CoordinatorInput::Described(Some(Box::new(
            self.description.clone(),
        ))));
        self.input(CoordinatorInput::Elected {
            term: Term(self.term),
        });
    }

    pub(super) fn report(&mut self, name: &str, tasks: Vec<HeldTask>) {
        self.report_all(name, tasks, None);
    }

    /// A node without tasks tells whether it takes any.
    pub(super) fn report_closed(&mut self, name: &str, why: Option<&str>) {
        self.report_all(name, Vec::new(), why.map(str::to_owned));
    }

    pub(super) fn report_all(&mut self, name: &str, tasks: Vec<HeldTask>, closed: Option<String>) {
        self.tell_report(self.report_of(name, tasks, closed));
    }

    pub(super) fn report_of(
        &self,
        name: &str,
        tasks: Vec<HeldTask>,
        closed: Option<String>,
    ) -> NodeReport {
        NodeReport {
            node: node(name),
            start: StartId(self.start),
            epoch: LedgerEpoch(1),
            address: "10.0.0.1".to_owned(),
            capacity: Capacity {
                cpu: CPU,
                memory_mb: 1024,
                devices: (0..self.gpus).map(device).collect(),
                levels: Vec::new(),
                port_first: 1,
                port_last: 10,
            },
            free: self.free(),
            closed,
            has_strays: self.has_strays,
            tasks,
        }
    }

    pub(super) fn tell_report(&mut self, report: NodeReport) {
        self.input(CoordinatorInput::Tell {
            node: report.node.clone(),
            tell: Tell::Report(Box::new(report)),
        });
    }

    /// All of a node, as it says of itself.
    pub(super) fn free(&self) -> FreeList {
        let devices = (0..self.gpus).map(|index| (index, device(index).id));
        FreeList {
            version: self.version,
            free: Free {
                cpu: CPU,
                memory_mb: 1024,
                devices: devices.collect(),
                ports: 10,
            },
        }
    }

    /// Handles the input and everything that follows from it.
    pub(super) fn input(&mut self, input: CoordinatorInput) {
        let mut out = Vec::new();
        self.coordinator
            .handle(self.now.into(), &self.state, input, &mut out);
        for output in out {
            match output {
                CoordinatorOutput::Propose(entry) => self.commit(&entry),
                CoordinatorOutput::Send { node, order } => {
                    let word = match order.command {
                        GangCommand::Reserve { .. } => "reserve",
                        GangCommand::Launch { .. } => "launch",
                        GangCommand::Go { .. } => "go",
                        GangCommand::Stop { .. } => "stop",
                        GangCommand::Settle { .. } => "settle",
                    };
                    self.heard.push(format!("{node} {word}"));
                    self.orders.insert(node, *order);
                }
                CoordinatorOutput::AskReport { node } => self.polled.push(node),
                CoordinatorOutput::Bind { known, binding } => self.asked.push((known, *binding)),
            }
        }
    }

    pub(super) fn commit(&mut self, entry: &VcEntry) {
        let word = match entry {
            VcEntry::Placed(_) => "Placed",
            VcEntry::Go { .. } => "Go",
            VcEntry::Void { .. } => "Void",
            VcEntry::Stopping { .. } => "Stopping",
            VcEntry::TaskEnded { .. } => "TaskEnded",
            VcEntry::OnHold { .. } => "OnHold",
            VcEntry::HourPassed => "HourPassed",
            _ => "",
        };
        if !word.is_empty() {
            self.heard.push(word.to_owned());
        }
        self.index += 1;
        let applied = self.state.apply(self.index, entry);
        self.input(CoordinatorInput::Applied(applied));
    }

    /// The node answers its newest order.
    pub(super) fn answer(&mut self, name: &str, reply: OrderOutcome) {
        let order = self.orders[&node(name)].clone();
        self.answer_to(name, &order, reply);
    }

    pub(super) fn answer_to(&mut self, name: &str, order: &Order, reply: OrderOutcome) {
        let answer = OrderAnswer {
            vc: order.vc.clone(),
            fence: order.fence,
            epoch: order.epoch,
            start: order.start,
            run: order.run.clone(),
            reply,
            free: self.free(),
        };
        self.input(CoordinatorInput::Tell {
            node: node(name),
            tell: Tell::Answer(answer),
        });
    }

    pub(super) fn grant(&mut self, name: &str) {
        let members = members(&self.orders[&node(name)]).into_iter();
        self.answer(
            name,
            OrderOutcome::Granted(members.map(|m| (m, Vec::new())).collect()),
        );
    }

    /// Every task of the node's newest order stands so.
    pub(super) fn stands(&mut self, name: &str, standing: &TaskStanding) {
        let members = members(&self.orders[&node(name)]).into_iter();
        let list = members.map(|member| (member, standing.clone())).collect();
        self.answer(name, OrderOutcome::Standing(list));
    }

    /// Lets the time pass until the leader wants to do something.
    pub(super) fn wait(&mut self) -> u64 {
        let before = self.now;
        self.now = self.now.max(self.coordinator.deadline().unwrap());
        self.input(CoordinatorInput::Tick);
        self.now.micros_since(before) / 1000
    }

    /// Whether only time is to pass for what has ended.
    pub(super) fn has_nothing_to_do(&self) -> bool {
        let hour = self.coordinator.history.next();
        self.coordinator.deadline() == hour
    }

    /// Takes what was heard since the last call.
    pub(super) fn heard(&mut self) -> String {
        std::mem::take(&mut self.heard).join(", ")
    }

    /// A job with a task on each of two nodes, which have been told to launch them.
    pub(super) fn placed() -> Self {
        let mut bench = Self::new();
        bench.commit(&job("x", 2, CPU));
        bench.grant("n1");
        bench.grant("n2");
        bench
    }

    /// A job with a task on each node, as far as its tasks being ready.
    pub(super) fn ready(&mut self) {
        self.commit(&job("x", 2, CPU));
        self.grant("n1");
        self.grant("n2");
        self.heard();
        self.stands("n1", &TaskStanding::Ready);
        assert_eq!(self.heard(), "", "one is not ready yet");
        self.stands("n2", &TaskStanding::Ready);
    }

    pub(super) fn stop(&mut self, name: &str) {
        self.commit(&VcEntry::SetExecution {
            job: key(name),
            value: ExecutionType::Stop,
            at_ms: 1,
        });
    }

    /// Lets the time pass until something is sent or committed, 10 minutes at most.
    pub(super) fn wait_long(&mut self) -> String {
        let end = self.now.plus_millis(600_000);
        while self.heard.is_empty() && self.now < end {
            self.wait();
        }
        self.heard()
    }

    pub(super) fn unreachable(&mut self, names: &[&str]) {
        let names = names.iter().map(|name| node(name));
        self.input(CoordinatorInput::Unreachable(names.collect()));
    }

    /// Where the tasks of a job are placed.
    pub(super) fn places(&self, name: &str) -> Vec<TaskPlacement> {
        let id = self.state.job_id(&key(name)).unwrap();
        let current = self.state.gangs_of(id).next().unwrap();
        let tasks = current.job.attempt.tasks_of(current.gang);
        tasks.filter_map(|task| task.live().cloned()).collect()
    }

    pub(super) fn audit(&self) {
        assert_eq!(self.coordinator.audit(&self.state), Ok(()));
    }

    pub(super) fn state(&self) -> JobState {
        self.state.summary(&key("x")).unwrap().state()
    }

    pub(super) fn waiting_for(&self, name: &str) -> String {
        let reason = self
            .coordinator
            .waiting_for(&self.state, &key(name), &JobSight::All);
        reason.unwrap_or_default()
    }
}

pub(super) fn options() -> CoordinatorOptions {
    CoordinatorOptions {
        vc: "default".parse().unwrap(),
        generation: 1,
        seed: 1,
        policy: LeaderPolicy::default(),
    }
}

/// A GPU of a node.
fn device(index: u32) -> Device {
    Device::simulated(format!("GPU-{index}"), index, "V100")
}
