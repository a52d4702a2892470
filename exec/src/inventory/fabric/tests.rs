use std::collections::BTreeSet;

use crate::testing::{unpack_capture, unpack_text};

use super::*;

/// A port in one line: `mlx5_2/1 InfiniBand ACTIVE 100`.
fn line(port: &FabricPort) -> String {
    let FabricPort {
        device,
        port,
        link_layer,
        state,
        rate_gbps,
    } = port;
    format!("{device}/{port} {link_layer} {state} {rate_gbps}")
}

/// A problem in one line: `mlx4_0/2 no-link`.
fn name(problem: &InventoryProblem) -> String {
    let subject = problem.subject.as_deref().unwrap_or("-");
    format!("{subject} {}", problem.name)
}

#[track_caller]
fn check(root: &Path, expect: &[&str], problems: &[&str]) {
    let (ports, found) = ports(root);
    assert_eq!(ports.iter().map(line).collect::<Vec<_>>(), expect);
    assert_eq!(found.iter().map(name).collect::<Vec<_>>(), problems);
}

#[test]
fn ports_of_each_state_and_link_layer() {
    let root = unpack_capture("ib-states").unwrap();
    let expect = [
        "hfi1_0/1 Omni-Path DOWN 100",
        "irdma0/1 Ethernet ACTIVE 100",
        "mlx4_0/1 InfiniBand ACTIVE 56",
        "mlx4_0/2 InfiniBand DOWN 10",
        "mlx4_1/1 InfiniBand INIT 56",
        "mlx5_0/1 Ethernet ACTIVE 100",
        "mlx5_2/1 InfiniBand ACTIVE 100",
        "mlx5_3/1 InfiniBand ARMED 100",
        "mlx5_7/1 InfiniBand DOWN 200",
        "mlx5_9/1 Ethernet DOWN 40",
        "rdmap144s27/1 EFA ACTIVE 100",
    ];
    // mlx5_7 is a virtual function, mlx5_9 has no cable: both are as they should be.
    let problems = [
        "hfi1_0/1 no-link",
        "mlx4_0/2 no-link",
        "mlx4_1/1 no-subnet-manager",
        "mlx5_3/1 port-not-activated",
    ];
    check(root.path(), &expect, &problems);
    let (_, problems) = ports(root.path());
    assert!(
        problems[2].remedy.contains("subnet manager"),
        "{problems:?}"
    );
    assert!(problems[1].remedy.contains("cable"), "{problems:?}");
    assert!(!active_infiniband(root.path()).is_empty());
}

#[test]
fn an_active_ethernet_port_is_no_infiniband() {
    let root = unpack_capture("ib-h100-8xNDR-1xRoCE").unwrap();
    let ports = [0, 1, 4, 5, 6, 7, 8, 9];
    let state = |word: &str| {
        let line = |number| format!("mlx5_{number}/1 InfiniBand {word} 400");
        let lines = ports.into_iter().map(line);
        let bond = "mlx5_bond_0/1 Ethernet ACTIVE 200".to_owned();
        lines.chain([bond]).collect::<Vec<_>>()
    };
    // The counter link_downed of mlx5_1 stands at its top, which is no problem.
    let up = state("ACTIVE");
    check(
        root.path(),
        &up.iter().map(|l| &**l).collect::<Vec<_>>(),
        &[],
    );
    assert!(!active_infiniband(root.path()).is_empty());
    for number in ports {
        let port = format!("{ADAPTERS}/mlx5_{number}/ports/1");
        fs::write(root.path().join(&port).join("state"), "1: DOWN\n").unwrap();
        fs::write(root.path().join(&port).join("phys_state"), "3: Disabled\n").unwrap();
    }
    let down = state("DOWN");
    check(
        root.path(),
        &down.iter().map(|l| &**l).collect::<Vec<_>>(),
        &[],
    );
    assert!(active_infiniband(root.path()).is_empty());
}

#[test]
fn a_machine_without_adapters_has_no_ports() {
    let root = tempfile::tempdir().unwrap();
    check(root.path(), &[], &[]);
    assert!(active_infiniband(root.path()).is_empty());
}

