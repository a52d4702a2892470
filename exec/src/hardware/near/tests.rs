use std::os::unix::fs::symlink;

use muster_model::node::DeviceId;

use super::*;

/// A machine's /sys: devices by their path below /sys/devices and their memory node.
fn machine(nodes: u32, devices: &[(&str, i32)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let links = root.path().join(PCI_DEVICES);
    fs::create_dir_all(&links).unwrap();
    fs::create_dir_all(root.path().join(MEMORY_NODES)).unwrap();
    for node in 0..nodes {
        let node = format!("{MEMORY_NODES}/node{node}");
        fs::create_dir(root.path().join(node)).unwrap();
    }
    fs::write(root.path().join(MEMORY_NODES).join("online"), "0").unwrap();
    for (path, numa) in devices {
        let real = root.path().join("sys/devices").join(path);
        fs::create_dir_all(&real).unwrap();
        fs::write(real.join("numa_node"), format!("{numa}\n")).unwrap();
        let target = Path::new("../../../devices").join(path);
        symlink(target, links.join(real.file_name().unwrap())).unwrap();
    }
    root
}

fn device(index: u32, model: &str, bus: Option<u32>) -> Located {
    let device = Device {
        id: DeviceId(format!("gpu-{index}")),
        index,
        model: model.to_owned(),
        memory_mb: 0,
        paths: Vec::new(),
        fault: None,
        simulated: false,
    };
    let at = |bus| BusId {
        domain: 0,
        bus,
        device: 0,
    };
    (device, bus.map(at))
}

/// Levels in one line: `numa 0,1 2,3; pcie 0,1`.
fn line(levels: &[DeviceLevel]) -> String {
    let group = |group: &Vec<u32>| {
        let numbers: Vec<String> = group.iter().map(u32::to_string).collect();
        numbers.join(",")
    };
    let level = |level: &DeviceLevel| {
        let groups: Vec<String> = level.groups.iter().map(group).collect();
        format!("{} {}", level.level, groups.join(" "))
    };
    let levels: Vec<String> = levels.iter().map(level).collect();
    levels.join("; ")
}

/// Models and bus numbers of the devices, in the order of their indices.
#[track_caller]
fn check(root: &tempfile::TempDir, devices: &[(&str, Option<u32>)], expect: &str) {
    check_linked(root, devices, &[], expect);
}

#[track_caller]
fn check_linked(
    root: &tempfile::TempDir,
    devices: &[(&str, Option<u32>)],
    linked: &[Vec<u32>],
    expect: &str,
) {
    let devices = (0..).zip(devices);
    let devices: Vec<Located> = devices
        .map(|(index, (model, bus))| device(index, model, *bus))
        .collect();
    assert_eq!(line(&levels(root.path(), &devices, linked)), expect);
}

/// Two sockets, each with a switch of two ports below another switch.
fn two_sockets() -> tempfile::TempDir {
    let low = "pci0000:16/0000:16:02.0/0000:17:00.0";
    let high = "pci0000:64/0000:64:00.0/0000:65:00.0";
    let paths = [
        (format!("{low}/0000:18:00.0/0000:19:00.0/0000:1a:00.0"), 0),
        (format!("{low}/0000:18:00.0/0000:19:01.0/0000:1b:00.0"), 0),
        (format!("{low}/0000:18:10.0/0000:1c:00.0/0000:1d:00.0"), 0),
        (format!("{low}/0000:18:10.0/0000:1c:01.0/0000:1e:00.0"), 0),
        (format!("{high}/0000:66:00.0/0000:67:00.0/0000:6a:00.0"), 1),
        (format!("{high}/0000:66:00.0/0000:67:01.0/0000:6b:00.0"), 1),
        (format!("{high}/0000:66:10.0/0000:68:00.0/0000:6c:00.0"), 1),
        (format!("{high}/0000:66:10.0/0000:68:01.0/0000:6d:00.0"), 1),
    ];
    let paths: Vec<(&str, i32)> = paths.iter().map(|(path, n)| (&**path, *n)).collect();
    machine(2, &paths)
}

#[test]
fn sockets_and_switches_are_found() {
    let root = two_sockets();
    let bus = [0x1a, 0x1b, 0x1d, 0x1e, 0x6a, 0x6b, 0x6c, 0x6d];
    let all = bus.map(|bus| ("V100", Some(bus)));
    check(&root, &all, "numa 0,1,2,3 4,5,6,7; pcie 0,1 2,3 4,5 6,7");
    // The driver numbers by bus, but need not.
    let mixed = [0x6a, 0x1a, 0x6b, 0x1b].map(|bus| ("V100", Some(bus)));
    check(&root, &mixed, "numa 1,3 0,2; pcie 1,3 0,2");
    // The closest bridge that they share, however far up.
    let far = [0x1a, 0x1d].map(|bus| ("V100", Some(bus)));
    check(&root, &far, "numa 0,1; pcie 0,1");
    let models = ["A", "B", "A", "B"].into_iter().zip(bus.map(Some));
    let models: Vec<_> = models.collect();
    check(&root, &models, "numa 0,2 1,3; pcie 0,2 1,3");
}

#[test]
fn what_is_uneven_or_unknown_is_left_out() {
    let root = two_sockets();
    let some = |bus: &[u32]| -> Vec<(&str, Option<u32>)> {
        bus.iter().map(|bus| ("A", Some(*bus))).collect()
    };
    check(&root, &[], "");
    check(&root, &some(&[0x1a]), "");
    // Three on one socket, one on the other.
    check(&root, &some(&[0x1a, 0x1b, 0x1d, 0x6a]), "");
    // Sockets are even; a pair and two that share nothing closer are not.
    check(&root, &some(&[0x1a, 0x6a]), "");
    check(
        &root,
        &some(&[0x1a, 0x1b, 0x6a, 0x6c]),
        "numa 0,1 2,3; pcie 0,1 2,3",
    );
    // One whose place is not known spoils it for its model only.
    let unknown = [
        ("A", Some(0x1a)),
        ("A", None),
        ("B", Some(0x1b)),
        ("B", Some(0x1d)),
    ];
    check(&root, &unknown, "numa 2,3; pcie 2,3");
    check(&root, &some(&[0x77, 0x78]), "");
}

#[test]
fn a_machine_with_one_memory_has_one_group_whatever_the_kernel_says() {
    let flat = [
        ("pci0000:00/0000:04:00.0", -1),
        ("pci0000:00/0000:05:00.0", -1),
    ];
    let devices = [("A", Some(4)), ("A", Some(5))];
    check(&machine(1, &flat), &devices, "numa 0,1");
    check(&machine(2, &flat), &devices, "");
    check(&machine(0, &flat), &devices, "");
}

#[test]
fn nvlink_stands_where_its_width_puts_it() {
    let root = two_sockets();
    let all = [0x1a, 0x1b, 0x1d, 0x1e, 0x6a, 0x6b, 0x6c, 0x6d].map(|bus| ("V100", Some(bus)));
    let numa = "numa 0,1,2,3 4,5,6,7";
    let pcie = "pcie 0,1 2,3 4,5 6,7";
    let switched = [(0..8).collect()];
    let expect = format!("nvlink 0,1,2,3,4,5,6,7; {numa}; {pcie}");
    check_linked(&root, &all, &switched, &expect);
    let mesh = [vec![0, 1, 2, 3], vec![4, 5, 6, 7]];
    let expect = format!("{numa}; nvlink 0,1,2,3 4,5,6,7; {pcie}");
    check_linked(&root, &all, &mesh, &expect);
    let bridged = [vec![0, 2], vec![1, 3], vec![4, 6], vec![5, 7]];
    let expect = format!("{numa}; nvlink 0,2 1,3 4,6 5,7; {pcie}");
    check_linked(&root, &all, &bridged, &expect);
    // One bridge is missing.
    check_linked(&root, &all, &bridged[1..], &format!("{numa}; {pcie}"));
}
