//! Figures for Prometheus.

use muster_model::policy::{AccessPolicy, JobVisibility};
use muster_model::task_use::{TaskUse, UsePoint};

use super::setup::*;
use crate::port::DeviceFigure;

const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

#[tokio::test]
async fn a_node_tells_figures_of_itself_its_devices_and_the_tasks_that_are_seen() {
    let setup = Setup::new();
    let mut here = node();
    setup.fake.set_device_figures(vec![
        DeviceFigure {
            id: here.capacity.devices[0].id.0.clone(),
            minor: Some(5),
            utilization: Some(97),
            memory_used: Some(20 << 30),
            memory_total: Some(80 << 30),
            idle_s: Some(120),
        },
        DeviceFigure {
            id: here.capacity.devices[1].id.0.clone(),
            utilization: Some(3),
            ..DeviceFigure::default()
        },
    ]);
    let task = &mut here.tasks[0];
    task.job = "ann~mine".to_owned();
    task.task = "worker:3".to_owned();
    task.memory_mb = 2048;
    let uid = task.uid.clone();
    let labels = format!(
        "username=\"ann\",job_name=\"ann~mine\",role_name=\"worker\",task_index=\"3\",job_instance_id=\"{uid}\",virtual_cluster=\"{}\"",
        task.vc
    );
    setup.fake.set_node(here);
    let point = UsePoint {
        at_ms: 1,
        cpu_milli: 1500,
        memory_mb: 512,
    };
    let used = TaskUse {
        points: vec![point],
        ..TaskUse::default()
    };
    setup.fake.set_use(&uid.parse().unwrap(), used);

    let answer = setup.guest("GET", "/metrics").await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("content-type")),
        (200, KIND)
    );
    for line in [
        "# TYPE node_load1 gauge\nnode_load1 0.5\n".to_owned(),
        format!("task_cpu_percent{{{labels}}} 150\n"),
        format!("task_cpu_seconds_total{{{labels}}} 2.5\n"),
        format!("task_block_in_byte{{{labels}}} 4096\n"),
        format!("task_block_out_byte{{{labels}}} 512\n"),
        format!("task_mem_usage_byte{{{labels}}} 536870912\n"),
        format!("task_mem_usage_percent{{{labels}}} 25\n"),
        format!("task_mem_limit_byte{{{labels}}} 2147483648\n"),
        format!("task_gpu_percent{{{labels},minor_number=\"5\"}} 97\n"),
        format!("task_gpu_mem_percent{{{labels},minor_number=\"5\"}} 25\n"),
        format!("muster_device_held_idle_seconds{{{labels},index=\"0\"}} 120\n"),
        "muster_node_tasks 1\n".to_owned(),
        "muster_device_held{index=\"0\"} 1\n".to_owned(),
        "muster_device_held{index=\"1\"} 0\n".to_owned(),
        "muster_device_faulty{index=\"3\"} 1\n".to_owned(),
    ] {
        assert!(answer.text().contains(&line), "{line}: {}", answer.text());
    }

    // No task has the second device.
    assert_eq!(answer.text().matches("\ntask_gpu_percent{").count(), 1);

    setup.fake.set_access(AccessPolicy {
        jobs: JobVisibility::Private,
        ..AccessPolicy::default()
    });
    let hidden = setup.guest("GET", "/metrics").await;
    assert!(hidden.text().contains("muster_node_tasks 1\n"));
    assert!(!hidden.text().contains("mine"), "{}", hidden.text());
    let seen = setup.get(ANN, "/metrics").await;
    assert!(seen.text().contains(&labels), "{}", seen.text());
    let forged = setup.get("Bearer forged", "/metrics").await;
    assert_eq!(forged.status, 401, "a wrong token is not taken for none");
}