/// A tree with one port; `driver` is what its device links to.
fn one_port(device: &str, driver: Option<&str>, files: [&str; 4]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    add_port(&root, device, driver, files);
    root
}

fn add_port(root: &tempfile::TempDir, device: &str, driver: Option<&str>, files: [&str; 4]) {
    let adapter = root.path().join(ADAPTERS).join(device);
    let port = adapter.join("ports/1");
    fs::create_dir_all(&port).unwrap();
    for (file, text) in ["state", "phys_state", "link_layer", "rate"]
        .into_iter()
        .zip(files)
    {
        if !text.is_empty() {
            fs::write(port.join(file), format!("{text}\n")).unwrap();
        }
    }
    if let Some(driver) = driver {
        fs::create_dir_all(adapter.join("device")).unwrap();
        let target = format!("../../../../bus/pci/drivers/{driver}");
        std::os::unix::fs::symlink(target, adapter.join("device/driver")).unwrap();
    }
}

#[test]
fn driver_and_name_tell_what_the_link_layer_is() {
    for (device, driver, word, expect) in [
        (
            "ibp1",
            Some("mlx5_core"),
            "InfiniBand",
            Some(LinkLayer::InfiniBand),
        ),
        (
            "opap1",
            Some("hfi1"),
            "InfiniBand",
            Some(LinkLayer::OmniPath),
        ),
        (
            "fast0",
            Some("hfi1"),
            "InfiniBand",
            Some(LinkLayer::OmniPath),
        ),
        ("opap1", None, "InfiniBand", Some(LinkLayer::OmniPath)),
        (
            "hfi1_0",
            Some("mlx5_core"),
            "InfiniBand",
            Some(LinkLayer::InfiniBand),
        ),
        ("efa_0", Some("efa"), "Unknown", Some(LinkLayer::Efa)),
        ("rdmap1", None, "Unknown", Some(LinkLayer::Efa)),
        ("new_0", Some("new"), "Unknown", None),
        ("new_0", Some("new"), "Carrier pigeon", None),
    ] {
        let found = link_layer(device, driver, word);
        assert_eq!(found, expect, "{device} {driver:?} {word}");
        let root = one_port(device, driver, ["4: ACTIVE", "5: LinkUp", word, "1 Gb/sec"]);
        let (ports, problems) = ports(root.path());
        assert_eq!(ports.first().map(|port| port.link_layer), expect);
        assert_eq!(problems.len(), usize::from(expect.is_none()));
    }
}

#[test]
fn states_that_no_capture_has() {
    for (files, expect, problems) in [
        // A driver without phys_state.
        (
            ["4: ACTIVE", "", "Ethernet", "25 Gb/sec (1X EDR)"],
            vec!["x_0/1 Ethernet ACTIVE 25"],
            vec![],
        ),
        (
            ["1: DOWN", "", "InfiniBand", "2.5 Gb/sec (1X SDR)"],
            vec!["x_0/1 InfiniBand DOWN 2"],
            vec![],
        ),
        // No subnet manager runs on Ethernet.
        (
            ["2: INIT", "5: LinkUp", "Ethernet", ""],
            vec!["x_0/1 Ethernet INIT 0"],
            vec![],
        ),
        (
            ["2: INIT", "6: LinkErrorRecovery", "InfiniBand", ""],
            vec!["x_0/1 InfiniBand INIT 0"],
            vec!["x_0/1 no-link"],
        ),
        (
            ["1: DOWN", "4: PortConfigurationTraining", "InfiniBand", ""],
            vec!["x_0/1 InfiniBand DOWN 0"],
            vec!["x_0/1 no-link"],
        ),
        (
            ["", "5: LinkUp", "InfiniBand", ""],
            vec![],
            vec!["x_0/1 port-unreadable"],
        ),
        (
            ["ACTIVE", "5: LinkUp", "InfiniBand", ""],
            vec![],
            vec!["x_0/1 port-unreadable"],
        ),
        (
            ["4: ACTIVE", "5: LinkUp", "", ""],
            vec![],
            vec!["x_0/1 port-unreadable"],
        ),
        (
            ["5: ACTIVE_DEFER", "5: LinkUp", "InfiniBand", ""],
            vec!["x_0/1 InfiniBand ACTIVE_DEFER 0"],
            vec![],
        ),
    ] {
        let root = one_port("x_0", Some("mlx5_core"), files);
        check(root.path(), &expect, &problems);
        let active = expect
            .iter()
            .any(|line| line.contains("InfiniBand ACTIVE "));
        assert_eq!(
            !active_infiniband(root.path()).is_empty(),
            active,
            "{files:?}"
        );
    }
    let root = one_port(
        "hfi1_0",
        Some("hfi1"),
        ["2: INIT", "5: LinkUp", "InfiniBand", ""],
    );
    let (_, problems) = ports(root.path());
    assert!(
        problems[0].remedy.contains("fabric manager"),
        "{problems:?}"
    );
}

