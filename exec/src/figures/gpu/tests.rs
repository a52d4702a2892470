use std::collections::BTreeSet;

use super::*;
use crate::inventory::nvidia::{
    GpuActivity, GpuEcc, GpuIdentity, GpuMemory, GpuPower, GpuProcess, GpuTemperature, MigSample,
    RemappedRows,
};

const GIB: u64 = 1 << 30;

fn gpu(index: u32, minor: u32) -> GpuSample {
    GpuSample {
        identity: GpuIdentity {
            index,
            uuid: format!("GPU-{index}"),
            minor,
            model: "Tesla K80".to_owned(),
            pci: Some(format!("0000:{minor:02x}:00.0")),
        },
        utilization: Some(97),
        memory: Some(memory(20)),
        temperature: GpuTemperature {
            gpu: Some(64),
            ..GpuTemperature::default()
        },
        power: GpuPower {
            milliwatts: Some(250_500),
            ..GpuPower::default()
        },
        processes: Some(vec![GpuProcess {
            pid: 7,
            memory: None,
        }]),
        ..GpuSample::default()
    }
}

fn memory(used_gib: u64) -> GpuMemory {
    GpuMemory {
        total: 80 * GIB,
        used: used_gib * GIB,
        free: (79 - used_gib) * GIB,
        reserved: Some(GIB),
    }
}

fn amd() -> AmdSample {
    AmdSample {
        index: 2,
        id: "00deadbeef00".to_owned(),
        pci: "0000:c1:00.0".to_owned(),
        busy_percent: Some(98),
        memory_used: Some(48 * GIB),
        memory_total: Some(192 * GIB),
        temperature_milli: Some(61_500),
        power_microwatts: Some(712_000_000),
    }
}

fn figures<'a>(nvidia: &'a [GpuSample], amd: &'a [AmdSample]) -> GpuFigures<'a> {
    GpuFigures {
        host_name: "n1",
        nvidia,
        amd,
        xids: None,
    }
}

/// Samples in a line each: `NAME{label="value"} 1`.
fn lines(families: &[MetricFamily]) -> Vec<String> {
    let mut lines = Vec::new();
    for family in families {
        for sample in &family.samples {
            let labels = sample
                .labels
                .iter()
                .map(|(name, value)| format!("{name}={value:?}"));
            let labels: Vec<_> = labels.collect();
            lines.push(format!(
                "{}{{{}}} {}",
                family.name,
                labels.join(","),
                sample.value
            ));
        }
    }
    lines
}

/// Looks for lines that must be there.
fn check(families: &[MetricFamily], expect: &[&str]) {
    let lines = lines(families);
    for line in expect {
        assert!(
            lines.iter().any(|it| it == line),
            "{line}\n{}",
            lines.join("\n")
        );
    }
}

#[test]
fn gpus_are_told_by_the_names_and_labels_that_dashboards_know() {
    // The device file of the first GPU has another number than the driver gives it.
    let gpus = [gpu(0, 1), gpu(1, 0)];
    let families = figures(&gpus, &[]).families();
    let dcgm = "{gpu=\"0\",UUID=\"GPU-0\",pci_bus_id=\"00000000:01:00.0\",device=\"nvidia1\",\
                modelName=\"Tesla K80\",hostname=\"n1\"}";
    check(
        &families,
        &[
            &format!("DCGM_FI_DEV_GPU_UTIL{dcgm} 97"),
            &format!("DCGM_FI_DEV_POWER_USAGE{dcgm} 250.5"),
            &format!("DCGM_FI_DEV_FB_USED{dcgm} 20480"),
            &format!("DCGM_FI_DEV_FB_RESERVED{dcgm} 1024"),
            "nvidiasmi_utilization_gpu{minor_number=\"1\"} 97",
            "nvidiasmi_utilization_memory{minor_number=\"1\"} 25",
            "nvidiasmi_temperature{minor_number=\"0\"} 64",
            "gpu_utilization{minor_number=\"1\",vender=\"nvidia\"} 97",
            "gpu_mem_utilization{minor_number=\"0\",vender=\"nvidia\"} 25",
            "muster_gpu_processes{gpu=\"0\",uuid=\"GPU-0\"} 1",
        ],
    );
    // What is not known is not told as 0.
    for name in [
        "DCGM_FI_DEV_SM_CLOCK",
        "DCGM_FI_PROF_SM_ACTIVE",
        "DCGM_FI_DEV_XID_ERRORS",
    ] {
        assert!(families.iter().all(|family| family.name != name), "{name}");
    }
}

