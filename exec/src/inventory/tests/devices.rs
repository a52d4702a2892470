//! Which devices are accelerators, and how many a card is.

use super::tree::{Tree, function};
use super::*;

/// The devices of an inventory, a line each, without their memory.
fn lines(inventory: &Inventory) -> Vec<String> {
    let lines = inventory.devices.iter().map(|device| {
        let pci = device.pci.as_deref().unwrap_or("-");
        let Accelerator {
            kind,
            vendor,
            model,
            ..
        } = device;
        format!("{} {vendor} {pci} {model}", kind.as_str())
    });
    lines.collect()
}

#[test]
fn class_and_table_tell_accelerators() {
    for (class, id, expect) in [
        (
            0x0300,
            "10de:1b81",
            "gpu nvidia 0000:01:00.0 GeForce GTX 1070",
        ),
        (
            0x0302,
            "10de:1db1",
            "gpu nvidia 0000:01:00.0 Tesla V100-SXM2-16GB",
        ),
        (0x0380, "1002:66a0", "gpu amd 0000:01:00.0 Instinct MI50"),
        (0x0300, "1002:6860", "gpu amd 0000:01:00.0 Instinct MI25"),
        (0x1200, "1002:74a1", "gpu amd 0000:01:00.0 Instinct MI300X"),
        (
            0x0380,
            "8086:0bd5",
            "gpu intel 0000:01:00.0 Data Center GPU Max 1550",
        ),
        (0x1200, "1da3:1020", "npu intel 0000:01:00.0 Gaudi2"),
        (0x1200, "19e5:d802", "npu huawei 0000:01:00.0 Ascend 910B"),
        (0x1200, "cabc:0370", "npu cambricon 0000:01:00.0 MLU370"),
        (
            0x0b40,
            "1bcf:001c",
            "vector nec 0000:01:00.0 SX-Aurora TSUBASA Vector Engine 1.0",
        ),
        (
            0x0b40,
            "8086:225c",
            "other intel 0000:01:00.0 Xeon Phi SE10/7120 series",
        ),
        (
            0x1200,
            "8086:09c4",
            "fpga intel 0000:01:00.0 PAC with Arria 10 GX",
        ),
        (0x0880, "1d0f:7164", "npu aws 0000:01:00.0 Trainium"),
        // Not in the table: of a vendor in it, of another one.
        (0x0302, "10de:ffff", "gpu nvidia 0000:01:00.0 10de:ffff"),
        (0x1200, "8086:ffff", "other intel 0000:01:00.0 8086:ffff"),
        (0x1200, "abcd:0012", "other abcd 0000:01:00.0 abcd:0012"),
        (0x0b40, "abcd:0012", "other abcd 0000:01:00.0 abcd:0012"),
        (0x0302, "abcd:0012", "gpu abcd 0000:01:00.0 abcd:0012"),
        // No accelerators: NVSwitch, sound of a GPU, HCA, EFA, a disk.
        (0x0680, "10de:1ac2", ""),
        (0x0403, "10de:1aef", ""),
        (0x0207, "15b3:1021", ""),
        (0x0200, "1d0f:efa0", ""),
        (0x0108, "19e5:3714", ""),
        // Graphics of management controllers and of virtual machines.
        (0x0300, "102b:0532", ""),
        (0x0300, "1a03:2000", ""),
        (0x0300, "1002:515e", ""),
        (0x0300, "19e5:1711", ""),
        (0x0300, "1013:00b8", ""),
        (0x0300, "1234:1111", ""),
        (0x0300, "1af4:1050", ""),
        (0x0300, "15ad:0405", ""),
        (0x0300, "1d0f:1111", ""),
        // Parts of a desktop's processor.
        (0x0300, "1002:164e", ""),
        (0x1200, "1022:17f0", ""),
        // Compression and cryptography.
        (0x0b40, "8086:4940", ""),
        (0x0b40, "8086:37c8", ""),
        (0x1200, "19e5:a250", ""),
    ] {
        let tree = Tree::new();
        tree.pci(&function(
            "pci0000:00/0000:00:01.0/0000:01:00.0",
            class,
            id,
            -1,
        ));
        let found = lines(&tree.read());
        assert_eq!(found.join("; "), expect, "{class:04x} {id}");
    }
}

