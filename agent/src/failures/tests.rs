use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use muster_failure_rules::RuleSet;
use muster_model::exit::{Cause, Evidence, ExitPhase, RawExit};
use muster_model::health::{DeviceEvent, EventClass, HealthSubject};
use muster_model::id::AttemptUid;
use muster_model::rule_test::JudgedAs;

use super::mask::SecretMask;
use super::notes::{FailureNote, is_failure, notes};
use super::record::FailureRecord;
use super::replay::RuleReplay;
use super::retention::FailureName;
use super::store::FailureStore;
use super::tester::RuleTester;
use crate::documents::DocumentKind as _;
use crate::documents::failure_rules::{Rules, RulesDigest, RulesInForce};

/// Knows one failure.
const NEW: &str = "spec:\n- {code: 217, phrase: NoFlux, behavior: TRANSIENT, \
                   pattern: {runtimeContainerPatterns: [{userLogRegex: 'flux is low'}]}}\n";

/// Rules take long to read.
static SHIPPED: LazyLock<Arc<Rules>> = LazyLock::new(|| Arc::new(Rules::shipped().unwrap()));

fn exit() -> RawExit {
    RawExit {
        code: 1,
        signal: None,
        oom_killed: false,
        own_doing: true,
        phase: ExitPhase::UserCommands,
        cause: None,
        message: String::new(),
        ended_ms: 1_795_167_174_000,
    }
}

fn uid(number: u64) -> AttemptUid {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    AttemptUid::from_bytes(bytes)
}

fn note(number: u64, log: impl Into<Vec<u8>>) -> FailureNote {
    let evidence = Evidence {
        exit: exit(),
        user_log: log.into(),
        user_log_from: 0,
        platform_log: b"[openpai-runtime] user commands begin\n".to_vec(),
        device_events: Vec::new(),
    };
    let rules = Arc::clone(&SHIPPED);
    let judged = JudgedAs::from(&rules.set.classify(&evidence));
    FailureNote {
        uid: uid(number),
        job: "ada~train".to_owned(),
        task: "worker:0".to_owned(),
        evidence,
        rules,
        judged,
    }
}

fn record(number: u64, log: &str) -> FailureRecord {
    FailureRecord::of(note(number, log), &SecretMask::new([].into_iter()).unwrap())
}

fn name(record: &FailureRecord) -> FailureName {
    FailureName::new(record.exit.ended_ms, record.uid.clone(), u64::MAX)
}

fn store() -> (tempfile::TempDir, FailureStore) {
    let home = tempfile::tempdir().unwrap();
    let store = FailureStore::new(home.path().join("failures"));
    (home, store)
}

#[test]
fn a_failure_is_read_as_it_was_written() {
    let (_home, store) = store();
    assert_eq!(store.list().unwrap(), []);
    let mut written = record(1, "one\ntwo\n");
    written.user_log.push(0xff);
    written.device_events = vec![DeviceEvent {
        subject: HealthSubject::Machine,
        at_ms: 7,
        code: "xid 79".to_owned(),
        class: EventClass::Hardware,
        pid: None,
        text: "GPU has fallen off the bus".to_owned(),
    }];
    let bytes = store.write(&name(&written), &written).unwrap();
    assert_eq!(store.list().unwrap(), [(name(&written), bytes)]);
    let read = store.read(&name(&written)).unwrap();
    assert_eq!(read.as_ref(), Some(&written));
    store.remove(&name(&written)).unwrap();
    assert_eq!(store.read(&name(&written)).unwrap(), None);
}

#[test]
fn a_damaged_or_half_written_file_is_no_failure() {
    let (home, store) = store();
    let written = record(1, "one\ntwo\n");
    store.write(&name(&written), &written).unwrap();
    let file = home.path().join("failures").join(name(&written).file());
    let good = std::fs::read(&file).unwrap();
    let mut flipped = good.clone();
    let last = flipped.len() - 9;
    flipped[last] ^= 1;
    let cut = good[..good.len() / 2].to_vec();
    for bad in [flipped, cut, Vec::new(), b"nonsense".to_vec()] {
        std::fs::write(&file, &bad).unwrap();
        assert!(store.read(&name(&written)).is_err(), "{bad:?}");
    }
    let unfinished = file.with_extension("new");
    std::fs::write(&unfinished, &good).unwrap();
    assert_eq!(store.list().unwrap().len(), 1);
    store.tidy().unwrap();
    assert!(!unfinished.exists() && file.exists());
}

