//! What commands see, and how their ends are reported.

use muster_init::exit_report::{FailureKind, TaskPhase};
use muster_init::message::{TaskSetup, ToAgent, ToInit};

use crate::agent::setup;
use crate::task::{Image, Mode, Task, can_run};

struct End {
    code: i32,
    phase: TaskPhase,
    stdout: &'static str,
    runtime: &'static [&'static str],
}

fn check(image: Image, setup: TaskSetup, expected: &End) {
    let case = format!(
        "{image:?} {setup:?} {}",
        &setup.script[..setup.script.len().min(80)]
    );
    let mut task = Task::start(Mode::Pid1(image));
    task.agent().launch(setup);
    let report = task.agent().wait_exit();
    let runtime = task.log("runtime.log");
    assert_eq!(
        report.code,
        expected.code,
        "{case} {runtime} {}",
        task.log("stderr")
    );
    assert_eq!(report.phase, expected.phase, "{case}");
    assert!(!report.stopped, "{case}");
    // The logs are whole before the exit is told.
    assert_eq!(task.log("stdout"), expected.stdout, "{case}");
    for text in expected.runtime {
        assert!(runtime.contains(text), "{case}: {text} in {runtime}");
    }
    for line in runtime.lines() {
        assert!(
            line.get(21..)
                .is_some_and(|l| l.starts_with(" [openpai-runtime] ")),
            "{line}"
        );
    }
    assert_eq!(task.wait_init().code(), Some(expected.code), "{case}");
    assert!(task.wait_logger().success(), "{case}");
    assert_eq!(task.stored().as_ref(), Some(&report), "{case}");
}

const fn user(code: i32, stdout: &'static str) -> End {
    End {
        code,
        phase: TaskPhase::UserCommands,
        stdout,
        runtime: &["user commands begin"],
    }
}

#[test]
fn commands_end_as_openpai_ran_them() {
    if !can_run() {
        return;
    }
    let table: &[(&str, i32, &str)] = &[
        ("echo one; echo two >&2; exit 3", 3, "one\n"),
        ("cd /; pwd\ncat; echo $GREETING", 0, "/\nhello\n"),
        ("false | true", 1, ""),
        ("echo $UNDEFINED; echo unreached", 0, ""),
        ("false; echo unreached", 1, ""),
        ("kill -9 $$", 137, ""),
        ("sh -c 'kill -11 $$'", 139, ""),
        ("nowhere", 127, ""),
        (
            "[ $PPID = 1 ] && [ ! -e /proc/$$/fd/3 ] && echo $PAI_WORK_DIR",
            0,
            "/\n",
        ),
        (
            "while read a b; do case $a in Seccomp:) echo $b;; esac; done </proc/$$/status",
            0,
            "2\n",
        ),
        ("sleep 1000 & (sleep 1000 & )\necho left", 0, "left\n"),
        (
            "tr '\\0' '\\n' </proc/$$/cmdline | while read a; do case $a in *1000*) exit 9;; esac; done",
            0,
            "",
        ),
    ];
    for image in [Image::Host, Image::BusyboxSh, Image::Busybox] {
        for (script, code, stdout) in table {
            let undefined = script.contains("UNDEFINED");
            let code = match (undefined, image) {
                (true, Image::Host) => 1,
                (true, _) => 2,
                (false, _) => *code,
            };
            let mut setup = setup(script);
            setup.workdir = Some("/".to_owned());
            check(image, setup, &user(code, stdout));
        }
    }
}

#[test]
fn a_script_may_be_longer_than_an_argument() {
    if !can_run() {
        return;
    }
    let script = format!("{}\necho done", "# filler filler filler\n".repeat(40_000));
    check(Image::Host, setup(&script), &user(0, "done\n"));
}

#[test]
fn variables_that_no_program_starts_with_are_named() {
    if !can_run() {
        return;
    }
    let mut long = setup("true");
    let value = "x".repeat(128 << 10);
    long.environment.insert("LONG".to_owned(), value);
    let mut task = Task::start(Mode::Pid1(Image::Host));
    task.agent().launch(long);
    let report = task.agent().wait_exit();
    let failure = report.failure.unwrap();
    assert_eq!((report.code, failure.kind), (126, FailureKind::TooLong));
    let told = "the longest, LONG, 131078: more than the kernel gives a program";
    assert!(failure.message.contains(told), "{}", failure.message);
}

#[test]
fn plugin_commands_run_around_and_log_apart() {
    if !can_run() {
        return;
    }
    let with = |pre: &[&str], script: &str, post: &[&str]| TaskSetup {
        pre_commands: pre.iter().map(|text| (*text).to_owned()).collect(),
        post_commands: post.iter().map(|text| (*text).to_owned()).collect(),
        ..setup(script)
    };
    let end = |code, phase, stdout, runtime| End {
        code,
        phase,
        stdout,
        runtime,
    };
    let both: &[&str] = &["] p1\n", "] p2", "user commands begin", "] q1\n"];
    check(
        Image::Host,
        with(
            &["echo p1; exit 0", "printf p2 >&2"],
            "echo u",
            &["echo q1"],
        ),
        &end(0, TaskPhase::PostCommands, "u\n", both),
    );
    check(
        Image::BusyboxSh,
        with(&["echo p1; exit 7", "echo p2"], "echo u", &["echo q1"]),
        &end(
            7,
            TaskPhase::PreCommands,
            "",
            &["] p1\n", "pre-commands ended with exit code 7"],
        ),
    );
    check(
        Image::Host,
        with(&[], "echo u; exit 4", &["echo q1"]),
        &end(4, TaskPhase::UserCommands, "u\n", &[]),
    );
    check(
        Image::Host,
        with(&["sleep 1000 &"], "echo u", &["exit 5"]),
        &end(5, TaskPhase::PostCommands, "u\n", &[]),
    );
}

#[test]
fn what_cannot_be_set_up_is_said_and_stored() {
    if !can_run() {
        return;
    }
    let nowhere = TaskSetup {
        workdir: Some("/nowhere".to_owned()),
        ..setup("true")
    };
    let cases = [
        (
            Image::Empty,
            setup("true"),
            FailureKind::NoShell,
            "image has no shell",
            127,
        ),
        (
            Image::Host,
            nowhere,
            FailureKind::Runtime,
            "/nowhere does not exist",
            1,
        ),
    ];
    for (image, setup, kind, text, code) in cases {
        let mut task = Task::start(Mode::Pid1(image));
        assert_eq!(task.agent().accept(), TaskPhase::Setup);
        task.agent().send(&ToInit::Setup(setup));
        match task.agent().next() {
            Some(ToAgent::SetupFailed(failure)) => {
                assert_eq!(failure.kind, kind);
                assert!(failure.message.contains(text), "{}", failure.message);
            }
            other => panic!("{other:?}"),
        }
        let report = task.agent().wait_exit();
        assert_eq!((report.code, report.phase), (code, TaskPhase::Setup));
        assert_eq!(task.wait_init().code(), Some(code));
        assert!(task.wait_logger().success());
        assert_eq!(task.stored(), Some(report));
        assert!(task.log("runtime.log").contains(text));
    }
}
