//! One leader between a log that commits at once and nodes that say what the test has them say.

mod ageing;
mod answering;
mod away;
mod binding;
mod describing;
mod foreign;
mod giving_way;
mod judging;
mod launching;
mod listing;
mod queueing;
mod recovered;
mod relocation;
mod settling;

use std::collections::{BTreeMap, BTreeSet};

use muster_model::cluster_spec::ClusterSpec;
use muster_model::exit::Behavior;
use muster_model::explanation::Earliest;
use muster_model::id::{JobKey, NodeId, TaskId};
use muster_model::job::{JobSpec, Partition, Resources, RoleSpec};
use muster_model::launch::TaskPlacement;
use muster_model::node::{Capacity, Free};
use muster_model::sight::JobSight;
use muster_model::state::{ExecutionType, JobState, PriorityClass};
use muster_model::time::Time;
use muster_model::vc::WhatIf;

use super::{Coordinator, CoordinatorInput, CoordinatorOptions, CoordinatorOutput, LeaderPolicy};
use crate::cluster::Binding;
use crate::fence::{LedgerEpoch, StartId, Term};
use crate::gang::{AttemptNo, GangId, GangRun, JobId};
use crate::order::{
    FreeList, GangCommand, HeldTask, NodeReport, Order, OrderAnswer, OrderOutcome, OrderRefusal,
    RunMember, TaskStanding, Tell,
};
use crate::vc::{AcceptedJob, JobDocument, VcEntry, VcState};
use crate::verdict;

/// Cores of each node.
const CPU: u32 = 4;

struct Bench {
    state: VcState,
    index: u64,
    coordinator: Coordinator,
    now: Time,
    term: u64,
    /// The newest order to each node.
    orders: BTreeMap<NodeId, Order>,
    /// What was sent and committed, in words.
    heard: Vec<String>,
    /// The nodes that were asked for reports.
    polled: Vec<NodeId>,
    /// What the `cluster` group was asked, and by which version.
    asked: Vec<(u64, Binding)>,
    start: u64,
    /// Of what nodes say is free.
    version: u64,
    /// Whether nodes say that containers are on them of which their ledgers know nothing.
    has_strays: bool,
    options: CoordinatorOptions,
    description: ClusterSpec,
}

fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

fn key(name: &str) -> JobKey {
    format!("alice~{name}").parse().unwrap()
}

/// A role of so many tasks, all of which must succeed.
pub(super) fn role(tasks: u32, resources: Resources) -> RoleSpec {
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
        pre_commands: Vec::new(),
        entrypoint: String::new(),
        post_commands: Vec::new(),
    }
}

fn job(name: &str, tasks: u32, cpu: u32) -> VcEntry {
    job_of(name, tasks, cpu, None)
}

fn job_of(name: &str, tasks: u32, cpu: u32, priority: Option<PriorityClass>) -> VcEntry {
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
            partition: Partition::default(),
            roles: vec![role],
            warnings: Vec::new(),
        },
        document: JobDocument::default(),
        sealed_secrets: Vec::new(),
        submitted_ms: 1,
    }))
}

