use std::collections::BTreeSet;
use std::path::Path;

use muster_model::cluster_spec::Level;
use muster_model::inventory::AcceleratorKind;
use muster_model::node::Device;

use super::*;
use crate::testing::{FakeNvml, unpack_capture};

#[test]
fn this_machine_has_cores_memory_and_ports() {
    let capacity = probe(&ProbeConfig::default()).unwrap().capacity;
    assert!(capacity.cpu >= 1);
    assert!(capacity.memory_mb > 64);
    assert!(capacity.port_first < capacity.port_last);
}

#[test]
fn a_tree_gives_its_own_cpus_and_memory() {
    let root = tempfile::tempdir().unwrap();
    let config = ProbeConfig {
        root: root.path().to_owned(),
        nvml: Some(root.path().join("libnvidia-ml.so")),
        reserved_memory_mb: 512,
        ..ProbeConfig::default()
    };
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
    let error = probe(&config).unwrap_err().to_string();
    assert!(error.ends_with("proc/meminfo does not tell it"), "{error}");
    let huge = "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages";
    write("sys/devices/system/cpu/online", "0-191\n");
    write("proc/meminfo", "MemTotal: 1056784384 kB\n");
    write(huge, "8\n");
    let capacity = probe(&config).unwrap().capacity;
    assert_eq!(capacity.cpu, 192);
    assert_eq!(capacity.memory_mb, (1_056_784_384 >> 10) - 8192 - 512);
}

#[test]
fn a_missing_driver_means_no_gpus_and_a_broken_one_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("libnvidia-ml.so");
    let config = |nvml: &std::path::Path| ProbeConfig {
        nvml: Some(nvml.to_owned()),
        ..ProbeConfig::default()
    };
    let driver_problems = || {
        let found = probe(&config(&missing)).unwrap();
        assert!(!found.capacity.devices.iter().any(Device::is_nvidia));
        let problems = found.inventory.problems.into_iter();
        problems
            .map(|problem| problem.name)
            .filter(|name| name == "driver-unusable")
            .count()
    };
    assert_eq!(driver_problems(), 0);
    std::fs::write(&missing, "no library").unwrap();
    assert_eq!(driver_problems(), 1);
}

/// What is granted of a machine with these GPUs of NVIDIA.
fn gpus(root: &Path, text: &str) -> GrantedDevices {
    for file in ["nvidia0", "nvidiactl", "nvidia-uvm"] {
        std::fs::create_dir_all(root.join("dev")).unwrap();
        std::fs::write(root.join("dev").join(file), "").unwrap();
    }
    let driver = FakeNvml::new(root, text).unwrap();
    granted(root, Some(driver.library()))
}

fn granted(root: &Path, nvml: Option<&Path>) -> GrantedDevices {
    let config = InventoryConfig {
        root: root.to_owned(),
        nvml: nvml.map(Path::to_owned),
        ..InventoryConfig::default()
    };
    inventory::look(&config).granted
}

/// A device in a line: `2 GPU-b A100 40960 0000:01:00.0: /dev/nvidia0`, or its fault at the end.
fn line(device: &Device) -> String {
    let Device {
        index,
        id,
        model,
        memory_mb,
        ..
    } = device;
    let pci = device.pci.as_deref().unwrap_or("-");
    let files = device.paths.join(" ");
    let end = device.fault.as_deref().unwrap_or(&files);
    format!("{index} {} {model} {memory_mb} {pci}: {end}", id.0)
}

#[track_caller]
fn check(devices: &[Device], expect: &[&str]) {
    assert_eq!(devices.iter().map(line).collect::<Vec<_>>(), expect);
}

#[test]
fn every_gpu_is_listed_with_its_files_or_its_fault() {
    let root = tempfile::tempdir().unwrap();
    // The second sits in another slot than its index says, and its place on the bus is not
    // known; the third has fallen off the bus.
    let text = "devices = 4\n\
        gpu.0.uuid = GPU-aaaa\ngpu.0.name = V100\ngpu.0.minor = 0\n\
        gpu.0.memory = 16384\ngpu.0.pci = 00000000:1A:00.0\n\
        gpu.1.uuid = GPU-bbbb\ngpu.1.name = V100\ngpu.1.minor = 5\n\
        error.nvmlDeviceGetHandleByIndex_v2.2 = 15\n\
        gpu.3.uuid = GPU-cccc\ngpu.3.name = V100\ngpu.3.minor = 0\n";
    let devices = gpus(root.path(), text).devices;
    let [_, _, lost, _] = &devices[..] else {
        panic!("{devices:?}")
    };
    let fault = lost.fault.as_deref().unwrap();
    let begin = "the driver does not answer for it: ";
    assert!(fault.starts_with(begin), "{fault}");
    let files = "/dev/nvidia0 /dev/nvidiactl /dev/nvidia-uvm";
    check(
        &devices,
        &[
            &format!("0 GPU-aaaa V100 16384 0000:1a:00.0: {files}"),
            "1 GPU-bbbb V100 0 -: /dev/nvidia5 does not exist",
            &format!("2 gpu-2 unknown 0 -: {fault}"),
            &format!("3 GPU-cccc V100 0 -: {files}"),
        ],
    );
}

