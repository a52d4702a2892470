//! One ledger between a script of orders and a script of what the executor sees.

mod cell_epochs;
mod claims;
mod keep;
mod orphans;
mod reports;
mod strays;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::exit::{Cause, Verdict};
use muster_model::id::{AttemptUid, JobKey, TaskId};
use muster_model::launch::{TaskLimits, TaskPlacement, TaskSpec};
use muster_model::node::{Capacity, Device, DeviceId};
use muster_model::time::Time;
use muster_model::view::TaskHold;

use super::{
    ExecutorStep, LAZY_WRITE_MS, Ledger, LedgerChange, LedgerIdentity, LedgerInput, LedgerOutput,
    Observation,
};
use crate::fence::{Fence, LedgerEpoch, StartId, Term};
use crate::gang::{AttemptNo, GangId, GangRun, JobId};
use crate::order::{
    GangCommand, Order, OrderAnswer, OrderOutcome, OrderRefusal, ReserveAsk, RunMember,
    TaskStanding, Tell,
};
use crate::verdict;

const TTL_MS: u64 = 10_000;
/// Cores and devices of the node.
const CPU: u32 = 8;
const DEVICES: u32 = 2;

/// A ledger, its disk and what it was heard to say.
struct Bench {
    ledger: Ledger,
    disk: BTreeMap<String, Vec<u8>>,
    now: Time,
    start: u64,
    seq: u64,
    steps: Vec<String>,
    tells: Vec<Tell>,
}

fn capacity() -> Capacity {
    let device = |index| Device::simulated(format!("gpu{index}"), index, "");
    Capacity {
        cpu: CPU,
        memory_mb: 1024,
        devices: (0..DEVICES).map(device).collect(),
        levels: Vec::new(),
        port_first: 100,
        port_last: 103,
    }
}

fn identity(start: u64) -> LedgerIdentity {
    LedgerIdentity {
        node: "n1".parse().unwrap(),
        address: "10.0.0.1".to_owned(),
        epoch: LedgerEpoch(1),
        start: StartId(start),
    }
}

fn key() -> JobKey {
    "alice~x".parse().unwrap()
}

fn member(job: u64) -> RunMember {
    let task = TaskId {
        role: "w".parse().unwrap(),
        index: 0,
    };
    RunMember {
        task,
        uid: uid(job),
    }
}

fn uid(job: u64) -> AttemptUid {
    format!("u{job}").parse().unwrap()
}

fn run(job: u64, round: u32) -> GangRun {
    GangRun {
        gang: GangId {
            job: JobId(job),
            task: None,
        },
        attempt: AttemptNo::default(),
        round,
    }
}

/// One task of the job with 4 cores, these devices and one port.
fn reserve(job: u64, devices: &[u32]) -> GangCommand {
    let ask = ReserveAsk {
        member: member(job),
        cpu: 4,
        memory_mb: 100,
        epochs: Vec::new(),
        devices: devices
            .iter()
            .map(|i| (*i, DeviceId(format!("gpu{i}"))))
            .collect(),
        leaves: devices.to_vec(),
        ports: vec![("http".to_owned(), 1)],
    };
    GangCommand::Reserve {
        job: key(),
        asks: vec![ask],
        evictable: false,
        victims: Vec::new(),
        ttl_ms: TTL_MS,
    }
}

fn launch(job: u64) -> GangCommand {
    let spec = TaskSpec {
        job: key(),
        attempt: 0,
        placement: TaskPlacement {
            task: member(job).task,
            uid: uid(job),
            node: "n1".parse().unwrap(),
            address: String::new(),
            leaves: Vec::new(),
            devices: Vec::new(),
            ports: Vec::new(),
        },
        image: String::new(),
        image_auth: None,
        limits: TaskLimits {
            cpu: 4,
            memory_mb: 100,
            shm_mb: 1,
            pids: 1,
            disk_mb: 0,
        },
        lease_s: None,
        hold_s: None,
        infiniband: false,
        storages: Vec::new(),
        ssh: None,
        pre_commands: Vec::new(),
        entrypoint: String::new(),
        post_commands: Vec::new(),
        environment: BTreeMap::new(),
        sealed_secrets: Vec::new(),
    };
    GangCommand::Launch {
        tasks: vec![spec],
        shared: Arc::default(),
        grace_ms: 1_000,
    }
}

fn go(job: u64) -> GangCommand {
    GangCommand::Go {
        members: vec![member(job)],
    }
}

