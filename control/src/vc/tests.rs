//! Jobs from acceptance to the end, without nodes.

mod again;
mod blame;
mod giving_way;
mod listed;
mod own_cells;
mod room;
mod shown;
mod time_over;

use std::collections::BTreeSet;

use muster_model::exit::{Behavior, Cause, Verdict};
use muster_model::id::{JobKey, TaskId};
use muster_model::job::{JobEnding, JobSpec, Partition, Resources, RoleSpec};
use muster_model::launch::TaskPlacement;
use muster_model::row::JobRow;
use muster_model::state::{ExecutionType, JobState};

use super::attempt::GangPhase;
use super::{
    AcceptedJob, JobDocument, Placed, ROUNDS_MAX, StateJob, TaskEnd, VcApplied, VcEntry,
    VcRejection, VcState,
};
use crate::fence::LedgerEpoch;
use crate::gang::{GangRun, attempt_uid};
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
        storages: Vec::new(),
        has_ssh: false,
        ssh: None,
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
        ending: JobEnding::default(),
        partition: Partition::default(),
        roles: roles.iter().map(role).collect(),
        warnings: Vec::new(),
    }
}

fn exit(code: i32, behavior: Behavior) -> TaskEnd {
    let mut verdict: Verdict = verdict::succeeded();
    verdict.spec.code = code;
    verdict.spec.behavior = behavior;
    verdict.container_exit_code = Some(code);
    TaskEnd::Exit(Box::new(verdict))
}

/// It was ended for this.
fn stopped(cause: Cause) -> TaskEnd {
    TaskEnd::Exit(Box::new(verdict::stopped(cause)))
}

