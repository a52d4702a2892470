//! Tasks of made programs.

use super::*;

/// `function file line`
fn frame(text: &str) -> StackFrame {
    let words: Vec<_> = text.split(' ').collect();
    StackFrame {
        function: words[0].to_owned(),
        file: words[1].to_owned(),
        line: words[2].parse().unwrap(),
    }
}

fn thread(frames: &[&str]) -> ThreadStack {
    ThreadStack {
        tid: 7,
        name: "MainThread".to_owned(),
        state: "S".to_owned(),
        frames: frames.iter().map(|text| frame(text)).collect(),
        ..ThreadStack::default()
    }
}

fn python(host_pid: u32, frames: &[&str]) -> ProcessStack {
    ProcessStack {
        pid: host_pid,
        host_pid,
        parent: 1000,
        name: "python3".to_owned(),
        is_python: true,
        threads: vec![thread(frames)],
        ..ProcessStack::default()
    }
}

fn native(host_pid: u32, name: &str, (syscall, wchan): (&str, &str)) -> ProcessStack {
    ProcessStack {
        pid: host_pid,
        host_pid,
        parent: 1000,
        name: name.to_owned(),
        threads: vec![ThreadStack {
            state: "S".to_owned(),
            syscall: Some(syscall.to_owned()),
            wchan: Some(wchan.to_owned()),
            ..ThreadStack::default()
        }],
        ..ProcessStack::default()
    }
}

/// muster-init, as every container has it.
fn init() -> ProcessStack {
    ProcessStack {
        pid: 1,
        parent: 900,
        ..native(1000, "init", ("epoll_wait", "ep_poll"))
    }
}

fn task(name: &str, processes: Vec<ProcessStack>) -> TaskStacks {
    let (role, index) = name.split_once(':').unwrap();
    TaskStacks {
        task: TaskId {
            role: role.parse().unwrap(),
            index: index.parse().unwrap(),
        },
        node: "n1".parse().unwrap(),
        taken: TakenStacks {
            processes: [vec![init()], processes].concat(),
            ..TakenStacks::default()
        },
    }
}

fn grouped(tasks: Vec<TaskStacks>) -> JobStacks {
    let job = "ada~train".parse().unwrap();
    JobStacks::of((job, 0), tasks, Vec::new(), 0)
}

fn odd(stacks: &JobStacks) -> Vec<String> {
    let odd = stacks.groups.iter().filter(|group| group.is_odd);
    odd.map(|group| sentence::members(&group.members)).collect()
}

const ALL_REDUCE: &[&str] = &[
    "all_reduce torch/distributed/distributed_c10d.py 2501",
    "step train.py 88",
    "<module> train.py 120",
];
const LOAD: &[&str] = &[
    "load_batch /code/data.py 41",
    "step train.py 80",
    "<module> train.py 120",
];

fn worker(index: u32, frames: &[&str]) -> TaskStacks {
    task(&format!("worker:{index}"), vec![python(2000, frames)])
}

#[test]
fn the_one_that_is_elsewhere_is_named_with_its_line() {
    let tasks = (0..8).map(|index| worker(index, if index == 3 { LOAD } else { ALL_REDUCE }));
    let stacks = grouped(tasks.collect());
    assert_eq!(
        stacks.summary,
        [
            "7 of 8 tasks wait in all_reduce (torch/distributed/distributed_c10d.py); worker:3 waits in load_batch \
             (data.py:41)."
        ]
    );
    assert_eq!(odd(&stacks), ["worker:3"]);
    assert_eq!(stacks.groups[0].stack[1], "step (train.py:88)");
}

#[test]
fn lines_do_not_tell_places_apart_and_callers_do() {
    let other_line = &[
        "all_reduce torch/distributed/distributed_c10d.py 2507",
        "step train.py 91",
        "<module> train.py 120",
    ];
    let other_caller = &[
        "all_reduce torch/distributed/distributed_c10d.py 2501",
        "evaluate train.py 99",
        "<module> train.py 120",
    ];
    let alike = grouped(vec![worker(0, ALL_REDUCE), worker(1, other_line)]);
    assert_eq!(
        alike.summary,
        ["All 2 tasks wait in all_reduce (torch/distributed/distributed_c10d.py)."]
    );
    let stacks = grouped(vec![
        worker(0, ALL_REDUCE),
        worker(1, other_caller),
        worker(2, ALL_REDUCE),
    ]);
    assert_eq!(odd(&stacks), ["worker:1"]);
}

#[test]
fn one_task_has_nothing_to_be_compared_with() {
    let stacks = grouped(vec![worker(0, LOAD)]);
    assert_eq!(
        stacks.summary,
        ["worker:0 waits in load_batch (data.py:41); there is no other to compare it with."]
    );
    assert_eq!(odd(&stacks), Vec::<String>::new());
    let nothing = grouped(vec![task("worker:0", Vec::new())]);
    assert_eq!(nothing.groups.len(), 1, "{nothing:?}");
}

