//! What the bus shows and a driver does not.

use super::tree::Tree;
use super::*;

fn problems(tree: &Tree, asked: bool) -> Vec<(String, Option<String>)> {
    let config = InventoryConfig {
        nvml: asked.then(|| "/nonexistent/libnvidia-ml.so.1".into()),
        ..of_root(tree.root())
    };
    let found = read(&config).problems.into_iter();
    let drivers = found.filter(|it| it.name.contains("driver-") || it.name.contains("-driver"));
    drivers
        .map(|problem| (problem.name, problem.subject))
        .collect()
}

fn bound(tree: &Tree, bus: &str, driver: &str) {
    let link = format!("sys/devices/pci0000:{bus}/0000:{bus}:00.0/driver");
    tree.link(&link, &format!("../../../../bus/pci/drivers/{driver}"));
}

fn named(name: &str, bus: &str) -> (String, Option<String>) {
    (name.to_owned(), Some(format!("0000:{bus}:00.0")))
}

#[test]
fn a_gpu_that_its_driver_does_not_list_is_a_problem_if_the_driver_was_asked() {
    let tree = Tree::new();
    tree.flat(&[
        ("0000:01:00.0", 0x0302, "10de:1db1", 0),
        ("0000:02:00.0", 0x0302, "10de:1db1", 0),
        ("0000:03:00.0", 0x0300, "10de:1b81", 0),
        ("0000:04:00.0", 0x0300, "1a03:2000", 0),
    ]);
    bound(&tree, "02", "nouveau");
    bound(&tree, "03", "vfio-pci");
    assert_eq!(problems(&tree, false), []);
    let expect = [
        named("driver-missing", "01"),
        named("driver-other", "02"),
        named("driver-other", "03"),
    ];
    assert_eq!(problems(&tree, true), expect);
    // The module is there, but has not taken it.
    tree.dir("sys/module/nvidia");
    assert_eq!(
        problems(&tree, true)[0],
        named("device-not-in-driver", "01")
    );
    bound(&tree, "01", "nvidia");
    assert_eq!(
        problems(&tree, true)[0],
        named("device-not-in-driver", "01")
    );
}

#[test]
fn remedies_name_the_driver() {
    let tree = Tree::new();
    tree.flat(&[("0000:01:00.0", 0x0302, "10de:1db1", 0)]);
    let config = InventoryConfig {
        nvml: Some("/nonexistent/libnvidia-ml.so.1".into()),
        ..of_root(tree.root())
    };
    let remedy = || {
        let found = read(&config).problems.into_iter();
        let mut ours = found.filter(|it| it.subject.as_deref() == Some("0000:01:00.0"));
        ours.next().unwrap().remedy
    };
    assert!(remedy().contains("`modprobe nvidia`"), "{}", remedy());
    bound(&tree, "01", "nouveau");
    assert!(remedy().contains("blacklist nouveau"), "{}", remedy());
}

/// AMD's driver shows its devices in the tree, so a whole tree is asked.
#[test]
fn amds_driver_is_asked_by_the_tree() {
    let card = &[("0000:01:00.0", 0x1200, "1002:74a1", 0)];
    let partial = Tree::new();
    partial.flat(card);
    assert_eq!(problems(&partial, false), []);
    for dir in ["sys/module/ext4", "sys/class/kfd/kfd/topology/nodes"] {
        let tree = Tree::new();
        tree.flat(card).dir(dir);
        assert_eq!(
            problems(&tree, false),
            [named("driver-missing", "01")],
            "{dir}"
        );
    }
}

/// Of other vendors the rule says where the driver shows its devices.
#[test]
fn a_card_that_is_not_in_its_drivers_directory_is_a_problem() {
    let tree = Tree::new();
    tree.flat(&[
        ("0000:01:00.0", 0x0b40, "1bcf:001c", 0),
        ("0000:02:00.0", 0x0b40, "1bcf:001c", 0),
        ("0000:03:00.0", 0x1200, "abcd:0012", 0),
        ("0000:04:00.0", 0x1200, "10ee:5001", 0),
    ]);
    // A part of a tree: nothing is known of drivers.
    assert_eq!(problems(&tree, false), []);
    let entry = "pci0000:02/0000:02:00.0/ve/ve0";
    tree.dir(&format!("sys/devices/{entry}"))
        .link("sys/class/ve/ve0", &format!("../../devices/{entry}"));
    bound(&tree, "01", "ve_drv");
    assert_eq!(
        problems(&tree, false),
        [named("device-not-in-driver", "01")]
    );
    tree.dir("sys/module/ext4");
    let expect = [
        named("driver-missing", "04"),
        named("device-not-in-driver", "01"),
    ];
    let mut found = problems(&tree, false);
    found.sort();
    let mut expect = expect.to_vec();
    expect.sort();
    assert_eq!(found, expect);
}

#[test]
fn a_topology_file_that_cannot_be_used_is_a_problem() {
    for (text, why) in [("<system><cpu></system>", "not used"), ("", "not used")] {
        let tree = Tree::new();
        tree.dir("sys")
            .file("etc/nccl.conf", "NCCL_TOPO_FILE=/t.xml\n")
            .file("t.xml", text);
        let found = tree.read();
        let [problem] = &found.problems[..] else {
            panic!("{:?}", found.problems)
        };
        assert_eq!(problem.name, "topology-file");
        assert!(problem.evidence.contains(why), "{problem:?}");
    }
    let missing = Tree::new();
    missing
        .dir("sys")
        .file("etc/nccl.conf", "NCCL_TOPO_FILE=/none.xml\n");
    assert_eq!(missing.read().problems[0].name, "topology-file");
}

/// Links to processors and NICs group no devices; a missing NUMA number is in the file.
#[test]
fn the_topology_file_tells_links_and_numa() {
    let tree = Tree::new();
    tree.flat(&[
        ("0000:01:00.0", 0x0302, "10de:1db1", -1),
        ("0000:02:00.0", 0x0302, "10de:1db1", -1),
        ("0000:03:00.0", 0x0302, "10de:1db1", -1),
    ])
    .dir("sys/devices/system/node/node0")
    .dir("sys/devices/system/node/node1")
    .file("etc/nccl.conf", "NCCL_TOPO_FILE=/t.xml\n")
    .file(
        "t.xml",
        r#"<system version="1">
<cpu numaid="0">
<pci busid="0000:01:00.0" class="0x030200"><gpu dev="0">
<nvlink target="0000:02:00.0" count="2" tclass="0x030200"/>
<nvlink target="0006:00:00.0" count="2" tclass="0x068001"/>
<nvlink target="0007:00:00.0" count="2" tclass="0x060400"/></gpu></pci>
<pci busid="0000:02:00.0" class="0x030200"><gpu dev="1"/></pci>
</cpu>
<cpu numaid="1">
<pci busid="0000:03:00.0" class="0x030200"><gpu dev="2">
<nvlink target="0007:00:00.0" count="2" tclass="0x060400"/></gpu></pci>
</cpu>
</system>"#,
    );
    let found = tree.read();
    assert_eq!(levels_line(&found), "nvlink 0,1; numa 0,1 2");
    let numa: Vec<_> = found.devices.iter().map(|device| device.numa).collect();
    assert_eq!(numa, [Some(0), Some(0), Some(1)]);
}
