use std::fs;

use super::*;

/// The value of a sample by its family and its labels, `a=b,c=d`.
fn value(families: &[MetricFamily], name: &str, labels: &str) -> Option<f64> {
    let family = families.iter().find(|it| it.name == name)?;
    let written = |sample: &muster_model::metric::MetricSample| {
        let pairs = sample
            .labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        pairs.collect::<Vec<_>>().join(",")
    };
    let sample = family.samples.iter().find(|it| written(it) == labels)?;
    Some(sample.value)
}

#[test]
fn a_tree_is_told_in_the_units_of_the_names() {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in [
        (
            "proc/stat",
            "cpu  9 9 9 9\ncpu0 150 0 25 1000 5 0 1 2 70 0\ncpu1 0 0 0 1\nintr 5\nbtime 1700000000\n",
        ),
        ("proc/loadavg", "0.50 1.25 2.00 3/400 999\n"),
        (
            "proc/meminfo",
            "MemTotal:  4 kB\nActive(anon):   2 kB\nHugePages_Total:   3\n",
        ),
        (
            "proc/diskstats",
            "8 0 sda 10 0 8 0 20 0 16 0 0 1500 2500\n8 1 sda1 1 0 2 0 1 0 2 0 0 1 1\n259 0 nvme0n1 1 0 1 0 1 0 1 0 0 1 1 0 0 0 0\n259 1 nvme0n1p1 1 0 1 0 1 0 1 0 0 1 1\n7 0 loop0 1 0 1 0 1 0 1 0 0 1 1\n253 0 dm-0 1 0 3 0 1 0 1 0 0 1 1\n",
        ),
        (
            "proc/net/dev",
            "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop\n  eth0:1000 2 3 4 0 0 0 0 2000 6 7 8 0 0 0 0\n",
        ),
        (
            "proc/pressure/io",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n",
        ),
        ("proc/sys/kernel/hostname", "gpu-7\n"),
        ("proc/sys/kernel/osrelease", "6.1.0\n"),
        (
            "sys/devices/system/node/node0/meminfo",
            "Node 0 MemTotal:       8 kB\n",
        ),
        (
            "sys/devices/system/node/node8/meminfo",
            "Node 8 MemTotal:       16 kB\n",
        ),
        (
            "sys/devices/system/node/node0/numastat",
            "numa_hit 11\nother_node 3\n",
        ),
        ("sys/devices/system/node/online", "0,8\n"),
        ("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
        (
            "sys/class/infiniband/mlx5_0/ports/1/phys_state",
            "5: LinkUp\n",
        ),
        (
            "sys/class/infiniband/mlx5_0/ports/1/rate",
            "100 Gb/sec (4X EDR)\n",
        ),
        (
            "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data",
            "10\n",
        ),
        (
            "sys/class/infiniband/mlx5_0/ports/1/counters/link_downed",
            "N/A (no PMA)\n",
        ),
    ] {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let families = machine(root.path());
    for (name, labels, expect) in [
        ("node_cpu_seconds_total", "cpu=0,mode=user", Some(1.5)),
        ("node_cpu_seconds_total", "cpu=0,mode=steal", Some(0.02)),
        ("node_cpu_seconds_total", "cpu=1,mode=idle", Some(0.01)),
        ("node_cpu_seconds_total", "cpu=,mode=user", None),
        ("node_boot_time_seconds", "", Some(1.7e9)),
        ("node_load5", "", Some(1.25)),
        ("node_memory_MemTotal_bytes", "", Some(4096.0)),
        ("node_memory_Active_anon_bytes", "", Some(2048.0)),
        ("node_memory_HugePages_Total", "", Some(3.0)),
        ("node_memory_numa_MemTotal", "node=8", Some(16384.0)),
        ("node_memory_numa_numa_hit_total", "node=0", Some(11.0)),
        ("node_disk_read_bytes_total", "device=sda", Some(4096.0)),
        ("node_disk_written_bytes_total", "device=sda", Some(8192.0)),
        ("node_disk_io_time_seconds_total", "device=sda", Some(1.5)),
        (
            "node_disk_io_time_weighted_seconds_total",
            "device=sda",
            Some(2.5),
        ),
        ("node_disk_read_bytes_total", "device=sda1", None),
        ("node_disk_read_bytes_total", "device=nvme0n1", Some(512.0)),
        ("node_disk_read_bytes_total", "device=nvme0n1p1", None),
        ("node_disk_read_bytes_total", "device=loop0", None),
        ("node_disk_read_bytes_total", "device=dm-0", Some(1536.0)),
        (
            "node_network_receive_bytes_total",
            "device=eth0",
            Some(1000.0),
        ),
        ("node_network_receive_errs_total", "device=eth0", Some(3.0)),
        (
            "node_network_transmit_bytes_total",
            "device=eth0",
            Some(2000.0),
        ),
        ("node_network_transmit_drop_total", "device=eth0", Some(8.0)),
        ("node_pressure_io_waiting_seconds_total", "", Some(2.5)),
        ("node_pressure_io_stalled_seconds_total", "", Some(0.5)),
        (
            "node_infiniband_state_id",
            "device=mlx5_0,port=1",
            Some(4.0),
        ),
        (
            "node_infiniband_physical_state_id",
            "device=mlx5_0,port=1",
            Some(5.0),
        ),
        (
            "node_infiniband_rate_bytes_per_second",
            "device=mlx5_0,port=1",
            Some(12.5e9),
        ),
        (
            "node_infiniband_port_data_received_bytes_total",
            "device=mlx5_0,port=1",
            Some(40.0),
        ),
        (
            "node_infiniband_link_downed_total",
            "device=mlx5_0,port=1",
            None,
        ),
    ] {
        assert_eq!(value(&families, name, labels), expect, "{name}{{{labels}}}");
    }
    let uname = families
        .iter()
        .find(|it| it.name == "node_uname_info")
        .unwrap();
    let labels = &uname.samples[0].labels;
    assert!(
        labels.contains(&("nodename", "gpu-7".to_owned())),
        "{labels:?}"
    );
}

#[test]
fn a_tree_without_files_has_no_figures_and_this_machine_has() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(machine(root.path()), []);
    let families = machine(Path::new("/"));
    assert!(value(&families, "node_memory_MemTotal_bytes", "").is_some());
    assert!(value(&families, "node_cpu_seconds_total", "cpu=0,mode=idle").is_some());
    // A name that stands twice is no valid answer to Prometheus.
    let mut names: Vec<_> = families.iter().map(|it| &it.name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), families.len());
}
