//! From the order to the removal.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use muster_exec::engine::{ContainerStatus, DeviceGrant, Engine};
use muster_exec::task::TaskEvent;
use muster_init::exit_report::ExitReport;
use muster_init::task_dir::AGENT_SOCKET;
use muster_model::exit::{Cause, ExitPhase};

use crate::node::{Node, order, setup, uid};

pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "a_task_runs_from_order_to_removal",
        a_task_runs_from_order_to_removal,
    ),
    ("a_stop_has_its_cause", a_stop_has_its_cause),
    ("a_launch_that_fails_says_why", a_launch_that_fails_says_why),
    (
        "an_engine_that_is_away_ends_nothing",
        an_engine_that_is_away_ends_nothing,
    ),
    (
        "a_killed_first_process_is_told_by_the_engine",
        a_killed_first_process_is_told_by_the_engine,
    ),
    (
        "a_full_disk_layer_stops_the_task",
        a_full_disk_layer_stops_the_task,
    ),
    (
        "strangers_are_not_listened_to",
        strangers_are_not_listened_to,
    ),
    (
        "five_hundred_instant_failures_keep_their_logs",
        five_hundred_instant_failures_keep_their_logs,
    ),
];

const LONG: Duration = Duration::from_secs(600);

fn a_task_runs_from_order_to_removal() {
    let mut node = Node::new();
    let mut order = order("t", "echo out; echo err >&2; exit 3");
    order.setup.pre_commands = vec!["echo before".to_owned()];
    let handle = node.spawn(order);
    node.expect_started("t");
    node.expect_ready("t");
    let begin = Instant::now();
    handle.go();
    assert!(node.expect_running() > 0);
    let evidence = node.expect_exited();
    println!("go to exited: {:?}", begin.elapsed());
    let exit = &evidence.exit;
    assert_eq!(
        (exit.code, exit.signal, exit.phase),
        (3, None, ExitPhase::UserCommands)
    );
    assert_eq!((exit.cause, exit.oom_killed), (None, false));
    let all = String::from_utf8(evidence.user_log).unwrap();
    assert!(all.contains("out\n") && all.contains("err\n"), "{all}");
    let platform = String::from_utf8(evidence.platform_log).unwrap();
    assert!(
        platform.contains("[openpai-runtime] before\n"),
        "{platform}"
    );
    node.expect_gone("t");
    assert_eq!(node.log("t", "stdout"), "out\n");
    assert!(node.dir("t").exit_report().exists() && !node.dir("t").ctl().exists());
}

fn a_stop_has_its_cause() {
    let mut node = Node::new();
    let handle = node.run_until_up(order("run", "echo up; sleep 1000"));
    handle.stop(Cause::UserStop, LONG);
    handle.stop(Cause::AttemptCompleted, LONG);
    let exit = node.expect_exited().exit;
    assert_eq!((exit.code, exit.cause), (143, Some(Cause::UserStop)));
    node.expect_gone("run");

    let stubborn = "trap '' TERM; echo up; while :; do sleep 0.01; done";
    let handle = node.run_until_up(order("stubborn", stubborn));
    handle.stop(Cause::UserStop, LONG);
    handle.stop(Cause::UserStop, Duration::from_millis(20));
    let exit = node.expect_exited().exit;
    assert_eq!((exit.code, exit.cause), (137, Some(Cause::UserStop)));
    node.expect_gone("stubborn");

    let handle = node.spawn(order("early", "echo ran"));
    node.expect_started("early");
    node.expect_ready("early");
    handle.stop(Cause::AttemptCompleted, LONG);
    handle.go();
    let exit = node.expect_failed();
    assert_eq!(
        (exit.phase, exit.cause),
        (ExitPhase::Launch, Some(Cause::AttemptCompleted))
    );
    node.expect_gone("early");
    assert_eq!(node.log("early", "all"), "");
}

fn a_launch_that_fails_says_why() {
    let mut node = Node::new();
    let mut no_image = order("a", "true");
    no_image.image = "other".to_owned();
    node.spawn(no_image);
    let exit = node.expect_failed();
    assert_eq!(
        (exit.phase, exit.cause),
        (ExitPhase::Launch, Some(Cause::ImageNotFound))
    );
    assert!(exit.message.contains("other"));
    node.expect_gone("a");

    let mut bad_dir = order("b", "true");
    bad_dir.setup.workdir = Some("/nowhere".to_owned());
    node.spawn(bad_dir);
    node.expect_started("b");
    let exit = node.expect_failed();
    assert_eq!(exit.cause, Some(Cause::RuntimeFailed));
    assert!(exit.message.contains("/nowhere"));
    node.expect_gone("b");

    node.fake.set_silent(true);
    node.spawn(order("c", "true"));
    let exit = node.expect_failed();
    assert_eq!(exit.cause, Some(Cause::RuntimeFailed));
    node.fake.set_silent(false);
    node.expect_gone("c");

    // Something is where its directory is to be: the machine's fault, like a disk without room.
    node.block("d");
    node.spawn(order("d", "true"));
    let exit = node.expect_failed();
    assert_eq!(exit.cause, Some(Cause::RuntimeFailed));
    assert!(exit.message.contains("cannot make"), "{}", exit.message);
    node.expect_gone("d");

    let mut no_device = order("e", "true");
    no_device.devices.push(DeviceGrant::file("/dev/nowhere"));
    node.spawn(no_device);
    let exit = node.expect_failed();
    assert_eq!(exit.cause, Some(Cause::PortConflict));
    assert!(exit.message.contains("/dev/nowhere"), "{}", exit.message);
    node.expect_gone("e");

    node.block_layer("f");
    node.spawn(order("f", "true"));
    let exit = node.expect_failed();
    assert_eq!(exit.cause, Some(Cause::RuntimeFailed));
    node.expect_gone("f");
}

