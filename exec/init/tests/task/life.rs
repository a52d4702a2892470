//! Stops, and an agent that comes and goes.

use muster_init::exit_report::Phase;
use muster_init::logger::Config;
use muster_init::message::{Go, ToInit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::agent::{Agent, setup};
use crate::task::{Image, Mode, Task, can_run, until};

const HOST: Mode = Mode::Pid1(Image::Host);

fn wait_for(task: &Task, text: &str) {
    until(text, || task.log("stdout").contains(text));
}

#[test]
fn a_stop_asks_first_and_kills_after_the_grace() {
    if !can_run() {
        return;
    }
    let table = [
        ("echo up; sleep 1000", 60_000, 143),
        (
            "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.01; done",
            60_000,
            5,
        ),
        (
            "trap '' TERM; echo up; while :; do sleep 0.01; done",
            50,
            137,
        ),
        (
            "setsid sh -c 'trap \"\" TERM; sleep 1000' & echo up; wait",
            60_000,
            143,
        ),
    ];
    for mode in [HOST, Mode::Process] {
        for (script, grace_ms, code) in table {
            let mut task = Task::start(mode);
            task.agent().launch(setup(script));
            wait_for(&task, "up\n");
            task.agent().stop(grace_ms);
            let report = task.agent().wait_exit();
            assert_eq!(
                (report.code, report.stopped),
                (code, true),
                "{mode:?} {script}"
            );
            assert!(task.wait_logger().success());
        }
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
        (143, Phase::Ready, 0)
    );
    assert_eq!(task.log("stdout"), "");
}

#[test]
fn a_task_outlives_its_agent() {
    let mut task = Task::start_with(Mode::Process, Config::default(), false);
    let go_on = task.dir.root().join("go-on");
    let mut waiting = setup("echo up; until [ -e \"$GO_ON\" ]; do sleep 0.01; done; exit 6");
    waiting
        .environment
        .insert("GO_ON".to_owned(), go_on.display().to_string());
    task.agent = Some(Agent::listen(&task.dir.ctl()));
    task.agent().get_ready(waiting);
    task.agent().disconnect();
    assert_eq!(task.agent().accept(), Phase::Ready);
    // Said twice, done once.
    task.agent().send(&ToInit::Go(Go {}));
    task.agent().send(&ToInit::Go(Go {}));
    task.agent().wait_phase(Phase::UserCommands);
    task.agent().disconnect();
    assert_eq!(task.agent().accept(), Phase::UserCommands);
    task.agent().send(&ToInit::Setup(setup("echo other")));
    wait_for(&task, "up\n");
    task.agent = None;
    std::fs::write(go_on, "").unwrap();
    assert_eq!(task.wait_init().code(), Some(6));
    assert!(task.wait_logger().success());
    let report = task.stored().unwrap();
    assert_eq!((report.code, report.phase), (6, Phase::UserCommands));
    assert_eq!(task.log("all"), "up\n");
}

#[test]
fn a_signal_ends_a_task_that_no_agent_ever_met() {
    let mut task = Task::start_with(Mode::Process, Config::default(), false);
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
        (143, Some(15), Phase::Setup)
    );
}