fn stop(job: u64) -> GangCommand {
    GangCommand::Stop {
        members: vec![member(job)],
        cause: Cause::UserStop,
        grace_ms: 1,
    }
}

fn settle(job: u64) -> GangCommand {
    GangCommand::Settle {
        members: vec![member(job)],
    }
}

fn exit() -> Box<Verdict> {
    Box::new(Verdict {
        container_exit_code: Some(0),
        ..verdict::succeeded()
    })
}

impl Bench {
    /// A node whose agent knows the virtual cluster's first term.
    fn new() -> Self {
        let mut bench = Self {
            ledger: Ledger::recover(identity(0), [], capacity()).unwrap(),
            disk: BTreeMap::new(),
            now: Time::from_millis(1),
            start: 0,
            seq: 0,
            steps: Vec::new(),
            tells: Vec::new(),
        };
        bench.learn(1);
        bench.input(LedgerInput::Found(Vec::new()));
        bench.tells.clear();
        bench
    }

    fn learn(&mut self, term: u64) {
        self.input(LedgerInput::Learned {
            vc: "default".parse().unwrap(),
            generation: 1,
            term: Term(term),
        });
    }

    /// Performs the outputs; an agent that dies would have performed none.
    fn input(&mut self, input: LedgerInput) {
        let mut out = Vec::new();
        self.ledger.handle(self.now, input, &|_| true, &mut out);
        for output in out {
            match output {
                LedgerOutput::Persist(changes) => {
                    changes.into_iter().for_each(|change| match change {
                        LedgerChange::Put { key, value } => drop(self.disk.insert(key, value)),
                        LedgerChange::Delete { key } => drop(self.disk.remove(&key)),
                    })
                }
                LedgerOutput::Tell(tell) | LedgerOutput::TellOne(_, tell) => self.tells.push(tell),
                LedgerOutput::Step(step) => self.steps.push(match step {
                    ExecutorStep::Adopt(uid) => format!("adopt {uid}"),
                    ExecutorStep::Create(spec) => {
                        let variables = spec.environment.iter();
                        let variables = variables.map(|(name, value)| format!(" {name}={value}"));
                        format!(
                            "create {}{}",
                            spec.placement.uid,
                            variables.collect::<String>()
                        )
                    }
                    ExecutorStep::Go(uid) => format!("go {uid}"),
                    ExecutorStep::Stop { uid, .. } => format!("stop {uid}"),
                    ExecutorStep::Remove(uid) => format!("remove {uid}"),
                }),
            }
        }
    }

    fn seen(&mut self, job: u64, what: Observation) {
        self.input(LedgerInput::Observed {
            uid: uid(job),
            what,
        });
    }

    /// The leader's next order of this term, for the agent's present life.
    fn order(&mut self, term: u64, run: GangRun, command: GangCommand) -> Order {
        self.seq += 1;
        Order {
            vc: "default".parse().unwrap(),
            fence: Fence {
                generation: 1,
                term: Term(term),
                seq: self.seq,
            },
            epoch: LedgerEpoch(1),
            start: StartId(self.start),
            run,
            command,
        }
    }

    fn deliver(&mut self, order: Order) -> OrderOutcome {
        self.tells.clear();
        self.input(LedgerInput::Order(Box::new(order)));
        match self.tells.remove(0) {
            Tell::Answer(OrderAnswer { reply, .. }) => reply,
            Tell::Report(report) => panic!("no answer but {report:?}"),
        }
    }

    fn say(&mut self, job: u64, command: GangCommand) -> OrderOutcome {
        let order = self.order(1, run(job, 0), command);
        self.deliver(order)
    }

    /// What the reply says, in a word.
    fn told(&mut self, job: u64, command: GangCommand) -> &'static str {
        word(&self.say(job, command))
    }

    /// Takes the steps since the last call.
    fn steps(&mut self) -> String {
        std::mem::take(&mut self.steps).join(", ")
    }

    /// The agent dies and comes back with what is on its disk.
    fn restart(&mut self) {
        self.start += 1;
        self.ledger = Ledger::recover(identity(self.start), self.disk.clone(), capacity()).unwrap();
        self.input(LedgerInput::Started);
        self.input(LedgerInput::Found(Vec::new()));
    }

    fn free_cpu(&self) -> u32 {
        self.ledger.free().free.cpu
    }
}

