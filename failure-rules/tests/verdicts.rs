//! Verdicts on tasks of our own, by the shipped rules.

use muster_failure_rules::{REPORT_BYTES_MAX, RuleSet};
use muster_model::exit::{Behavior, Cause, Evidence, ExitPhase, RawExit, Verdict};
use proptest::prelude::*;

fn exited(code: i32, log: &str) -> Evidence {
    Evidence {
        exit: RawExit {
            code,
            signal: None,
            oom_killed: false,
            own_doing: false,
            phase: ExitPhase::UserCommands,
            cause: None,
            message: String::new(),
            ended_ms: 0,
        },
        user_log: log.as_bytes().to_vec(),
        platform_log: Vec::new(),
        double_ecc_error: false,
    }
}

fn ended_by(cause: Cause, phase: ExitPhase) -> Evidence {
    let mut evidence = exited(1, "running\n");
    evidence.exit.cause = Some(cause);
    evidence.exit.phase = phase;
    evidence
}

fn verdict(evidence: &Evidence) -> Verdict {
    RuleSet::shipped().classify(evidence)
}

#[test]
fn each_cause_has_its_code() {
    for (cause, phase, code, container, behavior) in [
        (
            Cause::UserStop,
            ExitPhase::UserCommands,
            -210,
            Some(255),
            Behavior::Permanent,
        ),
        (
            Cause::AttemptCompleted,
            ExitPhase::UserCommands,
            -220,
            Some(255),
            Behavior::Permanent,
        ),
        (
            Cause::ImageNotFound,
            ExitPhase::Launch,
            254,
            None,
            Behavior::Permanent,
        ),
        (
            Cause::CommandNotFound,
            ExitPhase::Launch,
            -1203,
            None,
            Behavior::Permanent,
        ),
        (
            Cause::EngineRefused,
            ExitPhase::Launch,
            -1204,
            None,
            Behavior::Unknown,
        ),
        (
            Cause::PortConflict,
            ExitPhase::Launch,
            253,
            None,
            Behavior::Transient,
        ),
        (
            Cause::BarrierTimeout,
            ExitPhase::Launch,
            251,
            None,
            Behavior::TransientConflict,
        ),
        (
            Cause::RuntimeFailed,
            ExitPhase::Launch,
            250,
            None,
            Behavior::Transient,
        ),
        (
            Cause::RegistryUnknown,
            ExitPhase::Launch,
            254,
            None,
            Behavior::Transient,
        ),
        (
            Cause::ImageNotFetched,
            ExitPhase::Launch,
            250,
            None,
            Behavior::Transient,
        ),
        (
            Cause::DiskLimit,
            ExitPhase::UserCommands,
            -1000,
            Some(255),
            Behavior::Unknown,
        ),
        (
            Cause::Lost,
            ExitPhase::UserCommands,
            -101,
            None,
            Behavior::Transient,
        ),
        (
            Cause::NodeRestarted,
            ExitPhase::UserCommands,
            -101,
            None,
            Behavior::Transient,
        ),
    ] {
        let verdict = verdict(&ended_by(cause, phase));
        assert_eq!(
            (
                verdict.code(),
                verdict.container_exit_code,
                verdict.spec.behavior
            ),
            (code, container, behavior),
            "{cause:?}"
        );
    }
}

#[test]
fn a_cause_keeps_its_meaning_under_any_file() {
    let rules =
        RuleSet::parse("- containerExitCode: 16\n  patterns:\n  - exitCode: 1\n").expect("valid");
    let verdict = rules.classify(&ended_by(Cause::UserStop, ExitPhase::Launch));
    assert_eq!(
        (verdict.code(), verdict.spec.phrase.as_str()),
        (-210, "StopFrameworkRequested")
    );
    assert_eq!(rules.classify(&exited(1, "")).code(), 16);
}

#[test]
fn tells_what_ended_the_command() {
    let oom = "Traceback (most recent call last):\n  File \"t.py\", line 1\nRuntimeError: CUDA out of memory. Tried\n";
    let mut killed = exited(137, oom);
    killed.exit.oom_killed = true;
    killed.exit.signal = Some(9);
    let mut prepared = exited(127, "foo: command not found\n");
    prepared.exit.phase = ExitPhase::PreCommands;
    let mut refused = exited(126, "");
    refused.exit.phase = ExitPhase::Launch;
    for (evidence, code, container, origin, says) in [
        (exited(0, oom), 0, Some(0), Some(0), "ended with success."),
        (
            exited(1, oom),
            226,
            Some(226),
            Some(1),
            "\"RuntimeError: CUDA out of memory. Tried\"",
        ),
        (
            killed,
            -1200,
            Some(137),
            Some(137),
            "(the command ended by signal 9)",
        ),
        (
            prepared,
            220,
            Some(220),
            None,
            "(the commands before the user's exited with 127)",
        ),
        (refused, 126, Some(126), None, "no meaning here"),
        (
            exited(221, "bye\n"),
            255,
            Some(255),
            Some(221),
            "exited with 221",
        ),
    ] {
        let verdict = verdict(&evidence);
        assert_eq!(
            (
                verdict.code(),
                verdict.container_exit_code,
                verdict.origin_exit_code
            ),
            (code, container, origin),
            "{evidence:?}"
        );
        assert!(
            verdict.diagnostics.contains(says),
            "{:?} lacks {says:?}",
            verdict.diagnostics
        );
    }
}