#[test]
fn without_a_majority_nobody_is_odd() {
    let stacks = grouped(vec![worker(0, LOAD), worker(1, ALL_REDUCE)]);
    assert_eq!(odd(&stacks), Vec::<String>::new());
    assert_eq!(
        stacks.summary[0],
        "The 2 tasks are in 2 places, and none has most of them: worker:0 waits in load_batch (data.py:41); worker:1 \
         waits in all_reduce (torch/distributed/distributed_c10d.py:2501)."
    );
}

#[test]
fn a_place_where_every_program_waits_is_told_by_its_caller() {
    let waiting = &[
        "Condition.wait threading.py 331",
        "Queue.get queue.py 180",
        "_MultiProcessingDataLoaderIter._try_get_data torch/utils/data/dataloader.py 1243",
        "step train.py 80",
    ];
    let stacks = grouped(vec![worker(0, waiting), worker(1, waiting)]);
    assert_eq!(
        stacks.summary,
        [
            "All 2 tasks wait in _MultiProcessingDataLoaderIter._try_get_data (torch/utils/data/dataloader.py)."
        ]
    );
}

#[test]
fn threads_that_only_wait_do_not_matter() {
    let idle = thread(&["Condition.wait threading.py 327", "helper train.py 6"]);
    let mut with_helper = python(2000, ALL_REDUCE);
    with_helper.threads.push(idle.clone());
    let tasks = vec![
        task("worker:0", vec![with_helper]),
        worker(1, ALL_REDUCE),
        worker(2, LOAD),
    ];
    assert_eq!(odd(&grouped(tasks)), ["worker:2"]);
    // A main thread that waits for another one: that one counts.
    let handing_over = |work: &[&str]| {
        let mut process = python(
            2000,
            &["Thread.join threading.py 1119", "<module> train.py 9"],
        );
        process.threads.push(idle.clone());
        process.threads.push(thread(work));
        process
    };
    let tasks = ["worker:0", "worker:1", "worker:2"].map(|name| {
        let work = if name == "worker:1" { LOAD } else { ALL_REDUCE };
        task(name, vec![handing_over(work)])
    });
    assert_eq!(odd(&grouped(tasks.into())), ["worker:1"]);
}

#[test]
fn ranks_of_one_task_are_compared_and_their_helpers_and_launchers_are_not() {
    let launcher = ProcessStack {
        rank: Some(0),
        ..python(
            1500,
            &[
                "sleep <string> 1",
                "SimpleElasticAgent._invoke_run torch/distributed/elastic/agent/server/api.py 885",
                "main torch/distributed/run.py 879",
            ],
        )
    };
    let mut processes = vec![launcher];
    for rank in 0..4 {
        let frames = if rank == 2 { LOAD } else { ALL_REDUCE };
        processes.push(ProcessStack {
            parent: 1500,
            rank: Some(rank),
            ..python(2000 + rank, frames)
        });
        // A worker of its data loader has inherited the rank.
        processes.push(ProcessStack {
            parent: 2000 + rank,
            rank: Some(rank),
            ..python(3000 + rank, &["load my_data.py 4", "fetch my_data.py 9"])
        });
    }
    let stacks = grouped(vec![task("main:0", processes)]);
    assert_eq!(odd(&stacks), ["main:0 (rank 2)"]);
    assert_eq!(
        stacks.summary,
        [
            "3 of 4 processes wait in all_reduce (torch/distributed/distributed_c10d.py); main:0 (rank 2) waits in \
             load_batch (data.py:41)."
        ]
    );
}

#[test]
fn without_ranks_the_topmost_python_below_launchers_counts() {
    let shell = native(1500, "sh", ("wait4", "do_wait"));
    let parent = ProcessStack {
        parent: 1500,
        ..python(
            1600,
            &["ProcessContext.join torch/multiprocessing/spawn.py 132"],
        )
    };
    let child = |pid, frames| ProcessStack {
        parent: 1600,
        ..python(pid, frames)
    };
    let loader = ProcessStack {
        parent: 2001,
        ..python(
            3000,
            &[
                "_worker_loop torch/utils/data/_utils/worker.py 275",
                "<module> train.py 1",
            ],
        )
    };
    let tee = ProcessStack {
        cpu_ms: 99,
        ..native(1700, "tee", ("read", "pipe_read"))
    };
    let all = vec![
        shell,
        parent,
        child(2000, ALL_REDUCE),
        child(2001, ALL_REDUCE),
        child(2002, LOAD),
        loader,
        tee,
    ];
    let stacks = grouped(vec![task("main:0", all)]);
    assert_eq!(odd(&stacks), ["main:0 (process 2002)"]);
    assert_eq!(stacks.groups[0].members.len(), 2);
}

