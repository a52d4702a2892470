//! `muster placement`, whole commands.

use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::endpoint::EndpointArguments;
use super::status::CliStatus;
use super::stub;

/// Runs `muster ARGUMENTS` where no agent is.
async fn muster(arguments: &[&str]) -> (CliStatus, String, String) {
    stub::muster(
        EndpointArguments::at_socket(PathBuf::from("/no/agent.sock")),
        arguments,
    )
    .await
}

fn file(directory: &TempDir, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = directory.path().join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

const CLUSTER: &str = "
physicalCluster:
  cellTypes:
    NODE: {childCellType: G, childCellNumber: 2, isNodeLevel: true}
  physicalCells: [{cellType: NODE, cellAddress: n1}]
virtualClusters:
  v: {virtualCells: [{cellType: NODE, cellNumber: 1}]}
";

/// One job on the machine, and one behind it of which `result` is expected.
fn suite(result: &str) -> String {
    format!(
        "schema: hived-steps/1
name: two jobs
cluster: one
groups: {{a: [{{pods: 1, cells: 2}}], b: [{{pods: 1, cells: 1}}]}}
pods:
  p: {{vc: v, priority: 0, type: '', pinned: '', lazy: false, cells: 2, group: a}}
  q: {{vc: v, priority: 0, type: '', pinned: '', lazy: false, cells: 1, group: b}}
steps:
- schedule: {{pod: p, phase: preempting, suggested: all, commit: true}}
  expect: {{result: bind, check: [{{count: 2}}]}}
- schedule: {{pod: q, phase: preempting, suggested: all}}
  expect: {{result: {result}}}
"
    )
}

#[tokio::test]
async fn a_suite_is_judged_step_by_step() {
    let directory = tempfile::tempdir().unwrap();
    file(&directory, "one.yaml", CLUSTER);
    let good = file(&directory, "good.yaml", suite("wait"));
    let bad = file(&directory, "bad.yaml", suite("bind"));
    let clusters = directory.path().to_str().unwrap();
    let replay = ["placement", "replay", "--clusters", clusters];

    let (status, out, err) = muster(&[&replay[..], &[&good]].concat()).await;
    assert_eq!(status, CliStatus::Ok, "{out}{err}");
    assert!(out.starts_with("two jobs\n  ok    "), "{out}");
    assert!(
        out.ends_with("1 suite of 2 steps in all: every expectation holds\n"),
        "{out}"
    );

    let (status, out, _) = muster(&[&replay[..], &[&good, &bad]].concat()).await;
    assert_eq!(status, CliStatus::Negative, "{out}");
    assert!(out.contains("\n  FAIL  "), "{out}");
    assert!(
        out.ends_with("2 suites of 4 steps in all: 1 failed\n"),
        "{out}"
    );

    let (status, out, _) = muster(&[&replay[..], &[&bad, "-o", "json"]].concat()).await;
    let reports: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (status, &reports[0]["name"]),
        (CliStatus::Negative, &json!("two jobs"))
    );
    assert_eq!(reports[0]["steps"][0]["problems"], json!([]));
    assert_ne!(reports[0]["steps"][1]["problems"], json!([]));
}

#[tokio::test]
async fn a_suite_that_cannot_be_used_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let suite = file(&directory, "s.yaml", suite("wait"));
    let clusters = directory.path().to_str().unwrap();
    let (status, out, err) = muster(&["placement", "replay", &suite, "--clusters", clusters]).await;
    assert_eq!((status, out.as_str()), (CliStatus::Usage, ""));
    assert!(err.contains("one.yaml: No such file"), "{err}");
    let broken = file(&directory, "b.yaml", "schema: [");
    let (status, _, err) = muster(&["placement", "replay", &broken, "--clusters", clusters]).await;
    assert_eq!(status, CliStatus::Usage);
    assert!(
        err.starts_with(&format!("error: {broken} cannot be used: ")),
        "{err}"
    );
}

fn trace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trace.csv")
}

async fn simulate(trace: &str, policy: &str) -> (CliStatus, String, String) {
    muster(&[
        "placement",
        "sim",
        trace,
        "--nodes",
        "4",
        "--policy",
        policy,
    ])
    .await
}

