//! Commands beside a container's first process.

use muster_model::session::TerminalSize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::engine::{ExecSpec, ExecStreams, StartedExec};

impl EngineUnderTest<'_> {
    fn exec_spec(&self, id: &str, script: &str) -> ExecSpec {
        ExecSpec {
            id: id.to_owned(),
            args: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            environment: vec![("GREETING".to_owned(), "from the caller".to_owned())],
            stdin: false,
            terminal: None,
            dir: self.dir.join("exec").join(id),
        }
    }

    async fn exec(&self, uid: &AttemptUid, spec: &ExecSpec) -> StartedExec {
        within(self.engine.exec(uid, spec)).await.unwrap()
    }
}

/// All that a command writes, to its output and to its errors.
async fn written(streams: ExecStreams) -> (String, String) {
    let mut streams = streams;
    let (mut out, mut err) = (String::new(), String::new());
    within(streams.stdout.read_to_string(&mut out))
        .await
        .unwrap();
    if let Some(stderr) = &mut streams.stderr {
        within(stderr.read_to_string(&mut err)).await.unwrap();
    }
    (out, err)
}

pub(super) async fn run_beside_it(bench: &EngineUnderTest<'_>) {
    let spec = bench.spec("host", "echo up; while :; do sleep 1; done");
    let uid = &spec.uid;
    let early = bench.exec_spec("early", "true");
    let refused = bench.engine.exec(uid, &early).await.unwrap_err();
    assert!(matches!(refused, EngineError::NoContainer(_)), "{refused}");
    bench.create_and_start(&spec).await;
    bench.output(&spec, |text| text == "up\n").await;
    ends_are_told(bench, uid).await;
    what_is_typed_arrives(bench, uid).await;
    it_can_be_cut_off(bench, uid).await;
    it_ends_with_its_container(bench, uid).await;
}

async fn ends_are_told(bench: &EngineUnderTest<'_>, uid: &AttemptUid) {
    let script = "echo out; echo $GREETING >&2; cat; exit 42";
    let started = bench.exec(uid, &bench.exec_spec("ends", script)).await;
    assert_eq!(within(started.process.wait()).await.unwrap(), 42);
    started.process.remove().await.unwrap();
    started.process.remove().await.expect("a second time");
    started.process.signal(15).await.expect("it has ended");
    let (out, err) = written(started.streams).await;
    assert_eq!((&*out, &*err), ("out\n", "from the caller\n"));
}

async fn what_is_typed_arrives(bench: &EngineUnderTest<'_>, uid: &AttemptUid) {
    let spec = ExecSpec {
        stdin: true,
        ..bench.exec_spec("typed", "wc -c")
    };
    let mut started = bench.exec(uid, &spec).await;
    let mut stdin = started.streams.stdin.take().unwrap();
    // More than pipes hold.
    let bytes = vec![b'x'; 1_000_000];
    within(stdin.write_all(&bytes)).await.unwrap();
    within(stdin.flush()).await.unwrap();
    drop(stdin);
    started.process.close_input().await.unwrap();
    assert_eq!(within(started.process.wait()).await.unwrap(), 0);
    started.process.remove().await.unwrap();
    assert_eq!(written(started.streams).await.0.trim(), "1000000");
}

async fn it_can_be_cut_off(bench: &EngineUnderTest<'_>, uid: &AttemptUid) {
    let script = "trap 'echo asked; exit 3' TERM; echo set; while :; do sleep 0.05; done";
    let mut started = bench.exec(uid, &bench.exec_spec("asked", script)).await;
    let mut set = [0; 4];
    within(started.streams.stdout.read_exact(&mut set))
        .await
        .unwrap();
    started.process.signal(15).await.unwrap();
    assert_eq!(within(started.process.wait()).await.unwrap(), 3);
    started.process.remove().await.unwrap();
    assert_eq!(written(started.streams).await.0, "asked\n");

    let spec = bench.exec_spec("killed", "trap '' TERM; exec sleep 1000");
    let started = bench.exec(uid, &spec).await;
    within(started.process.remove()).await.unwrap();
    assert_eq!(written(started.streams).await.0, "");
    // What an earlier life of the caller may have left, and has not.
    bench.engine.end_exec(uid, "killed").await.unwrap();
}

async fn it_ends_with_its_container(bench: &EngineUnderTest<'_>, uid: &AttemptUid) {
    let spec = bench.exec_spec("last", "exec sleep 1000");
    let started = bench.exec(uid, &spec).await;
    let removing = bench.engine.remove(uid);
    let (ended, removed) = within(futures::future::join(started.process.wait(), removing)).await;
    removed.unwrap();
    // Its status is not always known: the engine may have forgotten it with the container.
    if let Ok(code) = ended {
        assert_eq!(code, 137);
    }
    written(started.streams).await;
}

/// A terminal, which the fake engine has not.
pub(super) async fn terminals_are_real(bench: &EngineUnderTest<'_>) {
    let spec = bench.spec("tty", "echo up; while :; do sleep 1; done");
    bench.create_and_start(&spec).await;
    bench.output(&spec, |text| text == "up\n").await;
    let exec = ExecSpec {
        stdin: true,
        terminal: Some(TerminalSize {
            width: 100,
            height: 40,
        }),
        ..bench.exec_spec("tty", "stty size; read answer; stty size; exit 5")
    };
    let mut started = bench.exec(&spec.uid, &exec).await;
    let mut stdin = started.streams.stdin.take().unwrap();
    assert!(started.streams.stderr.is_none());
    let mut first = [0; 8];
    within(started.streams.stdout.read_exact(&mut first))
        .await
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&first), "40 100\r\n");
    let size = TerminalSize {
        width: 132,
        height: 43,
    };
    started.process.resize(size).await.unwrap();
    within(stdin.write_all(b"go\n")).await.unwrap();
    assert_eq!(within(started.process.wait()).await.unwrap(), 5);
    started.process.remove().await.unwrap();
    let (rest, _) = written(started.streams).await;
    // What is typed is shown.
    assert_eq!(rest, "go\r\n43 132\r\n");
    bench.engine.remove(&spec.uid).await.unwrap();
}