#[test]
fn programs_that_are_no_python_are_compared_by_where_the_kernel_has_them_wait() {
    let sleeps = || native(2000, "sleep", ("clock_nanosleep", "hrtimer_nanosleep"));
    let opens = native(2000, "cat", ("openat", "wait_for_partner"));
    let stacks = grouped(vec![
        task("main:0", vec![sleeps()]),
        task("main:1", vec![sleeps()]),
        task("main:2", vec![opens]),
    ]);
    assert_eq!(
        stacks.summary,
        [
            "2 of 3 tasks run sleep, which waits in clock_nanosleep (hrtimer_nanosleep); main:2 runs cat, which waits \
             in openat (wait_for_partner)."
        ]
    );
    assert_eq!(odd(&stacks), ["main:2"]);
    // Of several, the one that took the most CPU time.
    let train = ProcessStack {
        cpu_ms: 900,
        ..native(2000, "train", ("ioctl", "nvidia_wait"))
    };
    let piped = vec![train, native(2001, "tee", ("read", "pipe_read"))];
    let stacks = grouped(vec![task("main:0", piped)]);
    assert!(stacks.summary[0].contains("runs train"), "{stacks:?}");
}

#[test]
fn roles_run_programs_of_their_own() {
    let serve = &["serve ps.py 3"];
    let ps = |index: u32| task(&format!("ps:{index}"), vec![python(2000, serve)]);
    let mut tasks: Vec<_> = (0..5).map(|index| worker(index, ALL_REDUCE)).collect();
    tasks.extend([ps(0), ps(1)]);
    assert_eq!(odd(&grouped(tasks.clone())), Vec::<String>::new());
    // One that is in no other place of its role is odd all the same.
    tasks.push(task("chief:0", vec![python(2000, LOAD)]));
    assert_eq!(odd(&grouped(tasks)), ["chief:0"]);
}

#[test]
fn a_stack_that_could_not_be_read_is_told_and_not_taken_for_odd() {
    let unread = ProcessStack {
        problem: Some("Failed to find python version from target process".to_owned()),
        ..python(2000, &[])
    };
    let stacks = grouped(vec![
        worker(0, ALL_REDUCE),
        worker(1, ALL_REDUCE),
        task("worker:2", vec![unread.clone()]),
    ]);
    assert_eq!(odd(&stacks), Vec::<String>::new());
    assert!(stacks.summary[0].starts_with("All 2 tasks"), "{stacks:?}");
    assert!(
        stacks.summary[1].contains("worker:2 could not be read: Failed"),
        "{stacks:?}"
    );
    // Where none can be read, the kernel's word is all there is.
    let all = (0..2).map(|index| task(&format!("worker:{index}"), vec![unread.clone()]));
    assert!(grouped(all.collect()).summary[0].contains("All 2 tasks run python3"));
}

#[test]
fn what_nobody_can_end_is_told() {
    let mut stuck = native(2000, "train", ("read", "nfs_wait_bit_killable"));
    stuck.threads[0].state = "D".to_owned();
    let stacks = grouped(vec![task("main:0", vec![stuck])]);
    assert_eq!(
        stacks.summary[1],
        "main:0 is in uninterruptible sleep (D), in nfs_wait_bit_killable: a device, a disk or a file server does not \
         answer it."
    );
}

#[test]
fn what_was_stopped_is_told_wherever_it_was() {
    let mut tasks: Vec<_> = (0..3).map(|index| worker(index, ALL_REDUCE)).collect();
    tasks[1].taken.processes[1].threads[0].state = "T".to_owned();
    let stacks = grouped(tasks);
    assert_eq!(odd(&stacks), Vec::<String>::new());
    assert_eq!(
        stacks.summary[1],
        "worker:1 was stopped, by a signal or a debugger, and does not go on by itself."
    );
}

#[test]
fn silence_is_told_when_all_are_silent_and_with_what_devices_do() {
    let silent = |silent_s, devices_busy| {
        let mut task = worker(0, LOAD);
        task.taken.silent_s = silent_s;
        task.taken.devices_busy = devices_busy;
        task
    };
    for (tasks, expect) in [
        (
            vec![silent(Some(1300), None)],
            Some("The job has written nothing for 21 min."),
        ),
        (
            vec![silent(Some(1300), Some(0)), silent(Some(900), Some(1))],
            Some("The job has written nothing for 15 min, and its devices are idle."),
        ),
        (
            vec![silent(Some(1300), Some(100))],
            Some(
                "The job has written nothing for 21 min, while its devices are busy 100 % of the time, as they are in a \
                 collective call that waits for others.",
            ),
        ),
        (vec![silent(Some(1300), None), silent(Some(30), None)], None),
        (vec![silent(None, None)], None),
    ] {
        assert_eq!(sentence::silence(&tasks).as_deref(), expect);
    }
}

#[test]
fn nodes_that_say_nothing_are_named() {
    let unheard = UnheardNode {
        node: "n3".to_owned(),
        why: "it cannot be reached; worker:1 runs there".to_owned(),
    };
    let job = "ada~train".parse().unwrap();
    let stacks = JobStacks::of((job, 2), vec![worker(0, LOAD)], vec![unheard], 2);
    assert_eq!(
        stacks.summary[1..],
        [
            "Node n3 says nothing: it cannot be reached; worker:1 runs there.",
            "2 more tasks do not run now."
        ]
    );
}