fn members(order: &Order) -> Vec<RunMember> {
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
fn held(vc: &str, job: u64, uid: &str, standing: TaskStanding) -> HeldTask {
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

fn ended(code: i32) -> TaskStanding {
    let mut verdict = verdict::succeeded();
    verdict.spec.code = code;
    verdict.spec.behavior = Behavior::Unknown;
    verdict.container_exit_code = Some(code);
    TaskStanding::Ended(Box::new(verdict))
}

impl Bench {
    /// A leader of two idle nodes.
    fn new() -> Self {
        Self::with(options())
    }

    fn with(options: CoordinatorOptions) -> Self {
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

    fn elect(&mut self) {
        self.term += 1;
        self.coordinator = Coordinator::new(self.options.clone());
        self.input(CoordinatorInput::Described(Some(Box::new(
            self.description.clone(),
        ))));
        self.input(CoordinatorInput::Elected {
            term: Term(self.term),
        });
    }

    fn report(&mut self, name: &str, tasks: Vec<HeldTask>) {
        self.report_all(name, tasks, None);
    }

    /// A node without tasks tells whether it takes any.
    fn report_closed(&mut self, name: &str, why: Option<&str>) {
        self.report_all(name, Vec::new(), why.map(str::to_owned));
    }

    fn report_all(&mut self, name: &str, tasks: Vec<HeldTask>, closed: Option<String>) {
        self.tell_report(self.report_of(name, tasks, closed));
    }

    fn report_of(&self, name: &str, tasks: Vec<HeldTask>, closed: Option<String>) -> NodeReport {
        NodeReport {
            node: node(name),
            start: StartId(self.start),
            epoch: LedgerEpoch(1),
            address: "10.0.0.1".to_owned(),
            capacity: Capacity {
                cpu: CPU,
                memory_mb: 1024,
                devices: Vec::new(),
                levels: Vec::new(),
                port_first: 1,
                port_last: 10,
            },
            free: free(self.version),
            closed,
            has_strays: self.has_strays,
            tasks,
        }
    }

    fn tell_report(&mut self, report: NodeReport) {
        self.input(CoordinatorInput::Tell {
            node: report.node.clone(),
            tell: Tell::Report(Box::new(report)),
        });
    }

    /// Handles the input and everything that follows from it.
    fn input(&mut self, input: CoordinatorInput) {
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

    fn commit(&mut self, entry: &VcEntry) {
        let word = match entry {
            VcEntry::Placed(_) => "Placed",
            VcEntry::Go { .. } => "Go",
            VcEntry::Void { .. } => "Void",
            VcEntry::Stopping { .. } => "Stopping",
            VcEntry::TaskEnded { .. } => "TaskEnded",
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
    fn answer(&mut self, name: &str, reply: OrderOutcome) {
        let order = self.orders[&node(name)].clone();
        self.answer_to(name, &order, reply);
    }

    fn answer_to(&mut self, name: &str, order: &Order, reply: OrderOutcome) {
        let answer = OrderAnswer {
            vc: order.vc.clone(),
            fence: order.fence,
            epoch: order.epoch,
            start: order.start,
            run: order.run.clone(),
            reply,
            free: free(self.version),
        };
        self.input(CoordinatorInput::Tell {
            node: node(name),
            tell: Tell::Answer(answer),
        });
    }

    fn grant(&mut self, name: &str) {
        let members = members(&self.orders[&node(name)]).into_iter();
        self.answer(
            name,
            OrderOutcome::Granted(members.map(|m| (m, Vec::new())).collect()),
        );
    }

    /// Every task of the node's newest order stands so.
    fn stands(&mut self, name: &str, standing: &TaskStanding) {
        let members = members(&self.orders[&node(name)]).into_iter();
        let list = members.map(|member| (member, standing.clone())).collect();
        self.answer(name, OrderOutcome::Standing(list));
    }

    /// Lets the time pass until the leader wants to do something.
    fn wait(&mut self) -> u64 {
        let before = self.now;
        self.now = self.now.max(self.coordinator.deadline().unwrap());
        self.input(CoordinatorInput::Tick);
        self.now.micros_since(before) / 1000
    }

    /// Whether only time is to pass for what has ended.
    fn has_nothing_to_do(&self) -> bool {
        let hour = self.coordinator.history.next();
        self.coordinator.deadline() == hour
    }

    /// Takes what was heard since the last call.
    fn heard(&mut self) -> String {
        std::mem::take(&mut self.heard).join(", ")
    }

    /// A job with a task on each of two nodes, which have been told to launch them.
    fn placed() -> Self {
        let mut bench = Self::new();
        bench.commit(&job("x", 2, CPU));
        bench.grant("n1");
        bench.grant("n2");
        bench
    }

    /// A job with a task on each node, as far as its tasks being ready.
    fn ready(&mut self) {
        self.commit(&job("x", 2, CPU));
        self.grant("n1");
        self.grant("n2");
        self.heard();
        self.stands("n1", &TaskStanding::Ready);
        assert_eq!(self.heard(), "", "one is not ready yet");
        self.stands("n2", &TaskStanding::Ready);
    }

    fn stop(&mut self, name: &str) {
        self.commit(&VcEntry::SetExecution {
            job: key(name),
            value: ExecutionType::Stop,
            at_ms: 1,
        });
    }

    /// Lets the time pass until something is sent or committed, 10 minutes at most.
    fn wait_long(&mut self) -> String {
        let end = self.now.plus_millis(600_000);
        while self.heard.is_empty() && self.now < end {
            self.wait();
        }
        self.heard()
    }

    fn unreachable(&mut self, names: &[&str]) {
        let names = names.iter().map(|name| node(name));
        self.input(CoordinatorInput::Unreachable(names.collect()));
    }

    /// Where the tasks of a job are placed.
    fn places(&self, name: &str) -> Vec<TaskPlacement> {
        let id = self.state.job_id(&key(name)).unwrap();
        let current = self.state.gangs_of(id).next().unwrap();
        let tasks = current.job.attempt.tasks_of(current.gang);
        tasks.filter_map(|task| task.live().cloned()).collect()
    }

    fn audit(&self) {
        assert_eq!(self.coordinator.audit(&self.state), Ok(()));
    }

    fn state(&self) -> JobState {
        self.state.summary(&key("x")).unwrap().state()
    }

    fn waiting_for(&self, name: &str) -> String {
        let reason = self
            .coordinator
            .waiting_for(&self.state, &key(name), &JobSight::All);
        reason.unwrap_or_default()
    }
}

fn options() -> CoordinatorOptions {
    CoordinatorOptions {
        vc: "default".parse().unwrap(),
        generation: 1,
        seed: 1,
        policy: LeaderPolicy::default(),
    }
}

fn free(version: u64) -> FreeList {
    FreeList {
        version,
        free: Free {
            cpu: CPU,
            memory_mb: 1024,
            devices: Vec::new(),
            ports: 10,
        },
    }
}

#[test]
fn a_gang_from_acceptance_to_the_end() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 2, CPU));
    assert_eq!(bench.heard(), "n1 reserve, n2 reserve");
    bench.grant("n1");
    assert_eq!(bench.heard(), "", "half a gang is not placed");
    bench.grant("n2");
    assert_eq!(bench.heard(), "Placed, n1 launch, n2 launch");
    bench.stands("n1", &TaskStanding::Ready);
    bench.stands("n2", &TaskStanding::Starting);
    assert_eq!(bench.heard(), "", "half a gang does not start");
    bench.stands("n2", &TaskStanding::Ready);
    assert_eq!(bench.heard(), "Go, n1 go, n2 go");
    assert_eq!(bench.state(), JobState::Running);
    bench.stands("n1", &ended(0));
    assert_eq!(bench.heard(), "TaskEnded, n1 settle");
    bench.stands("n2", &ended(0));
    assert_eq!(bench.heard(), "TaskEnded, n2 settle");
    assert_eq!(bench.state(), JobState::Succeeded);
    // That they have forgotten it is asked for once.
    bench.wait();
    for name in ["n1", "n2"] {
        bench.report(name, Vec::new());
    }
    assert!(bench.has_nothing_to_do());
}

#[test]
fn a_task_that_fails_takes_the_rest_with_it() {
    let mut bench = Bench::new();
    bench.ready();
    bench.heard();
    bench.stands("n1", &ended(1));
    assert_eq!(bench.heard(), "TaskEnded, n1 settle, n2 stop");
    assert_eq!(bench.state(), JobState::Running, "n2 may still run it");
    bench.stands("n2", &ended(143));
    assert_eq!(bench.heard(), "TaskEnded, n2 settle");
    assert_eq!(bench.state(), JobState::Failed);
}

#[test]
fn a_refused_plan_is_taken_back_and_made_again() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 2, CPU));
    bench.heard();
    bench.grant("n1");
    let refusal = OrderRefusal::NotFree("4 cores asked, 2 free".to_owned());
    bench.answer("n2", OrderOutcome::Refused(refusal));
    assert_eq!(bench.heard(), "n1 stop, n2 stop");
    let pause = bench.wait();
    assert!((1..=100).contains(&pause), "{pause} ms");
    assert_eq!(bench.heard(), "n1 reserve, n2 reserve");
}

