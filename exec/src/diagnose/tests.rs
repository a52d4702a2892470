use std::os::unix::fs::{PermissionsExt as _, symlink};

use muster_model::inventory::{Accelerator, AcceleratorKind, InventoryProblem};

use super::*;

fn gpu(pci: &str) -> Accelerator {
    Accelerator {
        kind: AcceleratorKind::Gpu,
        vendor: "nvidia".to_owned(),
        model: "H100".to_owned(),
        pci: Some(pci.to_owned()),
        numa: None,
        memory_mb: 0,
        partition_of: None,
    }
}

fn machine(devices: &[&str]) -> Inventory {
    Inventory {
        devices: devices.iter().map(|pci| gpu(pci)).collect(),
        ..Inventory::default()
    }
}

/// A tree with a device below a slot: lanes now, of the device, and of the slot.
fn tree(lanes: (&str, &str, &str)) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let slot = root.path().join("sys/devices/pci0000:00/0000:00:01.0");
    let device = slot.join("0000:01:00.0");
    std::fs::create_dir_all(&device).unwrap();
    std::fs::write(device.join("current_link_width"), lanes.0).unwrap();
    std::fs::write(device.join("max_link_width"), lanes.1).unwrap();
    std::fs::write(slot.join("max_link_width"), lanes.2).unwrap();
    let bus = root.path().join("sys/bus/pci/devices");
    std::fs::create_dir_all(&bus).unwrap();
    symlink(&device, bus.join("0000:01:00.0")).unwrap();
    root
}

fn config(root: &Path, path: &Path) -> DiagnoseConfig {
    DiagnoseConfig {
        root: root.to_owned(),
        path: vec![path.to_owned()],
        limit: Duration::from_secs(1),
    }
}

/// Puts a program there that a shell runs.
fn program(dir: &Path, name: &str, script: &str) {
    let file = dir.join(name);
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn lanes_that_are_missing_are_told_and_a_narrow_slot_is_no_fault() {
    for (lanes, state) in [
        (("16", "16", "16"), Some(HealthState::Good)),
        (("8", "16", "16"), Some(HealthState::Bad)),
        (("8", "16", "8"), Some(HealthState::Good)),
        (("4", "16", "8"), Some(HealthState::Bad)),
        (("0", "16", "16"), None),
        (("255", "255", "16"), None),
    ] {
        let root = tree(lanes);
        let found = link::look(root.path(), &gpu("0000:01:00.0"));
        assert_eq!(found.map(|it| it.state), state, "{lanes:?}");
    }
}

#[test]
fn programs_of_vendors_are_judged_by_their_end_and_their_words() {
    let bin = tempfile::tempdir().unwrap();
    program(bin.path(), "dcgmi", "echo 'Memory | Pass'; exit 0");
    program(
        bin.path(),
        "nvbandwidth",
        "echo 'SUM host_to_device 55.2'; echo; exit 1",
    );
    program(
        bin.path(),
        "gpu_burn",
        "echo 'GPU 0: OK'; echo 'GPU 1: FAULTY' >&2; exit 0",
    );
    program(
        bin.path(),
        "all_reduce_perf",
        "echo '# Avg bus bandwidth : 480.1'; sleep 0.01; echo '#'",
    );
    let root = tempfile::tempdir().unwrap();
    let mut begun = Vec::new();
    let found = diagnose(
        &config(root.path(), bin.path()),
        &machine(&["0000:01:00.0", "0000:02:00.0"]),
        &mut |test| begun.push(test.to_owned()),
    );
    let told: Vec<_> = found
        .iter()
        .map(|it| format!("{} {} {}", it.test, it.state.as_str(), it.evidence))
        .collect();
    let expect = [
        "inventory good 2 devices, no problem",
        "dcgmi good Memory | Pass",
        "nvbandwidth bad exit status 1: SUM host_to_device 55.2",
        "gpu_burn bad GPU 1: FAULTY",
        "all_reduce_perf good # Avg bus bandwidth : 480.1",
    ];
    assert_eq!(told, expect);
    let expect = [
        "inventory",
        "pci-link",
        "dcgmi",
        "nvbandwidth",
        "gpu_burn",
        "all_reduce_perf",
    ];
    assert_eq!(begun, expect);
}

#[test]
fn a_program_that_does_not_end_is_killed_with_all_that_it_started() {
    let bin = tempfile::tempdir().unwrap();
    let pid = bin.path().join("pid");
    let script = format!("sleep 600 & echo $! >{}; wait", pid.display());
    program(bin.path(), "dcgmi", &script);
    let root = tempfile::tempdir().unwrap();
    let found = diagnose(
        &config(root.path(), bin.path()),
        &machine(&["0000:01:00.0"]),
        &mut |_| (),
    );
    let (hung, missing) = (&found[1], &found[2]);
    assert_eq!(hung.evidence, "it did not end within 1 seconds");
    assert_eq!(hung.state, HealthState::Bad);
    let text = std::fs::read_to_string(pid).unwrap();
    // A killed process ends a moment later; until its parent has waited for it, it is a zombie.
    let has_ended = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", text.trim()));
        stat.map_or(true, |stat| stat.contains(") Z "))
    };
    let begun = Instant::now();
    while !has_ended() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{text}");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(missing.state, HealthState::Unknown);
    assert_eq!(
        missing.evidence,
        "nvbandwidth is not installed; it is in NVIDIA/nvbandwidth"
    );
}

#[test]
fn problems_of_the_inventory_are_bad() {
    let problem = InventoryProblem {
        name: "no-link".to_owned(),
        subject: Some("mlx5_0/1".to_owned()),
        evidence: "It finds no peer.".to_owned(),
        remedy: "Look at the cable.".to_owned(),
    };
    let inventory = Inventory {
        problems: vec![problem],
        ..Inventory::default()
    };
    let nothing = Path::new("/nonexistent");
    let found = diagnose(&config(nothing, nothing), &inventory, &mut |_| ());
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].part.as_str(), found[0].state),
        ("mlx5_0/1", HealthState::Bad)
    );
    assert_eq!(found[0].evidence, "It finds no peer. Look at the cable.");
}