/// The lines with what differs from run to run left out.
fn figures(out: &str) -> Vec<Value> {
    let lines = out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let strip = |mut line: Value| {
        assert!(line["cpu_s"].as_f64().unwrap() < 10.0);
        line.as_object_mut().unwrap().remove("cpu_s");
        line
    };
    lines.map(strip).collect()
}

#[tokio::test]
async fn a_trace_is_replayed_under_every_policy() {
    let plain = std::fs::read(trace()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&plain).unwrap();
    let packed = file(&directory, "trace.csv.gz", packed.finish().unwrap());

    let (status, out, err) = simulate(&packed, "all").await;
    assert_eq!((status, err.as_str()), (CliStatus::Ok, ""));
    let all = figures(&out);
    let names: Vec<&str> = all
        .iter()
        .map(|line| line["policy"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["fifo", "backfill", "default"]);
    let number = |at: usize, key: &str| all[at][key].as_f64().unwrap();
    for line in 0..3 {
        assert!((number(line, "jobs") - 400.0).abs() < 0.5);
        let both = number(line, "mean_jct_s") - number(line, "mean_wait_s");
        let first = number(0, "mean_jct_s") - number(0, "mean_wait_s");
        assert!(
            (both - first).abs() < 1e-6,
            "a policy cannot change how long jobs run"
        );
    }
    assert!(number(2, "mean_wait_s") < number(0, "mean_wait_s"), "{out}");
    assert!(
        number(2, "max_wait_16plus_s") < number(1, "max_wait_16plus_s"),
        "{out}"
    );

    let (_, again, _) = simulate(trace().to_str().unwrap(), "default").await;
    assert_eq!(
        figures(&again),
        all[2..],
        "packed or not, alone or not, it is the same"
    );
}

#[tokio::test]
async fn what_is_no_trace_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let empty = file(&directory, "empty.csv", "a,b\n");
    let negative = file(&directory, "n.csv", "submit_s,duration_s,gpus\n1,-5,1\n");
    let broken = file(&directory, "b.csv.gz", [0x1f, 0x8b, 8, 0, 1, 2, 3]);
    for (path, message) in [
        (
            &empty,
            format!("error: {empty} cannot be used: the heading has no column submit_s"),
        ),
        (
            &negative,
            format!("error: {negative} cannot be used: line 2: duration_s is \"-5\"; use"),
        ),
        (&broken, format!("error: cannot read {broken}: ")),
        (
            &"/no/such".to_owned(),
            "error: cannot read /no/such: No such file".to_owned(),
        ),
    ] {
        let (status, out, err) = simulate(path, "fifo").await;
        assert_eq!((status, out.as_str()), (CliStatus::Usage, ""), "{err}");
        assert!(err.starts_with(&message), "{err}");
    }
    let path = trace();
    let none = ["placement", "sim", path.to_str().unwrap(), "--nodes", "0"];
    let (status, _, err) = muster(&none).await;
    assert_eq!(status, CliStatus::Usage);
    assert_eq!(err, "error: --nodes is 0; use 1 to 65536\n");
}

#[tokio::test]
async fn the_benchmark_is_one_line() {
    let bench = ["placement", "bench", "--gpus"];
    let (status, out, err) = muster(&[&bench[..], &["512", "--cycles", "50"]].concat()).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    let figures: Value = serde_json::from_str(&out).unwrap();
    for key in [
        "decisions_per_s",
        "cycles_per_s",
        "decide_us_p50",
        "decide_us_p99",
        "gang_us_p50",
        "gang_us_p99",
        "delete_us_p99",
        "init_s",
        "node_event_us",
        "rss_mb",
    ] {
        assert!(figures[key].as_f64().unwrap() > 0.0, "{key}: {out}");
    }
    assert!(figures["multi_rack_min_share"].as_f64().is_some(), "{out}");
    assert!(figures["waited"].as_u64().is_some(), "{out}");
    for gpus in ["1000", "4294966784"] {
        let (status, _, err) = muster(&[&bench[..], &[gpus]].concat()).await;
        assert_eq!(status, CliStatus::Usage);
        assert_eq!(
            err,
            format!("error: --gpus is {gpus}; use a multiple of 512, from 512 to 4194304\n")
        );
    }
}