#[test]
fn only_as_much_of_a_log_is_kept_as_its_verdict_needs() {
    let line = "step 7 of a long run, nothing to see here\n";
    let long = line.repeat((2 << 20) / line.len());
    let known = "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    x\n\
                 ModuleNotFoundError: No module named 'flux'\n";
    let at_end = record(1, &format!("{long}{known}"));
    assert!(at_end.is_whole);
    assert_ne!(at_end.judged.code, 255);
    assert!(at_end.user_log.len() <= 64 << 10);
    assert!(at_end.user_log.starts_with(b"step"), "from a line on");

    // Rules that look at the whole log say something else of its end.
    let rules = Arc::new(Rules {
        set: Arc::new(RuleSet::parse(NEW).unwrap()),
        text: NEW.into(),
        digest: RulesDigest::of(NEW),
        version: 3,
    });
    let far = |bytes: usize| {
        let mut note = note(2, format!("flux is low\n{}", &long[..bytes]));
        note.judged = JudgedAs::from(&rules.set.classify(&note.evidence));
        note.rules = Arc::clone(&rules);
        assert_eq!(note.judged.code, 217);
        FailureRecord::of(note, &SecretMask::new([].into_iter()).unwrap())
    };
    let near = far(100 << 10);
    assert!(near.is_whole && near.user_log.len() > 100 << 10);
    assert_eq!(near.rules_version, 3);
    let lost = far(3 << 19);
    assert!(!lost.is_whole && lost.user_log.len() <= 64 << 10);
}

#[test]
fn no_secret_is_written() {
    let (home, store) = store();
    let mut note = note(
        1,
        "login with hunter22-long\nfailed: hf_abcdefghijklmnopqrstuvwxyz\n",
    );
    note.evidence.platform_log = b"export X=hunter22-long\n".to_vec();
    note.evidence.exit.message = "cannot use hunter22-long".to_owned();
    let mask = SecretMask::new(["hunter22-long"].into_iter()).unwrap();
    let record = FailureRecord::of(note, &mask);
    store.write(&name(&record), &record).unwrap();
    let file = home.path().join("failures").join(name(&record).file());
    let mut text = Vec::new();
    let file = std::fs::File::open(file).unwrap();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(file), &mut text).unwrap();
    let text = String::from_utf8_lossy(&text);
    assert!(
        !text.contains("hunter22") && !text.contains("hf_"),
        "{text}"
    );
    assert_eq!(text.matches("***").count(), 4, "{text}");
}

#[test]
fn ends_that_a_user_or_the_scheduler_asked_for_are_no_failures() {
    for (code, change, expect) in [
        (255, exit(), true),
        (0, exit(), false),
        (
            250,
            RawExit {
                phase: ExitPhase::Launch,
                ..exit()
            },
            false,
        ),
        (
            -210,
            RawExit {
                cause: Some(Cause::UserStop),
                ..exit()
            },
            false,
        ),
        (
            -1003,
            RawExit {
                cause: Some(Cause::Preempted),
                ..exit()
            },
            false,
        ),
        (
            211,
            RawExit {
                cause: Some(Cause::DeviceLost),
                ..exit()
            },
            true,
        ),
    ] {
        assert_eq!(is_failure(&change, code), expect, "{code}");
    }
}

#[test]
fn a_failure_is_never_waited_for_and_too_many_are_not_kept() {
    let (notes, mut pending) = notes();
    // Each takes a MiB of the memory, whatever its log has.
    let log = "x\n".repeat(2 << 20);
    for number in 0..80 {
        notes.note(note_with(number, &log));
    }
    let mut waiting = 0;
    while pending.try_recv().is_ok() {
        waiting += 1;
    }
    assert!((60..=64).contains(&waiting), "{waiting}");
    notes.note(note_with(81, &log));
    assert!(pending.try_recv().is_ok(), "there is room again");
}