fn word(reply: &OrderOutcome) -> &'static str {
    match reply {
        OrderOutcome::Granted(_) => "granted",
        OrderOutcome::Settled => "settled",
        OrderOutcome::Refused(OrderRefusal::NotFree(_)) => "not free",
        OrderOutcome::Refused(OrderRefusal::Outdated) => "outdated",
        OrderOutcome::Refused(_) => "refused",
        OrderOutcome::Standing(list) => match &list[0].1 {
            TaskStanding::Reserved => "reserved",
            TaskStanding::Absent => "absent",
            TaskStanding::Starting => "starting",
            TaskStanding::Ready => "ready",
            TaskStanding::OnHold(_) => "on hold",
            TaskStanding::Running => "running",
            TaskStanding::Stopping => "stopping",
            TaskStanding::Evicted => "evicted",
            TaskStanding::Ended(_) => "ended",
            TaskStanding::Gone => "gone",
        },
    }
}

#[test]
fn a_task_from_its_reservation_to_the_end() {
    let mut bench = Bench::new();
    assert_eq!(bench.told(1, reserve(1, &[0])), "granted");
    assert_eq!(bench.told(1, launch(1)), "starting");
    assert_eq!(bench.told(1, launch(1)), "starting", "said again");
    assert_eq!(bench.told(1, reserve(1, &[0])), "outdated");
    assert_eq!(bench.told(1, go(1)), "starting");
    assert_eq!(bench.steps(), "create u1");
    bench.seen(1, Observation::Ready);
    assert_eq!(bench.steps(), "go u1", "Go came before Ready");
    assert_eq!(bench.told(1, go(1)), "running");
    bench.seen(1, Observation::Ended(exit()));
    assert_eq!(bench.steps(), "remove u1");
    assert_eq!(bench.free_cpu(), CPU - 4, "held until nothing is left");
    bench.seen(1, Observation::Gone);
    assert_eq!(bench.free_cpu(), CPU);
    assert_eq!(bench.told(1, stop(1)), "ended");
    bench.restart();
    assert_eq!(
        bench.steps(),
        "remove u1",
        "that it is gone was not written"
    );
    bench.seen(1, Observation::Gone);
    assert_eq!(bench.told(1, stop(1)), "ended", "the exit is durable");
    assert_eq!(bench.told(1, settle(1)), "settled");
    assert_eq!(bench.told(1, stop(1)), "gone");
}

#[test]
fn a_node_that_is_kept_free_reserves_nothing_and_launches_what_was_placed() {
    let mut bench = Bench::new();
    bench.told(1, reserve(1, &[0]));
    bench.input(LedgerInput::Closed(Some("it is off limits".to_owned())));
    assert_eq!(bench.told(2, reserve(2, &[1])), "not free");
    assert_eq!(bench.told(1, reserve(1, &[0])), "not free", "said again");
    assert_eq!(bench.told(1, launch(1)), "starting");
    bench.input(LedgerInput::Closed(None));
    assert_eq!(bench.told(2, reserve(2, &[1])), "granted");
}

#[test]
fn nothing_is_granted_twice() {
    let table: &[(&[u32], &[u32], &str)] = &[
        (&[0], &[1], "granted"),
        (&[0], &[0], "not free"),
        (&[0, 1], &[1], "not free"),
        (&[], &[2], "not free"),
    ];
    for (first, second, expected) in table {
        let mut bench = Bench::new();
        assert_eq!(bench.told(1, reserve(1, first)), "granted");
        assert_eq!(bench.told(2, reserve(2, second)), *expected, "{second:?}");
        // A third has no cores, unless one of the two was refused.
        let third = if *expected == "granted" {
            "not free"
        } else {
            "granted"
        };
        assert_eq!(bench.told(3, reserve(3, &[])), third);
    }
}

#[test]
fn a_reservation_ends_by_itself_and_a_newer_one_replaces_it() {
    let mut bench = Bench::new();
    bench.say(1, reserve(1, &[0]));
    let newer = bench.order(1, run(1, 1), reserve(2, &[1]));
    assert!(matches!(bench.deliver(newer), OrderOutcome::Granted(_)));
    assert_eq!(bench.free_cpu(), CPU - 4, "the older is gone");
    assert_eq!(bench.told(1, reserve(1, &[0])), "outdated");
    bench.now = bench.now.plus_millis(TTL_MS);
    assert!(bench.ledger.deadline() <= Some(bench.now));
    bench.input(LedgerInput::Tick);
    assert_eq!(bench.free_cpu(), CPU);
    bench.now = bench.now.plus_millis(LAZY_WRITE_MS);
    bench.input(LedgerInput::Tick);
    assert!(bench.disk.keys().all(|key| !key.starts_with("grant/")));
    assert_eq!(bench.told(1, launch(1)), "gone", "too late");
    assert_eq!(bench.steps(), "");
}

