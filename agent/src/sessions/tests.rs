//! Sessions in containers of the fake engine.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use muster_exec::engine::fake::FakeEngine;
use muster_exec::engine::{BindMount, ContainerSpec, Logger};
use muster_init::task_dir::CONTAINER_INIT;
use muster_model::launch::TaskLimits;
use muster_model::session::{ExecWish, SessionChannel, SessionEnd};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::timeout;

use super::*;

const LIMIT: Duration = Duration::from_secs(20);
const UID: &str = "a-0";

/// Stands in for muster-init: runs what it is told after `enter`.
const ENTER: &str = "#!/bin/sh\nshift\nexec \"$@\"\n";

struct Bench {
    engine: Arc<FakeEngine>,
    sessions: TaskSessions,
    directory: tempfile::TempDir,
}

impl Bench {
    /// With a container that runs.
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let script = |name: &str, text: &str| {
            let file = path.join(name);
            std::fs::write(&file, text).unwrap();
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&file, mode).unwrap();
            file
        };
        let engine = Arc::new(FakeEngine::new(path.join("engine"), ["image"]));
        let spec = ContainerSpec {
            uid: UID.parse().unwrap(),
            labels: Default::default(),
            image: "image".to_owned(),
            limits: TaskLimits {
                cpu: 1,
                memory_mb: 64,
                shm_mb: 8,
                pids: 64,
                disk_mb: 0,
            },
            devices: Vec::new(),
            environment: Default::default(),
            default_environment: Default::default(),
            mounts: vec![BindMount {
                source: script("enter", ENTER),
                target: CONTAINER_INIT.into(),
                read_only: true,
            }],
            args: ["sleep", "1000"].map(str::to_owned).to_vec(),
            logger: Logger {
                binary: script("logger", "#!/bin/sh\nexec 5>&-\ncat <&3 >/dev/null\n"),
                dir: path.join("log"),
            },
            infiniband: false,
            raw_sockets: false,
        };
        engine.create(&spec).await.unwrap();
        engine.start(&spec.uid).await.unwrap();
        Self {
            sessions: TaskSessions::new(engine.clone(), path.join("tasks")),
            engine,
            directory,
        }
    }

    /// Asks for a session in a task.
    fn ask(&self, uid: &str, wish: SessionWish) -> DuplexStream {
        let (near, far) = tokio::io::duplex(1 << 16);
        let request = SessionRequest {
            job: "ada~train".parse().unwrap(),
            task: muster_model::id::TaskId {
                role: "worker".parse().unwrap(),
                index: 0,
            },
            uid: uid.parse().unwrap(),
            wish,
            user: "ada".to_owned(),
            address: "192.0.2.1".to_owned(),
        };
        // Also what is sent is read again.
        let header = ask(&request).unwrap();
        let request = opening::request_of(&header).unwrap();
        let sessions = self.sessions.clone();
        tokio::spawn(async move { sessions.serve(request, far).await });
        near
    }

    /// A command that has begun.
    async fn command(&self, script: &str) -> Box<dyn muster_portal_gateway::port::SessionIo> {
        let stream = self.ask(UID, command(&["sh", "-c", script]));
        opened(stream, "n1").await.unwrap()
    }

    /// Whether no directory of a command is left.
    fn is_clean(&self) -> bool {
        let left = self.directory.path().join("tasks").join(UID).join("exec");
        std::fs::read_dir(left).map_or(true, |mut entries| entries.next().is_none())
    }
}

fn command(words: &[&str]) -> SessionWish {
    SessionWish::Exec(ExecWish {
        command: words.iter().map(|&word| word.to_owned()).collect(),
        stdin: true,
        terminal: None,
    })
}

