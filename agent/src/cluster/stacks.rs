//! What the tasks of a job do at one moment: asked of all nodes that it runs on.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_control::request::RequestFailure;
use muster_control::request::member::TakeStacks;
use muster_model::id::{AttemptUid, NodeId};
use muster_model::rule_test::UnheardNode;
use muster_model::stacks::{JobStacks, StacksFilter, StacksWish, TakenStacks, TaskStacks};
use muster_model::state::JobState;
use muster_model::view::{JobDetail, RoleView, TaskView};
use muster_portal_gateway::port::PortError;
use tokio::time::timeout;

use super::jobs::LocalJobs;
use super::running_task::{RunningTask, running};
use crate::clock;

/// How long a node may take. It reads for some seconds at most.
const NODE_LIMIT: Duration = Duration::from_secs(9);
/// Bytes that may be told of a job, and of a task.
const JOB_BYTES_MAX: u64 = 24 << 20;
const TASK_BYTES_MAX: u64 = 1 << 20;
/// Of a task that many others share the room with.
const TASK_BYTES_MIN: u64 = 8 << 10;
/// Tasks of one answer.
const TASKS_MAX: usize = 4096;

/// What is asked of a job.
#[derive(Debug, PartialEq, Eq)]
struct WantedTasks {
    running: Vec<RunningTask>,
    /// Tasks that do not run now.
    left_out: usize,
}

type NodeAnswer = Result<Vec<(AttemptUid, TakenStacks)>, RequestFailure>;

impl LocalJobs {
    /// Asks all nodes with running tasks of the job at the same moment.
    pub(super) async fn taken(
        &self,
        job: &JobDetail,
        filter: &StacksFilter,
    ) -> Result<JobStacks, PortError> {
        let WantedTasks { running, left_out } = wanted(job, filter)?;
        let mut wishes = wishes(&running, filter.all_threads);
        let own = &self.node.identity.node;
        let here = wishes.remove(own);
        let there = wishes.into_iter();
        let there = there.map(|(node, wish)| (node, TakeStacks(wish))).collect();
        let asked = self.vc.of_each(there, NODE_LIMIT);
        let taken = async {
            let taken = timeout(NODE_LIMIT, self.node.stacks.take(here?)).await;
            let late = |_| Err(RequestFailure::unavailable("it takes too long"));
            Some((own.clone(), taken.unwrap_or_else(late)))
        };
        let (answers, taken) = tokio::join!(asked, taken);
        let answers = answers.into_iter().chain(taken).collect();
        let attempt = job.attempt.as_ref().map_or(0, |attempt| attempt.id);
        let (tasks, unheard) = told(running, answers, clock::now().as_millis());
        let key = job.summary.key.clone();
        Ok(JobStacks::of((key, attempt), tasks, unheard, left_out))
    }
}

/// The running tasks that are asked for.
fn wanted(job: &JobDetail, filter: &StacksFilter) -> Result<WantedTasks, PortError> {
    let key = &job.summary.key;
    let state = job.summary.state();
    if state != JobState::Running {
        let why = format!(
            "Job {key} is {state}: only a running job can be looked at. `muster job show {key}` tells more."
        );
        return Err(PortError::NotNow(why));
    }
    let tasks = named(job, filter)?;
    let all = tasks.len();
    let running: Vec<_> = tasks
        .into_iter()
        .filter_map(running)
        .take(TASKS_MAX)
        .collect();
    if running.is_empty() {
        let why = format!(
            "No task that was asked for of job {key} runs now. `muster job show {key}` tells more."
        );
        return Err(PortError::NotNow(why));
    }
    Ok(WantedTasks {
        left_out: all - running.len(),
        running,
    })
}

/// The tasks that are asked for.
fn named<'j>(job: &'j JobDetail, filter: &StacksFilter) -> Result<Vec<&'j TaskView>, PortError> {
    let key = &job.summary.key;
    let is_role = |role: &&RoleView| {
        let wanted = filter.role.as_ref();
        wanted.is_none_or(|wanted| wanted.as_str() == role.name)
    };
    let roles: Vec<_> = job.roles.iter().filter(is_role).collect();
    if let (Some(role), true) = (&filter.role, roles.is_empty()) {
        let names: Vec<_> = job.roles.iter().map(|role| role.name.as_str()).collect();
        let names = names.join(", ");
        let why = format!("role: job {key} has no task role {role}; it has {names}");
        return Err(PortError::Invalid(why));
    }
    let tasks = roles.into_iter().flat_map(|role| &role.tasks);
    let is_index = |task: &&TaskView| filter.index.is_none_or(|index| index == task.id.index);
    let tasks: Vec<_> = tasks.filter(is_index).collect();
    match (filter.index, tasks.is_empty()) {
        (Some(index), true) => {
            let why = format!("task: job {key} has no task with index {index} there");
            Err(PortError::Invalid(why))
        }
        _ => Ok(tasks),
    }
}