#[test]
fn signals_are_the_platforms_unless_the_task_sent_them() {
    for code in [130, 131, 137, 143] {
        for (own_doing, behavior, kind) in [
            (false, Behavior::Transient, "PLATFORM_FAILURE"),
            (true, Behavior::Unknown, "USER_FAILURE"),
        ] {
            let mut evidence = exited(code, "");
            evidence.exit.own_doing = own_doing;
            let verdict = verdict(&evidence);
            assert_eq!(verdict.code(), code);
            let found = (verdict.spec.behavior, verdict.spec.kind.as_deref());
            assert_eq!(found, (behavior, Some(kind)), "{code} {own_doing}");
            let outside = verdict.diagnostics.contains("from outside");
            assert_eq!(outside, !own_doing, "{}", verdict.diagnostics);
        }
    }
    // What the log says of it comes first, and other rows are as they are.
    let mut told = exited(
        137,
        "CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered\n",
    );
    told.exit.own_doing = true;
    assert_eq!(verdict(&told).spec.behavior, Behavior::Transient);
}

#[test]
fn the_whole_line_is_told() {
    for (code, line) in [
        (127, "/proc/self/fd/3: 1: nosuchcmd: not found"),
        (
            127,
            "/proc/self/fd/3: line 1: ./run.py: cannot execute: required file not found",
        ),
        (
            126,
            "run.sh: line 1: ./run.py: /usr/bin/pyhton: bad interpreter: No such file or directory",
        ),
        (
            1,
            "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
        ),
    ] {
        let verdict = verdict(&exited(code, &format!("epoch 1\n{line}\n")));
        assert_eq!(verdict.matched_user_log.as_deref(), Some(line));
        let told = verdict.diagnostics;
        assert!(told.contains(&format!("\"{line}\"")), "{told}");
    }
    let long = format!("{} CUDA out of memory. Tried\n", "x".repeat(300));
    let told = verdict(&exited(1, &long)).diagnostics;
    assert!(told.contains("\"CUDA out of memory. Tried\""), "{told}");
}

#[test]
fn only_the_last_error_counts() {
    let log = "ModuleNotFoundError: No module named 'apex', using the slow path\n".to_owned()
        + &"step\n".repeat(1000)
        + "OSError: [Errno 28] No space left on device\n";
    assert_eq!(verdict(&exited(1, &log)).code(), 240);
    let log = "write failed: No space left on device, trying /tmp\n".to_owned()
        + &"step\n".repeat(1000)
        + "ModuleNotFoundError: No module named 'apex'\n";
    assert_eq!(verdict(&exited(1, &log)).code(), 232);
}

/// Bytes with the words that rules look for strewn in.
fn log() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        Just(b"\nTraceback (most recent call last):\n  x\nImportError: ".to_vec()),
        Just(b"tensorflow ResourceExhaustedError OOM\r\n".to_vec()),
        Just("CUDA out of memory \u{17f}\u{212a}\n".as_bytes().to_vec()),
        Just(b"indexerror: index out of range\xe2\x84".to_vec()),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_give_a_bounded_verdict(
        user_log in log(),
        platform_log in log(),
        code in any::<i32>(),
        oom_killed: bool,
        double_ecc_error: bool,
    ) {
        let mut evidence = exited(code, "");
        evidence.user_log = user_log;
        evidence.platform_log = platform_log;
        evidence.exit.oom_killed = oom_killed;
        evidence.double_ecc_error = double_ecc_error;
        let verdict = verdict(&evidence);
        let texts = [&verdict.user_log, &verdict.platform_log].map(String::len).iter().sum::<usize>();
        let matches = [&verdict.matched_user_log, &verdict.matched_platform_log];
        let matches: usize = matches.iter().map(|m| m.as_ref().map_or(0, String::len)).sum();
        prop_assert!(texts + matches <= REPORT_BYTES_MAX);
        prop_assert!(verdict.diagnostics.len() <= 1024);
        prop_assert!(verdict.diagnostics.ends_with('.') || verdict.diagnostics.len() > 1000);
    }
}

#[test]
fn an_image_that_cannot_be_had_is_told_as_that() {
    for (cause, message, reason) in [
        (
            Cause::RegistryUnknown,
            "registry r.example: its host name cannot be resolved (not known)",
            "The image's registry is not known by its name",
        ),
        (
            Cause::ImageNotFetched,
            "registry r.example: no connection: refused",
            "The image could not be fetched",
        ),
    ] {
        let mut evidence = ended_by(cause, ExitPhase::Launch);
        evidence.exit.message = message.to_owned();
        let verdict = verdict(&evidence);
        assert_eq!(verdict.spec.reason.as_deref(), Some(reason));
        let told = format!("{reason}: {message}. ");
        assert!(verdict.diagnostics.starts_with(&told), "{verdict:?}");
        assert!(verdict.diagnostics.contains(&verdict.spec.solution[0]));
    }
}
