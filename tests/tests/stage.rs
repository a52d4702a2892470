//! A scene for tests of one machine: a real agent, containerd and runc, over REST.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use muster_tests::agent::Agent;
use muster_tests::client::Client;
use muster_tests::home::AgentHome;
pub(crate) use muster_tests::job::Job;
use serde_json::Value;

/// How long a job of a test may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// Room for many small tasks, whatever the machine has.
pub(crate) const SIMULATED: &str =
    "[hardware]\nsimulate = \"8xV100\"\ncpu_overcommit = 64.0\nmemory_overcommit = 8.0\n";

/// An agent that is ready for jobs, and who talks to it. Dropped in this order.
pub(crate) struct Stage {
    pub(crate) client: Client,
    pub(crate) agent: Agent,
    pub(crate) home: AgentHome,
}

impl Stage {
    pub(crate) async fn new() -> Result<Self> {
        Self::with(SIMULATED).await
    }

    /// With these lines in `agent.toml`.
    pub(crate) async fn with(extra: &str) -> Result<Self> {
        Self::at(AgentHome::new(extra)?).await
    }

    /// In a home that was made ready for it.
    pub(crate) async fn at(home: AgentHome) -> Result<Self> {
        let agent = home.agent()?;
        home.import_busybox()?;
        let client = agent.client().await?;
        Ok(Self {
            client,
            agent,
            home,
        })
    }

    /// Gives the cluster this policy.
    pub(crate) fn policy(&self, text: &str) -> Result<()> {
        let file = self.home.path().join("policy.yaml");
        std::fs::write(&file, text)?;
        let known = self.home.muster(&["policy", "status", "-o", "json"])?;
        let known: Value = serde_json::from_slice(&known.stdout)?;
        let base = known["newest"]["version"].to_string();
        let file = file.to_string_lossy();
        let applied = self
            .home
            .muster(&["policy", "apply", &file, "--base", &base])?;
        ensure!(applied.status.success(), "{applied:?}");
        Ok(())
    }

    /// Submits a job of one role and waits for its end.
    pub(crate) async fn ends(&self, job: &Job<'_>) -> Result<Value> {
        self.client.submit(&job.yaml()).await?;
        self.waits(job.name).await
    }

    /// Waits for the end of a job that was submitted.
    pub(crate) async fn waits(&self, name: &str) -> Result<Value> {
        self.client
            .wait_final(&format!("admin~{name}"), LIMIT)
            .await
    }

    /// Waits until the node holds nothing for any task: no grant, no container.
    pub(crate) async fn holds_nothing(&self) -> Result<()> {
        let start = Instant::now();
        loop {
            let shown = self.home.muster(&["node", "show", "-o", "json"])?;
            let node: Value = serde_json::from_slice(&shown.stdout)?;
            let containers = self.home.ctr(&["containers", "list", "-q"])?.stdout;
            if node["tasks"].as_array().is_some_and(Vec::is_empty) && containers.is_empty() {
                return Ok(());
            }
            let left = String::from_utf8_lossy(&containers);
            anyhow::ensure!(start.elapsed() < LIMIT, "{} {left}", node["tasks"]);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Submits it and waits until it runs.
    pub(crate) async fn runs(&self, job: &Job<'_>) -> Result<Value> {
        self.client.submit(&job.yaml()).await?;
        self.client
            .wait(&format!("admin~{}", job.name), LIMIT, |state| {
                state == "RUNNING"
            })
            .await
    }

    /// What `muster node show` says is wrong, once that contains `expect`; or once there is
    /// nothing, if that is expected.
    pub(crate) async fn problems(&self, expect: Option<&str>) -> Result<String> {
        let start = Instant::now();
        loop {
            let shown = self.home.muster(&["node", "show"])?;
            let page = String::from_utf8_lossy(&shown.stdout).into_owned();
            let problems = page.split_once("Problems").map_or("", |(_, text)| text);
            if expect.map_or(problems.is_empty(), |expect| problems.contains(expect)) {
                return Ok(page);
            }
            anyhow::ensure!(start.elapsed() < LIMIT, "{expect:?} is not in {page}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The output of every task that ever ran here, with its job's name if it says so itself.
    pub(crate) fn outputs(&self, file: &str) -> Result<Vec<String>> {
        let tasks = std::fs::read_dir(self.home.path().join("state/tasks"))?;
        let read = |task: std::io::Result<std::fs::DirEntry>| {
            let path = task?.path().join("log").join(file);
            Ok(std::fs::read_to_string(path).unwrap_or_default())
        };
        tasks.map(read).collect()
    }

    /// One log file of the first task.
    pub(crate) async fn log(&self, detail: &Value, name: &str) -> Result<String> {
        let task = &detail["taskRoles"]["main"]["taskStatuses"][0];
        let path = task["containerLog"].as_str().context("containerLog")?;
        let listing = self.client.get(path).await?;
        let locations = listing["locations"].as_array().context("locations")?;
        let found = locations.iter().find(|location| location["name"] == name);
        let uri = found.context("log")?["uri"].as_str().context("uri")?;
        let uri = uri.trim_start_matches(self.home.url());
        let (status, text) = self
            .client
            .send(hyper::Method::GET, uri, "text/plain", String::new())
            .await?;
        anyhow::ensure!(status.is_success(), "{uri} answered {status}: {text}");
        Ok(text)
    }

    /// Kills the agent as a crash would, and starts it again.
    pub(crate) async fn crash(&mut self) -> Result<Duration> {
        self.agent.kill()?;
        let start = Instant::now();
        self.agent = self.home.agent()?;
        self.client = self.agent.client().await?;
        Ok(start.elapsed())
    }
}

/// Where a registry listens that has no image at all. Ends with the test.
pub(crate) fn empty_registry() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let body = r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"unknown"}]}"#;
            let head = "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n";
            let length = body.len();
            let _ = write!(
                stream,
                "{head}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
            );
        }
    });
    Ok(address)
}

/// A job's state, exit code and exit phrase.
pub(crate) fn status(detail: &Value) -> (&str, i64, &str) {
    let status = &detail["jobStatus"];
    (
        status["state"].as_str().unwrap_or_default(),
        status["appExitCode"].as_i64().unwrap_or(i64::MIN),
        status["appExitSpec"]["phrase"].as_str().unwrap_or_default(),
    )
}
