//! One machine, run as users run it: a real agent, containerd and runc, over REST.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use muster_tests::agent::Agent;
use muster_tests::client::Client;
use muster_tests::home::{self, Home};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);
const SIMULATED: &str =
    "[hardware]\nsimulate = \"8xV100\"\ncpu_overcommit = 64.0\nmemory_overcommit = 8.0\n";

/// An agent that is ready for jobs, and who talks to it. Dropped in this order.
struct Stage {
    client: Client,
    agent: Agent,
    home: Home,
}

impl Stage {
    async fn new() -> Result<Self> {
        Self::with(SIMULATED).await
    }

    async fn with(extra: &str) -> Result<Self> {
        let home = Home::new(extra)?;
        let agent = home.agent()?;
        home.import_busybox()?;
        let client = agent.client().await?;
        Ok(Self {
            client,
            agent,
            home,
        })
    }

    /// Submits a job of one role and waits for its end.
    async fn ends(&self, job: &Job<'_>) -> Result<Value> {
        self.client.submit(&job.yaml()).await?;
        self.client
            .wait_final(&format!("admin~{}", job.name), LIMIT)
            .await
    }

    async fn log(&self, detail: &Value, name: &str) -> Result<String> {
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
    async fn crash(&mut self) -> Result<Duration> {
        self.agent.kill()?;
        let start = Instant::now();
        self.agent = self.home.agent()?;
        self.client = self.agent.client().await?;
        Ok(start.elapsed())
    }
}

/// A job of one role, `main`.
struct Job<'a> {
    name: &'a str,
    commands: &'a str,
    image: &'a str,
    memory_mb: u32,
    instances: u32,
    extra: &'a str,
}

impl<'a> Job<'a> {
    fn new(name: &'a str, commands: &'a str) -> Self {
        Self {
            name,
            commands,
            image: "muster/busybox",
            memory_mb: 64,
            instances: 1,
            extra: "",
        }
    }

    fn yaml(&self) -> String {
        let Self {
            name,
            commands,
            image,
            memory_mb,
            instances,
            extra,
        } = self;
        format!(
            "protocolVersion: 2\nname: {name}\ntype: job\n{extra}\nprerequisites:\n  \
             - {{type: dockerimage, name: image, uri: '{image}'}}\ntaskRoles:\n  main:\n    \
             instances: {instances}\n    dockerImage: image\n    resourcePerInstance: \
             {{cpu: 1, memoryMB: {memory_mb}, gpu: 0}}\n    commands:\n      - |\n        {}\n",
            commands.replace('\n', "\n        ")
        )
    }
}