#[test]
fn numbers_in_names_count() {
    let mut names = [
        "mlx5_10",
        "mlx5_2",
        "ibp9s0",
        "ibp10s0",
        "mlx5_02",
        "mlx5_bond_0",
        "mlx5",
    ];
    names.sort_by(|a, b| natural(a, b));
    let expect = [
        "ibp9s0",
        "ibp10s0",
        "mlx5",
        "mlx5_02",
        "mlx5_2",
        "mlx5_10",
        "mlx5_bond_0",
    ];
    assert_eq!(names, expect);
    let root = tempfile::tempdir().unwrap();
    let files = ["4: ACTIVE", "5: LinkUp", "InfiniBand", "1 Gb/sec"];
    for device in ["mlx5_10", "mlx5_9", "mlx5_11"] {
        add_port(&root, device, None, files);
    }
    let expect = [9, 10, 11].map(|number| format!("mlx5_{number}/1 InfiniBand ACTIVE 1"));
    let (ports, _) = ports(root.path());
    assert_eq!(ports.iter().map(line).collect::<Vec<_>>(), expect);
}

#[test]
fn a_fabric_is_read_from_what_ibnetdiscover_prints() {
    let text = unpack_text("fabric-ibnetdiscover", "ibnetdiscover.out.xz").unwrap();
    let map = discovered(&text);
    assert_eq!(map.switches.len(), 40);
    assert_eq!(map.hosts.len(), 582);
    let leaf = "2c5eab0300b87b40";
    assert_eq!(map.switches[leaf], "MF0;A09-P1-IBLEAF-04-04:MQM9701/U1");
    let at_leaf: BTreeSet<&str> = map
        .hosts
        .values()
        .filter(|host| host.switches.contains(leaf))
        .map(|host| &*host.description)
        .collect();
    // 17 hosts and the switch's own adapter.
    assert_eq!(at_leaf.len(), 18);
    assert!(at_leaf.contains("a08-p1-dgx-04-c01 mlx5_5"));
    assert!(at_leaf.contains("a08-p1-dgx-04-c17 mlx5_5"));
    let known = |host: &FabricHost| host.switches.iter().all(|s| map.switches.contains_key(s));
    assert!(map.hosts.values().all(known));
    assert!(map.hosts.values().all(|host| !host.switches.is_empty()));
    let rates: BTreeSet<_> = map.hosts.values().flat_map(|host| &host.rates).collect();
    assert!(rates.iter().any(|rate| **rate == "4xNDR"), "{rates:?}");
}

#[test]
fn lines_of_neither_a_switch_nor_an_adapter_are_skipped() {
    let text = "Switch\n[1] \"H-1\"[1]\nCa 2 \"H-a\" # \"host\"\n[1](a) \"S-b\"[3] # lid 1 4xHDR\n\
                [2](a) \"S-c\"[4] # lid 1 2xHDR\nSwitch 2 \"S-b\" # \"leaf\"\n[3] \"S-d\"[1] # 4xHDR\n";
    let map = discovered(text);
    assert_eq!(map.switches.keys().collect::<Vec<_>>(), ["b"]);
    let host = &map.hosts["a"];
    assert_eq!(host.description, "host");
    assert_eq!(Vec::from_iter(&host.switches), ["b", "c"]);
    assert_eq!(Vec::from_iter(&host.rates), ["2xHDR", "4xHDR"]);
}