/// What a job is listed by is what is shown of it.
fn shows_its_summary(row: StateJob<'_>) {
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
            document: JobDocument::default(),
            sealed_secrets: Vec::new(),
            submitted_ms: 1,
        };
        bench.apply(&VcEntry::Accept(Box::new(job))).unwrap();
        bench
    }

    /// Applies by way of the log's bytes and a snapshot, so that both are always tried.
    fn apply(&mut self, entry: &VcEntry) -> Result<VcApplied, VcRejection> {
        self.index += 1;
        let entry = VcEntry::decode(&entry.encode().unwrap()).unwrap();
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
    fn waiting(&self) -> Vec<GangRun> {
        self.state.waiting().map(|current| current.run).collect()
    }

    fn placed(&self, run: &GangRun) -> Placed {
        let current = self.state.current(&run.gang).unwrap();
        let tasks = current.job.attempt.tasks_of(current.gang);
        let member = |task: &TaskId| TaskPlacement {
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

    fn place(&mut self, run: &GangRun) {
        let placed = self.placed(run);
        self.apply(&VcEntry::Placed(Box::new(placed))).unwrap();
    }

    fn start(&mut self) {
        for run in self.waiting() {
            self.place(&run);
            self.apply(&VcEntry::Go {
                run,
                limit_s: None,
                at_ms: 20,
            })
            .unwrap();
        }
    }

    /// A round of the only task that comes to nothing.
    fn void(&mut self) {
        let run = self.waiting().remove(0);
        self.place(&run);
        let void = VcEntry::Void {
            run,
            reason: "gone".to_owned(),
            at_ms: 11,
        };
        self.apply(&void).unwrap();
        self.end("w", 0, TaskEnd::Gone);
    }

    /// Tasks that may hold something on their node.
    fn live(&self) -> Vec<(GangRun, TaskPlacement)> {
        let gangs = self.state.live().flat_map(|current| {
            let tasks = current.job.attempt.tasks_of(current.gang);
            let live: Vec<TaskPlacement> = tasks.filter_map(|task| task.live().cloned()).collect();
            live.into_iter()
                .map(move |place| (current.run.clone(), place))
        });
        gangs.collect()
    }

    /// Ends a live task; false if no such task is live.
    fn end(&mut self, name: &str, index: u32, end: TaskEnd) -> bool {
        let task = TaskId {
            role: name.parse().unwrap(),
            index,
        };
        let live = self.live().into_iter().find(|(_, live)| live.task == task);
        let Some((run, placement)) = live else {
            return false;
        };
        let entry = VcEntry::TaskEnded {
            run,
            task,
            uid: placement.uid,
            end,
            at_ms: 30,
        };
        self.apply(&entry).unwrap();
        true
    }

    fn state(&self) -> (JobState, Option<i32>) {
        let summary = self.state.summary(&key()).unwrap();
        (summary.state(), summary.exit_code)
    }
}

#[test]
fn completion_policies() {
    type Roles<'a> = &'a [(&'a str, u32, i32, i32)];
    type Ends<'a> = &'a [(&'a str, u32, i32)];
    let table: &[(Roles<'_>, Ends<'_>, (JobState, i32))] = &[
        (
            &[("w", 2, 1, -1)],
            &[("w", 0, 0), ("w", 1, 0)],
            (JobState::Succeeded, 0),
        ),
        (&[("w", 2, 1, -1)], &[("w", 0, 7)], (JobState::Failed, 7)),
        (
            &[("w", 3, 2, -1)],
            &[("w", 0, 7), ("w", 1, 8)],
            (JobState::Failed, 8),
        ),
        (
            &[("w", 2, -1, -1)],
            &[("w", 0, 7), ("w", 1, 8)],
            (JobState::Succeeded, 0),
        ),
        (
            &[("w", 1, 1, 1), ("ps", 2, 1, -1)],
            &[("w", 0, 0)],
            (JobState::Succeeded, 0),
        ),
        (
            &[("w", 2, -1, 1), ("ps", 1, 1, -1)],
            &[("w", 0, 9), ("w", 1, 0)],
            (JobState::Succeeded, 0),
        ),
    ];
    for (roles, ends, expected) in table {
        let mut bench = Bench::new(spec(true, 0, roles));
        bench.start();
        assert_eq!(bench.state().0, JobState::Running);
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
    lone.end("w", 1, TaskEnd::Gone);
    assert_eq!(lone.state(), (JobState::Failed, Some(1)));
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
    let stop = VcEntry::SetExecution {
        job: key(),
        value: ExecutionType::Stop,
        at_ms: 25,
    };
    let mut waiting = Bench::new(spec(true, 5, &[("w", 1, 1, -1)]));
    waiting.apply(&stop).unwrap();
    assert_eq!(waiting.state(), (JobState::Stopped, Some(-210)));

    let mut running = Bench::new(spec(true, 5, &[("w", 1, 1, -1)]));
    running.start();
    running.apply(&stop).unwrap();
    assert_eq!(running.state(), (JobState::Stopping, Some(-210)));
    running.end("w", 0, exit(0, Behavior::Unknown));
    assert_eq!(running.state(), (JobState::Stopped, Some(-210)));
    // A stop while the attempt is ending anyway: what would have been retried is stopped.
    let ends = [
        (TaskEnd::Gone, (JobState::Stopped, Some(-210))),
        (exit(1, Behavior::Unknown), (JobState::Failed, Some(1))),
    ];
    for (end, expected) in ends {
        let mut ending = Bench::new(spec(true, 0, &[("w", 2, 1, -1)]));
        ending.start();
        ending.end("w", 0, end);
        ending.apply(&stop).unwrap();
        ending.end("w", 1, stopped(Cause::AttemptCompleted));
        assert_eq!(ending.state(), expected);
    }
    let start = VcEntry::SetExecution {
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
    let next = GangRun {
        round: 1,
        ..run.clone()
    };
    let mut placed = bench.placed(&next);
    placed.instead = Some("n1 cannot be reached".to_owned());
    placed.members[1].node = "n2".parse().unwrap();
    placed.ledgers.push(("n2".parse().unwrap(), LedgerEpoch(1)));
    let placed = VcEntry::Placed(Box::new(placed));
    let late = Err(VcRejection::NotCurrent(next.clone()));
    assert_eq!(bench.apply(&placed), late, "the first round is not placed");
    bench.place(&run);
    let old = bench.live();
    // Names of the round before name other containers.
    let mut same = bench.placed(&run);
    same.run = next.clone();
    let wrong = Err(VcRejection::WrongMembers(next.clone()));
    assert_eq!(bench.apply(&VcEntry::Placed(Box::new(same))), wrong);
    bench.apply(&placed).unwrap();
    assert_eq!(bench.apply(&placed), late, "once is enough");
    let runs: Vec<GangRun> = bench.live().into_iter().map(|(run, _)| run).collect();
    assert_eq!(runs, [next.clone(), next.clone()]);
    let events = bench.state.events(&key()).unwrap();
    let message = events.last().map(|event| event.message.clone());
    let expected = "w:1 was placed on n2 instead of n1, for n1 cannot be reached.";
    assert_eq!(message.as_deref(), Some(expected));
    // What was said of the round before comes too late.
    let (run, place) = old[0].clone();
    let go = VcEntry::Go {
        run: run.clone(),
        limit_s: None,
        at_ms: 20,
    };
    let ended = VcEntry::TaskEnded {
        run: run.clone(),
        task: place.task,
        uid: place.uid,
        end: TaskEnd::Gone,
        at_ms: 20,
    };
    for entry in [go, ended] {
        assert_eq!(
            bench.apply(&entry),
            Err(VcRejection::NotCurrent(run.clone()))
        );
    }
    bench
        .apply(&VcEntry::Go {
            run: next.clone(),
            limit_s: None,
            at_ms: 20,
        })
        .unwrap();
    let third = GangRun { round: 2, ..next };
    let placed = VcEntry::Placed(Box::new(bench.placed(&third)));
    assert_eq!(bench.apply(&placed), Err(VcRejection::NotCurrent(third)));
}

#[test]
fn rounds_of_one_attempt_come_to_an_end() {
    let mut bench = Bench::new(spec(true, 0, &[("w", 1, 1, -1)]));
    let mut run = bench.waiting().remove(0);
    while run.round < ROUNDS_MAX {
        bench.place(&run);
        run.round += 1;
    }
    let placed = VcEntry::Placed(Box::new(bench.placed(&run)));
    assert_eq!(bench.apply(&placed), Err(VcRejection::NotCurrent(run)));
}

#[test]
fn what_was_never_started_ends_without_its_nodes_word() {
    let stop = VcEntry::SetExecution {
        job: key(),
        value: ExecutionType::Stop,
        at_ms: 30,
    };
    for (goes, stops) in [(false, false), (false, true), (true, true)] {
        let mut bench = Bench::new(spec(true, 0, &[("w", 1, 1, -1)]));
        let run = bench.waiting().remove(0);
        bench.place(&run);
        if goes {
            bench
                .apply(&VcEntry::Go {
                    run,
                    limit_s: None,
                    at_ms: 20,
                })
                .unwrap();
        }
        if stops {
            bench.apply(&stop).unwrap();
        }
        let (run, place) = bench.live().remove(0);
        let ended = VcEntry::TaskEnded {
            run: run.clone(),
            task: place.task,
            uid: place.uid,
            end: TaskEnd::NotStarted,
            at_ms: 31,
        };
        let expected = match (goes, stops) {
            (false, true) => Ok(JobState::Stopped),
            (_, _) => Err(VcRejection::NotCurrent(run)),
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
    let void = |run: &GangRun| VcEntry::Void {
        run: run.clone(),
        reason: reason.clone(),
        at_ms: 11,
    };
    bench.apply(&void(&run)).unwrap();
    assert!(bench.waiting().is_empty());
    bench.end("w", 0, TaskEnd::Gone);
    let next = bench.waiting().remove(0);
    assert_eq!((next.attempt, next.round), (run.attempt, 1));
    bench.place(&next);
    let timeout = VcEntry::Stopping {
        run: next,
        cause: Cause::BarrierTimeout,
        by: None,
        at_ms: 12,
    };
    bench.apply(&timeout).unwrap();
    bench.end("w", 0, TaskEnd::Gone);
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
    let lost = || TaskEnd::Exit(Box::new(verdict::lost()));
    for gang in [true, false] {
        let mut bench = Bench::new(spec(gang, 0, &[("w", 1, 1, -1)]));
        for _ in 0..50 {
            // The container vanishes while the commands run,
            bench.start();
            bench.end("w", 0, TaskEnd::Gone);
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
        assert_eq!(bench.state(), (JobState::Failed, Some(1)));
    }
}

#[test]
fn entries_out_of_place_are_refused() {
    let mut bench = Bench::new(spec(true, 0, &[("w", 2, 1, -1)]));
    let run = bench.waiting().remove(0);
    let go = VcEntry::Go {
        run: run.clone(),
        limit_s: None,
        at_ms: 1,
    };
    let not_current = Err(VcRejection::NotCurrent(run.clone()));
    assert_eq!(bench.apply(&go), not_current, "Go before Placed");
    let mut short = bench.placed(&run);
    short.members.pop();
    let short = VcEntry::Placed(Box::new(short));
    assert_eq!(
        bench.apply(&short),
        Err(VcRejection::WrongMembers(run.clone()))
    );
    let placed = VcEntry::Placed(Box::new(bench.placed(&run)));
    bench.apply(&placed).unwrap();
    assert_eq!(bench.apply(&placed), not_current, "Placed twice");
    bench.apply(&go).unwrap();
    let void = VcEntry::Void {
        run: run.clone(),
        reason: String::new(),
        at_ms: 1,
    };
    assert_eq!(bench.apply(&void), not_current, "Void after Go");
    let tag = |tag: &str| VcEntry::AddTag {
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
        VcEntry::Accept(Box::new(AcceptedJob {
            key: key(),
            uid: uid.parse().unwrap(),
            spec: spec(true, 0, &[("w", 1, 1, -1)]),
            document: JobDocument::default(),
            sealed_secrets: Vec::new(),
            submitted_ms: 1,
        }))
    };
    let exists = Err(VcRejection::JobExists(key()));
    assert!(bench.apply(&accept("u")).is_ok());
    assert_eq!(bench.apply(&accept("other")), exists);
    assert_eq!(bench.waiting().len(), 1);
    let stop = VcEntry::SetExecution {
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