/// What each node is asked. The more tasks, the less is told of one.
fn wishes(running: &[RunningTask], all_threads: bool) -> BTreeMap<NodeId, StacksWish> {
    let share = JOB_BYTES_MAX / running.len().max(1) as u64;
    let task_bytes_max = share.clamp(TASK_BYTES_MIN, TASK_BYTES_MAX);
    let mut wishes = BTreeMap::new();
    for task in running {
        let wish = wishes
            .entry(task.node.clone())
            .or_insert_with(|| StacksWish {
                uids: Vec::new(),
                all_threads,
                task_bytes_max,
            });
        wish.uids.push(task.uid.clone());
    }
    wishes
}

/// What nodes said of tasks, and which of them said nothing.
fn told(
    running: Vec<RunningTask>,
    answers: BTreeMap<NodeId, NodeAnswer>,
    now_ms: u64,
) -> (Vec<TaskStacks>, Vec<UnheardNode>) {
    let mut said = BTreeMap::new();
    let mut whys = BTreeMap::new();
    for (node, answer) in answers {
        match answer {
            Ok(taken) => said.extend(taken),
            Err(failure) => {
                whys.insert(node, failure.to_string());
            }
        }
    }
    let mut tasks = Vec::new();
    let mut missing: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
    for task in running {
        let Some(taken) = said.remove(&task.uid) else {
            missing
                .entry(task.node)
                .or_default()
                .push(task.task.to_string());
            continue;
        };
        // One that has written nothing has been silent since it began.
        let since_ms = |launched: u64| now_ms.saturating_sub(launched) / 1000;
        let silent_s = taken.silent_s.or_else(|| task.launched_ms.map(since_ms));
        tasks.push(TaskStacks {
            task: task.task,
            node: task.node,
            taken: TakenStacks { silent_s, ..taken },
        });
    }
    let unheard = missing.into_iter().map(|(node, tasks)| {
        let why = whys.remove(&node);
        let why = why.unwrap_or_else(|| "it cannot be reached".to_owned());
        UnheardNode {
            why: format!("{why}; there {}", runs(&tasks)),
            node: node.to_string(),
        }
    });
    (tasks, unheard.collect())
}

/// `runs worker:1`, `run worker:1, worker:2`
fn runs(tasks: &[String]) -> String {
    let verb = if tasks.len() == 1 { "runs" } else { "run" };
    format!("{verb} {}", tasks.join(", "))
}

#[cfg(test)]
mod tests {
    use muster_model::id::TaskId;
    use muster_model::state::{ExecutionType, SubState};
    use muster_model::view::{JobSummary, Retries, TaskAttemptView};

    use super::*;

    fn task(role: &str, index: u32, sub_state: SubState) -> TaskView {
        let attempt = TaskAttemptView {
            on_hold: None,
            id: 0,
            uid: Some(format!("{role}-{index}").parse().unwrap()),
            sub_state,
            created: None,
            launched: Some(1_000),
            completed: None,
            node: Some(format!("n{index}").parse().unwrap()),
            address: None,
            ports: Vec::new(),
            devices: Vec::new(),
            verdict: None,
        };
        TaskView {
            id: TaskId {
                role: role.parse().unwrap(),
                index,
            },
            uid: String::new(),
            by_cells: false,
            ssh: None,
            sub_state,
            retries: Retries::default(),
            created: None,
            launched: None,
            completed: None,
            attempts: vec![attempt],
        }
    }

