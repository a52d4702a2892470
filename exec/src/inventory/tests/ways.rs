//! The ways between devices and adapters.

use muster_model::inventory::AcceleratorKind;

use super::tree::{Tree, function};
use super::*;

/// The names and the table of a machine, a row in a line.
fn table(tree: &Tree) -> Vec<String> {
    let inventory = tree.read();
    let found = topology(tree.root(), &inventory);
    let rows = found.points.iter().map(|point| {
        let links: Vec<&str> = point.links.iter().map(|link| link.as_str()).collect();
        let numa = point
            .numa
            .map_or_else(|| "?".to_owned(), |numa| numa.to_string());
        format!(
            "{} {}: {} on {numa}",
            point.name,
            point.model,
            links.join(" ")
        )
    });
    rows.collect()
}

/// Two NUMA nodes. On the first a switch with two cards and an adapter, a switch below it with a
/// third card, and a card on a root port of the same host bridge; a host bridge beside it with a
/// card. A card on the second node.
#[test]
fn each_way_has_its_word() {
    let tree = Tree::new();
    for node in 0..2 {
        tree.dir(&format!("sys/devices/system/node/node{node}"));
    }
    let switch = "pci0000:10/0000:10:00.0/0000:11:00.0";
    for (path, numa) in [
        (format!("{switch}/0000:12:00.0/0000:13:00.0"), 0),
        (format!("{switch}/0000:12:01.0/0000:14:00.0"), 0),
        (
            format!("{switch}/0000:12:02.0/0000:15:00.0/0000:16:00.0/0000:17:00.0"),
            0,
        ),
        ("pci0000:10/0000:10:01.0/0000:18:00.0".to_owned(), 0),
        ("pci0000:20/0000:20:00.0/0000:21:00.0".to_owned(), 0),
        ("pci0000:80/0000:80:00.0/0000:81:00.0".to_owned(), 1),
    ] {
        tree.pci(&function(&path, 0x0302, "10de:1db1", numa));
    }
    let adapter = format!("{switch}/0000:12:03.0/0000:19:00.0");
    tree.pci(&function(&adapter, 0x0207, "15b3:1017", 0));
    tree.link(
        "sys/class/infiniband/mlx5_0/device",
        &format!("../../../devices/{adapter}"),
    );
    let model = "Tesla V100-SXM2-16GB";
    assert_eq!(
        table(&tree),
        [
            format!("GPU0 {model}: X PIX PXB PHB NODE SYS PIX on 0"),
            format!("GPU1 {model}: PIX X PXB PHB NODE SYS PIX on 0"),
            format!("GPU2 {model}: PXB PXB X PHB NODE SYS PXB on 0"),
            format!("GPU3 {model}: PHB PHB PHB X NODE SYS PHB on 0"),
            format!("GPU4 {model}: NODE NODE NODE NODE X SYS NODE on 0"),
            format!("GPU5 {model}: SYS SYS SYS SYS SYS X SYS on 1"),
            "NIC0 mlx5_0: PIX PIX PXB PHB NODE SYS X on 0".to_owned(),
        ]
    );
}

#[test]
fn links_and_cards_come_before_the_bus() {
    let device = |card: Option<&str>, vendor: &str| Accelerator {
        kind: AcceleratorKind::Gpu,
        vendor: vendor.into(),
        model: "M".into(),
        pci: None,
        numa: None,
        memory_mb: 0,
        partition_of: card.map(str::to_owned),
    };
    let inventory = Inventory {
        devices: vec![
            device(Some("0000:05:00.0"), "amd"),
            device(Some("0000:05:00.0"), "amd"),
            device(None, "amd"),
            device(None, "nvidia"),
            device(None, "nvidia"),
            device(None, "nvidia"),
        ],
        levels: vec![DeviceLevel {
            level: Level::Nvlink,
            groups: vec![vec![0, 1, 2], vec![3, 4]],
        }],
        ..Inventory::default()
    };
    let found = topology(Tree::new().root(), &inventory);
    assert_eq!(found.host, "machine");
    let row = |at: usize| {
        let links = found.points[at].links.iter().map(|link| link.as_str());
        links.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row(0), "X CARD XGMI ? ? ?");
    assert_eq!(row(3), "? ? ? X NV ?");
}