/// Without a verdict, which takes long.
fn note_with(number: u64, log: &str) -> FailureNote {
    let mut note = note(number, "");
    note.evidence.user_log = log.as_bytes().to_vec();
    note
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_of_rules_names_exactly_what_would_change() {
    let (home, store) = store();
    for (number, log) in [
        (1, "the flux is low\n"),
        (2, "the flux is low\n"),
        (3, "the tank 17 is empty\n"),
        (4, "the tank 4 is empty\n"),
        (5, "ModuleNotFoundError: No module named 'flux'\n"),
    ] {
        let record = record(number, log);
        store.write(&name(&record), &record).unwrap();
    }
    let damaged = name(&record(6, "x"));
    let path = home.path().join("failures").join(damaged.file());
    std::fs::write(path, "nonsense").unwrap();
    let rules = RulesInForce::new(Rules::shipped().unwrap());
    let tester = RuleTester::new(store, rules, "n1".to_owned());

    let same = tester.test(RuleSet::shipped_text().to_owned()).await;
    let same = same.unwrap();
    assert_eq!((same.tried, same.changed, same.damaged), (5, 0, 1));
    assert_eq!(same.nodes, ["n1"]);

    let text = RuleSet::shipped_text();
    let rule = NEW.strip_prefix("spec:\n").unwrap();
    let more = text.replacen("\nspec:\n", &format!("\nspec:\n{rule}"), 1);
    assert_ne!(text, more);
    let test = tester.test(more).await.unwrap();
    assert_eq!((test.tried, test.changed), (5, 2), "{test:#?}");
    let [change] = &test.changes[..] else {
        panic!("{test:#?}")
    };
    assert_eq!((change.before.code, change.after.code), (255, 217));
    assert_eq!((change.count, change.examples.len()), (2, 2));
    assert_eq!(change.examples[0].line, "the flux is low");
    assert_eq!(test.unknown, 2);
    let [tank] = &test.signatures[..] else {
        panic!("{test:#?}")
    };
    assert_eq!((&*tank.text, tank.count), ("the tank N is empty", 2));

    let refused = tester.test("spec: 7".to_owned()).await.unwrap_err();
    assert!(refused.to_string().contains("spec"), "{refused}");
}

/// The shipped rules, which have this digest, beside themselves.
fn replay_of_shipped(digest: &RulesDigest) -> RuleReplay<'_> {
    let rules = RuleSet::shipped();
    RuleReplay {
        before: rules,
        digest,
        after: rules,
        node: "n1",
        until: Instant::now() + Duration::from_secs(60),
    }
}

#[test]
fn what_there_is_no_time_for_is_told() {
    let names: Vec<_> = (0..9).map(|number| name(&record(number, "x"))).collect();
    let digest = RulesDigest::of(RuleSet::shipped_text());
    let replay = RuleReplay {
        until: Instant::now(),
        ..replay_of_shipped(&digest)
    };
    let test = replay.run(&names, 2, |_| Ok(Some(record(1, "x"))));
    assert_eq!((test.tried, test.untried), (0, 9));
    let replay = replay_of_shipped(&digest);
    let test = replay.run(&names, 2, |_| Ok(Some(record(1, "x"))));
    assert_eq!((test.tried, test.untried), (9, 0));
    let dropped = replay.run(&names, 2, |_| Ok(None));
    assert_eq!((dropped.tried, dropped.untried), (0, 0));
}

#[test]
fn what_rules_have_said_is_asked_once_and_of_other_rules_anew() {
    let digest = RulesDigest::of(RuleSet::shipped_text());
    let replay = replay_of_shipped(&digest);
    let names = [name(&record(1, "x"))];
    let kept = |change: &dyn Fn(&mut FailureRecord)| {
        let mut record = record(1, "x");
        // Not what the rules say, so that it shows whether they were asked.
        record.judged.code = 77;
        change(&mut record);
        let test = replay.run(&names, 1, |_| Ok(Some(record.clone())));
        test.changes.first().map(|change| change.before.code)
    };
    assert_eq!(kept(&|_| {}), Some(77));
    assert_eq!(kept(&|record| record.is_whole = false), None);
    assert_eq!(
        kept(&|record| record.rules = RulesDigest::of("others")),
        None
    );
}

#[test]
fn rules_are_compiled_once_for_the_check_and_the_use_of_an_edit() {
    let rules = RulesInForce::new(Rules::shipped().unwrap());
    let put_in_force = |text: &str, version| rules.read(text, version).map(|put| put());
    rules.read(NEW, 0).map(drop).unwrap();
    put_in_force(NEW, 1).unwrap();
    let first = rules.now();
    put_in_force(NEW, 2).unwrap();
    let second = rules.now();
    assert!(Arc::ptr_eq(&first.set, &second.set));
    assert_eq!((first.version, second.version), (1, 2));
    put_in_force(&NEW.replace("flux", "flow"), 3).unwrap();
    assert!(!Arc::ptr_eq(&second.set, &rules.now().set));
    assert!(rules.read("spec: 7", 4).is_err());
    put_in_force(NEW, 5).unwrap();
    assert_eq!(rules.now().text, second.text);
}