#[test]
fn what_was_set_aside_before_a_reboot_ends_by_the_clock_of_the_new_boot() {
    let mut bench = Bench::new();
    bench.now = Time::from_millis(1_000_000_000);
    bench.say(1, reserve(1, &[0]));
    let all = bench.free_cpu() + 4;
    bench.now = Time::from_millis(1_000);
    bench.restart();
    assert!(bench.free_cpu() < all, "it is not kept at all");
    bench.now = bench.now.plus_millis(super::KEPT_MS);
    bench.input(LedgerInput::Tick);
    assert_eq!(bench.free_cpu(), all);
}

#[test]
fn under_a_lease_nothing_is_launched_that_an_earlier_life_reserved() {
    let leased = |seconds| {
        let mut launch = launch(1);
        if let GangCommand::Launch { tasks, .. } = &mut launch {
            tasks[0].lease_s = seconds;
        }
        launch
    };
    for (restarts, lease, standing) in [
        (false, Some(60), "starting"),
        (true, Some(60), "gone"),
        (true, None, "starting"),
    ] {
        let mut bench = Bench::new();
        let all = bench.free_cpu();
        bench.say(1, reserve(1, &[0]));
        if restarts {
            bench.restart();
        }
        // The lease counts from the grant, and only that life knew when it was.
        assert_eq!(bench.told(1, leased(lease)), standing, "{lease:?}");
        let kept = standing == "starting";
        assert_eq!(bench.free_cpu() < all, kept);
        assert_eq!(bench.steps().contains("create u1"), kept);
    }
}

#[test]
fn after_a_restart_the_executor_says_what_is_left() {
    type Case = (Observation, &'static str, &'static str);
    let hold = TaskHold {
        until: 9,
        code: 1,
        phrase: "failed".to_owned(),
        reason: String::new(),
    };
    let table: [Case; 5] = [
        (Observation::OnHold(Box::new(hold)), "onhold", ""),
        (Observation::Absent, "absent", ""),
        (Observation::Ready, "ready", ""),
        (Observation::Running, "running", ""),
        (Observation::Ended(exit()), "ended", "remove u1"),
    ];
    for (seen, standing, steps) in table {
        let mut bench = Bench::new();
        bench.say(1, reserve(1, &[0]));
        bench.say(1, launch(1));
        bench.steps();
        bench.restart();
        assert_eq!(bench.steps(), "adopt u1");
        assert_eq!(bench.free_cpu(), CPU - 4);
        bench.tells.clear();
        bench.seen(1, seen);
        assert_eq!(bench.tells.len(), 1, "no order of this life: all is told");
        let Tell::Report(report) = &bench.tells[0] else {
            panic!("{:?}", bench.tells);
        };
        assert_eq!(report.tasks.len(), 1);
        assert_eq!(bench.steps(), steps);
        let order = bench.order(1, run(1, 0), settle(9));
        assert_eq!(bench.deliver(order), OrderOutcome::Settled);
        let ledger = bench.ledger.standings(&run(1, 0), &[member(1)]);
        let word = format!("{:?}", ledger[0].1).to_lowercase();
        assert!(word.starts_with(standing), "{word}");
    }
    let mut bench = Bench::new();
    bench.seen(7, Observation::Running);
    assert_eq!(bench.steps(), "remove u7", "nobody here knows it");
}

#[test]
fn what_had_started_and_is_no_more_holds_nothing() {
    for seen_first in [true, false] {
        let mut bench = Bench::new();
        bench.say(1, reserve(1, &[0]));
        bench.say(1, launch(1));
        bench.restart();
        if seen_first {
            bench.seen(1, Observation::Absent);
            assert_eq!(bench.free_cpu(), CPU - 4, "it may be launched again");
            assert_eq!(bench.told(1, go(1)), "gone");
        } else {
            assert_eq!(bench.told(1, go(1)), "starting", "it is still looked for");
            bench.seen(1, Observation::Absent);
            assert_eq!(bench.told(1, go(1)), "gone");
        }
        assert_eq!(bench.free_cpu(), CPU);
    }
}

