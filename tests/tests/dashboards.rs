//! What dashboards ask of a Prometheus that scrapes a node with GPUs: those that OpenPAI ships for its clusters, nodes,
//! jobs, roles and tasks, and that of dcgm-exporter.

use anyhow::Result;
use muster_tests::home::{AgentHome, missing};
use muster_tests::played_driver::PlayedDriver;

use crate::prometheus::Prometheus;
use crate::stage::{Job, Stage};

/// Minor numbers of the played GPUs, which no machine of ours has.
const MINORS: std::ops::Range<u64> = 210..212;

fn played() -> String {
    let gpus = MINORS.enumerate().map(|(index, minor)| {
        let lines = format!(
            "uuid = GPU-{index}\nname = NVIDIA H100 80GB HBM3\nminor = {minor}\nmemory = 81920\n\
             pci = 00000000:{}8:00.0\nutilization = 97 40\nmemory.used = 20480\ntemperature = 64\npower = 650000\n\
             clock.sm = 1980\nclock.memory = 2619\ngpm = 1\ngpm.2 = 45\ngpm.5 = 30\n",
            index + 1
        );
        let lines = lines.lines().map(|line| format!("gpu.{index}.{line}\n"));
        lines.collect::<String>()
    });
    format!("devices = 2\n{}", gpus.collect::<String>())
}

/// Of a job that writes and computes on one of two GPUs.
fn queries() -> Vec<(String, Option<&'static str>)> {
    let mut queries = Vec::new();
    // OpenPAI's queries of a cluster and of a node. Each has one value: the one that is named, or any.
    for (query, expect) in [
        ("count(node_uname_info)", Some("1")),
        ("avg(gpu_utilization)", Some("97")),
        ("avg(gpu_mem_utilization)", Some("25")),
        (
            "avg(100 - (avg by (instance) (irate(node_cpu_seconds_total{mode=\"idle\"}[30s])) * 100))",
            None,
        ),
        (
            "sum(node_memory_MemTotal_bytes) - sum(node_memory_MemFree_bytes) - sum(node_memory_Buffers_bytes) - sum(node_memory_Cached_bytes)",
            None,
        ),
        ("sum(irate(node_disk_read_bytes_total[30s]))", None),
        ("sum(irate(node_disk_written_bytes_total[30s]))", None),
        (
            "sum(irate(node_network_receive_bytes_total{device!~\"lo\"}[30s]))",
            None,
        ),
        (
            "sum(irate(node_network_transmit_bytes_total{device!~\"lo\"}[30s]))",
            None,
        ),
        // dcgm-exporter's.
        ("avg(DCGM_FI_DEV_GPU_TEMP{gpu=~\"0|1\"})", Some("64")),
        ("sum(DCGM_FI_DEV_POWER_USAGE{gpu=~\"0|1\"})", Some("1300")),
        (
            "DCGM_FI_DEV_SM_CLOCK{gpu=\"1\"} * 1000000",
            Some("1980000000"),
        ),
        ("DCGM_FI_DEV_GPU_UTIL{gpu=\"1\"}", Some("97")),
        ("DCGM_FI_DEV_FB_USED{gpu=\"1\"}", Some("20480")),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu=\"1\"}", Some("0.3")),
    ] {
        queries.push((query.to_owned(), expect));
    }
    // OpenPAI's of a job, of a role, of a task.
    for by in [
        "job_name",
        "job_name, role_name",
        "job_name, role_name, task_index",
    ] {
        let of = "{job_name=~\"admin~seen\"}";
        for (figure, expect) in [
            ("task_gpu_percent", Some("97")),
            ("task_gpu_mem_percent", Some("25")),
            ("task_mem_usage_byte", None),
            ("task_cpu_percent", None),
        ] {
            queries.push((format!("avg by ({by}) ({figure}{of})"), expect));
        }
        let busy = format!("avg by ({by}) (irate(task_cpu_seconds_total{of}[60s])) * 100 > bool 0");
        queries.push((busy, Some("1")));
    }
    let of_gpu = "avg by (job_name, role_name, task_index, minor_number) (task_gpu_percent)";
    queries.push((of_gpu.to_owned(), Some("97")));
    queries
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_what_dashboards_ask_has_an_answer() -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let mut driver = PlayedDriver::new(directory.path())?;
    driver.make_files(MINORS)?;
    driver.answer(&played())?;
    let home = AgentHome::new("")?;
    let agent = driver.agent(&home)?;
    home.import_busybox()?;
    let client = agent.client().await?;
    let stage = Stage {
        client,
        agent,
        home,
    };
    let job = Job {
        gpu: 1,
        ..Job::new("seen", "while true; do :; done")
    };
    stage.runs(&job).await?;
    let target = stage.home.url().trim_start_matches("http://").to_owned();
    let prometheus = Prometheus::start(None, "http", &[target])?;
    for (query, expect) in queries() {
        let is_well = |found: &[String]| match (found, expect) {
            ([one], Some(expect)) => one == expect,
            ([one], None) => one.parse::<f64>().is_ok_and(f64::is_finite),
            _ => false,
        };
        prometheus.wait_for(&query, is_well).await?;
    }
    Ok(())
}