#[test]
fn instances_are_granted_instead_of_their_card() {
    let root = tempfile::tempdir().unwrap();
    let text = "devices = 3\n\
        gpu.0.uuid = GPU-a\ngpu.0.name = A100\ngpu.0.minor = 0\n\
        gpu.0.mig = 1\ngpu.0.pci = 00000000:01:00.0\n\
        gpu.0.mig.0.uuid = MIG-a\ngpu.0.mig.0.name = A100 MIG 3g.40gb\n\
        gpu.0.mig.0.memory = 40192\ngpu.0.mig.0.gi = 1\ngpu.0.mig.0.ci = 0\n\
        gpu.0.mig.1.uuid = MIG-b\ngpu.0.mig.1.gi = 2\ngpu.0.mig.1.ci = 0\n\
        gpu.1.uuid = GPU-b\ngpu.1.name = A100\ngpu.1.nvlink = 2\ngpu.1.minor = 0\n\
        gpu.2.uuid = GPU-c\ngpu.2.name = A100\ngpu.2.nvlink = 1\ngpu.2.minor = 0\n";
    let found = gpus(root.path(), text);
    let access = |gi| {
        format!(
            "/proc/driver/nvidia/capabilities/gpu0/mig/gi{gi}/ci0/access does not name its device file"
        )
    };
    check(
        &found.devices,
        &[
            &format!("0 MIG-a A100 MIG 3g.40gb 40192 0000:01:00.0: {}", access(1)),
            &format!("1 MIG-b A100 MIG 0 0000:01:00.0: {}", access(2)),
            "2 GPU-b A100 0 -: /dev/nvidia0 /dev/nvidiactl /dev/nvidia-uvm",
            "3 GPU-c A100 0 -: /dev/nvidia0 /dev/nvidiactl /dev/nvidia-uvm",
        ],
    );
    assert_eq!(
        found.devices[0].partition_of.as_deref(),
        Some("0000:01:00.0")
    );
    // No access without the files of its own.
    assert_eq!(found.devices[0].paths[0], "/dev/nvidia0");
    let nvlink = found.levels.iter().find(|it| it.level == Level::Nvlink);
    assert_eq!(nvlink.unwrap().groups, [[2, 3]]);
}

#[test]
fn a_card_in_mig_mode_without_instances_is_faulty_and_keeps_its_place() {
    let root = tempfile::tempdir().unwrap();
    let text = "devices = 2\n\
        gpu.0.uuid = GPU-a\ngpu.0.name = A100\ngpu.0.minor = 0\ngpu.0.mig = 1\n\
        gpu.1.uuid = GPU-b\ngpu.1.name = A100\ngpu.1.minor = 0\ngpu.1.mig = 0\n";
    check(
        &gpus(root.path(), text).devices,
        &[
            "0 GPU-a A100 0 -: it is in MIG mode and has no instances",
            "1 GPU-b A100 0 -: /dev/nvidia0 /dev/nvidiactl /dev/nvidia-uvm",
        ],
    );
}