/// Graphics and neural processors of Intel's desktop processors stand on the root bus. So do
/// cards in virtual machines, which the table has.
#[test]
fn what_stands_on_the_root_bus_is_part_of_the_processor() {
    let tree = Tree::new();
    tree.flat(&[
        ("0000:00:02.0", 0x0300, "8086:a780", -1),
        ("0000:00:0b.0", 0x1200, "8086:7d1d", -1),
        ("0000:00:05.0", 0x0380, "8086:56c0", -1),
        ("0000:00:06.0", 0x0302, "10de:20b0", -1),
    ]);
    let arc = "pci0000:00/0000:00:01.0/0000:03:00.0";
    tree.pci(&function(arc, 0x0300, "8086:e20b", -1));
    assert_eq!(
        lines(&tree.read()),
        [
            "gpu intel 0000:00:05.0 Data Center GPU Flex 170",
            "gpu intel 0000:03:00.0 8086:e20b",
            "gpu nvidia 0000:00:06.0 A100-SXM4-40GB",
        ]
    );
}

#[test]
fn virtual_functions_are_no_cards_where_their_card_is() {
    let tree = Tree::new();
    tree.flat(&[
        ("0000:41:00.0", 0x0302, "10de:2236", 0),
        ("0000:41:00.4", 0x0302, "10de:2236", 0),
        ("0000:41:01.0", 0x0302, "10de:2236", 0),
    ]);
    assert_eq!(tree.read().devices.len(), 2);
    for function in ["00.4", "01.0"] {
        let link = format!("sys/devices/pci0000:41/0000:41:{function}/physfn");
        tree.link(&link, "../0000:41:00.0");
    }
    assert_eq!(lines(&tree.read()), ["gpu nvidia 0000:41:00.0 A10"]);
}

/// The user function is the one that tasks use. Which number it has changed with XRT 2018.3; a
/// virtual machine has it alone.
#[test]
fn a_card_of_xilinx_is_one_device() {
    for (user, management) in [("1", Some("0")), ("0", Some("1")), ("0", None)] {
        let tree = Tree::new();
        let bus = "0000:3b:00";
        tree.flat(&[(&*format!("{bus}.{user}"), 0x1200, "10ee:5001", 0)]);
        tree.file(
            &format!("sys/devices/pci{}/{bus}.{user}/user_pf", "0000:3b"),
            "",
        );
        if let Some(management) = management {
            tree.flat(&[(&*format!("{bus}.{management}"), 0x1200, "10ee:5000", 0)]);
            tree.file(
                &format!("sys/devices/pci0000:3b/{bus}.{management}/mgmt_pf"),
                "",
            );
        }
        let expect = format!("fpga xilinx {bus}.{user} Alveo U200");
        assert_eq!(lines(&tree.read()), [expect]);
    }
}

/// One card has one region here and two there, and the manager of its FPGA is no second one.
#[test]
fn a_card_under_dfl_is_one_device() {
    let tree = Tree::new();
    let card = "pci0000:3a/0000:3a:00.0/0000:3b:00.0";
    tree.pci(&function(card, 0x1200, "8086:0b30", 0));
    for (class, name) in [
        ("fpga_region", "region0"),
        ("fpga_region", "region1"),
        ("fpga_manager", "fpga0"),
    ] {
        let dir = format!("{card}/dfl-fme.0/{class}/{name}");
        tree.file(&format!("sys/devices/{dir}/name"), "DFL FME FPGA Manager\n")
            .link(
                &format!("sys/class/{class}/{name}"),
                &format!("../../devices/{dir}"),
            );
    }
    assert_eq!(lines(&tree.read()), ["fpga intel 0000:3b:00.0 PAC N3000"]);
    assert_eq!(tree.read().problems, []);
}