fn an_engine_that_is_away_ends_nothing() {
    let mut node = Node::new();
    let handle = node.run_until_up(order(
        "t",
        "trap 'exit 9' TERM; echo up; while :; do sleep 0.01; done",
    ));
    node.fake.set_silent(true);
    handle.stop(Cause::UserStop, LONG);
    assert_eq!(node.expect_exited().exit.code, 9);
    node.fake.set_silent(false);
    node.expect_gone("t");
}

fn first_process(node: &Node, name: &str) -> i32 {
    let all = node.block_on(node.fake.list()).unwrap();
    let mine = all
        .iter()
        .find(|container| container.uid == uid(name))
        .unwrap();
    match mine.status {
        ContainerStatus::Running { pid } => pid.cast_signed(),
        ref other => panic!("{other:?}"),
    }
}

fn a_killed_first_process_is_told_by_the_engine() {
    let mut node = Node::new();
    node.run_until_up(order("t", "echo up; exec sleep 1000"));
    node.block_on(node.fake.signal(&uid("t"), 9)).unwrap();
    // Outside a pid namespace the kernel leaves the command alive, and with it the logger's
    // pipes: end it as the kernel would.
    node.kill_strays();
    let evidence = node.expect_exited();
    assert_eq!((evidence.exit.code, evidence.exit.signal), (137, Some(9)));
    assert_eq!(evidence.exit.phase, ExitPhase::UserCommands);
    assert_eq!(evidence.user_log, b"up\n");
    node.expect_gone("t");
    let stored = ExitReport::load(&node.dir("t").exit_report()).unwrap();
    assert_eq!(stored.map(|report| report.code), Some(137));
}

fn a_full_disk_layer_stops_the_task() {
    let mut node = Node::new();
    let mut order = order("t", "echo up; head -c 3000000 /dev/zero >big; sleep 1000");
    order.limits.disk_mb = 2;
    node.run_until_up(order);
    let exit = node.expect_exited().exit;
    assert_eq!((exit.code, exit.cause), (143, Some(Cause::DiskLimit)));
    assert!(
        exit.message.contains("over its limit of 2 MiB"),
        "{}",
        exit.message
    );
    node.expect_gone("t");
}

fn strangers_are_not_listened_to() {
    let mut node = Node::new();
    let handle = node.run_until_up(order("t", "echo up; sleep 1000"));
    assert_ne!(first_process(&node, "t"), std::process::id().cast_signed());
    let dir = std::fs::File::open(node.dir("t").ctl()).unwrap();
    let path = format!(
        "/proc/self/fd/{}/{AGENT_SOCKET}",
        std::os::fd::AsRawFd::as_raw_fd(&dir)
    );
    let mut stranger = UnixStream::connect(path).unwrap();
    assert_eq!(stranger.read(&mut [0]).unwrap(), 0);
    handle.stop(Cause::UserStop, LONG);
    assert_eq!(node.expect_exited().exit.code, 143);
}

fn five_hundred_instant_failures_keep_their_logs() {
    const TASKS: usize = 500;
    const AT_ONCE: usize = 8;
    let mut node = Node::new();
    let name = |number: usize| format!("t-{number}");
    let mut started = 0;
    let mut gone = 0;
    let mut checked = 0;
    let mut start = |node: &mut Node| {
        if started < TASKS {
            let mut order = order(&name(started), "");
            order.setup = setup(&format!("echo out {started}; echo err >&2; exit 1"));
            node.spawn(order).go();
            started += 1;
        }
    };
    for _ in 0..AT_ONCE {
        start(&mut node);
    }
    while gone < TASKS {
        match node.next() {
            TaskEvent::Exited { uid, evidence, .. } => {
                let number = uid.as_str().strip_prefix("t-").unwrap();
                let log = String::from_utf8(evidence.user_log).unwrap();
                assert!(
                    log.contains(&format!("out {number}\n")) && log.contains("err\n"),
                    "{log}"
                );
                assert_eq!(evidence.exit.code, 1);
                checked += 1;
            }
            TaskEvent::Gone { .. } => {
                gone += 1;
                start(&mut node);
            }
            TaskEvent::LaunchFailed { uid, exit } => panic!("{uid}: {exit:?}"),
            TaskEvent::Held { uid, .. } => panic!("{uid} did not ask to be kept"),
            TaskEvent::Started { .. } | TaskEvent::Ready { .. } | TaskEvent::Running { .. } => {}
        }
    }
    assert_eq!(checked, TASKS);
}