    /// Two workers that run, and a third one that has ended; a server that runs beside the first.
    fn job() -> JobDetail {
        let running = SubState::AttemptRunning;
        let role = |name: &str, tasks| RoleView {
            name: name.to_owned(),
            tasks,
        };
        let workers = vec![
            task("worker", 0, running),
            task("worker", 1, running),
            task("worker", 2, SubState::Completed),
        ];
        JobDetail {
            summary: JobSummary {
                key: "ada~train".parse().unwrap(),
                sub_state: running,
                exit_code: None,
                execution_type: ExecutionType::Start,
                tags: Vec::new(),
                retries: Retries::default(),
                retry_at: None,
                last_end: None,
                submitted: 0,
                created: None,
                launched: None,
                attempt_launched: None,
                completed: None,
                vc: "default".parse().unwrap(),
                gpus: 0,
                gpus_idle: 0,
                tasks: 4,
                tasks_failed: 0,
                roles: 2,
                priority: None,
                waiting_for: None,
            },
            attempt: None,
            roles: vec![
                role("worker", workers),
                role("ps", vec![task("ps", 0, running)]),
            ],
            partition: None,
            run_limit: None,
            warnings: Vec::new(),
        }
    }

    fn filter(role: Option<&str>, index: Option<u32>) -> StacksFilter {
        StacksFilter {
            role: role.map(|role| role.parse().unwrap()),
            index,
            all_threads: false,
        }
    }

    fn names(wanted: &WantedTasks) -> Vec<String> {
        let tasks = wanted.running.iter().map(|task| task.task.to_string());
        tasks.collect()
    }

    #[test]
    fn tasks_that_run_are_asked_for_and_others_are_counted() {
        let all = wanted(&job(), &filter(None, None)).unwrap();
        assert_eq!(names(&all), ["worker:0", "worker:1", "ps:0"]);
        assert_eq!(all.left_out, 1);
        let some = wanted(&job(), &filter(Some("worker"), Some(1))).unwrap();
        assert_eq!(
            (names(&some), some.left_out),
            (vec!["worker:1".to_owned()], 0)
        );
        let nodes = wishes(&all.running, true);
        let uids = nodes.values().map(|wish| wish.uids.len());
        assert_eq!(uids.collect::<Vec<_>>(), [2, 1]);
        assert!(nodes.values().all(|wish| wish.all_threads));
        let many = vec![all.running[0].clone(); 4000];
        let least = wishes(&many, false).into_values().next().unwrap();
        assert_eq!(least.task_bytes_max, TASK_BYTES_MIN);
    }

    #[test]
    fn what_cannot_be_looked_at_is_refused_with_the_reason() {
        for (asked, expect) in [
            (
                filter(Some("chief"), None),
                "no task role chief; it has worker, ps",
            ),
            (filter(Some("ps"), Some(7)), "no task with index 7"),
            (
                filter(Some("worker"), Some(2)),
                "No task that was asked for",
            ),
        ] {
            let refused = wanted(&job(), &asked).unwrap_err().to_string();
            assert!(refused.contains(expect), "{refused}");
        }
        let mut waiting = job();
        waiting.summary.sub_state = SubState::AttemptCreationPending;
        let refused = wanted(&waiting, &filter(None, None)).unwrap_err();
        assert!(matches!(refused, PortError::NotNow(_)), "{refused:?}");
        assert!(
            refused.to_string().contains("ada~train is WAITING"),
            "{refused}"
        );
    }

    #[test]
    fn nodes_that_say_nothing_are_named_with_their_tasks() {
        let running = wanted(&job(), &filter(None, None)).unwrap().running;
        let wrote = TakenStacks {
            silent_s: Some(3),
            ..TakenStacks::default()
        };
        let said = vec![
            ("worker-0".parse().unwrap(), wrote),
            ("ps-0".parse().unwrap(), TakenStacks::default()),
        ];
        let late = RequestFailure::unavailable("it does not answer within 9 s");
        let (n0, n1): (NodeId, NodeId) = ("n0".parse().unwrap(), "n1".parse().unwrap());
        let answers = BTreeMap::from([(n0, Ok(said.clone())), (n1, Err(late))]);
        let (tasks, unheard) = told(running.clone(), answers, 61_000);
        let silent = tasks
            .iter()
            .map(|task| (task.task.to_string(), task.taken.silent_s));
        assert_eq!(
            silent.collect::<Vec<_>>(),
            [
                ("worker:0".to_owned(), Some(3)),
                ("ps:0".to_owned(), Some(60))
            ]
        );
        assert_eq!(unheard[0].node, "n1");
        assert!(
            unheard[0].why.ends_with("within 9 s; there runs worker:1"),
            "{unheard:?}"
        );
        let (_, unheard) = told(running, BTreeMap::new(), 0);
        assert_eq!(
            unheard[0].why,
            "it cannot be reached; there run worker:0, ps:0"
        );
    }
}