#[test]
fn only_the_answer_to_the_newest_order_counts() {
    type Bend = fn(&mut Order);
    let table: [(Bend, &str); 4] = [
        (|_| (), "Placed, n1 launch"),
        (|order| order.fence.seq -= 1, ""),
        (|order| order.fence.term = Term(0), ""),
        (|order| order.start = StartId(9), ""),
    ];
    for (i, (bend, expected)) in table.into_iter().enumerate() {
        let mut bench = Bench::new();
        bench.commit(&job("x", 1, CPU));
        bench.wait();
        assert_eq!(bench.heard(), "n1 reserve, n1 reserve");
        let mut order = bench.orders[&node("n1")].clone();
        let granted = members(&order).into_iter().map(|m| (m, Vec::new()));
        let reply = OrderOutcome::Granted(granted.collect());
        bend(&mut order);
        bench.answer_to("n1", &order, reply);
        assert_eq!(bench.heard(), expected, "row {i}");
    }
}

#[test]
fn orders_are_sent_again_ever_more_rarely() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 1, CPU));
    bench.grant("n1");
    bench.stands("n1", &TaskStanding::Ready);
    bench.heard();
    let mut pauses = Vec::new();
    while pauses.iter().sum::<u64>() < 120_000 {
        let mut pause = 0;
        while bench.heard.is_empty() {
            pause += bench.wait();
        }
        assert_eq!(bench.heard(), "n1 go");
        pauses.push(pause);
    }
    assert_eq!(pauses[..6], [1000, 2000, 4000, 8000, 16_000, 30_000]);
    assert_eq!(pauses.last(), Some(&30_000));
    // A new life of the agent knows of no order, and gets it soon.
    bench.start = 2;
    bench.report("n1", Vec::new());
    assert_eq!((bench.wait(), bench.heard().as_str()), (1000, "n1 go"));
    assert_eq!(bench.orders[&node("n1")].start, StartId(2));
}

