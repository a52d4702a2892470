//! Attempts that fail again and again: what is said of them, and when it is over.

use muster_model::exit::JudgedBy;
use muster_model::view::LastEnd;

use super::*;
use crate::verdict::EXIT_IMAGE;

/// An end before the user's command, for this reason.
fn not_launched(code: i32, reason: &str) -> TaskEnd {
    let mut verdict = verdict::succeeded();
    verdict.spec.code = code;
    verdict.spec.phrase = "Phrase".to_owned();
    verdict.spec.behavior = Behavior::Transient;
    verdict.spec.reason = Some(reason.to_owned());
    verdict.spec.solution = vec!["Mend it.".to_owned()];
    verdict.container_exit_code = None;
    verdict.diagnostics = format!("{reason}.");
    TaskEnd::Exit(Box::new(verdict))
}

fn last_end(bench: &Bench) -> Option<LastEnd> {
    let summary = bench.state.summary(&key()).unwrap();
    summary.last_end.map(|last| *last)
}

/// Placed, and ended so before its Go.
fn fail(bench: &mut Bench, end: &TaskEnd) {
    let run = bench.waiting().remove(0);
    bench.place(&run);
    assert!(bench.end("w", 0, end.clone()));
}

fn messages(bench: &Bench) -> Vec<String> {
    let events = bench.state.events(&key()).unwrap();
    events.into_iter().map(|event| event.message).collect()
}

#[test]
fn a_job_says_how_its_last_attempt_ended_and_how_often_in_a_row() {
    let mut bench = Bench::new(spec(true, 0, &[("w", 1, 1, -1)]));
    assert_eq!(last_end(&bench), None, "nothing has ended");
    fail(&mut bench, &not_launched(250, "No connection"));
    let expected = LastEnd {
        task: None,
        attempt: 0,
        ended: 30,
        code: 250,
        phrase: "Phrase".to_owned(),
        reason: "No connection.".to_owned(),
        solution: vec!["Mend it.".to_owned()],
        in_a_row: 1,
        is_charged: false,
        tries_max: None,
        next_at: Some(30),
    };
    assert_eq!(last_end(&bench), Some(expected));
    for _ in 0..3 {
        fail(&mut bench, &not_launched(250, "No connection"));
    }
    let last = last_end(&bench).unwrap();
    assert_eq!((last.attempt, last.in_a_row), (3, 4));
    assert!(last.next_at.unwrap() > 30, "the pauses grow");
    fail(&mut bench, &not_launched(250, "No room"));
    let last = last_end(&bench).unwrap();
    assert_eq!((last.in_a_row, last.reason.as_str()), (1, "No room."));
    let told = messages(&bench);
    let ended = "Task w:0 ended with exit code 250: No connection.";
    assert!(told.iter().any(|told| told == ended), "{told:?}");
    let again = "Attempt 4 follows after 1 s: the last one ended with 250 (Phrase), 4 times in a row; \
                 the retry does not count against the job's limit.";
    assert!(told.iter().any(|told| told == again), "{told:?}");
    bench.start();
    assert!(last_end(&bench).is_some(), "while it runs as well");
    bench.end("w", 0, exit(0, Behavior::Unknown));
    assert_eq!(last_end(&bench), None, "it has ended");
}

#[test]
fn a_charged_retry_is_told_as_one() {
    let mut bench = Bench::new(spec(true, 3, &[("w", 1, 1, -1)]));
    for times in 1..=2 {
        bench.start();
        bench.end("w", 0, exit(7, Behavior::Unknown));
        let last = last_end(&bench).unwrap();
        assert_eq!((last.code, last.in_a_row), (7, times));
        assert!(last.is_charged);
    }
    let told = messages(&bench).pop().unwrap();
    assert!(told.contains("counts against"), "{told}");
}

#[test]
fn an_unknown_registry_ends_the_job_after_a_few_tries() {
    let unknown = not_launched(EXIT_IMAGE, "The registry is not known");
    let mut bench = Bench::new(spec(true, 0, &[("w", 1, 1, -1)]));
    for tries in 1..=4 {
        fail(&mut bench, &unknown);
        let last = last_end(&bench).unwrap();
        assert_eq!((last.in_a_row, last.tries_max), (tries, Some(5)));
        assert!(!bench.state().0.is_final());
    }
    fail(&mut bench, &unknown);
    assert_eq!(bench.state(), (JobState::Failed, Some(EXIT_IMAGE)));
    let detail = bench.state.detail(&key(), None).unwrap();
    let verdict = detail.attempt.unwrap().verdict.unwrap();
    assert_eq!(verdict.spec.behavior, Behavior::Permanent);
    let told = "The registry is not known. 5 attempts in a row ended so; no more are made.";
    assert_eq!(verdict.diagnostics, told);
    let last = messages(&bench).pop().unwrap();
    assert_eq!(last, "The job ended: Phrase, as 5 attempts in a row did.");
}

#[test]
fn a_task_that_is_tried_again_alone_is_told_and_ends_alike() {
    let unknown = not_launched(EXIT_IMAGE, "The registry is not known");
    let mut bench = Bench::new(spec(false, 0, &[("w", 2, 1, -1)]));
    bench.start();
    for tries in 1..=4 {
        assert!(bench.end("w", 0, unknown.clone()));
        let last = last_end(&bench).unwrap();
        assert_eq!(last.task.unwrap().to_string(), "w:0");
        assert_eq!((last.attempt, last.in_a_row), (tries - 1, tries));
        assert!(last.next_at.is_some());
        bench.start();
    }
    bench.end("w", 0, unknown);
    bench.end("w", 1, stopped(Cause::AttemptCompleted));
    assert_eq!(bench.state(), (JobState::Failed, Some(EXIT_IMAGE)));
    let task = bench.state.task(&key(), 0, &task_id(("w", "0"))).unwrap();
    let verdict = task.attempts.last().unwrap().verdict.as_ref().unwrap();
    assert!(
        verdict.diagnostics.contains("5 attempts in a row"),
        "{verdict:?}"
    );
}

/// An end that a rule lets happen this often in a row.
fn limited(code: i32, behavior: Behavior, in_a_row_max: u32) -> TaskEnd {
    let TaskEnd::Exit(mut verdict) = exit(code, behavior) else {
        unreachable!("it is an exit")
    };
    verdict.judged = Some(JudgedBy {
        rules_version: 7,
        pattern: Some(1),
        place: None,
        shadow: None,
        goes_elsewhere: false,
        in_a_row_max: Some(in_a_row_max),
    });
    TaskEnd::Exit(verdict)
}

#[test]
fn a_rule_ends_the_job_after_so_many_ends_in_a_row() {
    for behavior in [Behavior::Unknown, Behavior::Transient] {
        let mut bench = Bench::new(spec(true, 100, &[("w", 1, 1, -1)]));
        let mut ends = |code, max| {
            bench.start();
            bench.end("w", 0, limited(code, behavior, max));
            (bench.state(), last_end(&bench))
        };
        for tries in 1..=2 {
            let (_, last) = ends(7, 3);
            let last = last.expect("another attempt follows");
            assert_eq!((last.in_a_row, last.tries_max), (tries, Some(3)));
        }
        // Another end between them begins the row anew.
        ends(8, 3);
        for _ in 0..2 {
            assert!(ends(7, 3).1.is_some());
        }
        assert_eq!(ends(7, 3).0, (JobState::Failed, Some(7)), "{behavior:?}");
        let told = messages(&bench).pop().unwrap();
        assert!(told.ends_with("as 3 attempts in a row did."), "{told}");
    }
}
