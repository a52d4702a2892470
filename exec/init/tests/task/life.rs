//! Stops, and an agent that comes and goes.

use muster_init::exit_report::{ExitReport, TaskPhase};
use muster_init::logger::LoggerConfig;
use muster_init::message::{Go, ToInit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::agent::{Agent, setup};
use crate::task::{Image, Mode, Task, can_run, until};

const HOST: Mode = Mode::Pid1(Image::Host);

fn wait_for(task: &Task, text: &str) {
    until(text, || task.log("stdout").contains(text));
}

/// Saves its work when it is told to end, and ends well.
const SAVES: &str = "trap 'echo saving; sleep 0.1; echo saved; exit 0' TERM; echo up; \
                     while :; do sleep 0.01; done";
/// Does not listen.
const STUBBORN: &str = "trap '' TERM; echo up; while :; do sleep 0.01; done";

const LONG_MS: u64 = 60_000;
const SHORT_MS: u64 = 50;

/// Runs `script` until each of its programs is up, stops it, and returns how it ended and its
/// output.
fn stopped(mode: Mode, script: &str, grace_ms: u64) -> (ExitReport, String) {
    let mut task = Task::start(mode);
    let mut setup = setup(script);
    let programs = [("SAVES", SAVES), ("STUBBORN", STUBBORN)];
    let programs = programs.map(|(name, text)| (name.to_owned(), text.to_owned()));
    setup.environment.extend(programs);
    task.agent().launch(setup);
    let programs = script.matches("-c \"$").count() + script.matches("echo up").count();
    until("they are up", || {
        task.log("stdout").matches("up\n").count() == programs
    });
    task.agent().stop(grace_ms);
    let report = task.agent().wait_exit();
    assert!(report.stopped, "{mode:?} {script}");
    assert!(task.wait_logger().success());
    (report, task.log("stdout"))
}

#[test]
fn a_stopped_program_has_its_grace_whatever_started_it() {
    if !can_run() {
        return;
    }
    // Each program that saves must have saved, and nothing new may be begun.
    let plain = [
        ("sh -c \"$SAVES\"; echo next", 0),
        ("exec sh -c \"$SAVES\"", 0),
        ("sh -c \"$SAVES\" | cat; echo next", 0),
        ("( sh -c \"$SAVES\"; echo next ); echo next", 0),
        ("sh -c 'sh -c \"$SAVES\"; echo next'; echo next", 0),
        ("sh -c \"$SAVES\" & wait; echo next", 0),
        ("sh -c \"$SAVES\" & sh -c \"$SAVES\" & wait; echo next", 0),
        ("trap 'exit 5' TERM; sh -c \"$SAVES\" & wait", 5),
        ("trap 'wait; exit 6' TERM; sh -c \"$SAVES\" & wait", 6),
    ];
    let of_host = [
        ("sh -c \"$SAVES\" 2>&1 | tee /dev/null | cat; echo next", 0),
        (
            "setsid sh -c \"$SAVES\" & setsid sh -c \"$SAVES\" & wait; echo next",
            0,
        ),
        (
            "sh -c 'trap \"wait; exit 4\" TERM; setsid sh -c \"$SAVES\" & wait'; echo next",
            4,
        ),
        ("yes | sh -c \"$SAVES\"; echo next", 0),
    ];
    let both = plain.iter().chain(&of_host);
    let modes = [HOST, Mode::Process];
    let on_host = modes
        .iter()
        .flat_map(|mode| both.clone().map(move |case| (*mode, case)));
    let busybox = Mode::Pid1(Image::BusyboxSh);
    for (mode, (script, code)) in on_host.chain(plain.iter().map(|case| (busybox, case))) {
        let (report, output) = stopped(mode, script, LONG_MS);
        let case = format!("{mode:?} {script}: {output}");
        assert_eq!((report.code, report.signal), (*code, None), "{case}");
        let programs = script.matches("$SAVES").count();
        assert_eq!(output.matches("saved\n").count(), programs, "{case}");
        assert!(!output.contains("next"), "{case}");
    }
}

#[test]
fn what_does_not_end_in_its_grace_is_killed() {
    if !can_run() {
        return;
    }
    let table = [
        // By the word of a child of the shell: what the shell forks in the moment of the stop may be
        // missed outside of a pid namespace.
        ("(echo up; exec sleep 1000); echo next", LONG_MS, 143),
        ("(echo up; exec sleep 1000) | cat", LONG_MS, 143),
        ("sh -c \"$STUBBORN\"; echo next", SHORT_MS, 137),
        ("exec sh -c \"$STUBBORN\"", SHORT_MS, 137),
        ("sh -c \"$STUBBORN\" | cat", SHORT_MS, 137),
        ("setsid sh -c \"$STUBBORN\" & wait", SHORT_MS, 137),
        (
            "trap 'exit 5' TERM; sh -c \"$STUBBORN\" & wait",
            SHORT_MS,
            5,
        ),
    ];
    for mode in [HOST, Mode::Process] {
        for (script, grace_ms, code) in table {
            let (report, output) = stopped(mode, script, grace_ms);
            assert_eq!(report.code, code, "{mode:?} {script}: {output}");
            assert!(!output.contains("next"), "{mode:?} {script}: {output}");
        }
    }
}

#[test]
fn a_filter_that_stays_is_told_to_end_when_all_else_has() {
    if !can_run() {
        return;
    }
    let script = "sh -c \"$SAVES\" | (cat; exec sleep 1000)";
    let (report, output) = stopped(HOST, script, LONG_MS);
    assert_eq!(report.code, 0, "{output}");
    assert!(output.ends_with("saved\n"), "{output}");
}

/// The agent has to tell what others did from what the task did to itself.
#[test]
fn a_task_that_ends_itself_was_not_stopped() {
    if !can_run() {
        return;
    }
    let table = [
        ("exit 137", 137, None),
        ("kill -9 $$", 137, Some(9)),
        ("kill -INT $$; sleep 1000", 130, Some(2)),
        ("kill -34 $$; sleep 1000", 162, Some(34)),
        ("timeout -s KILL 0.1 sleep 1000", 137, None),
        ("timeout 0.1 sleep 1000 || exit 143", 143, None),
        ("kill -TERM 1; sleep 1000", 143, Some(15)),
        ("kill -INT 1; sleep 1000", 143, Some(15)),
        ("exec env kill -9 -1", 0, None),
        ("env kill -9 -1; sleep 1000", 137, Some(9)),
    ];
    for (script, code, signal) in table {
        let mut task = Task::start(HOST);
        task.agent().launch(setup(script));
        let report = task.agent().wait_exit();
        let seen = (report.code, report.signal, report.stopped);
        assert_eq!(seen, (code, signal, false), "{script}");
    }
}

#[test]
fn a_stop_before_go_runs_nothing() {
    if !can_run() {
        return;
    }
    let mut task = Task::start(HOST);
    task.agent().get_ready(setup("echo ran"));
    task.agent().stop(60_000);
    task.agent().send(&ToInit::Go(Go {}));
    let report = task.agent().wait_exit();
    assert_eq!(
        (report.code, report.phase, report.launched_ms),
        (143, TaskPhase::Ready, 0)
    );
    assert_eq!(task.log("stdout"), "");
}

#[test]
fn a_task_outlives_its_agent() {
    let mut task = Task::start_with(Mode::Process, LoggerConfig::default(), false);
    let go_on = task.dir.root().join("go-on");
    let mut waiting = setup("echo up; until [ -e \"$GO_ON\" ]; do sleep 0.01; done; exit 6");
    waiting
        .environment
        .insert("GO_ON".to_owned(), go_on.display().to_string());
    task.agent = Some(Agent::listen(&task.dir.ctl()));
    task.agent().get_ready(waiting);
    task.agent().disconnect();
    assert_eq!(task.agent().accept(), TaskPhase::Ready);
    // Said twice, done once.
    task.agent().send(&ToInit::Go(Go {}));
    task.agent().send(&ToInit::Go(Go {}));
    task.agent().wait_phase(TaskPhase::UserCommands);
    task.agent().disconnect();
    assert_eq!(task.agent().accept(), TaskPhase::UserCommands);
    task.agent().send(&ToInit::Setup(setup("echo other")));
    wait_for(&task, "up\n");
    task.agent = None;
    std::fs::write(go_on, "").unwrap();
    assert_eq!(task.wait_init().code(), Some(6));
    assert!(task.wait_logger().success());
    let report = task.stored().unwrap();
    assert_eq!((report.code, report.phase), (6, TaskPhase::UserCommands));
    assert_eq!(task.log("all"), "up\n");
}

#[test]
fn a_signal_ends_a_task_that_no_agent_ever_met() {
    let mut task = Task::start_with(Mode::Process, LoggerConfig::default(), false);
    until("it handles signals", || {
        let path = format!("/proc/{}/status", task.init_pid());
        let status = std::fs::read_to_string(path).unwrap();
        status
            .lines()
            .any(|line| line.starts_with("SigBlk:") && !line.ends_with("0000"))
    });
    kill(Pid::from_raw(task.init_pid()), Signal::SIGTERM).unwrap();
    assert_eq!(task.wait_init().code(), Some(143));
    assert!(task.wait_logger().success());
    let report = task.stored().unwrap();
    assert_eq!(
        (report.code, report.signal, report.phase),
        (143, Some(15), TaskPhase::Setup)
    );
}