#[test]
fn fpgas_beside_cores_are_told_by_their_manager() {
    let tree = Tree::new();
    for (number, name) in [
        (0, "Xilinx ZynqMP FPGA Manager"),
        (1, "Lattice iCE40 FPGA Manager"),
        (2, "other"),
    ] {
        let dir = format!("platform/firmware/fpga_manager/fpga{number}");
        tree.file(&format!("sys/devices/{dir}/name"), &format!("{name}\n"))
            .link(
                &format!("sys/class/fpga_manager/fpga{number}"),
                &format!("../../devices/{dir}"),
            );
    }
    assert_eq!(
        lines(&tree.read()),
        [
            "fpga xilinx - Xilinx ZynqMP FPGA Manager",
            "fpga lattice - Lattice iCE40 FPGA Manager"
        ]
    );
}

/// The driver numbers them otherwise than the bus.
#[test]
fn devices_stand_in_the_order_of_their_driver() {
    let tree = Tree::new();
    tree.flat(&[
        ("0000:11:00.0", 0x1200, "1da3:1060", 0),
        ("0000:12:00.0", 0x1200, "1da3:1060", 0),
        ("0000:13:00.0", 0x1200, "1da3:1060", 0),
        ("0000:14:00.0", 0x1200, "17cb:ffff", 0),
        ("0000:10:00.0", 0x0302, "10de:2330", 0),
    ]);
    for (name, bus) in [
        ("accel0", "12"),
        ("accel1", "13"),
        ("accel_controlD0", "12"),
        ("accel2", "14"),
    ] {
        let dir = format!("pci0000:{bus}/0000:{bus}:00.0/accel/{name}");
        tree.dir(&format!("sys/devices/{dir}")).link(
            &format!("sys/class/accel/{name}"),
            &format!("../../devices/{dir}"),
        );
    }
    let found = tree.read();
    let addresses: Vec<&str> = found
        .devices
        .iter()
        .filter_map(|it| it.pci.as_deref())
        .collect();
    let expect = ["10", "12", "13", "11", "14"].map(|bus| format!("0000:{bus}:00.0"));
    assert_eq!(addresses, expect);
    let problems: Vec<_> = found
        .problems
        .iter()
        .map(|it| (&*it.name, it.subject.as_deref()))
        .collect();
    assert_eq!(problems, [("driver-missing", Some("0000:11:00.0"))]);
}

/// Eight chips, as eight slots or as two functions of four cards, and the files that tasks need.
#[test]
fn each_chip_of_ascend_is_a_device() {
    let slots = Tree::new();
    for bus in 0..8 {
        slots.flat(&[(&*format!("0000:c{bus}:00.0"), 0x1200, "19e5:d801", bus / 4)]);
    }
    let found = slots.read();
    assert_eq!(found.devices.len(), 8);
    assert_eq!(levels_line(&found), "numa 0,1,2,3 4,5,6,7");
    let cards = Tree::new();
    for bus in 0..4 {
        for function in 0..2 {
            cards.flat(&[(
                &*format!("0000:c{bus}:00.{function}"),
                0x1200,
                "19e5:d802",
                0,
            )]);
        }
    }
    assert_eq!(cards.read().devices.len(), 8);
    assert_eq!(cards.read().problems, []);
    cards.file("dev/null", "").file("dev/davinci_manager", "");
    for chip in 0..7 {
        cards.file(&format!("dev/davinci{chip}"), "");
    }
    let problems = cards.read().problems;
    let [problem] = &problems[..] else {
        panic!("{problems:?}")
    };
    assert_eq!(problem.name, "device-file-missing");
    assert_eq!(problem.subject.as_deref(), Some("0000:c3:00.1"));
    assert!(problem.evidence.contains("/dev/davinci7"), "{problem:?}");
}