/// Writes files below a root, each with its text.
fn write(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// A card on the bus.
fn card(root: &Path, address: &str, class: &str, numbers: (&str, &str)) {
    let dir = format!("sys/bus/pci/devices/{address}");
    let (vendor, device) = numbers;
    for (name, text) in [("class", class), ("vendor", vendor), ("device", device)] {
        write(root, &[(&format!("{dir}/{name}"), &format!("0x{text}\n"))]);
    }
}

#[test]
fn amds_gpus_are_granted_by_their_serial_number() {
    let root = unpack_capture("amd-mi300x-8-cpx").unwrap();
    let dev = |name: &str| root.path().join("dev").join(name);
    let found = granted(root.path(), None);
    assert_eq!(found.devices.len(), 63);
    let ids: BTreeSet<&str> = found.devices.iter().map(|it| &*it.id.0).collect();
    assert_eq!(ids.len(), 63);
    let first = &found.devices[0];
    assert_eq!(first.paths, ["/dev/kfd", "/dev/dri/renderD128"]);
    assert_eq!((&*first.vendor, first.kind), ("amd", AcceleratorKind::Gpu));
    assert_eq!(first.partition_of.as_deref(), Some("0000:05:00.0"));
    assert!(found.devices.iter().all(|device| device.fault.is_none()));
    // The tree has no device files. Where it has some, those that are missing are a fault.
    write(root.path(), &[("dev/null", ""), ("dev/kfd", "")]);
    std::fs::create_dir_all(dev("dri")).unwrap();
    std::fs::write(dev("dri/renderD129"), "").unwrap();
    let found = granted(root.path(), None).devices;
    assert_eq!(
        found[0].fault.as_deref(),
        Some("/dev/dri/renderD128 does not exist")
    );
    assert_eq!(found[1].fault, None);
}

#[test]
fn other_vendors_devices_are_granted_by_the_files_of_their_rules() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    card(root, "0000:01:00.0", "120000", ("19e5", "d802"));
    card(root, "0000:02:00.0", "120000", ("1da3", "1020"));
    card(root, "0000:03:00.0", "038000", ("8086", "56c0"));
    // Its user function is the second.
    card(root, "0000:04:00.0", "120000", ("10ee", "5000"));
    card(root, "0000:04:00.1", "120000", ("10ee", "5001"));
    // No rule names the files of these, and virtual machines have the last.
    card(root, "0000:05:00.0", "120000", ("1de0", "0000"));
    card(root, "0000:06:00.0", "120000", ("abcd", "0001"));
    card(root, "0000:07:00.0", "0b4000", ("1bcf", "001c"));
    std::os::unix::fs::symlink(
        "x/vfio-pci",
        root.join("sys/bus/pci/devices/0000:07:00.0/driver"),
    )
    .unwrap();
    write(
        root,
        &[
            ("sys/bus/pci/devices/0000:02:00.0/accel/accel0/dev", ""),
            (
                "sys/bus/pci/devices/0000:02:00.0/accel/accel_controlD0/dev",
                "",
            ),
            ("sys/bus/pci/devices/0000:04:00.1/user_pf", ""),
            ("sys/bus/pci/devices/0000:04:00.1/drm/renderD130/dev", ""),
            ("sys/bus/pci/devices/0000:04:00.1/drm/card2/dev", ""),
            ("dev/null", ""),
            ("dev/davinci0", ""),
            ("dev/davinci_manager", ""),
            ("dev/hisi_hdc", ""),
            ("dev/accel/accel0", ""),
            ("dev/accel/accel_controlD0", ""),
        ],
    );
    let found = granted(root, None).devices;
    check(
        &found,
        &[
            "0 huawei-0000:01:00.0 Ascend 910B 0 0000:01:00.0: \
             /dev/davinci0 /dev/davinci_manager /dev/hisi_hdc",
            "1 intel-0000:02:00.0 Gaudi2 98304 0000:02:00.0: \
             /dev/accel/accel0 /dev/accel/accel_controlD0",
            "2 intel-0000:03:00.0 Data Center GPU Flex 170 16384 0000:03:00.0: \
             its driver shows no file drm/renderD*",
            "3 xilinx-0000:04:00.1 Alveo U200 0 0000:04:00.1: /dev/dri/renderD130 does not exist",
        ],
    );
    let kinds = found.iter().map(|device| device.kind.as_str());
    assert_eq!(kinds.collect::<Vec<_>>(), ["npu", "npu", "gpu", "fpga"]);
}

#[test]
fn what_a_rule_leaves_out_is_not_granted_and_others_keep_their_numbers() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    card(root, "0000:01:00.0", "030000", ("10de", "1cb1"));
    card(root, "0000:02:00.0", "030200", ("10de", "1db1"));
    let rule = "[[left_out]]\npci = \"10de\"\ndevices = [\"1cb1\"]\nwhy = \"for screens\"\n";
    write(root, &[("etc/muster/devices.d/screens.toml", rule)]);
    let text = "devices = 2\n\
        gpu.0.uuid = GPU-a\ngpu.0.name = P1000\ngpu.0.pci = 00000000:01:00.0\n\
        gpu.1.uuid = GPU-b\ngpu.1.name = V100\ngpu.1.minor = 0\ngpu.1.pci = 00000000:02:00.0\n";
    check(
        &gpus(root, text).devices,
        &["1 GPU-b V100 0 0000:02:00.0: /dev/nvidia0 /dev/nvidiactl /dev/nvidia-uvm"],
    );
}