#[test]
fn no_name_and_no_labels_stand_twice() {
    let mut all = gpu(0, 0);
    all.remapped_rows = Some(RemappedRows::default());
    all.activity = Some(GpuActivity {
        sm: Some(0.5),
        tensor: Some(0.25),
        ..GpuActivity::default()
    });
    all.ecc = GpuEcc {
        corrected: Some(2),
        uncorrected: Some(1),
        ..GpuEcc::default()
    };
    (all.performance_state, all.throttle_reasons) = (Some(8), Some(0));
    let gpus = [all, gpu(1, 1)];
    let xids = BTreeMap::from([("0000:01:00.0".to_owned(), 79)]);
    let figures = GpuFigures {
        xids: Some(&xids),
        ..figures(&gpus, &[])
    };
    let families = figures.families();
    let names: BTreeSet<_> = families.iter().map(|family| &family.name).collect();
    assert_eq!(names.len(), families.len());
    for family in &families {
        let labels: BTreeSet<_> = family.samples.iter().map(|it| &it.labels).collect();
        assert_eq!(labels.len(), family.samples.len(), "{}", family.name);
        assert!(!family.help.is_empty(), "{}", family.name);
    }
    let values = |name: &str| {
        let family = families.iter().find(|family| family.name == name).unwrap();
        family.samples.iter().map(|it| it.value).collect::<Vec<_>>()
    };
    assert_eq!(values("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"), [0.25]);
    assert_eq!(values("DCGM_FI_DEV_XID_ERRORS"), [0.0, 79.0]);
    assert_eq!(values("nvidiasmi_ecc_error_count"), [2.0, 1.0]);
    check(
        &families,
        &[
            "nvidiasmi_performance_state{node_name=\"n1\",minor_number=\"0\",clocks_throttle_reasons=\"\"} 8",
        ],
    );
}

/// An A100 of which one instance uses memory.
fn divided() -> GpuSample {
    let instance = |number, used| MigSample {
        uuid: format!("MIG-{number}"),
        gpu_instance: number,
        compute_instance: 0,
        model: "NVIDIA A100-SXM4-80GB MIG 2g.20gb".to_owned(),
        memory: Some(memory(used)),
    };
    GpuSample {
        utilization: None,
        instances: Some(vec![instance(3, 5), instance(4, 0)]),
        ..gpu(1, 1)
    }
}

#[test]
fn of_a_card_in_mig_mode_the_memory_is_told_by_instance() {
    let gpus = [gpu(0, 0), divided()];
    let families = figures(&gpus, &[]).families();
    let used = families
        .iter()
        .find(|it| it.name == "DCGM_FI_DEV_FB_USED")
        .unwrap();
    assert_eq!(used.samples.len(), 3);
    let labels = &used.samples[1].labels;
    assert!(
        labels.contains(&("GPU_I_PROFILE", "2g.20gb".to_owned())),
        "{labels:?}"
    );
    assert!(labels.contains(&("GPU_I_ID", "3".to_owned())), "{labels:?}");
    let loads = loads(&gpus, &[amd()]);
    let told: Vec<_> = loads
        .iter()
        .map(|it| {
            (
                &*it.id,
                &*it.number,
                it.utilization,
                it.memory_used.map(|used| used / GIB),
            )
        })
        .collect();
    let expect = [
        ("GPU-0", "0", Some(97), Some(20)),
        ("MIG-3", "1.3", None, Some(5)),
        ("MIG-4", "1.4", None, Some(0)),
        ("00deadbeef00", "2", Some(98), Some(48)),
    ];
    assert_eq!(told, expect);
}

#[test]
fn a_leak_is_memory_that_no_process_has() {
    let is_leak = |gpu: GpuSample| {
        let families = figures(&[gpu], &[]).families();
        families
            .iter()
            .any(|it| it.name == "nvidiasmi_memory_leak_count")
    };
    let idle = |used: u64| {
        let mut gpu = gpu(0, 0);
        gpu.processes = Some(Vec::new());
        gpu.memory = Some(GpuMemory { used, ..memory(0) });
        gpu
    };
    assert!(is_leak(idle(21 << 20)));
    assert!(!is_leak(idle(20 << 20)));
    assert!(!is_leak(gpu(0, 0)), "a process has it");
    let mut unknown = idle(GIB);
    unknown.processes = None;
    assert!(!is_leak(unknown));
}

#[test]
fn gpus_of_amd_have_the_names_of_job_exporter() {
    let families = figures(&[], &[amd()]).families();
    check(
        &families,
        &[
            "rocmsmi_utilization_gpu{minor_number=\"2\"} 98",
            "rocmsmi_utilization_memory{minor_number=\"2\"} 25",
            "rocmsmi_temperature{minor_number=\"2\"} 61.5",
            "gpu_utilization{minor_number=\"2\",vender=\"amd\"} 98",
            "gpu_mem_utilization{minor_number=\"2\",vender=\"amd\"} 25",
            "muster_amd_gpu_power_watts{minor_number=\"2\"} 712",
        ],
    );
    assert_eq!(figures(&[], &[AmdSample::default()]).families(), []);
}