#[test]
fn a_new_leader_takes_up_what_is_committed() {
    let mut bench = Bench::new();
    bench.ready();
    bench.heard();
    let running = bench.orders[&node("n1")].clone();
    bench.elect();
    assert_eq!(bench.heard(), "", "it knows no node yet");
    let member = members(&running).remove(0);
    let held = |standing| HeldTask {
        vc: "default".parse().unwrap(),
        run: running.run.clone(),
        member: member.clone(),
        standing,
        holding: None,
    };
    bench.report("n1", vec![held(TaskStanding::Running)]);
    bench.report("n2", Vec::new());
    assert_eq!(bench.heard(), "n1 go, n2 go");
    bench.stands("n2", &TaskStanding::Gone);
    assert_eq!(
        bench.heard(),
        "TaskEnded, n1 stop",
        "lost, so the gang ends"
    );
    bench.stands("n1", &TaskStanding::Gone);
    bench.heard();
    bench.report("n1", vec![held(TaskStanding::Running)]);
    let heard = bench.heard();
    assert!(heard.contains("n1 stop"), "left over from before: {heard}");
    bench.report("n1", vec![held(ended(0))]);
    assert_eq!(bench.heard(), "n1 settle");
}

#[test]
fn without_a_node_nothing_is_refused() {
    let mut bench = Bench::new();
    bench.coordinator = Coordinator::new(bench.options.clone());
    bench.elect();
    bench.commit(&job("x", 1, CPU));
    assert_eq!(
        bench.waiting_for("x"),
        "waits for a machine: none is connected"
    );
    let told = bench
        .coordinator
        .explanation(bench.now, &bench.state, (&key("x"), &JobSight::All));
    let told = told.unwrap().gangs.remove(0);
    assert_eq!(
        (&*told.constraint, told.earliest),
        ("nodes", Earliest::Unknown)
    );
    bench.report("n1", Vec::new());
    assert_eq!(bench.heard(), "n1 reserve");
}