/// All that a command writes, and its end.
async fn told<S: AsyncRead + Unpin>(stream: &mut S) -> (String, String, Option<SessionEnd>) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut payload = Vec::new();
    let end = loop {
        let read = timeout(LIMIT, frames::read(stream, &mut payload)).await;
        match read.unwrap() {
            Ok(Some(SessionChannel::Stdout)) => out.extend_from_slice(&payload),
            Ok(Some(SessionChannel::Stderr)) => err.extend_from_slice(&payload),
            Ok(Some(SessionChannel::Status)) => break SessionEnd::of_json(&payload),
            _ => break None,
        }
    };
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(out), text(err), end)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_has_its_streams_and_its_end() {
    let bench = Bench::new().await;
    let mut stream = bench.command("cat; echo no >&2; exit 7").await;
    for word in ["one ", "two"] {
        let sent = frames::write(&mut stream, SessionChannel::Stdin, word.as_bytes());
        sent.await.unwrap();
    }
    let stdin = [SessionChannel::Stdin.number()];
    let sent = frames::write(&mut stream, SessionChannel::Close, &stdin);
    sent.await.unwrap();
    let (out, err, end) = told(&mut stream).await;
    assert_eq!((&*out, &*err), ("one two", "no\n"));
    assert_eq!(end, Some(SessionEnd::Exited(7)));
    // Nothing follows.
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    assert!(bench.is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_wrote_last_is_not_lost() {
    let bench = Bench::new().await;
    for _ in 0..20 {
        let mut stream = bench.command("head -c 300000 /dev/zero; echo end").await;
        let (out, _, end) = told(&mut stream).await;
        assert_eq!(end, Some(SessionEnd::Exited(0)));
        assert_eq!(out.len(), 300_004);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_goes_ends_the_command() {
    let bench = Bench::new().await;
    let mark = bench.directory.path().join("mark");
    let (mark, text) = (mark.clone(), mark.display().to_string());
    let script =
        format!("trap 'echo hung up >{text}; exit' HUP; echo set; while :; do sleep 0.05; done");
    let mut stream = bench.command(&script).await;
    let mut payload = Vec::new();
    frames::read(&mut stream, &mut payload).await.unwrap();
    assert_eq!(payload, b"set\n");
    drop(stream);
    let hung_up = async {
        while std::fs::read_to_string(&mark).unwrap_or_default() != "hung up\n" || !bench.is_clean()
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LIMIT, hung_up).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_task_is_told() {
    let bench = Bench::new().await;
    let mut stream = bench.command("exec sleep 1000").await;
    bench.engine.signal(&UID.parse().unwrap(), 9).await.unwrap();
    let (_, _, end) = told(&mut stream).await;
    let ended = SessionEnd::Failed("the task has ended".to_owned());
    assert_eq!(end, Some(ended));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_killed_is_no_end_of_the_task() {
    let bench = Bench::new().await;
    let mut stream = bench.command("kill -9 $$").await;
    let (_, _, end) = told(&mut stream).await;
    assert_eq!(end, Some(SessionEnd::Exited(137)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused_and_told() {
    let bench = Bench::new().await;
    let refused = async |uid: &str, wish| {
        let stream = bench.ask(uid, wish);
        opened(stream, "n1").await.err().unwrap()
    };
    use muster_portal_gateway::port::PortError;
    let gone = refused("a-1", command(&["true"])).await;
    assert_eq!(gone, PortError::NotNow("the task has ended".to_owned()));
    let empty = refused(UID, command(&[""])).await;
    assert!(
        matches!(&empty, PortError::Invalid(why) if why.contains("command:")),
        "{empty}"
    );
    let port = refused(UID, SessionWish::Port(1)).await;
    assert!(
        matches!(&port, PortError::NotNow(why) if why.contains("port 1")),
        "{port}"
    );
    bench.engine.set_silent(true);
    let silent = refused(UID, command(&["true"])).await;
    assert!(
        matches!(&silent, PortError::Unavailable(why) if why.contains("n1")),
        "{silent}"
    );
    // What is no frame, and an answer that is none.
    let (mut near, far) = tokio::io::duplex(64);
    near.write_all(&[0xFF; 16]).await.unwrap();
    let odd = opened(far, "n1").await.err().unwrap();
    assert!(matches!(odd, PortError::Unavailable(_)), "{odd}");
}
