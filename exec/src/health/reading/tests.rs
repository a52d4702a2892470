use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::testing::unpack_capture;

use super::*;

/// A file with its directories.
fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn link(root: &Path, path: &str, target: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(target, path).unwrap();
}

#[test]
fn errors_and_topology_of_amds_cards() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    for (card, vendor, pci) in [
        (0, "0x1a03", "0000:05:00.0"),
        (1, "0x1002", "0000:c1:00.0"),
        (2, "0x1002", "0000:c6:00.0"),
    ] {
        let device = format!("sys/class/drm/card{card}/device");
        write(root, &format!("{device}/vendor"), &format!("{vendor}\n"));
        let uevent = format!("DRIVER=amdgpu\nPCI_SLOT_NAME={pci}\n");
        write(root, &format!("{device}/uevent"), &uevent);
        write(
            root,
            &format!("{device}/drm/renderD{}/dev", 127 + card),
            "226:128",
        );
    }
    let ras = "sys/class/drm/card1/device/ras";
    write(root, &format!("{ras}/umc_err_count"), "ue: 2\nce: 5\n");
    write(
        root,
        &format!("{ras}/gfx_err_count"),
        "ue: 0\nce: 1\nde: 3\n",
    );
    write(
        root,
        &format!("{ras}/features"),
        "feature mask: 0x1\nue: 9\n",
    );
    let nodes = "sys/class/kfd/kfd/topology/nodes";
    write(root, &format!("{nodes}/0/gpu_id"), "0\n");
    write(
        root,
        &format!("{nodes}/0/properties"),
        "drm_render_minor 0\n",
    );
    write(root, &format!("{nodes}/1/gpu_id"), "4711\n");
    write(
        root,
        &format!("{nodes}/1/properties"),
        "simd_count 1\ndrm_render_minor 128\n",
    );
    let expect = [
        AmdReading {
            pci: "0000:c1:00.0".to_owned(),
            in_kfd: true,
            uncorrected: vec![("umc".to_owned(), 2)],
            corrected: Some(6),
        },
        AmdReading {
            pci: "0000:c6:00.0".to_owned(),
            in_kfd: false,
            uncorrected: Vec::new(),
            corrected: None,
        },
    ];
    assert_eq!(amd(root), expect);
    assert_eq!(amd(Path::new("/nonexistent")), []);
}

/// Number, name, state and cgroup of a process.
fn process(root: &Path, pid: u32, name: &str, state: char, group: &str) {
    let fields = "1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0";
    let stat = format!("{pid} ({name}) {state} {fields} 47{pid} 1000 10\n");
    write(root, &format!("proc/{pid}/stat"), &stat);
    write(root, &format!("proc/{pid}/cgroup"), group);
}

#[test]
fn processes_that_hang_or_hold_devices() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    process(root, 1, "init", 'S', "0::/init.scope\n");
    process(root, 7, "python) D (3", 'S', "0::/muster/task-1\n");
    process(root, 8, "cat", 'D', "0::/user.slice\n");
    process(
        root,
        9,
        "train",
        'Z',
        "12:cpu:/x\n1:name=systemd:/muster/task-2\n",
    );
    link(root, "proc/1/fd/0", "/dev/null");
    link(root, "proc/7/fd/3", "/dev/nvidia0");
    link(root, "proc/7/fd/4", "/dev/nvidia0");
    link(root, "proc/7/fd/5", "/dev/nvidiactl");
    link(root, "proc/7/fd/6", "/dev/nvidia-uvm");
    link(root, "proc/7/fd/7", "/dev/kfd");
    link(root, "proc/9/task/10/fd/3", "/dev/dri/renderD128");
    write(root, "proc/cpuinfo", "");
    let found = processes(root, |group| group.starts_with("/muster/"));
    let lines: Vec<String> = found
        .iter()
        .map(|it| {
            let ProcessReading {
                pid,
                start,
                name,
                state,
                is_task,
                devices,
            } = it;
            format!(
                "{pid} {start} {name} {state} {is_task} {}",
                devices.join(",")
            )
        })
        .collect();
    let expect = [
        "7 477 python) D (3 S true /dev/kfd,/dev/nvidia0",
        "8 478 cat D false ",
        "9 479 train Z true /dev/dri/renderD128",
    ];
    assert_eq!(lines, expect);
}

/// `mlx5_1/1 ACTIVE up 3`: name, state, link, and how often it was lost.
fn port_line(port: &PortReading) -> String {
    let link = match port.link_up {
        Some(true) => "up",
        Some(false) => "lost",
        None => "?",
    };
    let downed = port.link_downed;
    let downed = downed.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let PortReading {
        device,
        port,
        state,
        ..
    } = port;
    format!("{device}/{port} {state} {link} {downed}")
}

#[test]
fn ports_of_a_real_machine_and_a_counter_at_its_top() {
    let root = unpack_capture("ib-h100-8xNDR-1xRoCE").unwrap();
    let lines: Vec<String> = ports(root.path()).iter().map(port_line).collect();
    assert_eq!(lines.len(), 9);
    assert_eq!(lines[0], "mlx5_0/1 ACTIVE up 0");
    assert_eq!(lines[1], "mlx5_1/1 ACTIVE up -");
}

#[test]
fn ports_of_each_state() {
    let root = unpack_capture("ib-states").unwrap();
    let lines: Vec<String> = ports(root.path()).iter().map(port_line).collect();
    for expect in [
        "hfi1_0/1 DOWN lost -",
        "mlx4_0/2 DOWN lost -",
        "mlx4_1/1 INIT up -",
    ] {
        assert!(lines.iter().any(|line| line == expect), "{lines:#?}");
    }
}

#[test]
fn utilisation_tells_neither_work_nor_idleness() {
    let reading = |utilisation, processes| GpuReading {
        utilisation_percent: Some(utilisation),
        processes,
        ..GpuReading::default()
    };
    assert_eq!(reading(100, Some(0)).is_idle(), Some(true));
    assert_eq!(reading(0, Some(1)).is_idle(), Some(false));
    assert_eq!(reading(0, None).is_idle(), None);
}