#[test]
fn a_waiting_job_says_why() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 2, CPU));
    assert_eq!(
        bench.waiting_for("x"),
        "waits for its resources to be reserved"
    );
    bench.commit(&job("huge", 1, 64));
    bench.commit(&job("next", 1, 1));
    bench.commit(&job("last", 1, 1));
    assert_eq!(
        bench.waiting_for("huge"),
        "asks for 64 CPU cores, but the largest node has 4: it can never start here, ask for less"
    );
    bench.grant("n1");
    bench.grant("n2");
    assert_eq!(bench.waiting_for("x"), "");
}

#[test]
fn a_launch_that_takes_long_says_where() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 2, CPU));
    bench.grant("n1");
    bench.grant("n2");
    assert_eq!(bench.waiting_for("x"), "");
    bench.stands("n1", &TaskStanding::Starting);
    bench.stands("n2", &TaskStanding::Starting);
    let placed = bench.now;
    while bench.now.micros_since(placed) < 12_000_000 {
        bench.wait();
    }
    let reason = bench.waiting_for("x");
    assert!(
        reason.starts_with("waits for its containers on n1, n2 for "),
        "{reason}"
    );
    bench.stands("n1", &TaskStanding::Ready);
    bench.stands("n2", &TaskStanding::Ready);
    assert_eq!(bench.waiting_for("x"), "", "it runs");
}

const CRIT: Option<PriorityClass> = Some(PriorityClass::Crit);

#[test]
fn a_new_leader_gives_nobody_what_runs_on_the_node_that_reports_last() {
    let mut bench = Bench::new();
    bench.ready();
    bench.elect();
    bench.heard();
    for name in ["n1", "n2"] {
        bench.report(name, Vec::new());
        bench.audit();
    }
    bench.heard();
    bench.commit(&job("z", 1, CPU));
    assert_eq!(bench.heard(), "");
    assert!(
        bench.waiting_for("z").contains("CPU"),
        "{}",
        bench.waiting_for("z")
    );
}

#[test]
fn who_was_refused_keeps_its_place_while_it_pauses() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 2, CPU));
    bench.grant("n1");
    bench.heard();
    let refusal = OrderRefusal::NotFree("4 cores asked, 2 free".to_owned());
    bench.answer("n2", OrderOutcome::Refused(refusal));
    assert_eq!(bench.heard(), "n1 stop, n2 stop");
    bench.commit(&job("z", 1, CPU));
    assert_eq!(bench.heard(), "", "nobody slips in");
    bench.wait();
    assert_eq!(bench.heard(), "n1 reserve, n2 reserve");
    bench.audit();
}

#[test]
fn nothing_is_placed_where_nobody_can_reach() {
    let mut bench = Bench::new();
    bench.input(CoordinatorInput::Unreachable([node("n1")].into()));
    bench.commit(&job("x", 1, CPU));
    assert_eq!(bench.heard(), "n2 reserve");
    bench.commit(&job("y", 1, CPU));
    bench.report("n1", Vec::new());
    assert_eq!(bench.heard(), "", "its word arrived, but it may be old");
    bench.input(CoordinatorInput::Unreachable([node("n2")].into()));
    assert_eq!(bench.heard(), "n2 stop, n1 reserve");
    bench.elect();
    bench.input(CoordinatorInput::Unreachable([node("n1")].into()));
    bench.report("n1", Vec::new());
    bench.commit(&job("z", 1, CPU));
    assert_eq!(bench.heard(), "", "a new leader heeds it too");
}
