//! Jobs from acceptance to the end, without nodes.

mod again;
mod blame;
mod giving_way;
mod own_cells;
mod room;
mod shown;

use std::collections::BTreeSet;

use muster_model::exit::{Behavior, Cause, Verdict};
use muster_model::id::{JobKey, TaskId};
use muster_model::job::{JobSpec, Partition, Resources, RoleSpec};
use muster_model::launch::Placement;
use muster_model::row::JobRow;
use muster_model::state::{ExecutionType, State};

use super::attempt::Phase;
use super::{
    AcceptedJob, Applied, Document, End, Entry, Placed, ROUNDS_MAX, Rejected, Row, VcState,
};
use crate::fence::LedgerEpoch;
use crate::gang::{Run, attempt_uid};
use crate::verdict;

struct Bench {
    state: VcState,
    index: u64,
}

fn key() -> JobKey {
    "alice~x".parse().unwrap()
}

/// `worker:2 min_failed min_succeeded`
fn spec(gang: bool, retries: i32, roles: &[(&str, u32, i32, i32)]) -> JobSpec {
    let role = |&(name, instances, min_failed, min_succeeded): &(&str, u32, i32, i32)| RoleSpec {
        name: name.parse().unwrap(),
        instances,
        min_failed,
        min_succeeded,
        task_retry_count: retries,
        image: String::new(),
        image_auth: None,
        resources: Resources::default(),
        sku: None,
        pinned: None,
        affinity_group: None,
        near: None,
        shm_mb: None,
        infiniband: false,
        pre_commands: Vec::new(),
        entrypoint: String::new(),
        post_commands: Vec::new(),
    };
    JobSpec {
        vc: "default".parse().unwrap(),
        retry_count: if gang { retries } else { 0 },
        gang,
        priority: None,
        lazy: false,
        max_run_s: None,
        partition: Partition::default(),
        roles: roles.iter().map(role).collect(),
        warnings: Vec::new(),
    }
}

fn exit(code: i32, behavior: Behavior) -> End {
    let mut verdict: Verdict = verdict::succeeded();
    verdict.spec.code = code;
    verdict.spec.behavior = behavior;
    verdict.container_exit_code = Some(code);
    End::Exit(Box::new(verdict))
}

/// It was ended for this.
fn stopped(cause: Cause) -> End {
    End::Exit(Box::new(verdict::stopped(cause)))
}

/// What a job is listed by is what is shown of it.
fn shows_its_summary(row: Row<'_>) {
    let all = |row: &dyn JobRow| {
        let names = (row.key().clone(), row.vc().clone(), row.tags().to_vec());
        let state = (row.state(), row.priority(), row.retries());
        let times = (row.submitted(), row.completed());
        (names, state, times, row.tasks(), row.gpus())
    };
    assert_eq!(all(&row), all(&row.summary()));
}

impl Bench {
    fn new(spec: JobSpec) -> Self {
        let mut bench = Self {
            state: VcState::default(),
            index: 0,
        };
        let job = AcceptedJob {
            key: key(),
            uid: "u".parse().unwrap(),
            spec,
            document: Document::default(),
            sealed_secrets: Vec::new(),
            submitted_ms: 1,
        };
        bench.apply(&Entry::Accept(Box::new(job))).unwrap();
        bench
    }

    /// Applies by way of the log's bytes and a snapshot, so that both are always tried.
    fn apply(&mut self, entry: &Entry) -> Result<Applied, Rejected> {
        self.index += 1;
        let entry = Entry::decode(&entry.encode().unwrap()).unwrap();
        let before = self.state.snapshot();
        let result = self.state.apply(self.index, &entry);
        if result.is_err() {
            assert_eq!(
                before,
                self.state.snapshot(),
                "a rejected entry changed the state"
            );
        }
        self.state = VcState::restore(&self.state.snapshot()).unwrap();
        self.state.rows().for_each(shows_its_summary);
        result
    }

    /// The runs that wait.
    fn waiting(&self) -> Vec<Run> {
        self.state.waiting().map(|current| current.run).collect()
    }