/// Where a registry listens that has no image at all. Ends with the test.
fn empty_registry() -> Result<std::net::SocketAddr> {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
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

fn status(detail: &Value) -> (&str, i64, &str) {
    let status = &detail["jobStatus"];
    (
        status["state"].as_str().unwrap_or_default(),
        status["appExitCode"].as_i64().unwrap_or(i64::MIN),
        status["appExitSpec"]["phrase"].as_str().unwrap_or_default(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_hello_example_succeeds() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let yaml = include_str!("../../deploy/examples/hello.yaml");
    stage.client.submit(yaml).await?;
    let detail = stage.client.wait_final("admin~hello", LIMIT).await?;
    assert_eq!(status(&detail), ("SUCCEEDED", 0, "Succeeded"), "{detail:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_failures_are_explained() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let image = format!("{}/no/such:image", empty_registry()?);
    let syntax = "echo '  File \"train.py\", line 3' >&2\n\
                  echo 'SyntaxError: invalid syntax' >&2\nexit 1";
    let memory = "exec tail -c 200m /dev/zero";
    let cases = [
        (Job::new("syntax", syntax), 231, "ContainerSyntaxError"),
        (
            Job {
                memory_mb: 32,
                ..Job::new("memory", memory)
            },
            -1200,
            "UserContainerDockerOOMKilled",
        ),
        (
            Job {
                image: &image,
                ..Job::new("image", "true")
            },
            254,
            "ContainerImageNotExists",
        ),
        (Job::new("command", "no-such-command --flag"), 240, ""),
    ];
    for (job, code, phrase) in cases {
        let detail = stage.ends(&job).await?;
        let (state, found_code, found_phrase) = status(&detail);
        assert_eq!(state, "FAILED", "{}: {detail:#}", job.name);
        if !phrase.is_empty() {
            assert_eq!(
                (found_code, found_phrase),
                (code, phrase),
                "{}: {detail:#}",
                job.name
            );
        }
        let shown = stage.home.muster(&["job", "show", job.name])?;
        let text = String::from_utf8_lossy(&shown.stdout);
        assert!(text.contains(found_phrase), "{}: {text}", job.name);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_logs_environment_and_stop() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let commands = "echo out; echo err >&2; env | grep ^PAI_ | sort";
    let detail = stage.ends(&Job::new("log", commands)).await?;
    assert_eq!(status(&detail).0, "SUCCEEDED", "{detail:#}");
    let out = stage.log(&detail, "stdout").await?;
    for expect in [
        "out\n",
        "PAI_JOB_NAME=admin~log\n",
        "PAI_HOST_IP_main_0=127.0.0.1\n",
        "PAI_TASK_INDEX=0\n",
    ] {
        assert!(out.contains(expect), "{expect} is not in {out}");
    }
    assert_eq!(stage.log(&detail, "stderr").await?, "err\n");
    assert!(stage.log(&detail, "all").await?.contains("err\n"));

    stage
        .client
        .submit(&Job::new("long", "sleep 600").yaml())
        .await?;
    stage
        .client
        .wait("admin~long", LIMIT, |state| state == "RUNNING")
        .await?;
    let stopped = stage.home.muster(&["job", "stop", "long", "--wait"])?;
    assert!(
        !String::from_utf8_lossy(&stopped.stderr).contains("rror"),
        "{stopped:?}"
    );
    let detail = stage.client.wait_final("admin~long", LIMIT).await?;
    assert_eq!(
        status(&detail),
        ("STOPPED", -210, "StopFrameworkRequested"),
        "{detail:#}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_run_streams_and_exits_as_the_task() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let run = [
        "run",
        "--image",
        "muster/busybox",
        "--gpus",
        "2",
        "--memory",
        "64m",
        "--",
    ];
    let script = "echo $NVIDIA_VISIBLE_DEVICES; echo oh >&2; exit 7";
    let output = stage
        .home
        .muster(&[&run[..], &["sh", "-c", script]].concat())?;
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "0,1\n",
        "{output:?}"
    );
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("oh\n"),
        "{output:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_tasks_survive_the_agent() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let mut stage = Stage::new().await?;
    let long = "i=0\nwhile [ $i -lt 100 ]; do i=$((i+1)); echo line $i; usleep 50000; done\nexit 3";
    stage.client.submit(&Job::new("long", long).yaml()).await?;
    stage
        .client
        .submit(&Job::new("short", "sleep 1; echo done; exit 5").yaml())
        .await?;
    stage
        .client
        .wait("admin~long", LIMIT, |state| state == "RUNNING")
        .await?;
    stage
        .client
        .wait("admin~short", LIMIT, |state| state == "RUNNING")
        .await?;
    stage.agent.kill()?;
    // The short one ends while nobody looks; its logger keeps the exit.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    stage.crash().await?;
    let short = stage.client.wait_final("admin~short", LIMIT).await?;
    assert_eq!(short["jobStatus"]["retries"], 0, "{short:#}");
    assert_eq!(stage.log(&short, "stdout").await?, "done\n");
    let detail = stage.client.wait_final("admin~long", LIMIT).await?;
    let task = &detail["taskRoles"]["main"]["taskStatuses"][0];
    assert_eq!(task["containerExitCode"], status(&detail).1, "{detail:#}");
    assert_eq!(detail["jobStatus"]["retries"], 0, "{detail:#}");
    let expect: String = (1..=100).map(|i| format!("line {i}\n")).collect();
    assert_eq!(stage.log(&detail, "stdout").await?, expect);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_restart_ends_no_task() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let mut stage = Stage::new().await?;
    stage
        .client
        .submit(&Job::new("across", "sleep 3; echo after").yaml())
        .await?;
    stage
        .client
        .wait("admin~across", LIMIT, |state| state == "RUNNING")
        .await?;
    stage.home.kill_containerd()?;
    stage
        .client
        .submit(&Job::new("waits", "true").yaml())
        .await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    stage.home.start_containerd()?;
    let detail = stage.client.wait_final("admin~across", LIMIT).await?;
    assert_eq!(status(&detail).0, "SUCCEEDED", "{detail:#}");
    assert_eq!(stage.log(&detail, "stdout").await?, "after\n");
    let detail = stage.client.wait_final("admin~waits", LIMIT).await?;
    assert_eq!(status(&detail).0, "SUCCEEDED", "{detail:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_taken_port_is_told() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let home = Home::new("")?;
    let address = home.url().trim_start_matches("http://").to_owned();
    let _taken = std::net::TcpListener::bind(&address)?;
    let output = home.muster(&["agent"])?;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains(&address) && text.contains("http.listen"),
        "{text}"
    );
    Ok(())
}
