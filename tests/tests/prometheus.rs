//! A real Prometheus, and what it has to say of figures.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use muster_tests::net::Namespace;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);

/// A Prometheus that scrapes every second.
pub(crate) struct Prometheus<'n> {
    child: Child,
    /// Where it runs, if not on the machine's own network.
    namespace: Option<&'n Namespace>,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Drop for Prometheus<'_> {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<'n> Prometheus<'n> {
    /// One for these `HOST:PORT`, by `http` or `https`.
    pub(crate) fn start(
        namespace: Option<&'n Namespace>,
        scheme: &str,
        targets: &[String],
    ) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let mut config = format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: muster\n  scheme: {scheme}\n  \
             tls_config: {{insecure_skip_verify: true}}\n  static_configs:\n  - targets:\n"
        );
        for target in targets {
            writeln!(config, "    - '{target}'")?;
        }
        let file = dir.path().join("prometheus.yml");
        std::fs::write(&file, config)?;
        // A namespace has all ports for itself.
        let port = match namespace {
            Some(_) => 9090,
            None => TcpListener::bind("127.0.0.1:0")?.local_addr()?.port(),
        };
        let data = dir.path().join("data");
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--log.level=error")
            .stdin(Stdio::null());
        let child = match namespace {
            Some(namespace) => namespace.enter(|| command.spawn())?,
            None => command.spawn(),
        };
        Ok(Self {
            child: child.context("prometheus")?,
            namespace,
            port,
            _dir: dir,
        })
    }

    /// The values that an expression has now; none before it answers.
    pub(crate) fn query(&self, expression: &str) -> Vec<String> {
        let query = format!("query={expression}");
        let url = format!("http://127.0.0.1:{}/api/v1/query", self.port);
        let arguments = ["-fsSG", "--data-urlencode", &query, &url];
        let answer = match self.namespace {
            Some(namespace) => namespace.run("curl", &arguments, "").ok(),
            None => {
                let output = Command::new("curl").args(arguments).output();
                output.ok().and_then(|it| String::from_utf8(it.stdout).ok())
            }
        };
        let answer: Value = answer
            .and_then(|it| serde_json::from_str(&it).ok())
            .unwrap_or_default();
        let found = answer["data"]["result"].as_array().into_iter().flatten();
        found
            .map(|one| one["value"][1].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Waits until an expression has this one value.
    pub(crate) async fn wait(&self, expression: &str, expect: &str) -> Result<()> {
        self.wait_for(expression, |found| found == [expect]).await
    }

    /// Waits until the values of an expression are as they should be.
    pub(crate) async fn wait_for(
        &self,
        expression: &str,
        is_well: impl Fn(&[String]) -> bool,
    ) -> Result<()> {
        let begun = Instant::now();
        loop {
            let found = self.query(expression);
            if is_well(&found) {
                return Ok(());
            }
            ensure!(begun.elapsed() < LIMIT, "{expression} is {found:?}");
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }
}

/// Names of other exporters that promtool does not like: node exporter's hold those of the kernel, dcgm-exporter has
/// counters and labels of another style, and job exporter calls gauges counts.
const FOREIGN: [&str; 4] = [
    "node_memory_",
    "DCGM_FI_",
    "nvidiasmi_ecc_error_count",
    "nvidiasmi_memory_leak_count",
];
/// What it says of them: of capitals, and of counters and counts by their last word.
const FOREIGN_STYLE: [&str; 4] = [
    "snake_case",
    "\"_total\" suffix",
    "\"_count\" suffix",
    "include type",
];

/// Has promtool check an answer. It finds fault with names, units and texts that are against the rules, not only with
/// what cannot be read.
pub(crate) fn checked(told: &str) -> Result<()> {
    let mut command = Command::new("promtool");
    command
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("promtool")?;
    let mut input = child.stdin.take().context("its input")?;
    input.write_all(told.as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    let remarks = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_ours = |line: &&str| {
        let is_foreign = FOREIGN.iter().any(|name| line.starts_with(name));
        !(is_foreign && FOREIGN_STYLE.iter().any(|style| line.contains(style)))
    };
    let ours: Vec<_> = remarks.lines().filter(is_ours).collect();
    ensure!(ours.is_empty(), "{}\n{told}", ours.join("\n"));
    // Where it cannot read the text at all, it ends with 1.
    ensure!(
        matches!(output.status.code(), Some(0 | 3)),
        "{:?} {remarks}",
        output.status
    );
    Ok(())
}