    fn placed(&self, run: &Run) -> Placed {
        let current = self.state.current(&run.gang).unwrap();
        let tasks = current.job.attempt.tasks_of(current.gang);
        let member = |task: &TaskId| Placement {
            task: task.clone(),
            uid: attempt_uid("u", run, task),
            node: "n1".parse().unwrap(),
            address: "10.0.0.1".to_owned(),
            leaves: Vec::new(),
            devices: Vec::new(),
            ports: Vec::new(),
        };
        Placed {
            run: run.clone(),
            members: tasks.map(|task| member(&task.id)).collect(),
            ledgers: vec![("n1".parse().unwrap(), LedgerEpoch(1))],
            lease: None,
            is_within: false,
            instead: None,
            at_ms: 10,
        }
    }

    fn place(&mut self, run: &Run) {
        let placed = self.placed(run);
        self.apply(&Entry::Placed(Box::new(placed))).unwrap();
    }

    fn start(&mut self) {
        for run in self.waiting() {
            self.place(&run);
            self.apply(&Entry::Go { run, at_ms: 20 }).unwrap();
        }
    }

    /// A round of the only task that comes to nothing.
    fn void(&mut self) {
        let run = self.waiting().remove(0);
        self.place(&run);
        let void = Entry::Void {
            run,
            reason: "gone".to_owned(),
            at_ms: 11,
        };
        self.apply(&void).unwrap();
        self.end("w", 0, End::Gone);
    }

    /// Tasks that may hold something on their node.
    fn live(&self) -> Vec<(Run, Placement)> {
        let gangs = self.state.live().flat_map(|current| {
            let tasks = current.job.attempt.tasks_of(current.gang);
            let live: Vec<Placement> = tasks.filter_map(|task| task.live().cloned()).collect();
            live.into_iter()
                .map(move |place| (current.run.clone(), place))
        });
        gangs.collect()
    }

    /// Ends a live task; false if no such task is live.
    fn end(&mut self, name: &str, index: u32, end: End) -> bool {
        let task = TaskId {
            role: name.parse().unwrap(),
            index,
        };
        let live = self.live().into_iter().find(|(_, live)| live.task == task);
        let Some((run, placement)) = live else {
            return false;
        };
        let entry = Entry::TaskEnded {
            run,
            task,
            uid: placement.uid,
            end,
            at_ms: 30,
        };
        self.apply(&entry).unwrap();
        true
    }

    fn state(&self) -> (State, Option<i32>) {
        let summary = self.state.summary(&key()).unwrap();
        (summary.state(), summary.exit_code)
    }
}

