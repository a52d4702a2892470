//! A real Prometheus scrapes a cluster.

use anyhow::Result;
use muster_tests::net::{Lan, missing};

use crate::prometheus::{Prometheus, checked};

const NODES: usize = 5;

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
    let nodes = lan.nodes().iter();
    let targets: Vec<_> = nodes
        .map(|node| format!("{}:7741", node.address()))
        .collect();
    let prometheus = Prometheus::start(Some(&guest), "https", &targets)?;
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
