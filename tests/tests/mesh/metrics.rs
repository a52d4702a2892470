//! A real Prometheus scrapes a cluster.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use muster_tests::net::{Lan, Namespace, missing};
use serde_json::Value;

const NODES: usize = 5;
const LIMIT: Duration = Duration::from_secs(60);

/// A Prometheus that scrapes every second, in a namespace of the network.
struct Prometheus<'n> {
    child: Child,
    namespace: &'n Namespace,
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
    fn start(namespace: &'n Namespace, lan: &Lan) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let mut config = "global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: muster\n  scheme: https\n  tls_config: {insecure_skip_verify: true}\n  static_configs:\n  - targets:\n".to_owned();
        for node in lan.nodes() {
            writeln!(config, "    - '{}:7741'", node.address())?;
        }
        let file = dir.path().join("prometheus.yml");
        std::fs::write(&file, config)?;
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                dir.path().join("data").display()
            ))
            .args(["--web.listen-address=127.0.0.1:9090", "--log.level=error"])
            .stdin(Stdio::null());
        let child = namespace.enter(|| command.spawn())?;
        Ok(Self {
            child: child.context("prometheus")?,
            namespace,
            _dir: dir,
        })
    }

    /// The values that an expression has now; none before it answers.
    fn query(&self, expression: &str) -> Vec<String> {
        let query = format!("query={expression}");
        let arguments = [
            "-fsSG",
            "--data-urlencode",
            &query,
            "http://127.0.0.1:9090/api/v1/query",
        ];
        let answer = self.namespace.run("curl", &arguments, "");
        let answer: Value = answer
            .ok()
            .and_then(|it| serde_json::from_str(&it).ok())
            .unwrap_or_default();
        let found = answer["data"]["result"].as_array().into_iter().flatten();
        found
            .map(|one| one["value"][1].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    async fn wait(&self, expression: &str, expect: &str) -> Result<()> {
        let begun = Instant::now();
        loop {
            let found = self.query(expression);
            if found == [expect] {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < LIMIT,
                "{expression} is {found:?}, not {expect}"
            );
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

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_scrapes_every_node_and_finds_no_fault_in_what_they_tell() -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(NODES)?;
    lan.unite().await?;
    let guest = lan.guest()?;
    for node in lan.nodes() {
        let url = format!("https://{}:7741/metrics", node.address());
        let told = guest.run("curl", &["-fsSk", &url], "")?;
        checked(&told)?;
    }
    let prometheus = Prometheus::start(&guest, &lan)?;
    for (expression, expect) in [
        ("sum(up)", "5"),
        ("count(node_memory_MemTotal_bytes > 0)", "5"),
        (
            "count(count by (instance) (node_cpu_seconds_total{mode=\"idle\"}))",
            "5",
        ),
        ("count(process_resident_memory_bytes > 1e6)", "5"),
        ("sum(muster_node_devices)", "40"),
        ("count(muster_device_info{model=\"V100\"})", "40"),
        ("sum(muster_device_held)", "0"),
        ("count(node_uname_info)", "5"),
    ] {
        prometheus.wait(expression, expect).await?;
    }
    // The second scrape is there: a rate can be told, as dashboards do.
    let busy = "count(sum by (instance) (rate(node_cpu_seconds_total[30s])) > 0)";
    prometheus.wait(busy, "5").await
}