#[test]
fn orders_are_admitted_by_ledger_life_and_fence() {
    type Bend = fn(&mut Order);
    let table: [(Bend, Option<OrderRefusal>); 7] = [
        (|_| (), None),
        (|order| order.fence.term = Term(2), None),
        (
            |order| order.fence.seq = 1,
            Some(OrderRefusal::Fenced(Fence {
                generation: 1,
                term: Term(1),
                seq: 1,
            })),
        ),
        (
            |order| order.fence.term = Term(0),
            Some(OrderRefusal::Fenced(Fence {
                generation: 1,
                term: Term(1),
                seq: 1,
            })),
        ),
        (
            |order| order.epoch = LedgerEpoch(9),
            Some(OrderRefusal::OtherLife),
        ),
        (
            |order| order.start = StartId(9),
            Some(OrderRefusal::OtherLife),
        ),
        (
            |order| order.vc = "other".parse().unwrap(),
            Some(OrderRefusal::Unfenced),
        ),
    ];
    for (i, (bend, expected)) in table.into_iter().enumerate() {
        let mut bench = Bench::new();
        bench.say(1, reserve(1, &[0]));
        let mut order = bench.order(1, run(1, 0), launch(1));
        bend(&mut order);
        let refused = match bench.deliver(order) {
            OrderOutcome::Refused(refusal) => Some(refusal),
            _ => None,
        };
        assert_eq!(refused, expected, "row {i}");
        assert_eq!(bench.steps().is_empty(), expected.is_some(), "row {i}");
    }
}

/// The disk remembers the term, not each order's number, so after a restart an order of the
/// life before can carry the highest number yet. What refuses it is the life it names.
#[test]
fn an_order_of_the_life_before_does_nothing() {
    let mut bench = Bench::new();
    bench.say(1, reserve(1, &[0]));
    bench.say(1, launch(1));
    bench.seen(1, Observation::Ready);
    let late = bench.order(1, run(1, 0), go(1));
    bench.restart();
    bench.seen(1, Observation::Ready);
    bench.steps();
    let before = bench.disk.clone();
    let refused = bench.deliver(late.clone());
    assert_eq!(refused, OrderOutcome::Refused(OrderRefusal::OtherLife));
    assert_eq!(bench.steps(), "");
    assert_eq!(bench.disk, before);
    // Nothing else stood in its way: named for this life, the same order is carried out.
    let start = StartId(bench.start);
    bench.deliver(Order { start, ..late });
    assert_eq!(bench.steps(), "go u1");
}

#[test]
fn records_that_are_not_understood_stop_the_agent() {
    let table: [(&str, &[u8]); 4] = [
        ("grant/u1", &[]),
        ("grant/u1", &[2, 0]),
        ("grant/u1", &[1, 255]),
        ("other/u1", &[1]),
    ];
    for (key, value) in table {
        let records = [(key.to_owned(), value.to_vec())];
        assert!(Ledger::recover(identity(0), records, capacity()).is_err());
    }
}

#[test]
fn a_node_that_moves_to_other_leaders_counts_terms_anew() {
    let mut bench = Bench::new();
    let order = bench.order(5, run(1, 0), reserve(1, &[]));
    assert!(matches!(bench.deliver(order), OrderOutcome::Granted(_)));
    let late = bench.order(6, run(2, 0), reserve(2, &[]));
    bench.input(LedgerInput::Moved { start: StartId(9) });
    assert!(!bench.disk.keys().any(|key| key.starts_with("fence")));
    let refused = OrderOutcome::Refused(OrderRefusal::OtherLife);
    assert_eq!(bench.deliver(late), refused, "from before");
    bench.start = 9;
    let early = bench.order(2, run(2, 0), reserve(2, &[]));
    assert_eq!(
        bench.deliver(early),
        OrderOutcome::Refused(OrderRefusal::Unfenced)
    );
    bench.learn(2);
    let order = bench.order(2, run(2, 0), reserve(2, &[]));
    assert!(matches!(bench.deliver(order), OrderOutcome::Granted(_)));
}

#[test]
fn a_task_is_created_with_its_own_variables_and_those_of_its_job() {
    let variables = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    let mut bench = Bench::new();
    let mut launch = launch(1);
    if let GangCommand::Launch { tasks, shared, .. } = &mut launch {
        tasks[0].environment = variables(&[("B", "own"), ("C", "own")]);
        *shared = Arc::new(variables(&[("A", "all"), ("B", "all")]));
    }
    bench.told(1, reserve(1, &[0]));
    assert_eq!(bench.told(1, launch), "starting");
    assert_eq!(bench.steps(), "create u1 A=all B=own C=own");
}
