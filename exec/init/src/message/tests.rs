//! The bytes of every message as released. A failing line here means that an agent and a
//! running task of two releases no longer understand each other: add a new kind instead.

use super::*;
use crate::exit_report::FailureKind;
use crate::frame::Decoder;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn frame_of(bytes: &[u8]) -> InitFrame {
    let mut decoder = Decoder::default();
    decoder.push(bytes);
    decoder.next_frame().unwrap().unwrap()
}

macro_rules! check {
    ($type:ident, $message:expr, $golden:literal) => {
        let message: $type = $message;
        let bytes = message.encode().unwrap();
        assert_eq!(hex(&bytes), concat!("6d7374720100", $golden), "{message:?}");
        assert_eq!($type::decode(&frame_of(&bytes)).unwrap(), Some(message));
    };
}

fn failure() -> RuntimeFailure {
    RuntimeFailure {
        kind: FailureKind::Runtime,
        message: "m".to_owned(),
    }
}

fn report() -> ExitReport {
    ExitReport {
        code: -1,
        signal: Some(9),
        phase: TaskPhase::PostCommands,
        stopped: true,
        lease_ended: false,
        launched_ms: 300,
        ended_ms: 1,
        failure: Some(failure()),
    }
}

#[test]
fn messages_have_their_released_bytes() {
    let hello = InitHello {
        protocol: 1,
        phase: TaskPhase::UserCommands,
        launched_ms: 300,
    };
    let ready = Ready {
        shell: "/bin/sh".to_owned(),
    };
    let progress = ProgressMessage {
        phase: TaskPhase::PreCommands,
        at_ms: 5,
    };
    let lease = LeaseMessage {
        ends_ms: 300,
        grace_ms: 5,
    };
    let setup = TaskSetup {
        environment: BTreeMap::from([("A".to_owned(), "b".to_owned())]),
        pre_commands: vec!["p".to_owned()],
        script: "s".to_owned(),
        post_commands: vec!["q".to_owned(), "r".to_owned()],
        workdir: Some("/w".to_owned()),
        grace_ms: 300,
        lease: Some(lease.clone()),
    };
    let stop = StopMessage { grace_ms: 300 };
    let lines = RuntimeLog {
        lines: b"\xffx\n".to_vec(),
    };
    let stored = ExitStored {
        problem: "p".to_owned(),
    };
    check!(ToAgent, ToAgent::Hello(hello), "0100040000000103ac02");
    check!(
        ToAgent,
        ToAgent::Ready(ready),
        "020008000000072f62696e2f7368"
    );
    check!(
        ToAgent,
        ToAgent::SetupFailed(failure()),
        "03000300000001016d"
    );
    check!(ToAgent, ToAgent::Progress(progress), "0400020000000205");
    check!(
        ToAgent,
        ToAgent::Exit(report()),
        "05000d000000010112040100ac02010101016d"
    );
    check!(
        ToInit,
        ToInit::Setup(setup),
        "10001900000001014101620101700173020171017201022f77ac0201ac0205"
    );
    check!(ToInit, ToInit::Go(Go {}), "110000000000");
    check!(ToInit, ToInit::Stop(stop), "120002000000ac02");
    check!(ToInit, ToInit::Lease(lease), "130003000000ac0205");
    check!(
        ToLogger,
        ToLogger::RuntimeLog(lines),
        "20000400000003ff780a"
    );
    let held = HeldMessage {
        report: report(),
        until_ms: 300,
    };
    check!(
        ToAgent,
        ToAgent::Held(held),
        "06000f000000010112040100ac02010101016dac02"
    );
    let hold = HoldMessage { hold_ms: 300 };
    check!(ToInit, ToInit::Hold(hold), "140002000000ac02");
    check!(ToLogger, ToLogger::Flush(Flush {}), "210000000000");
    check!(
        ToLogger,
        ToLogger::StoreExit(report()),
        "22000d000000010112040100ac02010101016d"
    );
    check!(
        FromLogger,
        FromLogger::Flushed(Flushed { dropped_bytes: 1 }),
        "30000100000001"
    );
    check!(
        FromLogger,
        FromLogger::ExitStored(stored),
        "3100020000000170"
    );
}

#[test]
fn unknown_kinds_are_skipped_and_bad_bodies_are_errors() {
    let unknown = InitFrame {
        kind: 999,
        body: vec![1],
    };
    assert_eq!(ToInit::decode(&unknown).unwrap(), None);
    let cut = InitFrame {
        kind: 16,
        body: vec![1, 1],
    };
    assert!(matches!(
        ToInit::decode(&cut),
        Err(InitFrameError::Body { kind: 16, .. })
    ));
}

#[test]
fn a_printed_setup_shows_no_secret() {
    let setup = TaskSetup {
        environment: BTreeMap::from([("TOKEN".to_owned(), "hunter2".to_owned())]),
        pre_commands: vec!["hunter2".to_owned()],
        script: "hunter2".to_owned(),
        post_commands: vec!["hunter2".to_owned()],
        workdir: None,
        grace_ms: 0,
        lease: None,
    };
    assert!(!format!("{:?}", ToInit::Setup(setup)).contains("hunter2"));
}