#[test]
fn completion_policies() {
    type Roles<'a> = &'a [(&'a str, u32, i32, i32)];
    type Ends<'a> = &'a [(&'a str, u32, i32)];
    let table: &[(Roles<'_>, Ends<'_>, (State, i32))] = &[
        (
            &[("w", 2, 1, -1)],
            &[("w", 0, 0), ("w", 1, 0)],
            (State::Succeeded, 0),
        ),
        (&[("w", 2, 1, -1)], &[("w", 0, 7)], (State::Failed, 7)),
        (
            &[("w", 3, 2, -1)],
            &[("w", 0, 7), ("w", 1, 8)],
            (State::Failed, 8),
        ),
        (
            &[("w", 2, -1, -1)],
            &[("w", 0, 7), ("w", 1, 8)],
            (State::Succeeded, 0),
        ),
        (
            &[("w", 1, 1, 1), ("ps", 2, 1, -1)],
            &[("w", 0, 0)],
            (State::Succeeded, 0),
        ),
        (
            &[("w", 2, -1, 1), ("ps", 1, 1, -1)],
            &[("w", 0, 9), ("w", 1, 0)],
            (State::Succeeded, 0),
        ),
    ];
    for (roles, ends, expected) in table {
        let mut bench = Bench::new(spec(true, 0, roles));
        bench.start();
        assert_eq!(bench.state().0, State::Running);
        for (role, index, code) in *ends {
            assert!(bench.end(role, *index, exit(*code, Behavior::Unknown)));
        }
        // The rest is told to stop, and the job ends only when it has.
        let rest: Vec<TaskId> = bench
            .live()
            .into_iter()
            .map(|(_, place)| place.task)
            .collect();
        for task in rest {
            assert!(!bench.state().0.is_final());
            assert!(bench.end(task.role.as_str(), task.index, exit(143, Behavior::Unknown)));
        }
        assert_eq!(
            bench.state(),
            (expected.0, Some(expected.1)),
            "{roles:?} {ends:?}"
        );
    }
}

#[test]
fn a_gang_is_retried_as_a_whole_and_a_lone_task_alone() {
    let mut gang = Bench::new(spec(true, 1, &[("w", 2, 1, -1)]));
    gang.start();
    gang.end("w", 0, exit(1, Behavior::Unknown));
    assert!(gang.waiting().is_empty(), "the other task may still run");
    gang.end("w", 1, stopped(Cause::AttemptCompleted));
    assert_eq!(gang.waiting()[0].attempt.job, 1);
    assert_eq!(gang.state.summary(&key()).unwrap().retries.accountable, 1);

    let mut lone = Bench::new(spec(false, 1, &[("w", 2, 1, -1)]));
    lone.start();
    lone.end("w", 0, exit(1, Behavior::Unknown));
    let waiting = lone.waiting();
    assert_eq!((waiting[0].attempt.job, waiting[0].attempt.task), (0, 1));
    lone.start();
    lone.end("w", 0, exit(1, Behavior::Unknown));
    lone.end("w", 1, End::Gone);
    assert_eq!(lone.state(), (State::Failed, Some(1)));
    let task = lone
        .state
        .task(&key(), 0, &"w:0".split_once(':').map(task_id).unwrap())
        .unwrap();
    assert_eq!(task.attempts.len(), 2);
}

fn task_id((role, index): (&str, &str)) -> TaskId {
    TaskId {
        role: role.parse().unwrap(),
        index: index.parse().unwrap(),
    }
}

#[test]
fn a_stop_ends_what_waits_at_once_and_what_runs_when_it_is_gone() {
    let stop = Entry::SetExecution {
        job: key(),
        value: ExecutionType::Stop,
        at_ms: 25,
    };
    let mut waiting = Bench::new(spec(true, 5, &[("w", 1, 1, -1)]));
    waiting.apply(&stop).unwrap();
    assert_eq!(waiting.state(), (State::Stopped, Some(-210)));

    let mut running = Bench::new(spec(true, 5, &[("w", 1, 1, -1)]));
    running.start();
    running.apply(&stop).unwrap();
    assert_eq!(running.state(), (State::Stopping, Some(-210)));
    running.end("w", 0, exit(0, Behavior::Unknown));
    assert_eq!(running.state(), (State::Stopped, Some(-210)));
    // A stop while the attempt is ending anyway: what would have been retried is stopped.
    let ends = [
        (End::Gone, (State::Stopped, Some(-210))),
        (exit(1, Behavior::Unknown), (State::Failed, Some(1))),
    ];
    for (end, expected) in ends {
        let mut ending = Bench::new(spec(true, 0, &[("w", 2, 1, -1)]));
        ending.start();
        ending.end("w", 0, end);
        ending.apply(&stop).unwrap();
        ending.end("w", 1, stopped(Cause::AttemptCompleted));
        assert_eq!(ending.state(), expected);
    }
    let start = Entry::SetExecution {
        job: key(),
        value: ExecutionType::Start,
        at_ms: 26,
    };
    assert!(
        running.apply(&start).is_ok(),
        "an ended job takes no notice"
    );
}

#[test]
fn a_round_is_followed_by_the_next_before_its_go_and_never_after() {
    let mut bench = Bench::new(spec(true, 0, &[("w", 2, 1, -1)]));
    let run = bench.waiting().remove(0);
    let next = Run {
        round: 1,
        ..run.clone()
    };
    let mut placed = bench.placed(&next);
    placed.instead = Some("n1 cannot be reached".to_owned());
    placed.members[1].node = "n2".parse().unwrap();
    placed.ledgers.push(("n2".parse().unwrap(), LedgerEpoch(1)));
    let placed = Entry::Placed(Box::new(placed));
    let late = Err(Rejected::NotCurrent(next.clone()));
    assert_eq!(bench.apply(&placed), late, "the first round is not placed");
    bench.place(&run);
    let old = bench.live();
    // Names of the round before name other containers.
    let mut same = bench.placed(&run);
    same.run = next.clone();
    let wrong = Err(Rejected::WrongMembers(next.clone()));
    assert_eq!(bench.apply(&Entry::Placed(Box::new(same))), wrong);
    bench.apply(&placed).unwrap();
    assert_eq!(bench.apply(&placed), late, "once is enough");
    let runs: Vec<Run> = bench.live().into_iter().map(|(run, _)| run).collect();
    assert_eq!(runs, [next.clone(), next.clone()]);
    let events = bench.state.events(&key()).unwrap();
    let message = events.last().map(|event| event.message.clone());
    let expected = "w:1 was placed on n2 instead of n1, for n1 cannot be reached.";
    assert_eq!(message.as_deref(), Some(expected));
    // What was said of the round before comes too late.
    let (run, place) = old[0].clone();
    let go = Entry::Go {
        run: run.clone(),
        at_ms: 20,
    };
    let ended = Entry::TaskEnded {
        run: run.clone(),
        task: place.task,
        uid: place.uid,
        end: End::Gone,
        at_ms: 20,
    };
    for entry in [go, ended] {
        assert_eq!(bench.apply(&entry), Err(Rejected::NotCurrent(run.clone())));
    }
    bench
        .apply(&Entry::Go {
            run: next.clone(),
            at_ms: 20,
        })
        .unwrap();
    let third = Run { round: 2, ..next };
    let placed = Entry::Placed(Box::new(bench.placed(&third)));
    assert_eq!(bench.apply(&placed), Err(Rejected::NotCurrent(third)));
}

#[test]
fn rounds_of_one_attempt_come_to_an_end() {
    let mut bench = Bench::new(spec(true, 0, &[("w", 1, 1, -1)]));
    let mut run = bench.waiting().remove(0);
    while run.round < ROUNDS_MAX {
        bench.place(&run);
        run.round += 1;
    }
    let placed = Entry::Placed(Box::new(bench.placed(&run)));
    assert_eq!(bench.apply(&placed), Err(Rejected::NotCurrent(run)));
}

#[test]
fn what_was_never_started_ends_without_its_nodes_word() {
    let stop = Entry::SetExecution {
        job: key(),
        value: ExecutionType::Stop,
        at_ms: 30,
    };
    for (goes, stops) in [(false, false), (false, true), (true, true)] {
        let mut bench = Bench::new(spec(true, 0, &[("w", 1, 1, -1)]));
        let run = bench.waiting().remove(0);
        bench.place(&run);
        if goes {
            bench.apply(&Entry::Go { run, at_ms: 20 }).unwrap();
        }
        if stops {
            bench.apply(&stop).unwrap();
        }
        let (run, place) = bench.live().remove(0);
        let ended = Entry::TaskEnded {
            run: run.clone(),
            task: place.task,
            uid: place.uid,
            end: End::NotStarted,
            at_ms: 31,
        };
        let expected = match (goes, stops) {
            (false, true) => Ok(State::Stopped),
            (_, _) => Err(Rejected::NotCurrent(run)),
        };
        let applied = bench.apply(&ended).map(|_| bench.state().0);
        assert_eq!(applied, expected, "{goes} {stops}");
    }
}

#[test]
fn a_void_round_is_followed_by_the_next_and_the_barrier_by_a_retry() {
    let mut bench = Bench::new(spec(true, 0, &[("w", 1, 1, -1)]));
    let run = bench.waiting().remove(0);
    bench.place(&run);
    let reason = "gone".to_owned();
    let void = |run: &Run| Entry::Void {
        run: run.clone(),
        reason: reason.clone(),
        at_ms: 11,
    };
    bench.apply(&void(&run)).unwrap();
    assert!(bench.waiting().is_empty());
    bench.end("w", 0, End::Gone);
    let next = bench.waiting().remove(0);
    assert_eq!((next.attempt, next.round), (run.attempt, 1));
    bench.place(&next);
    let timeout = Entry::Stopping {
        run: next,
        cause: Cause::BarrierTimeout,
        by: None,
        at_ms: 12,
    };
    bench.apply(&timeout).unwrap();
    bench.end("w", 0, End::Gone);
    assert_eq!(
        bench.waiting()[0].attempt.job,
        1,
        "251 is retried without being charged"
    );
    let old = bench
        .state
        .detail(&key(), Some(0))
        .unwrap()
        .attempt
        .unwrap();
    assert_eq!(old.verdict.unwrap().code(), 251);
}

#[test]
fn no_job_ends_by_what_the_platform_did() {
    let lost = || End::Exit(Box::new(verdict::lost()));
    for gang in [true, false] {
        let mut bench = Bench::new(spec(gang, 0, &[("w", 1, 1, -1)]));
        for _ in 0..50 {
            // The container vanishes while the commands run,
            bench.start();
            bench.end("w", 0, End::Gone);
            // it was never set up,
            let run = bench.waiting().remove(0);
            bench.place(&run);
            bench.end("w", 0, lost());
            // or its node knows nothing of it.
            bench.void();
        }
        // So often that it counts as never ready in time.
        for _ in 0..3 * ROUNDS_MAX {
            bench.void();
        }
        let summary = bench.state.summary(&key()).unwrap();
        assert!(!summary.state().is_final());
        assert_eq!(summary.retries.accountable, 0);
        bench.start();
        bench.end("w", 0, exit(1, Behavior::Unknown));
        assert_eq!(bench.state(), (State::Failed, Some(1)));
    }
}

#[test]
fn entries_out_of_place_are_refused() {
    let mut bench = Bench::new(spec(true, 0, &[("w", 2, 1, -1)]));
    let run = bench.waiting().remove(0);
    let go = Entry::Go {
        run: run.clone(),
        at_ms: 1,
    };
    let not_current = Err(Rejected::NotCurrent(run.clone()));
    assert_eq!(bench.apply(&go), not_current, "Go before Placed");
    let mut short = bench.placed(&run);
    short.members.pop();
    let short = Entry::Placed(Box::new(short));
    assert_eq!(
        bench.apply(&short),
        Err(Rejected::WrongMembers(run.clone()))
    );
    let placed = Entry::Placed(Box::new(bench.placed(&run)));
    bench.apply(&placed).unwrap();
    assert_eq!(bench.apply(&placed), not_current, "Placed twice");
    bench.apply(&go).unwrap();
    let void = Entry::Void {
        run: run.clone(),
        reason: String::new(),
        at_ms: 1,
    };
    assert_eq!(bench.apply(&void), not_current, "Void after Go");
    let tag = |tag: &str| Entry::AddTag {
        job: key(),
        tag: tag.to_owned(),
    };
    bench.apply(&tag("a")).unwrap();
    bench.apply(&tag("a")).unwrap();
    assert_eq!(bench.state.summary(&key()).unwrap().tags, ["a"]);
}

#[test]
fn the_same_submission_is_one_job() {
    let mut bench = Bench::new(spec(true, 0, &[("w", 1, 1, -1)]));
    let accept = |uid: &str| {
        Entry::Accept(Box::new(AcceptedJob {
            key: key(),
            uid: uid.parse().unwrap(),
            spec: spec(true, 0, &[("w", 1, 1, -1)]),
            document: Document::default(),
            sealed_secrets: Vec::new(),
            submitted_ms: 1,
        }))
    };
    let exists = Err(Rejected::JobExists(key()));
    assert!(bench.apply(&accept("u")).is_ok());
    assert_eq!(bench.apply(&accept("other")), exists);
    assert_eq!(bench.waiting().len(), 1);
    let stop = Entry::SetExecution {
        job: key(),
        value: ExecutionType::Stop,
        at_ms: 2,
    };
    bench.apply(&stop).unwrap();
    assert!(bench.waiting().is_empty());
    assert!(bench.apply(&accept("u")).is_ok());
    assert!(bench.waiting().is_empty(), "it is not begun again");
    assert_eq!(bench.apply(&accept("other")), exists);
}
