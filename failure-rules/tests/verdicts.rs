//! Verdicts on tasks of our own, by the shipped rules.

use muster_failure_rules::{REPORT_BYTES_MAX, RuleSet};
use muster_model::exit::{Behavior, Cause, Evidence, ExitPhase, RawExit, Verdict};
use muster_model::health::{DeviceEvent, EventClass, HealthSubject};
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
        user_log_from: 0,
        platform_log: Vec::new(),
        device_events: Vec::new(),
    }
}

fn event(code: &str, class: EventClass) -> DeviceEvent {
    DeviceEvent {
        subject: HealthSubject::at("0000:3b:00.0"),
        at_ms: 1,
        code: code.to_owned(),
        class,
        pid: None,
        text: format!("NVRM: Xid (PCI:0000:3b:00): {code}"),
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
fn a_full_layer_is_told_as_the_task_s_own_doing() {
    let verdict = verdict(&ended_by(Cause::DiskLimit, ExitPhase::UserCommands));
    assert_eq!(verdict.spec.reaction.as_deref(), Some("RETRY_TO_MAX"));
    let told = "The task wrote more to its container's own disk than it may";
    assert!(verdict.diagnostics.starts_with(told), "{verdict:?}");
    assert_eq!(verdict.spec.solution.len(), 1, "{verdict:?}");
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
    // The platform never sends SIGINT, so 130 is charged in any case.
    let interrupted = verdict(&exited(130, ""));
    assert_eq!(interrupted.spec.behavior, Behavior::Unknown);
    for code in [131, 137, 143] {
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
        has_double_ecc: bool,
    ) {
        let mut evidence = exited(code, "");
        evidence.user_log = user_log;
        evidence.platform_log = platform_log;
        evidence.exit.oom_killed = oom_killed;
        evidence.device_events.extend(has_double_ecc.then(|| event("xid 48", EventClass::Hardware)));
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

#[test]
fn events_of_the_tasks_devices_explain_its_end() {
    let events = |codes: &[(&str, EventClass)]| {
        let events = codes.iter().map(|(code, class)| event(code, *class));
        events.collect::<Vec<_>>()
    };
    let (hardware, application) = (EventClass::Hardware, EventClass::Application);
    let log = "RuntimeError: CUDA error: an illegal memory access was encountered\n";
    for (log, code, seen, expect, behavior) in [
        // The device's fault stands before what the program says of it.
        (
            log,
            134,
            &[("xid 48", hardware)][..],
            211,
            Behavior::Transient,
        ),
        // The program's own words say more than the driver's.
        (log, 134, &[("xid 31", application)], 236, Behavior::Unknown),
        ("", 3, &[("xid 31", application)], 214, Behavior::Unknown),
        (
            "",
            3,
            &[("xid 74", EventClass::Link)],
            212,
            Behavior::Transient,
        ),
        (
            "",
            3,
            &[("xid 94", EventClass::ContainedEcc)],
            213,
            Behavior::Transient,
        ),
        (
            "",
            3,
            &[("xid 63", EventClass::Information)],
            255,
            Behavior::Unknown,
        ),
        // A program that ends well has no failure to explain.
        ("", 0, &[("xid 48", hardware)], 0, Behavior::Unknown),
    ] {
        let mut evidence = exited(code, log);
        evidence.device_events = events(seen);
        let verdict = verdict(&evidence);
        assert_eq!(
            (verdict.code(), verdict.spec.behavior),
            (expect, behavior),
            "{seen:?}"
        );
    }
}

#[test]
fn a_verdict_quotes_the_event_that_led_to_it_and_lists_it_first() {
    let mut evidence = exited(134, "");
    let class = EventClass::Hardware;
    evidence.device_events = vec![
        event("xid 63", EventClass::Information),
        event("xid 79", class),
        event("xid 45", EventClass::Application),
    ];
    evidence
        .device_events
        .extend((0..20).map(|_| event("xid 43", EventClass::Application)));
    let verdict = verdict(&evidence);
    let begin = "A device of the task failed while it ran (the command exited with 134): \
        \"NVRM: Xid (PCI:0000:3b:00): xid 79\".";
    assert!(
        verdict.diagnostics.starts_with(begin),
        "{}",
        verdict.diagnostics
    );
    assert_eq!(
        verdict.device_events.len(),
        muster_model::exit::DEVICE_EVENTS_MAX
    );
    assert_eq!(verdict.device_events[0].code, "xid 79");
    assert!(
        verdict
            .device_events
            .iter()
            .all(|event| event.code != "xid 63")
    );
}

#[test]
fn a_rule_may_ask_for_events_by_class_and_code() {
    let rule = |info: &str| {
        format!(
            "spec:\n- code: 100\n  phrase: Mine\n  issuer: USER_CONTAINER\n  causer: PAI_HW\n  \
             type: PLATFORM_FAILURE\n  stage: RUNNING\n  behavior: TRANSIENT\n  \
             reaction: ALWAYS_RETRY\n  reason: Mine\n  pattern:\n    \
             runtimeContainerPatterns:\n    - gpuInfo: {info}\n"
        )
    };
    let code = |info: &str| {
        let mut evidence = exited(1, "");
        evidence.device_events = vec![event("xid 79", EventClass::Hardware)];
        RuleSet::parse(&rule(info))
            .unwrap()
            .classify(&evidence)
            .code()
    };
    for (info, expect) in [
        ("{eventCodes: [xid 79]}", 100),
        ("{eventCodes: [xid 48]}", 255),
        ("{eventCodes: [xid 79], eventClasses: [link]}", 255),
        (
            "{eventCodes: [xid 48, xid 79], eventClasses: [link, hardware]}",
            100,
        ),
        (
            "{eventClasses: [hardware], nvidiaDoubleEccError: true}",
            255,
        ),
        (
            "{eventClasses: [hardware], nvidiaDoubleEccError: false}",
            100,
        ),
    ] {
        assert_eq!(code(info), expect, "{info}");
    }
    for (info, problem) in [
        (
            "{eventClasses: [metal]}",
            "unknown variant `metal`, expected one of",
        ),
        ("{eventCodes: []}", "is empty; name one, or remove it"),
        (
            "{eventKinds: [x]}",
            "known here: nvidiaDoubleEccError, eventClasses, eventCodes",
        ),
    ] {
        let problems = RuleSet::parse(&rule(info)).unwrap_err();
        let text = problems.iter().map(ToString::to_string).collect::<String>();
        assert!(text.contains(problem), "{info}: {text}");
    }
}

/// A rule that knows a line, with more fields at its end.
fn with_own_rule(more: &str) -> RuleSet {
    let own = format!(
        "- code: 215\n  phrase: LicenseServerUnreachable\n  behavior: TRANSIENT\n  pattern:\n    \
         runtimeContainerPatterns:\n    - exitCode: 77\n    - userLogRegex: 'no license'\n      userLogIn: \
         error\n{more}"
    );
    let shipped = RuleSet::shipped_text();
    let (head, rules) = shipped.split_once("\nspec:\n").expect("it has rules");
    RuleSet::parse(&format!("{head}\nspec:\n{own}{rules}")).expect("the file is right")
}

#[test]
fn a_verdict_tells_by_which_pattern_and_where_in_the_log() {
    let rules = with_own_rule("");
    let mut evidence = exited(1, "step 1\nstep 2\nerror: no license\n");
    let judged = rules.classify(&evidence).judged.unwrap();
    let place = judged.place.unwrap();
    assert_eq!(judged.pattern, Some(2));
    assert_eq!((place.offset, place.line, place.to_end), (14, Some(3), 18));
    // Of a log whose beginning is gone only the byte is known.
    evidence.user_log_from = 1000;
    let place = rules.classify(&evidence).judged.unwrap().place.unwrap();
    assert_eq!((place.offset, place.line, place.to_end), (1014, None, 18));
    let mut odd = exited(1, "");
    odd.user_log = b"step \xff\xff\xff\nerror: no license\n".to_vec();
    let place = rules.classify(&odd).judged.unwrap().place.unwrap();
    assert_eq!((place.offset, place.line, place.to_end), (9, Some(2), 18));
    let by_code = rules.classify(&exited(77, "step 1\n")).judged.unwrap();
    assert_eq!((by_code.pattern, by_code.place), (Some(1), None));
    let unknown = rules.classify(&exited(1, "step 1\n")).judged.unwrap();
    assert_eq!((unknown.pattern, unknown.place), (None, None));
}

#[test]
fn a_rule_in_shadow_decides_nothing_and_is_told() {
    let evidence = exited(77, "step 1\nerror: no license\n");
    let open = with_own_rule("").classify(&evidence);
    assert_eq!((open.code(), &open.judged.unwrap().shadow), (215, &None));
    let rules = with_own_rule("  shadow: true\n");
    assert!(rules.is_in_shadow(215) && !rules.is_in_shadow(255));
    let verdict = rules.classify(&evidence);
    let without = RuleSet::shipped().classify(&evidence);
    assert_eq!(verdict.spec, without.spec);
    assert_eq!(verdict.matched_user_log, without.matched_user_log);
    let shadow = verdict.judged.unwrap().shadow.unwrap();
    assert_eq!((shadow.code, shadow.behavior), (215, Behavior::Transient));
    let other = rules.classify(&exited(0, "all is well\n"));
    assert_eq!(other.judged.unwrap().shadow, None);
    assert_eq!(rules.without_shadow().classify(&evidence).code(), 215);
}

#[test]
fn what_follows_is_in_the_verdict() {
    let rules = with_own_rule("  action: elsewhere\n  limits:\n    inARow: 3\n");
    let judged = rules.classify(&exited(77, "")).judged.unwrap();
    assert_eq!(
        (judged.goes_elsewhere, judged.in_a_row_max),
        (true, Some(3))
    );
    let judged = rules.classify(&exited(1, "")).judged.unwrap();
    assert_eq!((judged.goes_elsewhere, judged.in_a_row_max), (false, None));
}
