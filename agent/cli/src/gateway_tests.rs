//! Whole commands against the real gateway over a cluster in memory: that both sides name the
//! same routes and mean the same by their answers.

use std::sync::Arc;

use muster_model::id::AttemptUid;
use muster_model::state::SubState;
use muster_model::view::{Age, JobDetail};
use muster_portal_gateway::fake::FakeCluster;
use muster_portal_gateway::{Gateway, GatewayConfig, LogLinkKey};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::endpoint::EndpointArguments;
use super::status::CliStatus;
use super::stub::{self, TextFile};
use super::tests::detail;

/// A gateway on a socket; ends when dropped.
pub(super) struct ServedGateway {
    directory: TempDir,
    pub(super) cluster: Arc<FakeCluster>,
    _shutdown: DropGuard,
}

impl ServedGateway {
    pub(super) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("agent.sock")).unwrap();
        let cluster = Arc::new(FakeCluster::default());
        let (_, key) = tokio::sync::watch::channel(LogLinkKey([7; 32]));
        let config = GatewayConfig::new(key, 7741, "admin".parse().unwrap());
        let gateway = Gateway::new(cluster.ports(), config);
        let shutdown = CancellationToken::new();
        let stopped = shutdown.clone();
        tokio::spawn(async move { gateway.serve_unix(listener, stopped).await });
        Self {
            directory,
            cluster,
            _shutdown: shutdown.drop_guard(),
        }
    }

    pub(super) async fn muster(&self, arguments: &[&str]) -> (CliStatus, String, String) {
        let socket = self.directory.path().join("agent.sock");
        stub::muster(EndpointArguments::at_socket(socket), arguments).await
    }

    /// Puts a job there and its output.
    pub(super) fn put(&self, job: JobDetail) {
        for task in &job.roles[0].tasks {
            let uid: &AttemptUid = task.attempts[0].uid.as_ref().unwrap();
            self.cluster.write_log(uid, "stdout", "to out\n");
            self.cluster.write_log(uid, "stderr", "to err\n");
            self.cluster.write_log(uid, "all", "to out\nto err\n");
        }
        self.cluster.put(job);
    }
}

#[tokio::test]
async fn jobs_are_submitted_shown_followed_and_stopped() {
    let served = ServedGateway::start();
    let file = TextFile::of("name: train\n");
    let path = file.path();
    let (status, out, err) = served
        .muster(&["job", "submit", path, "--user", "ada"])
        .await;
    assert_eq!(
        (status, out.as_str()),
        (CliStatus::Ok, "ada~train\n"),
        "{err}"
    );
    let (status, out, err) = served.muster(&["job", "list", "--user", "ada"]).await;
    assert!(
        status == CliStatus::Ok && out.contains("ada~train  WAITING"),
        "{out}{err}"
    );
    let (status, _, err) = served.muster(&["job", "stop", "ada~train"]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    let (status, _, err) = served.muster(&["job", "show", "ada~other"]).await;
    assert!(
        status == CliStatus::Refused && err.contains("muster job list"),
        "{err}"
    );

    served.put(detail("ada~done", SubState::Completed, Some(3), 0, 2));
    let (status, out, err) = served.muster(&["job", "wait", "ada~done"]).await;
    assert_eq!(
        (status, out.as_str()),
        (CliStatus::Negative, "ada~done  FAILED  exit code 3\n"),
        "{err}"
    );
    let (status, out, err) = served
        .muster(&["job", "show", "ada~done", "--attempt", "0"])
        .await;
    assert!(
        status == CliStatus::Ok && out.contains("3 Failed"),
        "{out}{err}"
    );
    // The cluster in memory writes `more` to a log that is followed.
    for (follow, expect) in [
        (&[][..], &["main:0 | to out", "main:1 | to out"][..]),
        (
            &["-f"],
            &[
                "main:0 | more",
                "main:0 | to out",
                "main:1 | more",
                "main:1 | to out",
            ],
        ),
    ] {
        let arguments = [&["job", "logs", "ada~done", "--name", "stdout"], follow].concat();
        let (status, out, err) = served.muster(&arguments).await;
        let mut lines: Vec<&str> = out.lines().collect();
        lines.sort_unstable();
        assert_eq!((status, &lines[..]), (CliStatus::Ok, expect), "{err}");
    }
    let arguments = [
        "job", "logs", "ada~done", "--index", "1", "--role", "main", "--tail", "4",
    ];
    let (_, out, err) = served.muster(&arguments).await;
    assert_eq!(out, "err\n", "{err}");
}

#[tokio::test]
async fn images_are_imported_listed_and_removed() {
    let served = ServedGateway::start();
    let archive = TextFile::of("tar");
    let path = archive.path();
    let (status, out, err) = served
        .muster(&["image", "import", path, "--name", "a/b:1"])
        .await;
    assert_eq!((status, out.as_str()), (CliStatus::Ok, "a/b:1\n"), "{err}");
    let (status, out, err) = served.muster(&["image", "list"]).await;
    assert!(
        status == CliStatus::Ok && out.contains("a/b:1"),
        "{out}{err}"
    );
    let (status, _, err) = served.muster(&["image", "remove", "a/b:1"]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    let (status, _, err) = served.muster(&["image", "remove", "a/b:1"]).await;
    assert!(
        status == CliStatus::Refused && err.contains("muster image list"),
        "{err}"
    );
}

#[tokio::test]
async fn what_a_copy_tells_is_shown_with_its_age() {
    let served = ServedGateway::start();
    served.put(detail("ada~train", SubState::AttemptRunning, None, 0, 1));
    let lists: [&[&str]; 2] = [&["job", "list"], &["job", "show", "ada~train"]];
    for list in lists {
        let (status, _, err) = served.muster(list).await;
        assert_eq!((status, err.as_str()), (CliStatus::Ok, ""));
    }
    served.cluster.age(Age {
        vc: "default".parse().unwrap(),
        seconds: Some(42),
    });
    let line = "what is shown of default is from 42s ago: its leader cannot be reached";
    for list in lists {
        let (status, out, err) = served.muster(list).await;
        assert!(
            status == CliStatus::Ok && out.contains("ada~train"),
            "{out}"
        );
        assert_eq!(err, format!("muster: {line}\n"));
        let json = served.muster(&[list, &["-o", "json"]].concat()).await.1;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let first = json.get(0).unwrap_or(&json);
        assert_eq!(first["age"]["seconds"], 42, "{json}");
    }
    let others = served.muster(&["job", "list", "--vc", "dev"]).await;
    assert_eq!(others.2, "", "of no other");
}
